"""Spans, days and conditions in words, for explanations and tables."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from rangebound.release.plan.condition import Condition
from rangebound.release.plan.expressions.conjunction import hidden_text
from rangebound.release.plan.fields import date

_LONGEST = 300  # characters of an expression that a line has room for


def end(value: float, *, dated: bool) -> str:
    """A public number with all its digits, or a day.

    >>> end(12.0, dated=False), end(1.0, dated=True)
    ('12', '1970-01-02')
    """
    return date(value).isoformat() if dated else repr(value).removesuffix(".0")


def span(lower: float, upper: float, *, dated: bool) -> str:
    """Two ends, such as `0 to 12`."""
    return f"{end(lower, dated=dated)} to {end(upper, dated=dated)}"


def bounds(ends: tuple[float | datetime.date, float | datetime.date]) -> str:
    """Two ends as a plan writes them, such as `[0, 12]`."""
    return f"[{', '.join(f'{each:g}' if isinstance(each, float) else str(each) for each in ends)}]"


def first_names(names: Sequence[str]) -> str:
    """The first three of some names, and how many there are more."""
    return ", ".join(map(repr, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def conditions(some: tuple[Condition, ...]) -> str:
    """Conditions that hold together."""
    return " and ".join(_condition(each, alone=len(some) == 1) for each in some)


def _condition(condition: Condition, *, alone: bool) -> str:
    expression = hidden_text(condition.column)
    if expression is not None:
        shown = expression if len(expression) <= _LONGEST else f"{expression[:_LONGEST]}..."
        return shown if alone or " or " not in shown else f"({shown})"
    values = ", ".join(map(_constant, condition.values))
    return f"{condition.column!r} {condition.comparison.value} {values}".rstrip()


def _constant(value: bool | float | datetime.date | str) -> str:
    """A value of a condition, truth values as a plan writes them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else repr(value)
