"""Columns and conditions as SQL trees that mean the same in every engine and never fail.

User's names become quoted identifiers and their values literals of the tree; no text is ever pasted into SQL.
"""

from __future__ import annotations

import datetime
import math
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from rangebound.release.plan.condition import Comparison, Condition, kind_of
from rangebound.release.plan.fields import HUGE, WHOLE, number, written
from rangebound.release.plan.schema import Family, Schema

SOURCE = "source"
ONE = 2**30
"""The fixed point: a value at the upper end of its column's range counts this many units, one at the lower end none."""

# Engines read odd texts as numbers each in its own way; these forms mean the same to all. The end is \z and not $,
# because $ would let a line break pass in one engine and not in the other. Any number of digits is read to the nearest
# double; a power of ten beyond the doubles is 0 or infinite.
_NUMERAL = r"^ *[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,3})? *\z"
_TRUE, _FALSE = r"^ *[Tt][Rr][Uu][Ee] *\z", r"^ *[Ff][Aa][Ll][Ss][Ee] *\z"
_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?)?\z"
_FIRST_DAY, _LAST_DAY = datetime.date(1, 1, 1), datetime.date(9999, 12, 31)

if TYPE_CHECKING:
    Tree = exp.Expr
else:  # before sqlglot 30, `Expression` was the base of all
    Tree = getattr(exp, "Expr", exp.Expression)


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


def _from_text(this: Tree) -> Tree:
    """The number that a text is, or a truth value in words as 1 or 0."""
    return choice(
        (_matches(_text(this), _NUMERAL), _parsed(this, "DOUBLE")),
        (_matches(_text(this), _TRUE), double(1.0)),
        (_matches(_text(this), _FALSE), double(0.0)),
    )


def _from_decimal(this: Tree) -> Tree:
    """The nearest double, by way of the digits: a direct cast is a rounding off in one of the engines."""
    return exp.cast(_text(this), "DOUBLE")


_AS_NUMBER: dict[Family, Callable[[Tree], Tree]] = {
    Family.INTEGER: lambda this: exp.cast(this, "DOUBLE"),
    Family.NUMBER: lambda this: exp.cast(this, "DOUBLE"),
    Family.DECIMAL: _from_decimal,
    Family.UNTYPED: _from_text,
    Family.BOOLEAN: _from_boolean,
}


def _days(this: Tree) -> Tree:
    """Days since 1970-01-01 of a date between the years 1 and 9999, the ones that every engine can count."""
    inside = exp.Between(this=this, low=day(_FIRST_DAY), high=day(_LAST_DAY))
    count = exp.DateDiff(this=this.copy(), expression=day(datetime.date(1970, 1, 1)), unit=exp.var("DAY"))
    return choice((inside, exp.cast(count, "DOUBLE")))


def _written_day(this: Tree) -> Tree:
    """The day of a date in a text; a time of day behind it is left out, as that of a timestamp is."""
    first = exp.Left(this=_text(this), expression=integer(10))
    return choice((_matches(_text(this), _DAY), _days(_parsed(first, "DATE"))))


_AS_DAYS: dict[Family, Callable[[Tree], Tree]] = {
    Family.DATE: _days,
    Family.TIMESTAMP: lambda this: _days(exp.cast(this, "DATE")),
    Family.TEXT: _written_day,
    Family.UNTYPED: _written_day,
}


def as_key(name: str, schema: Schema, *, kind: type = str) -> Tree:
    """A column as the text of a key; NULL where there is none.

    Where the keys are of a `kind`, a text that spells one in another way is that one: "1.0" is the whole number 1,
    "TRUE" is true, and a time of day behind a date is left out.
    """
    family, this = schema[name], column(name)
    if family is Family.BOOLEAN:
        return choice((this, text("true")), (exp.Not(this=this.copy()), text("false")))
    if family is Family.DATE:
        inside = exp.Between(this=this, low=day(_FIRST_DAY), high=day(_LAST_DAY))
        return choice((inside, exp.cast(this.copy(), "TEXT")))
    if kind in _SPELLED and family in (Family.TEXT, Family.UNTYPED):
        return choice(*_SPELLED[kind](this), otherwise=_text(this))
    return exp.cast(this, "TEXT")


def _spelled_truth(this: Tree) -> list[tuple[Tree, Tree]]:
    return [(_matches(_text(this), _TRUE), text("true")), (_matches(_text(this), _FALSE), text("false"))]


