"""How much was cut before the noise: the questions that `report_clipping` adds to a plan.

An interval is for the noise alone. A plan can spend a small share of its budget on the rest: for every question the
share of rows that the contribution bounds dropped, and the share of values that were clipped, each with an interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rangebound.release.question import CAP, Clipped, ColumnQuestion, CountUnits, CutQuestion, Dropped

_LONGEST = 150  # letters of the first question's name, so that a name with what follows is still one


def cut_questions(
    queries: Sequence[Any], *, owned: bool, choosing: Callable[[tuple[str, ...]], bool]
) -> list[CutQuestion]:
    """The questions that say how much the bounds and ranges of others cut; those that would be the same are one.

    `owned` says whether units are owners of rows, `choosing` whether a unit may have more groups of a grouping than
    count. Without owners no rows are dropped; a count of units drops rows only where groups are chosen.
    """
    found: dict[Any, list[str]] = {}
    for each in queries:
        units = isinstance(each, CountUnits)
        if owned and (not units or choosing(each.by)):
            found.setdefault((Dropped, each.by, each.where, units), []).append(each.name)
        if isinstance(each, ColumnQuestion):
            key = (Clipped, each.by, each.where, each.column, each.range, each.missing)
            found.setdefault(key, []).append(each.name)
    return [_MADE[kind](tuple(names), by, where, *rest) for (kind, by, where, *rest), names in found.items()]


def _dropped(about: tuple[str, ...], by: Any, where: Any, units: bool) -> Dropped:
    name = f"{about[0][:_LONGEST]}: {'groups' if units else 'rows'} dropped"
    return Dropped(name=name, about=about, over=by, where=where, units=units)


def _clipped(about: tuple[str, ...], by: Any, where: Any, column: str, span: Any, filler: Any) -> Clipped:
    name = f"{about[0][:_LONGEST]}: values clipped"
    return Clipped(name=name, about=about, over=by, where=where, valued=column, within=span, filler=filler)


_MADE: dict[type, Callable[..., CutQuestion]] = {Dropped: _dropped, Clipped: _clipped}


def most_that_count(question: CutQuestion, unit: Any, groups: float) -> int:
    """How many rows of one unit can count in all groups together, where the grouping has `groups` groups."""
    rows = 1 if isinstance(question, Dropped) and question.units else unit.rows
    return int(min(unit.groups, groups)) * int(rows)


def looked_at(question: CutQuestion, unit: Any, groups: float) -> int:
    """How many rows of one unit are looked at: those that count, or up to `CAP` times as many to see what was dropped.

    It is what one unit can move the two coordinates by in L1. With k rows that count, of m that there are and
    limit = looked_at: the coordinates are k and min(m, limit) - k. Neither is negative, since k <= m and
    k <= most_that_count <= limit, and their sum is min(m, limit) <= limit. Of the values that count, inside and outside
    add up to k <= most_that_count. Coordinates are sums over units, and what other units do moves no unit's, so a unit
    that comes or goes moves them by at most the limit, and one that is replaced by at most twice that.
    """
    return most_that_count(question, unit, groups) * (CAP if isinstance(question, Dropped) else 1)


def is_cut(question: object) -> bool:
    """Whether a question was made by `report_clipping`."""
    return isinstance(question, CutQuestion)
