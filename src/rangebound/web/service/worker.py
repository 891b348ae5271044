"""A worker process: it checks the plan of a client and says what it would give, or releases it and writes its answers.

It may be killed at any moment: the ledger is charged before a row is read, and the same request may be run again. Only
words about public facts leave here: the plan, the names and types of columns, the account. All else is raised and goes
to the error stream, which is the custodian's log, and the answer says only that the task failed.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import tomllib
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
from rangebound.ledger import ApprovalRequest, Ledger
from rangebound.ledger.chain import folded, signed
from rangebound.ledger.requests import request_of_another
from rangebound.release import Plan, Source, record, record_text, release
from rangebound.release.engine import Engine, opened
from rangebound.release.output.explain import dry_run
from rangebound.release.output.ledger_entry import check_rule, check_size
from rangebound.release.output.plan_facts import plan_from_object
from rangebound.release.output.table import Release
from rangebound.release.plan.cautions import cautions
from rangebound.release.plan.faults import reported
from rangebound.release.plan.source import files_in
from rangebound.release.plan.table_schema import TypedSchema, check_schema
from rangebound.release.plan.toml import lines
from rangebound.release.prepare import prepare, rehearse
from rangebound.release.run import demand_plan_approval, needs_approval
from rangebound.release.sql.aggregate import check_statements
from rangebound.release.sql.view import view
from rangebound.values import arguments
from rangebound.web.processes import work
from rangebound.web.service.settings import Server, Settings, read_settings

FILES = ("table.json", "table.csv", "certificate.json", "report.html", "record.yaml")
"""The answers of a release."""

Facts = dict[str, Any]

_REFUSALS = (PlanError, BudgetExceeded, RequestConflict, RequestRejected)  # and an `ArgumentError` of no finer type
_READING = "aggregating"  # what `release` calls the step after the charge
_UNAVAILABLE = "the data source cannot be used now; the custodian's log has the details"


class Refused(Exception):
    """A request that is refused in words made of public facts; nothing was charged for it."""


class FailedAfterCharge(Exception):
    """What went wrong once data were read: its words may be about them, and are for the custodian alone."""


def canonical_plan(plan: object) -> str:
    """A plan as it was sent, in a form that two equal ones share: the text of TOML, or an object as sorted JSON."""
    if isinstance(plan, str) and plan.strip():
        return json.dumps(plan)
    if isinstance(plan, dict) and plan:
        return json.dumps(plan, sort_keys=True)
    raise ArgumentError("plan: must be the text of a TOML file, or an object")


def source_of(plan: str) -> str | None:
    """The public name of the source that a plan names itself, in `[source] table`; None if it names none."""
    match _fields(json.loads(plan)).get("source"):
        case None:
            return None
        case {"table": str(name), **more} if not more:
            return name
    raise _fault(
        "source",
        "must be the public name of a source of the server, as source = {table = 'visits'}; a plan brings "
        "no path and no address here",
    )


def _fault(field: str, rule: str) -> PlanError:
    return PlanError(f"{field}: {rule}", field=field)


def _fields(plan: object) -> dict[str, Any]:
    if isinstance(plan, dict):
        return dict(plan)
    assert isinstance(plan, str)
    try:
        return tomllib.loads(plan)
    except (ValueError, RecursionError):
        raise _fault("plan", "not valid TOML") from None


def confined_plan(plan: str, *, settings: Settings, account: str, source: str) -> Plan:
    """The plan that was sent, if it reads nothing but the sources of its account, and protects whom it has to.

    Guarantee: nothing on this machine is opened for it. It has no path, no address and no file of keys; it joins
    sources of the account by their public names, those as public that the server says are, and the others on their
    units; its unit is that of the source; it is charged to the account.
    """
    text = json.loads(plan)
    data = _fields(text)
    data.pop("source", None)
    budget, joins = data.get("budget"), data.get("join")
    if isinstance(budget, dict):
        if "ledger" in budget:
            raise _fault("budget.ledger", "the server has its own; leave it out")
        if budget.get("account", account) != account:
            raise _fault("budget.account", f"must be {account!r}, the one that is asked; or leave it out")
        data["budget"] = {**budget, "account": account}
    for at, join in enumerate(joins if isinstance(joins, list) else []):
        if isinstance(join, dict) and "path" in join:
            raise _fault(f"join[{at}].path", "a plan brings no path here; name a source of the account by table")
    if isinstance(text, str):
        with files_in(None), reported("plan", lambda: lines(text)):
            found = Plan.model_validate(data)
    else:
        try:
            found = plan_from_object(data)
        except ArgumentError:
            raise
        except (TypeError, ValueError, RecursionError):  # also a date that is none
            raise _fault("plan", 'must be a plan as an object, with dates as {"date": "2025-01-31"}') from None
    own = settings.sources[source]
    if found.unit.column != own.unit:
        wanted = "single rows; leave unit out" if own.unit is None else f"the owners in column {own.unit!r}"
        raise _fault("unit.column", f"releases of {source!r} protect {wanted}")
    if (found.unit.neighbours, found.unit.size) != (own.neighbours, own.size):
        size = "" if own.size is None else f" and size {own.size}"
        raise _fault("unit.neighbours", f'must be "{own.neighbours}"{size} for {source!r}')
    _check_joins(found, settings, account)
    return found


def _check_joins(plan: Plan, settings: Settings, account: str) -> None:
    allowed = settings.accounts[account].sources
    for at, join in enumerate(plan.join or ()):
        field = f"join[{at}]"
        other = settings.sources[join.table] if join.table in allowed else None
        if other is None:
            rule = f"account {account!r} has no such source; it has {arguments.shown(list(allowed))}"
            raise _fault(f"{field}.table", rule)
        if join.public != other.public:
            kind = "public" if other.public else "private"
            raise _fault(f"{field}.public", f"source {join.table!r} is {kind} on this server")
        if not join.public and join.on.get(plan.unit.column or "") != other.unit:
            rule = f"must compare the unit with {other.unit!r}, the column of those whom {join.table!r} protects"
            raise _fault(f"{field}.on", rule)


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
        raise _fault("source", "the plan names another one than the request")
    if name is None:
        raise _fault("source", f"missing; name one of {private}, as source = {{table = {private[0]!r}}}")
    if name not in private:
        raise _fault("source", f"account {message['account']!r} has no such source to ask; it has {private}")
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
    except (*_REFUSALS, ArgumentError) as error:
        if not isinstance(error, _REFUSALS) and type(error) is not ArgumentError:
            raise
        raise Refused(public_words(server, str(error))) from None


def public_words(server: Server, words: str) -> str:
    """A message without a path or an address of this machine: one that has any is replaced as a whole."""
    return _UNAVAILABLE if any(each in words for each in server.secrets) or os.sep * 2 in words else words


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
