"""The Renyi divergence of a pair as an objective of the worst-case search."""

from __future__ import annotations

import math

from rangebound.laws.family import Noise
from rangebound.laws.shape import Shape
from rangebound.privacy.pairs.exact import Mapped, Pair, Truncated
from rangebound.privacy.pairs.truncated_laplace import top_renyi
from rangebound.privacy.search.branch_and_bound import enclose
from rangebound.privacy.search.cell_bound import Task
from rangebound.privacy.search.objective import PairObjective
from rangebound.privacy.setting import SearchLine
from rangebound.values.ball import INFINITY, Ball, ball, down, smallest, up


class Renyi(PairObjective):
    """The Renyi divergence of a fixed finite order."""

    def __init__(self, noise: Noise, shape: Shape, order: float, kind: Pair | None = None) -> None:
        super().__init__(noise, shape, kind)
        self.order = ball(order)

        rounded = bool(shape.cells) and not shape.spans
        self.attained = not (rounded and self._gaussian)

    def value(self, p: Ball, d: Ball) -> Ball:
        value: Ball = self.family.renyi(p, d, self.order)
        return value

    def seeds(self, line: SearchLine) -> list[float]:
        """Also where Gaussian laws of a large order have their product of powers in the middle of the support."""
        found = super().seeds(line)
        return [*found, *(x + (up(self.order) - 1.0) * (line.far - line.near) for x in found if self._gaussian)]

    def ceiling(self, start: float, end: float, d: Ball) -> Ball:
        """Maps are post-processing of the unbounded noise; truncation adds at most order/(order-1) log 1/Z."""
        free = self.free.renyi(ball(0.0), d, self.order)
        if isinstance(self.family, Mapped):
            best = free
            (first, _), (_, last) = self.family.cuts[0], self.family.cuts[-1]
            if math.isinf(start) and math.isfinite(end) and math.isfinite(first):
                best = smallest(best, self.family.renyi_left(ball(end), d, self.order))
            if math.isinf(end) and math.isfinite(start) and math.isfinite(last):
                best = smallest(best, self.family.renyi_right(ball(start), d, self.order))
            return best
        best = top_renyi(most, self.order) if (most := self._most(d)).is_finite() else INFINITY
        best = smallest(best, self._in_middle(start, end, d))
        mixed = down(ball(start) - (self.order - 1) * d)
        elsewhere, rate = self._part(mixed, up(ball(end) + d))
        if elsewhere < 1:
            inside = free if rate is None else top_renyi(rate * d / 2, self.order)
            best = smallest(best, inside + elsewhere.log1p() * self.order / (self.order - 1))
        if isinstance(self.family, Truncated) and not elsewhere.is_zero():
            normaliser = self.family.least_normaliser(start, end)
            if normaliser > 0.5:
                best = smallest(best, free - normaliser.log() * self.order / (self.order - 1))
        if math.isinf(start) or math.isinf(end):
            tail = self._tail(start, end, d, self.order)
            best = tail if tail.is_finite() and not tail > best else best
        return best

    def _middle_top(self, kind: Pair, points: tuple[float, ...], line: SearchLine, off: Ball) -> Ball:
        window = Renyi(self._noise, Shape(points=points, normalised=True), up(self.order), kind)
        return enclose([Task(window, line)]).upper + 2 * off * self.order / (self.order - 1)
