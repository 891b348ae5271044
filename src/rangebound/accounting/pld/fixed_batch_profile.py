"""The privacy profile of Gaussian noise on a batch of fixed size, drawn without replacement; neighbours by zero-out.

A batch has b of n examples, so that an example is in it with probability q = b/n. A batch without the example is b - 1
others and one more, j; a batch with it is b - 1 others, chosen by the same law, and the example. So with and without
its gradient u the sums have the laws of the mixtures

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

from rangebound.accounting.pld.step_profile import Profile, worst
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.values.ball import Ball, ball, down, hull, up


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
    near, middle, far = (_tail(z - k * mu) for k in range(3))
    return q * far - x * q * middle - (x - 1) * (1 - q) * near


def _reversed(mu: Ball, q: Ball, x: Ball) -> Ball:
    """H_x of the second law of `_opposed` against the first, for x > 1: an event between two thresholds, or none."""
    shrunk = q * (-(mu**2)).exp()
    square = q**2 - 4 * x * shrunk * (x - 1) * (1 - q)
    if not square > 0:
        return ball(0.0)
    low, high = 2 * (x - 1) * (1 - q) / (q + square.sqrt()), (q + square.sqrt()) / (2 * x * shrunk)
    first, last = (root.log() / mu + mu / 2 for root in (low, high))
    near, middle, far = (_tail(first - k * mu) - _tail(last - k * mu) for k in range(3))
    return q * middle - x * q * far - (x - 1) * (1 - q) * near


def _tail(z: Ball) -> Ball:
    return (z / ball(2.0).sqrt()).erfc() / 2
