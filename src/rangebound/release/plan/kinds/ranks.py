"""Questions answered by a rank, by the exponential mechanism on a public grid: quantiles, and a range for a column."""

from __future__ import annotations

import datetime
import math
from abc import abstractmethod
from fractions import Fraction
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, ModelWrapValidatorHandler, model_validator

from rangebound.release.plan.fields import UNKNOWN, Bound, Name, Range, as_tuple, number, written
from rangebound.release.plan.kinds.facts import Agreement, FormName, SampledCounts, counted_units
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.measure import EdgeCounts, Places, Rows, Values
from rangebound.release.plan.statistic import Sensitivity, Statistic, by_place, of_parts, rows_by_place
from rangebound.release.plan.unit import Unit
from rangebound.values.support import Interval

_MOST_POINTS = 10_000
_FINEST = 2.0**-50  # of the larger end of a range: so far apart at least, cells differ by several doubles

Level = Annotated[float, Field(gt=0.0, lt=1.0)]


def _none_or_some(value: float) -> float:
    if 0.0 < value < 0.01:
        raise ValueError("must be 0, for intervals as wide as the support, or at least 0.01")
    return value


class RankKind(Kind):
    """A question answered by a rank: its answers are points of a public grid over the column's range.

    `interval_share` is the part of its budget that goes into the intervals; without one they are the whole support.
    """

    form = FormName.RANK
    statistic = Statistic(
        measures=lambda asked, *_: Places(  # by point of the grid: a point is in the middle of what belongs to it
            rows=asked.counted_rows,
            values=asked.column_values,
            borders=asked.borders,
            scale=1 / asked.exact_step,
            shift=0.5,
        ),
        coordinates=by_place(lambda asked: asked.steps + 1),
        sensitivity=rows_by_place,
    )
    in_units = True
    unmargined = "since the width of its interval depends on the values"
    no_limit = "a single unit can move a quantile from one end of its range to the other"
    ordered: ClassVar[bool] = False
    """Whether its numbers are put in order after they were drawn, in every plan."""
    unnamed: ClassVar[bool] = False
    """Whether neither the name of the kind nor those of its parts say the levels."""

    column: Name
    range: Range = Field(default_factory=lambda: UNKNOWN)
    missing: Bound | None = None
    interval_share: Annotated[float, Field(ge=0.0, le=0.9), AfterValidator(_none_or_some)] = 0.25

    @model_validator(mode="wrap")
    @classmethod
    def _no_table(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Refuse the table with the least error, which is for numbers that a unit moves by a bounded distance.

        A unit can move a quantile across its whole range: of rows at one end and as many at the other, one more row
        decides. So all points of the grid are neighbours of each other, whatever the contribution bounds are. By the
        law of a mechanism at both ends of a range of width w, P(Y > middle | lower) >= e^-epsilon P(Y > middle |
        upper): no such table has a worst-case mean absolute error below w / (1 + e^epsilon), however many rows there
        are. The exponential mechanism is private at the same epsilon, and its error in ranks is
        that of a few rows on every table.
        """
        if isinstance(data, dict) and data.get("mechanism") is not None:
            raise ValueError(
                "mechanism: a quantile has none to choose from. An optimal table is for numbers that a unit moves by a "
                "bounded distance, and a single unit can move a quantile from one end of its range to the other: the "
                "table would ignore most of the data. Leave it out; the exponential mechanism is used"
            )
        return handler(data)

    @model_validator(mode="after")
    def _grid_fits(self) -> RankKind:
        if self.lacking:
            return self
        if self.step is not None and not 1 <= self.bounds.width / self.step <= _MOST_POINTS:
            raise ValueError(f"step: must give between 1 and {_MOST_POINTS} steps over the range")
        if self.step is not None and self.step < _FINEST * max(abs(self.bounds.lower), abs(self.bounds.upper)):
            raise ValueError("step: is too fine for numbers of this size; shift the column nearer to 0")
        return self

    @property
    @abstractmethod
    def asked(self) -> tuple[float, ...]:
        """The levels of the quantiles to publish."""

    @property
    def natural(self) -> Interval:
        return self.bounds

    @property
    def exact_step(self) -> Fraction:
        """The distance of two points of the grid: the plan's, else a day for dates, else a thousandth of the range."""
        lower, upper = self.ends
        if self.step is not None:
            return written(self.step)
        return Fraction(max(1, math.ceil((upper - lower) / _MOST_POINTS))) if self.dated else (upper - lower) / 1000

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
    def parts(self) -> tuple[str, ...]:
        return tuple(map(repr, self.asked))

    def sampled(self, unit: Unit) -> SampledCounts:
        """By the law of the rows below."""
        return counted_units(unit, unit.most_rows)

    @property
    def can_be_whole(self) -> bool:
        """Whether the plan leaves the step open, and all that it states of the values are whole numbers."""
        stated = [*self.range, *(end for span in self.allowed.spans for end in span), self.column_values.filler or 0.0]
        return self.step is None and not self.dated and all(float(number(each)).is_integer() for each in stated)

    def left_out(self, unit: Unit) -> list[str]:
        many, levels = "s" * (len(self.asked) > 1), " and ".join(f"{each:g}" for each in self.asked)
        return [*([f"quantile{many} at level{many} {levels}"] if self.unnamed else []), *super().left_out(unit)]


class Median(RankKind):
    """The median of a column."""

    asked: ClassVar[tuple[float, ...]] = (0.5,)

    kind: Literal["median"] = "median"


class Minimum(RankKind):
    """The smallest values of a column, as a low quantile: no single row decides it."""

    unnamed = True

    kind: Literal["minimum"] = "minimum"
    level: Annotated[float, Field(gt=0.0, le=0.2)] = 0.01

    @property
    def asked(self) -> tuple[float, ...]:
        return (self.level,)


class Maximum(RankKind):
    """The largest values of a column, as a high quantile: no single row decides it."""

    unnamed = True

    kind: Literal["maximum"] = "maximum"
    level: Annotated[float, Field(ge=0.8, lt=1.0)] = 0.99

    @property
    def asked(self) -> tuple[float, ...]:
        return (self.level,)


class Quantiles(RankKind):
    """Quantiles of a column at the given levels."""

    agreement: ClassVar[Agreement] = Agreement(rising=True)

    kind: Literal["quantiles"] = "quantiles"
    levels: Annotated[tuple[Level, ...], Field(min_length=1, max_length=100), BeforeValidator(as_tuple)]

    @model_validator(mode="after")
    def _levels_rise(self) -> Quantiles:
        if any(a >= b for a, b in zip(self.levels, self.levels[1:], strict=False)):
            raise ValueError("levels: must be in ascending order")
        return self

    @property
    def asked(self) -> tuple[float, ...]:
        return self.levels


class CentralRange(RankKind):
    """The range where most values of a column lie: the part `share` of them, and as many below it as above.

    It is a pair of quantiles, at (1 - share) / 2 and (1 + share) / 2, each drawn as one of `quantiles` is; the smaller
    of the two points drawn is the lower end. Which of them is smaller is post-processing.
    """

    ordered = True
    unnamed = True
    parts: ClassVar[tuple[str, ...]] = ("lower", "upper")
    agreement: ClassVar[Agreement] = Agreement(rising=True)

    kind: Literal["central range"] = "central range"
    share: Annotated[float, Field(ge=0.01, le=0.99)] = 0.9

    @property
    def asked(self) -> tuple[float, ...]:
        """The levels of both ends, each the double nearest to what the plan's decimals say.

        >>> CentralRange(name="usual", column="wait", range=(0, 100)).asked
        (0.05, 0.95)
        """
        share = written(self.share)
        return float((1 - share) / 2), float((1 + share) / 2)


COVER = Fraction(49, 50)
"""The quantile of the units' values that an upper end aims at; a lower end aims at the same, counted downwards."""
_NICE = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
SIZES = tuple(each * 10.0**power for power in range(-6, 12) for each in _NICE)
"""Ten numbers for every power of ten from a millionth to some 10^12."""
VALUES = tuple(float(f"{each:.2g}") for each in [*(-x for x in reversed(SIZES)), 0.0, *SIZES])
"""The grid of ends: 0, and ten numbers for every power of ten from a millionth to some 10^12, of both signs."""
DAYS = tuple(number(datetime.date(year, 1, 1)) for year in range(1900, 2101))
"""The grid of ends of dates: the first days of the years 1900 to 2100, as days since 1970-01-01."""


def _edge_sensitivity(asked: Bounds, unit: Unit, groups: float) -> Sensitivity:
    """L1 g and L2 sqrt(g): a unit adds 1 in all to the places of a group, so it is a case of `of_parts`.

    Its values in the group share that 1, whatever their number.
    """
    return of_parts(1, unit, groups)


class Bounds(Kind):
    """A range found for a column whose range is not known: both ends out of public edges, `lower` and `upper`.

    Each end aims at the quantile beyond which 2 % of the units' values lie, and some units inwards of it, so that it
    passes it with probability 2.5 % at most. Every unit counts once in all, its values in equal parts. The edges are 0
    and ten numbers for every power of ten, of both signs; with `dates` the column is one of dates, and the edges are
    the first days of the years 1900 to 2100.
    """

    form = FormName.EDGES
    statistic = Statistic(
        measures=lambda asked, *_: EdgeCounts(
            rows=Rows(where=asked.where), column=asked.column, edges=asked.edges, dated=asked.dates
        ),
        coordinates=by_place(lambda asked: 2 * len(asked.edges) + 1),
        sensitivity=_edge_sensitivity,
    )
    once = True
    unmargined = "whose ends are edges of a grid"
    unplaced = "whose answers are edges of a public grid"
    parts: ClassVar[tuple[str, ...]] = ("lower", "upper")

    kind: Literal["bounds"] = "bounds"
    column: Name
    dates: bool = False

    @property
    def edges(self) -> tuple[float, ...]:
        """The public edges."""
        return DAYS if self.dates else VALUES

    @property
    def natural(self) -> Interval:
        return Interval(self.edges[0], self.edges[-1])

    @property
    def answers_dated(self) -> bool:
        return self.dates

    @property
    def reads(self) -> Values | None:
        return Values(column=self.column, lower=self.edges[0], upper=self.edges[-1], dated=self.dates)

    @property
    def subject(self) -> tuple[str, str]:
        return f" of {self.column!r}, out of {len(self.edges)} edges", ""

    def left_out(self, unit: Unit) -> list[str]:
        each = [] if unit.column is None else [f"each {unit.column!r} counted once, its values in equal parts"]
        aimed = f"aimed at all but {float(100 * (1 - COVER)):g} % of the values at each end"
        return [*each, aimed, "missing values left out"]
