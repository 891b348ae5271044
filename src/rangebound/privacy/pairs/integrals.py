"""Integrals over spans as seen from one place, each computed once however many events it is a part of."""

from __future__ import annotations

import bisect
import math
from typing import Protocol, overload

from flint import arb, arb_series, ctx

from rangebound.laws.family import BallNoise
from rangebound.values.ball import Ball, End, ball, is_taylor, smallest, value_of


def finite_end(x: float) -> End:
    """An end of a span as a ball; None where it is infinite."""
    return None if math.isinf(x) else ball(x)


@overload
def shifted(x: Ball, p: Ball) -> Ball: ...


@overload
def shifted(x: None, p: Ball) -> None: ...


@overload
def shifted(x: End, p: Ball) -> End: ...


def shifted(x: End, p: Ball) -> End:
    """An end as seen from the position `p`."""
    return None if x is None else x - p


def up_to(d: Ball) -> Ball:
    """A ball around [0, d]."""
    return ball(0.0).union(d)


def near_pair(p: Ball, d: Ball) -> bool:
    """Whether p is the series about a cell that is wider than the distance of the pair."""
    return is_taylor(p) and bool(2 * p[0].rad() > d)


Span = tuple[End, End]  # ends as balls or series, None where infinite

_FEW = 6  # spans that are all looked at
_FADED = 20.0  # scales beyond the nearest span, at 256 bits: what Gaussian noise has there is less than the precision


class LawView(Protocol):
    """A form of the density on the support, up to a factor that does not depend on x."""

    def mass(self, span: Span, p: Ball) -> Ball:
        """The integral over a span; its upper end may be a series in p."""

    def pull(self, span: Span, p: Ball) -> Ball:
        """The derivative of that in p with the ends held."""

    def reach(self, p: Ball) -> Ball | None:
        """The distance from which on a span does not count; None where all do."""

    def rest(self, count: int, reach: Ball, p: Ball, *, slope: bool) -> Ball:
        """What `count` spans beyond the reach have, or their pull."""

    def threshold(self, p: Ball, d: Ball, level: Ball) -> Ball:
        """Where the log-ratio of this form of the density about p and p + d is `level`."""


class Plain:
    """The density of the noise itself, by the offsets of the ends from the location."""

    def __init__(self, noise: BallNoise, *, spans: tuple[tuple[float, float], ...] = ()) -> None:
        """With `spans` (Gaussian noise only) those beyond the reach are bounded together."""
        self._noise = noise
        self._spans = spans if len(spans) > _FEW else ()

    def reach(self, p: Ball) -> Ball | None:
        """The distance from which on a span does not count, for Gaussian noise on many spans; None where all do."""
        if not self._spans:
            return None
        at = float(value_of(p).mid())
        i = bisect.bisect_left(self._spans, (at, at))
        near = min(max(low - at, at - high, 0.0) for low, high in self._spans[max(i - 1, 0) : i + 1])
        return ball(near) + _FADED * math.sqrt(max(ctx.prec / 256.0, 1.0)) * self._noise.scale

    def rest(self, count: int, reach: Ball, p: Ball, *, slope: bool) -> Ball:
        """A ball, or a series of balls, around the mass of `count` spans beyond the reach (or around their pull).

        A derivative of order k of the mass is that of order k - 1 of the density at the ends, and those are Hermite
        polynomials times the density: at most 1.0865 sqrt((k-1)!) e^{-z^2/4}/sqrt(2 pi) s^-k at z scales (Cramer), and
        at most (z + sqrt(k-1))^(k-1) e^{-z^2/2}, as He_n(z) is the mean of (z + iN)^n; that falls from 20 scales on.
        """
        z, s = reach / self._noise.scale, self._noise.scale
        near, far = arb("1.0865") * (-z * z / 4).exp(), (-z * z / 2).exp()
        found = []
        for k in range(slope, slope + (min(p.prec, ctx.cap) if is_taylor(p) else 1)):
            n = max(k - 1, 0)
            height = smallest(near * arb(math.factorial(n)).sqrt(), far * (z + arb(n).sqrt()) ** n)
            found.append(arb(0, (2 * count * height / math.factorial(k - slope) / s**k).upper()))
        return arb_series(found, prec=len(found)) if is_taylor(p) else found[0]

    def mass(self, span: Span, p: Ball) -> Ball:
        """The probability of a span."""
        return self._noise.mass(shifted(span[0], p), shifted(span[1], p))

    def pull(self, span: Span, p: Ball) -> Ball:
        """The integral of -g' over a span."""
        low, high = (ball(0.0) if end is None else self._noise.pdf(end - p) for end in span)
        return low - high

    def threshold(self, p: Ball, d: Ball, level: Ball) -> Ball:
        """Where the log-ratio of the noise about p and p + d is `level`."""
        return self._noise.thresholds(p, d, level)[0]

    def scores(self, spans: list[Span], p: Ball) -> tuple[Ball, Ball, Ball]:
        """Integrals over spans of g, score g and score^2 g."""
        sums: tuple[Ball, Ball, Ball] = (ball(0.0),) * 3
        for lower, upper in spans:
            parts = self._noise.score_moments(shifted(lower, p), shifted(upper, p))
            sums = (sums[0] + parts[0], sums[1] + parts[1], sums[2] + parts[2])
        return sums


class Integrals:
    """What a view shows from one place.

    All lists of spans that one is asked about are the support from the left on; only the last span may be another.
    """

    def __init__(self, view: LawView, p: Ball) -> None:
        self._view, self._p = view, p
        self._reach = view.reach(p)
        at = value_of(p)
        self._ends = (at.lower(), at.upper()) if self._reach is not None else (at, at)
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
        return total + self._view.rest(far, self._reach, self._p, slope=slope)

    def _is_far(self, span: Span, reach: Ball) -> bool:
        lower, upper = span
        if lower is not None and lower - self._ends[1] > reach:
            return upper is None or not is_taylor(upper)
        return upper is not None and not is_taylor(upper) and self._ends[0] - upper > reach

    def _of(self, span: Span, *, slope: bool) -> Ball:
        key = id(span), slope
        if key not in self._seen:
            self._seen[key] = span, (self._view.pull if slope else self._view.mass)(span, self._p)
        return self._seen[key][1]
