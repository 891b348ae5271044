"""How far a weighted sum of discrete Laplace draws is from zero, at most, with a given probability.

For S = sum of w_k X_k, X_k discrete Laplace noise of scale b_k, let c_k = |w_k| b_k. Even moments of X_k are not above
p! b_k^p, those of continuous Laplace noise of the same scale: with h = 1 / (2 b_k), E X^p is p! 2 tanh(h) times the sum
of (2 h + 2 pi i n)^-(p + 1) over all whole n (the moment generating function, by its poles), where n = 0 alone gives
p! b_k^p tanh(h) / h; a test compares the two over scales and orders. E S^p is a sum of products of even moments with
positive weights, so it is at most that of the same sum of continuous Laplace noise, whose even cumulants are

    (2 j)! / j  sum of c_k^(2 j)  <=  (2 j)! / j  m^(2 j - 2)  q,   q >= sum of c_k^2,  m >= max of c_k.

Moments grow with these cumulants, and P(|S| >= r) <= E S^p / r^p for every even p.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from rangebound.release.noise.strategies.lattice_noise import LatticeNoise
from rangebound.values.array_types import Floats

_ORDERS = 12  # even moments up to twice this; more of them help only beyond a level of 0.9999
_SLACK = 1.0 + 1e-9  # for what doubles round


def laplace_radius(squares: npt.ArrayLike, largest: npt.ArrayLike, level: float) -> Floats:
    """Radii within which such sums lie with probability `level`, from bounds of the sum and the largest of c_k^2.

    `squares` bounds the sum of c_k^2, `largest` the largest c_k; arrays have one number for each sum.

    Guarantee: at least `level` for every sum of independent discrete or continuous Laplace noise within these bounds.
    Edge cases: sums without noise have the radius 0.

    >>> one = laplace_radius([1.0], [1.0], 0.95)  # the exact radius of one draw is 3.0
    >>> many = laplace_radius([1.0], [0.01], 0.95)  # of very many draws 2.77, that of normal noise
    >>> round(float(one[0]), 2), round(float(many[0]), 2)
    (4.68, 3.66)
    """
    total, most = np.asarray(squares, dtype=np.float64), np.asarray(largest, dtype=np.float64)
    ratio = np.divide(most**2, total, out=np.ones(np.broadcast(most, total).shape), where=total > 0.0)
    best = np.full(ratio.shape, math.inf)
    for half, moment in enumerate(_moments(np.minimum(ratio, 1.0)), 1):
        best = np.minimum(best, (moment / (1.0 - level)) ** (0.5 / half))
    return np.asarray(best * np.sqrt(total) * _SLACK)


def measured_radius(scale: float, level: float) -> float:
    """How far discrete Laplace noise is from zero with probability `level`, at most: a whole number.

    P(|X| >= k) = 2 a^k / (1 + a) with a = exp(-1 / scale).

    >>> measured_radius(10.0, 0.95)
    30.0
    """
    ratio = math.exp(-1.0 / scale)
    wanted = (1.0 - level) * (1.0 + ratio) / 2.0
    return float(max(math.ceil(-scale * math.log(wanted) + 1e-9) - 1, 0))


def excess_of_continuous(noises: Iterable[LatticeNoise]) -> float:
    """By how much 2 scale^2, the variance of continuous Laplace noise, is above that of discrete noise, at most."""
    return max(max(2.0 * each.scale**2 / each.variance, 1.0) * _SLACK for each in noises)


def _moments(ratio: Floats) -> list[Floats]:
    """The moments of orders 2, 4, ... for sums with q = 1 and m^2 = `ratio`, from cumulants."""
    cumulants = [math.factorial(2 * j) / j * ratio ** (j - 1) for j in range(1, _ORDERS + 1)]
    moments = [np.ones_like(ratio)]
    for n in range(1, _ORDERS + 1):
        parts = [math.comb(2 * n - 1, 2 * j - 1) * cumulants[j - 1] * moments[n - j] for j in range(1, n + 1)]
        moments.append(np.asarray(sum(parts)))
    return moments[1:]
