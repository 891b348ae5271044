"""A plan as SQL, and its exact aggregates: coordinates that one unit can move by a known amount.

There is one statement with sums for every grouping, and one for each question that needs counts by place. What a
question adds up it says in the vocabulary of `plan.measure`, which is compiled here; no kind of question is known. The
statements are trees; `tree.sql(dialect)` writes them for an engine. All arithmetic on data is in whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, assert_never

from sqlglot import exp

from rangebound.release.engine import Engine
from rangebound.release.engine.dialect import Dialect, Tree, choice, integer, term
from rangebound.release.engine.interface import Record
from rangebound.release.noise.draw import Coordinates, Key
from rangebound.release.plan import measure
from rangebound.release.plan.groupings import Block, block_of, blocks
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.model import Plan
from rangebound.release.plan.table_schema import Schema
from rangebound.release.plan.unit import Unit
from rangebound.release.sql.contribution_bound import Scan, Sheet
from rangebound.release.sql.expression import as_key, beyond_doubles, cast, column, is_there, local, meets
from rangebound.release.sql.measured import fixed_point, outside, place, scaled_product, value
from rangebound.release.sql.relation import Relation, Salt, at_most, counted
from rangebound.release.sql.view import not_too_deep, try_statements, view
from rangebound.sampling.entropy import secure_bits

UNITS = "units"


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One statement for a block; its rows hold a key (an index of the public ones, or texts), a place if any, and sums.

    `columns[q]` says which column holds the sum of which name for question q; `placed` that it is counted by place.
    With `listed` a place is the text of one of these keys.
    """

    block: Block
    tree: exp.Select
    key_width: int
    columns: Mapping[int, Mapping[str, int]]
    placed: bool = False
    listed: Key = ()


def statements(
    plan: Plan, schema: Schema, salt: Salt, *, source: Relation, dialect: Dialect, also: Sequence[Block] = ()
) -> tuple[Statement, ...]:
    """The statements of a plan; `also` has further groupings in which some questions are counted.

    Guarantee: they depend on the plan, the schema and the salt alone. What one unit changes in their results is bounded
    by its rows and groups in the plan, as `Kind.sensitivity` states it for every kind.
    """
    found = []
    asked = [each.measures(plan.unit_of(each), plan.groups(each.counted_by)) for each in plan.query]

    def compiler(block: Block) -> _Compiler:
        return _Compiler(Scan(plan, schema, salt, source, dialect, block))

    for block in (*blocks(plan), *also):
        own = [(index, asked[index]) for index in block.questions]
        sums = {index: each for index, each in own if isinstance(each, measure.GroupSums)}
        if sums or block.keys is None:
            found.append(compiler(block).summed(sums))
        for index, each in own:
            if isinstance(each, measure.Totals):
                found += compiler(block_of(plan, each.over, (index,))).totals(index, each, block)
            elif not isinstance(each, measure.GroupSums):
                found.append(_COUNTS[type(each)](compiler(block), index, each))
    return tuple(found)


