"""What the questions see as their table: the engine's own, or one that the steps of the plan make of it."""

import pyarrow
from sqlglot import exp

from rangebound.release import make_plan
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.plan.table_schema import Family
from rangebound.release.sql.expression import column, integer
from rangebound.release.sql.relation import with_columns
from rangebound.release.sql.view import view
from tests.release.plans import SALT


def test_made_columns_stand_beside_the_others_or_in_their_place():
    count = make_plan({"budget": {"epsilon": 1.0}, "query": [{"name": "n", "kind": "count"}]})
    with DuckDB(pyarrow.table({"a": [1, 2], "b": ["x", "y"], "c": [[1], [2]]})) as engine:
        assert view(count, engine).source(SALT) is engine.source
        more = exp.Add(this=column("a"), expression=integer(1))
        beside = with_columns(view(count, engine), {"a'\" d": (more, Family.INTEGER)}, engine.dialect)
        assert beside.schema == {**engine.schema(), "a'\" d": Family.INTEGER}
        assert sorted(each[-1] for each in engine.run(beside.source(SALT))) == [2, 3]
        instead = with_columns(beside, {"a": (more, Family.INTEGER)}, engine.dialect)
        assert sorted(engine.run(instead.source(SALT))) == [("x", 2, 2), ("y", 3, 3)]
        assert instead.schema["c"] is Family.OTHER
