"""The supremum over all pairs of answers, enclosed by windows in floats or by branch and bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rangebound.laws.family import Noise
from rangebound.laws.shape import Shape
from rangebound.privacy.search.branch_and_bound import DECIDING, Found, enclose
from rangebound.privacy.search.cell_bound import Task
from rangebound.privacy.setting import Setting
from rangebound.privacy.windows import gaussian_worst, laplace_rounded, laplace_windows
from rangebound.values.ball import PRECISIONS, precision

Make = Callable[[Noise, Shape], Any]


def tasks(setting: Setting, make: Make) -> list[Task]:
    """What there is to search: every line of pairs in both directions, one objective for all lines of a direction."""
    found = []
    for side in setting.sides():
        objective = make(side.noise, side.shape)
        found += [Task(objective, line) for line in side.lines()]
    return found


def enclosed(
    setting: Setting, make: Make, target: float | None = None, near: Sequence[tuple[int, float]] = ()
) -> Found:
    """By windows in floats where they can, else branch and bound at growing precision until it closes or decides."""
    quick = None
    if setting.noise.exponential:
        by_window = laplace_windows.enclosed if setting.shape.normalised else laplace_rounded.enclosed
        with precision(PRECISIONS[0]):
            quick = by_window(tasks(setting, make), target)
    elif setting.noise.gaussian and (by_windows(setting) or not setting.shape.normalised):
        quick = gaussian_worst.enclosed(tasks(setting, make), target)
    if quick is not None and _decided(quick, target):
        return quick
    found = None
    for prec in PRECISIONS[:3]:
        with precision(prec):
            found = enclose(tasks(setting, make), target, near)
        if _decided(found, target) or math.isinf(found.lower) or len(found.cells) >= DECIDING:
            break  # more bits do not help a search that ran out of cells
    assert found is not None
    if quick is None or not quick.upper < found.upper:
        return found
    higher = quick if quick.lower > found.lower else found
    return Found(higher.lower, max(quick.upper, higher.lower), higher.task, higher.position, ())


def _decided(found: Found, target: float | None) -> bool:
    return found.closed if target is None else found.upper <= target or found.lower > target


def by_windows(setting: Setting) -> bool:
    """Whether laws are Gaussian and truncated, and there is more to do than to follow one span over its inside."""
    shape, hull = setting.shape, setting.answers.hull
    if not setting.noise.gaussian or not shape.normalised:
        return False
    low, high = shape.ends
    return not (len(shape.spans) == 1 and low <= hull.lower and hull.upper <= high)
