"""One row per unit in the engines: what pandas groups, the same bits in any order of rows, and nothing that fails."""

import datetime
import math
import random
from fractions import Fraction

import numpy as np
import pandas
import pyarrow
import pytest

from rangebound.errors import PlanError
from rangebound.release import Source, make_plan, release
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.engine.spark import Spark
from rangebound.release.plan.expressions.nodes import quoted
from rangebound.release.sql.view import view
from tests.release.sql.test_joined import rows_of

DAYS = [datetime.date(2025, 1, 1) + datetime.timedelta(days=each) for each in range(5)]
COLUMNS = {"cost": {"range": [-10, 90]}, "dear": "cost > 40", "ratio": "spent / visits"}
PER_UNIT = {
    "visits": "COUNT(*)",
    "dear_visits": "COUNT(*) FILTER (WHERE dear)",
    "spent": {"value": "sum(cost)", "range": [-20, 200]},
    "stays": "sum(clip(nights, 0, 7))",
    "once": "BOOL_OR(clinic = 'a')",
    "always": "BOOL_AND(dear)",
    "least": "min(cost)",
    "most": "max(cost)",
    "latest": "max(CAST(day AS DATE))",
    "begin": "ARG_MIN(clinic, day)",
    "end": "ARG_MAX(nights, day)",
    "places": "COUNT(DISTINCT clinic)",
    "amounts": "COUNT(DISTINCT cost)",
    "person": "max(person_number)",
}


def plan_with(per_unit=None, **parts):
    base = {"unit": {"column": "who"}, "budget": {"epsilon": 90.0}, "query": [{"name": "n", "kind": "count"}]}
    return make_plan({**base, "columns": {} if per_unit else COLUMNS, "per_unit": per_unit or PER_UNIT, **parts})


def some_rows(chance, count):
    people = [chance.choice([None, *range(12)]) for _ in range(count)]
    return pandas.DataFrame(
        {
            "who": pandas.array(people, "Int64"),
            "person_number": pandas.array(people, "Int64"),
            "clinic": [chance.choice([None, "a", "b", "é", ""]) for _ in range(count)],
            "cost": [
                chance.choice([math.nan, math.inf, -99.0, 0.1, 0.2, 1e9, chance.uniform(-10, 90)]) for _ in range(count)
            ],
            "nights": pandas.array([chance.choice([None, -3, 0, 1, 5, 100]) for _ in range(count)], "Int64"),
            "day": [chance.choice([None, *DAYS]) for _ in range(count)],
        }
    )


def seen(plan, engine):
    """The rows that the questions see, by name."""
    names = list(view(plan, engine).schema)
    return [dict(zip(names, row, strict=True)) for row in rows_of(plan, engine, *names)]


def by_hand(rows):
    """The row of a unit, by pandas and exact fractions."""
    cost = rows["cost"].where(np.isfinite(rows["cost"]))
    dear = (cost > 40) & cost.notna()
    exact = sum(
        (Fraction(math.floor(min(max(x, -10.0), 90.0) * 2.0**33 + 0.5), 2**33) for x in cost.dropna()), Fraction(0)
    )
    spent = min(max(float(exact), -20.0), 200.0)
    clipped, nights = cost.clip(-10.0, 90.0), rows["nights"].dropna()
    present = rows.dropna(subset=["clinic", "day"])
    stayed = rows.dropna(subset=["nights", "day"])
    return {
        "visits": len(rows),
        "dear_visits": int(dear.sum()),
        "spent": spent,
        "stays": int(nights.clip(0, 7).sum()),
        "once": bool((rows["clinic"] == "a").any()),
        "always": bool(dear.all()),
        "least": clipped.min(),
        "most": clipped.max(),
        "latest": max(rows["day"].dropna(), default=None),
        "begin": min(present[present["day"] == min(present["day"], default=None)]["clinic"], default=None),
        "end": min(stayed[stayed["day"] == max(stayed["day"], default=None)]["nights"], default=None),
        "places": rows["clinic"].nunique(),
        "amounts": clipped.nunique(),
        "person": int(rows["who"].iloc[0]),
        "ratio": spent / len(rows),
    }


def same(found, expected):
    assert found == {name: None if pandas.isna(value) else value for name, value in expected.items()}


def expected_rows(data):
    return {person: by_hand(rows) for person, rows in data.dropna(subset=["who"]).groupby("who")}


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(4))
def test_the_row_of_each_unit_is_what_pandas_groups(seed):
    data = some_rows(random.Random(seed), 150)
    expected = expected_rows(data)
    with DuckDB(pyarrow.Table.from_pandas(data)) as engine:
        found = seen(plan_with(), engine)
    assert len(found) == len(expected)
    for row in found:
        same(row, expected[row["person"]])


