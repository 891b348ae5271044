"""Instants as local time: the same as pandas makes of them, on every engine, around every change of a zone."""

from __future__ import annotations

import datetime
import random
import zoneinfo

import duckdb
import pandas
import pyarrow as pa
import pytest
from pyarrow import parquet
from sqlglot import exp

from rangebound.errors import PlanError
from rangebound.release import make_plan, release
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.engine.spark import Spark
from rangebound.release.plan.source import Source
from rangebound.release.plan.table_schema import Family, check_schema
from rangebound.release.sql.expression import column
from rangebound.release.sql.relation import aliased
from rangebound.release.sql.view import offsets, view
from tests.release.plans import SALT
from tests.release.sql.test_joined import as_python

ZONES = ["America/New_York", "Europe/Paris", "Asia/Kolkata", "Australia/Lord_Howe", "America/Sao_Paulo", "UTC"]
EPOCH = datetime.datetime(1970, 1, 1)
COUNT = [{"name": "n", "kind": "count"}]
HALF_HOUR, YEAR = 1_800_000_000, 31_556_952_000_000


def planned(zone, **more):
    return make_plan({"budget": {"epsilon": 1.0}, "zone": zone, "query": COUNT, **more})


def instants(zone, many=400):
    """Microseconds since 1970: random ones of 1880 to 2100, and those around the changes of a zone."""
    drawn = random.Random(zone)
    found = [drawn.randrange(-90 * YEAR, 130 * YEAR) for _ in range(many)]
    changes = [(since - EPOCH) // datetime.timedelta(microseconds=1) for since, _ in offsets(zone)[1:]]
    for change in drawn.sample(changes, min(len(changes), 60)):
        found += [change - 1, change, change + 1, change - HALF_HOUR, change + HALF_HOUR]
    return found


def local(engine, zone, name="at"):
    """The local times that the statements of a plan see, by the numbers of the rows."""
    seen = view(planned(zone), engine)
    assert seen.schema[name] is Family.TIMESTAMP
    tree = exp.select(column("row"), column(name)).from_(aliased(seen.source(SALT)))
    return {row: as_python(at, Family.TIMESTAMP) for row, at in engine.run(tree)}


def expected(numbers, zone):
    """The same by pandas, which reads the time zone database by itself."""
    moments = pandas.Series(numbers).astype("datetime64[us]").dt.tz_localize("UTC").dt.tz_convert(zone)
    return dict(enumerate(moments.dt.tz_localize(None).dt.to_pydatetime()))


def table(numbers, unit="us", zone="UTC"):
    return pa.table({"row": range(len(numbers)), "at": pa.array(numbers, pa.int64()).cast(pa.timestamp(unit, zone))})


@pytest.mark.few(1)
@pytest.mark.parametrize("zone", ZONES[2:] + ZONES[:2])
def test_local_times_are_those_of_pandas(zone, tmp_path):
    numbers = instants(zone)
    wanted = expected(numbers, zone)
    found = table(numbers, zone="Asia/Tokyo")
    parquet.write_table(found, tmp_path / "t.parquet")
    with duckdb.connect(str(tmp_path / "t.db")) as base:
        base.register("found", found)
        base.execute("CREATE TABLE t AS SELECT * FROM found")
    sources = [
        found,
        found.to_pandas(),
        Source(path=str(tmp_path / "t.parquet")),
        Source(path=str(tmp_path / "t.db"), table="t"),
    ]
    for source in sources:
        with DuckDB(source) as engine:
            assert local(engine, zone) == wanted
            if isinstance(source, Source) and source.table is None:  # and by the second reader of the file
                assert engine._table.read_otherwise()
                assert local(engine, zone) == wanted
    control = expected([each + 1 for each in numbers], zone)
    assert control != wanted


@pytest.mark.slow
def test_the_time_zone_of_a_spark_session_does_not_matter(spark):
    before = spark.conf.get("spark.sql.session.timeZone")
    numbers = [each for other in ZONES for each in instants(other, 40)]
    plan = make_plan({"budget": {"epsilon": 1.0, "delta": 1e-6}, "query": [{**COUNT[0], "by": ["at"]}]})
    try:
        for session in ("UTC", "Asia/Tokyo", "America/Los_Angeles"):
            spark.conf.set("spark.sql.session.timeZone", session)
            frame = spark.createDataFrame(list(enumerate(numbers)), "row int, micros bigint")
            with Spark(frame.selectExpr("row", "timestamp_micros(micros) AS at")) as engine:
                for each in ZONES if session == "Asia/Tokyo" else ZONES[:1]:
                    assert local(engine, each) == expected(numbers, each)
                with pytest.raises(PlanError, match=r"is of type timestamp, .* say zone = "):
                    check_schema(plan, view(plan, engine).schema)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["us", "s", "ms", "ns"])
