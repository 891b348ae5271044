"""Privacy-loss distributions to be composed, and the cumulants of the tilted sum of losses (for Chernoff bounds)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from rangebound.accounting.pld.circular_sum import UNIT
from rangebound.accounting.pld.discretization import DiscretePLD
from rangebound.values.array_types import Floats
from rangebound.values.ball import Ball, ball, down, precision, up
from rangebound.values.roots import boundary

_BITS = 192
_STEEPEST = 600.0  # the largest exponent of a tilt
_KEPT = 8


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
        with precision(_BITS):
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
