"""The privacy profile of one step at any epsilon: an upper bound over all pairs, the exact value of single pairs.

delta(epsilon) is the supremum over all pairs of neighbouring answers and both directions, so it is symmetric: at a
negative epsilon it is 1 - e^epsilon (1 - delta(-epsilon)). Three routes, from cheap to expensive: a formula for
Gaussian noise on the line; a row of positions for truncated Laplace noise on the query's own interval; for all others
the certified search of the core.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np

from rangebound.ball import Ball, ball, down, hull, precision, refine, up
from rangebound.bounding import TRUNCATE, UNBOUNDED
from rangebound.mechanism import Mechanism
from rangebound.privacy import Worst, worst_delta, worst_loss
from rangebound.privacy.claim import Claim
from rangebound.privacy.counterexample import finite_pair
from rangebound.privacy.pairs.exact import family, stick
from rangebound.support import Interval

BITS = 192
_MARGIN = 1e-12  # of the array route: far above the round-off of its dozen operations


@lru_cache(maxsize=256)
def pure(mechanism: Mechanism) -> Worst:
    """The pure epsilon of a mechanism."""
    return worst_loss(mechanism.setting)


def is_quick(mechanism: Mechanism) -> bool:
    """Whether a value of the profile takes less than a millisecond."""
    return not mechanism.shape.normalised or _positions(mechanism) is not None


Profile = Callable[[float], Ball]  # at an epsilon of any sign, at the precision in force


@lru_cache(maxsize=64)
def worst(mechanism: Mechanism) -> Profile:
    """An upper bound on the profile over all pairs and both directions; what was once looked up is kept."""
    known = lru_cache(maxsize=1 << 14)(partial(_above, mechanism))

    def at(epsilon: float) -> Ball:
        value = known(abs(epsilon))
        return value if epsilon >= 0.0 else 1 - ball(epsilon).exp() * (1 - value)

    return at


def pairs(mechanism: Mechanism) -> tuple[Profile, Profile]:
    """The exact profiles of two pairs: the farthest apart, and the one with the largest privacy loss."""
    if _is_free_gaussian(mechanism):
        return (worst(mechanism),) * 2
    setting = mechanism.setting
    nothing = Claim(epsilon=0.0)
    first = finite_pair(setting, worst_delta(setting, 0.0).pair, nothing)
    second = finite_pair(setting, pure(mechanism).pair, nothing)
    found = partial(_of_pair, mechanism, first)
    return found, found if second in (first, first[::-1]) else partial(_of_pair, mechanism, second)


def sampled(profile: Profile, rate: float) -> Profile:
    """The same for a step on a Poisson sample, of the dataset with the person against the one without.

    H_x((1-p) Q + p P || Q) = p H_y(P || Q) with y = (x - 1 + p)/p, and 1 - x where y <= 0 [zhu2022, Thm 11].
    """

    def at(epsilon: float) -> Ball:
        x, p = ball(epsilon).exp(), ball(rate)
        y = (x - 1 + p) / p
        if not y > 0:
            return 1 - x if y <= 0 else (1 - x).union(p)  # y within the last bits of zero
        level = y.log()
        return p * hull([profile(down(level)), profile(up(level))])

    return at


def _of_pair(mechanism: Mechanism, pair: tuple[float, float], epsilon: float) -> Ball:
    (a, b), shape = pair, mechanism.shape
    if shape.normalised and mechanism.noise.laplace:  # this law does not change beyond its support
        low, high = shape.ends
        a, b = min(max(a, low), high), min(max(b, low), high)
    if a > b:
        a, b, shape = -a, -b, shape.mirrored()
    return refine(lambda: stick(family(mechanism.noise, shape), ball(a), ball(b) - ball(a), ball(epsilon)), bits=100)


def _above(mechanism: Mechanism, epsilon: float) -> Ball:
    """The profile at an epsilon that is zero or more."""
    if epsilon >= pure(mechanism).upper:
        return ball(0.0)
    if _is_free_gaussian(mechanism):
        return _free_gaussian(mechanism, epsilon)
    table = _positions(mechanism)
    return ball(min(table(epsilon) if table is not None else _searched(mechanism, epsilon), 1.0))


def _searched(mechanism: Mechanism, epsilon: float) -> float:
    return worst_delta(mechanism.setting, epsilon).upper


def _is_free_gaussian(mechanism: Mechanism) -> bool:
    free = mechanism.bounding is UNBOUNDED and isinstance(mechanism.query.range, Interval)
    return free and mechanism.noise.gaussian


def _free_gaussian(mechanism: Mechanism, epsilon: float) -> Ball:
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) with mu = sensitivity over scale [balle2018, Thm 8]."""
    with precision(BITS):
        mu = ball(mechanism.query.sensitivity) / ball(mechanism.noise.scale)
        root, level = ball(2.0).sqrt(), ball(epsilon)
        near, far = (level / mu - mu / 2) / root, (level / mu + mu / 2) / root
        return (near.erfc() - level.exp() * far.erfc()) / 2


@lru_cache(maxsize=32)
def _positions(mechanism: Mechanism) -> Callable[[float], float] | None:
    """The profile of Laplace noise truncated to the query's bounded interval, from a dense row of positions.

    In units of the scale, with the pair at distances A from the left end and d from each other, the stick is the
    largest of F_t(A) - e^eps F_t(A + d) over the thresholds t, F_t(q) = N/Z the truncated distribution function. Each
    has a second derivative in A of at least -M, M = (2/z + 2) + e^eps (5 + 2/z), z = 1 - e^-W, because |N'| <= N,
    |Z'| <= Z, N'' >= -2, Z'' = Z - 2 and Z >= z. So is their supremum bent downward by at most M, and at its
    largest, where it is flat or at an end, it is at most M w^2/8 above its largest value on a row of spacing w.
    """
    query, support = mechanism.query, mechanism.support
    if not mechanism.noise.laplace or mechanism.bounding is not TRUNCATE or support != query.range:
        return None
    if not isinstance(support, Interval) or not support.bounded:
        return None
    scale = mechanism.noise.scale
    width, d = support.width / scale, query.sensitivity / scale
    if not (1e-6 < width < 300.0 and d > 1e-9):
        return None
    count = int(min(max(2000 * width / math.sqrt(min(d, 1.0)), 2000), 40000)) if width > d else 1
    a = np.linspace(0.0, max(width - d, 0.0), count)
    b = np.maximum(width - d - a, 0.0)
    z = -math.expm1(-width)
    kept_p = -np.expm1(-a) - np.expm1(-(d + b))
    kept_q = -np.expm1(-(a + d)) - np.expm1(-b)
    reach = d + np.log(kept_q / kept_p)
    spacing = (width - d) / (count - 1) if count > 1 else 0.0

    def best(epsilon: float) -> float:
        y = np.clip((reach - epsilon) / 2.0, 0.0, d)
        return float(((-2.0 * np.expm1(-y) + np.exp(-a) * np.expm1(-2.0 * y)) / kept_p).max()) * (1.0 + _MARGIN)

    def room(epsilon: float) -> float:
        bend = (2.0 / z + 2.0) + math.exp(epsilon) * (5.0 + 2.0 / z)
        return 1e-14 * (1.0 + d + epsilon) / z + bend * spacing**2 / 8.0

    def at(epsilon: float) -> float:
        return best(epsilon) + room(epsilon)

    # Not worth it where the row is too coarse to say much.
    return at if room(0.0) <= 2e-5 * best(0.0) else None
