import datetime
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from rangebound.errors import PlanError
from rangebound.release import (
    Budget,
    Condition,
    Count,
    Mean,
    Plan,
    check_certificate,
    explain,
    make_plan,
    parse_plan,
    release,
)
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.plan.column_declaration import ColumnDeclaration
from rangebound.release.plan.table_schema import Family, cautions
from rangebound.release.sql.view import view
from rangebound.release.suggest import left_out

NAMES = {"ColumnDeclaration": ColumnDeclaration, "Condition": Condition}

COUNT = {"name": "n", "kind": "count"}
MEAN = {"name": "m", "kind": "mean", "column": "x"}


def plan(*queries, epsilon=1.0, **more):
    return make_plan({"budget": {"epsilon": epsilon}, "query": list(queries or [COUNT]), **more})


def ranges(*queries, **columns):
    return [each.range for each in plan(*queries, columns=columns).query]


def test_a_question_takes_the_public_range_of_its_column():
    mean = {"kind": "mean"}
    queries = [{**mean, "name": each, "column": each} for each in ("age", "hours", "late", "clipped")]
    dated = {"name": "d", "kind": "median", "column": "due"}
    found = ranges(
        *queries,
        dated,
        age={"range": [0, 120]},
        minutes={"range": [0, 1440]},
        hours="minutes / 60",
        late="hours > 3",
        clipped={"value": "x + y", "range": [-5, 5]},
        day={"range": [datetime.date(2025, 1, 1), datetime.date(2025, 12, 31)]},
        due="day + 14",
    )
    due = (datetime.date(2025, 1, 15), datetime.date(2026, 1, 14))
    assert found == [(0.0, 120.0), (0.0, 24.0), (0.0, 1.0), (-5.0, 5.0), due]


def test_a_question_keeps_the_range_that_it_states_and_fits_the_one_that_it_takes():
    assert ranges({**MEAN, "range": [0, 7]}, x={"range": [0, 120]}) == [(0.0, 7.0)]
    with pytest.raises(PlanError, match=r"query\[0\].support: must lie within \[0, 120\]"):
        plan({**MEAN, "support": [0, 200]}, columns={"x": {"range": [0, 120]}})
    with pytest.raises(PlanError, match=r"query\[0\].step: must give between 1 and"):
        plan({**MEAN, "kind": "median", "step": 500.0}, columns={"x": {"range": [0, 120]}})


@pytest.mark.parametrize("columns", [{}, {"x": "a / b"}, {"x": "a + 1"}, {"x": "3"}, {"x": "'a'"}])
def test_a_question_without_any_range_is_refused_with_the_way_out(columns):
    way = "that of the column beside its value in" if columns else "that of its column in"
    with pytest.raises(PlanError, match=rf"query\[0\].range: is missing for 'x'; state it, or {way} \[columns\]"):
        plan(MEAN, columns=columns)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"a": "b + 1", "b": "c + 1", "c": "a + 1"}, r"uses itself: a -> b -> c -> a; made columns form a circle"),
        ({"a": "a + 1"}, r"uses itself: a -> a; a made column must have a name that the table does not have"),
        ({"a": "b == c"}, r"columns.a=.b == c.: b == c: the type of 'b' does not follow"),
        ({"a": "b +"}, r"columns.a.value=.b \+.: not a valid expression"),
        ({"a": {}}, r"columns.a: needs a value"),
        ({"a": {"value": "b > 3", "range": [0, 1]}}, r"columns.a=.*is true or false, where a number is needed"),
        ({"a": {"value": "b + 1", "range": [1, 1]}}, r"columns.a.range"),
        ({"a": {"valve": "b + 1"}}, r"columns.a.valve='b \+ 1': unknown field; did you mean 'value'"),
        ({"a": 3}, r"columns.a=3: must be a table of fields"),
        ({"a": "b + 1", "A": "b + 2"}, r"columns.A=.b \+ 2.: 'a' has this name too"),
        ({"${a}": "b + 1"}, r"a made column must not have"),
        ({"= a": "b + 1"}, r"a made column must not have"),
        ({"a": "b", "b": "c > 3", "d": "a + 1"}, r"columns.d=.a \+ 1.: a \+ 1: a is true or false"),
    ],
)
def test_wrong_columns_are_refused_by_name(columns, words):
    with pytest.raises(PlanError, match=words):
        plan(columns=columns)


def test_a_fault_in_a_column_has_its_line():
    text = '[budget]\nepsilon = 1.0\n[columns]\na = "b + 1"\nc = "lower(b)"\n[[query]]\nname = "n"\nkind = "count"\n'
    with pytest.raises(PlanError, match=r"plan:5: columns.c.value='lower\(b\)': lower\(...\) is not in the language"):
        parse_plan(text)


