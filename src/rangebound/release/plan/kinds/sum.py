"""The sum of a column."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

from rangebound.release.noise import publishers
from rangebound.release.noise.allocation import BudgetShare, Sensitivity
from rangebound.release.noise.draw import Coordinates
from rangebound.release.noise.publishers import Publisher
from rangebound.release.plan.fields import LINE, measurable
from rangebound.release.plan.kinds.scalar_kind import OPTIMAL, ScalarKind
from rangebound.release.plan.kinds.weighted_kind import WeightedColumnKind
from rangebound.release.plan.measure import ONE, Found, GroupSums, Measures, Value
from rangebound.release.plan.sensitivity import scaled, touched
from rangebound.release.plan.unit import Unit
from rangebound.values.support import Interval


class Sum(ScalarKind, WeightedColumnKind):
    """The sum of a column; with weights, that of the values times the weights of their rows."""

    kind: Literal["sum"] = "sum"

    @property
    def natural(self) -> Interval:
        """A half-line where the column has one sign, else the line; the line where the number is signed."""
        if self.signed:
            return LINE
        return Interval(0.0 if self.bounds.lower >= 0 else -math.inf, 0.0 if self.bounds.upper <= 0 else math.inf)

    @property
    def answers_dated(self) -> bool:
        """Never: a sum of days is not a day."""
        return False

    def misfit(self, unit: Unit) -> str:
        """Values times weights are of a size that a column may have."""
        ends, weights = self.bounds, self.weighted_by
        if weights is None or measurable(max(abs(ends.lower), abs(ends.upper)) * weights.bounds.upper):
            return ""
        return "values times weights must be between 1e-150 and 1e150 in size; take other units for one of them"

    def measures(self, unit: Unit, groups: float) -> Measures:
        """The rows within the contribution bounds, and their values in fixed point."""
        return GroupSums(rows=self.counted_rows, of={"n": self._counted, "t": self._weighted(Value(of=self.values))})

    def coordinates(self, found: Found, unit: Unit) -> Coordinates:
        """lower n + (upper - lower) t, where t is the sum of the values as parts of the range.

        With weights, n and t are the sums of w / b and of that times the part of the range, and all of it b times.
        """
        lower, upper = Fraction(self.bounds.lower), Fraction(self.bounds.upper)
        n = Fraction(found.get("n", 0), 1 if self.weighted_by is None else ONE)
        return (self.largest_weight * (lower * n + (upper - lower) * found.get("t", 0) / ONE),)

    def sensitivity(self, unit: Unit, groups: float) -> Sensitivity:
        """The end of the range that is farther from 0, for each of r rows in each of g groups.

        A row adds a number x with lower <= x <= upper, so r rows add a number from r min(lower, 0) to r max(upper, 0),
        whose absolute value is at most r far, far = max(|lower|, |upper|).

        Add-remove: L1 r far in each of g groups; L2^2 (r far)^2 g.

        Replace: the unit leaves groups and enters others. In a group that it only leaves or only enters, the sum moves
        by at most r far; in one that it leaves and enters, by at most r across, where
        across = max(upper, 0) - min(lower, 0) >= far. L1: no more than `touched` groups move, by at most r across each;
        or 2 g steps of r far, where two may be in one group, which only pure mechanisms may use. The smaller product is
        taken. L2: if k groups are left and entered, the squares add up to at most r^2 (k across^2 + 2 (g - k) far^2),
        where k is at least 2 g - groups and at most g. That is linear in k, so the larger of its two ends is the bound.
        For a range of one sign across = far, and it is at most 2 (r far)^2 g: sqrt(2) times the norm of add-remove.

        With weights in [a, b], 0 <= a, a row adds w x. With W <= 1 for w / b and P <= W for the product of W and
        x as a part of the range, that is b times lower (W - P) + upper P: a number from min(lower, 0) to max(upper, 0),
        also in fixed point, where P is rounded down. So all of it is b times what it is without weights.
        """
        return scaled(self._unweighted(unit, groups), self.largest_weight)

    def _unweighted(self, unit: Unit, groups: float) -> Sensitivity:
        """The sensitivity where every row counts once."""
        lower, upper = Fraction(self.bounds.lower), Fraction(self.bounds.upper)
        far, across = max(abs(lower), abs(upper)), max(upper, Fraction(0)) - min(lower, Fraction(0))
        rows, (own, most) = unit.most_rows, touched(unit, groups)
        if not unit.replaced:
            return Sensitivity(cell=rows * far, groups=own, square=(rows * far) ** 2 * own, row=far)
        both = (int(max(0, 2 * own - groups)), own)
        square = rows**2 * max(k * across**2 + 2 * (own - k) * far**2 for k in both)
        pure = self.mechanism is None or self.mechanism.endswith(" Laplace") or self.mechanism == OPTIMAL
        if pure and far * 2 * own < across * most:
            return Sensitivity(cell=rows * far, groups=2 * own, square=square, twice=True, row=far)
        return Sensitivity(cell=rows * across, groups=most, square=square, row=far)

    def _scalar(self, unit: Unit, found: Sensitivity, share: BudgetShare, level: float) -> Publisher:
        return publishers.real_number(
            self.allowed,
            found,
            share,
            step=self.step,
            mechanism=self.mechanism,
            confidence=level,
            unclamped=self.unclamped,
            additive=self.margin is not None,
        )
