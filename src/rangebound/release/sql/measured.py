"""What is read of a row: values in fixed point, places among borders, whether a value lies outside its range, keys.

Keys are the texts that a rule makes of a grouping column. They are trees over one row, so a key is a public function of
the row alone, and truncation, sensitivities and partition selection are those of any column of keys.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction

from sqlglot import exp

from rangebound.release.engine.dialect import Dialect, Tree, choice, double, integer, term, text
from rangebound.release.plan.fields import canonical, number, written
from rangebound.release.plan.key_rule import KeyRule
from rangebound.release.plan.measure import ONE, Places, Values
from rangebound.release.plan.table_schema import Schema
from rangebound.release.sql.expression import (
    as_day,
    as_key,
    as_number,
    beyond,
    beyond_doubles,
    cast,
    column,
    day,
    finite,
    first_day,
    is_there,
    scaled,
)
from rangebound.release.sql.relation import MANY, is_listed


def value(values: Values, schema: Schema) -> Tree:
    """A row's value in a column, as a finite double; NULL where it is missing."""
    this = as_number(values.column, schema, dated=values.dated)
    return choice((finite(this, numeric=True), this))


def _clipped(values: Values, x: Tree) -> Tree:
    """A value within its range; a missing one is the plan's constant, or else the lower end."""
    there = x if values.filler is None else exp.Coalesce(this=x, expressions=[double(values.filler)])
    lower = double(values.lower if values.least is None else values.least)
    low = exp.Greatest(this=there, expressions=[lower], ignore_nulls=True)
    return exp.Least(this=low, expressions=[double(values.upper)], ignore_nulls=True)


def fixed_point(values: Values, x: Tree) -> Tree:
    """A value as a whole number from 0 (lower end of its range) to `ONE` (upper end): what sums are made of.

    T = floor((clip(x) - lower) * (ONE / (upper - lower)) + 1/2), where a missing x is the plan's constant.

    Guarantee: 0 <= T <= ONE whatever the row holds: the product is within 2^-20 of the exact one, and rounding to the
    nearest whole number takes that away at both ends. Sums of fewer than 2^63 such numbers stay below 2^93.
    Edge cases: it moves a value by up to 2^-31 of the range, so nothing is decided by it; see `place`.
    """
    found = _scaled(values, x, ONE / (values.upper - values.lower), 0.5)
    return cast(exp.Floor(this=found), "BIGINT")


def scaled_product(first: Tree, second: Tree) -> Tree:
    """The product of two whole numbers from 0 to `ONE` in fixed point: below 2^61 before it is divided."""
    product = exp.Paren(this=exp.Mul(this=first, expression=second))
    return exp.Paren(this=exp.BitwiseRightShift(this=product, expression=integer(ONE.bit_length() - 1)))


def _scaled(values: Values, x: Tree, factor: float, more: float) -> Tree:
    """(clip(x) - lower) * factor + more."""
    above = _clipped(values, x)
    if values.lower != 0.0:
        above = exp.Paren(this=exp.Sub(this=above, expression=double(values.lower)))
    return exp.Add(this=scaled(above, factor), expression=double(more))


