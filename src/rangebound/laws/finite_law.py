"""The distribution of a number with finitely many values, in whole-number weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rangebound.laws.atomic_law import AtomicLaw, interval_ends, probabilities
from rangebound.values.array_types import Floats, Integers

_CHUNK = 1 << 18  # weights at a time


@dataclass(frozen=True, eq=False)
class FiniteLaw(AtomicLaw):
    """The distribution of a published number with finitely many values, at one true answer or at an array of them.

    `rows` says which row of `weights` is the law at each true answer; every row sums to `total`. The methods are those
    of `rangebound.Law` and broadcast in the same way; all the mass is in atoms, so there is no density.

    Guarantee: probabilities are exact, rounded to the nearest double.

    >>> law = FiniteLaw(np.array([0.0, 1.0]), np.array([[3, 1]]), 4, np.asarray(0))
    >>> law.atoms[1].tolist(), float(law.mean), float(law.quantile(0.8))
    ([0.75, 0.25], 0.25, 1.0)
    """

    points: Floats
    weights: Integers = field(repr=False)
    total: int
    rows: npt.NDArray[np.intp] = field(repr=False)  # follows from the true answer: no message or log shows it

    @property
    def atoms(self) -> tuple[Floats, Floats]:
        """The points that can be published and their probabilities (on the last axis)."""
        return self.points, self.weights[self.rows] / self.total

    @property
    def answers_shape(self) -> tuple[int, ...]:
        """The shape of the array of true answers; () for one."""
        return self.rows.shape

    def mass(self, lower: npt.ArrayLike, upper: npt.ArrayLike) -> Floats:
        """Probability of the closed interval [lower, upper]."""
        low, high = interval_ends(lower, upper)
        first = np.searchsorted(self.points, low, side="left")
        last = np.searchsorted(self.points, high, side="right")
        mass: Floats = (self._below[self.rows, last] - self._below[self.rows, first]) / self.total
        return mass

    def quantile(self, probability: npt.ArrayLike) -> Floats:
        """The smallest x whose cdf is at least `probability`: the smallest number that can be published at 0.

        Edge cases: a probability outside [0, 1] is refused.
        """
        chance = probabilities(probability)
        chance, rows = np.broadcast_arrays(chance, self.rows)
        # The product with a power of two is exact, so the comparison is one of whole numbers.
        wanted = np.maximum(np.ceil(chance * float(self.total)).astype(np.int64), 1).reshape(-1)
        flat = rows.reshape(-1)
        found = np.empty(len(flat), dtype=np.intp)
        step = max(_CHUNK // len(self.points), 1)
        for start in range(0, len(flat), step):
            here = slice(start, start + step)
            found[here] = (self._below[flat[here], 1:] < wanted[here, None]).sum(axis=1)
        return self.points[found].reshape(chance.shape)

    @property
    def mean(self) -> Floats:
        """Expectation of the published number."""
        return self._moments[0][self.rows]

    @property
    def variance(self) -> Floats:
        """Variance of the published number."""
        return self._moments[1][self.rows]

    @cached_property
    def _below(self) -> Integers:
        """Sums of the weights before each point and after the last, row by row."""
        return np.concatenate(
            [np.zeros((len(self.weights), 1), dtype=np.int64), np.cumsum(self.weights, axis=1)], axis=1
        )

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        """Mean and variance of each row, about a point in the middle so that nothing cancels."""
        chances = self.weights / self.total
        mean = (chances * self.points).sum(axis=1)
        return mean, (chances * (self.points - mean[:, None]) ** 2).sum(axis=1)
