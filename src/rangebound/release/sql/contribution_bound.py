"""From the table to the rows within the contribution bounds: owners, keys, and the groups of each unit that stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from sqlglot import exp

from rangebound.release.engine import Engine
from rangebound.release.engine.dialect import Dialect, Tree, choice, double, integer, term
from rangebound.release.noise.draw import Key
from rangebound.release.plan.condition import Condition
from rangebound.release.plan.fields import number
from rangebound.release.plan.groupings import Block, public_keys
from rangebound.release.plan.measure import ONE
from rangebound.release.plan.model import Plan
from rangebound.release.plan.table_schema import TEXTS, Family, Schema
from rangebound.release.sql import relation
from rangebound.release.sql.expression import as_key, as_number, column, is_there, local, meets, place_in_time
from rangebound.release.sql.measured import edge_place, key_text, key_value, place_among, present
from rangebound.release.sql.relation import (
    Relation,
    Salt,
    aliased,
    at_most,
    is_listed,
    join,
    named,
    of,
    same,
    select_from,
    shortened,
    table_of,
    where,
    wide,
)
from rangebound.release.sql.view import view

LONGEST_KEY = 2**20
"""A text of more characters is not a key that can be selected: it would have to leave the engine before it is."""
_MASKED = 16  # up to this many groups per unit, clearing bits one by one beats sorting


@dataclass
class Sheet:
    """Columns under construction: the same expression asked for twice is one column."""

    prefix: str
    trees: dict[str, Tree] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def name(self, tree: Tree) -> str:
        """The name of the column that holds an expression."""
        key = tree.sql()
        if key not in self.names:
            self.names[key] = f"{self.prefix}{len(self.names)}"
            self.trees[self.names[key]] = tree
        return self.names[key]


class Scan:
    """One block's way from the table to the rows within the contribution bounds."""

    def __init__(
        self, plan: Plan, schema: Schema, salt: Salt, source: Relation, dialect: Dialect, block: Block
    ) -> None:
        self.plan, self.schema, self.salt, self.dialect, self.block = plan, schema, salt, dialect, block
        self.source = aliased(source)
        self.unit = block.unit.column
        self.texts = [f"k{index}" for index in range(len(block.by))]
        self.public = block.keys is not None and bool(block.by)
        self.keys = ["i"] if self.public else self.texts
        self.read = Sheet("v")  # what is read of a row: values and whether conditions are met, each once
        self.limit = block.unit.groups
        few = block.keys is not None and len(block.keys) <= self.limit
        self.choosing = self.unit is not None and bool(block.by) and not few
        small = self.public and len(block.keys or ()) <= relation.SMALL_PRIME and self.limit <= _MASKED
        self.masking = self.choosing and small and dialect.masks
        self.owners = ["u", *(["p"] if self.choosing and not self.masking else []), *self.keys]  # within the bounds

    def asked(self, wheres: Sequence[tuple[Condition, ...]]) -> Tree | None:
        """Whether a row meets one of several lists of conditions, or None where all rows do."""
        if not wheres or not all(wheres):
            return None
        tests: list[Tree] = [local(self.read.name(meets(each, self.schema))) for each in dict.fromkeys(wheres)]
        return exp.Paren(this=reduce(lambda a, b: exp.Or(this=a, expression=b), tests))

    def rows(self, measures: Mapping[str, Tree]) -> exp.Select:
        """Rows that have an owner and a key, with what is measured of each, which is made of what is read of it."""
        own = {} if self.unit is None else {"u": self._owner()}
        values = {text: self._value(name) for text, name in zip(self.texts, self.block.by, strict=True)}
        keys = {text: self._made(name, local(text)) for text, name in zip(self.texts, self.block.by, strict=True)}
        read = self.read.trees if measures else {}
        selected = {**own, **values, **read} or {"v": integer(1)}  # a count of all rows reads nothing of them
        rows = exp.select(*named(selected), copy=False).from_(self.source, copy=False)
        made = {text for text, key in keys.items() if not isinstance(key, exp.Column)}
        private = [] if self.public else list(zip(self.texts, self.block.by, strict=True))  # no public key is NULL
        needed = [is_there(each) for each in own.values()]
        needed += [self._there(name, values[text]) for text, name in private if text not in made]
        rows = where(rows, *needed, *self._listed(), *self._timely())
        if not measures and not made:
            return rows
        rows = select_from(self.dialect.apart(rows), "read", *map(local, own), **keys, **measures)
        return where(rows, *(self._there(name, keys[text]) for text, name in private if text in made))

    def _there(self, name: str, key: Tree) -> Tree:
        """Whether a private key is there; a text that no table of results has room for is not."""
        if self.schema[name] not in TEXTS:
            return is_there(key)
        return exp.LTE(this=exp.Length(this=key), expression=integer(LONGEST_KEY))

    def _listed(self) -> list[Tree]:
        """Whether a row has listed keys in all columns that have any, where other rows do not count in the plan.

        The keys are a table: engines hash one, and compare each row with each member of a list.
        """
        plan = self.plan
        if not plan.only_listed:
            return []
        columns = zip(plan.listed_columns, plan.columns(plan.listed_columns), strict=True)
        return [
            *(is_listed([self._key(name)], [(key,) for key in keys], self.dialect) for name, keys in columns),
            *(
                is_listed([self._key(name) for name in each.columns], each.texts, self.dialect)
                for each in plan.combinations or ()
            ),
        ]

    def _value(self, name: str) -> Tree:
        return key_value(name, self.plan.rule(name), self.schema)

    def _made(self, name: str, value: Tree) -> Tree:
        """The key of a row by the value that it is made of; that value itself where there is no rule."""
        return key_text(name, self.plan.rule(name), self.schema, value, self.dialect)

    def read_key(self, name: str) -> Tree:
        """The key of a row in a column that is not one of the grouping ones, made of what is read of it."""
        return self._made(name, local(self.read.name(self._value(name))))

    def _timely(self) -> list[Tree]:
        """Whether a row is in the range of the periods; one without a date is not."""
        period = self.block.unit.period
        if period is None:
            return []
        first, last = (double(number(each)) for each in period.range)
        day = as_number(period.column, self.schema, dated=True)
        return [exp.Coalesce(this=exp.Between(this=day, low=first, high=last), expressions=[exp.false()])]

    def times(self) -> dict[str, Tree]:
        """The period `when` a row was, as one more measure, where rows are bounded in each period; else nothing."""
        period = self.block.unit.period
        if period is None:
            return {}
        day = as_number(period.column, self.schema, dated=True)
        return {"when": local(self.read.name(place_in_time(period.each, day)))}

    def _key(self, name: str) -> Tree:
        return self._made(name, self._value(name))

    def _owner(self) -> Tree:
        assert self.unit is not None
        family = self.schema[self.unit]
        return column(self.unit) if family is not Family.DATE else as_key(self.unit, self.schema)

    def indexed(self, measures: Mapping[str, Tree]) -> exp.Select:
        """Rows with the index of their public key instead of its texts; rows with another key are gone."""
        rows = self.rows(measures)
        if not self.public:
            return rows
        names = [of("r", name) for name in ("u", *measures)]
        index = of("keys", "i")
        return join(select_from(rows, "r", *names, index), exp.to_table("keys"), same(self.texts, "r", "keys"))

    def with_keys(self, tree: exp.Select) -> exp.Select:
        """A statement with the table of its public keys in front."""
        if not self.public:
            return tree
        keys = self.block.keys or ()
        return tree.with_("keys", as_=table_of(self.texts, keys, self.dialect, place="i"), copy=False)

    def listed(self, sums: exp.Select, names: list[str]) -> exp.Select:
        """Sums by text of key, brought to the index of the public key."""
        chosen = [of("s", name) for name in names]
        index = of("keys", "i")
        return join(select_from(sums, "s", index, *chosen), exp.to_table("keys"), same(self.texts, "s", "keys"))

    def truncated(self, measures: Mapping[str, Tree]) -> exp.Select:
        """Rows in the groups that their unit keeps."""
        if not self.choosing:
            return self.indexed(measures)
        return self._truncated_by_mask(measures) if self.masking else self._truncated_in_order(measures)

    def _placed(self, measures: Mapping[str, Tree]) -> exp.Select:
        """Rows with the place `p` of their group in their unit's order."""
        kept = [local(name) for name in ("u", *self.keys, *measures)]
        return select_from(self.indexed(measures), "rows", *kept, p=self._place())

    def _place(self) -> Tree:
        if not self.public:
            return relation.digest(self.salt, self._named(), *map(shortened, map(local, self.keys)))
        assert self.unit is not None
        assert self.block.keys is not None
        family = self.schema[self.unit]
        prime = relation.SMALL_PRIME if len(self.block.keys) <= relation.SMALL_PRIME else relation.PRIME
        number = relation.unit_number(local("u"), family, self.salt, self.dialect)
        return relation.place(number, local("i"), self.salt, prime)

    def _named(self) -> Tree:
        """The owner of a row as a text that is not long."""
        assert self.unit is not None
        return shortened(local("u")) if self.schema[self.unit] in TEXTS else local("u")

    def _truncated_in_order(self, measures: Mapping[str, Tree]) -> exp.Select:
        """The first groups of each unit, in any engine, by sorting its rows; they then lie together by group.

        Two groups of a unit may have the same place only where keys are not public: then the keys decide.
        """
        order = exp.Order(expressions=[exp.Ordered(this=local(name)) for name in ("p", *self.keys)])
        rank = exp.Window(this=exp.Anonymous(this="DENSE_RANK", expressions=[]), partition_by=[local("u")], order=order)
        kept = [local(name) for name in (*self.owners, *measures)]
        ranked = select_from(self._placed(measures), "placed", *kept, a=rank)
        rows = select_from(ranked, "ranked", *kept)
        return where(rows, exp.LTE(this=local("a"), expression=integer(self.limit)))

    def _truncated_by_mask(self, measures: Mapping[str, Tree]) -> exp.Select:
        """The first groups of each unit without sorting: its places are bits of a word, and the lowest bits stay."""

        def bit(table: str) -> Tree:
            return term("(CAST(1 AS INT128) << CAST(:p AS INT))", p=of(table, "p"))

        def less(x: str) -> Tree:  # x & (x - 1) clears the lowest bit, and leaves 0 as it is
            return term(":x & (:x - 1)", x=local(x))

        left = self.grouped(self._placed({}), ["u"], {"m": exp.BitwiseOrAgg(this=bit("rows"))})
        left = select_from(left, "masks", local("u"), local("m"), x=local("m"))
        for _ in range(self.limit):
            left = select_from(left, "masks", local("u"), local("m"), x=less("x"))
        low = exp.Sub(this=local("m"), expression=local("x"))
        kept = select_from(left, "masks", local("u"), m=low).subquery("kept", copy=False)
        stays = exp.Paren(this=exp.BitwiseAnd(this=of("kept", "m"), expression=bit("r")))
        rows = select_from(self._placed(measures), "r", *(of("r", name) for name in ("u", *self.keys, *measures)))
        rows = join(rows, kept, same(["u"], "r", "kept"))
        return where(rows, exp.NEQ(this=stays, expression=integer(0)))

    def grouped(self, rows: exp.Select, keys: list[str], sums: Mapping[str, Tree]) -> exp.Select:
        """Sums by some columns."""
        grouped = select_from(rows, "rows", *map(local, keys), **sums)
        return grouped.group_by(*map(local, keys), copy=False) if keys else grouped

    def by_edge(
        self, column: str, edges: Sequence[float], *, dated: bool, wheres: Sequence[tuple[Condition, ...]]
    ) -> exp.Select:
        """Counts by place among edges, as `place_among` counts it, of rows that meet one of `wheres`.

        Each unit adds one in all, spread over the places of its values; it needs no range, and cannot fail.
        """
        this = as_number(column, self.schema, dated=dated)
        x: Tree = local(self.read.name(choice((present(this), this))))
        found, met = edge_place(x, edges), self.asked(wheres)
        if met is not None:
            x, found = choice((met, x)), choice((met, found), otherwise=integer(-1))
        return self.by_place({"j": found, "x": x}, 1, inside=is_there(local("x")))

    def by_place(
        self,
        measures: Mapping[str, Tree],
        rows: int | None,
        listed: Key = (),
        times: Sequence[str] = (),
        inside: Tree | None = None,
    ) -> exp.Select:
        """Counts by key and place `j` in units of 1 / ONE row, `rows` of each unit at most; none at negative places.

        Without `rows` a unit adds 1 at every place where it has a row. With `listed` a place is one of these texts.
        With `times`, measures that say when a row was, `rows` of each unit at each time. A place is negative where what
        `inside` says of the measures is not so. If it says it of the place of a value among many edges, an engine that
        asks it of rows as it reads them makes the value once for each edge.
        """
        inside = exp.GTE(this=local("j"), expression=integer(0)) if inside is None else inside
        if listed:
            inside = is_listed([local("j")], [(each,) for each in listed], self.dialect)
        if self.unit is None:
            picked = where(select_from(self.rows(measures), "rows", exp.Star()), inside)
            count = exp.Mul(this=wide(exp.Count(this=exp.Star()), self.dialect), expression=integer(ONE))
            tree = self.grouped(picked, [*self.texts, "j"], {"f0": count})
            tree = self.listed(tree, ["j", "f0"]) if self.public else tree
        else:
            picked = where(select_from(self.truncated(measures), "kept", exp.Star()), inside)
            cells = self.grouped(picked, [*self.owners, *times, "j"], {"c": exp.Count(this=exp.Star())})
            if rows is None:
                units = exp.Mul(this=wide(exp.Count(this=exp.Star()), self.dialect), expression=integer(ONE))
                return self.grouped(cells, [*self.keys, "j"], {"f0": units})
            owners = [local(name) for name in ("u", *self.keys, *times)]
            whole = exp.Window(this=exp.Sum(this=wide(local("c"), self.dialect)), partition_by=owners)
            names = [local(name) for name in (*self.keys, "j", "c")]
            shares = select_from(cells, "cells", *names, n=whole)
            scaled = exp.Mul(this=wide(local("c"), self.dialect), expression=integer(ONE))
            sums = self.dialect.added(at_most(scaled, local("n"), rows, self.dialect))
            tree = self.grouped(shares, [*self.keys, "j"], {"f0": sums})
        return tree

    def by_value(self, value: Tree, most: int) -> exp.Select:
        """The number `n` of distinct values `d` by key, of each unit those `most` that come first in its own order.

        The order of a unit's values depends on the unit, the values and the salt, on nothing else: what one unit does
        never moves another one's choice.
        """
        there = is_there(local("d"))
        if self.unit is None:
            rows = where(select_from(self.rows({"d": value}), "rows", exp.Star()), there)
            found = select_from(rows, "rows", *map(local, (*self.texts, "d"))).distinct(copy=False)
            tree = self.grouped(found, self.texts, {"n": exp.Count(this=exp.Star())})
            return self.listed(tree, ["n"]) if self.public else tree
        owners = ["u", *self.keys]
        rows = where(select_from(self.truncated({"d": value}), "rows", exp.Star()), there)
        own = select_from(rows, "rows", *map(local, (*owners, "d"))).distinct(copy=False)
        place = relation.digest(self.salt, self._named(), shortened(local("d")))
        placed = select_from(own, "own", *map(local, (*owners, "d")), p=place)
        order = exp.Order(expressions=[exp.Ordered(this=local(name)) for name in ("p", "d")])
        rank = exp.Window(this=exp.RowNumber(), partition_by=list(map(local, owners)), order=order)
        ranked = select_from(placed, "placed", *map(local, (*self.keys, "d")), a=rank)
        first = where(select_from(ranked, "ranked", exp.Star()), exp.LTE(this=local("a"), expression=integer(most)))
        found = select_from(first, "first", *map(local, (*self.keys, "d"))).distinct(copy=False)
        return self.grouped(found, self.keys, {"n": exp.Count(this=exp.Star())})


