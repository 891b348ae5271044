"""Conditions as SQL trees: true or false for every row, never NULL, and the same in every engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TypeGuard

from sqlglot import exp

from rangebound.release.engine.term import Tree
from rangebound.release.plan.condition import Comparison, Condition, Plain, size
from rangebound.release.plan.expressions.nodes import ValueType, type_of
from rangebound.release.plan.fields import HUGE, WHOLE, number
from rangebound.release.plan.table_schema import Family, Schema
from rangebound.release.sql.expression import (
    as_key,
    as_number,
    column,
    double,
    every,
    finite,
    integer,
    read_truth,
    text,
)

_SIGNS: dict[Comparison, type[Tree]] = {
    Comparison.EQUAL: exp.EQ,
    Comparison.UNEQUAL: exp.NEQ,
    Comparison.BELOW: exp.LT,
    Comparison.AT_MOST: exp.LTE,
    Comparison.ABOVE: exp.GT,
    Comparison.AT_LEAST: exp.GTE,
}


def meets(conditions: Iterable[Condition], schema: Schema) -> Tree:
    """Whether a row meets all conditions: true or false, never NULL."""
    return every(exp.Coalesce(this=_meets(each, schema), expressions=[exp.false()]) for each in conditions)


def _meets(condition: Condition, schema: Schema) -> Tree:
    this, numeric = _compared(condition, schema)
    there = finite(this, numeric=numeric)
    if condition.comparison is Comparison.PRESENT:
        return there
    if condition.comparison is Comparison.MISSING:
        return exp.Not(this=exp.Coalesce(this=there, expressions=[exp.false()]))
    whole = schema[condition.column] is Family.INTEGER
    large: list[Tree] = [integer(int(each)) for each in condition.values if whole and beyond(each)]
    others = [_literal(each) for each in condition.values if not (whole and beyond(each))]
    sides = (this, others), (column(condition.column), large)
    test = _test(condition.comparison, [(side, values) for side, values in sides if values])
    return exp.And(this=there, expression=exp.Paren(this=test))


def _test(comparison: Comparison, sides: Sequence[tuple[Tree, list[Tree]]]) -> Tree:
    """A comparison with the values of a condition; those of a list are compared with the one or the other side."""
    if comparison in _SIGNS:
        ((this, (value,)),) = sides
        return _SIGNS[comparison](this=this, expression=value)
    tests: list[Tree] = [exp.In(this=this, expressions=values) for this, values in sides]
    found = reduce(lambda a, b: exp.Or(this=a, expression=b), tests)
    return found if comparison is Comparison.ONE_OF else exp.Not(this=exp.Paren(this=found))


def _literal(value: Plain) -> Tree:
    """A value of a plan: texts and truth values as text, numbers and dates as doubles."""
    if isinstance(value, bool):
        return text("true" if value else "false")
    return text(value) if isinstance(value, str) else double(number(value))


def _compared(condition: Condition, schema: Schema) -> tuple[Tree, bool]:
    """What a condition compares, and whether these are doubles."""
    name, family = condition.column, schema[condition.column]
    kind = type_of(condition.values[0]) if condition.values else None
    numeric = (
        family not in (Family.TEXT, Family.UNTYPED) if kind is None else kind not in (ValueType.TEXT, ValueType.TRUTH)
    )
    if (
        kind is ValueType.TRUTH and family is not Family.BOOLEAN
    ):  # a text that is no truth value is missing, and not unequal
        return read_truth(column(name), text("true"), text("false")), False
    if not numeric:
        return as_key(name, schema), False
    return as_number(name, schema, dated=kind is ValueType.DATE), True


def beyond_doubles(name: str, values: Iterable[Plain], schema: Schema) -> bool:
    """Whether a column of whole numbers is compared with some that have neighbours without a double of their own."""
    return schema[name] is Family.INTEGER and any(beyond(each) for each in values)


def beyond(value: Plain) -> TypeGuard[float]:
    """Whether a number is compared with whole numbers as one: as doubles, neighbours of it would be it.

    Below 2^53 a number, whole or not, is distinguished from every whole number by the nearest double of that.
    """
    return WHOLE <= size(value) < HUGE