def place(places: Places, x: Tree, number: Tree | None, dialect: Dialect) -> Tree:
    """The place of a value among borders, such as the bin of a histogram or the point of a grid, counted from 0.

    The number of borders that are not above the value. Among borders at equal distances a first guess by arithmetic is
    at most one off, since they are several doubles apart; the place among others is found by halving. What is compared
    with the borders is the value itself: the double x with doubles, or the whole `number`, where one is given, with
    whole numbers.

    Guarantee: the same in every engine, from 0 to the number of borders, and it cannot fail, whatever the row holds. A
    missing value is where the plan's constant is, if it has one, else at one end.
    """
    borders, last = places.borders, len(places.borders)
    constant = places.values.filler
    filler = 0 if constant is None else bisect_right(borders, constant)
    if places.scale is None:
        most = dialect.most_whole
        compared = [double(each) if number is None else whole_border(each, math.ceil, most) for each in borders]
        this = x if number is None else number
        missing = exp.Is(this=x, expression=exp.Null()), integer(filler)
        return choice(missing, otherwise=among(this, compared, list(map(integer, range(last + 1)))))
    padded = (borders[0], *borders, borders[-1])  # a guess in an end cell has a border on one side alone
    texts = [repr(each) for each in padded]
    if number is not None:
        texts = [str(_nearest(each, math.ceil, dialect.most_whole)) for each in padded]
    guess = _guess(places, places.scale, x, last)

    def border(after: int) -> Tree:
        item = exp.Add(this=guess, expression=integer(after))
        return dialect.item(texts, item, whole=number is not None)

    this = x if number is None else number
    off = "WHEN :n > 0 AND :this < :below THEN :n - 1 WHEN :n < :last AND :this >= :above THEN :n + 1"
    sides = {"this": this, "below": border(1), "above": border(2), "last": integer(last)}
    return term(f"CASE WHEN :x IS NULL THEN :filler {off} ELSE :n END", x=x, filler=integer(filler), n=guess, **sides)


def _guess(places: Places, scale: Fraction, x: Tree, last: int) -> Tree:
    """The place of a value by arithmetic, or one next to it: the borders are off by an eighth of a place at most."""
    found = _scaled(places.values, x, float(scale), places.shift)
    return exp.Least(this=cast(exp.Floor(this=found), "INT"), expressions=[integer(last)])


def _nearest(border: float, rounded: Callable[[Fraction], int], most: int) -> int:
    return min(max(rounded(written(border)), -most), most)


def whole_border(border: float, rounded: Callable[[Fraction], int], most: int) -> Tree:
    """A border that whole numbers are compared with: the one above it (math.ceil), or below it (math.floor)."""
    return integer(_nearest(border, rounded, most))


def among(
    this: Tree, borders: Sequence[Tree], results: Sequence[Tree], signs: Sequence[type[exp.Binary]] = (exp.LT,)
) -> Tree:
    """The result of the place of a value among rising borders, found by halving: i has i borders not above the value.

    With several `signs`, which the borders take in turn, a value is before a border for which its sign is true.

    Edge cases: a value that is NULL is at one of the places, so what is missing is to be decided before.
    """

    def between(low: int, high: int) -> Tree:
        if low == high:
            return results[low]
        middle = (low + high) // 2
        test = signs[middle % len(signs)](this=this, expression=borders[middle])
        return choice((test, between(low, middle)), otherwise=between(middle + 1, high))

    return between(0, len(borders))


def present(value: Tree) -> Tree:
    """Whether a number is there, and finite: true or false, never NULL."""
    return exp.Coalesce(this=finite(value, numeric=True), expressions=[exp.false()])


def edge_place(this: Tree, edges: Sequence[float]) -> Tree:
    """The place of a number among edges, -1 where it is missing."""
    missing = exp.Is(this=this, expression=exp.Null())
    return choice((missing, integer(-1)), otherwise=place_among(this, list(map(double, edges))))


def place_among(value: Tree, edges: Sequence[Tree]) -> Tree:
    """How many of the rising edges are below a value, plus how many are not above it.

    Place 2 i + 1 is edge i itself, and 2 i lies between the edges i - 1 and i.
    """
    twice = [edge for edge in edges for _ in range(2)]
    return among(value, twice, list(map(integer, range(len(twice) + 1))), signs=(exp.LT, exp.LTE))


def outside(values: Values, x: Tree, whole: Tree | None) -> Tree:
    """`ONE` for a value outside its range, else 0; a missing value does not lie outside.

    Decided on the double x, or where an end is beyond 2^53 and the column has whole numbers on the `whole` one.
    """

    def sides(end: float) -> tuple[Tree, Tree]:
        return (whole, integer(int(end))) if whole is not None and beyond(end) else (x, double(end))

    (a, low), (b, high) = sides(values.lower), sides(values.upper)
    return term(
        "CASE WHEN :a >= :low AND :b <= :high THEN 0 WHEN :x IS NULL THEN 0 ELSE :one END",
        a=a,
        low=low,
        b=b,
        high=high,
        x=x,
        one=integer(ONE),
    )


