"""All that the page shows about a plan: certified numbers, and quick ones within a blink that are scaled from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rangebound.errors import ArgumentError
from rangebound.ledger.record import Account
from rangebound.privacy.risk import ProfileRisk, guaranteed
from rangebound.release.budget_split import allocations
from rangebound.release.noise.allocation import Allocation, BudgetShare
from rangebound.release.output.explain import dry_run
from rangebound.release.output.forecast import COLUMNS, expected_widths, forecast, outlook_cells, part_of
from rangebound.release.output.plan_limits import plan_limits
from rangebound.release.output.plan_risk import advantage_odds, plan_risk
from rangebound.release.plan.model import Plan
from rangebound.release.plan.table_schema import TO_FILL_IN
from rangebound.release.prepare import Prepared, prepare
from rangebound.values.arguments import upwards
from rangebound.web.explorer.cell_laws import cell_laws

_RATES = (0.001, 0.005, 0.01, *(at / 50 for at in range(1, 50)))  # fine, since lines between them are above the curve
_BASELINES = (0.01, 0.1)


@dataclass(frozen=True, kw_only=True)
class KnownWidths:
    """What a certified answer says: its account, and for each question its share, as mu and as epsilon, and half-width.

    `choice` says that the plan has a delta, so that there was another account to choose.
    """

    gaussian: bool
    choice: bool
    widths: Mapping[str, tuple[float, float, float | None]]


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
    widths = {each.question.name: (each.share.mu, each.share.epsilon, each.half_width) for each in ready.questions}
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


def quick_way(plan: Plan, gaussian: bool | None = None) -> Allocation:
    """The way to split the budget that is likely the best one: in the account that was best before, where that is
    known, else the last one, a Gaussian account where there is a delta.

    All ways are private; which one has the least error is what takes long to find.
    """
    ways = allocations(plan)
    alike = [each for each in ways if gaussian is not None and bool(each.mu) == gaussian]
    return (alike or ways)[-1]


def quick_view(plan: Plan, allocation: Allocation, known: KnownWidths | None) -> dict[str, object]:
    """Shares of an allocation, the risk that epsilon and delta allow, and half-widths from those that are known: noise
    is nearly proportional to 1 / share. None where nothing is known.

    Guarantee: no risk is below the certified one, which may be of another allocation. Shares and half-widths are
    estimates.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> found = quick_view(plan, quick_way(plan), None)
    >>> found["certified"], found["queries"]
    (False, [{'query': 'visits', 'share': 1.0, 'half_width': None}])
    """
    questions = [
        {
            "query": each.name,
            "share": part_of(plan, allocation, allocation.questions[at]),
            "half_width": _scaled(each.name, allocation.questions[at], known),
        }
        for at, each in enumerate(plan.query)
    ]
    budget = {"epsilon": plan.budget.epsilon, "delta": plan.budget.delta}
    return {"certified": False, "budget": budget, "queries": questions, "risk": bare_risk(plan)}


def _scaled(name: str, share: BudgetShare, known: KnownWidths | None) -> float | None:
    mu, epsilon, width = (0.0, 0.0, None) if known is None else known.widths.get(name, (0.0, 0.0, None))
    old, new = (mu, share.mu) if mu or share.mu else (epsilon, share.epsilon)
    return width * old / new if width is not None and old and new else None


def risk_numbers(plan: Plan, risk: ProfileRisk) -> dict[str, object]:
    """The attack risk of a plan; None where there is no such number. The texts are rounded up.

    Guarantee: no risk is understated where `risk` is not.
    """
    mu, advantage = risk.gdp(), risk.advantage()
    rates = {"advantage": advantage, "success": risk.success(0.5), "posterior": risk.posterior(0.5)}
    reconstruction = [[each, risk.reconstruction(each)] for each in _BASELINES]
    shares = rates | {f"reconstruction-{at}": after for at, (_, after) in enumerate(reconstruction)}
    texts = {name: percent_up(value) for name, value in shares.items()}
    return {
        **rates,
        "odds": advantage_odds(plan, advantage),
        "mu": mu if math.isfinite(mu) else None,
        "reconstruction": reconstruction,
        "tradeoff": [[each, risk.tradeoff(each)] for each in (0.0, *_RATES, 1.0)],
        "texts": texts | {"mu": upwards(mu, 4) if math.isfinite(mu) else "none"},
    }


def bare_risk(plan: Plan) -> dict[str, object]:
    """The same from the epsilon and the delta of a plan alone, for the time until its mechanisms are known.

    Guarantee: never below the risk of the plan, whatever its mechanisms and however its budget is split;
    a point of the trade-off curve up to the tolerance of the curve.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> bare_risk(plan)["texts"]["advantage"]
    '46.22 %'
    """
    return risk_numbers(plan, guaranteed(plan.budget.epsilon, plan.budget.delta))


def percent_up(part: float) -> str:
    """A part in percent, rounded up to four digits and never above 100: of a risk that may not be understated.

    >>> percent_up(0.12345678), percent_up(0.99999)
    ('12.35 %', '100 %')
    """
    return f"{upwards(min(100.0 * part * (1.0 + 2.0**-50), 100.0), 4)} %"
