"""A plan in words, with the expected error of every number and the cost: all that can be said without the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rangebound import arguments
from rangebound.discrete_laplace import Geometric
from rangebound.errors import plain
from rangebound.mechanism import Mechanism
from rangebound.release.noise import exponential_mechanism as exponential
from rangebound.release.noise.allocation import Allocation, allocate
from rangebound.release.noise.public_constant import Known
from rangebound.release.noise.publishers import Noise, noise_for
from rangebound.release.noise.quantile_interval import margin
from rangebound.release.noise.rehearsal import rehearse
from rangebound.release.output.consistency import obstacles
from rangebound.release.output.scope import scope
from rangebound.release.plan.condition import Condition
from rangebound.release.plan.fields import date
from rangebound.release.plan.model import Plan, check_plan
from rangebound.release.plan.question import UNDATED, Count, CountUnits, Histogram, RankQuestion, Sum

_MANY = 4  # spans that a line has room for


def explain(plan: Plan) -> str:
    """The plan in words; touches no data.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> print(explain(plan).splitlines()[0])
    Protects every single row: one comes or goes.
    """
    check_plan(plan)
    allocation = allocate(plan)
    noises = {index: noise_for(plan, index, allocation) for index in range(len(plan.query))}
    rehearse(plan, allocation, noises)
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
    for by, share in allocation.selections.items():
        lines.append(
            f"The keys of {', '.join(by)} are selected by their number of owners, epsilon {_up(share.epsilon)}, "
            f"delta {_up(share.delta)} for each."
        )
    for index, noise in noises.items():
        lines += ["", *describe(plan, index, allocation, noise)]
    for each in obstacles(plan):
        lines += ["", f"Note: {each}."]
    return "\n".join(map(plain, lines))


def describe(plan: Plan, index: int, allocation: Allocation, noise: Noise | None) -> list[str]:
    """One question in words: what is asked, where the answer lies, how it is made, and how far off it may be."""
    question: Any = plan.query[index]
    share = allocation.questions[index]
    what = f"{question.name}: {question.kind}"
    if hasattr(question, "column"):
        what += f" of {question.column!r}, which lies in {_span(question.range)}"
    if question.where:
        what += ", where " + " and ".join(map(_condition, question.where))
    if hasattr(question, "of"):
        what += ", of those with " + " and ".join(map(_condition, question.of))
    if question.by:
        what += f", by {', '.join(question.by)}"
    counted = noise is not None and isinstance(question, Count | CountUnits) and not isinstance(noise.mechanism, Known)
    support = noise.mechanism.support if noise is not None and counted else None  # it ends at a public size
    dated = getattr(question, "dated", False) and question.kind not in UNDATED
    spans = _spans((support or question.allowed).spans, dated=dated)
    said = scope(plan, index)
    return [
        what + ".",
        *([f"  of: {said}"] if said else []),
        f"  published in {spans}, epsilon {_up(share.epsilon)}{f', delta {_up(share.delta)}' if share.delta else ''}"
        f" for each number, by {mechanism_name(noise)}",
        f"  expected error: {expected_error(plan, index, allocation, noise)}",
    ]


def mechanism_name(noise: Noise | None) -> str:
    """A mechanism in a few words."""
    if noise is None:
        return "exponential mechanism"
    mechanism = noise.mechanism
    if isinstance(mechanism, Known):
        return "no mechanism, since it is public"
    if isinstance(mechanism, Geometric):
        return f"clamped geometric noise, scale {mechanism.scale:.4g}"
    return f"{mechanism.bounding.value} {type(mechanism.noise).__name__}, scale {mechanism.noise.scale:.4g}"


def expected_error(plan: Plan, index: int, allocation: Allocation, noise: Noise | None) -> str:
    """How far a number may be from the exact aggregate, as far as public facts say."""
    question: Any = plan.query[index]
    if isinstance(question, RankQuestion):
        share, cell = allocation.questions[index], allocation.sensitivities[index].cell
        rows = max(
            exponential.rank_error(question, exponential.rate(level, cell, share.drawn), plan.level)
            for level in question.asked
        )
        most = arguments.counted(f"{rows:.4g}", "row")
        return (
            f"at most {most} between it and the quantile, with probability {plan.level:g}; "
            f"{_expected_interval(plan, index, allocation)}"
        )
    assert noise is not None
    mechanism = noise.mechanism
    mse = mechanism.error(_somewhere(mechanism)).mse if isinstance(mechanism, Mechanism) else mechanism.mse
    size = math.sqrt(mse)
    if isinstance(question, Count | CountUnits | Sum | Histogram):
        return f"{size:.4g} (root mean square)"
    width = question.bounds.width if hasattr(question, "bounds") else 1.0
    scale = width**2 if question.kind == "variance" else width
    return f"about {size * scale:.4g} divided by the number of rows that count (root mean square, many rows)"


def _expected_interval(plan: Plan, index: int, allocation: Allocation) -> str:
    """How wide the interval of a quantile is, as far as public facts say: in rows."""
    question: Any = plan.query[index]
    share, cell = allocation.questions[index], allocation.sensitivities[index].cell
    if not share.end:
        return "its interval is the whole support"
    places = len(exponential.candidates(question))
    aims = [margin(places, exponential.rate(level, cell, share.end), plan.level) for level in question.asked]
    aim = arguments.counted(f"{float(max(aims)):.4g}", "row")
    return (
        f"its interval, for epsilon {_up(share.end)} an end, aims at {aim} to either side "
        "and ends where the support does if there are fewer"
    )


def _somewhere(mechanism: Mechanism) -> float:
    """A true answer far from the ends of the support, where it has any."""
    hull, far = mechanism.query.range.hull, 100.0 * mechanism.noise.scale
    if math.isinf(hull.upper):
        return 0.0 if math.isinf(hull.lower) else hull.lower + far
    return hull.upper - far if math.isinf(hull.lower) else hull.lower + (hull.upper - hull.lower) / 2


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