def _spelled_whole(this: Tree) -> list[tuple[Tree, Tree]]:
    """A whole number below 2^53 by its digits; a longer one is the key that it is written as."""
    x = _parsed(this, "DOUBLE")
    small = exp.Between(this=x, low=double(1.0 - WHOLE), high=double(WHOLE - 1.0))
    whole = exp.EQ(this=exp.Floor(this=x.copy()), expression=x.copy())
    tests = every([_matches(_text(this), _NUMERAL), small, whole])
    return [(tests, exp.cast(exp.cast(x.copy(), "BIGINT"), "TEXT"))]


def _spelled_day(this: Tree) -> list[tuple[Tree, Tree]]:
    return [(_matches(_text(this), _DAY), exp.Left(this=_text(this), expression=integer(10)))]


_SPELLED: dict[type, Callable[[Tree], list[tuple[Tree, Tree]]]] = {
    bool: _spelled_truth,
    int: _spelled_whole,
    datetime.date: _spelled_day,
}


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
    this, literal, numeric = _compared(condition, schema)
    there = _present(this, numeric=numeric)
    if condition.comparison is Comparison.PRESENT:
        return there
    if condition.comparison is Comparison.MISSING:
        return exp.Not(this=exp.Coalesce(this=there, expressions=[exp.false()]))
    whole = schema[condition.column] is Family.INTEGER
    large = [each for each in condition.values if whole and _beyond(each)]
    others = [literal(each) for each in condition.values if not (whole and _beyond(each))]
    sides = (this, others), (column(condition.column), [integer(int(each)) for each in large])
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


def _number_literal(value: Any) -> Tree:
    return double(number(value))


def _text_literal(value: Any) -> Tree:
    return text(("true" if value else "false") if isinstance(value, bool) else value)


def _compared(condition: Condition, schema: Schema) -> tuple[Tree, Callable[[Any], Tree], bool]:
    """What a condition compares, how its values are written, and whether these are doubles."""
    name, family = condition.column, schema[condition.column]
    kind = kind_of(condition.values[0]) if condition.values else None
    numeric = family not in (Family.TEXT, Family.UNTYPED) if kind is None else kind not in (str, bool)
    if not numeric:
        return as_key(name, schema, kind=bool if kind is bool else str), _text_literal, False
    return as_number(name, schema, dated=kind is datetime.date), _number_literal, True


def beyond_doubles(name: str, values: Iterable[Any], schema: Schema) -> bool:
    """Whether a column of whole numbers is compared with some that have neighbours without a double of their own."""
    return schema[name] is Family.INTEGER and any(_beyond(each) for each in values)


def _beyond(value: Any) -> bool:
    """Whether a number is compared with whole numbers as one: as doubles, neighbours of it would be it.

    Below 2^53 a number, whole or not, is told apart from every whole number by the nearest double of that.
    """
    return kind_of(value) is float and WHOLE <= abs(value) < HUGE


def _present(this: Tree, *, numeric: bool) -> Tree:
    """Whether there is a value: no NULL and, among numbers, neither NaN nor infinite."""
    if not numeric:
        return exp.Not(this=exp.Is(this=this.copy(), expression=exp.Null()))
    largest = sys.float_info.max
    return exp.Between(this=this.copy(), low=double(-largest), high=double(largest))


def value(question: Any, schema: Schema) -> Tree:
    """A row's value in the column of a question, as a finite double; NULL where it is missing."""
    this = as_number(question.column, schema, dated=question.dated)
    return choice((_present(this, numeric=True), this))


def _clipped(question: Any, x: Tree) -> Tree:
    """A value within its range; a missing one is the plan's constant, or else the lower end."""
    lower, upper = question.bounds.lower, question.bounds.upper
    there = exp.Coalesce(this=x, expressions=[double(lower if question.filler is None else question.filler)])
    return exp.Least(this=exp.Greatest(this=there, expressions=[double(lower)]), expressions=[double(upper)])


def fixed_point(question: Any, x: Tree) -> Tree:
    """A value as a whole number from 0 (lower end of its range) to `ONE` (upper end): what sums are made of.

    T = floor((clip(x) - lower) * (ONE / (upper - lower)) + 1/2), where a missing x is the plan's constant.

    Guarantee: 0 <= T <= ONE whatever the row holds: the product is within 2^-20 of the exact one, and rounding to the
    nearest whole number takes that away at both ends. Sums of fewer than 2^63 such numbers stay below 2^93.
    Edge cases: it moves a value by up to 2^-31 of the range, so nothing is decided by it; see `cell`.
    """
    return exp.cast(exp.Floor(this=_scaled(question, x, ONE / question.bounds.width, 0.5)), "BIGINT")


