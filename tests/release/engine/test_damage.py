"""Damaged values: one row never decides whether there is a table, nor how other rows count."""

import datetime
import importlib.util
import itertools

import duckdb
import pandas
import pyarrow as pa
import pytest
from pyarrow import parquet

from rangebound.errors import EngineError, MissingExtra
from rangebound.ledger.book import Ledger
from rangebound.release import make_plan, release
from rangebound.release.engine import duckdb_table as module
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.engine.spark import Spark
from rangebound.release.plan.source import Source
from rangebound.release.plan.table_schema import Family
from tests.release import reference
from tests.release.engine.test_engines import PLANS, arrow, found, make_rows
from tests.release.plans import KINDS, SALT, plan_data, written_once
from tests.thinning import some

TEXTS = [b"a", b"\xff\xfe", b"3", b"3\xc3", b"\xa9 b", b"\xed\xa0\x80", b"a\x00b", "\u00e9".encode(), b"", None]
READ = [None if each in (TEXTS[1], *TEXTS[3:6], None) else each.decode() for each in TEXTS]
EPOCH = datetime.date(1970, 1, 1)
SPAN = {"range": [datetime.date(2024, 1, 1), datetime.date(2024, 12, 30)], "missing": datetime.date(2024, 1, 1)}


def as_text(values, kind=None):
    """An Arrow array of texts that nobody has checked."""
    kind = kind or pa.string()
    raw = pa.array(values, pa.large_binary() if kind == pa.large_string() else pa.binary())
    return pa.Array.from_buffers(kind, len(raw), raw.buffers(), raw.null_count)


def rows(column):
    """A table of one odd column, a group and a number."""
    return pa.table({"c": column, "g": pa.array(["x", "y"] * len(column))[: len(column)], "x": [1.0] * len(column)})


def written(table, path, **options):
    parquet.write_table(table, path, **options)
    return Source(path=str(path))


PLAIN = rows(as_text(TEXTS))
DELTA = {"use_dictionary": False, "column_encoding": {"c": "DELTA_LENGTH_BYTE_ARRAY"}}


def listed():
    """Texts by their number in a list, as pandas writes its categories."""
    raw = pa.array(TEXTS, pa.binary()).dictionary_encode()
    return rows(pa.DictionaryArray.from_arrays(raw.indices, as_text(raw.dictionary.to_pylist())))


TEXT_SOURCES = {
    "arrow": lambda _: PLAIN,
    "arrow, large": lambda _: rows(as_text(TEXTS, pa.large_string())),
    "arrow, listed": lambda _: listed(),
    "pandas": lambda _: PLAIN.to_pandas(types_mapper=pandas.ArrowDtype),
    "parquet": lambda path: written(PLAIN, path / "t.parquet"),
    "parquet, listed": lambda path: written(listed(), path / "t.parquet"),
    "parquet, plain": lambda path: written(PLAIN, path / "t.parquet", use_dictionary=False),
    "parquet, delta": lambda path: written(PLAIN, path / "t.parquet", **DELTA),
}
ASKED = {
    "keys": {"query": [{"name": "n", "kind": "count", "by": ["c"]}]},
    "public keys": {"query": [{"name": "n", "kind": "count", "by": ["c"]}], "keys": {"c": ["a", "3"]}},
    "values": {
        "query": [
            {"name": "m", "kind": "mean", "column": "c", **SPAN},
            {"name": "n", "kind": "count", "where": [{"column": "c", "is": "missing"}]},
            {"name": "o", "kind": "count", "where": [{"column": "c", "is": "==", "value": "a"}]},
        ]
    },
    "owners": {
        "unit": {"column": "c", "rows": 2, "groups": 1},
        "keys": {"g": ["x", "y"]},
        "query": [
            {"name": "n", "kind": "count", "by": ["g"]},
            {"name": "m", "kind": "median", "column": "x", "range": [0, 10], "by": ["g"]},
        ],
    },
}


