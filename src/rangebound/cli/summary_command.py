"""`rangebound summary`: one command, one account, one page about a table, by two plans that are written beside it."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import rangebound as rb
from rangebound.cli import printing
from rangebound.cli.options import DryRun, Json, KeyFile, option
from rangebound.cli.output_files import write_new
from rangebound.cli.plan_command import Owner, Table, TableName, described, source_of
from rangebound.cli.release_command import Publishing, account_in, check_table, consulted, paying, publish
from rangebound.errors import ArgumentError, plain
from rangebound.values.postgres_address import is_address

if TYPE_CHECKING:
    from rangebound.release.engine.duckdb import DuckDB
    from rangebound.release.engine.postgres import Postgres
    from rangebound.release.engine.spark import Spark
    from rangebound.release.summary import Described

Names = list[str] | None
_MADE = "# Made by rangebound summary. Edit it, and run it: rangebound release {path} --request ID\n"


def summary(
    table: Table,
    epsilon: Annotated[float, typer.Option(help="What the summary may spend in all.")],
    delta: Annotated[float, typer.Option(help="The same; keys that are not stated need one.")] = 0.0,
    unit: Owner = None,
    each_row: Annotated[bool, typer.Option("--each-row", help="Nobody has two rows, so a row is the unit.")] = False,
    rows: Annotated[int | None, option("The rows of a unit that count; 1 makes one row of all.", min=1)] = None,
    groups: Annotated[int | None, option("The groups of a unit that count; default: as many as rows.", min=1)] = None,
    numeric: Annotated[Names, option("Columns of numbers: age,cost; may be repeated.")] = None,
    category: Annotated[Names, option("Columns of categories.")] = None,
    date: Annotated[Names, option("Columns of dates.")] = None,
    range_: Annotated[Names, option("A public range: age=0:120; may be repeated.", "--range")] = None,
    keys: Annotated[Names, option("Public keys: city=Bern,Basel; may be repeated.")] = None,
    metadata: Annotated[Path | None, option("A description of the table, CSVW-EO: types, ranges, keys, unit.")] = None,
    share: Annotated[float, typer.Option(help="The part for ranges and keys that nobody stated.")] = 0.08,
    error: Annotated[float | None, option("Add two-way tables while every count is within this.")] = None,
    name: TableName = None,
    encoding: Annotated[str | None, option("Of a text file, if its first line does not tell: latin-1.")] = None,
    decimal: Annotated[str | None, option("The decimal sign of a text file.")] = None,
    thousands: Annotated[str | None, option("What separates its thousands.")] = None,
    date_format: Annotated[str | None, option("How it writes dates: %d.%m.%Y.")] = None,
    output: Annotated[Path | None, option("The folder to write; default: TABLE-summary.", "--output", "-o")] = None,
    request: Annotated[str, typer.Option(help="The id of the summary; the same id is charged once.")] = "summary",
    ledger: Annotated[str | None, option("The ledger; default: a new one beside the table, for this alone.")] = None,
    account: Annotated[str | None, option("The account that pays; default: the name of the table.")] = None,
    key: KeyFile = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Publish one page about a table: counts, missing values, means, spreads, quartiles, histograms, categories.

    Names of columns are read from the header, types from the table or from what you declare, never from rows. Ranges
    and keys that you do not state are found privately first.
    """
    from rangebound.release.output.plan_facts import plan_facts
    from rangebound.release.plan.table_schema import check_schema
    from rangebound.release.run import needs_approval
    from rangebound.release.sql.view import view
    from rangebound.release.summary import Described, Role, roles_of

    if not 0.0 < share < 1.0:
        raise ArgumentError(f"share={share!r}: must be a part of the budget, above 0 and below 1")
    known, form = described(metadata), {"encoding": encoding, "decimal": decimal, "thousands": thousands}
    form |= {"date_format": date_format}
    source = source_of(table, name, {each: text for each, text in form.items() if text is not None}, header=True)
    unit = unit or (known.unit if known is not None and not each_row else None)
    if (unit is None) != each_row:
        raise ArgumentError(
            "unit: say who is protected, by --unit and the column that names the person of each row, or by --each-row "
            "where nobody has two rows; one of both"
        )
    stem = Path(source.path or source.table or "table").stem
    folder = output or Path(f"{stem}-summary")
    beside = Path(source.path).parent if source.path else Path()
    place, paid_by = ledger or str(beside / f"{stem}.ledger"), account or stem
    declared = {each: role for role, names in zip(Role, (numeric, category, date), strict=True) for each in _all(names)}
    options = Publishing(output=[folder / each for each in ("report.html", "table.csv", "table.json")])
    with consulted(place, key) as book:
        if needs_approval(book, paid_by):
            raise ArgumentError(
                f"account={paid_by!r}: needs approval before a table is opened; write the plan with rangebound plan new"
            )
    with options.opened(source, Path()) as engine:
        schema = engine.schema()
        roles = roles_of(schema if known is None else known.schema, declared, unit)
        if known is not None and not declared:  # codes
            roles |= {each: Role.CATEGORY for each in known.keys if each in roles and each not in known.ranges}
        found = Described(
            source=source.model_copy(update={"path": _relative(source.path, folder)}) if source.path else source,
            schema=schema,
            roles=roles,
            unit=unit,
            rows=rows or (known.rows if known is not None else None) or 1,
            groups=groups,
            epsilon=epsilon,
            delta=delta,
            account=paid_by,
            ledger=place if is_address(place) else _relative(place, folder),
            ranges=dict(known.ranges) if known is not None else {},
            keys=dict(known.keys) if known is not None else {},
        )
        found = _stated(found, range_ or (), keys or ())
        first = found.first(share) if found.unknown else None
        second = (found.guessed(share) if first else found).plan(None if first else error)
        for each in (second, *([first] if first else [])):
            checked = rb.release.make_plan(each)
            check_schema(checked, view(checked, engine).schema)
        if dry_run:
            check_table(checked, engine)
            with consulted(place, key) as book:
                facts, payer = {"dry_run": True, "found_first": list(found.unknown)}, account_in(book, paid_by)
                return printing.forecast(plan_facts(checked), facts, account=payer, as_json=json)
        if ledger is None and not Path(place).exists():
            with rb.Ledger.create(place, key=key) as made:
                made.open_account(paid_by, epsilon=Decimal(repr(epsilon)), delta=Decimal(repr(delta)))
        folder.mkdir(parents=True, exist_ok=True)
        run = partial(_run, engine=engine, place=place, key=key, json=json)
        left: tuple[str, ...] = ()
        if first is not None:
            early = replace(options, output=[folder / "first.json"], certificate=folder / "first-certificate.json")
            drawn, _ = run(first, replace(early, request=f"{request}: ranges and keys"), folder / "first.toml")
            found, left = found.learnt(drawn, share)
            second = found.plan(error)
        certified = replace(options, certificate=folder / "certificate.json", request=request)
        published = run(second, certified, folder / "plan.toml")
    printing.table(*published, as_json=json)
    for column in left:
        way = f"--keys {column}=A,B" if roles[column] is Role.CATEGORY else f"--range {column}=LOWER:UPPER"
        sys.stderr.write(
            plain(f"note: {column!r} is left out: too few units to find what is unknown; {way} states it") + "\n"
        )
    if not json:
        sys.stdout.write(f"{folder}: report.html, table.csv, table.json, plan.toml and certificate.json\n")


