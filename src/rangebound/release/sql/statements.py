"""A plan as SQL: for every grouping one statement with sums, and one for each question that needs counts by bin.

The statements are trees; `tree.sql(dialect)` writes them for an engine. All arithmetic on data is in whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from typing import Any

from sqlglot import exp

from rangebound.release.plan.clipping import is_cut, looked_at
from rangebound.release.plan.condition import Condition
from rangebound.release.plan.model import Plan, canonical
from rangebound.release.plan.question import Clipped, Histogram, Maximum, Median, Minimum, Quantiles, Share
from rangebound.release.plan.schema import Family, Schema
from rangebound.release.sql import contribution_bound
from rangebound.release.sql.contribution_bound import Salt
from rangebound.release.sql.expression import (
    ONE,
    SOURCE,
    Tree,
    as_key,
    as_number,
    beyond_doubles,
    cell,
    choice,
    column,
    double,
    every,
    every_pair,
    fixed_point,
    integer,
    local,
    meets,
    outside,
    place_among,
    present,
    value,
)
from rangebound.release.sql.expression import text as literal

Conditions = tuple[Condition, ...]

_MASKED = 16  # up to so many groups a unit, clearing bits one by one beats sorting
_WIDE = {"duckdb": "INT128", "spark": "DECIMAL(28, 0)"}
_BINNED = (Histogram, Quantiles, Median, Minimum, Maximum)
UNITS = "units"


@dataclass(frozen=True, kw_only=True)
class Block:
    """The questions that share a grouping; `keys` are its public keys in order, None where they are selected."""

    by: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...] | None
    questions: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One statement for a block; its rows hold a key (an index of the public ones, or texts), a bin if any, and sums.

    `columns[q]` says which sum plays which part for question q; `bins` is how many bins question q is counted in.
    """

    block: Block
    tree: exp.Select
    key_width: int
    columns: Mapping[int, Mapping[str, int]]
    bins: int = 0


def blocks(plan: Plan) -> tuple[Block, ...]:
    """The groupings of a plan, in the order in which they first appear."""
    found: dict[tuple[str, ...], list[int]] = {}
    for index, question in enumerate(plan.query):
        found.setdefault(question.by, []).append(index)
    return tuple(Block(by=by, keys=_keys(plan, by), questions=tuple(each)) for by, each in found.items())


def _keys(plan: Plan, by: tuple[str, ...]) -> tuple[tuple[str, ...], ...] | None:
    if plan.private(by):
        return None
    return tuple(product(*(map(canonical, plan.keys[column]) for column in by)))


def bin_count(question: Any) -> int:
    """How many bins a question is counted in: those of a histogram, or the points of a grid."""
    return question.bins if isinstance(question, Histogram) else question.steps + 1


def statements(plan: Plan, schema: Schema, salt: Salt, *, source: exp.Table, dialect: str) -> tuple[Statement, ...]:
    """The statements of a plan.

    Guarantee: they depend on the plan, the schema and the salt alone. What one unit changes in their results is bounded
    by its rows and groups in the plan, as `aggregate` states it for every kind.
    """
    found = []
    for block in blocks(plan):
        scan = _Scan(plan, schema, salt, source, dialect, block)
        cuts = [index for index in block.questions if is_cut(plan.query[index])]
        sums = [index for index in block.questions if not isinstance(plan.query[index], _BINNED) and index not in cuts]
        if sums or block.keys is None:
            found.append(scan.summed(sums))
        found += [scan.binned(index) for index in block.questions if isinstance(plan.query[index], _BINNED)]
        for index in cuts:
            over: Any = plan.query[index]
            grouping = Block(by=over.over, keys=_keys(plan, over.over), questions=(index,))
            found += _Scan(plan, schema, salt, source, dialect, grouping).cut(index, block)
    return tuple(found)


def owners_by_value(
    plan: Plan,
    schema: Schema,
    salt: Salt,
    engine: Any,
    *,
    column: str,
    edges: Sequence[float],
    dated: bool,
    wheres: Sequence[Conditions] = (),
) -> exp.Select:
    """Owners by the place of their values among public edges, as `place_among` counts it.

    Every owner adds one in all, spread over the places of its values in the rows that meet one of `wheres`; it needs no
    range, and cannot fail.
    """
    once = plan.model_copy(update={"unit": plan.unit.model_copy(update={"rows": 1, "groups": 1})})
    block = Block(by=(), keys=((),), questions=())
    scan = _Scan(once, schema, salt, engine.source, engine.dialect, block)
    this = as_number(column, schema, dated=dated)
    x = local(scan.read.name(choice((present(this), this))))
    missing = exp.Is(this=x.copy(), expression=exp.Null())
    met = scan.asked(wheres)
    unasked = [] if met is None else [(exp.Not(this=met), integer(-1))]
    found = choice(*unasked, (missing, integer(-1)), otherwise=place_among(x, list(map(double, edges))))
    return scan.placed({"j": found})


