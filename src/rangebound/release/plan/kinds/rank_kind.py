"""Questions answered by a rank: quantiles, by the exponential mechanism on a public grid."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable
from fractions import Fraction
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, Field, ModelWrapValidatorHandler, model_validator

from rangebound.errors import ArgumentError, PlanError
from rangebound.release.noise import publishers
from rangebound.release.noise.allocation import BudgetShare, LossForm, Sensitivity
from rangebound.release.noise.draw import Columns, Coordinates, Draw, Reading
from rangebound.release.noise.estimate import Estimate, held
from rangebound.release.noise.exponential_mechanism import QuantileGrid
from rangebound.release.noise.publishers import Publisher
from rangebound.release.plan.fields import number, written
from rangebound.release.plan.kinds.column_kind import ColumnKind
from rangebound.release.plan.measure import ONE, Found, Measures, Places
from rangebound.release.plan.sensitivity import of_parts
from rangebound.release.plan.unit import Unit
from rangebound.values.array_types import Floats
from rangebound.values.support import Interval

_MOST_POINTS = 10_000
_FINEST = 2.0**-50  # of the larger end of a range: so far apart at least, cells differ by several doubles
_POINTS = 1000  # of a grid that are made again in one step of a certificate's check


def _none_or_some(value: float) -> float:
    if 0.0 < value < 0.01:
        raise ValueError("must be 0, for intervals as wide as the support, or at least 0.01")
    return value


def roundest(low: Fraction, high: Fraction, near: Fraction, *, closed: bool = False) -> Fraction:
    """The number from `low` to `high` with the fewest decimal digits, the nearest one to `near`.

    Only if `closed`, it may be `high`.

    >>> roundest(Fraction("0.9075"), Fraction("1.0285"), Fraction("0.968"))
    Fraction(1, 1)
    >>> roundest(Fraction("1.0285"), Fraction("1.1495"), Fraction("1.089"))
    Fraction(11, 10)
    """
    if low >= high:
        return near
    largest = max(float(max(abs(low), abs(high))), 5e-324)  # not 0, by rounding
    unit = Fraction(10) ** math.ceil(math.log10(largest) + 1)
    while True:
        first, last = math.ceil(low / unit), math.floor(high / unit) if closed else math.ceil(high / unit) - 1
        if first <= last:
            return min(max(round(near / unit), first), last) * unit
        unit /= 10


class RankKind(ColumnKind):
    """A question answered by a rank: its answers are points of a public grid over the column's range.

    `interval_share` is the part of its budget that goes into the intervals; without one they are the whole support.
    """

    no_limit: ClassVar[str] = "a single unit can move a quantile from one end of its range to the other"
    ordered: ClassVar[bool] = False
    """Whether its numbers are put in order after they were drawn, in every plan."""

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
        if self.lacks_range:
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
        """The column's range."""
        return self.bounds

    @property
    def answers_dated(self) -> bool:
        """As the column is."""
        return self.dated

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
    def grid(self) -> QuantileGrid:
        """The points, and where an answer may be published."""
        return QuantileGrid(
            points=self.points, borders=self.borders, bounds=self.bounds, support=self.allowed, whole=self.dated
        )

    def measures(self, unit: Unit, groups: float) -> Measures:
        """Counts by point of the grid: a point is in the middle of what belongs to it."""
        return Places(
            rows=self.counted_rows, values=self.values, borders=self.borders, scale=1 / self.exact_step, shift=0.5
        )

    def coordinates(self, found: Found, unit: Unit) -> Coordinates:
        """Rows by point of the grid."""
        return tuple(Fraction(found.get(at, 0), ONE) for at in range(self.steps + 1))

    def sensitivity(self, unit: Unit, groups: float) -> Sensitivity:
        """L1 r g and L2 r sqrt(g): a row adds 1 to one of the counts by point, so it is a case of `of_parts`.

        The exponential mechanism is made for L1: a score moves by at most max(level, 1 - level) times it.
        """
        return of_parts(unit.most_rows, unit, groups)

    @property
    def parts(self) -> tuple[str, ...]:
        """The levels."""
        return tuple(map(repr, self.asked))

    @property
    def draws(self) -> int:
        """One for each level: every row is in all of them."""
        return len(self.asked)

    @property
    def interval_part(self) -> float:
        """What the plan says."""
        return self.interval_share

    @property
    def uses_delta(self) -> bool:
        """Never: the exponential mechanism is pure."""
        return False

    @property
    def loss(self) -> LossForm:
        """That of an exponential mechanism."""
        return LossForm.RANGE

    def publisher(
        self, unit: Unit, found: Sensitivity, share: BudgetShare, *, level: float, columns: Columns
    ) -> Publisher:
        """The exponential mechanism for each level, and for both ends of its interval."""
        try:
            return publishers.quantiles(
                self.grid, self.asked, found.cell, share, confidence=level, ordered=self.ordered
            )
        except ArgumentError as reason:
            raise PlanError(str(reason), field="support") from None

    def estimate(self, reading: Reading, unit: Unit) -> Estimate:
        """The point that was drawn, with its interval, or the whole support for one.

        Where the plan states no step, a point stands for all values that count at it, and the roundest of these is
        published: 1, and not 0.968.
        """
        (value,), ((lower, upper),) = reading.values, reading.intervals
        return held(self._told(value), lower, upper, self.allowed)

    def earlier_estimate(self, reading: Reading, unit: Unit) -> Estimate:
        """The point itself."""
        (value,), ((lower, upper),) = reading.values, reading.intervals
        return held(value, lower, upper, self.allowed)

    def _told(self, point: float) -> float:
        """The number to publish for a point: itself if it is whole or on a step, else the roundest of its cell."""
        if self.step is not None or self.dated or point.is_integer():
            return point
        (lower, upper), step = self.ends, self.exact_step
        place = lower + round((Fraction(point) - lower) / step) * step
        span = next(each for each in self.allowed.spans if each[0] <= point <= each[1])
        end = min(upper, written(span[1]))
        low, high = max(place - step / 2, lower, written(span[0])), min(place + step / 2, end)
        return min(max(float(roundest(low, high, place, closed=end < place + step / 2)), span[0]), span[1])

    @property
    def can_be_whole(self) -> bool:
        """Whether the plan leaves the step open, and all that it states of the values are whole numbers."""
        stated = [*self.range, *(end for span in self.allowed.spans for end in span), self.filler or 0.0]
        return self.step is None and not self.dated and all(float(number(each)).is_integer() for each in stated)

    def as_whole(self, found: Estimate) -> Estimate:
        """The nearest whole number, where all values are: no farther from the quantile, in rows.

        If a whole number counts at the point that was drawn, one that does was made of it. Else no row counts there,
        and b rows lie below: |b - r| of them between the point and the rank r. They lie below the next whole number,
        too, and at or below the one before: between either of these and the rank there are no more.
        """
        value = float(round(found.value))
        return Estimate(value=value, lower=min(found.lower, value), upper=max(found.upper, value))

    def unclamped_number(self, draws: Draw) -> float | None:
        """None: a quantile is drawn from a grid, and no noise is added to it."""
        return None

    def bias(self, publisher: Publisher, unit: Unit, lower: Floats, upper: Floats) -> Floats | None:
        """None: how far a rank error moves a quantile depends on the rows near it, which are private."""
        return None

    @property
    def effort(self) -> tuple[Hashable, float]:
        """The grid is made again."""
        return self.name, self.steps / _POINTS

    def no_margin(self, unit: Unit) -> str:
        """None can be asked: how far apart the values of two ranks are is in the data alone."""
        why = "since the width of its interval depends on the values"
        return f"must not be asked of {self.kind!r}, {why}; give a weight"

    def half_width(self, publisher: Publisher, unit: Unit) -> float | None:
        """The data decide."""
        return None

    def expected_error(self, publisher: Publisher) -> str:
        """In rows."""
        return publisher.expected_error()
