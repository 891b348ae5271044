"""Both engines against a reference in Python: the same exact numbers, whatever is in the table."""

import datetime
import random
import warnings

import pandas
import polars
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from sqlglot import exp

from rangebound.errors import ArgumentError, ArgumentTypeError, EngineError, PlanError
from rangebound.release import check_certificate, release
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.engine.spark import Spark
from rangebound.release.engine.spark_dialect import SPARK
from rangebound.release.plan.model import Source
from rangebound.release.plan.table_schema import Family, cautions, check_schema
from rangebound.release.plan.toml import make_plan
from rangebound.release.sql.aggregate import aggregate
from rangebound.release.sql.statements import statements
from tests.release import reference
from tests.release.plans import KINDS, OTHER_SALT, SALT, plan_data
from tests.thinning import crossed

NASTY = ["a", "c'\\", "d`; DROP TABLE x; --", 'e"', "é\u0301\n", "\u202e", ""]
COLUMNS = [
    ("person", pa.int64(), "bigint"),
    ("name", pa.string(), "string"),
    ("clinic; --", pa.string(), "string"),
    ("ward", pa.int16(), "smallint"),
    ("open", pa.bool_(), "boolean"),
    ("day", pa.date32(), "date"),
    ("wait", pa.float64(), "double"),
    ("age", pa.int8(), "tinyint"),
    ("score", pa.string(), "string"),
    ("seen", pa.timestamp("us"), "timestamp_ntz"),
]


def make_rows(count, seed=1):
    pick = random.Random(seed).choice
    uniform = random.Random(seed + 1).uniform
    odd = [None, float("nan"), float("inf"), float("-inf"), -5.0, 1e300, 0.0, -0.0, 100.0]
    texts = ["7", " 7", "7.5", "1e1", "0x1F", "12d", "nan", "inf", "1_0", "7\n", "", None, "-3", "+4.25", "٣", "1" * 40]
    return [
        {
            "person": pick([None, *range(-4, 12), 2**62 + 5, -(2**62)]),
            "name": pick([None, "ann", "Ann", "an n", "é", "e\u0301", "", "'", "\\"]),
            "clinic; --": pick([*NASTY, "other", None]),
            "ward": pick([1, 2, 3, -300, None]),
            "open": pick([True, False, None]),
            "day": pick([None, datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(2024, 2, 29)]),
            "wait": pick([*odd, uniform(0, 100), uniform(0, 100), uniform(0, 100)]),
            "age": pick([None, 10, 18, 59, 60, 127, -128]),
            "score": pick([*texts, "2024-02-29", "2023-02-29", "0000-00-00"]),
            "seen": pick([None, datetime.datetime(2024, 2, 29, 23, 59, 59), datetime.datetime(1969, 12, 31, 12)]),
        }
        for _ in range(count)
    ]


def arrow(rows):
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind, _ in COLUMNS})


def on_duckdb(rows, _session=None, **options):
    return DuckDB(arrow(rows), **options)


def on_spark(rows, session):
    schema = ", ".join(f"`{name}` {kind}" for name, _, kind in COLUMNS)
    return Spark(session.createDataFrame([tuple(row.values()) for row in rows], schema))


def found(plan, engine, salt=SALT):
    """The aggregates in the form of the reference."""
    blocks = aggregate(plan, engine, salt)
    answers = {index: dict(each) for block in blocks for index, each in block.answers.items()}
    units = {block.block.by: dict(block.units) for block in blocks if block.block.keys is None}
    return answers, units


