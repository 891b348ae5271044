"""Facts of a kind: what its numbers are made of, and what others ask of it, as plain values; columns with ranges."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic.functional_validators import ModelWrapValidatorHandler

from rangebound.release.plan.fields import UNKNOWN, Ends, Name, Names, Part, Range, bounds, number
from rangebound.release.plan.statistic import Values
from rangebound.release.plan.unit import Unit
from rangebound.values.support import Interval, Union


class RangedColumn(Part):
    """A column of numbers (or dates) and their public range; values outside it are clipped.

    Its name alone stands for a column whose range the [columns] of the plan say.
    """

    column: Name
    range: Range = Field(default_factory=lambda: UNKNOWN)

    @model_validator(mode="wrap")
    @classmethod
    def _named(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        return handler({"column": data} if isinstance(data, str) else data)

    @property
    def bounds(self) -> Interval:
        """The public range of the column."""
        return Interval(number(self.range[0]), number(self.range[1]))

    @property
    def dated(self) -> bool:
        """Whether the range was given in dates."""
        return not isinstance(self.range[0], float)

    @property
    def values(self) -> Values:
        """The values of the column, clipped to its range."""
        ends = self.bounds
        return Values(column=self.column, lower=ends.lower, upper=ends.upper, dated=self.dated)

    @property
    def subject(self) -> str:
        """The column and its range in an explanation.

        >>> RangedColumn(column="hours", range=(0.0, 24.0)).subject
        "'hours', which lies in [0, 24]"
        """
        return f"{self.column!r}, which lies in {bounds(self.range)}"


OPTIMAL = "optimal"
"""The name of the table with the least error."""

Mechanism = Literal[
    "truncate Laplace",
    "rectify Laplace",
    "truncate Gaussian",
    "rectify Gaussian",
    "truncate TruncatedLaplacian",
    "rectify TruncatedLaplacian",
    "optimal",
]
"""The noise and its bounding that a plan can name for a number with one coordinate."""


def without_clamping(mechanism: str, asked: str) -> None:
    """Refuse a mechanism that has no unbiased number, where the plan asks for one by the field `asked`."""
    if mechanism == OPTIMAL:
        raise ValueError(f"mechanism: 'optimal' has no unbiased number; leave it out, or {asked} = true")
    if mechanism.startswith("truncate"):
        other = mechanism.replace("truncate", "rectify")
        raise ValueError(
            f"mechanism: {mechanism!r} has no unbiased number; with {asked} = true name {other!r}, or leave it out"
        )


class FormName(Enum):
    """What the numbers of a question are made of, and so what is drawn for them."""

    SCALAR = auto()
    """One noisy coordinate, as it is."""
    RANKED = auto()
    """Ranks of noisy counts."""
    BINS = auto()
    """Noisy counts of which a row is in one alone."""
    FRACTION = auto()
    """Fractions of noisy coordinates that add up to the rows."""
    RATIO = auto()
    CORRELATION = auto()
    LINE = auto()
    """Functions of noisy moments of two columns."""
    RANK = auto()
    """A point of a grid by its rank."""
    EDGES = auto()
    """Two edges of a public grid by their ranks."""
    SELECTION = auto()
    """Keys of a list."""
    STRATEGY = auto()
    """Counts of many groups with sums of them, measured together."""


class Weight(RangedColumn):
    """A column of survey weights and their public range; weights outside it are clipped."""

    @field_validator("range")
    @classmethod
    def _not_negative(cls, ends: Ends) -> Ends:
        if not isinstance(ends[0], float):
            raise ValueError("must be two numbers; a weight is not a date")
        if ends[0] < 0.0:
            raise ValueError("the lower end must not be negative; a weight says how many others a row stands for")
        return ends

    @property
    def values(self) -> Values:
        """The weights in [a, b], in fixed point over [0, b]: a row of weight w adds w / b, from 0 to 1."""
        ends = self.bounds
        return Values(column=self.column, lower=0.0, upper=ends.upper, dated=False, least=ends.lower)


@dataclass(frozen=True, kw_only=True)
class Truncation:
    """Which rows of a question the contribution bounds may drop: its rows, or a unit's groups, or rows with a value.

    `also` are further columns in which such a row needs a value.
    """

    owners: bool = False
    column: str | None = None
    dated: bool = False
    range: Ends | None = field(default=None, compare=False)
    also: tuple[RangedColumn, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Clipping:
    """Which values of a question its range clips; `also` are further columns in which a row needs a value."""

    column: str
    range: Ends
    missing: float | datetime.date | None = None
    also: tuple[RangedColumn, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Which numbers have to agree with each other, where a plan asks for consistent ones.

    `counts` says that the parts are counts of rows, which add up to other counts of the same rows; these are
    distinguished by `bins`, beside the grouping columns, and lack rows without a value in the column `lacking`.
    `rising` says that the parts of a group rise. Numbers of one `partition` add up to 1.
    """

    counts: bool = False
    bins: str | None = None
    lacking: str | None = None
    rising: bool = False
    partition: str | None = None


@dataclass(frozen=True, kw_only=True)
class OneCoordinate:
    """The one coordinate that the number of a group is made of: where it lies, and whether it is a whole number.

    It is published in `support`, on multiples of `step`.
    """

    range: Interval
    whole: bool
    support: Interval | Union
    step: float | None = None


def truncation_scope(by: Names, unit: Unit, groups: float, *, rows: bool) -> list[str]:
    """What the contribution bounds drop: whole groups of a unit, and `rows` in each group."""
    if unit.column is None:
        return []
    said = [] if groups <= unit.groups else [f"groups per {unit.column!r} cut at {unit.groups}"]
    parts = [repr(unit.column), *(["group"] if by else []), *([unit.period.each] if unit.period else [])]
    each = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    said += [f"rows per {each} cut at {unit.rows}"] if rows else []
    return [*said, *period_scope(unit)]


def period_scope(unit: Unit) -> list[str]:
    """Rows outside the range of the periods do not count."""
    if unit.period is None:
        return []
    first, last = unit.period.range
    return [f"rows outside {first} to {last} in {unit.period.column!r} left out"]


def owner_scope(unit: Unit) -> list[str]:
    """Rows without an owner do not count."""
    return [f"rows without {unit.column!r} left out"] if unit.column is not None else []
