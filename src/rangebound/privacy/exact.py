"""What one pair of true answers gives away, in ball arithmetic.

A pair is a position `p` and a distance `d > 0`: P is the law at p, Q the law at p + d, so that P/Q falls with x
(the monotone likelihood ratio). Only this direction is written down; the other one is the same question
about the mirrored mechanism. Positions may be balls, or Taylor series where derivatives are wanted. The threshold of
the best attack moves with the position, in closed form.

Three families cover every mechanism: `Restricted` (truncation to spans), `RestrictedGrid` (truncation to points) and
`Mapped` (a nondecreasing map of the noisy value: clamp, round, nothing).
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Collection, Iterator
from typing import Any

from flint import arb, arb_series

from rangebound.ball import Ball, ball, down, is_taylor, largest, power, smallest, tightened, up, value_of
from rangebound.law import Shape
from rangebound.noise import Gaussian, Laplace, Noise, TruncatedLaplacian
from rangebound.noise.exact import INFINITY, exact


def _end(x: float) -> Ball | None:
    return None if math.isinf(x) else ball(x)


def _shift(x: Ball | None, p: Any) -> Any:
    return None if x is None else x - p


class Restricted:
    """Truncation to spans: density g(x-q)/Z(q)."""

    def __init__(self, noise: Noise, shape: Shape) -> None:
        self.noise = exact(noise)
        self.spans = [(_end(a), _end(b)) for a, b in shape.spans]
        self.gaussian = isinstance(noise, Gaussian)
        self.limited = isinstance(noise, TruncatedLaplacian)

    def kept(self, p: Any) -> Any:
        """Z(p): the mass of the support."""
        return self._below(p, None)

    def sticks(self, p: Any, d: Ball, epsilon: Ball, only: Collection[int] = ()) -> dict[int, Any]:
        """P(A) - e^epsilon Q(A) for the sets A = {x <= t} of which one is the best; each is smooth in p."""
        zp, zq = self.kept(p), self.kept(p + d)
        if not (value_of(zp) > 0 and value_of(zq) > 0):  # a cell too wide to say anything
            return {0: arb.nan()}
        level = epsilon + zp.log() - zq.log()
        if is_taylor(p) and not p[0].is_exact():
            level = tightened(level, lambda at: epsilon + self.kept(at).log() - self.kept(at + d).log(), p[0])
        weight = epsilon.exp() / zq
        return {
            i: self._below(p, t) / zp - self._below(p + d, t) * weight
            for i, t in enumerate(self.noise.thresholds(p, d, level))
        }

    def loss(self, p: Any, d: Ball) -> Any:
        """Pure epsilon of the pair in this direction: the supremum of log P/Q, at the left end of the support."""
        start = self.spans[0][0]
        if self.limited:
            start = self._first_shared(value_of(p), d)
        ratio = self.noise.log_ratio(_shift(start, p), d)
        if not value_of(ratio).is_finite() or self._balanced(p, d):
            return ratio
        return ratio + self.kept(p + d).log() - self.kept(p).log()

    def renyi(self, p: Any, d: Ball, order: Ball) -> Any:
        """Renyi divergence of P from Q of an order above 1."""
        total: Any = ball(0.0)
        for lower, upper in self.spans:
            part = self.noise.blend(p, d, order, lower, upper)
            if not value_of(part).is_finite():
                return part
            total = total + part
        zp, zq = self.kept(p), self.kept(p + d)
        return (total.log() - zp.log() * order) / (order - 1) + zq.log()

    def fisher(self, p: Ball) -> Ball:
        """Fisher information about the location: the variance of the score d/dq log g(x-q)."""
        if self.limited:
            return self._limited_fisher(p)
        total, first, second = self._scores(p)
        mean = first / total
        return second / total - mean * mean

    def kept_at_least(self, start: float, end: float) -> Ball:
        """A lower bound on Z over the positions [start, end] from single spans, each log-concave in the position."""
        best = ball(0.0)
        for lower, upper in self.spans:
            ends = []
            for at, open_end in ((start, lower), (end, upper)):
                if math.isinf(at):
                    ends.append(ball(1.0 if open_end is None else 0.0))
                else:
                    ends.append(self.noise.mass(_shift(lower, ball(at)), _shift(upper, ball(at))))
            best = largest(best, smallest(*ends))
        return best.lower()

    def edges(self) -> tuple[Ball | None, Ball | None]:
        """The outer ends of the support."""
        return self.spans[0][0], self.spans[-1][1]

    def mean(self, p: Ball) -> Ball:
        """Expectation at p, for Gaussian noise."""
        total, first, _ = self._scores(p)
        return p + self.noise.scale * self.noise.scale * first / total

    def right_of(self, p: Ball) -> Ball:
        """Probability of an output above p at the location p."""
        kept = self.kept(p)
        return 1 - self._below(p, p) / kept

    def spread(self, p: Ball, edge: Ball) -> Ball:
        """E (x - edge)^2 at p, for Gaussian noise."""
        total, first, second = self._scores(p)
        variance, offset = self.noise.scale * self.noise.scale, edge - p
        return variance * (second * variance - 2 * offset * first) / total + offset * offset

    def _below(self, p: Any, t: Any) -> Any:
        """Mass at p of the support up to t (None: all of it)."""
        total: Any = ball(0.0)
        for lower, upper in self.spans:
            end: Any = upper
            if t is not None:
                if lower is not None and value_of(t) <= lower:
                    break
                if upper is None or not value_of(t) >= upper:
                    end = t if upper is None else smallest(t, upper)
                    end = end if lower is None else largest(end, lower)
            total = total + self.noise.mass(_shift(lower, p), _shift(end, p))
        return total

    def _balanced(self, p: Ball, d: Ball) -> bool:
        """Whether the pair lies symmetrically in an interval, so that both keep exactly the same mass."""
        low, high = self.edges()
        if is_taylor(p) or len(self.spans) > 1 or low is None or high is None or self.limited:
            return False
        return bool((low + high - 2 * p - d).is_zero())

    def _scores(self, p: Ball) -> tuple[Ball, Ball, Ball]:
        sums = (ball(0.0),) * 3
        for lower, upper in self.spans:
            parts = _score_moments(self.noise, self.gaussian, _shift(lower, p), _shift(upper, p))
            sums = (sums[0] + parts[0], sums[1] + parts[1], sums[2] + parts[2])
        return sums

    def _first_shared(self, p: Ball, d: Ball) -> Ball | None:
        """The left end of P's part of the support; None where P reaches a part that Q does not."""
        begins, escapes = p + d - self.noise.limit, p - self.noise.limit
        for lower, upper in self.spans:
            if upper is not None and upper <= escapes:
                continue
            if lower is not None and lower >= begins:
                return lower
            return None
        return None

    def _limited_fisher(self, p: Ball) -> Ball:
        """As for Laplace where the whole support is within reach; infinite where an edge of the noise is inside it."""
        low, high = self.spans[0][0], self.spans[-1][1]
        limit = self.noise.limit
        if low is None or high is None or not (low - p >= -limit and high - p <= limit):
            return INFINITY
        whole = Restricted.__new__(Restricted)
        whole.noise, whole.spans, whole.gaussian, whole.limited = self.noise.whole, self.spans, False, False
        return whole.fisher(p)


