"""A release from beginning to end: check, ask for approval, charge, aggregate, draw, certify."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from rangebound.errors import ArgumentError, ArgumentTypeError, BudgetExceeded, EngineError, PlanError
from rangebound.ledger.book import Ledger
from rangebound.ledger.replay import RequestStatus
from rangebound.ledger.requests import approval_needed
from rangebound.ledger.rule import AnyCost
from rangebound.release.engine import Engine, opened
from rangebound.release.engine.dialect import Dialect
from rangebound.release.output.agreement import consistent
from rangebound.release.output.explain import rehearsed
from rangebound.release.output.ledger_entry import (
    agreed_charges,
    charge_text,
    check_rule,
    check_size,
    check_unit,
    fitting,
    without_delta,
)
from rangebound.release.output.plan_facts import PlanFacts
from rangebound.release.output.table import Release
from rangebound.release.output.table_certificate import Entry, write_certificate
from rangebound.release.plan.cautions import cautions, unread_columns, whole_quantiles
from rangebound.release.plan.model import Plan, as_plan
from rangebound.release.plan.table_schema import check_schema
from rangebound.release.prepare import answers, prepare, prepared, rehearse
from rangebound.release.sql.aggregate import aggregated, compiled, rehearse_statements
from rangebound.release.sql.relation import Salt
from rangebound.release.sql.view import view
from rangebound.sampling.entropy import secure_bits
from rangebound.values import arguments

Progress = Callable[[str], None]


@arguments.guided
def release_table(
    plan: Plan | Mapping[str, object],
    data: Any = None,
    *,
    ledger: Ledger | None,
    request: str | None = None,
    tables: Mapping[str, Any] | None = None,
    who: str | None = None,
    progress: Progress | None = None,
) -> Release:
    """Publish the table of a plan, charged to the ledger before any data are read.

    `plan` is a `Plan`, or a dict as a TOML file would give it. `data` is an engine (`DuckDB`, `Spark`) or a table in
    memory; without it the table is the one that the plan names, in its `[source]`. The charge goes to the plan's
    account of the ledger, under the id `request`; the same request again returns the same table and costs nothing more.
    `ledger=None` charges nothing and records nothing: use it for trials with made-up data only. `tables` has those that
    the joins of the plan ask for by name. The ledger notes `who` asked, by default the user of this process.

    Guarantee: (epsilon, delta)-private at the plan's budget, for all neighbouring tables; every number lies in its
    support. Neither an error after the charge nor the number of published rows depends on the data, except through
    partition selection.
    Edge cases: a release that is interrupted stays charged; run it again with the same request. There is no default
    ledger, so that nothing goes uncharged by mistake. A plan whose table might be too large for the ledger is refused;
    of privately selected keys, the first in order are published until the ledger's limit is reached. A column that may
    be text, by its name or type alone, is named in a warning before the charge. From an account that needs approval the
    first call files the request, with the dry run of the plan, and raises `ApprovalNeeded`; the same call releases once
    it is approved. Until then the data are not touched, their columns included.

    >>> import pyarrow
    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> release_table(plan, pyarrow.table({"age": [41, 27]}), ledger=None).rows()[0]["value"] >= 0
    True
    """
    plan = as_plan(plan)
    check_payer(ledger, request)
    if ledger is not None and request is not None:
        demand_plan_approval(plan, ledger=ledger, request=request, who=who)  # before the data are opened
    with table_of(plan, data) as engine:
        engine.give(tables or {})
        return _released(plan, engine, ledger, request, who, progress or (lambda _: None))


release = release_table
"""Its name in `rangebound.release`."""


def _released(
    plan: Plan, engine: Engine, ledger: Ledger | None, request: str | None, who: str | None, tell: Progress
) -> Release:
    tell("checking the plan")
    seen = view(plan, engine)
    check_schema(plan, seen.schema)
    for each in cautions(plan, seen.schema, seen.before_units):
        warnings.warn(each, stacklevel=4)  # past the decorator
    ready = prepare(plan)
    rehearse(ready)
    unread, whole = unread_columns(plan, seen.schema, seen.before_units), whole_quantiles(plan, seen.schema)
    blank = Release(plan=plan, cells=(), mechanisms=ready.mechanisms, tables=ready.tables, unread=unread, whole=whole)
    room = None if ledger is None else check_size(ready, blank)
    asked = compiled(plan, engine, Salt.draw(secure_bits), ready.hidden)
    if ledger is not None and request is not None and ledger.published(request) is None:
        rehearse_statements(plan, engine, asked)

    def compute() -> bytes:
        tell("aggregating")
        found = aggregated(plan, engine, asked)
        tell("drawing")
        cells = answers(ready, *found, whole=whole)
        cells = cells if room is None else fitting(ready, cells, room)
        cells = consistent(plan, cells) if plan.consistent else cells
        return replace(blank, cells=tuple(cells)).to_bytes()

    entry: Entry | None = None
    costs: tuple[AnyCost, ...] = ()
    payer = paying(plan, ledger, request, "release")
    if payer is not None:
        check_rule(ready, payer.ledger.account(payer.account))
        costs = agreed_charges(ready, payer.ledger, payer.account, payer.request)
    published = charged(plan, compute, payer, cost=costs, what=charge_text(plan), who=who)
    if payer is not None:
        promise = payer.ledger.account(payer.account).weaker_promise
        entry = Entry(account=payer.account, request=payer.request, head=payer.ledger.head, promise=promise)
    made = Release.from_bytes(published)
    if made.tables:  # a request that was published before keeps the tables that it was drawn from
        ready = prepared(plan, ready.allocation, made.tables)
    return replace(made, certificate=write_certificate(made, ready, entry))


def needs_approval(ledger: Ledger | None, account: object) -> bool:
    """Whether nothing may be charged to an account, or read for it, before a person has approved it."""
    known = [] if ledger is None else ledger.accounts()
    return any(each.name == account and each.approval is not None for each in known)


def is_approved(ledger: Ledger, request: str | None) -> bool:
    """Whether a request was filed and approved."""
    return any(each.request == request and each.status is RequestStatus.APPROVED for each in ledger.requests())


def demand_plan_approval(plan: Plan, *, ledger: Ledger, request: str, who: str | None = None) -> None:
    """File the request of a plan whose account needs approval, and raise `ApprovalNeeded` until it is approved.

    The request is kept with the plan and its dry run, as JSON; accounts that need no approval pass. Touches no data:
    the plan is checked by itself, and whether it fits the columns of its table is checked once it is approved.

    Guarantee: returns only if exactly this plan, at exactly this cost, may be charged under this id.
    Raises: `ApprovalNeeded` as long as it waits, `RequestRejected`, `RequestConflict` for an id of something else,
    `BudgetExceeded`, and `PlanError` for a plan that could not be released anyway.
    """
    account = plan.budget.account
    if account is None or not needs_approval(ledger, account):
        return
    ready = prepare(plan)
    rehearse(ready)
    check_size(ready)
    paying = ledger.account(account)
    check_rule(ready, paying)
    shown = json.dumps(
        {"plan": plan.to_toml(), **rehearsed(PlanFacts(ready=ready), paying)}, indent=1, ensure_ascii=False
    )
    try:
        filed = ledger.file_request(
            account=account,
            request=request,
            cost=agreed_charges(ready, ledger, account, request),
            what=charge_text(plan),
            dry_run=shown.encode(),
            who=who,
            check=lambda history: check_unit(plan, history),
        )
    except BudgetExceeded as reason:
        raise without_delta(reason, ledger.account(account)) from None
    if filed.status is not RequestStatus.APPROVED:
        raise approval_needed(account, request, filed=True)


def check_payer(ledger: object, request: object) -> None:
    """Refuse what is not a ledger, and an id of a charge without one."""
    if ledger is not None and not isinstance(ledger, Ledger):
        raise ArgumentTypeError(
            f"ledger of type {type(ledger).__name__}: must be a Ledger, such as rb.Ledger.open(path); "
            "or None, which charges nothing, for trials"
        )
    if ledger is None and request is not None:
        raise ArgumentError(f"request={arguments.shown(request)}: needs a ledger; a request is the id of a charge")


@dataclass(frozen=True, kw_only=True)
class Payer:
    """What pays: an account of a ledger, under the id of a request."""

    ledger: Ledger
    account: str
    request: str


def paying(plan: Plan, ledger: Ledger | None, request: str | None, what: str) -> Payer | None:
    """The account of a plan that pays for `what`, under an id that must be given; None without a ledger."""
    if ledger is None:
        return None
    if plan.budget.account is None:
        rule = 'is missing; name the account of the ledger that pays, such as account = "people"'
        raise PlanError(f"budget.account: {rule}", field="budget.account")
    if request is None:
        raise ArgumentError(f"request=None: must be an id of this {what}; the same id is charged once")
    return Payer(ledger=ledger, account=plan.budget.account, request=request)


def charged(
    plan: Plan,
    compute: Callable[[], bytes],
    payer: Payer | None,
    *,
    cost: AnyCost | tuple[AnyCost, ...],
    what: str,
    who: str | None = None,
) -> bytes:
    """What `compute` gives, charged before it is called, and kept by the ledger under the payer's request.

    Guarantee: the same request again gives the same bytes, and costs nothing more. An account that has paid for another
    unit is refused. Without a payer nothing is charged.
    """
    if payer is None:
        return compute()

    def paid(_: AnyCost) -> bytes:
        try:
            return compute()
        except EngineError as reason:
            words = f"{reason}; the charge stands, and the same request again is free"
            raise EngineError(words, away=reason.away) from None

    try:
        return payer.ledger.release(
            account=payer.account,
            request=payer.request,
            cost=cost,
            compute=paid,
            what=what,
            who=who,
            check=lambda history: check_unit(plan, history),
        )
    except BudgetExceeded as reason:
        raise without_delta(reason, payer.ledger.account(payer.account)) from None


def table_of(plan: Plan, data: Any) -> AbstractContextManager[Engine]:
    """An engine with the data; without any, with the table of the plan's own source, which is closed at the end."""
    if data is not None:
        return nullcontext(engine_of(data))
    if plan.source is None or plan.folder is None:
        raise ArgumentError("data=None: must be a table or an engine; or name it in the plan, as [source] with a path")
    return opened(plan.source, folder=plan.folder)


def engine_of(data: Any) -> Engine:
    """An engine as it is, or DuckDB with a table in memory."""
    from rangebound.release.engine.duckdb import DuckDB

    return data if isinstance(getattr(data, "dialect", None), Dialect) else DuckDB(data)
