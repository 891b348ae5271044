"""`rangebound release` and `demo`: publish a table, try one."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rangebound.cli.options import (
    CertificateFile,
    DryRun,
    FactSheetFile,
    Interrupted,
    Json,
    KeyFile,
    LedgerFile,
    Memory,
    Outputs,
    PostgresAddress,
    RecordFile,
    Request,
    SparkAddress,
    Threads,
    Timeout,
)
from rangebound.cli.output_files import check_files
from rangebound.cli.paying_ledger import PayingLedger, account_in, ask_first, consulted, is_closed, ledger_place, paying
from rangebound.cli.record_files import RecordFiles, charged_entry
from rangebound.errors import ArgumentError

if TYPE_CHECKING:
    from rangebound.cli.printing import Charge
    from rangebound.ledger.book import Ledger
    from rangebound.release import Plan, Release, Source
    from rangebound.release.engine.duckdb import DuckDB
    from rangebound.release.engine.postgres import Postgres
    from rangebound.release.engine.spark import Spark

_BLINK = 0.5  # seconds between two updates of the progress of a scan


def release(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan, a TOML file.")],
    request: Request = None,
    ledger: LedgerFile = None,
    key: KeyFile = None,
    output: Outputs = None,
    certificate: CertificateFile = None,
    record: RecordFile = None,
    fact_sheet: FactSheetFile = None,
    threads: Threads = None,
    memory: Memory = None,
    spark: SparkAddress = None,
    postgres: PostgresAddress = None,
    timeout: Timeout = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Publish the table of a plan, charged to a ledger first.

    From an account that needs approval, the first run files a request with the dry run and exits with code 3; the same
    command publishes once it is approved. The table is not opened before.
    """
    from rangebound.cli import printing
    from rangebound.release import read_plan
    from rangebound.release.engine.open_engine import opened as open_source
    from rangebound.release.plan.table_schema import check_schema
    from rangebound.release.plan.toml import pointing
    from rangebound.release.sql.aggregate import check_statements
    from rangebound.release.sql.view import view

    found = read_plan(plan)
    if found.source is None:
        raise ArgumentError("source: missing; name the table in the plan, as [source] with a path")
    folder = plan.parent  # paths in a plan are relative to its own folder, those on the command line to the current one
    open_table = partial(
        open_source,
        found.source,
        folder=folder,
        spark=spark,
        postgres=postgres,
        threads=threads,
        memory=memory,
        timeout=timeout,
    )
    place = ledger_place(found.budget.ledger, plan, ledger)
    written = RecordFiles(record=record, fact_sheet=fact_sheet)
    written.check()
    if dry_run:
        with pointing(plan), consulted(place, key) as known:
            account = account_in(known, found.budget.account)
            written.write(found, account=account)
            if is_closed(known, found.budget.account, request):
                facts = {"dry_run": True, "approval": "needed"}
                return printing.forecast(found, facts, account=account, as_json=json)
            with open_table() as engine:
                seen = view(found, engine)
                check_schema(found, seen.schema)
                check_statements(found, engine)
                printing.cautions(found, seen)
                return printing.forecast(found, {"dry_run": True}, account=account, as_json=json)
    with pointing(plan), paying(place, key, request, found) as book:
        ask_first(found, book, json=json)
        with open_table() as engine:
            made, charge = publish(
                found,
                engine,
                book,
                plan=plan,
                output=output,
                certificate=certificate,
                written=written,
                json=json,
            )
    return printing.table(made, charge, as_json=json)


def publish(
    found: Plan,
    engine: DuckDB | Postgres | Spark,
    book: PayingLedger,
    *,
    plan: Path,
    output: list[Path] | None,
    certificate: Path | None,
    written: RecordFiles,
    json: bool,
) -> tuple[Release, Charge]:
    """The release of a plan that was read from a file, with its outputs written, and what it has cost."""
    from rangebound.cli import printing
    from rangebound.release.output.table import writable

    folder, ledger, request = plan.parent, book.ledger, book.request
    assert found.source is not None
    outputs = [*map(writable, output or []), *([certificate] if certificate else []), *written.paths]
    files = [plan, *book.files, *_table_files(found.source, folder), *_joined_files(found, folder)]
    check_files(outputs, files)
    with stopping(ledger, request):
        before = ledger.published(request) is not None
        made = _made(found, engine, ledger, request, quiet=json)
        charge = printing.charge(ledger, request, before=before, account=found.budget.account or "")
        with _still_charged(ledger, request):
            check_files(outputs, files)
            _write(made, output or [], certificate)
            entry = charged_entry(ledger, request)
            written.write(found, certificate=made.certificate, entry=entry, account=charge.account)
    return made, charge


