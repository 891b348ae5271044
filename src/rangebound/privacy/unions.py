"""Laplace noise truncated to a union of spans: its exact privacy and its smallest scale, in time linear in the gaps.

Everything is computed from kept mass, never from "one minus what the gaps take": sums of positive numbers keep
their relative accuracy when a span is a billionth of the scale wide or a gap is thousands of scales wide.

Notation, lengths in units of the scale: at a true answer q, `right` = integral over the allowed x > q of e^{-(x-q)},
`left` the same for x < q; each lies in [0, 1], and the noise keeps the mass Z(q) = (left + right)/2. On any allowed
stretch right' = right - 1 and left' = 1 - left, on a gap right' = right and left' = -left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial

import numpy as np
import numpy.typing as npt

from rangebound import arguments
from rangebound.errors import ArgumentError, ArgumentTypeError

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

_LARGEST = float(np.finfo(np.float64).max)
_SMALLEST = 1e-290  # well above the numbers that have lost relative precision to underflow

# How many of the worst pairs join the active ones at a stop of the search for the least scale, and the steps in
# which it looks for the next stop.
_CROWD = 1000
_STRIDE = 2.0 ** (1 / 32)


def metric_epsilon(lowers: npt.ArrayLike, uppers: npt.ArrayLike, scale: float, sensitivity: float) -> float:
    """Smallest epsilon for which any two answers at distance i * sensitivity differ by at most e^{i epsilon}.

    epsilon = (D/s) * max over the ends q of the spans of 2 max(left, right)/(left + right).
    With L and R the mass of the gaps on either side, a right end gives (D/s)(1-2L)/(1-L-R), as croft2022 has it.

    Guarantee: rounded up by a bound on the rounding errors (`_margin`), so never understated.
    Assumes: true answers lie in the spans, and the noise is truncated to the same spans.
    Edge cases: a support with a lower or an upper end gives exactly 2D/s (rounded up), the whole line D/s.
    An infinite end carries no condition of its own. The conditions of croft2022's Lemma 9 are redundant: ln Z is
    concave on a span, convex on a gap and smooth between, so it is steepest at an end of a span.

    >>> round(metric_epsilon([-math.inf, 1.0], [0.0, math.inf], scale=1.353482, sensitivity=1.0), 6)
    1.0

    Source: [croft2022, Thm 2].
    """
    spans = _spans(lowers, uppers, arguments.positive("sensitivity", sensitivity))
    return _metric_loss(spans, arguments.positive("scale", scale))


def dp_epsilon(lowers: npt.ArrayLike, uppers: npt.ArrayLike, scale: float, sensitivity: float) -> float:
    """Smallest epsilon for which any two answers at distance at most the sensitivity differ by at most e^epsilon.

    epsilon = max over q < q' in the spans, q' - q <= D, of (q' - q)/s + |ln Z(q) - ln Z(q')|.

    Guarantee: rounded up by a bound on the rounding errors (`_margin`), so never understated.
    Assumes: true answers lie in the spans, and the noise is truncated to the same spans.
    Edge cases: when the spans fit into one sensitivity the worst pair is the first and the last allowed number;
    when gaps forbid every pair at distance D, the pairs at the largest possible distance count.

    >>> round(dp_epsilon([-math.inf, 1.0], [0.0, math.inf], scale=1.238391, sensitivity=1.0), 6)
    1.0

    Source: [croft2022, Sec. 4.2], with the ordinary notion of privacy in place of its own.
    """
    spans = _spans(lowers, uppers, arguments.positive("sensitivity", sensitivity))
    return _dp_loss(_pairs(spans), arguments.positive("scale", scale))


def metric_scale(lowers: npt.ArrayLike, uppers: npt.ArrayLike, epsilon: float, sensitivity: float) -> float:
    """Smallest scale whose `metric_epsilon` is at most `epsilon`: between D/epsilon and 2D/epsilon.

    Guarantee: `metric_epsilon` at the returned scale is at most `epsilon`; a scale smaller by 1e-9 is too small.
    Assumes: as `metric_epsilon`; at most a million gaps, beyond which the margin for rounding passes 1e-9.
    Edge cases: 2D/epsilon without a search when the support is bounded on either side.

    >>> round(metric_scale([-math.inf, 10.0], [0.0, math.inf], epsilon=1.0, sensitivity=1.0), 6)
    1.987041

    Source: [croft2022, Thm 2 and Thm 3].
    """
    epsilon = arguments.positive("epsilon", epsilon)
    spans = _spans(lowers, uppers, arguments.positive("sensitivity", sensitivity))
    lowest, highest = _bracket(epsilon, spans.sensitivity, len(spans.widths))
    if not (spans.mass_below and spans.mass_above):
        return highest
    # The loss falls strictly as the scale grows, at least as fast as scale^(-1/2), so the root is the only one:
    # write the loss at the worst end as 2kD * left/(left + right), k = 1/scale. Its logarithmic derivative in k is
    # 1 - k(E - F) right/(left + right), E and F the mean distances of the mass on the left and on the right. That
    # no other q has a larger left/right gives, by Gronwall's inequality, tails e^{-2 right x/(left + right)} or
    # thinner for the mass on the left, so k E right/(left + right) <= 1/2.
    return _crossing(lambda scale: _metric_loss(spans, scale), epsilon, lowest, highest)


def dp_scale(lowers: npt.ArrayLike, uppers: npt.ArrayLike, epsilon: float, sensitivity: float) -> float:
    """Smallest scale whose `dp_epsilon` is at most `epsilon`: between d/epsilon and 2d/epsilon.

    d is the largest distance between two allowed answers that does not exceed the sensitivity; gaps may keep it
    below the sensitivity, and with it the scale below D/epsilon.

    Guarantee: `dp_epsilon` at the returned scale is at most `epsilon`; a scale smaller by 1e-9 is too small.
    Assumes: as `dp_epsilon`; at most a million gaps, beyond which the margin for rounding passes 1e-9.
    Edge cases: between narrow spans far from the rest a LARGER scale may give away more, since it brings the far mass
    into play. So evaluate a larger scale anew before using it. The search walks up from below in steps of 2 % and looks
    into every dip it sees: private scales below the returned one can only exist in a dip narrower than a step.

    >>> [round(dp_epsilon([0, 1, 100], [1e-4, 1.0001, 101], scale=s, sensitivity=1.5), 3) for s in (8.0, 10.0, 12.0)]
    [0.127, 0.119, 0.13]

    >>> round(dp_scale([0.0, 1.6], [1.0, 2.6], epsilon=1.0, sensitivity=1.0), 6)
    1.302636

    Source: [croft2022, Sec. 4.2], with the ordinary notion of privacy in place of its own.
    """
    epsilon = arguments.positive("epsilon", epsilon)
    pairs = _pairs(_spans(lowers, uppers, arguments.positive("sensitivity", sensitivity)))
    return _first_private(pairs, epsilon)


@dataclass(frozen=True, eq=False)
class _Spans:
    """The allowed spans with finite ends; an infinite end is cut off and its mass counted as lying just beyond."""

    lowers: Floats
    uppers: Floats
    widths: Floats
    gaps: Floats
    mass_below: float
    mass_above: float
    sensitivity: float


def _spans(lowers: npt.ArrayLike, uppers: npt.ArrayLike, sensitivity: float) -> _Spans:
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
    return _Spans(lower, upper, widths, gaps, float(below), float(above), sensitivity)


def _ends(name: str, ends: npt.ArrayLike) -> Floats:
    array = np.asarray(ends)
    if array.dtype.kind not in "iuf" or array.ndim != 1:
        raise ArgumentTypeError(f"{name}={arguments.shown(ends)}: must be a sequence of real numbers")
    numbers = array.astype(np.float64)
    if np.isnan(numbers).any():
        raise ArgumentError(f"{name}: must not hold NaN")
    return numbers


@dataclass(frozen=True, eq=False)
class _Masses:
    """Kept mass around each span at one scale: `before` left of its lower end, `after` right of its upper end."""

    before: Floats
    after: Floats
    own: Floats  # 1 - e^{-width}
    across: Floats  # e^{-gap}


def _masses(spans: _Spans, scale: float) -> _Masses:
    with np.errstate(over="ignore"):
        own = -np.expm1(-spans.widths / scale)
        across = np.exp(-spans.gaps / scale)
    before = _scan(across * (1.0 - own[:-1]), across * own[:-1], spans.mass_below)
    after = _scan((across * (1.0 - own[1:]))[::-1], (across * own[1:])[::-1], spans.mass_above)[::-1]
    return _Masses(before, after, own, across)


def _scan(factors: Floats, terms: Floats, start: float) -> Floats:
    """y[0] = start, y[k+1] = factors[k] * y[k] + terms[k]."""
    # This is forward substitution in a bidiagonal system with ones on the diagonal, which BLAS does in O(n) and thirty
    # times faster than a loop here.
    from scipy.linalg.blas import dtbsv

    diagonals = np.zeros((2, terms.size + 1), order="F")
    diagonals[1, :-1] = -factors
    solution: Floats = dtbsv(1, diagonals, np.concatenate(([start], terms)), lower=1, diag=1)
    return solution


def _metric_loss(spans: _Spans, scale: float) -> float:
    masses = _masses(spans, scale)
    # The mass on the inner side of each lower end, then on the inner side of each upper end.
    own = np.concatenate((masses.own, masses.own))
    inner = own + (1.0 - own) * np.concatenate((masses.after, masses.before))
    outer = np.concatenate((masses.before, masses.after))
    total = inner + outer
    # A total of zero is a span too narrow for a double beside its scale: count the most that it can lose.
    safe = np.where(total > 0.0, total, 1.0)
    share = np.where(total > 0.0, np.maximum(inner, outer) / safe, 1.0)
    return _rounded_up(2.0 * float(share.max()) * (spans.sensitivity / scale), len(spans.widths))


@dataclass(frozen=True, eq=False)
class _Pairs:
    """All pairs of neighbouring answers that may be worst, O(n) of them.

    In pair k the lower answer lies in span `first[k]`, the upper in span `second[k]`, `distance[k]` apart, each at its
    place between the lower end of its span (`above_...`) and the upper end (`below_...`).
    """

    spans: _Spans
    windows: _Windows
    first: Indices
    second: Indices
    distance: Floats
    between: Floats  # from the upper end of the first span to the lower end of the second, 0 when they are one
    above_first: Floats
    below_first: Floats
    above_second: Floats
    below_second: Floats

    def where(self, chosen: Indices) -> _Pairs:
        """Some of the pairs."""
        kept = {field.name: getattr(self, field.name) for field in fields(self)}
        some = {name: each[chosen] for name, each in kept.items() if isinstance(each, np.ndarray)}
        return _Pairs(**{**kept, **some})


def _pairs(spans: _Spans) -> _Pairs:
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
    return _Pairs(
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
class _Stretch:
    """A stretch of the line with its kept mass, as seen from its lower and from its upper end.

    `skew` is the difference of the two masses. It is carried along because for a stretch much shorter than the scale
    it is smaller than either by a factor of the length, and subtracting would lose it.
    """

    passed: Floats  # e^{-length}
    faded: Floats  # 1 - e^{-length}
    from_below: Floats
    from_above: Floats
    skew: Floats

    def then(self, above: _Stretch) -> _Stretch:
        """This stretch and the one that follows it, as one."""
        return _Stretch(
            passed=self.passed * above.passed,
            faded=self.faded + self.passed * above.faded,
            from_below=self.from_below + self.passed * above.from_below,
            from_above=above.from_above + above.passed * self.from_above,
            skew=self.skew + above.skew + self.faded * above.from_below - above.faded * self.from_above,
        )

    def where(self, chosen: Indices) -> _Stretch:
        return _Stretch(**{field.name: getattr(self, field.name)[chosen] for field in fields(self)})

    def otherwise_empty(self, present: npt.NDArray[np.bool_]) -> _Stretch:
        """The stretch where `present`, one of no length elsewhere."""
        return _Stretch(
            passed=np.where(present, self.passed, 1.0),
            faded=np.where(present, self.faded, 0.0),
            from_below=np.where(present, self.from_below, 0.0),
            from_above=np.where(present, self.from_above, 0.0),
            skew=np.where(present, self.skew, 0.0),
        )


def _allowed(length: Floats) -> _Stretch:
    """A stretch of `length` scales, all of it allowed."""
    own = -np.expm1(-length)
    return _Stretch(np.exp(-length), own, own, own, np.zeros_like(own))


def _forbidden(length: Floats) -> _Stretch:
    """A stretch of `length` scales, none of it allowed."""
    return _Stretch(np.exp(-length), -np.expm1(-length), *np.zeros((3, *length.shape)))


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


def _between(pairs: _Pairs, masses: _Masses, scale: float) -> _Stretch:
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


def _runs_from_pivot(pairs: _Pairs, masses: _Masses, scale: float) -> _Stretch:
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
    return _Stretch(np.exp(-length), -np.expm1(-length), from_below, from_above, skew)


def _runs_to_pivot(pairs: _Pairs, masses: _Masses, scale: float) -> _Stretch:
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
    return _Stretch(np.exp(-length), -np.expm1(-length), from_below, from_above, skew)


def _losses(pairs: _Pairs, scale: float) -> Floats:
    """distance + |ln Z(q) - ln Z(q')| of each pair, without cancellation."""
    masses = _masses(pairs.spans, scale)
    with np.errstate(over="ignore"):
        distance = pairs.distance / scale
        below_first, above_second = _allowed(pairs.below_first / scale), _allowed(pairs.above_second / scale)
        above_first, below_second = -np.expm1(-pairs.above_first / scale), -np.expm1(-pairs.below_second / scale)
    left = above_first + (1.0 - above_first) * masses.before[pairs.first]
    right = below_first.from_below + below_first.passed * masses.after[pairs.first]
    left_there = above_second.from_above + above_second.passed * masses.before[pairs.second]
    right_there = below_second + (1.0 - below_second) * masses.after[pairs.second]
    # The mass at the lower answer is left + right, at the upper left_there + right_there, and each is the other's
    # but for the stretch from q to q': right = stretch.from_below + e^{-distance} right_there, and its mirror image.
    stretch = below_first.then(_between(pairs, masses, scale)).then(above_second)
    skew = np.where(pairs.first == pairs.second, 0.0, stretch.skew)
    change = np.abs(-np.expm1(-distance) * (right_there - left) + skew)
    least = np.minimum(left + right, left_there + right_there)
    # ln Z is nowhere steeper than 1. That bound also stands in where a mass is too small for a double.
    tiny = least < _SMALLEST
    change_of_log = np.where(tiny, distance, np.log1p(change / np.where(tiny, 1.0, least)))
    losses: Floats = distance + np.minimum(change_of_log, distance)
    return losses


def _dp_loss(pairs: _Pairs, scale: float) -> float:
    return _rounded_up(float(_losses(pairs, scale).max()), len(pairs.spans.widths))


def _rounded_up(loss: float, count: int) -> float:
    """The loss or more: by the relative margin, and never below the numbers that have full relative precision."""
    return max(loss, _SMALLEST) * (1.0 + _margin(count))


def _margin(count: int) -> float:
    """Relative bound on the rounding error of a loss over `count` spans.

    Masses come from sums of positive terms: each of at most `count` steps of a recurrence adds less than 4 half-ulps
    (exponential, two products, sum). The loss built from them is well conditioned: it lies between distance and twice
    the distance, and no difference in it is larger than the distance. 64 covers the few dozen operations left.
    """
    return (64.0 + 4.0 * count) * 2.0**-53


def _first_private(pairs: _Pairs, epsilon: float) -> float:
    """The least scale at which no pair loses more than `epsilon`.

    The loss may rise with the scale (a larger one may bring far mass into play), so this walks up from below. At each
    stop the worst pairs join the active ones, and the next stop is where the active ones first become private: no scale
    before that can be. It ends when the worst pair is private too, at the latest when it is an active one.
    """
    lowest, highest = _bracket(epsilon, float(pairs.distance.max()), len(pairs.spans.widths))
    active: Indices = np.empty(0, dtype=np.intp)
    scale = lowest
    while scale < highest:
        losses = _losses(pairs, scale)
        if _rounded_up(float(losses.max()), len(pairs.spans.widths)) <= epsilon:
            break
        crowd = min(_CROWD, losses.size)
        active = np.union1d(active, np.argpartition(losses, -crowd)[-crowd:])
        scale = _next_private(partial(_dp_loss, pairs.where(active)), epsilon, scale, highest)
    return scale


def _next_private(loss: Callable[[float], float], epsilon: float, scale: float, highest: float) -> float:
    """The next scale above `scale` at which `loss` is at most `epsilon`, by steps of `_STRIDE`."""
    stops = [scale / _STRIDE, scale]  # one step back, so that a dip right after `scale` has two sides
    losses = [loss(stop) for stop in stops]
    while stops[-1] < highest:
        stops.append(min(stops[-1] * _STRIDE, highest))
        losses.append(loss(stops[-1]))
        if losses[-1] <= epsilon:
            return _crossing(loss, epsilon, stops[-2], stops[-1])
        if losses[-2] < min(losses[-3], losses[-1]):
            bottom = _bottom(loss, stops[-3], stops[-1])
            if loss(bottom) <= epsilon:
                return _crossing(loss, epsilon, stops[-3], bottom)
    return highest


def _bottom(loss: Callable[[float], float], lowest: float, highest: float) -> float:
    """Where `loss` is least between two scales."""
    from scipy.optimize import minimize_scalar

    return float(minimize_scalar(loss, bounds=(lowest, highest), method="bounded").x)


def _bracket(epsilon: float, distance: float, count: int) -> tuple[float, float]:
    """Scales between which the least one lies, for a loss between distance/scale and twice that."""
    lowest = distance / epsilon
    highest = 2.0 * lowest * (1.0 + _margin(count)) * (1.0 + 2.0**-48)
    if epsilon < 2.0 * _SMALLEST or not _SMALLEST < lowest < highest < math.inf:
        raise ArgumentError(f"epsilon={epsilon}: needs a scale that does not fit into a double")
    return lowest, highest


def _crossing(loss: Callable[[float], float], epsilon: float, lowest: float, highest: float) -> float:
    """A private scale where `loss` falls through `epsilon`; `lowest` is not private, `highest` is."""
    from scipy.optimize import brentq

    def excess(log_stretch: float) -> float:
        return math.log(loss(lowest * math.exp(log_stretch)) / epsilon)

    root = lowest * math.exp(brentq(excess, 0.0, math.log(highest / lowest), xtol=1e-13, rtol=1e-13))
    # The root is known to about 1e-13; go up until the loss, evaluated and not inferred, is small enough.
    step = 0.0
    while (scale := min(root * (1.0 + step), highest)) < highest and loss(scale) > epsilon:
        step = 2.0 * step + 2.0**-50
    return scale
