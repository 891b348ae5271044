"""Worst cases of truncated Gaussian laws over whole lines of pairs, by windows of positions (see `windows`)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rangebound.ball import PRECISIONS, ball, down, precision, up
from rangebound.law import Shape
from rangebound.noise import Gaussian
from rangebound.privacy.chebyshev import UNIT, truncation
from rangebound.privacy.gaussian_laws import Laws
from rangebound.privacy.gaussian_rounded import rounded_renyi
from rangebound.privacy.gaussian_sticks import stick
from rangebound.privacy.objectives import Delta, Renyi
from rangebound.privacy.search import Found, Task
from rangebound.privacy.windows import Bounds, Highest, Windows, bounds, folded, highest, nodes_of, settled, windows_of

_DEGREES = {32.0: 14, 4.0: 32}  # of polynomials, by the ellipse
_BENT = 2.5  # bound on A less its tangent in the ellipse
_LOOSE = 1e-7  # relative: how far a ceiling may be above the largest value
_REACH, _DOUBLINGS = 8.0, 7  # scales beyond the support on an endless line at first, and how often as many more


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
    """The same for the lines of one direction. What lies far outside the support is left to the ceilings."""
    if not isinstance(objective, (Delta, Renyi)) or not isinstance(objective.noise, Gaussian):
        return None
    if not objective.shape.normalised and not isinstance(objective, Renyi):
        return None
    scale, shape = objective.step(), objective.shape
    finite = sorted(x for x in _ends(shape) if math.isfinite(x))
    if not finite:
        return None
    found = Highest(0.0, -math.inf, numbers[0], math.nan)
    inner = (math.inf, -math.inf)
    for k in range(_DOUBLINGS):
        reach = _REACH * 2.0**k * scale + max(tasks[number].line.far - tasks[number].line.near for number in numbers)
        outer = (float(finite[0]) - reach, float(finite[-1]) + reach)
        windows = _between(tasks, numbers, outer, inner)
        if windows.start.size:
            more = _largest(objective, windows, target)
            if more is None:
                return None
            higher = more if more.lower > found.lower else found
            found = higher._replace(upper=max(found.upper, more.upper))
        if target is not None and found.lower > target:
            break
        beyond = _beyond(objective, tasks, numbers, outer)
        if beyond <= (found.lower * (1.0 + _LOOSE) if target is None else target):
            found = found._replace(upper=max(found.upper, beyond))
            break
        inner = outer
    else:
        return None
    if math.isnan(found.place):
        return None
    with precision(PRECISIONS[0]):
        value = down(objective.value(ball(found.place), tasks[found.line].line.d))
    lower = max(value, 0.0) if math.isfinite(value) else 0.0
    return Found(lower, max(found.upper, lower), found.line, found.place, ())


def _ends(shape: Shape) -> list[float]:
    return [*shape.points, *(end for pair in (*shape.spans, *shape.cells) for end in pair)]


def _largest(objective: Delta | Renyi, windows: Windows, target: float | None) -> Highest | None:
    scale, shape = objective.step(), objective.shape
    with np.errstate(under="ignore"):
        if isinstance(objective, Delta):
            return stick(Laws(scale, shape), float(objective.epsilon), windows, target)
        if shape.normalised:
            return renyi(Laws(scale, shape), float(objective.order), windows, target)
        return rounded_renyi(scale, shape, float(objective.order), windows, target)


def _between(
    tasks: Sequence[Task], numbers: list[int], outer: tuple[float, float], inner: tuple[float, float]
) -> Windows:
    """The parts of the lines between two brackets; one on which the left end lies right of the right end is empty."""
    rows = []
    for number in numbers:
        line = tasks[number].line
        for low, high in ((outer[0], min(inner[0], outer[1])), (max(inner[1], outer[0]), outer[1])):
            start, end = max(line.start, low), min(line.end, high)
            if start <= end:
                rows.append((start, end, line.far - line.near, number, 0, 0.0))
            if inner[0] > inner[1]:
                break  # there is no inner bracket yet
    return windows_of(rows)


def _beyond(objective: Delta | Renyi, tasks: Sequence[Task], numbers: list[int], outer: tuple[float, float]) -> float:
    """The largest ceiling over what the lines have outside of a bracket."""
    lines = [tasks[number].line for number in numbers]
    with precision(PRECISIONS[0]):
        found = [
            up(objective.ceiling(start, end, ball(far) - ball(near)))
            for far, near, start, end in {
                *((line.far, line.near, -math.inf, outer[0]) for line in lines if line.start < outer[0]),
                *((line.far, line.near, outer[1], math.inf) for line in lines if line.end > outer[1]),
            }
        ]
    return max(found, default=-math.inf)


def renyi(laws: Laws, order: float, windows: Windows, target: float | None = None) -> Highest | None:
    """The largest Renyi divergence of an order on windows: (A(p - (a-1)d) - a A(p) + (a-1) A(p + d))/(a - 1)."""
    offsets = (1.0 - order, 0.0, 1.0)
    factors = np.asarray([1.0, -order, order - 1.0]) / (order - 1.0)

    def evaluate(windows: Windows) -> Bounds:
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
    return highest(pieces, lambda some: settled(laws, some, offsets), evaluate, target)
