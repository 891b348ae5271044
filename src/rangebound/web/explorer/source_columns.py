"""The columns of a plan's table, so that a name that is not among them is said at once; no data are read."""

from __future__ import annotations

from pathlib import Path

from rangebound.errors import PlanError, RangeboundError
from rangebound.release.engine.open_engine import opened
from rangebound.release.plan.cautions import cautions
from rangebound.release.plan.model import Plan
from rangebound.release.plan.table_schema import check_schema
from rangebound.release.sql.view import view


def column_names(plan: Plan, folder: Path) -> tuple[str, ...]:
    """The names of the columns of the file that a plan names; none where it names no file, or that cannot be opened.

    Tables of a server are left alone: to ask one for its columns may take long.

    >>> from rangebound.release import parse_plan
    >>> column_names(parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]'), Path())
    ()
    """
    if plan.source is None or plan.source.path is None:
        return ()
    try:
        with opened(plan.source, folder=folder) as engine:
            return tuple(engine.schema())
    except RangeboundError:
        return ()


def check_columns(plan: Plan, folder: Path) -> str:
    """Refuse a plan whose columns are not in its file, as `rangebound plan check` does; warnings in words.

    Edge cases: nothing is checked where `column_names` has none; that a file cannot be opened is said in the words.
    """
    if plan.source is None or plan.source.path is None:
        return ""
    try:
        with opened(plan.source, folder=folder) as engine:
            seen = view(plan, engine)
            check_schema(plan, seen.schema)
            return "".join(f" Warning: {each}." for each in cautions(plan, seen.schema, seen.before_units))
    except PlanError as error:
        if error.field.startswith("source"):
            return f" The names of columns were not checked: {error}."
        raise
