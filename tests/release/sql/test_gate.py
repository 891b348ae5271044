"""The gate before a charge: what an engine cannot run, whatever the table holds, costs nothing."""

import inspect
import math
import sys
from contextlib import contextmanager, suppress

import pyarrow as pa
import pytest

import rangebound.release.run as run_module
from rangebound.errors import EngineError, PlanError
from rangebound.ledger.book import Ledger
from rangebound.release import make_plan, release, suggest
from rangebound.release.engine import duckdb_table
from rangebound.release.engine.duckdb import DUCKDB, DuckDB
from rangebound.release.engine.interface import Unrunnable
from rangebound.release.engine.spark import Spark
from rangebound.release.plan.source import Source
from rangebound.release.sql import unit_rows
from rangebound.release.sql.aggregate import check_statements
from tests.release.engine.test_engines import found

DATA = pa.table({"u": [1, 2, 2], "c": [3, 4, 5], "x": [1.0, 2.0, 3.0], "y": [2.0, 1.0, 4.0]})
SUM = {"name": "q", "kind": "sum", "column": "s", "range": [0, 100], "mechanism": "rectify Laplace"}
BUDGET = {"epsilon": 1.0, "account": "people"}


@pytest.fixture
def ledger(tmp_path):
    with Ledger.create(tmp_path / "l.ledger") as book:
        book.open_account("people", epsilon=1)
        yield book


def refused(call, ledger):
    """The one line of a refusal that has cost nothing."""
    with pytest.raises(PlanError) as error:
        call()
    assert str(ledger.account("people").remaining) == "epsilon 1"
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400
    return str(error.value)


def per_unit(far):
    """Whole numbers of a unit with a range that ends far away, in every place where an end is written."""
    return {
        "sum of a far range": {"columns": {"c": {"range": [-far, far]}}, "per_unit": {"s": "sum(c)"}},
        "clipped sum": {"columns": {"c": {"range": [0, 9]}}, "per_unit": {"s": {"value": "sum(c)", "range": [0, far]}}},
        "count": {"per_unit": {"s": {"value": "COUNT(*)", "range": [0, far]}}},
        "distinct": {"per_unit": {"s": {"value": "COUNT(DISTINCT c)", "range": [-far, far]}}},
        "max": {"columns": {"c": {"range": [0, far]}}, "per_unit": {"s": {"value": "max(c)", "range": [0, far]}}},
        "min": {"columns": {"c": {"range": [-far, far]}}, "per_unit": {"s": {"value": "min(c)", "range": [-far, far]}}},
    }


FAR = [2.0**62, 2.0**63, 2.0**100, 2.0**126, 2.0**127, 1.8e38, 1e39, 1e40, 1e99]


def wide(name, far):
    return make_plan({"unit": {"column": "u"}, "budget": BUDGET, **per_unit(far)[name], "query": [SUM]})


@pytest.mark.few(2)
@pytest.mark.parametrize("name", per_unit(1.0))
def test_ends_beyond_every_whole_number_of_an_engine_change_no_answer(name):
    with DuckDB(DATA, threads=1) as engine:
        expected = found(wide(name, 100.0), engine)
        assert any(any(each) for each in expected[0][0].values())
        for far in FAR:
            assert found(wide(name, far), engine) == expected, far


@pytest.mark.slow
@pytest.mark.parametrize("name", per_unit(1.0))
def test_so_on_spark_whose_decimals_have_38_digits(name, spark):
    rows = list(zip(*(each.to_pylist() for each in DATA.columns), strict=True))
    with Spark(spark.createDataFrame(rows, "u bigint, c bigint, x double, y double")) as engine:
        expected = found(wide(name, 100.0), engine)
        for far in FAR[3::3]:
            check_statements(wide(name, far), engine)
            assert found(wide(name, far), engine) == expected, far


def test_what_the_engine_cannot_run_is_refused_before_the_charge(ledger, monkeypatch):
    plan = wide("count", 1e40)
    monkeypatch.setattr(unit_rows, "HUGE", math.inf)  # whole numbers are written out, as before
    words = refused(lambda: release(plan, DATA, ledger=ledger, request="one"), ledger)
    assert words.startswith("query[0]: the engine cannot run the statement for 'q', whatever the table holds")
    with DuckDB(DATA) as engine, pytest.raises(PlanError, match="this costs nothing"):
        check_statements(plan, engine)
    monkeypatch.setattr(run_module, "rehearse_statements", lambda *_: None)  # the control: charged and never computed
    with pytest.raises(EngineError, match="the charge stands"):
        release(plan, DATA, ledger=ledger, request="one")
    assert str(ledger.account("people").remaining) == "epsilon 0"


