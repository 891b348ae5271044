"""Upper bounds on analytic functions from their values at Chebyshev points, for many functions at once, in floats.

Let f be analytic and at most M in absolute value in the ellipse with foci -1 and 1 whose half-axes add up to rho. Then
the polynomial of degree n through its values at the n + 1 Chebyshev points cos(pi j/n) is nowhere on [-1, 1] off by
more than 4 M rho^-n / (rho - 1) [trefethen2013, Thm 8.2]. The largest value of a polynomial is found by cutting [-1, 1]
into short stretches and bounding each by a parabola.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

UNIT = 2.0**-52
_STRETCHES, _FINER = 64, 64  # stretches of [-1, 1], and of one of them that may hold the largest value
_CLOSE = 1e-9  # relative: a stretch that reaches no higher than this above the largest value is left as it is


def nodes(degree: int) -> Floats:
    """The Chebyshev points in [-1, 1], from the left."""
    points: Floats = np.sin(np.pi * (np.arange(degree + 1) - 0.5 * degree) / degree)
    return points


def truncation(degree: int, rho: float) -> float:
    """How far off the polynomial may be, relative to the bound M of the function in the ellipse of rho."""
    return 4.0 * rho**-degree / (rho - 1.0) * (1.0 + 1e-9)


def lebesgue(degree: int) -> float:
    """How far off the polynomial may be, relative to the largest error of a value [trefethen2013, Thm 15.2]."""
    return 2.0 / math.pi * math.log(degree + 1.0) + 1.0


def tops(values: Floats, floor: float = -math.inf) -> tuple[Floats, Floats]:
    """For each row of values at `nodes` an upper bound on its polynomial over [-1, 1], and where it is about largest.

    Bounds above `floor` are sharp to about 1e-9 relative. What rounding does to the coefficients and sums is covered.
    """
    degree = values.shape[1] - 1
    coefficients = values @ _to_coefficients(degree)
    bend = np.abs(coefficients) @ _third(degree)
    coarse, fine = _mesh(degree, _STRETCHES), _mesh(degree, _STRETCHES * _FINER)
    heights, bounds = _parabolas([coefficients @ each.T for each in coarse.series], bend[:, None], coarse.half)
    where = coarse.middles[np.argmax(heights, axis=1)]
    best = heights.max(axis=1)
    known = np.maximum(best, floor)
    rows, cuts = np.nonzero(bounds > (known + _CLOSE * np.abs(known))[:, None])
    if rows.size:
        parts = cuts[:, None] * _FINER + np.arange(_FINER)
        chosen = coefficients[rows][:, :, None]
        high, sharp = _parabolas(
            [(each[parts] @ chosen)[:, :, 0] for each in fine.series], bend[rows][:, None], fine.half
        )
        bounds[rows, cuts] = np.minimum(bounds[rows, cuts], sharp.max(axis=1))
        top = high.max(axis=1)
        for k in np.argsort(top):  # the highest of a row comes last
            if top[k] > best[rows[k]]:
                best[rows[k]], where[rows[k]] = top[k], fine.middles[parts[k, np.argmax(high[k])]]
    for end, place in ((0, -1.0), (-1, 1.0)):
        higher = values[:, end] > best
        best, where = np.where(higher, values[:, end], best), np.where(higher, place, where)
    rounding = 16.0 * (degree + 1.0) ** 2 * UNIT * np.abs(values).max(axis=1)
    return bounds.max(axis=1) + rounding, where


class _Mesh(NamedTuple):
    """The middles of equal stretches of [-1, 1], and there the Chebyshev polynomials and two of their derivatives."""

    middles: Floats
    half: float
    series: tuple[Floats, Floats, Floats]


@lru_cache(maxsize=32)
def _mesh(degree: int, count: int) -> _Mesh:
    x = (np.arange(count, dtype=np.float64) + 0.5) * (2.0 / count) - 1.0
    value, slope, bend = (np.zeros((count, degree + 1)) for _ in range(3))
    value[:, 0], value[:, 1], slope[:, 1] = 1.0, x, 1.0
    for k in range(1, degree):
        value[:, k + 1] = 2.0 * x * value[:, k] - value[:, k - 1]
        slope[:, k + 1] = 2.0 * value[:, k] + 2.0 * x * slope[:, k] - slope[:, k - 1]
        bend[:, k + 1] = 4.0 * slope[:, k] + 2.0 * x * bend[:, k] - bend[:, k - 1]
    return _Mesh(x, 1.0 / count, (value, slope, bend))


def _parabolas(series: list[Floats], third: Floats, half: float) -> tuple[Floats, Floats]:
    """Values in the middle of stretches and upper bounds over them; `third` bounds the third derivative."""
    height, slope, bend = series
    bend = bend + third * half
    inner = (bend < 0.0) & (np.abs(slope) <= -bend * half)
    with np.errstate(divide="ignore", invalid="ignore"):
        top = slope * slope / (-2.0 * bend)
    return height, height + np.where(inner, top, np.abs(slope) * half + 0.5 * bend * half * half)


@lru_cache(maxsize=32)
def _third(degree: int) -> Floats:
    """The largest third derivative of each Chebyshev polynomial, which is that at 1."""
    k = np.arange(degree + 1.0) ** 2
    return k * np.abs(k - 1.0) * np.abs(k - 4.0) / 15.0


@lru_cache(maxsize=32)
def _to_coefficients(degree: int) -> Floats:
    """The matrix by which values at the nodes become coefficients of Chebyshev polynomials."""
    j, k = np.arange(degree + 1)[:, None], np.arange(degree + 1)[None, :]
    halved = np.where((j == 0) | (j == degree), 0.5, 1.0) * np.where((k == 0) | (k == degree), 0.5, 1.0)
    # the nodes are counted from the left, so their angles are from pi down to 0
    return 2.0 / degree * halved * np.cos(np.pi * ((degree - j) * k % (2 * degree)) / degree)
