"""Truncated Laplace on spans and on the points of a grid, in ball arithmetic (see `exact` and `laplace_pair`)."""

from __future__ import annotations

import bisect
import copy
import itertools
import math
from collections.abc import Collection

from flint import arb

from rangebound.ball import (
    INFINITY,
    Ball,
    End,
    ball,
    down,
    expm1,
    is_taylor,
    kinked,
    largest,
    smallest,
    tightened,
    up,
    value_of,
)
from rangebound.law import Shape
from rangebound.noise import BallNoise, Noise
from rangebound.privacy.pairs.integrals import Span
from rangebound.privacy.pairs.laplace_pair import Parts, sharp_stick
from rangebound.privacy.pairs.pieces import shifted
from rangebound.privacy.pairs.truncated import Truncated
from rangebound.privacy.pairs.truncated_grid import TruncatedGrid

_ZERO: Ball = ball(0.0)
_MORE = 1.001
_FEW = 8  # points that are added one by one, and events that are told apart


class TruncatedLaplace(Truncated):
    """Truncated Laplace on spans, with or without a limit of the noise."""

    def __init__(self, noise: Noise, shape: Shape) -> None:
        super().__init__(noise, shape)
        self.limit = self.noise.limit if noise.limited else None
        self._whole = _Sides.of(shape, self.spans, self.noise.scale)
        self._sides = self._whole if self.limit is None else None

    def parts(self, p: Ball, d: Ball) -> Parts:
        """The spans as the pair (p, p + d) sees them: those on either side in one step, those it touches one by one."""
        b = self.noise.scale
        distance = d / b
        left = right = inside = lift = only_p = only_q = _ZERO
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
                only_p = only_p + _mass(_later(start, -reach), _earlier(end, distance - reach))
                beyond, behind = _later(start, reach), _earlier(end, distance + reach)
                only_q = only_q + _mass(beyond - distance, behind - distance)
                first, last = _later(start, distance - reach), _earlier(end, reach)
                if first is not start or last is not end:
                    start, end, width = first, last, None
                if value_of(last) <= value_of(first):
                    continue
            if end is not None and value_of(end) <= 0:
                left = left + _mass(start, end, width)
                continue
            if start is not None and value_of(start) >= distance:
                right = right + _mass(start - distance, shifted(end, distance), width)
                continue
            left = left + _mass(start, _earlier(end, _ZERO))
            right = right + _mass(_later(shifted(start, distance), _ZERO), shifted(end, distance))
            if (start is None or value_of(start) <= 0) and (end is None or value_of(end) >= distance):
                covered, inside = True, -(-distance).expm1()
                continue
            first, last = _earlier(_later(start, _ZERO), distance), _later(_earlier(end, distance), _ZERO)
            of_p, of_q = _mass(first, last), _mass(first - distance, last - distance)
            inside, lift = inside + of_p, lift + of_q - of_p
            pieces.append((first, last))

        def overlap(y: Ball) -> Ball:
            whole = covered and (self.limit is None or value_of(y) <= distance)
            gap = expm1(-y)
            total: Ball = gap * gap if whole else _ZERO
            for first, last in [*pieces, (_ZERO, distance)] if covered and not whole else pieces:
                start, end = smallest(first, y), smallest(last, y)
                total = total + ((-start).exp() - (-end).exp()) - ((end - 2 * y).exp() - (start - 2 * y).exp())
            return total

        return Parts(left, right, inside, lift, overlap, only_p, only_q, self.limit is not None)

    def _within_reach(self, whole: _Sides, limit: Ball, p: Ball, d: Ball) -> tuple[Ball, Ball, list[Span]]:
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
        """log Z(p+d) - log Z(p)."""
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
            total = total + self.noise.blend(p, d, order, lower, upper)
        kept = parts.kept(d / b) / 2
        if not value_of(kept) > 0 or not value_of(total) > 0:
            return arb.nan()
        return (total / kept).log() / (order - 1) + parts.change(d / b)

    def kept_at_least(self, start: float, end: float) -> Ball:
        """As elsewhere; a span on the left keeps least at the right end, and the other way round."""
        if self._sides is None or math.isinf(start) or math.isinf(end):
            return super().kept_at_least(start, end)
        first, last = self._sides.touched(ball(start), ball(end))
        total = self._sides.left(ball(end), first) / 2 + self._sides.right(ball(start), last) / 2
        for lower, upper in self.spans[first:last]:
            masses = (self.noise.mass(shifted(lower, at), shifted(upper, at)) for at in (ball(start), ball(end)))
            total = total + smallest(*masses)
        return total.lower()

    def right_of(self, p: Ball) -> Ball:
        """Probability of an output above p at the location p."""
        if self._sides is None:
            return super().right_of(p)
        parts = self.parts(p, _ZERO)
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


