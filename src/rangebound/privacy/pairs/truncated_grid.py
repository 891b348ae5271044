"""Truncation to the points of a grid, in ball arithmetic: for every log-concave density, Gaussian and Laplace noise."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Collection
from fractions import Fraction
from functools import lru_cache
from operator import mul

from flint import arb

from rangebound.laws.boundings import Shape
from rangebound.laws.family import BallNoise, Noise
from rangebound.privacy.pairs.truncated import near_pair, up_to
from rangebound.privacy.pairs.truncated_laplace import Parts, sharp_stick
from rangebound.values.ball import (
    INFINITY,
    ZERO,
    Ball,
    ball,
    down,
    expm1,
    is_taylor,
    largest,
    taylor,
    tightened,
    up,
    value_of,
)


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
        zp, zq = self._weights(p)[1], self._weights(p + d)[1]
        return zq.log() - zp.log() if value_of(zp) > 0 and value_of(zq) > 0 else arb.nan()

    def loss(self, p: Ball, d: Ball) -> Ball:
        change = self.change(p, d)
        return self.noise.log_ratio(self.points[0] - p, d) + change if value_of(change).is_finite() else change

    def renyi(self, p: Ball, d: Ball, order: Ball) -> Ball:
        weights, zp = self._weights(p)
        ratios = (self.noise.log_ratio(x - p, d) for x in self.points)
        total: Ball = ball(0.0)
        for weight, ratio in zip(weights, ratios, strict=True):
            total = total + weight * ((order - 1) * ratio).exp()
        if not (value_of(total) > 0 and value_of(zp) > 0):
            return arb.nan()
        return (total.log() - zp.log()) / (order - 1) + self.change(p, d)

    def fisher(self, p: Ball) -> Ball:
        weights, total = self._weights(p)
        scores = [self.noise.score(x - p) for x in self.points]
        mean = sum((w * s for w, s in zip(weights, scores, strict=True)), ball(0.0)) / total
        second = sum((w * s * s for w, s in zip(weights, scores, strict=True)), ball(0.0)) / total
        return second - mean * mean

    def edges(self) -> tuple[Ball, Ball]:
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
        weights, total = self._weights(p)
        return sum((x * w for x, w in zip(self.points, weights, strict=True)), ball(0.0)) / total

    def spread(self, p: Ball, edge: Ball) -> Ball:
        weights, total = self._weights(p)
        return sum(((x - edge) ** 2 * w for x, w in zip(self.points, weights, strict=True)), ball(0.0)) / total


_FEW = 8  # points that are added one by one, and events that are distinguished
_MORE = 1.001
_BEST = -1  # the name of the best event of all, where they are not distinguished


class LaplaceSums:
    """Sums of e^{-|x-p|/b} over the first k points, each in a few steps.

    With j points left of p the sum of the first k is A_min(j,k) e^{-p/b} + (B_j - B_k) e^{p/b}, where A and B are sums
    of e^{x/b} from the left and of e^{-x/b} from the right. Points inside a wide ball p are added one by one. `beyond`
    is the weight of what may lie left of the first point and right of the last one, in units of theirs.
    """

    def __init__(
        self, points: list[Ball], places: tuple[float, ...], noise: BallNoise, beyond: tuple[Ball, Ball] = (ZERO, ZERO)
    ) -> None:
        self.points, self.places, self.noise = points, places, noise
        steps = [(x - points[0]) / noise.scale for x in points]
        low, high = beyond[0], beyond[1] * (-steps[-1]).exp()
        self._left = list(itertools.accumulate((y.exp() for y in steps), initial=low))
        self._right = list(itertools.accumulate(((-y).exp() for y in reversed(steps)), initial=high))[::-1]
        self._known: dict[str, list[Ball]] = {}

    def share_right(self, at: float) -> Ball:
        """The share of the points at or right of a place, as it sees them."""
        count, offset = bisect.bisect_left(self.places, at), (ball(at) - self.points[0]) / self.noise.scale
        left, right = (-offset).exp() * self._left[count], offset.exp() * self._right[count]
        return right / (left + right)

    def parts(self, p: Ball, d: Ball, count: int | None = None) -> Parts:
        """The points as the pair (p, p + d) sees them; `count` fixes how many points the best event has."""
        at, b = value_of(p), self.noise.scale
        left, first, last, right = self._places_of(at, d)
        offset, distance = (p - self.points[0]) / b, d / b
        loose = [((x - p) / b) for x in (*self.points[left:first], *self.points[last:right])]
        of_p, of_q = ([_kernel(s - shift) for s in loose] for shift in (ball(0.0), distance))
        rising, falling = offset.exp(), (-offset - distance).exp()
        zero: Ball = ball(0.0)

        def overlap(y: Ball) -> Ball:
            weight = (distance - 2 * y).exp()
            if count is None:
                one_by_one = [(_kernel(s), _kernel(s - distance)) for s in self._between(p, first, last)]
                pairs = [*one_by_one, *zip(of_p, of_q, strict=True)]
                return sum((largest(p - weight * q, zero) for p, q in pairs), zero)
            end = min(max(count, first), last)
            taken = max(count - last, 0) + first - left if count > last else max(min(count, first) - left, 0)
            if end - first <= _FEW:
                inside = [_kernel(s) - weight * _kernel(s - distance) for s in self._between(p, first, end)]
            else:
                of_left, of_right = self._right[first] - self._right[end], self._left[end] - self._left[first]
                inside = [rising * of_left, -weight * falling * of_right]
            inside += [p - weight * q for p, q in zip(of_p[:taken], of_q[:taken], strict=True)]
            return sum(inside, zero)

        whole_p = rising * (self._right[first] - self._right[last])
        whole_q = falling * (self._left[last] - self._left[first])
        return Parts(
            (-offset).exp() * self._left[left],
            (offset + distance).exp() * self._right[right],
            sum(of_p, whole_p),
            sum((q - p for p, q in zip(of_p, of_q, strict=True)), whole_q - whole_p),
            overlap,
        )

    def renyi_integral(self, p: Ball, d: Ball, order: Ball) -> Ball:
        """The sum over all points of g(x-p)^order g(x-p-d)^(1-order): the ratio is constant outside the pair.

        Between the two it is e^{(order-1) d/b} e^{-(2 order-1)(x-p)/b}.
        """
        left, first, last, right = self._places_of(value_of(p), d)
        rising = ((p - self.points[0]) / self.noise.scale).exp()
        edge = ((order - 1) * d / self.noise.scale).exp()
        total = self._left[left] / rising * edge + self._right[right] * rising / edge
        steep = self._steep(order)
        fast = ((p - self.points[0]) * ((2 * order - 1) / self.noise.scale)).exp()
        total = total + fast * edge * (steep[first] - steep[last])
        for x in (*self.points[left:first], *self.points[last:right]):
            weight = self.noise.pdf(x - p) * (2 * self.noise.scale)
            total = total + weight * (self.noise.log_ratio(x - p, d) * (order - 1)).exp()
        return total

    def _places_of(self, at: Ball, d: Ball) -> tuple[int, int, int, int]:
        """Points before the first number lie left of the pair, from the second to the third surely between the two,

        from the fourth on right of it; the others may lie on either side of one of the two.
        """
        left = bisect.bisect_right(self.places, down(at))
        right = max(left, bisect.bisect_left(self.places, up(at + d)))
        first = min(max(left, bisect.bisect_left(self.places, up(at))), right)
        last = min(bisect.bisect_right(self.places, down(at + d)), right)  # a point at q itself is right of the pair
        return (left, first, last, right) if first <= last else (left, right, right, right)

    def _between(self, p: Ball, first: int, last: int) -> list[Ball]:
        return [(x - p) / self.noise.scale for x in self.points[first:last]]

    def _steep(self, order: Ball) -> list[Ball]:
        key = str(order)
        if key not in self._known:
            rate = (2 * order - 1) / self.noise.scale
            terms = ((-(x - self.points[0]) * rate).exp() for x in reversed(self.points))
            self._known = {key: list(itertools.accumulate(terms, initial=ball(0.0)))[::-1]}
        return self._known[key]


def _kernel(y: Ball) -> Ball:
    """e^{-|y|}."""
    return (-largest(y, -y)).exp()


class TruncatedLaplaceGrid(TruncatedGrid):
    """Truncated Laplace on the points of a grid; with `open_ends`, on every longer grid of the same step at once."""

    def __init__(self, noise: Noise, shape: Shape, *, open_ends: bool = False) -> None:
        super().__init__(noise, shape)
        beyond: tuple[Ball, Ball] = (ZERO, ZERO)
        if open_ends:
            ends = (shape.points[:2], shape.points[-2:])
            ratios = [((ball(a) - ball(b)) / self.noise.scale).exp() for a, b in ends]
            # More than any number of points there weigh, a little off their places or not.
            beyond = ZERO.union(_MORE * ratios[0] / (1 - ratios[0])), ZERO.union(_MORE * ratios[1] / (1 - ratios[1]))
        self._sums = LaplaceSums(self.points, shape.points, self.noise, beyond)

    def parts(self, p: Ball, d: Ball) -> Parts:
        return self._sums.parts(p, d)

    def right_of(self, p: Ball) -> Ball:
        return self._sums.share_right(down(p)) if p.is_exact() else super().right_of(p)

    def loss(self, p: Ball, d: Ball) -> Ball:
        change = self.change(p, d)
        return self.noise.log_ratio(self.points[0] - p, d) + change if value_of(change).is_finite() else change

    def renyi(self, p: Ball, d: Ball, order: Ball) -> Ball:
        total, parts = self._sums.renyi_integral(p, d, order), self.parts(p, d)
        distance = d / self.noise.scale
        normaliser = parts.normaliser(distance)
        if not (value_of(total) > 0 and value_of(normaliser) > 0):
            return arb.nan()
        return (total.log() - normaliser.log()) / (order - 1) + parts.change(distance)

    def sticks(self, p: Ball, d: Ball, epsilon: Ball, only: Collection[int] = ()) -> dict[int, Ball]:
        """The events of the first k points, for every k that may be the best (or `only`), each smooth between kinks."""
        distance = d / self.noise.scale
        change = self.change(p, d)
        if is_taylor(p) and is_taylor(change) and not p[0].is_exact():
            change = tightened(change, lambda at: self.change(at, d), p[0])
        if not value_of(change).is_finite():
            return {0: change}
        y = (distance - epsilon + change) / 2
        if value_of(y) <= 0:
            return {0: ZERO}
        if not only:
            t = value_of(p) + value_of(y) * self.noise.scale
            first, last = bisect.bisect_left(self._places, down(t)), bisect.bisect_right(self._places, up(t))
            only = range(first, last + 1) if last - first <= _FEW else (_BEST,)
        return {
            k: sharp_stick(lambda at: self.parts(at, d), p, distance, epsilon)
            if k == _BEST
            else self._sums.parts(p, d, k).event(distance, y)
            for k in only
        }

    def change(self, p: Ball, d: Ball) -> Ball:
        return self.parts(p, d).change(d / self.noise.scale)
