"""Neighbouring tables that are hard for a plan: one unit with the most rows in the most groups, all at ends of ranges.

They are made up from the plan alone. Any two tables that differ in one unit are neighbours, so that a pair that is not
as hard as it could be proves less, and never too much.
"""

from __future__ import annotations

import datetime
import math
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

from rangebound.release.column_hints import ColumnHints, Hints, column_hints, span
from rangebound.release.engine import Engine, opened
from rangebound.release.made_up_rows import Made, MadeUp, MadeUpTable, Row, made_up
from rangebound.release.noise.partition_selection import WHOLE, PartitionSelection, ThresholdSelection
from rangebound.release.plan.fields import canonical, date
from rangebound.release.plan.toml import read_plan
from rangebound.release.prepare import Prepared
from rangebound.release.sql.aggregate import Aggregate, aggregated, compiled
from rangebound.release.sql.relation import Salt
from rangebound.values import arguments

_OTHERS = 40  # made-up rows of others
_MOST_ROWS, _MOST_KEYS = 5000, 2000  # of the unit, and of a column
_CROWD = 3000  # units that share a key which is selected privately
_ENOUGH, _TRIED = Fraction(999, 1000), 3  # of what a plan charges; no more pairs that move it are looked for
_WALKS = ("next to each other", "in all columns at once", "spread out", "in the first column")
_ENDS = ("at the upper ends", "at the lower ends", "at either end", "at other ends")
"""Where the values of a unit lie. The last two take an end, or a value of a condition, for each column."""


@arguments.brief
@dataclass(frozen=True, kw_only=True)
class TablePair:
    """Two neighbouring tables for a plan with what they are joined with, and in words what they differ in.

    `moved` is how far they are apart: the part of what the plan charges for one unit, by the L1 or L2 distances of all
    questions. `write` of either makes files, beside a plan that reads them.
    """

    words: str
    first: MadeUp
    second: MadeUp
    moved: float = math.nan


def hard_pairs(ready: Prepared, salt: Salt) -> list[tuple[TablePair, tuple[Aggregate, ...], tuple[Aggregate, ...]]]:
    """Pairs of neighbouring tables for a plan, with their exact aggregates, those that move most first.

    Both tables of a pair are aggregated with the same salt: which rows of a unit are dropped is a function of the rows.
    """
    found = []
    for pair in _pairs(ready):
        one, two = (_aggregates(ready, each, salt) for each in (pair.first, pair.second))
        pair = replace(pair, moved=_moved(ready, one, two))
        found.append((pair, one, two))
        if sum(each.moved >= _ENOUGH for each, *_ in found) == _TRIED:
            break
    return sorted(found, key=lambda each: -each[0].moved)


def _pairs(ready: Prepared) -> Iterator[TablePair]:
    plan = ready.plan
    base, hints, seen = made_up(plan, rows=_OTHERS), column_hints(plan), list[Any]()
    crowd = min(_CROWD, max(map(_half_way, ready.selections.values()), default=0))
    for ends, walk in [*product(_ENDS[:2], _WALKS), *product(_ENDS[2:], _WALKS[1:2])]:
        unit = _UnitRows(base, hints, ends, walk)
        second, others = unit.rows(), [unit.row(0, 0, owner=1000 + at) for at in range(crowd)]
        first = _UnitRows(base, hints, _ENDS[1 - _ENDS.index(ends)], walk, last=True).rows()
        first = first if plan.unit.replaced else [[] for _ in second]
        if (first, second) in seen or first == second:
            continue
        seen.append((first, second))
        added = f"{len(second[0])} rows " if plan.unit.column is not None else ""
        words = f"a unit {'replaced by one ' if plan.unit.replaced else ''}with {added or 'a row '}{ends}, {walk}"
        if ahead := unit.ahead(second[0]):
            alone = replace(base, table=replace(base.table, rows=ahead))
            pair = (_with(alone, others, each) for each in (first, second))
            yield TablePair(words=f"{words}, one behind another key", first=next(pair), second=next(pair))
        yield TablePair(words=words, first=_with(base, others, first), second=_with(base, others, second))