class RestrictedGrid:
    """Truncation to the points of a grid: probabilities in proportion to g(x-q)."""

    def __init__(self, noise: Noise, shape: Shape) -> None:
        self.noise = exact(noise)
        self.points = [ball(x) for x in shape.points]
        self._places = shape.points
        sums = _LaplaceSums if isinstance(noise, Laplace) else _GaussianSums
        self._sums = sums(self.points, shape.points, self.noise)

    def sticks(self, p: Any, d: Ball, epsilon: Ball, only: Collection[int] = ()) -> dict[int, Any]:
        """P(A) - e^epsilon Q(A) for the sets of the first k points, for every k that may be the best (or `only`)."""
        below_p, below_q = self._sums.below(p), self._sums.below(p + d)
        zp, zq = below_p(len(self.points)), below_q(len(self.points))
        if not (value_of(zp) > 0 and value_of(zq) > 0):
            return {0: arb.nan()}
        if not only:
            level = epsilon + zp.log() - zq.log()
            if is_taylor(p) and not p[0].is_exact():
                level = tightened(level, lambda at: epsilon + self._kept(at).log() - self._kept(at + d).log(), p[0])
            (t,) = self.noise.thresholds(value_of(p), d, value_of(level))
            # The last point at or left of the threshold, whichever way its last bit falls.
            first, last = bisect.bisect_left(self._places, down(t)), bisect.bisect_right(self._places, up(t))
            if last - first > 8:
                return {0: arb.nan()}
            only = range(first, last + 1)
        weight = epsilon.exp() / zq
        return {k: below_p(k) / zp - below_q(k) * weight for k in only}

    def _kept(self, p: Any) -> Any:
        return self._sums.below(p)(len(self.points))

    def loss(self, p: Any, d: Ball) -> Any:
        """Pure epsilon of the pair in this direction."""
        return self.noise.log_ratio(self.points[0] - p, d) + self._kept(p + d).log() - self._kept(p).log()

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


