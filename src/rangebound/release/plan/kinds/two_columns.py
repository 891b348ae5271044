"""Questions about the values of two columns in the same row: their ratio, and how they go together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar, Literal

from pydantic import field_validator, model_validator

from rangebound.release.plan.fields import LINE, UNKNOWN, Span, number, span
from rangebound.release.plan.kinds.facts import RARE, FormName, RangedColumn, Sampled
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.measure import ONE, Counted, Found, Measures, Product, Value
from rangebound.release.plan.statistic import Coordinates, Sensitivity, Statistic, of_counts, touched
from rangebound.release.plan.unit import Unit
from rangebound.values.support import Interval

ALPHA, BETA, GAMMA = Fraction(3, 20), Fraction(7, 20), Fraction(1, 2)
"""The shares of the number of rows, of first and of second moments in what a row adds; together 1."""
_SQUARE = ALPHA**2 + BETA**2 + GAMMA**2
_ROUNDED = Fraction(18, ONE)  # of what a row adds in L1, by fixed point
_STEEPEST = 2.0**10  # in widths of the range of y by that of x


class TwoColumnsKind(Kind):
    """A question about two columns whose ranges are public; rows that lack a value in either do not count."""

    unmargined = "since the width of its interval depends on the data"

    def left_out(self, unit: Unit) -> list[str]:
        columns = self.reads_also.values()
        clipped = (f"{each.column!r} clipped to {span(each.bounds, dated=each.dated)}" for each in columns)
        return [*clipped, f"rows without {' or '.join(repr(each.column) for each in columns)} left out"]


def _ratio_coordinates(asked: Ratio, found: Found, unit: Unit) -> Coordinates:
    """Half the sum and half the difference of X and Y, the sums in units of the ends that are farthest from 0."""
    n, t, s = (Fraction(found.get(name, 0)) for name in "nts")
    x, y = _summed(asked.numerator, n, t / ONE), _summed(asked.denominator, n, s / ONE)
    return (x + y) / 2, (x - y) / 2


def _ratio_sensitivity(asked: Ratio, unit: Unit, groups: float) -> Sensitivity:
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
    ends, rows = asked.numerator.bounds, unit.most_rows
    if not unit.replaced or ends.lower >= 0 or ends.upper <= 0:
        return of_counts(rows, unit, groups)
    across = (Fraction(ends.upper) - Fraction(ends.lower)) / Fraction(far(asked.numerator))
    own, most = touched(unit, groups)
    both = (int(max(0, 2 * own - groups)), own)
    square = rows**2 * max(k * (across**2 + 1) / 2 + 2 * (own - k) for k in both)
    if 2 * own < across * most:
        return Sensitivity(cell=Fraction(rows), groups=2 * own, square=square, twice=True)
    return Sensitivity(cell=rows * across, groups=most, square=square)


class Ratio(TwoColumnsKind):
    """The sum of the column of the `numerator`, divided by that of the `denominator`: such as cost per hour.

    Without a `support`, the ratio lies where the ranges say; that needs a denominator whose range begins above 0.
    """

    form = FormName.RATIO
    statistic = Statistic(
        measures=lambda asked, *_: asked.sums(
            n=Counted(), t=Value(of=asked.numerator.values), s=Value(of=asked.denominator.values)
        ),
        coordinates=_ratio_coordinates,
        sensitivity=_ratio_sensitivity,
    )

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
        if self.support is None and not self.natural.bounded and not self.lacking:
            raise ValueError(
                "support: must be stated where the denominator may be 0, since the ratio can then be any number; or "
                "give the denominator a range that begins above 0"
            )
        return self

    @property
    def reads_also(self) -> Mapping[str, RangedColumn]:
        return {"numerator": self.numerator, "denominator": self.denominator}

    @property
    def natural(self) -> Interval:
        """From the smallest to the largest ratio of numbers in the two ranges; without an end where these hold 0."""
        above, below = self.numerator.bounds, self.denominator.bounds
        if self.lacking:
            return LINE
        if below.lower == 0.0:
            return Interval(0.0 if above.lower >= 0 else -math.inf, 0.0 if above.upper <= 0 else math.inf)
        ratios = [end / other for end in (above.lower, above.upper) for other in (below.lower, below.upper)]
        return Interval(min(ratios), max(ratios))

    @property
    def subject(self) -> tuple[str, str]:
        return f" of {self.numerator.subject}, to {self.denominator.subject}", ""

    def sampled(self, unit: Unit) -> Sampled | str:
        """The ratio of two expectations, by the sum D(R) of x - R y, x and y in units of their farthest ends.

        At the true R its mean is 0, so for d from u to v the variance of a row is at most -u v [bhatia2000], and of
        y >= l > 0 there are at most Y / l rows. For x >= 0 no l is needed: d^2 <= x^2 + R^2 y^2 <= x + R^2 y, whose
        sum has the expectation (R + R^2) Y. A unit of r rows has at most r times that, as for a mean.
        """
        above, least, rows = self.numerator.bounds, self.denominator.bounds.lower, unit.most_rows
        farthest, unit_ratio = far(self.numerator), far(self.numerator) / far(self.denominator)
        lowest, highest, least = above.lower / farthest, above.upper / farthest, least / far(self.denominator)
        if not least and above.lower < 0.0:
            return "a numerator of both signs has no bound on its variance where the denominator may be 0"

        def variance(x: Any) -> tuple[Any, ...]:
            ratio = x / unit_ratio
            up, down = (ratio + abs(ratio)) / 2.0, (ratio - abs(ratio)) / 2.0  # its positive and its negative part
            below, above = up + down * least - lowest, highest - up * least - down
            own = below * above / least if least else ratio + ratio**2
            most = (below + above + abs(below - above)) / 2.0
            return RARE * (rows * most) ** 2, rows * own, -rows * own

        hull = self.allowed.hull
        return Sampled(
            ends=(hull.lower, hull.upper),
            deviation=lambda x: (0.0 * x, 1.0 - x / unit_ratio, 1.0 + x / unit_ratio),
            variance=variance,
            measured="the largest variance that the ratio allows",
        )


def _summed(column: RangedColumn, rows: Fraction, parts: Fraction) -> Fraction:
    """The sum of the values of rows, from that of their parts of the range; in units of the farthest end."""
    lower, upper = Fraction(column.bounds.lower), Fraction(column.bounds.upper)
    return (lower * rows + (upper - lower) * parts) / Fraction(far(column))


def far(column: RangedColumn) -> float:
    """The end of a range that is farther from 0."""
    return max(abs(column.bounds.lower), abs(column.bounds.upper))


def _moment_measures(asked: MomentsKind, unit: Unit, groups: float) -> Measures:
    x, y = Value(of=asked.x.values), Value(of=asked.y.values)
    products = {"xx": Product(of=(x, x)), "yy": Product(of=(y, y)), "xy": Product(of=(x, y))}
    return asked.sums(n=Counted(), x=x, y=y, **products)


def _moment_coordinates(asked: MomentsKind, found: Found, unit: Unit) -> Coordinates:
    """a n, b u, b v, c u^2, c v^2 and 2 c u v, summed over rows, for u = x + y - 1 and v = x - y."""
    n = Fraction(found.get("n", 0))
    x, y, xx, yy, xy = (Fraction(found.get(name, 0), ONE) for name in ("x", "y", "xx", "yy", "xy"))
    uu, vv, uv = xx + yy + 2 * xy - 2 * x - 2 * y + n, xx + yy - 2 * xy, xx - yy - x + y
    return ALPHA * n, BETA * (x + y - n), BETA * (x - y), GAMMA * uu, GAMMA * vv, 2 * GAMMA * uv


def _moment_sensitivity(asked: MomentsKind, unit: Unit, groups: float) -> Sensitivity:
    """L1 r g, L2 r sqrt(s g) with s = a^2 + b^2 + c^2 = 0.395, for a = 3/20, b = 7/20 and c = 1/2; nearly.

    For x and y from 0 to 1, |u| + |v| = max(|2 x - 1|, |2 y - 1|) <= 1 for u = x + y - 1 and v = x - y: first
    moments of both columns fit into the room of one. So do the second: u^2 + v^2 + 2 |u v| = (|u| + |v|)^2 <= 1.
    With a + b + c = 1 a row adds at most 1 in L1. L2: u^2 + v^2 <= 1 and u^4 + v^4 + 4 u^2 v^2 <= (|u| + |v|)^4
    <= 1, so that the squares add up to at most s; at u = 1 and v = 0 both are attained.

    Replace: the unit is taken away and another put in its place, 2 g steps of r in L1, two of which may be in one
    group. In a group that it leaves with n rows and enters with m, L1 is at most a |n - m| + (b + c) (n + m), which
    for n, m <= r is at most 2 (b + c) r = 1.7 r; where all groups are such ones, that is taken. L2: what r rows add
    is r times a point of the convex hull of 0 and all f(x, y), and the distance of two such points is largest
    between two of these. From 0 it is at most s. For f and f' the squares, without a, add up to
    b^2 (|w|^2 + |w'|^2 - 2 t) + c^2 (q + q' - 2 e), w = (u, v), q = u^4 + v^4 + 4 u^2 v^2, t = u u' + v v' and
    e = t^2 + 2 u u' v v'. There -2 b^2 t - 2 c^2 t^2 <= b^4 / (2 c^2). If u u' v v' >= 0, all of it is at most
    2 (b^2 + c^2) + b^4 / (2 c^2). If not, let p = |u v| and p' = |u' v'| be at most 1/4: q <= (1 - 2 p)^2 + 2 p^2
    <= 1 - 5 p / 2, and -4 c^2 u u' v v' = 4 c^2 p p' <= c^2 (p + p') / 2, which that outweighs: the same bound. It
    is less than 2 s, since b^2 <= 2 a c. So in all groups together the square is at most 2 s r^2 g.

    Fixed point: squares and the product of a row are rounded down to multiples of 1 / ONE, and each sum of a unit
    that has too many rows once more. The first moves the coordinates by less than 12 c / ONE in L1 for each row,
    the second by less than (4 b + 20 c) / ONE: together by less than 18 r / ONE.
    """
    (own, _), rows = touched(unit, groups), unit.most_rows
    if not unit.replaced:
        square = _SQUARE + 2 * _ROUNDED
        return Sensitivity(cell=rows * (1 + _ROUNDED), groups=own, square=rows**2 * own * square)
    square = 2 * _SQUARE + 4 * _ROUNDED
    if groups == own:
        cell = 2 * (BETA + GAMMA + _ROUNDED)
        return Sensitivity(cell=rows * cell, groups=own, square=rows**2 * own * square)
    cell = rows * (1 + _ROUNDED)
    return Sensitivity(cell=cell, groups=2 * own, square=rows**2 * own * square, twice=True)


class MomentsKind(TwoColumnsKind):
    """A question about the columns `x` and `y`, answered from their first and second moments."""

    statistic = Statistic(measures=_moment_measures, coordinates=_moment_coordinates, sensitivity=_moment_sensitivity)

    x: RangedColumn
    y: RangedColumn

    @property
    def reads_also(self) -> Mapping[str, RangedColumn]:
        return {"x": self.x, "y": self.y}

    @property
    def subject(self) -> tuple[str, str]:
        return f" of {self.x.subject}, and {self.y.subject}", ""


class Correlation(MomentsKind):
    """Pearson's correlation of the columns `x` and `y`; 0 where one of them does not vary."""

    form = FormName.CORRELATION
    natural: ClassVar[Interval] = Interval(-1.0, 1.0)

    kind: Literal["correlation"] = "correlation"


