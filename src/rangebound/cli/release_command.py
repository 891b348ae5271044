"""`rangebound release` and `demo`: publish a table, try one; the ledger that pays is opened before the table."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import rangebound as rb
from rangebound.cli import printing
from rangebound.cli.options import (
    DryRun,
    Interrupted,
    Json,
    KeyFile,
    LedgerFile,
    PlanFile,
    Request,
    check_files,
    option,
    taking,
    write_new,
)
from rangebound.errors import ApprovalNeeded, ArgumentError, LedgerUnavailable, RangeboundError, plain
from rangebound.values.postgres_address import is_address

if TYPE_CHECKING:
    from rangebound.cli.printing import Charge
    from rangebound.release.engine import Engine
    from rangebound.release.engine.duckdb import DuckDB
    from rangebound.release.engine.postgres import Postgres
    from rangebound.release.engine.spark import Spark
    from rangebound.release.sql.relation import View

_BLINK = 0.5  # seconds between two updates of the progress of a scan


def _size(memory: str | None) -> str | None:
    """A size of memory as it is given, if it is one."""
    if memory is not None and not re.fullmatch(r"\d+(\.\d+)? ?([KMGT]i?)?B", memory, re.IGNORECASE):
        raise ArgumentError(f"memory={memory!r}: must be a size, such as 4GB")
    return memory


_WRITTEN = "A file to write: .csv, .csv-metadata.json, .parquet, .xlsx, .json or .html; may be repeated."
_DEPLOYED = "Where to write the record for the registry of deployments, a .yaml file."
_SHEET = "Where to write the fact sheet on the topics of NIST SP 800-226, a .md file."
_SPARK = "The Spark Connect server, in place of the plan's: sc://host."
_POSTGRES = "The PostgreSQL database, in place of the plan's: postgresql://host/database, or service=NAME."


@dataclass(frozen=True, kw_only=True)
class Publishing:
    """What every release of a table is asked: who pays, what is written, and with what the table is read."""

    request: Request = None
    ledger: LedgerFile = None
    key: KeyFile = None
    output: Annotated[list[Path] | None, option(_WRITTEN, "--output", "-o")] = None
    certificate: Annotated[Path | None, option("Where to write the certificate.")] = None
    record: Annotated[Path | None, option(_DEPLOYED, "--record")] = None
    fact_sheet: Annotated[Path | None, option(_SHEET, "--fact-sheet")] = None
    threads: Annotated[int | None, option("Threads of the engine.", min=1)] = None
    memory: Annotated[str | None, option("Memory limit of the engine, such as 4GB.", callback=_size)] = None
    spark: Annotated[str | None, option(_SPARK, metavar="ADDRESS")] = None
    postgres: Annotated[str | None, option(_POSTGRES, metavar="ADDRESS")] = None
    timeout: Annotated[float | None, option("How long a statement of PostgreSQL may take.", metavar="SECONDS")] = None

    def opened(self, source: rb.release.Source, folder: Path) -> AbstractContextManager[DuckDB | Postgres | Spark]:
        """The table; its path is relative to a folder."""
        from rangebound.release.engine import opened

        limits: dict[str, Any] = {"threads": self.threads, "memory": self.memory, "timeout": self.timeout}
        return opened(source, folder=folder, spark=self.spark, postgres=self.postgres, **limits)

    def check_records(self) -> None:
        """Refuse a record or a fact sheet of another kind, or that exists, before anything is charged.

        People fill them in by hand, so neither ever replaces a file.
        """
        asked = ("record", self.record, (".yaml", ".yml")), ("fact_sheet", self.fact_sheet, (".md",))
        for name, path, endings in asked:
            if path is not None and path.suffix.lower() not in endings:
                raise ArgumentError(f"{name}={str(path)!r}: must end in {' or '.join(endings)}")
            if path is not None and path.exists():
                raise ArgumentError(f"{name}={str(path)!r}: exists already, and may be filled in; name a new file")

    def write_records(
        self,
        plan: rb.Plan,
        *,
        certificate: str = "",
        entry: rb.ledger.Record | None = None,
        account: rb.ledger.Account | None = None,
    ) -> None:
        """Write the record and the fact sheet where they are asked for, of what is known."""
        if self.record is not None:
            found = rb.release.record(plan, certificate=certificate, entry=entry, account=account)
            write_new(self.record, rb.release.record_text(found, also=", certificate and ledger" if entry else ""))
        if self.fact_sheet is not None:
            sheet = rb.release.fact_sheet(plan, certificate=certificate, entry=entry, account=account)
            write_new(self.fact_sheet, rb.release.fact_sheet_text(sheet, plan.title))


@taking(Publishing)
def release(asked: Publishing, plan: PlanFile, dry_run: DryRun = False, json: Json = False) -> None:
    """Publish the table of a plan, charged to a ledger first.

    From an account that needs approval, the first run files a request with the dry run and exits with code 3; the same
    command publishes once it is approved. The table is not opened before.
    """
    from rangebound.release.output.plan_facts import plan_facts
    from rangebound.release.plan.toml import pointing

    found = rb.read_plan(plan)
    if found.source is None:
        raise ArgumentError("source: missing; name the table in the plan, as [source] with a path")
    folder = plan.parent  # paths in a plan are relative to its own folder, those on the command line to the current one
    place = ledger_place(found.budget.ledger, plan, asked.ledger)
    asked.check_records()
    if dry_run:
        with pointing(plan), consulted(place, asked.key) as known:
            account = account_in(known, found.budget.account)
            asked.write_records(found, account=account)
            if is_closed(known, found.budget.account, asked.request):
                facts = {"dry_run": True, "approval": "needed"}
                return printing.forecast(plan_facts(found), facts, account=account, as_json=json)
            with asked.opened(found.source, folder) as engine:
                check_table(found, engine)
                return printing.forecast(plan_facts(found), {"dry_run": True}, account=account, as_json=json)
    with pointing(plan), paying(place, asked.key, asked.request, found) as book:
        ask_first(found, book, json=json)
        with asked.opened(found.source, folder) as engine:
            made, charge = publish(found, engine, book, asked, plan=plan, json=json)
    return printing.table(made, charge, as_json=json)


@dataclass(frozen=True, kw_only=True)
class PayingLedger:
    """The ledger that is charged, under the id `request`; `files` are its own, which no output may replace."""

    ledger: rb.Ledger
    request: str
    files: tuple[Path, ...]


def ledger_place(named: object, plan: Path, ledger: str | None) -> str | None:
    """Where the ledger is: as the command line says, else as the plan does, relative to the plan's folder unless it
    is an address."""

    if ledger or not isinstance(named, str) or not named:
        return ledger or None
    return named if is_address(named) else str(plan.parent / named)


@contextmanager
def paying(
    place: str | None, key: Path | None, request: str | None, plan: rb.Plan | None = None
) -> Iterator[PayingLedger]:
    """The ledger that is charged, opened; it and the id of the charge must be given.

    Edge cases: where there is none, the error has the command that makes it for the account of a `plan`.
    """
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
    with rb.Ledger.open(place, key=key) as opened:
        yield PayingLedger(ledger=opened, request=request, files=rb.ledger.ledger_files(place, key=key))


@contextmanager
def consulted(place: str | None, key: Path | None) -> Iterator[rb.Ledger | None]:
    """The ledger for a dry run, which charges nothing: None where there is none, or it cannot be read."""
    with ExitStack() as stack:
        opened = None
        with suppress(RangeboundError):
            opened = None if place is None else stack.enter_context(rb.Ledger.open(place, key=key))
        yield opened


def account_in(ledger: rb.Ledger | None, name: object) -> rb.ledger.Account | None:
    """The account with a name, if there is such a ledger and it has one."""
    return next((each for each in ([] if ledger is None else ledger.accounts()) if each.name == name), None)


def is_closed(ledger: rb.Ledger | None, account: object, request: str | None) -> bool:
    """Whether a table may not even be opened, because its account needs approval that was not given."""
    from rangebound.release.run import is_approved, needs_approval

    return ledger is not None and needs_approval(ledger, account) and not is_approved(ledger, request)


def ask_first(plan: rb.Plan, book: PayingLedger, *, json: bool) -> None:
    """File the request of a plan that needs approval and does not have it, and show its dry run; the error says so."""
    from rangebound.release.output.plan_facts import plan_facts
    from rangebound.release.run import demand_plan_approval

    try:
        demand_plan_approval(plan, ledger=book.ledger, request=book.request)
    except ApprovalNeeded as error:
        facts = {"dry_run": True, "account": error.account, "request": error.request, "status": "waiting"}
        paying = account_in(book.ledger, error.account)
        printing.forecast(plan_facts(plan), facts, account=paying, as_json=json)
        raise


def check_table(found: rb.Plan, engine: Engine) -> None:
    """Check a plan and its statements against its table, of which the schema alone is read, and show the cautions."""
    from rangebound.release.plan.table_schema import check_schema
    from rangebound.release.sql.aggregate import check_statements
    from rangebound.release.sql.view import view

    seen = view(found, engine)
    check_schema(found, seen.schema)
    check_statements(found, engine)
    warn(found, seen)


def warn(plan: rb.Plan, seen: View) -> None:
    """Warnings before a charge, on standard error."""
    from rangebound.release.plan.cautions import cautions

    for each in cautions(plan, seen.schema, seen.before_units):
        sys.stderr.write(f"warning: {plain(each)}\n")


def publish(
    found: rb.Plan, engine: DuckDB | Postgres | Spark, book: PayingLedger, asked: Publishing, *, plan: Path, json: bool
) -> tuple[rb.release.Release, Charge]:
    """The release of a plan that was read from a file, with its outputs written, and what it has cost."""
    from rangebound.release.output.table import writable

    ledger, request, output = book.ledger, book.request, asked.output or []
    others = [each for each in (asked.certificate, asked.record, asked.fact_sheet) if each is not None]
    outputs, files = [*map(writable, output), *others], [plan, *book.files, *_table_files(found, plan.parent)]
    check_files(outputs, files)
    with stopping(ledger, request):
        before = ledger.published(request) is not None
        made = _made(found, engine, ledger, request, quiet=json)
        charge = printing.charge(ledger, request, before=before, account=found.budget.account or "")
        with _still_charged(ledger, request):
            check_files(outputs, files)
            _write(made, output, asked.certificate)
            paid = ledger.paid(request)
            asked.write_records(found, certificate=made.certificate, entry=paid, account=charge.account)
    return made, charge


def demo(
    folder: Annotated[Path, typer.Option(help="Where to write the table, the ledger and the report.")] = Path(
        "out/demo"
    ),
    json: Json = False,
) -> None:
    """Publish a made-up table of clinic visits, with a report."""
    from rangebound.release import demo as clinic
    from rangebound.release.engine.duckdb import DuckDB

    place = folder / os.urandom(4).hex()
    place.mkdir(parents=True)
    (place / clinic.TABLE).write_text(clinic.table(), encoding="utf-8")
    (place / "plan.toml").write_text(clinic.plan(), encoding="utf-8")
    plan = rb.read_plan(place / "plan.toml")
    with (
        rb.Ledger.create(place / clinic.LEDGER) as ledger,
        DuckDB(rb.release.Source(path=str(place / clinic.TABLE))) as engine,
    ):
        ledger.open_account("clinics", epsilon=2 * Decimal(repr(plan.budget.epsilon)))  # enough for a second one
        made = _made(plan, engine, ledger, "demo", quiet=json)
        charge = printing.charge(ledger, "demo", before=False, account="clinics")
        written = Publishing(record=place / "record.yaml", fact_sheet=place / "fact-sheet.md")
        written.write_records(plan, certificate=made.certificate, entry=ledger.paid("demo"), account=charge.account)
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


def _made(
    plan: rb.Plan, engine: DuckDB | Postgres | Spark, ledger: rb.Ledger, request: str, *, quiet: bool
) -> rb.release.Release:
    """The release, with its progress on a terminal: its duration depends on the data and is for the custodian alone."""
    from rich.console import Console

    from rangebound.release.sql.view import view

    warn(plan, view(plan, engine))
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
                return rb.release.release(plan, engine, ledger=ledger, request=request, progress=status.update)
        finally:
            ended.set()
            watcher.join()


def _table_files(plan: rb.Plan, folder: Path) -> list[Path]:
    """The files of a plan's tables, where they are files, and the log that DuckDB keeps beside its own."""
    own = folder / plan.source.path if plan.source and plan.source.path else None
    joined = [folder / each.path for each in plan.join or () if each.path is not None]
    return [*([own, own.with_name(own.name + ".wal")] if own else []), *joined]


@contextmanager
def stopping(ledger: rb.Ledger, request: str) -> Iterator[None]:
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
def _still_charged(ledger: rb.Ledger, request: str) -> Iterator[None]:
    """If a file cannot be written after all, report the state of the charge."""
    try:
        yield
    except OSError as error:
        place = f"path={str(error.filename)!r}: " if error.filename else ""
        raise ArgumentError(f"{place}cannot be written ({error.strerror}); {_became(ledger, request)}") from None
    except ArgumentError as error:
        raise ArgumentError(f"{error}; {_became(ledger, request)}") from None


def _became(ledger: rb.Ledger, request: str) -> str:
    charged = ledger.paid(request) is not None
    return "the charge stands; the same request again is free" if charged else "nothing was charged"


def _write(made: rb.release.Release, outputs: list[Path], certificate: Path | None) -> None:
    for path in outputs:
        made.write(path)
    if certificate is not None:
        certificate.write_text(made.certificate, encoding="utf-8")
