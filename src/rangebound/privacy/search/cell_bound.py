"""An upper bound on an objective over a cell of positions.

A cell of positions [a, b] is bounded in several ways, and the smallest bound counts:
a ceiling that the objective knows (flat stretches far from the ends, and cells that reach to infinity);
a Taylor polynomial about the middle plus its remainder over the cell, or the value at one end where the polynomial
proves that the slope has one sign;
the wider pair (a, b + d), which dominates every pair of the cell, first order but always there.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Collection
from functools import cache, lru_cache
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
        """The kinks of the objective on the line, in order."""
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
