"""The exact value of a composition over all adaptive adversaries, by a recursion over the likelihood ratio."""
