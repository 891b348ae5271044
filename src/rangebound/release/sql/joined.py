"""Joins as SQL: a row of the plan's table with columns of a public table, or of the same unit's rows in a private one.

Public, many to one. A public table has each key once, which is checked on the copy that the statements read. So a row
of the private table becomes one row (left) or at most one (inner), and which one follows from that row and public
facts alone. Whatever a table D is, the joined table is the union of what the rows of D become, each by itself; adding,
removing or replacing one unit's rows changes this unit's rows alone, and no more of them. All contribution bounds and
sensitivities hold as they are.

Private, on the unit and maybe more. Let D and E be the tables, and u a unit: all rows of D and E with u in their
columns for it. Both are cut first: of the rows with the same key the first few count, in an order by a keyed hash of
the rows' own contents. Rows with the same key have the same unit, so what remains of u's rows depends on u's rows and
the salt. A joined row is made of a row of D and one of E with the same key, hence of the same unit u. So the joined
table is the disjoint union over all units u of the join of D_u and E_u, a function of u's rows alone: adding, removing
or replacing u changes the joined rows of u and of nobody else. These are the rows whose owner is u in the statements,
so the contribution bounds apply to them as to any table, whatever their number.
If D_u has at most m rows and at most r rows of E_u have one key, then at most m r joined rows are of u.

Neither join can fail: keys are compared as texts, joined rows are at most `rows` times those of the plan's table.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

from sqlglot import exp

from rangebound.errors import EngineError, PlanError
from rangebound.release.engine import Engine
from rangebound.release.engine.dialect import Tree, choice, double, integer
from rangebound.release.engine.dialect import text as literal
from rangebound.release.engine.interface import Place
from rangebound.release.plan.source import Join, TextFormat
from rangebound.release.plan.table_schema import (
    KEYS,
    TEXTS,
    Family,
    Schema,
    TypedSchema,
    check_join_key,
    check_joined_column,
    extended,
    form_of,
)
from rangebound.release.sql.expression import as_key, as_number, column, every, is_there, local
from rangebound.release.sql.local_time import in_zone
from rangebound.release.sql.relation import (
    Relation,
    Salt,
    View,
    aliased,
    digest,
    named,
    of,
    shortened,
    star,
    unused_name,
    where,
)

_OTHER = "joined"
_KINDS = {Family.INTEGER: int, Family.BOOLEAN: bool, Family.DATE: datetime.date}
_FINE, _LARGEST = 1024.0, 2.0**52


def joined(
    seen: View, join: Join, index: int, engine: Engine, *, folder: Path | None, zone: str | None, unit: str | None
) -> View:
    """A view with the columns of a join; refuses one whose columns or keys do not fit, and reads no private row."""
    field = f"join[{index}]"
    further = engine.further(_place(join, folder, field))
    other = in_zone(further.source, further.schema, zone, engine.dialect)
    keys = _keys(join, seen.schema, other.schema, field, unit)
    families = _families(join, seen.schema, other.schema, field)
    theirs = [as_key(name, other.schema, kind=kind) for name, kind in zip(join.on.values(), keys, strict=True)]
    ours = [as_key(name, seen.schema, kind=kind) for name, kind in zip(join.on, keys, strict=True)]
    chosen: dict[str, Tree] = {f"k{at}": tree for at, tree in enumerate(theirs)}
    chosen |= {f"c{at}": column(name) for at, name in enumerate(join.columns.values())}
    rows = where(exp.select(*named(chosen)).from_(aliased(other.rows()), copy=False), *map(is_there, theirs))
    width = len(theirs)
    table: Relation = _copied(engine, rows, width, field) if join.public else exp.Table()
    contents = {f"c{at}": other.schema[name] for at, name in enumerate(join.columns.values())}
    contents |= {f"k{at}": Family.TEXT for at in range(width)}

    def source(salt: Salt) -> exp.Select:
        own = seen.source(salt)
        if join.own_rows is not None:
            own = _first(own, ours, seen.schema, join.own_rows, salt, unused_name(f"rank_{index}", seen.schema))
        if join.rows is None:
            found: Relation = table.copy()
        else:
            keyed = [column(f"k{at}") for at in range(width)]
            found = _first(rows.copy(), keyed, contents, join.rows, salt, "a")
        more = {name: of(_OTHER, f"c{at}") for at, name in enumerate(join.columns)}
        tree = exp.select(star(), *named(more), copy=False).from_(aliased(own), copy=False)
        on = every([exp.EQ(this=each.copy(), expression=of(_OTHER, f"k{at}")) for at, each in enumerate(ours)])
        return tree.join(_as_other(found), on=on, join_type=join.how, copy=False)

    return View(schema=extended(seen.schema, families), source=source)


def _place(join: Join, folder: Path | None, field: str) -> Place:
    if join.path is None:
        return Place(field=field, path=None, table=join.table, public=join.public)
    if folder is None:
        raise PlanError(f"{field}.path: files of a plan that comes from elsewhere are not read", field=f"{field}.path")
    path = str(folder / join.path)
    form = TextFormat(**join.text_fields)
    return Place(field=field, path=path, table=join.table, public=join.public, form=form)


def _as_other(found: Relation) -> Tree:
    if isinstance(found, exp.Select):
        return found.subquery(_OTHER, copy=False)
    return exp.alias_(found, _OTHER, table=True)


def _keys(join: Join, own: Schema, other: Schema, field: str, unit: str | None) -> list[type]:
    """How the columns of each pair are compared: as texts, or by what a text spells where the other side has types.

    The units of a private join are compared as they are written: else two owners of one table could be one owner of the
    other, whose rows would become parts of both.
    """
    found = []
    for ours, theirs in join.on.items():
        check_join_key(own, ours, f"{field}.on", "the table")
        check_join_key(other, theirs, f"{field}.on", "the joined table")
        pair = own[ours], other[theirs]
        typed = {each for each in pair if each not in TEXTS}
        if len(typed) > 1:
            rule = f"{ours!r} is of type {pair[0].value} and {theirs!r} of type {pair[1].value}, which never match"
            raise PlanError(f"{field}.on: {rule}", field=f"{field}.on")
        exact = not typed or (not join.public and ours == unit)
        found.append(str if exact else _KINDS[typed.pop()])
    return found


def _families(join: Join, own: Schema, other: Schema, field: str) -> Schema:
    """The families of the columns that come along, under their new names."""
    taken = {each.casefold() for each in own}
    for name, theirs in join.columns.items():
        check_joined_column(other, theirs, f"{field}.columns")
        if name.casefold() in taken:
            rule = "the table has a column of this name (engines do not distinguish cases); rename it, as "
            raise PlanError(
                f"{field}.columns={name!r}: {rule}columns = {{other_name = {theirs!r}}}", field=f"{field}.columns"
            )
    found = {name: other[theirs] for name, theirs in join.columns.items()}
    forms = {name: form_of(other, theirs) for name, theirs in join.columns.items()}
    return TypedSchema(found, types={}, forms=forms)


def _copied(engine: Engine, rows: exp.Select, width: int, field: str) -> Relation:
    """The public table as statements read it, once it is known that each key is there once."""

    def refuse(table: Relation) -> None:
        names = [f"k{at}" for at in range(width)]
        again = exp.GT(this=exp.Count(this=exp.Star()), expression=integer(1))
        twice = exp.select(*map(local, names)).from_(_as_other(table.copy())).group_by(*map(local, names)).having(again)
        found = engine.run(twice.order_by(*map(local, names)).limit(1))
        if found:
            key = ", ".join(map(repr, found[0]))
            raise PlanError(
                f"{field}.on: the key {key} is in more than one row of the public table; it must have each once, so "
                "that a row is joined with one at most",
                field=f"{field}.on",
            )

    try:
        return engine.copied(rows, refuse)
    except EngineError:
        raise EngineError(f"{field}: the public table cannot be read; its file may be damaged, or too large") from None


def _first(rows: Relation, keys: Sequence[Tree], contents: Schema, most: int, salt: Salt, rank: str) -> exp.Select:
    """The first rows of each key, in an order by a keyed hash of all that the rows hold; `rank` is an unused name.

    The hash rounds numbers, and what it cannot distinguish is in the order of its values; so the choice is the same in
    every engine. Rows that are the same in all columns may take each other's place.
    """
    names = [name for name, family in contents.items() if family is not Family.OTHER]
    order = [exp.Ordered(this=digest(salt, *(_hashed(name, contents) for name in names)))]
    order += [exp.Ordered(this=column(name), nulls_first=True) for name in names]
    number = exp.Window(
        this=exp.RowNumber(), partition_by=[each.copy() for each in keys], order=exp.Order(expressions=order)
    )
    ranked = exp.select(star(), *named({rank: number}), copy=False).from_(aliased(rows), copy=False)
    first = exp.select(*map(column, names), copy=False).from_(aliased(ranked), copy=False)
    return where(first, exp.LTE(this=column(rank), expression=integer(most)))


def _hashed(name: str, schema: Schema) -> Tree:
    """A column as a text that every engine makes alike: of numbers and times, about a thousandth of one or of a day."""
    if schema[name] in TEXTS:
        found = shortened(as_key(name, schema))
    elif schema[name] in KEYS:
        found = as_key(name, schema)
    else:
        most, this = _LARGEST / _FINE, as_number(name, schema)
        small = exp.Between(this=this, low=double(-most), high=double(most))
        scaled = exp.Mul(this=this.copy(), expression=double(_FINE))
        found = exp.cast(choice((small, exp.cast(exp.Floor(this=scaled), "BIGINT"))), "TEXT")
    return exp.Coalesce(this=found, expressions=[literal("\x1e")])
