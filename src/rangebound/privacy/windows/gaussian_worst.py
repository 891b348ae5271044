"""Worst cases of truncated Gaussian laws over whole lines of pairs, by windows of positions (see `windows`)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from rangebound.laws.boundings import Shape
from rangebound.privacy.branch_and_bound import Found, Task
from rangebound.privacy.objectives import Delta, Renyi
from rangebound.privacy.pairs.truncated_grid import spacing
from rangebound.privacy.setting import SearchLine
from rangebound.privacy.windows.chebyshev import UNIT, Highest, WindowBounds, truncation
from rangebound.privacy.windows.gaussian_hockey_stick import stick, stick_of_pair
from rangebound.privacy.windows.gaussian_laws import Laws, WindowPlace
from rangebound.privacy.windows.gaussian_windows import (
    RHOS,
    GaussianWindows,
    bounds,
    folded,
    highest,
    nodes_of,
    subdivided,
    windows_of,
)
from rangebound.values.array_types import Floats, Indices, np
from rangebound.values.ball import PRECISIONS, ball, down, precision, refine, up

_DEGREES = {32.0: 14, 4.0: 32}  # of polynomials, by the ellipse
_BENT = 2.5  # bound on A less its tangent in the ellipse
_LOOSE = 1e-7  # relative: how far a ceiling may be above the largest value
_APART, _WIDE = 9.0, 20.0  # scales from an end at which it does not show, and of a stretch that is worth a ceiling
_REACH, _DOUBLINGS = 8.0, 7  # lengths beyond the support on an endless line at first, and how often as many more


def enclosed(tasks: Sequence[Task], target: float | None) -> Found | None:
    """The supremum over all tasks, or on which side of a target it lies; None where this method cannot tell.

    The lower end is one evaluation in balls. There are no cells: nothing here can be checked again by `proof`.
    """
    best: Found | None = None
    for objective in {id(task.objective): task.objective for task in tasks}.values():
        numbers = [number for number, task in enumerate(tasks) if task.objective is objective]
        found = _on_side(objective, tasks, numbers, target)
        if found is None:
            return None
        if best is None:
            best = found
            continue
        upper, higher = max(best.upper, found.upper), found if found.lower > best.lower else best
        best = Found(higher.lower, upper, higher.task, higher.position, ())
    return best


def _on_side(objective: object, tasks: Sequence[Task], numbers: list[int], target: float | None) -> Found | None:
    """The same for the lines of one direction.

    Windows are for positions near the support; far outside of it, and in the middle of wide spans, ceilings are sharp.
    """
    if not isinstance(objective, (Delta, Renyi)) or not objective.noise.gaussian:
        return None
    if not objective.shape.normalised and not isinstance(objective, Renyi):
        return None
    ends = sorted(x for x in _ends(objective.shape) if math.isfinite(x))
    if not ends:
        return None
    lines = {number: tasks[number].line for number in numbers}
    search = _Search(objective, lines, target)
    widest = max(line.far - line.near for line in lines.values())
    lonely = _lonely(objective, ends, widest)
    # Across a support narrower than the noise a law tilts over a longer way than a scale.
    scale, width = objective.step(), ends[-1] - ends[0]
    length = scale * max(1.0, scale / width if width > 0.0 else 1.0)
    outer = inner = (math.inf, -math.inf)
    for k in range(_DOUBLINGS):
        reach = _REACH * 2.0**k * length + widest
        inner, outer = outer, (ends[0] - reach, ends[-1] + reach)
        if not search.add(_between(lines, outer, inner, () if k else lonely)):
            return None
        if k == 0 and not all(search.below(*stretch) or search.add(_between(lines, stretch)) for stretch in lonely):
            return None
        if search.above or (search.below(-math.inf, outer[0]) and search.below(outer[1], math.inf)):
            return search.result()
    return None


class _Search:
    """The highest that was found on the lines of one direction, and a bound on all that was looked at."""

    def __init__(self, objective: Delta | Renyi, lines: dict[int, SearchLine], target: float | None) -> None:
        self._objective, self._lines, self._target = objective, lines, target
        self._found = Highest(0.0, -math.inf, min(lines), math.nan)

    @property
    def above(self) -> bool:
        return self._target is not None and self._found.lower > self._target

    def add(self, windows: GaussianWindows) -> bool:
        """Look at windows; False where they do not tell."""
        if not windows.start.size:
            return True
        found = _largest(self._objective, windows, self._target, max(self._found.lower, 0.0))
        if found is not None:
            self._found = (found if found.lower > self._found.lower else self._found)._replace(
                upper=max(found.upper, self._found.upper)
            )
        return found is not None

    def below(self, start: float, end: float) -> bool:
        """Whether a ceiling shows that there is nothing higher at positions in [start, end]."""
        apart = {(line.far, line.near) for line in self._lines.values() if line.start < end and line.end > start}
        with precision(PRECISIONS[0]):
            ceilings = [up(self._objective.ceiling(start, end, ball(far) - ball(near))) for far, near in apart]
        ceiling = max(ceilings, default=-math.inf)
        if not ceiling <= (self._found.lower * (1.0 + _LOOSE) if self._target is None else self._target):
            return False
        self._found = self._found._replace(upper=max(self._found.upper, ceiling))
        return True

    def result(self) -> Found | None:
        """The enclosure; its lower end is the value at one place, in balls or where they do not tell it in floats."""
        found = self._found
        if math.isnan(found.place):
            return None
        line, objective = self._lines[found.line], self._objective
        lower = down(refine(lambda: objective.value(ball(found.place), line.d)))
        if not lower > 0.0 and isinstance(objective, Delta):
            laws = Laws(objective.step(), objective.shape)
            lower = stick_of_pair(laws, float(objective.epsilon), found.place, down(line.d)) or 0.0
        lower = lower if lower > 0.0 else 0.0
        upper = math.inf if self.above else max(found.upper, lower)  # above the target nobody looks any farther
        return Found(lower, upper, found.line, found.place, ())


def _lonely(objective: Delta | Renyi, ends: list[float], d: float) -> list[tuple[float, float]]:
    """Positions in wide spans and gaps at which nothing that matters of a pair lies near an end."""
    if objective.shape.points or not objective.shape.normalised:
        return []
    margin = _APART * objective.step()
    before = (float(objective.order) - 1.0) * d if isinstance(objective, Renyi) else 0.0
    places = ((low + margin + before, high - margin - d) for low, high in itertools.pairwise(ends))
    return [(start, end) for start, end in places if end - start > _WIDE * objective.step()]


def _ends(shape: Shape) -> list[float]:
    return [*shape.points, *(end for pair in (*shape.spans, *shape.cells) for end in pair)]


def _largest(objective: Delta | Renyi, windows: GaussianWindows, target: float | None, known: float) -> Highest | None:
    scale, shape = objective.step(), objective.shape
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):  # what is unknown has no finite bound
        if isinstance(objective, Delta):
            return stick(Laws(scale, shape), float(objective.epsilon), windows, target, known)
        if shape.normalised:
            return renyi(Laws(scale, shape), float(objective.order), windows, target)
        return rounded_renyi(scale, shape, float(objective.order), windows, target)


def _between(
    lines: dict[int, SearchLine],
    outer: tuple[float, float],
    inner: tuple[float, float] = (math.inf, -math.inf),
    holes: Sequence[tuple[float, float]] = (),
) -> GaussianWindows:
    """The parts of the lines in a bracket, less what lies in another one or in holes. An inner bracket may be empty."""
    left_out = [*holes, *([inner] if inner[0] <= inner[1] else [])]
    rows = []
    for number, line in lines.items():
        parts = [(max(line.start, outer[0]), min(line.end, outer[1]))]
        for low, high in left_out:
            parts = [part for start, end in parts for part in ((start, min(end, low)), (max(start, high), end))]
            parts = [(start, end) for start, end in parts if start <= end]
        rows += [(start, end, line.far - line.near, number, 0, 0.0) for start, end in parts if start <= end]
    return windows_of(rows)


def renyi(laws: Laws, order: float, windows: GaussianWindows, target: float | None = None) -> Highest | None:
    """The largest Renyi divergence of an order on windows: (A(p - (a-1)d) - a A(p) + (a-1) A(p + d))/(a - 1)."""
    offsets = (1.0 - order, 0.0, 1.0)
    factors = np.asarray([1.0, -order, order - 1.0]) / (order - 1.0)

    def evaluate(windows: GaussianWindows) -> WindowBounds:
        rho = float(windows.rho[0])
        degree = _DEGREES[rho]
        p, d = nodes_of(windows, degree)
        centre = np.repeat(laws.at(windows.middle, np.zeros_like(windows.d)).nearest, degree + 1)
        value, error = np.zeros_like(p), np.zeros_like(p)
        for factor, each in zip(factors, offsets, strict=True):
            for block in laws.blocks(p, each * d):
                norm, off = laws.natural(laws.see(p[block], each * d[block]), centre[block])
                value[block] += factor * norm
                error[block] += abs(factor) * (off + 4.0 * UNIT * np.abs(norm))
        missed = _BENT * float(np.abs(factors).sum()) * truncation(degree, rho)
        return bounds(windows, value, error, degree, missed, target)

    if any(laws.far(end, each * windows.d).any() for each in offsets for end in (windows.start, windows.end)):
        return None
    pieces = folded(windows, laws.middle(), laws.step, offsets)
    return highest(subdivided(laws, pieces, offsets), evaluate, target)


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
    """The Renyi divergence of Gaussian noise that was rounded or clamped, on windows of positions.

    Cell i of probabilities P and Q adds P^a Q^(1-a). In units of e^{a(a-1) d^2/(2 s^2)}, which the unbounded noise
    has in all, the sum is at most 1. At p + iy a probability is e^{y^2/(2 s^2)} times that at p times the mean of
    e^{i y x/s^2} over the cell, which has at most the variance s^2. For y^2 <= s^2/a no probability vanishes, and
    the sum is at most e times its real value. papers/numerics.md has the proof ("Windows").
    """
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
