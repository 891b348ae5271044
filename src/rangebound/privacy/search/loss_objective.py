"""The pure epsilon of a pair, the largest privacy loss, as an objective of the worst-case search."""

from __future__ import annotations

import math

from rangebound.laws.family import Noise
from rangebound.laws.shape import Shape
from rangebound.privacy.pairs.exact import Pair, Truncated
from rangebound.privacy.pairs.truncated_laplace import top_loss
from rangebound.privacy.search.branch_and_bound import enclose
from rangebound.privacy.search.cell_bound import Task
from rangebound.privacy.search.objective import PairObjective
from rangebound.privacy.setting import SearchLine
from rangebound.values.ball import INFINITY, Ball, ball, largest, smallest, taylor


class Loss(PairObjective):
    """The pure epsilon: the supremum of the log-ratio.

    On a grid with Laplace noise Z is A e^{-p/b} + B e^{p/b} between two kinks, so the slope of log Z(p+d)/Z(p) is a
    difference of two hyperbolic tangents of p/b plus constants: it has one sign, and the supremum is at a kink.
    """

    def __init__(self, noise: Noise, shape: Shape, kind: Pair | None = None) -> None:
        super().__init__(noise, shape, kind)
        self.monotone = self._laplace and bool(shape.points)

    def _middle_top(self, kind: Pair, points: tuple[float, ...], line: SearchLine, off: Ball) -> Ball:
        return enclose([Task(Loss(self._noise, Shape(points=points, normalised=True), kind), line)]).upper + 4 * off

    def value(self, p: Ball, d: Ball) -> Ball:
        value: Ball = self.family.loss(p, d)
        return value

    def seeds(self, line: SearchLine) -> list[float]:
        """On a union also every kink: most maxima are at one of them (see `_by_shape`)."""
        kinks = self.kinks(line) if self._between_ends else []
        return [*super().seeds(line), *kinks]

    def ceiling(self, start: float, end: float, d: Ball) -> Ball:
        """Z <= 1 at the right one, so the loss is at most the unbounded one plus log 1/Z at the left one."""
        best = top_loss(self._most(d))
        best = smallest(best, self._by_shape(start, end, d), self._in_middle(start, end, d))
        if isinstance(self.family, Truncated):
            normaliser = self.family.least_normaliser(start, end)
            if normaliser > 0:
                best = smallest(best, self.free.loss(ball(0.0), d) - normaliser.log())
        return best

    def _by_shape(self, start: float, end: float, d: Ball) -> Ball:
        """For truncated Laplace on spans the value at an end of the cell; `inf` where no theorem says so.

        In units of the scale Z'' = Z - 1 in a span and Z'' = Z in a gap. Let p and p + d each stay in one of them, and
        let F = ln Z(p + d) - ln Z(p). Where F' = 0, the second derivative F'' is

            both in spans              1/Z(p) - 1/Z(p + d), of the sign of F: no maximum above 0 inside
            p in a span, p + d not     1/Z(p) > 0: no maximum inside
            p + d in a span, p not     -1/Z(p + d) < 0: a single peak, which an end with a slope towards it excludes
            neither                    F' is tanh(p + d + a) - tanh(p + b), nowhere 0 or everywhere: F is monotone
        """
        if not self._between_ends or math.isinf(start) or math.isinf(end):
            return INFINITY
        first, last = ball(start), ball(end)
        here, there = self.family.stretch(first, last), self.family.stretch(first + d, last + d)
        if here is None or there is None:
            return INFINITY
        if there and not here:
            if self.value(taylor(last, 1), d)[1] > 0:
                return self.value(last, d)
            return self.value(first, d) if self.value(taylor(first, 1), d)[1] < 0 else INFINITY
        best = largest(self.value(first, d), self.value(last, d))
        return largest(best, d / self.family.noise.scale) if here and there else best
