"""Expressions as version 0.2 wrote them: tests/frozen/expressions.json has what version 0.2 itself made of some."""

import hashlib
import json
import warnings
from pathlib import Path

import pytest

from rangebound.errors import PlanError
from rangebound.release import make_plan, parse_plan
from rangebound.release.output.plan_facts import plan_from_json, plan_json
from rangebound.release.plan.condition import conditions_of
from rangebound.release.plan.expressions.former import former, read_former, read_former_call
from rangebound.release.plan.expressions.nodes import UnitCall, columns_of
from rangebound.release.plan.expressions.reading import Grammar, read, read_call, readings

FROZEN = json.loads((Path(__file__).parents[3] / "frozen" / "expressions.json").read_text(encoding="utf-8"))
COUNT = {"name": "n", "kind": "count"}


def quiet(function, *given):
    """What a function gives, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return function(*given)


@pytest.mark.parametrize(("text", "canonical"), FROZEN["pairs"], ids=[each[0] for each in FROZEN["pairs"]])
def test_an_expression_of_version_02_keeps_its_tree_by_way_of_sql(text, canonical):
    tree = read_former(text)
    assert former(tree) == canonical
    assert read_former(canonical) == tree
    assert read(str(tree)) == tree  # which is SQL, and warns of nothing


@pytest.mark.parametrize(("text", "canonical"), FROZEN["pairs"], ids=[each[0] for each in FROZEN["pairs"]])
def test_a_text_of_version_02_has_its_meaning_or_is_refused(text, canonical):
    if readings(text, "value").grammar is Grammar.UNCLEAR:
        with pytest.raises(ValueError, match="write one of these"):
            read(text)
    elif columns_of(read_former(text)):
        assert former(quiet(read, text)) == canonical


UNCLEAR = ['x != "north"', "coalesce(x, \"y\") != 'z'", r"x != 'a\n'", "x != 'it''s'", "x != NULL or y", "TRUE != x"]


@pytest.mark.parametrize("text", UNCLEAR)
def test_control_what_means_two_things_is_never_read_as_one_of_them(text):
    found = readings(text, "value")
    assert found.old is not None
    assert found.new != found.old
    if found.new is not None:
        with pytest.raises(ValueError, match=r"in SQL, and was .* in version 0\.2; write one of these"):
            read(text)
        assert conditions_of(str(found.new)) != conditions_of(str(found.old))


@pytest.mark.parametrize("text", ["x == 1", "case(a, 1)", "a % 2 > 0", "day > date('2025-01-01')", "1 < a < 3"])
def test_an_expression_of_version_02_alone_is_read_with_a_warning_that_says_what_to_write(text):
    with pytest.warns(DeprecationWarning, match="rangebound plan upgrade") as caught:
        found = read(text)
    assert str(found) in str(caught[0].message)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(str(found)) == found


@pytest.mark.parametrize(
    "text", ['"Odd name" > 3', '"Odd name"', "\"Ship Mode\" != 'First'", '"A" + "B"', 'NOT "late"']
)
def test_a_quoted_name_where_version_02_had_no_sensible_text_is_a_column(text):
    assert readings(text, "value").grammar is Grammar.SQL


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("count()", "COUNT(*)"),
        ("count(a > 1 and b)", "COUNT(*) FILTER (WHERE a > 1 AND b)"),
        ("any(a)", "BOOL_OR(a)"),
        ("all(a == 'x')", "BOOL_AND(a = 'x')"),
        ("first(a, d)", "ARG_MIN(a, d)"),
        ("last(a, d)", "ARG_MAX(a, d)"),
        ("distinct(a)", "COUNT(DISTINCT a)"),
        ("sum( a )", "SUM(a)"),
    ],
)
def test_a_function_of_a_units_rows_keeps_its_meaning(text, sql):
    found = read_former_call(text)
    assert str(found) == sql
    assert read_call(sql) == found
    assert read_former_call(former(found)) == found


def test_a_count_of_a_column_is_unclear():
    assert read_call("COUNT(a)") == read_former_call("count(not missing(a))")
    with pytest.raises(ValueError, match="write one of these"):
        read_call("count(a)")
    assert read_former_call("count(a)") == UnitCall("count", (read("a"),))


@pytest.mark.parametrize("number", range(len(FROZEN["plans"])))
def test_a_plan_of_version_02_has_its_fingerprint_in_both_languages(number):
    data, fingerprint = FROZEN["plans"][number]
    plan = quiet(make_plan, data)
    for each in (plan, parse_plan(plan.to_toml()), plan_from_json(json.loads(plan_json(plan)))):
        assert each == plan
        assert hashlib.sha256(plan_json(each).encode()).hexdigest() == fingerprint


def test_what_is_unclear_is_of_version_02_where_another_expression_shows_it():
    unclear = {**COUNT, "where": 'x != "north"'}
    old, new = ({**COUNT, "name": "o", "where": each} for each in ("y == 1", "y = 1"))
    base = {"budget": {"epsilon": 1.0}}
    found = quiet(make_plan, {**base, "query": [unclear, old]})
    assert found.query[0].where[0].value == "north"
    for others, rule in (
        ([], "one of these"),
        ([new], "one of these"),
        ([old, new], r"query\[1\].where: y == 1 is an"),
    ):
        with pytest.raises(PlanError, match=rule):
            quiet(make_plan, {**base, "query": [unclear, *others]})
    assert unclear["where"] == 'x != "north"'  # the data of the caller stay as they are


@pytest.mark.parametrize("former", ["a % 2", "a // 2", "a - b -- c", "weekday(a)", "min(a, b)"])
@pytest.mark.parametrize("in_sql", ["IF(c, 1, 2)", '"odd name" < 3'])
def test_what_sql_refuses_is_not_read_as_version_02_in_a_plan_that_is_in_sql(former, in_sql):
    base = {"budget": {"epsilon": 1.0}, "query": [COUNT]}
    with pytest.raises(PlanError, match=r"columns\.x\.value: .* and others of the plan are in SQL"):
        make_plan({**base, "columns": {"x": {"value": former}, "y": in_sql}})
    with pytest.warns(DeprecationWarning, match="of version 0.2"):  # alone it may be a plan of version 0.2
        make_plan({**base, "columns": {"x": former}})


@pytest.mark.parametrize("constant", ['"all"', '"a" != "b"', 'missing("a b")'])
def test_a_constant_of_version_02_stays_one_where_another_expression_shows_it(constant):
    plain = {"budget": {"epsilon": 1.0}, "query": [COUNT]}
    with pytest.warns(DeprecationWarning, match="of version 0.2") as caught:
        plan = make_plan({**plain, "columns": {"x": constant, "y": "a % 2"}})
    assert plan.made_columns["x"].value == str(read_former(constant))
    assert {str(each.message).partition(" is an")[0] for each in caught} == {constant, "a % 2"}
    assert readings(constant, "value").grammar is Grammar.SQL  # of columns, where nothing shows another grammar
