"""Upper bounds on analytic functions from their values at Chebyshev points; discs, for values with proved errors.

Let f be analytic and at most M in absolute value in the ellipse with foci -1 and 1 whose half-axes add up to rho. Then
the polynomial of degree n through its values at the n + 1 Chebyshev points cos(pi j/n) is nowhere on [-1, 1] off by
more than 4 M rho^-n / (rho - 1) [trefethen2013, Thm 8.2]. The largest value of a polynomial is found by cutting [-1, 1]
into short stretches and bounding each by a parabola.

`supremum` cuts windows of positions into halves until none may be much above the largest value that was found.

A disc in the complex plane with its centre on the real axis contains the true number. Every operation keeps that
promise, rounding included, so the same formula gives two things: from points of the real line a value with a proved
error, and from wide discs a bound on an analytic function in the complex plane. All is in floats, many at once.

Assumed of the machine: sums, products and quotients are rounded to nearest, exp, expm1 and log are within 4 ulp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from rangebound.values.array_types import Bools, Floats, Indices, np, npt

UNIT = 2.0**-52  # twice the rounding error of one operation, which covers that of a radius as well
ROUGH = 8.0 * UNIT  # of an elementary function
_TINY = 1e-290  # absolute: what underflow may take away
_SUMMED = 16  # terms that are summed one by one


@dataclass(frozen=True, slots=True, eq=False)
class Discs:
    """The discs |z - mid| <= rad. A radius that is not finite says that nothing is known.

    Sums, products and so on are with other discs, or with doubles as they are; where a divisor may be 0 nothing is
    known of the quotient.
    """

    mid: Floats
    rad: Floats

    def __neg__(self) -> Discs:
        return Discs(-self.mid, self.rad)

    def __add__(self, other: Discs | Floats | float) -> Discs:
        other = _discs(other)
        mid = self.mid + other.mid
        return Discs(mid, (self.rad + other.rad) * (1.0 + 2.0 * UNIT) + UNIT * np.abs(mid))

    def __sub__(self, other: Discs | Floats | float) -> Discs:
        return self + -_discs(other)

    def __mul__(self, other: Discs | Floats | float) -> Discs:
        other = _discs(other)
        mid = self.mid * other.mid
        spread = np.abs(self.mid) * other.rad + self.rad * (np.abs(other.mid) + other.rad)
        return Discs(mid, spread * (1.0 + 4.0 * UNIT) + UNIT * np.abs(mid) + _TINY)

    def __truediv__(self, other: Discs | Floats | float) -> Discs:
        other = _discs(other)
        size = np.abs(other.mid)
        room = size - other.rad
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            mid = self.mid / other.mid
            spread = (self.rad + np.abs(mid) * other.rad) / np.where(room > 0.0, room, np.nan)
        return Discs(mid, spread * (1.0 + 8.0 * UNIT) + UNIT * np.abs(mid) + _TINY)

    def exp(self) -> Discs:
        """e^z: a disc of radius e^mid (e^rad - 1)."""
        with np.errstate(over="ignore", invalid="ignore"):
            mid = np.exp(self.mid)
            return Discs(mid, mid * (np.expm1(self.rad) * (1.0 + 2.0 * ROUGH) + ROUGH) + _TINY)

    def expm1(self) -> Discs:
        """e^z - 1, sharp near 0."""
        with np.errstate(over="ignore", invalid="ignore"):
            mid = np.expm1(self.mid)
            spread = np.exp(self.mid) * np.expm1(self.rad)
            return Discs(mid, spread * (1.0 + 4.0 * ROUGH) + ROUGH * np.abs(mid) + _TINY)

    def log(self) -> Discs:
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(self.mid > 0.0, self.rad / self.mid * (1.0 + UNIT), np.nan)
            mid = np.log(self.mid)
            spread = -np.log1p(-np.where(share < 1.0, share, np.nan))
        return Discs(mid, spread * (1.0 + ROUGH) + ROUGH * np.abs(mid) + _TINY)

    def at(self, index: Any) -> Discs:
        return Discs(self.mid[index], self.rad[index])

    def summed(self) -> Discs:
        """Running sums along the last axis, in blocks, which keeps rounding small."""
        count = self.mid.shape[-1]
        blocks = -(-count // _SUMMED)
        spare = [(0, 0)] * (self.mid.ndim - 1) + [(0, blocks * _SUMMED - count)]
        shape = (*self.mid.shape[:-1], blocks, _SUMMED)

        def running(x: Floats) -> Floats:
            inner = np.cumsum(np.pad(x, spare).reshape(shape), axis=-1)
            before = np.zeros_like(inner[..., -1:])
            before[..., 1:, 0] = np.cumsum(inner[..., :-1, -1], axis=-1)
            whole: Floats = (inner + before).reshape(*self.mid.shape[:-1], -1)[..., :count]
            return whole

        terms = _SUMMED + blocks + 2.0
        return Discs(running(self.mid), (running(self.rad) + UNIT * terms * running(np.abs(self.mid))) * (1.0 + 1e-12))

    @property
    def top(self) -> Floats:
        """No number of the disc is larger in absolute value; infinite where nothing is known."""
        size = (np.abs(self.mid) + self.rad) * (1.0 + 2.0 * UNIT)
        return np.where(np.isnan(size), np.inf, size)


def exactly(x: npt.ArrayLike) -> Discs:
    """Doubles as they are."""
    mid = np.asarray(x, dtype=np.float64)
    return Discs(mid, np.zeros_like(mid))


def difference(x: npt.ArrayLike, y: npt.ArrayLike) -> Discs:
    """x - y of doubles."""
    return exactly(x) - exactly(y)


def _discs(x: Discs | Floats | float) -> Discs:
    return x if isinstance(x, Discs) else exactly(x)


def where(chosen: Bools, first: Discs, second: Discs) -> Discs:
    """The first where it is chosen, else the second."""
    return Discs(np.where(chosen, first.mid, second.mid), np.where(chosen, first.rad, second.rad))


def side_by_side(parts: Sequence[Discs], axis: int = 0) -> Discs:
    return Discs(*(np.concatenate([getattr(part, x) for part in parts], axis=axis) for x in ("mid", "rad")))


_STRETCHES, _FINER = 64, 64  # stretches of [-1, 1], and of one of them that may hold the largest value
_BLOCK = 256  # stretches that are made finer at once
_CLOSE = 1e-11  # relative: a stretch that reaches no higher than this above the largest value is left as it is


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


class Tops(NamedTuple):
    """Bounds on the largest values of polynomials, and where they are about attained."""

    upper: Floats
    lower: Floats
    where: Floats


def tops(values: Floats, floor: float = -1e300, wobble: Floats | float = 0.0) -> Tops:
    """For each row of values at `nodes` bounds on the largest value of its polynomial over [-1, 1], and its place.

    Bounds above `floor` are sharp to about 1e-11 relative. What rounding does to the coefficients and sums is covered,
    and that each value belongs to a place that is off its node by `wobble`.
    """
    degree = values.shape[1] - 1
    level = values[:, degree // 2]
    values, base = values - level[:, None], floor - level
    coefficients = values @ _to_coefficients(degree)
    bend = np.abs(coefficients) @ _third(degree)
    coarse, fine = _mesh(degree, _STRETCHES), _mesh(degree, _STRETCHES * _FINER)
    heights, bounds, _ = _parabolas([coefficients @ each.T for each in coarse.series], bend[:, None], coarse.half)
    where = coarse.middles[np.argmax(heights, axis=1)]
    best = heights.max(axis=1)
    known = np.maximum(best, base)
    rows, cuts = np.nonzero(bounds > (known + _CLOSE * np.abs(known + level))[:, None])
    for some in (slice(i, i + _BLOCK) for i in range(0, rows.size, _BLOCK)):
        parts = cuts[some, None] * _FINER + np.arange(_FINER)
        chosen = coefficients[rows[some]][:, :, None]
        series = [(each[parts] @ chosen)[:, :, 0] for each in fine.series]
        high, sharp, tips = _parabolas(series, bend[rows[some]][:, None], fine.half)
        bounds[rows[some], cuts[some]] = np.minimum(bounds[rows[some], cuts[some]], sharp.max(axis=1))
        inner = np.argmax(high, axis=1)
        top = high[np.arange(inner.size), inner]
        order = np.argsort(top)  # of several in one row the highest is written last
        order = order[top[order] > best[rows[some]][order]]
        best[rows[some][order]] = top[order]
        where[rows[some][order]] = fine.middles[parts[order, inner[order]]] + tips[order, inner[order]]
    for end, place in ((0, -1.0), (-1, 1.0)):
        higher = values[:, end] > best
        best, where = np.where(higher, values[:, end], best), np.where(higher, place, where)
    rounding: Floats = 16.0 * (degree + 1.0) ** 2 * UNIT * np.abs(values).max(axis=1) + 4.0 * UNIT * np.abs(level)
    rounding += wobble * (np.abs(coefficients) @ np.arange(degree + 1.0) ** 2)
    return Tops(level + bounds.max(axis=1) + rounding, level + best - rounding, where)


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


def _parabolas(series: list[Floats], third: Floats, half: float) -> tuple[Floats, Floats, Floats]:
    """Values in the middle of stretches, upper bounds over them, and from the middle the place of the top.

    `third` bounds the third derivative.
    """
    height, slope, bend = series
    most = bend + third * half
    inner = (most < 0.0) & (np.abs(slope) <= -most * half)
    with np.errstate(divide="ignore", invalid="ignore"):
        top, tip = slope * slope / (-2.0 * most), np.clip(slope / -bend, -half, half)
    bounds = height + np.where(inner, top, np.abs(slope) * half + 0.5 * most * half * half)
    return height, bounds, np.where(bend < 0.0, tip, np.sign(slope) * half)


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


class WindowBounds(NamedTuple):
    """For each window an upper bound, a value that is attained, its place, and what a smaller one would add as well."""

    upper: Floats
    lower: Floats
    place: Floats
    rounding: Floats


class Highest(NamedTuple):
    """An upper bound over all windows, and the line and place of a value that nearly attains it."""

    upper: float
    lower: float
    line: int
    place: float


class Windows(Protocol):
    """Windows of positions, each on a line that has a number."""

    @property
    def line(self) -> Indices: ...

    def some(self, chosen: Bools | Indices) -> Self: ...

    def halves(self) -> Self: ...


W = TypeVar("W", bound=Windows)


def supremum(
    windows: W | None,
    evaluate: Callable[[W, float, bool], WindowBounds],
    target: float | None,
    *,
    tight: float,
    rounds: int,
    most: int,
    known: float = -math.inf,
) -> Highest | None:
    """The supremum over windows; with a target only as sharp as it takes to decide.

    None where it cannot be told: where a bound is NaN, or it takes more than `most` windows at once. A bound need
    be sharp only above the number that `evaluate` is given; it is also told whether no place is known so far. `tight`
    is how far a bound may be above the largest value, relative, and `known` a value from elsewhere; where nothing is
    above it, the place is nan.
    """

    def enough(lower: float) -> float:
        if target is not None:
            return max(target, lower)
        return lower + tight * abs(lower) if lower > -math.inf else lower

    top, upper, lower, line, place = math.inf, -math.inf, known, 0, math.nan
    for _ in range(rounds):
        if windows is None or windows.line.size > most:
            return None
        bounds = evaluate(windows, enough(lower), math.isnan(place))
        if not np.isfinite(bounds.rounding).all() or np.isnan(bounds.upper).any() or np.isnan(bounds.lower).any():
            return None
        best = int(np.argmax(bounds.lower))
        if bounds.lower[best] > lower:
            lower, line, place = float(bounds.lower[best]), int(windows.line[best]), float(bounds.place[best])
        limit = enough(lower)
        high = bounds.upper > limit
        # Smaller windows do not help against rounding, nor against what every polynomial misses.
        stuck = bounds.upper - limit <= 8.0 * bounds.rounding
        upper = max(upper, float(bounds.upper[~high | stuck].max(initial=-math.inf)))
        top = max(upper, float(bounds.upper.max()))
        if (target is not None and lower > target) or not (high & ~stuck).any():
            break
        windows = windows.some(high & ~stuck).halves()
    return None if math.isinf(top) else Highest(top, lower, line, place)
