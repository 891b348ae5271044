"""Strategies for workloads: which numbers to measure with noise, so that all wanted answers together are accurate.

A strategy is made of public facts, turns exact counts into noisy measurements on a public lattice, and those into
unbiased answers with their variances, in arithmetic that every machine does alike. It knows nothing of plans and SQL.
"""
