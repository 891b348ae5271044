"""A public table of this machine for an engine elsewhere: DuckDB reads it, so that it means the same there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from rangebound.errors import PlanError
from rangebound.release.engine.interface import Place
from rangebound.release.plan.table_schema import Family, Schema, TypedSchema


@dataclass(frozen=True, kw_only=True)
class PublicTable:
    """The columns that can be used, with their families, instants as timestamps in UTC; `schema` has all columns."""

    schema: Schema
    families: Schema
    columns: Sequence[Sequence[Any]]


def public_table(place: Place, given: Any, database: str) -> PublicTable:
    """The values of a public file, or of a table in memory; a private one must be of the database."""
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
    return PublicTable(schema=schema, families=families, columns=columns)


def is_long(value: int | None) -> bool:
    """Whether a whole number, where there is one, fits into 64 bits."""
    return value is None or -(2**63) <= value < 2**63
