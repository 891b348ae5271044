"""The privacy profile of a table at every epsilon at once: the hull of what all pairs of neighbours can reach.

With x = e^epsilon, delta is the largest P(A) - x Q(A) over all pairs of neighbours and sets A of outputs. For one pair
the best sets are the outputs with the largest ratios P(y)/Q(y); the points (Q(A), P(A)) of all pairs have an upper
hull, and one of its corners is the best for every x.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from rangebound.mechanisms.finite.pair_numbers import neighbours
from rangebound.mechanisms.finite.weights import BITS, TOTAL
from rangebound.values.array_types import Floats, Integers
from rangebound.values.ball import Ball, ball

_CHUNK = 1 << 18  # weights at a time
_BELOW = 1024  # units: a point that is less than this above the hull is left out
SLACK = 2.0**-46
"""What outputs of nearly equal ratios in the wrong order, and points that were left out, can add to delta."""


@dataclass(frozen=True)
class ProfileHull:
    """The corners of the hull: Q(A) and P(A) in units of 2^-62, both rising, and the slopes between them, falling."""

    others: tuple[int, ...]
    masses: tuple[int, ...]
    slopes: tuple[float, ...]

    def delta(self, epsilon: float) -> Ball:
        """An upper bound on delta at epsilon, at most 2^-46 above it, at the precision in force."""
        x = ball(epsilon).exp()
        level = float(x.mid())
        near = bisect_left(self.slopes, -level, key=lambda slope: -slope)  # the first corner with a flatter slope after
        best = ball(0.0)
        for i in range(max(near - 1, 0), min(near + 2, len(self.masses))):
            best = best.max((ball(0.0) + self.masses[i] - x * self.others[i]) / 2**BITS)
        return best + ball(SLACK)


def profile_hull(weights: Integers, reach: Integers) -> ProfileHull:
    """The hull of all pairs of neighbours, in both directions.

    >>> flip = np.array([[3 << 60, 1 << 60], [1 << 60, 3 << 60]])
    >>> hull = profile_hull(flip, np.array([1, 1]))
    >>> float(hull.delta(0.0).mid()), hull.slopes[0]
    (0.5, 3.0)
    """
    pairs = neighbours(reach)
    corners = [(0, 0), (TOTAL, TOTAL)]
    step = max(_CHUNK // weights.shape[1], 1)
    for start in range(0, len(pairs.first), step):
        here = slice(start, start + step)
        p, q = weights[pairs.first[here]], weights[pairs.second[here]]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(p > 0, p / q, 0.0)
        order = np.argsort(-ratios, axis=1)
        masses = np.cumsum(np.take_along_axis(p, order, axis=1), axis=1).reshape(-1)
        others = np.cumsum(np.take_along_axis(q, order, axis=1), axis=1).reshape(-1)
        known: Floats = np.interp(others, [x for x, _ in corners], [y for _, y in corners])
        above = masses > known + _BELOW
        fresh = np.unique(np.stack([others[above], masses[above]], axis=1), axis=0)
        corners = _hull(sorted({*corners, *map(tuple, fresh.tolist())}))
    others_of, masses_of = zip(*corners, strict=True)
    slopes = tuple(float(Fraction(y1 - y0, x1 - x0)) for (x0, y0), (x1, y1) in pairwise(corners))
    return ProfileHull(tuple(others_of), tuple(masses_of), slopes)


def _hull(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The upper hull of points in rising order, by whole-number cross products; of equal abscissae the highest."""
    kept: list[tuple[int, int]] = []
    for x, y in points:
        if kept and kept[-1][0] == x:
            kept.pop()
        while len(kept) > 1:
            (x0, y0), (x1, y1) = kept[-2], kept[-1]
            if (x1 - x0) * (y - y0) < (y1 - y0) * (x - x0):
                break
            kept.pop()
        kept.append((x, y))
    return kept
