"""The Renyi divergence of a pair as an objective of the worst-case search."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

from rangebound.laws.family import Curve, Noise
from rangebound.laws.shape import Shape
from rangebound.privacy.pairs.divergences import renyi_formula
from rangebound.privacy.pairs.exact import (
    Mapped,
    Pair,
    Truncated,
)
from rangebound.privacy.pairs.laplace_pair import top_renyi
from rangebound.privacy.pairs.truncated_gaussian_grid import ROUNDED
from rangebound.privacy.search.branch_and_bound import enclose
from rangebound.privacy.search.cell_bound import LOW, Task, bound
from rangebound.privacy.search.endless_lattice import Ceiling, renyi_ceiling
from rangebound.privacy.search.objective import LONG, PairObjective
from rangebound.privacy.search.positions import SearchLine
from rangebound.privacy.search.rounded_lattice import rounded_top
from rangebound.values.array_types import Floats
from rangebound.values.ball import INFINITY, Ball, ball, down, smallest, up
from rangebound.values.numeric import rounded_up

_WINDOW = 9.0  # scales: what Gaussian noise has farther out than this is as good as nothing


_FINE = 200.0  # cells in a scale: from there on rounding hides next to nothing


class Renyi(PairObjective):
    """The Renyi divergence of a fixed finite order."""

    def __init__(self, noise: Noise, shape: Shape, order: float, kind: Pair | None = None) -> None:
        super().__init__(noise, shape, kind)
        self.order = ball(order)

        self._cells, self._rounded = shape.cells, dict[str, Ball]()
        rounded = bool(shape.cells) and not shape.spans
        self.attained = not (rounded and self._gaussian)
        self._size = min(self._size, LONG) if rounded else self._size
        self._clamped: Renyi | None = None
        if rounded and len(shape.cells) > LONG:
            low, high = shape.cells[0][1], shape.cells[-1][0]
            if (high - low) * _FINE < noise.scale * len(shape.cells):
                ends = Shape(((low, high),), (low, high), (shape.cells[0], shape.cells[-1]))
                self._clamped = Renyi(noise, ends, order)

    def value(self, p: Ball, d: Ball) -> Ball:
        value: Ball = self.family.renyi(p, d, self.order)
        return value

    def cuts(self, line: SearchLine) -> list[float]:
        """Of cells much narrower than the noise none matters by itself, and clamping is as good a bound."""
        return super().cuts(line) if self._clamped is None else self._clamped.cuts(line)

    def seeds(self, line: SearchLine) -> list[float]:
        """Also where Gaussian laws of a large order have their product of powers in the middle of the support."""
        found = [*super().seeds(line), *self._scanned(line, self._formula)]
        if self._lattice is not None:
            found = [*found, *self._middles(line, self._lattice_top(line.d).position, float((1 - self.order) * line.d))]
        return [*found, *(x + (up(self.order) - 1.0) * (line.far - line.near) for x in found if self._gaussian)]

    def ceiling(self, start: float, end: float, d: Ball) -> Ball:
        """Maps are post-processing of the unbounded noise; truncation adds at most order/(order-1) log 1/Z."""
        free = self.free.renyi(ball(0.0), d, self.order)
        if isinstance(self.family, Mapped):
            best = self._rounded_top(start, end, d, free)
            if self._clamped is not None:  # rounding comes after clamping to the outermost cuts
                clamped = Task(self._clamped, SearchLine(start, end, up(d)))
                best = smallest(best, ball(bound(clamped, start, end, order=LOW)))
            (first, _), (_, last) = self.family.cuts[0], self.family.cuts[-1]
            if math.isinf(start) and math.isfinite(end) and math.isfinite(first):
                best = smallest(best, self.family.renyi_left(ball(end), d, self.order))
            if math.isinf(end) and math.isfinite(start) and math.isfinite(last):
                best = smallest(best, self.family.renyi_right(ball(start), d, self.order))
            return best
        best = top_renyi(most, self.order) if (most := self._most(d)).is_finite() else INFINITY
        best = smallest(best, self._in_middle(start, end, d))
        if self._lattice is not None:
            off = self._off(start, end, self.order * d)
            if off is not None:
                best = smallest(best, self._lattice_top(d).value + 2 * off * self.order / (self.order - 1))
        mixed = down(ball(start) - (self.order - 1) * d)
        elsewhere, rate = self._part(mixed, up(ball(end) + d))
        if elsewhere < 1:
            inside = free if rate is None else top_renyi(rate * d / 2, self.order)
            best = smallest(best, inside + elsewhere.log1p() * self.order / (self.order - 1))
        if isinstance(self.family, Truncated) and not elsewhere.is_zero():
            normaliser = self.family.least_normaliser(start, end)
            if normaliser > 0.5:
                best = smallest(best, free - normaliser.log() * self.order / (self.order - 1))
        if math.isinf(start) or math.isinf(end):
            tail = self._tail(start, end, d, self.order)
            best = tail if tail.is_finite() and not tail > best else best
        return best

    def _formula(self, p: Floats, q: Floats) -> Floats:
        values: Floats = renyi_formula(self._noise, self._shape, p, q, float(self.order))
        return values

    def _middle_top(self, kind: Pair, points: tuple[float, ...], line: SearchLine, off: Ball) -> Ball:
        window = Renyi(self._noise, Shape(points=points, normalised=True), up(self.order), kind)
        return enclose([Task(window, line)]).upper + 2 * off * self.order / (self.order - 1)

    def _lattice_top(self, d: Ball) -> Ceiling:
        """The largest value on the endless lattice of which the grid is a part."""
        key = str(d)
        if key not in self._tops:
            assert self._lattice is not None
            self._tops[key] = renyi_ceiling(self._lattice.step, self.family.noise.scale, self.order, d)
        return self._tops[key]

    def _rounded_top(self, start: float, end: float, d: Ball, free: Ball) -> Ball:
        """For rounding to a long regular grid: the supremum over one step of the endless grid, of which it is a part.

        Rounding to the endless grid and collecting what lies beyond the ends is rounding to the grid itself. Noise cut
        at a limit lacks a mass t on either side: an end of the grid adds at most (1 - t/Q)^(1-order) times as much,
        with Q what it collects without the cut, and all is divided by 1 - 2t.
        """
        key = str(d)
        if key not in self._rounded:
            self._rounded[key] = self._endless(self._noise.untruncated, d)
        top = self._rounded[key]
        if not self._noise.limited or not top.is_finite():
            return smallest(free, top)
        if math.isinf(start) or math.isinf(end):
            return free
        exact, cuts = self.family.noise.untruncated, self.family.cuts
        cut = exact.cdf(-self.family.noise.limit)
        lowest = exact.cdf(ball(cuts[0][0]) - ball(end) - d)
        highest = exact.sf(ball(cuts[-1][1]) - ball(start) - d)
        lacking = cut / smallest(lowest, highest)
        if not lacking < 1:
            return free
        return smallest(free, top - (1 - lacking).log() - (1 - 2 * cut).log() / (self.order - 1))

    def _endless(self, noise: Noise, d: Ball) -> Ball:
        """The supremum on the endless grid; `inf` where it is not worth its cost."""
        if len(self._cells) < LONG or noise.curve is Curve.OTHER:
            return INFINITY
        if noise.gaussian:
            found = rounded_top(noise, self._cells, self.order, d)
            if found.sharp:
                return found.value
        step, off = _regular_step(self._cells)
        if off > (0 if noise.gaussian else ROUNDED * Fraction(step)):
            return INFINITY
        if noise.gaussian:  # all that counts is around where the product of powers of the densities is
            centre = down((1 - self.order) * d)
            low, high = centre - _WINDOW * noise.scale, centre + _WINDOW * noise.scale
        else:  # outside the pair the ratio is constant
            low, high = -step, up(d) + step
        first, last = math.floor(low / step) - 1, math.ceil(high / step) + 2
        cuts = [step * k for k in range(first, last + 1)]
        off += max(abs(Fraction(cut) - Fraction(step) * k) for k, cut in enumerate(cuts, start=first))
        if (off and noise.gaussian) or len(cuts) > 4 * len(self._cells):
            return INFINITY
        cells = ((-math.inf, cuts[0]), *itertools.pairwise(cuts), (cuts[-1], math.inf))
        period = _Endless(noise, Shape(points=tuple(c[0] for c in cells), cells=cells), self.order)
        top = ball(enclose([Task(period, SearchLine(0.0, step, up(d), up(d) - down(d)))]).upper)
        # A cell has at least b (1 - e^{-w/b}) times the density at its end, so that a cut that moves by `off` moves the
        # logarithm of its mass by no more than off over that; w is more than half a step, and a cell has two cuts.
        rate = -1 / (noise.scale * (-ball(0.5 * step) / noise.scale).expm1())
        moved = 2 * ball(rounded_up(off)) * rate
        return top + moved * (2 * self.order - 1) / (self.order - 1)


class _Endless(PairObjective):
    """Renyi divergence after rounding to an endless grid, from a window of it."""

    def __init__(self, noise: Noise, shape: Shape, order: Ball) -> None:
        super().__init__(noise, shape)
        self.order = order

    def value(self, p: Ball, d: Ball) -> Ball:
        value: Ball = self.family.renyi(p, d, self.order, open_ends=True)
        return value

    def ceiling(self, start: float, end: float, d: Ball) -> Ball:
        return self.free.renyi(ball(0.0), d, self.order)


def _regular_step(cells: tuple[tuple[float, float], ...]) -> tuple[float, Fraction]:
    """The mean distance of the cuts of a grid, and the farthest that a cut is off its place."""
    cuts = [Fraction(high) for _, high in cells[:-1]]
    step = float((cuts[-1] - cuts[0]) / (len(cuts) - 1))
    return step, max(abs(cut - cuts[0] - k * Fraction(step)) for k, cut in enumerate(cuts))
