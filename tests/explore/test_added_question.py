"""A form becomes a question of the plan, which is checked as a file would be."""

from pathlib import Path

import pytest

from rangebound.errors import ArgumentError, PlanError
from rangebound.explore.added_question import OF_ROWS, OF_VALUES, QuestionForm, with_question
from rangebound.release import parse_plan
from rangebound.release.prepare import prepare

PLAN = 'unit = {column = "person"}\nbudget = {epsilon = 1.0}\nquery = [{name = "count", kind = "count", margin = 30}]'


@pytest.mark.parametrize("kind", [*OF_ROWS, *OF_VALUES])
def test_every_kind_that_is_offered_can_be_asked(kind):
    data = {"kind": kind, "column": "age", "lower": 0, "upper": 110, "by": "clinic", "keys": "north, south,"}
    found = with_question(parse_plan(PLAN), QuestionForm.from_dict(data), Path())
    assert parse_plan(found.to_toml()) == found
    assert found.query[0].margin == 30.0
    assert (found.query[1].kind, found.query[1].by) == (kind, ("clinic",))
    assert found.columns(("clinic",)) == (("north", "south"),)
    assert len(prepare(found).publishers) == 2


def test_a_name_that_is_taken_gets_a_number():
    found = parse_plan(PLAN)
    for _ in range(2):
        found = with_question(found, QuestionForm(kind="count"), Path())
    assert [each.name for each in found.query] == ["count", "count 2", "count 3"]


def test_keys_that_the_plan_lists_stay():
    found = parse_plan(PLAN)
    for keys in (("north", "south"), ("east",)):
        found = with_question(found, QuestionForm(kind="count", by="clinic", keys=keys), Path())
    assert found.columns(("clinic",)) == (("north", "south"),)


def test_groups_without_keys_need_a_delta_as_in_a_file():
    with pytest.raises(PlanError, match="delta"):
        with_question(parse_plan(PLAN), QuestionForm(kind="count", by="clinic"), Path())


@pytest.mark.parametrize(
    "data",
    [
        None,
        {"kind": "odd"},
        {"kind": "count", "odd": 1},
        {"kind": "mean", "column": "age"},
        {"kind": "mean", "lower": 0, "upper": 1},
        {"kind": "mean", "column": "age", "lower": "0", "upper": 1},
        {"kind": "count", "by": 7},
        {"kind": "count", "keys": "x" * 1001},
    ],
)
def test_a_form_that_is_not_filled_in_is_refused(data):
    with pytest.raises(ArgumentError):
        QuestionForm.from_dict(data)
