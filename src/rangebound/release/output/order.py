"""In which order a table is read: questions as the plan has them, keys as it lists them, columns as `by` has them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from rangebound.release.noise.draw import Cell
from rangebound.release.plan.model import Plan

_NUMBER = re.compile(r"-?\d+(\.\d+)?")


def grouping_columns(groupings: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """All grouping columns, each once: each grouping has its columns in its own order, where all of them can.

    Edge cases: where two groupings have two columns in opposite orders, the first one decides.

    >>> grouping_columns([["month"], ["airport", "month"], ["month", "day"]])
    ('airport', 'month', 'day')
    >>> grouping_columns([["a", "b"], ["b", "a"]])
    ('a', 'b')
    """
    wanted = [tuple(each) for each in groupings]
    left = list(dict.fromkeys(column for each in wanted for column in each))
    found: list[str] = []
    while left:
        free = (column for column in left if not any(_before(column, each, found) for each in wanted))
        found.append(next(free, left[0]))
        left.remove(found[-1])
    return tuple(found)


def _before(column: str, grouping: Sequence[str], found: Sequence[str]) -> bool:
    """Whether a grouping has a column before this one that is not yet placed."""
    return column in grouping and any(each not in found for each in grouping[: grouping.index(column)])


def reading_order(plan: Plan, cells: Sequence[Cell]) -> list[int]:
    """The places of the cells in the order of the plan: by question, and selected keys as they are sorted by a reader.

    Public keys are as the plan lists them. Of selected keys, a column that the plan lists goes by its list, numbers go
    by size, and texts by their letters; keys that are ranked go by rank.

    Guarantee: made of published keys alone.
    """
    orders = {index: _key_order(plan, index, cells) for index in {each.question for each in cells}}
    return sorted(range(len(cells)), key=lambda at: (cells[at].question, orders[cells[at].question](cells[at])))


def _key_order(plan: Plan, index: int, cells: Sequence[Cell]) -> Callable[[Cell], tuple[object, ...]]:
    question = plan.query[index]
    if not plan.private(question.by):
        return lambda _: ()  # as the plan lists them, already
    keys = [each.key for each in cells if each.question == index]
    ranks = [
        _ranks(column, listed)
        for column, listed in zip(zip(*keys, strict=True), plan.columns(question.by), strict=True)
    ]
    if question.ranked:
        return lambda cell: (*(rank[key] for rank, key in zip(ranks[:-1], cell.key, strict=False)), cell.value)
    return lambda cell: tuple(rank[key] for rank, key in zip(ranks, cell.key, strict=True))


def _ranks(keys: Iterable[str | None], listed: Sequence[str]) -> dict[str | None, int]:
    """The place of each key of a column among all of them."""
    texts = {each: each or "" for each in keys}
    if listed:
        places = {each: at for at, each in enumerate(listed)}
        ordered = sorted(texts, key=lambda each: places.get(texts[each], len(places)))
    elif all(_NUMBER.fullmatch(each) for each in texts.values()):
        ordered = sorted(texts, key=lambda each: (float(texts[each]), texts[each]))
    else:
        ordered = sorted(texts, key=lambda each: texts[each])
    return {each: at for at, each in enumerate(ordered)}
