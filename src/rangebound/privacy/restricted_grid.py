"""Truncation to the points of a grid, in ball arithmetic (see `exact`)."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Collection, Iterator
from typing import Any, ClassVar

from flint import arb, arb_series

from rangebound.ball import Ball, ball, down, expm1, is_taylor, tightened, up, value_of
from rangebound.law import Shape
from rangebound.noise import Noise
from rangebound.noise.exact import exact
from rangebound.privacy.pieces import near_pair, up_to

_ZERO: Any = ball(0.0)


class GaussianSums:
    """Sums of e^{-(x-p)^2/(2 s^2)} over the first k points."""

    def __init__(self, points: list[Ball], places: tuple[float, ...], noise: Any) -> None:
        self.points, self.noise = points, noise
        self._rate = -1 / (2 * noise.scale * noise.scale)
        self._series = [arb_series([x]) for x in points]  # a series minus a series is much faster than a ball minus one

    def below(self, p: Any) -> Callable[[int], Any]:
        sums = list(itertools.accumulate(self._kernel(p), initial=ball(0.0)))
        return sums.__getitem__

    def slopes(self, p: Any) -> Callable[[int], Any]:
        """d/dp of the logarithm of the sum over the first k points."""
        kernel = list(self._kernel(p))
        sums = list(itertools.accumulate(kernel, initial=_ZERO))
        pulls = ((x - p) * (-2 * self._rate) * each for x, each in zip(self.points, kernel, strict=True))
        firsts = list(itertools.accumulate(pulls, initial=_ZERO))
        return lambda k: firsts[k] / sums[k] if value_of(sums[k]) > 0 else arb.nan()

    def blend(self, p: Any, d: Ball, order: Ball) -> Any:
        """The sum over all points of g(x-p)^order g(x-p-d)^(1-order): a Gaussian sum about p + (1 - order) d."""
        ratio = d / self.noise.scale
        total = self.below(p + (1 - order) * d)(len(self.points))
        return total * (order * (order - 1) * ratio * ratio / 2).exp()

    def _kernel(self, p: Any) -> Iterator[Any]:
        if is_taylor(p):
            rate = arb_series([self._rate])
            return (((x - p) * (x - p) * rate).exp() for x in self._series)
        return (((x - p) * (x - p) * self._rate).exp() for x in self.points)


class RestrictedGrid:
    """Truncation to the points of a grid: probabilities in proportion to g(x-q)."""

    sums: ClassVar[Any] = GaussianSums

    def __init__(self, noise: Noise, shape: Shape) -> None:
        self.noise = exact(noise)
        self.points = [ball(x) for x in shape.points]
        self._places = shape.points
        self._sums = self.sums(self.points, shape.points, self.noise)

    def sticks(self, p: Any, d: Ball, epsilon: Ball, only: Collection[int] = ()) -> dict[int, Any]:
        """P(A) - e^epsilon Q(A) for the sets of the first k points, for every k that may be the best (or `only`)."""
        below_p, below_q = self._sums.below(p), self._sums.below(p + d)
        zp, zq = below_p(len(self.points)), below_q(len(self.points))
        if not (value_of(zp) > 0 and value_of(zq) > 0):
            return {0: arb.nan()}
        slopes = self._sums.slopes(p + up_to(d)) if near_pair(p, d) else None
        change = zq.log() - zp.log() if slopes is None else d * slopes(len(self.points))
        if not only:
            level = epsilon - change
            if is_taylor(level) and not p[0].is_exact():
                level = tightened(level, lambda at: epsilon - self.change(at, d), p[0])
            (t,) = self.noise.thresholds(value_of(p), d, value_of(level))
            # The last point at or left of the threshold, whichever way its last bit falls.
            first, last = bisect.bisect_left(self._places, down(t)), bisect.bisect_right(self._places, up(t))
            if last - first > 8:
                return {0: arb.nan()}
            only = range(first, last + 1)
        if slopes is not None:  # the two laws nearly agree: their ratio from the slopes of the logarithms
            return {k: below_p(k) / zp * -expm1(epsilon + d * slopes(k) - change) if k else _ZERO for k in only}
        weight = epsilon.exp() / zq
        return {k: below_p(k) / zp - below_q(k) * weight for k in only}

    def _kept(self, p: Any) -> Any:
        return self._sums.below(p)(len(self.points))

    def loss(self, p: Any, d: Ball) -> Any:
        """Pure epsilon of the pair in this direction."""
        return self.noise.log_ratio(self.points[0] - p, d) + self.change(p, d)

    def change(self, p: Any, d: Ball) -> Any:
        """log Z(p+d) - log Z(p)."""
        return self._kept(p + d).log() - self._kept(p).log()

    def renyi(self, p: Any, d: Ball, order: Ball) -> Any:
        """Renyi divergence of P from Q of an order above 1."""
        total = self._sums.blend(p, d, order)
        return (total.log() - self._kept(p).log() * order) / (order - 1) + self._kept(p + d).log()

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

    def mean(self, p: Ball) -> Ball:
        """Expectation at p."""
        weights, total = self._weights(p)
        return sum((x * w for x, w in zip(self.points, weights, strict=True)), ball(0.0)) / total

    def right_of(self, p: Ball) -> Ball:
        """Probability of an output at or above p at the location p."""
        weights, total = self._weights(p)
        return sum((w for x, w in zip(self.points, weights, strict=True) if not x < p), ball(0.0)) / total

    def spread(self, p: Ball, edge: Ball) -> Ball:
        """E (x - edge)^2 at p."""
        weights, total = self._weights(p)
        return sum(((x - edge) ** 2 * w for x, w in zip(self.points, weights, strict=True)), ball(0.0)) / total

    def _weights(self, p: Any) -> tuple[list[Any], Any]:
        weights = [self.noise.pdf(x - p) for x in self.points]
        total: Any = ball(0.0)
        for weight in weights:
            total = total + weight
        return weights, total