class _Compiler:
    """Measures of one block as SQL, for one statement."""

    def __init__(self, scan: Scan) -> None:
        self.scan, self.dialect, self.plan = scan, scan.dialect, scan.plan

    def summed(self, questions: Mapping[int, measure.GroupSums]) -> Statement:
        """The statement for sums; one for all questions of the block."""
        scan, counts, measures, finals = self.scan, Sheet("n"), Sheet("m"), Sheet("f")
        columns: dict[int, dict[str, str]] = {}
        once: set[str] = set()
        for index, asked in questions.items():
            sums = self._sums(asked, self._rows(index), counts, measures)
            columns[index] = {name: finals.name(tree) for name, tree in sums.items()}
            once |= {columns[index][name] for name in _owned(asked.of)}
        if scan.block.keys is None:
            unit = local(counts.name(integer(1))) if scan.unit is None else integer(1)
            columns[-1] = {UNITS: finals.name(unit)}
            once.add(columns[-1][UNITS])
        order = list(finals.trees)
        read = {**counts.trees, **measures.trees}
        totals = {name: counted(name, tree) for name, tree in counts.trees.items()}
        totals |= {name: self.dialect.added(local(name)) for name in measures.trees}
        if scan.unit is None:
            totals = {name: totals[each.name] for name, each in finals.trees.items()}
            tree = scan.grouped(scan.rows(read), scan.texts, totals)
            tree = scan.listed(tree, order) if scan.public else tree
        else:
            times = scan.times()
            cells = scan.grouped(scan.truncated({**read, **times}), [*scan.owners, *times], totals)
            cells, bounded = self._over_times(cells, finals.trees, once)
            tree = scan.grouped(cells, scan.keys, {name: self.dialect.added(each) for name, each in bounded.items()})
        at = {name: len(scan.keys) + place for place, name in enumerate(order)}
        where = {index: {name: at[column] for name, column in own.items()} for index, own in columns.items()}
        return self._statement(tree, where)

    def _statement(self, tree: exp.Select, columns: Mapping[int, Mapping[str, int]], **placed: Any) -> Statement:
        scan = self.scan
        whole = scan.with_keys(tree)
        return Statement(block=scan.block, tree=whole, key_width=len(scan.keys), columns=columns, **placed)

    def placed(self, index: int, asked: measure.Places) -> Statement:
        """The statement for counts by place, in units of 1 / ONE row."""
        scan = self.scan
        found = place(asked, self._value(asked.values), self._whole(asked.values, asked.borders), self.dialect)
        measures = {"j": self._if_counted(asked.rows, found, integer(-1))}
        if asked.once:
            return self._placed(index, scan.by_place(measures, None))
        times = scan.times()
        return self._placed(index, scan.by_place({**measures, **times}, self._rows(index), times=list(times)))

    def by_key(self, index: int, asked: measure.KeyCounts) -> Statement:
        """The statement for counts by the key of one column more, of those that the plan lists."""
        scan = self.scan
        (listed,) = scan.plan.columns((asked.column,))
        key = self._if_counted(asked.rows, scan.read_key(asked.column))
        return self._placed(index, scan.by_place({"j": key}, None, listed), listed)

    def by_edge(self, index: int, asked: measure.EdgeCounts) -> Statement:
        """The statement for counts by place among edges, of each unit one in all."""
        wheres = (asked.rows.where,)
        return self._placed(index, self.scan.by_edge(asked.column, asked.edges, dated=asked.dated, wheres=wheres))

    def _placed(self, index: int, tree: exp.Select, listed: Key = ()) -> Statement:
        """A statement for counts by place, or by listed key."""
        return self._statement(tree, {index: {"count": len(self.scan.keys) + 1}}, placed=True, listed=listed)

    def distinct(self, index: int, asked: measure.DistinctValues) -> Statement:
        """The statement for the number of distinct values."""
        scan = self.scan
        value = self._if_counted(asked.rows, local(scan.read.name(as_key(asked.column, scan.schema))))
        tree = scan.by_value(value, asked.most)
        return self._statement(tree, {index: {"n": len(scan.keys)}})

    def totals(self, index: int, asked: measure.Totals, block: Block) -> list[Statement]:
        """The statements for sums of all groups together, as sums of the block that publishes them."""
        scan = self.scan
        measures = {name: self._measure(each, asked.rows) for name, each in asked.of.items()}
        sums = {
            name: counted(name, measures[name]) if _counts(each) else self.dialect.added(local(name))
            for name, each in asked.of.items()
        }
        if scan.unit is None:
            cells = scan.grouped(scan.rows(measures), scan.texts, sums)
            cells = scan.listed(cells, list(measures)) if scan.public else cells
            finals: Mapping[str, Tree] = {name: local(name) for name in measures}
        else:
            times = scan.times()
            cells = scan.grouped(scan.truncated({**measures, **times}), [*scan.owners, *times], sums)
            n = next(local(name) for name, each in asked.of.items() if _counts(each))
            finals = {name: self._bounded(each, local(name), n, self._rows(index)) for name, each in asked.of.items()}
            cells, finals = self._over_times(cells, finals, _owned(asked.of))
        tree = scan.grouped(cells, [], {name: self.dialect.added(each) for name, each in finals.items()})
        columns = {index: {name: at for at, name in enumerate(finals)}}
        found = [Statement(block=block, tree=scan.with_keys(tree), key_width=0, columns=columns)]
        return found if asked.existing is None else [*found, self._existing(index, asked, asked.existing, block)]

    def _over_times(
        self, cells: exp.Select, finals: Mapping[str, Tree], once: Collection[str]
    ) -> tuple[exp.Select, Mapping[str, Tree]]:
        """What a unit counts for in a group, from what it counts for in each period of it, where there are any.

        Sums add up; a unit that counts `once` counts so in all periods together.
        """
        if self.scan.block.unit.period is None:
            return cells, finals
        sums = {name: exp.Max(this=tree) if name in once else self.dialect.added(tree) for name, tree in finals.items()}
        return self.scan.grouped(cells, ["u", *self.scan.keys], sums), {name: local(name) for name in finals}

    def _existing(self, index: int, asked: measure.Totals, name: str, block: Block) -> Statement:
        """How many rows there are (or groups with rows, where a unit counts once), of each unit up to the limit."""
        scan, rows = self.scan, self._measure(measure.Counted(), asked.rows)
        cells = scan.grouped(scan.indexed({"n": rows}), ["u", *scan.keys], {"n": counted("n", rows)})
        once = any(isinstance(each, measure.Owned) for each in asked.of.values())
        one = exp.Least(this=local("n"), expressions=[integer(1)]) if once else local("n")
        units = scan.grouped(cells, ["u"], {"m": self.dialect.added(one)})
        most = cast(exp.Least(this=local("m"), expressions=[integer(asked.limit)]), "BIGINT")
        tree = scan.with_keys(scan.grouped(units, [], {"m": self.dialect.added(most)}))
        return Statement(block=block, tree=tree, key_width=0, columns={index: {name: 0}})

    def _sums(self, asked: measure.GroupSums, rows: int, counts: Sheet, measures: Sheet) -> dict[str, Tree]:
        """What a unit's sums in one group count for, after the truncation."""
        n = local(counts.name(self._measure(measure.Counted(), asked.rows)))

        def counts_for(each: measure.Measure) -> Tree:
            sheet = counts if _counts(each) else measures
            amount = local(sheet.name(self._measure(each, asked.rows)))
            return amount if self.scan.unit is None else self._bounded(each, amount, n, rows)

        def part(each: measure.Measure) -> Tree:
            one, most = integer(measure.ONE if _counts(each) else 1), integer(rows)
            whole = term("(:amount * :one)", amount=counts_for(each), one=one)
            return cast(exp.IntDiv(this=whole, expression=most), "BIGINT")

        return {
            name: reduce(scaled_product, map(part, each.of)) if isinstance(each, measure.UnitPart) else counts_for(each)
            for name, each in asked.of.items()
        }

    def _rows(self, index: int) -> int:
        """How many rows of a unit count for a question in each group."""
        return self.plan.unit_of(self.plan.query[index]).rows

    def _bounded(self, each: measure.Measure, amount: Tree, n: Tree, rows: int) -> Tree:
        """What the sum of a measure over a unit's n rows in a group counts for: all up to `rows` rows, else a part."""
        match each:
            case measure.Owned():
                return term("CASE WHEN :n > 0 THEN 1 ELSE 0 END", n=n)
            case measure.Counted():
                return term("CASE WHEN :n < :most THEN :n ELSE :most END", n=n, most=integer(rows))
        return at_most(amount, n, rows, self.dialect)

    def _measure(self, each: measure.Measure, rows: measure.Rows) -> Tree:
        """What one row adds to a sum: 0 if it does not count, or NULL where rows are counted."""
        tree = self._compiled(each)
        if _counts(each) and not rows.where and rows.values is not None and not rows.also:
            return tree if rows.values.filler is not None else self._value(rows.values)
        met = self._counted(rows, _vanishing(each))
        if met is None:
            return tree
        return choice((met, tree), otherwise=None if _counts(each) else integer(0))

    def _compiled(self, each: measure.Measure) -> Tree:
        """What one row that counts adds to a sum."""
        match each:
            case measure.Counted() | measure.Owned():
                return integer(1)
            case measure.Value(of=values):
                return fixed_point(values, self._value(values))
            case measure.Product(of=(first, second)):
                return scaled_product(self._compiled(first), self._compiled(second))
            case measure.Met(conditions=conditions):
                test = local(self.scan.read.name(meets(conditions, self.scan.schema)))
                return choice((test, integer(measure.ONE)), otherwise=integer(0))
            case measure.Outside(of=values):
                whole = self._whole(values, (values.lower, values.upper))
                return outside(values, self._value(values), whole)
        assert_never(each)

    def _if_counted(self, rows: measure.Rows, tree: Tree, otherwise: Tree | None = None) -> Tree:
        met = self._counted(rows)
        return tree if met is None else choice((met, tree), otherwise=otherwise)

    def _value(self, values: measure.Values) -> Tree:
        return local(self.scan.read.name(value(values, self.scan.schema)))

    def _whole(self, values: measure.Values, compared: Iterable[float]) -> Tree | None:
        """A column as whole numbers, where these and not doubles are compared with some values."""
        needed = beyond_doubles(values.column, compared, self.scan.schema)
        return local(self.scan.read.name(column(values.column))) if needed else None

    def _counted(self, rows: measure.Rows, besides: Collection[measure.Values] = ()) -> Tree | None:
        """Whether a row counts, None if all do: it meets `where`, and has a value or the plan's constant for one.

        Values `besides` need not be there.

        Guarantee: true or false by the row alone, never NULL. So a missing value is one more condition that a row meets
        or not, and a unit can change what it can change with a condition.
        """
        needed: list[Tree] = []
        if rows.where:
            needed.append(local(self.scan.read.name(meets(rows.where, self.scan.schema))))
        for values in (rows.values, *rows.also):
            if values is not None and values.filler is None and values not in besides:
                needed.append(is_there(self._value(values)))
        return reduce(lambda a, b: exp.And(this=a, expression=b), needed) if needed else None