UNIT = {"column": "person", "rows": 2, "groups": 2}
CLINICS = {"clinic; --": NASTY}
CONDITIONS = [
    {"column": "age", "is": ">", "value": 300},
    {"column": "age", "is": "!=", "value": 18},
    {"column": "wait", "is": "missing"},
    {"column": "wait", "is": "present"},
    {"column": "wait", "is": "<=", "value": 0.0},
    {"column": "clinic; --", "is": "in", "value": [NASTY[1], NASTY[2], "' OR 1=1 --"]},
    {"column": "clinic; --", "is": "not in", "value": [NASTY[4]]},
    {"column": "clinic; --", "is": "==", "value": ""},
    {"column": "open", "is": "==", "value": True},
    {"column": "ward", "is": "==", "value": "-300"},
    {"column": "day", "is": "<", "value": datetime.date(2024, 3, 1)},
    {"column": "day", "is": "missing"},
    {"column": "seen", "is": ">=", "value": datetime.date(2024, 2, 29)},
    {"column": "score", "is": "==", "value": datetime.date(2024, 2, 29)},
]
CONVERSIONS = [
    {"kind": "mean", "column": "day", "range": [datetime.date(2024, 1, 1), datetime.date(2024, 12, 31)]},
    {"kind": "mean", "column": "seen", "range": [datetime.date(1969, 1, 1), datetime.date(2024, 12, 31)]},
    {"kind": "mean", "column": "score", "range": [datetime.date(2020, 1, 1), datetime.date(2024, 12, 31)]},
    {"kind": "mean", "column": "open", "range": [0, 1]},
    {"kind": "variance", "column": "age", "range": [-1e6, 2e6], "missing": 1e9},
]
SELECTED = [
    {"kind": "top k", "column": "clinic; --", "k": 2, "where": [{"column": "age", "is": ">=", "value": 18}]},
    {"kind": "top k", "column": "name", "k": 1},
    {"kind": "mode", "column": "day"},
    {"kind": "mode", "column": "wait", "range": [0, 100], "bins": 4},
    {"kind": "bounds", "column": "wait", "where": [{"column": "age", "is": ">=", "value": 18}]},
    {"kind": "bounds", "column": "seen", "dates": True},
]
SELECTABLE = {
    **CLINICS,
    "name": ["ann", "Ann", "\u00e9", "'"],
    "day": [datetime.date(2024, 2, 29), datetime.date(1, 1, 1)],
}
PLANS = {
    "people, no groups": plan_data([], unit=UNIT),
    "people, public keys": plan_data(["clinic; --"], unit=UNIT, keys=CLINICS),
    "people, private keys": plan_data(["ward", "open"], KINDS[:4], unit=UNIT),
    "rows, public keys": plan_data(
        ["ward"], [each for each in KINDS if "units" not in each["kind"]], keys={"ward": [3, 1, 99]}
    ),
    "names, many keys": plan_data(
        ["day", "ward"],
        KINDS[:4],
        unit={**UNIT, "column": "name"},
        keys={"day": [datetime.date(2024, 2, 29), datetime.date(1, 1, 1)], "ward": list(range(1, 90))},
    ),
    "people, ranked keys that are selected": plan_data(["open"], SELECTED[:2], unit=UNIT),
    "conditions": plan_data([], [{"kind": "count", "where": [each]} for each in CONDITIONS], unit={**UNIT, "rows": 50}),
    "conversions": plan_data([], CONVERSIONS),
    "people, selected keys": plan_data(["ward"], SELECTED, unit=UNIT, keys={"ward": [3, 1, 99], **SELECTABLE}),
    "rows, selected keys": plan_data([], SELECTED, keys=SELECTABLE),
    "selected keys in private groups": plan_data(["open"], SELECTED, unit=UNIT, keys=SELECTABLE),
}


@pytest.mark.parametrize("name", PLANS)
def test_duckdb_finds_what_the_reference_finds(name):
    plan, rows = make_plan(PLANS[name]), make_rows(400)
    with on_duckdb(rows) as engine:
        check_schema(plan, engine.schema())
        assert found(plan, engine) == reference.aggregates(plan, rows, SALT)


SPRING = [datetime.date(2024, 2, 23) + datetime.timedelta(days=at) for at in range(14)]  # two months, three weeks
BOUNDS = [
    {"rows": 3, "groups": 1},
    {"groups": 3},
    {"rows": 1, "period": {"column": "day", "each": "day", "range": SPRING[::13]}},
    {"period": {"column": "day", "each": "week", "range": [SPRING[2], SPRING[12]]}},
    {"groups": 3, "period": {"column": "day", "each": "month", "range": [SPRING[0], SPRING[-1]]}},
    {"period": {"column": "seen", "each": "month", "range": [datetime.date(1969, 12, 1), datetime.date(2024, 12, 31)]}},
    {"period": {"column": "score", "each": "week", "range": [datetime.date(2020, 1, 1), SPRING[-1]]}},
    {},
]
"""Contribution bounds of single questions, which turn about with the kinds."""


