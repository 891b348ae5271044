"""Columns and conditions as SQL trees that mean the same in every engine and never fail.

User's names become quoted identifiers and their values literals of the tree; no text is ever pasted into SQL. A
condition is true or false for every row, never NULL.
"""

from __future__ import annotations

import datetime
import hashlib
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache, reduce
from typing import TypeGuard

from sqlglot import exp

from rangebound.release.engine.dialect import Tree, choice, double, integer, matches, term, text
from rangebound.release.plan.condition import HIDDEN, Comparison, Condition, Plain, hidden_text, size
from rangebound.release.plan.expressions.nodes import ValueType, type_of
from rangebound.release.plan.fields import HUGE, WHOLE, number
from rangebound.release.plan.source import PLAIN, TextFormat, day_parts
from rangebound.release.plan.table_schema import Family, Schema, form_of

SOURCE = "source"

# Engines read odd texts as numbers each in its own way; these forms mean the same to all. The end is \z and not $,
# because $ would let a line break pass in one engine and not in the other. Up to a thousand characters are read to the
# nearest double, and more are not a number; a power of ten beyond the doubles is 0 or infinite.
_NUMERAL = r"^ *[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,3})? *\z"
_LONGEST = 1000
_TRUE, _FALSE = r"^ *[Tt][Rr][Uu][Ee] *\z", r"^ *[Ff][Aa][Ll][Ss][Ee] *\z"
_YES, _NO = r"^ *([Tt]([Rr][Uu][Ee])?|[Yy]([Ee][Ss])?|1) *\z", r"^ *([Ff]([Aa][Ll][Ss][Ee])?|[Nn][Oo]?|0) *\z"
_TIME = r"([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?)?"
_LEAP = "(([02468][048]|[13579][26])00|[0-9]{2}(0[48]|[2468][048]|[13579][26]))-02-29"
_DATE = (  # of a year that may be 0000
    rf"([0-9]{{4}}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
    rf"|02-(0[1-9]|1[0-9]|2[0-8]))|{_LEAP})"
)
_DAY = rf"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}{_TIME}\z"
_DAY_OF_CALENDAR = rf"^{_DATE}{_TIME}\z"
_TIMED = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T]([01][0-9]|2[0-3]):"
_type = cache(exp.DataType.build)
EPOCH = datetime.date(1970, 1, 1)
_FIRST_DAY, _LAST_DAY = datetime.date(1, 1, 1), datetime.date(9999, 12, 31)


def source_name(name: str) -> str:
    """The name of a column in the table that a question sees.

    That of a column which an expression in a condition makes is a digest of its text: engines do not distinguish names
    that differ in capital letters alone, and texts of expressions may.
    """
    text = hidden_text(name)
    return name if text is None else f"{HIDDEN}{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def column(name: str) -> exp.Column:
    """A column of the user's table."""
    return exp.column(exp.to_identifier(source_name(name), quoted=True), table=exp.to_identifier(SOURCE, quoted=True))


def local(name: str) -> exp.Column:
    """A column of a table that we made."""
    return exp.column(exp.to_identifier(name, quoted=True))


def cast(this: Tree, to: str, dialect: str | None = None) -> Tree:
    """A value as one of a type, whose name is read once; what is one by a cast already stays as it is."""
    kind = _type(to, dialect).copy()
    again = isinstance(this, exp.Cast)
    return exp.cast(this, kind, copy=False, dialect=dialect) if again else exp.Cast(this=this, to=kind)


def day(value: datetime.date) -> Tree:
    """A date."""
    return cast(text(value.isoformat()), "DATE")


def every(conditions: Iterable[Tree]) -> Tree:
    """The conjunction of conditions; none is true."""
    true: Tree = exp.true()
    return reduce(lambda a, b: exp.And(this=a, expression=b), conditions, true)


