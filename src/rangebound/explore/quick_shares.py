"""A first answer within a blink: exact shares and risk, and half-widths in proportion to those that are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rangebound.arguments import upwards
from rangebound.release.noise.allocation import Allocation, BudgetShare
from rangebound.release.output.forecast import part_of
from rangebound.release.output.plan_risk import advantage_odds, plan_risk
from rangebound.release.plan.model import Plan
from rangebound.release.prepare import allocations


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
    """Shares and risk of an allocation, which are exact, and half-widths, which are not: noise is nearly proportional
    to 1 / share, so the known ones are scaled. None where nothing is known.

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
    advantage = plan_risk(plan, allocation).advantage()
    risk: dict[str, object] = {"advantage": advantage, "odds": advantage_odds(plan, advantage)}
    risk |= {"texts": {"advantage": percent_up(advantage)}}
    return {"certified": False, "queries": questions, "risk": risk}


def percent_up(part: float) -> str:
    """A part in percent, rounded up to four digits and never above 100: of a risk that may not be understated.

    >>> percent_up(0.12345678), percent_up(0.99999)
    ('12.35 %', '100 %')
    """
    return f"{upwards(min(100.0 * part * (1.0 + 2.0**-50), 100.0), 4)} %"


def _scaled(name: str, share: BudgetShare, known: KnownWidths | None) -> float | None:
    before, width = (None, None) if known is None else known.widths.get(name, (None, None))
    if before is None or width is None:
        return None
    old, new = (before.mu, share.mu) if before.mu or share.mu else (before.epsilon, share.epsilon)
    return width * old / new if old and new else None
