"""`rangebound sql`: a SELECT becomes a plan, which is shown, saved and released like any other."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rangebound.cli.options import (
    CertificateFile,
    DryRun,
    Json,
    KeyFile,
    LedgerFile,
    Memory,
    Outputs,
    PostgresAddress,
    Request,
    SparkAddress,
    Threads,
    Timeout,
)
from rangebound.cli.output_files import write_new
from rangebound.cli.release_command import publish
from rangebound.errors import ArgumentError

if TYPE_CHECKING:
    from rangebound.release import Plan, Translated


def sql(
    select: Annotated[str, typer.Argument(metavar="SELECT", help="The question, one SELECT in quotation marks.")],
    plan: Annotated[
        Path, typer.Option(help="The base plan: table, unit, budget, keys and ranges; its questions are not asked.")
    ],
    request: Request = None,
    ledger: LedgerFile = None,
    key: KeyFile = None,
    output: Outputs = None,
    certificate: CertificateFile = None,
    save: Annotated[
        Path | None, typer.Option(help="Where to write the plan that the SELECT became.", show_default=False)
    ] = None,
    threads: Threads = None,
    memory: Memory = None,
    spark: SparkAddress = None,
    postgres: PostgresAddress = None,
    timeout: Timeout = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Answer a SELECT by the plan it stands for, charged to a ledger."""
    from rangebound.cli import printing
    from rangebound.release import Answer, Source, translate
    from rangebound.release.engine.open_engine import opened
    from rangebound.release.plan.table_schema import check_schema
    from rangebound.release.plan.toml import pointing
    from rangebound.release.sql.view import view
    from rangebound.release.suggest import draft_of

    base = draft_of(plan)
    if not isinstance(base.get("source"), dict):
        raise ArgumentError("source: missing; name the table in the plan, as [source] with a path")
    with pointing(plan):
        source = Source(**base["source"])
        with opened(
            source,
            folder=plan.parent,
            spark=spark,
            postgres=postgres,
            threads=threads,
            memory=memory,
            timeout=timeout,
        ) as engine:
            asked = translate(select, base, columns=engine.schema(), folder=plan.parent)
            with asked.pointing():
                seen = view(asked.plan, engine)
                check_schema(asked.plan, seen.schema)
                if not json:
                    sys.stdout.write(f"{asked}\n")
                    sys.stdout.flush()
                if save is not None:
                    write_new(save, str(_moved(asked, plan.parent, save)))
                if dry_run:
                    printing.cautions(asked.plan, seen)
                    facts = {"dry_run": True, "plan": asked.plan.to_toml(), "notes": list(asked.notes)}
                    return printing.forecast(asked.plan, facts, as_json=json)
                made, charge = publish(
                    asked.plan,
                    engine,
                    plan=plan,
                    request=request,
                    ledger=ledger,
                    key=key,
                    output=output,
                    certificate=certificate,
                    json=json,
                )
    return printing.answer(Answer(asked=asked, release=made), charge, as_json=json)


def _moved(asked: Translated, folder: Path, save: Path) -> str:
    """The plan for a file in another folder: relative paths in it count from there."""

    def moved(path: str | None) -> str | None:
        if path is None or Path(path).is_absolute():
            return path
        return Path(os.path.relpath(folder / path, save.parent)).as_posix()

    found: Plan = asked.plan
    assert found.source is not None
    source = found.source.model_copy(update={"path": moved(found.source.path)})
    budget = found.budget.model_copy(update={"ledger": moved(found.budget.ledger)})
    joins = found.join and tuple(each.model_copy(update={"path": moved(each.path)}) for each in found.join)
    plan = found.model_copy(update={"source": source, "budget": budget, "join": joins})
    notes = "".join(f"# {each}\n" for each in asked.notes)
    return f"{notes}{plan.to_toml()}"
