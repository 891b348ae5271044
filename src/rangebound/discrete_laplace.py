"""Whole-number noise for counts: two-sided geometric, clamped, drawn exactly.

Rounding continuous noise to whole numbers adds a twelfth to its variance; noise that is whole from the start does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb, fmpq

from rangebound import arguments
from rangebound.ball import precision, up
from rangebound.errors import ArgumentError
from rangebound.numeric import rounded_up
from rangebound.support import Interval

Bits = Callable[[int], int]
Floats = npt.NDArray[np.float64]

_FIRST, _MORE, _GUARD = 128, 64, 128  # bits of the first comparison, of every further one, and of precision beyond


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplace:
    """A whole number plus noise X with P(X = k) proportional to e^(-|k| / scale), clamped to the ends of `support`.

    Guarantee: (sensitivity / scale)-private for whole true answers, in pure form, since neighbours differ by whole
    numbers and clamping is post-processing [ghosh2012].

    >>> DiscreteLaplace(scale=1.0, sensitivity=1, support=Interval(0, math.inf)).epsilon()
    1.0
    """

    scale: float
    sensitivity: int
    support: Interval

    def __post_init__(self) -> None:
        arguments.positive("scale", self.scale)
        arguments.instance("support", self.support, Interval, "an Interval")
        if self.sensitivity < 1:
            raise ArgumentError(f"sensitivity={arguments.shown(self.sensitivity)}: must be a whole number from 1")

    @classmethod
    def calibrated(cls, *, sensitivity: int, epsilon: float, support: Interval) -> DiscreteLaplace:
        """The mechanism with the smallest scale that is epsilon-private.

        Guarantee: sensitivity / scale <= epsilon, exactly.

        >>> DiscreteLaplace.calibrated(sensitivity=1, epsilon=0.5, support=Interval(0, math.inf)).scale
        2.0
        """
        scale = rounded_up(Fraction(sensitivity) / Fraction(arguments.positive("epsilon", epsilon)))
        return cls(scale=scale, sensitivity=sensitivity, support=support)

    def epsilon(self) -> float:
        """What it gives away, rounded up."""
        return up(arb(self.sensitivity) / arb(self.scale))

    def is_private(self, epsilon: float) -> bool:
        """Whether it is epsilon-private, exactly."""
        return self.sensitivity <= Fraction(self.scale) * Fraction(epsilon)

    @property
    def mse(self) -> float:
        """The mean squared error far from the ends: 2 r / (1 - r)^2, r = e^(-1/scale); clamping makes it no larger."""
        return 0.5 / math.sinh(0.5 / self.scale) ** 2

    def reach(self, level: float) -> float:
        """The smallest k with |X| <= k at probability `level`, or one more: P(|X| > k) = 2 r^(k+1) / (1 + r)."""
        r = math.exp(-1.0 / self.scale)
        return max(0.0, math.ceil(-self.scale * math.log((1.0 - level) * (1.0 + r) / 2.0) - 1.0 + 1e-9))

    def release(self, answers: Floats, bits: Bits) -> Floats:
        """One draw for each whole true answer, with secure `bits`.

        The sum is of whole numbers and becomes a double at the end: rounding, like clamping, is then post-processing.
        """
        drawn = [int(each) + magnitude(self.scale, bits) * (1 - 2 * bits(1)) for each in answers.flat]
        doubles = np.array([float(each) for each in drawn], dtype=np.float64).reshape(answers.shape)
        return np.clip(doubles, self.support.lower, self.support.upper)

    def can_draw(self, value: float) -> bool:
        """Whether a number can be drawn: a whole one in the support, or one of its ends; no negative zero."""
        inside = math.isfinite(value) and self.support.lower <= value <= self.support.upper
        return inside and value == math.floor(value) and str(value) != "-0.0"

    def to_dict(self) -> dict[str, Any]:
        """The mechanism as plain data."""
        ends = [each if math.isfinite(each) else str(each) for each in (self.support.lower, self.support.upper)]
        return {"geometric": {"scale": self.scale, "sensitivity": self.sensitivity, "support": ends}}


def magnitude(scale: float, bits: Bits) -> int:
    """|X| drawn exactly: floor(-scale ln(u (1 + r) / 2)), not below 0, for a uniform u that is known as far as needed.

    u lies between two neighbouring fractions of 2^n; if both give the same whole number in ball arithmetic, that is the
    answer, else more bits of u are drawn.
    """
    size, known = _FIRST, bits(_FIRST)
    while True:
        with precision(size + _GUARD):
            rate = 1 / arb(scale)
            half = ((1 + (-rate).exp()) / 2).log()
            found = {_floor(known + end, size, half, rate) for end in (0, 1)}
        if len(found) == 1 and None not in found:
            (only,) = found
            assert only is not None
            return max(only, 0)
        size, known = size + _MORE, known << _MORE | bits(_MORE)


def _floor(numerator: int, size: int, half: Any, rate: Any) -> int | None:
    """The whole number below -(ln u + half) / rate, if the ball around it has just one."""
    if numerator == 0:
        return None
    value = -(arb(fmpq(numerator, 1 << size)).log() + half) / rate
    low, high = value.lower().floor(), value.upper().floor()
    return int(str(low.unique_fmpz())) if low == high else None
