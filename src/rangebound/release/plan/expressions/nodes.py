"""An expression of a plan as a tree, before anything is known of its columns; `str` writes it as a plan does."""

from __future__ import annotations

import datetime
import json
import keyword
import math
import re
import unicodedata
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

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


LONGEST = 10_000
"""Characters of an expression, and so the constants, names and calls in it, at most."""
TOO_LONG = f"must have at most {LONGEST} characters; name a part in [columns] and use its name"

Literal = bool | float | str | datetime.date
WORDS = {"true": True, "false": False, "True": True, "False": False}
"""The truth values; columns of these names are written column("true")."""


@dataclass(frozen=True)
class Constant:
    """A number, a text, a truth value or a date. The constants 1 and true are different, though Python says equal."""

    value: Literal
    type: ValueType

    def __str__(self) -> str:
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        if isinstance(self.value, datetime.date):
            return f'date("{self.value.isoformat()}")'
        return (
            json.dumps(self.value, ensure_ascii=False)
            if isinstance(self.value, str)
            else repr(self.value).removesuffix(".0")
        )


@dataclass(frozen=True)
class Named:
    """A column by its name."""

    name: str

    def __str__(self) -> str:
        plain = re.fullmatch(r"[^\W\d]\w*", self.name) and unicodedata.normalize("NFKC", self.name) == self.name
        bare = plain and not keyword.iskeyword(self.name) and self.name not in WORDS
        return self.name if bare else f"column({json.dumps(self.name, ensure_ascii=False)})"


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
    ('18', 'true', 'date("2025-01-31")')
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
    'a and b and c'
    """
    fixed = len(arguments) > 1 and all(isinstance(each, Constant) for each in arguments[1:])
    if function in ("in", "not in") and not fixed:
        raise ValueError("the list behind `in` must hold constants, and at least one")
    if function == "date" and len(arguments) == 1 and isinstance(arguments[0], Constant):
        given = arguments[0].value
        day = iso_day(given) if isinstance(given, str) else given
        if not isinstance(day, datetime.date):
            raise ValueError('a date is written date("2025-01-31"), between the years 1 and 9999')
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
    signed = isinstance(node, Constant) and str(node).startswith(("-", "date("))
    return 2 if signed else 1


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
_BINDING = {"or": 1, "and": 2, "not": 3, **dict.fromkeys((*COMPARISONS, "in", "not in"), 4)}
_BINDING |= {"+": 5, "-": 5, "*": 6, "/": 6, "//": 6, "%": 6, "-x": 7}
_ATOM = 8


def _binding(node: Expression) -> int:
    if isinstance(node, Constant):
        return _BINDING["-x"] if isinstance(node.value, float) and node.value < 0.0 else _ATOM
    return _BINDING.get(node.function, _ATOM) if isinstance(node, Call) else _ATOM


def _written(node: Call) -> str:
    name, arguments, own = node.function, node.arguments, _binding(node)
    if own == _ATOM:
        return f"{name}({', '.join(map(str, arguments))})"
    if name in ("in", "not in"):
        return f"{_within(arguments[0], own + 1)} {name} [{', '.join(map(str, arguments[1:]))}]"
    if name in ("and", "or"):
        return f" {name} ".join(_within(each, own + 1) for each in arguments)
    if name in ("not", "-x"):
        return ("not " if name == "not" else "-") + _within(arguments[0], own)
    left, right = arguments
    tight = name in COMPARISONS  # these do not chain
    return f"{_within(left, own + tight)} {name} {_within(right, own + 1)}"


def _within(node: Expression, binding: int) -> str:
    """An argument, in parentheses where it binds less than its place asks for."""
    return str(node) if _binding(node) >= binding else f"({node})"
