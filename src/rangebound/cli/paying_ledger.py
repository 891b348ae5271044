"""The ledger that pays for a command: found and opened before the table is, and asked whether that needs approval."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rangebound.cli import printing
from rangebound.errors import ApprovalNeeded, ArgumentError, LedgerUnavailable, RangeboundError

if TYPE_CHECKING:
    from rangebound.ledger.book import Ledger
    from rangebound.ledger.record import Account
    from rangebound.release import Plan


@dataclass(frozen=True, kw_only=True)
class PayingLedger:
    """The ledger that is charged, under the id `request`; `files` are its own, which no output may replace."""

    ledger: Ledger
    request: str
    files: tuple[Path, ...]


def ledger_place(named: object, plan: Path, ledger: str | None) -> str | None:
    """Where the ledger is: as the command line says, else as the plan does, relative to the plan's folder unless it
    is an address."""
    from rangebound.values.postgres_address import is_address

    if ledger or not isinstance(named, str) or not named:
        return ledger or None
    return named if is_address(named) else str(plan.parent / named)


@contextmanager
def paying(
    place: str | None, key: Path | None, request: str | None, plan: Plan | None = None
) -> Iterator[PayingLedger]:
    """The ledger that is charged, opened; it and the id of the charge must be given.

    Edge cases: where there is none, the error has the command that makes it for the account of a `plan`.
    """
    from rangebound.ledger import Ledger, ledger_files
    from rangebound.values.postgres_address import is_address

    if place is None:
        raise ArgumentError("ledger: missing; name it in the plan's [budget] or by --ledger (--dry-run needs none)")
    if request is None:
        raise ArgumentError("request: missing; --request gives the release an id, charged once (--dry-run needs none)")
    if plan is not None and plan.budget.account and not is_address(place) and not Path(place).exists():
        from rangebound.release.output.ledger_entry import opening_command

        command = opening_command(place, plan)
        raise LedgerUnavailable(
            f"ledger={place!r}: there is no such file; this makes it, for one such release: {command}"
        )
    with Ledger.open(place, key=key) as opened:
        yield PayingLedger(ledger=opened, request=request, files=ledger_files(place, key=key))


@contextmanager
def consulted(place: str | None, key: Path | None) -> Iterator[Ledger | None]:
    """The ledger for a dry run, which charges nothing: None where there is none, or it cannot be read."""
    from rangebound.ledger.book import Ledger

    try:
        opened = None if place is None else Ledger.open(place, key=key)
    except RangeboundError:
        opened = None
    if opened is None:
        yield None
        return
    with opened:
        yield opened


def account_in(ledger: Ledger | None, name: object) -> Account | None:
    """The account with a name, if there is such a ledger and it has one."""
    return next((each for each in ([] if ledger is None else ledger.accounts()) if each.name == name), None)


def is_closed(ledger: Ledger | None, account: object, request: str | None) -> bool:
    """Whether a table may not even be opened, because its account needs approval that was not given."""
    from rangebound.release.run import is_approved, needs_approval

    return ledger is not None and needs_approval(ledger, account) and not is_approved(ledger, request)


def ask_first(plan: Plan, book: PayingLedger, *, json: bool) -> None:
    """File the request of a plan that needs approval and does not have it, and show its dry run; the error says so."""
    from rangebound.release.run import demand_plan_approval

    try:
        demand_plan_approval(plan, ledger=book.ledger, request=book.request)
    except ApprovalNeeded as error:
        facts = {"dry_run": True, "account": error.account, "request": error.request, "status": "waiting"}
        printing.forecast(plan, facts, account=account_in(book.ledger, error.account), as_json=json)
        raise
