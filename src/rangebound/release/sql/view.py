"""What the questions of a plan see as their table, and the gate before a charge.

What they see is the engine's own table, or a selection that the steps of the plan make. Each step takes a view and
gives another; in each the table has the alias `SOURCE`, so that an expression about a column is the same tree in a step
as in a question. Every statement is written, and tried on its engine without rows, before it is paid for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from rangebound.errors import EngineError, PlanError
from rangebound.release.engine import Engine
from rangebound.release.engine.dialect import Dialect
from rangebound.release.engine.interface import Unrunnable
from rangebound.release.plan.columns import MadeColumn
from rangebound.release.plan.model import Plan
from rangebound.release.plan.table_schema import UNIT_TABLE, Family, check_made, check_unit_columns, extended
from rangebound.release.sql.joined import joined
from rangebound.release.sql.local_time import in_zone
from rangebound.release.sql.made_column import made_columns
from rangebound.release.sql.relation import View, with_columns
from rangebound.release.sql.unit_rows import unit_rows


def view(plan: Plan, engine: Engine) -> View:
    """The table that the questions of a plan are about; reads no private data.

    The steps in order: local times, joins, columns that are made of a row, one row per unit, columns that are made of
    such a row.

    Guarantee: where a plan adds nothing, the tree is the engine's own table, with no selection around it.
    """
    with not_too_deep():
        return _view(plan, engine)


def _view(plan: Plan, engine: Engine) -> View:
    _check_names(plan, engine)
    own = in_zone(engine.source, engine.schema(), plan.zone, engine.dialect)
    seen = View(schema=own.schema, source=lambda _: own.rows())
    for index, each in enumerate(plan.join or ()):
        seen = joined(seen, each, index, engine, folder=plan.folder, zone=plan.zone, unit=plan.unit.column)
    if plan.per_unit is None:
        check_made(plan, seen.schema, plan.made)
        return _with_made(seen, plan.made, engine.dialect)
    check_made(plan, seen.schema, plan.early)
    seen = _with_made(seen, plan.early, engine.dialect)
    check_unit_columns(plan, seen.schema)
    assert plan.unit.column is not None
    rows = seen.schema
    seen = unit_rows(seen, plan.unit.column, plan.of_unit, engine.dialect)
    check_made(plan, seen.schema, plan.made, UNIT_TABLE)
    return replace(_with_made(seen, plan.made, engine.dialect), before_units=rows)


def _check_names(plan: Plan, engine: Engine) -> None:
    """Refuse names of new columns that the engine cannot have, before anything is charged."""
    joined_names = [name for each in plan.join or () for name in each.columns]
    for name in (*joined_names, *plan.made_columns, *(plan.per_unit or ())):
        misfit = engine.dialect.misfit(name)
        if misfit:
            raise PlanError(f"{name!r}: {misfit}", field="plan")


def _with_made(seen: View, made: Sequence[MadeColumn], dialect: Dialect) -> View:
    """A view with made columns, in selections one above the other; its schema leaves out mere steps."""
    before, (layers, schema) = seen.schema, made_columns(seen.schema, made, dialect)
    for layer in layers:
        columns = {name: (tree, schema.get(name, Family.OTHER)) for name, tree in layer.items()}
        seen = with_columns(seen, columns, dialect)
    return View(schema=extended(before, schema), source=seen.source)


@contextmanager
def not_too_deep() -> Iterator[None]:
    """Refuse a plan whose statements have more levels than Python goes down."""
    try:
        yield
    except RecursionError:
        rule = "the columns that the plan computes from each other have too many levels for a statement"
        way = "shorten their expressions, or store some of these columns in the table"
        raise PlanError(f"columns: {rule}; {way}", field="columns") from None


def try_statements(engine: Engine, asked: Iterable[tuple[str, str, str]]) -> None:
    """Try statements on their engine as if no private table had a row, and refuse one that it cannot run.

    Each comes with the field of the plan that it is made for, the name of what it answers, and its text.

    Guarantee: no row is read, so what it refuses reveals nothing about any. What passes is the text that will be run.
    """
    for field, name, text in asked:
        try:
            engine.rehearse(text)
        except Unrunnable:
            rule = f"the engine cannot run the statement for {name!r}, whatever the table holds; this costs nothing"
            way = "shorten expressions, or use fewer keys, bins and digits"
            raise PlanError(f"{field}: {rule}; {way}", field=field) from None
        except EngineError as reason:
            raise EngineError(f"{reason}; this costs nothing", away=reason.away) from None
