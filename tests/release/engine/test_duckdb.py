"""What DuckDB alone could get wrong: texts taken for one, files taken for others, what stays on the disk."""

import datetime
import os
import random
import re
import stat
import threading
import time
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow as pa
import pytest
from pyarrow import dataset, parquet

from rangebound.errors import ArgumentError, ArgumentTypeError, EngineError, PlanError
from rangebound.release import release
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.engine.spark import Spark
from rangebound.release.plan.cautions import cautions
from rangebound.release.plan.source import Source
from rangebound.release.plan.table_schema import check_schema
from rangebound.release.plan.toml import make_plan
from rangebound.release.sql.contribution_bound import owners_by_value
from rangebound.release.sql.view import view
from tests.release import reference
from tests.release.engine.test_engines import PLANS, arrow, found, make_rows
from tests.release.plans import KINDS, SALT, plan_data, written_once
from tests.thinning import crossed


def stored(path, columns, rows):
    """An engine on a table of a DuckDB file, whose columns may have an order of their own."""
    with duckdb.connect(str(path)) as base:
        base.execute(f"CREATE OR REPLACE TABLE t ({columns})")
        if rows:
            base.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(rows[0]))})", rows)
    return DuckDB(Source(path=str(path), table="t"))


PLACES = ["north", "North", "NORTH", "nORTH", "Nörth"]
COLLATED = "person VARCHAR COLLATE NOCASE, clinic VARCHAR COLLATE NOCASE.NOACCENT, wait DOUBLE, age INT"
ROWS = [(who, where, 10.0 * at, 30) for at, who in enumerate(["ann", "Ann", "ANN"]) for where in PLACES]
SIGNS = [("==", "north"), ("in", ["NORTH", "nORTH"]), ("!=", "north")]
MET = [{"kind": "count", "where": [{"column": "clinic", "is": sign, "value": each}]} for sign, each in SIGNS]


@pytest.mark.few(2)
@pytest.mark.parametrize("keys", [{}, {"clinic": PLACES}], ids=["private", "public"])
@pytest.mark.parametrize("unit", [{}, {"column": "person", "rows": 2, "groups": 2}], ids=["rows", "people"])
def test_texts_that_a_column_takes_for_one_are_different_owners_keys_and_values(tmp_path, unit, keys):
    asked = [*KINDS[: 4 if unit else 1], *MET]
    plan = make_plan(plan_data(["clinic"], asked, unit=unit, keys=keys))
    names = ["person", "clinic", "wait", "age"]
    with DuckDB(pa.table({name: [row[at] for row in ROWS] for at, name in enumerate(names)})) as engine:
        expected = found(plan, engine)
    with stored(tmp_path / "t.duckdb", COLLATED, ROWS) as engine:
        assert found(plan, engine) == expected
    with duckdb.connect(str(tmp_path / "t.duckdb")) as base:  # control: to the column itself they are all one
        same = base.sql("SELECT * FROM t JOIN (VALUES ('north'), ('NORTH')) v(k) ON clinic = k").fetchall()
    assert len(same) == 2 * len(ROWS)


def test_unique_ids_have_one_spelling(tmp_path):
    name = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    keys = [name, name.upper(), "{" + name + "}", name.replace("-", "")]
    plan = make_plan(plan_data(["id"], KINDS[:1], keys={"id": keys}))
    with stored(tmp_path / "t.duckdb", "id UUID", [(name,)]) as engine:
        assert [count for (count,) in found(plan, engine)[0][0].values()] == [1, 0, 0, 0]


COUNT = make_plan(plan_data([], KINDS[:1]))


@pytest.mark.few(2)
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


