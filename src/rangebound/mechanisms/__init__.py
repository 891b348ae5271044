"""Mechanisms: noise in a support, on a lattice, as a table, as published; calibrated, certified, estimated."""
