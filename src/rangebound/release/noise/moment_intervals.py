"""Correlation and line of two columns from noisy moments, with intervals by simulation of the noise.

Coordinates are sums over rows of (ALPHA, BETA u, BETA v, GAMMA u^2, GAMMA v^2, 2 GAMMA u v), where u = x + y - 1 and
v = x - y for x and y from 0 to 1 over their ranges.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from rangebound.laws.family import Curve
from rangebound.release.noise.draw import Reading
from rangebound.release.plan.kinds.two_columns import ALPHA, BETA, GAMMA
from rangebound.release.plan.statistic import Pair
from rangebound.values.array_types import Floats

DRAWS = 2**13
_ENOUGH = 20  # draws beyond each end; for rarer ones intervals come from those of the coordinates
_FINE = 2.0**20


@dataclass(frozen=True, kw_only=True)
class NoisyMoments:
    """The number of rows, and means, variances and covariance of x and y, from 0 to 1 over their ranges; many at once.

    Noise can make the number of rows and the variances 0 or negative, and then the others mean nothing.
    """

    rows: Floats
    x: Floats
    y: Floats
    xx: Floats
    yy: Floats
    xy: Floats


Answer = Callable[[NoisyMoments], tuple[Floats, npt.NDArray[np.bool_]]]
"""What is asked of moments, and where it has an answer."""


@dataclass(frozen=True, kw_only=True)
class Box:
    """Intervals of all moments, which hold together; None where there may be no rows."""

    x: Pair
    y: Pair
    xx: Pair
    yy: Pair
    xy: Pair


Bounded = Callable[[Box | None], Pair]
"""An interval of what is asked, from intervals of the moments."""
ALL = (-math.inf, math.inf)


def moments(coordinates: Floats) -> NoisyMoments:
    """Moments from coordinates in the last axis."""
    alpha, beta, gamma = map(float, (ALPHA, BETA, GAMMA))
    rows = coordinates[..., 0] / alpha
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        u, v = coordinates[..., 1] / beta / rows, coordinates[..., 2] / beta / rows
        uu, vv = coordinates[..., 3] / gamma / rows - u * u, coordinates[..., 4] / gamma / rows - v * v
        uv = coordinates[..., 5] / (2.0 * gamma) / rows - u * v
    return NoisyMoments(
        rows=rows,
        x=(u + v + 1.0) / 2.0,
        y=(u - v + 1.0) / 2.0,
        xx=(uu + vv) / 4.0 + uv / 2.0,
        yy=(uu + vv) / 4.0 - uv / 2.0,
        xy=(uu - vv) / 4.0,
    )


def correlation(found: NoisyMoments) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """The correlation, where there are rows and both variances are positive."""
    there = (found.rows > 0.0) & (found.xx > 0.0) & (found.yy > 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.clip(found.xy / np.sqrt(found.xx * found.yy), -1.0, 1.0), there


def slope(found: NoisyMoments) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """The slope of the line of least squares, where there are rows and the variance of x is positive."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return found.xy / found.xx, (found.rows > 0.0) & (found.xx > 0.0)


def steadied(reading: Reading) -> NoisyMoments:
    """The moments of a draw, whose variances are at least as large as noise makes them half of the time.

    So a variance that is nothing but noise leaves a correlation and a slope near 0, not a quotient of two errors. A
    draw without rows has the moments of values in the middle of their ranges.
    """
    own, drawn = moments(np.array(reading.values)), _simulated(reading)
    if not own.rows > 0.0:
        middle, none = np.array(0.5), np.array(0.0)
        return NoisyMoments(rows=none, x=middle, y=middle, xx=np.array(1.0), yy=np.array(1.0), xy=none)
    valid = drawn.rows > 0.0
    xx, yy = (
        np.maximum(one, np.median(np.abs(many[valid] - one))) for one, many in ((own.xx, drawn.xx), (own.yy, drawn.yy))
    )
    x, y = np.clip(own.x, 0.0, 1.0), np.clip(own.y, 0.0, 1.0)
    return NoisyMoments(rows=own.rows, x=x, y=y, xx=xx, yy=yy, xy=own.xy)


