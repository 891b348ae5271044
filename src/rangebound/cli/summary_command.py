"""`rangebound summary`: one page about a table; and `sql`: the answer to a SELECT. Neither needs a written plan.

A summary is made by plans that stand beside it; a SELECT becomes a plan, which is shown, saved and released like any
other.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import rangebound as rb
from rangebound.cli import printing
from rangebound.cli.options import DryRun, Json, KeyFile, option, taking, write_new
from rangebound.cli.plan_command import Owner, Table, TableName, source_of
from rangebound.cli.release_command import (
    PayingLedger,
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

if TYPE_CHECKING:
    from rangebound.release.engine.duckdb import DuckDB
    from rangebound.release.engine.postgres import Postgres
    from rangebound.release.engine.spark import Spark
    from rangebound.release.plan.table_schema import Schema
    from rangebound.release.summary import Described


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


Names = list[str] | None
_MADE = "# Made by rangebound summary. Edit it, and run it: rangebound release {path} --request ID\n"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a summary is made of: a table, what is publicly known of it, and what it may spend."""

    table: Table
    epsilon: Annotated[float, typer.Option(help="What the summary may spend in all.")]
    delta: Annotated[float, typer.Option(help="The same; keys that nobody states need one.")] = 0.0
    unit: Owner = None
    each_row: Annotated[bool, typer.Option("--each-row", help="Nobody has two rows: a row is the unit.")] = False
    rows: Annotated[int | None, option("The rows of a unit that count; default 1, made of all.", min=1)] = None
    numeric: Annotated[Names, option("Columns of numbers: age,cost; may be repeated.")] = None
    category: Annotated[Names, option("Columns of categories.")] = None
    date: Annotated[Names, option("Columns of dates.")] = None
    ranges: Annotated[Names, option("A public range: age=0:120; may be repeated.", "--range")] = None
    keys: Annotated[Names, option("Public keys: city=Bern,Basel; may be repeated.")] = None
    sample: Annotated[bool, typer.Option("--sample", help="Units are a sample: intervals for the population.")] = False
    metadata: Annotated[Path | None, option("A description of the table, CSVW-EO: types, ranges, keys, unit.")] = None
    form: Annotated[Names, option("How a text file is written: decimal=, or date_format=%d.%m.%Y.", "--format")] = None
    name: TableName = None
    ledger: Annotated[str | None, option("The ledger; default: a new one in this folder, for this alone.")] = None
    account: Annotated[str | None, option("The account that pays; default: the name of the table.")] = None

    def described(self, schema: Schema, source: rb.release.Source, place: str, account: str, folder: Path) -> Described:
        """What is known of a table with these columns, for plans in a folder."""
        from rangebound.release.plan.draft import TableDescription, read_description
        from rangebound.release.plan.table_schema import Family
        from rangebound.release.summary import Described, Role, roles_of

        known = TableDescription(schema=schema)
        if self.metadata is not None:
            known = read_description(self.metadata.read_text(encoding="utf-8-sig", errors="replace"))
        unit = self.unit or (None if self.each_row else known.unit)
        if (unit is None) != self.each_row:
            way = "by --unit and the column that names the person of each row, or by --each-row where nobody has two"
            raise ArgumentError(f"unit: say who is protected, {way}")
        given = zip(Role, (self.numeric, self.category, self.date), strict=True)
        declared = {each: role for role, names in given for each in _all(names or ())}
        roles = roles_of(known.schema, declared, unit)
        if not declared:  # numbers with keys are codes
            roles |= {each: Role.CATEGORY for each in known.keys if each in roles and each not in known.ranges}
        moved = {"path": Path(os.path.relpath(source.path, folder)).as_posix()} if source.path else {}
        found = Described(
            source=source.model_copy(update=moved),
            schema=schema,
            roles=roles,
            unit=unit,
            rows=self.rows or known.rows or 1,
            epsilon=self.epsilon,
            delta=self.delta,
            account=account,
            ledger=place if is_address(place) else Path(os.path.relpath(place, folder)).as_posix(),
            ranges=known.ranges,
            sample=self.sample,
            keys={each: (True, False) for each in roles if schema.get(each) is Family.BOOLEAN} | dict(known.keys),
        )
        return self._stated(found)

    def _stated(self, found: Described) -> Described:
        """The same with the ranges and keys of the command line."""
        ranges, keys = dict(found.ranges), dict(found.keys)
        for each in self.ranges or ():
            name, _, ends = each.partition("=")
            try:
                ranges[name] = found.ends(name, *ends.split(":"))
            except (KeyError, TypeError, ValueError):
                way = "must be a column and two numbers or days, such as age=0:120 or day=2025-01-01:2025-12-31"
                raise ArgumentError(f"range={each!r}: {way}") from None
        for each in self.keys or ():
            name, _, texts = each.partition("=")
            if name not in found.roles or not texts:
                raise ArgumentError(f"keys={each!r}: must be a column and its keys, such as city=Bern,Basel")
            keys[name] = tuple(found.key(name, text) for text in _all([texts]))
        return replace(found, ranges=ranges, keys=keys)


