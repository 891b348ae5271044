"""Truncation to the points of a grid, in ball arithmetic (see `exact`), for every log-concave density."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Collection

from flint import arb

from rangebound.laws.family import Noise
from rangebound.laws.shape import Shape
from rangebound.values.ball import Ball, ball, down, up, value_of


class TruncatedGrid:
    """Truncation to the points of a grid: probabilities in proportion to g(x-q)."""

    def __init__(self, noise: Noise, shape: Shape) -> None:
        self.noise = noise.in_balls()
        self.points = [ball(x) for x in shape.points]
        self._places = shape.points

    def sticks(self, p: Ball, d: Ball, epsilon: Ball, only: Collection[int] = ()) -> dict[int, Ball]:
        """P(A) - e^epsilon Q(A) for the sets of the first k points, for every k that may be the best (or `only`)."""
        (of_p, zp), (of_q, zq) = self._weights(p), self._weights(p + d)
        if not (value_of(zp) > 0 and value_of(zq) > 0):
            return dict.fromkeys(only or (0,), arb.nan())
        below_p, below_q = (list(itertools.accumulate(each, initial=ball(0.0))) for each in (of_p, of_q))
        if not only:
            level = epsilon - (zq.log() - zp.log())
            t = value_of(self.noise.thresholds(value_of(p), d, value_of(level))[0])
            first, last = 0, len(self.points)
            if t.is_finite():  # the last point at or left of the threshold, whichever way its last bit falls
                first, last = bisect.bisect_left(self._places, down(t)), bisect.bisect_right(self._places, up(t))
            only = range(first, last + 1)
        return {k: below_p[k] / zp - below_q[k] * epsilon.exp() / zq for k in only}

    def change(self, p: Ball, d: Ball) -> Ball:
        """log Z(p+d) - log Z(p)."""
        zp, zq = self._weights(p)[1], self._weights(p + d)[1]
        return zq.log() - zp.log() if value_of(zp) > 0 and value_of(zq) > 0 else arb.nan()

    def loss(self, p: Ball, d: Ball) -> Ball:
        """Pure epsilon of the pair in this direction."""
        change = self.change(p, d)
        return self.noise.log_ratio(self.points[0] - p, d) + change if value_of(change).is_finite() else change

    def renyi(self, p: Ball, d: Ball, order: Ball) -> Ball:
        """Renyi divergence of P from Q of an order above 1."""
        weights, zp = self._weights(p)
        ratios = (self.noise.log_ratio(x - p, d) for x in self.points)
        total: Ball = ball(0.0)
        for weight, ratio in zip(weights, ratios, strict=True):
            total = total + weight * ((order - 1) * ratio).exp()
        if not (value_of(total) > 0 and value_of(zp) > 0):
            return arb.nan()
        return (total.log() - zp.log()) / (order - 1) + self.change(p, d)

    def fisher(self, p: Ball) -> Ball:
        """Fisher information about the location: the variance of the score."""
        weights, total = self._weights(p)
        scores = [self.noise.score(x - p) for x in self.points]
        mean = sum((w * s for w, s in zip(weights, scores, strict=True)), ball(0.0)) / total
        second = sum((w * s * s for w, s in zip(weights, scores, strict=True)), ball(0.0)) / total
        return second - mean * mean

    def edges(self) -> tuple[Ball, Ball]:
        """The outer points."""
        return self.points[0], self.points[-1]

    def right_of(self, p: Ball) -> Ball:
        """Probability of an output at or above p at the location p."""
        weights, total = self._weights(p)
        return sum((w for x, w in zip(self.points, weights, strict=True) if not x < p), ball(0.0)) / total

    def _weights(self, p: Ball) -> tuple[list[Ball], Ball]:
        weights = [self.noise.pdf(x - p) for x in self.points]
        total: Ball = ball(0.0)
        for weight in weights:
            total = total + weight
        return weights, total
