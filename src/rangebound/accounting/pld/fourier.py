"""The PLD of a composition by one Fourier transform, accurate in the tail that matters, with a bound on its error.

A transform is accurate to about 1e-16 of the largest bin. Where the answer is a tail of 1e-12 of a sum of 1e5
losses, that is not enough. So each mass is first multiplied by e^(t loss) and divided by the total M, with t such that
the sum is centred on the epsilon asked for: the tail becomes the middle. Afterwards the weight is taken back,

    delta(eps) = e^(sum of k ln M - t eps) * sum over s > eps of W(s) e^(-t (s-eps)) (1 - e^-(s-eps)).

Four errors are bounded and added: of the masses (relative, to the power k), of the transforms (in the Euclidean norm),
of sums that leave the window and come in again on the other side (Chernoff), and of the final scalar product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rangebound.accounting.pld.discretization import DiscretePLD
from rangebound.values.array_types import Floats
from rangebound.values.ball import Ball, ball, down, precision, up
from rangebound.values.roots import boundary

Waves = npt.NDArray[np.complex128]

UNIT = 2.0**-53
_TINY = 1e-290  # more than all that is lost by numbers too small for a double
_EXACT = 192
_STEEPEST = 600.0  # the largest exponent of a tilt
_KEPT = 8
_MOST_BITS = 22  # a window has at most 2^22 bins
_ALIAS = 1e-9
_PRODUCT = 1e-9  # a scalar product of 2^22 terms, each good to 1e-12, is better than this
_BITS = 128


@dataclass(frozen=True, eq=False)
class PLDComposition:
    """PLDs, each on a multiple of the smallest step, and how often each occurs in the composition."""

    plds: tuple[DiscretePLD, ...]
    times: tuple[int, ...]
    _tilts: dict[float, list[tuple[float, Floats]]] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def count(self) -> int:
        """How many steps are composed."""
        return sum(self.times)

    @cached_property
    def reach(self) -> float:
        """The largest size of a single privacy loss."""
        return max(float(np.abs(each.index).max()) * each.step for each in self.plds)

    @cached_property
    def extremes(self) -> tuple[float, float]:
        """The smallest and the largest finite sum of privacy composition."""
        low = high = 0.0
        for each, k in zip(self.plds, self.times, strict=True):
            seen = each.index[each.mass > 0.0]
            if seen.size:
                low, high = low + k * float(seen[0]) * each.step, high + k * float(seen[-1]) * each.step
        return low, high

    @cached_property
    def infinite(self) -> tuple[float, float]:
        """The probability that some privacy loss is infinite, 1 - prod (1 - m)^k, rounded down and up."""
        with precision(_EXACT):
            total: Ball = ball(0.0)
            for each, k in zip(self.plds, self.times, strict=True):
                total = total + k * (-ball(each.infinite)).log1p()
            value = -total.expm1()
            return max(down(value), 0.0), max(up(value), 0.0)

    def tilted(self, t: float) -> list[tuple[float, Floats]]:
        """For each PLD ln M, M the sum of mass * e^(t loss), and the tilted masses over M."""
        if t not in self._tilts:
            if len(self._tilts) >= _KEPT:
                self._tilts.clear()
            self._tilts[t] = [_tilted(each, t) for each in self.plds]
        return self._tilts[t]

    def cumulants(self, t: float) -> tuple[float, float, float]:
        """Of the sum under the weight e^(t loss): the sum of k ln M, the mean, the variance."""
        total = np.zeros(3)
        for each, k, (log_m, weights) in zip(self.plds, self.times, self.tilted(t), strict=True):
            mean = float((weights * each.losses).sum())
            total += k * np.array([log_m, mean, float((weights * (each.losses - mean) ** 2).sum())])
        return float(total[0]), float(total[1]), float(total[2])

    def blur(self, t: float) -> float:
        """A bound on the relative error of a tilted mass, and on the absolute error of ln M.

        The logarithm of a mass is at most 750, and each of the few operations is good to some units of the numbers in
        it; a factor of more than two is to spare.
        """
        scales = max(abs(log_m) for log_m, _ in self.tilted(t))
        longest = max(each.mass.size for each in self.plds)
        return UNIT * (16.0 + longest + 8.0 * (750.0 + abs(t) * self.reach + scales))


def _tilted(each: DiscretePLD, t: float) -> tuple[float, Floats]:
    with np.errstate(under="ignore"):
        logs = each.log_mass + t * each.losses
        top = float(logs.max())
        log_m = top + math.log(float(np.exp(logs - top).sum())) if top > -math.inf else 0.0
        return log_m, np.exp(logs - log_m)


def tilt_for_epsilon(composition: PLDComposition, epsilon: float) -> float:
    """The t that centres the tilted sum on epsilon; 0 where it would be negative."""
    return _rising_root(composition, lambda t: composition.cumulants(t)[1] - epsilon)


def tilt_for_delta(composition: PLDComposition, delta: float) -> float:
    """The t at which the saddle-point estimate of delta at the centre is `delta`."""

    def missing(t: float) -> float:
        log_m, mean, variance = composition.cumulants(t)
        spread = 1.0 + t * (1.0 + t) * math.sqrt(2.0 * math.pi * variance)
        return math.log(delta) - (log_m - t * mean - math.log(spread))

    return _rising_root(composition, missing)


def _rising_root(composition: PLDComposition, function: Callable[[float], float]) -> float:
    """A root by bisection, to four digits: any t gives a true answer, a good one a sharp answer."""
    if composition.reach == 0.0 or function(0.0) >= 0.0:
        return 0.0
    low, high = 0.0, 1e-3 / composition.reach
    while function(high) < 0.0 and high * composition.reach < _STEEPEST:
        low, high = high, 2.0 * high
    low, high = boundary(lambda t: function(t) >= 0.0, low, high, 2.0**-12)
    return 0.5 * (low + high)


class ComposedPLD:
    """The PLD of a composition: the sum of its losses tilted by t, in a window, with a bound on every error."""

    def __init__(self, composition: PLDComposition, t: float) -> None:
        self.composition, self.t = composition, t
        self.step = min(each.step for each in composition.plds)
        self.blur = composition.blur(t)
        self.log_scale, self.mean, variance = composition.cumulants(t)
        self.deviation = math.sqrt(max(variance, 0.0)) + self.step
        self._set_window()

    def delta_upper(self, epsilon: float) -> float:
        """An upper bound on delta at epsilon."""
        epsilon -= self._slack(epsilon)
        found = self._product(epsilon)
        wrong = self.sums[1] * found.length + _PRODUCT * found.size + self.above * found.rim
        wrong += self.below if epsilon <= self.first * self.step else 0.0
        finite = self._untilted(found.value + wrong, epsilon, up(ball(2.0 * self.composition.count * self.blur).exp()))
        return min((self.composition.infinite[1] + finite) * (1.0 + 1e-14), 1.0)

    def delta_lower(self, epsilon: float) -> float:
        """A lower bound on delta at epsilon."""
        epsilon += self._slack(epsilon)
        found = self._product(epsilon)
        wrong = self.sums[1] * found.length + _PRODUCT * found.size + self.above + self.below
        value = max(found.value - wrong, 0.0)
        finite = self._untilted(
            value, epsilon, down(ball(-2.0 * self.composition.count * self.blur).exp()) * (1.0 - 1e-14)
        )
        return min((self.composition.infinite[0] + finite) * (1.0 - 1e-14), 1.0)

    def _set_window(self) -> None:
        """Around the mean, so wide that the tilted sum falls out of it with next to no probability."""
        least, most = self.composition.extremes
        aim = _ALIAS / (1.0 + self.t * (1.0 + self.t) * self.deviation)
        radius = 5.0 * self.deviation
        while True:
            start, end = max(self.mean - radius, least), min(self.mean + radius, most)
            bits = max(math.ceil(math.log2((end - start) / self.step + 4.0)), 4)
            outside = max(self._beyond(start, -1.0, aim), self._beyond(end, 1.0, aim))
            if outside <= aim or bits >= _MOST_BITS:
                break
            radius *= 1.15
        self.roomy = outside <= aim
        self.size = 1 << min(bits, _MOST_BITS)
        self.first = math.floor(start / self.step) - 1
        self.below = self._beyond((self.first + 1) * self.step, -1.0, aim)
        self.above = self._beyond((self.first + self.size - 1) * self.step, 1.0, aim)

    def _beyond(self, place: float, sign: float, enough: float) -> float:
        """An upper bound on the tilted probability of a sum beyond `place`, by Chernoff; the first that is `enough`."""
        least, most = self.composition.extremes
        if (sign > 0.0 and place >= most) or (sign < 0.0 and place <= least):
            return 0.0
        away = max(sign * (place - self.mean) / self.deviation, 0.5)
        best = 0.0
        for factor in (1.0, 0.75, 0.5, 0.35, 0.2, 0.1, 0.05, 1.3):
            bend = sign * factor * away / self.deviation
            exponent = self.composition.cumulants(self.t + bend)[0] - self.log_scale - bend * place
            wrong = 4.0 * self.composition.count * (self.blur + self.composition.blur(self.t + bend))
            best = min(best, exponent + wrong + 8.0 * UNIT * (abs(bend * place) + abs(self.log_scale)))
            if best <= math.log(enough) - 1.0:
                break
        return min(math.exp(best) * (1.0 + 1e-9), 1.0)

    @cached_property
    def sums(self) -> tuple[Floats, float]:
        """The circular sum from the first bin of the window on, and a bound on its error in the Euclidean norm."""
        rows = []
        for each, (_, masses) in zip(self.composition.plds, self.composition.tilted(self.t), strict=True):
            row = np.zeros(self.size)
            np.add.at(row, (each.index * round(each.step / self.step)) % self.size, masses)
            rows.append(row)
        bins, error = circular_sum(rows, self.composition.times)
        return np.roll(bins, -(self.first % self.size)), error

    def _product(self, epsilon: float) -> _Product:
        """The scalar product with the weights of the sums above epsilon."""
        begin = min(max(math.floor(epsilon / self.step) + 1 - self.first, 0), self.size)
        over = (np.arange(begin, self.size, dtype=np.float64) + self.first) * self.step - epsilon
        over = np.maximum(over, 0.0)
        with np.errstate(under="ignore"):
            weights = np.exp(-self.t * over) * -np.expm1(-over)
            bins = self.sums[0][begin:]
            rim = math.exp(-self.t * max((self.first + self.size - 1) * self.step - epsilon, 0.0))
            terms = bins * weights
            return _Product(float(terms.sum()), float(np.abs(terms).sum()), norm(weights) * (1.0 + 1e-9), rim)

    def _slack(self, epsilon: float) -> float:
        """More than the rounding of the places of the bins; a smaller epsilon has a larger delta."""
        edge = max(abs(self.first), abs(self.first + self.size)) * self.step
        return 16.0 * UNIT * (abs(epsilon) + edge)

    def _untilted(self, value: float, epsilon: float, factor: float) -> float:
        """value * factor * e^(sum of k ln M - t epsilon), rounded up for a factor of 1 and more, else down."""
        if value <= 0.0:
            return 0.0
        with precision(_BITS):
            exponent = -ball(self.t) * ball(epsilon)
            for k, (log_m, _) in zip(self.composition.times, self.composition.tilted(self.t), strict=True):
                exponent = exponent + k * ball(log_m)
            total = exponent.exp() * ball(value) * ball(factor)
            return up(total) if factor >= 1.0 else down(total)


class _Product(NamedTuple):
    """A scalar product: its value, the sum of its absolute terms, the length of the weights, the weight at the rim."""

    value: float
    size: float
    length: float
    rim: float


def circular_sum(rows: Sequence[Floats], times: Sequence[int]) -> tuple[Floats, float]:
    """The law of a sum of independent numbers, modulo the length of the rows, and a bound on its error.

    Row i has the masses of a number that is added `times[i]` times. The bound is in the Euclidean norm. A transform of
    2^m numbers by Cooley and Tukey's method, with twiddle factors good to one unit, has a relative error of at most
    about 6.7 m units in the Euclidean norm [higham2002, Thm 24.2]; 16 m are allowed here. A product of complex numbers
    is good to sqrt(5) units [brent2007], so a power k to 3 k of them. A single frequency is off by at most as many
    units of the sum of a row: on each of the m levels a number is a sum of entries times factors of size 1, over a
    block of its own, and is rounded relative to the sum of that block.

    >>> bins, error = circular_sum([np.array([0.5, 0.5, 0.0, 0.0])], [2])
    >>> bins.round(12).tolist(), error < 1e-13
    ([0.25, 0.5, 0.25, 0.0], True)
    """
    size = len(rows[0])
    gamma = 16.0 * math.log2(size) * UNIT
    half = size // 2 + 1
    product, largest, share = np.ones(half, dtype=np.complex128), np.ones(half), np.zeros(half)
    for row, k in zip(rows, times, strict=True):
        factor = np.fft.rfft(row)
        # The error of one frequency is at most that of all together.
        wrong = gamma * min(math.sqrt(size) * norm(row), float(np.abs(row).sum())) * (1.0 + 1e-9) + _TINY
        bound = np.abs(factor) * (1.0 + 1e-15) + wrong
        with np.errstate(under="ignore"):
            product, largest = product * _power(factor, k), largest * bound ** float(k)
        share += k * (wrong / bound)
    share += 3.0 * UNIT * (sum(times) + 2 * len(rows))
    with np.errstate(under="ignore"):
        errors = largest * share * (1.0 + 1e-6) + _TINY
        waves = math.sqrt(2.0) * (norm(errors) + gamma * norm(np.abs(product)))
    error = waves / math.sqrt(size) * (1.0 + 1e-9) + _TINY
    return np.fft.irfft(product, size), error


def norm(values: Floats) -> float:
    """The Euclidean norm, by plain sums: for these lengths a threaded product costs more than it saves."""
    return math.sqrt(float((values * values).sum()))


def _power(base: Waves, exponent: int) -> Waves:
    """base ** exponent by squaring."""
    result, square = None, base
    while True:
        if exponent & 1:
            result = square if result is None else result * square
        exponent >>= 1
        if not exponent:
            assert result is not None
            return result
        square = square * square
