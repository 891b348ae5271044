"""Gaussian differential privacy: one number, mu, that adds up by its square [dong2022].

A release is mu-GDP if telling two neighbours apart by it is never easier than telling N(0, 1) from N(mu, 1). Releases
chosen one after the other, with knowledge of all before, are together mu-GDP as long as their squares add up to mu^2
[smith2022]. Every conversion here is computed in balls and rounded to the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

from flint import ctx

from rangebound.errors import ArgumentError
from rangebound.values import arguments
from rangebound.values.ball import PRECISIONS, Ball, ball, down, precision, refine, up
from rangebound.values.roots import boundary

_FINEST = 2.0**-50
_BITS = 192
_SMALLEST, _LARGEST = 1e-30, 1e6  # of mu: below the first nothing is left to promise, above the second nothing is

PureParts = Sequence[tuple[Fraction, int]]
"""Parts of a release that are (epsilon, 0)-private: each epsilon, and how many have it."""


def _exact(value: float | Fraction) -> Ball:
    numerator, denominator = Fraction(value).as_integer_ratio()
    return Ball(numerator) / Ball(denominator)


def normal_tail(x: Ball) -> Ball:
    """The probability that a standard normal number is above `x`."""
    return (x / Ball(2).sqrt()).erfc() / 2


def free_gaussian(sensitivity: float, scale: float, epsilon: float, summands: int = 1) -> Ball:
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) with mu = sensitivity over scale [balle2018, Thm 8].

    Of the sum of this many numbers, one of which is the sensitivity and not 0, the noise has the scale of one number
    times the root of their number.
    """
    with precision(_BITS):
        return _of_mu(ball(sensitivity) / (ball(scale) * ball(summands).sqrt()), ball(epsilon))


def _of_mu(mu: Ball, epsilon: Ball) -> Ball:
    return normal_tail(epsilon / mu - mu / 2) - epsilon.exp() * normal_tail(epsilon / mu + mu / 2)


def _profile(mu: float, epsilon: float | Fraction, pure: PureParts = ()) -> Ball:
    """The delta at epsilon of a mu-GDP release and pure parts together.

    Of mu alone it is Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu), and max(0, 1 - e^epsilon) for mu = 0.
    The worst (e, 0)-private part is a coin whose privacy loss is e with probability e^e / (1 + e^e), else -e
    [kairouz2015]; losses add up. So it is the mean of the first, at epsilon less the loss of all coins, over the coins.
    """

    def evaluate() -> Ball:
        total = Ball(0)
        for loss, chance in _losses(tuple(pure), ctx.prec).items():
            level = _exact(Fraction(epsilon) - loss)
            total += chance * (_of_mu(ball(mu), level) if mu else (1 - level.exp()).max(0))
        return total

    return refine(evaluate)


@lru_cache(maxsize=64)
def _losses(pure: tuple[tuple[Fraction, int], ...], bits: int) -> Mapping[Fraction, Ball]:
    """The privacy losses of the coins of pure parts together, each with its chance, computed with `bits` of precision.

    Outcomes with the same loss are one: of parts with multiples of one epsilon there are few.
    """
    found = {Fraction(0): Ball(1)}
    with precision(bits):
        for own, number in pure:
            size = _exact(own)
            heads = 1 / (1 + (-size).exp())
            tails = 1 / (1 + size.exp())
            before, found = found, {}
            for k in range(number + 1):
                chance = math.comb(number, k) * heads**k * tails ** (number - k)
                for loss, chance_before in before.items():
                    together = loss + own * (2 * k - number)
                    found[together] = found.get(together, Ball(0)) + chance * chance_before
    return found


@arguments.guided
def delta_of_mu(mu: float, *, epsilon: float) -> float:
    """The smallest delta for which a mu-GDP release is (epsilon, delta)-private, rounded up.

    Guarantee: never below the exact value. Edge cases: mu = 0 gives 0; a delta below the doubles is rounded up to the
    smallest of them.

    >>> round(delta_of_mu(1.0, epsilon=1.0), 6)
    0.126937
    """
    mu, epsilon = arguments.nonnegative("mu", mu), arguments.nonnegative("epsilon", epsilon)
    return min(up(_profile(mu, epsilon)), 1.0) if mu else 0.0


