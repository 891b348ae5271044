"""Truncation to spans, in ball arithmetic (see `exact`)."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, ClassVar

from flint import arb

from rangebound.ball import Ball, ball, expm1, is_taylor, largest, smallest, taylor, tightened, value_of
from rangebound.law import Shape
from rangebound.noise import Noise
from rangebound.noise.ball_noise import INFINITY, exact
from rangebound.privacy.pairs.exponential_family import Tilted
from rangebound.privacy.pairs.integrals import Plain, Sight, Span
from rangebound.privacy.pairs.pieces import finite_end, near_pair, shifted, up_to

_ZERO: Any = ball(0.0)
_FEW = 4  # spans of which a series is cheap
_NARROW, _FAR = 1.0, 1.0  # scales: a support this narrow is tilted, and any support seen from this far away


class Restricted:
    """Truncation to spans: density g(x-q)/Z(q). The formulas for one family of noise are Gaussian here."""

    gaussian: ClassVar[bool] = True

    def __init__(self, noise: Noise, shape: Shape) -> None:
        self.noise = exact(noise)
        self.spans: list[Span] = [(finite_end(a), finite_end(b)) for a, b in shape.spans]
        self._masses: dict[float, list[Ball]] = {}
        self._plain = Plain(self.noise, gaussian=self.gaussian, spans=shape.spans)
        low, high = self.edges()
        self._pitch: Ball | None = None  # the mean distance of many spans
        if len(self.spans) > _FEW and low is not None and high is not None:
            self._pitch = (high - low) / len(self.spans)
        self._tilted = [
            None if end is None else Tilted(self.noise.scale, end, from_below=below)
            for end, below in ((low, True), (high, False))
        ]

    def kept(self, p: Any) -> Any:
        """Z(p): the mass of the support."""
        return Sight(self._plain, p).mass(self.spans)

    def sticks(self, p: Any, d: Ball, epsilon: Ball, only: Collection[int] = ()) -> dict[int, Any]:
        """P(A) - e^epsilon Q(A) for the sets A = {x <= t} of which one is the best; each is smooth in p."""
        view = self._view(p)
        if is_taylor(p) and view is self._plain and self._pitch is not None and 2 * p[0].rad() > self._pitch:
            return dict.fromkeys(only or (0,), arb.nan())  # the threshold passes so many spans that nothing can be said
        right = Sight(view, p + d)
        between = Sight(view, p + up_to(d)) if near_pair(p, d) else None
        # From a cell much wider than the pair, all that lies between the two looks like the left one.
        left = between if between is not None and p[0].rad() > 8 * d else Sight(view, p)
        zp, change = left.mass(self.spans), self._change(left, right, between, d)
        if not (value_of(zp) > 0 and value_of(change).is_finite()):
            return dict.fromkeys(only or (0,), arb.nan())  # a cell too wide to say anything, or a place too far out
        level = epsilon - change
        if is_taylor(level) and not p[0].is_exact():
            level = tightened(
                level, lambda at: epsilon - self._change(Sight(view, at), Sight(view, at + d), None, d), p[0]
            )

        def of(event: list[Span]) -> Any:
            """P(A) - e^epsilon Q(A), where the two nearly agree from the slope of log Q(A) in the location."""
            below = left.mass(event)
            if between is not None and value_of(below) > 0:
                slope = between.slope(event)
                if value_of(slope).is_finite():
                    return below / zp * -expm1(epsilon + d * slope - change)
            zq = right.mass(self.spans)
            return below / zp - right.mass(event) * epsilon.exp() / zq if value_of(zq) > 0 else arb.nan()

        t = view.threshold(p, d, level)
        if is_taylor(p) and len(self.spans) == 1 and self.spans[0][0] is not None:
            # The loss rises with the position. Where it is not above epsilon, nothing is given away; where it is from
            # the left end of the cell on, the threshold lies inside the support, and without a clip there is no kink.
            if self.loss(p[0].upper(), d) <= epsilon:
                return {0: _ZERO}
            if self.loss(p[0].lower(), d) >= epsilon:
                return {0: of([(self.spans[0][0], t)])}
        if is_taylor(p) and len(self.spans) > 1:
            return {name: of(self._event(name, t)) for name in only or self._candidates(value_of(t))} or {0: _ZERO}
        return {0: of(self._up_to(t))}

    def _view(self, p: Any) -> Tilted | Plain:
        """The form in which series about p are sharp: offsets from p, or tilted weights.

        Offsets do not change where a pair moves along the inside of a support. Seen from outside, or across a support
        that is narrow against the noise, the weights change less.
        """
        (low, from_low), (high, from_high) = zip(self.edges(), self._tilted, strict=True)
        here, scale = value_of(p).mid(), self.noise.scale
        left = -INFINITY if low is None else (low - here) / scale  # how far outside on either side, or less than 0
        right = -INFINITY if high is None else (here - high) / scale
        narrow = left + right > -_NARROW
        if is_taylor(p) and from_low is not None and (left > _FAR or (narrow and left > right)):
            return from_low
        if is_taylor(p) and from_high is not None and (right > _FAR or narrow):
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

    def _event(self, name: int, t: Any) -> list[Span]:
        """The support up to the threshold, taken to be where `name` says: smooth, and too large if it is not there."""
        k, gap = divmod(name, 2)
        return [*self.spans[:k], self.spans[k] if gap else (self.spans[k][0], t)]

    def change(self, p: Any, d: Ball) -> Any:
        """log Z(p+d) - log Z(p)."""
        between = Sight(self._plain, p + up_to(d)) if near_pair(p, d) else None
        return self._change(Sight(self._plain, p), Sight(self._plain, p + d), between, d)

    def _change(self, left: Sight, right: Sight, between: Sight | None, d: Ball) -> Any:
        """The same without what all weights of a view share.

        For a pair much closer than the cell is wide by the mean value theorem: the coefficients of the series are
        integrals over s in [0, d] of those of the slope about p + s.
        """
        slope = arb.nan() if between is None else between.slope(self.spans)
        if value_of(slope).is_finite():
            return d * slope
        zp, zq = left.mass(self.spans), right.mass(self.spans)
        return zq.log() - zp.log() if value_of(zp) > 0 and value_of(zq) > 0 else arb.nan()

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
        zp, zq = self.kept(p), self.kept(p + d)
        return (total.log() - zp.log() * order) / (order - 1) + zq.log()

    def _gaussian_renyi(self, p: Any, d: Ball, order: Ball) -> Any:
        """The same as order d^2/(2 s^2) plus a weighted sum of log Z at three places, each in the form that suits it.

        A tilted mass lacks the factor e^{-(at-c)^2/(2 s^2)}. The weights add up to zero, and so do the squares of p.
        Over a cell wider than those places are apart, the divergence is order d^2/2 times a mean of the second
        derivative of log Z + p^2/(2 s^2) between them, and so is each coefficient of its series.
        """
        variance = self.noise.scale * self.noise.scale
        reach = ((1 - order) * d).union(d)
        if reach.rad() < p[0].rad():
            view = self._view(p)
            kept = Sight(view, taylor(p[0] + reach, p.prec + 1)).mass(self.spans)
            if value_of(kept) > 0:
                bend = kept.log().derivative().derivative()
                return (bend if isinstance(view, Tilted) else bend + 1 / variance) * (order * d * d / 2)
        total: Any = order * d * d / (2 * variance)
        square, linear, rest = ball(0.0), ball(0.0), ball(0.0)
        for offset, weight in ((ball(0.0), -order), (d, order - 1), ((1 - order) * d, ball(1.0))):
            view = self._view(p + offset)
            kept = Sight(view, p + offset).mass(self.spans)
            if not value_of(kept) > 0:
                return arb.nan()
            total = total + kept.log() * weight / (order - 1)
            if isinstance(view, Tilted):
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
        here = Sight(self._plain, p)
        return 1 - here.mass(self._up_to(p)) / here.mass(self.spans)

    def spread(self, p: Ball, edge: Ball) -> Ball:
        """E (x - edge)^2 at p, for Gaussian noise."""
        lowest, zero = self.spans[0][0], ball(0.0)
        view = Tilted(self.noise.scale, edge, from_below=lowest is not None and bool(edge == lowest))
        total, second = (sum((view.mass(span, p, power) for span in self.spans), zero) for power in (0, 2))
        return self.noise.scale * self.noise.scale * second / total

    def _up_to(self, t: Any) -> list[Span]:
        """The support up to t."""
        found: list[Span] = []
        for span in self.spans:
            lower, upper = span
            end: Any = upper
            if lower is not None and value_of(t) <= lower:
                break
            if upper is None or not value_of(t) >= upper:
                end = t if upper is None else smallest(t, upper)
                end = end if lower is None else largest(end, lower)
            found.append(span if end is upper else (lower, end))
        return found

    def _balanced(self, p: Ball, d: Ball) -> bool:
        """Whether the pair lies symmetrically in an interval, so that both keep exactly the same mass."""
        low, high = self.edges()
        if is_taylor(p) or len(self.spans) > 1 or low is None or high is None:
            return False
        return bool((low + high - 2 * p - d).is_zero())
