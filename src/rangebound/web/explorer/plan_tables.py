"""What the page does with a plan: its file, a notebook of it, its columns, made-up rows, and the real table.

The real one is charged once a person confirms it.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from importlib.resources import files
from pathlib import Path
from string import Template

from rangebound.errors import ArgumentError, PlanError, RangeboundError
from rangebound.ledger import Account, Ledger
from rangebound.release import Plan, Release, read_plan, release
from rangebound.release.engine import opened
from rangebound.release.made_up_rows import made_up
from rangebound.release.output.deployment_record import markdown_text
from rangebound.release.output.ledger_entry import opening_command
from rangebound.release.plan.cautions import cautions
from rangebound.release.plan.table_schema import check_schema
from rangebound.release.sql.view import view
from rangebound.values.postgres_address import is_address

ROWS = 2000
_WAYS = "save a copy instead, or load this page again to begin with what the file says now"


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
    found = _account_or_reason(plan, folder)
    return found if isinstance(found, Account) else None


def account_words(plan: Plan, folder: Path) -> dict[str, object]:
    """What the page shows about the account: its name and what is left, or why nothing can be charged."""
    if plan.source is None:
        return {"reason": "The plan names no [source], so there is nothing to read and nothing to charge."}
    account = _account_or_reason(plan, folder)
    if isinstance(account, str):
        return {"reason": account}
    source = plan.source.path or plan.source.table or ""
    return {"account": account.name, "left": account.left, "cost": str(plan.budget), "source": source}


def _account_or_reason(plan: Plan, folder: Path) -> Account | str:
    """The account that pays, or why none can, and the command that opens one."""
    place, name = _place(plan, folder), plan.budget.account
    if place is None:
        missing = "ledger" if name is not None else "account"
        return f"The plan names no {missing} in [budget], so there is nothing to charge: give it account and ledger."
    command = opening_command(place, plan)
    if not is_address(place) and not Path(place).exists():
        return f"The ledger {place} does not exist, so there is nothing to charge. This makes it: {command}"
    try:
        with Ledger.open(place) as ledger:
            found = next((each for each in ledger.accounts() if each.name == name), None)
    except RangeboundError as error:
        return f"The ledger {place} cannot be opened, so there is nothing to charge: {error}"
    missing = f"The ledger {place} has no account {name!r}, so there is nothing to charge. This opens it: {command}"
    return missing if found is None else found


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


def save_plan(path: Path, text: str, *, opened: str) -> None:
    """Write the text of a plan over its file; `opened` is what the file said when the page read or saved it last.

    Guarantee: the file has the old text or the new one at every moment, also if the machine stops, and keeps its
    rights, its line ends and, behind a link, its place. A file that says something else than `opened`, or cannot be
    read or written, is left alone, and an `ArgumentError` says so.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "plan.toml")
    ...     _ = file.write_text("# ours")
    ...     save_plan(file, "# yours", opened="# ours")
    ...     print(file.read_text())
    # yours
    """
    try:
        real = path.resolve(strict=True)
        with real.open("r+b") as file:  # a file that must not be written could be replaced all the same
            found = file.read()
        if _read(found) != opened:
            raise ArgumentError(f"{path.name}: has changed since this page read it, and is left as it is; {_WAYS}")
        plain = _read(text.encode("utf-8"))
        new = plain.replace("\n", "\r\n") if b"\r\n" in found else plain
        handle, name = tempfile.mkstemp(prefix=f".{real.name}.", dir=real.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(new.encode("utf-8"))
                file.flush()
                os.fsync(file.fileno())  # all of it is on the disk before it has the place of the other
            shutil.copymode(real, name)
            os.replace(name, real)
        except BaseException:
            os.unlink(name)
            raise
    except (OSError, UnicodeError) as reason:
        raise ArgumentError(f"{path.name}: cannot be saved ({reason}); save a copy instead") from None


def read_text(path: Path) -> str:
    """The text of a plan file, with line ends as the page has them."""
    return _read(path.read_bytes())


def _read(data: bytes) -> str:
    return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def notebook(plan: Plan) -> str:
    """The text of a notebook (.ipynb, format 4) that shows a plan, its risk and a table of made-up rows.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> [each["cell_type"] for each in json.loads(notebook(plan))["cells"]][:3]
    ['markdown', 'code', 'markdown']
    """
    title, text = markdown_text(plan.title or "A plan"), plan.to_toml()
    plain = "\\" not in text and "'''" not in text and not text.endswith("'")
    quoted = f"'''{text}'''" if plain else repr(text)  # over many lines where that is the same text
    template = files("rangebound.web.explorer").joinpath("notebook.txt").read_text(encoding="utf-8")
    cells: list[dict[str, object]] = []
    for at, cell in enumerate(template.removesuffix("\n").split("%% ")[1:]):
        kind, _, words = cell.partition("\n")
        source = Template(words.removesuffix("\n")).substitute(title=title, plan=quoted).splitlines(keepends=True)
        own: dict[str, object] = {"execution_count": None, "outputs": []} if kind == "code" else {}
        cells.append({"cell_type": kind, "id": f"step-{at}", "metadata": {}, "source": source, **own})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    data = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"