@arguments.guided
def epsilon_of_mu(mu: float, *, delta: float) -> float:
    """The smallest epsilon for which a mu-GDP release is (epsilon, delta)-private, rounded up.

    Guarantee: never below the exact value, and above it by no more than about 1e-15 of it.
    Edge cases: infinite for delta = 0, unless mu = 0.

    >>> round(epsilon_of_mu(1.0, delta=1e-6), 4)
    4.8866
    """
    mu, delta = arguments.nonnegative("mu", mu), arguments.nonnegative("delta", delta)
    if not mu or delta >= 1.0 or up(_profile(mu, 0.0)) <= delta:
        return 0.0
    if not delta:
        return math.inf
    high = 1.0
    while up(_profile(mu, high)) > delta:
        high *= 2.0
    return boundary(lambda epsilon: up(_profile(mu, epsilon)) <= delta, 0.0, high, _FINEST)[1]


def is_private(mu: float, epsilon: float | Fraction, delta: float | Fraction, pure: PureParts = ()) -> bool:
    """Whether every mu-GDP release, with pure parts beside it, is proved to be (epsilon, delta)-private.

    The numbers are taken exactly.

    >>> is_private(0.2367, 1.0, 1e-6), is_private(0.2368, 1.0, 1e-6)
    (True, False)
    """
    if not mu and sum((own * number for own, number in pure), Fraction(0)) <= epsilon:
        return True
    return bool(_profile(mu, epsilon, pure) <= _exact(delta))


def delta_of_parts(mu: float, pure: PureParts, *, epsilon: float) -> float:
    """The smallest delta for which every mu-GDP release, with pure parts beside it, is (epsilon, delta)-private.

    Guarantee: rounded up.

    >>> delta_of_parts(0.1, [(Fraction(1, 100), 100)], epsilon=1.0) < delta_of_mu(0.16, epsilon=1.0)
    True
    """
    if not mu and sum((own * number for own, number in pure), Fraction(0)) <= epsilon:
        return 0.0
    return _delta_of_parts(mu, tuple(pure), epsilon)


@lru_cache(maxsize=4096)
@precision(PRECISIONS[0])
def _delta_of_parts(mu: float, pure: tuple[tuple[Fraction, int], ...], epsilon: float) -> float:
    return min(up(_profile(mu, epsilon, pure)), 1.0)


@lru_cache(maxsize=1024)
def largest_mu(epsilon: float | Fraction, delta: float | Fraction) -> float:
    """The largest mu for which every mu-GDP release is (epsilon, delta)-private, rounded down.

    Guarantee: never above the exact value, and below it by no more than about 1e-15 of it.
    Edge cases: delta = 0 has none, and is refused.

    >>> round(1 / largest_mu(1.0, 1e-6), 3)
    4.225
    """
    if not 0 < delta < 1:
        raise ArgumentError(f"delta={float(delta)!r}: must lie in (0, 1); only a delta leaves room for Gaussian noise")
    low = high = 1.0
    while not is_private(low, epsilon, delta):
        low /= 2.0
        if low < _SMALLEST:
            raise ArgumentError(
                f"epsilon={float(epsilon)!r}, delta={float(delta)!r}: leaves no room for Gaussian noise"
            )
    while is_private(high, epsilon, delta) and high < _LARGEST:
        high *= 2.0
    return boundary(lambda mu: not is_private(mu, epsilon, delta), low, high, _FINEST)[0]


def pure_epsilon(mu: float) -> float:
    """The largest epsilon for which every (epsilon, 0)-private release is mu-GDP, rounded down.

    The worst of these is a coin that is e^epsilon times as likely to fall on one side as on the other; it is mu-GDP if
    and only if Phi^-1(q) - Phi^-1(p) <= mu for its probabilities p = 1/(1 + e^epsilon) and q = 1 - p of one side, since
    a Gaussian trade-off curve is convex, and so only the corner of the coin's matters. So
    epsilon = log(Phi(mu/2) / Phi(-mu/2)).

    >>> round(pure_epsilon(1.0), 4)
    0.807
    """

    def evaluate() -> Ball:
        half = ball(mu) / 2
        return (normal_tail(-half) / normal_tail(half)).log()

    return max(down(refine(evaluate)), 0.0) if mu > 0.0 else 0.0