def owners_by_size(
    plan: Plan,
    schema: Schema,
    salt: Salt,
    engine: Any,
    *,
    by: tuple[str, ...],
    edges: Sequence[int],
    groups: bool,
    wheres: Sequence[Conditions] = (),
) -> exp.Select:
    """Owners by how many rows they have in the group where they have most, or by how many `groups` they are in.

    Every owner that has rows that meet one of `wheres` adds one, at a place among public edges, as `place_among` counts
    it; only such rows are looked at.
    """
    scan = _Scan(plan, schema, salt, engine.source, engine.dialect, Block(by=by, keys=_keys(plan, by), questions=()))
    met = scan.asked(wheres)
    rows = scan._indexed({} if met is None else {"w": met})
    rows = rows if met is None else _where(_from(rows, "asked", exp.Star()), local("w"))
    cells = scan._grouped(rows, ["u", *scan.keys], {"n": exp.Count(this=exp.Star())})
    size = exp.Count(this=exp.Star()) if groups else exp.Max(this=local("n"))
    units = scan._grouped(cells, ["u"], {"m": size})
    placed = exp.alias_(place_among(local("m"), list(map(integer, edges))), "j", quoted=True)
    count = exp.Mul(this=_wide(exp.Count(this=exp.Star()), engine.dialect), expression=integer(ONE))
    return scan._with_keys(scan._grouped(_from(units, "units", placed), ["j"], {"f0": count}))


@dataclass
class _Sheet:
    """Columns under construction: the same expression asked for twice is one column."""

    prefix: str
    trees: dict[str, Tree] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def name(self, tree: Tree) -> str:
        key = tree.sql()
        if key not in self.names:
            self.names[key] = f"{self.prefix}{len(self.names)}"
            self.trees[self.names[key]] = tree
        return self.names[key]