def test_a_plan_with_columns_reads_as_it_is_written():
    found = plan(
        {**MEAN, "column": "hours"},
        columns={"hours": {"value": "minutes/60", "range": [0, 24]}, "age": {"range": [0, 120]}},
    )
    assert parse_plan(found.to_toml()) == found
    assert make_plan(found.model_dump(by_alias=True, exclude_none=True)) == found
    assert 'hours = {value = "minutes / 60", range = [0.0, 24.0]}' in found.to_toml()
    assert found == plan(
        {**MEAN, "column": "hours"},
        columns={"hours": {"value": " minutes /  60 ", "range": [0, 24]}, "age": {"range": [0, 120]}},
    )


TABLE = pa.table({"x": [1.5, 2.0], "t": ["a", "b"], "d": [datetime.date(2025, 1, 1)] * 2, "i": [1, 2], "b": [True] * 2})


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"a": "y + 1"}, r"columns.a='y': the table has no such column"),
        ({"a": "t + 1"}, r"columns.a='t': is of type text, .* for numbers; number\(t\) reads it"),
        ({"a": "d + 1"}, r"columns.a='d': is of type date, .* for numbers; date\(d\) reads it"),
        ({"a": "year(x)"}, r"columns.a='x': is of type number, which does not serve for dates"),
        ({"a": "x == 'a'"}, r"columns.a='x': is of type number, which does not serve for texts"),
        ({"a": "text(x)"}, r"columns.a='x': is of type number, which does not serve for text\(...\)"),
        ({"a": "hour(d)"}, r"columns.a='d': is of type date, which does not serve for hour\(...\)"),
        ({"a": "not i"}, r"columns.a='i': is of type integer, which does not serve for truth values"),
        ({"X": "i + 1"}, r"columns.X: the table has a column of this name \(engines"),
        ({"x": "i + 1"}, r"columns.x: the table has a column of this name"),
        ({"t": {"range": [0, 1]}}, r"columns.t='t': is of type text, which does not serve for this range"),
        ({"y": {"range": [0, 1]}}, r"columns.y='y': the table has no such column"),
    ],
)
def test_columns_are_checked_against_the_types_of_the_table_before_the_charge(columns, words):
    with pytest.raises(PlanError, match=words):
        release(plan(columns=columns), TABLE, ledger=None)


def test_a_condition_is_checked_against_the_types_of_the_table():
    with pytest.raises(PlanError, match=r"query\[0\].where='t': is of type text, which does not serve for numbers"):
        release(plan({**COUNT, "where": "t + 1 > 3"}), TABLE, ledger=None)


def test_a_number_that_is_not_whole_is_no_key_and_a_whole_one_is():
    grouped = {**COUNT, "by": ["a"]}
    with pytest.raises(PlanError, match=r"'a': is of type number, which does not serve for a grouping key"):
        release(plan(grouped, columns={"a": "x * 2"}, keys={"a": [2, 3, 4]}), TABLE, ledger=None)
    found = release(
        plan(grouped, epsilon=100.0, columns={"a": "round(x * 2)"}, keys={"a": [2, 3, 4]}), TABLE, ledger=None
    )
    assert [row["value"] for row in found.rows()] == [0.0, 1.0, 1.0]


def test_the_view_shows_made_columns_and_no_steps():
    made = {"n": "x / i", "w": "i // 2", "s": "text(t)", "y": "x > 1", "z": "date(d) + i"}
    with DuckDB(TABLE) as engine:
        found = view(plan(columns=made), engine).schema
        families = (Family.NUMBER, Family.INTEGER, Family.TEXT, Family.BOOLEAN, Family.DATE)
        assert {name: found[name] for name in made} == dict(zip(made, families, strict=True))
        assert set(found) == {*engine.schema(), *made}


def test_the_explanation_says_how_columns_are_made():
    said = explain(
        plan({**MEAN, "column": "hours"}, columns={"hours": {"value": "x / 60", "range": [0, 24]}, "late": "hours > 3"})
    )
    assert "Column 'hours' is x / 60, clipped to [0, 24]." in said
    assert "Column 'late' is hours > 3." in said
    assert "Column 'age' is clipped to [0, 120] where it is computed with." in explain(
        plan(columns={"age": {"range": [0, 120]}})
    )


TEXTS = [("region", pa.string()), ("day", pa.date32())]


def random_table(seed, rows=3000):
    draw = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "minutes": np.where(draw.random(rows) < 0.1, np.nan, draw.integers(-50, 1600, rows) / 2),
            "age": np.where(draw.random(rows) < 0.05, np.nan, draw.integers(-3, 140, rows)),
            "staff": draw.integers(0, 5, rows),
            "region": draw.choice(["north 1", "north 2", "south 1", "other"], rows),
            "day": pd.Timestamp("2025-01-01").normalize() + pd.to_timedelta(draw.integers(0, 365, rows), "D"),
        }
    )


