"""Spans, pairs of answers and the mass between them: the linear-time bookkeeping behind `laplace_union`.

Lengths are in the unit of the data until a scale is given, and in scales from then on.
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

from rangebound.values.array_types import Bools, Floats, Indices, np

_LARGEST = sys.float_info.max


class Spans(NamedTuple):
    """The allowed spans with finite ends; an infinite end is cut off and its mass counted as lying just beyond.

    Pivots are spans such that the first pivot p above span i is at most j, and j at most the pivot after p, whenever
    an answer in i and one in j may be neighbours. Then what lies between is a run that ends at p and a run that starts
    at p, and the runs to and from all pivots follow from one recurrence each, in linear time and without subtracting (a
    sliding window as a queue made of two stacks).
    """

    lowers: Floats
    uppers: Floats
    widths: Floats
    gaps: Floats
    mass_below: float
    mass_above: float
    sensitivity: float
    nearest: Indices  # for each span, the last one that starts within a sensitivity of its lower end
    first_pivot: Indices  # for each span, the first pivot above it (the last span where there is none)
    last_pivot: Indices  # for each span, the last pivot at or below it
    goes_on: Floats  # for each gap, 1 where a run goes on across it and 0 where the span above it is a pivot


def spans_of(lowers: Floats, uppers: Floats, sensitivity: float) -> Spans:
    """The spans, in order, of which the first and the last may have an infinite end.

    On an infinite span `left` is 1 everywhere, which is what a full mass of 1 at its cut end also gives; the privacy
    loss there is largest next to the gap. So two sensitivities of it are all that has to be looked at.
    """
    lower, upper = np.array(lowers, dtype=np.float64), np.array(uppers, dtype=np.float64)
    below, above = bool(np.isneginf(lower[0])), bool(np.isposinf(upper[-1]))
    with np.errstate(over="ignore"):
        if below:
            start = 0.0 if above and lower.size == 1 else upper[0]
            lower[0] = max(min(start - 2.0 * sensitivity, math.nextafter(start, -math.inf)), -_LARGEST)
            upper[0] = start
        if above:
            start = upper[0] if below and lower.size == 1 else lower[-1]
            upper[-1] = min(max(start + 2.0 * sensitivity, math.nextafter(start, math.inf)), _LARGEST)
        widths, gaps = upper - lower, lower[1:] - upper[:-1]
    nearest, count = _last_within(lower, lower, sensitivity), lower.size
    jump, pivots = np.maximum(nearest, np.arange(1, count + 1)).tolist(), [0]
    while pivots[-1] < count:
        pivots.append(jump[pivots[-1]])
    order = np.searchsorted(pivots, np.arange(count), side="right")
    first, last = np.minimum(np.asarray(pivots)[order], count - 1), np.asarray(pivots)[order - 1]
    goes_on = (last[1:] == last[:-1]).astype(np.float64)
    return Spans(lower, upper, widths, gaps, float(below), float(above), sensitivity, nearest, first, last, goes_on)


class Masses(NamedTuple):
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


class Pairs(NamedTuple):
    """All pairs of neighbouring answers that may be worst, O(n) of them.

    In pair k the lower answer lies in span `first[k]`, the upper in span `second[k]`, `distance[k]` apart, each at its
    place between the lower end of its span (`above_...`) and the upper end (`below_...`).
    """

    first: Indices
    second: Indices
    distance: Floats
    between: Floats  # from the upper end of the first span to the lower end of the second, 0 when they are one
    above_first: Floats
    below_first: Floats
    above_second: Floats
    below_second: Floats


def places(spans: Spans, pairs: Pairs, k: int) -> tuple[float, float]:
    """The two answers of pair k, each from the nearer end of its span."""
    i, j = pairs.first[k], pairs.second[k]
    ends = (
        (spans.lowers[i], pairs.above_first[k], spans.uppers[i], pairs.below_first[k]),
        (spans.lowers[j], pairs.above_second[k], spans.uppers[j], pairs.below_second[k]),
    )
    first, second = (float(low + up if up <= down else high - down) for low, up, high, down in ends)
    return first, second


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
    nearest, farthest = spans.nearest, _last_within(lowers, uppers, limit)
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
    every = (
        *(np.tile(each, 2) for each in (first, second, distance, between)),
        np.concatenate((above_first, above_first + slide)),
        np.concatenate((below_first + slide, below_first)),
        np.concatenate((above_second, above_second + slide)),
        np.concatenate((below_second + slide, below_second)),
    )
    kept = np.flatnonzero(np.concatenate((slide >= 0.0, slide > 0.0)))
    return Pairs._make(each[kept] for each in every)


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


class Stretch(NamedTuple):
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

    def where(self, chosen: Indices, present: Bools) -> Stretch:
        """Some of them, of no length where they are not `present`."""
        none = (1.0, 0.0, 0.0, 0.0, 0.0)
        return Stretch._make(np.where(present, each[chosen], x) for each, x in zip(self, none, strict=True))


def allowed(length: Floats) -> Stretch:
    """A stretch of `length` scales, all of it allowed."""
    own = -np.expm1(-length)
    return Stretch(np.exp(-length), own, own, own, np.zeros_like(own))


def _forbidden(length: Floats) -> Stretch:
    return Stretch(np.exp(-length), -np.expm1(-length), *np.zeros((3, *length.shape)))


def between_spans(spans: Spans, pairs: Pairs, masses: Masses, scale: float) -> Stretch:
    """What lies between the facing ends of the two spans of each pair."""
    with np.errstate(over="ignore"):
        result = _forbidden(pairs.between / scale)
        gaps = _forbidden(spans.gaps / scale)
    wide = np.flatnonzero(pairs.second - pairs.first >= 2)
    if wide.size == 0:
        return result
    i, j = pairs.first[wide], pairs.second[wide]
    pivot, always = spans.first_pivot[i], np.full(wide.size, True)
    ending, starting = i + 1 < pivot, pivot < j
    joined = (
        gaps.where(i, always)
        .then(_runs_to_pivot(spans, masses, scale).where(i + 1, ending))
        .then(_runs_from_pivot(spans, masses, scale).where(j - 1, starting))
        .then(gaps.where(j - 1, starting))
    )
    result.from_below[wide] = joined.from_below
    result.from_above[wide] = joined.from_above
    # On a stretch of scales the skew as a sum of growing terms would be the less accurate one.
    short = joined.faded < 0.5
    result.skew[wide] = np.where(short, joined.skew, joined.from_above - joined.from_below)
    return result


def _runs_from_pivot(spans: Spans, masses: Masses, scale: float) -> Stretch:
    """For each span k: from the lower end of the last pivot at or below it to its own upper end."""
    own, across, start, goes_on = masses.own, masses.across, spans.last_pivot, spans.goes_on
    with np.errstate(over="ignore"):
        length = (spans.uppers - spans.lowers[start]) / scale
        offset = (spans.lowers - spans.lowers[start]) / scale
        added = -np.expm1(-(spans.gaps + spans.widths[1:]) / scale)
    from_above = _scan(goes_on * across * (1.0 - own[1:]), own[1:], own[0])
    from_below = _scan(goes_on, (np.exp(-offset) * own)[1:], own[0])
    skew = _scan(goes_on, goes_on * (-np.expm1(-offset[1:]) * own[1:] - added * from_above[:-1]), 0.0)
    return Stretch(np.exp(-length), -np.expm1(-length), from_below, from_above, skew)


def _runs_to_pivot(spans: Spans, masses: Masses, scale: float) -> Stretch:
    """For each span k: from its own lower end to the lower end of the first pivot above it."""
    own, across, stop, goes_on = masses.own, masses.across, spans.first_pivot, spans.goes_on
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
