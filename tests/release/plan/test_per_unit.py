"""Columns of a unit in a plan: what is refused and why, and what is known of them."""

import json
import math

import pytest

from rangebound.errors import PlanError
from rangebound.release import Source, explain, make_plan, parse_plan, release
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.output.ledger_entry import charge_text
from rangebound.release.output.scope import scope
from rangebound.release.output.table import plan_from_json, plan_json
from rangebound.release.plan.per_unit import read_call
from rangebound.release.plan.table_schema import cautions
from rangebound.release.sql.view import view

COLUMNS = {"cost": {"range": [0, 500]}, "late": "delay > 15"}


def plan_with(per_unit, *, unit=None, query=None, **parts):
    return make_plan(
        {
            "unit": {"column": "person"} if unit is None else unit,
            "budget": {"epsilon": 1.0},
            "columns": COLUMNS,
            "per_unit": per_unit,
            "query": query or [{"name": "n", "kind": "count"}],
            **parts,
        }
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("", "not a valid expression"),
        ("sum(", "not a valid expression"),
        ("visits", "one function of all rows"),
        ("1 + count()", "one function of all rows"),
        ("sum(cost) / count()", "one function of all rows"),
        ("mean(cost)", "one function of all rows"),
        ("summ(cost)", "did you mean 'sum'"),
        ("median(cost)", r"there are count\(...\), any"),
        ("__import__('os').system('x')", "one function of all rows"),
        ("sum(cost, cost)", "is written sum"),
        ("sum()", "is written sum"),
        ("sum(*cost)", "is written sum"),
        ("sum(x=cost)", "is written sum"),
        ("first(clinic)", r"is written first\(x, date\)"),
        ("sum(exec('x'))", "not in the language"),
        ("sum(minutes)", "needs a public range"),
        ("sum(late)", "where a number is needed"),
        ("any(cost)", "where true or false is needed"),
        ("max(late)", "goes by numbers and dates"),
        ("first(clinic, late)", "goes by numbers and dates"),
        ("sum(cost" + " + cost" * 5000 + ")", "characters"),
        ({"value": "any(late)", "range": [0, 1]}, "has no such range"),
        ({"value": "count()", "range": [5, 1]}, "lower end"),
        ({"range": [0, 1]}, "value"),
        (7, "per_unit.a"),
    ],
)
def test_what_is_not_a_function_of_a_units_rows_is_refused_with_the_reason(value, words):
    with pytest.raises(PlanError, match=words) as error:
        plan_with({"a": value})
    assert error.value.field.startswith("per_unit.a")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"unit": {}}, "the unit is the row already"),
        ({"unit": {"column": "person", "rows": 2}}, "unit.rows: every unit has one row"),
        ({"unit": {"column": "person", "groups": 2}}, "unit.groups: every unit has one row"),
        ({"columns": {"A": "x > 1"}}, "per_unit.a: another column of the plan has this name"),
        ({"query": [{"name": "n", "kind": "count of units"}]}, "the unit is the row; ask for a count"),
        ({"query": [{"name": "n", "kind": "count", "rows": 2}]}, "rows: is not needed where the unit is the row"),
        ({"query": [{"name": "n", "kind": "mean", "column": "a"}]}, r"query\[0\].range"),
    ],
)
def test_a_plan_that_one_row_a_unit_does_not_fit_is_refused(change, words):
    with pytest.raises(PlanError, match=words):
        plan_with({"a": "count()"}, **change)


def test_two_columns_whose_names_differ_in_their_case_are_refused():
    with pytest.raises(PlanError, match=r"per_unit.A: another column"):
        plan_with({"a": "count()", "A": "count()"})


def test_calls_are_written_in_one_form():
    for text in ("count( )", "first(clinic,day)", "sum(clip(cost*2,0,1))", 'any(column("odd name")=="x")'):
        written = str(read_call(text))
        assert str(read_call(written)) == written


