"""What a published number is called, what it is made of, and what was drawn for it: plain tuples."""

from __future__ import annotations

from fractions import Fraction

Key = tuple[str, ...]
"""The key of a group: one text for each grouping column."""
Columns = tuple[Key, ...]
"""The public keys of each grouping column, empty where they are selected privately."""
Summed = tuple[str | None, ...]
"""The key of a published number: None for a column that it is summed over."""
Label = tuple[Summed, str]
"""The key and the part of a published number."""
Coordinates = tuple[Fraction, ...]
"""The exact coordinates of one question in one group; they are private."""
Draw = tuple[float, ...]
"""What was drawn for one number: its noisy coordinates, or a quantile and the two ends of its interval."""
Pair = tuple[float, float]
"""The lower and upper end of an interval."""
Fractional = tuple[float, Pair]
"""A number with its interval."""
