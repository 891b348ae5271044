"""What DuckDB alone could get wrong: texts taken for one, files taken for others, what stays on the disk."""

import datetime
import os
import re
import stat
from pathlib import Path

import duckdb
import pandas
import pyarrow as pa
import pytest
from pyarrow import parquet

from rangebound.errors import ArgumentError, EngineError, PlanError
from rangebound.release import release
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.plan.model import Source
from rangebound.release.plan.table_schema import check_schema
from rangebound.release.plan.toml import make_plan
from rangebound.release.sql.aggregate import aggregate
from rangebound.release.sql.view import view
from tests.release.plans import KINDS, SALT, plan_data
from tests.thinning import crossed


def found(plan, engine):
    (block,) = aggregate(plan, engine, SALT)
    return block.answers, block.units


def stored(path, columns, rows):
    """An engine on a table of a DuckDB file, whose columns may have an order of their own."""
    with duckdb.connect(str(path)) as base:
        base.execute(f"CREATE OR REPLACE TABLE t ({columns})")
        if rows:
            base.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(rows[0]))})", rows)
    return DuckDB(Source(path=str(path), table="t"))


SPELLINGS = ["north", "North", "NORTH", "nORTH", "Nörth"]
COLLATED = "person VARCHAR COLLATE NOCASE, clinic VARCHAR COLLATE NOCASE.NOACCENT, wait DOUBLE, age INT"
ROWS = [(who, where, 10.0 * at, 30) for at, who in enumerate(["ann", "Ann", "ANN"]) for where in SPELLINGS]


@pytest.mark.parametrize("keys", [{}, {"clinic": SPELLINGS}], ids=["private", "public"])
@pytest.mark.parametrize("unit", [{}, {"column": "person", "rows": 2, "groups": 2}], ids=["rows", "people"])
def test_texts_that_a_column_takes_for_one_are_different_owners_and_keys(tmp_path, unit, keys):
    kinds = [each for each in KINDS if unit or "units" not in each["kind"]]
    plan = make_plan(plan_data(["clinic"], kinds, unit=unit, keys=keys))
    names = ["person", "clinic", "wait", "age"]
    with DuckDB(pa.table({name: [row[at] for row in ROWS] for at, name in enumerate(names)})) as engine:
        expected = found(plan, engine)
    with stored(tmp_path / "t.duckdb", COLLATED, ROWS) as engine:
        assert found(plan, engine) == expected


def test_one_row_counts_in_one_public_group_however_its_column_orders_texts(tmp_path):
    plan = make_plan(plan_data(["clinic"], KINDS[:1], keys={"clinic": SPELLINGS}))
    with stored(tmp_path / "t.duckdb", COLLATED, ROWS[:1]) as engine:
        assert [count for (count,) in found(plan, engine)[0][0].values()] == [1, 0, 0, 0, 0]
    with duckdb.connect(str(tmp_path / "t.duckdb")) as base:  # control: to the column itself they are all one
        assert len(base.sql("SELECT * FROM t JOIN (VALUES ('north'), ('NORTH')) v(k) ON clinic = k").fetchall()) == 2


def test_conditions_tell_texts_apart_that_a_column_takes_for_one(tmp_path):
    asked = [("==", "north"), ("in", ["NORTH", "nORTH"]), ("!=", "north")]
    plan = make_plan(
        plan_data(
            [], [{"kind": "count", "where": [{"column": "clinic", "is": sign, "value": each}]} for sign, each in asked]
        )
    )
    with stored(tmp_path / "t.duckdb", COLLATED, ROWS) as engine:
        assert [float(each[()][0]) for each in found(plan, engine)[0].values()] == [3, 6, 12]


def test_unique_ids_have_one_spelling(tmp_path):
    name = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    keys = [name, name.upper(), "{" + name + "}", name.replace("-", "")]
    plan = make_plan(plan_data(["id"], KINDS[:1], keys={"id": keys}))
    with stored(tmp_path / "t.duckdb", "id UUID", [(name,)]) as engine:
        assert [count for (count,) in found(plan, engine)[0][0].values()] == [1, 0, 0, 0]


COUNT = make_plan(plan_data([], KINDS[:1]))


@crossed({"ending": ["csv", "parquet"], "name": ["v[1]", "*", "a?", "~", "file:a", "year=2020"]})
def test_a_file_is_read_and_no_other(tmp_path, monkeypatch, name, ending):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for at, folder in enumerate(["home", name], 1):
        Path(folder).mkdir()
        for file, rows in ((name, 10 * at), ("v1", 77), ("ax", 78), ("t", 20 * at)):
            place = tmp_path / folder / f"{file}.{ending}"
            table = pa.table({"id": ["x"] * rows})
            parquet.write_table(table, place) if ending == "parquet" else table.to_pandas().to_csv(place, index=False)
    for path, rows in ((f"home/{name}.{ending}", 10), (f"{name}/{name}.{ending}", 20), (f"{name}/t.{ending}", 40)):
        with DuckDB(Source(path=path)) as engine:
            assert list(engine.schema()) == ["id"]
            assert found(COUNT, engine)[0][0][()] == (rows,)