def interval(reading: Reading, asked: Answer, bounded: Bounded, support: Pair) -> Pair:
    """An interval for an answer: where it lies for the moments of the draw less simulated noise.

    The true coordinates are those that were drawn less the noise, whose law is public, so moments that are likely are
    made by taking simulated noise away. Moments without an answer count as beyond both ends. An answer that is a
    quotient of two linear forms with a positive denominator lies below R where one linear form is negative: for such
    ones the interval is as exact as the simulation. It is the same for every table with the same draw, since the
    simulated noise is fixed.

    Edge cases: at levels beyond what so many draws can tell, such as those of many intervals that hold at once, it is
    what `bounded` makes of the intervals of all coordinates.
    """
    added = reading.added
    assert added is not None
    expected = (1.0 - added.level) / 2.0 * DRAWS
    if expected < _ENOUGH:
        low, high = bounded(box(reading))
        return min(max(low, support[0]), support[1]), min(max(high, support[0]), support[1])
    values, there = asked(_simulated(reading))
    at = max(math.floor(expected - math.sqrt(expected)), 0)
    low = np.partition(np.where(there, values, -math.inf), at)[at]
    high = np.partition(np.where(there, values, math.inf), DRAWS - 1 - at)[DRAWS - 1 - at]
    return max(float(low), support[0]), min(float(high), support[1])


def box(reading: Reading) -> Box | None:
    """Intervals of the moments, by interval arithmetic on those of the coordinates."""
    alpha, beta, gamma = map(float, (ALPHA, BETA, GAMMA))
    rows, *others = reading.intervals
    if rows[0] <= 0.0:
        return None
    ends = rows[0] / alpha, rows[1] / alpha
    units = beta, beta, gamma, gamma, 2.0 * gamma
    u, v, uu, vv, uv = (over((low / unit, high / unit), ends) for (low, high), unit in zip(others, units, strict=True))
    suu, svv, suv = less(uu, times(u, u)), less(vv, times(v, v)), less(uv, times(u, v))
    quarter = ((suu[0] + svv[0]) / 4.0, (suu[1] + svv[1]) / 4.0)
    return Box(
        x=((u[0] + v[0] + 1.0) / 2.0, (u[1] + v[1] + 1.0) / 2.0),
        y=((u[0] - v[1] + 1.0) / 2.0, (u[1] - v[0] + 1.0) / 2.0),
        xx=(quarter[0] + suv[0] / 2.0, quarter[1] + suv[1] / 2.0),
        yy=(quarter[0] - suv[1] / 2.0, quarter[1] - suv[0] / 2.0),
        xy=((suu[0] - svv[1]) / 4.0, (suu[1] - svv[0]) / 4.0),
    )


def correlation_bounds(found: Box | None) -> Pair:
    """An interval of the correlation."""
    if found is None or found.xx[0] <= 0.0 or found.yy[0] <= 0.0:
        return -1.0, 1.0
    spread = tuple(math.sqrt(one * two) for one, two in zip(found.xx, found.yy, strict=True))
    low, high = over(found.xy, (spread[0], spread[1]))
    return max(low, -1.0), min(high, 1.0)


def slope_bounds(found: Box | None) -> Pair:
    """An interval of the slope."""
    return ALL if found is None or found.xx[0] <= 0.0 else over(found.xy, found.xx)


def times(one: Pair, two: Pair) -> Pair:
    """An interval of products."""
    ends = [a * b for a in one for b in two]
    return min(ends), max(ends)


def less(one: Pair, two: Pair) -> Pair:
    """An interval of differences."""
    return one[0] - two[1], one[1] - two[0]


def over(one: Pair, positive: Pair) -> Pair:
    """An interval of quotients by positive numbers."""
    least, most = positive
    return one[0] / (most if one[0] > 0.0 else least), one[1] / (least if one[1] > 0.0 else most)


def _simulated(reading: Reading) -> NoisyMoments:
    """Moments that may be true ones: those of the coordinates of a draw, less noise."""
    added = reading.added
    assert added is not None
    return _less_noise(tuple(reading.values), added.noise.scale, gaussian=added.noise.curve is Curve.QUADRATIC)


@lru_cache(maxsize=2)
def _less_noise(values: tuple[float, ...], scale: float, *, gaussian: bool) -> NoisyMoments:
    """The moments of some coordinates less noise; every answer of one draw, and its interval, ask for the same."""
    return moments(np.array(values) - scale * _noise(len(values), gaussian=gaussian))


@lru_cache(maxsize=4)
def _noise(width: int, *, gaussian: bool) -> Floats:
    """`DRAWS` draws of noise of scale 1, the same always: from the digest of a constant text.

    Rounded to 2^-20, so that logarithms which differ in their last bits make the same numbers.
    """
    digits = hashlib.shake_256(b"rangebound: noise of moments").digest(8 * DRAWS * width)
    uniform = ((np.frombuffer(digits, dtype="<u8") >> np.uint64(12)) + 0.5) / 2.0**52
    if gaussian:
        from scipy import special  # an import of rangebound stays light

        drawn = special.ndtri(uniform)
    else:
        drawn = np.sign(uniform - 0.5) * -np.log1p(-2.0 * np.abs(uniform - 0.5))
    found = np.asarray(np.round(drawn * _FINE) / _FINE).reshape(DRAWS, width)
    return np.asfortranarray(found)  # a coordinate's numbers are read together
