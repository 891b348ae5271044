"""Worst cases of truncated Gaussian laws over whole lines of pairs, by windows of positions (see `windows`)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from rangebound.laws.boundings import Shape
from rangebound.privacy.search.branch_and_bound import Found, Task
from rangebound.privacy.search.objectives import Delta, Renyi
from rangebound.privacy.setting import SearchLine
from rangebound.privacy.windows.chebyshev import UNIT, truncation
from rangebound.privacy.windows.gaussian_hockey_stick import stick, stick_of_pair
from rangebound.privacy.windows.gaussian_laws import Laws
from rangebound.privacy.windows.gaussian_rounded import rounded_renyi
from rangebound.privacy.windows.gaussian_windows import (
    GaussianWindows,
    Highest,
    WindowBounds,
    bounds,
    folded,
    highest,
    nodes_of,
    subdivided,
    windows_of,
)
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
