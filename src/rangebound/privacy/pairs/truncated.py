"""Truncation to spans, in ball arithmetic (see `exact`): for every log-concave density, and Gaussian noise."""

from __future__ import annotations

import bisect
import math
from collections.abc import Collection
from typing import ClassVar

from flint import arb, arb_series, ctx

from rangebound.laws.boundings import Shape
from rangebound.laws.family import BallNoise, Noise
from rangebound.values.ball import (
    INFINITY,
    ZERO,
    Ball,
    End,
    ball,
    expm1,
    is_taylor,
    largest,
    smallest,
    taylor,
    tightened,
    value_of,
)

Span = tuple[End, End]  # ends as balls or series, None where infinite

_MANY = 4  # spans of which a series is not cheap
_FEW = 6  # spans that are all looked at
_FADED = 20.0  # scales beyond the nearest span, at 256 bits: what Gaussian noise has there is less than the precision


def finite_end(x: float) -> End:
    """An end of a span as a ball; None where it is infinite."""
    return None if math.isinf(x) else ball(x)


def shifted(x: End, p: Ball) -> End:
    """An end as seen from the position `p`."""
    return None if x is None else x - p


def up_to(d: Ball) -> Ball:
    return ball(0.0).union(d)


def near_pair(p: Ball, d: Ball) -> bool:
    return is_taylor(p) and bool(2 * p[0].rad() > d)


class Integrals:
    """Integrals of the density over spans as seen from one place, each computed once however many events it is part of.

    All lists of spans that one is asked about are the support from the left on; only the last span may be another, and
    its upper end a series in the place. With a `reach` (Gaussian noise alone), spans farther away are bounded together.
    """

    def __init__(self, noise: BallNoise, p: Ball, reach: Ball | None = None) -> None:
        self._noise, self._p, self._reach = noise, p, reach
        at = value_of(p)
        self._ends = (at.lower(), at.upper()) if reach is not None else (at, at)
        self._seen: dict[tuple[int, bool], tuple[Span, Ball]] = {}  # holds the spans, so that no other has their id
        self._sums: dict[tuple[int, int, bool], tuple[Span, Ball, int]] = {}

    def mass(self, spans: list[Span]) -> Ball:
        """The integral over spans."""
        return self._total(spans, slope=False)

    def slope(self, spans: list[Span]) -> Ball:
        """d/dp of its logarithm with all ends held; unknown where it may be 0."""
        total = self.mass(spans)
        return self._total(spans, slope=True) / total if value_of(total) > 0 else arb.nan()

    def _total(self, spans: list[Span], *, slope: bool) -> Ball:
        """The sum over spans, from the sum over the most of the first ones that is known."""
        total: Ball = ball(0.0)
        far, known = 0, len(spans)
        while known:
            span = spans[known - 1]
            if found := self._sums.get((id(span), known, slope)):
                _, total, far = found
                break
            known -= 1
        for number, span in enumerate(spans[known:], start=known + 1):
            if self._reach is not None and self._is_far(span, self._reach):
                far += 1
            else:
                total = total + self._of(span, slope=slope)
            self._sums[id(span), number, slope] = span, total, far
        if not far or self._reach is None:
            return total
        return total + self._rest(far, self._reach, slope=slope)

    def _is_far(self, span: Span, reach: Ball) -> bool:
        lower, upper = span
        if lower is not None and lower - self._ends[1] > reach:
            return upper is None or not is_taylor(upper)
        return upper is not None and not is_taylor(upper) and self._ends[0] - upper > reach

    def _of(self, span: Span, *, slope: bool) -> Ball:
        """The mass of a span, or its derivative in the place with the ends held: the integral of -g'."""
        key = id(span), slope
        if key not in self._seen:
            if slope:
                low, high = (ZERO if end is None else self._noise.pdf(end - self._p) for end in span)
                found = low - high
            else:
                found = self._noise.mass(shifted(span[0], self._p), shifted(span[1], self._p))
            self._seen[key] = span, found
        return self._seen[key][1]

    def _rest(self, count: int, reach: Ball, *, slope: bool) -> Ball:
        """A ball, or a series of balls, around the mass of `count` spans beyond the reach (or around its slope).

        A derivative of order k of the mass is that of order k - 1 of the density at the ends, and those are Hermite
        polynomials times the density: at most 1.0865 sqrt((k-1)!) e^{-z^2/4}/sqrt(2 pi) s^-k at z scales (Cramer), and
        at most (z + sqrt(k-1))^(k-1) e^{-z^2/2}, as He_n(z) is the mean of (z + iN)^n; that falls from 20 scales on.
        """
        p, s = self._p, self._noise.scale
        z = reach / s
        near, far = arb("1.0865") * (-z * z / 4).exp(), (-z * z / 2).exp()
        found = []
        for k in range(slope, slope + (min(p.prec, ctx.cap) if is_taylor(p) else 1)):
            n = max(k - 1, 0)
            height = smallest(near * arb(math.factorial(n)).sqrt(), far * (z + arb(n).sqrt()) ** n)
            found.append(arb(0, (2 * count * height / math.factorial(k - slope) / s**k).upper()))
        return arb_series(found, prec=len(found)) if is_taylor(p) else found[0]


