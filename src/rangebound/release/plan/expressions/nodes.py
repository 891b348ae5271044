"""An expression of a plan as a tree, before anything is known of its columns; `str` writes it as SQL."""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from importlib.resources import files

Range = tuple[float, float]
"""The least and the largest that a number can be; a date counts days since 1970-01-01, a truth value is 0 or 1."""

EVERYTHING: Range = (-math.inf, math.inf)
"""The range of a number of which nothing is known."""
TRUTHS: Range = (0.0, 1.0)
CALENDAR: Range = (-719162.0, 2932896.0)
"""The days from 0001-01-01 to 9999-12-31, the ones that every engine can count."""


class ValueType(Enum):
    """What a value is, in words; a missing one is of any type."""

    NUMBER = "a number"
    TEXT = "a text"
    TRUTH = "true or false"
    DATE = "a date"
    COLUMN = "a column of the table as it stands"

    @property
    def everything(self) -> Range:
        """The range of a value of which only the type is known."""
        return {ValueType.TRUTH: TRUTHS, ValueType.DATE: CALENDAR}.get(self, EVERYTHING)


LONGEST = 20_000
"""Characters of an expression, and so the constants, names and calls in it, at most."""
DEEPEST = 60
"""Levels of an expression: a sum of this many terms, or this many parentheses that matter."""
TOO_DEEP = f"has more than {DEEPEST} levels; name a part in [columns] and use its name"
TOO_LONG = f"must have at most {LONGEST} characters; name a part in [columns] and use its name"

Literal = bool | float | str | datetime.date
_RESERVED = frozenset((files(__package__) / "reserved_words.txt").read_text(encoding="utf-8").split())
"""Words of SQL that are not names without quotation marks; a test tries all words that its tokenizer knows."""


def quoted(text: str, mark: str) -> str:
    """A text in quotation marks of SQL, in which the mark itself is doubled.

    >>> quoted("it's", "'"), quoted("odd name", '"')
    ("'it''s'", '"odd name"')
    """
    return f"{mark}{text.replace(mark, mark * 2)}{mark}"


@dataclass(frozen=True)
class Constant:
    """A number, a text, a truth value or a date. The constants 1 and true are different, though Python says equal."""

    value: Literal
    type: ValueType

    def __str__(self) -> str:
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        if isinstance(self.value, datetime.date):
            return f"DATE '{self.value.isoformat()}'"
        return quoted(self.value, "'") if isinstance(self.value, str) else repr(self.value).removesuffix(".0")


@dataclass(frozen=True)
class Named:
    """A column by its name."""

    name: str

    def __str__(self) -> str:
        bare = re.fullmatch(r"[^\W\d]\w*", self.name) and self.name.upper() not in _RESERVED
        return self.name if bare else quoted(self.name, '"')


@dataclass(frozen=True)
class Call:
    """A function or an operator of its arguments."""

    function: str
    arguments: tuple[Expression, ...]

    @cached_property
    def size(self) -> int:
        """How many constants, names and calls its text has; a part that stands in it twice counts twice."""
        return 1 + sum(each.size if isinstance(each, Call) else 1 for each in self.arguments)

    def __str__(self) -> str:
        return _written(self)


Expression = Constant | Named | Call
"""A tree of an expression, as it was written."""


def constant(value: Literal | int) -> Constant:
    """A constant of the type that its value has.

    >>> str(constant(18)), str(constant(True)), str(constant(datetime.date(2025, 1, 31)))
    ('18', 'true', "DATE '2025-01-31'")
    """
    found = type_of(value)
    return Constant(float(value) if isinstance(value, int) and found is ValueType.NUMBER else value, found)


def type_of(value: object) -> ValueType:
    """What a value of a plan is: a truth value, a text, a date or a number."""
    kinds = {bool: ValueType.TRUTH, str: ValueType.TEXT, datetime.date: ValueType.DATE}
    return next((found for kind, found in kinds.items() if isinstance(value, kind)), ValueType.NUMBER)


def call(function: str, *arguments: Expression) -> Expression:
    """A call in the form that reading its text gives: conjunctions in conjunctions are one, a sign goes to its number.

    A conjunction of one condition is that condition. A `ValueError` says what is wrong with a date, with the list
    behind `in`, or with a call that is too long to be written: parts that it shares may be too many to be walked.

    >>> str(call("and", Named("a"), call("and", Named("b"), Named("c"))))
    'a AND b AND c'
    """
    fixed = len(arguments) > 1 and all(isinstance(each, Constant) for each in arguments[1:])
    if function in ("in", "not in") and not fixed:
        raise ValueError("IN takes a list of constants, at least one, such as x IN ('a', 'b')")
    if function == "date" and len(arguments) == 1 and isinstance(arguments[0], Constant):
        given = arguments[0].value
        day = iso_day(given) if isinstance(given, str) else given
        if not isinstance(day, datetime.date):
            raise ValueError("a date is written DATE '2025-01-31', between the years 1 and 9999")
        return constant(day)
    if function in ("and", "or"):
        inner = (
            each.arguments if isinstance(each, Call) and each.function == function else (each,) for each in arguments
        )
        parts = tuple(one for some in inner for one in some)
        return _short(Call(function, parts)) if len(parts) > 1 else parts[0]
    if function == "-x":
        (number,) = arguments
        if isinstance(number, Constant) and isinstance(number.value, float):
            return constant(-number.value if number.value else 0.0)
    return _short(Call(function, arguments))