_COUNTS: dict[type, Callable[[_Compiler, int, Any], Statement]] = {
    measure.Places: _Compiler.placed,
    measure.DistinctValues: _Compiler.distinct,
    measure.KeyCounts: _Compiler.by_key,
    measure.EdgeCounts: _Compiler.by_edge,
}


def _owned(measures: Mapping[str, measure.Measure | measure.UnitPart]) -> set[str]:
    """The names of the measures that a unit adds 1 to at most."""
    return {name for name, each in measures.items() if isinstance(each, measure.Owned)}


def _counts(each: measure.Measure) -> bool:
    """Whether a measure is 1 in every row that counts, so that its sum is the number of these."""
    return isinstance(each, measure.Counted | measure.Owned)


def _vanishing(each: measure.Measure) -> frozenset[measure.Values]:
    """The values whose absence alone makes a measure 0: they are then at the lower end of the fixed point."""
    match each:
        case measure.Value(of=values):
            return frozenset([values]) if values.filler is None and values.least is None else frozenset()
        case measure.Product(of=(first, second)):
            return _vanishing(first) | _vanishing(second)
    return frozenset()


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

    def __init__(self, question: Kind, unit: Unit, keys: tuple[Key, ...], sums: Mapping[Key, measure.Found]) -> None:
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
