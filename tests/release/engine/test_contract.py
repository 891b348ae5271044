"""What every engine must meet: the same exact numbers, whatever is in a table, and no word of the data in an error.

A new engine is a subclass with a method that brings a table along.
"""

import random

import pyarrow as pa
import pytest
from sqlglot import exp

from rangebound.errors import EngineError, PlanError
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.engine.spark import Spark
from rangebound.release.plan.table_schema import Family, check_schema
from rangebound.release.plan.toml import make_plan
from rangebound.release.sql.view import view
from tests.release import reference, row_oracle
from tests.release.engine.test_engines import PLANS, arrow, bounded, found, make_rows, with_spring
from tests.release.plans import KINDS, SALT
from tests.release.postgres_tables import on_postgres
from tests.release.sql import test_joined, test_made_column, test_unit_rows


class EngineContract:
    """The tests of an engine, which `engine` makes of an Arrow table."""

    def engine(self, table):
        """The engine with a table of its own."""
        raise NotImplementedError

    @pytest.mark.parametrize(
        "name", ["people, private keys", "rows, public keys", "names, many keys", "conditions", "conversions"]
    )
    def test_it_finds_what_the_reference_finds(self, name):
        plan, rows = make_plan(PLANS[name]), make_rows(400)
        with self.engine(arrow(rows)) as engine:
            check_schema(plan, engine.schema())
            assert found(plan, engine) == reference.aggregates(plan, rows, SALT)

    kinds = KINDS

    def test_questions_have_contribution_bounds_of_their_own(self):
        plan, rows = bounded(2, self.kinds), with_spring(300)
        with self.engine(arrow(rows)) as engine:
            assert found(plan, engine) == reference.aggregates(plan, rows, SALT)

    def test_an_empty_table_has_answers(self):
        plan = make_plan(PLANS["people, public keys"])
        with self.engine(arrow([])) as engine:
            assert found(plan, engine) == reference.aggregates(plan, [], SALT)

    def test_its_schema_is_that_of_duckdb(self):
        table = arrow(make_rows(5))
        with self.engine(table) as engine, DuckDB(table) as other:
            assert engine.schema() == other.schema()

    def test_every_function_has_the_values_of_another_evaluator(self):
        """One statement with many expressions."""
        rows = row_oracle.rows(random.Random(3), 40)
        with self.engine(test_made_column.table(rows)) as engine:
            test_made_column.check(engine, test_made_column.every_function(), rows)

    def test_the_row_of_each_unit_is_the_same_to_the_last_bit(self):
        data = pa.Table.from_pandas(test_unit_rows.some_rows(random.Random(9), 120), preserve_index=False)
        with self.engine(data) as engine, DuckDB(data) as other:
            expected = test_unit_rows.seen(test_unit_rows.plan_with(), other)
            assert test_unit_rows.seen(test_unit_rows.plan_with(), engine) == expected

    def test_public_tables_in_memory_are_joined(self):
        own, public = {"person": [1, 2, 3], "region": ["a", "ü", None]}, {"region": ["a", "ü"], "size": [7, None]}
        join = {"table": "t", "public": True, "on": ["region"], "columns": ["size"]}
        plan = test_joined.plan_with(join)
        with self.engine(pa.table(own)) as engine:
            engine.give({"t": pa.table(public)})
            assert test_joined.rows_of(plan, engine, "person", "size") == [(1, 7), (2, None), (3, None)]
            other = test_joined.plan_with({**join, "columns": {"other": "size"}, "table": "twice"})
            engine.give({"twice": pa.table({"region": ["a", "a"], "size": [1, 2]})})
            with pytest.raises(PlanError, match="the key 'a' is in more than one row"):
                view(other, engine)

    def test_a_failure_is_said_without_data(self):
        with self.engine(pa.table({"x": ["a secret"]})) as engine:
            assert engine.schema() == {"x": Family.TEXT}
            cast = exp.cast(exp.column("x"), "INT")
            with pytest.raises(EngineError) as error:
                engine.run(exp.select(cast).from_(exp.Subquery(this=_chosen(engine.source), alias="t")))
            assert "secret" not in str(error.value)
            assert error.value.__suppress_context__


def _chosen(source):
    return source if isinstance(source, exp.Select) else exp.select("x").from_(source.copy())


class TestDuckDB(EngineContract):
    def engine(self, table):
        return DuckDB(table, threads=1)


class TestPostgres(EngineContract):
    @pytest.fixture(autouse=True)
    def _server(self, postgres):
        self._address = postgres

    def engine(self, table):
        return on_postgres(self._address, table)


SPARK = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz",
}


class TestSpark(EngineContract):
    kinds = KINDS[::4]  # each further question takes seconds to plan

    @pytest.mark.long
    def test_every_kind_has_contribution_bounds_of_its_own(self):
        plan, rows = bounded(2), with_spring(300)
        with self.engine(arrow(rows)) as engine:
            assert found(plan, engine) == reference.aggregates(plan, rows, SALT)

    @pytest.fixture(autouse=True)
    def _session(self, spark):
        self._spark = spark

    def engine(self, table):
        schema = ", ".join(f"`{each.name}` {SPARK[each.type]}" for each in table.schema)
        rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        return Spark(self._spark.createDataFrame(rows, schema))
