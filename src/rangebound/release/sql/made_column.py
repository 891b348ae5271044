"""Made columns as SQL trees: the same bits in every engine, NULL where a value is missing, and no row can fail.

Numbers are doubles, and all arithmetic on them is one correctly rounded operation at a time; dates count days since
1970-01-01. A part that is needed twice, as in `CASE WHEN y <> 0 THEN y END`, is a column of a selection below, so that
statements grow with the expression and not with the power of its depth.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise

from sqlglot import exp

from rangebound.release.engine.dialect import Dialect, Tree, choice, double, term, text
from rangebound.release.plan.columns import MadeColumn
from rangebound.release.plan.condition import Comparison, Condition
from rangebound.release.plan.expressions.nodes import CALENDAR, Constant, Named, Range, ValueType
from rangebound.release.plan.expressions.typed import Typed, whole
from rangebound.release.plan.fields import WHOLE, number
from rangebound.release.plan.table_schema import Family, Schema, extended
from rangebound.release.sql.expression import (
    EPOCH,
    as_key,
    as_number,
    by_truth,
    cast,
    clipped,
    column,
    day,
    days_after,
    finite,
    meets,
    read_day,
    read_hour,
    read_number,
    read_truth,
    source_name,
)

_FAMILIES = {ValueType.TEXT: Family.TEXT, ValueType.TRUTH: Family.BOOLEAN, ValueType.DATE: Family.DATE}
_WHOLE = (Family.INTEGER, Family.BOOLEAN)
_FINITE = (*_WHOLE, Family.DECIMAL)


def made_columns(
    schema: Schema, columns: Sequence[MadeColumn], dialect: Dialect
) -> tuple[list[Mapping[str, Tree]], Schema]:
    """Columns that are made of those before them: what selections one above the other add, by source name; the schema.

    Guarantee: the value of a row depends on that row alone, is the same in every engine, and NULL where it is missing;
    no number is NaN or infinite. A number that is whole by its expression is of family INTEGER, where one from 2^53 on
    is missing.
    """
    reserved = frozenset(each.name.casefold() for each in columns)
    steps = _ColumnSteps(schema=extended(schema, {}), reserved=reserved, dialect=dialect)
    for each in columns:
        steps.make(each)
    return list(steps.layers), steps.schema


@dataclass(frozen=True)
class _Value:
    """A compiled part: its tree, on which selection its columns are, and whether it is finite or NULL for sure."""

    tree: Tree
    level: int = 0
    finite: bool = True


@dataclass
class _ColumnSteps:
    """Selections one above the other, with the columns that each adds."""

    schema: dict[str, Family]
    reserved: frozenset[str]
    dialect: Dialect
    layers: list[dict[str, Tree]] = field(default_factory=list)
    levels: dict[str, int] = field(default_factory=dict)  # of made columns
    names: dict[tuple[int, str], str] = field(default_factory=dict)

    def make(self, made: MadeColumn) -> None:
        """Add a made column."""
        found, kind = self.compiled(made.value), made.value.type
        if made.clipped is not None:
            found = self._clipped(found, made.clipped)
        integers = {name: family in _WHOLE for name, family in self.schema.items()}
        family = _FAMILIES.get(kind, Family.NUMBER)
        if kind is ValueType.NUMBER:
            found = self.guarded(found)
            ends = made.clipped or (0.0, 0.0)
            if whole(made.value, integers) and all(each.is_integer() for each in ends):
                family, found = Family.INTEGER, self._integer(found)
        elif kind is ValueType.DATE:
            found = _Value(_calendar_day(found.tree), found.level)
        self._add(source_name(made.name), found)
        self.levels[made.name], self.schema[made.name] = found.level + 1, family

    def _add(self, name: str, found: _Value) -> None:
        while len(self.layers) <= found.level:
            self.layers.append({})
        self.layers[found.level][name] = found.tree

    def shared(self, found: _Value) -> _Value:
        """The same value as a column, which may stand in a tree more than once."""
        number = isinstance(found.tree, exp.Cast) and isinstance(found.tree.this, exp.Literal)
        if number or isinstance(found.tree, exp.Column | exp.Literal | exp.Boolean):
            return found
        key = found.level, found.tree.sql()
        if key not in self.names:
            self.names[key] = self._new()
            self._add(self.names[key], found)
        return _Value(column(self.names[key]), found.level + 1, found.finite)

    def _new(self) -> str:
        """A name that no column has, nor one that is made later, in any case."""
        taken = {*self.reserved, *self.names.values(), *(each.casefold() for each in self.schema)}
        return next(name for at in itertools.count(len(self.names)) if (name := f"rangebound step {at}") not in taken)

    def guarded(self, found: _Value) -> _Value:
        """A number that is finite or NULL: an overflow is missing, whatever is made of it."""
        if found.finite:
            return found
        one = self.shared(found)
        return _Value(choice((finite(one.tree, numeric=True), one.tree)), one.level)

    def computed(self, operation: type[exp.Binary], left: _Value, right: _Value, *, bounded: bool = False) -> _Value:
        """One operation on numbers: it may overflow, unless public ranges say that it is `bounded`."""
        sure = left.finite and right.finite and bounded
        if sure and operation in (exp.Add, exp.Sub):  # whose results are never too small
            tree: Tree = exp.Paren(this=operation(this=left.tree, expression=right.tree))
            return _Value(tree, max(left.level, right.level))
        if self.dialect.checked:
            left, right, sure = self.shared(self.guarded(left)), self.shared(self.guarded(right)), True
        tree = self.dialect.computed(operation, left.tree, right.tree)
        return _Value(tree, max(left.level, right.level), sure)

    def compiled(self, each: Typed) -> _Value:
        """A typed expression."""
        if isinstance(each.node, Constant):
            return _Value(_LITERALS[each.type](each.node.value))
        if isinstance(each.node, Named):
            return self._column(each, each.node.name)
        compile_ = COMPILED[each.node.function]
        return compile_(self, each, [self.compiled(part) for part in each.parts])

    def _column(self, each: Typed, name: str) -> _Value:
        level, family = self.levels.get(name, 0), self.schema[name]
        if each.type is ValueType.COLUMN:
            return _Value(column(name), level)
        found = _Value(_READ[each.type](name, self.schema), level, each.type is not ValueType.NUMBER)
        if each.type is ValueType.NUMBER and (name in self.levels or family in _FINITE):
            found = _Value(found.tree, level)
        return found if each.clipped is None else self._clipped(found, each.clipped)

    def _clipped(self, found: _Value, ends: Range) -> _Value:
        one = self.shared(self.guarded(found))
        low, high = map(double, ends)
        return _Value(clipped(one.tree, low, high), one.level)

    def _integer(self, found: _Value) -> _Value:
        one = self.shared(found)
        return _Value(cast(_between(one.tree, 1.0 - WHOLE, WHOLE - 1.0), "BIGINT"), one.level)

    def floor(self, found: _Value) -> _Value:
        """The whole number at or below: from 2^53 on every double is one, and not every engine can round it down."""
        one = self.shared(self.guarded(found))
        small = exp.Between(this=one.tree, low=double(-WHOLE), high=double(WHOLE))
        floor = "CASE WHEN :small THEN CAST(FLOOR(CASE WHEN :small THEN :x END) AS DOUBLE) ELSE :x END"
        return _Value(term(floor, small=small, x=one.tree), one.level)

    def nonzero(self, found: _Value) -> _Value:
        """A number, NULL where it is 0: no engine is ever asked to divide by 0."""
        one = self.shared(self.guarded(found))
        return _Value(term("CASE WHEN :x <> :zero THEN :x END", x=one.tree, zero=double(0.0)), one.level)

    def smaller(self, first: _Value, second: _Value, sign: type[Tree]) -> _Value:
        """The one of two numbers that the sign is true for; NULL where one is missing."""
        a, b = self.shared(self.guarded(first)), self.shared(self.guarded(second))
        test = sign(this=a.tree, expression=b.tree)
        return _Value(by_truth(test, a.tree, b.tree), max(a.level, b.level))


def _between(this: Tree, low: float, high: float) -> Tree:
    """A number within two ends, NULL outside."""
    return term("CASE WHEN :x BETWEEN :low AND :high THEN :x END", x=this, low=double(low), high=double(high))


_READ: Mapping[ValueType, Callable[[str, Schema], Tree]] = {
    ValueType.NUMBER: as_number,
    ValueType.TEXT: as_key,
    ValueType.TRUTH: lambda name, schema: (
        column(name) if schema[name] is Family.BOOLEAN else read_truth(column(name), exp.true(), exp.false())
    ),
    ValueType.DATE: lambda name, schema: as_number(name, schema, dated=True),
}
_LITERALS: Mapping[ValueType, Callable[..., Tree]] = {
    ValueType.NUMBER: double,
    ValueType.TEXT: text,
    ValueType.TRUTH: lambda value: exp.true() if value else exp.false(),
    ValueType.DATE: lambda value: double(number(value)),
}


def _calendar_day(days: Tree) -> Tree:
    """The date of a number of days since 1970-01-01, which lies in the calendar."""
    return days_after(day(EPOCH), days)


Parts = Sequence[_Value]
_Compile = Callable[[_ColumnSteps, Typed, Parts], _Value]


def _level(parts: Parts) -> int:
    return max(each.level for each in parts)


def _written(template: str, *, guarded: bool = False) -> _Compile:
    """SQL of its parts :a and :b; `guarded`, they are finite or NULL."""

    def compiled(steps: _ColumnSteps, each: Typed, parts: Parts) -> _Value:
        parts = [steps.guarded(one) for one in parts] if guarded else parts
        parts = [steps.shared(x) if template.count(f":{at}") > 1 else x for at, x in zip("ab", parts, strict=False)]
        tree = term(template, **{name: one.tree for name, one in zip("ab", parts, strict=False)})
        return _Value(tree, _level(parts), all(one.finite for one in parts))

    return compiled


def _arithmetic(operation: type[exp.Binary]) -> _Compile:
    """An operation on numbers, or a date that is moved by whole days."""

    def compiled(steps: _ColumnSteps, each: Typed, parts: Parts) -> _Value:
        if each.type is not ValueType.DATE:
            bounded = all(abs(end) < float("inf") for end in each.range)
            return steps.computed(operation, parts[0], parts[1], bounded=bounded)
        dated = 0 if each.parts[0].type is ValueType.DATE else 1
        date, count = parts[dated], steps.floor(parts[1 - dated])
        one = steps.shared(
            _Value(exp.Paren(this=operation(this=date.tree, expression=count.tree)), _level([date, count]))
        )
        return _Value(_between(one.tree, *CALENDAR), one.level)

    return compiled


def _quotient(steps: _ColumnSteps, each: Typed, parts: Parts) -> _Value:
    return _arithmetic(exp.Div)(steps, each, [parts[0], steps.nonzero(parts[1])])


def _whole_quotient(steps: _ColumnSteps, each: Typed, parts: Parts) -> _Value:
    return steps.floor(steps.computed(exp.Div, parts[0], steps.nonzero(parts[1])))


def _remainder(steps: _ColumnSteps, each: Typed, parts: Parts) -> _Value:
    """The exact remainder that has the sign of x, and where that is not the sign of y, y more."""
    left, right = steps.guarded(parts[0]), steps.shared(steps.nonzero(parts[1]))
    rest = steps.shared(steps.computed(exp.Mod, left, right, bounded=True))
    tree = term(
        "CASE WHEN TRUE AND :r < :zero AND :y > :zero THEN (:r + :y)"
        " WHEN TRUE AND :r > :zero AND :y < :zero THEN (:r + :y) ELSE :r END",
        r=rest.tree,
        y=right.tree,
        zero=double(0.0),
    )
    return _Value(tree, rest.level)


_NEGATIVE = _written("(-:a)")


def _round(steps: _ColumnSteps, each: Typed, parts: Parts) -> _Value:
    """A half away from zero: the part behind the whole number is exact where it is near a half."""
    x = steps.shared(steps.guarded(parts[0]))
    low = steps.shared(steps.floor(_Value(exp.Abs(this=x.tree), x.level)))
    half = {"half": double(0.5), "one": double(1.0)}
    near = term("CASE WHEN (ABS(:x) - :low) >= :half THEN (:low + :one) ELSE :low END", x=x.tree, low=low.tree, **half)
    size = steps.shared(_Value(near, low.level))
    signed = term("CASE WHEN :x < :zero THEN (-:n) ELSE :n END", x=x.tree, n=size.tree, zero=double(0.0))
    return _Value(signed, size.level)


def _extreme(sign: type[Tree]) -> _Compile:
    return lambda steps, each, parts: reduce(lambda a, b: steps.smaller(a, b, sign), parts)


def _bin(steps: _ColumnSteps, each: Typed, parts: Parts) -> _Value:
    if len(parts) == 2:
        return _arithmetic(exp.Mul)(steps, each, [_whole_quotient(steps, each, parts), parts[1]])
    x, edges = steps.shared(steps.guarded(parts[0])), [one.tree for one in parts[1:]]
    cases: list[tuple[Tree, Tree]] = [(exp.LT(this=x.tree, expression=edges[0]), exp.Null())]
    for low, high in pairwise(edges[:-1]):
        cases.append((exp.LT(this=x.tree, expression=high), low))
    cases.append((exp.LTE(this=x.tree, expression=edges[-1]), edges[-2]))
    return _Value(choice(*cases), x.level)


def _in(steps: _ColumnSteps, each: Typed, parts: Parts) -> _Value:
    one = steps.guarded(parts[0])
    return _Value(exp.Paren(this=exp.In(this=one.tree, expressions=[part.tree for part in parts[1:]])), one.level)


def _not_in(steps: _ColumnSteps, each: Typed, parts: Parts) -> _Value:
    found = _in(steps, each, parts)
    return _Value(exp.Paren(this=exp.Not(this=found.tree)), found.level)


def _connected(connector: type[Tree]) -> _Compile:
    def compiled(steps: _ColumnSteps, each: Typed, parts: Parts) -> _Value:
        tree = reduce(lambda a, b: connector(this=a, expression=b), (part.tree for part in parts))
        return _Value(exp.Paren(this=tree), _level(parts))

    return compiled


def _case(steps: _ColumnSteps, each: Typed, parts: Parts) -> _Value:
    pairs = [(parts[at].tree, parts[at + 1].tree) for at in range(0, len(parts) - 1, 2)]
    values = [*parts[1::2], *parts[len(parts) - len(parts) % 2 :]]
    otherwise = parts[-1].tree if len(parts) % 2 else None
    return _Value(choice(*pairs, otherwise=otherwise), _level(parts), all(one.finite for one in values))


def _coalesce(steps: _ColumnSteps, each: Typed, parts: Parts) -> _Value:
    first, *others = (steps.guarded(one) for one in parts)
    tree = exp.Coalesce(this=first.tree, expressions=[one.tree for one in others])
    return _Value(tree, _level([first, *others]))


def _name(each: Typed) -> str:
    node = each.parts[0].node
    assert isinstance(node, Named)
    return node.name


def _missing(steps: _ColumnSteps, each: Typed, parts: Parts) -> _Value:
    if each.parts[0].type is ValueType.COLUMN:
        condition = Condition.model_validate({"column": _name(each), "is": Comparison.MISSING.value})
        return _Value(exp.Paren(this=meets([condition], steps.schema)), parts[0].level)
    return _written("(:a IS NULL)", guarded=True)(steps, each, parts)


def _number(steps: _ColumnSteps, each: Typed, parts: Parts) -> _Value:
    (one,), kind = parts, each.parts[0].type
    if kind is ValueType.NUMBER:
        return one
    if kind is ValueType.TRUTH:
        this = steps.shared(one)
        return _Value(by_truth(this.tree, double(1.0), double(0.0)), this.level)
    family = steps.schema[_name(each)] if kind is ValueType.COLUMN else Family.TEXT
    if family is not Family.TEXT:
        return _Value(as_number(_name(each), steps.schema), one.level, family in _FINITE)
    this = steps.shared(one)
    return _Value(read_number(this.tree), this.level, finite=False)


def _text(steps: _ColumnSteps, each: Typed, parts: Parts) -> _Value:
    (one,), kind = parts, each.parts[0].type
    if kind is ValueType.COLUMN:
        return _Value(as_key(_name(each), steps.schema), one.level)
    if kind is ValueType.DATE:
        return _Value(cast(_calendar_day(one.tree), "TEXT"), one.level)
    if kind is ValueType.TRUTH:
        this = steps.shared(one)
        return _Value(by_truth(this.tree, text("true"), text("false")), this.level)
    return one


def _date(steps: _ColumnSteps, each: Typed, parts: Parts) -> _Value:
    (one,), kind = parts, each.parts[0].type
    if kind is ValueType.COLUMN:
        return _Value(as_number(_name(each), steps.schema, dated=True), one.level)
    if kind is ValueType.DATE:
        return one
    this = steps.shared(one)
    return _Value(read_day(this.tree), this.level)


def _extracted(part: str) -> _Compile:
    def compiled(steps: _ColumnSteps, each: Typed, parts: Parts) -> _Value:
        found = exp.Extract(this=exp.var(part), expression=_calendar_day(parts[0].tree))
        return _Value(cast(found, "DOUBLE"), parts[0].level)

    return compiled


def _weekday(steps: _ColumnSteps, each: Typed, parts: Parts) -> _Value:
    """1970-01-01 was a Thursday, and the day number -719162 a Monday."""
    since = _Value(term("(:day + :first)", day=parts[0].tree, first=double(-CALENDAR[0])), parts[0].level)
    rest = steps.computed(exp.Mod, since, _Value(double(7.0)), bounded=True)
    return _Value(term("(:rest + :one)", rest=rest.tree, one=double(1.0)), rest.level)


COMPILED: Mapping[str, _Compile] = {
    "+": _arithmetic(exp.Add),
    "-": _arithmetic(exp.Sub),
    "*": _arithmetic(exp.Mul),
    "/": _quotient,
    "//": _whole_quotient,
    "%": _remainder,
    "-x": _NEGATIVE,
    **{sign: _written(f"(:a {sign} :b)", guarded=True) for sign in ("!=", "<", "<=", ">", ">=")},
    "==": _written("(:a = :b)", guarded=True),
    "in": _in,
    "not in": _not_in,
    "and": _connected(exp.And),
    "or": _connected(exp.Or),
    "not": _written("(NOT :a)"),
    "case": _case,
    "coalesce": _coalesce,
    "missing": _missing,
    "number": _number,
    "text": _text,
    "date": _date,
    **{part: _extracted(part.upper()) for part in ("year", "quarter", "month", "week", "day")},
    "weekday": _weekday,
    "hour": lambda steps, each, parts: _Value(cast(read_hour(_name(each), steps.schema), "DOUBLE"), parts[0].level),
    "floor": lambda steps, each, parts: steps.floor(parts[0]),
    "ceil": lambda steps, each, parts: _NEGATIVE(steps, each, [steps.floor(_NEGATIVE(steps, each, parts))]),
    "round": _round,
    "abs": _written("ABS(:a)"),
    "min": _extreme(exp.LTE),
    "max": _extreme(exp.GTE),
    "clip": lambda steps, each, parts: steps.smaller(steps.smaller(parts[0], parts[1], exp.GTE), parts[2], exp.LTE),
    "bin": _bin,
    "starts": _written("(LEFT(:a, LENGTH(:b)) = :b)"),
    "ends": _written("(RIGHT(:a, LENGTH(:b)) = :b)"),
    "contains": _written("(STRPOS(:a, :b) > 0)"),
}
"""How every function and operator of `FUNCTIONS` is computed."""
