"""Joined tables in the engines: what pandas joins, nothing that depends on a private row, and the rows of one unit."""

import datetime
import math
import random
from contextlib import nullcontext

import duckdb
import pandas
import pyarrow
import pytest
from pyarrow import parquet
from sqlglot import exp

from rangebound.errors import EngineError, PlanError
from rangebound.ledger import Ledger
from rangebound.release import Source, make_plan, read_plan, release
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.engine.spark import Spark
from rangebound.release.plan.table_schema import Family
from rangebound.release.sql import view as module
from rangebound.release.sql.view import view
from tests.release.plans import OTHER_SALT, SALT
from tests.thinning import crossed

COUNT = [{"name": "n", "kind": "count"}]


def plan_with(*joins, unit=None, query=COUNT, **parts):
    data = {"unit": unit or {"column": "person", "rows": 3}, "budget": {"epsilon": 100.0}, "join": joins}
    return make_plan({**data, "query": query, **parts})


def as_python(value, family):
    """A value as Python has it; a database without a type for it has 1 and 0 for truth values, and texts for dates."""
    read = {Family.DATE: datetime.date.fromisoformat, Family.TIMESTAMP: datetime.datetime.fromisoformat}
    if value is not None and family is Family.BOOLEAN:
        return bool(value)
    return read[family](value) if isinstance(value, str) and family in read else value


def rows_of(plan, engine, *names, salt=SALT):
    """The rows that the questions of a plan see, in some columns."""
    seen = view(plan, engine)
    source = seen.source(salt)
    columns = [exp.column(exp.to_identifier(name, quoted=True)) for name in names]
    source = source.subquery("s") if isinstance(source, exp.Select) else source
    families = [seen.schema[name] for name in names]
    found = engine.run(exp.select(*columns).from_(source))
    return sorted((tuple(map(as_python, row, families)) for row in found), key=repr)


def plain(rows):
    """Rows with None for what pandas has for missing values."""
    return sorted((tuple(map(_plain, row)) for row in rows), key=repr)


def _plain(value):
    return None if pandas.isna(value) else value.item() if hasattr(value, "item") else value


REGIONS = {"table": "regions", "public": True, "on": {"region": "code"}, "columns": {"place": "name", "price": "price"}}
DAYS = [datetime.date(2025, 1, 1) + datetime.timedelta(days=each) for each in range(4)]


def private_rows(chance, count):
    return pandas.DataFrame(
        {
            "person": [chance.choice([None, *range(8)]) for _ in range(count)],
            "region": [chance.choice([None, "a", "b", "c", "é'\"", ""]) for _ in range(count)],
            "day": [chance.choice([None, *DAYS]) for _ in range(count)],
            "x": [chance.choice([None, 1.5, -2.0]) for _ in range(count)],
        }
    ).astype({"person": "Int64"})


REGION_ROWS = pandas.DataFrame(
    {
        "code": ["a", "b", "é'\"", None, "unused", None],
        "name": ["A", None, "E", "N", "U", "M"],
        "price": [1.0, 2.5, -1.0, 0.0, 9.0, 1.0],
    }
)


@pytest.mark.parametrize("how", ["left", "inner"])
def test_a_public_join_is_that_of_pandas(how):
    data = private_rows(random.Random(4), 200)
    there = REGION_ROWS[REGION_ROWS["code"].notna()]
    days = pandas.DataFrame([(r, d, f"{r}{d.day}") for r in "ab" for d in DAYS], columns=["code", "when", "tag"])
    expected = data.merge(there, left_on="region", right_on="code", how=how).drop(columns="code")
    expected = expected.merge(days, left_on=["region", "day"], right_on=["code", "when"], how=how)
    on = {"region": "code", "day": "when"}
    dated = {"table": "days", "public": True, "on": on, "columns": ["tag"], "how": how}
    with DuckDB(pyarrow.Table.from_pandas(data)) as engine:
        engine.give({"regions": REGION_ROWS, "days": pyarrow.Table.from_pandas(days)})
        names = ["person", "region", "x"]
        found = rows_of(plan_with({**REGIONS, "how": how}, dated), engine, *names, "place", "price", "tag")
    assert found == plain(expected[[*names, "name", "price", "tag"]].itertuples(index=False, name=None))