def test_instants_beyond_the_calendar_are_missing(unit, tmp_path):
    far = [2**63 - 1, -(2**63) + 1, 2**62, -(2**62), 0]
    found = table(far, unit)
    pandas_ = pandas.DataFrame({"row": [0, 1], "at": pandas.to_datetime(["2025-03-30 01:00", None], utc=True)})
    with DuckDB(found) as engine:
        seen = local(engine, "Europe/Paris")
    assert seen[4] == datetime.datetime(1970, 1, 1, 1)
    assert unit == "ns" or [seen[at] for at in range(4)] == [None] * 4
    with DuckDB(pandas_) as engine:
        assert local(engine, "Europe/Paris") == {0: datetime.datetime(2025, 3, 30, 3), 1: None}
    if unit in ("ms", "us"):
        parquet.write_table(found, tmp_path / "t.parquet")
        with DuckDB(Source(path=str(tmp_path / "t.parquet"))) as engine:
            assert local(engine, "Europe/Paris") == seen
    with duckdb.connect(str(tmp_path / "t.db")) as base:
        base.execute('CREATE TABLE t ("row" INTEGER, "at" TIMESTAMPTZ)')
        base.execute("INSERT INTO t VALUES (0, 'infinity'), (1, '-infinity'), (2, NULL)")
    with DuckDB(Source(path=str(tmp_path / "t.db"), table="t")) as engine:
        assert local(engine, "Europe/Paris") == {0: None, 1: None, 2: None}


@pytest.mark.slow
def test_offsets_are_those_of_every_hour():
    drawn = random.Random(3)
    for zone in [*ZONES, *drawn.sample(sorted(zoneinfo.available_timezones() - {"localtime", "Factory"}), 5)]:
        known = offsets(zone)
        table_ = zoneinfo.ZoneInfo(zone)
        year = drawn.randrange(1880, 2100)
        moment, at = datetime.datetime(year, 1, 1), 0
        while moment.year == year:
            while at + 1 < len(known) and known[at + 1][0] <= moment:
                at += 1
            seen = moment.replace(tzinfo=datetime.UTC).astimezone(table_)
            assert seen.utcoffset() == datetime.timedelta(seconds=known[at][1]), (zone, moment)
            moment += datetime.timedelta(hours=1)


@pytest.mark.slow
def test_a_joined_table_has_local_times_too():
    opened = pa.array([datetime.datetime(2025, 7, 1, 3, 30)] * 2, pa.timestamp("s", "UTC"))
    join = {"table": "places", "public": True, "on": ["place"], "columns": ["opened"]}
    plan = {
        "budget": {"epsilon": 100.0},
        "join": [join],
        "query": [{"name": "late", "kind": "count", "where": "HOUR(opened) = 23"}],
    }
    places = {"places": pa.table({"place": ["a", "b"], "opened": opened})}
    data = pa.table({"place": ["a"] * 30 + ["c"] * 7})
    found = release({**plan, "zone": "America/New_York"}, data, ledger=None, tables=places)
    assert found.cells[0].value == 30
    with pytest.raises(PlanError, match=r"opened.*is of type timestamp\[s, tz=UTC\].*say zone = "):
        release(plan, data, ledger=None, tables=places)


def test_columns_that_no_plan_can_name_stop_no_statement():
    moments = pa.array([datetime.datetime(2025, 7, 1)] * 9, pa.timestamp("us", "UTC"))
    data = pa.table({"at": moments, "= x > 1": [1] * 9, "= y": moments})
    query = [{**COUNT[0], "where": "HOUR(at) = 0"}]
    plan = {"budget": {"epsilon": 100.0}, "zone": "UTC", "query": query}
    assert release(plan, data, ledger=None).cells[0].value == 9
