"""Columns and conditions as SQL trees that mean the same in every engine and never fail.

User's names become quoted identifiers and their values literals of the tree; no text is ever pasted into SQL.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

from sqlglot import exp

from rangebound.release.condition import Comparison, Condition, kind_of
from rangebound.release.part import number
from rangebound.release.schema import Family, Schema

SOURCE = "source"
ONE = 2**30
"""The fixed point: a value at the upper end of its column's range counts this many units, one at the lower end none."""

# Engines read odd texts as numbers each in its own way; these forms mean the same to all. The end is \z and not $,
# because $ would let a line break pass in one engine and not in the other.
_NUMERAL = r"^[+-]?[0-9]{1,15}([.][0-9]{1,15})?([eE][+-]?[0-9]{1,2})?\z"
_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}\z"
_FIRST_DAY, _LAST_DAY = datetime.date(1, 1, 1), datetime.date(9999, 12, 31)

Tree = exp.Expr


def column(name: str) -> exp.Column:
    """A column of the user's table."""
    return exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(SOURCE, quoted=True))


def local(name: str) -> exp.Column:
    """A column of a table that we made."""
    return exp.column(exp.to_identifier(name, quoted=True))


def integer(value: int) -> Tree:
    """A whole number."""
    literal = exp.Literal.number(str(abs(value)))
    return literal if value >= 0 else exp.Paren(this=exp.Neg(this=literal))


def double(value: float) -> Tree:
    """A double, to the last bit: a decimal point alone would make a decimal number of it in one of the engines."""
    return exp.cast(exp.Literal.string(repr(float(value))), "DOUBLE")


def text(value: str) -> Tree:
    """A text."""
    return exp.Literal.string(value)


def day(value: datetime.date) -> Tree:
    """A date."""
    return exp.cast(text(value.isoformat()), "DATE")


def every(conditions: Iterable[Tree]) -> Tree:
    """The conjunction of conditions; none is true."""
    true: Tree = exp.true()
    return reduce(lambda a, b: exp.And(this=a, expression=b), conditions, true)


def choice(*cases: tuple[Tree, Tree], otherwise: Tree | None = None) -> Tree:
    """The value of the first case that holds, else `otherwise` (NULL without one)."""
    return exp.Case(ifs=[exp.If(this=test, true=value) for test, value in cases], default=otherwise)


def as_number(name: str, schema: Schema, *, dated: bool = False) -> Tree:
    """A column as a double; what is no number (or no date) is NULL, NaN or infinite."""
    family, this = schema[name], column(name)
    return _AS_DAYS[family](this) if dated or family in (Family.DATE, Family.TIMESTAMP) else _AS_NUMBER[family](this)


def _from_boolean(this: Tree) -> Tree:
    return choice((this, double(1.0)), (exp.Not(this=this.copy()), double(0.0)))


def _text(this: Tree) -> Tree:
    """A text as text: names from a list and unique ids have types of their own, which are not matched with patterns."""
    return exp.cast(this.copy(), "TEXT")


def _parsed(this: Tree, kind: str) -> Tree:
    return exp.TryCast(this=_text(this), to=exp.DataType.build(kind), safe=True)


def _matches(this: Tree, pattern: str) -> Tree:
    return exp.RegexpLike(this=this, expression=text(pattern))


_AS_NUMBER: dict[Family, Callable[[Tree], Tree]] = {
    Family.INTEGER: lambda this: exp.cast(this, "DOUBLE"),
    Family.NUMBER: lambda this: exp.cast(this, "DOUBLE"),
    Family.TEXT: lambda this: choice((_matches(_text(this), _NUMERAL), _parsed(this, "DOUBLE"))),
    Family.BOOLEAN: _from_boolean,
}


def _days(this: Tree) -> Tree:
    """Days since 1970-01-01 of a date between the years 1 and 9999, the ones that every engine can count."""
    inside = exp.Between(this=this, low=day(_FIRST_DAY), high=day(_LAST_DAY))
    count = exp.DateDiff(this=this.copy(), expression=day(datetime.date(1970, 1, 1)), unit=exp.var("DAY"))
    return choice((inside, exp.cast(count, "DOUBLE")))


def _written_day(this: Tree) -> Tree:
    return choice((_matches(_text(this), _DAY), _days(_parsed(this, "DATE"))))


_AS_DAYS: dict[Family, Callable[[Tree], Tree]] = {
    Family.DATE: _days,
    Family.TIMESTAMP: lambda this: _days(exp.cast(this, "DATE")),
    Family.TEXT: _written_day,
}


