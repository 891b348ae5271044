"""Branch and bound: a rigorous enclosure of a supremum over positions, or a proof that it stays below a target.

A cell of positions [a, b] is bounded in several ways, and the smallest bound counts:
a ceiling that the objective knows (flat stretches far from the ends, and cells that reach to infinity);
a Taylor polynomial about the middle plus its remainder over the cell, or the value at one end where the polynomial
proves that the slope has one sign;
the wider pair (a, b + d), which dominates every pair of the cell, first order but always there.
Every value at a single position is a lower bound on the supremum.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import NamedTuple, Protocol

from rangebound.privacy.setting import SearchLine
from rangebound.values.ball import Ball, ball, down, inside, is_taylor, largest, span, taylor, up, value_of

# Orders of the Taylor series: most problems are easy; where the two laws nearly agree, terms cancel that only a high
# order can see.
LOW, HIGH, EASY = 5, 16, 150
# Spans of which a series is costly, and steps times the eighth root of what is enough: wider cells gain little.
MANY, WIDE = 4, 1.3


class SearchObjective(Protocol):
    """A number that each pair leaks: zero or more, and growing with the distance of the pair."""

    smooth: bool  # whether no branch has a kink
    attained: bool  # whether a branch is never above the number itself; else it may be, where it does not belong
    monotone: bool  # whether it is monotone between any two neighbouring kinks, by a theorem
    peaked: bool  # whether it is one smooth piece that rises to a single peak and falls from there, by a theorem

    def value(self, p: Ball, d: Ball) -> Ball:
        """The number at a position."""

    def branches(self, p: Ball, d: Ball, only: Collection[int] = ()) -> dict[int, Ball]:
        """Smooth pieces by name, series about a position (balls where nothing is known); the largest counts, or 0.

        About a wide ball: all that may be the largest somewhere in it; with `only`, just those.
        """

    def kinks(self, line: SearchLine) -> list[float]:
        """Positions where a branch may not be smooth, each rounded both ways."""

    def cuts(self, line: SearchLine) -> list[float]:
        """Where cells are cut first: the kinks, and places from which on a ceiling is sharp."""

    def seeds(self, line: SearchLine) -> list[float]:
        """Positions to look at first, because the worst may be there."""

    def ceiling(self, start: float, end: float, d: Ball) -> Ball:
        """An upper bound over the positions [start, end], which may be infinite; `inf` if none is known."""

    def step(self) -> float:
        """A natural length, for cutting an infinite cell."""

    def size(self) -> int:
        """How much one evaluation costs: the number of spans and atoms."""


class Task(NamedTuple):
    """One direction of the divergence along one line of pairs."""

    objective: SearchObjective
    line: SearchLine

    def kinks(self) -> list[float]:
        return _sorted_kinks(self)


@lru_cache(maxsize=64)
def _sorted_kinks(task: Task) -> list[float]:
    return sorted(task.objective.kinks(task.line))


See = Callable[[float, Ball], None]


def bound(
    task: Task, start: float, end: float, enough: float = -math.inf, see: See | None = None, order: int = HIGH
) -> float:
    """An upper bound over a cell, rounded up; stops at the first that is `enough` or less.

    `see` is told every value at a single position that comes up on the way.
    """
    objective, d = task.objective, task.line.d
    seen = see or (lambda position, value: None)

    def at(position: float) -> Ball:
        value = objective.value(ball(position), d)
        seen(position, value)
        return value

    if start == end:
        return up(at(start))
    if objective.peaked:
        for position, sign in ((end, 1), (start, -1)):
            if math.isinf(position):
                continue
            series = objective.branches(taylor(ball(position), 1), d)[0]
            if is_taylor(series) and sign * series[1] > 0:  # the peak is on the other side of this end
                return up(at(position))
    if objective.monotone and _no_kink(task, start, end):
        return max(up(at(start)), up(at(end)))
    upper = up(objective.ceiling(start, end, d))
    if upper <= enough or math.isinf(start) or math.isinf(end):
        return upper
    if not objective.attained and objective.size() > MANY:  # the wider pair is cheap, long series are expensive
        upper = min(upper, up(objective.value(ball(start), d + (ball(end) - ball(start)))))
        if upper <= enough or (enough > 0.0 and end - start > WIDE * enough**0.125 * objective.step()):
            return upper
    core = None if objective.smooth else inside(start, end)
    by_taylor = _by_taylor(objective, start, end, span(start, end) if core is None else core, d, at, seen, order)
    if core is not None:  # the slivers left out at the ends, one of which may be a kink
        for first, last in ((start, up(core.lower())), (down(core.upper()), end)):
            sliver = up(objective.value(ball(first), d + (ball(last) - ball(first))))
            if sliver > enough:
                sliver = min(sliver, _by_taylor(objective, first, last, span(first, last), d, at, seen, 2))
            by_taylor = max(by_taylor, sliver)
    upper = min(upper, max(by_taylor, 0.0))
    if upper <= enough:
        return upper
    if math.isinf(upper):
        at(middle_of(start, end))  # it may really be infinite, and then a single position shows it
    return min(upper, up(objective.value(ball(start), d + (ball(end) - ball(start)))))


def _no_kink(task: Task, start: float, end: float) -> bool:
    """Whether no kink lies strictly inside a cell. A kink that is not a double lies between its two roundings."""
    if not math.isfinite(start) or not math.isfinite(end) or end <= math.nextafter(start, math.inf):
        return False
    kinks = task.kinks()
    return bisect.bisect_right(kinks, start) >= bisect.bisect_left(kinks, end)


def _by_taylor(
    objective: SearchObjective,
    start: float,
    end: float,
    cell: Ball,
    d: Ball,
    at: Callable[[float], Ball],
    seen: See,
    order: int,
) -> float:
    """The bound over `cell` from Taylor series about the middle, with remainders from the series about the cell."""
    wide = objective.branches(taylor(cell, order), d)
    middle = middle_of(start, end)
    if not any(map(is_taylor, wide.values())):
        at(middle)
        return max(map(up, wide.values()))
    near = objective.branches(taylor(ball(middle), order), d, wide)
    if objective.attained:
        return max(_of_branch(wide[name], near.get(name), start, end, at, seen) for name in wide)
    at(middle)

    @cache
    def edges(position: float) -> dict[int, Ball]:
        return objective.branches(taylor(ball(position), 1), d, wide)

    return max(
        _of_branch(
            wide[name],
            near.get(name),
            start,
            end,
            lambda position, name=name: value_of(edges(position)[name]),  # type: ignore[misc]
            lambda position, value: None,
        )
        for name in wide
    )


def _of_branch(
    wide: Ball, near: Ball | None, start: float, end: float, at: Callable[[float], Ball], seen: See
) -> float:
    """An upper bound on one smooth piece over the cell [start, end]."""
    if not is_taylor(wide):
        return up(wide)
    if not wide[0].is_finite():  # something is unknown here, and the slope may lack its part
        return math.inf
    middle = middle_of(start, end)
    radius = largest(ball(middle) - ball(start), ball(end) - ball(middle))
    if near is None or not is_taylor(near) or not near[0].is_finite():
        return up(wide[0])
    order = min(wide.prec, near.prec) - 1
    value, slope, bend = near[0], near[1], near[2]
    seen(middle, value)
    if not wide[order].is_finite():
        return up(value + radius * abs(wide[1]))
    higher = [*(near[k] for k in range(3, order)), wide[order]]
    drift = sum((k * abs(c) * radius ** (k - 1) for k, c in enumerate([bend, *higher], start=2)), ball(0.0))
    if abs(slope) > drift:  # the slope has one sign all over the cell
        return up(at(end if slope > 0 else start))
    bend = bend + sum((abs(c) * radius ** (k - 2) for k, c in enumerate(higher, start=3)), ball(0.0))
    bend = bend.upper()
    if bend < 0 and not abs(slope) >= -2 * radius * bend:
        # A parabola that opens downward lies above; its top is the bound, and a good place to look.
        top = middle - float((slope / (2 * near[2])).mid())
        if start < top < end:
            at(top)
        return up(value + slope * slope / (-4 * bend))
    # Otherwise the parabola is highest at an end.
    at(end if slope > 0 else start)
    return up(value + radius * abs(slope) + radius * radius * bend)


def middle_of(start: float, end: float) -> float:
    return 0.5 * start + 0.5 * end


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