def test_answers_on_made_columns_are_those_of_pandas():
    frame = random_table(1)
    text = """
    [budget]
    epsilon = 100.0
    [columns]
    age = {range = [0, 120]}
    minutes = {range = [0, 720]}
    hours = "minutes / 60"
    each = {value = "minutes / staff", range = [0, 300]}
    band = 'case(age < 18, "child", age < 65, "adult", not missing(age), "old")'
    side = 'case(starts(region, "north"), "north", starts(region, "south"), "south", "none")'
    month = "month(day)"
    weekend = "weekday(day) > 5"
    [keys]
    band = ["child", "adult", "old"]
    side = ["north", "south", "none"]
    month = {numbers = [1, 12]}
    [[query]]
    name = "hours"
    kind = "mean"
    column = "hours"
    [[query]]
    name = "each"
    kind = "sum"
    column = "each"
    [[query]]
    name = "bands"
    kind = "count"
    by = ["band", "side"]
    [[query]]
    name = "months"
    kind = "count"
    by = ["month"]
    where = "weekend or minutes / 2 > 100"
    [[query]]
    name = "share"
    kind = "share"
    of = "age + hours * 2 > 60"
    where = "not missing(age) and not missing(hours)"
    """
    plan_ = parse_plan(text)
    table = pa.Table.from_pandas(frame, preserve_index=False).cast(
        pa.schema(
            [
                ("minutes", pa.float64()),
                ("age", pa.float64()),
                ("staff", pa.int64()),
                ("region", pa.string()),
                ("day", pa.date32()),
            ]
        )
    )
    found = release(plan_, table, ledger=None)
    assert check_certificate(found.certificate, found.to_bytes()).numbers == len(found.cells)
    rows = pd.DataFrame(found.rows())
    minutes, age = frame["minutes"].clip(0, 720), frame["age"].clip(0, 120)
    hours = minutes / 60
    value = rows.set_index("query")["value"]
    assert value["hours"] == pytest.approx(hours.mean(), abs=0.02)
    each = (minutes / frame["staff"].replace(0, np.nan)).clip(0, 300)
    assert value["each"] == pytest.approx(each.sum(), rel=1e-3)
    band = pd.cut(frame["age"], [-math.inf, 17, 64, math.inf], labels=["child", "adult", "old"]).astype(object)
    side = frame["region"].str.split().str[0].replace("other", "none")
    expected = frame.groupby([band, side]).size()
    got = rows[rows["query"] == "bands"].set_index(["band", "side"])["value"]
    assert {key: got[key] for key in expected.index} == expected.to_dict()
    asked = frame[frame["day"].map(lambda day: day.isoweekday() > 5) | (minutes / 2 > 100)]
    got = rows[rows["query"] == "months"].set_index("month")["value"]
    assert {int(key): count for key, count in got.items()} == asked.groupby(asked["day"].dt.month).size().to_dict()
    there = frame["age"].notna() & frame["minutes"].notna()
    assert value["share"] == pytest.approx(((age + hours * 2 > 60) & there).sum() / there.sum(), abs=0.01)


def test_an_untyped_table_has_the_same_answers(tmp_path):
    rows = [("1.5", "2025-03-01", "a1"), ("2", "2025-04-30", "b"), ("x", "2025-02-30", "a2"), ("", "", "")]
    file = tmp_path / "table.csv"
    file.write_text("x,d,t\n" + "\n".join(",".join(row) for row in rows))
    queries = [
        {"name": "x", "kind": "count", "where": "x * 2 >= 3"},
        {"name": "d", "kind": "count", "where": "month(d) in [3, 4]"},
        {"name": "t", "kind": "count", "where": "starts(t, 'a')"},
        {"name": "missing", "kind": "count", "where": "missing(x + 0) and missing(date(d))"},
    ]
    found = plan(*queries, epsilon=100.0, source={"path": str(file)})
    with DuckDB(found.source) as engine:
        values = [row["value"] for row in release(found, engine, ledger=None).rows()]
    assert values == [2.0, 2.0, 2.0, 2.0]


def test_a_suggestion_leaves_out_ranges_that_are_known():
    draft = {
        "budget": {"epsilon": 1.0},
        "columns": {"minutes": {"range": [0, 1440]}, "hours": "minutes / 60"},
        "query": [{**MEAN, "column": "hours"}, {**MEAN, "name": "x", "column": "x"}],
    }
    found = left_out(draft, {})
    assert found.ranges == (1,)
    assert found.plan.query[0].range == (0.0, 24.0)


