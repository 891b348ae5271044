"""How much was cut before the noise: the questions that `report_clipping` adds to a plan.

An interval is for the noise alone. A plan can spend a small share of its budget on the rest: for every question the
share of rows that the contribution bounds dropped, and the share of values that were clipped, each with an interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rangebound.release.plan.question import CAP, Clipped, ColumnQuestion, CountUnits, CutQuestion, Dropped

_LONGEST = 150  # letters of the first question's name, so that a name with what follows is still one


def cut_questions(
    queries: Sequence[Any], *, owned: bool, choosing: Callable[[tuple[str, ...]], bool]
) -> list[CutQuestion]:
    """The questions that say how much the bounds and ranges of others cut; those that would be the same are one.

    `owned` says whether units are owners of rows, `choosing` whether a unit may have more groups of a grouping than
    count. Without owners no rows are dropped; a count of units drops rows only where groups are chosen.
    """
    found: dict[Any, list[Any]] = {}
    for each in queries:
        if owned and (not isinstance(each, CountUnits) or choosing(each.by)):
            found.setdefault((_dropped, each.by, each.where, *_asked(each)), []).append(each)
        if isinstance(each, ColumnQuestion):
            key = (_clipped, each.by, each.where, each.column, each.range, each.missing)
            found.setdefault(key, []).append(each)
    return [make(alike) for (make, *_), alike in found.items()]


def _asked(question: Any) -> tuple[Any, ...]:
    """Which rows a question asks for, beside its `where` and groups: all, one a group, or those that have a value.

    A value is a number or a date, whatever the range; where the plan says what a missing one counts as, all rows count.
    """
    partial = isinstance(question, ColumnQuestion) and question.missing is None
    return (question.column, question.dated) if partial else (isinstance(question, CountUnits),)


def _dropped(alike: Sequence[Any]) -> Dropped:
    first, units = alike[0], isinstance(alike[0], CountUnits)
    partial = isinstance(first, ColumnQuestion) and first.missing is None
    name = f"{first.name[:_LONGEST]}: {'groups' if units else 'rows'} dropped"
    values = {"valued": first.column, "within": first.range} if partial else {"units": units}
    return Dropped(name=name, about=_names(alike), over=first.by, where=first.where, **values)


def _clipped(alike: Sequence[Any]) -> Clipped:
    first = alike[0]
    values = {"valued": first.column, "within": first.range, "filler": first.missing}
    name = f"{first.name[:_LONGEST]}: values clipped"
    return Clipped(name=name, about=_names(alike), over=first.by, where=first.where, **values)


def _names(alike: Sequence[Any]) -> tuple[str, ...]:
    return tuple(each.name for each in alike)


def most_that_count(question: CutQuestion, unit: Any, groups: float) -> int:
    """How many rows of one unit can count in all groups together, where the grouping has `groups` groups."""
    rows = 1 if isinstance(question, Dropped) and question.units else unit.rows
    return int(min(unit.groups, groups)) * int(rows)


def looked_at(question: CutQuestion, unit: Any, groups: float) -> int:
    """How many rows of one unit are looked at: those that count, or up to `CAP` times as many to see what was dropped.

    It is what one unit can move the two coordinates by in L1. With k rows that count, of m that are asked for and
    limit = looked_at: the coordinates are k and min(m, limit) - k. Neither is negative, since k <= m and
    k <= most_that_count <= limit, and their sum is min(m, limit) <= limit. Of the values that count, inside and outside
    add up to k <= most_that_count. Coordinates are sums over units, and what other units do moves no unit's, so a unit
    that comes or goes moves them by at most the limit, and one that is replaced by at most twice that.
    """
    return most_that_count(question, unit, groups) * (CAP if isinstance(question, Dropped) else 1)


def is_cut(question: object) -> bool:
    """Whether a question was made by `report_clipping`."""
    return isinstance(question, CutQuestion)
