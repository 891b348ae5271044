"""What the questions of a plan see as their table: the engine's own, or a selection that the steps of the plan make.

Each step takes a view and gives another; in each the table has the alias `SOURCE`, so that an expression about a column
is the same tree in a step as in a question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from rangebound.errors import PlanError
from rangebound.release.engine import Engine
from rangebound.release.plan.column_declaration import MadeColumn
from rangebound.release.plan.model import Plan
from rangebound.release.plan.table_schema import UNIT_TABLE, Family, check_made, check_unit_columns, extended
from rangebound.release.sql.expression import Tree, column
from rangebound.release.sql.group_order import Salt
from rangebound.release.sql.joined import joined
from rangebound.release.sql.made_column import made_columns
from rangebound.release.sql.relation import View, aliased, star
from rangebound.release.sql.unit_rows import unit_rows


def view(plan: Plan, engine: Engine) -> View:
    """The table that the questions of a plan are about; reads no private data.

    The steps in order: joins, columns that are made of a row, one row a unit, columns that are made of such a row.

    Guarantee: where a plan adds nothing, the tree is the engine's own table, with no selection around it.
    """
    _check_names(plan, engine)
    table = engine.source
    seen = View(schema=engine.schema(), source=lambda _: table)
    for index in range(len(plan.join or ())):
        seen = joined(seen, plan, index, engine)
    if plan.per_unit is None:
        check_made(plan, seen.schema, plan.made)
        return _with_made(seen, plan.made)
    check_made(plan, seen.schema, plan.early)
    seen = _with_made(seen, plan.early)
    check_unit_columns(plan, seen.schema)
    assert plan.unit.column is not None
    seen = unit_rows(seen, plan.unit.column, plan.of_unit, engine.dialect)
    check_made(plan, seen.schema, plan.made, UNIT_TABLE)
    return _with_made(seen, plan.made)


def _check_names(plan: Plan, engine: Engine) -> None:
    """Refuse names of new columns that Spark would replace by settings of its machine, before anything is charged."""
    joined_names = [name for each in plan.join or () for name in each.columns]
    for name in (*joined_names, *plan.made_columns, *(plan.per_unit or ())):
        if engine.dialect == "spark" and "${" in name:
            raise PlanError(f"{name!r}: the name of a column must not hold '${{', which Spark replaces", field="plan")


def _with_made(seen: View, made: Sequence[MadeColumn]) -> View:
    """A view with made columns, in selections one above the other; its schema leaves out mere steps."""
    before, (layers, schema) = seen.schema, made_columns(seen.schema, made)
    for layer in layers:
        seen = with_columns(seen, {name: (tree, schema.get(name, Family.OTHER)) for name, tree in layer.items()})
    return View(schema=extended(before, schema), source=seen.source)


def with_columns(seen: View, made: Mapping[str, tuple[Tree, Family]]) -> View:
    """A view with further columns, each an expression over the columns of a row and its family.

    A made column takes the place of one that has its name. Every row stays, so what one unit can change stays too.
    Edge cases: columns of family OTHER are carried along only where no column is replaced; no statement reads them.
    """
    if not made:
        return seen
    schema = extended(seen.schema, {name: family for name, (_, family) in made.items()})
    kept: list[Tree] = [star()]
    if not made.keys().isdisjoint(seen.schema):
        names = [name for name, family in seen.schema.items() if family is not Family.OTHER and name not in made]
        kept = [column(name) for name in names]

    def source(salt: Salt) -> exp.Select:
        chosen = [exp.alias_(tree.copy(), name, quoted=True) for name, (tree, _) in made.items()]
        return exp.select(*(each.copy() for each in kept), *chosen, copy=False).from_(
            aliased(seen.source(salt)), copy=False
        )

    return View(schema=schema, source=source)