SPELLED = [
    ([1, 2, None], ["1.0", " 02", "x"], [0, 1]),
    (["1.0", "+2", None], [1, 2, 3], [0, 1]),
    ([True, False, None], ["TRUE", "False", "2"], [0, 1]),
    ([*DAYS[:2], None], ["2025-01-01 10:00", "2025-01-02", "2025-1-3"], [0, 1]),
    (["1", "a", None], ["1.0", "a", "b"], [1]),  # two texts are the same only letter by letter
]


@pytest.mark.parametrize(("ours", "theirs", "matched"), SPELLED)
def test_keys_are_compared_as_grouping_keys_are(ours, theirs, matched):
    plan = plan_with(
        {"table": "t", "public": True, "on": {"k": "key"}, "columns": ["at"], "how": "inner"}, unit={"rows": 1}
    )
    with DuckDB(pyarrow.table({"k": ours})) as engine:
        engine.give({"t": pyarrow.table({"key": theirs, "at": [0, 1, 2]})})
        assert rows_of(plan, engine, "at") == [(each,) for each in matched]


WRONG = [
    ({"on": {"region": "cod"}}, r"join\[0\].on='cod': the joined table has no such column; .*'code'"),
    ({"on": {"regio": "code"}}, r"join\[0\].on='regio': the table has no such column"),
    ({"on": {"x": "code"}}, r"join\[0\].on='x': is of type number.*a key to join on"),
    ({"on": {"day": "number"}}, r"join\[0\].on: 'day' is of type date and 'number' of type integer"),
    ({"columns": ["nam"]}, r"join\[0\].columns='nam': the joined table has no such column"),
    ({"columns": {"REGION": "name"}}, r"join\[0\].columns='REGION': the table has a column of this name.*rename"),
    ({"columns": ["list"]}, r"join\[0\].columns='list': is of type "),
    ({"table": "nowhere"}, r"join\[0\].table='nowhere': no such table; give it in Python"),
    ({"path": "nowhere.csv"}, r"join\[0\].path='nowhere.csv': there is no such file"),
]


@pytest.mark.parametrize(("change", "words"), WRONG)
def test_a_join_that_does_not_fit_the_tables_is_refused_before_the_charge(change, words, tmp_path):
    regions = pyarrow.table({"code": ["a"], "name": ["A"], "price": [1.0], "number": [1], "list": [[1]]})
    join = {key: each for key, each in {**REGIONS, **change}.items() if not ("path" in change and key == "table")}
    plan = plan_with(join, budget={"epsilon": 1.0, "account": "people"})
    data = pyarrow.Table.from_pandas(private_rows(random.Random(1), 5))
    with Ledger.create(tmp_path / "ledger") as ledger:
        ledger.open_account("people", epsilon=10)
        with pytest.raises(PlanError, match=words):
            release(plan, data, ledger=ledger, request="1", tables={"regions": regions})
        assert ledger.account("people").spent.epsilon.units == 0


def test_a_key_that_a_public_table_has_twice_is_named_before_the_charge():
    regions = pyarrow.table({"code": ["1", "2", "2.0"], "name": ["A", "B", "C"]})
    plan = plan_with({**REGIONS, "columns": ["name"]}, unit={"rows": 1})
    with pytest.raises(PlanError, match=r"join\[0\].on: the key '2' is in more than one row"):
        release(plan, pyarrow.table({"region": [1, 2]}), ledger=None, tables={"regions": regions})
    texts = release(plan, pyarrow.table({"region": ["1"]}), ledger=None, tables={"regions": regions})
    assert texts.rows()[0]["value"] == 1  # as texts they are different


