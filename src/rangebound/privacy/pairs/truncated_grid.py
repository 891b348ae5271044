"""Truncation to the points of a grid, in ball arithmetic (see `exact`): for every log-concave density, and Gaussian."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Collection
from fractions import Fraction
from functools import lru_cache
from operator import mul

from flint import arb

from rangebound.laws.family import Noise
from rangebound.laws.shape import Shape
from rangebound.privacy.pairs.truncated import near_pair, up_to
from rangebound.values.ball import INFINITY, ZERO, Ball, ball, down, expm1, is_taylor, taylor, tightened, up, value_of


@lru_cache(maxsize=64)
def spacing(places: tuple[float, ...]) -> tuple[Fraction, Fraction]:
    """The mean step of a grid, and twice the farthest that a point is off its place, in steps."""
    first = Fraction(places[0])
    step = (Fraction(places[-1]) - first) / (len(places) - 1)
    return step, 2 * max(abs(Fraction(x) - first - k * step) for k, x in enumerate(places)) / step


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


class GaussianSums:
    """Sums over the first k points x of the weights e^{-(x-c)^2/(2 s^2) + (x-c)(p-c)/s^2}, for a place c of the grid.

    They are in proportion to the Gaussian density at x - p. The factor that they share is left out, because far from
    the grid it varies by orders of magnitude with p: the laws are an exponential family in p. The c to compare
    positions by is the one nearest to them.
    """

    def __init__(self, points: list[Ball], scale: Ball, p: Ball) -> None:
        self.variance = scale * scale
        self.centre = value_of(p).mid().max(points[0]).min(points[-1])
        self._rates = [(x - self.centre) / self.variance for x in points]
        self._heights = [(self.centre - x) * rate / 2 for x, rate in zip(points, self._rates, strict=True)]

    def below(self, p: Ball) -> list[Ball]:
        """The sums for k = 0, 1, ..."""
        return list(itertools.accumulate(self._weights(p), initial=ZERO))

    def total(self, p: Ball) -> Ball:
        """The sum over all points."""
        return self.below(p)[-1]

    def slopes(self, p: Ball) -> list[Ball]:
        """d/dp of the logarithms of the sums for k = 0, 1, ..."""
        weights = self._weights(p)
        sums, firsts = (itertools.accumulate(each, initial=ZERO) for each in (weights, map(mul, self._rates, weights)))
        return [first / each if value_of(each) > 0 else arb.nan() for first, each in zip(firsts, sums, strict=True)]

    def log_ratio(self, x: Ball, d: Ball) -> Ball:
        """log of the weights of p over those of p + d, at x."""
        return (self.centre - x) / self.variance * d

    def threshold(self, d: Ball, level: Ball) -> Ball:
        """Where the log-ratio is `level`."""
        return self.centre - level * self.variance / d

    def _weights(self, p: Ball) -> list[Ball]:
        way = p - self.centre
        return [(way * rate + height).exp() for rate, height in zip(self._rates, self._heights, strict=True)]


class TruncatedGaussianGrid(TruncatedGrid):
    """Truncated Gaussian noise on the points of a grid."""

    def _sums_at(self, p: Ball) -> GaussianSums:
        return GaussianSums(self.points, self.noise.scale, p)

    def sticks(self, p: Ball, d: Ball, epsilon: Ball, only: Collection[int] = ()) -> dict[int, Ball]:
        """P(A) - e^epsilon Q(A) for the sets of the first k points, for every k that may be the best (or `only`)."""
        sums = self._sums_at(p)
        below_p, below_q = sums.below(p), sums.below(p + d)
        zp, zq = below_p[-1], below_q[-1]
        if not (value_of(zp) > 0 and value_of(zq) > 0):
            return {0: arb.nan()}
        slopes = sums.slopes(p + up_to(d)) if near_pair(p, d) else None
        change = zq.log() - zp.log() if slopes is None else d * slopes[-1]
        if not only:
            level = epsilon - change
            if is_taylor(level) and not p[0].is_exact():
                level = tightened(level, lambda at: epsilon + (sums.total(at) / sums.total(at + d)).log(), p[0])
            t = sums.threshold(d, value_of(level))
            # The last point at or left of the threshold, whichever way its last bit falls.
            first, last = bisect.bisect_left(self._places, down(t)), bisect.bisect_right(self._places, up(t))
            if last - first > 8:
                return {0: arb.nan()}
            only = range(first, last + 1)
        if slopes is not None:  # the two laws nearly agree: their ratio from the slopes of the logarithms
            return {k: below_p[k] / zp * -expm1(epsilon + d * slopes[k] - change) if k else ZERO for k in only}
        weight = epsilon.exp() / zq
        return {k: below_p[k] / zp - below_q[k] * weight for k in only}

    def loss(self, p: Ball, d: Ball) -> Ball:
        """Pure epsilon of the pair in this direction."""
        sums = self._sums_at(p)
        return sums.log_ratio(self.points[0], d) + sums.total(p + d).log() - sums.total(p).log()

    def renyi(self, p: Ball, d: Ball, order: Ball) -> Ball:
        """Renyi divergence of P from Q of an order above 1: the same sums about a third place.

        Over a cell wider than the places are apart from a mean of the second derivative, as for spans.
        """
        sums = self._sums_at(p)
        reach = ((1 - order) * d).union(d)
        if is_taylor(p) and reach.rad() < p[0].rad():
            total = sums.total(taylor(p[0] + reach, p.prec + 1))
            if value_of(total) > 0:
                return total.log().derivative().derivative() * (order * d * d / 2)
        renyi_integral = sums.total(p + (1 - order) * d)
        return (renyi_integral.log() - sums.total(p).log() * order) / (order - 1) + sums.total(p + d).log()

    def elsewhere(self, start: float, end: float) -> tuple[Ball, Ball]:
        """The most weight outside the points around the positions [start, end], in units of the weight inside.

        Also how far apart those points are. The weight of a point relative to one on its left rises with the position.
        """
        last = len(self._places) - 1
        first = min(max(bisect.bisect_right(self._places, start) - 1, 0), last - 1)
        final = min(max(bisect.bisect_left(self._places, end), first + 1), last)
        total, variance = ball(0.0), self.noise.scale * self.noise.scale
        for at, edge, others in ((start, first, range(first)), (end, final, range(final + 1, last + 1))):
            if others and math.isinf(at):
                return INFINITY, self.points[last]
            for k in others:
                offset = self.points[k] - self.points[edge]
                total = total + ((ball(at) - self.points[edge] - offset / 2) * offset / variance).exp()
        return total, self.points[final] - self.points[first]

    def mean(self, p: Ball) -> Ball:
        """Expectation at p."""
        weights, total = self._weights(p)
        return sum((x * w for x, w in zip(self.points, weights, strict=True)), ball(0.0)) / total

    def spread(self, p: Ball, edge: Ball) -> Ball:
        """E (x - edge)^2 at p."""
        weights, total = self._weights(p)
        return sum(((x - edge) ** 2 * w for x, w in zip(self.points, weights, strict=True)), ball(0.0)) / total
