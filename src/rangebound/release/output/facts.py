"""The facts about a plan and about its published table, each gathered once: pages, records and files are made of them.

An interval is for the noise. It does not cover what contribution bounds, clipping and missing values did before the
noise, so every form of the table says that in words, and all of them take the words from `scope`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from rangebound.errors import plain
from rangebound.mechanisms.finite import Table
from rangebound.release.noise.allocation import BudgetShare
from rangebound.release.noise.draw import Cell
from rangebound.release.noise.form import Publisher
from rangebound.release.noise.forms import Form, form_of
from rangebound.release.output.hazards import hazards
from rangebound.release.output.plan_limits import LimitedMean, plan_limits
from rangebound.release.output.plan_risk import Conversions, conversions, plan_odds
from rangebound.release.plan.fields import span
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.model import Plan, as_plan
from rangebound.release.plan.unit import Unit
from rangebound.release.prepare import Prepared, allocations, prepare, prepared, stated_epsilon

Row = dict[str, Any]
"""A row of a published table, by column."""
_INTERVALS = "Intervals are for the noise alone, not for what was left out, cut or clipped before it:"


@dataclass(frozen=True, kw_only=True)
class QuestionFacts:
    """One question of a plan that was made ready: its share, how it is made, and what its numbers are of.

    `workload` is the number of the workload in which it is measured, from 1; None where it is measured by itself.
    """

    question: Kind
    unit: Unit
    share: BudgetShare
    publisher: Publisher
    scope: str
    workload: int | None

    @cached_property
    def form(self) -> Form:
        """What is made of its draws."""
        return form_of(self.question, self.unit)

    @cached_property
    def error(self) -> str:
        """How far a number may be off, in words."""
        return self.form.expected_error(self.publisher)

    @cached_property
    def half_width(self) -> float | None:
        """Half the width of its intervals; None where the data decide."""
        return self.form.half_width(self.publisher)


@dataclass(frozen=True, kw_only=True)
class PlanFacts:
    """What is known of a plan before its data are read."""

    ready: Prepared

    @property
    def plan(self) -> Plan:
        """The plan itself."""
        return self.ready.plan

    @cached_property
    def questions(self) -> tuple[QuestionFacts, ...]:
        """Its questions, in order."""
        ready = self.ready
        return tuple(
            QuestionFacts(
                question=each,
                unit=self.plan.unit_of(each),
                share=ready.allocation.questions[at],
                publisher=ready.publishers[at],
                scope=scope(self.plan, at),
                workload=ready.workload_number(at),
            )
            for at, each in enumerate(self.plan.query)
        )

    @cached_property
    def conversions(self) -> Conversions:
        """What it costs, in the terms of several definitions."""
        return conversions(self.ready)

    @cached_property
    def odds(self) -> str:
        """What an attacker gains from all numbers together, in one sentence."""
        return plan_odds(self.plan, self.ready.allocation)

    @cached_property
    def limits(self) -> tuple[LimitedMean, ...]:
        """The error of each question beside the least that any private mechanism can have."""
        return plan_limits(self.ready)


def plan_facts(plan: Plan | Mapping[str, object]) -> PlanFacts:
    """The facts about a plan; touches no data."""
    return PlanFacts(ready=prepare(as_plan(plan)))


class Published(Protocol):
    """A table that was published: its plan, its numbers, and the bytes that the ledger keeps."""

    @property
    def plan(self) -> Plan:
        """The plan that it follows."""

    @property
    def facts(self) -> PlanFacts | None:
        """The facts about its plan; None for a table of another version."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be made consistent, and why."""

    @property
    def certificate(self) -> str:
        """Its certificate as JSON, or nothing."""

    def rows(self) -> list[Row]:
        """The table, one mapping per row."""

    def to_bytes(self) -> bytes:
        """The release as canonical JSON."""

    def to_csv(self) -> str:
        """The table as CSV."""


@dataclass(frozen=True, kw_only=True)
class TableFacts:
    """What stands beside the numbers of a published table, in every form of it.

    `entry` is where its certificate says that it was charged, and `promise` the weaker one of an account with periods.
    """

    title: str
    spent: str
    promise: str | None
    entry: Mapping[str, str] | None
    warnings: tuple[str, ...]
    scopes: tuple[str, ...]
    notes: tuple[str, ...]
    sha256: str


def table_facts(release: Published) -> TableFacts:
    """The facts about a published table, made of it and its plan alone."""
    plan, entry = release.plan, stated(release.certificate, "ledger")
    promise = entry.get("promise") if isinstance(entry, dict) else None
    whole = isinstance(entry, dict) and all(isinstance(each, str) for each in entry.values())
    return TableFacts(
        title=plan.title or "Private release",
        spent=f"Spent: {plan.budget}.",
        promise=promise if isinstance(promise, str) else None,
        entry=entry if whole and {"account", "request", "head"} <= entry.keys() else None,
        warnings=tuple(f"Warning: {each}." for each in hazards(plan)),
        scopes=tuple(scope_lines(plan)),
        notes=release.notes,
        sha256=hashlib.sha256(release.to_bytes()).hexdigest(),
    )


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
    said = {(each.question, each.epsilon, each.delta, each.mu) for each in cells}
    for way in allocations(plan):
        shares = {(at, stated_epsilon(plan.query[at], each), each.delta, each.mu) for at, each in way.questions.items()}
        if said <= shares:
            return PlanFacts(ready=prepared(plan, way, tables))
    return None


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
