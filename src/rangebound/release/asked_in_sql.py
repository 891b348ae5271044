"""A SELECT from beginning to end: translated into a plan, which is released like any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rangebound.ledger.book import Ledger
from rangebound.release.output.answer import Answer
from rangebound.release.plan.asking.translation import translate
from rangebound.release.plan.model import Plan
from rangebound.release.plan_approval import demand_plan_approval, needs_approval
from rangebound.release.run import Progress, engine_of, release
from rangebound.values import arguments


@arguments.guided
def ask(
    text: str,
    data: Any,
    *,
    plan: Plan | Mapping[str, object],
    ledger: Ledger | None,
    request: str | None = None,
    tables: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Answer:
    """Answer a SELECT privately: `rb.sql` for short.

    `plan` is the base: the privacy unit, the budget, public keys, ranges and joins; its own questions are not asked.
    `data`, `ledger`, `request` and `tables` are those of `rb.release_table`. `translate(text, plan)` shows the plan
    that would be released, with notes on what differs from other databases, and charges nothing.

    Guarantee: that of the plan, whatever the text is. No part of the text reaches an engine: it is parsed into a plan,
    and statements are written from plans alone. What is not in the subset is refused before the charge.
    Edge cases: HAVING, ORDER BY and LIMIT work on published numbers; the release has those that they leave out. The
    columns are not read before an account that needs approval has it, and names are then taken as they are written.

    >>> import pyarrow
    >>> base = {"budget": {"epsilon": 50.0}, "keys": {"clinic": ["north", "south"]}}
    >>> table = pyarrow.table({"clinic": ["north", "north", "south"]})
    >>> found = ask("SELECT clinic, COUNT(*) AS n FROM t GROUP BY clinic ORDER BY n", table, plan=base, ledger=None)
    >>> found.rows()
    [{'clinic': 'south', 'n': 1.0}, {'clinic': 'north', 'n': 2.0}]
    """
    if needs_approval(ledger, paying_account(plan)):
        asked = translate(text, plan)
        if ledger is not None and request is not None:
            with asked.pointing():
                demand_plan_approval(asked.plan, ledger=ledger, request=request)
        engine = engine_of(data)
    else:
        engine = engine_of(data)
        asked = translate(text, plan, columns=engine.schema())
    with asked.pointing():
        made = release(asked.plan, engine, ledger=ledger, request=request, tables=tables, progress=progress)
    return Answer(asked=asked, release=made)


def paying_account(base: Plan | Mapping[str, object]) -> object:
    """The account that a base plan names, which may not have been checked yet."""
    budget = base.budget if isinstance(base, Plan) else base.get("budget")
    return budget.get("account") if isinstance(budget, Mapping) else getattr(budget, "account", None)