def as_number(name: str, schema: Schema, *, dated: bool = False) -> Tree:
    """A column as a double; a value that is not a number (or a date) is NULL, NaN or infinite."""
    family, this = schema[name], column(name)
    if dated or family in (Family.DATE, Family.TIMESTAMP):
        return _days(as_day(name, schema))
    if family is Family.UNTYPED:
        return read_number(this, form_of(schema, name))
    if family is Family.BOOLEAN:
        return by_truth(this, double(1.0), double(0.0))
    # A decimal by way of its digits: a direct cast is a rounding off in one of the engines.
    return cast({Family.INTEGER: this, Family.NUMBER: this, Family.DECIMAL: _text(this)}[family], "DOUBLE")


def by_truth(this: Tree, yes: Tree, no: Tree) -> Tree:
    """The one or the other value by a truth value; NULL stays NULL."""
    return term("CASE WHEN :x THEN :yes WHEN NOT :x THEN :no END", x=this, yes=yes, no=no)


def _text(this: Tree) -> Tree:
    """A text as text: names from a list and unique ids have types of their own, which are not matched with patterns."""
    return cast(this, "TEXT")


def _parsed(this: Tree) -> Tree:
    """The nearest double to a numeral; infinite, or NULL, where it is too large for one."""
    return exp.TryCast(this=_text(this), to=_type("DOUBLE").copy(), safe=True)


def longer(this: Tree, most: int) -> Tree:
    """Whether a text has more characters."""
    return exp.GT(this=exp.Length(this=_text(this)), expression=integer(most))


def _spelled(this: Tree, *cases: tuple[Tree, Tree], otherwise: Tree | None = None) -> Tree:
    """The value of the first case whose pattern a text matches.

    One that is too long matches none, and its length is asked for first, in a branch of its own: with a pattern one
    engine stops at a very long text, and another takes a time that grows with the square of its length.
    """
    return choice((longer(this, _LONGEST), otherwise or exp.Null()), *cases, otherwise=otherwise)


def _plain_number(this: Tree, form: TextFormat) -> Tree:
    """A number as the source writes it in plain notation; NULL for a text that is none, whatever else it is.

    Groups before the decimal sign have two or three digits, and the last of them three: so 1,2 is none where the
    comma stands between thousands, as 1.2 is none where the comma is the decimal sign.
    """
    sign, mark = form.decimal or ".", form.thousands
    if sign == "." and mark is None:
        return this
    groups = "" if mark is None else f"[0-9]{{1,3}}([{mark}][0-9]{{2,3}})*[{mark}][0-9]{{3}}|"
    pattern = rf"^ *[+-]?({groups}[0-9]*)([{sign}][0-9]*)?([eE][+-]?[0-9]{{1,3}})? *\z"
    plain = _replaced(_replaced(_text(this), mark or "", ""), sign, ".")
    return _spelled(this, (matches(_text(this), pattern), plain))


def _plain_day(this: Tree, form: TextFormat) -> Tree:
    """A date as the source writes it as 2025-01-31, with what is behind it; NULL for a text that is none."""
    if form.date_format is None or form.date_format == "%Y-%m-%d":
        return this
    order, separator = day_parts(form.date_format)
    widths = [4 if letter == "Y" else 2 for letter in order]
    digits = [f"[0-9]{{{'1,' if separator and width == 2 else ''}{width}}}" for width in widths]
    pattern = f"^{(f'[{separator}]' if separator else '').join(digits)}{_TIME}\\z"
    first = _part(_replaced(_text(this), "T", " "), " ", 1)
    parts: dict[str, Tree] = {}
    for at, letter in enumerate(order):
        start = integer(sum(widths[:at]) + 1)
        cut = exp.Substring(this=first, start=start, length=integer(widths[at]))
        found = _part(first, separator, at + 1) if separator else cut
        parts[letter] = exp.Anonymous(this="LPAD", expressions=[found, integer(widths[at]), text("0")])
    after = term("SUBSTRING(:text, LENGTH(:first) + 1)", text=_text(this), first=first)
    whole = term(":Y || '-' || :m || '-' || :d || :after", after=after, **parts)
    return _spelled(this, (matches(_text(this), pattern), whole))


def _replaced(this: Tree, old: str, new: str) -> Tree:
    return exp.Anonymous(this="REPLACE", expressions=[this, text(old), text(new)]) if old not in ("", new) else this


