"""A plan in words, with the expected error of every number and the cost: all that can be said without the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rangebound import arguments
from rangebound.errors import plain
from rangebound.release.output.consistency import obstacles
from rangebound.release.output.scope import scope
from rangebound.release.plan.condition import Condition
from rangebound.release.plan.fields import date
from rangebound.release.plan.model import Plan, check_plan
from rangebound.release.plan.question import UNDATED, Count, CountUnits, Histogram, Sum
from rangebound.release.prepare import Prepared, prepare, published_in, rehearse

_MANY = 4  # spans that a line has room for


def explain(plan: Plan) -> str:
    """The plan in words; touches no data.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> print(explain(plan).splitlines()[0])
    Protects every single row: one comes or goes.
    """
    check_plan(plan)
    ready = prepare(plan)
    rehearse(ready)
    unit = plan.unit
    who = f"every owner of rows, by column {unit.column!r}" if unit.column else "every single row"
    change = f"one of {unit.size} is replaced" if unit.replaced else "one comes or goes"
    lines = [f"Protects {who}: {change}."]
    if unit.column:
        groups, rows = arguments.counted(unit.groups, "group"), arguments.counted(unit.rows, "row")
        lines.append(f"Of each, at most {groups} and {rows} in each of them count.")
    account = f", from account {plan.budget.account!r}" if plan.budget.account else ""
    lines.append(f"Spends {plan.budget} in all{account}.")
    if plan.report_clipping:
        part = f"{100 * plan.clipping_share:g} % of epsilon"
        lines.append(f"Of this, {part} goes into how much is cut: rows dropped and values clipped.")
    for by, share in ready.allocation.selections.items():
        lines.append(
            f"The keys of {', '.join(by)} are selected by their number of owners, epsilon {_up(share.epsilon)}, "
            f"delta {_up(share.delta)} for each."
        )
    for index in range(len(plan.query)):
        lines += ["", *describe(ready, index)]
    for each in obstacles(plan):
        lines += ["", f"Note: {each}."]
    return "\n".join(map(plain, lines))


def describe(ready: Prepared, index: int) -> list[str]:
    """One question in words: what is asked, where the answer lies, how it is made, and how far off it may be."""
    plan, question, share = ready.plan, _question(ready, index), ready.allocation.questions[index]
    what = f"{question.name}: {question.kind}"
    if hasattr(question, "column"):
        what += f" of {question.column!r}, which lies in {_span(question.range)}"
    if question.where:
        what += ", where " + " and ".join(map(_condition, question.where))
    if hasattr(question, "of"):
        what += ", of those with " + " and ".join(map(_condition, question.of))
    if question.by:
        what += f", by {', '.join(question.by)}"
    dated = getattr(question, "dated", False) and question.kind not in UNDATED
    spans = _spans(published_in(plan, index).spans, dated=dated)
    said = scope(plan, index)
    return [
        what + ".",
        *([f"  of: {said}"] if said else []),
        f"  published in {spans}, epsilon {_up(share.epsilon)}{f', delta {_up(share.delta)}' if share.delta else ''}"
        f" for each number, by {ready.publishers[index].words()}",
        f"  expected error: {expected_error(ready, index)}",
    ]


def expected_error(ready: Prepared, index: int) -> str:
    """How far a number may be from the exact aggregate, as far as public facts say."""
    question, publisher = _question(ready, index), ready.publishers[index]
    if isinstance(question, Count | CountUnits | Sum | Histogram):
        return publisher.expected_error()
    width = question.bounds.width if hasattr(question, "bounds") else 1.0
    scale = width**2 if question.kind == "variance" else width
    return publisher.expected_error(
        scale, "about {} divided by the number of rows that count (root mean square, many rows)"
    )


def _question(ready: Prepared, index: int) -> Any:
    return ready.plan.query[index]


def _spans(spans: Sequence[tuple[float, float]], *, dated: bool) -> str:
    """Where a number may lie, in words; many spans by their ends alone."""
    shown = [tuple(date(each).isoformat() if dated else f"{each:g}" for each in span) for span in spans]
    if len(shown) > _MANY:
        return f"{len(shown)} spans from {shown[0][0]} to {shown[-1][1]}"
    return " or ".join(f"[{lower}, {upper}]" for lower, upper in shown)


def _up(value: float) -> str:
    return arguments.upwards(value, 4)


def _span(pair: tuple[Any, Any]) -> str:
    return f"[{', '.join(f'{each:g}' if isinstance(each, float) else str(each) for each in pair)}]"


def _condition(condition: Condition) -> str:
    values = ", ".join(f"{each:g}" if isinstance(each, float) else repr(each) for each in condition.values)
    return f"{condition.column!r} {condition.comparison.value} {values}".rstrip()
