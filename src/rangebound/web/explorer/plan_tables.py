"""What the page does with tables: their columns, made-up rows, and the real ones, charged once a person confirms it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rangebound.errors import ArgumentError, PlanError, RangeboundError
from rangebound.ledger.book import Ledger
from rangebound.ledger.record import Account
from rangebound.release.dummy.made_up_rows import made_up
from rangebound.release.engine import opened
from rangebound.release.output.ledger_entry import opening_command
from rangebound.release.output.table import Release
from rangebound.release.plan.cautions import cautions
from rangebound.release.plan.model import Plan
from rangebound.release.plan.table_schema import check_schema
from rangebound.release.plan.toml import read_plan
from rangebound.release.run import release
from rangebound.release.sql.view import view
from rangebound.values.postgres_address import is_address

ROWS = 2000


def column_names(plan: Plan, folder: Path) -> tuple[str, ...]:
    """The names of the columns of the file that a plan names; none where it names no file, or that cannot be opened.

    Tables of a server are left alone: to ask one for its columns may take long.

    >>> from rangebound.release import parse_plan
    >>> column_names(parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]'), Path())
    ()
    """
    if plan.source is None or plan.source.path is None:
        return ()
    try:
        with opened(plan.source, folder=folder) as engine:
            return tuple(engine.schema())
    except RangeboundError:
        return ()


def check_columns(plan: Plan, folder: Path) -> str:
    """Refuse a plan whose columns are not in its file, as `rangebound plan check` does; warnings in words.

    Edge cases: nothing is checked where `column_names` has none; that a file cannot be opened is said in the words.
    """
    if plan.source is None or plan.source.path is None:
        return ""
    try:
        with opened(plan.source, folder=folder) as engine:
            seen = view(plan, engine)
            check_schema(plan, seen.schema)
            return "".join(f" Warning: {each}." for each in cautions(plan, seen.schema, seen.before_units))
    except PlanError as error:
        if error.field.startswith("source"):
            return f" The names of columns were not checked: {error}."
        raise


def made_up_trial(plan: Plan, rows: int = ROWS) -> Release:
    """The release of a plan on made-up rows: noise, intervals and cost are as they would be; the answers are not.

    Guarantee: made of the plan alone. No data are read, and no ledger is opened.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> len(made_up_trial(plan, rows=10).rows())
    1
    """
    with tempfile.TemporaryDirectory(prefix="rangebound-trial-") as name:
        *_, written = made_up(plan, rows).write(Path(name, "rows.csv"))
        found = read_plan(written)
        assert found.source is not None
        with opened(found.source, folder=written.parent) as engine:
            return release(found, engine, ledger=None)


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
    source = plan.source.path or plan.source.table or ""
    return {"account": account.name, "left": account.left, "cost": str(plan.budget), "source": source}


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
