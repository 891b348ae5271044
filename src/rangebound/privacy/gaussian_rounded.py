"""The Renyi divergence of Gaussian noise that was rounded or clamped, on windows of positions (see `windows`).

Cell i of probabilities P and Q adds P^a Q^(1-a). In units of e^{a(a-1) d^2/(2 s^2)}, which the unbounded noise has in
all, the sum is at most 1. At p + iy a probability is e^{y^2/(2 s^2)} times that at p times the mean of e^{i y x/s^2}
over the cell, which has at most the variance s^2. For y^2 <= s^2/a no probability vanishes, and the sum is at most e
times its real value. docs/theory.md has the proof ("Windows").
"""

from __future__ import annotations

import math

import numpy as np

from rangebound.law import Shape
from rangebound.privacy.chebyshev import UNIT, Floats, truncation
from rangebound.privacy.gaussian_laws import FADED, Indices, Laws, Place
from rangebound.privacy.restricted_grid import spacing
from rangebound.privacy.windows import RHOS, Bounds, Highest, Windows, bounds, folded, highest, nodes_of

_HIGHEST = 64  # degree of a polynomial
_BOUND = 3.0  # on the sum in the ellipse
_UNSEEN = 4.0 * math.exp(-0.5 * FADED**2)
_SMALLEST = 1e-16  # of the sum: below that the windows cannot tell it well
_LONG, _REGULAR = 64, 1e-9
_MOST, _BLOCK = 8_000, 1 << 18
_TIGHT = 1e-11
_SCOUTS, _ENOUGH = 48, 1e-10  # places on each line that are tried first, and the share of the result to be missed


def rounded_renyi(
    scale: float, shape: Shape, order: float, windows: Windows, target: float | None = None
) -> Highest | None:
    """The largest Renyi divergence of an order on windows; None where it is far below that of the unbounded noise."""
    if windows.d.min() != windows.d.max():
        return None
    d = float(windows.d[0])
    lift = order * (order - 1.0) * (d / scale) ** 2 / 2.0
    cells = _Cells(scale, shape, order, d)
    goal = None if target is None else math.exp(min((order - 1.0) * target - lift, 0.0))
    if goal is not None and goal < _SMALLEST:
        return None
    most = min(cells.scouted(windows) if goal is None else goal, 1.0)
    if most < _SMALLEST:
        return None
    cells.missable = _ENOUGH * most * min(lift, 1.0)
    pieces = folded(windows, cells.middle, cells.step, (1.0 - order,))
    found = highest(cells.settled(pieces), lambda some: cells.bounds(some, goal), goal, _TIGHT)
    if found is None or found.lower < _SMALLEST:
        return None
    base = lift / (order - 1.0)
    low, high = (base + math.log(x) / (order - 1.0) for x in (found.lower, min(found.upper, 1.0)))
    slack = 16.0 * UNIT * (base + abs(low) + abs(high) + 1.0 / (order - 1.0))
    return found._replace(upper=high + slack, lower=low - slack)