@pytest.mark.slow
def test_the_bits_do_not_depend_on_the_order_of_rows_or_the_number_of_threads():
    data = some_rows(random.Random(7), 400)
    data["cost"] = [random.Random(str(at)).uniform(-10, 90) for at in range(400)]
    found = []
    for at, threads in enumerate((1, 2, 2)):
        with DuckDB(pyarrow.Table.from_pandas(data.sample(frac=1, random_state=at)), threads=threads) as engine:
            found.append(seen(plan_with(), engine))
    assert found[0] == found[1] == found[2]


@pytest.mark.slow
def test_names_that_spark_would_change_are_refused(spark):
    data = some_rows(random.Random(9), 1)
    kinds = "who bigint, person_number bigint, clinic string, cost double, nights bigint, day date"
    frame = spark.createDataFrame([(None,) * len(data.columns)], kinds)
    with Spark(frame) as engine, pytest.raises(PlanError, match="which Spark replaces"):
        view(plan_with({"a ${x}": "COUNT(*)"}), engine)


@pytest.mark.slow
def test_a_csv_file_gives_the_same_rows(tmp_path):
    data = some_rows(random.Random(11), 120)
    data["clinic"] = data["clinic"].replace("", "b")  # an empty field is missing
    data.to_csv(tmp_path / "t.csv", index=False)
    expected = expected_rows(data)
    with DuckDB(Source(path=str(tmp_path / "t.csv"))) as engine:
        found = seen(plan_with({**PER_UNIT, "person": "max(number(person_number))"}, columns=COLUMNS), engine)
    assert len(found) == len(expected)
    for row in found:
        wanted = expected[int(row["person"])]
        same({**row, "end": None}, {**wanted, "end": None})
        assert (row["end"] is None) == (wanted["end"] is None)  # a text, as it stands


@pytest.mark.parametrize(
    ("values", "range_", "exact"),
    [
        ([0.1] * 10, [0, 1], 1.0),
        ([1e9, 1.0, -1e9], [-2e9, 2e9], 1.0),
        ([2.0**-30] * 3, [0, 1], 3 * 2.0**-30),
        ([5.0, 7.0], [0, 1e6], 12.0),
        ([-0.0], [-1, 1], 0.0),
        ([1e-120] * 4, [0, 1e-120], 4e-120),
        ([1e140] * 4, [0, 1e140], 4e140),
    ],
)
def test_sums_are_exact_up_to_a_part_of_the_range(values, range_, exact):
    made = {"total": "sum(x)"}
    plan = plan_with(made, columns={"x": {"range": range_}})
    with DuckDB(pyarrow.table({"who": [1] * len(values), "x": values})) as engine:
        (row,) = seen(plan, engine)
    assert abs(row["total"] - exact) <= len(values) * 2.0**-40 * max(map(abs, range_))


def test_whole_numbers_are_added_as_such():
    plan = plan_with({"total": "sum(x)"}, columns={"x": {"range": [0, 2**52]}})
    with DuckDB(pyarrow.table({"who": [1, 1, 2, 2, 2, 3], "x": [2**51, 1, 2**52, 2**52, 2**52, -5]})) as engine:
        assert [row["total"] for row in seen(plan, engine)] == [0, 2**51 + 1, 2**53]


BY_CLINIC = {"query": [{"name": "n", "kind": "count", "by": ["clinic"]}], "keys": {"clinic": ["a"]}}
WRONG = [
    ({"a": "ARG_MIN(clinc, day)"}, {}, r"per_unit.a='clinc': the table has no such column; .*'clinic'"),
    ({"a": "ARG_MIN(clinic, flag)"}, {}, r"per_unit.a='flag': is of type boolean"),
    ({"a": "sum(clip(clinic, 0, 1))"}, {}, r"per_unit.a='clinic': is of type text"),
    ({"a": "COUNT(*)"}, {"unit": {"column": "nobody"}}, r"unit.column='nobody': the table has no such column"),
    ({"a": "COUNT(*)"}, BY_CLINIC, r"query\[0\]: 'clinic' is not a column of \[per_unit\].*first\(clinic, day\)"),
    ({"a": "COUNT(*)"}, {"columns": {"b": "a > cost"}}, r"columns.b='cost': the table of \[per_unit\] has no such"),
]


@pytest.mark.parametrize(("per_unit", "parts", "words"), WRONG)
def test_a_plan_that_does_not_fit_the_table_is_refused_before_the_charge(per_unit, parts, words):
    data = pyarrow.table({"who": [1], "clinic": ["a"], "day": [DAYS[0]], "cost": [1.0], "flag": [True]})
    with pytest.raises(PlanError, match=words):
        release(plan_with(per_unit, **parts), data, ledger=None)


@pytest.mark.parametrize("name", ['a"b', "select", "a.b", "ä; DROP TABLE x --", "source", "end_0"])
def test_names_are_never_read_as_sql(name):
    used = quoted(name, '"')
    plan = plan_with({name: f"ARG_MIN({used}, day)", f"{name} more": f"COUNT(DISTINCT {used})"})
    with DuckDB(pyarrow.table({"who": [1, 1], name: ["x", "y"], "day": DAYS[:2]})) as engine:
        assert seen(plan, engine) == [{name: "x", f"{name} more": 2}]
