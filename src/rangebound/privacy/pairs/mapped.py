"""A nondecreasing map of the noisy value (clamp, round, nothing), in ball arithmetic (see `exact`)."""

from __future__ import annotations

import bisect
import math
from collections.abc import Collection

from flint import ctx

from rangebound.laws.boundings import Shape
from rangebound.laws.family import Noise
from rangebound.privacy.pairs.truncated import finite_end, shifted
from rangebound.values.ball import (
    INFINITY,
    Ball,
    ball,
    down,
    is_taylor,
    largest,
    power,
    smallest,
    tightened,
    up,
    value_of,
)

_FEW = 8  # cells that are looked at one by one


class Mapped:
    """A nondecreasing map of the noisy value: events {x <= t} are events {noisy value <= cut}."""

    def __init__(self, noise: Noise, shape: Shape) -> None:
        self.noise = noise.in_balls()
        self.limited, self.gaussian = noise.limited, noise.gaussian
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

    def loss(self, p: Ball, d: Ball) -> Ball:
        """Pure epsilon of the pair in this direction: the log-ratio of the leftmost event that P can cause."""
        if self.limited:
            return self._limited_loss(p, d)
        if math.isinf(self.cuts[0][0]):
            return self.noise.log_ratio(None, d)
        lowest = ball(self.cuts[0][0])
        return self.noise.cdf(lowest - p).log() - self.noise.cdf(lowest - p - d).log()

    def renyi(self, p: Ball, d: Ball, order: Ball) -> Ball:
        total: Ball = ball(0.0)
        cells = self.cells
        if self.gaussian and self.span is None:
            first, last = self._near_cells(value_of(p), d, order)
            r, ratio = p + (1 - order) * d, d / self.noise.scale
            total = self._left_out(first, last, r) * (order * (order - 1) * ratio * ratio / 2).exp()
            total = total if is_taylor(p) else ball(0.0).union(total)  # of a series an upper bound will do
            cells = self.cells[first:last]
        if self.span is not None:
            total = self.noise.renyi_integral(p, d, order, finite_end(self.span[0]), finite_end(self.span[1]))
        for low, high in cells:
            part = self._atom(finite_end(low), finite_end(high), p, d, order)
            if not value_of(part).is_finite():
                return part
            total = total + part
        return total if not value_of(total).is_finite() else total.log() / (order - 1)

    def _near_cells(self, p: Ball, d: Ball, order: Ball) -> tuple[int, int]:
        """The first and the last but one of the cells that count, for Gaussian noise.

        All cells together add 1 at least, and each at most the mass of the geometric mixture g(x - r) e^lift there.
        """
        if len(self.cells) <= _FEW:
            return 0, len(self.cells)
        ratio = d / self.noise.scale
        lift = up(order * (order - 1) * ratio * ratio / 2)
        reach = float(self.noise.scale) * math.sqrt(2.0 * (lift + (ctx.prec - 16) * math.log(2.0)))
        r = p + (1 - order) * d
        first = bisect.bisect_left(self.cells, (down(r) - reach, -math.inf)) - 1
        last = bisect.bisect_right(self.cells, (up(r) + reach, math.inf))
        first = min(max(first, 0), len(self.cells) - 1)
        return first, min(max(last, first + 1), len(self.cells))

    def _left_out(self, first: int, last: int, r: Ball) -> Ball:
        """What Gaussian noise about r has in the cells before `first` and from `last` on."""
        total: Ball = ball(0.0)
        if first > 0:
            total = total + self.noise.mass(None, ball(self.cells[first][0]) - r)
        if last < len(self.cells):
            total = total + self.noise.mass(ball(self.cells[last][0]) - r, None)
        return total

    def fisher(self, p: Ball) -> Ball:
        total = ball(0.0)
        if self.span is not None:
            if self.limited:
                return INFINITY
            low, high = (shifted(finite_end(end), p) for end in self.span)
            total = self.noise.score_moments(low, high)[2]
        for start, stop in self.cells:
            mass = self.noise.mass(shifted(finite_end(start), p), shifted(finite_end(stop), p))
            slope = ball(0.0)
            for end, sign in ((start, 1), (stop, -1)):
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
        return (below + self.noise.renyi_integral(c, d, order, cut, None)).log() / (order - 1)

    def renyi_right(self, c: Ball, d: Ball, order: Ball) -> Ball:
        """The same over all positions from c on; the atom above the highest cut has P <= Q, so it adds at most 1."""
        cut = ball(self.cuts[-1][1])
        return (1 + self.noise.renyi_integral(c, d, order, None, cut)).log() / (order - 1)

    def _atom(self, low: Ball | None, high: Ball | None, p: Ball, d: Ball, order: Ball) -> Ball:
        """P^order Q^(1-order) of one cell, as P (P/Q)^(order-1): the ratio varies much less than either."""

        def mass(at: Ball) -> Ball:
            return self.noise.mass(shifted(low, at), shifted(high, at))

        a, b = mass(p), mass(p + d)
        if value_of(a).is_zero():
            return ball(0.0)
        if value_of(b).is_zero():
            return INFINITY
        ratio = a.log() - b.log()
        if is_taylor(ratio) and not p[0].is_exact():
            ratio = tightened(ratio, lambda at: mass(at).log() - mass(at + d).log(), p[0])
        return a * ((order - 1) * ratio).exp()

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

    def _limited_loss(self, p: Ball, d: Ball) -> Ball:
        """With noise of limited reach the ratio is finite only if Q can cause the leftmost event that P can."""
        begins, escapes = value_of(p) + d - self.noise.limit, value_of(p) - self.noise.limit
        start = max(bisect.bisect_left(self.cuts, (down(escapes), -math.inf)) - 1, 0)  # no earlier cut is reached
        for first, last in self.cuts[start:]:
            if math.isfinite(last) and ball(last) <= escapes:
                continue
            if math.isinf(first) or not ball(first) > begins:
                return INFINITY
            cut = ball(first)
            break
        else:
            return ball(0.0)
        return self.noise.cdf(cut - p).log() - self.noise.cdf(cut - p - d).log()


def _clip(x: float, lower: float, upper: float) -> float:
    return min(max(x, lower), upper)
