"""Points of a grid by their ranks: quantiles by the exponential mechanism, and noisy counts around them.

The interval of a quantile: after the quantiles of a group are drawn, the rows are counted once, with noise, in cells
that are narrow next to each of them and twice as wide with each step away. The noise of these counts has a known law,
and by it the interval has all cells in which the quantile may lie. Cells are disjoint, so that a row is in one of them:
all levels of a question share one measurement, and none is divided by the number of levels or of cells.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np

from rangebound.errors import PlanError
from rangebound.privacy.gdp import bounded_range_epsilon, mu_of_bounded_range
from rangebound.release.noise import exponential_mechanism as exponential
from rangebound.release.noise.allocation import BudgetShare, LossForm, demand
from rangebound.release.noise.draw import (
    Bits,
    Columns,
    Coordinates,
    Draw,
    Estimate,
    Form,
    Publisher,
    Reading,
    held,
    roundest,
)
from rangebound.release.noise.exponential_mechanism import ExponentialPublisher, QuantileGrid, interval_between
from rangebound.release.noise.joint_loss import JointLoss, NoiseAccount
from rangebound.release.noise.noisy_ranks import GRAIN, NoisyRanks, cells_reach, cut_around, most_cells
from rangebound.release.noise.strategies.strategy import LatticeNoise, admits, published, wholes
from rangebound.release.plan.fields import written
from rangebound.release.plan.kinds.facts import SampledCounts
from rangebound.release.plan.kinds.ranks import RankKind
from rangebound.release.plan.statistic import Pair, Sensitivity
from rangebound.values import arguments
from rangebound.values.numeric import root_down, rounded_down, rounded_up

_POINTS = 1000  # of a grid that are made again in one step of a certificate's check
_WIDEST = 2.0**44  # the largest scale of Gaussian noise on a lattice, in grains
_KEPT = 1 - Fraction(1, 2**40)  # of a square of mu that is turned into an epsilon and back, each rounded


@dataclass(frozen=True, kw_only=True)
class QuantilePublisher(ExponentialPublisher):
    """The quantiles at `levels`, each drawn on the grid at its rate, and then noisy counts in cells around them all.

    Each draw costs `drawn`, an epsilon, and the counts `counted`: in a Gaussian account the square of their mu for all
    groups together, else their epsilon in one group. Without `noise` there are no counts, and no interval but the whole
    support. The numbers of a group are put in order when they are read, and so are the ends of intervals. While all
    rank errors of a group hold, that moves no number farther from its quantile than the largest of them; they are
    stated so that all hold together.
    """

    grid: QuantileGrid
    levels: tuple[float, ...]
    rates: tuple[Fraction, ...]
    confidence: float
    drawn: float
    counted: Fraction = Fraction(0)
    noise: LatticeNoise | None = None

    @property
    def width(self) -> int:
        """A place, and its part of the counts, at most."""
        return 1 + (-(-self._most_cells // len(self.levels)) if self.noise else 0)

    @property
    def _most_cells(self) -> int:
        return most_cells(len(self.levels), len(self.grid.points))

    def draw(self, truths: Sequence[Coordinates], bits: Bits) -> list[list[Draw]]:
        return [self._draw(truth, bits) for truth in truths]

    def _draw(self, truth: Coordinates, bits: Bits) -> list[Draw]:
        places = []
        for level, rate in zip(self.levels, self.rates, strict=True):
            scores = exponential.scores(truth, level)
            weights = exponential.weights([scores[place] for place in self.grid.candidates], rate)
            places.append(self.grid.candidates[exponential.draw(weights, bits)])
        found: list[float] = []
        if self.noise is not None:
            cells = pairwise(cut_around(places, len(truth)))
            exact = [math.floor(sum(truth[low:high], Fraction(0)) / GRAIN) for low, high in cells]
            found = published(self.noise.measured(wholes(exact), bits), self.noise.step).tolist()
        return self._split(places, found)

    def _split(self, places: Sequence[int], counts: Sequence[float]) -> list[Draw]:
        """A draw for every level, each with its part of the counts, in order."""
        size, points = -(-len(counts) // len(places)), self.grid.points
        return [(points[at], *counts[size * level : size * (level + 1)]) for level, at in enumerate(places)]

    @cached_property
    def _places(self) -> dict[float, int]:
        return {self.grid.points[at]: at for at in self.grid.candidates}

    def can_draw(self, *draws: Draw) -> bool:
        """Whether all draws have points of the grid that may be published, and as many counts as cells around them."""
        size = len(self.levels)
        groups = [draws[at : at + size] for at in range(0, len(draws), size)]
        return len(draws) % size == 0 and all(self._can_draw(group) for group in groups)

    def _can_draw(self, group: Sequence[Draw]) -> bool:
        if any(not draw or draw[0] not in self._places for draw in group):
            return False
        places, counts = [self._places[draw[0]] for draw in group], [each for draw in group for each in draw[1:]]
        cells = len(cut_around(places, len(self.grid.points))) - 1 if self.noise else 0
        same = len(counts) == cells and self._split(places, counts) == list(group)
        return same and (self.noise is None or admits(np.array(counts), self.noise.step))

    def read(self, draws: Sequence[Sequence[Draw]]) -> list[list[Reading]]:
        return [self._read(group) for group in draws]

    def _read(self, group: Sequence[Draw]) -> list[Reading]:
        grid, hull = self.grid, self.grid.support.hull
        drawn = [self._places[draw[0]] for draw in group]
        places, ends, errors = drawn, [(hull.lower, hull.upper)] * len(drawn), list(self._rank_errors)
        if self.noise is not None:
            ranks = [self._ranks(group, level) for level in self.levels]
            cuts = ranks[0].cuts
            if self._follow_counts:
                near = [own.place(at, rate) for own, at, rate in zip(ranks, drawn, self.rates, strict=True)]
                places = [min(grid.candidates, key=lambda at: abs(at - place)) for place in near]
            cells = [own.cells(self.confidence) for own in ranks]
            ends = [interval_between(grid, cuts[first], cuts[last + 1]) for first, last in cells]
            moved = zip(ranks, places, drawn, errors, strict=True)
            errors = [own.rank_error(at, self._together) if at != old else most for own, at, old, most in moved]
        return [
            Reading(values=(grid.points[at],), intervals=(own,), rank_error=max(errors))
            for at, own in zip(sorted(places), _rising(ends), strict=True)
        ]

    def of_population(self, group: Sequence[Draw], sampled: SampledCounts, confidence: float) -> list[Pair]:
        """The intervals for the quantiles of the population, of all draws of a group; the whole support without counts.

        Guarantee: each holds its quantile with probability `confidence` or more, for any number of rows, moved into the
        support; see `noisy_ranks`.
        """
        hull = self.grid.support.hull
        if self.noise is None:
            return [(hull.lower, hull.upper)] * len(group)
        ranks = [self._ranks(group, level) for level in self.levels]
        cells = [own.cells_of_population(confidence, sampled, self._most_cells) for own in ranks]
        cuts = ranks[0].cuts
        return _rising([interval_between(self.grid, cuts[first], cuts[last + 1]) for first, last in cells])

    def _ranks(self, group: Sequence[Draw], level: float) -> NoisyRanks:
        assert self.noise is not None
        cuts = cut_around([self._places[draw[0]] for draw in group], len(self.grid.points))
        rows = np.array([each for draw in group for each in draw[1:]]) * float(GRAIN)
        return NoisyRanks(cuts=cuts, rows=rows, level=level, noise=self.noise)

    def spreads(self, group: Sequence[Draw]) -> list[float]:
        """How wide an interval of each number of a group may be that does not make it uncertain; 0 without counts.

        As the quartiles are apart, about. Any, if the rank of the draw is off by a sixth of the rows on the nearer
        side of the quantile or less, root mean squared.
        """
        if self.noise is None:
            return [0.0] * len(self.levels)
        low, high = (self._ranks(group, level) for level in (0.25, 0.75))
        lower, upper = (own.place(0, Fraction(1, 2**60)) for own in (low, high))
        apart, part = self.grid.points[upper] - self.grid.points[lower], float(low.rows.sum()) / 6.0 / math.sqrt(2.0)
        pairs = zip(self.rates, self.levels, strict=True)
        return [math.inf if float(rate) * part * min(level, 1.0 - level) >= 1.0 else apart for rate, level in pairs]

    @property
    def _together(self) -> float:
        """What each rank error of a group holds with, so that all do: as drawn, and of several levels as read."""
        return 1.0 - (1.0 - self.confidence) / (len(self.levels) * (2 if self._follow_counts else 1))

    @property
    def _follow_counts(self) -> bool:
        """Whether numbers follow from draws and counts: of several levels. A single draw has less noise than they."""
        return self.noise is not None and len(self.levels) > 1

    @cached_property
    def _rank_errors(self) -> list[float]:
        return [exponential.rank_error(len(self.grid.candidates), rate, self._together) for rate in self.rates]

    @property
    def rank_error(self) -> float:
        """The most rows between a drawn quantile and the true one, with the probability of the intervals."""
        return max(self._rank_errors)

    def expected_error(self, scale: float = 1.0, form: str = "") -> str:
        """In rows, whatever the `scale`: between the number and the quantile, and to either side of the interval."""
        most, interval = arguments.counted(f"{self.rank_error:.4g}", "row"), "its interval is the whole support"
        if self.noise is not None:
            rows = math.sqrt(self._most_cells * self.noise.variance) * float(GRAIN)
            interval = f"its interval has about {rows:.3g} rows on either side, or fewer"
        return f"at most {most} between it and the quantile, with probability {self.confidence:g}; {interval}"

    @property
    def mse(self) -> float:
        """The scale of the rank errors, squared, of all levels on average: how far off they are is proportional."""
        return sum(float(1 / rate) ** 2 for rate in self.rates) / len(self.rates)

    def words(self) -> str:
        if self.noise is None:
            return "exponential mechanism"
        family = "Gaussian" if self.noise.account is NoiseAccount.GAUSSIAN else "geometric"
        rows = self.noise.scale * float(GRAIN)
        return f"exponential mechanism, and counts around it with {family} noise of {rows:.4g} rows"

    def to_dict(self) -> dict[str, object] | str:  # type: ignore[override]
        """Its name, and the noise of the counts: all else follows from the plan."""
        if self.noise is None:
            return super().to_dict()
        noise = {"account": self.noise.account.value, "scale": self.noise.scale, "grain": float(GRAIN)}
        return {"exponential": {"counts": noise}}

    def loss(self, share: BudgetShare) -> JointLoss:
        """That of the draws, whose losses lie in an interval each, and that of the counts, pure or Gaussian.

        Which cells are counted follows from the draws: each part is private whatever came before, so they compose.
        """
        if share.mu:
            return share.apart
        steps, numbers = 2 if share.twice else 1, share.groups * share.parts
        return JointLoss(
            pure=((steps * self.counted, -(-share.groups // steps)),) if self.counted else (),
            square=Fraction(mu_of_bounded_range(self.drawn)) ** 2 * numbers * steps,
            epsilon=Fraction(self.drawn) * numbers + self.counted * share.groups,
        )

    def check(self, found: Sensitivity, share: BudgetShare) -> None:
        """Refuse a rate or noise that costs more than is said, or more than the share has."""
        otherwise = "has an exponential mechanism that is less private than it says, or its counts are"
        for level, rate in zip(self.levels, self.rates, strict=True):
            demand(exponential.privacy_loss(level, found.cell, rate) <= Fraction(self.drawn), otherwise)
        steps, numbers = 2 if share.twice else 1, share.groups * share.parts
        if self.noise is not None:
            reach = cells_reach(found, self._most_cells, gaussian=bool(share.mu))
            counted = reach / Fraction(self.noise.scale)
            pure = self.noise.account is NoiseAccount.PURE
            demand(pure is not bool(share.mu), "has noise of another account than its share")
            demand((counted if pure else counted**2) <= self.counted, otherwise)
        if share.mu:
            square = Fraction(mu_of_bounded_range(self.drawn)) ** 2 * numbers * steps + self.counted
            demand(square <= Fraction(share.mu) ** 2, otherwise)
        else:
            spent = Fraction(self.drawn) * share.parts + self.counted
            demand(spent <= Fraction(share.epsilon) * share.parts, otherwise)


def _rising(ends: Sequence[Pair]) -> list[Pair]:
    """Intervals of numbers that rise, widened until both of their ends rise."""
    lowest = list(accumulate((low for low, _ in reversed(ends)), min))[::-1]
    return list(zip(lowest, accumulate((high for _, high in ends), max), strict=True))


@dataclass(frozen=True, kw_only=True)
class EarlierQuantiles(QuantilePublisher):
    """Quantiles as earlier versions drew them: each with both ends of its interval by exponential mechanisms.

    Their tables are read and checked. Without `interval_rates` none has an interval. With `ordered` the numbers of a
    group are put in order, and rank errors hold together.
    """

    interval_rates: tuple[Fraction, ...]
    ordered: bool

    @property
    def width(self) -> int:
        """A quantile, and the two ends of its interval."""
        return 3 if self.interval_rates else 1

    def draw(self, truths: Sequence[Coordinates], bits: Bits) -> list[list[Draw]]:
        raise AssertionError("drawn by earlier versions alone")

    def can_draw(self, *draws: Draw) -> bool:
        """Whether all draws have points of the grid that may be published, and ends that their intervals can have."""
        return all(len(draw) == self.width for draw in draws) and all(
            each in some for draw in draws for each, some in zip(draw, self._drawable, strict=False)
        )

    @cached_property
    def _drawable(self) -> tuple[frozenset[float], ...]:
        grid, hull = self.grid, self.grid.support.hull
        lower, upper = zip(*(interval_between(grid, at, at + 1) for at in grid.candidates), strict=True)
        return frozenset(self._places), frozenset((hull.lower, *lower)), frozenset((hull.upper, *upper))

    def read(self, draws: Sequence[Sequence[Draw]]) -> list[list[Reading]]:
        hull = self.grid.support.hull
        ends, errors = (hull.lower, hull.upper), self._rank_errors
        errors = [max(errors)] * len(errors) if self.ordered else errors
        return [
            [
                Reading(values=value[:1], intervals=((own[1], own[2]) if own[1:] else ends,), rank_error=error)
                for value, own, error in zip(sorted(group) if self.ordered else group, group, errors, strict=True)
            ]
            for group in draws
        ]

    @property
    def _together(self) -> float:
        return 1.0 - (1.0 - self.confidence) / (len(self.levels) if self.ordered else 1)

    def loss(self, share: BudgetShare) -> JointLoss:
        return share.apart

    def check(self, found: Sensitivity, share: BudgetShare) -> None:
        """Refuse a rate that is too large for its part of the share, that of the quantile or that of each end."""
        ends = self.interval_rates or (None,) * len(self.levels)
        for level, rate, end in zip(self.levels, self.rates, ends, strict=True):
            loss = exponential.privacy_loss(level, found.cell, rate)
            other = Fraction(0) if end is None else exponential.privacy_loss(level, found.cell, end)
            private = loss <= Fraction(share.drawn) and other <= Fraction(share.end)
            demand(private, "has an exponential mechanism that is less private than it says")


@dataclass(frozen=True)
class RankForm(Form):
    """Points of a public grid by the exponential mechanism, with intervals by noisy counts around them."""

    question: RankKind
    is_earlier: bool = False
    """As earlier versions drew them: with intervals by two draws more for each quantile."""

    @property
    def loss(self) -> LossForm:
        return LossForm.RANGE if self.is_earlier else LossForm.GAUSSIAN

    @property
    def draws(self) -> int:
        """One for each level: every row is in all of them."""
        return len(self.question.asked)

    @property
    def earlier(self) -> Form:
        return self if self.is_earlier else replace(self, is_earlier=True)

    @property
    def interval_part(self) -> float:
        return self.question.interval_share if self.is_earlier else 0.0

    def excess_variance(self, found: Sensitivity, columns: Columns, *, gaussian: bool) -> float:
        """In a Gaussian account all levels share what one would have."""
        return float(self.draws) if gaussian and not self.is_earlier else 1.0

    @property
    def grid(self) -> QuantileGrid:
        """The points, and where an answer may be published."""
        asked = self.question
        found = QuantileGrid(
            points=asked.points, borders=asked.borders, bounds=asked.bounds, support=asked.allowed, whole=asked.dated
        )
        if not found.candidates:
            raise PlanError("support: holds no point of the grid; take a finer step", field="support")
        return found

    def publisher(self, found: Sensitivity, share: BudgetShare, *, level: float, columns: Columns) -> Publisher:
        """The exponential mechanism for each level, and counts around them all.

        Of one level the number is the draw, and the counts have the part p of the plan to the power of 4/5: a third by
        default. Numbers of k levels follow from the counts, too, and draws share the rest: 1 - (1 - sqrt(p)) / k^(1/4).

        Guarantee: all quantiles with their intervals are private at the share.
        Edge cases: with noise too large for doubles there are no counts, and an interval is the whole support.
        """
        grid, levels = self.grid, tuple(self.question.asked)
        if self.is_earlier:
            return EarlierQuantiles(
                grid=grid,
                levels=levels,
                rates=tuple(exponential.rate(each, found.cell, share.drawn) for each in levels),
                interval_rates=tuple(exponential.rate(each, found.cell, share.end) for each in levels if share.end),
                confidence=level,
                drawn=share.drawn,
                ordered=self.question.ordered,
            )
        gaussian, own = bool(share.mu), self.question.interval_share
        part = own**0.8 if len(levels) == 1 else 1.0 - (1.0 - math.sqrt(own)) / math.sqrt(math.sqrt(len(levels)))
        reach = cells_reach(found, most_cells(len(levels), len(grid.points)), gaussian=gaussian)
        whole = Fraction(share.mu) ** 2 if gaussian else Fraction(share.epsilon) * share.parts
        counted = Fraction(rounded_down(whole * Fraction(part))) if own else Fraction(0)
        size = root_down(counted) if gaussian else float(counted)
        scale = rounded_up(reach / Fraction(size)) if size else math.inf
        if not scale <= _WIDEST:
            counted = Fraction(0)
        if gaussian:
            numbers = share.groups * share.parts * (2 if share.twice else 1)
            drawn = bounded_range_epsilon(root_down(_KEPT * (whole - counted) / numbers))
        else:
            drawn = rounded_down((whole - counted) / share.parts)
        account = NoiseAccount.GAUSSIAN if gaussian else NoiseAccount.PURE
        return QuantilePublisher(
            grid=grid,
            levels=levels,
            rates=tuple(exponential.rate(each, found.cell, drawn) for each in levels),
            confidence=level,
            drawn=drawn,
            counted=counted,
            noise=LatticeNoise(account=account, scale=scale) if counted else None,
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
        """The nearest whole number, where all values are: no farther from the quantile, in rows; and whole ends.

        If a whole number counts at the point that was drawn, one that does was made of it. Else no row counts there,
        and b rows lie below: |b - r| of them between the point and the rank r. They lie below the next whole number,
        too, and at or below the one before: between either of these and the rank there are no more. An interval holds
        the values a row below the rank and above it, which are whole, and so do the whole numbers in it; those of
        earlier versions were left as they were.
        """
        value, lower, upper = float(round(found.value)), found.lower, found.upper
        if not self.is_earlier:
            lower, upper = float(math.ceil(lower)), float(math.floor(upper))
        return Estimate(value=value, lower=min(lower, value), upper=max(upper, value))