class Truncated:
    """Truncation to spans: density g(x-q)/Z(q)."""

    rising: ClassVar[bool] = False  # whether the loss on one span rises with the position, by a theorem

    def __init__(self, noise: Noise, shape: Shape) -> None:
        self.noise = noise.in_balls()
        self.spans: list[Span] = [(finite_end(a), finite_end(b)) for a, b in shape.spans]
        self._masses: dict[float, list[Ball]] = {}
        low, high = self.edges()
        self._pitch: Ball | None = None  # the mean distance of many spans
        if len(self.spans) > _MANY and low is not None and high is not None:
            self._pitch = (high - low) / len(self.spans)

    def integrals(self, p: Ball) -> Integrals:
        """What is seen of the support from p."""
        return Integrals(self.noise, p)

    def sticks(self, p: Ball, d: Ball, epsilon: Ball, only: Collection[int] = ()) -> dict[int, Ball]:
        """P(A) - e^epsilon Q(A) for the sets A = {x <= t} of which one is the best; each is smooth in p."""
        if is_taylor(p) and self._pitch is not None and 2 * p[0].rad() > self._pitch:
            return dict.fromkeys(only or (0,), arb.nan())  # the threshold passes so many spans that nothing can be said
        right = self.integrals(p + d)
        between = self.integrals(p + up_to(d)) if near_pair(p, d) else None
        # From a cell much wider than the pair, all that lies between the two looks like the left one.
        left = between if between is not None and p[0].rad() > 8 * d else self.integrals(p)
        zp, change = left.mass(self.spans), self._change(left, right, between, d)
        if not (value_of(zp) > 0 and value_of(change).is_finite()):
            return dict.fromkeys(only or (0,), arb.nan())  # a cell too wide to say anything, or a place too far out
        level = epsilon - change
        if is_taylor(level) and not p[0].is_exact():
            level = tightened(
                level, lambda at: epsilon - self._change(self.integrals(at), self.integrals(at + d), None, d), p[0]
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

        t = self.noise.thresholds(p, d, level)[0]
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
        between = self.integrals(p + up_to(d)) if near_pair(p, d) else None
        return self._change(self.integrals(p), self.integrals(p + d), between, d)

    def _change(self, left: Integrals, right: Integrals, between: Integrals | None, d: Ball) -> Ball:
        """The same from integrals that are there already.

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
        zp, zq = (self.integrals(at).mass(self.spans) for at in (p, p + d))
        return (total.log() - zp.log() * order) / (order - 1) + zq.log()

    def fisher(self, p: Ball) -> Ball:
        """Fisher information about the location: the variance of the score d/dq log g(x-q)."""
        total, first, second = self.scores(p)
        mean = first / total
        return second / total - mean * mean

    def scores(self, p: Ball) -> tuple[Ball, Ball, Ball]:
        """Integrals over the support of g, score g and score^2 g."""
        sums: tuple[Ball, Ball, Ball] = (ball(0.0),) * 3
        for lower, upper in self.spans:
            parts = self.noise.score_moments(shifted(lower, p), shifted(upper, p))
            sums = (sums[0] + parts[0], sums[1] + parts[1], sums[2] + parts[2])
        return sums

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
        return self.spans[0][0], self.spans[-1][1]

    def right_of(self, p: Ball) -> Ball:
        """Probability of an output above p at the location p."""
        here = self.integrals(p)
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


class TruncatedGaussian(Truncated):
    """Truncated Gaussian noise on spans: an exponential family in its location."""

    rising: ClassVar[bool] = True

    def __init__(self, noise: Noise, shape: Shape) -> None:
        super().__init__(noise, shape)
        self._places = shape.spans

    def integrals(self, p: Ball) -> Integrals:
        if len(self.spans) <= _FEW:
            return Integrals(self.noise, p)
        at = float(value_of(p).mid())
        i = bisect.bisect_left(self._places, (at, at))
        near = min(max(low - at, at - high, 0.0) for low, high in self._places[max(i - 1, 0) : i + 1])
        reach = ball(near) + _FADED * math.sqrt(max(ctx.prec / 256.0, 1.0)) * self.noise.scale
        return Integrals(self.noise, p, reach)

    def renyi(self, p: Ball, d: Ball, order: Ball) -> Ball:
        """Renyi divergence of P from Q of an order above 1: order d^2/(2 s^2) plus a weighted sum of log Z.

        Over a cell wider than the three places are apart, the divergence is order d^2/2 times a mean of the second
        derivative of log Z + p^2/(2 s^2) between them, and so is each coefficient of its series.
        """
        variance = self.noise.scale * self.noise.scale
        reach = ((1 - order) * d).union(d)
        if is_taylor(p) and reach.rad() < p[0].rad():
            normaliser = self.integrals(taylor(p[0] + reach, p.prec + 1)).mass(self.spans)
            if value_of(normaliser) > 0:
                return (normaliser.log().derivative().derivative() + 1 / variance) * (order * d * d / 2)
        total: Ball = order * d * d / (2 * variance)
        for offset, weight in ((ball(0.0), -order), (d, order - 1), ((1 - order) * d, ball(1.0))):
            normaliser = self.integrals(p + offset).mass(self.spans)
            if not value_of(normaliser) > 0:
                return arb.nan()
            total = total + normaliser.log() * weight / (order - 1)
        return total

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

    def mean(self, p: Ball) -> Ball:
        total, first, _ = self.scores(p)
        return p + self.noise.scale * self.noise.scale * first / total

    def spread(self, p: Ball, edge: Ball) -> Ball:
        """E (x - edge)^2 at p."""
        total, first, second = self.scores(p)
        away, variance = p - edge, self.noise.scale * self.noise.scale
        return (variance * variance * second + 2 * variance * away * first) / total + away * away
