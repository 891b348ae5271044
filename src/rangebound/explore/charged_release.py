"""The account that pays for a plan, and the release that is charged to it, once a person has confirmed the cost."""

from __future__ import annotations

from pathlib import Path

from rangebound.errors import ArgumentError, RangeboundError
from rangebound.ledger.book import Ledger
from rangebound.ledger.record import Account
from rangebound.postgres_address import is_address
from rangebound.release.engine.open_engine import opened
from rangebound.release.output.table import Release
from rangebound.release.plan.model import Plan
from rangebound.release.run import release


def paying_account(plan: Plan, folder: Path) -> Account | None:
    """The account that would pay for a plan; None where it names none, or it cannot be read."""
    place = _place(plan, folder)
    if place is None:
        return None
    try:
        with Ledger.open(place) as ledger:
            return next((each for each in ledger.accounts() if each.name == plan.budget.account), None)
    except RangeboundError:
        return None


def account_words(plan: Plan, folder: Path) -> dict[str, object]:
    """What the page shows about the account: its name and what is left, or why nothing can be charged."""
    account = paying_account(plan, folder)
    if plan.source is None or account is None:
        missing = "[source]" if plan.source is None else "account of a ledger in [budget] that can be opened"
        return {"reason": f"The plan names no {missing}, so there is nothing to charge."}
    return {"account": account.name, "left": account.left, "cost": str(plan.budget), "source": _source_words(plan)}


def charged_release(plan: Plan, folder: Path, *, request: str, confirmed: str) -> tuple[Release, str]:
    """Publish a plan from its real data, charged to its account; and what is left there, in words.

    `confirmed` is the cost that a person has seen and confirmed.

    Guarantee: as `rangebound.release_table`; nothing is read or charged unless the plan costs what was confirmed.
    """
    if confirmed != str(plan.budget):
        raise ArgumentError(f"confirmed={confirmed!r:.80}: the plan costs {plan.budget}; confirm that")
    place = _place(plan, folder)
    if place is None or plan.source is None:
        raise ArgumentError("ledger: missing; name it with an account in [budget], and the table in [source]")
    with Ledger.open(place) as ledger, opened(plan.source, folder=folder) as engine:
        made = release(plan, engine, ledger=ledger, request=request)
        return made, ledger.account(plan.budget.account or "").left


def _place(plan: Plan, folder: Path) -> str | None:
    named = plan.budget.ledger
    if named is None or plan.budget.account is None:
        return None
    return named if is_address(named) else str(folder / named)


def _source_words(plan: Plan) -> str:
    assert plan.source is not None
    return plan.source.path or plan.source.table or ""
