import re

import pytest

from rangebound.errors import PlanError
from rangebound.release import make_plan
from rangebound.release.plan.condition import Condition, hidden_text
from rangebound.release.plan.expressions.nodes import LONGEST

QUERY = {"name": "n", "kind": "count"}


def plan(where, **more):
    return make_plan({"budget": {"epsilon": 1.0}, "query": [{**QUERY, "where": where}], **more})


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("age >= 18", [{"column": "age", "is": ">=", "value": 18}]),
        (
            "18 <= age AND age < 65",
            [{"column": "age", "is": ">=", "value": 18}, {"column": "age", "is": "<", "value": 65}],
        ),
        ("late", [{"column": "late", "is": "==", "value": True}]),
        (
            "NOT late AND region = 'a'",
            [{"column": "late", "is": "==", "value": False}, {"column": "region", "is": "==", "value": "a"}],
        ),
        ("region IN ('a', 'b')", [{"column": "region", "is": "in", "value": ["a", "b"]}]),
        ("missing(x) and not missing(y)", [{"column": "x", "is": "missing"}, {"column": "y", "is": "present"}]),
        ('"odd name" <> 1', [{"column": "odd name", "is": "!=", "value": 1}]),
    ],
)
def test_plans_with_plain_comparisons_are_equal_whichever_way_they_are_written(text, listed):
    assert plan(text) == plan(listed)
    assert plan(text).made == ()


def test_anything_else_is_a_hidden_column_that_the_explanation_shows_as_its_text():
    found = plan("age >= 18 and a+b > 3 and (late or early)")
    assert [each.column for each in found.query[0].where] == ["age", "= a + b > 3", "= late OR early"]
    assert [each.name for each in found.made] == ["= a + b > 3", "= late OR early"]
    assert found.query[0].described() == "n: count, where age >= 18 AND a + b > 3 AND (late OR early)"
    assert hidden_text("= a + b > 3") == "a + b > 3"
    assert hidden_text("a") is None


HIDDEN_WAYS = [
    {"column": "= a + b > 3", "is": "==", "value": True},
    {"column": "= x", "is": "==", "value": True},
    {"column": "= x", "is": ">=", "value": 3},
    {"column": "= x", "is": "missing"},
]


@pytest.mark.parametrize("condition", HIDDEN_WAYS, ids=str)
@pytest.mark.parametrize("field", ["where", "of"])
def test_the_name_of_a_column_is_never_an_expression(condition, field):
    asked = {"name": "n", "kind": "share", "of": "a > 1", field: [condition]}
    with pytest.raises(PlanError, match=rf"{field}.*column.*must not begin with '= '.*rename the column"):
        make_plan({"budget": {"epsilon": 1.0}, "query": [asked]})
    with pytest.raises(ValueError, match="must not begin with '= '"):
        Condition(**{"comparison" if name == "is" else name: each for name, each in condition.items()})


def test_a_text_to_compare_with_may_begin_so():
    found = plan([{"column": "a", "is": "==", "value": "= x"}])
    assert (found.query[0].where[0].value, found.made) == ("= x", ())
    assert plan("a = '= x'") == found


def test_an_expression_that_could_not_be_read_again_is_refused():
    part = "a+b>3"
    most = " and ".join([part] * (LONGEST // len(f"{part} and ")))
    with pytest.raises(PlanError, match="must have at most"):
        plan(most)
    some = plan(" and ".join([part] * 100))
    assert make_plan(some.model_dump(by_alias=True, exclude_none=True)) == some


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a + b", r"query\[0\].where: a \+ b is a number, where true or false is needed"),
        ("a = b OR a > 3", r"query\[0\].where: a = b: the type of 'a' does not follow"),
        ("upper(a) = 'X'", r"query\[0\].where=.*: `UPPER\(a\)`: engines have different tables of letters"),
        ("a == 3 and upper(a) = 4", "written ="),
        ("name < 'x'", "texts and truth values have no order"),
        *((each, "must not begin with '= '") for each in ('"= x" >= 3', '"= x"', '"= x" IS NULL')),
    ],
)
def test_a_condition_that_is_not_true_or_false_or_names_an_expression_is_refused(text, words):
    with pytest.raises(PlanError, match=r".") as caught:
        plan(text)
    assert re.search(words, str(caught.value)), str(caught.value)
