"""Strategies for workloads: noisy measurements of exact counts, and unbiased answers from them; see `strategy`."""
