"""A first answer within a blink: shares, an upper bound of the risk, and half-widths scaled from known ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rangebound.release.noise.allocation import Allocation, BudgetShare
from rangebound.release.output.forecast import part_of
from rangebound.release.plan.model import Plan
from rangebound.release.prepare import allocations
from rangebound.web.explorer.risk_numbers import bare_risk


@dataclass(frozen=True, kw_only=True)
class KnownWidths:
    """What a certified answer says: its account, and the share and half-width of each question by its name.

    `choice` says that the plan has a delta, so that there was another account to choose.
    """

    gaussian: bool
    choice: bool
    widths: Mapping[str, tuple[BudgetShare, float | None]]


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
    before, width = (None, None) if known is None else known.widths.get(name, (None, None))
    if before is None or width is None:
        return None
    old, new = (before.mu, share.mu) if before.mu or share.mu else (before.epsilon, share.epsilon)
    return width * old / new if old and new else None