def written(folder, kind, frame):
    """A table in a file of a kind, and where a plan finds it."""
    if kind == "csv":
        frame.to_csv(folder / "t.csv", index=False)
        return {"path": "t.csv"}
    if kind == "parquet":
        parquet.write_table(pyarrow.Table.from_pandas(frame), folder / "t.parquet")
        return {"path": "t.parquet"}
    with duckdb.connect(folder / "t.duckdb") as connection:
        connection.register("frame", frame)
        connection.execute('CREATE TABLE "odd "" name" AS FROM frame')
    return {"path": "t.duckdb", "table": 'odd " name'}


@pytest.mark.few(1)
@crossed({"own": ["csv", "parquet", "duckdb"], "kind": ["csv", "parquet", "duckdb"]})
def test_tables_in_files_are_joined_wherever_the_plan_is(kind, own, tmp_path):
    regions = pandas.DataFrame({"code": ["a", "b"], "name": ["A", "B"]})
    people = pandas.DataFrame({"person": [1, 2, 3, 4], "region": ["a", "b", "b", "z"]})
    (tmp_path / "own").mkdir()
    source = {**written(tmp_path / "own", own, people)}
    source["path"] = f"own/{source['path']}"
    join = {**written(tmp_path, kind, regions), "public": True, "on": {"region": "code"}, "columns": ["name"]}
    query = [{**COUNT[0], "by": ["name"]}]
    plan = plan_with(join, query=query, keys={"name": ["A", "B"]}, source=source)
    (tmp_path / "plan.toml").write_text(plan.to_toml(), encoding="utf-8")
    made = read_plan(tmp_path / "plan.toml")
    with DuckDB(Source(path=str(tmp_path / source["path"]), table=source.get("table"))) as engine:
        assert [each["value"] for each in release(made, engine, ledger=None).rows()] == [1, 2]
        (tmp_path / join["path"]).unlink()  # what was read is kept
        assert [each["value"] for each in release(made, engine, ledger=None).rows()] == [1, 2]


def test_a_join_finds_a_table_of_the_same_duckdb_file(tmp_path):
    with duckdb.connect(tmp_path / "t.duckdb") as connection:
        connection.execute("CREATE TABLE visits AS SELECT 1 AS person, 'a' AS region")
        connection.execute("CREATE TABLE regions AS SELECT 'a' AS code, 'A' AS name")
    query = [{**COUNT[0], "by": ["name"]}]
    by_name = {"table": "regions", "public": True, "on": {"region": "code"}, "columns": ["name"]}
    for join in (by_name, {**by_name, "path": str(tmp_path / "t.duckdb")}):
        with DuckDB(Source(path=str(tmp_path / "t.duckdb"), table="visits")) as engine:
            made = release(plan_with(join, query=query, keys={"name": ["A"]}), engine, ledger=None)
            assert made.rows()[0]["value"] == 1


