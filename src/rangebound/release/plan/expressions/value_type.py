"""The types of the values that an expression of a plan can have."""

from __future__ import annotations

import math
from enum import Enum

Range = tuple[float, float]
"""The least and the largest that a number can be; a date counts days since 1970-01-01, a truth value is 0 or 1."""

EVERYTHING: Range = (-math.inf, math.inf)
"""The range of a number of which nothing is known."""
TRUTHS: Range = (0.0, 1.0)
CALENDAR: Range = (-719162.0, 2932896.0)
"""The days from 0001-01-01 to 9999-12-31, the ones that every engine can count."""


class ValueType(Enum):
    """What a value is, in words; a missing one is of any type."""

    NUMBER = "a number"
    TEXT = "a text"
    TRUTH = "true or false"
    DATE = "a date"
    COLUMN = "a column of the table as it stands"

    @property
    def everything(self) -> Range:
        """The range of a value of which only the type is known."""
        return {ValueType.TRUTH: TRUTHS, ValueType.DATE: CALENDAR}.get(self, EVERYTHING)
