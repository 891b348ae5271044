"""The Renyi divergence of Laplace noise that was rounded to a grid, on windows of positions (see `laplace_windows`).

Between neighbouring kinks (positions at which p or q = p + d meets a cut between cells) p stays in cell i and q in cell
j. In units of the scale, all cells left of i have the ratio P/Q = e^d, all right of j have e^-d, a cell [l, h] between
the two adds e^{a(p-l) + (a-1)(q-h)} (1 - e^{l-h})/2 to the sum of P^a Q^(1-a), and i and j are left. So the sum takes a
few terms, analytic in p. It is taken relative to e^{(a-1)d}, which is the most that it can be. While both are in inner
cells it is the same for every step of a regular grid, so one step stands for all. Noise of limited reach that reaches
every cut from every answer has the same masses but for the outermost cells, which lack what is beyond the limit.
papers/numerics.md has the proofs ("Rounded Laplace noise").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from rangebound.laws.boundings import Shape
from rangebound.laws.family import Noise
from rangebound.privacy.branch_and_bound import Found, Task
from rangebound.privacy.objectives import Renyi
from rangebound.privacy.pairs.truncated_grid import spacing
from rangebound.privacy.setting import SearchLine
from rangebound.privacy.windows.chebyshev import UNIT, Discs, difference, exactly, where
from rangebound.privacy.windows.laplace_windows import RADII, Problem, search
from rangebound.privacy.windows.segments import Ends, LaplaceWindows, joined, rate_of, running, windows_of
from rangebound.values.array_types import Floats, Indices, np

_NARROW = 1.0  # scales: in narrower cells differences of masses are taken from the middle
_REGULAR = 3e-9  # relative to the result: by so little the rounding of cuts may move it where one step stands for all
_LEAST = 1e-250  # added to the sum: more than floats lose where it vanishes, and nothing where it is largest
_LONG = 8  # cells of a grid whose steps are compared


def enclosed(tasks: Sequence[Task], target: float | None = None) -> Found | None:
    """The supremum over all tasks, or on which side of the target it lies; None where floats cannot tell.

    Guarantee: the upper end is proved with every rounding covered, the lower end is a value in ball arithmetic.
    Assumes: all tasks are of one mechanism, each direction with one objective.
    Edge cases: None for all but Renyi divergences of rounded Laplace noise, for a single cell, where noise of limited
    reach does not reach a cut from an answer, and for numbers so small that doubles do not carry them.
    """
    if not tasks or not all(_fits(task) for task in tasks):
        return None
    work: list[tuple[Problem, LaplaceWindows]] = []
    for objective in {id(task.objective): task.objective for task in tasks}.values():
        assert isinstance(objective, Renyi)
        noise, cuts = objective.noise, [high for _, high in objective.shape.cells[:-1]]
        numbers = [number for number, task in enumerate(tasks) if task.objective is objective]
        lines = {number: tasks[number].line for number in numbers}
        if noise.limited:
            if not all(_reaches(noise, cuts, line) for line in lines.values()):
                return None
        else:
            lines = {number: clipped(line, cuts) for number, line in lines.items()}
        with np.errstate(all="ignore"):
            ends = _ends(cuts, noise.scale, list(lines.values()))
            windows = joined([windows_of(ends, number, line) for number, line in lines.items()])
            if {*windows.line.tolist()} != {*numbers}:
                return None
            wobble = _wobble(objective, cuts, list(lines.values()))
            if wobble is not None:
                windows = folded(ends, windows, wobble)
                inner = (np.arange(ends.widths.mid.size) > 0) & (np.arange(ends.widths.mid.size) < len(cuts))
                ends = ends._replace(widths=_wider(ends.widths, np.where(inner, wobble, 0.0)))
            work.append((_problem(objective, ends, wobble or 0.0), windows))
    with np.errstate(all="ignore"):  # what is not finite is unknown
        return search(tasks, work, target)


def _fits(task: Task) -> bool:
    objective, line = task.objective, task.line
    if not isinstance(objective, Renyi) or not objective.noise.exponential:
        return False
    shape: Shape = objective.shape
    rounded = not shape.normalised and not shape.spans and len(shape.cells) > 1
    return rounded and math.isfinite(line.far - line.near) and bool(objective.order > 1)


def _reaches(noise: Noise, cuts: list[float], line: SearchLine) -> bool:
    """Whether the noise reaches every cut from both answers, wherever on the line."""
    if not (math.isfinite(line.start) and math.isfinite(line.end)):
        return False
    limit, d = Fraction(noise.extent), Fraction(line.far) - Fraction(line.near)
    left, right = Fraction(line.start), Fraction(line.end) + d
    return right - Fraction(cuts[0]) < limit and Fraction(cuts[-1]) - left < limit


def clipped(line: SearchLine, cuts: list[float]) -> SearchLine:
    """The part of a line on which the sum is largest, for noise of unlimited reach.

    While q is left of all cuts, let x be the mass of P right of the first one. Both laws are affine in x and agree at
    0, and the sum is convex in a pair of laws and least where they agree: it rises with p. Likewise it falls while p
    is right of all cuts.
    """
    d = line.far - line.near
    slop = 8.0 * UNIT * (abs(cuts[0]) + abs(cuts[-1]) + d)
    start = min(max(line.start, cuts[0] - d - slop), line.end)
    return SearchLine(start, max(min(line.end, cuts[-1] + slop), start), line.far, line.near)


def _ends(cuts: list[float], scale: float, lines: list[SearchLine]) -> Ends:
    """The cuts, and a place on either side beyond all positions, which is there to measure from."""
    far = max(line.far - line.near for line in lines)
    slop = 64.0 * UNIT * (max(abs(x) for line in lines for x in (line.start, line.end, *cuts)) + far) + scale
    first = min([cuts[0], *(line.start for line in lines)]) - slop
    last = max([cuts[-1], *(line.end for line in lines)]) + far + slop
    places = np.asarray([first, *cuts, last])
    widths = difference(places[1:], places[:-1]) / scale
    nothing = exactly(np.zeros(places.size))
    return Ends(places, np.zeros(places.size - 1), widths, nothing, nothing, scale, True)


def _wobble(objective: Renyi, cuts: list[float], lines: list[SearchLine]) -> float | None:
    """How far, in scales, cuts that are equally many apart may differ in their distance; None where that matters.

    The result is about a d^2/2 for small distances d and orders a, and moves by a few times as much as a cut.
    """
    if len(cuts) < _LONG or not objective.noise.laplace:
        return None
    step, off = spacing(tuple(cuts))
    scale, order = objective.noise.scale, float(objective.order)
    moved = 2.0 * float(off * step) / scale * (1.0 + 1e-9)
    d = min(line.far - line.near for line in lines) / scale
    return moved if moved * 4.0 * order / (order - 1.0) <= _REGULAR * min(order * d * d, d) else None


def folded(ends: Ends, windows: LaplaceWindows, wobble: float) -> LaplaceWindows:
    """Of windows that differ by the step alone, both cells inner ones, one that holds all."""
    last = ends.places.size - 2
    tolerance = 2.0 * wobble * ends.scale + 128.0 * UNIT * float(np.abs(ends.places).max())
    inner, cells = (windows.first > 0) & (windows.second < last), windows.second - windows.first
    parts = [windows.at(~inner)]
    for task, apart in sorted({*zip(windows.line[inner].tolist(), cells[inner].tolist(), strict=True)}):
        mine = np.flatnonzero(inner & (windows.line == task) & (cells == apart))
        model = mine[mine.size // 2]
        near = np.abs(windows.low[mine] - windows.low[model]) <= tolerance
        near &= np.abs(windows.high[mine] - windows.high[model]) <= tolerance
        parts.append(windows.at(mine[~near]))
        one, alike = windows.at(slice(model, model + 1)), mine[near]
        low, high = windows.low[alike].min(keepdims=True), windows.high[alike].max(keepdims=True)
        parts.append(one._replace(low=low, high=high, apart=_wider(one.apart, wobble)))
    return joined(parts)


def _wider(discs: Discs, more: Floats | float) -> Discs:
    return Discs(discs.mid, discs.rad + more)


class _LaplaceCells(NamedTuple):
    """Cells of a grid, and what of their sums does not depend on the positions."""

    ends: Ends  # the cuts are all but the first and the last
    order: float
    between: Discs  # for each end the sum over the inner cells on its right as seen from there, but for the factor 1/2
    limit: Discs | None  # in scales
    wobble: float  # the same: how far distances of cuts may be off


def _problem(objective: Renyi, ends: Ends, wobble: float) -> Problem:
    order, noise = float(objective.order), objective.noise
    limit = exactly(noise.extent) / noise.scale if noise.limited else None
    cells = _LaplaceCells(ends, order, _between(ends, order), limit, wobble)
    radii = (*RADII[:2], min(RADII[2], 0.3 / order))
    return Problem(ends, None, lambda windows, _, sigma: _renyi(cells, windows, sigma), radii)


def _between(ends: Ends, order: float) -> Discs:
    """A cell of width w at distance s adds (1 - e^-w) e^{-(2a-1)s - (a-1)w}."""
    inner = ends.widths.at(slice(-2, 0, -1))
    fade = (-(inner * rate_of(order))).expm1()
    less = exactly(order) - 1.0
    own = (-inner).expm1() * (-(inner * less)).exp()
    found = running(fade, own / fade, points=False)
    return Discs(*(np.concatenate([[0.0], each[::-1], [0.0]]) for each in (found.mid, found.rad)))


class _Place(NamedTuple):
    """One of the two locations among the cells: distances from the ends of its cell, and those in scales."""

    cell: Indices
    before: Discs
    after: Discs


def _renyi(cells: _LaplaceCells, windows: LaplaceWindows, sigma: Discs) -> Discs:
    """d + log(T)/(a-1), T the sum of P^a Q^(1-a) relative to e^{(a-1)d}."""
    ends, d = cells.ends, _column(windows.d)
    tau = sigma + _column(windows.apart)
    i, j = windows.first[:, None], windows.second[:, None]
    p = _Place(i, sigma, ends.widths.at(i) - sigma)
    q = _Place(j, tau, ends.widths.at(j) - tau)
    less, last = (exactly(cells.order) - 1.0, ends.places.size - 2)
    here, there = _own(cells, p), _own(cells, q)
    log_here, log_there = here.log(), there.log()
    # where both are in one cell; else Q is e^{-d} times e^after (1 - e^-w) in that of p, as P is in that of q
    same = here * ((log_here - log_there - d) * less).exp()
    of_p, of_q = (_seen(cells, i, d - p.after, 0), _seen(cells, j, d - q.before, last))
    own = here * ((log_here - p.after - of_p.log()) * less).exp()
    ratio = q.before + of_q.log() - d * 2.0 - log_there
    other = of_q * (q.before - d + ratio * less).exp()
    total = where(i == j, same, own + other + _inner(cells, windows, p))
    total = total + _left(cells, windows, p) + _right(cells, windows, q)
    if cells.limit is not None:
        total = total / -(-cells.limit).expm1()
    return d + ((total + _LEAST) * 0.5).log() / less


def _column(each: Discs) -> Discs:
    return each.at((slice(None), None))


def _own(cells: _LaplaceCells, at: _Place) -> Discs:
    """Twice the mass of the cell in which a location lies: (1 - e^-before) + (1 - e^-after), if it has both ends.

    In a narrow cell of width w it is 2 (1 - e^-w/2) - e^-before (e^u - 1)^2, u = before - w/2, which does not cancel.
    """
    width = cells.ends.widths.at(at.cell) * 0.5
    left, right = (-(-each).expm1() for each in (at.before, at.after))
    off = (at.before - width).expm1()
    narrow = (-width).expm1() * -2.0 - (-at.before).exp() * (off * off)
    inner = where(width.mid < 0.5 * _NARROW, narrow, left + right)
    outer = exactly(1.0) if cells.limit is None else -(-cells.limit).expm1()
    found = where(at.cell == 0, outer + right, inner)
    return where(at.cell == cells.ends.places.size - 2, outer + left, found)


def _seen(cells: _LaplaceCells, cell: Indices, away: Discs, outermost: int) -> Discs:
    """1 - e^-w for a cell as seen from `away` outside of it; the outermost one ends at the limit."""
    inner = -(-cells.ends.widths.at(cell)).expm1()
    outer = exactly(1.0) if cells.limit is None else -(away - cells.limit).expm1()
    return where(cell == outermost, outer, inner)


def _inner(cells: _LaplaceCells, windows: LaplaceWindows, p: _Place) -> Discs:
    """The cells strictly between the two locations."""
    ends, rate = cells.ends, rate_of(cells.order)
    first, second = windows.first[:, None] + 1, windows.second[:, None]
    gap = _wider(difference(ends.places[first], ends.places[second]) / ends.scale, cells.wobble)
    found = cells.between.at(first) - cells.between.at(second) * (gap * rate).exp()
    some = where(second > first, found, exactly(np.zeros((1, 1))))
    return (-(p.after * rate)).exp() * some


def _left(cells: _LaplaceCells, windows: LaplaceWindows, p: _Place) -> Discs:
    """The cells left of both locations. What the limit takes from the first one changes its ratio as well."""
    found = (-p.before).exp()
    if cells.limit is not None:
        ends = cells.ends
        away = difference(ends.places[windows.first], ends.places[1]) / ends.scale
        away = _column(away) + p.before
        found = found + (-away).exp() * _less(cells, away, away + _column(windows.d))
    return where(p.cell > 0, found, exactly(np.zeros((1, 1))))


def _right(cells: _LaplaceCells, windows: LaplaceWindows, q: _Place) -> Discs:
    """The cells right of both locations."""
    found = (-q.after).exp()
    if cells.limit is not None:
        ends = cells.ends
        away = difference(ends.places[-2], ends.places[windows.second]) / ends.scale
        away = _column(away) - q.before
        found = found + (-away).exp() * _less(cells, away + _column(windows.d), away)
    found = found * (-(_column(windows.d) * rate_of(cells.order))).exp()
    return where(q.cell < cells.ends.places.size - 2, found, exactly(np.zeros((1, 1))))


def _less(cells: _LaplaceCells, of_p: Discs, of_q: Discs) -> Discs:
    """x (x/y)^(a-1) - 1 with x = 1 - e^{s-L} and y alike, for an outermost cell at distances s from p and q."""
    assert cells.limit is not None
    x, y = (-(away - cells.limit).expm1() for away in (of_p, of_q))
    less = exactly(cells.order) - 1.0
    return (x.log() + (x / y).log() * less).expm1()
