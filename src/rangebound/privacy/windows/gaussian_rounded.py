"""The Renyi divergence of Gaussian noise that was rounded or clamped, on windows of positions (see `windows`).

Cell i of probabilities P and Q adds P^a Q^(1-a). In units of e^{a(a-1) d^2/(2 s^2)}, which the unbounded noise has in
all, the sum is at most 1. At p + iy a probability is e^{y^2/(2 s^2)} times that at p times the mean of e^{i y x/s^2}
over the cell, which has at most the variance s^2. For y^2 <= s^2/a no probability vanishes, and the sum is at most e
times its real value. docs/theory.md has the proof ("Windows").
"""

from __future__ import annotations

import math

import numpy as np

from rangebound.laws.boundings import Shape
from rangebound.privacy.pairs.truncated_grid import spacing
from rangebound.privacy.windows.chebyshev import UNIT, truncation
from rangebound.privacy.windows.gaussian_laws import Laws, WindowPlace
from rangebound.privacy.windows.gaussian_windows import (
    RHOS,
    GaussianWindows,
    Highest,
    WindowBounds,
    bounds,
    folded,
    highest,
    nodes_of,
)
from rangebound.values.array_types import Floats, Indices

_HIGHEST = 96  # degree of a polynomial
_LONG, _REGULAR = 64, 1e-8  # cells of a grid that is worth folding, and the share that rounding may move
_MOST, _BLOCK = 8_000, 1 << 18
_TIGHT = 1e-11
_SCOUTS, _ENOUGH = 48, 1e-10  # places on each line that are tried first, and the share of the result to be missed
_LARGEST = 1e7  # logarithm of a sum
_DEEP = 20.0  # in logarithms: a sum so much smaller than that of the unbounded noise is bounded window by window
_SEEN = 56.0  # in logarithms: what is so much smaller than the sum is left out


def rounded_renyi(
    scale: float, shape: Shape, order: float, windows: GaussianWindows, target: float | None = None
) -> Highest | None:
    if windows.d.min() != windows.d.max():
        return None
    d = float(windows.d[0])
    cells = _GaussianCells(scale, shape, order, d)
    cells.level = max(cells.scouted(windows), 0.0) if target is None else (order - 1.0) * target
    if not 0.0 < cells.level < _LARGEST:
        return None
    cells.fold()
    pieces = folded(windows, cells.middle, cells.step, (1.0 - order,))
    goal = None if target is None else 1.0
    found = highest(cells.subdivided(pieces), lambda some: cells.bounds(some, goal), goal, _TIGHT)
    if found is None or not found.lower > 0.0:
        return None
    low, high = ((cells.level + math.log(x)) / (order - 1.0) for x in (found.lower, found.upper))
    high = min(high, order * (d / scale) ** 2 / 2.0)  # the map is post-processing
    slack = 16.0 * UNIT * (cells.level / (order - 1.0) + abs(low) + abs(high) + 1.0 / (order - 1.0))
    return found._replace(upper=high + slack, lower=low - slack)


