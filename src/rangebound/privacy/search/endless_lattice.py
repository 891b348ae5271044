"""Gaussian noise on an endless lattice: a ceiling for every regular grid (see docs/theory.md, *Adding points*).

Points added beyond the ends of a support never lower the largest hockey-stick divergence over all positions, and on a
lattice never lower a Renyi divergence. So no regular grid reveals more than the endless lattice of its step, which
looks the same from every position, up to a shift by a step.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Collection
from dataclasses import dataclass

from flint import arb

from rangebound.privacy.pairs.integrals import near_pair, up_to
from rangebound.privacy.pairs.lattice_sums import Theta
from rangebound.privacy.search.branch_and_bound import Found, enclose
from rangebound.privacy.search.cell_bound import Task
from rangebound.privacy.setting import SearchLine
from rangebound.values.ball import INFINITY, Ball, ball, expm1, is_taylor, largest, taylor, up, value_of

_CALM, _CLOSER = 6.0, 7  # scales to either side of the best position that are searched, and in how many pieces


@dataclass(frozen=True)
class Ceiling:
    """The largest value on the endless lattice, and a position that attains it (threshold or point at 0)."""

    value: Ball
    position: float


class _Lattice(abc.ABC):
    """The lattice of all multiples of `step`, as an objective of the search."""

    smooth, attained, peaked, monotone = True, True, False, False

    def __init__(self, step: Ball, scale: Ball) -> None:
        ratio = step / scale
        self._theta, self._step, self._scale = Theta(ratio * ratio), step, scale
        self._variance = scale * scale

    def branches(self, p: Ball, d: Ball, only: Collection[int] = ()) -> dict[int, Ball]:
        return {0: self.value(p, d)}

    @abc.abstractmethod
    def value(self, p: Ball, d: Ball) -> Ball:
        """The number at a position."""

    def kinks(self, line: SearchLine) -> list[float]:
        return []

    def cuts(self, line: SearchLine) -> list[float]:
        return self.seeds(line)

    def seeds(self, line: SearchLine) -> list[float]:
        return []

    def step(self) -> float:
        return float(self._scale)

    def size(self) -> int:
        return 2

    def parts(self, p: Ball) -> tuple[Ball, Ball]:
        """The weights of the points up to 0 and of those above, for the location p, but for a common factor."""
        t = p * (self._step / self._variance)
        return self._theta.sum(-t), self._theta.sum(t, 1)


class Threshold(_Lattice):
    """P(x <= 0) - e^epsilon Q(x <= 0): over all positions, this is every threshold test on the lattice."""

    def __init__(self, step: Ball, scale: Ball, epsilon: Ball) -> None:
        super().__init__(step, scale)
        self._epsilon = epsilon

    def value(self, p: Ball, d: Ball) -> Ball:
        share = self._share(p)
        if near_pair(p, d):  # the two nearly agree: from the slope of the logarithm
            below, above = self.parts(taylor(p[0] + up_to(d), p.prec))
            if not (value_of(share).is_finite() and value_of(below) > 0):
                return arb.nan()
            slope = below.log().derivative() - (below + above).log().derivative()
            return share * -expm1(self._epsilon + d * slope)
        return share - self._share(p + d) * self._epsilon.exp()

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


class Order(_Lattice):
    """The Renyi divergence on the lattice, which has the period of one step."""

    def __init__(self, step: Ball, scale: Ball, order: Ball) -> None:
        super().__init__(step, scale)
        self._order = order

    def value(self, p: Ball, d: Ball) -> Ball:
        order = self._order
        reach = ((1 - order) * d).union(d)
        if is_taylor(p) and reach.rad() < p[0].rad():
            below, above = self.parts(taylor(p[0] + reach, p.prec + 1))
            if not value_of(below + above) > 0:
                return arb.nan()
            return (below + above).log().derivative().derivative() * (order * d * d / 2)
        total: Ball = ball(0.0)
        for offset, weight in ((ball(0.0), -order), (d, order - 1), ((1 - order) * d, ball(1.0))):
            total = total + self._log_mass(p + offset) * weight / (order - 1)
        return total

    def _log_mass(self, p: Ball) -> Ball:
        """log of the sum of all weights, with the factor that depends on p: the same a whole number of steps away.

        The weights about the nearest point lack (p - x)^2/(2 s^2), which is added in the end from x alone.
        """
        steps = (value_of(p).mid() / self._step).mid().floor()
        whole = steps.unique_fmpz()
        assert whole is not None  # the floor of an exact number
        away = whole * self._step
        below, above = self.parts(p - away)
        if not value_of(below + above) > 0:
            return arb.nan()
        return (below + above).log() + (2 * p - away) * away / (2 * self._variance)

    def ceiling(self, start: float, end: float, d: Ball) -> Ball:
        return INFINITY


def stick_ceiling(step: Ball, scale: Ball, epsilon: Ball, d: Ball, target: float | None = None) -> Ceiling:
    """The largest hockey-stick divergence on the endless lattice; with a target, whether it is at most that."""
    line = SearchLine(-math.inf, math.inf, up(d), 0.0)
    return _ceiling(Threshold(step, scale, epsilon), line, target)


def renyi_ceiling(step: Ball, scale: Ball, order: Ball, d: Ball) -> Ceiling:
    """The largest Renyi divergence of an order above 1 on the endless lattice."""
    line = SearchLine(0.0, up(step), up(d), 0.0)
    return _ceiling(Order(step, scale, order), line, None)


def _ceiling(objective: Threshold | Order, line: SearchLine, target: float | None) -> Ceiling:
    found: Found = enclose([Task(objective, line)], target)
    return Ceiling(ball(max(found.upper, 0.0)), found.position)


__all__ = ["Ceiling", "Order", "Threshold", "renyi_ceiling", "stick_ceiling"]
