"""Branch and bound: a rigorous enclosure of a supremum over positions, or a proof that it stays below a target.

A cell of positions [a, b] is bounded in several ways, and the smallest bound counts:
a ceiling that the objective knows (flat stretches far from the ends, and cells that reach to infinity);
a Taylor polynomial about the middle plus its remainder over the cell, or the value at one end where the polynomial
proves that the slope has one sign;
the wider pair (a, b + d), which dominates every pair of the cell, first order but always there.
Every value at a single position is a lower bound on the supremum.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from rangebound.privacy.search.cell_bound import EASY, HIGH, LOW, Task, bound, middle_of
from rangebound.values.ball import Ball, ball, down, is_taylor, taylor, up

CELLS, DECIDING = 8_000, 1_000
CLIMBS = 16  # lines up to which a maximum is looked for on each of them
KINKS, SEEDS = 32, 2  # that are looked at before the search, and climbed from on an endless line
TOLERANCE = 2e-10
# Where many maxima are nearly as high as the highest (ripples of a grid) the last digits would cost minutes.
PATIENCE, LOOSE = 400, 1e-7
PEAK = 0.125  # steps: as much to either side of the best place is a cell of its own
FLOOR = 1e-300  # a supremum that is proved to be below this is as good as zero


class SearchCell(NamedTuple):
    """Positions [start, end] of task number `task`, and an upper bound on the objective there."""

    task: int
    start: float
    end: float
    upper: float


@dataclass(frozen=True)
class Found:
    """What a search knows: lower <= supremum <= upper, where `lower` is attained, and the cells that prove it."""

    lower: float
    upper: float
    task: int
    position: float
    cells: tuple[SearchCell, ...]

    @property
    def closed(self) -> bool:
        """Whether the enclosure is as narrow as asked."""
        return self.upper <= max(self.lower * (1.0 + LOOSE), FLOOR)


class Incumbent:
    """The largest value seen and where, and where the largest of each task is."""

    def __init__(self) -> None:
        self.value, self.task, self.position = -math.inf, 0, 0.0
        self.tops: dict[int, tuple[float, float]] = {}

    def see(self, task: int, position: float, value: Ball) -> None:
        low = down(value)
        if low > self.tops.get(task, (-math.inf, math.nan))[0]:
            self.tops[task] = low, position
        if low > self.value:
            self.value, self.task, self.position = low, task, position

    def top(self, task: int) -> float:
        """Where the largest value of a task was seen; nan if none was."""
        return self.tops.get(task, (-math.inf, math.nan))[1]


def probe(tasks: Sequence[Task], near: Sequence[tuple[int, float]] = ()) -> Incumbent:
    """The largest value at the ends and kinks of the lines, at a maximum near their middle, and at the seeds.

    `near` lists more places to look at, each with the number of its task.
    """
    best = Incumbent()
    for number, task in enumerate(tasks):
        line = task.line
        inner = [
            x for x in (*task.objective.kinks(line)[:KINKS], *task.objective.seeds(line)) if line.start < x < line.end
        ]
        inner += [x for which, x in near if which == number]
        if task.objective.peaked and math.isfinite(line.start):
            inner.append(climb(task, line.start))
        elif math.isinf(line.start) or math.isinf(line.end):
            inner += [climb(task, x) for x in task.objective.seeds(line)[:SEEDS] if line.start < x < line.end]
        elif line.start < line.end:
            middle = middle_of(line.start, line.end)
            inner.append(climb(task, middle) if len(tasks) <= CLIMBS else middle)
        for position in sorted({x for x in (line.start, line.end, *inner) if math.isfinite(x)}):
            best.see(number, position, task.objective.value(ball(position), line.d))
    if tasks and math.isfinite(best.value) and not tasks[best.task].objective.peaked:
        better = climb(tasks[best.task], best.position)
        best.see(best.task, better, tasks[best.task].objective.value(ball(better), tasks[best.task].line.d))
    return best


def enclose(tasks: Sequence[Task], target: float | None = None, near: Sequence[tuple[int, float]] = ()) -> Found:
    """Enclose the supremum over all tasks; with a target, only decide on which side of it the supremum lies.

    With a target the search ends when every cell is proved to be at most the target (`upper <= target`), or when a
    value above it is found (`lower > target`). If it ends with neither, it ran into its limits. `near` is for `probe`.
    """
    best = probe(tasks, near)
    if best.value == math.inf or (target is not None and best.value > target):
        return Found(best.value, math.inf, best.task, best.position, ())
    size = max(2, *(task.objective.size() for task in tasks))
    patience = max(2 * PATIENCE // size, 2 * PATIENCE // 10)
    queue: list[tuple[float, int, SearchCell]] = []
    count = 0

    def enough() -> float:
        if target is not None:
            return target
        return max(best.value * (1.0 + (TOLERANCE if count < patience else LOOSE)), FLOOR)

    def add(task: int, start: float, end: float) -> None:
        nonlocal count
        count += 1
        cell = SearchCell(
            task,
            start,
            end,
            bound(tasks[task], start, end, enough(), partial(best.see, task), LOW if count < EASY else HIGH),
        )
        heapq.heappush(queue, (-cell.upper, count, cell))

    for number, (objective, line) in enumerate(tasks):
        if line.start < line.end and up(objective.ceiling(line.start, line.end, line.d)) <= enough():
            add(number, line.start, line.end)
            continue
        inner = {x for x in objective.cuts(line) if line.start < x < line.end}
        for start, end in itertools.pairwise([line.start, *sorted(inner), line.end]):
            top = best.top(number)
            width = min(PEAK * objective.step(), 0.5 * (top - start), 0.5 * (end - top))
            for pair in itertools.pairwise([start, *_around(top, start, end, width), end]):
                add(number, *pair)
    started = count
    while True:
        cell = queue[0][2]
        cuts = _cuts(cell, best.top(cell.task), tasks[cell.task].objective.step())
        refuted = best.value == math.inf or (target is not None and best.value > target)
        limit = max(CELLS // size if target is None else DECIDING, 2 * started)
        if refuted or cell.upper <= enough() or not cuts or len(queue) >= limit:
            break
        heapq.heappop(queue)
        for start, end in itertools.pairwise([cell.start, *cuts, cell.end]):
            add(cell.task, start, end)
    cells = tuple(sorted(entry[2] for entry in queue))
    return Found(
        best.value, max(cells[0].upper, *(c.upper for c in cells), best.value), best.task, best.position, cells
    )


def _cuts(cell: SearchCell, top: float, step: float) -> list[float]:
    """Where to split a cell; empty where it cannot be split."""
    start, end = cell.start, cell.end
    if math.isinf(start) and math.isinf(end):
        return [0.0]
    if math.isinf(end):
        return [start + max(4.0 * step, abs(start))]
    if math.isinf(start):
        return [end - max(4.0 * step, abs(end))]
    middle = middle_of(start, end)
    return _around(top, start, end, 0.125 * (end - start)) or ([middle] if start < middle < end else [])


def _around(top: float, start: float, end: float, width: float) -> list[float]:
    """Cuts that put the best place so far in the middle of a cell: from there its series is as sharp as can be."""
    return [top - width, top + width] if start < top - width < top < top + width < end else []


def climb(task: Task, position: float) -> float:
    """A position near a local maximum, by Newton steps from `position`: better lower bounds, no claim."""
    objective, line = task.objective, task.line
    d = line.d
    best, step, move = -math.inf, objective.step(), 0.0
    here = position
    for _ in range(30):
        pieces = [piece for piece in objective.branches(taylor(ball(here), 2), d).values() if is_taylor(piece)]
        if not pieces:
            break
        series = max(pieces, key=lambda piece: float(piece[0].mid()))
        value = float(series[0].mid())
        if value > best:
            best, position = value, here
            slope, bend = float(series[1].mid()), float(series[2].mid())
            move = -slope / (2.0 * bend) if bend < 0.0 else math.copysign(step, slope)
            move = min(max(move, -step), step) if math.isfinite(move) else 0.0
        else:
            move *= 0.25
        target = min(max(position + move, line.start), line.end)
        if abs(target - position) <= 1e-12 * step + 2.0 * math.ulp(position):
            break
        here = target
    return position
