"""Questions that publish one coordinate as it is: the number of rows, of units or of distinct values, and a sum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import Field

from rangebound.release.plan.fields import HALF_LINE, LINE, UNKNOWN, Bound, Name, Range, measurable
from rangebound.release.plan.kinds.facts import (
    OPTIMAL,
    RARE,
    Agreement,
    FormName,
    Mechanism,
    OneCoordinate,
    Sampled,
    Weight,
)
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.measure import ONE, DistinctValues, Found, Owned, Value
from rangebound.release.plan.statistic import (
    NOTHING,
    Coordinates,
    Sensitivity,
    Statistic,
    of_counts,
    plain_count,
    scaled,
    touched,
)
from rangebound.release.plan.unit import Unit
from rangebound.values.numeric import rounded_up
from rangebound.values.support import Interval, Union


class ScalarKind(Kind):
    """A question with one coordinate, which is published by the best mechanism, or by the one that the plan names."""

    form = FormName.SCALAR

    @property
    def natural(self) -> Interval:
        return LINE if self._stated("signed") else HALF_LINE

    def published_in(self, unit: Unit) -> Interval | Union:
        """Up to the largest count, where the number of units is public: what each can add, times that number."""
        if self.support is not None or self._stated("signed") or unit.size is None or not self.whole or self.ranked:
            return self.allowed
        most = self.sensitivity(unit, math.inf).cell
        return Interval(0.0, rounded_up(unit.size * most)) if most else self.allowed

    def one_coordinate(self, unit: Unit) -> OneCoordinate:
        support = self.published_in(unit)
        return OneCoordinate(range=support.hull, whole=self.is_whole, support=support, step=self.step)

    def selecting_rows(self, unit: Unit) -> int | None:
        """What a unit adds to a group, where no row is filtered out and the noise is not clamped before it is compared.

        None with weights, since a unit may add less than a whole one.
        """
        free = self.is_whole and not self.where and self.named_mechanism is None and self.step in (None, 1.0)
        return int(self.sensitivity(unit, math.inf).cell) if free else None

    def no_margin(self, unit: Unit) -> str:
        """Truncated noise has intervals whose width depends on the number; noise of limited reach needs a delta."""
        if self.named_mechanism in (None, "rectify Laplace", "rectify Gaussian"):
            return ""
        return (
            f"must not stand beside the mechanism {self.named_mechanism!r}; take 'rectify Laplace' or "
            "'rectify Gaussian', whose intervals have one width, or name no mechanism"
        )


def _count_sensitivity(asked: Count, unit: Unit, groups: float) -> Sensitivity:
    """Nothing where the number of rows is public, else r rows in each group: L1 r g, L2 r sqrt(g).

    Every row adds 1, and at most r of a unit count in each of at most g groups, so it is a case of `of_counts`. A
    table in which one row is replaced has as many rows as before, so where all rows count the count is a constant.

    With weights in [a, b], 0 <= a, a row adds w <= b: in units of b a number from 0 to 1, so that a unit adds one
    from 0 to r to each of its groups. All of it is b times what it is without weights, but no count is a constant.

    >>> Count(name="visits").sensitivity(Unit(column="person", rows=3, groups=2), 10).total
    Fraction(6, 1)
    """
    if asked.known_rows(unit) is not None:
        return NOTHING
    return scaled(of_counts(unit.most_rows, unit, groups), asked.largest_weight)


class Count(ScalarKind):
    """The number of rows; with weights, the sum of the weights, which need not be a whole number."""

    whole = True
    statistic = Statistic(
        measures=lambda asked, *_: asked.sums(n=asked.counted),
        coordinates=lambda asked, found, _: (
            Fraction(found.get("n", 0), 1 if asked.is_whole else ONE) * asked.largest_weight,
        ),
        sensitivity=_count_sensitivity,
    )

    kind: Literal["count"] = "count"
    weighted_by: Weight | None = None
    unbiased: bool | None = None
    signed: bool | None = None
    mechanism: Mechanism | None = None

    def known_rows(self, unit: Unit) -> int | None:
        """The size of the table, where it is public and all rows count.

        >>> Count(name="visits").known_rows(Unit(neighbours="replace", size=50))
        50
        """
        return self.all_rows(unit)

    def is_marginal(self, unit: Unit) -> bool:
        """Where rows are the units, their number is not public, and the plan fixes nothing about the numbers.

        >>> Count(name="visits", by=("day",)).is_marginal(Unit()), Count(name="visits", margin=25).is_marginal(Unit())
        (True, False)
        """
        fixed = (self.mechanism, self.weight, self.margin, self.support)
        free = fixed == (None,) * len(fixed) and self.step in (None, 1.0)
        return free and self.is_whole and unit.column is None and self.known_rows(unit) is None

    @property
    def agreement(self) -> Agreement:
        return Agreement(counts=self.is_whole)


def owners_sensitivity(asked: ScalarKind, unit: Unit, groups: float) -> Sensitivity:
    """One in each group, however many rows a unit has: L1 g, L2 sqrt(g).

    A unit adds 0 or 1 to each of at most g groups, so it is a case of `of_counts` with one row.
    """
    return of_counts(1, unit, groups)


class CountOfUnits(ScalarKind):
    """The number of privacy units that have at least one row.

    With a period, at least one row in its range: a unit that has rows in several periods counts once.
    """

    whole = True
    once = True
    statistic = Statistic(
        measures=lambda asked, *_: asked.sums(n=Owned()), coordinates=plain_count, sensitivity=owners_sensitivity
    )
    no_rows = "a unit counts once in each group, however many rows it has"

    kind: Literal["count of units"] = "count of units"
    unbiased: bool | None = None
    signed: bool | None = None
    mechanism: Mechanism | None = None

    def misfit(self, unit: Unit) -> str:
        return "the unit is the row; ask for a count" if unit.column is None else ""


def _distinct_sensitivity(asked: DistinctCount, unit: Unit, groups: float) -> Sensitivity:
    """v = `values` in each group: L1 v g, L2 v sqrt(g), however many rows a unit has.

    In a group, let R be the set of values that the other units keep; what they keep does not depend on this unit.
    A unit that keeps the set A, |A| <= v, makes the count |R + A|, which is from |R| to |R| + v. So it adds a
    number from 0 to v to each of at most g groups, and it is a case of `of_counts`: also where the unit is replaced
    by one that keeps B, since |R + A| and |R + B| are both from |R| to |R| + v, and differ by at most v.

    >>> DistinctCount(name="drugs", column="drug", values=3).sensitivity(Unit(column="person", groups=2), 10).total
    Fraction(6, 1)
    """
    return of_counts(asked.values, unit, groups)


class DistinctCount(ScalarKind):
    """The number of distinct values that a column has among the rows that count, of each unit at most `values`.

    Values are compared as grouping keys are, so the column is one of texts, whole numbers, dates or truth values. Rows
    without a value do not count. Which values of a unit stay is decided by a keyed order of the unit's own, as it is
    for its groups.
    """

    whole = True
    once = True
    no_rows = "`values` says how many values of a unit count in a group"
    cut_uncounted = "the values of a unit beyond `values`"
    statistic = Statistic(
        measures=lambda asked, *_: DistinctValues(rows=asked.counted_rows, column=asked.column, most=asked.values),
        coordinates=plain_count,
        sensitivity=_distinct_sensitivity,
    )

    kind: Literal["distinct count"] = "distinct count"
    unbiased: bool | None = None
    signed: bool | None = None
    mechanism: Mechanism | None = None
    column: Name
    values: Annotated[int, Field(ge=1, le=1_000_000)] = 1

    @property
    def compares(self) -> Mapping[str, str]:
        return {"column": self.column}

    def misfit(self, unit: Unit) -> str:
        if unit.column is None and self.values > 1:
            return "values is 1 where the unit is the row, which has one value"
        return ""

    def selecting_rows(self, unit: Unit) -> int | None:
        """None: a group of many units may have few values."""
        return None

    @property
    def subject(self) -> tuple[str, str]:
        return f" of {self.column!r}", ""

    def left_out(self, unit: Unit) -> list[str]:
        each = " and group" if self.by else ""
        cut = [] if unit.column is None else [f"values per {unit.column!r}{each} cut at {self.values}"]
        return [*cut, "missing values left out"]


def _sum_coordinates(asked: Sum, found: Found, unit: Unit) -> Coordinates:
    """lower n + (upper - lower) t, where t is the sum of the values as parts of the range.

    With weights, n and t are the sums of w / b and of that times the part of the range, and all of it b times.
    """
    lower, upper = Fraction(asked.bounds.lower), Fraction(asked.bounds.upper)
    n = Fraction(found.get("n", 0), 1 if asked.weighted_by is None else ONE)
    return (asked.largest_weight * (lower * n + (upper - lower) * found.get("t", 0) / ONE),)


def _sum_sensitivity(asked: Sum, unit: Unit, groups: float) -> Sensitivity:
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
    lower, upper = Fraction(asked.bounds.lower), Fraction(asked.bounds.upper)
    far, across = max(abs(lower), abs(upper)), max(upper, Fraction(0)) - min(lower, Fraction(0))
    rows, (own, most) = unit.most_rows, touched(unit, groups)
    if not unit.replaced:
        found = Sensitivity(cell=rows * far, groups=own, square=(rows * far) ** 2 * own, row=far)
        return scaled(found, asked.largest_weight)
    both = (int(max(0, 2 * own - groups)), own)
    square = rows**2 * max(k * across**2 + 2 * (own - k) * far**2 for k in both)
    pure = asked.mechanism is None or asked.mechanism.endswith(" Laplace") or asked.mechanism == OPTIMAL
    if pure and far * 2 * own < across * most:
        found = Sensitivity(cell=rows * far, groups=2 * own, square=square, twice=True, row=far)
    else:
        found = Sensitivity(cell=rows * across, groups=most, square=square, row=far)
    return scaled(found, asked.largest_weight)


class Sum(ScalarKind):
    """The sum of a column; with weights, that of the values times the weights of their rows."""

    statistic = Statistic(
        measures=lambda asked, *_: asked.sums(n=asked.counted, t=asked.weighted(Value(of=asked.column_values))),
        coordinates=_sum_coordinates,
        sensitivity=_sum_sensitivity,
    )

    kind: Literal["sum"] = "sum"
    weighted_by: Weight | None = None
    column: Name
    range: Range = Field(default_factory=lambda: UNKNOWN)
    missing: Bound | None = None
    unbiased: bool | None = None
    signed: bool | None = None
    mechanism: Mechanism | None = None

    @property
    def natural(self) -> Interval:
        """A half-line where the column has one sign, else the line; the line where the number is signed."""
        if self.signed:
            return LINE
        return Interval(0.0 if self.bounds.lower >= 0 else -math.inf, 0.0 if self.bounds.upper <= 0 else math.inf)

    def sampled(self, unit: Unit) -> Sampled | str:
        """The sum to be expected of as many units, which divided by their number is that per capita.

        A unit adds s, from u to v. Of n units, a public number, whose expected sum is x, the variance is at most
        (x - n u) (n v - x) / n [bhatia2000]. Where it is not public s must have one sign: s^2 <= v s, so that the
        variance of the sum is at most v x.
        """
        most, n = float(unit.most_rows * self.largest_weight), unit.size
        least, largest = most * min(self.bounds.lower, 0.0), most * max(self.bounds.upper, 0.0)
        if self.known_rows(unit) is not None:
            least, largest = self.bounds.lower, self.bounds.upper
        if n is None and least and largest:
            return "values of both signs have no bound on their variance where the number of units is not public"
        low, high = (number and number * (math.inf if n is None else n) for number in (least, largest))

        def variance(x: Any) -> tuple[Any, Any]:
            own = abs(x) * (largest - least) if n is None else (x - low) * (high - x) / n
            return own + RARE * (largest - least) ** 2, 0.0 * x

        return Sampled(
            ends=(low, high),
            deviation=lambda x: (-x, 1.0 + 0.0 * x),
            variance=variance,
            measured="the largest variance that the sum allows",
            crossed=n is not None,
        )

    def misfit(self, unit: Unit) -> str:
        ends, weights = self.bounds, self.weighted_by
        if weights is None or measurable(max(abs(ends.lower), abs(ends.upper)) * weights.bounds.upper):
            return ""
        return "values times weights must be between 1e-150 and 1e150 in size; take other units for one of them"
