"""What a SELECT makes of published numbers: the columns of its rows, HAVING and ORDER BY. All of it is post-processing.

Missing values are SQL's: what is made of one is missing, and a comparison with one is neither true nor false.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

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
