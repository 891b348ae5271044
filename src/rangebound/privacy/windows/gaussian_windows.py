"""Worst cases of truncated Gaussian noise on windows of positions: rigorous, and by arrays of floats alone.

The law about p is e^{(p-c)(x-c)/s^2 - (x-c)^2/(2 s^2) - A(p)} on the support: an exponential family, and all that is
asked of a pair is analytic in its position. On a window of half-width r let V bound the variance of x for all laws at
positions below the ellipse over the window. Where (1.875 r)^2 V <= s^4, the mean of e^{i y x/s^2} is at least 1/2 in
absolute value in the ellipse, nothing there is much larger than on the real line, and `chebyshev` bounds the function
on the window from a few dozen values. papers/numerics.md has the proofs ("Windows").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from rangebound.laws.boundings import Shape
from rangebound.privacy.windows.chebyshev import UNIT, Highest, WindowBounds, lebesgue, nodes, supremum, tops
from rangebound.privacy.windows.gaussian_laws import Laws
from rangebound.values.array_types import Bools, Floats, Indices, np

RHOS = (32.0, 4.0)  # ellipses over [-1, 1] by the sum of their half-axes, the smallest last
SINGLE = math.inf  # in place of it for a window that is one position, which needs no polynomial: degree 0
_MOST, _ROUNDS = 8_000, 10  # windows, and how often they are cut into halves
_TIGHT = 1e-9  # relative: windows that may reach higher than this above the largest value are cut


class GaussianWindows(NamedTuple):
    """Windows of positions [start, end] of pairs at distance `d`, each on one line, and the branch of its objective."""

    start: Floats
    end: Floats
    d: Floats
    line: Indices
    branch: Indices
    rho: Floats  # of the ellipse over the window; 0 until one is found

    def some(self, chosen: Bools | Indices) -> GaussianWindows:
        return GaussianWindows._make(each[chosen] for each in self)

    def halves(self) -> GaussianWindows:
        return self.cut(np.full(self.start.size, 2))

    def cut(self, parts: Indices) -> GaussianWindows:
        """Each cut in as many equal parts."""
        found = self.some(np.repeat(np.arange(parts.size), parts))
        number = np.arange(found.start.size) - np.repeat(np.cumsum(parts) - parts, parts)
        count = np.repeat(parts, parts)
        first, last = number / count, (number + 1) / count
        start = np.where(number == 0, found.start, found.start * (1.0 - first) + found.end * first)
        end = np.where(number == count - 1, found.end, found.start * (1.0 - last) + found.end * last)
        return found._replace(start=start, end=end)

    def with_more(self, other: GaussianWindows) -> GaussianWindows:
        return GaussianWindows._make(np.concatenate(both) for both in zip(self, other, strict=True))

    @property
    def middle(self) -> Floats:
        return 0.5 * self.start + 0.5 * self.end

    @property
    def radius(self) -> Floats:
        """Half the width, rounded up; never so small that rounding moves a node by much of it."""
        return 0.5 * (self.end - self.start) * (1.0 + 4.0 * UNIT) + 2.0**18 * UNIT * np.abs(self.end) + 1e-300

    @property
    def high(self) -> Floats:
        """Half the height of the ellipse."""
        return 0.5 * (self.rho - 1.0 / self.rho) * self.radius

    @property
    def wide(self) -> Floats:
        """Half its width."""
        return 0.5 * (self.rho + 1.0 / self.rho) * self.radius


def windows_of(rows: Sequence[tuple[float, float, float, int, int, float]]) -> GaussianWindows:
    columns = list(zip(*rows, strict=True)) or [()] * 6
    kinds = (np.float64, np.float64, np.float64, np.intp, np.intp, np.float64)
    return GaussianWindows._make(np.asarray(each, dtype=kind) for each, kind in zip(columns, kinds, strict=True))


def highest(
    windows: GaussianWindows | None,
    evaluate: Callable[[GaussianWindows], WindowBounds],
    target: float | None,
    tight: float = _TIGHT,
) -> Highest | None:
    """The supremum over windows that have ellipses; with a target only as sharp as it takes to decide.

    None where it cannot be told. `tight` is how far a bound may be above the largest value.
    """
    return supremum(
        windows, lambda some, *_: _evaluated(some, evaluate), target, tight=tight, rounds=_ROUNDS, most=_MOST
    )


def _evaluated(windows: GaussianWindows, evaluate: Callable[[GaussianWindows], WindowBounds]) -> WindowBounds:
    """Bounds for windows with different ellipses."""
    found = WindowBounds(*(np.empty(windows.start.size) for _ in WindowBounds._fields))
    for rho in np.unique(windows.rho):
        mine = windows.rho == rho
        for whole, part in zip(found, evaluate(windows.some(mine)), strict=True):
            whole[mine] = part
    return found


def subdivided(
    laws: Laws, windows: GaussianWindows, offsets: tuple[float, ...], rhos: tuple[float, ...] = RHOS
) -> GaussianWindows | None:
    """The windows, cut until each has an ellipse; None where that takes too many. The last ones are remembered.

    A window that is a part of one that has an ellipse has the same one, only smaller.
    """
    rows = tuple(zip(*(each.tolist() for each in windows), strict=True))
    return _subdivided(laws.scale, laws.shape, rows, offsets, rhos)


@lru_cache(maxsize=64)
def _subdivided(
    scale: float,
    shape: Shape,
    rows: tuple[tuple[float, float, float, int, int, float], ...],
    offsets: tuple[float, ...],
    rhos: tuple[float, ...],
) -> GaussianWindows | None:
    laws, windows = Laws(scale, shape), windows_of(rows)
    done: list[GaussianWindows] = []
    for _ in range(64):
        windows = windows._replace(rho=np.zeros_like(windows.rho))
        unrest = np.zeros_like(windows.rho)
        for rho in rhos:
            left = np.flatnonzero(windows.rho == 0.0)
            tried = windows.some(left)._replace(rho=np.full(left.size, rho))
            unrest[left] = 0.0
            for offset in offsets:
                unrest[left] = np.maximum(unrest[left], _unrest(laws, tried, offset))
            windows.rho[left[unrest[left] <= 1.0]] = rho
        good = windows.rho > 0.0
        done.append(windows.some(good))
        if good.all():
            return GaussianWindows._make(np.concatenate(each) for each in zip(*done, strict=True))
        # A variance over a wide window is mostly its width, so the root is a better guess of the parts that it takes.
        windows = windows.some(~good).cut(np.clip(2.0 * np.sqrt(unrest[~good]), 2, 64).astype(np.intp))
        if windows.start.size > _MOST:
            return None
    return None


def _unrest(laws: Laws, windows: GaussianWindows, offset: float) -> Floats:
    """y sqrt(V)/s^2 for half the height y of the ellipse, at an offset in distances of the pair; at most 1 is calm."""
    variance = laws.variance(windows.middle - windows.wide, windows.middle + windows.wide, offset * windows.d)
    found: Floats = windows.high * np.sqrt(variance) / laws.scale**2 * (1.0 + 1e-9)
    return found


def folded(
    windows: GaussianWindows, middle: tuple[float, float] | None, step: float, offsets: Sequence[float]
) -> GaussianWindows:
    """On a long regular grid one step stands for all positions whose locations all lie in the middle of it."""
    if middle is None:
        return windows
    rows = []
    for start, end, d, line, branch, rho in zip(*windows, strict=True):
        low, high = max(start, middle[0] - min(offsets) * d), min(end, middle[1] - max(offsets) * d)
        wide = step * (1.0 + 1e-6)
        parts = [(start, end)] if high - low < 2.0 * wide else [(start, low), (low, low + wide), (high, end)]
        rows += [(a, b, d, line, branch, rho) for a, b in parts if a <= b]
    return windows_of(rows)


def nodes_of(windows: GaussianWindows, degree: int) -> tuple[Floats, Floats]:
    """The nodes of all windows in one row, with the distances of their pairs."""
    if not degree:
        return windows.start, windows.d
    p = windows.middle[:, None] + windows.radius[:, None] * nodes(degree)
    return p.reshape(-1), np.repeat(windows.d, degree + 1)


def bounds(
    windows: GaussianWindows, value: Floats, error: Floats, degree: int, missed: Floats | float, target: float | None
) -> WindowBounds:
    """From values at the nodes of each window, their errors, and what the polynomial misses, a bound for each.

    A node that is off by w moves the polynomial by the Lebesgue constant times w times the slope of the function. That
    is less than twice the largest slope that the coefficients show, plus n^2 times what the polynomial misses, while
    w n^2 times that constant is at most 1/8, because no polynomial is steeper than n^2 times its largest value.
    Of a window that is one position (degree 0) the value and its error say it all.
    """
    if not degree:
        here, off = value.reshape(-1), error.reshape(-1)
        return WindowBounds(here + off, here - off, windows.start, off)
    rows, errors = value.reshape(-1, degree + 1), error.reshape(-1, degree + 1)
    off = UNIT * (np.abs(windows.middle) + 3.0 * windows.radius) / windows.radius
    small = 8.0 * off * degree**2 * lebesgue(degree) <= 1.0
    wobble, missed = np.where(small, 2.0 * lebesgue(degree) * off, 0.0), 1.25 * missed
    floor = float((rows - errors).max())
    found = tops(rows, floor if target is None else max(floor, target), wobble)
    rounding = np.where(small, lebesgue(degree) * errors.max(axis=1), np.inf)
    place = np.clip(windows.middle + windows.radius * found.where, windows.start, windows.end)
    least = missed if np.ndim(missed) == 0 else 0.0  # what is the same for all is no less on smaller windows
    stays = np.where(np.isfinite(rounding), lebesgue(degree) * errors.min(axis=1), np.inf)
    return WindowBounds(found.upper + rounding + missed, found.lower - rounding - missed, place, stays + least)
