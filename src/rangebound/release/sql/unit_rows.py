"""One row per unit: the rows of each unit as one, whose columns say what there is in them.

A table D is the disjoint union of the rows D_u of its units, and rows without an owner, which are left out. The step
makes one row f(D_u) of each unit that has rows; f knows no other unit, no order of the rows and no salt. So tables that
differ in the rows of one unit become tables that differ in one row: one is added or removed where the unit is, and
replaced where the unit is (or added or removed, where it has no rows on one side, so that their number is not public).
Afterwards the unit is the row: it has one row in one group, and every sensitivity is the one for rows as units.
Whatever the number of a unit's rows is, nothing has to be truncated.

Everything is the same to the last bit in every engine and order of rows: numbers are added in fixed point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from sqlglot import exp

from rangebound.release.engine.dialect import Dialect, Tree, choice, double, integer, term
from rangebound.release.plan.columns import UnitColumn
from rangebound.release.plan.fields import HUGE, WHOLE, date
from rangebound.release.plan.table_schema import KEYS, Family, Schema, TypedSchema, form_of
from rangebound.release.sql.expression import as_key, as_number, cast, clipped, column, day, finite, is_there, scaled
from rangebound.release.sql.relation import Relation, Salt, View, aliased, named, star, unused_name, where

_BITS = 40  # of a value in fixed point, at the end of its range that is farther from 0
_HALF = 30  # bits of a sum that are brought to a double by themselves
_HALFWAY = 2**54 - 1  # times 2^970: half way between the largest double and 2^1024


def unit_rows(seen: View, unit: str, columns: Sequence[UnitColumn], dialect: Dialect) -> View:
    """A view with one row for each unit that has rows, and the columns that are made of them."""
    compiler = _UnitCompiler(seen.schema, unit, dialect)
    forms = {each.name: form_of(seen.schema, each.arguments[0]) for each in columns if each.arguments}
    schema = TypedSchema({each.name: compiler.family(each) for each in columns}, types={}, forms=forms)
    found = {each.name: _FUNCTIONS[each.function](compiler, each) for each in columns}
    layers = [
        {each.name: compiler.number(each) for each in columns if each.function == "sum"},
        {each.name: _clipped(column(each.name), each.clipped, schema[each.name]) for each in columns if each.clipped},
    ]

    def source(salt: Salt) -> exp.Select:
        rows = seen.source(salt)
        for name, tree in compiler.windows.items():
            more = named({name: tree})
            rows = dialect.apart(exp.select(star(), *more, copy=False).from_(aliased(rows), copy=False))
        units = where(_chosen(found, rows), is_there(compiler.owner())).group_by(compiler.owner(), copy=False)
        for layer in layers:
            if layer:
                units = _chosen({name: layer.get(name, column(name)) for name in schema}, dialect.apart(units))
        return units

    return View(schema=schema, source=source)


def _chosen(trees: Mapping[str, Tree], rows: Relation) -> exp.Select:
    return exp.select(*named(trees), copy=False).from_(aliased(rows), copy=False)


class _UnitCompiler:
    """Columns of a unit as aggregates over its rows."""

    def __init__(self, schema: Schema, unit: str, dialect: Dialect) -> None:
        self.schema, self.unit, self.dialect = schema, unit, dialect
        self.windows: dict[str, Tree] = {}  # the first or last day of a unit, beside each of its rows

    def owner(self) -> Tree:
        """The unit of a row, NULL where it has none."""
        return as_key(self.unit, self.schema) if self.schema[self.unit] is Family.DATE else column(self.unit)

    def family(self, made: UnitColumn) -> Family:
        """The family of a column of a unit."""
        found = _FAMILIES.get(made.function)
        if found is None:
            found = self.schema[made.arguments[0]]
        if found in (Family.NUMBER, Family.DECIMAL):
            return Family.NUMBER
        return Family.NUMBER if found is Family.INTEGER and not _is_whole(made.clipped) else found

    def _there(self, name: str) -> Tree:
        """A value that can be compared with others of its column, NULL where it is missing."""
        family = self.schema[name]
        if family in (Family.NUMBER, Family.DECIMAL):
            this = as_number(name, self.schema)
            return choice((finite(this, numeric=True), this))
        if family is Family.DATE:  # within the calendar, as everywhere
            return choice((is_there(as_key(name, self.schema)), column(name)))
        return column(name)

    def _time(self, name: str) -> Tree:
        """What first and last go by: a date, a time, a number; of a text the date that it spells."""
        if self.schema[name] in (Family.TEXT, Family.UNTYPED):
            return as_number(name, self.schema, dated=True)
        return self._there(name)

    def count(self, made: UnitColumn) -> Tree:
        rows = choice((column(made.arguments[0]), integer(1))) if made.arguments else exp.Star()
        return cast(exp.Count(this=rows), "BIGINT")

    def distinct(self, made: UnitColumn) -> Tree:
        (name,) = made.arguments
        this = as_key(name, self.schema) if self.schema[name] in KEYS else self._there(name)
        return cast(exp.Count(this=exp.Distinct(expressions=[this])), "BIGINT")

    def met(self, made: UnitColumn, over: str) -> Tree:
        """Whether a row meets a condition (MAX), or all do (MIN)."""
        return term(f"{over}(CASE WHEN :met THEN 1 ELSE 0 END) = 1", met=column(made.arguments[0]))

    def extreme(self, made: UnitColumn, over: str) -> Tree:
        return term(f"{over}(:x)", x=self._there(made.arguments[0]))

    def at_end(self, made: UnitColumn, over: str) -> Tree:
        """The value of the first (MIN) or last (MAX) day on which there is one; of several on that day the least."""
        value, time = made.arguments
        there = is_there(self._there(value))
        end = term(f"{over}(CASE WHEN :there THEN :time END)", there=there, time=self._time(time))
        name = unused_name(f"end_{len(self.windows)}", {**self.schema, **dict.fromkeys(self.windows, Family.OTHER)})
        self.windows[name] = exp.Window(this=end, partition_by=[self.owner()])
        then = exp.EQ(this=self._time(time), expression=column(name))
        least = exp.LogicalAnd if self.schema[value] is Family.BOOLEAN else exp.Min
        return least(this=choice((then, self._there(value))))

    def sum(self, made: UnitColumn) -> Tree:
        """The sum of the values in fixed point, each clipped to its public range; of no values it is 0.

        Whole numbers are added as such. Others are taken to multiples of 2^-k, with k so large that the end of the
        range that is farther from 0 is about 2^40 of them, and these are added as whole numbers: the sum is within
        2^-40 of that end for each row, exact for numbers of few digits in binary, and the same in every order of rows.
        Fewer than 2^53 rows of 2^40 each are below 2^93, for which every engine has a type.
        """
        name, (low, high) = made.arguments[0], made.values
        if self.schema[name] is Family.INTEGER:  # of less than 2^53
            low, high = (max(-WHOLE, min(each, WHOLE)) for each in (low, high))
            fixed = _clipped(column(name), (math.ceil(low), math.floor(high)), Family.INTEGER)
        else:
            near = exp.Paren(this=_clipped(column(name), (low, high), Family.NUMBER))
            rounded = exp.Add(this=scaled(near, 2.0 ** _power(made)), expression=double(0.5))
            fixed = cast(exp.Floor(this=rounded), "BIGINT")
        return exp.Coalesce(this=self.dialect.added(fixed), expressions=[integer(0)])

    def number(self, made: UnitColumn) -> Tree:
        """The number that a sum in fixed point stands for: two halves that are doubles, added with one rounding.

        Edge cases: a sum of whole numbers beyond 2^53 is 2^53.
        """
        total = column(made.name)
        if self.schema[made.arguments[0]] is Family.INTEGER:
            return cast(_clipped(total, (-WHOLE, WHOLE), Family.INTEGER), "BIGINT")
        half = integer(2**_HALF)
        upper = cast(exp.Paren(this=exp.IntDiv(this=total, expression=half)), "DOUBLE")
        parts = {"upper": upper, "total": total, "half": half}
        units = {"high": double(2.0 ** (_HALF - _power(made))), "low": double(2.0 ** -_power(made))}
        found = term(":upper * :high + CAST((:total % :half) AS DOUBLE) * :low", **parts, **units)
        return self._infinite(total, _power(made), found) if self.dialect.checked else found

    def _infinite(self, total: Tree, power: int, found: Tree) -> Tree:
        """A sum that is nearer to 2^1024 than to a double is infinite, where the engine would stop at it."""
        most = _HALFWAY << max(970 + power, 0)
        compared = exp.Mul(this=total, expression=integer(1 << max(-970 - power, 0)))
        return choice(
            (exp.GTE(this=compared, expression=integer(most)), double(math.inf)),
            (exp.LTE(this=compared, expression=integer(-most)), double(-math.inf)),
            otherwise=found,
        )


def _power(made: UnitColumn) -> int:
    """The k of the multiples of 2^-k that values are taken to."""
    return _BITS - math.frexp(max(map(abs, made.values)))[1]


def _clipped(this: Tree, ends: tuple[float, float], family: Family) -> Tree:
    """A value within its range; a missing one stays missing."""
    low, high = (_literal(each, family) for each in ends)
    return clipped(cast(this, "DOUBLE") if family is Family.NUMBER else this, low, high)


# How the rows of a unit make a column; whatever they hold, it cannot fail.
_FUNCTIONS: dict[str, Callable[[_UnitCompiler, UnitColumn], Tree]] = {
    "count": _UnitCompiler.count,
    "distinct": _UnitCompiler.distinct,
    "sum": _UnitCompiler.sum,
    "any": partial(_UnitCompiler.met, over="MAX"),
    "all": partial(_UnitCompiler.met, over="MIN"),
    "min": partial(_UnitCompiler.extreme, over="MIN"),
    "max": partial(_UnitCompiler.extreme, over="MAX"),
    "first": partial(_UnitCompiler.at_end, over="MIN"),
    "last": partial(_UnitCompiler.at_end, over="MAX"),
}
_FAMILIES = {"count": Family.INTEGER, "distinct": Family.INTEGER, "any": Family.BOOLEAN, "all": Family.BOOLEAN}


def _is_whole(ends: tuple[float, float] | None) -> bool:
    """Whether values clipped to these ends are whole numbers for which every engine has a type."""
    return ends is None or all(each.is_integer() and abs(each) < HUGE for each in ends)


def _literal(value: float, family: Family) -> Tree:
    if family is Family.DATE:
        return day(date(value))
    return integer(int(value)) if family is Family.INTEGER else double(value)
