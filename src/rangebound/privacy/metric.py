"""Metric privacy: the largest rate at which the log-density of any output can change with the true answer.

If |d/dq log p_q(x)| <= r for all q and x, a pair at distance i * D differs by at most e^{i D r}: that is the notion
that [croft2022] proves, and it implies the ordinary one. The rate is pinned to an end of the range of true answers,
except for truncated Laplace, where it may be at any point of a grid or the start of any span.
"""

from __future__ import annotations

import math

from rangebound.ball import Ball, ball, refine, up
from rangebound.law import Shape
from rangebound.noise import Gaussian, Laplace, TruncatedLaplacian
from rangebound.noise.exact import INFINITY
from rangebound.privacy.exact import Mapped, Restricted, RestrictedGrid, family
from rangebound.privacy.setting import Setting


def worst_score(setting: Setting) -> float:
    """The supremum of |d/dq log p_q(x)| over all true answers q and outputs x, rounded up; inf where there is none."""
    return max(up(refine(lambda on=side: _side_score(on))) for side in setting.sides())  # type: ignore[misc]


def _side_score(side: Setting) -> Ball:
    """The supremum of -d/dq log p_q(x), at the left end of what can be published; the mirror image does the rest."""
    hull = side.answers.hull
    kind = family(side.noise, side.shape)
    if isinstance(kind, Mapped):
        return _mapped_score(side, kind, hull.upper)
    if isinstance(side.noise, TruncatedLaplacian):
        return INFINITY
    if isinstance(side.noise, Gaussian):
        return _gaussian_score(side.shape, kind, hull.upper, side.noise)
    places = [min(max(x, side.shape.ends[0]), side.shape.ends[1]) for x in (hull.lower, hull.upper)]
    # The share of outputs right of q falls along a span and rises along a gap: it is largest where a span begins.
    starts = side.shape.points if isinstance(kind, RestrictedGrid) else [start for start, _ in side.shape.spans]
    places += [x for x in starts if hull.lower <= x <= hull.upper]
    if isinstance(kind, RestrictedGrid):  # there must be an output on the left to be seen
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
        return 1 / ball(side.noise.scale) if isinstance(side.noise, Laplace) else INFINITY
    y = ball(lowest) - ball(upper)
    below = kind.noise.cdf(y)
    return kind.noise.pdf(y) / below if below > 0 else INFINITY


def _gaussian_score(shape: Shape, kind: Restricted | RestrictedGrid, upper: float, noise: Gaussian) -> Ball:
    """(mean - x)/s^2 at the lowest x; the mean rises with q."""
    low, high = kind.edges()
    if low is None:
        return INFINITY
    variance = ball(noise.scale) ** 2
    if math.isinf(upper):
        return INFINITY if high is None else (high - low) / variance
    return (kind.mean(ball(upper)) - low) / variance


def _laplace_score(shape: Shape, kind: Restricted | RestrictedGrid, at: float, noise: Laplace) -> Ball:
    """(1 + E sign(x - q))/b, for outputs left of q; at a grid point the outputs at q itself count as right of it."""
    scale = ball(noise.scale)
    if math.isinf(at):
        return 1 / scale
    right = kind.right_of(ball(at))
    return 2 * right / scale
