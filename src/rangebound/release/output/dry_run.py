"""All that can be said about a release before it is made, as plain data: a dry run, which approvers see too."""

from __future__ import annotations

from rangebound.ledger.record import Account
from rangebound.release.output.conversion import conversions
from rangebound.release.output.explain import explain
from rangebound.release.output.forecast import forecast
from rangebound.release.output.hazards import hazards
from rangebound.release.plan.model import Plan
from rangebound.release.prepare import prepare


def dry_run(plan: Plan, *, account: Account | None = None) -> dict[str, object]:
    """The plan in words, its cost in several terms, and what each question will look like; touches no data.

    `account` is that of `explain`; `warnings` are those of `hazards`.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> list(dry_run(plan))
    ['explained', 'privacy', 'queries', 'warnings']
    """
    return {
        "explained": explain(plan, account=account),
        "privacy": conversions(prepare(plan)).to_dict(),
        "queries": [each.to_dict() for each in forecast(plan)],
        "warnings": list(hazards(plan, account=account)),
    }
