"""The questions of a plan: one model a kind, told apart by `kind`."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from rangebound.release.plan.condition import Condition
from rangebound.release.plan.fields import (
    HALF_LINE,
    Bound,
    Name,
    Names,
    Part,
    Positive,
    Range,
    Spans,
    _as_tuple,
    date,
    inside,
    number,
    support,
    written,
)
from rangebound.support import Interval, Union

Conditions = Annotated[tuple[Condition, ...], BeforeValidator(_as_tuple)]
Mechanisms = Literal[
    "truncate Laplace",
    "rectify Laplace",
    "truncate Gaussian",
    "rectify Gaussian",
    "truncate TruncatedLaplacian",
    "rectify TruncatedLaplacian",
]
_MOST_POINTS = 10_000
_FINEST = 2.0**-50  # of the larger end of a range: so far apart at least, cells differ by several doubles


class _Question(Part):
    """What every question has: a name, a filter, grouping columns, a support for the answer, a share of the budget."""

    name: Name
    where: Conditions = ()
    by: Names = ()
    support: Spans | None = None
    step: Positive | None = None
    weight: Positive = 1.0

    @model_validator(mode="after")
    def _support_fits(self) -> _Question:
        if len(set(self.by)) < len(self.by):
            raise ValueError("by: a column is named twice")
        if self.support is not None and not inside(support(self.support), self.natural):
            natural = self.natural
            dated = getattr(self, "dated", False) and self.kind not in UNDATED  # type: ignore[attr-defined]
            ends = ", ".join(str(date(each)) if dated else f"{each:g}" for each in (natural.lower, natural.upper))
            raise ValueError(f"support: must lie within [{ends}], where the answer is")
        return self

    @property
    def natural(self) -> Interval:
        """Where the answer lies whatever the data."""
        return HALF_LINE

    @property
    def allowed(self) -> Interval | Union:
        """Where the published number lies: the support of the plan, or else all of the natural one."""
        return self.natural if self.support is None else support(self.support)


class _WholeQuestion(_Question):
    """A question whose answers are whole numbers, and so are the ends of its support and its step."""

    @model_validator(mode="after")
    def _whole(self) -> _WholeQuestion:
        if any(number(end) % 1.0 for span in self.support or () for end in span):
            raise ValueError("support: the ends must be whole numbers, as counts are")
        if (self.step or 1.0) % 1.0:
            raise ValueError("step: must be a whole number, as counts are whole numbers; leave it out for 1")
        return self


class _ColumnQuestion(_Question):
    """A question about the numbers (or dates) of a column whose range is public.

    Rows that have no value there do not count, unless `missing` is the number that they count as.
    """

    column: Name
    range: Range
    missing: Bound | None = None

    @property
    def bounds(self) -> Interval:
        """The public range of the column."""
        return Interval(number(self.range[0]), number(self.range[1]))

    @property
    def dated(self) -> bool:
        """Whether the range was given in dates."""
        return not isinstance(self.range[0], float)

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """The ends of the range as the plan writes them, exactly."""
        return written(self.bounds.lower), written(self.bounds.upper)

    @property
    def filler(self) -> float | None:
        """What stands for a missing value, within the range; None where rows without a value do not count."""
        bounds = self.bounds
        return None if self.missing is None else min(max(number(self.missing), bounds.lower), bounds.upper)


class Count(_WholeQuestion):
    """The number of rows."""

    kind: Literal["count"] = "count"
    mechanism: Mechanisms | None = None


class CountUnits(_WholeQuestion):
    """The number of privacy units that have at least one row."""

    kind: Literal["count of units"] = "count of units"
    mechanism: Mechanisms | None = None


class Sum(_ColumnQuestion):
    """The sum of a column."""

    kind: Literal["sum"] = "sum"
    mechanism: Mechanisms | None = None

    @property
    def natural(self) -> Interval:
        """A half-line where the column has one sign, else the line."""
        return Interval(0.0 if self.bounds.lower >= 0 else -math.inf, 0.0 if self.bounds.upper <= 0 else math.inf)


class Mean(_ColumnQuestion):
    """The mean of a column."""

    kind: Literal["mean"] = "mean"

    @property
    def natural(self) -> Interval:
        """The column's range."""
        return self.bounds


class Variance(_ColumnQuestion):
    """The variance of a column (of the rows themselves: divided by their number)."""

    kind: Literal["variance"] = "variance"

    @property
    def natural(self) -> Interval:
        """From a millionth of the largest possible variance (or the step) to the largest."""
        largest = (self.bounds.width / 2) ** 2
        return Interval(min(self.step or largest * 2.0**-20, largest / 2), largest)


