"""What the laws that have atoms alone share: no density, and all probabilities from those of closed intervals."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from rangebound.errors import ArgumentError
from rangebound.laws.shape import Shape
from rangebound.values import arguments
from rangebound.values.array_types import Floats


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
        return np.zeros(np.broadcast_shapes(_places("x", x).shape, self.answers_shape))

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
    low, high = arguments.together(_places("lower", lower), _places("upper", upper))
    if (low > high).any():
        raise ArgumentError(f"lower={arguments.shown(lower)}, upper={arguments.shown(upper)}: must be in order")
    return low, high


def probabilities(values: npt.ArrayLike) -> Floats:
    """Probabilities as an array; one outside [0, 1] is refused."""
    chance = arguments.reals("probability", values)
    if ((chance < 0.0) | (chance > 1.0)).any():
        raise ArgumentError(f"probability={arguments.shown(values)}: must lie in [0, 1]")
    return chance


def _places(name: str, value: npt.ArrayLike) -> Floats:
    return arguments.reals(name, value, infinite=True)