def bounded(shift, kinds=KINDS):
    """All kinds by public keys, each with bounds of its own; a count of units has no rows."""
    asked = [{**each, **BOUNDS[(at + shift) % len(BOUNDS)]} for at, each in enumerate(kinds)]
    asked = [
        {name: value for name, value in each.items() if "units" not in each["kind"] or name != "rows"} for each in asked
    ]
    return make_plan(plan_data(["ward"], asked, unit=UNIT, keys={"ward": [1, 2, 3, -300]}))


def with_spring(count, seed=1):
    """Rows of few people, most of them on days of two months."""
    chance, rows = random.Random(f"spring {seed}"), make_rows(count, seed)
    return [{**row, "person": chance.randrange(6), "day": chance.choice([*SPRING, row["day"]])} for row in rows]


@pytest.mark.parametrize("shift", range(len(BOUNDS)))
def test_questions_have_contribution_bounds_of_their_own(shift):
    plan, rows = bounded(shift), with_spring(300)
    with on_duckdb(rows) as engine:
        check_schema(plan, engine.schema())
        assert found(plan, engine) == reference.aggregates(plan, rows, SALT)


def test_keys_are_selected_among_the_groups_that_count_in_a_period():
    asked = [{**each, **BOUNDS[3], "rows": 1 + at} for at, each in enumerate(KINDS[2:8])]
    asked += [{**KINDS[1], **BOUNDS[3]}, {**KINDS[0], **BOUNDS[3]}]
    plan, rows = make_plan(plan_data(["ward", "open"], asked, unit=UNIT)), with_spring(300)
    with on_duckdb(rows) as engine:
        assert found(plan, engine) == reference.aggregates(plan, rows, SALT)


def test_control_another_period_or_bound_gives_other_numbers():
    rows, kinds = with_spring(300), KINDS[:1]
    with on_duckdb(rows) as engine:
        plans = [
            make_plan(plan_data(["ward"], [{**kinds[0], **each}], unit=UNIT, keys={"ward": [1, 2, 3]}))
            for each in BOUNDS
        ]
        numbers = [tuple(found(plan, engine)[0][0].values()) for plan in plans]
    assert len(set(numbers)) == len(BOUNDS)


def test_control_another_salt_or_another_row_gives_other_numbers():
    plan, rows = make_plan(PLANS["people, public keys"]), make_rows(400)
    expected = reference.aggregates(plan, rows, SALT)
    with on_duckdb(rows) as engine:
        assert found(plan, engine, OTHER_SALT) != expected
    with on_duckdb(rows[1:]) as engine:
        assert found(plan, engine) != expected


@pytest.mark.parametrize("name", ["people, public keys", "people, private keys"])
def test_order_of_rows_and_number_of_threads_change_nothing(name):
    plan, rows = make_plan(PLANS[name]), make_rows(3000)
    with on_duckdb(rows, threads=1) as engine:
        expected = found(plan, engine)
    shuffled = random.Random(5).sample(rows, len(rows))
    with on_duckdb(shuffled, threads=4) as engine:
        assert found(plan, engine) == expected


def test_the_sorting_route_finds_what_the_bits_find(monkeypatch):
    plan, rows = make_plan(PLANS["people, public keys"]), make_rows(1000)
    with on_duckdb(rows) as engine:
        expected = found(plan, engine)
        monkeypatch.setattr("rangebound.release.sql.contribution_bound._MASKED", 0)
        assert found(plan, engine) == expected


def test_a_unit_with_10000_groups_keeps_two_of_them():
    rows = [{**row, "person": 1, "name": f"group {at}"} for at, row in enumerate(make_rows(10_000))]
    plan = make_plan(plan_data(["name"], KINDS[:1], unit={"column": "person", "rows": 1, "groups": 2}))
    with on_duckdb(rows) as engine:
        (answers,), units = found(plan, engine)[0].values(), found(plan, engine)[1]
    assert len(answers) == 2
    assert units == {("name",): dict.fromkeys(answers, 1)}


@crossed({"name": PLANS, "rows": [[], make_rows(1), [dict.fromkeys(dict(make_rows(1)[0])) for _ in range(5)]]})
def test_empty_tables_one_row_and_nothing_but_nulls(name, rows):
    plan = make_plan(PLANS[name])
    with on_duckdb(rows) as engine:
        assert found(plan, engine) == reference.aggregates(plan, rows, SALT)


