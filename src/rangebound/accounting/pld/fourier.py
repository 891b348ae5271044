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

import numpy as np

from rangebound.accounting.pld.circular_sum import UNIT, circular_sum, norm
from rangebound.accounting.pld.cumulants import PLDComposition
from rangebound.values.array_types import Floats
from rangebound.values.ball import ball, down, precision, up

_MOST_BITS = 22  # a window has at most 2^22 bins
_ALIAS = 1e-9
_PRODUCT = 1e-9  # a scalar product of 2^22 terms, each good to 1e-12, is better than this
_BITS = 128


class ComposedPLD:
    """The PLD of a composition: the sum of its losses tilted by t, in a window, with a bound on every error."""

    def __init__(self, composition: PLDComposition, t: float) -> None:
        self.composition, self.t = composition, t
        self.step = min(each.step for each in composition.plds)
        self.blur = composition.blur(t)
        self.log_scale, self.mean, variance = composition.cumulants(t)
        self.deviation = math.sqrt(max(variance, 0.0)) + self.step
        self._set_window()
        self._transform()

    def delta_upper(self, epsilon: float) -> float:
        """An upper bound on delta at epsilon."""
        epsilon -= self._slack(epsilon)
        found = self._product(epsilon)
        wrong = self.error * found.length + _PRODUCT * found.size + self.above * found.rim
        wrong += self.below if epsilon <= self.first * self.step else 0.0
        finite = self._untilted(found.value + wrong, epsilon, up(ball(2.0 * self.composition.count * self.blur).exp()))
        return min((self.composition.infinite[1] + finite) * (1.0 + 1e-14), 1.0)

    def delta_lower(self, epsilon: float) -> float:
        """A lower bound on delta at epsilon."""
        epsilon += self._slack(epsilon)
        found = self._product(epsilon)
        wrong = self.error * found.length + _PRODUCT * found.size + self.above + self.below
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

    def _transform(self) -> None:
        """The circular sum, and a bound on its error in the Euclidean norm."""
        rows = []
        for each, (_, masses) in zip(self.composition.plds, self.composition.tilted(self.t), strict=True):
            row = np.zeros(self.size)
            np.add.at(row, (each.index * round(each.step / self.step)) % self.size, masses)
            rows.append(row)
        bins, self.error = circular_sum(rows, self.composition.times)
        self.bins: Floats = np.roll(bins, -(self.first % self.size))

    def _product(self, epsilon: float) -> _Product:
        """The scalar product with the weights of the sums above epsilon."""
        begin = min(max(math.floor(epsilon / self.step) + 1 - self.first, 0), self.size)
        over = (np.arange(begin, self.size, dtype=np.float64) + self.first) * self.step - epsilon
        over = np.maximum(over, 0.0)
        with np.errstate(under="ignore"):
            weights = np.exp(-self.t * over) * -np.expm1(-over)
            bins = self.bins[begin:]
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


class _Product:
    """A scalar product: its value, the sum of its absolute terms, the length of the weights, the weight at the rim."""

    def __init__(self, value: float, size: float, length: float, rim: float) -> None:
        self.value, self.size, self.length, self.rim = value, size, length, rim
