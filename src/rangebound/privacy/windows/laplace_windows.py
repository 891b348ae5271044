"""Worst cases of truncated Laplace noise on grids and unions, by Chebyshev polynomials on windows of positions.

On a window in which neither answer meets an end of the support, the numbers that a pair leaks are analytic
functions of the position (`segments`). There each of them is bounded by its values at a few points and by its size in
a disc around the window (`chebyshev`); both come from one formula over discs. Before that, the wider pair from the
first position to the last is a bound of first order. Windows whose bound is too high are cut. papers/numerics.md has
the proofs ("Windows").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from rangebound.privacy.branch_and_bound import FLOOR, LOOSE, Found, Task
from rangebound.privacy.objectives import Delta, Loss, Renyi
from rangebound.privacy.windows.chebyshev import (
    UNIT,
    Discs,
    WindowBounds,
    difference,
    exactly,
    lebesgue,
    nodes,
    supremum,
    tops,
)
from rangebound.privacy.windows.segments import (
    Ends,
    Events,
    LaplaceWindows,
    ends_of,
    event,
    events_of,
    joined,
    loss,
    rate_of,
    renyi,
    sums_of,
    windows_of,
)
from rangebound.values.array_types import Floats, Indices, np
from rangebound.values.ball import ball, down

_DEGREE = 10
_LONGEST = 0.25  # scales: a window is cut into such to begin with
RADII = (0.5, 0.1, 0.02)  # scales, of the discs in which a function is bounded
_WIDER = 6.0  # and one that is this many times as wide as half the window, and one in between
_ROUNDS, _MOST = 48, 40_000  # halvings, and windows at once
_TOLERANCE = 2e-11  # relative
_UNDECIDED = 1e-8  # relative: an enclosure so close above a target is left undecided
_BLOCK, _ROWS = 4_000, 256  # windows that are evaluated at a time, and polynomials (more would start threads)

Values = Callable[[LaplaceWindows, Indices, Discs], Discs]
"""Of windows, the segment that holds the threshold of each, and distances from the end on the left of p, in scales."""


def _bounded(
    ends: Ends, windows: LaplaceWindows, segments: Indices, values: Values, radii: tuple[float, ...], floor: float
) -> WindowBounds:
    """Bounds of the function over each window."""
    middle = 0.5 * windows.low + 0.5 * windows.high
    half = 0.5 * (windows.high - windows.low) * (1.0 + 8.0 * UNIT) + 2.0 * UNIT * (
        np.abs(windows.low) + np.abs(windows.high)
    )
    half = np.maximum(half, 1e-290)
    scale = exactly(ends.scale)
    offsets = middle[:, None] + half[:, None] * nodes(_DEGREE)
    placed = Discs(offsets, np.broadcast_to((8.0 * UNIT * (np.abs(middle) + half))[:, None], offsets.shape))
    found = values(windows, segments, placed / scale)
    narrow = _WIDER * half / ends.scale
    wide = np.stack([*(np.full(middle.size, radius) for radius in radii), np.sqrt(radii[1] * narrow), narrow], axis=1)
    centre = exactly(middle[:, None]) / scale
    discs = Discs(np.broadcast_to(centre.mid, wide.shape), wide)
    size = values(windows, segments, discs).top
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        # the ellipse lies in the disc where its longer half-axis is no longer than the radius
        ratio = (wide - centre.rad) * (1.0 - 8.0 * UNIT) / (half / ends.scale)[:, None]
        ratio = np.minimum(ratio, 1e30)
        rho = ratio + np.sqrt(np.maximum(ratio * ratio - 1.0, 0.0))
        off = np.where(rho > 1.5, 4.0 * size * rho**-_DEGREE / (rho - 1.0) * (1.0 + 1e-9), np.inf)
    off = np.where(np.isnan(off), np.inf, off).min(axis=1)
    rough = lebesgue(_DEGREE) * found.rad.max(axis=1)
    good = np.isfinite(found.mid).all(axis=1) & np.isfinite(rough) & np.isfinite(off)
    sure = np.where(good, (found.mid - found.rad).max(axis=1, initial=-np.inf, where=np.isfinite(found.mid)), -np.inf)
    # by the Lebesgue constant alone a polynomial stays within so much of the middle of its values
    most, least = found.mid.max(axis=1), found.mid.min(axis=1)
    reach = 0.5 * (most + least) + (
        0.5 * lebesgue(_DEGREE) * (most - least) + 4.0 * UNIT * np.abs(found.mid).max(axis=1)
    )
    upper, offset = np.where(good, reach + (rough + off) * (1.0 + 1e-9), np.inf), middle.copy()
    floor = max(floor, float(sure.max()), -1e300)
    high = np.flatnonzero(good & (upper > floor))
    for start in range(0, high.size, _ROWS):
        some = high[start : start + _ROWS]
        top = tops(found.mid[some], floor)
        upper[some] = top.upper + (rough[some] + off[some]) * (1.0 + 1e-9)
        offset[some] = middle[some] + half[some] * top.where
        sure[some] = np.maximum(sure[some], top.lower - (rough[some] + off[some]) * (1.0 + 1e-9))
    return WindowBounds(upper, sure, offset, np.where(good, rough, 0.0))


class Problem(NamedTuple):
    """One direction of the divergence: the ends of the support, and the function on windows."""

    ends: Ends
    epsilon: float | None  # of delta, which needs to know where its threshold lies
    values: Values
    radii: tuple[float, ...] = RADII

    def evaluate(self, windows: LaplaceWindows, enough: float, first: bool) -> WindowBounds:
        """Bounds of first order, and by Chebyshev polynomials for short windows where those are above `enough`."""
        found = _in_blocks(lambda some: self.glance(some, first), windows)
        best = float(found.lower.max())
        if first and best > enough > -math.inf:  # that may be all that is asked
            return found._replace(place=self.ends.places[windows.first] + found.place)
        enough = max(enough, best)
        high = np.flatnonzero((found.upper > enough) & (windows.high - windows.low <= _LONGEST * self.ends.scale))
        if high.size:
            sharp = _in_blocks(lambda some: self.bounds(some, enough), windows.at(high))
            found.upper[high] = np.minimum(found.upper[high], sharp.upper)
            better = sharp.lower > found.lower[high]
            found.lower[high[better]], found.place[high[better]] = sharp.lower[better], sharp.place[better]
            found.rounding[high] = sharp.rounding
        middle = 0.5 * windows.low + 0.5 * windows.high
        whole = ~((windows.low < middle) & (middle < windows.high))  # cannot be cut
        found.rounding[whole] = np.abs(found.upper[whole])
        lower = np.maximum(found.lower, 0.0)  # no divergence is less
        return found._replace(lower=lower, place=self.ends.places[windows.first] + found.place)

    def glance(self, windows: LaplaceWindows, values: bool) -> WindowBounds:
        """First order: the wider pair from the first p to the last q; on demand also the value at the first p."""
        width = difference(windows.high, windows.low) / self.ends.scale
        end = exactly(windows.high) / self.ends.scale + windows.apart
        # q stays in its segment, over whose end a window may reach by an ulp or so
        segment = self.ends.widths.at(windows.second)
        over = 2.0 * (np.maximum(end.mid - segment.mid, 0.0) + end.rad + segment.rad)
        d, apart = (windows.d + width, windows.apart + width)
        wider = Discs(d.mid, d.rad + over), Discs(apart.mid, apart.rad + over)
        at_once = windows._replace(high=windows.low)
        lower = self._there(at_once)[0] if values else np.full(windows.low.size, -np.inf)
        upper = self._there(at_once._replace(d=wider[0], apart=wider[1]))[1]
        return WindowBounds(upper, lower, windows.low, np.zeros_like(lower))

    def _there(self, windows: LaplaceWindows) -> tuple[Floats, Floats]:
        """Lower and upper bounds at the first position of each window."""
        sigma = exactly(windows.low[:, None]) / self.ends.scale
        if self.epsilon is None:
            found = self.values(windows, windows.first, sigma)
            lower, upper = (found.mid - found.rad)[:, 0], (found.mid + found.rad)[:, 0]
            return np.where(np.isnan(lower), -np.inf, lower), np.where(np.isnan(upper), np.inf, upper)
        events = events_of(self.ends, self.epsilon, windows)
        found = self.values(windows.at(events.rows), events.segments, sigma.at(events.rows))
        return self._gathered(events, (found.mid - found.rad)[:, 0], (found.mid + found.rad)[:, 0])

    def _gathered(self, events: Events, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """For each window the largest of its rows."""
        lower, upper = np.where(np.isnan(lower), -np.inf, lower), np.where(np.isnan(upper), np.inf, upper)
        if not self.ends.points:  # one row for each window, which may be above delta where it is not sure
            return np.where(events.sure, lower, -np.inf), np.where(events.never, 0.0, upper)
        lowest, highest = np.full(events.sure.size, -np.inf), np.where(events.sure, -np.inf, np.inf)
        np.maximum.at(lowest, events.rows, lower)
        np.maximum.at(highest, events.rows, upper)
        return lowest, np.where(events.never, 0.0, highest)

    def bounds(self, windows: LaplaceWindows, floor: float) -> WindowBounds:
        if self.epsilon is None:
            return _bounded(self.ends, windows, windows.first, self.values, self.radii, floor)
        events = events_of(self.ends, self.epsilon, windows)
        found = _bounded(self.ends, windows.at(events.rows), events.segments, self.values, self.radii, floor)
        lower, upper = self._gathered(events, found.lower, found.upper)
        offset, rough = 0.5 * windows.low + 0.5 * windows.high, np.zeros_like(upper)
        best = found.upper >= upper[events.rows]
        offset[events.rows[best]] = found.place[best]
        np.maximum.at(rough, events.rows, found.rounding)
        return WindowBounds(upper, lower, offset, rough)


def _problem(objective: Delta | Renyi | Loss, ends: Ends, windows: LaplaceWindows) -> Problem:
    reach = int((windows.second - windows.first).max(initial=0)) + 1
    if isinstance(objective, Loss):
        return Problem(ends, None, lambda some, _, sigma: loss(ends, some, sigma))
    if isinstance(objective, Renyi):
        order = float(objective.order)
        weights = sums_of(ends, reach, rate_of(order))
        radii = (*RADII[:2], min(RADII[2], 0.3 / order))
        return Problem(ends, None, lambda some, _, sigma: renyi(ends, weights, order, some, sigma), radii)
    epsilon = float(objective.epsilon)
    masses = sums_of(ends, reach, exactly(1.0))
    return Problem(ends, epsilon, lambda some, segments, sigma: event(ends, masses, epsilon, some, segments, sigma))


def enclosed(tasks: Sequence[Task], target: float | None = None) -> Found | None:
    """The supremum over all tasks, or on which side of the target it lies; None where floats cannot tell.

    Guarantee: the upper end is proved with every rounding covered, the lower end is a value in ball arithmetic.
    Assumes: all tasks are of one truncated Laplace mechanism, each direction with one objective.
    Edge cases: None for any other mechanism, for supports or lines that do not end, and for supports so wide or
    numbers so small that doubles do not carry them.
    """
    groups: dict[int, list[tuple[int, Task]]] = {}
    for number, task in enumerate(tasks):
        groups.setdefault(id(task.objective), []).append((number, task))
    if not tasks or not all(_fits(task) for task in tasks):
        return None
    work: list[tuple[Problem, LaplaceWindows]] = []
    for group in groups.values():
        objective = group[0][1].objective
        ends = ends_of(objective.shape, objective.noise.scale)  # type: ignore[attr-defined]
        windows = joined([windows_of(ends, number, task.line) for number, task in group])
        if {*windows.line.tolist()} != {number for number, _ in group}:
            return None
        work.append((_problem(objective, ends, windows), windows))  # type: ignore[arg-type]
    with np.errstate(all="ignore"):  # what is not finite is unknown
        return search(tasks, work, target)


def _fits(task: Task) -> bool:
    objective, line = task.objective, task.line
    if not isinstance(objective, (Delta, Renyi, Loss)) or not objective.noise.laplace:
        return False
    shape, (low, high) = objective.shape, objective.shape.ends
    if not shape.normalised or len(shape.spans or shape.points) < 2:
        return False
    if not all(map(math.isfinite, (low, high, line.start, line.end, line.far, line.near))):
        return False
    last = line.end - 4.0 * math.ulp(line.end)  # the end is rounded outward
    inside = low <= line.start and Fraction(last) + Fraction(line.far) - Fraction(line.near) <= Fraction(high)
    usual = objective.epsilon >= 0 if isinstance(objective, Delta) else True
    return inside and usual and not (isinstance(objective, Renyi) and not objective.order > 1)


def search(tasks: Sequence[Task], work: list[tuple[Problem, LaplaceWindows]], target: float | None) -> Found | None:
    """The supremum over windows of each direction, or on which side of a target it is; see `enclosed`."""
    upper, lower, which, place = -math.inf, -math.inf, 0, math.nan
    for problem, windows in work:
        found = supremum(windows, problem.evaluate, target, tight=_TOLERANCE, rounds=_ROUNDS, most=_MOST, known=lower)
        if found is None:
            return None
        upper = max(upper, found.upper)
        if not math.isnan(found.place):
            lower, which, place = found.lower, found.line, found.place
    line = tasks[which].line
    place = line.start if math.isnan(place) else min(max(place, line.start), line.end)
    lower = down(tasks[which].objective.value(ball(place), line.d))
    if target is not None and lower > target:
        return Found(lower, math.inf, which, place, ())
    close = lower * (1.0 + LOOSE) if target is None else target * (1.0 + _UNDECIDED)
    return Found(lower, max(upper, lower), which, place, ()) if upper <= max(close, FLOOR) else None


def _in_blocks(function: Callable[[LaplaceWindows], WindowBounds], windows: LaplaceWindows) -> WindowBounds:
    starts = range(0, windows.line.size, _BLOCK)
    parts = [function(windows.at(slice(start, start + _BLOCK))) for start in starts]
    found = WindowBounds(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    return found._replace(upper=np.where(np.isnan(found.upper), np.inf, found.upper))
