"""The privacy profile of one step at any epsilon: an upper bound over all pairs, the exact value of single pairs.

delta(epsilon) is the supremum over all pairs of neighbouring answers and both directions, so it is symmetric: at a
negative epsilon it is 1 - e^epsilon (1 - delta(-epsilon)). Three routes, from cheap to expensive: a formula for
Gaussian noise on the line; a row of positions for truncated Laplace noise on the query's own interval; for all others
the certified search of the core. A table has finitely many pairs, and the hull of all of them. What differs from one
kind of mechanism to another is a function with a version for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial, singledispatch

import numpy as np

from rangebound.accounting.event import Private
from rangebound.laws.boundings import TRUNCATE, UNBOUNDED
from rangebound.mechanisms.discrete_laplace import DiscreteLaplace
from rangebound.mechanisms.finite import Table
from rangebound.mechanisms.finite.pair_numbers import input_profile, neighbours, stick_at, worst_pair
from rangebound.mechanisms.finite.profile_hull import ProfileHull, profile_hull
from rangebound.mechanisms.finite.weights import exponential
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.mechanisms.staircase import Staircase
from rangebound.privacy.claim import Claim
from rangebound.privacy.counterexample import finite_pair
from rangebound.privacy.risk import mirrored
from rangebound.privacy.worst import Worst, pair_profile, worst_delta, worst_epsilon, worst_loss
from rangebound.values.ball import Ball, ball, down, hull, precision, up
from rangebound.values.support import Interval

BITS = 192
_MARGIN = 1e-12  # of the array route: far above the round-off of its dozen operations


Profile = Callable[[float], Ball]  # at an epsilon of any sign, at the precision in force


@lru_cache(maxsize=256)
def pure(mechanism: Private) -> Worst:
    """The pure epsilon of a mechanism."""
    return _pure(mechanism)


@singledispatch
def _pure(mechanism: Private) -> Worst:
    raise NotImplementedError(type(mechanism))


@_pure.register
def _(mechanism: Mechanism) -> Worst:
    return worst_loss(mechanism.setting)


@_pure.register
def _(mechanism: Table) -> Worst:
    return _exact(mechanism, mechanism.epsilon(), worst_pair(mechanism.weights, mechanism.reach))


@_pure.register(DiscreteLaplace)
@_pure.register(Staircase)
def _(mechanism: DiscreteLaplace | Staircase) -> Worst:
    return _closed_form(mechanism, mechanism.epsilon())


def delta_once(mechanism: Private, epsilon: float) -> Worst:
    """The delta of one use at epsilon, without a grid."""
    if isinstance(mechanism, Mechanism):
        return worst_delta(mechanism.setting, epsilon)
    return _closed_form(mechanism, mechanism.delta(epsilon))


def epsilon_once(mechanism: Private, delta: float) -> Worst:
    """The epsilon of one use at delta, without a grid."""
    if isinstance(mechanism, Mechanism):
        return worst_epsilon(mechanism.setting, delta)
    return _closed_form(mechanism, mechanism.epsilon(delta))


@singledispatch
def _closed_form(mechanism: Private, value: float) -> Worst:
    """A number over all pairs that a mechanism has without a search, rounded up."""
    raise NotImplementedError(type(mechanism))


@_closed_form.register
def _(mechanism: Table, value: float) -> Worst:
    return _exact(mechanism, value, (0, 0))


@_closed_form.register(DiscreteLaplace)
@_closed_form.register(Staircase)
def _(mechanism: DiscreteLaplace | Staircase, value: float) -> Worst:
    pair = mechanism.worst_pair()
    if pair is None:
        return Worst(0.0, value, (math.nan, math.nan))
    return Worst(max(value * (1.0 - 1e-12), 0.0), value, pair)


def _exact(table: Table, value: float, pair: tuple[int, int]) -> Worst:
    """An exact number that was rounded up."""
    lower = value if math.isinf(value) else max(math.nextafter(value, 0.0), 0.0)
    return Worst(lower, value, (table.inputs[pair[0]], table.inputs[pair[1]]))


@singledispatch
def is_quick(mechanism: Private) -> bool:
    """Whether a value of the profile takes less than a millisecond."""
    return True


@is_quick.register
def _(mechanism: Mechanism) -> bool:
    return not mechanism.shape.normalised or _positions(mechanism) is not None


@singledispatch
def has_edge(mechanism: Private) -> bool:
    """Whether one answer can cause what a neighbour cannot, beside losses that are bounded."""
    raise NotImplementedError(type(mechanism))


@has_edge.register
def _(mechanism: Mechanism) -> bool:
    return mechanism.noise.limited


@has_edge.register
def _(mechanism: Table) -> bool:
    return math.isinf(pure(mechanism).upper)


@has_edge.register(DiscreteLaplace)
@has_edge.register(Staircase)
def _(mechanism: DiscreteLaplace | Staircase) -> bool:
    return False


@singledispatch
def finite_loss(mechanism: Private) -> float:
    """An upper bound on the finite privacy losses of a mechanism that has infinite ones as well."""
    raise NotImplementedError(type(mechanism))


@finite_loss.register
def _(mechanism: Mechanism) -> float:
    # Beyond that, or twice that where the masses differ, only what the other law cannot cause is left.
    most = 2.0 if mechanism.shape.normalised else 1.0
    return most * mechanism.query.sensitivity / mechanism.noise.scale * (1.0 + 1e-15)


@finite_loss.register
def _(mechanism: Table) -> float:
    return 43.0  # of weights from 1 to 2^62: 62 ln 2 is less


@singledispatch
def is_mirrored(mechanism: Private) -> bool:
    """Whether every pair is its own mirror image."""
    return False


@is_mirrored.register
def _(mechanism: Mechanism) -> bool:
    return mechanism.bounding is UNBOUNDED


@is_mirrored.register
def _(mechanism: DiscreteLaplace) -> bool:
    return mechanism._is_wide


@is_mirrored.register
def _(mechanism: Staircase) -> bool:
    return True  # as far as the worst pair goes, which clamping leaves as it is


@lru_cache(maxsize=64)
def worst(mechanism: Private) -> Profile:
    """An upper bound on the profile over all pairs and both directions; what was once looked up is kept."""
    known = lru_cache(maxsize=1 << 14)(partial(_above, mechanism))

    def at(epsilon: float) -> Ball:
        value = known(abs(epsilon))
        return value if epsilon >= 0.0 else 1 - ball(epsilon).exp() * (1 - value)

    return at


@singledispatch
def pairs(mechanism: Private) -> tuple[Profile, Profile]:
    """The exact profiles of two pairs: the farthest apart, and the one with the largest privacy loss."""
    raise NotImplementedError(type(mechanism))


@pairs.register
def _(mechanism: Mechanism) -> tuple[Profile, Profile]:
    if _is_free_gaussian(mechanism):
        return (worst(mechanism),) * 2
    setting = mechanism.setting
    nothing = Claim(epsilon=0.0)
    first = finite_pair(setting, worst_delta(setting, 0.0).pair, nothing)
    second = finite_pair(setting, pure(mechanism).pair, nothing)
    found = pair_profile(mechanism.noise, mechanism.shape, first)
    if second in (first, first[::-1]):
        return found, found
    return found, pair_profile(mechanism.noise, mechanism.shape, second)


@pairs.register
def _(mechanism: Table) -> tuple[Profile, Profile]:
    weights, reach = mechanism.weights, mechanism.reach
    first = stick_at(weights, neighbours(reach), exponential(Fraction(0))).pair
    second = worst_pair(weights, reach)
    found = input_profile(weights, first)
    return found, found if second in (first, first[::-1]) else input_profile(weights, second)


@pairs.register
def _(mechanism: DiscreteLaplace) -> tuple[Profile, Profile]:
    if mechanism._is_wide:
        return (worst(mechanism),) * 2
    return mechanism._attack_pairs(0.0)[0], mechanism._attack_pairs(mechanism.epsilon())[0]


@pairs.register
def _(mechanism: Staircase) -> tuple[Profile, Profile]:
    attained = mechanism.worst_pair() is not None
    return (worst(mechanism) if attained else nothing,) * 2


def nothing(epsilon: float) -> Ball:
    """The profile of two equal laws: what is known to be leaked where no pair is."""
    return (1 - ball(epsilon).exp()).max(ball(0.0))


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


def _above(mechanism: Private, epsilon: float) -> Ball:
    """The profile at an epsilon that is zero or more."""
    return ball(0.0) if epsilon >= pure(mechanism).upper else _below_pure(mechanism, epsilon)


@singledispatch
def _below_pure(mechanism: Private, epsilon: float) -> Ball:
    """The profile where it is not zero."""
    raise NotImplementedError(type(mechanism))


@_below_pure.register
def _(mechanism: Table, epsilon: float) -> Ball:
    return _hull(mechanism).delta(epsilon).min(ball(1.0))


@_below_pure.register(DiscreteLaplace)
@_below_pure.register(Staircase)
def _(mechanism: DiscreteLaplace | Staircase, epsilon: float) -> Ball:
    return mechanism.profile(ball(epsilon))


@lru_cache(maxsize=16)
def _hull(table: Table) -> ProfileHull:
    return profile_hull(table.weights, table.reach)


@_below_pure.register
def _(mechanism: Mechanism, epsilon: float) -> Ball:
    if _is_free_gaussian(mechanism):
        return _free_gaussian(mechanism, epsilon)
    table = _positions(mechanism)
    return ball(min(table(epsilon) if table is not None else _searched(mechanism, epsilon), 1.0))


def _searched(mechanism: Mechanism, epsilon: float) -> float:
    return worst_delta(mechanism.setting, epsilon).upper


def _is_free_gaussian(mechanism: Mechanism) -> bool:
    free = mechanism.bounding is UNBOUNDED and isinstance(mechanism.query.range, Interval)
    return free and mechanism.noise.gaussian


def summed(mechanism: Mechanism, times: int) -> Profile:
    """The profile of the sum of so many numbers with free Gaussian noise, one of which is the sensitivity and not 0."""
    return mirrored(partial(_free_gaussian, mechanism, summands=times))


def _free_gaussian(mechanism: Mechanism, epsilon: float, summands: int = 1) -> Ball:
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) with mu = sensitivity over scale [balle2018, Thm 8].

    The noise of a sum has the scale of one number times the root of their number.
    """
    with precision(BITS):
        mu = ball(mechanism.query.sensitivity) / (ball(mechanism.noise.scale) * ball(summands).sqrt())
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
    norm_p = -np.expm1(-a) - np.expm1(-(d + b))
    norm_q = -np.expm1(-(a + d)) - np.expm1(-b)
    reach = d + np.log(norm_q / norm_p)
    spacing = (width - d) / (count - 1) if count > 1 else 0.0

    def best(epsilon: float) -> float:
        y = np.clip((reach - epsilon) / 2.0, 0.0, d)
        return float(((-2.0 * np.expm1(-y) + np.exp(-a) * np.expm1(-2.0 * y)) / norm_p).max()) * (1.0 + _MARGIN)

    def room(epsilon: float) -> float:
        bend = (2.0 / z + 2.0) + math.exp(epsilon) * (5.0 + 2.0 / z)
        return 1e-14 * (1.0 + d + epsilon) / z + bend * spacing**2 / 8.0

    def at(epsilon: float) -> float:
        return best(epsilon) + room(epsilon)

    # Not worth it where the row is too coarse to say much.
    return at if room(0.0) <= 2e-5 * best(0.0) else None
