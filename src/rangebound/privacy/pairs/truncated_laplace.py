"""Laplace noise truncated to spans, in ball arithmetic (see `exact`): formulas in which nothing cancels.

In units of the scale, with the left location at 0 and the right one at d, let `left` be the mass that P puts left of 0,
`right` the mass that Q puts right of d (both without normalisation, density e^{-|x|}), and change = log Z(Q)/Z(P). Then

    2y = d - epsilon + change          the ratio P/Q exceeds e^epsilon just left of y, and nowhere if y <= 0
    delta = [left (1 - e^{-2y}) + integral over the support in [0, y] of e^{-s} - e^{s-2y}] / Z(P)

Every term is positive, so small numbers keep their digits. Without a limit of the noise |change| <= d, hence y <= d.
With one, all this is about what both laws can publish; what only P can counts in full, and y may pass d, from where on
the right side leaks right e^{-d} (1 - e^{2d-2y}) too. On a grid sums take the place of integrals.
"""

from __future__ import annotations

import bisect
import copy
import itertools
import math
from collections.abc import Callable, Collection
from typing import NamedTuple

from flint import arb

from rangebound.laws.boundings import Shape
from rangebound.laws.family import Noise
from rangebound.privacy.pairs.truncated import Span, Truncated, shifted
from rangebound.values.ball import (
    INFINITY,
    ZERO,
    Ball,
    End,
    ball,
    down,
    expm1,
    is_taylor,
    kinked,
    largest,
    log1p,
    smallest,
    tightened,
    up,
    value_of,
)

_ENDLESS = 1e15  # scales: beyond this an exponential does not fit


class Parts(NamedTuple):
    """The support as a pair sees it, in units of the scale: what lies left of it, right of it and inside."""

    left: Ball  # mass of P left of the pair
    right: Ball  # mass of Q right of the pair
    inside: Ball  # mass of P between the two
    lift: Ball  # mass of Q between the two, less that of P
    overlap: Callable[[Ball], Ball]  # the integral of the docstring above, of y
    only_p: Ball = ZERO  # mass that only P has
    only_q: Ball = ZERO  # mass that only Q has
    limited: bool = False  # whether the noise has a limit

    def normaliser(self, d: Ball) -> Ball:
        return self.left + self.right * (-d).exp() + self.inside + self.only_p

    def change(self, d: Ball) -> Ball:
        normaliser = self.normaliser(d)
        if not value_of(normaliser) > 0:
            return arb.nan()
        return log1p((self.lift - (self.right - self.left) * (-d).expm1() + self.only_q - self.only_p) / normaliser)

    def stick(self, d: Ball, epsilon: Ball, change: Ball) -> Ball:
        """The hockey-stick divergence of P from Q."""
        if not value_of(change).is_finite():
            return arb.nan()
        y = (d - epsilon + change) / 2
        if value_of(y) <= 0:
            return self.only_p / self.normaliser(d)
        if is_taylor(y) and y[0] >= 0:
            return self._stick(d, y)
        # It may be zero, where the slope jumps: as plain balls.
        plain = self._replace(
            left=value_of(self.left),
            right=value_of(self.right),
            inside=value_of(self.inside),
            only_p=value_of(self.only_p),
        )
        return value_of(plain._stick(d, value_of(y).max(ball(0.0))))

    def event(self, d: Ball, y: Ball) -> Ball:
        """P(A) - e^epsilon Q(A) for the event that `overlap` is about, whatever the sign of y."""
        return (self.overlap(y) - self.left * expm1(-2 * y)) / self.normaliser(d)

    def _stick(self, d: Ball, y: Ball) -> Ball:
        total = self.only_p - self.left * expm1(-2 * y) + self.overlap(y)
        if self.limited and not value_of(y) <= d:
            total = total - self.right * (-d).exp() * expm1(2 * smallest(d - y, ball(0.0)))
        return total / self.normaliser(d)


def sharp_stick(parts: Callable[[Ball], Parts], p: Ball, d: Ball, epsilon: Ball) -> Ball:
    """The divergence at p, a series perhaps; `parts` gives the support as seen from a position."""
    here = parts(p)
    change = here.change(d)
    if is_taylor(p) and is_taylor(change) and not p[0].is_exact():
        change = tightened(change, lambda at: parts(at).change(d), p[0])
    return here.stick(d, epsilon, change)


def top_loss(d: Ball) -> Ball:
    """No truncated Laplace law has a larger loss, whatever the support: d from the density, d from the mass."""
    return 2 * d


