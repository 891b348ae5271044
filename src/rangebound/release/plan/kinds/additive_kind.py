"""Questions that publish noisy coordinates as they are: counts, sums, histograms. Their numbers can be unbiased."""

from __future__ import annotations

import numpy as np
from pydantic import model_validator

from rangebound.release.noise.draw import Draw
from rangebound.release.noise.estimate import farthest
from rangebound.release.noise.publishers import Publisher
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.kinds.whole_kind import WholeKind
from rangebound.release.plan.unit import Unit
from rangebound.values.array_types import Floats


class AdditiveKind(Kind):
    """A question whose numbers are exact coordinates with noise added, moved into the support.

    With `unbiased` the number before it was moved is published beside the one in the support, from the same draw. With
    `signed` it is the number itself: there is no support, and a count may be negative.
    """

    unbiased: bool | None = None
    signed: bool | None = None

    @model_validator(mode="after")
    def _unclamped_fits(self) -> AdditiveKind:
        if self.signed and self.support is not None:
            raise ValueError("signed: goes without a support; unbiased = true publishes the signed number beside it")
        return self

    @property
    def unclamped(self) -> bool:
        """Whether its noise has to be drawn without clamping or truncation."""
        return bool(self.unbiased or self.signed)

    def unclamped_number(self, draws: Draw) -> float | None:
        """The noisy coordinate before it was moved into the support, where the plan asks for it.

        Guarantee: its mean is the exact aggregate, but for rounding to the lattice of the draw, of which whole numbers
        with step 1 are points.
        """
        return draws[0] if self.unclamped else None

    def drawn_number(self, draws: Draw, mu: float) -> float | None:
        """The noisy coordinate of a draw, where it was drawn without clamping: asked for, or in a Gaussian account.

        `mu` is what the draw cost there, or 0 in plain sums. None where it was clamped or truncated when it was drawn.
        """
        return draws[0] if self.unclamped or (mu and not self.truncated_noise) else None

    @property
    def truncated_noise(self) -> bool:
        """Whether the plan names truncated noise."""
        return False

    def bias(self, publisher: Publisher, unit: Unit, lower: Floats, upper: Floats) -> Floats | None:
        """The bound of the publisher, in the support and on the step; no more than the support leaves room for."""
        support = self.published_in(unit)
        whole = isinstance(self, WholeKind) and self.is_whole
        found = publisher.bias(lower, upper, support, self.rounded_to, whole=whole)
        return None if found is None else np.minimum(found, farthest(lower, upper, support))

    @property
    def rounded_to(self) -> float | None:
        """The step that its numbers are rounded to."""
        return self.step