def _part(this: Tree, separator: str, at: int) -> Tree:
    """The part of a text at a place, counted from 1, between separators; empty where there are fewer."""
    return exp.Anonymous(this="SPLIT_PART", expressions=[this, text(separator), integer(at)])


def read_number(this: Tree, form: TextFormat = PLAIN) -> Tree:
    """The number that a text spells, or 1 or 0 for a truth value in words; NULL for another, and it may be infinite."""
    plain = _plain_number(this, form)
    return _spelled(
        this,
        (matches(_text(plain), _NUMERAL), _parsed(plain)),
        (matches(_text(this), _TRUE), double(1.0)),
        (matches(_text(this), _FALSE), double(0.0)),
    )


def _known_day(this: Tree) -> Tree:
    """A date between the years 1 and 9999, the ones that every engine can count; NULL for another."""
    span = {"first": day(_FIRST_DAY), "last": day(_LAST_DAY)}
    return term("CASE WHEN :x BETWEEN :first AND :last THEN :x END", x=this, **span)


def _written_day(this: Tree) -> Tree:
    """The day of a date in a text; a time of day behind it is left out, as that of a timestamp is."""
    first = exp.Left(this=_text(this), expression=integer(10))
    before = exp.EQ(this=exp.Left(this=_text(this), expression=integer(4)), expression=text("0000"))
    return _spelled(this, (before, exp.Null()), (matches(_text(this), _DAY_OF_CALENDAR), cast(first, "DATE")))


_AS_DAY: dict[Family, Callable[[Tree], Tree]] = {
    Family.DATE: _known_day,
    Family.TIMESTAMP: lambda this: _known_day(cast(this, "DATE")),
    Family.TEXT: _written_day,
}


def as_day(name: str, schema: Schema) -> Tree:
    """A column as dates; a value that is not one between the years 1 and 9999 is NULL."""
    if schema[name] is Family.UNTYPED:
        return _written_day(_plain_day(column(name), form_of(schema, name)))
    return _AS_DAY[schema[name]](column(name))


def _days(this: Tree) -> Tree:
    """Days since 1970-01-01 of a date."""
    return cast(exp.DateDiff(this=this, expression=day(EPOCH), unit=exp.var("DAY")), "DOUBLE")


def read_day(this: Tree) -> Tree:
    """The days since 1970-01-01 of the date that a text spells, NULL where it spells none."""
    return _days(_written_day(this))


def read_hour(name: str, schema: Schema) -> Tree:
    """The hour of a timestamp; NULL where there is no time of day, or no such day in the calendar."""
    this = column(name)
    there = is_there(as_number(name, schema, dated=True))
    if schema[name] is Family.TIMESTAMP:
        return term("CASE WHEN :there THEN EXTRACT(HOUR FROM :x) END", there=there, x=this)
    day = _plain_day(this, form_of(schema, name))
    written = exp.Substring(this=_text(day), start=integer(12), length=integer(2))
    timed = every([matches(_text(day), _TIMED), there])
    return cast(_spelled(this, (timed, written)), "INT")


def first_day(date: Tree, *, week: bool) -> Tree:
    """The first day of the week (a Monday, as 0001-01-01 was) or month that a date within the calendar is in."""
    since = exp.DateDiff(this=date, expression=day(_FIRST_DAY), unit=exp.var("DAY"))
    back = term("(-(:since % 7))", since=since) if week else term("(1 - EXTRACT(DAY FROM :date))", date=date)
    return days_after(date, back)


def days_after(date: Tree, days: Tree) -> Tree:
    """The date some days, a whole number, after another."""
    moved = exp.DateAdd(this=date, expression=cast(days, "INT"), unit=exp.var("DAY"))
    return cast(moved, "DATE")


def scaled(value: Tree, factor: float) -> Tree:
    """A double times a factor, which is rounded to a whole number afterwards; the product is far from overflow.

    An engine may stop at a product that is 0 though no factor is, and a factor of 1 or more makes no number 0. With one
    below, a value that is tiny beside the unit of the result is moved away from 0 by 2^-200 units: of a value of 2^-147
    units or more that is less than half of the last place, so nothing changes, and a smaller one is rounded to the same
    whole number either way.
    """
    if factor < 1.0:
        value = exp.Paren(this=exp.Add(this=value, expression=double(2.0**-200 / factor)))
    return exp.Mul(this=value, expression=double(factor))


