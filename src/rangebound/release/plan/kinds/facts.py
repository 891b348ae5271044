"""Facts of a kind: what its numbers are made of, and what others ask of it, as plain values; columns with ranges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic.functional_validators import ModelWrapValidatorHandler

from rangebound.release.plan.fields import UNKNOWN, Ends, Name, Part, Range, bounds, number
from rangebound.release.plan.measure import Values, values_of
from rangebound.release.plan.statistic import Pair
from rangebound.release.plan.unit import Unit
from rangebound.values.array_types import Floats
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
        return Interval(*map(number, self.range))

    @property
    def dated(self) -> bool:
        """Whether the range was given in dates."""
        return not isinstance(self.range[0], float)

    @property
    def values(self) -> Values:
        """The values of the column, clipped to its range."""
        return values_of(self.column, self.range)

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


def clamping_alone(named: str | None, asked: str) -> str:
    """What to write in place of a mechanism whose noise is never drawn unclamped, as `asked`; empty for any other."""
    if named == OPTIMAL:
        return f"leave it out, or {asked} = true"
    if named is None or not named.startswith("truncate"):
        return ""
    return f"with {asked} = true name {named.replace('truncate', 'rectify')!r}, or leave it out"


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
    SPREAD = auto()
    """A function of such fractions that is not one of them."""
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


RARE = 1.0
"""How often the square of the most that a unit can add counts beside a variance, since large values may be rare.

Of a law that has 0.18 of them in a sample on average one sample in six has one, which is too many for a normal law of
that variance. With it, of any number on average, intervals at 95 % hold 94.4 % of the time or more; without, 83.8 %.
"""

_SEEN = 2.5  # times the largest square that a unit can have

Linear = tuple[Floats, ...]
"""A linear form of the drawn coordinates: a constant, and a factor for each coordinate; at many answers at once."""


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """How an answer x about a population shows in the coordinates: what units add to D(x) has mean 0 at the true one.

    `deviation` is D(x) by x, `variance` a linear form whose expectation is at least the variance of D(x) at the true
    x. D falls in x, from `ends[0]` to `ends[1]`, between which all answers lie. `measured` says in words what the
    variance is made of. Where `crossed` the D of two groups may fall and rise together, since all units are of a public
    number; else what a unit in one group alone adds to both has the product 0.

    Where the answer depends on a mean, all of this is about the mean; `given` it, about a number that is `shown` as the
    answer.
    """

    ends: Pair
    deviation: Callable[[Any], Linear]
    variance: Callable[[Any], Linear]
    measured: str
    crossed: bool = False
    given: Callable[[float], Sampled] | None = None
    shown: Callable[[float], float] = float

    def known(self, rows: int | None) -> Sampled:
        """The same where the first coordinate is left out, since all of them add up to a public number of rows."""
        if rows is None:
            return self
        number = float(rows)

        def left(form: Linear) -> Linear:
            constant, first, *others = form
            return (constant + number * first, *(each - first for each in others))

        own, spread = self.deviation, self.variance
        return replace(self, deviation=lambda x: left(own(x)), variance=lambda x: left(spread(x)))


@dataclass(frozen=True, kw_only=True)
class SampledCounts:
    """How counts show what is to be expected: units have at most this many rows, if `single` one that counts whole.

    `measured` says in words what their law is.
    """

    rows: int
    single: bool
    measured: str


def counted_units(unit: Unit, rows: int) -> SampledCounts:
    """How counts show what is to be expected, where each unit adds at most this many rows to one."""
    law = "the binomial law of the rows" if unit.column is None else "twice the binomial law of the units"
    return SampledCounts(rows=rows, single=unit.column is None, measured=law)


def of_fraction(bounds: Interval, unit: Unit, measured: str) -> Sampled:
    """A fraction of the rows in the population, on the scale of the answer: of units drawn independently of each other.

    The coordinates n - p and p make D(t) = (1 - t) p - t (n - p), the sum of w (x - t) for x from 0 to 1 and weights w
    from 0 to 1. Of mean t, E w (x - t)^2 <= E w t (1 - t), attained by zeros and ones [bhatia2000]. A unit of at most r
    rows has a d with d^2 <= r sum of w^2 (x - t)^2 (Cauchy and Schwarz), and w^2 <= w.
    """
    place, rows = _place(bounds), unit.most_rows

    def variance(x: Any) -> Linear:
        t = place(x)
        largest = rows * t * (1.0 - t)
        return RARE * (rows * (0.5 + abs(t - 0.5))) ** 2, largest, largest

    return Sampled(
        ends=(bounds.lower, bounds.upper),
        deviation=lambda x: (0.0 * x, -place(x), 1.0 - place(x)),
        variance=variance,
        measured=measured,
    )


def of_squares(bounds: Interval, unit: Unit, *, of_rows: bool = False) -> Sampled:
    """The same with the variance from squares: of rows, or where units have several, of what each adds up to.

    With the sums a of (1 - x)^2, b of 2 x (1 - x) and c of x^2 over rows, D(t) = (1 - t) c + (1/2 - t) b - t a is the
    sum of x - t, and that of (x - t)^2 is v = t^2 a - t (1 - t) b + (1 - t)^2 c; r rows of a unit have at most r times
    that. With those of z^2 / r, 2 y z / r and y^2 / r over units, y the sum of x and z that of 1 - x, r v is the sum of
    d^2 itself; D(t) then needs those of z (1 - n / r) and y (1 - n / r) as well, n = y + z.

    2.5 times the largest d^2 counts as seen beside the others, since large ones may be rare: of a law that has three in
    a sample on average one in twenty samples has none, and the test at that mean needs 3^2 / 1.96^2 times their square.
    """
    place, rows, apart = _place(bounds), unit.most_rows, by_unit(unit) and not of_rows

    def deviation(x: Any) -> Linear:
        below, above = -place(x), 1.0 - place(x)
        own = 0.0 * x, below, 0.5 - place(x), above
        return (*own, below, above) if apart else own

    def variance(x: Any) -> Linear:
        t = place(x)
        own = _SEEN * (rows * (0.5 + abs(t - 0.5))) ** 2, rows * t**2, -rows * t * (1.0 - t), rows * (1.0 - t) ** 2
        return (*own, 0.0 * x, 0.0 * x) if apart else own

    whose = "what each unit adds up to" if apart else "the values"
    return Sampled(
        ends=(bounds.lower, bounds.upper),
        deviation=deviation,
        variance=variance,
        measured=f"the squares of {whose}, measured together with them",
    )


def by_unit(unit: Unit) -> bool:
    """Whether squares are those of units: of several rows, which are not bounded in each of several periods."""
    return unit.most_rows > 1 and unit.period is None


def _place(bounds: Interval) -> Callable[[Any], Any]:
    return lambda x: (x - bounds.lower) / bounds.width