class _GaussianSums:
    """Sums of e^{-(x-p)^2/(2 s^2)} over the first k points."""

    def __init__(self, points: list[Ball], places: tuple[float, ...], noise: Any) -> None:
        self.points, self.noise = points, noise
        self._rate = -1 / (2 * noise.scale * noise.scale)
        self._series = [arb_series([x]) for x in points]  # a series minus a series is much faster than a ball minus one

    def below(self, p: Any) -> Callable[[int], Any]:
        sums = list(itertools.accumulate(self._kernel(p), initial=ball(0.0)))
        return sums.__getitem__

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


class _LaplaceSums:
    """Sums of e^{-|x-p|/b} over the first k points, each in a few steps.

    With j points left of p the sum of the first k is A_min(j,k) e^{-p/b} + (B_j - B_k) e^{p/b}, where A and B are sums
    of e^{x/b} from the left and of e^{-x/b} from the right. Points inside a wide ball p are added one by one.
    """

    def __init__(self, points: list[Ball], places: tuple[float, ...], noise: Any) -> None:
        self.points, self.places, self.noise = points, places, noise
        steps = [(x - points[0]) / noise.scale for x in points]
        zero = ball(0.0)
        self._left = list(itertools.accumulate((y.exp() for y in steps), initial=zero))
        self._right = list(itertools.accumulate(((-y).exp() for y in reversed(steps)), initial=zero))[::-1]

    def below(self, p: Any) -> Callable[[int], Any]:
        at = value_of(p)
        left = bisect.bisect_right(self.places, down(at))  # surely left of p, or at it
        right = bisect.bisect_left(self.places, up(at))  # from here on surely right of it, or at it
        right = max(left, right)
        up_to = (p - self.points[0]) / self.noise.scale
        falling, rising = (-up_to).exp(), up_to.exp()
        inside = [self.noise.pdf(x - p) * (2 * self.noise.scale) for x in self.points[left:right]]

        def total(k: int) -> Any:
            value = falling * self._left[min(k, left)]
            for extra in inside[: max(k - left, 0)]:
                value = value + extra
            return value + rising * (self._right[right] - self._right[k]) if k > right else value

        return total

    def blend(self, p: Any, d: Ball, order: Ball) -> Any:
        """The sum over all points of g(x-p)^order g(x-p-d)^(1-order): the ratio is constant outside the pair."""
        at = value_of(p)
        left = bisect.bisect_right(self.places, down(at))
        right = max(left, bisect.bisect_left(self.places, up(at + d)))
        below = self.below(p)
        edge = ((order - 1) * d / self.noise.scale).exp()
        total = below(left) * edge + (below(len(self.points)) - below(right)) / edge
        weights = [self.noise.pdf(x - p) * (2 * self.noise.scale) for x in self.points[left:right]]
        for x, weight in zip(self.points[left:right], weights, strict=True):
            total = total + weight * (self.noise.log_ratio(x - p, d) * (order - 1)).exp()
        return total