def test_what_does_not_fit_into_memory_is_for_one_user_alone_and_goes_away(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    engine = DuckDB(pa.table({"x": [1]}), threads=1, memory="30MB")
    ((folder,),) = engine._connection.sql("SELECT current_setting('temp_directory')").fetchall()
    engine._connection.execute("CREATE TEMP TABLE big AS SELECT hash(i) x, hash(i + 1) y FROM range(4000000) t(i)")
    assert sum(each.stat().st_size for each in Path(folder).iterdir()) > 1e6
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert list(tmp_path.iterdir()) == []
    engine.close()
    assert not Path(folder).exists()


def test_nothing_is_left_where_an_engine_is_not_closed():
    engine = DuckDB(pa.table({"x": [1]}))
    folder = Path(engine._spilled)
    assert folder.is_dir()
    del engine
    assert not folder.exists()


@pytest.mark.parametrize("kind", ["s", "ms", "us", "ns"])
def test_times_that_no_calendar_has_are_missing(kind):
    numbers = [0, 2**62, -(2**62), 2**63 - 1, -(2**63)]
    table = pa.table({"seen": pa.array(numbers, pa.int64()).cast(pa.timestamp(kind))})
    span = {"range": [datetime.date(1969, 12, 22), datetime.date(1970, 1, 1)], "missing": datetime.date(1969, 12, 22)}
    plan = make_plan(plan_data([], [{"kind": "mean", "column": "seen", **span}]))
    with DuckDB(table) as engine:
        upper, lower = found(plan, engine)[0][0][()]
    late = kind == "ns"  # all of these are dates; some later than the range, some earlier
    assert (upper, lower) == ((3, 2) if late else (4, 1))


def test_what_is_no_table_or_can_be_read_once_is_refused():
    with pytest.raises(
        EngineError, match=r"data=<str>: DuckDB cannot read this as a table; a file is Source\(path=\.\.\.\)"
    ):
        DuckDB("visits.csv")
    with pytest.raises(EngineError, match=r"data=<NoneType>: DuckDB cannot read this as a table$"):
        DuckDB(None)
    with pytest.raises(ArgumentError, match="data=<RecordBatchReader>: can be read only once"):
        DuckDB(pa.table({"x": [1]}).to_reader())


def test_a_frame_is_no_engine_whatever_its_columns_are_called():
    frame = pandas.DataFrame({"dialect": ["a"] * 9, "run": range(9), "source": range(9)})
    assert release(COUNT, frame, ledger=None).cells[0].value >= 0


def test_a_table_that_is_not_in_its_file_is_named(tmp_path):
    with duckdb.connect(str(tmp_path / "t.duckdb")) as base:
        base.execute("CREATE TABLE visits (x INTEGER)")
    with pytest.raises(EngineError, match=r"^source.table='visit': DuckDB finds no such table in '.*t.duckdb'"):
        DuckDB(Source(path=str(tmp_path / "t.duckdb"), table="visit"))


def test_the_type_of_a_column_that_cannot_be_used_is_named(tmp_path):
    zoned = pa.array([datetime.datetime(2025, 3, 30, 0, 30)], pa.timestamp("us", tz="Europe/Paris"))
    table = pa.table({"at": zoned, "list": pa.array([[1]])})
    parquet.write_table(table, tmp_path / "t.parquet")
    with duckdb.connect(str(tmp_path / "t.db")) as base:
        base.execute('CREATE TABLE t ("at" TIMESTAMPTZ, "list" INTEGER[])')
    sources = {
        "timestamp[us, tz=Europe/Paris]": table,
        "datetime64[us, Europe/Paris]": table.to_pandas(),
        "TIMESTAMP WITH TIME ZONE": Source(path=str(tmp_path / "t.parquet")),
        "TIMESTAMP WITH TIME ZONE ": Source(path=str(tmp_path / "t.db"), table="t"),
    }
    question = {
        "name": "m",
        "kind": "median",
        "column": "at",
        "range": [datetime.date(2025, 1, 1), datetime.date(2026, 1, 1)],
    }
    plan = make_plan({"budget": {"epsilon": 1.0}, "query": [question]})
    grouped = make_plan(
        {"budget": {"epsilon": 1.0, "delta": 1e-6}, "query": [{"name": "n", "kind": "count", "by": ["list"]}]}
    )
    for name, source in sources.items():
        with DuckDB(source) as engine:
            with pytest.raises(PlanError, match=re.escape(f"is of type {name.strip()}, ")) as caught:
                check_schema(plan, view(plan, engine).schema)
            assert 'say zone = "Europe/Paris" in the plan' in str(caught.value)
            if isinstance(source, pandas.DataFrame):  # a list in an object is the text that Python makes of it
                continue
            with pytest.raises(PlanError, match="by='list': is of type") as caught:
                check_schema(grouped, view(grouped, engine).schema)
            assert "of type other" not in str(caught.value)
