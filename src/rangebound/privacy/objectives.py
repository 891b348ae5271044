"""The three numbers that a pair gives away, as objectives of the worst-case search: delta, Renyi, pure epsilon."""

from __future__ import annotations

import math
from typing import Any

from rangebound.ball import Ball, ball, smallest
from rangebound.law import Shape
from rangebound.law.shape import UNBOUNDED_SHAPE
from rangebound.noise import Gaussian, Noise
from rangebound.noise.exact import INFINITY
from rangebound.privacy.exact import Mapped, Restricted, family

_TAIL_ORDERS = (1.5, 2.0, 4.0, 16.0, 64.0, 256.0)


class _Common:
    """What the objectives share: the family of the mechanism and the noise without any bounding."""

    def __init__(self, noise: Noise, shape: Shape) -> None:
        self.family = family(noise, shape)
        self.free = Mapped(noise, UNBOUNDED_SHAPE)
        self._step = noise.scale
        self._gaussian = isinstance(noise, Gaussian)

    def step(self) -> float:
        return self._step

    def _tail(self, start: float, end: float, d: Ball, order: Ball) -> Ball:
        """Renyi bound on a cell that reaches beyond a bounded side of the support, for Gaussian truncation.

        The laws form an exponential family, and the second derivative of its log-partition is the variance of x, at
        most E (x - edge)^2, which shrinks as the location moves away from the edge. So D <= order (d/s^2)^2 / 2 times
        that.
        """
        low, high = self.family.edges()
        scale = self.family.noise.scale
        if not self._gaussian or (math.isinf(start) and math.isinf(end)):
            return INFINITY
        if math.isinf(start):
            spread = INFINITY if low is None else self.family.spread(ball(end) + d, low)
        else:
            spread = INFINITY if high is None else self.family.spread(ball(start) + (1 - order) * d, high)
        ratio = d / (scale * scale)
        return order * ratio * ratio * spread / 2


class Delta(_Common):
    """The hockey-stick divergence at a fixed epsilon."""

    def __init__(self, noise: Noise, shape: Shape, epsilon: float) -> None:
        super().__init__(noise, shape)
        self.epsilon = ball(epsilon)

    def value(self, p: Any, d: Ball) -> Any:
        return self.family.stick(p, d, self.epsilon)

    def ceiling(self, start: float, end: float, d: Ball) -> Ball:
        """P <= G/Z and Q >= G on the support, so delta is at most the unbounded one plus 1/Z - 1."""
        best = ball(1.0)
        if isinstance(self.family, Restricted):
            kept = self.family.kept_at_least(start, end)
            if kept > 0.5:
                best = smallest(best, self.free.stick(ball(0.0), d, self.epsilon) + 1 / kept - 1)
        if math.isinf(start) or math.isinf(end):
            for order in map(ball, _TAIL_ORDERS):
                tail = self._tail(start, end, d, order)
                if not tail.is_finite():
                    continue
                chernoff = ((order - 1) * (tail - self.epsilon)).exp()
                best = smallest(best, chernoff, (tail / 2).sqrt())
        return best


class Renyi(_Common):
    """The Renyi divergence of a fixed finite order."""

    def __init__(self, noise: Noise, shape: Shape, order: float) -> None:
        super().__init__(noise, shape)
        self.order = ball(order)

    def value(self, p: Any, d: Ball) -> Any:
        return self.family.renyi(p, d, self.order)

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
        best = INFINITY
        if isinstance(self.family, Restricted):
            kept = self.family.kept_at_least(start, end)
            if kept > 0.5:
                best = free - kept.log() * self.order / (self.order - 1)
        if math.isinf(start) or math.isinf(end):
            tail = self._tail(start, end, d, self.order)
            best = tail if tail.is_finite() and not tail > best else best
        return best


class Loss(_Common):
    """The pure epsilon: the supremum of the log-ratio."""

    def value(self, p: Any, d: Ball) -> Any:
        return self.family.loss(p, d)

    def ceiling(self, start: float, end: float, d: Ball) -> Ball:
        """Z <= 1 at the right one, so the loss is at most the unbounded one plus log 1/Z at the left one."""
        if isinstance(self.family, Restricted):
            kept = self.family.kept_at_least(start, end)
            if kept > 0:
                return self.free.loss(ball(0.0), d) - kept.log()
        return INFINITY