def as_key(name: str, schema: Schema) -> Tree:
    """A column as the text of a key; NULL where there is none."""
    family, this = schema[name], column(name)
    if family is Family.BOOLEAN:
        return choice((this, text("true")), (exp.Not(this=this.copy()), text("false")))
    if family is Family.DATE:
        inside = exp.Between(this=this, low=day(_FIRST_DAY), high=day(_LAST_DAY))
        return choice((inside, exp.cast(this.copy(), "TEXT")))
    return exp.cast(this, "TEXT")


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
    test: Tree
    this, literal = _compared(condition, schema)
    values = [literal(each) for each in condition.values]
    there = _present(this, numeric=literal is _number_literal)
    match condition.comparison:
        case Comparison.PRESENT:
            return there
        case Comparison.MISSING:
            return exp.Not(this=exp.Coalesce(this=there, expressions=[exp.false()]))
        case Comparison.ONE_OF:
            test = exp.In(this=this, expressions=values)
        case Comparison.NONE_OF:
            test = exp.Not(this=exp.In(this=this, expressions=values))
        case sign:
            test = _SIGNS[sign](this=this, expression=values[0])
    return exp.And(this=there, expression=exp.Paren(this=test))


def _number_literal(value: Any) -> Tree:
    return double(number(value))


def _text_literal(value: Any) -> Tree:
    return text(("true" if value else "false") if isinstance(value, bool) else value)


def _compared(condition: Condition, schema: Schema) -> tuple[Tree, Callable[[Any], Tree]]:
    """What a condition compares, and how its values are written."""
    name, family = condition.column, schema[condition.column]
    kind = kind_of(condition.values[0]) if condition.values else None
    numeric = family is not Family.TEXT if kind is None else kind not in (str, bool)
    if numeric:
        return as_number(name, schema, dated=kind is datetime.date), _number_literal
    return as_key(name, schema), _text_literal


def _present(this: Tree, *, numeric: bool) -> Tree:
    """Whether there is a value: no NULL and, among numbers, neither NaN nor infinite."""
    if not numeric:
        return exp.Not(this=exp.Is(this=this.copy(), expression=exp.Null()))
    largest = sys.float_info.max
    return exp.Between(this=this.copy(), low=double(-largest), high=double(largest))


def fixed_point(question: Any, schema: Schema) -> Tree:
    """A column's value as a whole number from 0 (lower end of its range) to `ONE` (upper end).

    T = floor((clip(x) - lower) * (ONE / (upper - lower)) + 1/2), where a missing x is the plan's constant.

    Guarantee: 0 <= T <= ONE whatever the row holds: the product is within 2^-20 of the exact one, and rounding to the
    nearest whole number takes that away at both ends. Sums of fewer than 2^63 such numbers stay below 2^93.
    """
    bounds, largest = question.bounds, sys.float_info.max
    this = as_number(question.column, schema, dated=question.dated)
    lower, upper = double(bounds.lower), double(bounds.upper)
    filler = min(max(question.filler, bounds.lower), bounds.upper)
    clipped = choice(
        (every_pair(exp.GTE(this=this, expression=lower), exp.LTE(this=this.copy(), expression=upper)), this.copy()),
        (
            every_pair(
                exp.GT(this=this.copy(), expression=upper.copy()),
                exp.LTE(this=this.copy(), expression=double(largest)),
            ),
            upper.copy(),
        ),
        (
            every_pair(
                exp.LT(this=this.copy(), expression=lower.copy()),
                exp.GTE(this=this.copy(), expression=double(-largest)),
            ),
            lower.copy(),
        ),
        otherwise=double(filler),
    )
    above = exp.Paren(this=exp.Sub(this=clipped, expression=lower.copy()))
    scaled = exp.Add(this=exp.Mul(this=above, expression=double(ONE / bounds.width)), expression=double(0.5))
    return exp.cast(exp.Floor(this=scaled), "BIGINT")


def present(value: Tree) -> Tree:
    """Whether a number is there, and finite: true or false, never NULL."""
    return exp.Coalesce(this=_present(value, numeric=True), expressions=[exp.false()])


def place_among(value: Tree, edges: Sequence[Tree]) -> Tree:
    """How many of the rising edges are below a value, plus how many are not above it, by halving.

    Place 2 i + 1 is edge i itself, and 2 i lies between the edges i - 1 and i.
    """

    def between(low: int, high: int) -> Tree:
        if low == high:
            return integer(low)
        middle = (low + high) // 2  # the border between the places `middle` and `middle` + 1
        sign = exp.LTE if middle % 2 else exp.LT
        test = sign(this=value.copy(), expression=edges[middle // 2].copy())
        return choice((test, between(low, middle)), otherwise=between(middle + 1, high))

    return between(0, 2 * len(edges))


def outside(question: Any, schema: Schema) -> Tree:
    """`ONE` for a row whose value lies outside the question's range, else 0; a missing value does not.

    Decided on the value itself, as `cell` does: no rounding moves a value across an end.
    """
    this, largest = as_number(question.column, schema, dated=question.dated), sys.float_info.max
    ends = question.bounds
    inside = exp.Between(this=this, low=double(ends.lower), high=double(ends.upper))
    there = exp.Between(this=this.copy(), low=double(-largest), high=double(largest))
    return choice((inside, integer(0)), (there, integer(ONE)), otherwise=integer(0))


def every_pair(first: Tree, second: Tree) -> Tree:
    """Both conditions."""
    return exp.And(this=first, expression=second)
