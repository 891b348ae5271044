"""The privacy profile of one step at any epsilon: an upper bound over all pairs, the exact value of single pairs.

delta(epsilon) is the supremum over all pairs of neighbouring answers and both directions, so it is symmetric: at a
negative epsilon it is 1 - e^epsilon (1 - delta(-epsilon)). Each mechanism answers for itself: by a formula, by a row of
positions, by the hull of finitely many pairs, or by the certified search of the core. Steps on a sample or a batch are
made of these.

**Batches of fixed size**, drawn without replacement; neighbours by zero-out. A batch has b of n examples, so that an
example is in it with probability q = b/n. A batch without the example is b - 1 others and one more, j; a batch with it
is b - 1 others, chosen by the same law, and the example. So with and without its gradient u the sums have the laws of
the mixtures

    P = (1-q) N(s + v) + q N(s + u),   Q = (1-q) N(s + v) + q N(s),

averaged over s, the sum of the b - 1 others, and v, the gradient of j. H is jointly convex, so s = 0 and some u, v of
at most the sensitivity C in length are the worst case.

**P against Q.** For x = 1 + q (y - 1) >= 1 and w = x/y, H_x(P || Q) = q H_y(N(u) || (1-w) N(v) + w N(0))
[balle2018subsampling, Thm 2]. The event A at which this supremum is attained is where a sum of two exponentials, of
(v-u).z and of -u.z, is below a bound: it is convex, and z + d is in it with z if (u-v).d >= 0 and u.d >= 0. So N(u)(A)
grows if u moves along such a d, N(v)(A) falls if v moves along -d, and so the supremum grows (the derivative by u or v
is that for a fixed A). First let v move away from the line of u, to the length C: in the plane of u and v, d = (0, -1)
has u.d = 0 and (u-v).d >= 0. Then on the circle, to -C u/|u|: at the angle f from u, d = (sin f, -cos f) has
u.d = (u-v).d = |u| sin f >= 0. Now let u grow along itself. So v = -u with |u| = C is the worst case. In units of the
noise, with mu = C/scale, moved by mu, and with r = e^(mu z - mu^2/2), the event is

    q e^(-mu^2) r^2 - x q r - (x-1)(1-q) > 0,

which is z above a threshold.

**Q against P.** H_x(Q || P) = q H_y(N(0) || (1-w) N(v) + w N(u)) <= q G(y), with G the profile of Gaussian noise, by
convexity in the second law; it is attained at v = u.

So no single pair attains both, and over many steps the bound is more than any fixed pair leaks: by 3 to 12 % of
epsilon over v = -u in long runs. `fixed_batch_run` has a bound on many steps that is not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from rangebound.accounting.event import Private
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.privacy.gdp import free_gaussian, normal_tail
from rangebound.privacy.tradeoff_curve import mirrored
from rangebound.values.ball import Ball, ball, down, hull, up
from rangebound.values.numeric import Enclosure

BITS = 192

Profile = Callable[[float], Ball]  # at an epsilon of any sign, at the precision in force


@lru_cache(maxsize=256)
def pure(mechanism: Private) -> Enclosure:
    """The pure epsilon of a mechanism."""
    return mechanism._enclosed_epsilon(0.0)


@lru_cache(maxsize=64)
def worst(mechanism: Private) -> Profile:
    """An upper bound on the profile over all pairs and both directions; what was once looked up is kept."""

    @lru_cache(maxsize=1 << 14)
    def known(epsilon: float) -> Ball:
        return ball(0.0) if epsilon >= pure(mechanism).upper else mechanism._profile_above(epsilon)

    return lambda epsilon: known(epsilon) if epsilon >= 0.0 else 1 - ball(epsilon).exp() * (1 - known(-epsilon))


def pairs(mechanism: Private) -> tuple[Profile, Profile]:
    """The exact profiles of two pairs: the farthest apart, and the one with the largest privacy loss."""
    return mechanism._known_pairs() or (worst(mechanism), worst(mechanism))


def summed(mechanism: Mechanism, times: int) -> Profile:
    """The profile of the sum of `times` numbers with free Gaussian noise, one of which is the sensitivity and not 0."""
    sensitivity, scale = mechanism.query.sensitivity, mechanism.noise.scale
    return mirrored(lambda epsilon: free_gaussian(sensitivity, scale, epsilon, times))


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


def fixed_batch(mechanism: Mechanism, rate: float) -> Profile:
    """The largest profile over all data, at an epsilon of any sign: with the gradient against without it."""
    plain, q = worst(mechanism), ball(rate)

    def at(epsilon: float) -> Ball:
        if epsilon >= 0.0:
            return _opposed(ball(mechanism.query.sensitivity) / ball(mechanism.noise.scale), q, ball(epsilon).exp())
        x = ball(-epsilon).exp()
        level = ((x - 1 + q) / q).log()
        return 1 - (1 - q * hull([plain(max(down(level), 0.0)), plain(up(level))])) / x

    return at


def opposed(mechanism: Mechanism, rate: float) -> Profile:
    """The profile of the pair v = -u alone, which a run may meet in each step."""
    plain, q = worst(mechanism), ball(rate)
    mu = ball(mechanism.query.sensitivity) / ball(mechanism.noise.scale)

    def at(epsilon: float) -> Ball:
        if rate == 1.0:
            return plain(epsilon)
        if epsilon >= 0.0:
            return _opposed(mu, q, ball(epsilon).exp())
        x = ball(-epsilon).exp()
        return 1 - (1 - _reversed(mu, q, x)) / x

    return at


def _opposed(mu: Ball, q: Ball, x: Ball) -> Ball:
    """H_x of (1-q) N(0) + q N(2 mu) against (1-q) N(0) + q N(mu), for x >= 1."""
    shrunk = q * (-(mu**2)).exp()
    root = (x * q + ((x * q) ** 2 + 4 * shrunk * (x - 1) * (1 - q)).sqrt()) / (2 * shrunk)
    z = root.log() / mu + mu / 2
    near, middle, far = (normal_tail(z - k * mu) for k in range(3))
    return q * far - x * q * middle - (x - 1) * (1 - q) * near


def _reversed(mu: Ball, q: Ball, x: Ball) -> Ball:
    """H_x of the second law of `_opposed` against the first, for x > 1: an event between two thresholds, or none."""
    shrunk = q * (-(mu**2)).exp()
    square = q**2 - 4 * x * shrunk * (x - 1) * (1 - q)
    if not square > 0:
        return ball(0.0)
    low, high = 2 * (x - 1) * (1 - q) / (q + square.sqrt()), (q + square.sqrt()) / (2 * x * shrunk)
    first, last = (root.log() / mu + mu / 2 for root in (low, high))
    near, middle, far = (normal_tail(first - k * mu) - normal_tail(last - k * mu) for k in range(3))
    return q * middle - x * q * far - (x - 1) * (1 - q) * near
