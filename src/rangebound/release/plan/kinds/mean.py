"""The mean of a column."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from rangebound.release.noise.allocation import Sensitivity
from rangebound.release.noise.draw import Coordinates
from rangebound.release.noise.estimate import Fractional, affine
from rangebound.release.plan.kinds.fraction_kind import FractionKind
from rangebound.release.plan.kinds.weighted_kind import WeightedColumnKind
from rangebound.release.plan.measure import ONE, Found, GroupSums, Measures, Value
from rangebound.release.plan.sensitivity import of_parts
from rangebound.release.plan.unit import Unit
from rangebound.values.support import Interval


class Mean(FractionKind, WeightedColumnKind):
    """The mean of a column; with weights, the weighted one."""

    kind: Literal["mean"] = "mean"

    @property
    def natural(self) -> Interval:
        """The column's range."""
        return self.bounds

    @property
    def answers_dated(self) -> bool:
        """As the column is."""
        return self.dated

    def measures(self, unit: Unit, groups: float) -> Measures:
        """The rows within the contribution bounds, and their values in fixed point."""
        return GroupSums(rows=self.counted_rows, of={"n": self._counted, "t": self._weighted(Value(of=self.values))})

    def _all_coordinates(self, found: Found) -> Coordinates:
        return between(found, rows=1 if self.weighted_by is not None else ONE)

    def sensitivity(self, unit: Unit, groups: float) -> Sensitivity:
        """L1 r g and L2 r sqrt(g): a row adds 1 - x and x, 0 <= x <= 1, to two coordinates, and 1 in all.

        So it is a case of `of_parts`. Where the number of rows is public, one row is replaced by another, and of the
        one coordinate that is left x becomes y: L1 and L2 at most 1.

        With weights in [0, b] a row adds (w / b) (1 - x) and (w / b) x, in fixed point W - P and P with P rounded down:
        none is negative, and they add up to w / b <= 1. So it is a case of `of_parts` as well.
        """
        return known_or_parts(self.known_rows(unit), unit, groups)

    def _made_of(self, parts: Sequence[Fractional]) -> Fractional:
        return affine(parts[0], self.bounds.lower, self.bounds.upper)

    @property
    def _scale(self) -> float:
        return self.bounds.width

    @property
    def _whole(self) -> bool:
        return False


def between(found: Found, *, rows: int = ONE) -> Coordinates:
    """Distances from the upper end and from the lower end, in widths of the range: they add up to the rows.

    What counts is in units of `rows`: `ONE` for rows, 1 for weights in fixed point.
    """
    n, t = found.get("n", 0), found.get("t", 0)
    return Fraction(rows * n - t, ONE), Fraction(t, ONE)


def known_or_parts(known: int | None, unit: Unit, groups: float) -> Sensitivity:
    """For coordinates 1 - x and x, or x alone where the number of rows is `known`."""
    if known is not None:
        return Sensitivity(cell=Fraction(1), groups=1, square=Fraction(1))
    return of_parts(unit.most_rows, unit, groups)
