"""Accounts of training: worst case, per-instance Renyi divergence, Fisher information."""
