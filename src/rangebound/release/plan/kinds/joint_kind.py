"""Questions whose answer is made of several coordinates that get noise together: means, shares, variances.

The coordinates of a group are never negative and add up to its rows. One unit then moves them by at most its number of
rows in L1, and noise on that scale protects the answer and the number of rows together, where noise on each would have
to share the budget.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence

from rangebound.release.noise import publishers
from rangebound.release.noise.allocation import BudgetShare, Sensitivity
from rangebound.release.noise.draw import Columns, Coordinates, Reading
from rangebound.release.noise.estimate import Estimate, Fractional, fractions, held, nearest
from rangebound.release.noise.publishers import Publisher
from rangebound.release.plan.kinds.derived_kind import DerivedKind
from rangebound.release.plan.kinds.kind import rounded_half_width
from rangebound.release.plan.kinds.weighted_kind import WeightedKind
from rangebound.release.plan.measure import Found
from rangebound.release.plan.unit import Unit
from rangebound.values.support import Interval


class JointKind(DerivedKind):
    """A question that publishes one number, made of coordinates which add up to the rows.

    Where the number of rows is public the first coordinate is left out: it is what the others leave.
    """

    @abstractmethod
    def _all_coordinates(self, found: Found) -> Coordinates:
        """All coordinates; they add up to the rows."""

    @abstractmethod
    def _made_of(self, parts: Sequence[Fractional]) -> Fractional:
        """The answer and its interval, from every coordinate but the first as a fraction of all of them."""

    @property
    @abstractmethod
    def _scale(self) -> float:
        """What an error of one row in a coordinate does to the answer, times the number of rows."""

    def coordinates(self, found: Found, unit: Unit) -> Coordinates:
        """The coordinates, or those but the first where the number of rows is public."""
        every = self._all_coordinates(found)
        return every if self.known_rows(unit) is None else every[1:]

    def publisher(
        self, unit: Unit, found: Sensitivity, share: BudgetShare, *, level: float, columns: Columns
    ) -> Publisher:
        """Laplace noise on the scale of the joint L1 sensitivity, clamped to where the coordinates can be."""
        rows, width = self.known_rows(unit), len(self.coordinates({}, unit))
        return publishers.joint_coordinates(
            found,
            share,
            support=Interval(0.0, float(rows) if rows and width == 1 else math.inf),
            width=width,
            parts=1,
            confidence=level,
        )

    def estimate(self, reading: Reading, unit: Unit) -> Estimate:
        """The answer that the noisy coordinates make.

        Guarantee: it lies in the support, on the step and in its interval; if every interval holds its true coordinate,
        then the result's interval holds the true answer, moved into `_answers`.
        """
        parts = fractions(reading.values, reading.intervals, rows=self.known_rows(unit))
        value, (lower, upper) = self._made_of(parts)
        return held(nearest(value, self.allowed, self.step), lower, upper, self._answers)

    @property
    def _answers(self) -> Interval:
        """Where the true answer lies, or is moved to by the support that the plan states."""
        return self.allowed.hull

    def no_margin(self, unit: Unit) -> str:
        """One can be asked where the answer is one coordinate, divided by a public number of rows."""
        if self.known_rows(unit) is not None and len(self.coordinates({}, unit)) == 1:
            return ""
        known = "on the values" if self.known_rows(unit) is not None else "on the number of rows, which is not public"
        return f"must not be asked of {self.kind!r}, since the width of its interval depends {known}; give a weight"

    def half_width(self, publisher: Publisher, unit: Unit) -> float | None:
        """That of the coordinate, on the scale of the answer, where a margin can be asked."""
        rows, coordinate = self.known_rows(unit), publisher.half_width
        if self.no_margin(unit) or rows is None or coordinate is None:
            return None
        return rounded_half_width(coordinate * self._scale / rows, self.step)

    def expected_error(self, publisher: Publisher) -> str:
        """The error of a coordinate, on the scale of the answer, by the number of rows, or by what these weigh."""
        divisor = "number of rows that count"
        if isinstance(self, WeightedKind) and self.weighted_by is not None:
            divisor = f"sum of their weights in units of {float(self.largest_weight):g}"
        form = f"about {{}} divided by the {divisor} (root mean square, many rows)"
        return publisher.expected_error(self._scale, form)
