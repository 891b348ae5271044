"""The facts about a plan and about its published table, each gathered once: pages, records and files are made of them.

An interval is for the noise. It does not cover what contribution bounds, clipping and missing values did before the
noise, so every form of the table says that in words, and all of them take the words from `scope`. A plan that is valid
may still protect less than its reader thinks: `hazards` says so.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from rangebound.errors import PlanError, plain
from rangebound.ledger.record import Account
from rangebound.mechanisms.finite import Table
from rangebound.privacy.attack_risk import ProfileRisk
from rangebound.release.budget_split import every_allocation
from rangebound.release.noise.allocation import Allocation
from rangebound.release.noise.draw import Cell
from rangebound.release.noise.quantiles import QuantilePublisher
from rangebound.release.output.plan_risk import (
    Conversions,
    LimitedMean,
    advantage_odds,
    conversions,
    plan_limits,
    risk_of,
)
from rangebound.release.plan.expressions.former import former, former_conditions, read_former, read_former_call
from rangebound.release.plan.expressions.reading import expression_places, read, read_call
from rangebound.release.plan.fields import Ends, bounds, span
from rangebound.release.plan.model import Plan, as_plan
from rangebound.release.plan.toml import make_plan
from rangebound.release.prepare import Prepared, PreparedQuestion, prepare, prepared, stated_epsilon
from rangebound.values import arguments

Row = dict[str, Any]
"""A row of a published table, by column."""
_INTERVALS = "Intervals are for the noise alone, not for what was left out, cut or clipped before it:"
LARGE_EPSILON = 10.0
"""Above it, a guarantee on its own says little: an attacker may be e^10 times as sure as before."""
_MANY_DIGITS = 4  # significant digits of an end that a person would hardly choose
_YEARS = range(1800, 2201)


@dataclass(frozen=True, kw_only=True)
class PlanFacts:
    """What is known of a plan before its data are read."""

    ready: Prepared

    @property
    def plan(self) -> Plan:
        """The plan itself."""
        return self.ready.plan

    @property
    def questions(self) -> tuple[PreparedQuestion, ...]:
        """Its questions, in order."""
        return self.ready.questions

    @cached_property
    def scopes(self) -> tuple[str, ...]:
        """What the numbers of each question are of."""
        return scopes(self.plan)

    @cached_property
    def conversions(self) -> Conversions:
        """What it costs, in the terms of several definitions."""
        return conversions(self.ready)

    @cached_property
    def odds(self) -> str:
        """What an attacker gains from all numbers together, in one sentence."""
        return advantage_odds(self.plan.unit, risk_of(self.ready).advantage())

    @cached_property
    def limits(self) -> tuple[LimitedMean, ...]:
        """The error of each question beside the least that any private mechanism can have."""
        return plan_limits(self.ready)


def plan_facts(plan: Plan | Mapping[str, object]) -> PlanFacts:
    """The facts about a plan; touches no data."""
    return PlanFacts(ready=prepare(as_plan(plan)))


def plan_risk(plan: Plan, allocation: Allocation | None = None) -> ProfileRisk:
    """The attack risk of all numbers of a plan together: trade-off, advantage, mu, certainty, reconstruction.

    `allocation` is how the budget is split: by default as a release splits it.

    Guarantee: never understated, for an attacker who knows all rows but those of one unit. The other ends of
    `enclosed` are those of `attained`; where the plan has no number of that kind, without an output.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> round(plan_risk(plan).advantage(), 4)
    0.4622
    """
    return risk_of(prepare(plan) if allocation is None else prepared(plan, allocation))


@dataclass(frozen=True, kw_only=True)
class TableFacts:
    """What is known of a published table: its rows, and what stands beside them in every form of it.

    `facts` are those about its plan; None for a table of another version. `entry` is where its certificate says that it
    was charged, and `promise` the weaker one of an account with periods.
    """

    plan: Plan
    facts: PlanFacts | None
    rows: list[Row]
    title: str
    spent: str
    promise: str | None
    entry: Mapping[str, str] | None
    warnings: tuple[str, ...]
    scopes: tuple[str, ...]
    notes: tuple[str, ...]
    sha256: str


def stated(certificate: str, field: str) -> Any:
    """A field of a certificate as plain data; None where it has none, or is not a certificate.

    >>> stated('{"ledger": {"account": "a"}}', "ledger"), stated("[]", "ledger"), stated("", "ledger")
    ({'account': 'a'}, None, None)
    """
    try:
        return json.loads(certificate)[field]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def facts_of(plan: Plan, cells: Sequence[Cell], tables: Mapping[int, Table] | None = None) -> PlanFacts | None:
    """The facts about the plan of a published table, whose budget is split as its numbers state their shares.

    `tables` are those that the numbers of some questions were drawn from.

    Edge cases: None where no way to split the plan's budget has these shares, for a table of another version.
    """
    said, ways = {(each.question, each.epsilon, each.delta, each.mu) for each in cells}, []
    for way in every_allocation(plan):
        shares = {(at, stated_epsilon(plan.query[at], each), each.delta, each.mu) for at, each in way.questions.items()}
        if said <= shares:
            ways.append(way)
    found = drawn_by([prepared(plan, way, tables) for way in ways], cells)
    return None if found is None else PlanFacts(ready=found)


def drawn_by(plans: Sequence[Prepared], cells: Sequence[Cell]) -> Prepared | None:
    """That by which quantiles were drawn: in plain sums earlier versions drew others at the same shares.

    Of several whose mechanisms can give the draws, the one whose rank errors the numbers state; else the first.
    """
    drawn = [each for each in plans if _reads(each, cells) is not None]
    return next((each for each in drawn if _reads(each, cells)), drawn[0] if drawn else None)


def _reads(ready: Prepared, cells: Sequence[Cell]) -> bool | None:
    """Whether its quantiles have the rank errors that are stated; None where they cannot be drawn so."""
    same = True
    for at, each in enumerate(ready.publishers):
        if not isinstance(each, QuantilePublisher):
            continue
        own = [cell for cell in cells if cell.question == at]
        draws, size = [cell.draws for cell in own], len(each.levels)
        if not each.can_draw(*draws):
            return None
        read = each.read([draws[first : first + size] for first in range(0, len(draws), size)])
        errors = zip(own, (reading.rank_error for group in read for reading in group), strict=True)
        same &= all(math.isclose(cell.rank_error or 0.0, error or 0.0, rel_tol=1e-9) for cell, error in errors)
    return same


def scope(plan: Plan, index: int) -> str:
    """What the numbers of a question are of, in plain words; empty where every row counts as it is.

    Guarantee: made of the plan alone, and the same for a plan that was written and read. The interval of a number is
    for the answer to this question: the answer after the contribution bounds, the clipping and the treatment of missing
    values that are named here.
    Edge cases: rows that the question itself does not ask for (`where`, other groups) are not named.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('''unit = {column = "person", rows = 10}
    ... budget = {epsilon = 1.0}
    ... query = [{name = "minutes", kind = "sum", column = "minutes", range = [0, 500], missing = 0}]''')
    >>> print(*scope(plan, 0).split(", "), sep="\\n")
    rows per 'person' cut at 10
    values clipped to 0 to 500
    missing values counted as 0
    rows without 'person' left out
    """
    question = plan.query[index]
    said = question.scope(plan.unit_of(question), plan.groups(question.counted_by))
    said += [word for each in plan.join or () for word in each.scope]
    said += [] if plan.per_unit is None else [f"one row per {plan.unit.column!r}", *plan.unit.owner_scope]
    if plan.only_listed:
        columns = ", ".join(map(repr, sorted(plan.listed_columns)))
        said.append(f"rows with other keys than the listed ones in {columns} left out")
    ends, natural = question.allowed.hull, question.natural
    if (ends.lower, ends.upper) != (natural.lower, natural.upper):
        said.append(f"answer moved into {span(ends, dated=question.answers_dated)}")
    return plain(", ".join(said))


def scopes(plan: Plan) -> tuple[str, ...]:
    """What the numbers of each question are of."""
    return tuple(scope(plan, index) for index in range(len(plan.query)))


def scope_lines(plan: Plan) -> list[str]:
    """What stands below a table: what its intervals are for, and for each question that leaves something out, what.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('''unit = {column = "person", rows = 10}
    ... budget = {epsilon = 1.0}
    ... query = [{name = "visits", kind = "count"}]''')
    >>> print(*scope_lines(plan), sep="\\n")
    Intervals are for the noise alone, not for what was left out, cut or clipped before it:
      visits: rows per 'person' cut at 10, rows without 'person' left out
    """
    found = [f"  {plain(each.name)}: {said}" for each, said in zip(plan.query, scopes(plan), strict=True) if said]
    return [_INTERVALS, *found] if found else []


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


def plan_json(plan: Plan) -> str:
    """A plan as canonical JSON, the text that its hash is taken of; a date is written {"date": "2025-01-31"}."""
    data = plan.model_dump(by_alias=True, exclude_none=True)
    if not plan.made_columns:  # as plans were written before there were any
        data.pop("columns", None)
    for rule in data.get("keys", {}).values():
        if isinstance(rule, dict) and "fold" in rule:  # a list, since the names of a table are sorted below
            rule["fold"] = [list(each) for each in rule["fold"].items()]
    for question in data["query"]:
        for level in question.get("levels", ()):
            members = level["members"] if isinstance(level, dict) else {}  # those of a quantile are numbers
            if list(members) != sorted(members):  # sorted ones are a table, as all were before
                level["members"] = [list(each) for each in members.items()]
    for table, name, kind in expression_places(data):
        if isinstance(table[name], str):
            table[name] = _GRAMMARS[kind][0](table[name])
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    return {"date": value.isoformat()} if isinstance(value, datetime.date) else value.value


_GRAMMARS: Mapping[str, tuple[Callable[[str], str], Callable[[str], Any]]] = {
    "value": (lambda text: former(read(text)), read_former),
    "step": (lambda text: former(read_call(text)), read_former_call),
    "condition": (lambda text: former_conditions(read(text)), read_former),
}
"""How an expression is written as in version 0.2, and how that is read."""


def plan_from_json(data: Any) -> Plan:
    """The plan that `plan_json` wrote, with all keys listed; it comes from elsewhere, so no file is read for it."""
    found = _dates(data)
    for table, name, kind in expression_places(found) if isinstance(found, dict) else ():
        if isinstance(table[name], str):
            try:
                table[name] = _GRAMMARS[kind][1](table[name])
            except ValueError as reason:
                raise PlanError(f"{name}={arguments.shown(table[name])}: {reason}", field=name) from None
    return make_plan(found, folder=None)


def plan_from_object(data: Any) -> Plan:
    """The plan that somebody wrote as an object of JSON; it comes from elsewhere, so no file is read for it."""
    return make_plan(_dates(data), folder=None)


def _dates(data: Any) -> Any:
    match data:
        case {"date": str(day), **rest} if not rest:
            return datetime.date.fromisoformat(day)
        case dict():
            return {key: _dates(value) for key, value in data.items()}
        case list():
            return [_dates(each) for each in data]
    return data


def sha256(data: bytes) -> str:
    """The SHA-256 of some bytes, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