class _Cells:
    """The cells of a map of the noisy value, and the span that it leaves as it is."""

    def __init__(self, scale: float, shape: Shape, order: float, d: float) -> None:
        self._laws = Laws(scale, Shape(spans=((-math.inf, math.inf),)))
        self._scale, self._order, self._d = scale, order, d
        self._lows, self._highs = np.asarray(shape.cells, dtype=np.float64).reshape(-1, 2).T
        self._span = shape.spans[0] if shape.spans else None
        self.missable = _SMALLEST
        self.middle: tuple[float, float] | None = None
        self.step, self._wobble = math.nan, 0.0
        if not shape.spans and len(shape.cells) > _LONG:
            self._regular([high for _, high in shape.cells[:-1]])

    def _regular(self, cuts: list[float]) -> None:
        """Cuts off their places by e move the logarithm of a probability by 2e(4/h + (t + h)/s^2) at distance t."""
        step, off = (float(x) for x in spacing(tuple(cuts)))
        reach = self._order * self._d + (FADED + 1.0) * self._scale + 2.0 * step
        moved = 4.0 * off * step * (4.0 / step + reach / self._scale**2) * (2.0 * self._order - 1.0)
        margin = (FADED + 1.0) * self._scale + 4.0 * step
        if moved < _REGULAR and cuts[0] + margin < cuts[-1] - margin:
            self.middle = cuts[0] + margin, cuts[-1] - margin
            self.step, self._wobble = step, moved

    def scouted(self, windows: Windows) -> float:
        """The largest sum at a few places."""
        p = np.linspace(windows.start, windows.end, _SCOUTS).reshape(-1)
        return float(self._sums(p)[0].max())

    def settled(self, windows: Windows) -> Windows | None:
        """The windows, cut until half the height of each ellipse is at most s/sqrt(a)."""
        most = self._scale / math.sqrt(self._order) * (1.0 - 1e-9)
        limits = {rho: most / (0.5 * (rho - 1.0 / rho)) for rho in RHOS}
        parts = np.maximum(np.ceil(windows.radius / limits[RHOS[-1]] * (1.0 + 1e-9)), 1.0)
        if not parts.sum() <= _MOST:
            return None
        pieces = windows.cut(parts.astype(np.intp))
        small = pieces.radius <= limits[RHOS[0]]
        return pieces._replace(rho=np.where(small, RHOS[0], RHOS[-1]))

    def bounds(self, windows: Windows, target: float | None) -> Bounds:
        """Bounds on the sum for windows with one ellipse."""
        rho = float(windows.rho[0])
        degree = 4
        while degree < _HIGHEST and _BOUND * truncation(degree, rho) > self.missable:
            degree += 2
        value, error = self._sums(nodes_of(windows, degree)[0])
        return bounds(windows, value, error, degree, _BOUND * truncation(degree, rho), target)

    def _sums(self, p: Floats) -> tuple[Floats, Floats]:
        value, error = np.empty_like(p), np.empty_like(p)
        first, last = self._near(p)
        size = max(64, _BLOCK // max(1, int((last - first).max())))
        for block in (slice(i, i + size) for i in range(0, p.size, size)):
            value[block], error[block] = self._sum(p[block], first[block], last[block])
        return value, error

    def _near(self, p: Floats) -> tuple[Indices, Indices]:
        """The cells that matter: a cell adds at most what the blended density has in it."""
        blended, reach = p + (1.0 - self._order) * self._d, FADED * self._scale
        first = np.searchsorted(self._highs, blended - reach)
        return first, np.searchsorted(self._lows, blended + reach, side="right")

    def _sum(self, p: Floats, first: Indices, last: Indices) -> tuple[Floats, Floats]:
        columns = first[:, None] + np.arange(max(1, int((last - first).max())))
        present = columns < last[:, None]
        columns = np.minimum(columns, self._lows.size - 1)
        low, high = self._lows[columns], self._highs[columns]
        (near, off), (far, more) = (self._logs(low, high, p, offset) for offset in (0.0, self._d))
        a, lift = self._order, self._order * (self._order - 1.0) * (self._d / self._scale) ** 2 / 2.0
        parts = np.where(present, np.exp(a * near - (a - 1.0) * far - lift), 0.0) / math.sqrt(2.0 * math.pi)
        wrong = a * off + (a - 1.0) * more + 8.0 * UNIT * (a * np.abs(near) + (a - 1.0) * np.abs(far) + lift + 1.0)
        wrong = wrong + self._wobble
        wrong = np.where(wrong < 1.0, np.expm1(np.minimum(wrong, 1.0)) + 2.0**-48, np.inf)  # more is not known at all
        parts = np.where(np.isinf(wrong) & present, 1.0, parts)
        total, error = parts.sum(axis=1), np.where(present, parts * wrong, 0.0).sum(axis=1)
        if self._span is not None:  # there the blended density itself counts
            place = self._laws.at(p, np.full_like(p, (1.0 - a) * self._d))
            start, end = (np.full_like(p, end) for end in self._span)
            mass, part = (x / math.sqrt(2.0 * math.pi) for x in self._laws.between(start, end, place))
            total, error = total + mass, error + part + 16.0 * UNIT * a * self._d / self._scale * mass
        return total, error + (columns.shape[1] + 4.0) * UNIT * total + _UNSEEN

    def _logs(self, low: Floats, high: Floats, p: Floats, offset: float) -> tuple[Floats, Floats]:
        """The logarithms of the masses of cells about p + offset, and their errors; from the end next to it."""
        at = (p + offset)[:, None]
        inside = (low <= at) & (at <= high)
        nearest = np.where(inside, at, np.where(at < low, low, high))
        place = Place(np.broadcast_to(p[:, None], low.shape), np.full_like(low, offset), nearest, inside)
        mass, error = self._laws.between(low, high, place)
        away = np.where(inside, 0.0, (nearest - place.p) - offset)
        lift = away * away / (2.0 * self._scale**2)
        moved = 8.0 * UNIT * np.abs(away) * (np.abs(away) + 2.0 * abs(offset)) / self._scale**2
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(mass) - lift, np.where(mass > 0.0, error / mass, np.inf) + moved
