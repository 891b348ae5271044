"""Metric privacy: the largest rate at which the log-density of any output can change with the true answer.

If |d/dq log p_q(x)| <= r for all q and x, a pair at distance i * D differs by at most e^{i D r}: that is the notion
that [croft2022] proves, and it implies the ordinary one. The rate is pinned to an end of the range of true answers,
except for truncated Laplace, where it may be at any point of a grid or the start of any span, and where a pair across a
gap of the answers may need the most. Truncated noise that no theorem is about gets an upper bound: twice the largest
rate of its own log-density.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from rangebound.laws.boundings import Shape
from rangebound.laws.family import Noise
from rangebound.privacy.counterexample import loss_of_pair
from rangebound.privacy.pairs.divergences import (
    Mapped,
    Truncated,
    TruncatedGaussian,
    TruncatedGaussianGrid,
    TruncatedGrid,
    family,
)
from rangebound.privacy.setting import Setting
from rangebound.values.ball import INFINITY, PRECISIONS, Ball, ball, down, largest, precision, refine, up

_STEPS = (0, 2, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40)  # powers of 1/2: distances of a pair in scales
_PLACES = 8  # examined for a counterexample, the steepest first


def worst_score(setting: Setting) -> float:
    """The supremum over any two answers of their privacy loss over their distance, rounded up; inf if unbounded.

    That is the supremum of |d/dq log p_q(x)| over all true answers q and outputs x where the answers have no gaps.
    """
    return max(up(refine(lambda on=side: side_score(on))) for side in setting.sides())  # type: ignore[misc]


def steepest_pair(setting: Setting) -> tuple[tuple[float, float], float]:
    """The pair of answers found to need the largest epsilon in the metric sense, and what it needs, rounded down.

    A pair at distance t needs its loss times sensitivity/t. The rate is a limit of ever closer pairs, so pairs at
    shrinking distances from the steepest places are examined.

    Guarantee: evaluated in balls at the two doubles themselves, both in the range of the answers. A lower bound: no
    claim is made that no other pair needs more.
    """
    start = min(max(0.0, setting.answers.hull.lower), setting.answers.hull.upper)
    best = (start, start), 0.0
    for pair in _close_pairs(setting):
        needed = loss_of_pair(setting, pair) * ball(setting.sensitivity) / abs(ball(pair[0]) - ball(pair[1]))
        found = down(needed)
        if found > best[1]:
            best = pair, found
        if math.isinf(best[1]):
            break
    return best


def _close_pairs(setting: Setting) -> Iterator[tuple[float, float]]:
    """Pairs next to the places at which the rate may be largest, and across gaps of the answers; in both directions."""
    scale = setting.noise.scale
    for at, step in itertools.product(_places(setting), _STEPS):
        for other in (at - scale * 2.0**-step, at + scale * 2.0**-step):
            if other != at and _known(setting, other):
                yield from ((at, other), (other, at))
    if setting.noise.laplace and setting.shape.normalised:
        crossed = {gap for side in setting.sides() for gap in _crossed(side)}
        for a, b in zip(setting.answers.spans, setting.answers.spans[1:], strict=False):
            if {(a[1], b[0]), (-b[0], -a[1])} & crossed:
                yield from ((a[1], b[0]), (b[0], a[1]))


def _known(setting: Setting, answer: float) -> bool:
    """Whether a number is a true answer."""
    return any(lower <= answer <= upper for lower, upper in setting.answers.spans)


def _places(setting: Setting) -> list[float]:
    """Answers at ends of the answers and of the support, the steepest first; far out where there is no end."""
    hull, shape = setting.answers.hull, setting.shape
    marks = [x for span in shape.spans for x in span] + list(shape.points) + [x for cell in shape.cells for x in cell]
    finite = [x for x in marks if math.isfinite(x)]
    edges = [x + sign * setting.noise.extent for x in finite for sign in (-1.0, 1.0)] if setting.noise.limited else []
    ends = [x for span in setting.answers.spans for x in span if math.isfinite(x)]
    inside = [x for x in dict.fromkeys([*edges, *ends, *finite]) if _known(setting, x)]
    kind = family(setting.noise, shape)
    if setting.noise.laplace and not isinstance(kind, Mapped):
        with precision(PRECISIONS[0]):
            shares = {x: float(kind.right_of(ball(x)).mid()) for x in inside}
        inside.sort(key=lambda x: -abs(shares[x] - 0.5))
    reach = max([abs(x) for x in finite], default=0.0)
    far = [sign * (reach + setting.noise.scale * 2.0**k) for k in (0, 4, 10, 20) for sign in (-1.0, 1.0)]
    tips = [x for x in (hull.lower, hull.upper) if math.isfinite(x)]
    return [*tips, *inside[:_PLACES], *(x for x in far if _known(setting, x))]


def side_score(side: Setting) -> Ball:
    """The supremum of -d/dq log p_q(x), at the left end of what can be published; the mirror image does the rest."""
    side = _within_reach(side)
    kind = family(side.noise, side.shape)
    if isinstance(kind, Mapped):
        return _mapped_score(side, kind)
    if side.noise.limited:  # an edge moves with the answer inside the support
        return INFINITY
    if isinstance(kind, (TruncatedGaussian, TruncatedGaussianGrid)):
        return _gaussian_score(side.shape, kind, side.answers.hull.upper, side.noise)
    if not side.noise.exponential:  # no theorem: the rate of the density, and that of the normaliser, a mean of it
        return 2 * kind.noise.steepness
    return _laplace_rate(side, kind)


def _within_reach(side: Setting) -> Setting:
    """The same laws without the spans out of reach of every answer, and without an extent that never shows."""
    if not (side.noise.limited and side.shape.normalised):
        return side
    lowest, highest = _reach(side)
    spans = tuple(span for span in side.shape.spans if span[1] > lowest and span[0] < highest)
    return replace(side, shape=replace(side.shape, spans=spans)).simplified()


def _reach(side: Setting) -> tuple[Fraction | float, Fraction | float]:
    """The ends of what noise of limited extent reaches from some answer, exactly."""
    hull, extent = side.answers.hull, side.noise.extent
    if math.isinf(extent):
        return -math.inf, math.inf
    lowest = Fraction(hull.lower) - Fraction(extent) if math.isfinite(hull.lower) else hull.lower
    highest = Fraction(hull.upper) + Fraction(extent) if math.isfinite(hull.upper) else hull.upper
    return lowest, highest


def _mapped_score(side: Setting, kind: Mapped) -> Ball:
    """g/F at the lowest cut that the noise can fall below, which rises with q: F is log-concave."""
    upper, (start, _) = side.answers.hull.upper, _reach(side)
    lowest = next((first for first, last in kind.cuts if last > start), None)
    if lowest is None:  # every answer gives the same output
        return ball(0.0)
    if math.isinf(lowest) or math.isinf(upper):
        return kind.noise.steepness
    y = ball(lowest) - ball(upper)
    below = kind.noise.cdf(y)
    return kind.noise.pdf(y) / below if below > 0 else INFINITY


def _gaussian_score(shape: Shape, kind: TruncatedGaussian | TruncatedGaussianGrid, upper: float, noise: Noise) -> Ball:
    """(mean - x)/s^2 at the lowest x; the mean rises with q."""
    low, high = kind.edges()
    if low is None:
        return INFINITY
    variance = ball(noise.scale) ** 2
    if math.isinf(upper):
        return INFINITY if high is None else (high - low) / variance
    return (kind.mean(ball(upper)) - low) / variance


def _laplace_rate(side: Setting, kind: Truncated | TruncatedGrid) -> Ball:
    """The largest rate at an answer, or loss over distance of the ends of a gap of the answers.

    Any other pair crosses answers and gaps, and its loss over its distance is a mean of their rates. The share of
    outputs right of q falls along a span of the support and rises along a gap, so it is largest where a span or the
    answers begin, or at a point of a grid, or where the answers end. Beyond the support the law does not change.
    """
    low, high = side.shape.ends
    starts = _starts(side)
    places: list[float] = []
    for lower, upper in side.answers.spans:
        if lower >= high or upper <= low:
            continue
        places.append(min(upper, high))
        if side.shape.points:  # the point at which answers begin is seen from its right alone
            places += starts[bisect.bisect_right(starts, lower) : bisect.bisect_right(starts, upper)]
        else:
            places += [max(lower, low), *starts[bisect.bisect_left(starts, lower) : bisect.bisect_right(starts, upper)]]
    if side.shape.points:  # there must be an output on the left to be seen
        places = [at for at in places if at > low]
    rates = [_laplace_score(kind, at, side.noise) for at in places]
    rates += [kind.loss(ball(a), ball(b) - ball(a)) / (ball(b) - ball(a)) for a, b in _crossed(side)]
    return largest(ball(0.0), *rates)


def _starts(side: Setting) -> list[float]:
    """Where the rate of truncated Laplace noise may be largest: the starts of the spans, or the points."""
    return list(side.shape.points) or [start for start, _ in side.shape.spans]


def _crossed(side: Setting) -> list[tuple[float, float]]:
    """The gaps of the answers in which the rate may be larger than at any answer."""
    starts, found = _starts(side), []
    for (_, a), (b, _) in zip(side.answers.spans, side.answers.spans[1:], strict=False):
        if side.shape.points:
            inner = bisect.bisect_right(starts, b) > bisect.bisect_right(starts, a)
        else:  # right of the first start the rate is large, left of it there is none
            inner = bisect.bisect_left(starts, b) > bisect.bisect_right(starts, a) or a == starts[0]
        if inner:
            found.append((a, b))
    return found


def _laplace_score(kind: Truncated | TruncatedGrid, at: float, noise: Noise) -> Ball:
    """(1 + E sign(x - q))/b, for outputs left of q; at a grid point the outputs at q itself count as right of it."""
    scale = ball(noise.scale)
    if math.isinf(at):
        return 1 / scale
    return 2 * kind.right_of(ball(at)) / scale