class Mapped:
    """A nondecreasing map of the noisy value: events {x <= t} are events {noisy value <= cut}."""

    def __init__(self, noise: Noise, shape: Shape) -> None:
        self.noise = exact(noise)
        self.limited = isinstance(noise, TruncatedLaplacian)
        self.gaussian = isinstance(noise, Gaussian)
        self.span = shape.spans[0] if shape.spans else None
        self.cells = shape.cells
        # Ranges of the cuts that an attacker can see: a whole span, or single points.
        self.cuts: list[tuple[float, float]] = (
            [self.span] if self.span is not None else [(high, high) for _, high in shape.cells[:-1]]
        )

    def sticks(self, p: Ball, d: Ball, epsilon: Ball, only: Collection[int] = ()) -> dict[int, Ball]:
        """The hockey stick of the pair, for a position that is a double."""
        at = float(p.mid())
        return {0: self.stick_over(at, at, d, epsilon)[0]}

    def stick_over(self, start: float, end: float, d: Ball, epsilon: Ball) -> tuple[Ball, float]:
        """Supremum of the hockey stick over all positions in [start, end], and a position that attains it.

        F(c - p) - e^epsilon F(c - p - d) depends on the cut c and the position p through y = c - p alone, rises up to
        one y and falls after it. So the best y is the one nearest to that peak among those some cut and position make.
        """
        weight, zero = epsilon.exp(), ball(0.0)
        best, where = largest(zero, 1 - weight), _clip(0.0, start, end)
        for peak in self.noise.thresholds(zero, d, epsilon):
            for first, last in self._near(peak, start, end):
                y = peak
                if math.isfinite(first) and math.isfinite(end):
                    y = largest(y, ball(first) - ball(end))
                if math.isfinite(last) and math.isfinite(start):
                    y = smallest(y, ball(last) - ball(start))
                value = self.noise.cdf(y) - weight * self.noise.cdf(y - d)
                if not value <= best:
                    offset = float(y.mid())
                    where = _clip(_clip(where, first - offset, last - offset), start, end)
                best = largest(best, value)
        return best, where

    def loss(self, p: Any, d: Ball) -> Any:
        """Pure epsilon of the pair in this direction: the log-ratio of the leftmost event that P can cause."""
        if self.limited:
            return self._limited_loss(p, d)
        if math.isinf(self.cuts[0][0]):
            return self.noise.log_ratio(None, d)
        lowest = ball(self.cuts[0][0])
        return self.noise.cdf(lowest - p).log() - self.noise.cdf(lowest - p - d).log()

    def renyi(self, p: Any, d: Ball, order: Ball, *, open_ends: bool = False) -> Any:
        """Renyi divergence of P from Q of an order above 1.

        With `open_ends` the outermost cells are not collected but counted as finely as can be: an upper bound that
        holds for every longer grid.
        """
        total: Any = ball(0.0)
        if self.span is not None:
            total = self.noise.blend(p, d, order, _end(self.span[0]), _end(self.span[1]))
        for low, high in self.cells:
            if open_ends and math.isinf(high - low):
                part = self.noise.blend(p, d, order, _end(low), _end(high))
            else:
                a = self.noise.mass(_shift(_end(low), p), _shift(_end(high), p))
                b = self.noise.mass(_shift(_end(low), p + d), _shift(_end(high), p + d))
                part = self._atom(a, b, order)
            if not value_of(part).is_finite():
                return part
            total = total + part
        return total if not value_of(total).is_finite() else total.log() / (order - 1)

    def fisher(self, p: Ball) -> Ball:
        """Fisher information about the location: scores inside the span, (dP)^2/P at each atom."""
        total = ball(0.0)
        if self.span is not None:
            if self.limited:
                return INFINITY
            total = _score_moments(
                self.noise, self.gaussian, _shift(_end(self.span[0]), p), _shift(_end(self.span[1]), p)
            )[2]
        for low, high in self.cells:
            mass = self.noise.mass(_shift(_end(low), p), _shift(_end(high), p))
            slope = ball(0.0)
            for end, sign in ((low, 1), (high, -1)):
                if math.isfinite(end):
                    slope = slope + sign * self.noise.pdf(ball(end) - p)
            if not slope.is_zero():
                total = total + slope * slope / mass
        return total

    def renyi_left(self, c: Ball, d: Ball, order: Ball) -> Ball:
        """Upper bound on the Renyi divergence over all positions up to c, where there is a lowest cut.

        The atom below the lowest cut has P^a Q^(1-a) <= F(cut - c - d)^(1-a). All above it adds at most what the
        unbounded noise has there (joint convexity), which shrinks as the position moves left.
        """
        cut = ball(self.cuts[0][0])
        below = power(self.noise.cdf(cut - c - d), 1 - order)
        return (below + self.noise.blend(c, d, order, cut, None)).log() / (order - 1)

    def renyi_right(self, c: Ball, d: Ball, order: Ball) -> Ball:
        """The same over all positions from c on; the atom above the highest cut has P <= Q, so it adds at most 1."""
        cut = ball(self.cuts[-1][1])
        return (1 + self.noise.blend(c, d, order, None, cut)).log() / (order - 1)

    def _atom(self, a: Any, b: Any, order: Ball) -> Any:
        if value_of(a).is_zero():
            return ball(0.0)
        if value_of(b).is_zero():
            return INFINITY
        return power(a, order) * power(b, 1 - order)

    def _near(self, peak: Ball, start: float, end: float) -> list[tuple[float, float]]:
        """The cuts that can make an offset next to the peak: all of a few, or the neighbours of each end's best."""
        if len(self.cuts) <= 16:
            return self.cuts
        last = len(self.cuts) - 1
        picks = set()
        for position in (start, end):
            if math.isinf(position):
                picks.add(0 if position < 0 else last)
                continue
            at = bisect.bisect_left(self.cuts, (position + float(peak.mid()), -math.inf))
            low, high = max(at - 1, 0), min(at, last)
            while low > 0 and not ball(self.cuts[low][0]) - position <= peak:
                low -= 1
            while high < last and not ball(self.cuts[high][0]) - position >= peak:
                high += 1
            picks.update(range(low, high + 1))
        return [self.cuts[i] for i in sorted(picks)]

    def _limited_loss(self, p: Any, d: Ball) -> Any:
        """With noise of limited reach the ratio is finite only if Q can cause the leftmost event that P can."""
        begins, escapes = value_of(p) + d - self.noise.limit, value_of(p) - self.noise.limit
        for first, last in self.cuts:
            if math.isfinite(last) and ball(last) <= escapes:
                continue
            if math.isinf(first) or not ball(first) > begins:
                return INFINITY
            cut = ball(first)
            break
        else:
            return ball(0.0)
        return self.noise.cdf(cut - p).log() - self.noise.cdf(cut - p - d).log()