def test_files_and_frames_give_the_same_numbers(tmp_path):
    rows = [{key: row[key] for key in ("person", "ward", "wait", "age")} for row in make_rows(200)]
    for row in rows:  # what a CSV file can say
        row["wait"] = (
            None
            if row["wait"] is None or abs(row["wait"]) > 1e9 or row["wait"] != row["wait"]
            else round(row["wait"], 3)
        )
    kinds = [each for each in KINDS if each["kind"] in ("count", "sum", "mean", "median")]
    plan = make_plan(
        plan_data(["ward"], kinds, unit={"column": "person", "rows": 2, "groups": 2}, keys={"ward": [1, 2, 3]})
    )
    table = pa.Table.from_pylist(rows)
    parquet.write_table(table, tmp_path / "visits.parquet")
    csv.write_csv(table, tmp_path / "visits.csv")
    import duckdb

    with duckdb.connect(str(tmp_path / "visits.duckdb")) as base:
        base.register("t", table)
        base.execute('CREATE TABLE "odd ""name""" AS SELECT * FROM t')
    sources = [
        table,
        pandas.DataFrame(
            {
                name: pandas.array([row[name] for row in rows], "Float64" if name == "wait" else "Int64")
                for name in rows[0]
            }
        ),
        polars.from_arrow(table),
        Source(path=str(tmp_path / "visits.parquet")),
        Source(path=str(tmp_path / "visits.duckdb"), table='odd "name"'),
    ]
    expected = reference.aggregates(plan, rows, SALT)
    for source in sources:
        with DuckDB(source) as engine:
            assert found(plan, engine) == expected
    with DuckDB(Source(path=str(tmp_path / "visits.csv"))) as engine:  # all owners are text: other units, same numbers
        assert set(engine.schema().values()) == {Family.UNTYPED}
        texts = [{**row, "person": None if row["person"] is None else str(row["person"])} for row in rows]
        assert found(plan, engine) == reference.aggregates(plan, texts, SALT)


SPELLINGS = [
    "7",
    " 7 ",
    "7.5",
    "1e1",
    "5.",
    ".5",
    "0x1F",
    "12d",
    "nan",
    "inf",
    "1_0",
    "7\n",
    "",
    "-3",
    "+4.25",
    "1e-300",
]
SPELLINGS += [
    "٣",
    "1" * 40,
    "1e999",
    "-1e999",
    "0.30000000000000004",
    "0.1234567890123456789",
    "True",
    "false",
    "TRUE ",
]
SPELLINGS += ["2024-02-29", "2023-02-29", "0000-00-00", "2024-02-29 23:59:59.25", "2024-02-29T12:30", "2024-02-29Z"]
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
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.long)])
def test_texts_of_a_csv_file_are_numbers_and_dates_in_plain_notation(tmp_path, every):
    path, plan = tmp_path / "t.csv", make_plan(plan_data([], IN_TEXTS))
    for texts in (SPELLINGS, *([each] for each in SPELLINGS[::every])):
        rows = [{"score": each or None} for each in texts]
        path.write_text("score,other\n" + "".join(f'"{each}",x\n' for each in texts), encoding="utf-8")
        with DuckDB(Source(path=str(path)), threads=1) as engine:
            check_schema(plan, engine.schema())
            assert found(plan, engine) == reference.aggregates(plan, rows, SALT), texts


def test_truth_values_of_a_csv_file_may_be_written_with_capitals(tmp_path):
    frame = pandas.DataFrame({"smoker": [True, False, True], "age": [30, 40, 50]})  # pandas writes True and False
    frame.to_csv(tmp_path / "t.csv", index=False)
    smokers = {"kind": "count", "where": [{"column": "smoker", "is": "==", "value": True}]}
    kinds = [smokers, {"kind": "sum", "column": "smoker", "range": [0, 1]}, {"kind": "count", "by": ["smoker"]}]
    plan = make_plan(plan_data([], kinds, keys={"smoker": [True, False]}))
    with DuckDB(Source(path=str(tmp_path / "t.csv"))) as engine:
        assert [list(each.values()) for each in found(plan, engine)[0].values()] == [[(2,)], [(2,)], [(2,), (1,)]]