def demo(
    folder: Annotated[Path, typer.Option(help="Where to write the table, the ledger and the report.")] = Path(
        "out/demo"
    ),
    json: Json = False,
) -> None:
    """Publish a made-up table of clinic visits, with a report."""
    from rangebound.cli import printing
    from rangebound.ledger.book import Ledger
    from rangebound.release import Source, read_plan
    from rangebound.release import demo as clinic
    from rangebound.release.engine.duckdb import DuckDB

    place = folder / os.urandom(4).hex()
    place.mkdir(parents=True)
    (place / clinic.TABLE).write_text(clinic.table(), encoding="utf-8")
    (place / "plan.toml").write_text(clinic.plan(), encoding="utf-8")
    plan = read_plan(place / "plan.toml")
    with Ledger.create(place / clinic.LEDGER) as ledger, DuckDB(Source(path=str(place / clinic.TABLE))) as engine:
        ledger.open_account("clinics", epsilon=2 * Decimal(repr(plan.budget.epsilon)))  # enough for a second one
        made = _made(plan, engine, ledger, "demo", quiet=json)
        charge = printing.charge(ledger, "demo", before=False, account="clinics")
        written = RecordFiles(record=place / "record.yaml", fact_sheet=place / "fact-sheet.md")
        entry = charged_entry(ledger, "demo")
        written.write(plan, certificate=made.certificate, entry=entry, account=charge.account)
    _write(made, [place / "table.csv", place / "table.json", place / "report.html"], place / "certificate.json")
    printing.table(made, charge, as_json=json)
    if not json:
        called = Path(sys.argv[0])
        program = str(called) if called.name == "rangebound" and not shutil.which("rangebound") else "rangebound"
        files = f"{place / 'certificate.json'} {place / 'table.json'} --ledger {place / clinic.LEDGER}"
        sys.stdout.write(
            f"report in {place / 'report.html'}, made by plan.toml beside it, and record.yaml; to try next:\n"
            f"  {program} verify {files}\n"
            f"  {program} release {place / 'plan.toml'} --request second\n"
        )


def _made(plan: Plan, engine: DuckDB | Postgres | Spark, ledger: Ledger, request: str, *, quiet: bool) -> Release:
    """The release, with its progress on a terminal: its duration depends on the data and is for the custodian alone."""
    from rich.console import Console

    from rangebound.cli import printing
    from rangebound.release import release as run
    from rangebound.release.sql.view import view

    printing.cautions(plan, view(plan, engine))
    console = Console(stderr=True, quiet=quiet)
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_BLINK):
            done = engine.progress() if hasattr(engine, "progress") else None
            if done is not None:
                status.update(f"aggregating, {done:.0f} % of this scan")

    with console.status("reading the plan") as status:
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # they were shown
                return run(plan, engine, ledger=ledger, request=request, progress=status.update)
        finally:
            ended.set()
            watcher.join()


def _joined_files(plan: Plan, folder: Path) -> list[Path]:
    """The files of the tables that a plan joins."""
    return [folder / each.path for each in plan.join or () if each.path is not None]


def _table_files(source: Source, folder: Path) -> list[Path]:
    """The file of a plan's table, if it is one, and the log that DuckDB keeps beside its own files."""
    file = folder / source.path if source.path else None
    return [] if file is None else [file, file.with_name(file.name + ".wal")]


@contextmanager
def stopping(ledger: Ledger, request: str) -> Iterator[None]:
    """If a signal ends a release or a suggestion, report the state of its charge."""
    came = signal.SIGINT

    def stop(number: int, _: object) -> None:
        nonlocal came
        came = signal.Signals(number)
        raise KeyboardInterrupt

    here = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, stop) if here else None
    try:
        yield
    except KeyboardInterrupt:
        words = "interrupted" if came is signal.SIGINT else "terminated"
        raise Interrupted(f"{words}; {_became(ledger, request)}", 128 + came) from None
    finally:
        if here:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _still_charged(ledger: Ledger, request: str) -> Iterator[None]:
    """If a file cannot be written after all, report the state of the charge."""
    try:
        yield
    except OSError as error:
        place = f"path={str(error.filename)!r}: " if error.filename else ""
        raise ArgumentError(f"{place}cannot be written ({error.strerror}); {_became(ledger, request)}") from None
    except ArgumentError as error:
        raise ArgumentError(f"{error}; {_became(ledger, request)}") from None


def _became(ledger: Ledger, request: str) -> str:
    from rangebound.ledger.chain import EntryKind

    charged = any(each.kind is EntryKind.SPEND and each.request == request for each in ledger.history())
    return "the charge stands; the same request again is free" if charged else "nothing was charged"


def _write(made: Release, outputs: list[Path], certificate: Path | None) -> None:
    for path in outputs:
        made.write(path)
    if certificate is not None:
        certificate.write_text(made.certificate, encoding="utf-8")