def _run(
    data: Mapping[str, Any],
    asked: Publishing,
    path: Path,
    *,
    engine: DuckDB | Postgres | Spark,
    place: str,
    key: Path | None,
    json: bool,
) -> tuple[rb.release.Release, printing.Charge]:
    """The release of a plan as plain data, which is written at a path unless it is there."""
    plan = rb.release.make_plan(data)
    text = _MADE.format(path=path) + plan.to_toml()
    if path.exists() and path.read_text(encoding="utf-8") != text:
        raise ArgumentError(f"output={str(path)!r}: there is another plan already; name another folder")
    with paying(place, key, asked.request, plan) as book:
        found = publish(plan, engine, book, asked, plan=path, json=json)
    if not path.exists():
        write_new(path, text)
    return found


def _relative(path: str, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()


def _all(names: Iterable[str] | None) -> list[str]:
    """Names between commas; one with a comma stands in quotation marks."""
    return [each for line in csv.reader(names or ()) for each in line]


def _stated(found: Described, ranges: Iterable[str], keys: Iterable[str]) -> Described:
    """The same with the ranges and keys of the command line."""
    stated, listed = dict(found.ranges), dict(found.keys)
    for each in ranges:
        name, _, ends = each.partition("=")
        try:
            stated[name] = found.ends(name, *ends.split(":"))
        except (KeyError, TypeError, ValueError):
            way = "must be a column and two numbers or days, such as age=0:120 or day=2025-01-01:2025-12-31"
            raise ArgumentError(f"range={each!r}: {way}") from None
    for each in keys:
        name, _, texts = each.partition("=")
        if name not in found.roles or not texts:
            raise ArgumentError(f"keys={each!r}: must be a column and its keys, such as city=Bern,Basel")
        listed[name] = tuple(found.key(name, text) for text in _all([texts]))
    return replace(found, ranges=stated, keys=listed)
