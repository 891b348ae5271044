"""Spans, pairs of answers and the mass between them: the linear-time bookkeeping behind `unions`.

Lengths are in the unit of the data until a scale is given, and in scales from then on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.values import arguments
from rangebound.values.array_types import Floats, Indices

_LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True, eq=False)
class Spans:
    """The allowed spans with finite ends; an infinite end is cut off and its mass counted as lying just beyond."""

    lowers: Floats
    uppers: Floats
    widths: Floats
    gaps: Floats
    mass_below: float
    mass_above: float
    sensitivity: float


def parse_spans(lowers: npt.ArrayLike, uppers: npt.ArrayLike, sensitivity: float) -> Spans:
    """Check the ends and cut off infinite ones.

    On an infinite span `left` is 1 everywhere, which is what a full mass of 1 at its cut end also gives; the privacy
    loss there is largest next to the gap. So two sensitivities of it are all that has to be looked at.
    """
    lower, upper = _ends("lowers", lowers), _ends("uppers", uppers)
    if lower.shape != upper.shape or lower.size == 0:
        raise ArgumentError(f"lowers, uppers: need equally many ends, at least one; got {lower.size}, {upper.size}")
    below, above = bool(np.isneginf(lower[0])), bool(np.isposinf(upper[-1]))
    if np.isinf(lower[1:]).any() or np.isinf(upper[:-1]).any() or np.isposinf(lower[0]) or np.isneginf(upper[-1]):
        raise ArgumentError("lowers, uppers: only the first lower and the last upper end may be infinite")
    if not ((lower < upper).all() and (upper[:-1] < lower[1:]).all()):
        raise ArgumentError("lowers, uppers: spans must be in order, not empty, and must not touch or overlap")
    with np.errstate(over="ignore"):
        if below:
            start = 0.0 if above and lower.size == 1 else upper[0]
            lower[0] = max(min(start - 2.0 * sensitivity, math.nextafter(start, -math.inf)), -_LARGEST)
            upper[0] = start
        if above:
            start = upper[0] if below and lower.size == 1 else lower[-1]
            upper[-1] = min(max(start + 2.0 * sensitivity, math.nextafter(start, math.inf)), _LARGEST)
        widths, gaps = upper - lower, lower[1:] - upper[:-1]
    return Spans(lower, upper, widths, gaps, float(below), float(above), sensitivity)


def _ends(name: str, ends: npt.ArrayLike) -> Floats:
    array = np.asarray(ends)
    if array.dtype.kind not in "iuf" or array.ndim != 1:
        raise ArgumentTypeError(f"{name}={arguments.shown(ends)}: must be a sequence of real numbers")
    numbers = array.astype(np.float64)
    if np.isnan(numbers).any():
        raise ArgumentError(f"{name}: must not contain NaN")
    return numbers


@dataclass(frozen=True, eq=False)
class Masses:
    """Kept mass around each span at one scale: `before` left of its lower end, `after` right of its upper end."""

    before: Floats
    after: Floats
    own: Floats  # 1 - e^{-width}
    across: Floats  # e^{-gap}


def masses_at(spans: Spans, scale: float) -> Masses:
    with np.errstate(over="ignore"):
        own = -np.expm1(-spans.widths / scale)
        across = np.exp(-spans.gaps / scale)
    before = _scan(across * (1.0 - own[:-1]), across * own[:-1], spans.mass_below)
    after = _scan((across * (1.0 - own[1:]))[::-1], (across * own[1:])[::-1], spans.mass_above)[::-1]
    return Masses(before, after, own, across)


def _scan(factors: Floats, terms: Floats, start: float) -> Floats:
    """y[0] = start, y[k+1] = factors[k] * y[k] + terms[k]."""
    # This is forward substitution in a bidiagonal system with ones on the diagonal, which BLAS does in O(n) and thirty
    # times faster than a loop here.
    from scipy.linalg.blas import dtbsv

    diagonals = np.zeros((2, terms.size + 1), order="F")
    diagonals[1, :-1] = -factors
    solution: Floats = dtbsv(1, diagonals, np.concatenate(([start], terms)), lower=1, diag=1)
    return solution


@dataclass(frozen=True, eq=False)
class Pairs:
    """All pairs of neighbouring answers that may be worst, O(n) of them.

    In pair k the lower answer lies in span `first[k]`, the upper in span `second[k]`, `distance[k]` apart, each at its
    place between the lower end of its span (`above_...`) and the upper end (`below_...`).
    """

    spans: Spans
    windows: _Windows
    first: Indices
    second: Indices
    distance: Floats
    between: Floats  # from the upper end of the first span to the lower end of the second, 0 when they are one
    above_first: Floats
    below_first: Floats
    above_second: Floats
    below_second: Floats

    def places(self, k: int) -> tuple[float, float]:
        """The two answers of pair k, each from the nearer end of its span."""
        spans, (i, j) = self.spans, (self.first[k], self.second[k])
        ends = (
            (spans.lowers[i], self.above_first[k], spans.uppers[i], self.below_first[k]),
            (spans.lowers[j], self.above_second[k], spans.uppers[j], self.below_second[k]),
        )
        first, second = (float(low + up if up <= down else high - down) for low, up, high, down in ends)
        return first, second

    def where(self, chosen: Indices) -> Pairs:
        """Some of the pairs."""
        kept = {field.name: getattr(self, field.name) for field in fields(self)}
        some = {name: each[chosen] for name, each in kept.items() if isinstance(each, np.ndarray)}
        return Pairs(**{**kept, **some})


def worst_pairs(spans: Spans) -> Pairs:
    """The pairs that cannot be widened and have an answer at an end of a span; no other pair can be the worst.

    A wider pair always loses more, so the answers are D apart, or two ends that face gaps too wide for more. As long
    as a pair D apart slides within its two spans, F(q) = ln Z(q + D) - ln Z(q) has F'' = 1/Z(q) - 1/Z(q + D) wherever
    F' = 0 (for Z'' = Z - 1). That has the sign of F: |F| has no maximum inside, and its largest value is reached where
    one of the two answers meets an end.

    With the lower answer in span i, the upper one lies in spans K(i) to J(i), the last spans to start within D of
    the lower and of the upper end of span i. K(i+1) >= J(i), so there are at most 2n + 1 such combinations.
    All decisions use differences of ends, whose rounding is relative to the distance and not to the coordinates.
    """
    lowers, uppers, limit = spans.lowers, spans.uppers, spans.sensitivity
    nearest, farthest = _last_within(lowers, lowers, limit), _last_within(lowers, uppers, limit)
    counts = farthest - nearest + 1
    first = np.repeat(np.arange(counts.size), counts)
    second = nearest[first] + np.arange(first.size) - np.repeat(np.cumsum(counts) - counts, counts)
    room = _less(uppers[second], lowers[first], limit)
    fixed = room <= 0.0  # the lower end of the first and the upper end of the second are at most D apart
    above, below = _less(lowers[second], lowers[first], limit), _less(uppers[second], uppers[first], limit)
    width_first, width_second = spans.widths[first], spans.widths[second]
    slide = np.minimum(np.minimum(width_first, width_second), -_less(lowers[second], uppers[first], limit))
    slide = np.where(fixed, 0.0, np.maximum(np.minimum(slide, room), 0.0))
    with np.errstate(over="ignore"):
        distance = np.where(fixed, uppers[second] - lowers[first], limit)
        between = np.maximum(lowers[second] - uppers[first], 0.0)
    # At the lowest place one answer is at a lower end, at the highest one is at an upper end.
    above_first, above_second = np.maximum(above, 0.0), np.where(fixed, width_second, np.maximum(-above, 0.0))
    below_first, below_second = np.where(fixed, width_first, np.maximum(-below, 0.0)), np.maximum(below, 0.0)
    return Pairs(
        spans,
        _windows(nearest),
        first=np.tile(first, 2),
        second=np.tile(second, 2),
        distance=np.tile(distance, 2),
        between=np.tile(between, 2),
        above_first=np.concatenate((above_first, above_first + slide)),
        below_first=np.concatenate((below_first + slide, below_first)),
        above_second=np.concatenate((above_second, above_second + slide)),
        below_second=np.concatenate((below_second + slide, below_second)),
    ).where(np.flatnonzero(np.concatenate((slide >= 0.0, slide > 0.0))))


def _less(upper: Floats, lower: Floats, limit: float) -> Floats:
    """upper - lower - limit, rounded as if only once: a span may be narrower than the rounding of upper - lower."""
    with np.errstate(over="ignore", invalid="ignore"):
        apart = upper - lower
        part = upper - apart  # what was really subtracted; the rest is the rounding error (Knuth's two-sum)
        error = (upper - (apart + part)) + (part - lower)
    return (apart - limit) + np.where(np.isfinite(error), error, 0.0)


def _last_within(lowers: Floats, starts: Floats, limit: float) -> Indices:
    """For each start the last span whose lower end is at most `limit` above it."""
    with np.errstate(over="ignore"):
        last: Indices = np.searchsorted(lowers, starts + limit, side="right") - 1
        # start + limit was rounded to the grid of the coordinates; the difference is what counts.
        while (late := lowers[last] - starts > limit).any():
            last = last - late
        final = lowers.size - 1
        while (early := (last < final) & (lowers[np.minimum(last + 1, final)] - starts <= limit)).any():
            last = last + early
    return last


@dataclass(frozen=True, eq=False)
class Stretch:
    """A stretch of the line with its kept mass, as seen from its lower and from its upper end.

    `skew` is the difference of the two masses. It is carried along because for a stretch much shorter than the scale
    it is smaller than either by a factor of the length, and subtracting would lose it.
    """

    passed: Floats  # e^{-length}
    faded: Floats  # 1 - e^{-length}
    from_below: Floats
    from_above: Floats
    skew: Floats

    def then(self, above: Stretch) -> Stretch:
        """This stretch and the one that follows it, as one."""
        return Stretch(
            passed=self.passed * above.passed,
            faded=self.faded + self.passed * above.faded,
            from_below=self.from_below + self.passed * above.from_below,
            from_above=above.from_above + above.passed * self.from_above,
            skew=self.skew + above.skew + self.faded * above.from_below - above.faded * self.from_above,
        )

    def where(self, chosen: Indices) -> Stretch:
        return Stretch(**{field.name: getattr(self, field.name)[chosen] for field in fields(self)})

    def otherwise_empty(self, present: npt.NDArray[np.bool_]) -> Stretch:
        """The stretch where `present`, one of no length elsewhere."""
        return Stretch(
            passed=np.where(present, self.passed, 1.0),
            faded=np.where(present, self.faded, 0.0),
            from_below=np.where(present, self.from_below, 0.0),
            from_above=np.where(present, self.from_above, 0.0),
            skew=np.where(present, self.skew, 0.0),
        )


def allowed(length: Floats) -> Stretch:
    """A stretch of `length` scales, all of it allowed."""
    own = -np.expm1(-length)
    return Stretch(np.exp(-length), own, own, own, np.zeros_like(own))


def _forbidden(length: Floats) -> Stretch:
    """A stretch of `length` scales, none of it allowed."""
    return Stretch(np.exp(-length), -np.expm1(-length), *np.zeros((3, *length.shape)))


@dataclass(frozen=True, eq=False)
class _Windows:
    """How to join the spans strictly between spans i and j for every pair in linear time, without subtracting.

    Pivots are spans such that the first pivot p above i is at most j, and j at most the pivot after p. Then what lies
    between is a run that ends at p and a run that starts at p, and the runs to and from all pivots follow from one
    recurrence each (a sliding window as a queue made of two stacks).
    """

    first_pivot: Indices  # for each span, the first pivot above it (the last span where there is none)
    last_pivot: Indices  # for each span, the last pivot at or below it
    goes_on: Floats  # for each gap, 1 where a run goes on across it and 0 where the span above it is a pivot


def _windows(nearest: Indices) -> _Windows:
    count = nearest.size
    jump = np.maximum(nearest, np.arange(1, count + 1)).tolist()
    pivots = [0]
    while pivots[-1] < count:
        pivots.append(jump[pivots[-1]])
    order = np.searchsorted(pivots, np.arange(count), side="right")
    first, last = np.minimum(np.asarray(pivots)[order], count - 1), np.asarray(pivots)[order - 1]
    return _Windows(first, last, (last[1:] == last[:-1]).astype(np.float64))


def between_spans(pairs: Pairs, masses: Masses, scale: float) -> Stretch:
    """What lies between the facing ends of the two spans of each pair."""
    with np.errstate(over="ignore"):
        result = _forbidden(pairs.between / scale)
        gaps = pairs.spans.gaps / scale
    wide = np.flatnonzero(pairs.second - pairs.first >= 2)
    if wide.size == 0:
        return result
    i, j = pairs.first[wide], pairs.second[wide]
    pivot = pairs.windows.first_pivot[i]
    ending, starting = i + 1 < pivot, pivot < j
    joined = (
        _forbidden(gaps[i])
        .then(_runs_to_pivot(pairs, masses, scale).where(i + 1).otherwise_empty(ending))
        .then(_runs_from_pivot(pairs, masses, scale).where(j - 1).otherwise_empty(starting))
        .then(_forbidden(gaps[j - 1]).otherwise_empty(starting))
    )
    result.from_below[wide] = joined.from_below
    result.from_above[wide] = joined.from_above
    # On a stretch of scales the skew as a sum of growing terms would be the less accurate one.
    short = joined.faded < 0.5
    result.skew[wide] = np.where(short, joined.skew, joined.from_above - joined.from_below)
    return result


def _runs_from_pivot(pairs: Pairs, masses: Masses, scale: float) -> Stretch:
    """For each span k: from the lower end of the last pivot at or below it to its own upper end."""
    spans, own, across = pairs.spans, masses.own, masses.across
    start, goes_on = pairs.windows.last_pivot, pairs.windows.goes_on
    with np.errstate(over="ignore"):
        length = (spans.uppers - spans.lowers[start]) / scale
        offset = (spans.lowers - spans.lowers[start]) / scale
        added = -np.expm1(-(spans.gaps + spans.widths[1:]) / scale)
    from_above = _scan(goes_on * across * (1.0 - own[1:]), own[1:], own[0])
    from_below = _scan(goes_on, (np.exp(-offset) * own)[1:], own[0])
    skew = _scan(goes_on, goes_on * (-np.expm1(-offset[1:]) * own[1:] - added * from_above[:-1]), 0.0)
    return Stretch(np.exp(-length), -np.expm1(-length), from_below, from_above, skew)


def _runs_to_pivot(pairs: Pairs, masses: Masses, scale: float) -> Stretch:
    """For each span k: from its own lower end to the lower end of the first pivot above it."""
    spans, own, across = pairs.spans, masses.own, masses.across
    stop, goes_on = pairs.windows.first_pivot, pairs.windows.goes_on
    with np.errstate(over="ignore"):
        # above the last pivot there is no run, and a length below zero is cut off
        length = np.maximum(spans.lowers[stop] - spans.lowers, 0.0) / scale
        offset = np.maximum(spans.lowers[stop] - spans.uppers, 0.0) / scale
        added = -np.expm1(-(spans.widths[:-1] + spans.gaps) / scale)
    mass, skewed = np.exp(-offset) * own, np.expm1(-offset) * own
    from_below = _scan((goes_on * across * (1.0 - own[:-1]))[::-1], own[-2::-1], own[-1])[::-1]
    from_above = _scan(goes_on[::-1], mass[-2::-1], mass[-1])[::-1]
    skew = _scan(goes_on[::-1], (skewed[:-1] + goes_on * added * from_below[1:])[::-1], skewed[-1])[::-1]
    return Stretch(np.exp(-length), -np.expm1(-length), from_below, from_above, skew)