@taking(Asked)
def summary(
    asked: Asked,
    share: Annotated[
        float, typer.Option(help="The part for ranges and keys that nobody stated.", min=0.001, max=0.9)
    ] = 0.08,
    error: Annotated[float | None, option("Add two-way tables while every count is within this.")] = None,
    output: Annotated[Path | None, option("The folder to write; default: TABLE-summary.", "--output", "-o")] = None,
    request: Annotated[str, typer.Option(help="The id of the summary; the same id is charged once.")] = "summary",
    key: KeyFile = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Publish one page about a table that no plan describes.

    Counts, missing values, means, spreads, quartiles, histograms and categories. Names of columns are read from the
    header, types from the table or from what you declare, never from rows; ranges and keys that you do not state are
    found privately first.
    """
    from rangebound.release.output.plan_facts import plan_facts
    from rangebound.release.plan.table_schema import check_schema
    from rangebound.release.prepare import prepare, rehearse
    from rangebound.release.run import needs_approval
    from rangebound.release.sql.view import view

    form = dict(each.partition("=")[::2] for each in asked.form or ())
    source = source_of(asked.table, asked.name, form, header=True)
    stem = Path(source.path).stem if source.path else str(source.table)
    place, account = asked.ledger or f"{stem}.ledger", asked.account or stem
    folder = output or Path(f"{stem}-summary")
    with consulted(place, key) as known:
        if needs_approval(known, account):
            raise ArgumentError(
                f"account={account!r}: needs approval before a table is opened; take rangebound plan new"
            )
    with Publishing().opened(source, Path()) as engine:
        schema = engine.schema()
        found = asked.described(schema, source, place, account, folder)
        plans = [found.plan(None if found.unknown else error), *([found.first(share)] if found.unknown else [])]
        for each in plans:
            checked = rb.release.make_plan(each)
            check_schema(checked, view(checked, engine).schema)
            rehearse(prepare(checked))
        if dry_run:
            check_table(checked, engine)
            with consulted(place, key) as known:
                facts, payer = {"dry_run": True, "found_first": list(found.unknown)}, account_in(known, account)
                return printing.forecast(plan_facts(checked), facts, account=payer, as_json=json)
        if asked.ledger is None and not Path(place).exists():
            with rb.Ledger.create(place, key=key) as made:
                made.open_account(account, epsilon=Decimal(repr(found.epsilon)), delta=Decimal(repr(found.delta)))
        folder.mkdir(parents=True, exist_ok=True)
        with paying(place, key, request) as book:
            if found.unknown:
                before = replace(book, request=f"{request}: ranges and keys")
                found = found.learnt(_run(plans[-1], before, "first-", folder, engine, json)[0], share)
            published = _run(found.plan(error), book, "", folder, engine, json)
    printing.table(*published, as_json=json)
    unused = [repr(each) for each in schema if each not in found.roles and each != found.unit]
    notes = [f"columns left out: {', '.join(unused)}"] if unused else []
    if found.made:
        notes.append(f"of each {found.unit!r} the least value of each column counts; --rows N counts up to N rows")
    for column in found.unknown:
        way = f"--keys {column + '=A,B'!r} or --range {column + '=LOWER:UPPER'!r}, or take a larger --share"
        notes.append(f"of {column!r} only missing values are counted, since nothing more was found; state it, by {way}")
    if error is not None and all(len(each.by) < 2 for each in published[0].plan.query):
        notes.append(f"no two-way table leaves every count within {error:g}; ask for a larger --error")
    sys.stderr.write("".join(f"note: {plain(each)}\n" for each in notes))
    if not json:
        sys.stdout.write(f"{folder}: report.html, table.csv, table.json, plan.toml and certificate.json\n")


def _run(
    data: Mapping[str, Any], book: PayingLedger, stem: str, folder: Path, engine: DuckDB | Postgres | Spark, json: bool
) -> tuple[rb.release.Release, printing.Charge]:
    """The release of a plan, which is written beside its files unless it is there."""
    path, certificate, *output = [folder / f"{stem}{each}" for each in ("plan.toml", "certificate.json", "table.json")]
    output += [] if stem else [folder / "table.csv", folder / "report.html"]
    plan = rb.release.make_plan(data)
    text = _MADE.format(path=path) + plan.to_toml()
    if path.exists() and path.read_text(encoding="utf-8") != text:
        raise ArgumentError(f"output={str(path)!r}: there is another plan already; name another folder")
    found = publish(plan, engine, book, Publishing(output=output, certificate=certificate), plan=path, json=json)
    if not path.exists():
        write_new(path, text)
    return found


def _all(names: Iterable[str]) -> list[str]:
    """Names between commas; one with a comma stands in quotation marks."""
    return [each for line in csv.reader(names) for each in line]
