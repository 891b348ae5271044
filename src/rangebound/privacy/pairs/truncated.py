"""Truncation to spans, in ball arithmetic (see `exact`), for every log-concave density."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import ClassVar

from flint import arb

from rangebound.laws.family import Noise
from rangebound.laws.shape import Shape
from rangebound.privacy.pairs.integrals import Integrals, LawView, Plain, Span, finite_end, near_pair, shifted, up_to
from rangebound.values.ball import ZERO, Ball, End, ball, expm1, is_taylor, largest, smallest, tightened, value_of

_FEW = 4  # spans of which a series is cheap


class Truncated:
    """Truncation to spans: density g(x-q)/Z(q)."""

    rising: ClassVar[bool] = False  # whether the loss on one span rises with the position, by a theorem

    def __init__(self, noise: Noise, shape: Shape) -> None:
        self.noise = noise.in_balls()
        self.spans: list[Span] = [(finite_end(a), finite_end(b)) for a, b in shape.spans]
        self._masses: dict[float, list[Ball]] = {}
        self._plain = Plain(self.noise)
        low, high = self.edges()
        self._pitch: Ball | None = None  # the mean distance of many spans
        if len(self.spans) > _FEW and low is not None and high is not None:
            self._pitch = (high - low) / len(self.spans)

    def normaliser(self, p: Ball) -> Ball:
        """Z(p): the mass of the support."""
        return Integrals(self._plain, p).mass(self.spans)

    def sticks(self, p: Ball, d: Ball, epsilon: Ball, only: Collection[int] = ()) -> dict[int, Ball]:
        """P(A) - e^epsilon Q(A) for the sets A = {x <= t} of which one is the best; each is smooth in p."""
        view = self._view(p)
        if is_taylor(p) and view is self._plain and self._pitch is not None and 2 * p[0].rad() > self._pitch:
            return dict.fromkeys(only or (0,), arb.nan())  # the threshold passes so many spans that nothing can be said
        right = Integrals(view, p + d)
        between = Integrals(view, p + up_to(d)) if near_pair(p, d) else None
        # From a cell much wider than the pair, all that lies between the two looks like the left one.
        left = between if between is not None and p[0].rad() > 8 * d else Integrals(view, p)
        zp, change = left.mass(self.spans), self._change(left, right, between, d)
        if not (value_of(zp) > 0 and value_of(change).is_finite()):
            return dict.fromkeys(only or (0,), arb.nan())  # a cell too wide to say anything, or a place too far out
        level = epsilon - change
        if is_taylor(level) and not p[0].is_exact():
            level = tightened(
                level, lambda at: epsilon - self._change(Integrals(view, at), Integrals(view, at + d), None, d), p[0]
            )

        def of(event: list[Span]) -> Ball:
            """P(A) - e^epsilon Q(A), where the two nearly agree from the slope of log Q(A) in the location."""
            below = left.mass(event)
            if between is not None and value_of(below) > 0:
                slope = between.slope(event)
                if value_of(slope).is_finite():
                    return below / zp * -expm1(epsilon + d * slope - change)
            zq = right.mass(self.spans)
            return below / zp - right.mass(event) * epsilon.exp() / zq if value_of(zq) > 0 else arb.nan()

        t = view.threshold(p, d, level)
        if self.rising and is_taylor(p) and len(self.spans) == 1 and self.spans[0][0] is not None:
            # The loss rises with the position. Where it is not above epsilon, nothing leaks; where it is from
            # the left end of the cell on, the threshold lies inside the support, and without a clip there is no kink.
            if self.loss(p[0].upper(), d) <= epsilon:
                return {0: ZERO}
            if self.loss(p[0].lower(), d) >= epsilon:
                return {0: of([(self.spans[0][0], t)])}
        if not value_of(t).is_finite():
            return dict.fromkeys(only or (0,), arb.nan())
        if is_taylor(p) and len(self.spans) > 1:
            return {name: of(self._event(name, t)) for name in only or self._candidates(value_of(t))} or {0: ZERO}
        return {0: of(self._up_to(t))}

    def _view(self, p: Ball) -> LawView:
        """The form in which series about p are sharp."""
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

    def _event(self, name: int, t: Ball) -> list[Span]:
        """The support up to the threshold, taken to be where `name` says: smooth, and too large if it is not there."""
        k, gap = divmod(name, 2)
        return [*self.spans[:k], self.spans[k] if gap else (self.spans[k][0], t)]

    def change(self, p: Ball, d: Ball) -> Ball:
        """log Z(p+d) - log Z(p)."""
        between = Integrals(self._plain, p + up_to(d)) if near_pair(p, d) else None
        return self._change(Integrals(self._plain, p), Integrals(self._plain, p + d), between, d)

    def _change(self, left: Integrals, right: Integrals, between: Integrals | None, d: Ball) -> Ball:
        """The same without what all weights of a view share.

        For a pair much closer than the cell is wide by the mean value theorem: the coefficients of the series are
        integrals over s in [0, d] of those of the slope about p + s.
        """
        slope = arb.nan() if between is None else between.slope(self.spans)
        if value_of(slope).is_finite():
            return d * slope
        zp, zq = left.mass(self.spans), right.mass(self.spans)
        return zq.log() - zp.log() if value_of(zp) > 0 and value_of(zq) > 0 else arb.nan()

    def loss(self, p: Ball, d: Ball) -> Ball:
        """Pure epsilon of the pair in this direction: the supremum of log P/Q, at the left end of the support."""
        ratio = self.noise.log_ratio(shifted(self.spans[0][0], p), d)
        if not value_of(ratio).is_finite() or self._balanced(p, d):
            return ratio
        change = self.change(p, d)
        return ratio + change if value_of(change).is_finite() else change

    def renyi(self, p: Ball, d: Ball, order: Ball) -> Ball:
        """Renyi divergence of P from Q of an order above 1."""
        total: Ball = ball(0.0)
        for lower, upper in self.spans:
            part = self.noise.renyi_integral(p, d, order, lower, upper)
            if not value_of(part).is_finite():
                return part
            total = total + part
        zp, zq = self.normaliser(p), self.normaliser(p + d)
        return (total.log() - zp.log() * order) / (order - 1) + zq.log()

    def fisher(self, p: Ball) -> Ball:
        """Fisher information about the location: the variance of the score d/dq log g(x-q)."""
        total, first, second = self._plain.scores(self.spans, p)
        mean = first / total
        return second / total - mean * mean

    def least_normaliser(self, start: float, end: float) -> Ball:
        """A lower bound on Z over the positions [start, end]: the mass of each span is log-concave in the position."""
        ends = zip(self._masses_at(start), self._masses_at(end), strict=True)
        return sum((smallest(*each) for each in ends), ball(0.0)).lower()

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

    def right_of(self, p: Ball) -> Ball:
        """Probability of an output above p at the location p."""
        here = Integrals(self._plain, p)
        return 1 - here.mass(self._up_to(p)) / here.mass(self.spans)

    def _up_to(self, t: Ball) -> list[Span]:
        """The support up to t."""
        found: list[Span] = []
        for span in self.spans:
            lower, upper = span
            end: End = upper
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
