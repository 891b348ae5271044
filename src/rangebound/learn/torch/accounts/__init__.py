"""Accounts of training: worst case, per instance, Fisher information."""
