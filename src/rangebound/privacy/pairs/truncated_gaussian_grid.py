"""A Gaussian law truncated to the points of a grid, in ball arithmetic (see `exact`)."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Collection, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from flint import arb, fmpq

from rangebound.laws.family import BallNoise, Noise
from rangebound.laws.shape import Shape
from rangebound.privacy.pairs.integrals import near_pair, up_to
from rangebound.privacy.pairs.lattice_sums import Theta
from rangebound.privacy.pairs.truncated_grid import TruncatedGrid
from rangebound.values.ball import INFINITY, ZERO, Ball, ball, down, expm1, is_taylor, taylor, tightened, up, value_of

_SHORT = 16  # steps of a grid up to which its points are summed one by one
ROUNDED = Fraction(1, 10**6)  # of a step: points may be off their places by so much


class GaussianSums:
    """Sums over the first k points x of the weights e^{-(x-c)^2/(2 s^2) + (x-c)(p-c)/s^2}, for a place c of the grid.

    They are in proportion to the Gaussian density at x - p. The factor that they share is left out, because far from
    the grid it varies by orders of magnitude with p: the laws are an exponential family in p. The c to compare
    positions by is the one nearest to them.
    """

    def __init__(self, points: list[Ball], noise: BallNoise, p: Ball) -> None:
        self.variance = noise.scale * noise.scale
        self.centre = value_of(p).mid().max(points[0]).min(points[-1])
        self._rates = [(x - self.centre) / self.variance for x in points]
        self._heights = [(self.centre - x) * rate / 2 for x, rate in zip(points, self._rates, strict=True)]

    def below(self, p: Ball) -> Callable[[int], Ball]:
        """The sums for k = 0, 1, ..."""
        return list(itertools.accumulate(self._weights(p), initial=ZERO)).__getitem__

    def total(self, p: Ball) -> Ball:
        """The sum over all points."""
        return self.below(p)(len(self._rates))

    def slopes(self, p: Ball) -> Callable[[int], Ball]:
        """d/dp of the logarithm of the sum over the first k points."""
        weights = list(self._weights(p))
        sums = itertools.accumulate(weights, initial=ZERO)
        pulls = (rate * weight for rate, weight in zip(self._rates, weights, strict=True))
        firsts = itertools.accumulate(pulls, initial=ZERO)
        found = [first / each if value_of(each) > 0 else arb.nan() for first, each in zip(firsts, sums, strict=True)]
        return found.__getitem__

    def log_ratio(self, x: Ball, d: Ball) -> Ball:
        """log of the weights of p over those of p + d, at x."""
        return (self.centre - x) / self.variance * d

    def threshold(self, d: Ball, level: Ball) -> Ball:
        """Where the log-ratio is `level`."""
        return self.centre - level * self.variance / d

    def _weights(self, p: Ball) -> Iterator[Ball]:
        way = p - self.centre
        return ((way * rate + height).exp() for rate, height in zip(self._rates, self._heights, strict=True))


class LatticeSums(GaussianSums):
    """The same for points that are equally spaced, up to the rounding of each to a double: a few polynomials."""

    def __init__(
        self, lattice: LongLattice, points: list[Ball], places: tuple[float, ...], noise: BallNoise, p: Ball
    ) -> None:
        self.variance = noise.scale * noise.scale
        self._lattice, self._last = lattice, len(points) - 1
        at = min(max(float(value_of(p).mid()), places[0]), places[-1])
        self._index = min(max(round((at - places[0]) / lattice.width), 0), self._last)
        self.centre = points[self._index]

    def below(self, p: Ball) -> Callable[[int], Ball]:
        """The sums for k = 0, 1, ..."""
        t = (p - self.centre) * (self._lattice.step / self.variance)
        here, theta = self._index, self._lattice.theta

        def total(k: int) -> Ball:
            left = theta.sum(-t, max(here - k, 0) + 1, here)
            return left + theta.sum(t, 0, k - 1 - here) if k > here else left

        return total

    def total(self, p: Ball) -> Ball:
        """The sum over all points."""
        return self.below(p)(self._last + 1)

    def slopes(self, p: Ball) -> Callable[[int], Ball]:
        """d/dp of the logarithm of the sum over the first k points."""
        below = self.below(taylor(p[0], p.prec))

        def slope(k: int) -> Ball:
            mass = below(k)
            return mass.log().derivative() if value_of(mass) > 0 else arb.nan()

        return slope


class LongLattice(NamedTuple):
    """The step of a regular grid and the sums over it."""

    step: Ball
    width: float  # the step as a float
    theta: Theta
    wobble: Ball  # no point is farther from its place, in units of the step, than half of this


def lattice_of(places: tuple[float, ...], scale: Ball) -> LongLattice | None:
    """The lattice of a regular grid; None for a short one, or one whose points are far from their places."""
    if len(places) <= _SHORT:
        return None
    step, off = spacing(places)
    if off > ROUNDED:
        return None
    exact, wobble = _rational(step), _rational(off)
    rate = (exact / scale) * (exact / scale)
    reach = ball(float(len(places)))
    return LongLattice(exact, float(step), Theta(rate, (wobble, reach) if off else None), wobble)


@lru_cache(maxsize=64)
def spacing(places: tuple[float, ...]) -> tuple[Fraction, Fraction]:
    """The mean step of a grid, and twice the farthest that a point is off its place, in steps."""
    first = Fraction(places[0])
    step = (Fraction(places[-1]) - first) / (len(places) - 1)
    return step, 2 * max(abs(Fraction(x) - first - k * step) for k, x in enumerate(places)) / step


def _rational(x: Fraction) -> Ball:
    return arb(fmpq(x.numerator, x.denominator))


class TruncatedGaussianGrid(TruncatedGrid):
    """Truncated Gaussian noise on the points of a grid."""

    def __init__(self, noise: Noise, shape: Shape) -> None:
        super().__init__(noise, shape)
        self.lattice = lattice_of(shape.points, self.noise.scale)

    def _sums_at(self, p: Ball) -> GaussianSums:
        """The sums in the form that is the quickest about p."""
        if self.lattice is None:
            return GaussianSums(self.points, self.noise, p)
        return LatticeSums(self.lattice, self.points, self._places, self.noise, p)

    def sticks(self, p: Ball, d: Ball, epsilon: Ball, only: Collection[int] = ()) -> dict[int, Ball]:
        """P(A) - e^epsilon Q(A) for the sets of the first k points, for every k that may be the best (or `only`)."""
        sums, count = self._sums_at(p), len(self.points)
        below_p, below_q = sums.below(p), sums.below(p + d)
        zp, zq = below_p(count), below_q(count)
        if not (value_of(zp) > 0 and value_of(zq) > 0):
            return {0: arb.nan()}
        slopes = sums.slopes(p + up_to(d)) if near_pair(p, d) else None
        change = zq.log() - zp.log() if slopes is None else d * slopes(count)
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
            return {k: below_p(k) / zp * -expm1(epsilon + d * slopes(k) - change) if k else ZERO for k in only}
        weight = epsilon.exp() / zq
        return {k: below_p(k) / zp - below_q(k) * weight for k in only}

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