_ENDLESS = 1e15  # scales: beyond this an exponential does not fit


class _Sides:
    """The mass of all spans on one side of a place in one step, however many: sums of e^{x/b} over whole spans.

    From a place p the first k spans, if they lie left of it, have the mass e^{-p/b} A_k, where A_k is the integral of
    e^{x/b} over them; the mirror image holds on the right. All terms are positive, so nothing cancels.
    """

    def __init__(self, shape: Shape, spans: list[Span], scale: Ball, origin: float) -> None:
        self._lowers, self._uppers = [a for a, _ in shape.spans], [b for _, b in shape.spans]
        self._origin, self._scale = ball(origin), scale
        places = [(self._place(a), self._place(b)) for a, b in spans]
        upward = [_ZERO if b is None else b.exp() * (1 if a is None else -(a - b).expm1()) for a, b in places]
        downward = [_ZERO if a is None else (-a).exp() * (1 if b is None else -(a - b).expm1()) for a, b in places]
        self._before = list(itertools.accumulate(upward, initial=_ZERO))
        self._after = list(itertools.accumulate(reversed(downward), initial=_ZERO))[::-1]

    def _place(self, x: End) -> End:
        return None if x is None else (x - self._origin) / self._scale

    @classmethod
    def of(cls, shape: Shape, spans: list[Span], scale: Ball) -> _Sides | None:
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
            return _ZERO
        return (-(p - self._origin) / self._scale).exp() * (self._before[count] - self._before[start])

    def right(self, p: Ball, start: int, stop: int | None = None) -> Ball:
        """The mass of the spans from number `start` on (before `stop`), all of them right of p."""
        stop = len(self._lowers) if stop is None else stop
        if stop <= start:
            return _ZERO
        return ((p - self._origin) / self._scale).exp() * (self._after[start] - self._after[stop])


def _later(first: End, second: Ball) -> Ball:
    """The larger of two places; None is far to the left."""
    return second if first is None else largest(first, second)


def _earlier(first: End, second: Ball) -> Ball:
    """The smaller of two places; None is far to the right."""
    return second if first is None else smallest(first, second)


def _mass(start: End, end: End, width: Ball | None = None) -> Ball:
    """The integral of e^{-|s|} from start (None: -inf) to end (None: inf), 0 if they are not in order."""
    if start is not None and end is not None and value_of(end) <= value_of(start):
        if not value_of(start).is_zero() or not value_of(end).is_zero():
            return _ZERO
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