class _Scan:
    """One block's way from the table to the rows that count, and from these to sums."""

    def __init__(self, plan: Plan, schema: Schema, salt: Salt, source: exp.Table, dialect: str, block: Block) -> None:
        self.plan, self.schema, self.salt, self.dialect, self.block = plan, schema, salt, dialect, block
        self.source = exp.alias_(source, exp.to_identifier(SOURCE, quoted=True), table=True)
        self.unit = plan.unit.column
        self.texts = [f"k{index}" for index in range(len(block.by))]
        self.public = block.keys is not None and bool(block.by)
        self.keys = ["i"] if self.public else self.texts
        self.read = _Sheet("v")  # what is read of a row: values and whether conditions are met, each once
        self.limit = plan.unit.groups
        few = block.keys is not None and len(block.keys) <= self.limit
        self.choosing = self.unit is not None and bool(block.by) and not few

    def asked(self, wheres: Sequence[Conditions]) -> Tree | None:
        """Whether a row meets one of several lists of conditions, or None where all rows do."""
        if not wheres or not all(wheres):
            return None
        tests: list[Tree] = [local(self.read.name(meets(each, self.schema))) for each in dict.fromkeys(wheres)]
        return exp.Paren(this=reduce(lambda a, b: exp.Or(this=a, expression=b), tests))

    def summed(self, questions: Iterable[int]) -> Statement:
        """The statement for counts, sums and their like."""
        measures, finals = _Sheet("m"), _Sheet("f")
        self.read, columns = _Sheet("v"), {}
        for index in questions:
            question = self.plan.query[index]
            parts = {role: local(measures.name(tree)) for role, tree in self._measures(question).items()}
            columns[index] = {role: finals.name(tree) for role, tree in self._bounded(question, parts).items()}
        if self.block.keys is None:
            columns[-1] = {UNITS: finals.name(self._units(measures))}
        order = list(finals.trees)
        place = {name: len(self.keys) + at for at, name in enumerate(order)}
        sums = {name: _added(tree, self.dialect) for name, tree in finals.trees.items()}
        if self.unit is None:
            rows = self._base(measures.trees)
            totals = {
                name: _total(each.name, measures.trees[each.name], self.dialect) for name, each in finals.trees.items()
            }
            tree = self._grouped(rows, self.texts, totals)
            tree = self._listed(tree, order) if self.public else tree
        else:
            totals = {name: _total(name, tree, self.dialect) for name, tree in measures.trees.items()}
            cells = self._grouped(self._kept(measures.trees), ["u", *self.keys], totals)
            tree = self._grouped(cells, self.keys, sums)
        parts_of = {index: {role: place[name] for role, name in roles.items()} for index, roles in columns.items()}
        return Statement(block=self.block, tree=self._with_keys(tree), key_width=len(self.keys), columns=parts_of)

    def binned(self, index: int) -> Statement:
        """The statement for counts by bin, in units of 1 / ONE row."""
        question: Any = self.plan.query[index]
        bins = bin_count(question)
        self.read = _Sheet("v")
        x = self._value(question)
        number = self._whole(question, question.borders)
        place, counted = cell(question, x, number, self.dialect), self._counted(question)
        measures = {"j": place if counted is None else choice((counted, place), otherwise=integer(-1))}
        tree = self.placed(measures)
        return Statement(
            block=self.block,
            tree=self._with_keys(tree),
            key_width=len(self.keys),
            columns={index: {"count": len(self.keys) + 1}},
            bins=bins,
        )

    def placed(self, measures: Mapping[str, Tree]) -> exp.Select:
        """Counts by key and place `j`, in units of 1 / ONE row; rows whose place is negative do not count."""
        inside = exp.GTE(this=local("j"), expression=integer(0))
        if self.unit is None:
            picked = _where(_from(self._base(measures), "rows", exp.Star()), inside)
            count = exp.Mul(this=exp.cast(exp.Count(this=exp.Star()), _WIDE[self.dialect]), expression=integer(ONE))
            tree = self._grouped(picked, [*self.texts, "j"], {"f0": count})
            tree = self._listed(tree, ["j", "f0"]) if self.public else tree
        else:
            picked = _where(_from(self._kept(measures), "kept", exp.Star()), inside)
            cells = self._grouped(picked, ["u", *self.keys, "j"], {"c": exp.Count(this=exp.Star())})
            owners = [local(name) for name in ("u", *self.keys)]
            whole = exp.Window(this=exp.Sum(this=_wide(local("c"), self.dialect)), partition_by=owners)
            names = [local(name) for name in (*self.keys, "j", "c")]
            shares = _from(cells, "cells", *names, exp.alias_(whole, "n", quoted=True))
            scaled = exp.Mul(this=_wide(local("c"), self.dialect), expression=integer(ONE))
            added = _added(self._at_most(scaled, local("n")), self.dialect)
            tree = self._grouped(shares, [*self.keys, "j"], {"f0": added})
        return tree

    def cut(self, index: int, block: Block) -> list[Statement]:
        """The statements for how much is cut: of all groups together, as sums of the block that publishes them.

        n rows that count, and t for those of them whose value lies outside the range; or n and m, the rows that there
        are, of each unit up to a limit, whether they count or not.
        """
        question: Any = self.plan.query[index]
        self.read = _Sheet("v")
        rows = self._measures(question.sample)["n"]
        if isinstance(question, Clipped):
            ends = question.sample.bounds
            whole = self._whole(question.sample, (ends.lower, ends.upper))
            beyond = outside(question.sample, self._value(question.sample), whole)
            clipped = exp.Mul(this=exp.Paren(this=beyond), expression=exp.Paren(this=rows))
            return [self._cut(index, block, {"n": rows.copy(), "t": clipped}, question.sample)]
        return [self._cut(index, block, {"n": rows}, question.sample), self._there(index, block, rows.copy())]

    def _cut(self, index: int, block: Block, measures: Mapping[str, Tree], question: Any) -> Statement:
        totals = {name: _total(name, tree, self.dialect) for name, tree in measures.items()}
        if self.unit is None:
            cells = self._grouped(self._base(measures), self.texts, totals)
            cells = self._listed(cells, list(measures)) if self.public else cells
            finals: Mapping[str, Tree] = {name: local(name) for name in measures}
        else:
            cells = self._grouped(self._kept(measures), ["u", *self.keys], totals)
            finals = self._bounded(question, {name: local(name) for name in measures})
        tree = self._grouped(cells, [], {name: _added(each, self.dialect) for name, each in finals.items()})
        columns = {index: {name: at for at, name in enumerate(finals)}}
        return Statement(block=block, tree=self._with_keys(tree), key_width=0, columns=columns)

    def _there(self, index: int, block: Block, rows: Tree) -> Statement:
        """How many rows there are (or groups with rows, for a count of units), of each unit up to the limit."""
        question: Any = self.plan.query[index]
        cells = self._grouped(self._indexed({"n": rows}), ["u", *self.keys], {"n": _total("n", rows, self.dialect)})
        one = exp.Least(this=local("n"), expressions=[integer(1)]) if question.units else local("n")
        units = self._grouped(cells, ["u"], {"m": _added(one, self.dialect)})
        limit = integer(looked_at(question, self.plan.unit, self.plan.groups(question.over)))
        most = exp.cast(exp.Least(this=local("m"), expressions=[limit]), "BIGINT")
        tree = self._with_keys(self._grouped(units, [], {"m": _added(most, self.dialect)}))
        return Statement(block=block, tree=tree, key_width=0, columns={index: {"m": 0}})

    def _measures(self, question: Any) -> dict[str, Tree]:
        """What is added up over rows: n for their number, t for values in fixed point, q for the squares of these."""
        met = self._counted(question)

        def counted(tree: Tree) -> Tree:
            return tree if met is None else choice((met.copy(), tree), otherwise=integer(0))

        found = {"n": counted(integer(1))}
        if isinstance(question, Share):
            both = meets((*question.where, *question.of), self.schema)
            found["t"] = choice((local(self.read.name(both)), integer(ONE)), otherwise=integer(0))
        if hasattr(question, "column"):
            fixed = fixed_point(question, self._value(question))
            found["t"] = counted(fixed)
            if question.kind in ("variance", "standard deviation"):
                square = exp.Paren(this=exp.Mul(this=fixed.copy(), expression=fixed.copy()))
                found["q"] = counted(exp.IntDiv(this=square, expression=integer(ONE)))
        return found

    def _whole(self, question: Any, values: Iterable[float]) -> Tree | None:
        """The column of a question as whole numbers, where these and not doubles are compared with some values."""
        needed = beyond_doubles(question.column, values, self.schema)
        return local(self.read.name(column(question.column))) if needed else None

    def _value(self, question: Any) -> Tree:
        return local(self.read.name(value(question, self.schema)))

    def _counted(self, question: Any) -> Tree | None:
        """Whether a row counts, None if all do: it meets `where`, and has a value or the plan's constant for one.

        Guarantee: true or false by the row alone, never NULL. So a missing value is one more condition that a row meets
        or not, and a unit can change what it can change with a condition.
        """
        needed: list[Tree] = []
        if question.where:
            needed.append(local(self.read.name(meets(question.where, self.schema))))
        if hasattr(question, "column") and question.filler is None:
            needed.append(exp.Not(this=exp.Is(this=self._value(question), expression=exp.Null())))
        return reduce(every_pair, needed) if needed else None

    def _bounded(self, question: Any, parts: Mapping[str, Tree]) -> dict[str, Tree]:
        """What a unit's sums in one group count for: all of it up to so many rows, else that part of each sum."""
        if self.unit is None:
            return {role: tree.copy() for role, tree in parts.items()}
        n = parts["n"]
        if question.kind == "count of units":
            return {"n": choice((exp.GT(this=n.copy(), expression=integer(0)), integer(1)), otherwise=integer(0))}
        most = integer(self.plan.unit.rows)
        found = {"n": choice((exp.LT(this=n.copy(), expression=most), n.copy()), otherwise=most.copy())}
        for role in parts.keys() - {"n"}:
            found[role] = self._at_most(parts[role], n)
        return found

    def _at_most(self, amount: Tree, n: Tree) -> Tree:
        """`amount`, a sum over n rows, or the part of it that `rows` of the n rows have on average, rounded down.

        The average over all choices of so many rows: it is bounded as any one choice is, and adds no chance of its own.
        """
        most = integer(self.plan.unit.rows)
        part = exp.IntDiv(this=exp.Paren(this=exp.Mul(this=amount.copy(), expression=most)), expression=n.copy())
        within = exp.LTE(this=n.copy(), expression=most.copy())
        return exp.cast(choice((within, amount.copy()), otherwise=part), "BIGINT")

    def _units(self, measures: _Sheet) -> Tree:
        """One for each unit of a group: the number that keys are selected by."""
        return local(measures.name(integer(1))) if self.unit is None else integer(1)

    def _base(self, measures: Mapping[str, Tree]) -> exp.Select:
        """Rows that have an owner and a key, with what is measured of each, which is made of what is read of it."""
        selected = [exp.alias_(self._key(name), f"k{at}", quoted=True) for at, name in enumerate(self.block.by)]
        if self.unit is not None:
            selected.insert(0, exp.alias_(self._owner(), "u", quoted=True))
        kept = [local(each.alias) for each in selected]
        read = self.read.trees if measures else {}
        selected += [exp.alias_(tree.copy(), name, quoted=True) for name, tree in read.items()]
        if not selected:  # a count of all rows reads nothing of them
            selected = [exp.alias_(integer(1), "v", quoted=True)]
        rows = exp.select(*selected, copy=False).from_(self.source.copy(), copy=False)
        needed = [self._key(name) for name in self.block.by]
        needed += [self._owner()] if self.unit is not None else []
        rows = _where(rows, *(exp.Not(this=exp.Is(this=each, expression=exp.Null())) for each in needed))
        if not measures:
            return rows
        return _from(
            rows, "read", *kept, *(exp.alias_(tree.copy(), name, quoted=True) for name, tree in measures.items())
        )

    def _key(self, name: str) -> Tree:
        kinds = {type(each) for each in self.plan.keys.get(name, ())}
        return as_key(name, self.schema, kind=kinds.pop() if len(kinds) == 1 else str)

    def _owner(self) -> Tree:
        assert self.unit is not None
        family = self.schema[self.unit]
        return column(self.unit) if family is not Family.DATE else as_key(self.unit, self.schema)

    def _indexed(self, measures: Mapping[str, Tree]) -> exp.Select:
        """Rows with the index of their public key instead of its texts; rows with another key are gone."""
        rows = self._base(measures)
        if not self.public:
            return rows
        names = [_of("r", name) for name in ("u", *measures)]
        index = _of("keys", "i")
        return _join(_from(rows, "r", *names, index), exp.to_table("keys"), _same(self.texts, "r", "keys"))

    def _with_keys(self, tree: exp.Select) -> exp.Select:
        """A statement with the table of its public keys in front."""
        if not self.public:
            return tree
        keys = self.block.keys or ()
        tuples = [exp.Tuple(expressions=[integer(at), *map(literal, key)]) for at, key in enumerate(keys)]
        names = [exp.to_identifier(name, quoted=True) for name in ("i", *self.texts)]
        values = exp.Values(expressions=tuples, alias=exp.TableAlias(this=exp.to_identifier("t"), columns=names))
        listed = exp.select(exp.Star(), copy=False).from_(values, copy=False)
        return tree.with_("keys", as_=listed, copy=False)

    def _listed(self, sums: exp.Select, names: list[str]) -> exp.Select:
        """Sums by text of key, brought to the index of the public key."""
        chosen = [_of("s", name) for name in names]
        index = _of("keys", "i")
        return _join(_from(sums, "s", index, *chosen), exp.to_table("keys"), _same(self.texts, "s", "keys"))

    def _kept(self, measures: Mapping[str, Tree]) -> exp.Select:
        """Rows in the groups that their unit keeps."""
        if not self.choosing:
            return self._indexed(measures)
        small = self.public and len(self.block.keys or ()) <= contribution_bound.SMALL_PRIME and self.limit <= _MASKED
        return self._kept_by_mask(measures) if small and self.dialect == "duckdb" else self._kept_by_rank(measures)

    def _placed(self, measures: Mapping[str, Tree]) -> exp.Select:
        """Rows with the place `p` of their group in their unit's order."""
        kept = [local(name) for name in ("u", *self.keys, *measures)]
        return _from(self._indexed(measures), "rows", *kept, exp.alias_(self._place(), "p", quoted=True))

    def _place(self) -> Tree:
        if not self.public:
            return contribution_bound.digest(self.salt, local("u"), *map(local, self.keys))
        assert self.unit is not None
        assert self.block.keys is not None
        family = self.schema[self.unit]
        number = contribution_bound.unit_number(local("u"), family, self.salt, self.dialect)
        return contribution_bound.place(number, local("i"), self.salt, contribution_bound.modulus(len(self.block.keys)))

    def _kept_by_rank(self, measures: Mapping[str, Tree]) -> exp.Select:
        """The first groups of each unit by sorting them: for any engine and any number of groups."""
        owners = ["u", *self.keys]
        groups = _from(self._placed({}), "placed", *map(local, owners), local("p")).distinct(copy=False)
        order = exp.Order(expressions=[exp.Ordered(this=local(name)) for name in ("p", *self.keys)])
        rank = exp.Window(this=exp.RowNumber(), partition_by=[local("u")], order=order)
        ranked = _from(groups, "groups", *map(local, owners), exp.alias_(rank, "a", quoted=True))
        first = _from(ranked, "ranked", *map(local, owners))
        first = _where(first, exp.LTE(this=local("a"), expression=integer(self.limit)))
        rows = _from(self._indexed(measures), "r", *(_of("r", name) for name in (*owners, *measures)))
        return _join(rows, first.subquery("first", copy=False), _same(owners, "r", "first"))

    def _kept_by_mask(self, measures: Mapping[str, Tree]) -> exp.Select:
        """The first groups of each unit without sorting: its places are bits of a word, and the lowest bits stay."""

        def bit(table: str) -> Tree:
            place = exp.cast(_of(table, "p"), "INT")
            return exp.Paren(this=exp.BitwiseLeftShift(this=exp.cast(integer(1), "INT128"), expression=place))

        def less(x: str) -> Tree:  # x & (x - 1) clears the lowest bit, and leaves 0 as it is
            return exp.BitwiseAnd(
                this=local(x), expression=exp.Paren(this=exp.Sub(this=local(x), expression=integer(1)))
            )

        left = self._grouped(self._placed({}), ["u"], {"m": exp.BitwiseOrAgg(this=bit("rows"))})
        left = _from(left, "masks", local("u"), local("m"), exp.alias_(local("m"), "x", quoted=True))
        for _ in range(self.limit):
            left = _from(left, "masks", local("u"), local("m"), exp.alias_(less("x"), "x", quoted=True))
        low = exp.alias_(exp.Sub(this=local("m"), expression=local("x")), "m", quoted=True)
        kept = _from(left, "masks", local("u"), low).subquery("kept", copy=False)
        stays = exp.Paren(this=exp.BitwiseAnd(this=_of("kept", "m"), expression=bit("r")))
        rows = _from(self._placed(measures), "r", *(_of("r", name) for name in ("u", *self.keys, *measures)))
        rows = _join(rows, kept, _same(["u"], "r", "kept"))
        return _where(rows, exp.NEQ(this=stays, expression=integer(0)))

    def _grouped(self, rows: exp.Select, keys: list[str], sums: Mapping[str, Tree]) -> exp.Select:
        chosen = [exp.alias_(tree.copy(), name, quoted=True) for name, tree in sums.items()]
        grouped = _from(rows, "rows", *map(local, keys), *chosen)
        return grouped.group_by(*map(local, keys), copy=False) if keys else grouped