class StandardDeviation(_ColumnQuestion):
    """The standard deviation of a column: the root of its variance."""

    kind: Literal["standard deviation"] = "standard deviation"

    @property
    def natural(self) -> Interval:
        """From a thousandth of the largest possible deviation (or the step) to the largest."""
        largest = self.bounds.width / 2
        return Interval(min(self.step or largest * 2.0**-10, largest / 2), largest)


class Share(_Question):
    """The share of the rows that meet the conditions `of` among those that meet `where`.

    Shares with the same `partition` are made to add up to 1 where the plan asks for consistent numbers.
    """

    kind: Literal["share"] = "share"
    of: Annotated[Conditions, Field(min_length=1)]
    partition: Name | None = None

    @property
    def natural(self) -> Interval:
        """From 0 to 1."""
        return Interval(0.0, 1.0)


def _none_or_some(value: float) -> float:
    if 0.0 < value < 0.01:
        raise ValueError("must be 0, for intervals as wide as the support, or at least 0.01")
    return value


class _RankQuestion(_ColumnQuestion):
    """A question answered by a rank: its answers are points of a public grid over the column's range.

    `interval_share` is the part of its budget that goes into the intervals; without one they are the whole support.
    """

    interval_share: Annotated[float, Field(ge=0.0, le=0.9), AfterValidator(_none_or_some)] = 0.25

    @model_validator(mode="after")
    def _grid_fits(self) -> _RankQuestion:
        if self.step is not None and not 1 <= self.bounds.width / self.step <= _MOST_POINTS:
            raise ValueError(f"step: must give between 1 and {_MOST_POINTS} steps over the range")
        if self.step is not None and self.step < _FINEST * max(abs(self.bounds.lower), abs(self.bounds.upper)):
            raise ValueError("step: is too fine for numbers of this size; shift the column nearer to 0")
        return self

    @property
    def natural(self) -> Interval:
        """The column's range."""
        return self.bounds

    @property
    def exact_step(self) -> Fraction:
        """The distance of two points of the grid: the plan's, else a day for dates, else a thousandth of the range."""
        lower, upper = self.ends
        if self.step is not None:
            return written(self.step)
        return Fraction(max(1, math.ceil((upper - lower) / _MOST_POINTS))) if self.dated else (upper - lower) / 1000

    @property
    def grid_step(self) -> float:
        """The distance of two points of the grid, as a double."""
        return float(self.exact_step)

    @property
    def steps(self) -> int:
        """How many steps the grid has."""
        lower, upper = self.ends
        return max(1, math.floor((upper - lower) / self.exact_step + Fraction(1, 10**9)))

    @property
    def points(self) -> tuple[float, ...]:
        """The grid: from the lower end of the range by steps, each point the double nearest to its exact place."""
        (lower, upper), step = self.ends, self.exact_step
        return tuple(float(min(lower + at * step, upper)) for at in range(self.steps + 1))

    @property
    def borders(self) -> tuple[float, ...]:
        """What parts the values that count at one point from those at the next: halfway, where the higher one has them.

        Border number i is the double nearest to lower + (i + 1/2) step.
        """
        (lower, _), step = self.ends, self.exact_step
        return tuple(float(lower + (2 * at + 1) * step / 2) for at in range(self.steps))

    @property
    def asked(self) -> tuple[float, ...]:
        """The levels of the quantiles to publish."""
        raise NotImplementedError


Level = Annotated[float, Field(gt=0.0, lt=1.0)]


class Quantiles(_RankQuestion):
    """Quantiles of a column at the given levels."""

    kind: Literal["quantiles"] = "quantiles"
    levels: Annotated[tuple[Level, ...], Field(min_length=1, max_length=100), BeforeValidator(_as_tuple)]

    @model_validator(mode="after")
    def _levels_rise(self) -> Quantiles:
        if any(a >= b for a, b in zip(self.levels, self.levels[1:], strict=False)):
            raise ValueError("levels: must rise")
        return self

    @property
    def asked(self) -> tuple[float, ...]:
        """The levels of the plan."""
        return self.levels


class Median(_RankQuestion):
    """The median of a column."""

    kind: Literal["median"] = "median"

    @property
    def asked(self) -> tuple[float, ...]:
        """One half."""
        return (0.5,)