class LaplaceSums:
    """Sums of e^{-|x-p|/b} over the first k points, each in a few steps.

    With j points left of p the sum of the first k is A_min(j,k) e^{-p/b} + (B_j - B_k) e^{p/b}, where A and B are sums
    of e^{x/b} from the left and of e^{-x/b} from the right. Points inside a wide ball p are added one by one. `beyond`
    is the weight of what may lie left of the first point and right of the last one, in units of theirs.
    """

    def __init__(
        self,
        points: list[Ball],
        places: tuple[float, ...],
        noise: BallNoise,
        beyond: tuple[Ball, Ball] = (_ZERO, _ZERO),
    ) -> None:
        self.points, self.places, self.noise = points, places, noise
        steps = [(x - points[0]) / noise.scale for x in points]
        low, high = beyond[0], beyond[1] * (-steps[-1]).exp()
        self._left = list(itertools.accumulate((y.exp() for y in steps), initial=low))
        self._right = list(itertools.accumulate(((-y).exp() for y in reversed(steps)), initial=high))[::-1]
        self._known: dict[str, list[Ball]] = {}

    def share_right(self, at: float) -> Ball:
        """The share of the points at or right of a place, as it sees them."""
        count, offset = bisect.bisect_left(self.places, at), (ball(at) - self.points[0]) / self.noise.scale
        left, right = (-offset).exp() * self._left[count], offset.exp() * self._right[count]
        return right / (left + right)

    def parts(self, p: Ball, d: Ball, count: int | None = None) -> Parts:
        """The points as the pair (p, p + d) sees them; `count` fixes how many points the best event has."""
        at, b = value_of(p), self.noise.scale
        left, first, last, right = self._places_of(at, d)
        offset, distance = (p - self.points[0]) / b, d / b
        loose = [((x - p) / b) for x in (*self.points[left:first], *self.points[last:right])]
        of_p, of_q = ([_kernel(s - shift) for s in loose] for shift in (ball(0.0), distance))
        rising, falling = offset.exp(), (-offset - distance).exp()
        zero: Ball = ball(0.0)

        def overlap(y: Ball) -> Ball:
            weight = (distance - 2 * y).exp()
            if count is None:
                one_by_one = [(_kernel(s), _kernel(s - distance)) for s in self._between(p, first, last)]
                pairs = [*one_by_one, *zip(of_p, of_q, strict=True)]
                return sum((largest(p - weight * q, zero) for p, q in pairs), zero)
            end = min(max(count, first), last)
            taken = max(count - last, 0) + first - left if count > last else max(min(count, first) - left, 0)
            if end - first <= _FEW:
                inside = [_kernel(s) - weight * _kernel(s - distance) for s in self._between(p, first, end)]
            else:
                of_left, of_right = self._right[first] - self._right[end], self._left[end] - self._left[first]
                inside = [rising * of_left, -weight * falling * of_right]
            inside += [p - weight * q for p, q in zip(of_p[:taken], of_q[:taken], strict=True)]
            return sum(inside, zero)

        whole_p = rising * (self._right[first] - self._right[last])
        whole_q = falling * (self._left[last] - self._left[first])
        return Parts(
            (-offset).exp() * self._left[left],
            (offset + distance).exp() * self._right[right],
            sum(of_p, whole_p),
            sum((q - p for p, q in zip(of_p, of_q, strict=True)), whole_q - whole_p),
            overlap,
        )

    def blend(self, p: Ball, d: Ball, order: Ball) -> Ball:
        """The sum over all points of g(x-p)^order g(x-p-d)^(1-order): the ratio is constant outside the pair.

        Between the two it is e^{(order-1) d/b} e^{-(2 order-1)(x-p)/b}.
        """
        left, first, last, right = self._places_of(value_of(p), d)
        rising = ((p - self.points[0]) / self.noise.scale).exp()
        edge = ((order - 1) * d / self.noise.scale).exp()
        total = self._left[left] / rising * edge + self._right[right] * rising / edge
        steep = self._steep(order)
        fast = ((p - self.points[0]) * ((2 * order - 1) / self.noise.scale)).exp()
        total = total + fast * edge * (steep[first] - steep[last])
        for x in (*self.points[left:first], *self.points[last:right]):
            weight = self.noise.pdf(x - p) * (2 * self.noise.scale)
            total = total + weight * (self.noise.log_ratio(x - p, d) * (order - 1)).exp()
        return total

    def _places_of(self, at: Ball, d: Ball) -> tuple[int, int, int, int]:
        """Points before the first number lie left of the pair, from the second to the third surely between the two,

        from the fourth on right of it; the others may lie on either side of one of the two.
        """
        left = bisect.bisect_right(self.places, down(at))
        right = max(left, bisect.bisect_left(self.places, up(at + d)))
        first = min(max(left, bisect.bisect_left(self.places, up(at))), right)
        last = min(bisect.bisect_right(self.places, down(at + d)), right)  # a point at q itself is right of the pair
        return (left, first, last, right) if first <= last else (left, right, right, right)

    def _between(self, p: Ball, first: int, last: int) -> list[Ball]:
        return [(x - p) / self.noise.scale for x in self.points[first:last]]

    def _steep(self, order: Ball) -> list[Ball]:
        """Sums from the right of e^{-(2 order-1) x/b}."""
        key = str(order)
        if key not in self._known:
            rate = (2 * order - 1) / self.noise.scale
            terms = ((-(x - self.points[0]) * rate).exp() for x in reversed(self.points))
            self._known = {key: list(itertools.accumulate(terms, initial=ball(0.0)))[::-1]}
        return self._known[key]


