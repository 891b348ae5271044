"""The publisher of selected keys: the most frequent ones of a list, in order, by one joint exponential mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from rangebound.errors import CertificateInvalid
from rangebound.release.noise import joint_selection
from rangebound.release.noise.allocation import BudgetShare
from rangebound.release.noise.draw import Bits, Coordinates, Draw, Reading
from rangebound.release.noise.joint_loss import JointLoss
from rangebound.release.plan.statistic import Sensitivity
from rangebound.values import arguments
from rangebound.values.array_types import Floats
from rangebound.values.support import Interval, Union


@dataclass(frozen=True, kw_only=True)
class SelectionPublisher:
    """The `size` most frequent of `keys` keys, in order, drawn together at `rate`; a draw is the place of a key.

    The number that is published is the rank, or for a list of `points` that of the place. It has no interval but the
    whole `support`: how far it may be off is said in units, with probability `confidence` for all ranks together.
    """

    keys: int
    size: int
    rate: Fraction
    support: Interval
    confidence: float
    points: tuple[float, ...] = ()

    @property
    def width(self) -> int:
        """The place of a key."""
        return 1

    def draw(self, truths: Sequence[Coordinates], bits: Bits) -> list[list[Draw]]:
        """The ranks of each group by one draw."""
        return [self._draw(truth, bits) for truth in truths]

    def _draw(self, truth: Coordinates, bits: Bits) -> list[Draw]:
        counts = [each.numerator for each in truth]
        assert all(each.denominator == 1 for each in truth)  # a unit adds 0 or 1
        return [(float(at),) for at in joint_selection.draw(counts, self.size, self.rate, bits)]

    def can_draw(self, *draws: Draw) -> bool:
        """Whether each draw is the place of a key, and the ranks of a group have different keys."""
        places = [draw[0] for draw in draws if len(draw) == 1]
        known = len(places) == len(draws) and all(0 <= at < self.keys and at == int(at) for at in places)
        groups = [places[at : at + self.size] for at in range(0, len(places), self.size)]
        return known and all(len(set(each)) == self.size for each in groups)

    def read(self, draws: Sequence[Sequence[Draw]]) -> list[list[Reading]]:
        """The ranks, or the points of the places, with the whole support for an interval."""
        ends, error = (self.support.lower, self.support.upper), self._rank_error

        def reading(rank: int, draw: Draw) -> Reading:
            value = self.points[int(draw[0])] if self.points else float(rank)
            return Reading(values=(value,), intervals=(ends,), rank_error=error)

        return [[reading(rank, draw) for rank, draw in enumerate(group, 1)] for group in draws]

    @property
    def _rank_error(self) -> float:
        return joint_selection.rank_error(self.keys, self.size, self.rate, self.confidence)

    def bias(self, lower: Floats, upper: Floats, support: Interval | Union, step: float | None, *, whole: bool) -> None:
        """None: keys have no mean."""
        return

    def expected_error(self, scale: float = 1.0, form: str = "") -> str:
        """In units, whatever the `scale`: between the count of a key and that of its rank."""
        most, what = arguments.counted(f"{self._rank_error:.4g}", "unit"), "bin" if self.points else "key"
        if self.size == 1:
            best = f"the most frequent {what}"
            return f"its count is at most {most} below that of {best}, with probability {self.confidence:g}"
        return (
            f"the count of each {what} is at most {most} below the true one of its rank, "
            f"with probability {self.confidence:g} for all ranks together"
        )

    @property
    def half_width(self) -> float | None:
        """It has no interval."""
        return None

    def words(self) -> str:
        """Its name; published tables have these words."""
        return "joint exponential mechanism" if self.size > 1 else "exponential mechanism"

    def to_dict(self) -> str:
        """Its name: keys, ranks and rate follow from the plan."""
        return "joint exponential" if self.size > 1 else "exponential"

    @property
    def mse(self) -> float:
        """The scale of the errors in units, squared: how far off they are is proportional."""
        return float(1 / self.rate) ** 2

    def loss(self, share: BudgetShare) -> JointLoss:
        """That of the share: each group is drawn by itself."""
        return share.apart

    def check(self, found: Sensitivity, share: BudgetShare) -> None:
        """Refuse a rate that is too large for the share.

        The privacy loss of all ranks of a group, with all that rounding adds to it, must be at most what the share has,
        in exact arithmetic.
        """
        if joint_selection.privacy_loss(self.size, found.cell, self.rate) > Fraction(share.drawn):
            raise CertificateInvalid("has an exponential mechanism that is less private than it says")
