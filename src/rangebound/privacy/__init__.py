"""Privacy: what a pair of laws leaks, and what the worst pair does."""