def place_in_time(each: str, days: Tree) -> Tree:
    """The day, week (from Monday on) or month of some days since 1970-01-01, as a whole number; NULL stays NULL."""
    if each == "day":
        return cast(days, "INT")
    if each == "week":  # 1970-01-01 was a Thursday
        return term("CAST(FLOOR((:days + :three) / :seven) AS INT)", days=days, three=double(3.0), seven=double(7.0))
    date = days_after(day(EPOCH), days)
    return term("EXTRACT(YEAR FROM :date) * 12 + EXTRACT(MONTH FROM :date)", date=date)


def as_key(name: str, schema: Schema, *, kind: type = str) -> Tree:
    """A column as the text of a key; NULL where there is none.

    Where the keys are of a `kind`, a text that spells one in another way is that one: "1.0" is the whole number 1,
    "TRUE", "t", "yes", "y" and "1" are true, and a time of day behind a date is left out. The key of a timestamp is its
    day.
    """
    family, this = schema[name], column(name)
    if family is Family.BOOLEAN:
        return by_truth(this, text("true"), text("false"))
    if family in (Family.DATE, Family.TIMESTAMP):
        return cast(as_day(name, schema), "TEXT")
    if kind in _SPELLED and family in (Family.TEXT, Family.UNTYPED):
        return _spelled(this, *_SPELLED[kind](this, form_of(schema, name)), otherwise=_text(this))
    return cast(this, "TEXT")


def read_truth(this: Tree, yes: Tree, no: Tree) -> Tree:
    """The one or the other value, by the truth value that a text spells; NULL where it spells none."""
    return _spelled(this, *_truths(this, yes, no))


def _truths(this: Tree, yes: Tree, no: Tree) -> list[tuple[Tree, Tree]]:
    return [(matches(_text(this), _YES), yes), (matches(_text(this), _NO), no)]


def _spelled_whole(this: Tree, form: TextFormat) -> list[tuple[Tree, Tree]]:
    """A whole number below 2^53 by its digits; a longer one is the key that it is written as."""
    plain, otherwise = _plain_number(this, form), _text(this)
    x = _parsed(plain)
    small = exp.Between(this=x, low=double(1.0 - WHOLE), high=double(WHOLE - 1.0))
    found = cast(cast(x, "BIGINT"), "TEXT")
    whole = choice((term("FLOOR(:x) = :x", x=x), found), otherwise=otherwise)
    return [(matches(_text(plain), _NUMERAL), choice((small, whole), otherwise=otherwise))]


def _spelled_day(this: Tree, form: TextFormat) -> list[tuple[Tree, Tree]]:
    this = _plain_day(this, form)
    return [(matches(_text(this), _DAY), exp.Left(this=_text(this), expression=integer(10)))]


_SPELLED: dict[type, Callable[[Tree, TextFormat], list[tuple[Tree, Tree]]]] = {
    bool: lambda this, _: _truths(this, text("true"), text("false")),
    int: _spelled_whole,
    datetime.date: _spelled_day,
}


def finite(this: Tree, *, numeric: bool) -> Tree:
    """Whether there is a value, or NULL: no NULL and, among numbers, neither NaN nor infinite."""
    if not numeric:
        return is_there(this)
    return exp.Between(this=this, low=double(-sys.float_info.max), high=double(sys.float_info.max))


def clipped(this: Tree, low: Tree, high: Tree) -> Tree:
    """A value within its range; a missing one stays missing."""
    return term("CASE WHEN :x < :low THEN :low WHEN :x > :high THEN :high ELSE :x END", x=this, low=low, high=high)


def is_there(this: Tree) -> Tree:
    """Whether a value is not NULL."""
    return exp.Not(this=exp.Is(this=this, expression=exp.Null()))


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
    texts = (ValueType.TEXT, ValueType.TRUTH)
    numeric = family not in (Family.TEXT, Family.UNTYPED) if kind is None else kind not in texts
    if kind is ValueType.TRUTH and family is not Family.BOOLEAN:  # a text that is none is missing, and not unequal
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
