"""What is known of a table before its data are read: the names of its columns and the families of their types."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from rangebound import arguments
from rangebound.errors import PlanError
from rangebound.release.condition import Comparison, Condition, kind_of
from rangebound.release.plan import Plan
from rangebound.release.question import ColumnQuestion


class Family(Enum):
    """The families of column types that a plan can use."""

    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"
    DATE = "date"
    TIMESTAMP = "timestamp"
    BOOLEAN = "boolean"
    OTHER = "other"


Schema = Mapping[str, Family]

_F = Family
_NUMBERS = (_F.INTEGER, _F.NUMBER, _F.TEXT, _F.BOOLEAN)
_DATES = (_F.DATE, _F.TIMESTAMP, _F.TEXT)
_KEYS = (_F.INTEGER, _F.TEXT, _F.DATE, _F.BOOLEAN)
_UNITS = (_F.INTEGER, _F.TEXT, _F.DATE)
_COMPARED: dict[type, tuple[Family, ...]] = {
    float: _NUMBERS,
    str: (_F.TEXT, _F.INTEGER, _F.DATE),
    bool: (_F.BOOLEAN, _F.TEXT),
}


def check_schema(plan: Plan, schema: Schema) -> None:
    """Refuse a plan whose columns are not in the table or cannot be used as the plan says.

    Guarantee: looks at names and types only; a plan that passes runs without an error whatever the data are.
    """
    if plan.unit.column is not None:
        check_unit_column(schema, plan.unit.column, "unit.column")
    for index, question in enumerate(plan.query):
        place = f"query[{index}]"
        for column in question.by:
            _need(schema, column, _KEYS, f"{place}.by", "a grouping key")
        conditions: tuple[Condition, ...] = (*question.where, *getattr(question, "of", ()))
        for each in conditions:
            _need(schema, each.column, _families(each), f"{place}.where", "this condition")
        if isinstance(question, ColumnQuestion):
            families = _DATES if question.dated else _NUMBERS
            _need(schema, question.column, families, f"{place}.column", "dates" if question.dated else "numbers")


def check_unit_column(schema: Schema, column: str, field: str) -> None:
    """Refuse a column that is not in the table or cannot name the owners of rows."""
    _need(schema, column, _UNITS, field, "a privacy unit")


def _families(condition: Condition) -> tuple[Family, ...]:
    if condition.comparison in (Comparison.MISSING, Comparison.PRESENT):
        return (*_NUMBERS, *_DATES)
    return _COMPARED.get(kind_of(condition.values[0]), _DATES)


def _need(schema: Schema, column: str, families: tuple[Family, ...], field: str, use: str) -> None:
    family: Any = schema.get(column)
    if family is None:
        found = arguments.similar(column, schema)
        hint = f"; {found}" if found else ""
        raise PlanError(f"{field}={column!r}: the table has no such column{hint}", field=field)
    if family not in families:
        wanted = ", ".join(each.value for each in families)
        raise PlanError(
            f"{field}={column!r}: is of type {family.value}, which does not serve for {use}; it takes {wanted}",
            field=field,
        )
