"""A form becomes a question in the text of the plan, which is checked as a file would be."""

import pytest

from rangebound.errors import ArgumentError, PlanError
from rangebound.release import parse_plan
from rangebound.release.prepare import prepare
from rangebound.web.explorer.forms import OF_ROWS, OF_VALUES, QuestionForm, with_question

PLAN = """unit = {column = "person"}
budget = {epsilon = 1.0} # for a year
[[query]]
name = "count" # all
kind = "count"
margin = 30
"""


@pytest.mark.parametrize("kind", [*OF_ROWS, *OF_VALUES])
def test_every_kind_that_is_offered_can_be_asked(kind):
    data = {"kind": kind, "column": "age", "lower": 0, "upper": 110, "by": "clinic", "keys": "north, south,"}
    text = with_question(PLAN, QuestionForm.from_dict(data))
    assert text.startswith(PLAN)
    found = parse_plan(text)
    assert found.query[0].margin == 30.0
    assert (found.query[1].kind, found.query[1].by) == (kind, ("clinic",))
    assert found.columns(("clinic",)) == (("north", "south"),)
    assert len(prepare(found).publishers) == 2


def test_the_range_of_a_column_of_days_is_one_of_days():
    data = {"kind": "median", "column": "day", "lower": "2025-01-01", "upper": "2025-12-31"}
    text = with_question(PLAN, QuestionForm.from_dict(data))
    assert "range = [2025-01-01, 2025-12-31]" in text
    assert parse_plan(text).query[1].answers_dated
    with pytest.raises(ArgumentError, match="upper='2025-02-30': must be a number, or a day"):
        QuestionForm.from_dict({**data, "upper": "2025-02-30"})


def test_a_name_that_is_taken_gets_a_number():
    text = PLAN
    for _ in range(2):
        text = with_question(text, QuestionForm(kind="count"))
    assert [each.name for each in parse_plan(text).query] == ["count", "count 2", "count 3"]


def test_groups_without_keys_need_a_delta_as_in_a_file():
    with pytest.raises(PlanError, match="delta"):
        parse_plan(with_question(PLAN, QuestionForm(kind="count", by="clinic")))


@pytest.mark.parametrize(
    "data",
    [
        None,
        {"kind": "odd"},
        {"kind": "count", "odd": 1},
        {"kind": "mean", "column": "age"},
        {"kind": "mean", "lower": 0, "upper": 1},
        {"kind": "mean", "column": "age", "lower": "0", "upper": 1},
        {"kind": "mean", "column": "age", "lower": True, "upper": 1},
        {"kind": "count", "by": 7},
        {"kind": "count", "keys": "x" * 1001},
    ],
)
def test_a_form_that_is_not_filled_in_is_refused(data):
    with pytest.raises(ArgumentError):
        QuestionForm.from_dict(data)