def plan_for(asked):
    return make_plan({"budget": {"epsilon": 1.0, "delta": 1e-6, "account": "people"}, **asked})


def check(engine, texts, asked=tuple(ASKED)):
    """That an engine finds what the reference finds in a table of such texts."""
    table = [{"c": text, "g": "xy"[at % 2], "x": 1.0} for at, text in enumerate(texts)]
    for name in asked:
        plan = plan_for(ASKED[name])
        assert found(plan, engine) == reference.aggregates(plan, table, SALT), name


@pytest.mark.few(2)
@pytest.mark.parametrize("source", TEXT_SOURCES)
def test_texts_that_are_no_utf8_are_missing(tmp_path, source):
    with DuckDB(TEXT_SOURCES[source](tmp_path)) as engine:
        assert engine.schema() == {"c": Family.TEXT, "g": Family.TEXT, "x": Family.NUMBER}
        check(engine, READ)


@pytest.mark.slow
def test_spark_finds_such_texts_missing_too(spark):
    data = [(each if each is None else bytearray(each), "xy"[at % 2], 1.0) for at, each in enumerate(TEXTS)]
    frame = spark.createDataFrame(data, "c binary, g string, x double").selectExpr("CAST(c AS STRING) AS c", "g", "x")
    check(Spark(frame), READ, ("keys", "values"))


def test_control_unchecked_texts_stop_the_reader_or_change_other_columns(tmp_path, monkeypatch):
    path = TEXT_SOURCES["parquet"](tmp_path).path
    with pytest.raises(duckdb.Error, match="not valid UTF8"):
        duckdb.sql(f"SELECT c FROM '{path}'").fetchall()
    monkeypatch.setitem(module._SEEN, "VARCHAR", module._CHECKED["VARCHAR"])
    with DuckDB(PLAIN) as engine, pytest.raises(EngineError):
        found(plan_for(ASKED["keys"]), engine)
    with DuckDB(PLAIN) as engine, pytest.raises(IndexError):
        found(plan_for(ASKED["owners"]), engine)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("source", "unit"), [("arrow", "s"), *itertools.product(("arrow", "parquet"), ("ms", "us", "ns"))]
)
def test_times_that_no_calendar_has_are_missing(tmp_path, source, unit):
    times = pa.array([0, 2**62, -(2**62), 2**63 - 1, -(2**63) + 1], pa.int64()).cast(pa.timestamp(unit))
    first = datetime.date(1969, 12, 22)
    asked = [{"name": "m", "kind": "mean", "column": "c", "range": [first, EPOCH], "missing": first}]
    asked += [{"name": "n", "kind": "count", "where": [{"column": "c", "is": "present"}]}]
    with DuckDB(rows(times) if source == "arrow" else written(rows(times), tmp_path / "t.parquet")) as engine:
        assert engine.schema()["c"] is Family.TIMESTAMP
        answers, _ = found(plan_for({"query": asked}), engine)
    dates = unit == "ns"  # all but the ends; one later than the range, one earlier
    assert (answers[0][()], answers[1][()]) == (((3, 2), (3,)) if dates else ((4, 1), (1,)))


@pytest.mark.few(1)
@pytest.mark.parametrize("name", some(PLANS, of=2))
def test_both_readers_of_parquet_find_the_same(tmp_path, name):
    plan, table = make_plan(PLANS[name]), make_rows(300)
    with written_once(), DuckDB(written(arrow(table), tmp_path / "t.parquet")) as engine:
        kinds, first = engine.schema(), found(plan, engine)
        assert engine._table.read_otherwise()
        assert engine.schema() == kinds
        assert found(plan, engine) == first
        assert not engine._table.read_otherwise()