def no_tables(folder):
    """What is no table, or not one that can be read again, with what is said of it."""
    (folder / "odd.txt").write_text("x")
    (folder / "bad.parquet").write_text("x")
    for name, words in (("none.csv", "no such file"), ("odd.txt", r"\.csv"), ("bad.parquet", "cannot read")):
        yield Source(path=str(folder / name)), words
    stored(folder / "t.duckdb", "x INTEGER", []).close()
    words = r"^source.table='visit': DuckDB finds no such table in '.*t.duckdb'"
    yield Source(path=str(folder / "t.duckdb"), table="visit"), words
    table = pa.table({"c": ["1", "secret"]})
    lazy = polars.from_arrow(table).lazy().with_columns(polars.col("c").cast(polars.Int64))
    for data in (lazy, dataset.dataset(table), dataset.dataset(table).scanner(), table.to_reader()):
        yield data, r"can be read only once, or computes .*; make a table of it"
    for data in ({"c": [1]}, [1], 3, table.to_reader().__arrow_c_stream__()):
        yield data, "cannot read this as a table"
    yield "visits.csv", r"data=<str>: DuckDB cannot read this as a table; a file is Source\(path=\.\.\.\)"
    yield None, r"data=<NoneType>: DuckDB cannot read this as a table$"


def test_what_is_no_table_can_be_read_once_or_computes_is_refused(tmp_path):
    for data, words in no_tables(tmp_path):
        with pytest.raises((ArgumentError, EngineError), match=words):
            DuckDB(data)
    with pytest.raises(ArgumentTypeError, match="data frame"):
        Spark(3)
    frame = pandas.DataFrame({"collect": [1], "to_table": [2]})
    assert list(DuckDB(frame).schema()) == ["collect", "to_table"]


def test_a_frame_is_no_engine_whatever_its_columns_are_called():
    frame = pandas.DataFrame({"dialect": ["a"] * 9, "run": range(9), "source": range(9)})
    assert release(COUNT, frame, ledger=None).cells[0].value >= 0


def test_the_type_of_a_column_that_cannot_be_used_is_named(tmp_path):
    zoned = pa.array([datetime.datetime(2025, 3, 30, 0, 30)], pa.timestamp("us", tz="Europe/Paris"))
    table = pa.table({"at": zoned})
    parquet.write_table(table, tmp_path / "t.parquet")
    days = [datetime.date(2025, 1, 1), datetime.date(2026, 1, 1)]
    plan = make_plan(plan_data([], [{"kind": "median", "column": "at", "range": days}]))
    for name, engine in (
        ("timestamp[us, tz=Europe/Paris]", DuckDB(table)),
        ("datetime64[us, Europe/Paris]", DuckDB(table.to_pandas())),
        ("TIMESTAMP WITH TIME ZONE", DuckDB(Source(path=str(tmp_path / "t.parquet")))),
        ("TIMESTAMP WITH TIME ZONE", stored(tmp_path / "t.db", '"at" TIMESTAMPTZ', [])),
    ):
        words = re.escape(f"is of type {name}, ") + '.*say zone = "Europe/Paris" in the plan'
        with engine, pytest.raises(PlanError, match=words):
            check_schema(plan, view(plan, engine).schema)
    grouped = make_plan(plan_data(["list"], [{"kind": "count"}]))
    refused = pytest.raises(PlanError, match=r"by=.list.: is of type (?!other)")
    with DuckDB(pa.table({"list": [[1]]})) as engine, refused:
        check_schema(grouped, view(grouped, engine).schema)


def test_a_frame_of_polars_has_the_numbers_of_an_arrow_table():
    table = arrow(make_rows(200))
    plan = make_plan(PLANS["people, private keys"])
    with DuckDB(polars.from_arrow(table)) as engine, DuckDB(table) as other:
        assert found(plan, engine) == found(plan, other)


ASKED = [{"kind": "sum", "column": "score", "range": [-10, 10]}]
ASKED += [{"kind": "count", "where": [{"column": "score", "is": ">=", "value": 7}]}]


