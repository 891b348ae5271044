"""The hockey-stick divergence of a pair as an objective of the worst-case search."""

from __future__ import annotations

import math
from collections.abc import Collection

from rangebound.laws.family import Noise
from rangebound.laws.shape import Shape
from rangebound.privacy.pairs.exact import Pair, Truncated, stick
from rangebound.privacy.pairs.truncated_laplace import top_odds, top_stick
from rangebound.privacy.search.branch_and_bound import enclose
from rangebound.privacy.search.cell_bound import Task
from rangebound.privacy.search.objective import GAPS, PairObjective
from rangebound.privacy.setting import SearchLine
from rangebound.values.ball import Ball, ball, down, smallest, up
from rangebound.values.roots import falling_root

_TAIL_ORDERS = (1.5, 2.0, 4.0, 16.0, 64.0, 256.0)


class Delta(PairObjective):
    """The hockey-stick divergence at a fixed epsilon."""

    def __init__(
        self, noise: Noise, shape: Shape, epsilon: float, aim: float | None = None, kind: Pair | None = None
    ) -> None:
        super().__init__(noise, shape, kind)
        self.epsilon, self._aim = ball(epsilon), aim
        self.attained = noise.exponential or len(shape.spans) <= 1
        self.peaked = self._laplace and len(shape.spans) == 1 and epsilon >= 0.0
        self._rising = self._gaussian and shape.normalised and len(shape.spans) == 1 and math.isfinite(shape.ends[0])
        self._known: tuple[Ball, Ball] | None = None

    def value(self, p: Ball, d: Ball) -> Ball:
        return stick(self.family, p, d, self.epsilon)

    def branches(self, p: Ball, d: Ball, only: Collection[int] = ()) -> dict[int, Ball]:
        found: dict[int, Ball] = self.family.sticks(p, d, self.epsilon, only)
        return found

    def ceiling(self, start: float, end: float, d: Ball) -> Ball:
        """Zero where no loss is above epsilon. P <= G/Z and Q >= G on the support: the unbounded one plus 1/Z - 1.

        A Gaussian law on an interval leaks no more than the unbounded one, one of bounded log-ratio no more than
        two atoms do; a part of the support with all but a share of the mass adds at most that share on either side.
        """
        if self._rising and math.isfinite(end) and self.family.loss(ball(end), d) <= self.epsilon:
            return ball(0.0)
        best = smallest(ball(1.0), self._in_middle(start, end, d))
        if (most := self._most(d)).is_finite():
            best = smallest(best, top_stick(most, self.epsilon))
        elsewhere, rate = self._part(start, up(ball(end) + d))
        if elsewhere < 1:
            inside = self._free(d) if rate is None else top_stick(rate * d / 2, self.epsilon)
            best = smallest(best, inside + 2 * elsewhere)
        if isinstance(self.family, Truncated) and not elsewhere.is_zero():
            normaliser = self.family.least_normaliser(start, up(ball(end) + d))
            if normaliser > 0.5:
                best = smallest(best, self._free(d) + 1 / normaliser - 1)
        if math.isinf(start) or math.isinf(end):
            for order in map(ball, (*_TAIL_ORDERS, *self._sharp_orders(start, end, d))):
                tail = self._tail(start, end, d, order)
                if not tail.is_finite():
                    continue
                chernoff = ((order - 1) * (tail - self.epsilon)).exp()
                best = smallest(best, chernoff, (tail / 2).sqrt())
        return best

    def _sharp_orders(self, start: float, end: float, d: Ball) -> list[float]:
        """Orders at which the tail bound x order/2 on the Renyi divergence says the most of delta: about epsilon/x."""
        tail = self._tail(start, end, d, ball(2.0))
        if not tail.is_finite() or not tail > 0:
            return []
        order = float((self.epsilon / tail).mid()) + 0.5
        if math.isinf(end):  # the location of the mixture must stay beyond the support
            order = min(order, 1.0 + 0.5 * float(((ball(start) - self.family.edges()[1]) / d).mid()))
        return [part * order for part in (0.5, 0.75, 1.0) if part * order > 1.0]

    def cuts(self, line: SearchLine) -> list[float]:
        """Also where the loss passes epsilon, and next to it: a ball about what follows must not reach over a kink."""
        found, (start, end) = super().cuts(line), (line.start, line.end)
        if not self._rising or math.isinf(start) or math.isinf(end):
            return found

        def below(at: float) -> float:
            return float((self.epsilon - self.family.loss(ball(at), line.d)).mid())

        if below(start) > 0.0 > below(end):
            root = falling_root(below, start, end, absolute=2.0 * math.ulp(max(abs(start), abs(end))))
            found += [root, root + 2.0**-24 * (end - root)]
        return found

    def seeds(self, line: SearchLine) -> list[float]:
        """Where a gap puts the share of mass to its left that is the worst of all (see `top_stick`)."""
        scale, d = self.family.noise.scale, line.d
        found = super().seeds(line)
        for low, high in self._gaps[:GAPS]:
            middle = 0.5 * low + 0.5 * high - 0.5 * (line.far - line.near)
            if not line.start <= middle <= line.end or (self._laplace and middle < low):
                continue
            if self._laplace:  # the odds of left and right move by 2/b for each unit of the position
                parts, rate = self.family.parts(ball(middle), d), 2 / scale
                odds = parts.left / (parts.right * (-d / scale).exp())
            else:  # two Gaussian atoms: the odds are even half-way and move by their distance over s^2
                rate = (ball(high) - ball(low)) / (scale * scale)
                odds = (rate * d / 2).exp()
            worst = top_odds(rate * d / 2, self.epsilon)
            if worst > 0 and odds > 0:
                found.append(middle + float(((odds / worst).log() / rate).mid()))
        return [x for x in found if line.start < x < line.end]

    def _middle_top(self, kind: Pair, points: tuple[float, ...], line: SearchLine, off: Ball) -> Ball:
        epsilon = down(self.epsilon - 4 * off)
        window = Delta(self._noise, Shape(points=points, normalised=True), epsilon, self._aim, kind)
        return ball(enclose([Task(window, line)], self._aim).upper) * (2 * off).exp()

    def _free(self, d: Ball) -> Ball:
        known = self._known is not None and bool(self._known[0] == d)
        if self._known is None or not known:
            self._known = d, stick(self.free, ball(0.0), d, self.epsilon)
        return self._known[1]