@pytest.mark.parametrize("kind", ["csv", "parquet", "duckdb", "cut", "empty"])
def test_a_damaged_public_file_is_refused_before_the_charge_or_read_without_failing(kind, tmp_path):
    names = {"csv": "t.csv", "empty": "t.csv", "cut": "t.parquet"}
    file = tmp_path / names.get(kind, f"t.{kind}")
    if kind == "cut":
        parquet.write_table(pyarrow.table({"code": list(map(str, range(50_000))), "name": ["x" * 20] * 50_000}), file)
        data = bytearray(file.read_bytes())
        data[len(data) // 3 : len(data) // 2] = bytes(len(data) // 2 - len(data) // 3)
        file.write_bytes(data)
    else:
        file.write_bytes({"csv": b'code,name\n"a,A\nb\xff,B\n"', "empty": b""}.get(kind, b"nothing of this kind"))
    place = {"path": str(file), **({"table": "t"} if kind == "duckdb" else {})}
    plan = plan_with(
        {**place, "public": True, "on": {"region": "code"}, "columns": ["name"]},
        budget={"epsilon": 1.0, "account": "people"},
    )
    data = pyarrow.table({"person": [1], "region": ["a"]})
    with Ledger.create(tmp_path / "ledger") as ledger:
        ledger.open_account("people", epsilon=10)
        read = kind == "csv"  # a text file of any bytes is a table: its first line names the columns
        refused = pytest.raises((EngineError, PlanError, ValueError), match=r"join\[0\]")
        with nullcontext() if read else refused:
            release(plan, data, ledger=ledger, request="1")
        assert (ledger.account("people").spent.epsilon.units == 0) != read


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "name", ['a"b', "a`b", "select", "a.b", "ä; DROP TABLE x --", "k0", "c0", "joined", "source", "rank_0"]
)
def test_names_are_never_read_as_sql(name):
    join = {"table": name, "public": True, "on": {name: f"{name} key"}, "columns": {f"{name} new": f"{name} old"}}
    private = {**join, "public": False, "on": {"person": name, **join["on"]}, "rows": 1, "own_rows": 1}
    table = pyarrow.table({name: [1], f"{name} key": ["a"], f"{name} old": [7]})
    for each in (join, private):
        with DuckDB(pyarrow.table({"person": [1], name: ["a"]})) as engine:
            engine.give({name: table})
            assert rows_of(plan_with(each), engine, f"{name} new") == [(7,)]


def test_a_column_that_is_made_later_never_meets_a_rank_of_ours():
    join = {"table": "t", "public": False, "on": ["person"], "columns": ["y"], "rows": 1, "own_rows": 2}
    plan = plan_with(join, columns={"rank_0": "x * 10", "a": "x * 100"})
    with DuckDB(pyarrow.table({"person": [1, 1], "x": [4.0, 5.0]})) as engine:
        engine.give({"t": pyarrow.table({"person": [1], "y": [7]})})
        assert rows_of(plan, engine, "rank_0", "a", "y") == [(40.0, 400.0, 7), (50.0, 500.0, 7)]


VISITS = {"table": "visits", "public": False, "on": {"person": "who"}, "columns": {"z": "y"}, "rows": 2}


def visit_rows(chance, count):
    return pandas.DataFrame(
        {
            "who": [chance.choice([None, *range(8)]) for _ in range(count)],
            "day": [chance.choice([None, *DAYS]) for _ in range(count)],
            "y": [chance.choice([None, 0.5, 1e300, -1e-300, math.pi, 7.0]) for _ in range(count)],
        }
    ).astype({"who": "Int64"})


@pytest.mark.parametrize("how", ["left", "inner"])
@pytest.mark.parametrize("on", [{"person": "who"}, {"person": "who", "day": "day"}])
def test_a_private_join_without_cuts_is_that_of_pandas(how, on):
    data, visits = private_rows(random.Random(6), 60), visit_rows(random.Random(7), 60)
    there = visits.dropna(subset=list(on.values())).rename(columns={"day": "other day"} if len(on) == 1 else {})
    expected = data.merge(there, left_on=list(on), right_on=list(on.values()), how=how)
    plan = plan_with({**VISITS, "on": on, "how": how, "rows": 1000, "own_rows": 1000})
    with DuckDB(pyarrow.Table.from_pandas(data)) as engine:
        engine.give({"visits": pyarrow.Table.from_pandas(visits)})
        found = rows_of(plan, engine, "person", "region", "z")
    assert found == plain(expected[["person", "region", "y"]].itertuples(index=False, name=None))


