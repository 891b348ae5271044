"""Approval of a release before its data are opened: the request of a plan, filed with the dry run of the plan."""

from __future__ import annotations

import json

from rangebound.errors import BudgetExceeded
from rangebound.ledger.book import Ledger
from rangebound.ledger.replay import RequestStatus
from rangebound.ledger.requests import approval_needed
from rangebound.release.output.explain import dry_run
from rangebound.release.output.ledger_entry import agreed_charges, charge_text, check_rule, check_unit, without_delta
from rangebound.release.output.size import check_size
from rangebound.release.plan.model import Plan
from rangebound.release.prepare import prepare, rehearse


def needs_approval(ledger: Ledger | None, account: object) -> bool:
    """Whether nothing may be charged to an account, or read for it, before a person has approved it."""
    known = [] if ledger is None else ledger.accounts()
    return any(each.name == account and each.approval is not None for each in known)


def is_approved(ledger: Ledger, request: str | None) -> bool:
    """Whether a request was filed and approved."""
    return any(each.request == request and each.status is RequestStatus.APPROVED for each in ledger.requests())


def demand_plan_approval(plan: Plan, *, ledger: Ledger, request: str, who: str | None = None) -> None:
    """File the request of a plan whose account needs approval, and raise `ApprovalNeeded` until it is approved.

    The request is kept with the plan and its dry run, as JSON; accounts that need no approval pass. Touches no data:
    the plan is checked by itself, and whether it fits the columns of its table is checked once it is approved.

    Guarantee: returns only if exactly this plan, at exactly this cost, may be charged under this id.
    Raises: `ApprovalNeeded` as long as it waits, `RequestRejected`, `RequestConflict` for an id of something else,
    `BudgetExceeded`, and `PlanError` for a plan that could not be released anyway.
    """
    account = plan.budget.account
    if account is None or not needs_approval(ledger, account):
        return
    ready = prepare(plan)
    rehearse(ready)
    check_size(ready)
    paying = ledger.account(account)
    check_rule(ready, paying)
    shown = json.dumps({"plan": plan.to_toml(), **dry_run(plan, account=paying)}, indent=1, ensure_ascii=False)
    try:
        filed = ledger.file_request(
            account=account,
            request=request,
            cost=agreed_charges(ready, ledger, account, request),
            what=charge_text(plan),
            dry_run=shown.encode(),
            who=who,
            check=lambda history: check_unit(plan, history),
        )
    except BudgetExceeded as reason:
        raise without_delta(reason, ledger.account(account)) from None
    if filed.status is not RequestStatus.APPROVED:
        raise approval_needed(account, request, filed=True)