def key_value(name: str, rule: KeyRule | None, schema: Schema) -> Tree:
    """What a key is made of, NULL where it is missing: a text, a day or a number, as the rule reads the column."""
    if rule is None:
        return as_key(name, schema)
    if rule.span is not None:
        return as_day(name, schema)
    if rule.bins is None:
        return as_key(name, schema, kind=rule.kind)
    if _whole(name, rule, schema):
        return column(name)
    lower, upper = number(rule.bins[0]), number(rule.bins[-1])
    return value(Values(column=name, lower=lower, upper=upper, dated=rule.dated), schema)


def key_text(name: str, rule: KeyRule | None, schema: Schema, this: Tree, dialect: Dialect) -> Tree:
    """The key that a rule makes of such a value; NULL where the row has none.

    Guarantee: the same in every engine; where the rule is more than a list, only public keys are ever made.
    """
    if rule is None or rule.listed_alone:
        return this
    label = _label(name, rule, schema, this, dialect) if rule.public else this
    if rule.missing is None and rule.other is None:
        return label
    other, missing = (None if each is None else text(each) for each in (rule.other, rule.missing))
    return exp.Coalesce(this=label, expressions=[choice((is_there(this), other or exp.Null()), otherwise=missing)])


def _label(name: str, rule: KeyRule, schema: Schema, this: Tree, dialect: Dialect) -> Tree:
    """The key of a value that is listed, in a bin or on one of the days; NULL for another."""
    if rule.span is not None:
        first, last = map(day, rule.span)
        start = first_day(this, week=rule.weeks is not None)
        begin = "CASE WHEN :start < :first THEN :first ELSE :start END"
        inside = f"CASE WHEN :x BETWEEN :first AND :last THEN CAST({begin} AS TEXT) END"
        return term(inside, x=this, first=first, last=last, start=start)
    if rule.bins is not None:
        return _bin(name, rule, schema, this, dialect)
    if rule.fold is None:
        return choice((_one_of(this, rule.own_labels, dialect), this))
    listed = {label: [canonical(each) for each in some] for label, some in rule.fold.items()}
    return choice(*((_one_of(this, some, dialect), text(label)) for label, some in listed.items()))


def _one_of(this: Tree, texts: Sequence[str], dialect: Dialect) -> Tree:
    """Whether a text is one of some: of a table, where they are many and the engine can ask that in a choice."""
    if dialect.tables_in_choices and len(texts) > MANY:
        return is_listed([this], [(each,) for each in texts], dialect)
    return exp.In(this=this, expressions=list(map(text, texts)))


def _bin(name: str, rule: KeyRule, schema: Schema, this: Tree, dialect: Dialect) -> Tree:
    """The name of the bin of a number, decided on the number itself, as for the bins of a histogram."""
    assert rule.bins is not None
    edges, names = [number(each) for each in rule.bins], list(map(text, rule.own_labels))
    most = dialect.most_whole if _whole(name, rule, schema) else None
    *lower, _ = (whole_border(edge, math.ceil, most) if most else double(edge) for edge in edges)
    upper = whole_border(edges[-1], math.floor, most) if most else double(edges[-1])
    found = {"first": lower[0], "last": upper, "bin": among(this, lower[1:], names)}
    return term("CASE WHEN :x >= :first AND :x <= :last THEN :bin END", x=this, **found)


def _whole(name: str, rule: KeyRule, schema: Schema) -> bool:
    """Whether whole numbers and not doubles are compared with the edges."""
    return beyond_doubles(name, [number(each) for each in rule.bins or ()], schema)