@lru_cache(maxsize=1024)
def mu_of_pure(epsilon: float) -> float:
    """The smallest mu for which every (epsilon, 0)-private release is mu-GDP, rounded up.

    Guarantee: `pure_epsilon` of it is at least epsilon.

    >>> round(mu_of_pure(1.0), 4)
    1.232
    """
    epsilon = arguments.nonnegative("epsilon", epsilon)
    if not epsilon:
        return 0.0
    low, high = 0.0, 1.0
    while pure_epsilon(high) < epsilon:
        low, high = high, high * 2.0
    return boundary(lambda mu: pure_epsilon(mu) >= epsilon, low, high, _FINEST)[1]


@lru_cache(maxsize=256)
def mu_of_parts(pure: tuple[tuple[Fraction, int], ...]) -> float:
    """The smallest mu for which all releases with these pure parts are mu-GDP, rounded up.

    The worst parts are coins, whose privacy losses add up [kairouz2015]. The trade-off curve of all coins together is a
    polygon, with a corner at each test "the loss is at least t"; the curve of N(0, 1) against N(mu, 1) is convex, so it
    is below the polygon if and only if it is below the corners: mu >= z(alpha) + z(beta) at each, where z is the upper
    quantile of N(0, 1), alpha the false positive rate and beta the miss rate. Coins are their own mirror images, and
    so corners with t > 0 are enough.

    Guarantee: at most the root of the sum of the squares of `mu_of_pure`, but for rounding.

    >>> both = mu_of_parts(((Fraction(1, 2), 2),))
    >>> round(both, 4), round(2**0.5 * mu_of_pure(0.5), 4)
    (0.783, 0.8823)
    """

    def evaluate() -> Ball:
        losses = _losses(pure, ctx.prec)
        ordered, most = sorted(losses), Ball(0)
        below = list(accumulate(losses[each] for each in ordered))
        above = list(accumulate(losses[each] for each in reversed(ordered)))
        for at in range(len(ordered) // 2):  # from the largest loss on; small chances keep their digits
            alpha, beta, power = below[at], below[-2 - at], above[at]
            most = most.max(upper_quantile(alpha) + (upper_quantile(beta) if beta < power else -upper_quantile(power)))
        return most

    return up(refine(evaluate)) if any(own and number for own, number in pure) else 0.0


def upper_quantile(p: Ball) -> Ball:
    """The number that a standard normal one is above with probability `p`."""
    return Ball(2).sqrt() * (2 * p).erfcinv()


def bounded_range_epsilon(mu: float) -> float:
    """The largest epsilon for which every mechanism whose privacy loss has range epsilon is mu-GDP, rounded down.

    The loss of such a mechanism lies in [t - epsilon, t] for some t between 0 and epsilon; an exponential mechanism
    that is epsilon-private by the usual factor of 2 is one [dong2020]. The worst of these is a coin with
    p = (e^-t - e^-epsilon) / (1 - e^-epsilon) and q = e^t p [dong2020]; it is mu-GDP if and only if
    Phi^-1(q) - Phi^-1(p) <= mu, which is largest at t = epsilon/2, where q = 1 - p = 1/(1 + e^(-epsilon/2)).
    So it is twice the epsilon of `pure_epsilon`.
    """
    return 2.0 * pure_epsilon(mu)


def mu_of_bounded_range(epsilon: float) -> float:
    """The smallest mu for which every mechanism whose privacy loss has range epsilon is mu-GDP, rounded up.

    >>> round(mu_of_bounded_range(1.0), 4)
    0.6239
    """
    return mu_of_pure(epsilon / 2.0)


def rho_of_mu(mu: float) -> float:
    """The rho for which a mu-GDP release is rho-zCDP [bun2016]: mu^2 / 2, rounded up; exact for Gaussian noise.

    >>> rho_of_mu(1.0)
    0.5
    """
    return up(ball(mu) ** 2 / 2)
