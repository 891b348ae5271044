"""Points of a grid by their ranks: quantiles, and both ends of a range that is not known."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction

from rangebound.errors import ArgumentError, PlanError
from rangebound.release.noise import publishers
from rangebound.release.noise.allocation import BudgetShare, LossForm
from rangebound.release.noise.draw import Reading
from rangebound.release.noise.estimate import Estimate, held
from rangebound.release.noise.exponential_mechanism import QuantileGrid
from rangebound.release.noise.forms.form import Form
from rangebound.release.noise.publishers import Publisher
from rangebound.release.noise.range_ends import range_publisher
from rangebound.release.plan.fields import written
from rangebound.release.plan.kinds.ranks import Bounds, RankKind
from rangebound.release.plan.statistic import Columns, Sensitivity

_POINTS = 1000  # of a grid that are made again in one step of a certificate's check
_EDGES = 1.0  # one step: edges are public and few


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


@dataclass(frozen=True)
class RankForm(Form):
    """Points of a public grid by the exponential mechanism, each with its interval."""

    question: RankKind

    @property
    def loss(self) -> LossForm:
        """That of an exponential mechanism."""
        return LossForm.RANGE

    @property
    def draws(self) -> int:
        """One for each level: every row is in all of them."""
        return len(self.question.asked)

    @property
    def interval_part(self) -> float:
        """What the plan says."""
        return self.question.interval_share

    @property
    def grid(self) -> QuantileGrid:
        """The points, and where an answer may be published."""
        asked = self.question
        return QuantileGrid(
            points=asked.points,
            borders=asked.borders,
            bounds=asked.bounds,
            support=asked.allowed,
            whole=asked.dated,
        )

    def publisher(self, found: Sensitivity, share: BudgetShare, *, level: float, columns: Columns) -> Publisher:
        """The exponential mechanism for each level, and for both ends of its interval."""
        asked = self.question
        try:
            return publishers.quantiles(
                self.grid, asked.asked, found.cell, share, confidence=level, ordered=asked.ordered
            )
        except ArgumentError as reason:
            raise PlanError(str(reason), field="support") from None

    @property
    def effort(self) -> tuple[Hashable, float]:
        """The grid is made again."""
        return self.question.name, self.question.steps / _POINTS

    def estimate(self, reading: Reading) -> Estimate:
        """The point that was drawn, with its interval, or the whole support for one.

        Where the plan states no step, a point stands for all values that count at it, and the roundest of these is
        published: 1, and not 0.968.
        """
        (value,), ((lower, upper),) = reading.values, reading.intervals
        return held(self._told(value), lower, upper, self.question.allowed)

    def earlier_estimate(self, reading: Reading) -> Estimate:
        """The point itself."""
        return Form.estimate(self, reading)

    def _told(self, point: float) -> float:
        """The number to publish for a point: itself if it is whole or on a step, else the roundest of its cell."""
        asked = self.question
        if asked.step is not None or asked.dated or point.is_integer():
            return point
        (lower, upper), step = asked.ends, asked.exact_step
        place = lower + round((Fraction(point) - lower) / step) * step
        span = next(each for each in asked.allowed.spans if each[0] <= point <= each[1])
        end = min(upper, written(span[1]))
        low, high = max(place - step / 2, lower, written(span[0])), min(place + step / 2, end)
        return min(max(float(roundest(low, high, place, closed=end < place + step / 2)), span[0]), span[1])

    def as_whole(self, found: Estimate) -> Estimate:
        """The nearest whole number, where all values are: no farther from the quantile, in rows.

        If a whole number counts at the point that was drawn, one that does was made of it. Else no row counts there,
        and b rows lie below: |b - r| of them between the point and the rank r. They lie below the next whole number,
        too, and at or below the one before: between either of these and the rank there are no more.
        """
        value = float(round(found.value))
        return Estimate(value=value, lower=min(found.lower, value), upper=max(found.upper, value))


@dataclass(frozen=True)
class EdgesForm(Form):
    """Both ends of a range out of public edges, each by the exponential mechanism, without an interval."""

    question: Bounds

    @property
    def loss(self) -> LossForm:
        """That of an exponential mechanism, whose scores are those of a quantile."""
        return LossForm.RANGE

    @property
    def draws(self) -> int:
        """Two: every unit is in both."""
        return 2

    def publisher(self, found: Sensitivity, share: BudgetShare, *, level: float, columns: Columns) -> Publisher:
        """The exponential mechanism for each end."""
        return range_publisher(self.question.edges, found.cell, share, confidence=level)

    @property
    def effort(self) -> tuple[Hashable, float]:
        """The grid is made again."""
        return self.question.name, _EDGES
