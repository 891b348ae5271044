"""Truncation to spans, in ball arithmetic (see `exact`)."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, ClassVar

from flint import arb

from rangebound.ball import Ball, ball, expm1, is_taylor, largest, smallest, tightened, value_of
from rangebound.law import Shape
from rangebound.noise import Noise
from rangebound.noise.exact import INFINITY, exact
from rangebound.privacy.pieces import finite_end, near_pair, score_moments, shifted, up_to
from rangebound.privacy.tilted import Tilted

_ZERO: Any = ball(0.0)
_NARROW, _FAR = 3.0, 1.0  # scales: a support this narrow is tilted, and any support seen from this far away
Spans = list[tuple[Any, Any]]  # ends as balls or series, None where infinite


class Plain:
    """Integrals of the noise over spans, by the offsets of their ends from the location."""

    def __init__(self, noise: Any, gaussian: bool) -> None:
        self._noise, self._gaussian = noise, gaussian

    def mass(self, spans: Spans, p: Any) -> Any:
        """The probability of the spans."""
        total: Any = ball(0.0)
        for lower, upper in spans:
            total = total + self._noise.mass(shifted(lower, p), shifted(upper, p))
        return total

    def slope(self, spans: Spans, p: Any) -> Any:
        """d/dp of the logarithm of the mass with all ends held; unknown where the mass may be 0."""
        total, first, _ = self.scores(spans, p)
        return first / total if value_of(total) > 0 else arb.nan()

    def threshold(self, p: Any, d: Ball, level: Any) -> Any:
        """Where the log-ratio of the noise about p and p + d is `level`."""
        return self._noise.free_threshold(p, d, level)

    def scores(self, spans: Spans, p: Any) -> tuple[Any, Any, Any]:
        """Integrals of the density, of score times density and of score^2 times density."""
        sums: tuple[Any, Any, Any] = (ball(0.0),) * 3
        for lower, upper in spans:
            parts = score_moments(self._noise, self._gaussian, shifted(lower, p), shifted(upper, p))
            sums = (sums[0] + parts[0], sums[1] + parts[1], sums[2] + parts[2])
        return sums


class Restricted:
    """Truncation to spans: density g(x-q)/Z(q). The formulas for one family of noise are Gaussian here."""

    gaussian: ClassVar[bool] = True

    def __init__(self, noise: Noise, shape: Shape) -> None:
        self.noise = exact(noise)
        self.spans: Spans = [(finite_end(a), finite_end(b)) for a, b in shape.spans]
        self._masses: dict[float, list[Ball]] = {}
        self._plain = Plain(self.noise, self.gaussian)
        low, high = self.edges()
        self._tilted = [
            None if end is None else Tilted(self.noise.scale, end, from_below=below)
            for end, below in ((low, True), (high, False))
        ]

    def sticks(self, p: Any, d: Ball, epsilon: Ball, only: Collection[int] = ()) -> dict[int, Any]:
        """P(A) - e^epsilon Q(A) for the sets A = {x <= t} of which one is the best; each is smooth in p."""
        view = self._view(p)
        zp, zq = view.mass(self.spans, p), view.mass(self.spans, p + d)
        if not (value_of(zp) > 0 and value_of(zq) > 0):  # a cell too wide to say anything, or a place too far out
            return dict.fromkeys(only or (0,), arb.nan())
        change = self._change(view, p, d, zp, zq)
        level = epsilon - change
        if is_taylor(level) and not p[0].is_exact():
            level = tightened(level, lambda at: epsilon - self._change(view, at, d), p[0])

        def of(event: Spans) -> Any:
            """P(A) - e^epsilon Q(A), where the two nearly agree from the slope of log Q(A) in the location."""
            below = view.mass(event, p)
            if near_pair(p, d) and value_of(below) > 0:
                slope = view.slope(event, p + up_to(d))
                if value_of(slope).is_finite():
                    return below / zp * -expm1(epsilon + d * slope - change)
            return below / zp - view.mass(event, p + d) * epsilon.exp() / zq

        t = view.threshold(p, d, level)
        if is_taylor(p) and self._smooth_loss():
            # The loss is monotone in the position. Where it is below epsilon all over the cell, nothing is given away;
            # where it is above, the threshold lies inside, and without a clip the series has no kink.
            low, high = (self.loss(end, d) for end in (p[0].lower(), p[0].upper()))
            if low <= epsilon and high <= epsilon:
                return {0: _ZERO}
            if low >= epsilon and high >= epsilon:
                return {0: of([(self.spans[0][0], t)])}
        if is_taylor(p) and len(self.spans) > 1:
            return {name: of(self._event(name, t)) for name in only or self._candidates(value_of(t))} or {0: _ZERO}
        return {0: of(self._up_to(t))}

    def _view(self, p: Any) -> Tilted | Plain:
        """The form in which series about p are sharp: offsets from p, or tilted weights.

        Offsets do not change where a pair moves along the inside of a support. Seen from outside, or across a support
        that is narrow against the noise, the weights change less.
        """
        low, high = self.edges()
        here, (from_low, from_high) = value_of(p).mid(), self._tilted
        if not is_taylor(p) or (low is None and high is None):
            return self._plain
        left = None if low is None else (low - here) / self.noise.scale
        right = None if high is None else (here - high) / self.noise.scale
        if left is not None and (left > _FAR or (right is not None and -_NARROW < left + right and left > right)):
            return from_low
        if right is not None and (right > _FAR or (left is not None and -_NARROW < left + right)):
            return from_high
        return self._plain

    def _candidates(self, t: Ball) -> list[int]:
        """Where the threshold may be: 2k for in span k, 2k + 1 for in the gap after it."""
        found = []
        for k, (lower, upper) in enumerate(self.spans):
            after = self.spans[k + 1][0] if k + 1 < len(self.spans) else None
            if not ((lower is not None and t < lower) or (upper is not None and t > upper)):
                found.append(2 * k)
            if not (upper is None or t < upper or (after is not None and t > after)):
                found.append(2 * k + 1)
        return found

    def _event(self, name: int, t: Any) -> Spans:
        """The support up to the threshold, taken to be where `name` says: smooth, and too large if it is not there."""
        k, gap = divmod(name, 2)
        return [*self.spans[:k], self.spans[k] if gap else (self.spans[k][0], t)]

    def change(self, p: Any, d: Ball) -> Any:
        """log Z(p+d) - log Z(p)."""
        return self._change(self._plain, p, d)

    def _change(self, view: Any, p: Any, d: Ball, zp: Any = None, zq: Any = None) -> Any:
        """The same without what all weights of a view share.

        For a pair much closer than the cell is wide by the mean value theorem: the coefficients of the series are
        integrals over s in [0, d] of those of the slope about p + s.
        """
        if near_pair(p, d):
            slope = view.slope(self.spans, p + up_to(d))
            if value_of(slope).is_finite():
                return d * slope
        if zp is None or zq is None:
            zp, zq = view.mass(self.spans, p), view.mass(self.spans, p + d)
        return zq.log() - zp.log()

    def crosses(self, start: float, end: float, d: Ball, epsilon: Ball) -> bool:
        """Whether the loss passes epsilon between two positions, where it is monotone."""
        if math.isinf(start) or math.isinf(end) or not self._smooth_loss():
            return False
        low, high = self.loss(ball(start), d), self.loss(ball(end), d)
        return bool((low < epsilon and high > epsilon) or (low > epsilon and high < epsilon))

    def _smooth_loss(self) -> bool:
        """Whether the support is an interval with a finite left end."""
        return len(self.spans) == 1 and self.spans[0][0] is not None

    def loss(self, p: Any, d: Ball) -> Any:
        """Pure epsilon of the pair in this direction: the supremum of log P/Q, at the left end of the support."""
        ratio = self.noise.log_ratio(shifted(self.spans[0][0], p), d)
        if not value_of(ratio).is_finite() or self._balanced(p, d):
            return ratio
        change = self.change(p, d)
        return ratio + change if value_of(change).is_finite() else change

    def renyi(self, p: Any, d: Ball, order: Ball) -> Any:
        """Renyi divergence of P from Q of an order above 1."""
        if self.gaussian and is_taylor(p):
            return self._gaussian_renyi(p, d, order)
        total: Any = ball(0.0)
        for lower, upper in self.spans:
            part = self.noise.blend(p, d, order, lower, upper)
            if not value_of(part).is_finite():
                return part
            total = total + part
        zp, zq = self._plain.mass(self.spans, p), self._plain.mass(self.spans, p + d)
        return (total.log() - zp.log() * order) / (order - 1) + zq.log()

    def _gaussian_renyi(self, p: Any, d: Ball, order: Ball) -> Any:
        """The same as order d^2/(2 s^2) plus a weighted sum of log Z at three places, each in the form that suits it.

        A tilted mass lacks the factor e^{-(at-c)^2/(2 s^2)}. The weights add up to zero, and so do the squares of p.
        """
        variance = self.noise.scale * self.noise.scale
        total: Any = order * d * d / (2 * variance)
        square, linear, rest = ball(0.0), ball(0.0), ball(0.0)
        for offset, weight in ((ball(0.0), -order), (d, order - 1), ((1 - order) * d, ball(1.0))):
            view = self._view(p + offset)
            kept = view.mass(self.spans, p + offset)
            if not value_of(kept) > 0:
                return arb.nan()
            total = total + kept.log() * weight / (order - 1)
            if view is not self._plain:
                away = offset - view.centre
                square, linear, rest = square + weight, linear + weight * away, rest + weight * away * away
                rest = rest + weight * variance * (2 * arb.pi()).log()
        return total - ((p * square + 2 * linear) * p + rest) / (2 * variance * (order - 1))

    def fisher(self, p: Ball) -> Ball:
        """Fisher information about the location: the variance of the score d/dq log g(x-q)."""
        total, first, second = self._plain.scores(self.spans, p)
        mean = first / total
        return second / total - mean * mean

    def kept_at_least(self, start: float, end: float) -> Ball:
        """A lower bound on Z over the positions [start, end]: the mass of each span is log-concave in the position."""
        ends = zip(self._masses_at(start), self._masses_at(end), strict=True)
        return sum((smallest(*each) for each in ends), ball(0.0)).lower()

    def elsewhere(self, start: float, end: float) -> tuple[Ball, Ball | None]:
        """The most mass outside the span that matters, in units of the mass inside, over the positions [start, end].

        The mass of a span on the right, relative to one on the left, rises with the position. Also the width of what
        matters, None for a whole span.
        """
        if len(self.spans) == 1:
            return ball(0.0), None
        before, after = self._masses_at(start), self._masses_at(end)
        last, best = len(self.spans) - 1, INFINITY
        for k, (one, other) in enumerate(zip(before, after, strict=True)):
            if (k > 0 and not one > 0) or (k < last and not other > 0) or not (k > 0 or k < last):
                continue
            left = sum(before[:k], ball(0.0)) / one if k else ball(0.0)
            right = sum(after[k + 1 :], ball(0.0)) / other if k < last else ball(0.0)
            best = smallest(best, left + right)
        return best, None

    def _masses_at(self, at: float) -> list[Ball]:
        """The mass of each span at a position; at an infinite one, of an endless span all and of the others nothing."""
        known = self._masses.get(at)
        if known is None:
            if math.isinf(at):
                known = [ball(float((a if at < 0.0 else b) is None)) for a, b in self.spans]
            else:
                p = ball(at)
                known = [self.noise.mass(shifted(a, p), shifted(b, p)) for a, b in self.spans]
            self._masses[at] = known
        return known

    def edges(self) -> tuple[Ball | None, Ball | None]:
        """The outer ends of the support."""
        return self.spans[0][0], self.spans[-1][1]

    def mean(self, p: Ball) -> Ball:
        """Expectation at p, for Gaussian noise."""
        total, first, _ = self._plain.scores(self.spans, p)
        return p + self.noise.scale * self.noise.scale * first / total

    def right_of(self, p: Ball) -> Ball:
        """Probability of an output above p at the location p."""
        return 1 - self._plain.mass(self._up_to(p), p) / self._plain.mass(self.spans, p)

    def spread(self, p: Ball, edge: Ball) -> Ball:
        """E (x - edge)^2 at p, for Gaussian noise."""
        view = Tilted(self.noise.scale, edge, from_below=False)
        variance = self.noise.scale * self.noise.scale
        return variance * view.mass(self.spans, p, 2) / view.mass(self.spans, p)

    def _up_to(self, t: Any) -> Spans:
        """The support up to t."""
        found: Spans = []
        for lower, upper in self.spans:
            end: Any = upper
            if lower is not None and value_of(t) <= lower:
                break
            if upper is None or not value_of(t) >= upper:
                end = t if upper is None else smallest(t, upper)
                end = end if lower is None else largest(end, lower)
            found.append((lower, end))
        return found

    def _balanced(self, p: Ball, d: Ball) -> bool:
        """Whether the pair lies symmetrically in an interval, so that both keep exactly the same mass."""
        low, high = self.edges()
        if is_taylor(p) or len(self.spans) > 1 or low is None or high is None:
            return False
        return bool((low + high - 2 * p - d).is_zero())
