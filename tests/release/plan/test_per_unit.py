"""Columns of a unit in a plan: what is refused and why, and what is known of them."""

import math

import pytest

from rangebound.errors import PlanError
from rangebound.release import Source, explain, make_plan, release
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.output.ledger_entry import charge_text
from rangebound.release.plan.cautions import cautions
from rangebound.release.sql.view import view

COLUMNS = {"cost": {"range": [0, 500]}, "late": "delay > 15"}


def plan_with(per_unit, **parts):
    base = {"unit": {"column": "person"}, "budget": {"epsilon": 1.0}, "query": [{"name": "n", "kind": "count"}]}
    return make_plan({**base, "columns": COLUMNS, "per_unit": per_unit, **parts})


@pytest.mark.few(8)
@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("", "must not be empty"),
        ("visits", "a per-unit column is COUNT, SUM"),
        ("sum(cost) / COUNT(*)", "compute with their results in"),
        ("summ(cost)", "did you mean 'SUM'"),
        ("median(cost)", "BOOL_AND, ARG_MIN or ARG_MAX of a column"),
        ("__import__('os').system('x')", "a per-unit column is"),
        ("sum()", "required keyword"),
        ("ARG_MIN(clinic)", "a per-unit column is"),
        ("sum(exec('x'))", "not in the language"),
        ("sum(minutes)", "needs a public range"),
        ("sum(late)", "where a number is needed"),
        ("BOOL_OR(cost)", "where true or false is needed"),
        ("max(late)", "goes by numbers and dates"),
        ("ARG_MIN(clinic, late)", "goes by numbers and dates"),
        ("sum(cost" + " + cost" * 5000 + ")", "characters"),
        ("sum(cost" + " + cost" * 2500 + ")", "levels"),
        ({"value": "BOOL_OR(late)", "range": [0, 1]}, "has no such range"),
        ({"value": "COUNT(*)", "range": [5, 1]}, "lower end"),
        ({"range": [0, 1]}, "value"),
        (7, "per_unit.a"),
    ],
)
def test_what_is_not_a_function_of_a_units_rows_is_refused_with_the_reason(value, words):
    with pytest.raises(PlanError, match=words) as error:
        plan_with({"a": value})
    assert error.value.field.startswith("per_unit.a")


def test_what_is_known_of_the_columns_follows_from_their_parts():
    known = {
        "COUNT(*)": (0.0, math.inf),
        "BOOL_OR(late)": (0.0, 1.0),
        "sum(cost)": (0.0, math.inf),
        "sum(cost - 500)": (-math.inf, 0.0),
        "max(cost)": (0.0, 500.0),
    }
    capped = {
        "few": {"value": "COUNT(*) FILTER (WHERE late)", "range": [0, 9]},
        "cut": {"value": "sum(cost)", "range": [0, 5000]},
    }
    made = plan_with({each: each for each in known} | capped | {"clinic": "ARG_MIN(clinic, day)"}).of_unit
    assert made[-1].known is None  # its type is that of the column in the table
    assert [each.known.range for each in made[:-1]] == [*known.values(), (0.0, 9.0), (0.0, 5000.0)]


def test_the_unit_of_the_questions_is_the_row_and_that_of_the_ledger_the_person():
    plan = plan_with({"a": "COUNT(*)"}, unit={"column": "person", "neighbours": "replace", "size": 40})
    unit = plan.unit_of(plan.query[0])
    assert (unit.column, unit.neighbours, unit.size, unit.public_rows) == (None, "replace", 40, None)
    assert "unit 'person', replace" in charge_text(plan)
    assert "by column 'person': one of 40 is replaced" in explain(plan)


def test_columns_of_a_csv_file_that_sound_like_text_are_named_before_the_charge(tmp_path):
    """Those that the step reads as numbers or dates; after it, the table has only columns of the step."""
    (tmp_path / "t.csv").write_text("person,drug_name,note_text,cost\nann,x,y,3\n")
    per_unit = {
        "a": "sum(clip(drug_name, 0, 9))",
        "b": "BOOL_OR(drug_name > 3)",
        "c": "ARG_MIN(cost, note_text)",
        "d": "sum(cost)",
        "e": "COUNT(DISTINCT note_text)",
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