class Line(MomentsKind):
    """The line of least squares y = intercept + slope x; where x does not vary, it has slope 0.

    `slopes` and `intercepts` are where these are published. By default they are those of all lines that the ranges
    allow where the standard deviation of x is at least a thousandth of its largest.
    """

    form = FormName.LINE
    apart = True
    parts: ClassVar[tuple[str, ...]] = ("slope", "intercept")

    kind: Literal["line"] = "line"
    slopes: Span | None = None
    intercepts: Span | None = None

    @model_validator(mode="after")
    def _fits(self) -> Line:
        if self.support is not None:
            raise ValueError("support: a line has two numbers; state slopes = [...] and intercepts = [...]")
        if self.y.dated:
            raise ValueError("y: must be a column of numbers, not dates")
        for name, ends in (("slopes", self.slopes), ("intercepts", self.intercepts)):
            if ends is not None and not isinstance(ends[0], float):
                raise ValueError(f"{name}: must be two numbers")
        return self

    @property
    def subject(self) -> tuple[str, str]:
        return f" through y = {self.y.subject}, over x = {self.x.subject}", ""

    @property
    def supports(self) -> tuple[Interval, Interval]:
        """Where the slope and the intercept are published.

        The covariance is at most the product of the standard deviations, so |slope| <= sd(y) / sd(x), and sd(y) is at
        most half the range. The line goes through the means, so the intercept is at most |slope| |x| from the range.
        """
        steepest = _STEEPEST * self.y.bounds.width / self.x.bounds.width
        slopes = Interval(-steepest, steepest) if self.slopes is None else Interval(*map(number, self.slopes))
        if self.intercepts is not None:
            return slopes, Interval(*map(number, self.intercepts))
        far = max(abs(slopes.lower), abs(slopes.upper)) * max(abs(self.x.bounds.lower), abs(self.x.bounds.upper))
        return slopes, Interval(self.y.bounds.lower - far, self.y.bounds.upper + far)

    def stated_ends(self, unit: Unit) -> list[tuple[str | None, Interval, Interval]]:
        """Those of the slope and of the intercept; without them there are none."""
        stated = zip(self.parts, self.supports, (self.slopes, self.intercepts), strict=True)
        return [(part, ends, LINE) for part, ends, said in stated if said is not None]

    @property
    def natural(self) -> Interval:
        slopes, intercepts = self.supports
        return Interval(min(slopes.lower, intercepts.lower), max(slopes.upper, intercepts.upper))

    def scope(self, unit: Unit, groups: float) -> list[str]:
        stated = (("slope", self.slopes), ("intercept", self.intercepts))
        moved = ((name, Interval(*map(number, ends))) for name, ends in stated if ends is not None)
        said = (f"{name} moved into {span(ends, dated=False)}" for name, ends in moved)
        return [*super().scope(unit, groups), *said]
