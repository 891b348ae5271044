import datetime

import pyarrow as pa
import pytest

from rangebound.errors import PlanError
from rangebound.release import Source, make_plan, release
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.gaps import left_out
from rangebound.release.plan.cautions import cautions
from rangebound.release.plan.table_schema import Family

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


UNKNOWN = ("a / b", "3", "'a'", "clip(y, 0, 1e200)", "clip(y, 1e15, 1e15 + 1)")


@pytest.mark.parametrize("columns", [{}, *({"x": each} for each in UNKNOWN)])
def test_a_question_without_any_range_is_refused_with_the_way_out(columns):
    way = "that of the column beside its value in" if columns else "that of its column in"
    with pytest.raises(PlanError, match=rf"query\[0\].range: is missing for 'x'; state it, or {way} \[columns\]"):
        plan(MEAN, columns=columns)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"a": "b + 1", "b": "c + 1", "c": "a + 1"}, r"uses itself: a -> b -> c -> a; made columns form a circle"),
        ({"a": "a + 1"}, r"uses itself: a -> a; a made column must have a name that the table does not have"),
        ({"a": "b = c"}, r"columns.a=.b = c.: b = c: the type of 'b' does not follow"),
        ({"a": "b +"}, r"columns.a.value=.b \+.: not valid SQL"),
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


TABLE = pa.table({"x": [1.5, 2.0], "t": ["a", "b"], "d": [datetime.date(2025, 1, 1)] * 2, "i": [1, 2], "b": [True] * 2})


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"a": "y + 1"}, r"columns.a='y': the table has no such column"),
        ("t + 1 > 3", r"query\[0\].where='t': is of type text, which does not serve for numbers"),
        ({"a": "t + 1"}, r"columns.a='t': is of type text, .* for numbers; CAST\(t AS DOUBLE\) reads it"),
        ({"a": "d + 1"}, r"columns.a='d': is of type date, .* for numbers; CAST\(d AS DATE\) reads it"),
        ({"a": "year(x)"}, r"columns.a='x': is of type number, which does not serve for dates"),
        ({"a": "x = 'a'"}, r"columns.a='x': is of type number, which does not serve for texts"),
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
    made = plan(columns=columns) if isinstance(columns, dict) else plan({**COUNT, "where": columns})
    with pytest.raises(PlanError, match=words):
        release(made, TABLE, ledger=None)


def test_an_untyped_table_has_the_same_answers(tmp_path):
    rows = [("1.5", "2025-03-01", "a1"), ("2", "2025-04-30", "b"), ("x", "2025-02-30", "a2"), ("", "", "")]
    file = tmp_path / "table.csv"
    file.write_text("x,d,t\n" + "\n".join(",".join(row) for row in rows))
    queries = [
        {"name": "x", "kind": "count", "where": "x * 2 >= 3"},
        {"name": "d", "kind": "count", "where": "MONTH(d) IN (3, 4)"},
        {"name": "t", "kind": "count", "where": "STARTS_WITH(t, 'a')"},
        {"name": "missing", "kind": "count", "where": "missing(x + 0) and missing(CAST(d AS DATE))"},
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


def test_a_column_that_sounds_like_text_is_named_before_the_charge(tmp_path):
    (tmp_path / "t.csv").write_text("firstName,note,x\nann,30,1\n")
    columns = {"a": "firstName + 1", "b": "year(note)", "c": "x + 1", "d": "number(firstName)"}
    asked = [{"name": each, "kind": "mean", "column": each, "range": [0, 1]} for each in ("firstName", "x")]
    asked += [{**COUNT, "where": "firstName * 2 > 3 or x * 2 > 3"}, {"name": "o", "kind": "count", "where": "note > 3"}]
    made = plan(*asked, columns=columns)
    with DuckDB(Source(path=str(tmp_path / "t.csv"))) as engine:
        said = list(cautions(made, engine.schema()))
        with pytest.warns(UserWarning, match="sounds like text") as told:
            release(made, engine, ledger=None)
    assert [str(each.message) for each in told] == said
    named = {"firstName": ["query[0].column", "query[2].where", "columns.a"], "note": ["query[3].where", "columns.b"]}
    places = [f"{place}={name!r}" for name, own in named.items() for place in own]
    assert sorted(each.partition(":")[0] for each in said) == sorted(places)
    assert list(cautions(made, dict.fromkeys(("firstName", "note", "x"), Family.NUMBER))) == []  # control: types tell


def test_a_truth_value_of_a_text_file_is_named_unless_the_plan_asks_how_many_are_none(tmp_path):
    (tmp_path / "t.csv").write_text("well\noui\nnon\n")
    share = {"name": "well", "kind": "share", "of": "well"}
    unread = {"name": "unread", "kind": "count", "where": "(well = true) IS NULL AND well IS NOT NULL"}
    with DuckDB(Source(path=str(tmp_path / "t.csv"))) as engine:
        (said,) = cautions(plan(share), engine.schema())
        assert said.startswith("query[0].of='well': is read as true or false, t or f")
        assert said.endswith("`well = 'oui'`")
        assert list(cautions(plan(share, unread), engine.schema())) == []
        assert list(cautions(plan({**share, "of": "well = 'oui'"}), engine.schema())) == []  # control: as text
    assert list(cautions(plan(share), {"well": Family.BOOLEAN})) == []  # control: types tell


def test_expressions_that_differ_in_capital_letters_alone_are_different_columns():
    data = pa.table({"x": ["a", "A", "A", "b"], "y": [1.0, 2.0, 3.0, 4.0]})
    asked = [{**COUNT, "name": each, "where": f"x = '{each}' OR y > 10"} for each in ("a", "A", "b", "${x}")]
    found = release(plan(*asked, epsilon=100.0), data, ledger=None)
    assert [row["value"] for row in found.rows()] == [1.0, 2.0, 1.0, 0.0]


TWO = {
    "x": ("correlation", "y"),
    "numerator": ("ratio", "denominator"),
    "y": ("line", "x"),
    "weighted_by": ("count", ""),
}


@pytest.mark.parametrize("field", TWO)
def test_a_column_may_be_named_alone_where_its_range_is_known(field):
    kind, other = TWO[field]
    asked = {"name": "n", "kind": kind, **({other: {"column": "cost", "range": [1, 9]}} if other else {})}
    short = plan({**asked, field: "hours"}, columns={"hours": {"range": [2, 24]}})
    assert short.query == plan({**asked, field: {"column": "hours", "range": [2, 24]}}).query
    with pytest.raises(PlanError, match=rf"query\[0\].{field}.range: is missing for 'hours'; state it"):
        plan({**asked, field: "hours"})
    if field == "weighted_by":
        with pytest.raises(PlanError, match=r"query\[0\].weighted_by.range: the lower end must not be negative"):
            plan({**asked, field: "hours"}, columns={"hours": {"range": [-1, 5]}})


def test_columns_that_are_made_one_of_the_other_are_not_too_many():
    chain = {f"c{at}": f"c{at + 1} + 1" for at in range(15)} | {"c15": "x + 1"}
    asked = {**COUNT, "where": "c0 > 3"}
    assert release(plan(asked, columns=chain), TABLE, ledger=None).rows()[0]["value"] >= 0
    with pytest.raises(PlanError, match=r"columns.c0='c1 \+ 1': is made of made columns, over 16 one behind the other"):
        plan(asked, columns={**chain, "c15": "c16 + 1", "c16": "x + 1"})
