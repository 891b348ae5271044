"""Gaussian noise on an endless lattice: a ceiling for every regular grid (see docs/theory.md, *Adding points*).

Points added beyond the ends of a support never lower the largest hockey-stick divergence over all positions. So no
regular grid reveals more than the endless lattice of its step, which looks the same from every position, up to a shift
by a step.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from flint import arb

from rangebound.privacy.pairs.integrals import near_pair, up_to
from rangebound.privacy.pairs.lattice_sums import Theta
from rangebound.privacy.search.branch_and_bound import enclose
from rangebound.privacy.search.cell_bound import Task
from rangebound.privacy.setting import SearchLine
from rangebound.values.ball import Ball, ball, expm1, largest, taylor, up, value_of

_CALM, _CLOSER = 6.0, 7  # scales to either side of the best position that are searched, and in how many pieces


@dataclass(frozen=True)
class Ceiling:
    """The largest value on the endless lattice, and a position that attains it (threshold or point at 0)."""

    value: Ball
    position: float


class Threshold:
    """P(x <= 0) - e^epsilon Q(x <= 0) on the lattice of all multiples of `step`, as an objective of the search.

    Over all positions, this is every threshold test on the lattice.
    """

    smooth, attained, peaked, monotone = True, True, False, False

    def __init__(self, step: Ball, scale: Ball, epsilon: Ball) -> None:
        ratio = step / scale
        self._theta, self._step, self._scale = Theta(ratio * ratio), step, scale
        self._variance, self._epsilon = scale * scale, epsilon

    def branches(self, p: Ball, d: Ball, only: Collection[int] = ()) -> dict[int, Ball]:
        return {0: self.value(p, d)}

    def value(self, p: Ball, d: Ball) -> Ball:
        share = self._share(p)
        if near_pair(p, d):  # the two nearly agree: from the slope of the logarithm
            below, above = self.parts(taylor(p[0] + up_to(d), p.prec))
            if not (value_of(share).is_finite() and value_of(below) > 0):
                return arb.nan()
            slope = below.log().derivative() - (below + above).log().derivative()
            return share * -expm1(self._epsilon + d * slope)
        return share - self._share(p + d) * self._epsilon.exp()

    def kinks(self, line: SearchLine) -> list[float]:
        return []

    def step(self) -> float:
        return float(self._scale)

    def size(self) -> int:
        return 2

    def parts(self, p: Ball) -> tuple[Ball, Ball]:
        """The weights of the points up to 0 and of those above, for the location p, but for a common factor."""
        t = p * (self._step / self._variance)
        return self._theta.sum(-t), self._theta.sum(t, 1)

    def _share(self, p: Ball) -> Ball:
        """P(x <= 0), which falls with the location."""
        below, above = self.parts(p)
        if value_of(below) > value_of(above):
            return 1 / (1 + above / below)
        ratio = below / above if value_of(above) > 0 else arb.nan()
        return ratio / (1 + ratio) if value_of(ratio) > -1 else arb.nan()  # nothing is known on a cell too wide

    def ceiling(self, start: float, end: float, d: Ball) -> Ball:
        """P at the left end less Q at the right one; 0 where the log-ratio of the event stays below epsilon.

        The logarithm of P(x <= 0) has the slope (E[x | x <= 0] - E[x])/s^2, and both means rise with the location.
        """
        if math.isfinite(start) and math.isfinite(end):
            low, high = self.parts(taylor(ball(start), 1)), self.parts(taylor(ball(end) + d, 1))
            if value_of(low[0]) > 0 and value_of(high[0] + high[1]) > 0:
                fall = (high[0] + high[1]).log()[1] - low[0].log()[1]
                if d * fall <= self._epsilon:
                    return ball(0.0)
        left = ball(1.0) if math.isinf(start) else self._share(ball(start))
        right = ball(0.0) if math.isinf(end) else self._share(ball(end) + d)
        return largest(left - self._epsilon.exp() * right, ball(0.0))

    def seeds(self, line: SearchLine) -> list[float]:
        """Where the threshold of the continuous noise would be at half a step."""
        d = line.d
        return [float((self._epsilon * self._variance / d - d / 2 + self._step / 2).mid())]

    def cuts(self, line: SearchLine) -> list[float]:
        """Ever closer to the best position: a cell may be as wide as it is far from there."""
        best, reach = self.seeds(line)[0], _CALM * float(self._scale)
        return [best, *(best + side * reach * 2.0**-k for k in range(_CLOSER) for side in (-1.0, 1.0))]


def stick_ceiling(step: Ball, scale: Ball, epsilon: Ball, d: Ball, target: float | None = None) -> Ceiling:
    """The largest hockey-stick divergence on the endless lattice; with a target, whether it is at most that."""
    found = enclose([Task(Threshold(step, scale, epsilon), SearchLine(-math.inf, math.inf, up(d), 0.0))], target)
    return Ceiling(ball(max(found.upper, 0.0)), found.position)
