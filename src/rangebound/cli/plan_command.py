"""`rangebound plan`: draft a plan, check it, explain it, solve it, upgrade it, export its schema; and `dummy`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

import rangebound as rb
from rangebound.cli import printing
from rangebound.cli.options import Json, KeyFile, LedgerFile, NewFile, PlanFile, group, option, write_new
from rangebound.cli.release_command import account_in, check_table, consulted, ledger_place, stopping, warn
from rangebound.errors import ArgumentError
from rangebound.values.arguments import counted

# The rooms below are loaded by the commands that need them, so that help is immediate.
app = group("Plans of releases.")

_PLACES = {"sc://": "spark", "postgresql://": "postgres", "postgres://": "postgres", "service=": "postgres"}


_TABLES = "A .csv, .tsv, .xlsx, .parquet or DuckDB file, a database (postgresql://host/name) or a server (sc://host)."
Table = Annotated[str, typer.Argument(metavar="TABLE", help=_TABLES)]
Owner = Annotated[str | None, option("The column that names the privacy unit of a row.")]
TableName = Annotated[str | None, option("The table in a DuckDB file or on a server.", "--table")]


def source_of(table: str, name: str | None, stated: Mapping[str, str], *, header: bool) -> rb.release.Source:
    """The table that a command line names, as a plan's source; what is not `stated` of a text file, its header says."""
    from rangebound.release.engine.text_file import proposed_format
    from rangebound.release.plan.source import TEXT_FILES

    place = {next((field for start, field in _PLACES.items() if table.startswith(start)), "path"): table}
    found = place | ({"table": name} if name else {})
    if header and "path" in place and Path(table).suffix.lower() in TEXT_FILES and Path(table).is_file():
        found |= proposed_format(Path(table)).text_fields
    query = [{"name": "rows", "kind": "count"}]
    made = rb.release.make_plan({"source": found | dict(stated), "budget": {"epsilon": 1.0}, "query": query}).source
    assert made is not None
    return made


@app.command()
def new(
    table: Table,
    unit: Owner = None,
    name: TableName = None,
    metadata: Annotated[
        Path | None, option("A description of the table, CSVW-EO; the table is then not opened.")
    ] = None,
    output: NewFile = None,
) -> None:
    """Write a first plan for a table; read no data but a header."""
    from rangebound.release.engine import opened
    from rangebound.release.plan.draft import drafted_bounds, read_description

    source = source_of(table, name, {}, header=metadata is None)
    description = (
        None if metadata is None else read_description(metadata.read_text(encoding="utf-8-sig", errors="replace"))
    )
    if description is None:
        with opened(source) as engine:
            schema = engine.schema()
    else:
        schema, unit = description.schema, unit or description.unit
    if output is not None and source.path is not None:  # a plan's paths are relative to its own folder
        source = source.model_copy(update={"path": Path(os.path.relpath(table, output.parent)).as_posix()})
    text = rb.release.draft(schema, source, unit=unit, description=description)
    rows = 1 if description is None else description.rows or 1
    note = f"note: {drafted_bounds(unit, rows)}\n"
    if output is None:
        sys.stdout.write(text)
        sys.stderr.write(note)
        return
    write_new(output, text)
    there = f"fill it in on a page: rangebound explore {output} (or in the file; then rangebound plan check {output})"
    sys.stdout.write(f"{output}: {there}\n{note}")


@app.command()
def check(plan: PlanFile, json: Json = False) -> None:
    """Check a plan, its columns and its statements; read no data."""
    from rangebound.release.engine import opened
    from rangebound.release.plan.toml import pointing

    found = rb.read_plan(plan)
    with pointing(plan):
        rb.release.explain(found)
        if found.source is not None:
            with opened(found.source, folder=plan.parent) as engine:
                check_table(found, engine)
    added = sum(each.made for each in found.query)
    count = len(found.query) - added
    more = f", and {added} about what is cut" if added else ""
    printing.fact({"ok": True, "queries": count}, f"ok: {counted(count, 'query', 'queries')}{more}", as_json=json)


@app.command()
def explain(plan: PlanFile, json: Json = False) -> None:
    """Explain a plan in words, with its cost, errors and intervals."""
    from rangebound.release.output.plan_facts import plan_facts
    from rangebound.release.plan.toml import pointing

    found = rb.read_plan(plan)
    with pointing(plan), consulted(ledger_place(found.budget.ledger, plan, None), None) as known:
        printing.forecast(plan_facts(found), {}, account=account_in(known, found.budget.account), as_json=json)


