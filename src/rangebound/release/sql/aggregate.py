"""Exact aggregates: what the engine counts, as coordinates that one unit can move by a known amount."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rangebound.release.engine import Engine
from rangebound.release.engine.interface import Record
from rangebound.release.noise.draw import Coordinates, Key
from rangebound.release.plan.groupings import Block
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.model import Plan
from rangebound.release.plan.statistic import Found
from rangebound.release.plan.unit import Unit
from rangebound.release.sql.gate import not_too_deep, try_statements
from rangebound.release.sql.group_order import Salt
from rangebound.release.sql.statements import UNITS, Statement, statements
from rangebound.release.sql.view import view
from rangebound.sampling.entropy import secure_bits

Compiled = tuple[Statement, str]
"""A statement, and its text as an engine will run it."""


@dataclass(frozen=True, kw_only=True)
class Aggregate:
    """The exact coordinates of a block, for every question and key; `units` counts owners where keys are selected."""

    block: Block
    keys: tuple[Key, ...]
    answers: Mapping[int, Mapping[Key, Coordinates]]
    units: Mapping[Key, int]


class _Answers(Mapping[Key, Coordinates]):
    """A question's coordinates by key, made when they are asked for.

    A private table may have a key for every row, and a median a thousand coordinates for each: only those of the keys
    that are selected are ever made.
    """

    def __init__(self, question: Kind, unit: Unit, keys: tuple[Key, ...], sums: Mapping[Key, Found]) -> None:
        self._question, self._unit, self._sums = question, unit, sums
        self._keys = dict.fromkeys(keys)

    def __getitem__(self, key: Key) -> Coordinates:
        if key not in self._keys:
            raise KeyError(key)
        return self._question.coordinates(self._sums.get(key, {}), self._unit)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def compiled(plan: Plan, engine: Engine, salt: Salt, also: Sequence[Block] = ()) -> tuple[Compiled, ...]:
    """The plan's statements as text, for every block of the plan and those of `also`; reads no private data."""
    seen = view(plan, engine)
    with not_too_deep():
        found = statements(plan, seen.schema, salt, source=seen.source(salt), dialect=engine.dialect, also=also)
        return tuple((each, engine.written(each.tree)) for each in found)


def rehearse_statements(plan: Plan, engine: Engine, found: Sequence[Compiled]) -> None:
    """Refuse a plan with a statement that its engine cannot run, whatever the table holds; reads no private data."""
    asked = []
    for statement, text in found:
        index = next(at for at in (*statement.columns, *statement.block.questions) if at >= 0)
        asked.append((f"query[{index}]", plan.query[index].name, text))
    try_statements(engine, asked)


def check_statements(plan: Plan, engine: Engine) -> None:
    """Refuse a plan whose statements its engine cannot run, as a release does before its charge."""
    rehearse_statements(plan, engine, compiled(plan, engine, Salt.draw(secure_bits)))


def aggregate(plan: Plan, engine: Engine, salt: Salt, also: Sequence[Block] = ()) -> tuple[Aggregate, ...]:
    """Run the plan's statements and bring their sums into coordinates, for every block of the plan and those of `also`.

    Guarantee: for the same table and salt the result is the same in every engine, with any number of threads and any
    order of rows. Public keys without rows are there too, with zeros.
    Edge cases: the result is exact and therefore private; only noisy numbers made of it may leave the driver.
    """
    return aggregated(plan, engine, compiled(plan, engine, salt, also))


def aggregated(plan: Plan, engine: Engine, found: Sequence[Compiled]) -> tuple[Aggregate, ...]:
    """The same, of statements that were compiled before."""
    results = [(statement, engine.run(text)) for statement, text in found]
    return tuple(_gather(plan, block, results) for block in dict.fromkeys(each.block for each, _ in results))


def _gather(plan: Plan, block: Block, results: list[tuple[Statement, list[Record]]]) -> Aggregate:
    sums: dict[int, dict[Key, dict[str | int, int]]] = {index: {} for index in block.questions}
    units: dict[Key, int] = {}
    for statement, rows in results:
        if statement.block != block:
            continue
        places_of = {text: at for at, text in enumerate(statement.listed)}
        for row in rows:
            key = _key(block, row[: statement.key_width])
            for index, places in statement.columns.items():
                if index < 0:
                    units[key] = int(row[places[UNITS]])
                elif statement.placed:
                    place = row[statement.key_width]
                    at = places_of[str(place)] if statement.listed else int(place)
                    sums[index].setdefault(key, {})[at] = int(row[places["count"]])
                else:
                    found = {name: int(row[at] or 0) for name, at in places.items()}
                    sums[index].setdefault(key, {}).update(found)
    keys = tuple(sorted(units)) if block.keys is None else block.keys
    asked = {index: plan.query[index] for index in sums}
    answers = {at: _Answers(asked[at], plan.unit_of(asked[at]), keys, found) for at, found in sums.items()}
    return Aggregate(block=block, keys=keys, answers=answers, units=units)


def _key(block: Block, parts: Record) -> Key:
    if block.keys is None:
        return tuple(parts)
    return block.keys[int(parts[0])] if parts else ()