@pytest.mark.parametrize("asked", [IN_TEXTS[0], IN_TEXTS[4]], ids=["sum", "condition"])
def test_a_column_of_texts_is_no_column_of_numbers_where_columns_have_types(asked, tmp_path, spark):
    import duckdb

    table = pa.table({"score": ["7", "8"]})
    parquet.write_table(table, tmp_path / "t.parquet")
    with duckdb.connect(str(tmp_path / "t.duckdb")) as base:
        base.register("given", table)
        base.execute("CREATE TABLE t AS FROM given")
    sources = [table, table.to_pandas(), Source(path=str(tmp_path / "t.parquet"))]
    sources += [Source(path=str(tmp_path / "t.duckdb"), table="t")]
    plan = make_plan(plan_data([], [asked]))
    for engine in [*map(DuckDB, sources), Spark(spark.createDataFrame([("7",)], "score string"))]:
        with engine:
            assert list(cautions(plan, engine.schema())) == []  # what is refused needs no warning
            with pytest.raises(PlanError, match="is of type text"):
                check_schema(plan, engine.schema())


def test_a_column_that_sounds_like_text_is_named_before_the_charge(tmp_path):
    (tmp_path / "t.csv").write_text("firstName,age,zip_text\nann,30,x\n")
    kinds = [{"kind": "mean", "column": each, "range": [0, 1]} for each in ("firstName", "age")]
    kinds += [{"kind": "count", "where": [{"column": "zip_text", "is": ">", "value": 3}]}]
    plan = make_plan(plan_data([], kinds))
    with DuckDB(Source(path=str(tmp_path / "t.csv"))) as engine:
        said = list(cautions(plan, engine.schema()))
        with pytest.warns(UserWarning, match="sounds like text") as told:
            release(plan, engine, ledger=None)
    assert [str(each.message) for each in told] == said
    assert [each.split(":")[0] for each in said] == ["query[0].column='firstName'", "query[2].where='zip_text'"]
    with DuckDB(pa.table({"firstName": [1.0], "age": [2], "zip_text": [3]})) as engine:  # control: types tell
        assert list(cautions(plan, engine.schema())) == []


def test_the_type_of_a_column_of_objects_does_not_depend_on_its_values():
    for values in ([1, 2], ["a", 2], [None, None]):
        with DuckDB(pandas.DataFrame({"x": pandas.Series(values, dtype=object)})) as engine:
            assert engine.schema() == {"x": Family.TEXT}


@pytest.mark.parametrize(
    ("change", "field", "word"),
    [
        ({"unit": {"column": "nobody"}}, "unit.column", "no such column"),
        ({"unit": {"column": "wait"}}, "unit.column", "privacy unit"),
        ({"query": [{"name": "n", "kind": "count", "by": ["wait"]}], "keys": {"wait": ["1"]}}, "query[0].by", "key"),
        ({"query": [{"name": "n", "kind": "mean", "column": "day", "range": [0, 1]}]}, "query[0].column", "numbers"),
        (
            {"query": [{"name": "n", "kind": "count", "where": [{"column": "wait", "is": "==", "value": "x"}]}]},
            "query[0].where",
            "condition",
        ),
    ],
)
def test_columns_that_do_not_fit_are_named_before_data_are_read(change, field, word):
    with on_duckdb(make_rows(1)) as engine, pytest.raises(PlanError, match=word) as caught:
        check_schema(make_plan({**plan_data([], KINDS[:1]), **change}), engine.schema())
    assert caught.value.field == field


def test_bad_sources_are_refused(tmp_path):
    with pytest.raises(ArgumentError, match="no such file"):
        DuckDB(Source(path=str(tmp_path / "none.csv")))
    odd = tmp_path / "odd.txt"
    odd.write_text("x")
    with pytest.raises(ArgumentError, match=r"\.csv"):
        DuckDB(Source(path=str(odd)))
    (tmp_path / "bad.parquet").write_text("x")
    with pytest.raises(EngineError, match="cannot read"):
        DuckDB(Source(path=str(tmp_path / "bad.parquet")))
    double = tmp_path / "double.csv"
    double.write_text("a,a\n1,2\n")
    with pytest.raises(ArgumentError, match="first line"):
        DuckDB(Source(path=str(double)))
    with pytest.raises(EngineError, match="<int>"):
        DuckDB(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ArgumentTypeError, match="data frame"):
            Spark(3)


