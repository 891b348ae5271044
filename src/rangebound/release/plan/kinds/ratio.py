"""The ratio of the sums of two columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Literal

from pydantic import field_validator, model_validator

from rangebound.release.noise.allocation import Sensitivity
from rangebound.release.noise.draw import Coordinates, Reading
from rangebound.release.noise.estimate import Estimate, held, nearest
from rangebound.release.noise.ratio_interval import ratio_interval
from rangebound.release.plan.fields import LINE, UNKNOWN
from rangebound.release.plan.kinds.two_columns_kind import TwoColumnsKind
from rangebound.release.plan.measure import ONE, Counted, Found, GroupSums, Measures, Value
from rangebound.release.plan.ranged_column import RangedColumn
from rangebound.release.plan.sensitivity import of_counts, touched
from rangebound.release.plan.unit import Unit
from rangebound.values.support import Interval


class Ratio(TwoColumnsKind):
    """The sum of the column of the `numerator`, divided by that of the `denominator`: such as cost per hour.

    Without a `support`, the ratio lies where the ranges say; that needs a denominator whose range begins above 0.
    """

    kind: Literal["ratio"] = "ratio"
    numerator: RangedColumn
    denominator: RangedColumn

    @field_validator("denominator")
    @classmethod
    def _not_negative(cls, column: RangedColumn) -> RangedColumn:
        if column.range != UNKNOWN and column.bounds.lower < 0.0:
            raise ValueError("the lower end of its range must not be negative")
        return column

    @model_validator(mode="after")
    def _fits(self) -> Ratio:
        for name, each in self.reads_also.items():
            if each.dated:
                raise ValueError(f"{name}: must be a column of numbers; a sum of days is not a day")
        if self.support is None and not self.natural.bounded and not self.lacks_range:
            raise ValueError(
                "support: must be stated where the denominator may be 0, since the ratio can then be any number; or "
                "give the denominator a range that begins above 0"
            )
        return self

    @property
    def reads_also(self) -> Mapping[str, RangedColumn]:
        """Both columns."""
        return {"numerator": self.numerator, "denominator": self.denominator}

    @property
    def natural(self) -> Interval:
        """From the smallest to the largest ratio of numbers in the two ranges; without an end where these hold 0."""
        above, below = self.numerator.bounds, self.denominator.bounds
        if self.lacks_range:
            return LINE
        if below.lower == 0.0:
            return Interval(0.0 if above.lower >= 0 else -math.inf, 0.0 if above.upper <= 0 else math.inf)
        ratios = [end / other for end in (above.lower, above.upper) for other in (below.lower, below.upper)]
        return Interval(min(ratios), max(ratios))

    def measures(self, unit: Unit, groups: float) -> Measures:
        """The rows within the contribution bounds, and their values in fixed point."""
        above, below = Value(of=self.numerator.values), Value(of=self.denominator.values)
        return GroupSums(rows=self.counted_rows, of={"n": Counted(), "t": above, "s": below})

    def coordinates(self, found: Found, unit: Unit) -> Coordinates:
        """Half the sum and half the difference of X and Y, the sums in units of the ends that are farthest from 0."""
        n, t, s = (Fraction(found.get(name, 0)) for name in "nts")
        x, y = _summed(self.numerator, n, t / ONE), _summed(self.denominator, n, s / ONE)
        return (x + y) / 2, (x - y) / 2

    def sensitivity(self, unit: Unit, groups: float) -> Sensitivity:
        """L1 r g and L2 r sqrt(g): for P = (X + Y) / 2 and Q = (X - Y) / 2, |P| + |Q| = max(|X|, |Y|).

        A row adds x with |x| <= 1 and y with 0 <= y <= 1 to X and Y, in units of the farthest ends of their ranges. So
        r rows move P and Q together by at most r in L1: as much as X alone, where X and Y themselves move by up to 2 r.
        Each of X = P + Q and Y = P - Q then has the variance of two draws at that scale, not of one at twice the scale,
        which is half of it; their noise is uncorrelated. L2: |(P, Q)|^2 = (X^2 + Y^2) / 2 <= r^2.

        Replace, in one group: X moves by at most r c, c = (max(upper, 0) - min(lower, 0)) / far from 1 to 2, and Y by
        at most r. So L1 is at most r c, in `touched` groups, which for a numerator of one sign is no more than that of
        a count: a case of `of_counts`. For one of both signs, 2 g steps of r may be fewer, of which two may be in one
        group. L2: a group that is left and entered moves by at most r^2 (c^2 + 1) / 2, one
        that is only left or only entered by r^2; of k and 2 (g - k) of these, linear in k, the larger end is the bound.
        """
        ends, rows = self.numerator.bounds, unit.most_rows
        if not unit.replaced or ends.lower >= 0 or ends.upper <= 0:
            return of_counts(rows, unit, groups)
        across = (Fraction(ends.upper) - Fraction(ends.lower)) / Fraction(_far(self.numerator))
        own, most = touched(unit, groups)
        both = (int(max(0, 2 * own - groups)), own)
        square = rows**2 * max(k * (across**2 + 1) / 2 + 2 * (own - k) for k in both)
        if 2 * own < across * most:
            return Sensitivity(cell=Fraction(rows), groups=2 * own, square=square, twice=True)
        return Sensitivity(cell=rows * across, groups=most, square=square)

    def estimate(self, reading: Reading, unit: Unit) -> Estimate:
        """The ratio that the noisy coordinates make; see `ratio_interval`.

        Guarantee: it lies in the support, on the step and in its interval.
        """
        assert reading.added is not None
        scale, hull = _far(self.numerator) / _far(self.denominator), self.allowed.hull
        p, q = reading.values
        value, ends = ratio_interval(p, q, reading.added, lower=hull.lower / scale, upper=hull.upper / scale)
        lower, upper = (end * scale for end in ends)
        return held(nearest(value * scale, self.allowed, self.step), lower, upper, self.allowed)

    @property
    def subject(self) -> tuple[str, str]:
        """Both columns and their ranges."""
        return f" of {self.numerator.subject}, to {self.denominator.subject}", ""


def _summed(column: RangedColumn, rows: Fraction, parts: Fraction) -> Fraction:
    """The sum of the values of rows, from that of their parts of the range; in units of the farthest end."""
    lower, upper = Fraction(column.bounds.lower), Fraction(column.bounds.upper)
    return (lower * rows + (upper - lower) * parts) / Fraction(_far(column))


def _far(column: RangedColumn) -> float:
    """The end of a range that is farther from 0."""
    return max(abs(column.bounds.lower), abs(column.bounds.upper))
