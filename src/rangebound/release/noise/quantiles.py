"""Points of a grid by their ranks: quantiles by the exponential mechanism, and twice more for the interval of each.

The interval of a quantile: two more draws, aimed so far outwards that the quantile lies between them.

Both ends of a range that is not known: two draws among public edges, each aimed at a quantile of the units' values, so
far inwards that it passes it with probability 2.5 % at most: a range is rather too narrow than absurd.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from rangebound.errors import PlanError
from rangebound.release.noise import exponential_mechanism as exponential
from rangebound.release.noise.allocation import BudgetShare, LossForm, demand
from rangebound.release.noise.draw import Bits, Columns, Coordinates, Draw, Estimate, Form, Publisher, Reading, held
from rangebound.release.noise.exponential_mechanism import ExponentialPublisher, QuantileGrid
from rangebound.release.plan.fields import written
from rangebound.release.plan.kinds.ranks import COVER, Bounds, RankKind
from rangebound.release.plan.statistic import Sensitivity
from rangebound.values import arguments
from rangebound.values.support import Interval, Union

_DEFINITIONS = 1  # rows by which the usual definitions of a sample quantile differ from the rank level * n
_POINTS = 1000  # of a grid that are made again in one step of a certificate's check


def margin(places: int, rate: Fraction, confidence: float) -> Fraction:
    """How many rows outwards an end is aimed, to pass the quantile with probability (1 - confidence) / 2 at most.

    ln(2 places / (1 - confidence)) / rate, rounded up, and one row more.

    Guarantee: an end that passes the quantile has a score of ln(2 places / (1 - confidence)) / rate or more, while some
    point has a score of 0, so each of the `places` points that pass has at most e^-that of the whole weight.
    """
    logarithm = Fraction(math.log(2.0 * places / (1.0 - confidence))) * Fraction(2**30 + 1, 2**30)
    return Fraction(math.ceil(logarithm / rate * 1024), 1024) + _DEFINITIONS


def draw_aimed(counts: Sequence[Fraction], level: Fraction, shift: Fraction, rate: Fraction, bits: Bits) -> int:
    """A place by how many rows lie between it and the rank level n - shift; the first stands for all below the others.

    Nothing lies below the first point, so an aim below all rows is met there: one point has a score of 0, for every
    table, an empty one too. One row more or less moves each score by at most max(level, 1 - level).
    """
    scores = exponential.scores(counts, level, shift, open_below=True)
    return exponential.draw(exponential.weights(scores, rate), bits)


def folded(counts: Sequence[Fraction], places: Sequence[int]) -> list[Fraction]:
    """Counts by place, where each row goes to the nearest place at or below it; the first entry has those with none.

    >>> [int(each) for each in folded([Fraction(1)] * 5, [1, 3])]
    [1, 2, 2]
    """
    found = [Fraction(0)] * (len(places) + 1)
    for at, count in enumerate(counts):
        found[bisect_right(places, at)] += count
    return found


def draw_interval(
    grid: QuantileGrid, counts: Sequence[Fraction], level: float, *, rate: Fraction, confidence: float, bits: Bits
) -> tuple[float, float]:
    """An interval for the quantile at `level` of the column within its range, with ends in the support.

    Guarantee: it holds the quantile, moved into the hull of the support, with probability `confidence` or more,
    whatever the table: under every usual definition of a sample quantile, and for the values themselves, not as rounded
    to the grid. Each end costs what one draw at `rate` does; the number of rows is not needed, and stays private.
    Edge cases: where the aim lies beyond all rows, an end is the end of the support.
    """
    places, last = grid.candidates, len(grid.points) - 1
    shift = margin(len(places), rate, confidence)
    mirrored = [last - at for at in reversed(places)]
    lower = draw_aimed(folded(counts, places), Fraction(level), shift, rate, bits)
    upper = draw_aimed(folded(counts[::-1], mirrored), 1 - Fraction(level), shift, rate, bits)
    lowest, highest = interval_ends(grid)
    return lowest[lower], highest[upper]


def interval_ends(grid: QuantileGrid) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """What to publish as the lower end for every place that may be drawn, from the lowest, and mirrored as the upper.

    A value counts at the nearest point of the grid, so it lies between the borders around it; days are whole, and the
    end points take all that is beyond them.
    """
    support, places = grid.support, grid.candidates
    borders = (grid.bounds.lower, *grid.borders, grid.bounds.upper)
    lowest = [borders[at] for at in places]
    highest = [borders[at + 1] for at in reversed(places)]
    if grid.whole:
        lowest, highest = [math.ceil(each) for each in lowest], [math.floor(each) for each in highest]
    return (
        (support.hull.lower, *(below(support, each) for each in lowest)),
        (support.hull.upper, *(above(support, each) for each in highest)),
    )


def below(support: Interval | Union, value: float) -> float:
    """The largest point of the support that is not above a value, or its lower end.

    >>> below(Union((0, 3), (5, 9)), 4.5), below(Union((0, 3), (5, 9)), -1.0)
    (3.0, 0.0)
    """
    reached = [min(value, upper) for lower, upper in support.spans if lower <= value]
    return float(max(reached, default=support.hull.lower))


def above(support: Interval | Union, value: float) -> float:
    """The smallest point of the support that is not below a value, or its upper end."""
    reached = [max(value, lower) for lower, upper in support.spans if upper >= value]
    return float(min(reached, default=support.hull.upper))


@dataclass(frozen=True, kw_only=True)
class QuantilePublisher(ExponentialPublisher):
    """The quantiles at `levels`, each drawn on the grid at its rate; without `interval_rates` none has an interval.

    `confidence` is how often an interval holds its quantile, at least, and a rank error its rows; `interval_epsilon` is
    what each end of an interval costs. With `ordered` the numbers of a group are put in order when they are read: its
    k-th smallest number is for the k-th level. Levels rise, so while all rank errors of a group hold, that moves no
    number farther from its quantile than the largest of them; they are stated so that all hold together.
    """

    grid: QuantileGrid
    levels: tuple[float, ...]
    rates: tuple[Fraction, ...]
    interval_rates: tuple[Fraction, ...]
    confidence: float
    interval_epsilon: float
    ordered: bool = False

    @property
    def width(self) -> int:
        """A quantile, and the two ends of its interval."""
        return 3 if self.interval_rates else 1

    def draw(self, truths: Sequence[Coordinates], bits: Bits) -> list[list[Draw]]:
        """Quantiles, each by a draw of its own, and by two more for its interval."""
        return [[self._draw(truth, at, bits) for at in range(len(self.levels))] for truth in truths]

    def _draw(self, truth: Coordinates, at: int, bits: Bits) -> Draw:
        grid, level = self.grid, self.levels[at]
        scores = exponential.scores(truth, level)
        weights = exponential.weights([scores[place] for place in grid.candidates], self.rates[at])
        drawn = grid.points[grid.candidates[exponential.draw(weights, bits)]]
        if not self.interval_rates:
            return (drawn,)
        rate = self.interval_rates[at]
        return (drawn, *draw_interval(grid, truth, level, rate=rate, confidence=self.confidence, bits=bits))

    def can_draw(self, *draws: Draw) -> bool:
        """Whether all draws have points of the grid that may be published, and ends that their intervals can have."""
        return all(len(draw) == self.width for draw in draws) and all(
            each in some for draw in draws for each, some in zip(draw, self._drawable, strict=False)
        )

    @cached_property
    def _drawable(self) -> tuple[frozenset[float], ...]:
        drawn = frozenset(self.grid.points[at] for at in self.grid.candidates)
        return (drawn, *map(frozenset, interval_ends(self.grid)))

    def read(self, draws: Sequence[Sequence[Draw]]) -> list[list[Reading]]:
        """Quantiles with their intervals, or the hull of the support for one, and their rank errors."""
        hull = self.grid.support.hull

        def readings(group: Sequence[Draw]) -> list[Reading]:
            values = [draw[0] for draw in group]
            values = sorted(values) if self.ordered else values
            ends = (draw[1:] or (hull.lower, hull.upper) for draw in group)
            return [
                Reading(values=(value,), intervals=((lower, upper),), rank_error=error)
                for value, (lower, upper), error in zip(values, ends, self._rank_errors, strict=True)
            ]

        return [readings(group) for group in draws]

    @cached_property
    def _rank_errors(self) -> list[float]:
        count, confidence = len(self.grid.candidates), self.confidence
        if not self.ordered:
            return [exponential.rank_error(count, rate, confidence) for rate in self.rates]
        together = 1.0 - (1.0 - confidence) / len(self.levels)
        return [max(exponential.rank_error(count, rate, together) for rate in self.rates)] * len(self.levels)

    @property
    def rank_error(self) -> float:
        """The most rows between a published quantile and the true one, with the probability of the intervals."""
        return max(self._rank_errors)

    def expected_error(self, scale: float = 1.0, form: str = "") -> str:
        """In rows: between the number and the quantile, and to either side of the interval; `scale` does not matter."""
        most = arguments.counted(f"{self.rank_error:.4g}", "row")
        interval = "its interval is the whole support"
        if self.interval_rates:
            aim = max(margin(len(self.grid.candidates), rate, self.confidence) for rate in self.interval_rates)
            interval = (
                f"its interval, for epsilon {arguments.upwards(self.interval_epsilon, 4)} an end, aims at "
                f"{arguments.counted(f'{float(aim):.4g}', 'row')} to either side "
                "and ends where the support does if there are fewer"
            )
        return f"at most {most} between it and the quantile, with probability {self.confidence:g}; {interval}"

    @property
    def mse(self) -> float:
        """The scale of the rank errors, squared, of all levels on average: how far off they are is proportional."""
        return sum(float(1 / rate) ** 2 for rate in self.rates) / len(self.rates)

    def check(self, found: Sensitivity, share: BudgetShare) -> None:
        """Refuse a rate that is too large for its part of the share.

        The privacy loss of the quantile, and that of each end of its interval, with all that rounding adds to them,
        must be at most what the share has for it, in exact arithmetic.
        """
        ends = self.interval_rates or (None,) * len(self.levels)
        for level, rate, end in zip(self.levels, self.rates, ends, strict=True):
            loss = exponential.privacy_loss(level, found.cell, rate)
            other = Fraction(0) if end is None else exponential.privacy_loss(level, found.cell, end)
            private = loss <= Fraction(share.drawn) and other <= Fraction(share.end)
            demand(private, "has an exponential mechanism that is less private than it says")


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

    loss = LossForm.RANGE

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
            points=asked.points, borders=asked.borders, bounds=asked.bounds, support=asked.allowed, whole=asked.dated
        )

    def publisher(self, found: Sensitivity, share: BudgetShare, *, level: float, columns: Columns) -> Publisher:
        """The exponential mechanism for each level, and for both ends of its interval.

        Guarantee: each quantile with its interval is private at the share.
        Edge cases: a support without a point of the grid is refused.
        """
        grid, levels = self.grid, tuple(self.question.asked)
        if not grid.candidates:
            raise PlanError("support: holds no point of the grid; take a finer step", field="support")
        return QuantilePublisher(
            grid=grid,
            levels=levels,
            rates=tuple(exponential.rate(each, found.cell, share.drawn) for each in levels),
            interval_rates=tuple(exponential.rate(each, found.cell, share.end) for each in levels if share.end),
            confidence=level,
            interval_epsilon=share.end,
            ordered=self.question.ordered,
        )

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


DOUBT = 0.05
"""How seldom an end may pass its quantile, times two."""


def aim(places: int, rate: Fraction) -> Fraction:
    """By how many units an end is aimed inwards of its quantile, where counts have this many places."""
    return margin(places + 1, rate, 1.0 - DOUBT)


def draw_place(counts: Sequence[Fraction], level: Fraction, rate: Fraction, bits: Bits) -> int | None:
    """A place that passes the quantile with probability 2.5 % at most; None for what is below all places."""
    drawn = draw_aimed([Fraction(0), *counts], Fraction(float(level)), aim(len(counts), rate), rate, bits)
    return drawn - 1 if drawn else None


def draw_ends(counts: Sequence[Fraction], edges: int, rate: Fraction, bits: Bits) -> tuple[int, int]:
    """The edges around what lies between the two places drawn, the lower and the upper one.

    `counts` are units by place: 2 i + 1 is edge i itself, 2 i what lies between the edges i - 1 and i.
    Edge cases: an aim beyond all units gives the first edge for the upper end, the last one for the lower.
    """
    upper = draw_place(counts, COVER, rate, bits)
    back = draw_place(counts[::-1], COVER, rate, bits)
    low = edges - 1 if back is None else max(len(counts) - 2 - back, 0) // 2
    return low, 0 if upper is None else min(upper // 2, edges - 1)


@dataclass(frozen=True, kw_only=True)
class RangePublisher(ExponentialPublisher):
    """The two ends of a range, each drawn at `rate` among `edges` and put in order when they are read."""

    edges: tuple[float, ...]
    rate: Fraction
    confidence: float

    def draw(self, truths: Sequence[Coordinates], bits: Bits) -> list[list[Draw]]:
        found = [draw_ends(truth, len(self.edges), self.rate, bits) for truth in truths]
        return [[(self.edges[low],), (self.edges[high],)] for low, high in found]

    def can_draw(self, *draws: Draw) -> bool:
        return all(len(draw) == 1 and draw[0] in self.edges for draw in draws)

    def read(self, draws: Sequence[Sequence[Draw]]) -> list[list[Reading]]:
        """The ends in order, with the whole grid for an interval, and how many units more may lie outside."""
        hull, error = (self.edges[0], self.edges[-1]), self._rank_error
        return [
            [Reading(values=value, intervals=(hull,), rank_error=error) for value in sorted(group)] for group in draws
        ]

    @property
    def _rank_error(self) -> float:
        """How many units beside 2 % of them lie beyond each end, at most, at the confidence for both ends together.

        The place that is drawn has a score of at most ln(2 places / (1 - confidence)) / rate units then, and its aim
        lies `aim` units inwards of the quantile.
        """
        places = 2 * len(self.edges) + 1
        together = 1.0 - (1.0 - self.confidence) / 2
        return float(aim(places, self.rate)) + exponential.rank_error(places + 1, self.rate, together)

    def expected_error(self, scale: float = 1.0, form: str = "") -> str:
        """In units, whatever the `scale`: how many of them may lie outside."""
        most = arguments.counted(f"{self._rank_error:.4g}", "unit")
        return (
            f"beyond each end lie at most {float(100 * (1 - COVER)):g} % of the units and {most} more, "
            f"with probability {self.confidence:g}; with too few units the range is as wide as the grid"
        )

    @property
    def mse(self) -> float:
        """The scale of the errors in units, squared: how far off they are is proportional."""
        return float(1 / self.rate) ** 2

    def check(self, found: Sensitivity, share: BudgetShare) -> None:
        """Refuse a rate that is too large for its part of the share, in exact arithmetic with what rounding adds."""
        private = exponential.privacy_loss(float(COVER), found.cell, self.rate) <= Fraction(share.drawn)
        demand(private, "has an exponential mechanism that is less private than it says")


@dataclass(frozen=True)
class EdgesForm(Form):
    """Both ends of a range out of public edges, each by the exponential mechanism, without an interval."""

    question: Bounds

    loss, draws = LossForm.RANGE, 2  # the scores are those of a quantile, and every unit is in both

    def publisher(self, found: Sensitivity, share: BudgetShare, *, level: float, columns: Columns) -> Publisher:
        """The exponential mechanism for each end, private at the share."""
        rate = exponential.rate(float(COVER), found.cell, share.drawn)
        return RangePublisher(edges=self.question.edges, rate=rate, confidence=level)

    @property
    def effort(self) -> tuple[Hashable, float]:
        """The grid is made again, in one step: edges are public and few."""
        return self.question.name, 1.0
