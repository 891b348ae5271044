"""Worst cases on windows of positions: rigorous enclosures by arrays of floats."""
