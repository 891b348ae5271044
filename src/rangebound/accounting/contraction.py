"""Truncated Gaussian noise is dominated by Gaussian noise with a smaller shift: by how much, over all locations.

In units of the scale, let X be normal about the location p, truncated to an interval. X = f(N) for a standard normal N
and a rising f. The ratio of the laws at p + c and p is e^(c X) up to a factor, so its logarithm rises with N by at most
c sup f'. The ratio of two normal laws at a distance of c sup f' rises by exactly that, and both have mean 1: the
first is smaller in convex order, hence dominated in every hockey-stick divergence, in both orders.

With [A, B] the normal probabilities of the two ends seen from p, Z = B - A and Phi(z) = A + Z Phi(y),

    f'(y) = g(y) = Z phi(y)/phi(z),        (ln g)' = -y + z g,

and where that is zero (ln g)'' = g^2 - 1 < 0, because g < 1: so g has one peak, which a bisection finds. Between two
locations z lies between its values there, so for all locations of a cell g(y) is at most the larger one of
g(y) Z_max/Z at its two ends: a row of locations bounds all of them.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from rangebound.laws.boundings import TRUNCATE
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.values.array_types import Floats
from rangebound.values.support import Interval

_LOCATIONS = 4001
_WIDEST, _FARTHEST = 12.0, 8.0  # scales: the support, and the distance of a location from it
_HALVINGS = 45
_MARGIN = 1e-7  # relative: far above the round-off, and above what the last bracket of the bisection leaves open


@lru_cache(maxsize=64)
def contraction(mechanism: Mechanism) -> float:
    """A number of at most 1 such that Gaussian noise with the shift times it dominates every pair of the mechanism.

    Guarantee: for every pair of answers at any distance, at every epsilon and in both orders; so it also holds for
    products of coordinates, for Poisson samples and for adaptive compositions (see the theory of truncated noise).
    Edge cases: 1 for anything but Gaussian noise truncated to an interval of at most 12 scales, with locations at most
    8 scales outside of it. On [-a, a] scales it is 2 Phi(a) - 1, the slope at location 0, up to 1e-6 in all trials.

    >>> import rangebound as rb
    >>> m = rb.Mechanism(
    ...     noise=rb.Gaussian(scale=2.0),
    ...     query=rb.Query(range=rb.Interval(-2, 2), sensitivity=1.0),
    ...     bounding=rb.TRUNCATE,
    ... )
    >>> round(contraction(m), 4)  # 2 Phi(1) - 1
    0.6827
    """
    support, answers = mechanism.support, mechanism.query.range.hull
    if not (mechanism.noise.gaussian and mechanism.bounding is TRUNCATE and isinstance(support, Interval)):
        return 1.0
    scale = mechanism.noise.scale
    half = 0.5 * (support.upper - support.lower) / scale
    middle = 0.5 * (support.upper + support.lower)
    low, high = (answers.lower - middle) / scale, (answers.upper - middle) / scale
    if not (1e-3 < half <= 0.5 * _WIDEST and max(-low, high) <= half + _FARTHEST):
        return 1.0
    # Mirror images have the same slope, so only the distance from the middle counts; all in between is included.
    far = max(abs(low), abs(high)) * (1.0 + 1e-12)
    return min(_steepest(half, far) * (1.0 + _MARGIN), 1.0)


def _steepest(half: float, far: float) -> float:
    """The largest slope of f for the support [-half, half] and all locations in [0, far], in scales."""
    from scipy import special

    location = np.linspace(0.0, far, _LOCATIONS)
    below, above = special.ndtr(-half - location), special.ndtr(location - half)  # outside, on the left and right
    mass = np.where(location > half, special.ndtr(half - location) - below, 1.0 - below - above)

    def slope(y: Floats) -> tuple[Floats, Floats]:
        left, right = below + mass * special.ndtr(y), above + mass * special.ndtr(-y)
        z = np.where(left < right, special.ndtri(left), -special.ndtri(right))
        found = mass * np.exp(0.5 * (z - y) * (z + y))
        return found, z * found - y

    low, high = np.full(_LOCATIONS, -half - far - 4.0), np.full(_LOCATIONS, half + far + 4.0)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        rises = slope(middle)[1] > 0.0
        low, high = np.where(rises, middle, low), np.where(rises, high, middle)
    peak = np.maximum(slope(low)[0], slope(high)[0])
    # The mass falls with the distance from the middle, so over a cell it is largest at its first location.
    cell: Floats = np.maximum(peak[:-1], peak[1:] * (mass[:-1] / mass[1:]))
    return float(cell.max())
