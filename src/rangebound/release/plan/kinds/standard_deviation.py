"""The standard deviation of a column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from rangebound.release.noise.estimate import Fractional, spread
from rangebound.release.plan.kinds.variance import SpreadKind
from rangebound.values.support import Interval


class StandardDeviation(SpreadKind):
    """The standard deviation of a column: the root of its variance."""

    kind: Literal["standard deviation"] = "standard deviation"

    @property
    def natural(self) -> Interval:
        """From a thousandth of the largest possible deviation (or the step) to the largest."""
        largest = self.bounds.width / 2
        return Interval(min(self.step or largest * 2.0**-10, largest / 2), largest)

    def _made_of(self, parts: Sequence[Fractional]) -> Fractional:
        value, (lower, upper) = spread(parts, self.bounds.width)
        return math.sqrt(value), (math.sqrt(lower), math.sqrt(upper))

    @property
    def _scale(self) -> float:
        return self.bounds.width