def _half_way(selection: PartitionSelection | ThresholdSelection) -> int:
    """About how many units a key must have to be named half of the time."""
    if isinstance(selection, ThresholdSelection):
        return math.ceil(selection.threshold)
    return next(n for n, each in enumerate(selection.probabilities) if 2 * each >= WHOLE)


def _with(base: MadeUp, others: list[Row], unit: list[list[Row]]) -> MadeUp:
    def more(table: MadeUpTable, *rows: Row) -> MadeUpTable:
        return replace(table, rows=[*table.rows, *rows])

    joined = tuple(more(table, *rows) for table, rows in zip(base.joined, unit[1:], strict=True))
    return replace(base, table=more(base.table, *others, *unit[0]), joined=joined)


class _UnitRows:
    """The rows of one unit, in the plan's own table and in each private one that is joined."""

    def __init__(self, base: MadeUp, hints: Hints, ends: str, walk: str, *, last: bool = False) -> None:
        self.base, self.hints, self.ends, self.walk, self.last = base, hints, ends, walk, last
        plan = self.plan = base.plan
        grouped = {name for each in plan.query for name in (*each.by, *each.keyed, each.selected)}
        self.keys = {name: keys for name in base.table.types if (keys := self._keys(name, grouped))}
        units = [plan.unit, *map(plan.unit_of, plan.query)]
        self.most = max(each.most_rows for each in units)
        self.cells = min(max(each.groups for each in units), math.prod(map(len, self.keys.values())), _MOST_ROWS)

    def rows(self) -> list[list[Row]]:
        """Of every table."""
        copies = max(min(self.most, _MOST_ROWS // self.cells), 1)
        own = [self.row(cell, copy) for cell in range(self.cells) for copy in range(copies)]
        return [own, *(self._joined(at, own) for at in range(len(self.base.joined)))]

    def row(self, cell: int, copy: int, owner: int = 999) -> Row:
        """One row, in the cell of this number."""
        found = {name: self._value(name, self.base.table.types[name]) for name in self.base.table.types}
        total, stride = math.prod(map(len, self.keys.values())), 1
        names = list(self.keys) if self.walk == "in the first column" else list(self.keys)[::-1]
        place = cell * max(total // self.cells, 1) if self.walk == "spread out" else cell
        for name in names:
            keys = self.keys[name][:: -1 if self.last else 1]
            found[name] = keys[(cell if self.walk == "in all columns at once" else place // stride) % len(keys)]
            stride *= len(keys)
        period = self.plan.counted_unit.period
        if period is not None and period.column in found and period.column not in self.keys:
            day = period.range[0].toordinal() + copy % ((period.range[1] - period.range[0]).days + 1)
            found[period.column] = _typed(datetime.date.fromordinal(day), self.base.table.types[period.column])
        if self.plan.unit.column is not None:
            kind = self.base.table.types[self.plan.unit.column]
            found[self.plan.unit.column] = 10**6 + owner if kind is int else f"another {owner}"
        return found

    def ahead(self, rows: list[Row]) -> list[Row]:
        """A row of another unit for each of these, with the next key where a question is answered by keys.

        Then one more row decides which key is first, and which one goes from first to last.
        """
        following = {
            name: dict(zip(keys, (*keys[1:], keys[0]), strict=True))
            for name in {each.selected for each in self.plan.query}
            if name is not None and (keys := self.keys.get(name))
        }
        owner = self.plan.unit.column
        return [
            row
            | {name: following[name][row[name]] for name in following}
            | ({} if owner is None else {owner: self.row(0, 0, owner=2000 + at)[owner]})
            for at, row in enumerate(rows if following else [])
        ]

    def _keys(self, name: str, grouped: set[str | None]) -> list[Made]:
        """The keys of a column, if the unit is to have rows with several of them."""
        own, rule, kind = self.hints[name], self.plan.rule(name), self.base.table.types[name]
        if name == self.plan.unit.column:
            return []
        for join, table in zip(self.plan.join or (), self.base.joined, strict=True):
            if name in join.on and join.public:
                return [row[join.on[name]] for row in table.rows]
        if own.keys:
            return [_typed(each, kind) for each in own.keys]
        if rule is not None and rule.bins is not None:
            return [_typed(each, kind) for each in rule.bins[:-1]]
        if own.dated:
            low, high = map(math.floor, span(own, (20089.0, 20453.0)))
            return [_typed(date(low + at), kind) for at in range(min(high - low + 1, _MOST_KEYS))]
        return [_typed(at + 7000, kind) for at in range(64)] if name in grouped else []

    def _value(self, name: str, kind: type) -> Made:
        own: ColumnHints = self.hints[name]
        low, high = span(own, (0.0, 100.0))
        numbers = [each for each in own.compared if isinstance(each, (int, float)) and not isinstance(each, bool)]
        ends: list[Any] = [high, low, *numbers, *(each + 1 for each in numbers), *(each - 1 for each in numbers)]
        if kind is bool:
            ends = [True, False]
        elif kind is str:
            ends = [*(each for each in own.compared if isinstance(each, str)), "x"]
        elif own.dated:
            ends = [date(math.floor(each)) for each in (high, low)]
        at, place = (
            _ENDS.index(self.ends),
            list(self.base.table.types).index(name) if name in self.base.table.types else 0,
        )
        return _typed(ends[(min(at, len(ends) - 1), place % 2, place + 2)[max(at - 1, 0)] % len(ends)], kind)

    def _joined(self, at: int, own: list[Row]) -> list[Row]:
        """As many rows as are joined, for each of the keys that the unit's rows have."""
        assert self.plan.join is not None
        join, kinds = self.plan.join[at], self.base.joined[at].types
        if join.public:
            return []
        keys = dict.fromkeys(tuple(row[ours] for ours in join.on) for row in own)
        values = {theirs: self._value(ours, kinds[theirs]) for ours, theirs in join.columns.items()}
        rows = min(join.rows or 1, max(_MOST_ROWS // len(keys), 1))
        return [values | dict(zip(join.on.values(), key, strict=True)) for key in keys for _ in range(rows)]


def _typed(value: Any, kind: type) -> Made:
    if kind is datetime.datetime and isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day, 12)
    if kind is str:
        return canonical(value)
    return value if kind in (datetime.date, datetime.datetime) else kind(value)  # type: ignore[no-any-return]


def _aggregates(ready: Prepared, tables: MadeUp, salt: Salt) -> tuple[Aggregate, ...]:
    """What the engine adds up of the tables, read from files as a release reads them; every coordinate made once."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        *_, file = tables.write(Path(folder) / "table.parquet")
        plan = read_plan(file)
        assert plan.source is not None
        engine: Engine = stack.enter_context(opened(plan.source, folder=Path(folder)))
        found = aggregated(plan, engine, compiled(plan, engine, salt, ready.hidden))
        return tuple(
            replace(each, answers={at: dict(own.items()) for at, own in each.answers.items()}) for each in found
        )


def _moved(ready: Prepared, one: tuple[Aggregate, ...], two: tuple[Aggregate, ...]) -> float:
    """The part of what is charged for one unit by which two tables are apart."""
    far, most = Fraction(0), Fraction(0)
    for before, after in zip(one, two, strict=True):
        for index in before.block.questions:
            own = ready.questions[index]
            sensitivity, share, nothing = own.sensitivity, own.share, own.question.coordinates({}, own.unit)
            if not sensitivity.cell:
                continue
            left, right = before.answers[index], after.answers[index]
            steps = [
                [abs(a - b) for a, b in zip(left.get(key, nothing), right.get(key, nothing), strict=True)]
                for key in {*left, *right}
            ]
            length = sum((max(each) if sensitivity.supremum else sum(each) for each in steps), Fraction(0))
            square = sum((x * x for each in steps for x in each), Fraction(0))
            charge = Fraction(share.mu) ** 2 or Fraction(share.epsilon) * share.groups * share.parts
            far += charge * (square / sensitivity.square if share.mu else length / sensitivity.total)
            most += charge
    return float(far / most) if most else 0.0
