"""Masses of spans under Laplace noise: those on one side of a place in one step, and between two ends."""

from __future__ import annotations

import bisect
import itertools
import math

from rangebound.laws.shape import Shape
from rangebound.privacy.pairs.integrals import Span
from rangebound.values.ball import (
    ZERO,
    Ball,
    End,
    ball,
    down,
    expm1,
    is_taylor,
    kinked,
    largest,
    smallest,
    up,
    value_of,
)

_ENDLESS = 1e15  # scales: beyond this an exponential does not fit


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
    """The larger of two places; None is far to the left."""
    return second if first is None else largest(first, second)


def earlier(first: End, second: Ball) -> Ball:
    """The smaller of two places; None is far to the right."""
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