def _scaled(question: Any, x: Tree, factor: float, more: float) -> Tree:
    """(clip(x) - lower) * factor + more."""
    above = exp.Paren(this=exp.Sub(this=_clipped(question, x), expression=double(question.bounds.lower)))
    return exp.Add(this=exp.Mul(this=above, expression=double(factor)), expression=double(more))


def cell(question: Any, x: Tree, number: Tree | None, dialect: str) -> Tree:
    """The bin of a histogram, or the point of a grid, that a value belongs to, counted from 0.

    The number of the question's borders that are not above the value. A first guess by arithmetic is at most one off,
    since borders are several doubles apart; then the value itself is compared with the borders around it: the double x
    with doubles, or the whole `number`, where one is given, with whole numbers.

    Guarantee: the same in every engine, from 0 to the number of borders, and it cannot fail, whatever the row holds. A
    missing value is where the plan's constant is, if it has one, else at one end.
    """
    borders, last = question.borders, len(question.borders)
    padded = (borders[0], *borders, borders[-1])  # a guess in an end cell has a border on one side alone
    texts = [repr(each) for each in padded]
    if number is not None:
        most = _MOST[dialect]
        texts = [str(min(max(math.ceil(written(each)), -most), most)) for each in padded]
    split = exp.Anonymous(this=_SPLIT[dialect], expressions=[text(" ".join(texts)), text(" ")])
    listed = exp.cast(split, _LISTS[dialect][number is not None])
    guess = _guess(question, x, last)

    def border(after: int) -> Tree:
        place = exp.Add(this=guess.copy(), expression=integer(after))
        return exp.Anonymous(this=_ITEM[dialect], expressions=[listed.copy(), place])

    this = x if number is None else number
    below = exp.GT(this=guess.copy(), expression=integer(0)), exp.LT(this=this.copy(), expression=border(1))
    above = exp.LT(this=guess.copy(), expression=integer(last)), exp.GTE(this=this.copy(), expression=border(2))
    filler = 0 if question.filler is None else bisect_right(borders, question.filler)
    return choice(
        (exp.Is(this=x.copy(), expression=exp.Null()), integer(filler)),
        (every_pair(*below), exp.Sub(this=guess.copy(), expression=integer(1))),
        (every_pair(*above), exp.Add(this=guess.copy(), expression=integer(1))),
        otherwise=guess,
    )


def _guess(question: Any, x: Tree, last: int) -> Tree:
    """The cell of a value by arithmetic, or one next to it: the borders are off by an eighth of a cell at most."""
    if question.kind == "histogram":
        lower, upper = question.ends
        scaled = _scaled(question, x, float((last + 1) / (upper - lower)), 0.0)
    else:  # a point is in the middle of what belongs to it
        scaled = _scaled(question, x, float(1 / question.exact_step), 0.5)
    return exp.Least(this=exp.cast(exp.Floor(this=scaled), "INT"), expressions=[integer(last)])


_MOST = {"duckdb": 2**127 - 1, "spark": 10**38 - 1}
_SPLIT = {"duckdb": "STR_SPLIT", "spark": "SPLIT"}
_ITEM = {"duckdb": "LIST_EXTRACT", "spark": "ELEMENT_AT"}
_LISTS = {"duckdb": ("DOUBLE[]", "INT128[]"), "spark": ("ARRAY<DOUBLE>", "ARRAY<DECIMAL(38, 0)>")}


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


def outside(question: Any, x: Tree, whole: Tree | None) -> Tree:
    """`ONE` for a value outside the question's range, else 0; a missing value does not lie outside.

    Decided on the double x, or where an end is beyond 2^53 and the column has whole numbers on the `whole` one.
    """

    def sides(end: float) -> dict[str, Tree]:
        if whole is not None and _beyond(end):
            return {"this": whole.copy(), "expression": integer(int(end))}
        return {"this": x.copy(), "expression": double(end)}

    inside = every_pair(exp.GTE(**sides(question.bounds.lower)), exp.LTE(**sides(question.bounds.upper)))
    missing = exp.Is(this=x.copy(), expression=exp.Null())
    return choice((inside, integer(0)), (missing, integer(0)), otherwise=integer(ONE))


def every_pair(first: Tree, second: Tree) -> Tree:
    """Both conditions."""
    return exp.And(this=first, expression=second)