Conditions = tuple[Condition, ...]


def owners_by_value(
    plan: Plan,
    salt: Salt,
    engine: Engine,
    *,
    column: str,
    edges: Sequence[float],
    dated: bool,
    wheres: Sequence[Conditions] = (),
) -> exp.Select:
    """Owners by the place of their values among public edges, whatever bounds the plan has; see `Scan.by_edge`."""
    once = plan.counted_unit.model_copy(update={"rows": 1, "groups": 1})
    block = Block(by=(), unit=once, keys=((),), questions=())
    seen = view(plan, engine)
    scan = Scan(plan, seen.schema, salt, seen.source(salt), engine.dialect, block)
    return scan.by_edge(column, edges, dated=dated, wheres=wheres)


def owners_by_size(
    plan: Plan,
    salt: Salt,
    engine: Engine,
    *,
    by: tuple[str, ...],
    edges: Sequence[int],
    groups: bool,
    wheres: Sequence[Conditions] = (),
) -> exp.Select:
    """Owners by how many rows they have in the group where they have most, or by how many `groups` they are in.

    Where rows are bounded in each period, by how many they have in the group and period where they have most.

    Every owner that has rows that meet one of `wheres` adds one, at a place among public edges, as `place_among` counts
    it; only such rows are looked at.
    """
    seen, block = view(plan, engine), Block(by=by, unit=plan.counted_unit, keys=public_keys(plan, by), questions=())
    scan = Scan(plan, seen.schema, salt, seen.source(salt), engine.dialect, block)
    met, times = scan.asked(wheres), {} if groups else scan.times()
    rows = scan.indexed({**({} if met is None else {"w": met}), **times})
    rows = rows if met is None else where(select_from(rows, "asked", exp.Star()), local("w"))
    cells = scan.grouped(rows, ["u", *scan.keys, *times], {"n": exp.Count(this=exp.Star())})
    size = exp.Count(this=exp.Star()) if groups else exp.Max(this=local("n"))
    units = scan.grouped(cells, ["u"], {"m": size})
    place = place_among(local("m"), list(map(integer, edges)))
    count = exp.Mul(this=wide(exp.Count(this=exp.Star()), engine.dialect), expression=integer(ONE))
    return scan.with_keys(scan.grouped(select_from(units, "units", j=place), ["j"], {"f0": count}))