def top_stick(d: Ball, epsilon: Ball) -> Ball:
    """No truncated Laplace law has a larger hockey-stick divergence, whatever the support; d in units of the scale.

    Q has the density r/E[r] with respect to P, with r between e^{-d} and e^d. The divergence is a convex function of r
    for a given E[r], so it is largest when r takes no value but those two, the first with probability w say:
    w (1 - e^{epsilon-d} / (w e^{-d} + (1 - w) e^d)), which has its maximum where the denominator is e^{epsilon/2}.
    """
    excess = d - epsilon / 2
    if excess <= 0:
        return ball(0.0)
    gap = (-excess.max(ball(0.0))).expm1()
    return gap * gap / -(-2 * d).expm1()


def top_odds(d: Ball, epsilon: Ball) -> Ball:
    """The odds w/(1 - w) at which `top_stick` is attained; negative if there are none."""
    root = (epsilon / 2).exp()
    return (d.exp() - root) / (root - (-d).exp())


def top_renyi(d: Ball, order: Ball) -> Ball:
    """No truncated Laplace law has a larger Renyi divergence, whatever the support; d in units of the scale.

    By the same argument with the convex function r^(1-order): the largest value over w of
    log(w e^{(order-1)d} + (1-w) e^{-(order-1)d})/(order-1) + log(w e^{-d} + (1-w) e^d), concave in w.
    """
    rate = order - 1
    far, near = 2 * (rate * d).sinh(), 2 * d.sinh()
    low = (-rate * d).exp()
    w = ((far * d.exp() - rate * near * low) / (far * near * order)).max(ball(0.0)).min(ball(1.0))
    return (low + w * far).log() / rate + (d.exp() - w * near).log()


class SideMasses:
    """The mass of all spans on one side of a place in one step, however many: sums of e^{x/b} over whole spans.

    From a place p the first k spans, if they lie left of it, have the mass e^{-p/b} A_k, where A_k is the integral of
    e^{x/b} over them; the mirror image holds on the right. All terms are positive, so nothing cancels.
    """

    def __init__(self, shape: Shape, spans: list[Span], scale: Ball, origin: float) -> None:
        self._lowers, self._uppers = [a for a, _ in shape.spans], [b for _, b in shape.spans]
        self._origin, self._scale = ball(origin), scale
        places = [(self._place(a), self._place(b)) for a, b in spans]
        upward = [ZERO if b is None else b.exp() * (1 if a is None else -(a - b).expm1()) for a, b in places]
        downward = [ZERO if a is None else (-a).exp() * (1 if b is None else -(a - b).expm1()) for a, b in places]
        self._before = list(itertools.accumulate(upward, initial=ZERO))
        self._after = list(itertools.accumulate(reversed(downward), initial=ZERO))[::-1]

    def _place(self, x: End) -> End:
        return None if x is None else (x - self._origin) / self._scale

    @classmethod
    def of(cls, shape: Shape, spans: list[Span], scale: Ball) -> SideMasses | None:
        """None where the spans are too few to be worth it or too far apart for exponentials."""
        ends = [x for span in shape.spans for x in span if math.isfinite(x)]
        if len(spans) < 2 or not ball(ends[-1]) - ball(ends[0]) < _ENDLESS * scale:
            return None
        return cls(shape, spans, scale, ends[0])

    def touched(self, start: Ball, end: Ball) -> tuple[int, int]:
        """The spans that are not surely left of start nor surely right of end: from the first to before the second."""
        first = bisect.bisect_right(self._uppers, down(start))
        return first, max(first, bisect.bisect_left(self._lowers, up(end)))

    def inside(self, start: Ball, end: Ball) -> tuple[int, int]:
        """The spans that are surely within [start, end]: from the first to before the second."""
        return bisect.bisect_left(self._lowers, up(start)), bisect.bisect_right(self._uppers, down(end))

    def left(self, p: Ball, count: int, start: int = 0) -> Ball:
        """The mass of the first `count` spans, all of them left of p; density e^{-|x-p|/b}/b. Without the first few."""
        if count <= start:
            return ZERO
        return (-(p - self._origin) / self._scale).exp() * (self._before[count] - self._before[start])

    def right(self, p: Ball, start: int, stop: int | None = None) -> Ball:
        """The mass of the spans from number `start` on (before `stop`), all of them right of p."""
        stop = len(self._lowers) if stop is None else stop
        if stop <= start:
            return ZERO
        return ((p - self._origin) / self._scale).exp() * (self._after[start] - self._after[stop])


