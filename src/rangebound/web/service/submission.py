"""The plan that a client sends: it reads nothing but the sources of its account."""

from __future__ import annotations

import json
import tomllib
from typing import Any

from rangebound.errors import ArgumentError, PlanError
from rangebound.release.output.table import plan_from_json
from rangebound.release.plan.faults import reported
from rangebound.release.plan.key_file import files_in
from rangebound.release.plan.model import Plan
from rangebound.release.plan.toml import lines
from rangebound.values import arguments
from rangebound.web.service.settings import DataSource, Settings


def canonical_plan(plan: object) -> str:
    """A plan as it was sent, in a form that two equal ones share: the text of TOML, or an object as sorted JSON."""
    if isinstance(plan, str) and plan.strip():
        return json.dumps(plan)
    if isinstance(plan, dict) and plan:
        return json.dumps(plan, sort_keys=True)
    raise ArgumentError("plan: must be the text of a TOML file, or an object")


def source_of(plan: str) -> str | None:
    """The public name of the source that a plan names itself, in `[source] table`; None if it names none."""
    source = _fields(json.loads(plan)).get("source")
    match source:
        case None:
            return None
        case {"table": str(name)} if len(source) == 1:
            return name
    raise PlanError(
        "source: must be the public name of a source of the server, as source = {table = 'visits'}; a plan brings "
        "no path and no address here",
        field="source",
    )


def _fields(plan: object) -> dict[str, Any]:
    if isinstance(plan, dict):
        return dict(plan)
    assert isinstance(plan, str)
    try:
        return tomllib.loads(plan)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        raise PlanError("plan: not valid TOML", field="plan") from None


def confined_plan(plan: str, *, settings: Settings, account: str, source: str) -> Plan:
    """The plan that was sent, if it reads nothing but the sources of its account, and protects whom it has to.

    Guarantee: nothing on this machine is opened for it. It has no path, no address and no file of keys; it joins
    sources of the account by their public names, those as public that the server says are, and the others on their
    units; its unit is that of the source; it is charged to the account.
    """
    data = _fields(json.loads(plan))
    data.pop("source", None)
    budget = data.get("budget")
    if isinstance(budget, dict):
        if "ledger" in budget:
            raise PlanError("budget.ledger: the server has its own; leave it out", field="budget.ledger")
        if budget.get("account", account) != account:
            raise PlanError(
                f"budget.account: must be {account!r}, the one that is asked; or leave it out", field="budget.account"
            )
        data["budget"] = {**budget, "account": account}
    joins = data.get("join", [])
    for at, join in enumerate(joins if isinstance(joins, list) else []):
        if isinstance(join, dict) and "path" in join:
            rule = "a plan brings no path here; name a source of the account by table"
            raise PlanError(f"join[{at}].path: {rule}", field=f"join[{at}].path")
    text = json.loads(plan)
    if isinstance(text, str):
        with files_in(None), reported("plan", lambda: lines(text)):
            found = Plan.model_validate(data)
    else:
        try:
            found = plan_from_json(data)
        except (TypeError, RecursionError):
            raise PlanError("plan: must be a plan as an object", field="plan") from None
    own = settings.sources[source]
    _check_unit(found, own, source)
    _check_joins(found, settings, account)
    return found


def _check_unit(plan: Plan, own: DataSource, name: str) -> None:
    if plan.unit.column != own.unit:
        wanted = "single rows; leave unit out" if own.unit is None else f"the owners in column {own.unit!r}"
        raise PlanError(f"unit.column: releases of {name!r} protect {wanted}", field="unit.column")
    if (plan.unit.neighbours, plan.unit.size) != (own.neighbours, own.size):
        size = "" if own.size is None else f" and size {own.size}"
        raise PlanError(f'unit.neighbours: must be "{own.neighbours}"{size} for {name!r}', field="unit.neighbours")


def _check_joins(plan: Plan, settings: Settings, account: str) -> None:
    allowed = settings.accounts[account].sources
    for at, join in enumerate(plan.join or ()):
        field = f"join[{at}]"
        other = settings.sources[join.table] if join.table in allowed else None
        if other is None:
            rule = f"account {account!r} has no such source; it has {arguments.shown(list(allowed))}"
            raise PlanError(f"{field}.table: {rule}", field=f"{field}.table")
        if join.public != other.public:
            kind = "public" if other.public else "private"
            raise PlanError(f"{field}.public: source {join.table!r} is {kind} on this server", field=f"{field}.public")
        if not join.public and join.on.get(plan.unit.column or "") != other.unit:
            rule = f"must compare the unit with {other.unit!r}, the column of those whom {join.table!r} protects"
            raise PlanError(f"{field}.on: {rule}", field=f"{field}.on")
