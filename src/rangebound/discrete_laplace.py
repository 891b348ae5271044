"""Discrete Laplace noise: whole-number noise for counts, clamped to a support and drawn exactly.

Rounding continuous noise to whole numbers adds a twelfth to its variance; noise that is whole from the start does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb, fmpq

from rangebound import arguments
from rangebound.ball import Ball, precision, refine, up
from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.numeric import rounded_up
from rangebound.sampling.entropy import secure_bits
from rangebound.serial import number, parse_number
from rangebound.support import Interval
from rangebound.utility import Error

_LARGEST_SCALE = 1e150
_FAR = 350.0  # from here on the error is below 1e-300
Bits = Callable[[int], int]
Floats = npt.NDArray[np.float64]

_FIRST, _MORE, _GUARD = 128, 64, 128  # bits of the first comparison, of every further one, and of precision beyond
_LEAST = 2**64  # first bits from here on say a uniform number to 2^-64 of itself
_LOG_2 = math.log(2.0)
_SAFE = 2.0**-40  # doubles are off by far less: a logarithm, a sum and a product, each by a few times 2^-53
_LINE = Interval(-math.inf, math.inf)


@arguments.guided
@dataclass(frozen=True, kw_only=True)
class DiscreteLaplace:
    """A whole number plus noise X with P(X = k) proportional to e^(-|k| / scale), clamped to the ends of `support`.

    The noise is also called two-sided geometric. The true answer is a whole number, which a unit moves by at most
    `sensitivity`; it may lie outside the support.

    Guarantee: (sensitivity / scale)-private, in pure form, since neighbouring answers differ by whole numbers and
    clamping is post-processing [ghosh2012]. Privacy numbers are exact for the clamped law and rounded to the safe side.
    Assumes: true answers are whole numbers, and the sensitivity is true.
    Edge cases: a support whose ends are not whole numbers is refused; without one, any whole number can be published.

    >>> import rangebound as rb
    >>> m = rb.DiscreteLaplace(scale=2.0, sensitivity=1, support=rb.Interval(0, math.inf))
    >>> m.epsilon(), round(m.epsilon(delta=0.01), 4)
    (0.5, 0.4838)
    >>> m.release(42) >= 0.0
    True
    """

    scale: float
    sensitivity: int = 1
    support: Interval = _LINE

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", arguments.positive("scale", self.scale))
        if self.scale > _LARGEST_SCALE:
            raise ArgumentError(
                f"scale={self.scale!r}: must be at most {_LARGEST_SCALE:g}, so that every draw is a double"
            )
        arguments.instance("support", self.support, Interval, "an Interval, such as rb.Interval(0, 100)")
        if isinstance(self.sensitivity, bool) or not isinstance(self.sensitivity, int):
            raise ArgumentTypeError(f"sensitivity={arguments.shown(self.sensitivity)}: must be a whole number (int)")
        if self.sensitivity < 1:
            raise ArgumentError(
                f"sensitivity={arguments.shown(self.sensitivity)}: must be a whole number from 1; "
                "a query that no one can change needs no noise"
            )
        if any(math.isfinite(end) and end != math.floor(end) for end in (self.support.lower, self.support.upper)):
            raise ArgumentError(f"support={self.support}: must end at whole numbers, since answers are whole numbers")

    @classmethod
    def calibrated(cls, *, sensitivity: int = 1, epsilon: float, support: Interval = _LINE) -> DiscreteLaplace:
        """The mechanism with the smallest scale that is epsilon-private.

        Guarantee: sensitivity / scale <= epsilon, exactly; the next smaller double does not have that.
        Edge cases: an epsilon so small that no double is the scale is refused.

        >>> DiscreteLaplace.calibrated(sensitivity=1, epsilon=0.5, support=Interval(0, math.inf)).scale
        2.0
        """
        scale = rounded_up(Fraction(sensitivity) / Fraction(arguments.positive("epsilon", epsilon)))
        return cls(scale=scale, sensitivity=sensitivity, support=support)

    def epsilon(self, delta: float = 0.0) -> float:
        """The smallest epsilon that holds with this delta for all neighbouring datasets.

        Guarantee: never below the true value, and less than 1e-12 relative above it.
        Edge cases: sensitivity / scale without a delta; 0 where the delta is at least the total variation distance.

        >>> DiscreteLaplace(scale=2.0).epsilon()
        0.5
        """
        delta = arguments.probability("delta", delta)
        if delta == 0.0:
            return up(arb(self.sensitivity) / arb(self.scale))
        if self.delta(0.0) <= delta:
            return 0.0
        # The profile is the largest of _profile(k, epsilon) over k. Its own k grows as epsilon falls past the breaks;
        # the first k at whose lower break the profile is above `delta` is found by bisection, the equation solved there
        # and, in case a comparison was too close to tell, at its neighbours.
        low, high = 0, (self.sensitivity - 1) // 2
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._exceeds(middle, delta) else (middle + 1, high)
        near = range(max(low - 1, 0), min(low + 1, (self.sensitivity - 1) // 2) + 1)
        return max(up(refine(partial(self._solved, k, delta))) for k in near)

    def _exceeds(self, k: int, delta: float) -> bool:
        """Whether the profile is above `delta` where k + 1 begins not to count: at epsilon (d - 2 k - 2) / scale."""
        last = max(self.sensitivity - 2 * k - 2, 0)
        return bool(refine(lambda: self._profile(k, arb(last) / arb(self.scale)) - arb(delta)) > 0)

    def delta(self, epsilon: float) -> float:
        """The privacy profile: the smallest delta that holds with this epsilon for all neighbouring datasets.

        With r = e^(-1/scale), d the sensitivity and k the largest whole number below (d - epsilon scale) / 2:
        delta(epsilon) = 1 - (r^(k + 1) + e^epsilon r^(d - k)) / (1 + r).

        Guarantee: never below the true value, which is attained whatever the support, and less than 1e-12 above it.
        Edge cases: 0 from the pure epsilon on.

        >>> round(DiscreteLaplace(scale=2.0).delta(0.25), 6), DiscreteLaplace(scale=2.0).delta(0.5)
        (0.137688, 0.0)
        """
        epsilon = arguments.nonnegative("epsilon", epsilon)
        cut = (self.sensitivity - Fraction(epsilon) * Fraction(self.scale)) / 2
        if cut <= 0:
            return 0.0
        k = math.ceil(cut) - 1
        return min(up(refine(lambda: self._profile(k, arb(epsilon)))), 1.0)

    def _profile(self, k: int, epsilon: Ball) -> Ball:
        """P(X <= k) - e^epsilon P(X <= k - d), for 0 <= k < d: what outcomes up to k leak."""
        rate = 1 / arb(self.scale)
        above, below = (-rate * (k + 1)).exp(), (epsilon - rate * (self.sensitivity - k)).exp()
        return 1 - (above + below) / (1 + (-rate).exp())

    def _solved(self, k: int, delta: float) -> Ball:
        """The epsilon at which `_profile` is delta: ln((1 - delta) (1 + r) - r^(k + 1)) + (d - k) / scale, or 0."""
        rate = 1 / arb(self.scale)
        inner = (1 - arb(delta)) * (1 + (-rate).exp()) - (-rate * (k + 1)).exp()
        return inner.log() + rate * (self.sensitivity - k) if inner > 0 else arb(0)

    def is_private(self, epsilon: float) -> bool:
        """Whether it is epsilon-private, exactly.

        >>> m = DiscreteLaplace(scale=10.0)
        >>> m.is_private(0.1), m.is_private(0.09)  # the double 0.1 is above a tenth
        (True, False)
        """
        return self.sensitivity <= Fraction(self.scale) * Fraction(arguments.nonnegative("epsilon", epsilon))

    def pmf(self, value: float, answer: int) -> float:
        """The probability that `value` is published where the true answer is `answer`.

        >>> m = DiscreteLaplace(scale=1.0, support=Interval(0, math.inf))
        >>> round(m.pmf(0, 0), 6), round(m.pmf(3, 0), 6), m.pmf(-1, 0)
        (0.731059, 0.023007, 0.0)
        """
        published, true = arguments.finite("value", value), _whole(answer)
        if not self.can_draw(published):
            return 0.0
        k = int(published) - true
        at_lower, at_upper = published == self.support.lower, published == self.support.upper

        def mass() -> Ball:
            rate = 1 / arb(self.scale)
            r = (-rate).exp()
            if at_lower or at_upper:  # all that fell beyond the end, P(X <= k) or P(X >= k)
                side = -k if at_lower else k
                tail = (-rate * abs(side)).exp() / (1 + r)
                return tail if side >= 0 else 1 - r * tail
            return (1 - r) / (1 + r) * (-rate * abs(k)).exp()

        return float(refine(mass))

    @property
    def mse(self) -> float:
        """The mean squared error far from the ends: 2 r / (1 - r)^2, r = e^(-1/scale); clamping makes it no larger.

        >>> round(DiscreteLaplace(scale=1.0).mse, 6)
        1.841347
        """
        half = 0.5 / self.scale
        return 0.5 / math.sinh(half) ** 2 if half < _FAR else 0.0

    def error(self, answer: int) -> Error[float]:
        """Bias, mean absolute and mean squared error of the published number at a true answer.

        Edge cases: at an answer outside the support they are the errors of the published number, which lies inside.

        >>> m = DiscreteLaplace(scale=1.0, support=Interval(0, math.inf))
        >>> m.error(0).bias == m.error(0).mae, round(m.error(10**9).mse, 6)
        (True, 1.841347)
        """
        true, lower, upper = _whole(answer), self.support.lower, self.support.upper
        missed = int(max(lower - true, true - upper, 0))  # outside the support so much cannot be avoided
        if missed:
            one, two = self._moments(missed, upper - lower)
            off = float(missed)
            return Error(bias=math.copysign(off + one, lower - true), mae=off + one, mse=off**2 + 2.0 * off * one + two)
        (down_one, down_two), (up_one, up_two) = self._moments(0, true - lower), self._moments(0, upper - true)
        return Error(bias=up_one - down_one, mae=up_one + down_one, mse=up_two + down_two)

    def _moments(self, start: int, room: float) -> tuple[float, float]:
        """E Y and E Y^2 for Y = min(max(X - start, 0), room), by P(X >= k) = r^k / (1 + r) for k >= 0.

        Sums of r^(start + j) and (2 j - 1) r^(start + j) over j from 1 to room, divided by 1 + r.
        """

        def terms(second: bool) -> Ball:
            rate = 1 / arb(self.scale)
            r = (-rate).exp()
            last = (-rate * int(room)).exp() if math.isfinite(room) else arb(0)
            first = r * (-rate * start).exp() / (1 + r)
            if not second:
                return first * (1 - last) / (1 - r)
            tail = last * ((2 * int(room) + 1) - (2 * int(room) - 1) * r) if math.isfinite(room) else arb(0)
            return first * (1 + r - tail) / (1 - r) ** 2

        if room <= 0:
            return 0.0, 0.0
        return float(refine(lambda: terms(False))), float(refine(lambda: terms(True)))

    def reach(self, level: float) -> float:
        """The smallest k with |X| <= k at probability `level`, or one more: P(|X| > k) = 2 r^(k+1) / (1 + r).

        Guarantee: rounded up, at every scale.

        >>> DiscreteLaplace(scale=1.0).reach(0.95)
        3.0
        """
        r = math.exp(-1.0 / self.scale)
        near = math.ceil(-self.scale * math.log((1.0 - level) * (1.0 + r) / 2.0) - 1.0 + 1e-9)

        def exact() -> Ball:
            rate = 1 / arb(self.scale)
            return -(((1 - arb(level)) * (1 + (-rate).exp()) / 2).log()) / rate - 1

        # Published intervals have the first number, in doubles; where the scale is large these round it too low.
        return max(0.0, float(near), float(math.ceil(up(refine(exact)))))

    def confidence_interval(self, published: npt.ArrayLike, level: float = 0.95) -> Any:
        """An interval for the true answer, given the published number (or a pair of arrays, given an array).

        Guarantee: covers each true answer inside the support with probability at least `level`; inside the support.
        Edge cases: a true answer outside the support is covered once moved to its nearest end.

        >>> DiscreteLaplace(scale=1.0, support=Interval(0, 50)).confidence_interval(2.0)
        (0.0, 5.0)
        """
        numbers = arguments.reals("published", published)
        wide = self.reach(arguments.probability("level", level))
        lower = np.clip(numbers - wide, self.support.lower, self.support.upper)
        upper = np.clip(numbers + wide, self.support.lower, self.support.upper)
        return (lower, upper) if numbers.ndim else (lower.item(), upper.item())

    def release(self, answer: npt.ArrayLike) -> Any:
        """Publish: one draw for each whole true answer, a number for a number and an array for an array.

        Guarantee: distributed exactly as the law. The random bits come from the operating system; no call takes a seed.
        Assumes: each true answer is published once: a second draw is a second release.
        Edge cases: what is not a whole number is refused before anything is drawn.

        >>> m = DiscreteLaplace(scale=1.0, support=Interval(0, 20))
        >>> bool(((m.release([0, 10, 20]) % 1) == 0).all())
        True
        """
        true = arguments.answers(answer, -math.inf, math.inf)
        if (true != np.floor(true)).any():
            raise ArgumentError("answer: must be a whole number; round it yourself, and add that to the sensitivity")
        published = draw(self, true, secure_bits)
        return published if true.ndim else published.item()

    def can_draw(self, value: float) -> bool:
        """Whether a number can be drawn: a whole one in the support; not the negative zero.

        >>> DiscreteLaplace(scale=1.0).can_draw(3.0), DiscreteLaplace(scale=1.0).can_draw(3.5)
        (True, False)
        """
        inside = math.isfinite(value) and self.support.lower <= value <= self.support.upper
        return inside and value == math.floor(value) and str(value) != "-0.0"

    def to_dict(self) -> dict[str, object]:
        """The mechanism as plain data, for JSON or TOML.

        >>> m = DiscreteLaplace(scale=2.0, sensitivity=3, support=Interval(0, math.inf))
        >>> DiscreteLaplace.from_dict(m.to_dict()) == m
        True
        """
        ends = [number(each) for each in (self.support.lower, self.support.upper)]
        return {"geometric": {"scale": self.scale, "sensitivity": self.sensitivity, "support": ends}}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> DiscreteLaplace:
        """The mechanism that `to_dict` wrote; wrong data gets the errors of the constructor, and so does a field more.

        >>> DiscreteLaplace.from_dict(
        ...     {"geometric": {"scale": 1.0, "sensitivity": 1, "support": [0.0, "inf"]}}
        ... ).epsilon()
        1.0
        """
        match data:
            case {
                "geometric": {"scale": scale, "sensitivity": sensitivity, "support": [lower, upper], **more},
                **rest,
            } if not (more or rest):
                support = Interval(parse_number(lower), parse_number(upper))
                return cls(scale=scale, sensitivity=sensitivity, support=support)
        raise ArgumentError(f"data={arguments.shown(data)}: must be what DiscreteLaplace.to_dict writes")


def _whole(answer: object) -> int:
    """One true answer as a whole number; no error shows it."""
    true = arguments.answers(answer, -math.inf, math.inf)
    if true.ndim:
        raise ArgumentTypeError(f"answer of type {type(answer).__name__}: must be one number")
    if true != np.floor(true):
        raise ArgumentError("answer: must be a whole number")
    return int(true)


def draw(mechanism: DiscreteLaplace, answers: Floats, bits: Bits) -> Floats:
    """One draw for each whole true answer, with the given random bits.

    The sum is of whole numbers and becomes a double at the end: rounding, like clamping, is then post-processing.
    """
    drawn = [int(each) + magnitude(mechanism.scale, bits) * (1 - 2 * bits(1)) for each in answers.flat]
    doubles = np.array([float(each) for each in drawn], dtype=np.float64).reshape(answers.shape)
    return np.clip(doubles, mechanism.support.lower, mechanism.support.upper)


def magnitude(scale: float, bits: Bits) -> int:
    """|X| drawn exactly: floor(-scale ln(u (1 + r) / 2)), not below 0, for a uniform u that is known as far as needed.

    Doubles decide where this is farther from a whole number than all they can be off by, ball arithmetic elsewhere.
    """
    known = bits(_FIRST)
    found = _floor_of_doubles(scale, known)
    return _floor_of_balls(scale, known, bits) if found is None else max(found, 0)


def _floor_of_doubles(scale: float, known: int) -> int | None:
    """The same for all u whose first bits these are; None where doubles might be wrong about it."""
    if known < _LEAST:
        return None
    uniform = math.log(known) - _FIRST * _LOG_2
    value = -scale * (uniform + math.log((1.0 + math.exp(-1.0 / scale)) / 2.0))
    unsure = _SAFE * (scale * (1.0 - uniform) + 1.0)
    found = math.floor(value - unsure)
    return found if found == math.floor(value + unsure) else None


def _floor_of_balls(scale: float, known: int, bits: Bits) -> int:
    """The same, with more bits of u where they are needed.

    u lies between two neighbouring fractions of 2^n; if both give the same whole number in ball arithmetic, that is the
    answer, else more bits of u are drawn.
    """
    size = _FIRST
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


def _floor(numerator: int, size: int, half: Ball, rate: Ball) -> int | None:
    """The whole number below -(ln u + half) / rate, if the ball around it has just one."""
    if numerator == 0:
        return None
    value = -(arb(fmpq(numerator, 1 << size)).log() + half) / rate
    low, high = value.lower().floor(), value.upper().floor()
    return int(str(low.unique_fmpz())) if low == high else None
