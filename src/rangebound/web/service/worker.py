"""A worker process: it checks a plan and says what it would give, or releases it and writes its answers.

It may be killed at any moment: the ledger is charged before a row is read, and the same request may be run again. Only
words about public facts leave here: the plan, the names and types of columns, the account. All else is raised and goes
to the error stream, which is the custodian's log, and the answer says only that the task failed.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rangebound.errors import (
    ApprovalNeeded,
    ArgumentError,
    BudgetExceeded,
    EngineError,
    LedgerUnavailable,
    PlanError,
    RangeboundError,
    RequestConflict,
    RequestRejected,
)
from rangebound.ledger.approval import folded
from rangebound.ledger.book import Ledger
from rangebound.ledger.guarded_chain import signed
from rangebound.ledger.record import ApprovalRequest
from rangebound.ledger.requests import request_of_another
from rangebound.release import release
from rangebound.release.engine import Engine
from rangebound.release.engine.open_engine import opened
from rangebound.release.output.deployment_record import record, record_text
from rangebound.release.output.explain import dry_run
from rangebound.release.output.ledger_entry import check_rule, check_size
from rangebound.release.output.table import Release
from rangebound.release.plan.cautions import cautions
from rangebound.release.plan.model import Plan
from rangebound.release.plan.source import Source
from rangebound.release.plan.table_schema import TypedSchema, check_schema
from rangebound.release.prepare import prepare, rehearse
from rangebound.release.run import demand_plan_approval, needs_approval
from rangebound.release.sql.aggregate import check_statements
from rangebound.release.sql.view import view
from rangebound.web.processes import work
from rangebound.web.service.settings import Server, read_settings
from rangebound.web.service.submission import confined_plan, source_of

FILES = ("table.json", "table.csv", "certificate.json", "report.html", "record.yaml")
"""The answers of a release."""

Facts = dict[str, Any]

_REFUSALS = (PlanError, BudgetExceeded, RequestConflict, RequestRejected)
_READING = "aggregating"  # what `release` calls the step after the charge
_UNAVAILABLE = "the data source cannot be used now; the custodian's log has the details"


class Refused(Exception):
    """A request that is refused in words made of public facts; nothing was charged for it."""


class FailedAfterCharge(Exception):
    """What went wrong once data were read: its words may be about them, and are for the custodian alone."""


def check(server: Server, ledger: Ledger, message: Mapping[str, Any]) -> Facts:
    """Check a plan, and say what it would give. No row is read, and where its account needs approval, no column."""
    with refusing(server):
        source = _source(server, message)
        plan = confined_plan(message["plan"], settings=server.settings, account=message["account"], source=source)
        ready = prepare(plan)
        rehearse(ready)
        check_size(ready)
        check_rule(ready, ledger.account(message["account"]))
        facts: Facts = {"source": source, "cost": str(plan.budget)}
        facts |= dry_run(plan) if message.get("dry_run") else {}
    if needs_approval(ledger, message["account"]):
        return facts | {"notes": ["the columns of the table are looked at once a request is approved"]}
    with _engine(server, plan, source) as engine, refusing(server):
        seen = view(plan, engine)
        check_schema(plan, seen.schema)
        check_statements(plan, engine)
        return facts | {"notes": list(cautions(plan, seen.schema, seen.before_units))}


def columns(server: Server, _: Ledger, message: Mapping[str, Any]) -> Facts:
    """The names of the columns of a source, and the families of their types; no row is read."""
    with opened(server.source(message["source"])) as engine:
        schema = engine.schema()
    own = schema.types if isinstance(schema, TypedSchema) else {}
    return {"columns": {column: own.get(column, family.value) for column, family in schema.items()}}


def run(server: Server, ledger: Ledger, message: Mapping[str, Any]) -> Facts:
    """Release a plan and write its answers; or file the request where its account needs approval."""
    account, request = message["account"], message["request"]
    with refusing(server):
        plan = confined_plan(message["plan"], settings=server.settings, account=account, source=message["source"])
        if _waits(ledger, plan, message):
            return {"waiting": True}
    with _engine(server, plan, message["source"]) as engine, refusing(server), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the dry run has them
        steps: list[str] = []
        try:
            who = named(ledger, message["who"])
            made = release(plan, engine, ledger=ledger, request=request, who=who, progress=steps.append)
        except RangeboundError as error:
            read = _READING in steps and not isinstance(error, LedgerUnavailable)
            if read or (isinstance(error, ArgumentError) and ledger.paid(request) is not None):  # by an earlier attempt
                raise FailedAfterCharge from error
            raise
    write_answers(made, server.folder / "answers" / message["folder"])
    return {"published": True}


def _waits(ledger: Ledger, plan: Plan, message: Mapping[str, Any]) -> bool:
    """Whether the request has to wait where its account needs approval; it is filed where it is new.

    One that was rejected waits too: who looks for the decision finds it. One that is approved is not for others than
    those who asked, such as by another server of the same ledger.
    """
    request, who = message["request"], message["who"]
    try:
        demand_plan_approval(plan, ledger=ledger, request=request, who=named(ledger, who))
    except (ApprovalNeeded, RequestRejected):
        return True
    asked = filed(ledger, message["account"], request)
    own = (named(ledger, who), who, signed(ledger.login, who))  # here, in a file before, and by version 0.2
    if asked is not None and folded(asked.who) not in map(folded, own) and ledger.paid(request) is None:
        raise request_of_another(request, asked.who)
    return False


def named(ledger: Ledger, who: str) -> str:
    """A person as a server has them noted: in a database after its login, whatever user of the system it runs as."""
    return who if ledger.login is None else f"{ledger.login}/{who}"


def filed(ledger: Ledger, account: str, request: str) -> ApprovalRequest | None:
    """A request for approval by its id."""
    return next((each for each in ledger.requests(account) if each.request == request), None)


def write_answers(made: Release, folder: Path) -> None:
    """Write what a release has to give, all of it or nothing; what is there already stays."""
    if folder.exists():
        return
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="new-", dir=folder.parent))
    try:
        for name in ("table.json", "table.csv", "report.html"):
            made.write(place / name)
        (place / "certificate.json").write_text(made.certificate, encoding="utf-8")
        found = record(made.plan, certificate=made.certificate)  # an account would tell of other releases
        (place / "record.yaml").write_text(record_text(found, also=" and certificate"), encoding="utf-8")
        place.rename(folder)
    except OSError:
        shutil.rmtree(place, ignore_errors=True)
        if not folder.exists():  # another worker was first
            raise


def _source(server: Server, message: Mapping[str, Any]) -> str:
    """The public name of the source that a plan is about: given beside it, or in it."""
    allowed = server.settings.accounts[message["account"]].sources
    private = [each for each in allowed if not server.settings.sources[each].public]
    own = source_of(message["plan"])
    name = message.get("source") or own or (private[0] if len(private) == 1 else None)
    if own is not None and name != own:
        raise PlanError("source: the plan names another one than the request", field="source")
    if name is None:
        raise PlanError(
            f"source: missing; name one of {private}, as source = {{table = {private[0]!r}}}", field="source"
        )
    if name not in private:
        raise PlanError(
            f"source: account {message['account']!r} has no such source to ask; it has {private}", field="source"
        )
    return str(name)


@contextmanager
def _engine(server: Server, plan: Plan, name: str) -> Iterator[Engine]:
    """The engine of a source, with those that the plan joins; a failure to open it is for the custodian alone."""
    source, settings = server.source(name), server.settings.release
    files = source.path is not None
    own = {"threads": settings.threads, "memory": settings.memory} if files else {}
    timeout = settings.time if source.postgres is not None else None
    given: dict[str, Source] = {}
    for join in plan.join or ():
        other = server.source(join.table or "")
        if files and other.path is not None:
            given[join.table or ""] = other
        elif files or (other.postgres, other.spark, other.table) != (source.postgres, source.spark, join.table):
            raise Refused(f"join: {join.table!r} cannot be joined with {name!r} on this server")
    with opened(source, timeout=timeout, **own) as engine:  # type: ignore[arg-type]
        engine.give(given)
        yield engine


@contextmanager
def refusing(server: Server) -> Iterator[None]:
    """Turn errors about the plan and the account into a refusal; one that names a place of this machine is withheld."""
    try:
        yield
    except _REFUSALS as error:
        raise Refused(public_words(server, str(error))) from None
    except ArgumentError as error:
        if type(error) is not ArgumentError:
            raise
        raise Refused(public_words(server, str(error))) from None


def public_words(server: Server, words: str) -> str:
    """A message without a path or an address of this machine: one that has any is replaced as a whole."""
    return _UNAVAILABLE if any(each in words for each in server.secrets()) or os.sep * 2 in words else words


TASKS: Mapping[str, Callable[[Server, Ledger, Mapping[str, Any]], Facts]] = {
    "check": check,
    "run": run,
    "columns": columns,
}
"""What a worker can do."""


def answer(server: Server, ledger: Ledger, message: Mapping[str, Any]) -> dict[str, Any]:
    """Do a task; every outcome is an answer."""
    try:
        return {"ok": True, **TASKS[message["do"]](server, ledger, message)}
    except Refused as refusal:
        return {"ok": False, "refused": str(refusal)}
    except Exception as error:
        sys.stderr.write(f"{message.get('do')} {message.get('request', '')}\n{traceback.format_exc()}")
        sys.stderr.flush()
        return {"ok": False, "away": _is_away(error), "lost": _is_away(error.__cause__)}


def _is_away(error: BaseException | None) -> bool:
    """Whether the ledger or the data source could not be reached, which no request can help; behind an error after the
    charge, whether it was lost in the middle."""
    return isinstance(error, LedgerUnavailable) or (isinstance(error, EngineError) and error.away)


@contextmanager
def _opened(config: str) -> Iterator[Callable[[Mapping[str, Any]], dict[str, Any]]]:
    server = read_settings(config)
    with Ledger.open(server.ledger, key=server.key) as ledger:
        yield partial(answer, server, ledger)


if __name__ == "__main__":
    work(_opened(sys.argv[1]))
