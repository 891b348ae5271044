"""The publisher of quantiles: the exponential mechanism for each, and twice more for the interval of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from rangebound.errors import CertificateInvalid
from rangebound.release.noise import exponential_mechanism as exponential
from rangebound.release.noise.allocation import BudgetShare
from rangebound.release.noise.draw import Bits, Coordinates, Draw, Reading
from rangebound.release.noise.exponential_mechanism import QuantileGrid
from rangebound.release.noise.joint_loss import JointLoss
from rangebound.release.noise.quantile_interval import draw_interval, interval_ends, margin
from rangebound.release.plan.statistic import Sensitivity
from rangebound.values import arguments
from rangebound.values.array_types import Floats
from rangebound.values.support import Interval, Union


@dataclass(frozen=True, kw_only=True)
class QuantilePublisher:
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
        return (self.grid.published, *map(frozenset, interval_ends(self.grid)))

    def read(self, draws: Sequence[Sequence[Draw]]) -> list[list[Reading]]:
        """Quantiles with their intervals, or the hull of the support for one, and their rank errors."""
        hull = self.grid.support.hull
        errors = self._rank_errors

        def reading(draw: Draw, value: float, error: float) -> Reading:
            lower, upper = draw[1:] or (hull.lower, hull.upper)
            return Reading(values=(value,), intervals=((lower, upper),), rank_error=error)

        def readings(group: Sequence[Draw]) -> list[Reading]:
            values = [draw[0] for draw in group]
            values = sorted(values) if self.ordered else values
            return [reading(*each) for each in zip(group, values, errors, strict=True)]

        return [readings(group) for group in draws]

    @property
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

    def bias(self, lower: Floats, upper: Floats, support: Interval | Union, step: float | None, *, whole: bool) -> None:
        """Not known: how far a rank error moves a quantile depends on the rows near it, which are private."""
        return

    def expected_error(self, scale: float = 1.0, form: str = "") -> str:
        """In rows: between the number and the quantile, and to either side of the interval; `scale` does not matter."""
        most = arguments.counted(f"{self.rank_error:.4g}", "row")
        return (
            f"at most {most} between it and the quantile, with probability {self.confidence:g}; "
            f"{self._expected_interval()}"
        )

    def _expected_interval(self) -> str:
        if not self.interval_rates:
            return "its interval is the whole support"
        count = len(self.grid.candidates)
        aim = max(margin(count, rate, self.confidence) for rate in self.interval_rates)
        return (
            f"its interval, for epsilon {arguments.upwards(self.interval_epsilon, 4)} an end, aims at "
            f"{arguments.counted(f'{float(aim):.4g}', 'row')} to either side "
            "and ends where the support does if there are fewer"
        )

    @property
    def half_width(self) -> float | None:
        """The ends of an interval are drawn from the data."""
        return None

    def words(self) -> str:
        """Its name; published tables have these words."""
        return "exponential mechanism"

    def to_dict(self) -> str:
        """Its name: levels, grid and rates follow from the plan."""
        return "exponential"

    @property
    def mse(self) -> float:
        """The scale of the rank errors, squared, of all levels on average: how far off they are is proportional."""
        return sum(float(1 / rate) ** 2 for rate in self.rates) / len(self.rates)

    def loss(self, share: BudgetShare) -> JointLoss:
        """That of the share: each group is drawn by itself."""
        return share.apart

    def check(self, found: Sensitivity, share: BudgetShare) -> None:
        """Refuse a rate that is too large for its part of the share.

        The privacy loss of the quantile, and that of each end of its interval, with all that rounding adds to them,
        must be at most what the share has for it, in exact arithmetic.
        """
        ends = self.interval_rates or (None,) * len(self.levels)
        for level, rate, end in zip(self.levels, self.rates, ends, strict=True):
            loss = exponential.privacy_loss(level, found.cell, rate)
            other = Fraction(0) if end is None else exponential.privacy_loss(level, found.cell, end)
            if loss > Fraction(share.drawn) or other > Fraction(share.end):
                raise CertificateInvalid("has an exponential mechanism that is less private than it says")