# The builders copy their trees unless they are told not to, and a tree may hold thousands of keys.
def _from(rows: exp.Select, name: str, *columns: Tree) -> exp.Select:
    return exp.select(*columns, copy=False).from_(rows.subquery(name, copy=False), copy=False)


def _where(rows: exp.Select, *conditions: Tree) -> exp.Select:
    return rows.where(*conditions, copy=False)


def _join(rows: exp.Select, other: Tree, on: Tree) -> exp.Select:
    return rows.join(other, on=on, copy=False)


def _of(table: str, name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=table)


def _same(names: list[str], left: str, right: str) -> Tree:
    pairs = [
        exp.EQ(
            this=_of(left, name),
            expression=_of(right, name),
        )
        for name in names
    ]
    return every(pairs)


def _wide(tree: Tree, dialect: str) -> Tree:
    return exp.cast(tree, _WIDE[dialect])


def _total(name: str, measure: Tree, dialect: str) -> Tree:
    """The sum of a measure over rows. It cannot overflow: DuckDB adds into 128 bits by itself, Spark where told to."""
    return exp.Count(this=exp.Star()) if measure == integer(1) else _added(local(name), dialect)


def _added(tree: Tree, dialect: str) -> Tree:
    """The sum of whole numbers of 64 bits, in more than these."""
    return exp.Sum(this=_wide(tree, dialect) if dialect == "spark" else tree)
