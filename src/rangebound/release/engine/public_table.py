"""A public table of this machine for an engine elsewhere: DuckDB reads it, so that it means the same there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from rangebound.errors import PlanError
from rangebound.release.engine.dialect import Dialect, Tree, choice, text
from rangebound.release.engine.interface import Further, Place
from rangebound.release.plan.table_schema import Family, Schema, TypedSchema

_NULL, _THERE = "-", "="  # before a value, which is written into the statement
_SEPARATORS = (0x1F, *range(0xE000, 0xF900))  # one that no text holds
_TYPES = {
    Family.NUMBER: "DOUBLE",
    Family.TEXT: "TEXT",
    Family.UNTYPED: "TEXT",
    Family.DATE: "DATE",
    Family.BOOLEAN: "BOOLEAN",
}


def public_table(place: Place, given: Any, dialect: Dialect, database: str) -> Further:
    """A public file, or a table in memory, as one of constants: for each column one text, which the engine splits.

    Instants are timestamps in UTC. A private table must be one of the database.
    """
    from rangebound.release.engine.duckdb import DuckDB

    if not place.public:
        rule = f"a private table that is joined must be one of {database}, as the plan's own is"
        raise PlanError(f"{place.field}: {rule}", field=place.field)
    with DuckDB(given if place.path is None else place.source, field=place.field) as engine:
        schema = engine.schema()
        instants = schema.instants if isinstance(schema, TypedSchema) else ()
        used = {**schema, **dict.fromkeys(instants, Family.TIMESTAMP)}
        families = {name: each for name, each in used.items() if each is not Family.OTHER}
        names = [exp.column(exp.to_identifier(name, quoted=True)) for name in families]
        rows = engine.run(exp.select(*names).from_(engine.source.copy()))
    columns = list(zip(*rows, strict=True)) or [()] * len(families)
    for (name, family), column in zip(families.items(), columns, strict=True):
        if family is Family.INTEGER and any(abs(each) > dialect.most_whole for each in column if each is not None):
            rule = f"has a whole number beyond {dialect.most_whole:.2g}, for which {database} has no type"
            raise PlanError(f"{place.field}: the public column {name!r} {rule}", field=place.field)
    return Further(source=_constants(families, columns, dialect), schema=schema)


def _constants(families: Schema, columns: Sequence[Sequence[Any]], dialect: Dialect) -> exp.Select:
    kinds = [_kind(family, column, dialect) for family, column in zip(families.values(), columns, strict=True)]
    if not columns or not columns[0]:
        empty = [_named(exp.Null(), kind, name, dialect) for name, kind in zip(families, kinds, strict=True)]
        return exp.select(*(empty or [exp.Literal.number("1")])).where(exp.false())
    texts = [[_NULL if each is None else _THERE + _spelled(each) for each in column] for column in columns]
    used = set().union(*(set(each) for column in texts for each in column))
    separator = next(chr(code) for code in _SEPARATORS if chr(code) not in used)
    places = [exp.to_identifier(f"c{at}", quoted=True) for at in range(len(texts))]
    joined = [separator.join(column) for column in texts]
    rows = dialect.unfolded([exp.to_identifier("i", quoted=True), *places], joined, separator)
    chosen = []
    for name, place, kind in zip(families, places, kinds, strict=True):
        this = exp.column(place.copy())
        there = exp.NEQ(this=this, expression=text(_NULL))
        rest = exp.Substring(this=this.copy(), start=exp.Literal.number("2"))
        chosen.append(_named(rest, kind, name, dialect, there))
    return exp.select(*chosen, copy=False).from_(rows.subquery("constants", copy=False), copy=False)


def _named(value: Tree, kind: str, name: str, dialect: Dialect, there: Tree | None = None) -> Tree:
    cast = exp.cast(value, kind, dialect=dialect.name)
    return exp.alias_(cast if there is None else choice((there, cast)), name, quoted=True)


def _kind(family: Family, values: Sequence[Any], dialect: Dialect) -> str:
    """The type that holds all values of a column."""
    there = [each for each in values if each is not None]
    if family is Family.INTEGER:
        return "BIGINT" if all(-(2**63) <= each < 2**63 for each in there) else dialect.decimal.format(0)
    if family is Family.DECIMAL:
        return dialect.decimal.format(max((-each.as_tuple().exponent for each in there), default=0))
    return dialect.timestamp if family is Family.TIMESTAMP else _TYPES[family]


def _spelled(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)
