"""Questions whose answer is made of several noisy coordinates: none of them is published by itself."""

from __future__ import annotations

from collections.abc import Hashable

from rangebound.release.noise.allocation import LossForm
from rangebound.release.noise.draw import Draw
from rangebound.release.noise.estimate import farthest
from rangebound.release.noise.publishers import Publisher
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.unit import Unit
from rangebound.values.array_types import Floats


class DerivedKind(Kind):
    """A question that publishes what is made of several coordinates, which get noise together."""

    @property
    def parts(self) -> tuple[str, ...]:
        """One number, without a name."""
        return ("",)

    @property
    def draws(self) -> int:
        """One."""
        return 1

    @property
    def interval_part(self) -> float:
        """Nothing: the interval follows from the noise."""
        return 0.0

    @property
    def uses_delta(self) -> bool:
        """Not in plain sums: the noise is Laplace's."""
        return False

    @property
    def loss(self) -> LossForm:
        """That of Gaussian noise."""
        return LossForm.GAUSSIAN

    def unclamped_number(self, draws: Draw) -> float | None:
        """None: a ratio of noisy coordinates has a mean other than the ratio of their means, clamped or not."""
        return None

    def bias(self, publisher: Publisher, unit: Unit, lower: Floats, upper: Floats) -> Floats | None:
        """The farthest that a number in the support can be from a true answer in the interval.

        The published number lies in the support, whatever is drawn, and so does its mean. No better bound is known for
        a ratio of clamped noisy coordinates that holds at every number of rows.
        """
        return farthest(lower, upper, self.allowed)

    @property
    def effort(self) -> tuple[Hashable, float]:
        """None worth counting."""
        return self.name, 0.0
