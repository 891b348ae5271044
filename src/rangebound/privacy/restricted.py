"""Truncation to spans, in ball arithmetic (see `exact`)."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from flint import arb

from rangebound.ball import Ball, ball, is_taylor, largest, smallest, tightened, value_of
from rangebound.law import Shape
from rangebound.noise import Gaussian, Noise, TruncatedLaplacian
from rangebound.noise.exact import INFINITY, exact
from rangebound.privacy.pieces import finite_end, score_moments, shifted


class Restricted:
    """Truncation to spans: density g(x-q)/Z(q)."""

    def __init__(self, noise: Noise, shape: Shape) -> None:
        self.noise = exact(noise)
        self.spans = [(finite_end(a), finite_end(b)) for a, b in shape.spans]
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
        if is_taylor(level) and not p[0].is_exact():
            level = tightened(level, lambda at: epsilon + self.kept(at).log() - self.kept(at + d).log(), p[0])
        weight = epsilon.exp() / zq
        if is_taylor(p) and self._smooth_loss():
            # The loss is monotone in the position. Where it is below epsilon all over the cell, nothing is given away;
            # where it is above, the threshold lies inside, and without a clip the series has no kink.
            low, high = (self.loss(end, d) for end in (p[0].lower(), p[0].upper()))
            if low <= epsilon and high <= epsilon:
                return {0: ball(0.0)}
            if low >= epsilon and high >= epsilon:
                t = self.noise.free_threshold(p, d, level)
                start = self.spans[0][0]
                below_p, below_q = (self.noise.mass(shifted(start, at), t - at) for at in (p, p + d))
                return {0: below_p / zp - below_q * weight}
        return {
            i: self._below(p, t) / zp - self._below(p + d, t) * weight
            for i, t in enumerate(self.noise.thresholds(p, d, level))
        }

    def crosses(self, start: float, end: float, d: Ball, epsilon: Ball) -> bool:
        """Whether the loss passes epsilon between two positions, where it is monotone."""
        if math.isinf(start) or math.isinf(end) or not self._smooth_loss():
            return False
        low, high = self.loss(ball(start), d), self.loss(ball(end), d)
        return bool((low < epsilon and high > epsilon) or (low > epsilon and high < epsilon))

    def _smooth_loss(self) -> bool:
        """Whether the support is an interval with a finite left end, seen by noise without edges."""
        return len(self.spans) == 1 and self.spans[0][0] is not None and not self.limited

    def loss(self, p: Any, d: Ball) -> Any:
        """Pure epsilon of the pair in this direction: the supremum of log P/Q, at the left end of the support."""
        start = self.spans[0][0]
        if self.limited:
            start = self._first_shared(value_of(p), d)
        ratio = self.noise.log_ratio(shifted(start, p), d)
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
                    ends.append(self.noise.mass(shifted(lower, ball(at)), shifted(upper, ball(at))))
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
            total = total + self.noise.mass(shifted(lower, p), shifted(end, p))
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
            parts = score_moments(self.noise, self.gaussian, shifted(lower, p), shifted(upper, p))
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
