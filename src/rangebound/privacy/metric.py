"""Metric privacy: the largest rate at which the log-density of any output can change with the true answer.

If |d/dq log p_q(x)| <= r for all q and x, a pair at distance i * D differs by at most e^{i D r}: that is the notion
that [croft2022] proves, and it implies the ordinary one. The rate is pinned to an end of the range of true answers,
except for truncated Laplace, where it may be at any point of a grid or the start of any span. Truncated noise that no
theorem is about gets an upper bound: twice the largest rate of its own log-density.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from rangebound.ball import INFINITY, PRECISIONS, Ball, ball, down, precision, refine, up
from rangebound.law import Shape
from rangebound.noise import Noise
from rangebound.privacy.pairs.exact import (
    Mapped,
    Truncated,
    TruncatedGaussian,
    TruncatedGaussianGrid,
    TruncatedGrid,
    family,
)
from rangebound.privacy.setting import Setting
from rangebound.privacy.worst import pair_loss

_STEPS = (0, 2, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40)  # powers of 1/2: distances of a pair in scales
_PLACES = 8  # that are looked at for a counterexample, the steepest first


def worst_score(setting: Setting) -> float:
    """The supremum of |d/dq log p_q(x)| over all true answers q and outputs x, rounded up; inf where there is none."""
    return max(up(refine(lambda on=side: side_score(on))) for side in setting.sides())  # type: ignore[misc]


def steepest_pair(setting: Setting) -> tuple[tuple[float, float], float]:
    """The pair of answers found to need the largest epsilon in the metric sense, and what it needs, rounded down.

    A pair at distance t needs its loss times sensitivity/t. The rate is a limit of ever closer pairs, so pairs at
    shrinking distances from the steepest places are looked at.

    Guarantee: evaluated in balls at the two doubles themselves, both in the range of the answers. A lower bound: no
    claim is made that no other pair needs more.
    """
    start = min(max(0.0, setting.answers.hull.lower), setting.answers.hull.upper)
    best = (start, start), 0.0
    for pair in _close_pairs(setting):
        needed = pair_loss(setting, pair) * ball(setting.sensitivity) / abs(ball(pair[0]) - ball(pair[1]))
        found = down(needed)
        if found > best[1]:
            best = pair, found
        if math.isinf(best[1]):
            break
    return best


def _close_pairs(setting: Setting) -> Iterator[tuple[float, float]]:
    """Pairs next to the places at which the rate may be largest, in both directions."""
    hull, scale = setting.answers.hull, setting.noise.scale
    for at, step in itertools.product(_places(setting), _STEPS):
        near = min(max(at, hull.lower), hull.upper)
        for other in (near - scale * 2.0**-step, near + scale * 2.0**-step):
            if other != near and all(any(a <= x <= b for a, b in setting.answers.spans) for x in (near, other)):
                yield from ((near, other), (other, near))


def _places(setting: Setting) -> list[float]:
    """The ends of the answers, and of the support the steepest places; far out where there is no end."""
    hull, shape = setting.answers.hull, setting.shape
    ends = [x for span in shape.spans for x in span] + list(shape.points) + [x for cell in shape.cells for x in cell]
    finite = [x for x in ends if math.isfinite(x)]
    if setting.noise.limited:
        finite += [x + sign * setting.noise.extent for x in finite for sign in (-1.0, 1.0)]
    inside = [x for x in finite if hull.lower < x < hull.upper]
    kind = family(setting.noise, shape)
    if setting.noise.laplace and not isinstance(kind, Mapped):
        with precision(PRECISIONS[0]):
            shares = {x: float(kind.right_of(ball(x)).mid()) for x in inside}
        inside.sort(key=lambda x: -abs(shares[x] - 0.5))
    reach = max([abs(x) for x in finite], default=0.0)
    far = [sign * (reach + setting.noise.scale * 2.0**k) for k in (0, 4, 10, 20) for sign in (-1.0, 1.0)]
    tips = [x for x in (hull.lower, hull.upper) if math.isfinite(x)]
    return [*tips, *inside[:_PLACES], *(x for x in far if hull.lower <= x <= hull.upper)]


def side_score(side: Setting) -> Ball:
    """The supremum of -d/dq log p_q(x), at the left end of what can be published; the mirror image does the rest."""
    hull = side.answers.hull
    kind = family(side.noise, side.shape)
    if isinstance(kind, Mapped):
        return _mapped_score(side, kind, hull.upper)
    if side.noise.limited:
        return INFINITY
    if isinstance(kind, (TruncatedGaussian, TruncatedGaussianGrid)):
        return _gaussian_score(side.shape, kind, hull.upper, side.noise)
    if not side.noise.exponential:  # no theorem: the rate of the density, and that of the normaliser, a mean of it
        return 2 * kind.noise.steepness
    places = [min(max(x, side.shape.ends[0]), side.shape.ends[1]) for x in (hull.lower, hull.upper)]
    # The share of outputs right of q falls along a span and rises along a gap: it is largest where a span begins.
    starts = side.shape.points if isinstance(kind, TruncatedGrid) else [start for start, _ in side.shape.spans]
    places += [x for x in starts if hull.lower <= x <= hull.upper]
    if isinstance(kind, TruncatedGrid):  # there must be an output on the left to be seen
        places = [at for at in places if at > side.shape.points[0]]
    scores = [_laplace_score(side.shape, kind, at, side.noise) for at in places] or [ball(0.0)]
    best = scores[0]
    for score in scores[1:]:
        best = best.max(score)
    return best


def _mapped_score(side: Setting, kind: Mapped, upper: float) -> Ball:
    """g/F at the lowest cut, which rises with q: F is log-concave."""
    lowest = kind.cuts[0][0]
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


def _laplace_score(shape: Shape, kind: Truncated | TruncatedGrid, at: float, noise: Noise) -> Ball:
    """(1 + E sign(x - q))/b, for outputs left of q; at a grid point the outputs at q itself count as right of it."""
    scale = ball(noise.scale)
    if math.isinf(at):
        return 1 / scale
    right = kind.right_of(ball(at))
    return 2 * right / scale
