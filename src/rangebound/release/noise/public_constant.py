"""Counts that are public: where the number of units is, and each has one row, nothing is left to protect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rangebound.discrete_laplace import Bits, Floats
from rangebound.release.plan.clipping import is_cut
from rangebound.release.plan.model import Unit
from rangebound.support import Interval


def known_rows(question: Any, unit: Unit) -> int | None:
    """How many rows a question is about, if that is public: all rows of a table whose size is.

    How many of them have a value is not public. So a question about a column is about known rows only where the plan
    says what a missing value counts as.

    >>> from rangebound.release.plan.question import Count
    >>> known_rows(Count(name="visits"), Unit(neighbours="replace", size=50))
    50
    """
    if is_cut(question):  # it is about rows that count, or values of them
        return None
    partial = hasattr(question, "column") and question.missing is None
    return unit.size if unit.column is None and not question.where and not question.by and not partial else None


@dataclass(frozen=True, kw_only=True)
class Known:
    """A number that is published as the plan says it, whatever the data; it costs nothing.

    Guarantee: 0-private, since the table is not looked at.
    """

    value: float
    sensitivity: int = 0
    mse: float = 0.0

    @property
    def support(self) -> Interval:
        """The number and those around it: an interval cannot be a point."""
        return Interval(self.value - 1.0, self.value + 1.0)

    def epsilon(self) -> float:
        """Nothing."""
        return 0.0

    def is_private(self, epsilon: float) -> bool:
        """Always."""
        return True

    def reach(self, level: float) -> float:
        """No distance at any level."""
        return 0.0

    def release(self, answers: Floats, bits: Bits) -> Floats:
        """The number itself for each answer."""
        return np.full_like(answers, self.value)

    def can_draw(self, value: float) -> bool:
        """Whether it is the number."""
        return repr(value) == repr(self.value)

    def to_dict(self) -> dict[str, Any]:
        """The mechanism as plain data."""
        return {"public": {"value": self.value}}
