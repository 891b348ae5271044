"""How many bytes a table has at most: its plan says it, so what no ledger could keep is refused before the charge."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rangebound.errors import PlanError
from rangebound.ledger.book import PAYLOAD_LIMIT
from rangebound.release.noise.draw import Cell, Key, Summed
from rangebound.release.output.table import Release
from rangebound.release.plan.groupings import Block, blocks
from rangebound.release.plan.model import Plan
from rangebound.release.prepare import Prepared

_LONGEST = -1.7976931348623157e308  # no double has more characters


def check_size(ready: Prepared, blank: Release | None = None) -> int:
    """Refuse a plan whose table might not go into the ledger; give the bytes that are left for keys selected privately.

    `blank` is the release without its cells, where more is known of it than the plan.

    Guarantee: looks at the plan alone. No table of a plan that passes is over the ledger's limit, if `fitting` has
    looked at its privately selected keys.

    >>> from rangebound.release import parse_plan
    >>> from rangebound.release.prepare import prepare
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> PAYLOAD_LIMIT - check_size(prepare(plan)) < 2000
    True
    """
    if blank is None:
        blank = Release(plan=ready.plan, cells=(), mechanisms=ready.mechanisms, tables=ready.tables)
    room = PAYLOAD_LIMIT - len(blank.to_bytes())
    for block in blocks(ready.plan):
        room -= sum(_bytes(ready, block, block.keys or ()))
        room -= sum(_together(ready, index, block.keys or ()) for index in block.questions)
    if room < 0:
        raise PlanError(
            f"query: the table may have {PAYLOAD_LIMIT - room} bytes, and a ledger keeps at most {PAYLOAD_LIMIT}; "
            "ask for fewer groups or fewer questions, and for the rest in another release",
            field="query",
        )
    return room


def fitting(ready: Prepared, cells: Sequence[Cell], room: int) -> list[Cell]:
    """The cells of as many privately selected keys as there is room for, in order, and all others.

    Guarantee: made of published numbers alone, so it costs nothing. Edge cases: a key without room is left out from
    every question of its grouping. Where a ranked key is left out, so are all keys of its group that are not ranked
    before it, from every question: a group has all its first ranks, or `check_certificate` refuses it.
    """
    plan = ready.plan
    found, room = _fitting_ranks(ready, cells, room)
    left: set[tuple[tuple[str, ...], Summed]] = set()
    for block in blocks(plan):
        apart = tuple(index for index in block.questions if not plan.query[index].ranked)
        if block.keys is not None or not apart:
            continue
        keys = sorted({tuple(map(str, each.key)) for each in cells if each.question == apart[0]})
        for key, size in zip(keys, _bytes(ready, replace(block, questions=apart), keys), strict=True):
            if size <= room:
                room -= size
            else:
                left.add((block.by, key))

    return _whole_ranks(plan, cells, [each for each in found if (plan.query[each.question].by, each.key) not in left])


def _whole_ranks(plan: Plan, cells: Sequence[Cell], kept: Sequence[Cell]) -> list[Cell]:
    """Of the cells that are kept, those that leave no rank out before another, nor one of a key that has a number."""
    blocks_of = {at: block.questions for block in blocks(plan) for at in block.questions if plan.query[at].ranked}
    here = {(each.question, each.key) for each in kept}
    ranks: dict[tuple[tuple[int, ...], Summed], dict[int, list[Summed]]] = {}
    for each in cells:
        if each.question in blocks_of:
            group = blocks_of[each.question], each.key[:-1]
            ranks.setdefault(group, {}).setdefault(each.question, []).append(each.key)
    only: dict[tuple[int, Summed], set[Summed]] = {}
    for (questions, name), own in ranks.items():
        first = []
        for at, keys in own.items():
            lost = next((place for place, key in enumerate(keys) if (at, key) not in here), len(keys))
            first.append(keys[:lost])
        if first != list(own.values()):  # then as many ranks as all rankings of the group share
            sizes = range(min(map(len, first)), -1, -1)
            shared = next(size for size in sizes if len({frozenset(each[:size]) for each in first}) == 1)
            only |= {(at, name): set(first[0][:shared]) for at in questions}
    return [each for each in kept if each.key in only.get((each.question, each.key[:-1]), (each.key,))]


def _fitting_ranks(ready: Prepared, cells: Sequence[Cell], room: int) -> tuple[list[Cell], int]:
    """The cells without those that have no room, of questions whose keys are ranked, and the room that is left.

    In each group ranks are left out from one on, so that what is published is still the first of them.
    """
    found, full = [], set()
    for each in cells:
        if ready.plan.query[each.question].ranked:
            group, size = (each.question, each.key[:-1]), _length(vars(each)) + 1
            if size > room:
                full.add(group)
            if group in full:
                continue
            room -= size
        found.append(each)
    return found, room


def _bytes(ready: Prepared, block: Block, keys: Iterable[Key]) -> Iterator[int]:
    """The most bytes that the questions of a block take for each of some keys."""
    apart = [index for index in block.questions if not ready.plan.query[index].together]
    own = [_cells(ready, index) for index in apart]
    fixed, count = sum(size for size, _ in own), sum(cells for _, cells in own)
    return (fixed + count * sum(_length(text) + 1 for text in key) for key in keys)


def _together(ready: Prepared, index: int, keys: Sequence[Key]) -> int:
    """The most bytes of a question that publishes all groups together."""
    if not ready.plan.query[index].together:
        return 0
    labels = [label for group in ready.plan.query[index].labels(keys) for label in group]
    each = _length(vars(_longest(ready, index))) + 1
    return len(labels) * each + sum(_length(text) + 1 for key, part in labels for text in (*key, part))


def _cells(ready: Prepared, index: int) -> tuple[int, int]:
    """The most bytes of a question's cells in a group that has no name, with their commas, and their number."""
    names = ready.plan.query[index].parts
    cell = _longest(ready, index)
    return len(names) * (_length(vars(cell)) + 1) + sum(map(_length, names)), len(names)


def _longest(ready: Prepared, index: int) -> Cell:
    """A cell of a question that has as many characters as any, but for its key and part."""
    draws = (_LONGEST,) * ready.publishers[index].width
    facts = dict.fromkeys(("value", "lower", "upper", "epsilon", "delta", "rank_error", "mu"), _LONGEST)
    return Cell(question=index, key=(), part="", draws=draws, **facts)


def _length(data: object) -> int:
    return len(json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=True).encode())
