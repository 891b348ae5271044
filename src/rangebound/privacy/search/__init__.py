"""Branch and bound over positions: the worst pair of neighbouring answers, enclosed."""
