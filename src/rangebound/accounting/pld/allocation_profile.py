"""The privacy profile of an epoch in which each person takes part in one of T steps, chosen at random.

Let mu be the sensitivity over the scale of the Gaussian noise of a step. An epoch with a person against one without is
dominated by the pair P, Q of laws of T numbers [chua2025]: under Q all are standard normal, under P one of them, each
with probability 1/T, has mean mu. (Given the other people, a step moves by at most the sensitivity, in a direction
that may depend on what came before; it is a function of its number and of fresh noise, the same under P and Q.) Their
likelihood ratio is a mean of independent lognormal numbers,

    L = (Y_1 + ... + Y_T)/T,   Y = e^(mu Z - mu^2/2),   H_x(P || Q) = E_P (1 - x/L)+,   H_x(Q || P) = E_Q (1 - x L)+,

and under P one Y has its mass multiplied by its value. Both are expectations under Q of convex functions of L. So they
only grow if each Y is replaced by one on a grid, where the mass of a cell goes to its two ends such that its mean
stays. The sum of T of these is one Fourier transform, with a bound on its error. What lies beyond the grid counts with
an infinite privacy loss.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from rangebound.accounting.pld.circular_sum import circular_sum
from rangebound.accounting.pld.step_profile import Profile
from rangebound.ball import Ball, ball, precision, up
from rangebound.mechanism import Mechanism

Floats = npt.NDArray[np.float64]

_LARGEST = 4.0  # mu: beyond, the grid is so coarse that nothing is gained over a single step
_MOST_BINS = 2.0**21  # of a window
_MOST_CELLS = 2.0**19  # of the grid of one Y
_FINE = 24.0  # cells to a standard deviation of Y
_TAILS = (1e-16, 1e-14, 1e-12, 1e-10)  # what may lie beyond the grid: the first that leaves it fine enough
_LOST = 1e-15  # probability of a sum beyond the window
_TAIL_ERROR = 512.0 * 2.0**-53  # relative, of a normal probability up to ten deviations out, its argument's included
_BITS = 128
_SUM_ERROR = 2.0**14 * 2.0**-53  # relative, of running sums of 2^21 numbers in two levels, and of their weights


class AllocationProfile:
    """Upper bounds on the profile of an epoch at every epsilon from 0 on, in both directions.

    >>> one, many = AllocationProfile(1.0, 1), AllocationProfile(1.0, 100)
    >>> round(float(one.forth(1.0).mid()), 4), round(float(many.forth(0.2).mid()), 4)
    (0.1269, 0.0046)
    """

    def __init__(self, mu: float, steps: int) -> None:
        self.steps = steps
        reach, self.beyond = _reach(mu, steps)
        deviation = math.sqrt(math.expm1(mu * mu))
        self.width = max(deviation / _FINE * min(1.0, math.sqrt(steps) / 8.0), reach / _MOST_CELLS)
        while True:
            plain, person = _masses(mu, self.width, reach)
            needed = max(_highest_sum(plain, person, self.width, steps) / self.width + 2.0, len(plain))
            if needed <= _MOST_BINS:
                break
            self.width *= 2.0
        self.size = 1 << max(math.ceil(math.log2(needed)), 4)
        bins_q, self._error_q = circular_sum([_padded(plain, self.size)], [steps])
        rows, times = ([person, plain], [1, steps - 1]) if steps > 1 else ([person], [1])
        bins_p, self._error_p = circular_sum([_padded(each, self.size) for each in rows], times)
        ratios = np.arange(self.size) * (self.width / steps)
        inverse = 1.0 / np.maximum(ratios, ratios[1])
        self._above = [_running(each[::-1])[::-1] for each in (bins_p, bins_p * inverse, np.abs(bins_p))]
        self._below = [_running(each) for each in (bins_q, bins_q * ratios, np.abs(bins_q))]

    def forth(self, epsilon: float) -> Ball:
        """H_x(P || Q) at x = e^epsilon, from the bins above x: E_P (1 - x/L)+."""
        level = math.exp(epsilon) * (1.0 - 1e-15)
        start = math.floor(level * self.steps / self.width) + 1
        if start >= self.size:
            return ball(min(self.beyond + self._error_p, 1.0))
        mass, over = (float(each[start]) for each in self._above[:2])
        # The bin before has a weight within some units of zero.
        wrong = self._error_p * math.sqrt(self.size - start) + _SUM_ERROR * float(self._above[2][start - 1])
        return ball(min(max(mass - level * over, 0.0) + wrong + self.beyond, 1.0))

    def back(self, epsilon: float) -> Ball:
        """H_x(Q || P) at x = e^epsilon, from the bins below 1/x: E_Q (1 - x L)+."""
        level = math.exp(epsilon) * (1.0 - 1e-15)
        end = min(math.floor(self.steps / (level * self.width)), self.size - 2)
        mass, times = (float(each[end]) for each in self._below[:2])
        wrong = self._error_q * math.sqrt(end + 1.0) + _SUM_ERROR * float(self._below[2][end + 1])
        return ball(min(max(mass - level * times, 0.0) + wrong + self.beyond, 1.0))


_profile = lru_cache(maxsize=16)(AllocationProfile)


def allocated(plain: Profile, mechanism: Mechanism, steps: int) -> Profile:
    """The profile of an epoch of so many steps of Gaussian noise on the line; `plain` is that of one such step.

    An epoch leaks no more than the step in which the person is, since which one it is only adds uncertainty: the
    smaller bound counts.
    """
    with precision(_BITS):
        mu = up(ball(mechanism.query.sensitivity) / ball(mechanism.noise.scale))
    if mu > _LARGEST:
        return plain
    found = _profile(mu, steps)

    def at(epsilon: float) -> Ball:
        if epsilon >= 0.0:
            return found.forth(epsilon).min(plain(epsilon))
        return 1 - ball(epsilon).exp() * (1 - found.back(-epsilon).min(plain(-epsilon)))

    return at


def _reach(mu: float, steps: int) -> tuple[float, float]:
    """The largest Y of the grid, and an upper bound on what is beyond it or beyond the window, under P and under Q."""
    from scipy.special import ndtr

    deviation = math.sqrt(math.expm1(mu * mu))
    for tail in _TAILS:
        z = 4.0
        while (beyond := float(ndtr(-z) + steps * ndtr(-(mu + z)))) > tail:
            z += 0.05
        reach = math.exp(mu * z + 0.5 * mu * mu) * (1.0 + 1e-12)
        if reach * _FINE <= deviation * _MOST_CELLS:
            break
    return reach, beyond * (1.0 + 1e-9) + 2.0 * _LOST


def _masses(mu: float, width: float, reach: float) -> tuple[Floats, Floats]:
    """Masses of Y on the multiples of the width, rounded up, under Q and for the step of the person under P."""
    cells = math.ceil(reach / width)
    numbers = np.arange(cells + 1, dtype=np.float64)
    with np.errstate(divide="ignore"):
        z = (np.log(numbers * width) + 0.5 * mu * mu) / mu
    (mass, size), (mean, mean_size) = _between(z), _between(z - mu)
    right = np.clip(mean / width - numbers[:-1] * mass, 0.0, mass)
    error = _TAIL_ERROR * (numbers[1:] * size + mean_size / width)
    plain = np.zeros(cells + 1)
    plain[:-1] += mass - right + error
    plain[1:] += right + error
    return plain, plain * numbers * (width * (1.0 + 1e-15))


def _between(z: Floats) -> tuple[Floats, Floats]:
    """Normal probabilities between neighbouring points, and the size of the numbers whose difference they are."""
    from scipy.special import ndtr

    low, high = ndtr(z), ndtr(-z)
    left = z[1:] < 0.0
    mass = np.where(left, low[1:] - low[:-1], high[:-1] - high[1:])
    return np.maximum(mass, 0.0), np.where(left, low[1:], high[:-1])


def _highest_sum(plain: Floats, person: Floats, width: float, steps: int) -> float:
    """A number that the sum is above with a probability of at most _LOST, under P and under Q, by Chernoff."""
    values = np.arange(len(plain)) * width
    found = math.inf
    for t in (np.geomspace(0.02, 200.0, 40) / values[-1]).tolist():
        top = t * values[-1]
        weights = np.exp(t * values - top)
        log_q, log_p = (math.log(float((each * weights).sum())) + top + 1e-12 for each in (plain, person))
        log_moment = max(steps * log_q, log_p + (steps - 1) * log_q)
        found = min(found, (log_moment - math.log(_LOST)) / t)
    return found * (1.0 + 1e-9)


def _padded(masses: Floats, size: int) -> Floats:
    row = np.zeros(size)
    row[: len(masses)] = masses
    return row


def _running(values: Floats) -> Floats:
    """Running sums, in two levels, so that the error is that of some thousand additions."""
    side = 1 << (len(values).bit_length() // 2)
    rows = np.cumsum(values.reshape(-1, side), axis=1)
    ends = np.cumsum(rows[:, -1])
    rows[1:] += ends[:-1, None]
    return rows.reshape(-1)