def _short(found: Call) -> Call:
    if found.size > LONGEST:
        raise ValueError(TOO_LONG)
    return found


def iso_day(text: str) -> datetime.date | None:
    """The day that a text spells, if it does.

    >>> iso_day("2025-01-31"), iso_day("2025-02-31"), iso_day("20250131")
    (datetime.date(2025, 1, 31), None, None)
    """
    if not re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return None
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        return None


def levels(node: Expression) -> int:
    """How many parts of an expression are within each other, as its text has them.

    >>> levels(call("+", Named("a"), constant(-1)))
    3
    """
    if isinstance(node, Call):
        return 1 + max(map(levels, node.arguments), default=0)
    return 2 if isinstance(node, Constant) and str(node).startswith("-") else 1


def checked(tree: Expression) -> Expression:
    """A tree as it is, if it is not too deep, and short enough to be written."""
    if levels(tree) > DEEPEST:
        raise ValueError(TOO_DEEP)
    if len(str(tree)) > LONGEST:
        raise ValueError(TOO_LONG)
    return tree


def columns_of(node: Expression) -> tuple[str, ...]:
    """The names of the columns that an expression uses, each once.

    >>> columns_of(call("+", Named("a"), call("*", Named("b"), Named("a"))))
    ('a', 'b')
    """
    if isinstance(node, Named):
        return (node.name,)
    inner = node.arguments if isinstance(node, Call) else ()
    return tuple(dict.fromkeys(name for each in inner for name in columns_of(each)))


COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_BINDING = {"or": 1, "and": 2, "not": 3, **dict.fromkeys((*COMPARISONS, "in", "not in", "missing"), 4)}
_BINDING |= {"+": 5, "-": 5, "*": 6, "/": 6, "-x": 7}
_ATOM = 8
SIGNS = {"==": "=", "!=": "<>"}
"""Operators that SQL writes in another way than we name them."""
NAMES = {"//": "FLOOR_DIV", "%": "FLOOR_MOD", "starts": "STARTS_WITH", "ends": "ENDS_WITH"}
NAMES |= {"min": "LEAST", "max": "GREATEST", "weekday": "ISODOW"}
"""Functions that SQL writes by another name than we have for them."""
_CASTS = {"number": "DOUBLE", "text": "VARCHAR", "date": "DATE"}


def _binding(node: Expression) -> int:
    if isinstance(node, Constant):
        return _BINDING["-x"] if isinstance(node.value, float) and node.value < 0.0 else _ATOM
    if isinstance(node, Call) and node.function == "not" and _is(node.arguments[0], "missing"):
        return _BINDING["missing"]
    return _BINDING.get(node.function, _ATOM) if isinstance(node, Call) else _ATOM


def _is(node: Expression, function: str) -> bool:
    return isinstance(node, Call) and node.function == function


def _written(node: Call) -> str:
    name, arguments, own = node.function, node.arguments, _binding(node)
    first = arguments[0]
    if name == "case":
        pairs = zip(arguments[::2], arguments[1::2], strict=False)
        otherwise = f" ELSE {arguments[-1]}" if len(arguments) % 2 else ""
        return f"CASE {' '.join(f'WHEN {test} THEN {value}' for test, value in pairs)}{otherwise} END"
    if name in _CASTS:
        return f"CAST({first} AS {_CASTS[name]})"
    if name == "missing":
        return f"{_within(first, own + 1)} IS NULL"
    if name in ("in", "not in"):
        return f"{_within(first, own + 1)} {name.upper()} ({', '.join(map(str, arguments[1:]))})"
    if name in ("and", "or"):
        return f" {name.upper()} ".join(_within(each, own + 1) for each in arguments)
    if name == "not" and isinstance(first, Call) and first.function == "missing":
        return f"{_within(first.arguments[0], own + 1)} IS NOT NULL"
    if name == "not":  # without parentheses, NOT x IN (...) is another way to write x NOT IN (...)
        return f"NOT {_within(first, own + 2 * _is(first, 'in'))}"
    if name == "-x":  # two signs in a row would begin a comment
        return f"-{_within(first, own + 1)}"
    if own == _ATOM:
        return f"{NAMES.get(name, name.upper())}({', '.join(map(str, arguments))})"
    left, right = arguments
    tight = name in COMPARISONS  # these do not chain
    return f"{_within(left, own + tight)} {SIGNS.get(name, name)} {_within(right, own + 1)}"


def _within(node: Expression, binding: int) -> str:
    """An argument, in parentheses where it binds less than its place asks for."""
    return str(node) if _binding(node) >= binding else f"({node})"


_OF_UNITS = {"any": "BOOL_OR", "all": "BOOL_AND", "first": "ARG_MIN", "last": "ARG_MAX"}


@dataclass(frozen=True)
class UnitCall:
    """A function of all rows of a unit, and its arguments, which are expressions over one row.

    >>> str(UnitCall("count", (Named("late"),))), str(UnitCall("last", (Named("city"), Named("day"))))
    ('COUNT(*) FILTER (WHERE late)', 'ARG_MAX(city, day)')
    """

    function: str
    arguments: tuple[Expression, ...]

    def __str__(self) -> str:
        given = ", ".join(map(str, self.arguments))
        if self.function == "count":
            return f"COUNT(*) FILTER (WHERE {given})" if given else "COUNT(*)"
        if self.function == "distinct":
            return f"COUNT(DISTINCT {given})"
        return f"{_OF_UNITS.get(self.function, self.function.upper())}({given})"
