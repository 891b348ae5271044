"""All that the page shows about a plan, certified: its dry run, the risk of all numbers, the law of one question."""

from __future__ import annotations

from collections.abc import Sequence

from rangebound.errors import ArgumentError
from rangebound.ledger.record import Account
from rangebound.release.output.dry_run import dry_run
from rangebound.release.output.expected_width import expected_widths
from rangebound.release.output.forecast import COLUMNS, forecast, outlook_cells
from rangebound.release.output.plan_limits import plan_limits
from rangebound.release.output.plan_risk import plan_risk
from rangebound.release.plan.model import Plan
from rangebound.release.plan.table_schema import TO_FILL_IN
from rangebound.release.prepare import Prepared, prepare
from rangebound.web.explorer.cell_laws import cell_laws
from rangebound.web.explorer.quick_shares import KnownWidths
from rangebound.web.explorer.risk_numbers import risk_numbers


def plan_view(
    plan: Plan,
    *,
    question: str | None = None,
    answers: Sequence[float] | None = None,
    account: Account | None = None,
    rows: float | None = None,
) -> tuple[dict[str, object], KnownWidths]:
    """What the page shows, as plain data, and what a quick answer may be scaled from; touches no data.

    `explained`, `privacy` and `queries` are those of `--dry-run`. `law` is that of one `question`, by default the first
    that has one, at three true `answers`. `cells` are the texts that `--dry-run` prints. `expected` are the widths in a
    table of about `rows` rows, where those are given. `ready` says that the plan names who is protected.

    Guarantee: every number is that of the function of the library that makes it; nothing is computed here.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> found, _ = plan_view(plan)
    >>> found["certified"], found["queries"][0]["half_width"], found["law"]["cells"][0]["answer"]
    (True, 3.0, 3.0)
    """
    ready = prepare(plan)
    said = dry_run(plan, account=account)
    found = {
        "certified": True,
        "budget": {"epsilon": plan.budget.epsilon, "delta": plan.budget.delta, "words": str(plan.budget)},
        "level": plan.level,
        "unit": _unit(plan),
        "ready": plan.unit.column != TO_FILL_IN,
        "keys": {name: list(plan.columns((name,))[0]) for name in plan.keys},
        "expected": None if rows is None else [each.to_dict() for each in expected_widths(plan, rows)],
        **said,
        "title": plan.title,
        "cells": [dict(zip(COLUMNS, each, strict=True)) for each in outlook_cells(forecast(plan))],
        "questions": [_facts(plan, at) for at in range(len(plan.query))],
        "risk": risk_numbers(plan, plan_risk(plan, ready.allocation)),
        "law": _law(ready, question, answers),
    }
    widths = {
        each.name: (
            ready.allocation.questions[at],
            ready.forms[at].half_width(ready.publishers[at]),
        )
        for at, each in enumerate(plan.query)
    }
    return found, KnownWidths(gaussian=bool(ready.allocation.mu), choice=plan.budget.delta > 0.0, widths=widths)


def _unit(plan: Plan) -> dict[str, object]:
    """Who is protected, and the contribution bounds; `bounded` says whether the plan can have other ones."""
    bounded = plan.unit.column is not None and plan.per_unit is None
    return {"column": plan.unit.column, "rows": plan.unit.rows, "groups": plan.unit.groups, "bounded": bounded}


def _facts(plan: Plan, at: int) -> dict[str, object]:
    """What can be changed about a question: whether it takes a margin, its weight, and bounds of its own."""
    question = plan.query[at]
    bounds = [*(["rows"] if not question.no_rows else []), *(["groups"] if question.by else [])]
    return {
        "query": question.name,
        "described": question.described(),
        "made": question.made,
        "weight": question.weight,
        "no_margin": question.no_margin(plan.unit_of(question)),
        "bounds": {name: getattr(question, name) for name in bounds},
    }


def _law(ready: Prepared, question: str | None, answers: Sequence[float] | None) -> dict[str, object]:
    names = [each.name for each in ready.plan.query]
    if question is not None and question not in names:
        raise ArgumentError(f"question={question!r:.80}: is not in the plan")
    limits = plan_limits(ready)
    if question is not None:
        index = names.index(question)
        return cell_laws(ready, index, limits[index], answers)
    tried = (cell_laws(ready, at, limits[at]) for at in range(len(names)) if not ready.plan.query[at].made)
    first = next(tried)
    return first if "reason" not in first else next((each for each in tried if "reason" not in each), first)
