"""Types of keys and conditions: what no value of a column can be is refused before anything is charged."""

import datetime

import pytest

from rangebound.errors import PlanError
from rangebound.release import make_plan
from rangebound.release.plan.cautions import unread_columns
from rangebound.release.plan.table_schema import Family, TypedSchema, check_made, check_schema

DAY = datetime.date(2025, 1, 31)
SCHEMA = {
    "whole": Family.INTEGER,
    "truth": Family.BOOLEAN,
    "day": Family.DATE,
    "seen": Family.TIMESTAMP,
    "word": Family.TEXT,
    "any": Family.UNTYPED,
}
FITTING = {
    "whole": [[1, 0], ["1", "-20", "0"]],
    "truth": [[True, False], ["true", "false"]],
    "day": [[DAY], ["2025-01-31"]],
    "seen": [[DAY]],
    "word": [["a"], [1, 2], [True], [DAY]],
    "any": [["a"], [1, 2], [True], [DAY], ["01", "a"]],
}
MISFITS = {
    "whole": [[True, False], ["a"], ["01"], ["1.0"], [DAY], [1, True], ["-0"]],
    "truth": [[1, 0], ["yes"], ["1"], ["True"]],
    "day": [["31.1.2025"], ["2025-02-30"], ["20250131"], [20250131], [True], [DAY, "today"]],
    "seen": [[1], ["2025"]],
}
WAYS = {"whole": "whole numbers", "truth": "true and false", "day": "dates", "seen": "dates"}


def by_keys(column, keys):
    plan = {"budget": {"epsilon": 1.0}, "query": [{"name": "n", "kind": "count", "by": [column]}]}
    return make_plan({**plan, "keys": {column: keys}})


@pytest.mark.parametrize(("column", "keys"), [(name, each) for name, some in FITTING.items() for each in some], ids=str)
def test_keys_that_a_column_can_have_are_accepted(column, keys):
    check_schema(by_keys(column, keys), SCHEMA)
    check_schema(by_keys(column, {"fold": {"some": keys}, "other": "rest"}), SCHEMA)


@pytest.mark.parametrize(("column", "keys"), [(name, each) for name, some in MISFITS.items() for each in some], ids=str)
def test_keys_that_no_row_can_have_are_refused_with_the_way_out(column, keys):
    words = rf"keys\.{column}: .* is not a value of a column of type .*; write {WAYS[column]}"
    for rule in (keys, {"fold": {"some": keys}, "other": "rest"}):
        with pytest.raises(PlanError, match=words):
            check_schema(by_keys(column, rule), SCHEMA)


def test_keys_of_combinations_and_rankings_are_looked_at_too():
    together = {"columns": ["whole", "word"], "keys": [[True, "a"]]}
    query = [{"name": "n", "kind": "count", "by": ["whole", "word"]}]
    plan = make_plan({"budget": {"epsilon": 1.0}, "combinations": [together], "query": query})
    with pytest.raises(PlanError, match="true is not a value of a column of type integer"):
        check_schema(plan, SCHEMA)
    ranked = {"budget": {"epsilon": 1.0}, "keys": {"truth": [1, 0]}, "unit": {"column": "whole"}}
    ranked["query"] = [{"name": "m", "kind": "mode", "column": "truth"}]
    with pytest.raises(PlanError, match="1 is not a value of a column of type boolean"):
        check_schema(make_plan(ranked), SCHEMA)


def where(condition):
    return make_plan({"budget": {"epsilon": 1.0}, "query": [{"name": "n", "kind": "count", "where": condition}]})


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("whole = 'a'", "'a' is not a value of a column of type integer"),
        ("whole IN ('1', 'a')", "'a' is not a value of a column of type integer"),
        ("day != '1.2.2025'", "'1.2.2025' is not a value of a column of type date"),
        ("whole = 'a' OR truth", "'a' is not a value of a column of type integer"),
        ("whole", r"which does not serve for this condition; .* \(compare it with 1 or 0, as in whole = 1\)"),
        ("whole = true", "type integer, which does not serve for this condition"),
        ("whole or truth", "type integer, which does not serve for truth values; whole = 1 compares it"),
        ("truth = 'yes'", "type boolean, which does not serve for this condition"),
        ("word = 1", "type text, which does not serve for this condition"),
    ],
)
def test_conditions_of_another_type_are_refused_with_the_way_out(condition, words):
    plan = where(condition)

    def checked():
        check_made(plan, SCHEMA, plan.made)
        check_schema(plan, SCHEMA)

    with pytest.raises(PlanError, match=words):
        checked()


@pytest.mark.parametrize(
    "condition", ["whole = '1'", "whole = 1", "truth", "day = '2025-01-31'", '"any"', "\"any\" = 'a'", '"any" = 1']
)
def test_conditions_of_the_type_of_their_column_are_accepted(condition):
    check_schema(where(condition), SCHEMA)


def test_columns_whose_unreadable_values_nobody_counts_are_named():
    texts = TypedSchema(dict.fromkeys(("a", "b", "c", "d", "e"), Family.UNTYPED), types={})
    days = {"weeks": [DAY, DAY]}
    query = [
        {"name": "m", "kind": "mean", "column": "a", "range": [0, 1]},
        {"name": "n", "kind": "count", "where": "b AND e = 'x'", "by": ["c"]},
        {"name": "o", "kind": "count", "where": "CAST(d AS DOUBLE) + 1 > 3 OR d = '?'"},
    ]
    data = {"budget": {"epsilon": 1.0}, "keys": {"c": days}, "query": query}
    found = make_plan(data)
    assert set(unread_columns(found, texts)) == {"a", "b", "c", "d", "e"}
    assert unread_columns(found, dict.fromkeys(texts, Family.INTEGER)) == ()
    read_otherwise = {
        "z": "CASE WHEN CAST(a AS DOUBLE) IS NULL THEN 0 ELSE CAST(a AS DOUBLE) END"
    }  # which says nothing of their number
    assert "a" in unread_columns(make_plan({**data, "columns": read_otherwise}), texts)
    for column, read in {"a": "number(a)", "b": "b = true", "c": "CAST(c AS DATE)", "d": "number(d)", "e": "e"}.items():
        asked = {"name": "u", "kind": "share", "of": f"missing({read}) and (1 > 0 or missing({column}))", "weight": 0.1}
        assert column not in unread_columns(make_plan({**data, "query": [*query, asked]}), texts)
    counted = [{"name": "p", "kind": "count", "by": ["e"]}, {"name": "q", "kind": "count", "where": "missing(e)"}]
    for asked, keys in ((counted, ["x"]), (counted[:1], {"values": ["x"], "missing": "none"})):
        assert unread_columns(make_plan({**data, "keys": {"e": keys}, "query": asked}), texts) == ()


@pytest.mark.parametrize("field", ["where", "of"])
def test_a_condition_that_no_column_serves_is_named_by_its_field(field):
    asked = {"where": [{"column": "whole", "is": "==", "value": 1}], "of": [{"column": "truth", "is": "present"}]}
    asked[field] = [*asked[field], {"column": "hole", "is": ">", "value": 1}]
    plan = make_plan({"budget": {"epsilon": 1.0}, "query": [{"name": "n", "kind": "share", **asked}]})
    with pytest.raises(PlanError, match=rf"query\[0\]\.{field}='hole': the table has no such column") as caught:
        check_schema(plan, SCHEMA)
    assert caught.value.field == f"query[0].{field}"