@app.command()
def solve(
    plan: PlanFile,
    rest: Annotated[
        float | None,
        option("The part of the account left for what has no margin; default: by number, half for one of two."),
    ] = None,
    json: Json = False,
) -> None:
    """Find the smallest epsilon that meets all margins.

    A part is left for questions without a margin; --rest says how much.
    """
    from rangebound.release.plan.toml import pointing

    with pointing(plan):
        found = rb.release.solve(rb.read_plan(plan), rest=rest)
    printing.solution(found, as_json=json)


@app.command()
def suggest(
    plan: PlanFile,
    request: Annotated[str | None, option("The id of this suggestion; the same id is charged once.")] = None,
    share: Annotated[float, typer.Option(help="The cost, as a part of the plan's epsilon.")] = 0.1,
    ledger: LedgerFile = None,
    key: KeyFile = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be estimated, and the cost; read only the schema.")
    ] = False,
    json: Json = False,
) -> None:
    """Estimate range, rows and groups privately, for a charge."""
    from rangebound.release.engine import opened
    from rangebound.release.gaps import draft_of, gaps_of, left_out
    from rangebound.release.plan.toml import pointing
    from rangebound.release.sql.view import view

    draft = draft_of(plan)
    with pointing(plan):
        whole = left_out(draft, {}, plan.parent).plan
        if whole.source is None:
            raise ArgumentError("source: missing; name the table in the plan, as [source] with a path")
        with opened(whole.source, folder=plan.parent) as engine:
            if dry_run:
                words = gaps_of(draft, engine, plan.parent).words(share)
                return printing.fact({"dry_run": True, "explained": words}, words, as_json=json)
            book = ledger_place(whole.budget.ledger, plan, ledger)
            if book is None or request is None:
                missing = "ledger" if book is None else "request"
                raise ArgumentError(f"{missing}: missing; a suggestion is charged like a release (--dry-run is not)")
            warn(whole, view(whole, engine))
            with rb.Ledger.open(book, key=key) as paying, stopping(paying, request):
                before = paying.published(request) is not None
                found = rb.release.suggest(
                    draft, engine, ledger=paying, request=request, share=share, folder=plan.parent
                )
                charge = printing.charge(paying, request, before=before, account=whole.budget.account or "")
    words = f"{found}\n# {charge.words(str(found.cost))}"
    return printing.fact({**found.to_dict(), "charge": charge.to_dict()}, words, as_json=json)


@app.command()
def upgrade(
    plan: PlanFile,
    output: NewFile = None,
    write: Annotated[bool, typer.Option("--write", help="Change the plan in its file.")] = False,
) -> None:
    """Convert a plan of version 0.2 to SQL; change nothing else.

    Without an option the lines that change are printed; --output writes a new plan beside the old one.
    """
    from rangebound.release.plan.toml import changes, read_text, upgraded

    before = read_text(plan)
    after = upgraded(before, name=str(plan))
    if write and output is not None:
        raise ArgumentError("output: --write changes the plan in its file; leave one of the two out")
    if after == before:
        sys.stdout.write(f"{plan}: all expressions are in SQL already; nothing to change\n")
    elif output is not None:
        write_new(output, after)
        sys.stdout.write(f"{output}: written\n")
    elif write:
        file = Path(os.path.realpath(plan))  # a link stays one
        draft = file.with_name(f".{file.name}.upgraded")
        write_new(draft, after)
        draft.chmod(file.stat().st_mode & 0o777)
        os.replace(draft, file)
        sys.stdout.write(f"{plan}: its expressions are in SQL now\n")
    else:
        sys.stdout.write(changes(before, after, str(plan)))
        sys.stderr.write(f"note: nothing was written; rangebound plan upgrade {plan} --write does\n")


@app.command()
def schema() -> None:
    """Print the JSON schema of plans."""
    import json

    sys.stdout.write(json.dumps(rb.release.plan_schema(), indent=1) + "\n")


@app.command()
def fields() -> None:
    """Print every field with type, default and effect, as Markdown."""
    sys.stdout.write(rb.release.field_table())


def dummy(
    plan: PlanFile,
    rows: Annotated[int, typer.Option(help="How many rows.")] = 1000,
    output: Annotated[
        Path | None,
        option(
            "A new file, .csv or .parquet; a plan that reads it is written beside it. Default: standard output.",
            "--output",
            "-o",
        ),
    ] = None,
) -> None:
    """Make up rows for a plan, from the plan alone; read no data."""
    from rangebound.release.made_up_rows import made_up

    found = made_up(rb.read_plan(plan), rows)
    if output is not None:
        *tables, written = found.write(output)
        them = "it" if not tables[1:] else "them"
        sys.stdout.write(f"made up: {', '.join(map(str, tables))}; {written} reads {them}\n")
        return
    if found.joined:
        raise ArgumentError(
            "output: missing; the plan joins tables, which need files of their own, as -o trial/rows.csv"
        )
    sys.stdout.write(found.table.to_csv())