def test_what_is_known_of_the_columns_follows_from_their_parts():
    made = plan_with(
        {
            "visits": "count()",
            "few": {"value": "count(late)", "range": [0, 9]},
            "ill": "any(late)",
            "spent": "sum(cost)",
            "lost": "sum(cost - 500)",
            "capped": {"value": "sum(cost)", "range": [0, 5000]},
            "dearest": "max(cost)",
            "clinic": "first(clinic, day)",
        }
    )
    known = {each.name: each.known for each in made.of_unit}
    assert known.pop("clinic") is None  # its type is that of the column in the table
    ranges = {name: each.range for name, each in known.items()}
    assert ranges == {
        "visits": (0.0, math.inf),
        "few": (0.0, 9.0),
        "ill": (0.0, 1.0),
        "spent": (0.0, math.inf),
        "lost": (-math.inf, 0.0),
        "capped": (0.0, 5000.0),
        "dearest": (0.0, 500.0),
    }


def test_a_question_takes_the_range_of_a_column_of_the_unit():
    plan = plan_with(
        {"capped": {"value": "sum(cost)", "range": [0, 5000]}},
        query=[{"name": "m", "kind": "mean", "column": "capped"}],
    )
    assert plan.query[0].bounds.upper == 5000.0


def test_the_unit_of_the_questions_is_the_row_and_that_of_the_ledger_the_person():
    plan = plan_with({"a": "count()"}, unit={"column": "person", "neighbours": "replace", "size": 40})
    unit = plan.unit_of(plan.query[0])
    assert (unit.column, unit.neighbours, unit.size, unit.public_rows) == (None, "replace", 40, None)
    assert "unit 'person', replace" in charge_text(plan)
    assert "by column 'person': one of 40 is replaced" in explain(plan)


def test_the_step_is_told_in_words():
    plan = plan_with({"visits": "count()", "spent": {"value": "sum(cost)", "range": [0, 5000]}})
    words = explain(plan)
    made = "visits = count(); spent = sum(cost), clipped to [0, 5000]."
    assert f"Makes one row of all rows of each 'person': {made}" in words
    assert "Of each, at most" not in words
    assert scope(plan, 0) == "one row per 'person', rows without 'person' left out"


def test_columns_of_a_csv_file_that_sound_like_text_are_named_before_the_charge(tmp_path):
    """Those that the step reads as numbers or dates; after it, the table has only columns of the step."""
    (tmp_path / "t.csv").write_text("person,drug_name,note_text,cost\nann,x,y,3\n")
    per_unit = {
        "a": "sum(clip(drug_name, 0, 9))",
        "b": "any(drug_name > 3)",
        "c": "first(cost, note_text)",
        "d": "sum(cost)",
        "e": "distinct(note_text)",
    }
    plan = plan_with(per_unit, columns={"cost": {"range": [0, 9]}, "drug_name": {"range": [0, 9]}, "f": "a + 1"})
    with DuckDB(Source(path=str(tmp_path / "t.csv"))) as engine:
        seen = view(plan, engine)
        said = list(cautions(plan, seen.schema, seen.before_units))
        with pytest.warns(UserWarning, match="sounds like text") as told:
            release(plan, engine, ledger=None)
    assert [each.split(":")[0] for each in said] == [
        "per_unit.a='drug_name'",
        "per_unit.b='drug_name'",
        "per_unit.c='note_text'",
    ]
    assert [str(each.message) for each in told] == said


def test_a_plan_is_the_same_after_it_was_written():
    plan = plan_with(
        {"visits": "count()", "spent": {"value": "sum(cost*2)", "range": [0, 5000]}},
        columns={**COLUMNS, "many": "visits > 3"},
    )
    assert parse_plan(plan.to_toml()) == plan
    assert plan_json(plan_from_json(json.loads(plan_json(plan)))) == plan_json(plan)
    assert [each.name for each in plan.made] == ["many"]  # made of the row of a unit
    assert "late" in [each.name for each in plan.early]


def test_a_question_about_a_column_of_a_unit_without_a_range_is_refused_with_the_way_out():
    asked = [{"name": "n", "kind": "mean", "column": "visits"}]
    with pytest.raises(PlanError, match=r"query\[0\].range: is missing for 'visits'; .* in \[per_unit\]"):
        plan_with({"visits": "count()"}, query=asked)
