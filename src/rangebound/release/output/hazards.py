"""Warnings about a plan that is valid and may still protect less than its reader thinks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal

from rangebound.errors import plain
from rangebound.ledger.record import Account
from rangebound.release.plan.fields import Ends, bounds
from rangebound.release.plan.model import Plan, as_plan
from rangebound.values import arguments

LARGE_EPSILON = 10.0
"""Above it, a guarantee on its own says little: an attacker may be e^10 times as sure as before."""
_MANY_DIGITS = 4  # significant digits of an end that a person would hardly choose
_YEARS = range(1800, 2201)


def hazards(plan: Plan | Mapping[str, object], *, account: Account | None = None) -> tuple[str, ...]:
    """What a careful reader would object to in a plan, one sentence each; touches no data.

    The unit is a single row; epsilon is above 10; delta is above 1 over the number of units, where that is public; an
    end of a range has so many digits that it may come from the data; the budget of `account`, where it is at hand,
    begins anew with each period.

    Assumes: nothing. A plan without warnings may still state as public what is not.
    Edge cases: dates, years, ends of nines (99.99) and powers of two less one (65535) count as chosen by people; a
    range that follows from an expression is not looked at.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('''unit = {column = "person"}
    ... budget = {epsilon = 12.0}
    ... query = [{name = "age", kind = "mean", column = "age", range = [17.38, 93]}]''')
    >>> print(*hazards(plan), sep="\\n")
    epsilon 12 is above 10: at such a value the guarantee on its own protects hardly anybody
    the range of 'age', [17.38, 93], looks taken from the data; state what is public knowledge, in round numbers
    """
    return tuple(plain(each) for each in _found(as_plan(plan), account))


def _found(plan: Plan, account: Account | None) -> Iterator[str]:
    epsilon, delta, unit = plan.budget.epsilon, plan.budget.delta, plan.unit
    if unit.column is None:
        yield (
            "the unit is a single row: who has several rows is protected less with each of them; "
            "name the column of their owners in [unit] unless everybody has one row"
        )
    if epsilon > LARGE_EPSILON:
        yield (
            f"epsilon {arguments.upwards(epsilon)} is above {LARGE_EPSILON:g}: "
            "at such a value the guarantee on its own protects hardly anybody"
        )
    if unit.size is not None and delta * unit.size > 1.0:
        whose = "row" if unit.column is None else "unit"
        yield (
            f"delta {arguments.upwards(delta)} is above 1 / {unit.size}, one over the number of {whose}s: a mechanism "
            f"that publishes the data of one {whose} at random would meet it; take a delta far below"
        )
    for column, ends in stated_ranges(plan).items():
        if any(isinstance(end, float) and is_odd(end) for end in ends):
            yield (
                f"the range of {column!r}, {bounds(ends)}, looks taken from the data; "
                "state what is public knowledge, in round numbers"
            )
    if account is not None and account.period is not None:
        name = account.period.value
        yield (
            f"the budget of account {account.name!r} begins anew with each {name}: what it leaks about a person adds "
            f"up from {name} to {name}, and nothing bounds the sum"
        )


def stated_ranges(plan: Plan) -> dict[str, Ends]:
    """The public ranges that a plan states, by column: not those that follow from expressions.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('''columns = {age = {range = [0, 120]}, half = "age / 2"}
    ... budget = {epsilon = 1.0}
    ... query = [{name = "half", kind = "mean", column = "half"}]''')
    >>> stated_ranges(plan)
    {'age': (0.0, 120.0)}
    """
    found: dict[str, Ends] = {}
    for declared in (plan.made_columns, plan.per_unit or {}):
        found |= {name: each.range for name, each in declared.items() if each.range is not None}
    for question in plan.query:
        for one in () if question.made else (question, *question.reads_also.values()):
            column, ends = getattr(one, "column", None), getattr(one, "range", None)
            if isinstance(column, str) and ends is not None and plan.column_ranges.get(column) != ends:
                found.setdefault(column, ends)
    return found


def is_odd(end: float) -> bool:
    """Whether an end of a range has so many digits that a person would hardly have chosen it.

    >>> [is_odd(each) for each in (0.0, 120.0, 86400.0, 99.99, 2025.0, 65535.0, 17.38, 4127.0)]
    [False, False, False, False, False, False, True, True]
    """
    whole = int(end) if float(end).is_integer() else None
    if whole is not None and (whole in _YEARS or (whole > 0 and (whole + 1) & whole == 0)):
        return False
    digits = "".join(map(str, Decimal(repr(abs(end))).normalize().as_tuple().digits))
    return len(digits) >= _MANY_DIGITS and re.fullmatch("[0-9]?9+", digits) is None
