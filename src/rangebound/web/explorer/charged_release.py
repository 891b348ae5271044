"""The account that pays for a plan, and the release that is charged to it, once a person has confirmed the cost."""

from __future__ import annotations

from pathlib import Path

from rangebound.errors import ArgumentError, RangeboundError
from rangebound.ledger.book import Ledger
from rangebound.ledger.record import Account
from rangebound.release.engine.open_engine import opened
from rangebound.release.output.ledger_entry import opening_command
from rangebound.release.output.table import Release
from rangebound.release.plan.model import Plan
from rangebound.release.run import release
from rangebound.values.postgres_address import is_address


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
    if plan.source is None:
        return {"reason": "The plan names no [source], so there is nothing to read and nothing to charge."}
    account = paying_account(plan, folder)
    if account is None:
        return {"reason": _no_account(plan, folder)}
    return {"account": account.name, "left": account.left, "cost": str(plan.budget), "source": _source_words(plan)}


def _no_account(plan: Plan, folder: Path) -> str:
    """Why no account can pay, and the command that opens one."""
    place, name = _place(plan, folder), plan.budget.account
    if place is None or name is None:
        missing = "ledger" if name is not None else "account"
        return f"The plan names no {missing} in [budget], so there is nothing to charge: give it account and ledger."
    command = opening_command(place, plan)
    if not is_address(place) and not Path(place).exists():
        return f"The ledger {place} does not exist, so there is nothing to charge. This makes it: {command}"
    try:
        with Ledger.open(place) as ledger:
            names = [each.name for each in ledger.accounts()]
    except RangeboundError as error:
        return f"The ledger {place} cannot be opened, so there is nothing to charge: {error}"
    if name in names:
        return f"The ledger {place} could not be read; try again."
    return f"The ledger {place} has no account {name!r}, so there is nothing to charge. This opens it: {command}"


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
    return named if is_address(named) or folder == Path.cwd() else str(folder / named)


def _source_words(plan: Plan) -> str:
    assert plan.source is not None
    return plan.source.path or plan.source.table or ""