@pytest.mark.few(3)
@pytest.mark.parametrize("own", [None, 1, 2])
@pytest.mark.parametrize("on", [{"person": "who"}, {"person": "who", "day": "day"}])
def test_of_every_key_at_most_so_many_rows_are_joined_on_either_side(on, own):
    data, visits = private_rows(random.Random(8), 80), visit_rows(random.Random(9), 80)
    plan = plan_with({**VISITS, "on": on, "how": "inner", **({"own_rows": own} if own else {})})
    with DuckDB(pyarrow.Table.from_pandas(data)) as engine:
        engine.give({"visits": pyarrow.Table.from_pandas(visits)})
        found = pandas.DataFrame(rows_of(plan, engine, "person", "day"), columns=["person", "day"])
    keys = list(on)
    here = data.dropna(subset=keys).groupby(keys).size().clip(upper=own)
    there = visits.dropna(subset=list(on.values())).groupby(list(on.values())).size().clip(upper=2)
    there.index.names = keys
    expected = (here * there).dropna().astype(int)
    assert found.groupby(keys).size().to_dict() == expected.to_dict()


@pytest.mark.claim("neighbours")
def test_which_rows_are_joined_depends_on_the_units_own_rows_and_the_salt():
    data, visits = private_rows(random.Random(10), 80), visit_rows(random.Random(11), 80)
    plan = plan_with({**VISITS, "own_rows": 2})

    def of(own, other, salt=SALT):
        with DuckDB(own, threads=2) as engine:
            engine.give({"visits": other})
            rows = rows_of(plan, engine, "person", "region", "x", "z", salt=salt)
        return {person: [row for row in rows if row[0] == person] for person in range(8)}

    before = of(data, visits)
    assert before == of(data.sample(frac=1, random_state=1), visits.sample(frac=1, random_state=2))
    for person in range(8):
        assert before[person] == of(data[data["person"] == person], visits[visits["who"] == person])[person]
    assert before != of(data, visits, OTHER_SALT)  # another salt, another choice


def test_control_a_choice_among_the_rows_of_all_is_caught(monkeypatch):
    kept = module._first
    monkeypatch.setattr(module, "_first", lambda rows, keys, *others: kept(rows, [], *others))
    with pytest.raises(AssertionError):
        test_which_rows_are_joined_depends_on_the_units_own_rows_and_the_salt()


def test_two_owners_of_one_table_are_never_one_owner_of_the_other():
    """Else the rows of the person 1 there would become parts of the rows of "1" and of "1.0" here."""
    plan = plan_with({**VISITS, "how": "inner"})
    with DuckDB(pyarrow.table({"person": ["1", "1.0", " 1", "01"]})) as engine:
        engine.give({"visits": pyarrow.table({"who": [1], "y": [2.0]})})
        assert rows_of(plan, engine, "person") == [("1",)]


@pytest.mark.slow
def test_a_join_of_spark_reads_public_files_and_tables_of_the_session(spark, tmp_path):
    frame = spark.createDataFrame([(1, "a"), (2, "b"), (3, None)], "person bigint, region string")
    (tmp_path / "regions.csv").write_text("code,name,big\na,A,1\nb,B,2\n")
    spark.createDataFrame(
        [("a", "A", 1), ("b", "B", 2)], "code string, name string, big bigint"
    ).createOrReplaceTempView("regions_of_the_session")
    for place in ({"path": str(tmp_path / "regions.csv")}, {"table": "regions_of_the_session"}):
        plan = plan_with({**place, "public": True, "on": {"region": "code"}, "columns": ["name", "big"]})
        with Spark(frame) as engine:
            found = [
                (person, name, None if big is None else int(big))
                for person, name, big in rows_of(plan, engine, "person", "name", "big")
            ]
            assert found == [(1, "A", 1), (2, "B", 2), (3, None, None)]
    with Spark(frame) as engine, pytest.raises(PlanError, match=r"join\[0\].table='nowhere'"):
        view(plan_with({"table": "nowhere", "public": True, "on": {"region": "code"}, "columns": ["name"]}), engine)
    with Spark(frame) as engine:
        engine.give({"visits": pyarrow.table({"who": [1], "y": [2.0]})})
        with pytest.raises(PlanError, match=r"join\[0\]: a private table that is joined must be one of Spark"):
            view(plan_with(VISITS), engine)
