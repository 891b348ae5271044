"""What the questions see as their table: the engine's own, or one that the steps of the plan make of it."""

from __future__ import annotations

import pyarrow
from sqlglot import exp

from rangebound.release import make_plan
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.plan.table_schema import Family
from rangebound.release.sql.expression import column, integer
from rangebound.release.sql.group_order import Salt
from rangebound.release.sql.relation import with_columns
from rangebound.release.sql.view import view

SALT = Salt(numbers=(3, 5, 7, 11), letters="x")
COUNT = make_plan({"budget": {"epsilon": 1.0}, "query": [{"name": "n", "kind": "count"}]})


def rows(engine, seen):
    source = seen.source(SALT)
    tree = source if isinstance(source, exp.Select) else exp.select("*").from_(source)
    return engine.run(tree)


def test_a_plan_that_adds_nothing_is_about_the_engines_own_table():
    with DuckDB(pyarrow.table({"a": [1, 2]})) as engine:
        seen = view(COUNT, engine)
        assert seen.source(SALT) is engine.source
        assert seen.schema == engine.schema()


def test_made_columns_stand_beside_the_others_or_in_their_place():
    with DuckDB(pyarrow.table({"a": [1, 2], "b": ["x", "y"], "c": [[1], [2]]})) as engine:
        more = exp.Add(this=column("a"), expression=integer(1))
        beside = with_columns(view(COUNT, engine), {"a'\" d": (more, Family.INTEGER)}, engine.dialect)
        assert beside.schema == {**engine.schema(), "a'\" d": Family.INTEGER}
        assert sorted(each[-1] for each in rows(engine, beside)) == [2, 3]
        instead = with_columns(beside, {"a": (more, Family.INTEGER)}, engine.dialect)
        assert sorted(rows(engine, instead)) == [("x", 2, 2), ("y", 3, 3)]
        assert instead.schema["c"] is Family.OTHER
