"""What a SELECT makes of published numbers and keys: the columns of its rows, HAVING and ORDER BY.

All of it is post-processing. Missing values are SQL's: what is made of one is missing, and a comparison with one is
neither true nor false.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from rangebound.release.plan.asking.aggregates import Aggregates, Question
from rangebound.release.plan.asking.from_tables import refused
from rangebound.release.plan.expressions.nodes import Expression, iso_day
from rangebound.release.plan.expressions.row_expression import RowExpressions, bare
from rangebound.release.plan.expressions.sql_text import BINARY, CALLS, INSTEAD, fragment

Value = bool | float | str | None
_TRUTHS = {"true": True, "false": False}


@dataclass(frozen=True)
class KeyOf:
    """The key of a group in one grouping column."""

    column: int


@dataclass(frozen=True)
class Number:
    """A published number: of which question, and which of its parts; without a name, its only one."""

    question: int
    part: str | None = None


@dataclass(frozen=True)
class Fixed:
    """A constant of the text."""

    value: bool | float | str


@dataclass(frozen=True)
class Operation:
    """An operation of other values."""

    name: str
    parts: tuple[Computed, ...]


Computed = KeyOf | Number | Fixed | Operation


@dataclass(frozen=True, kw_only=True)
class Group:
    """What was published for one group: its key, and the numbers of every question by their parts."""

    key: tuple[Value, ...]
    numbers: Mapping[int, Mapping[str, Value]]


def value_of(node: Computed, group: Group) -> Value:
    """The value of an expression in a group.

    >>> group = Group(key=("north",), numbers={0: {"": 8.0}, 1: {"": 2.0}})
    >>> value_of(Operation("/", (Number(0), Number(1))), group), value_of(KeyOf(0), group)
    (4.0, 'north')
    """
    match node:
        case KeyOf(column):
            return group.key[column]
        case Number(question, part):
            found = group.numbers.get(question, {})
            return next(iter(found.values()), None) if part is None else found.get(part)
        case Fixed(value):
            return value
        case Operation("and" | "or" as name, parts):
            return _connected([truth_of(each, group) for each in parts], decisive=name == "or")
        case Operation("not", (part,)):
            truth = truth_of(part, group)
            return not truth if isinstance(truth, bool) else None
        case Operation("missing", (part,)):
            return value_of(part, group) is None
        case Operation(name, parts):
            values = [value_of(each, group) for each in parts]
            if any(each is None for each in values):
                return None
            return OPERATIONS[name](*_alike(values))


def truth_of(node: Computed, group: Group) -> Value:
    """The value of a condition in a group; a key is a text, also that of a truth value.

    >>> truth_of(KeyOf(0), Group(key=("true",), numbers={})), truth_of(KeyOf(0), Group(key=("north",), numbers={}))
    (True, 'north')
    """
    found = value_of(node, group)
    return _TRUTHS.get(found, found) if isinstance(found, str) else found


def _connected(values: Sequence[Value], *, decisive: bool) -> Value:
    """Three-valued `or` where a true one is decisive, `and` where a false one is."""
    if any(each is decisive for each in values):
        return decisive
    return None if None in values else not decisive


def _alike(values: Sequence[Value]) -> Sequence[Value]:
    """Numbers where a number is among the values, and so truth values: a key is a text, also that of one of these."""
    if any(isinstance(each, bool) for each in values):
        return [_TRUTHS.get(each, each) if isinstance(each, str) else each for each in values]
    if not any(isinstance(each, float) for each in values):
        return values
    return [_number(each) for each in values]


def _number(value: Value) -> Value:
    if isinstance(value, str):
        try:
            found = float(value)
        except ValueError:
            return value
        return found if math.isfinite(found) else value
    return value


def _of_numbers(compute: Callable[..., float]) -> Callable[..., Value]:
    def computed(*values: Value) -> Value:
        if not all(isinstance(each, float) for each in values):
            return None
        try:
            found = compute(*values)
        except (ArithmeticError, ValueError):  # a division by zero, or too large
            return None
        return float(found) if math.isfinite(found) else None

    return computed


def _compared(compare: Callable[[int], bool]) -> Callable[[Value, Value], Value]:
    def compared(one: Value, other: Value) -> Value:
        if type(one) is not type(other):
            return None
        return compare((one > other) - (one < other))  # type: ignore[operator]  # of one type, none of them missing

    return compared


def _rounded(value: float, digits: float = 0.0) -> float:
    """Rounded to digits, a half away from zero as SQL does."""
    scale = 10.0 ** int(digits)
    return math.copysign(math.floor(abs(value) * scale + 0.5), value) / scale


OPERATIONS: Mapping[str, Callable[..., Value]] = {
    "+": _of_numbers(lambda a, b: a + b),
    "-": _of_numbers(lambda a, b: a - b),
    "*": _of_numbers(lambda a, b: a * b),
    "/": _of_numbers(lambda a, b: a / b),
    "-x": _of_numbers(lambda a: -a),
    "round": _of_numbers(_rounded),
    "floor": _of_numbers(math.floor),
    "ceil": _of_numbers(math.ceil),
    "abs": _of_numbers(abs),
    "==": _compared(lambda order: order == 0),
    "!=": _compared(lambda order: order != 0),
    "<": _compared(lambda order: order < 0),
    "<=": _compared(lambda order: order <= 0),
    ">": _compared(lambda order: order > 0),
    ">=": _compared(lambda order: order >= 0),
}
"""What can be made of published values, but for `and`, `or`, `not` and `missing`, which know missing ones."""


@dataclass(kw_only=True)
class SelectItem:
    """A column of the rows that a SELECT gives."""

    name: str
    node: exp.Expr
    value: Computed | None = None


_FUNCTIONS: dict[type, str] = {exp.Not: "not"} | {each: CALLS[each] for each in (exp.Neg, exp.Abs, exp.Floor, exp.Ceil)}


@dataclass(kw_only=True)
class PublishedValues:
    """Reads expressions of published values of one text, and collects the questions that they ask.

    `items` are the columns of SELECT, `groups` the grouping columns, and `made` the columns that expressions make.
    """

    text: str
    rows: RowExpressions
    aggregates: Aggregates
    items: list[SelectItem]
    groups: list[str]
    made: Mapping[str, Expression]
    questions: list[Question] = field(default_factory=list)

    def computed(self, node: exp.Expr, *, asking: SelectItem | None = None) -> Computed:
        """An expression of published numbers and keys; a question is added where a column of SELECT is `asking`."""
        node = bare(node)
        aliases = frozenset() if asking is not None else frozenset(each.name for each in self.items)
        value = self.rows.constant(node)
        if value is not None and not isinstance(node, exp.Neg):
            return Fixed(value if isinstance(value, (bool, float, str)) else value.isoformat())
        known = self._known(node, aliases, asked=asking is None)
        if known is not None:
            return known
        question = self.aggregates.question(node)
        if question is not None:
            return Number(self._number(node, question, asking), question.part)
        if isinstance(node, exp.Column) or not aggregated(node, aliases):
            alone = "is not an aggregate, and rows are never published; group by it"
            raise refused(self.text, node, "is neither an aggregate nor in GROUP BY" if self.groups else alone)
        return self._operation(node, asking)

    def _known(self, node: exp.Expr, aliases: frozenset[str], *, asked: bool) -> Computed | None:
        items = [each for each in self.items if asked and each.value is not None]
        called = node.name if isinstance(node, exp.Column) and not node.table else None
        for each in (*(one for one in items if one.name == called), *(one for one in items if bare(one.node) == node)):
            return each.value
        if isinstance(node, exp.Column):
            name = self.rows.resolve(node)
            return KeyOf(self.groups.index(name)) if name in self.groups else None
        if self.groups and not aggregated(node, aliases):
            found = self.rows.column_tree(node)
            for at, name in enumerate(self.groups):
                if self.made.get(name) == found:
                    return KeyOf(at)
        return None

    def _operation(self, node: exp.Expr, asking: SelectItem | None) -> Computed:
        def inner(*parts: exp.Expr) -> tuple[Computed, ...]:
            return tuple(self.computed(each, asking=asking) for each in parts)

        if type(node) in BINARY:
            self.rows.only(node, "this", "expression", "typed", "safe")
            return self._compared(node, BINARY[type(node)], *inner(node.this, node.expression))
        if type(node) in _FUNCTIONS:
            self.rows.only(node, "this")
            return Operation(_FUNCTIONS[type(node)], inner(node.this))
        if isinstance(node, exp.Round):
            self.rows.only(node, "this", "decimals")
            digits = node.args.get("decimals")
            return Operation("round", inner(node.this, *([] if digits is None else [digits])))
        if isinstance(node, exp.Between):
            self.rows.only(node, "this", "low", "high")
            what, low, high = inner(node.this, node.args["low"], node.args["high"])
            return Operation("and", (self._compared(node, ">=", what, low), self._compared(node, "<=", what, high)))
        if isinstance(node, exp.In):
            self.rows.only(node, "this", "expressions")
            what, *values = inner(node.this, *node.expressions)
            return Operation("or", tuple(self._compared(node, "==", what, each) for each in values))
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            return Operation("missing", inner(node.this))
        if isinstance(node, exp.Cast) and node.to.this is exp.DType.DOUBLE:
            return inner(node.this)[0]
        rule = "is not in the subset; published numbers may be added, multiplied, divided, rounded and compared"
        raise refused(self.text, node, INSTEAD.get(type(node), rule))

    def _compared(self, node: exp.Expr, sign: str, one: Computed, other: Computed) -> Operation:
        """An operation of two values; a text has no order, and is not equal to a number in any row."""
        sides = ((one, other), (other, one))
        if sign in _ORDERED and (
            any(_plain_text(each) for each, _ in sides) or (isinstance(one, KeyOf) and isinstance(other, KeyOf))
        ):
            rule = "texts have no order here; write a number without quotation marks, or DATE '2025-01-31'"
            raise refused(self.text, node, rule)
        if sign in ("==", "!=") and any(_plain_text(each) and self._numeric(than) for each, than in sides):
            raise refused(self.text, node, "compares a number with a text; write a number without quotation marks")
        return Operation(sign, (one, other))

    def _numeric(self, value: Computed) -> bool:
        """Whether a value is never a text but that of a date."""
        if isinstance(value, Number):
            return self.questions[value.question].fields["kind"] != "mode"
        return isinstance(value, Operation) or (isinstance(value, Fixed) and not isinstance(value.value, str))

    def _number(self, node: exp.Expr, question: Question, asking: SelectItem | None) -> int:
        """The place of a question; a new one is asked for a column of SELECT alone."""
        for at, each in enumerate(self.questions):
            if (each.fields, each.where) == (question.fields, question.where):
                return at
        if asking is None:
            raise refused(self.text, node, "is not in SELECT; HAVING and ORDER BY use numbers that are published there")
        whole = bare(asking.node) == node
        name = free((asking.name if whole else fragment(node))[:_LONGEST], {each.name for each in self.questions})
        self.questions.append(replace(question, name=name, node=node))
        return len(self.questions) - 1


_LONGEST = 190


def free(name: str, taken: set[str]) -> str:
    """A name that is not taken, made of this one; it is taken then."""
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name} {number}"
    taken.add(found)
    return found


_ORDERED = ("<", "<=", ">", ">=")


def _plain_text(value: Computed) -> bool:
    """Whether a value is a constant text, and not a day."""
    return isinstance(value, Fixed) and isinstance(value.value, str) and iso_day(value.value) is None


_WITHIN = (exp.AggFunc, exp.Filter, exp.WithinGroup)


def aggregated(node: exp.Expr, names: frozenset[str] = frozenset()) -> bool:
    """Whether an aggregate, or a column of SELECT, is in an expression."""
    return any(
        isinstance(each, _WITHIN) or (isinstance(each, exp.Column) and each.name in names) for each in node.walk()
    )
