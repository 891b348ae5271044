"""Closed forms of composed mechanisms in ball arithmetic: an independent route, without grids and transforms."""

import math
from functools import lru_cache

from flint import arb

from rangebound.values.ball import precision

BITS = 700


def gaussian_delta(scale, times, epsilon):
    """k Gaussian releases are one with mu = sqrt(k)/scale: Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)."""
    with precision(BITS):
        mu, level, root = arb(times).sqrt() / arb(scale), arb(epsilon), arb(2).sqrt()
        near, far = (level / mu - mu / 2) / root, (level / mu + mu / 2) / root
        return (near.erfc() - level.exp() * far.erfc()) / 2


def laplace_delta(scale, times, epsilon, limit=math.inf):
    """k releases with Laplace noise on the line (cut to [-limit, limit], if finite), at distance 1.

    In units of the scale the loss is d with mass a, -d with mass b, d - 2x with density c e^-x for x in (0, d), and
    infinite with mass i. Of the k losses, j are of the middle kind: the j-fold convolution of e^-x on (0, d) at y is
    e^-y times sum over m of (-1)^m C(j,m) (y - m d)_+^(j-1)/(j-1)!.
    """
    with precision(BITS):
        parts = _parts(scale, limit)
        d, a, b, c, infinite = parts
        level, total = arb(epsilon), 1 - (1 - infinite) ** times
        for j in range(times + 1):
            for up in range(times - j + 1):
                down = times - j - up
                ways = math.factorial(times) // (math.factorial(j) * math.factorial(up) * math.factorial(down))
                top = (up - down + j) * d  # the largest sum of this kind
                if not top > level:
                    continue
                weight = ways * a**up * b**down * c**j
                total += weight * (1 - (level - top).exp() if j == 0 else _middle(j, d, top - level))
        return total


@lru_cache(maxsize=256)
def _parts(scale, limit):
    d = 1 / arb(scale)
    if math.isinf(limit):
        return d, arb(1) / 2, (-d).exp() / 2, arb(1) / 2, arb(0)
    cut = arb(limit) / arb(scale)
    c = 1 / (2 * -(-cut).expm1())
    return d, c * (1 - (d - cut).exp()), c * ((-d).exp() - (-cut).exp()), c, c * ((d - cut).exp() - (-cut).exp())


def _middle(j, d, room):
    """The integral of the j-fold convolution times 1 - e^(2y - room), for y from 0 to room/2."""
    total = arb(0)
    for m in range(j + 1):
        v = room / 2 - m * d
        if not v > 0:
            break
        powers, term = [], arb(1)
        for i in range(j):
            powers.append(term)
            term = term * v / (i + 1)
        falling = 1 - (-v).exp() * sum(powers, arb(0))
        signed = sum(((-1) ** (j - 1 - i) * each for i, each in enumerate(powers)), arb(0))
        rising = v.exp() * signed - (-1) ** (j - 1)
        part = (-m * d).exp() * falling - (m * d - room).exp() * rising
        total += (-1) ** m * math.comb(j, m) * part
    return total
