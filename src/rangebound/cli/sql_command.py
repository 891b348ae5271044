"""`rangebound sql`: a SELECT becomes a plan, which is shown, saved and released like any other."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

import rangebound as rb
from rangebound.cli import printing
from rangebound.cli.options import DryRun, Json, option, taking
from rangebound.cli.output_files import write_new
from rangebound.cli.release_command import (
    Publishing,
    account_in,
    ask_first,
    check_table,
    consulted,
    is_closed,
    ledger_place,
    paying,
    publish,
)
from rangebound.errors import ArgumentError, plain
from rangebound.values.postgres_address import is_address


@taking(Publishing)
def sql(
    options: Publishing,
    select: Annotated[str, typer.Argument(metavar="SELECT", help="The question, one SELECT in quotation marks.")],
    plan: Annotated[
        Path, typer.Option(help="The base plan: table, unit, budget, keys and ranges; its questions are not asked.")
    ],
    save: Annotated[Path | None, option("Where to write the plan that the SELECT became.")] = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Answer a SELECT by the plan it stands for, charged to a ledger.

    From an account that needs approval, the first run files a request and exits with code 3, as `release` does; names
    of columns are then taken as they are written, since the table is not opened before.
    """
    from rangebound.release.gaps import draft_of
    from rangebound.release.output.plan_facts import plan_facts
    from rangebound.release.plan.table_schema import check_schema
    from rangebound.release.plan.toml import pointing
    from rangebound.release.run import needs_approval
    from rangebound.release.sql.view import view

    request, key = options.request, options.key
    options.check_records()
    base = draft_of(plan)
    if not isinstance(base.get("source"), dict):
        raise ArgumentError("source: missing; name the table in the plan, as [source] with a path")
    with pointing(plan):
        source = rb.release.Source(**base["source"])
        budget = base["budget"] if isinstance(base.get("budget"), dict) else {}
        account, place = budget.get("account"), ledger_place(budget.get("ledger"), plan, options.ledger)
        open_table = partial(options.opened, source, plan.parent)
        as_written = partial(rb.release.translate, select, base, folder=plan.parent)
        if dry_run:
            with consulted(place, key) as known:
                payer, closed = account_in(known, account), is_closed(known, account, request)
                with nullcontext() if closed else open_table() as engine:
                    asked = as_written(
                        columns=() if engine is None or needs_approval(known, account) else engine.schema()
                    )
                    with asked.pointing():
                        if engine is not None:
                            check_table(asked.plan, engine)
                        _show(asked, json=json)
                        options.write_records(asked.plan, account=payer)
                        _save(asked, save, plan)
                        facts = {"dry_run": True, "plan": asked.plan.to_toml(), "notes": list(asked.notes)}
                        facts |= {"approval": "needed"} if closed else {}
                        return printing.forecast(plan_facts(asked.plan), facts, account=payer, as_json=json)
        with paying(place, key, request) as book:
            early = as_written() if needs_approval(book.ledger, account) else None
            if early is not None:
                _show(early, json=json)
                with early.pointing():
                    ask_first(early.plan, book, json=json)
            with open_table() as engine:
                asked = early or as_written(columns=engine.schema())
                with asked.pointing():
                    check_schema(asked.plan, view(asked.plan, engine).schema)
                    if early is None:
                        _show(asked, json=json)
                    _save(asked, save, plan)
                    made, charge = publish(asked.plan, engine, book, options, plan=plan, json=json)
    return printing.answer(rb.release.Answer(asked=asked, release=made), charge, as_json=json)


def _show(asked: rb.release.Translated, *, json: bool) -> None:
    if not json:
        sys.stdout.write(f"{asked}\n")
        sys.stdout.flush()


def _save(asked: rb.release.Translated, save: Path | None, plan: Path) -> None:
    if save is not None:
        write_new(save, str(_moved(asked, plan.parent, save)))


def _moved(asked: rb.release.Translated, folder: Path, save: Path) -> str:
    """The plan for a file in another folder: relative paths in it count from there."""

    def moved(path: str | None) -> str | None:
        if path is None or is_address(path) or Path(path).is_absolute():
            return path
        return Path(os.path.relpath(folder / path, save.parent)).as_posix()

    found: rb.Plan = asked.plan
    assert found.source is not None
    source = found.source.model_copy(update={"path": moved(found.source.path)})
    budget = found.budget.model_copy(update={"ledger": moved(found.budget.ledger)})
    joins = found.join and tuple(each.model_copy(update={"path": moved(each.path)}) for each in found.join)
    plan = found.model_copy(update={"source": source, "budget": budget, "join": joins})
    notes = "".join(f"# {plain(each)}\n" for each in asked.notes)
    return f"{notes}{plan.to_toml()}"
