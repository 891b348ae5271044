"""What the questions of a plan see as their table, and the gate before a charge.

What they see is the engine's own table, or a selection that the steps of the plan make. Each step takes a view and
gives another; in each the table has the alias `SOURCE`, so that an expression about a column is the same tree in a step
as in a question. Every statement is written, and tried on its engine without rows, before it is paid for.

Local times. The UTC offset of a zone is a public function of the instant, and constant between the changes that the
time zone database of this machine lists. Statements contain it, so every engine and session has the same local times.
A row's local time depends on this row and public facts alone, and no row is left out, so the contribution of a unit
stays what it is.

Joins: a row of the plan's table with columns of a public table, or of the same unit's rows in a private one.

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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

from sqlglot import exp

from rangebound.errors import EngineError, PlanError
from rangebound.release.engine import Engine
from rangebound.release.engine.dialect import Dialect, Tree, choice, double, integer, term
from rangebound.release.engine.dialect import text as literal
from rangebound.release.engine.interface import Further, Place, Unrunnable
from rangebound.release.plan.columns import MadeColumn
from rangebound.release.plan.condition import hidden_text
from rangebound.release.plan.model import Plan
from rangebound.release.plan.source import Join, TextFormat
from rangebound.release.plan.table_schema import (
    KEYS,
    TEXTS,
    UNIT_TABLE,
    USABLE,
    Family,
    Schema,
    TypedSchema,
    check_column,
    check_made,
    check_unit_columns,
    extended,
    form_of,
)
from rangebound.release.sql.expression import as_key, as_number, cast, column, every, is_there, local
from rangebound.release.sql.made_column import made_columns
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
    with_columns,
    with_trees,
)
from rangebound.release.sql.unit_rows import unit_rows

_OTHER = "joined"
_KINDS = {Family.INTEGER: int, Family.BOOLEAN: bool, Family.DATE: datetime.date}
_FINE, _LARGEST = 1024.0, 2.0**52
_FIRST_YEAR, _LAST_YEAR = 1800, 2100  # no zone changes before; a yearly rule never ends
_STEP = datetime.timedelta(days=2)  # the shortest time between two changes of a zone is twice as long
_SECOND = datetime.timedelta(seconds=1)
_CALENDAR = datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)

Changes = tuple[tuple[datetime.datetime, int], ...]
"""Instants in UTC, each with the offset in seconds that a zone has from then on."""


@contextmanager
def not_too_deep() -> Iterator[None]:
    """Refuse a plan whose statements have more levels than Python goes down."""
    try:
        yield
    except RecursionError:
        rule = "the columns that the plan computes from each other have too many levels for a statement"
        way = "shorten their expressions, or store some of these columns in the table"
        raise PlanError(f"columns: {rule}; {way}", field="columns") from None


@not_too_deep()
def view(plan: Plan, engine: Engine) -> View:
    """The table that the questions of a plan are about; reads no private data.

    The steps in order: local times, joins, columns that are made of a row, one row per unit, columns that are made of
    such a row.

    Guarantee: where a plan adds nothing, the tree is the engine's own table, with no selection around it.
    """
    _check_names(plan, engine)
    own = in_zone(Further(source=engine.source, schema=engine.schema()), plan.zone, engine.dialect)
    seen = View(schema=own.schema, source=lambda _: own.source.copy())
    for index, each in enumerate(plan.join or ()):
        seen = joined(seen, each, index, engine, folder=plan.folder, zone=plan.zone, unit=plan.unit.column)
    if plan.per_unit is None:
        check_made(plan, seen.schema, plan.made)
        return _with_made(seen, plan.made, engine.dialect)
    check_made(plan, seen.schema, plan.early)
    seen = _with_made(seen, plan.early, engine.dialect)
    check_unit_columns(plan, seen.schema)
    assert plan.unit.column is not None
    rows = seen.schema
    seen = unit_rows(seen, plan.unit.column, plan.of_unit, engine.dialect)
    check_made(plan, seen.schema, plan.made, UNIT_TABLE)
    return replace(_with_made(seen, plan.made, engine.dialect), before_units=rows)


def _check_names(plan: Plan, engine: Engine) -> None:
    """Refuse names of new columns that the engine cannot have, before anything is charged."""
    joined_names = [name for each in plan.join or () for name in each.columns]
    for name in (*joined_names, *plan.made_columns, *(plan.per_unit or ())):
        misfit = engine.dialect.misfit(name)
        if misfit:
            raise PlanError(f"{name!r}: {misfit}", field="plan")


def _with_made(seen: View, made: Sequence[MadeColumn], dialect: Dialect) -> View:
    """A view with made columns, in selections one above the other; its schema leaves out mere steps."""
    before, (layers, schema) = seen.schema, made_columns(seen.schema, made, dialect)
    for layer in layers:
        columns = {name: (tree, schema.get(name, Family.OTHER)) for name, tree in layer.items()}
        seen = with_columns(seen, columns, dialect)
    return View(schema=extended(before, schema), source=seen.source)


def try_statements(engine: Engine, asked: Iterable[tuple[str, str, str]]) -> None:
    """Try statements on their engine as if no private table had a row, and refuse one that it cannot run.

    Each comes with the field of the plan that it is made for, the name of what it answers, and its text.

    Guarantee: no row is read, so what it refuses reveals nothing about any. What passes is the text that will be run.
    """
    for field, name, text in asked:
        try:
            engine.rehearse(text)
        except Unrunnable:
            rule = f"the engine cannot run the statement for {name!r}, whatever the table holds; this costs nothing"
            way = "shorten expressions, or use fewer keys, bins and digits"
            raise PlanError(f"{field}: {rule}; {way}", field=field) from None
        except EngineError as reason:
            raise EngineError(f"{reason}; this costs nothing", away=reason.away) from None


def in_zone(table: Further, zone: str | None, dialect: Dialect) -> Further:
    """A table whose instants are timestamps of the local time in a zone; without a zone they cannot be used.

    Guarantee: no row makes it fail, and no setting of the session matters. An instant outside the years 1 to 9999 is
    missing. Without instants, or without a zone, it is the table itself.
    Edge cases: columns with names like those of expressions in conditions cannot be used, and are left out.
    """
    instants = table.schema.instants if isinstance(table.schema, TypedSchema) else ()
    if zone is None or not instants:
        return table
    usable = {name: family for name, family in table.schema.items() if hidden_text(name) is None}
    made = {name: local_time(name, zone, dialect) for name in instants if name in usable}
    known = extended(table.schema, dict.fromkeys(made, Family.TIMESTAMP))
    return Further(source=with_trees(table.source.copy(), usable, made, dialect), schema=known)


def local_time(name: str, zone: str, dialect: Dialect) -> Tree:
    """A column of timestamps in UTC as local time."""
    utc = column(name)
    first, last = (_moment(each, dialect) for each in _CALENDAR)
    seconds = _offset(utc, offsets(zone), dialect)
    moved = "CASE WHEN :utc BETWEEN :first AND :last THEN :utc + :seconds * INTERVAL '1' SECOND END"
    return term(moved, utc=utc, first=first, last=last, seconds=seconds)


def _moment(value: datetime.datetime, dialect: Dialect) -> Tree:
    return cast(literal(value.isoformat(" ")), dialect.timestamp, dialect.name)


def _offset(utc: Tree, changes: Sequence[tuple[datetime.datetime, int]], dialect: Dialect) -> Tree:
    """The offset at an instant, by binary search among the changes."""
    if len(changes) == 1:
        return integer(changes[0][1])
    middle = len(changes) // 2
    earlier = exp.LT(this=utc, expression=_moment(changes[middle][0], dialect))
    return choice((earlier, _offset(utc, changes[:middle], dialect)), otherwise=_offset(utc, changes[middle:], dialect))


@cache
def offsets(zone: str) -> Changes:
    """UTC offsets of a zone, each with its first second; the first offset also holds before it.

    Edge cases: the last yearly rule is followed to the end of 2100; afterwards the offset stays as it is then.

    >>> since, seconds = offsets("Asia/Kolkata")[-1]
    >>> print(since, seconds)
    1945-10-14 17:30:00 19800
    """
    table = ZoneInfo(zone)

    def at(moment: datetime.datetime) -> int:
        found = moment.replace(tzinfo=datetime.UTC).astimezone(table).utcoffset()
        assert found is not None
        return round(found.total_seconds())

    start, end = datetime.datetime(_FIRST_YEAR, 1, 1), datetime.datetime(_LAST_YEAR + 1, 1, 1)
    moments = [start + number * _STEP for number in range((end - start) // _STEP + 1)]
    seconds = [at(each) for each in moments]
    found = [(start, seconds[0])]
    for (before, after), (old, new) in zip(pairwise(moments), pairwise(seconds), strict=True):
        if old == new:
            continue
        while after - before > _SECOND:
            middle = before + (after - before) // _SECOND // 2 * _SECOND
            before, after = (middle, after) if at(middle) == old else (before, middle)
        found.append((after, new))
    return tuple(found)


def joined(
    seen: View, join: Join, index: int, engine: Engine, *, folder: Path | None, zone: str | None, unit: str | None
) -> View:
    """A view with the columns of a join; refuses one whose columns or keys do not fit, and reads no private row."""
    field = f"join[{index}]"
    other = in_zone(engine.further(_place(join, folder, field)), zone, engine.dialect)
    keys = _keys(join, seen.schema, other.schema, field, unit)
    families = _families(join, seen.schema, other.schema, field)
    theirs = [as_key(name, other.schema, kind=kind) for name, kind in zip(join.on.values(), keys, strict=True)]
    ours = [as_key(name, seen.schema, kind=kind) for name, kind in zip(join.on, keys, strict=True)]
    chosen: dict[str, Tree] = {f"k{at}": tree for at, tree in enumerate(theirs)}
    chosen |= {f"c{at}": column(name) for at, name in enumerate(join.columns.values())}
    rows = where(exp.select(*named(chosen)).from_(aliased(other.source.copy()), copy=False), *map(is_there, theirs))
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
        on = every([exp.EQ(this=each, expression=of(_OTHER, f"k{at}")) for at, each in enumerate(ours)])
        return tree.join(aliased(found, _OTHER), on=on, join_type=join.how, copy=False)

    return View(schema=extended(seen.schema, families), source=source)


def _place(join: Join, folder: Path | None, field: str) -> Place:
    if join.path is None:
        return Place(field=field, path=None, table=join.table, public=join.public)
    if folder is None:
        raise PlanError(f"{field}.path: files of a plan that comes from elsewhere are not read", field=f"{field}.path")
    path = str(folder / join.path)
    form = TextFormat(**join.text_fields)
    return Place(field=field, path=path, table=join.table, public=join.public, form=form)


def _keys(join: Join, own: Schema, other: Schema, field: str, unit: str | None) -> list[type]:
    """How the columns of each pair are compared: as texts, or by what a text spells where the other side has types.

    The units of a private join are compared as they are written: else two owners of one table could be one owner of the
    other, whose rows would become parts of both.
    """
    found = []
    for ours, theirs in join.on.items():
        for schema, name, table in ((own, ours, "the table"), (other, theirs, "the joined table")):
            check_column(schema, name, KEYS, f"{field}.on", "a key to join on", table)
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
        check_column(other, theirs, USABLE, f"{field}.columns", "a join", "the joined table")
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
        twice = (
            exp.select(*map(local, names))
            .from_(aliased(table.copy(), _OTHER))
            .group_by(*map(local, names))
            .having(again)
        )
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
    number = exp.Window(this=exp.RowNumber(), partition_by=list(keys), order=exp.Order(expressions=order))
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
        scaled = exp.Mul(this=this, expression=double(_FINE))
        found = cast(choice((small, cast(exp.Floor(this=scaled), "BIGINT"))), "TEXT")
    return exp.Coalesce(this=found, expressions=[literal("\x1e")])
