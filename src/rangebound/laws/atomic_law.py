"""The laws that have atoms alone: a number with finitely many values in whole-number weights, and one on a lattice."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property

from rangebound.errors import ArgumentError
from rangebound.laws.boundings import Shape
from rangebound.values import arguments
from rangebound.values.array_types import Floats, Integers, np, npt


class AtomicLaw(ABC):
    """A law of a published number with finitely many values, at one true answer or at an array of them.

    The methods are those of `rangebound.Law` and broadcast in the same way.
    """

    points: Floats

    @property
    @abstractmethod
    def atoms(self) -> tuple[Floats, Floats]:
        """The points that can be published and their probabilities (on the last axis)."""

    @property
    @abstractmethod
    def answers_shape(self) -> tuple[int, ...]:
        """The shape of the array of true answers; () for one."""

    @abstractmethod
    def mass(self, lower: npt.ArrayLike, upper: npt.ArrayLike) -> Floats:
        """Probability of the closed interval [lower, upper]."""

    @property
    def shape(self) -> Shape:
        """The shape of the law: atoms at all points."""
        return Shape(points=tuple(self.points.tolist()))

    def pdf(self, x: npt.ArrayLike) -> Floats:
        """Density at `x`: zero, since an atom has none."""
        return np.zeros(np.broadcast_shapes(places("x", x).shape, self.answers_shape))

    def log_pdf(self, x: npt.ArrayLike) -> Floats:
        """log of the density at `x`: -inf, since an atom has none."""
        return np.full_like(self.pdf(x), -np.inf)

    def cdf(self, x: npt.ArrayLike) -> Floats:
        """Probability of a number at most `x`."""
        return self.mass(-np.inf, x)

    def sf(self, x: npt.ArrayLike) -> Floats:
        """Probability of a number at least `x`."""
        return self.mass(x, np.inf)


def interval_ends(lower: npt.ArrayLike, upper: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Both ends of intervals as arrays; ends in the wrong order are refused."""
    low, high = arguments.together(places("lower", lower), places("upper", upper))
    if (low > high).any():
        raise ArgumentError(f"lower={arguments.shown(lower)}, upper={arguments.shown(upper)}: must be in order")
    return low, high


def probabilities(values: npt.ArrayLike) -> Floats:
    """Probabilities as an array; one outside [0, 1] is refused."""
    chance = arguments.reals("probability", values)
    if ((chance < 0.0) | (chance > 1.0)).any():
        raise ArgumentError(f"probability={arguments.shown(values)}: must lie in [0, 1]")
    return chance


def places(name: str, value: npt.ArrayLike) -> Floats:
    """Positions on the line: infinities are valid here, NaN is not."""
    if isinstance(value, float):
        return np.asarray(arguments.real(name, value))
    return arguments.reals(name, value, infinite=True)


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
        return self.points, self.weights[self.rows] / self.total

    @property
    def answers_shape(self) -> tuple[int, ...]:
        return self.rows.shape

    def mass(self, lower: npt.ArrayLike, upper: npt.ArrayLike) -> Floats:
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
        return self.points, self.chances

    @property
    def answers_shape(self) -> tuple[int, ...]:
        return self.chances.shape[:-1]

    def mass(self, lower: npt.ArrayLike, upper: npt.ArrayLike) -> Floats:
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