def later(first: End, second: Ball) -> Ball:
    return second if first is None else largest(first, second)


def earlier(first: End, second: Ball) -> Ball:
    return second if first is None else smallest(first, second)


def span_mass(start: End, end: End, width: Ball | None = None) -> Ball:
    """The integral of e^{-|s|} from start (None: -inf) to end (None: inf), 0 if they are not in order."""
    if start is not None and end is not None and value_of(end) <= value_of(start):
        if not value_of(start).is_zero() or not value_of(end).is_zero():
            return ZERO
        # The location is at an end of a span: its series is the one inside the span.
        return expm1(end) - expm1(start) if is_taylor(start) else expm1(-start) - expm1(-end)
    if start is not None and end is not None and width is None and not value_of(end) >= value_of(start):
        end = largest(start, end)
    if end is not None and value_of(end) <= 0:
        return end.exp() if start is None else end.exp() * -expm1(start - end if width is None else -width)
    if start is not None and value_of(start) >= 0:
        return (-start).exp() if end is None else (-start).exp() * -expm1(start - end if width is None else -width)
    return (ball(1.0) if end is None else _signed(end)) - (ball(-1.0) if start is None else _signed(start))


def _signed(y: Ball) -> Ball:
    """The integral of e^{-|s|} from 0 to y, negative on the left."""
    at = value_of(y)
    if at >= 0:
        return -expm1(-y)
    if at <= 0:
        return expm1(y)
    value = at.lower().expm1().union(-(-at.upper()).expm1())
    return kinked(y, value, (-abs(at)).exp().union(ball(1.0))) if is_taylor(y) else value