@pytest.mark.parametrize("asked", ASKED, ids=["sum", "condition"])
def test_a_column_of_texts_is_no_column_of_numbers_where_columns_have_types(asked, tmp_path):
    table = pa.table({"score": ["7", "8"]})
    parquet.write_table(table, tmp_path / "t.parquet")
    sources = [table, table.to_pandas(), Source(path=str(tmp_path / "t.parquet"))]
    plan = make_plan(plan_data([], [asked]))
    for engine in (*map(DuckDB, sources), stored(tmp_path / "t.duckdb", "score VARCHAR", [("7",)])):
        with engine:
            assert list(cautions(plan, engine.schema())) == []  # what is refused needs no warning
            with pytest.raises(PlanError, match="is of type text"):
                check_schema(plan, engine.schema())


def test_dates_beyond_all_calendars_and_types_of_their_own_are_missing_values_and_texts(tmp_path):
    with duckdb.connect(str(tmp_path / "t.duckdb")) as base:
        base.execute(
            """CREATE TYPE mood AS ENUM ('low', 'high', '7');
            CREATE TABLE t AS SELECT * FROM (VALUES
            (DATE '2024-03-01', TIMESTAMP '2024-03-01', 'low'::mood, uuid()),
            (DATE 'infinity', TIMESTAMP 'infinity', '7'::mood, uuid()),
            (DATE '-infinity', TIMESTAMP '-infinity', 'high'::mood, NULL),
            (DATE '5881580-07-10', TIMESTAMP '294247-01-10', NULL, uuid()),
            (DATE '5877642-06-25 (BC)', TIMESTAMP '290309-12-22 (BC) 00:00:00', NULL, uuid())
            ) v(day, seen, mood, id)"""
        )
    first = datetime.date(2024, 1, 1)
    span = {"range": [first, datetime.date(2024, 12, 30)], "missing": first}
    kinds = [{"kind": "mean", "column": each, **span} for each in ("day", "seen", "mood", "id")]
    kinds += [{"kind": "count", "where": [{"column": each, "is": "==", "value": "nobody"}]} for each in ("mood", "id")]
    kinds += [{"kind": "count", "where": [{"column": "id", "is": "present"}]}]
    kinds += [{"kind": "count", "by": [each]} for each in ("mood", "id", "day")]
    keys = {"mood": ["7", "x"], "id": ["x"], "day": [datetime.date(2024, 3, 1)]}
    with DuckDB(Source(path=str(tmp_path / "t.duckdb"), table="t")) as engine:
        answers, _ = found(make_plan(plan_data([], kinds, keys=keys)), engine)
        for unit in ("id", "mood", "day"):
            assert found(make_plan(plan_data([], kinds, unit={"column": unit}, keys=keys)), engine)
    assert [float(answers[at][()][1]) for at in range(4)] == pytest.approx([60 / 364] * 2 + [0, 0], abs=1e-8)
    assert [float(x) for at in range(4, 10) for x, *_ in answers[at].values()] == [0, 0, 4, 1, 0, 0, 1]


def test_how_far_a_scan_is_can_be_seen_from_another_thread():
    table = pa.table({"x": [float(each % 1000) for each in range(2_000_000)]})
    plan = make_plan(plan_data([], [{"kind": "variance", "column": "x", "range": [0, 1000]}]))
    seen, patience = {None}, time.monotonic() + 120.0
    with DuckDB(table, threads=1) as engine:
        assert engine.progress() is None
        while seen == {None} and time.monotonic() < patience:  # a busy machine may not let both run at once
            scan = threading.Thread(target=found, args=(plan, engine))
            scan.start()
            while scan.is_alive():
                scan.join(0.002)
                seen.add(engine.progress())
    assert len(seen) > 1
    assert all(0.0 <= each <= 100.0 for each in seen - {None})


# Files of texts alone: no error shows what is in them, threads change nothing, texts are numbers and days.
PLAN = make_plan(plan_data([], [{"kind": "count"}, {"kind": "sum", "column": "wait", "range": [0, 10]}]))
GOOD = b"wait,who\n" + b"".join(b"%d,p%d\n" % (at % 9, at) for at in range(30))


def sums(path, data, **options):
    path.write_bytes(data)
    with DuckDB(Source(path=str(path)), **options) as engine:
        answers, _ = found(PLAN, engine)
    return [float(answers[index][()][0]) for index in (0, 1)]