@pytest.mark.parametrize("others", [[1.0, 2.0], [1.0, 1e9], [-5.0, 1.0]])
def test_nan_in_parquet_counts_alike_whatever_other_rows_hold(tmp_path, others):
    """The file says itself what its smallest and largest numbers are, and NaN is neither."""
    values = [float("nan")] * 5 + others
    table = pa.table({"wait": values, "age": [30] * len(values), "person": range(len(values))})
    plan = make_plan(plan_data([], KINDS[2:8]))
    with DuckDB(written(table, tmp_path / "t.parquet")) as engine, DuckDB(table) as other:
        assert found(plan, engine) == found(plan, other)
    condition = "SELECT count(*) FROM '{}' WHERE (CASE WHEN wait <= 50 THEN 1 ELSE 0 END) = 1"
    naive = duckdb.sql(condition.format(tmp_path / "t.parquet")).fetchall()[0][0]
    assert naive == (2 if 1e9 in others else 7) - (1e9 in others)  # control: by itself DuckDB lets others decide


class Mute:
    def __str__(self):
        raise RuntimeError("a secret")


OBJECTS = ["a", "\ud800", 3, Mute(), None, float("nan"), 10**5000, pandas.NA, "a\x00b", b"\xff"]
TOLD = ["a", None, "3", None, None, None, None, None, "a\x00b", "b'\\xff'"]


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["objects", "categories", "beside arrow"])
def test_objects_of_pandas_are_texts_or_missing(kind):
    column = pandas.Series(OBJECTS, dtype=object)
    if kind == "categories":
        distinct = pandas.Index([*column.dropna(), "3"], dtype=object)  # two of them have the same text
        column = pandas.Series(pandas.Categorical(column, categories=distinct))
    frame = pandas.DataFrame({"c": column, "g": ["x", "y"] * 5, "x": 1.0})
    if kind == "beside arrow":
        frame["d"] = pandas.array([1] * 10, dtype=pandas.ArrowDtype(pa.int64()))
    with DuckDB(frame) as engine:
        check(engine, TOLD)


def test_the_type_of_objects_is_text_whatever_they_are():
    for values in ([1, 2], ["a", 2], [None, None], []):
        frame = pandas.DataFrame({"x": pandas.Series(values, dtype=object)})
        beside = frame.assign(d=pandas.array([1] * len(values), dtype=pandas.ArrowDtype(pa.int64())))
        assert DuckDB(frame).schema() == {"x": Family.TEXT}
        assert DuckDB(beside).schema() == {"x": Family.TEXT, "d": Family.INTEGER}


@pytest.mark.few(2)
@pytest.mark.parametrize("source", ["arrow", "parquet", "milliseconds"])
def test_from_outside_a_table_with_a_damaged_row_looks_like_one_without(tmp_path, capsys, caplog, source):
    column = {"query": [{"name": "m", "kind": "mean", "column": "c", **SPAN}]}
    plan = plan_for(column if source == "milliseconds" else ASKED["owners"])
    seen = []
    for side, damaged in enumerate((False, True)):
        if source == "milliseconds":
            table = rows(pa.array([0, 2**62 if damaged else 1], pa.timestamp("ms")))
        else:
            table = rows(as_text([b"a", b"\xff" if damaged else b"b"]))
        folder = tmp_path / str(side)
        folder.mkdir()
        data = table if source == "arrow" else written(table, folder / "t.parquet")
        steps = []
        with Ledger.create(folder / "l.ledger") as book, DuckDB(data) as engine:
            book.open_account("people", epsilon=2, delta="1e-5")
            made = release(plan, engine, ledger=book, request="one", progress=steps.append)
            charges = [(each.kind, str(each.cost), each.what) for each in book.history()]
        shape = [(cell.question, cell.key, cell.part, cell.epsilon, cell.delta) for cell in made.cells]
        seen.append((steps, charges, shape, made.mechanisms, tuple(capsys.readouterr()), caplog.text))
    assert seen[0] == seen[1]


def test_what_needs_pyarrow_says_so_before_anything_is_read(tmp_path, monkeypatch):
    file = written(PLAIN, tmp_path / "t.parquet")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for data in (file, pandas.DataFrame({"x": [1]})):
        with pytest.raises(MissingExtra, match=r"needs pyarrow, which is not installed; .*\[parquet\]"):
            DuckDB(data)
