"""The distribution of a published number on a lattice: atoms whose probabilities are doubles."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rangebound.laws.atomic_law import AtomicLaw, interval_ends, probabilities
from rangebound.values.array_types import Floats


@dataclass(frozen=True, eq=False)
class LatticeLaw(AtomicLaw):
    """The distribution of a published number that has atoms alone, at one true answer or at an array of them.

    `points` are in rising order, and `chances` has their probabilities on the last axis. The methods are those of
    `rangebound.Law` and broadcast in the same way.

    Guarantee: probabilities are those of the law to 1e-14; on an unbounded lattice, points that have less than 1e-20
    in all are left out.

    >>> law = LatticeLaw(np.array([0.0, 1.0]), np.array([0.75, 0.25]))
    >>> float(law.cdf(0.5)), float(law.mean), float(law.quantile(0.8))
    (0.75, 0.25, 1.0)
    """

    points: Floats
    chances: Floats = field(repr=False)  # follow from the true answer: no message or log shows them

    @property
    def atoms(self) -> tuple[Floats, Floats]:
        """The points that can be published and their probabilities (on the last axis)."""
        return self.points, self.chances

    @property
    def answers_shape(self) -> tuple[int, ...]:
        """The shape of the array of true answers; () for one."""
        return self.chances.shape[:-1]

    def mass(self, lower: npt.ArrayLike, upper: npt.ArrayLike) -> Floats:
        """Probability of the closed interval [lower, upper]."""
        low, high = interval_ends(lower, upper)
        shape = np.broadcast_shapes(low.shape, self.chances.shape[:-1])
        inside = (self.points >= low[..., None]) & (self.points <= high[..., None])
        found: Floats = np.where(inside, np.broadcast_to(self.chances, (*shape, len(self.points))), 0.0).sum(axis=-1)
        return np.minimum(found, 1.0)

    def quantile(self, probability: npt.ArrayLike) -> Floats:
        """The smallest x whose cdf is at least `probability`, up to the rounding of sums of probabilities.

        Edge cases: a probability outside [0, 1] is refused.
        """
        chance = probabilities(probability)
        below = (self._below < chance[..., None]).sum(axis=-1)
        found: Floats = self.points[np.minimum(below, len(self.points) - 1)]
        return found

    @cached_property
    def _below(self) -> Floats:
        return np.cumsum(self.chances, axis=-1)

    @property
    def mean(self) -> Floats:
        """Expectation of the published number."""
        found: Floats = (self.chances * self.points).sum(axis=-1)
        return found

    @property
    def variance(self) -> Floats:
        """Variance of the published number."""
        found: Floats = (self.chances * (self.points - self.mean[..., None]) ** 2).sum(axis=-1)
        return found