def _kernel(y: Ball) -> Ball:
    """e^{-|y|}."""
    return (-largest(y, -y)).exp()


class TruncatedLaplaceGrid(TruncatedGrid):
    """Truncated Laplace on the points of a grid; with `open_ends`, on every longer grid of the same step at once."""

    def __init__(self, noise: Noise, shape: Shape, *, open_ends: bool = False) -> None:
        super().__init__(noise, shape)
        beyond: tuple[Ball, Ball] = (_ZERO, _ZERO)
        if open_ends:
            ends = (shape.points[:2], shape.points[-2:])
            ratios = [((ball(a) - ball(b)) / self.noise.scale).exp() for a, b in ends]
            # More than any number of points there weigh, a little off their places or not.
            beyond = _ZERO.union(_MORE * ratios[0] / (1 - ratios[0])), _ZERO.union(_MORE * ratios[1] / (1 - ratios[1]))
        self._sums = LaplaceSums(self.points, shape.points, self.noise, beyond)

    def parts(self, p: Ball, d: Ball) -> Parts:
        """The points as the pair (p, p + d) sees them."""
        return self._sums.parts(p, d)

    def right_of(self, p: Ball) -> Ball:
        """Probability of an output at or above p at the location p."""
        return self._sums.share_right(down(p)) if p.is_exact() else super().right_of(p)

    def loss(self, p: Ball, d: Ball) -> Ball:
        """Pure epsilon of the pair in this direction."""
        change = self.change(p, d)
        return self.noise.log_ratio(self.points[0] - p, d) + change if value_of(change).is_finite() else change

    def renyi(self, p: Ball, d: Ball, order: Ball) -> Ball:
        """Renyi divergence of P from Q of an order above 1."""
        total, parts = self._sums.blend(p, d, order), self.parts(p, d)
        distance = d / self.noise.scale
        kept = parts.kept(distance)
        if not (value_of(total) > 0 and value_of(kept) > 0):
            return arb.nan()
        return (total.log() - kept.log()) / (order - 1) + parts.change(distance)

    def sticks(self, p: Ball, d: Ball, epsilon: Ball, only: Collection[int] = ()) -> dict[int, Ball]:
        """The events of the first k points, for every k that may be the best (or `only`), each smooth between kinks."""
        distance = d / self.noise.scale
        change = self.change(p, d)
        if is_taylor(p) and is_taylor(change) and not p[0].is_exact():
            change = tightened(change, lambda at: self.change(at, d), p[0])
        if not value_of(change).is_finite():
            return {0: change}
        y = (distance - epsilon + change) / 2
        if value_of(y) <= 0:
            return {0: _ZERO}
        if not only:
            t = value_of(p) + value_of(y) * self.noise.scale
            first, last = bisect.bisect_left(self._places, down(t)), bisect.bisect_right(self._places, up(t))
            if last - first > _FEW:
                return {0: sharp_stick(lambda at: self.parts(at, d), p, distance, epsilon)}
            only = range(first, last + 1)
        return {k: self._sums.parts(p, d, k).event(distance, y) for k in only}

    def change(self, p: Ball, d: Ball) -> Ball:
        """log Z(p+d) - log Z(p)."""
        return self.parts(p, d).change(d / self.noise.scale)