def test_a_column_that_sounds_like_text_is_named_before_the_charge():
    schema = {"name": Family.UNTYPED, "when": Family.TEXT, "x": Family.UNTYPED}
    columns = {"a": "name + 1", "b": "year(when)", "c": "x + 1", "d": "number(name)"}
    said = list(cautions(plan({**COUNT, "where": "name * 2 > 3 or x * 2 > 3"}, columns=columns), schema))
    assert [each.partition(":")[0] for each in said] == [
        "columns.a='name'",
        "columns.b='when'",
        "query[0].where='name'",
    ]


@pytest.mark.parametrize("value", ["clip(x, 0, 1e200)", "clip(x, 1e15, 1e15 + 1)"])
def test_a_range_that_no_question_can_have_is_not_filled_in(value):
    with pytest.raises(PlanError, match=r"query\[0\].range: is missing"):
        plan({**MEAN, "column": "a"}, columns={"a": value})


def test_typed_questions_in_python_take_ranges_too():
    found = Plan(
        budget=Budget(epsilon=1.0),
        columns={"age": {"range": [0, 120]}, "old": "age > 65"},
        query=[Mean(name="age", column="age"), Count(name="old", where="old and sex == 'f'")],
    )
    assert found.query[0].range == (0.0, 120.0)
    assert [each.column for each in found.query[1].where] == ["old", "sex"]
    assert eval(repr(found), {"Plan": Plan, "Budget": Budget, "Mean": Mean, "Count": Count, **NAMES}) == found


def test_expressions_that_differ_in_capital_letters_alone_are_different_columns():
    data = pa.table({"x": ["a", "A", "A", "b"], "y": [1.0, 2.0, 3.0, 4.0]})
    asked = [{**COUNT, "name": each, "where": f'x == "{each}" or y > 10'} for each in ("a", "A", "b", "${x}")]
    found = release(plan(*asked, epsilon=100.0), data, ledger=None)
    assert [row["value"] for row in found.rows()] == [1.0, 2.0, 1.0, 0.0]


TWO = {"x": ("correlation", "y"), "numerator": ("ratio", "denominator"), "y": ("line", "x")}


@pytest.mark.parametrize("field", TWO)
def test_a_column_may_be_named_alone_where_its_range_is_known(field):
    kind, other = TWO[field]
    asked = {"name": "n", "kind": kind, field: "hours", other: {"column": "cost", "range": [1, 9]}}
    base = {"budget": {"epsilon": 1.0}, "query": [asked]}
    short = make_plan({**base, "columns": {"hours": {"range": [2, 24]}}})
    stated = {**asked, field: {"column": "hours", "range": [2, 24]}}
    assert short.query == make_plan({**base, "query": [stated]}).query
    with pytest.raises(PlanError, match=rf"query\[0\].{field}.range: is missing for 'hours'; state it"):
        make_plan(base)


def test_a_weight_may_be_named_alone_where_its_range_is_known():
    asked = {"name": "n", "kind": "mean", "column": "age", "weighted_by": "w"}
    base = {"budget": {"epsilon": 1.0}, "columns": {"age": {"range": [0, 99]}, "w": {"range": [0, 5]}}}
    (question,) = make_plan({**base, "query": [asked]}).query
    stated = {"name": "n", "kind": "mean", "column": "age", "range": [0, 99]}
    stated["weighted_by"] = {"column": "w", "range": [0, 5]}
    assert question == make_plan({**base, "query": [stated]}).query[0]
    with pytest.raises(PlanError, match=r"query\[0\].weighted_by.range: is missing"):
        make_plan({**base, "columns": {"age": {"range": [0, 99]}}, "query": [asked]})
    with pytest.raises(PlanError, match=r"query\[0\].weighted_by.range: the lower end must not be negative"):
        make_plan({**base, "columns": {"age": {"range": [0, 99]}, "w": {"range": [-1, 5]}}, "query": [asked]})


def chain(length):
    made = {f"c{at}": f"c{at + 1} + 1" for at in range(length - 1)} | {f"c{length - 1}": "x + 1"}
    return {"budget": {"epsilon": 1.0}, "columns": made, "query": [{"name": "n", "kind": "count", "where": "c0 > 3"}]}


def test_columns_that_are_made_one_of_the_other_are_not_too_many():
    table = pa.table({"x": [1.0, 2.0]})
    assert release(make_plan(chain(16)), table, ledger=None).rows()[0]["value"] >= 0
    with pytest.raises(PlanError, match=r"columns.c0='c1 \+ 1': is made of made columns, over 16 one behind the other"):
        make_plan(chain(17))