@contextmanager
def levels(more):
    """A block in which this many calls fit into one another."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + more)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def deep(columns):
    made = {f"c{at}": f"LEAST(LEAST({f'c{at - 1}' if at else 'x'}, y), y - 1)" for at in range(columns)}
    return make_plan({"budget": BUDGET, "columns": made, "query": [{**SUM, "column": f"c{columns - 1}"}]})


def test_columns_one_of_the_other_that_make_too_deep_a_statement_are_refused_before_the_charge(ledger):
    plan = deep(16)
    release(plan, DATA, ledger=None)  # what takes longest is remembered
    with levels(250):
        words = refused(lambda: release(plan, DATA, ledger=ledger, request="one"), ledger)
    assert words.startswith("columns: the columns that the plan computes from each other have too many levels")
    release(plan, DATA, ledger=ledger, request="one")  # control: it is the levels


def test_nothing_is_written_after_the_charge(ledger, monkeypatch):
    """So what could be written once before will not fail when it is paid for, a few calls deeper."""

    def stop(step):
        if step == "aggregating":
            monkeypatch.setattr(type(DUCKDB), "written", lambda *_: pytest.fail("a statement is written"))

    release(deep(2), DATA, ledger=ledger, request="one", progress=stop)


def unbindable(monkeypatch):
    monkeypatch.setattr(DuckDB, "written", lambda *_: "SELECT no_such_function()")


def test_a_suggestion_passes_the_gate_too(ledger, monkeypatch):
    unbindable(monkeypatch)
    plan = {"budget": BUDGET, "unit": {"column": "u"}, "query": [{"name": "m", "kind": "mean", "column": "x"}]}
    words = refused(lambda: suggest(plan, DATA, ledger=ledger, request="one"), ledger)
    assert words.startswith("plan: the engine cannot run the statement for 'x'")


def test_a_request_that_was_published_is_not_tried_again(ledger, monkeypatch):
    first = release(deep(2), DATA, ledger=ledger, request="one")
    unbindable(monkeypatch)
    assert release(deep(2), DATA, ledger=ledger, request="one").to_bytes() == first.to_bytes()


PRIVATE = {"table": "more", "public": False, "on": ["u"], "columns": ["z"], "rows": 1, "own_rows": 1}
PUBLIC = {"table": "public", "public": True, "on": {"c": "k"}, "columns": ["v"]}
COUNT = {"name": "n", "kind": "count"}


class Interrupted:
    """A connection that is interrupted after this many statements, before their caller knows that they have ended."""

    def __init__(self, connection, left):
        self.connection, self.left = connection, left

    def execute(self, text):
        if self.left:
            self.connection.execute(text)
        self.left -= 1
        if self.left < 1:
            raise KeyboardInterrupt


@pytest.mark.parametrize("left", range(4))
def test_in_a_rehearsal_no_private_table_has_a_row_and_in_a_run_all_have_theirs(left):
    """Whatever came before, an interrupt at each of the statements between the two included."""
    plan = make_plan({"unit": {"column": "u"}, "budget": {"epsilon": 1.0}, "join": [PRIVATE, PUBLIC], "query": [COUNT]})
    own, more, public = (
        f"SELECT CAST(concat({name}, 'x') AS INTEGER) FROM rangebound_source{at}"  # which any row stops
        for name, at in (("u", ""), ("u", "_1"), ("k", "_2"))
    )
    with DuckDB(DATA, threads=1) as engine:
        engine.give({"more": pa.table({"u": [1, 2], "z": [1, 2]}), "public": pa.table({"k": [3], "v": [1]})})
        before = found(plan, engine)
        assert before[0] == {0: {(): (2,)}}
        for first, second in ((engine.rehearse, engine.run), (engine.run, engine.rehearse)):
            with suppress(EngineError):
                first(own)
            table = engine._table
            table._connection = Interrupted(table._connection, left)
            with suppress(KeyboardInterrupt, EngineError):
                second(own)
            table._connection = table._connection.connection
            engine.rehearse(own)
            engine.rehearse(more)
            for stopped, text in ((engine.rehearse, public), (engine.run, own), (engine.run, more)):
                with pytest.raises(Unrunnable):
                    stopped(text)
            assert found(plan, engine) == before


def test_no_row_is_copied_before_the_charge(tmp_path, ledger, monkeypatch):
    """Not for a public table either, whose name in statements begins like that of the private one."""
    steps, copy = [], duckdb_table.copy_clean
    monkeypatch.setattr(duckdb_table, "copy_clean", lambda path, *rest: (steps.append(path.name), copy(path, *rest)))
    for name, text in (("own.csv", "c\n3\n4\n"), ("public.csv", "k,v\n3,1\n")):
        (tmp_path / name).write_text(text)
    join = {"path": str(tmp_path / "public.csv"), **{name: PUBLIC[name] for name in ("public", "on", "columns")}}
    plan = make_plan({"budget": BUDGET, "join": [join], "query": [COUNT]})
    with DuckDB(Source(path=str(tmp_path / "own.csv"))) as engine:
        release(plan, engine, ledger=ledger, request="one", progress=steps.append)
    assert steps == ["checking the plan", "public.csv", "aggregating", "own.csv", "drawing"]


@pytest.mark.parametrize("away", [True, False])
def test_a_server_that_is_away_in_a_rehearsal_is_known_as_such(away, ledger, monkeypatch):
    def lost(*_):
        raise EngineError("lost", away=away)

    monkeypatch.setattr(DuckDB, "rehearse", lost)
    with pytest.raises(EngineError, match="lost; this costs nothing") as error:
        release(deep(2), DATA, ledger=ledger, request="one")
    assert error.value.away is away
    assert str(ledger.account("people").remaining) == "epsilon 1"


def test_a_run_that_fails_is_charged_once_and_can_be_run_again(tmp_path, ledger):
    """The file changes between the rehearsal and the run, and is then as it was."""
    file = tmp_path / "own.csv"
    plan = make_plan({"budget": BUDGET, "query": [COUNT]})

    def change(step):
        if step == "aggregating":
            file.write_text("another\n1\n")

    for changed in (change, change, None, None):
        file.write_text("c\n3\n4\n")
        with DuckDB(Source(path=str(file))) as engine:
            if changed is None:
                release(plan, engine, ledger=ledger, request="one")
            else:
                with pytest.raises(EngineError, match="the charge stands, and the same request again is free"):
                    release(plan, engine, ledger=ledger, request="one", progress=changed)
    assert str(ledger.account("people").remaining) == "epsilon 0"