def stick(kind: Any, p: Ball, d: Ball, epsilon: Ball) -> Ball:
    """Hockey stick of a pair: the best of its threshold events, the empty event and the certain one."""
    return largest(ball(0.0), 1 - epsilon.exp(), *kind.sticks(p, d, epsilon).values())


def _score_moments(noise: Any, gaussian: bool, lower: Any, upper: Any) -> tuple[Ball, Ball, Ball]:
    """Integrals of g, score g and score^2 g over [lower, upper], score = -(log g)'."""
    zero = ball(0.0)
    low = zero if lower is None else noise.pdf(lower)
    high = zero if upper is None else noise.pdf(upper)
    mass, first = noise.mass(lower, upper), low - high
    variance = noise.scale * noise.scale
    if gaussian:
        edge = (zero if lower is None else lower * low) - (zero if upper is None else upper * high)
        return mass, first, (mass + edge) / variance
    return mass, first, mass / variance


def family(noise: Noise, shape: Shape) -> Any:
    """The family that a mechanism belongs to, at the precision in force."""
    if not shape.normalised:
        return Mapped(noise, shape)
    return Restricted(noise, shape) if shape.spans else RestrictedGrid(noise, shape)


def _clip(x: float, lower: float, upper: float) -> float:
    return min(max(x, lower), upper)
