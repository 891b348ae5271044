"""The supremum over all pairs of answers, enclosed by windows in floats or by branch and bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rangebound.laws.family import Noise
from rangebound.laws.shape import UNBOUNDED_SHAPE, Shape
from rangebound.privacy.pairs.exact import Mapped, family, mapped
from rangebound.privacy.search.branch_and_bound import DECIDING, Found, enclose
from rangebound.privacy.search.cell_bound import Task
from rangebound.privacy.setting import SearchLine, Setting
from rangebound.privacy.windows import gaussian_worst, laplace_rounded, laplace_windows
from rangebound.privacy.windows.gaussian_hockey_stick import loss_bounds
from rangebound.privacy.windows.gaussian_laws import Laws
from rangebound.values.ball import PRECISIONS, Ball, ball, precision, refine, up

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
    """Whether laws are Gaussian and truncated, and there is more to do than to follow a wide span over its inside."""
    shape, hull = setting.shape, setting.answers.hull
    if not setting.noise.gaussian or not shape.normalised:
        return False
    low, high = shape.ends
    wide = len(shape.spans) == 1 and high - low > setting.noise.scale
    return not (wide and low <= hull.lower and hull.upper <= high)


_FEW = 8  # lines that are all evaluated


def lossy_pairs(setting: Setting) -> list[tuple[Setting, SearchLine]]:
    """Every direction with every line of pairs but those that surely lose less than another, where there are many."""
    pairs = setting.pairs()
    if len(pairs) <= _FEW or not by_windows(setting):
        return pairs
    found, lows, highs = [], [], []
    for side in setting.sides():
        mine = [(side, line) for line in side.lines()]
        ends, apart = np.asarray([(line.end, line.far - line.near) for _, line in mine]).T
        finite = np.where(np.isfinite(ends), ends, side.shape.ends[0])  # the loss rises with the position
        low, high = loss_bounds(Laws(side.noise.scale, side.shape), finite, apart)
        found += mine
        lows += list(np.where(np.isfinite(ends), low, -np.inf))
        highs += list(np.where(np.isfinite(ends), high, np.inf))
    return [pair for pair, high in zip(found, highs, strict=True) if high >= max(lows)]


def loss_is_pinned(setting: Setting) -> bool:
    """Whether a theorem pins the largest loss to an end of the range (see `worst_loss`)."""
    if not setting.shape.normalised or setting.noise.gaussian:
        return True
    return setting.noise.exponential and len(setting.shape.spans) == 1


def loss_values(setting: Setting) -> list[Ball]:
    """The losses at the ends of every line, in both directions, at the precision in force."""
    return [_loss_at(side, at, line.d) for side, line in setting.pairs() for at in _loss_places(side, line)]


def loss_on(side: Setting, line: SearchLine) -> tuple[Ball, float]:
    found = [(refine(lambda at=at: _loss_at(side, at, line.d)), at) for at in _loss_places(side, line)]  # type: ignore[misc]
    return max(found, key=lambda each: up(each[0]))


def _loss_places(side: Setting, line: SearchLine) -> list[float]:
    """The ends of the line and, for a map of noise of limited reach, where it may show an edge.

    There a cut c distinguishes the pair with certainty while p lies in [c + limit - d, c + limit). A line that meets
    such a stretch meets it at the position nearest to its middle; one that meets none has the loss monotone as before.
    """
    places = {line.start, line.end}
    if side.noise.limited and side.shape.normalised:
        # Where nothing shows, this is a Laplace law: constant left of the support, with its loss falling inside.
        places.add(min(max(side.shape.ends[0], line.start), line.end))
    elif side.noise.limited:
        for first, last in Mapped(side.noise, side.shape).cuts:
            middle = 0.5 * first + 0.5 * last + side.noise.extent - 0.5 * (line.far - line.near)
            if not math.isnan(middle):
                places.add(min(max(middle, line.start), line.end))
    return sorted(places)


def _loss_at(side: Setting, position: float, d: Ball) -> Ball:
    """The loss at a position, or its limit at an infinite one; it only rises towards the right there."""
    if math.isfinite(position):
        return family(side.noise, side.shape).loss(ball(position), d)
    if position < 0.0:
        return ball(0.0)
    ends = side.shape.ends
    if side.shape.normalised and side.noise.gaussian and all(map(math.isfinite, ends)):
        return d * (ball(ends[1]) - ball(ends[0])) / ball(side.noise.scale) ** 2
    return Mapped(side.noise, UNBOUNDED_SHAPE).loss(ball(0.0), d)


def delta_on(side: Setting, line: SearchLine, epsilon: float) -> tuple[Ball, float]:
    where = [line.start]

    def evaluate() -> Ball:
        value, where[0] = mapped(side.noise, side.shape).stick_over(line.start, line.end, line.d, ball(epsilon))
        return value

    return refine(evaluate), where[0]