class TruncatedLaplace(Truncated):
    """Truncated Laplace on spans, with or without a limit of the noise."""

    def __init__(self, noise: Noise, shape: Shape) -> None:
        super().__init__(noise, shape)
        self.limit = self.noise.limit if noise.limited else None
        self._whole = SideMasses.of(shape, self.spans, self.noise.scale)
        self._sides = self._whole if self.limit is None else None

    def parts(self, p: Ball, d: Ball) -> Parts:
        """The spans as the pair (p, p + d) sees them: those on either side in one step, those it touches one by one."""
        b = self.noise.scale
        distance = d / b
        left = right = inside = lift = only_p = only_q = ZERO
        covered, spans = False, self.spans
        pieces: list[tuple[Ball, Ball]] = []
        if self._sides is not None:
            near, far = self._sides.touched(value_of(p), value_of(p) + d)
            left, right, spans = self._sides.left(p, near), self._sides.right(p + d, far), spans[near:far]
        elif self.limit is not None and self._whole is not None:
            left, right, spans = self._within_reach(self._whole, self.limit, p, d)
        for lower, upper in spans:
            start, end = (None if x is None else x / b for x in (shifted(lower, p), shifted(upper, p)))
            width = None if lower is None or upper is None else (upper - lower) / b
            if self.limit is not None:
                reach = self.limit / b
                only_p = only_p + span_mass(later(start, -reach), earlier(end, distance - reach))
                beyond, behind = later(start, reach), earlier(end, distance + reach)
                only_q = only_q + span_mass(beyond - distance, behind - distance)
                first, last = later(start, distance - reach), earlier(end, reach)
                if first is not start or last is not end:
                    start, end, width = first, last, None
                if value_of(last) <= value_of(first):
                    continue
            if end is not None and value_of(end) <= 0:
                left = left + span_mass(start, end, width)
                continue
            if start is not None and value_of(start) >= distance:
                right = right + span_mass(start - distance, shifted(end, distance), width)
                continue
            left = left + span_mass(start, earlier(end, ZERO))
            right = right + span_mass(later(shifted(start, distance), ZERO), shifted(end, distance))
            if (start is None or value_of(start) <= 0) and (end is None or value_of(end) >= distance):
                covered, inside = True, -(-distance).expm1()
                continue
            first, last = earlier(later(start, ZERO), distance), later(earlier(end, distance), ZERO)
            of_p, of_q = span_mass(first, last), span_mass(first - distance, last - distance)
            inside, lift = inside + of_p, lift + of_q - of_p
            pieces.append((first, last))

        def overlap(y: Ball) -> Ball:
            whole = covered and (self.limit is None or value_of(y) <= distance)
            gap = expm1(-y)
            total: Ball = gap * gap if whole else ZERO
            for first, last in [*pieces, (ZERO, distance)] if covered and not whole else pieces:
                start, end = smallest(first, y), smallest(last, y)
                total = total + ((-start).exp() - (-end).exp()) - ((end - 2 * y).exp() - (start - 2 * y).exp())
            return total

        return Parts(left, right, inside, lift, overlap, only_p, only_q, self.limit is not None)

    def _within_reach(self, whole: SideMasses, limit: Ball, p: Ball, d: Ball) -> tuple[Ball, Ball, list[Span]]:
        """With a limit of the noise: the spans that both laws reach on either side of the pair, each side in one step.

        The masses of P left of p and of Q right of p + d, and the spans that are left to look at one by one.
        """
        at = value_of(p)
        first, last = whole.touched(at - limit, at + d + limit)
        (start, end), (begin, stop) = whole.inside(at + d - limit, at), whole.inside(at + d, at + limit)
        if end <= start:
            start = end = first
        if stop <= begin:
            begin = stop = max(last, end)
        left, right = whole.left(p, end, start), whole.right(p + d, begin, stop)
        return left, right, [*self.spans[first:start], *self.spans[end:begin], *self.spans[stop:last]]

    def sticks(self, p: Ball, d: Ball, epsilon: Ball, only: Collection[int] = ()) -> dict[int, Ball]:
        """The best threshold event, in one smooth piece."""
        return {0: sharp_stick(lambda at: self.parts(at, d), p, d / self.noise.scale, epsilon)}

    def change(self, p: Ball, d: Ball) -> Ball:
        return self.parts(p, d).change(d / self.noise.scale)

    def loss(self, p: Ball, d: Ball) -> Ball:
        """As without a limit; with one, seen at the left end of what P can publish, infinite if Q cannot."""
        if self.limit is None:
            return super().loss(p, d)
        ratio = self.noise.log_ratio(shifted(self._first_shared(value_of(p), d), p), d)
        if not value_of(ratio).is_finite():
            return ratio
        change = self.change(p, d)
        return ratio + change if value_of(change).is_finite() else change

    def renyi(self, p: Ball, d: Ball, order: Ball) -> Ball:
        """Outside the pair the ratio is constant; Z(Q) = Z(P) e^change."""
        if self._sides is None:
            return super().renyi(p, d, order)
        b, parts = self.noise.scale, self.parts(p, d)
        first, last = self._sides.touched(value_of(p), value_of(p) + d)
        near, far = ((order - 1) * d / b).exp() / 2, (-order * d / b).exp() / 2
        total = self._sides.left(p, first) * near + self._sides.right(p + d, last) * far
        for lower, upper in self.spans[first:last]:
            total = total + self.noise.renyi_integral(p, d, order, lower, upper)
        normaliser = parts.normaliser(d / b) / 2
        if not value_of(normaliser) > 0 or not value_of(total) > 0:
            return arb.nan()
        return (total / normaliser).log() / (order - 1) + parts.change(d / b)

    def least_normaliser(self, start: float, end: float) -> Ball:
        """As elsewhere; a span on the left keeps least at the right end, and the other way round."""
        if self._sides is None or math.isinf(start) or math.isinf(end):
            return super().least_normaliser(start, end)
        first, last = self._sides.touched(ball(start), ball(end))
        total = self._sides.left(ball(end), first) / 2 + self._sides.right(ball(start), last) / 2
        for lower, upper in self.spans[first:last]:
            masses = (self.noise.mass(shifted(lower, at), shifted(upper, at)) for at in (ball(start), ball(end)))
            total = total + smallest(*masses)
        return total.lower()

    def right_of(self, p: Ball) -> Ball:
        if self._sides is None:
            return super().right_of(p)
        parts = self.parts(p, ZERO)
        return parts.right / (parts.left + parts.right)

    def stretch(self, start: Ball, end: Ball) -> bool | None:
        """Whether all positions from start to end lie in one span (True) or in one gap (False); None if in neither."""
        if self._sides is None:
            return None
        first, last = self._sides.touched(start, end)
        if first == last:
            return False
        lower, upper = self.spans[first]
        whole = last == first + 1 and (lower is None or lower <= start) and (upper is None or upper >= end)
        return True if whole else None

    def fisher(self, p: Ball) -> Ball:
        """As without a limit where the whole support is within reach; infinite where an edge of the noise shows."""
        if self.limit is None:
            return super().fisher(p)
        low, high = self.edges()
        if low is None or high is None or not (low - p >= -self.limit and high - p <= self.limit):
            return INFINITY
        whole = copy.copy(self)
        whole.noise, whole.limit = self.noise.untruncated, None
        return whole.fisher(p)

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
