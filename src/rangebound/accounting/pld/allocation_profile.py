"""The privacy profile of an epoch in which each person takes part in one of T steps, chosen at random.

Let mu be the sensitivity over the scale of the Gaussian noise of a step. An epoch with a person against one without is
dominated by the pair P, Q of laws of T numbers [chua2025]: under Q all are standard normal, under P one of them, each
with probability 1/T, has mean mu. (Given the other people, a step moves by at most the sensitivity, in a direction
that may depend on what came before; it is a function of its number and of fresh noise, the same under P and Q.) Their
likelihood ratio is a mean of independent lognormal numbers,

    L = (Y_1 + ... + Y_T)/T,   Y = e^(mu Z - mu^2/2),   H_x(P || Q) = E_Q (L - x)+,   H_x(Q || P) = E_Q (1 - x L)+.

Both are expectations under Q of convex functions of L that are not negative, so they only grow if the law of the sum is
replaced by an upper bound in convex order (`lognormal_sum`). Where a sum was cut off, the first is at most the mean of
L and the second at most 1: what is lost counts with an infinite privacy loss.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from rangebound.accounting.pld.lognormal_sum import lognormal_sum, running_sums
from rangebound.accounting.pld.step_profile import Profile
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.values.ball import Ball, ball, precision, up

_LARGEST = 15.0  # mu: beyond, the numbers of an epoch are too large for doubles
_SMALLEST = 1e-9  # mu: below, the points of an epoch are too near to each other, and a larger mu leaks no less
_BITS = 128
_ERROR = 1e-12  # relative, of running sums, their weights and the exponential function; and of a loss


class AllocationProfile:
    """Upper bounds on the profile of an epoch at every epsilon from 0 on, in both directions.

    >>> one, many = AllocationProfile(1.0, 1), AllocationProfile(1.0, 100)
    >>> round(float(one.forth(1.0).mid()), 4), round(float(many.forth(0.2).mid()), 4)
    (0.1269, 0.0046)
    """

    def __init__(self, mu: float, steps: int) -> None:
        law = lognormal_sum(mu, steps)
        self.lost = law.lost
        self._losses = law.logarithms - math.log(steps)
        ratios = np.exp(law.logarithms) / steps
        self._above = [running_sums(each[::-1])[::-1] for each in (law.mass * ratios, law.mass)]
        self._below = [running_sums(each) + zero for each, zero in ((law.mass, law.zero), (law.mass * ratios, 0.0))]

    def forth(self, epsilon: float) -> Ball:
        """H_x(P || Q) at x = e^epsilon, from the points above x: E_Q (L - x)+."""
        start = int(np.searchsorted(self._losses, epsilon, side="right"))
        near = int(np.searchsorted(self._losses, epsilon - _ERROR))  # they may be above x, by that much
        wrong = 2.0 * _ERROR * float(self._above[0][near]) if near < len(self._losses) else 0.0
        mean, chance = (float(each[start]) if start < len(each) else 0.0 for each in self._above)
        return ball(min(max(mean - math.exp(epsilon) * chance, 0.0) + wrong + self.lost, 1.0))

    def back(self, epsilon: float) -> Ball:
        """H_x(Q || P) at x = e^epsilon, from the points below 1/x: E_Q (1 - x L)+."""
        end = int(np.searchsorted(self._losses, -epsilon)) - 1
        near = int(np.searchsorted(self._losses, -epsilon + _ERROR, side="right")) - 1
        if end < 0:
            return ball(min(float(self._below[0][max(near, 0)]) + self.lost, 1.0))
        chance, mean = (float(each[end]) for each in self._below)
        wrong = 2.0 * _ERROR * float(self._below[0][near])
        return ball(min(max(chance - math.exp(epsilon) * mean, 0.0) + wrong + self.lost, 1.0))


_profile = lru_cache(maxsize=16)(AllocationProfile)


def allocated(plain: Profile, mechanism: Mechanism, steps: int) -> Profile:
    """The profile of an epoch of so many steps of Gaussian noise on the line; `plain` is that of one such step.

    An epoch leaks no more than the step in which the person is, since which one it is only adds uncertainty: the
    smaller bound counts.
    """
    with precision(_BITS):
        mu = max(up(ball(mechanism.query.sensitivity) / ball(mechanism.noise.scale)), _SMALLEST)
    if mu > _LARGEST:
        return plain
    found = _profile(mu, steps)

    def at(epsilon: float) -> Ball:
        if epsilon >= 0.0:
            return found.forth(epsilon).min(plain(epsilon))
        return 1 - ball(epsilon).exp() * (1 - found.back(-epsilon).min(plain(-epsilon)))

    return at