class _GaussianCells:
    """The cells of a map of the noisy value, and the span that it leaves as it is."""

    def __init__(self, scale: float, shape: Shape, order: float, d: float) -> None:
        self._laws = Laws(scale, Shape(spans=((-math.inf, math.inf),)))
        self._scale, self._order, self._d = scale, order, d
        self._lows, self._highs = np.asarray(shape.cells, dtype=np.float64).reshape(-1, 2).T
        self._span = shape.spans[0] if shape.spans else None
        self._lift = order * (order - 1.0) * (d / scale) ** 2 / 2.0  # the logarithm of the sum of the unbounded noise
        self.level = self._lift  # the logarithm in units of which sums are told
        self.middle: tuple[float, float] | None = None
        self.step, self._wobble = math.nan, 0.0

    def fold(self) -> None:
        """On a long regular grid let one step stand for all, where the rounding of cuts moves next to nothing.

        Cuts off their places by e move the logarithm of a probability by 2e(4/h + (t + h)/s^2) at distance t.
        """
        cuts = self._highs[:-1].tolist()
        if self._span is not None or len(cuts) < _LONG:
            return
        step, off = (float(x) for x in spacing(tuple(cuts)))
        seen = math.sqrt(2.0 * (_SEEN + self._lift)) * self._scale
        reach = self._order * self._d + seen + self._scale + 2.0 * step
        moved = 4.0 * off * step * (4.0 / step + reach / self._scale**2) * (2.0 * self._order - 1.0)
        margin = seen + self._scale + 4.0 * step
        if moved < _REGULAR * min(self.level, 1.0) and cuts[0] + margin < cuts[-1] - margin:
            self.middle = cuts[0] + margin, cuts[-1] - margin
            self.step, self._wobble = step, moved

    def scouted(self, windows: GaussianWindows) -> float:
        """The largest logarithm of a sum at a few places, roughly."""
        p = np.linspace(windows.start, windows.end, _SCOUTS).reshape(-1)
        found = [self._terms(p[some], *self._near(p[some], 0.0))[0] for some in self._blocks(p, *self._near(p, 0.0))]
        return max(float(np.logaddexp.reduce(each, axis=1).max()) for each in found)

    def subdivided(self, windows: GaussianWindows) -> GaussianWindows | None:
        """The windows, cut until half the height of each ellipse is at most s/sqrt(a)."""
        most = self._scale / math.sqrt(self._order) * (1.0 - 1e-9)
        limits = {rho: most / (0.5 * (rho - 1.0 / rho)) for rho in RHOS}
        parts = np.maximum(np.ceil(windows.radius / limits[RHOS[-1]] * (1.0 + 1e-9)), 1.0)
        if not parts.sum() <= _MOST:
            return None
        pieces = windows.cut(parts.astype(np.intp))
        small = pieces.radius <= limits[RHOS[0]]
        return pieces._replace(rho=np.where(small, RHOS[0], RHOS[-1]))

    def bounds(self, windows: GaussianWindows, target: float | None) -> WindowBounds:
        """Bounds on the sum for windows with one ellipse."""
        rho = float(windows.rho[0])
        if self._lift - self.level < _DEEP:
            near, size = None, np.asarray(3.0 * math.exp(self._lift - self.level))
        else:
            near, size = self._kept(windows)
        degree = 4
        largest = min(float(size.max()), 1e12)
        while degree < _HIGHEST and largest * truncation(degree, rho) > _ENOUGH * min(self.level, 1.0):
            degree += 2
        p = nodes_of(windows, degree)[0]
        first, last = self._near(p, self.level) if near is None else (np.repeat(x, degree + 1) for x in near)
        value, error = np.empty_like(p), np.empty_like(p)
        for some in self._blocks(p, first, last):
            value[some], error[some] = self._sum(p[some], first[some], last[some])
        missed = size * truncation(degree, rho)
        return bounds(windows, value, error, degree, float(missed) if near is None else missed, target)

    def _kept(self, windows: GaussianWindows) -> tuple[tuple[Indices, Indices], Floats]:
        """For each window the cells that matter in it, and a bound on the sum in its ellipse.

        The logarithm t of what a cell adds has t'' <= (a - 1)/s^2, because that of a probability is concave and bends
        by at most 1/s^2. So along the window it is at most t + |t'| x + (a - 1) x^2/(2 s^2) from the middle.
        """
        middle, wide = windows.middle, windows.wide
        bend = (self._order - 1.0) * wide * wide / (2.0 * self._scale**2)
        first, last = self._near(middle, 0.0)
        size = np.empty_like(middle)
        begin, end = first.copy(), last.copy()
        for some in self._blocks(middle, first, last):
            logs, _, slopes = self._terms(middle[some], first[some], last[some])
            growth = (1.01 * np.abs(slopes) + 1e-6 / self._scale) * wide[some, None]
            with np.errstate(over="ignore", invalid="ignore"):
                most = np.where(np.isneginf(logs), -np.inf, logs + growth) + bend[some, None]
                size[some] = np.exp(np.minimum(np.logaddexp.reduce(most, axis=1) + 1.7 - self.level, 700.0)) + 1e-30
            cells = most[:, : int((last - first)[some].max(initial=1))]
            kept = cells > np.maximum(self.level, 0.0) - _SEEN
            any_kept = kept.any(axis=1)
            begin[some] = first[some] + np.where(any_kept, np.argmax(kept, axis=1), 0)
            after = first[some] + kept.shape[1] - np.argmax(kept[:, ::-1], axis=1)
            end[some] = np.where(any_kept, after, begin[some] + 1)
        return (begin, np.minimum(end, self._lows.size)), size

    def _blocks(self, p: Floats, first: Indices, last: Indices) -> list[slice]:
        size = max(64, _BLOCK // max(1, int((last - first).max(initial=1))))
        return [slice(i, i + size) for i in range(0, p.size, size)]

    def _near(self, p: Floats, level: float) -> tuple[Indices, Indices]:
        """The cells that matter to the sum: a cell adds at most the mass of the geometric mixture in it."""
        reach = math.sqrt(2.0 * (_SEEN + max(self._lift - level, 0.0))) * self._scale
        mixed = p + (1.0 - self._order) * self._d
        first = np.searchsorted(self._highs, mixed - reach)
        return first, np.searchsorted(self._lows, mixed + reach, side="right")

    def _sum(self, p: Floats, first: Indices, last: Indices) -> tuple[Floats, Floats]:
        logs, wrong, _ = self._terms(p, first, last)
        parts = np.exp(np.minimum(logs - self.level, 600.0))
        wrong = np.where(wrong < 1.0, np.expm1(np.minimum(wrong, 1.0)) + 2.0**-48, np.inf)  # more is not known at all
        parts = np.where(np.isinf(wrong) & ~np.isneginf(logs), 1.0, parts)
        total, error = parts.sum(axis=1), np.where(parts > 0.0, parts * wrong, 0.0).sum(axis=1)
        unseen = 4.0 * (self._lows.size + 1.0) * math.exp(-_SEEN + 2.0)
        return total, error + (parts.shape[1] + 4.0) * UNIT * total + unseen

    def _terms(self, p: Floats, first: Indices, last: Indices) -> tuple[Floats, Floats, Floats]:
        """The logarithms of what cells add, in the last column the span if there is one; their errors and slopes."""
        columns = first[:, None] + np.arange(max(1, int((last - first).max(initial=1))))
        present = columns < last[:, None]
        columns = np.minimum(columns, self._lows.size - 1)
        low, high = self._lows[columns], self._highs[columns]
        (near, off, rate), (far, more, other) = (self._logs(low, high, p, offset) for offset in (0.0, self._d))
        a, root = self._order, 0.5 * math.log(2.0 * math.pi)
        logs = np.where(present, a * near - (a - 1.0) * far - root, -np.inf)
        wrong = (
            a * off + (a - 1.0) * more + 8.0 * UNIT * (a * np.abs(near) + (a - 1.0) * np.abs(far) + self._lift + 1.0)
        )
        wrong, slopes = wrong + self._wobble, np.where(present, a * rate - (a - 1.0) * other, 0.0)
        if self._span is not None:  # there the geometric mixture itself counts
            start, end = (np.full((p.size, 1), x) for x in self._span)
            blend, off, rate = self._logs(start, end, p, (1.0 - a) * self._d)
            logs = np.concatenate((logs, blend + self._lift - root), axis=1)
            wrong = np.concatenate((wrong, off + 16.0 * UNIT * (self._lift + np.abs(blend) + 1.0)), axis=1)
            slopes = np.concatenate((slopes, rate), axis=1)
        return logs, wrong, slopes

    def _logs(self, low: Floats, high: Floats, p: Floats, offset: float) -> tuple[Floats, Floats, Floats]:
        """The logarithms of the masses of cells about p + offset, their errors and their slopes in p."""
        at = (p + offset)[:, None]
        inside = (low <= at) & (at <= high)
        nearest = np.where(inside, at, np.where(at < low, low, high))
        place = WindowPlace(np.broadcast_to(p[:, None], low.shape), np.full_like(low, offset), nearest, inside)
        mass, error = self._laws.between(low, high, place)
        away = np.where(inside, 0.0, (nearest - place.p) - offset)
        lift = away * away / (2.0 * self._scale**2)
        moved = 8.0 * UNIT * np.abs(away) * (np.abs(away) + 2.0 * abs(offset)) / self._scale**2
        # Roughly: a slope serves the choice of cells, with a margin.
        below, above = (np.exp((away - y) * (away + y) / (2.0 * self._scale**2)) for y in (low - at, high - at))
        with np.errstate(divide="ignore", invalid="ignore"):
            wrong = np.where(mass > 0.0, error / mass, np.inf) + moved
            return np.log(mass) - lift, wrong, (below - above) / (self._scale * mass)