@written_once()
def test_no_bytes_below_the_header_make_an_error_and_threads_change_nothing(tmp_path):
    chance = random.Random(2)
    pieces = [*b'\r|\r\n|\n|"|""|,|\xff|\x00|\xe2\x82|"a\nb"|\\'.split(b"|"), b"a" * 70_000, b"b" * 2_100_000]
    for _ in range(12):
        data = bytearray(GOOD)
        for _ in range(chance.choice([1, 2, 5])):
            at = chance.randrange(9, len(data))
            data[at:at] = chance.choice(pieces)
        one = sums(tmp_path / "t.csv", bytes(data), threads=1)
        assert one == sums(tmp_path / "t.csv", bytes(data), threads=4)
        assert 0.0 <= one[0] <= 40.0


SPELLINGS = ["7", " 7 ", "7.5", "1e1", "5.", ".5", "0x1F", "12d", "nan", "inf", "1_0", "7\n", "", "-3", "+4.25", "٣"]
SPELLINGS += ["1" * 40, "1e-300", "1e999", "-1e999", "0.30000000000000004", "0.1234567890123456789", "True", "false"]
SPELLINGS += ["2024-02-29", "2023-02-29", "0000-00-00", "2024-02-29 23:59:59.25", "2024-02-29T12:30", "2024-02-29Z"]
SPELLINGS += ["TRUE "]
IN_TEXTS = [
    {"kind": "sum", "column": "score", "range": [-10, 10], "missing": 2.5},
    {"kind": "mean", "column": "score", "range": [-10, 10]},
    {"kind": "histogram", "column": "score", "range": [0, 1], "bins": 10},
    {"kind": "median", "column": "score", "range": [datetime.date(2024, 1, 1), datetime.date(2024, 12, 31)]},
    {"kind": "count", "where": [{"column": "score", "is": ">=", "value": 7}]},
    {"kind": "count", "where": [{"column": "score", "is": "==", "value": datetime.date(2024, 2, 29)}]},
    {"kind": "count", "where": [{"column": "score", "is": "==", "value": "True"}]},
]


# All in one column, and alone, where a reader of files might guess another type from them: every fourth by default.
@pytest.mark.slow
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.long)])
@written_once()
def test_texts_of_a_csv_file_are_numbers_and_dates_in_plain_notation(tmp_path, every):
    path, plan = tmp_path / "t.csv", make_plan(plan_data([], IN_TEXTS))
    for texts in (SPELLINGS, *([each] for each in SPELLINGS[::every])):
        rows = [{"score": each or None} for each in texts]
        path.write_text("score,other\n" + "".join(f'"{each}",x\n' for each in texts), encoding="utf-8")
        with DuckDB(Source(path=str(path), multiline=True), threads=1) as engine:
            check_schema(plan, engine.schema())
            assert found(plan, engine) == reference.aggregates(plan, rows, SALT), texts


def test_a_date_is_read_once_and_not_for_each_edge_and_control_where_its_place_is_asked_first(tmp_path):
    """How often the plan of the statement matches patterns with a text, where DuckDB asks of rows what it can early."""
    (tmp_path / "t.csv").write_text("d\n31.12.2020\n")
    source = {"path": str(tmp_path / "t.csv"), "date_format": "%d.%m.%Y"}
    plan = make_plan({"budget": {"epsilon": 1.0}, "source": source, "query": [{"name": "n", "kind": "count"}]})
    with DuckDB(plan.source) as engine:

        def work(edges, former=False):
            tree = owners_by_value(plan, SALT, engine, column="d", edges=edges, dated=True)
            written = engine.written(tree)
            written = written.replace('NOT "x" IS NULL', '"j" >= 0') if former else written
            return engine._rows(f"EXPLAIN (FORMAT json) {written}")[0][1].count("regexp_")

        assert work([0.0, 400.0]) == work([0.0, 400.0, 800.0, 1200.0])
        assert work([0.0, 400.0], former=True) < work([0.0, 400.0, 800.0, 1200.0], former=True)
