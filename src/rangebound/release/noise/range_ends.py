"""Both ends of a range that is not known: two draws among public edges, aimed far inwards.

Each is aimed at a quantile of the units' values, so far inwards that it passes it with probability 2.5 % at most: a
range is rather too narrow than absurd.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from rangebound.release.noise import exponential_mechanism as exponential
from rangebound.release.noise.allocation import BudgetShare, LossForm, demand
from rangebound.release.noise.draw import Bits, Columns, Coordinates, Draw, Form, Publisher, Reading
from rangebound.release.noise.exponential_mechanism import ExponentialPublisher
from rangebound.release.noise.noisy_ranks import DEFINITIONS
from rangebound.release.plan.kinds.ranks import COVER, Bounds
from rangebound.release.plan.statistic import Sensitivity
from rangebound.values import arguments


def margin(places: int, rate: Fraction, confidence: float) -> Fraction:
    """How many rows outwards an end is aimed, to pass the quantile with probability (1 - confidence) / 2 at most.

    ln(2 places / (1 - confidence)) / rate, rounded up, and one row more.

    Guarantee: an end that passes the quantile has a score of ln(2 places / (1 - confidence)) / rate or more, while some
    point has a score of 0, so each of the `places` points that pass has at most e^-that of the whole weight.
    """
    logarithm = Fraction(math.log(2.0 * places / (1.0 - confidence))) * Fraction(2**30 + 1, 2**30)
    return Fraction(math.ceil(logarithm / rate * 1024), 1024) + DEFINITIONS


def draw_aimed(counts: Sequence[Fraction], level: Fraction, shift: Fraction, rate: Fraction, bits: Bits) -> int:
    """A place by how many rows lie between it and the rank level n - shift; the first stands for all below the others.

    Nothing lies below the first point, so an aim below all rows is met there: one point has a score of 0, for every
    table, an empty one too. One row more or less moves each score by at most max(level, 1 - level).
    """
    scores = exponential.scores(counts, level, shift, open_below=True)
    return exponential.draw(exponential.weights(scores, rate), bits)


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
