"""What is measured of a row: values in fixed point, places among borders, whether a value lies outside its range."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction

from sqlglot import exp

from rangebound.release.engine.dialect import Dialect
from rangebound.release.engine.term import Tree, term
from rangebound.release.plan.fields import written
from rangebound.release.plan.statistic import ONE, Places, Values
from rangebound.release.plan.table_schema import Schema
from rangebound.release.sql.comparison import beyond
from rangebound.release.sql.expression import as_number, choice, double, finite, integer


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


def fixed_point(values: Values, x: Tree, dialect: Dialect) -> Tree:
    """A value as a whole number from 0 (lower end of its range) to `ONE` (upper end): what sums are made of.

    T = floor((clip(x) - lower) * (ONE / (upper - lower)) + 1/2), where a missing x is the plan's constant.

    Guarantee: 0 <= T <= ONE whatever the row holds: the product is within 2^-20 of the exact one, and rounding to the
    nearest whole number takes that away at both ends. Sums of fewer than 2^63 such numbers stay below 2^93.
    Edge cases: it moves a value by up to 2^-31 of the range, so nothing is decided by it; see `place`.
    """
    scaled = _scaled(values, x, ONE / (values.upper - values.lower), 0.5, dialect)
    return exp.cast(exp.Floor(this=scaled), "BIGINT")


def scaled_product(first: Tree, second: Tree, dialect: Dialect) -> Tree:
    """The product of two whole numbers from 0 to `ONE` in fixed point: below 2^61 before it is divided."""
    product = exp.Paren(this=exp.Mul(this=first, expression=second))
    return dialect.whole_quotient(product, integer(ONE))


def _scaled(values: Values, x: Tree, factor: float, more: float, dialect: Dialect) -> Tree:
    """(clip(x) - lower) * factor + more."""
    above = _clipped(values, x)
    if values.lower != 0.0:
        above = exp.Paren(this=exp.Sub(this=above, expression=double(values.lower)))
    return exp.Add(this=dialect.scaled(above, factor), expression=double(more))


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
        missing = exp.Is(this=x.copy(), expression=exp.Null()), integer(filler)
        return choice(missing, otherwise=among(this, compared, list(map(integer, range(last + 1)))))
    padded = (borders[0], *borders, borders[-1])  # a guess in an end cell has a border on one side alone
    texts = [repr(each) for each in padded]
    if number is not None:
        texts = [str(_nearest(each, math.ceil, dialect.most_whole)) for each in padded]
    guess = _guess(places, places.scale, x, last, dialect)

    def border(after: int) -> Tree:
        item = exp.Add(this=guess.copy(), expression=integer(after))
        return dialect.item(texts, item, whole=number is not None)

    this = x if number is None else number
    off = "WHEN :n > 0 AND :this < :below THEN :n - 1 WHEN :n < :last AND :this >= :above THEN :n + 1"
    sides = {"this": this, "below": border(1), "above": border(2), "last": integer(last)}
    return term(f"CASE WHEN :x IS NULL THEN :filler {off} ELSE :n END", x=x, filler=integer(filler), n=guess, **sides)


def _guess(places: Places, scale: Fraction, x: Tree, last: int, dialect: Dialect) -> Tree:
    """The place of a value by arithmetic, or one next to it: the borders are off by an eighth of a place at most."""
    scaled = _scaled(places.values, x, float(scale), places.shift, dialect)
    return exp.Least(this=exp.cast(exp.Floor(this=scaled), "INT"), expressions=[integer(last)])


def _nearest(border: float, rounded: Callable[[Fraction], int], most: int) -> int:
    return min(max(rounded(written(border)), -most), most)


def whole_border(border: float, rounded: Callable[[Fraction], int], most: int) -> Tree:
    """A border that whole numbers are compared with: the one above it (math.ceil), or below it (math.floor)."""
    return integer(_nearest(border, rounded, most))


def among(this: Tree, borders: Sequence[Tree], results: Sequence[Tree]) -> Tree:
    """The result of the place of a value among rising borders, found by halving: i has i borders not above the value.

    Edge cases: a value that is NULL is at one of the places, so what is missing is to be decided before.
    """

    def between(low: int, high: int) -> Tree:
        if low == high:
            return results[low].copy()
        middle = (low + high) // 2
        test = exp.LT(this=this.copy(), expression=borders[middle].copy())
        return choice((test, between(low, middle)), otherwise=between(middle + 1, high))

    return between(0, len(borders))


def present(value: Tree) -> Tree:
    """Whether a number is there, and finite: true or false, never NULL."""
    return exp.Coalesce(this=finite(value, numeric=True), expressions=[exp.false()])


def edge_place(this: Tree, edges: Sequence[float]) -> Tree:
    """The place of a number among edges, -1 where it is missing."""
    missing = exp.Is(this=this.copy(), expression=exp.Null())
    return choice((missing, integer(-1)), otherwise=place_among(this, list(map(double, edges))))


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