@pytest.fixture(scope="module")
def study():
    """The RAND health insurance experiment: one row for a person and a year, without the person."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from statsmodels.datasets import randhie

        return randhie.load_pandas().data


def test_a_table_of_a_real_study_goes_through(study):
    frame = study
    kinds = [{"kind": "count"}, {"kind": "mean", "column": "mdvis", "range": [0, 40]}]
    plan = make_plan(plan_data([], kinds))
    with DuckDB(frame) as engine:
        (count, mean), _ = (list(each.values()) for each in found(plan, engine))
    assert count[()] == (len(frame),) == (20190,)
    upper, lower = mean[()]
    assert float(40 * lower / (lower + upper)) == pytest.approx(frame["mdvis"].clip(0, 40).mean(), rel=1e-7)


def test_a_whole_release_of_a_real_study_is_near_its_numbers(study):
    visits = {"column": "mdvis", "range": [0, 40]}
    kinds = [
        {"kind": "count"},
        {"kind": "sum", **visits},
        {"kind": "mean", **visits},
        {"kind": "variance", **visits},
        {"kind": "standard deviation", "column": "disea", "range": [0, 60]},
        {"kind": "share", "of": [{"column": "physlm", "is": ">", "value": 0}]},
        {"kind": "quantiles", "column": "disea", "range": [0, 60], "step": 0.5, "levels": [0.25, 0.5, 0.75]},
        {"kind": "median", "column": "lpi", "range": [0, 10]},
        {"kind": "maximum", **visits, "step": 1.0},
        {"kind": "histogram", **visits, "bins": 4},
        {"kind": "count", "by": ["hlthp"]},
    ]
    # Each of 17 intervals may miss with 1e-8; with so much budget they are narrow all the same.
    certain = {"budget": {"epsilon": 60.0}, "level": 1.0 - 1e-8}
    plan = make_plan({**plan_data([], kinds, keys={"hlthp": [0, 1]}), **certain})
    study = study.assign(hlthp=study["hlthp"].astype(int))
    clipped = study["mdvis"].clip(0, 40)
    bins = [((clipped >= low) & ((clipped < low + 10) | (low == 30))).sum() for low in (0, 10, 20, 30)]
    truths = [
        [len(study)],
        [clipped.sum()],
        [clipped.mean()],
        [clipped.var(ddof=0)],
        [study["disea"].clip(0, 60).std(ddof=0)],
        [(study["physlm"] > 0).mean()],
        list(study["disea"].clip(0, 60).quantile([0.25, 0.5, 0.75])),
        [study["lpi"].median()],
        [clipped.quantile(0.99)],
        bins,
        [(study["hlthp"] == key).sum() for key in (0, 1)],
    ]
    with DuckDB(study) as engine:
        found = release(plan, engine, ledger=None)
    check_certificate(found.certificate, found.to_bytes())
    for index, truth in enumerate(truths):
        cells = [cell for cell in found.cells if cell.question == index]
        assert len(cells) == len(truth)
        for cell, number in zip(cells, truth, strict=True):
            assert cell.lower - 1e-6 <= number <= cell.upper + 1e-6, plan.query[index]
            near = 1.0 if plan.query[index].kind == "maximum" else 0.2  # few rows lie around the largest values
            assert cell.upper - cell.lower <= near * max(abs(number), 5.0), plan.query[index]


def test_people_of_many_rows_and_private_keys_go_through_a_whole_release(study):
    frame = study.assign(person=study.index // 4, place=(study["lpi"] * 2).round().astype(int).astype(str))
    kinds = [{"kind": "count", "by": ["place"]}, {"kind": "mean", "by": ["place"], "column": "mdvis", "range": [0, 40]}]
    plan = make_plan(plan_data([], kinds, unit={"column": "person", "rows": 2, "groups": 2}))
    with DuckDB(frame) as engine:
        found = release(plan, engine, ledger=None)
    common = {key for key, count in frame.groupby("place")["person"].nunique().items() if count > 500}
    assert common <= {cell.key[0] for cell in found.cells} <= set(frame["place"])


def test_dates_beyond_all_calendars_and_types_of_their_own_are_missing_values_and_texts(tmp_path):
    import duckdb

    with duckdb.connect(str(tmp_path / "odd.duckdb")) as base:
        base.execute(
            """CREATE TYPE mood AS ENUM ('low', 'high', '7');
            CREATE TABLE t AS SELECT * FROM (VALUES
            (DATE '2024-03-01', TIMESTAMP '2024-03-01', TIMESTAMP_NS '2024-03-01', 'low'::mood, uuid()),
            (DATE 'infinity', TIMESTAMP 'infinity', NULL, '7'::mood, uuid()),
            (DATE '-infinity', TIMESTAMP '-infinity', NULL, 'high'::mood, NULL),
            (DATE '5881580-07-10', TIMESTAMP '294247-01-10', NULL, NULL, uuid()),
            (DATE '5877642-06-25 (BC)', TIMESTAMP '290309-12-22 (BC) 00:00:00', NULL, NULL, uuid())
            ) v(day, seen, fine, mood, id)"""
        )
    span = {"range": [datetime.date(2024, 1, 1), datetime.date(2024, 12, 30)], "missing": datetime.date(2024, 1, 1)}
    kinds = [{"kind": "mean", "column": each, **span} for each in ("day", "seen", "fine", "mood", "id")]
    wheres = [
        ("mood", "==", "nobody"),
        ("id", "==", "nobody"),
        ("id", "present", None),
    ]
    kinds += [
        {"kind": "count", "where": [{"column": a, "is": b, **({} if c is None else {"value": c})}]}
        for a, b, c in wheres
    ]
    kinds += [{"kind": "count", "by": [each]} for each in ("mood", "id", "day")]
    keys = {"mood": ["7", "x"], "id": ["x"], "day": [datetime.date(2024, 3, 1)]}
    with DuckDB(Source(path=str(tmp_path / "odd.duckdb"), table="t")) as engine:
        for unit in ({}, {"column": "id"}, {"column": "mood"}, {"column": "day"}):
            plan = make_plan(plan_data([], kinds, unit=unit, keys=keys))
            check_schema(plan, engine.schema())
            answers = found(plan, engine)[0]
            if not unit:
                sums = [float(each[()][1]) for at, each in answers.items() if at < 5]
                assert sums == pytest.approx([60 / 364] * 3 + [0, 0], abs=1e-8)
                assert [float(answers[at][()][0]) for at in range(5, 8)] == [0, 0, 4]
                assert [[float(x) for (x,) in answers[at].values()] for at in (8, 9, 10)] == [[1, 0], [0], [1]]


def test_how_far_a_scan_is_can_be_seen_from_another_thread():
    import threading
    import time

    table = pa.table({"x": [float(each % 1000) for each in range(2_000_000)]})
    plan = make_plan(plan_data([], [{"kind": "variance", "column": "x", "range": [0, 1000]}]))
    seen, patience = set(), time.monotonic() + 120.0
    with DuckDB(table, threads=1) as engine:
        assert engine.progress() is None
        ended = threading.Event()
        watcher = threading.Thread(
            target=lambda: [seen.add(engine.progress()) for _ in iter(lambda: ended.wait(0.002), True)]
        )
        watcher.start()
        while not seen - {None} and time.monotonic() < patience:  # a busy machine may not let both run at once
            found(plan, engine)
        ended.set()
        watcher.join()
    assert all(each is None or 0.0 <= each <= 100.0 for each in seen)
    assert len(seen - {None}) > 0


WIDTHS = [("tinyint", pa.int8(), 2**7), ("smallint", pa.int16(), 2**15), ("int", pa.int32(), 2**31)]
WIDTHS += [("bigint", pa.int64(), 2**63)]


@pytest.mark.parametrize("unit", [{}, {"column": "person", "rows": 1_000_000}], ids=["rows", "people"])
def test_no_sum_over_rows_is_held_in_64_bits(unit):
    kinds = [each for each in KINDS if unit or "units" not in each["kind"]]
    plan = make_plan(plan_data([], kinds, unit=unit))
    schema = {"person": Family.INTEGER, "wait": Family.NUMBER, "age": Family.INTEGER}
    found = statements(plan, schema, SALT, source=exp.to_table("t"), dialect=SPARK)
    sums = [tree.this.sql("spark") for each in found for tree in each.tree.find_all(exp.Sum)]
    assert len(sums) >= 5
    assert all(text.endswith("AS DECIMAL(28, 0))") for text in sums), sums


@pytest.mark.parametrize(("name", "kind", "limit"), WIDTHS, ids=lambda each: str(each))
def test_owners_may_be_whole_numbers_of_any_width(spark, name, kind, limit):
    owners = [1, 2, 2, limit - 1, limit - 2, -limit, -limit, 0, None]
    clinics = [NASTY[at % 2] for at in range(len(owners))]
    plan = make_plan(plan_data(["clinic; --"], KINDS[:2], unit={**UNIT, "groups": 1}, keys=CLINICS))
    table = pa.table({"person": pa.array(owners, kind), "clinic; --": clinics})
    frame = spark.createDataFrame(list(zip(owners, clinics, strict=True)), f"person {name}, `clinic; --` string")
    with DuckDB(table) as engine:
        expected = found(plan, engine)
    assert found(plan, Spark(frame)) == expected
    assert sum(count for (count,) in expected[0][1].values()) == len(set(owners) - {None})


# The widest first: a sum that overflows in fewer bits overflows there too.
@pytest.mark.parametrize(("name", "kind", "limit"), [WIDTHS[3], pytest.param(*WIDTHS[2], marks=pytest.mark.long)])
def test_values_and_keys_may_be_whole_numbers_of_any_width(spark, name, kind, limit):
    values = [1, 2, 7, limit - 1, limit - 2, -limit, -limit, 0, None]
    asked = [{**each, "column": "value"} for each in KINDS if "column" in each and "where" not in each]
    asked += [{"kind": "count", "where": [{"column": "value", "is": "<=", "value": limit // 2}]}]
    asked += [{**each, "range": [-limit, limit], "step": limit / 8} for each in asked if each["kind"] == "median"]
    plan = make_plan(plan_data(["value"], asked, keys={"value": [1, limit - 1, -limit]}))
    whole = make_plan(plan_data([], asked))
    table = pa.table({"value": pa.array(values, kind)})
    engines = DuckDB(table), Spark(spark.createDataFrame([(each,) for each in values], f"value {name}"))
    assert found(plan, engines[0]) == found(plan, engines[1])
    assert found(whole, engines[0]) == found(whole, engines[1])
    assert found(plan, engines[0])[0][0][str(-limit),] != (0,)


ODD = [
    "${env:HOME}",
    "${spark.master}",
    "local[2]",
    "${spark.note}",
    "\\",
    "\\\\",
    "'",
    "\\'",
    "\x1f",
    "é",
    "\\u0041",
    "A",
]


@pytest.mark.parametrize("escaped", ["false", "true"])
def test_a_text_of_a_plan_is_that_text_to_spark_whatever_the_settings(spark, escaped):
    kinds = [{"kind": "count", "by": ["k"]}]
    kinds += [{"kind": "count", "where": [{"column": "k", "is": "in", "value": [each]}]} for each in ODD]
    plan = make_plan(plan_data([], kinds, keys={"k": ODD}))
    with DuckDB(pa.table({"k": ODD})) as engine:
        expected = found(plan, engine)
    settings = {"spark.note": "x') OR ('1'='1", "spark.sql.parser.escapedStringLiterals": escaped}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        substituted = spark.sql("SELECT '${spark.master}'").collect()[0][0]
        assert found(plan, Spark(spark.createDataFrame([(each,) for each in ODD], "k string"))) == expected
    finally:
        for name in settings:
            spark.conf.unset(name)
    assert substituted == "local[2]"  # control: Spark does so by itself
    assert all(sums == dict.fromkeys(sums, (1,)) for sums in expected[0].values())


def test_columns_that_spark_would_take_for_others_are_refused(spark):
    frame = spark.createDataFrame([("a", "A")], "`${spark.master}` string, k string")
    engine = Spark(frame.selectExpr("*", "k COLLATE UTF8_LCASE AS folded"))
    assert engine.schema() == {"${spark.master}": Family.OTHER, "k": Family.TEXT, "folded": Family.OTHER}
    with pytest.raises(EngineError, match="which Spark replaces"):
        found(make_plan(plan_data(["${spark.master}"], KINDS[:1])), engine)


def test_spark_says_nothing_about_the_data_where_it_fails(spark):
    from pyspark.logger import PySparkLogger

    frame = spark.createDataFrame([("a secret",)], "k string").selectExpr("CAST(k AS INT) AS k")
    logger, said = PySparkLogger.getLogger("SQLQueryContextLogger"), []
    logger.addFilter(lambda record: said.append(record.getMessage()))
    try:
        with pytest.raises(EngineError, match="its own logs say why"):
            found(make_plan(plan_data(["k"], KINDS[:1])), Spark(frame))
        assert said == []
        with pytest.raises(Exception, match="secret"):
            frame.collect()
        assert "secret" in said[0]  # control: by itself it tells
    finally:
        logger.filters.clear()