class Minimum(_RankQuestion):
    """The smallest values of a column, as a low quantile: no one row decides it."""

    kind: Literal["minimum"] = "minimum"
    level: Annotated[float, Field(gt=0.0, le=0.2)] = 0.01

    @property
    def asked(self) -> tuple[float, ...]:
        """The low level."""
        return (self.level,)


class Maximum(_RankQuestion):
    """The largest values of a column, as a high quantile: no one row decides it."""

    kind: Literal["maximum"] = "maximum"
    level: Annotated[float, Field(ge=0.8, lt=1.0)] = 0.99

    @property
    def asked(self) -> tuple[float, ...]:
        """The high level."""
        return (self.level,)


class Histogram(_ColumnQuestion, _WholeQuestion):
    """The number of rows in each of some bins of equal width over the column's range.

    A bin has its lower edge and not its upper one, but the last has both; what is beyond the range is in the end bins.
    """

    kind: Literal["histogram"] = "histogram"
    bins: Annotated[int, Field(ge=2, le=1000)] = 10

    @model_validator(mode="after")
    def _bins_fit(self) -> Histogram:
        if self.dated and self.bins > self.bounds.width:
            raise ValueError(f"bins: must be at most {self.bounds.width:.0f}, so that each has a day")
        return self

    @property
    def edges(self) -> tuple[float, ...]:
        """The edges of the bins, by which values are counted and bins are named.

        Edge i is the double nearest to lower + (upper - lower) i / bins, where the ends are as the plan writes them; of
        dates, the first day that is not before that.

        >>> Histogram(name="ages", column="age", range=(0.1, 0.7), bins=6).edges
        (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
        """
        lower, upper = self.ends
        exact = [lower + (upper - lower) * at / self.bins for at in range(self.bins + 1)]
        return tuple(float(math.ceil(each)) if self.dated else float(each) for each in exact)

    @property
    def borders(self) -> tuple[float, ...]:
        """The edges between two bins."""
        return self.edges[1:-1]


CAP = 10
"""Rows of a unit beyond so many times what may count are not looked at when what was dropped is counted."""


class _CutQuestion(_Question):
    """A question about other questions, made by `report_clipping`: what share of something was cut before the noise.

    It is about the questions named in `about`, all of which ask for the same rows, grouped by `over`.
    """

    about: Annotated[Names, Field(min_length=1)]
    over: Names = ()

    @property
    def natural(self) -> Interval:
        """From 0 to 1."""
        return Interval(0.0, 1.0)


class Dropped(_CutQuestion):
    """The share of rows that the contribution bounds drop, of those that the questions in `about` ask for.

    A unit has m such rows, in all groups together, of which k count. Looked at are min(m, `CAP` times the most that can
    count), since the number of rows of one unit has no bound. Where the questions count `units`, a row stands for all
    rows of a unit in a group. Where they are about the values of a column, `valued`, rows without one are not asked
    for; `within` is the range of the first of them, which says whether the values are dates.
    """

    kind: Literal["share dropped"] = "share dropped"
    units: bool = False
    valued: Name | None = None
    within: Range | None = None

    @property
    def sample(self) -> Count | CountUnits | Mean:
        """A question that asks for the same rows."""
        if self.valued is not None and self.within is not None:
            return Mean(name=self.name, where=self.where, column=self.valued, range=self.within)
        return (CountUnits if self.units else Count)(name=self.name, where=self.where)


class Clipped(_CutQuestion):
    """The share of values outside the range, of the rows that count for the questions in `about`."""

    kind: Literal["share clipped"] = "share clipped"
    valued: Name
    within: Range
    filler: Bound | None = None

    @property
    def sample(self) -> Mean:
        """A question that asks for the same rows and values."""
        return Mean(name=self.name, where=self.where, column=self.valued, range=self.within, missing=self.filler)


CutQuestion = Dropped | Clipped
ColumnQuestion = Sum | Mean | Variance | StandardDeviation | Quantiles | Median | Minimum | Maximum | Histogram
UNDATED = ("sum", "variance", "standard deviation", "histogram")
"""The kinds whose answers are no dates, though the column's values are."""
RankQuestion = Quantiles | Median | Minimum | Maximum
Question = Annotated[
    Count
    | CountUnits
    | Sum
    | Mean
    | Variance
    | StandardDeviation
    | Share
    | Quantiles
    | Median
    | Minimum
    | Maximum
    | Histogram
    | Dropped
    | Clipped,
    Field(discriminator="kind"),
]
