"""Changes on the page make the plan that a file with them would make."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rangebound.errors import ArgumentError, PlanError
from rangebound.release import parse_plan
from rangebound.release.output.forecast import part_of
from rangebound.web.explorer.adjusted_plan import PlanChanges, adjusted, dragged, kept
from rangebound.web.explorer.plan_view import quick_way

PLAN = """
unit = {column = "person", rows = 2}
budget = {epsilon = 1.0}
[[query]]
name = "visits"
kind = "count"
[[query]]
name = "people"
kind = "count of units"
weight = 2
[[query]]
name = "minutes"
kind = "sum"
column = "minutes"
range = [0, 60]
"""
SECRET = PLAN.replace("epsilon = 1.0", "epsilon = 1.0, delta = 1e-6") + 'by = ["clinic"]\n'


def parts(plan):
    allocation = quick_way(plan)
    return {each.name: part_of(plan, allocation, allocation.questions[at]) for at, each in enumerate(plan.query)}


def test_changes_make_the_plan_that_a_file_would():
    changes = PlanChanges(epsilon=2.5, delta=1e-6, weights={"visits": 3.0, "people": 1.0}, margins={"people": 20.0})
    written = PLAN.replace("epsilon = 1.0", "epsilon = 2.5, delta = 1e-6").replace("weight = 2", "margin = 20")
    written = written.replace('kind = "count"\n', 'kind = "count"\nweight = 3\n')
    assert adjusted(PLAN, changes, Path()) == parse_plan(written)
    assert adjusted(PLAN, changes, Path()) != parse_plan(PLAN)  # the control
    assert adjusted(written, PlanChanges(margins={"people": None}), Path()).query[1].margin is None


@pytest.mark.slow
@given(st.floats(0.01, 100.0))
def test_an_epsilon_alone_takes_a_short_way_to_the_same_plan(epsilon):
    written = parse_plan(PLAN.replace("epsilon = 1.0", f"epsilon = {epsilon!r}"))
    found = adjusted(PLAN, PlanChanges(epsilon=epsilon), Path())
    assert found == written
    assert found.to_toml() == written.to_toml()


@pytest.mark.parametrize("epsilon", [0.0, -1.0, 100.5, float("nan")])
def test_an_epsilon_that_no_file_may_have_is_refused(epsilon):
    with pytest.raises(PlanError, match=r"budget\.epsilon"):
        adjusted(PLAN, PlanChanges(epsilon=epsilon), Path())


@pytest.mark.parametrize(
    "data",
    [
        7,
        {"odd": 1},
        {"epsilon": True},
        {"weights": [1]},
        {"weights": {"visits": None}},
        {"margins": {"visits": "1"}},
        {"rows": 0},
        {"groups": 2.0},
    ],
)
def test_what_is_no_change_is_refused(data):
    with pytest.raises(ArgumentError):
        PlanChanges.from_dict(data)


@pytest.mark.parametrize("text", [PLAN, SECRET])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_a_share_that_is_dragged_is_got_and_the_others_keep_their_proportions(text, share):
    plan = parse_plan(text)
    before = parts(plan)
    found = dragged(plan, quick_way(plan), "visits", share)
    after = parts(adjusted(text, found, Path()))
    assert after["visits"] == pytest.approx(share, rel=1e-3)
    assert after["people"] / after["minutes"] == pytest.approx(before["people"] / before["minutes"], rel=1e-3)
    assert after["visits"] != pytest.approx(before["visits"], rel=1e-3)  # the control


def test_a_margin_keeps_its_share_while_another_is_dragged():
    text = PLAN.replace("weight = 2", "margin = 40")
    plan = parse_plan(text)
    found = dragged(plan, quick_way(plan), "visits", 0.6)
    after = parts(adjusted(text, found, Path()))
    assert after["people"] == parts(plan)["people"]
    assert after["visits"] == pytest.approx(0.6, rel=1e-3)
    assert "people" not in found.weights
    with pytest.raises(ArgumentError, match="people"):
        dragged(plan, quick_way(plan), "people", 0.5)


def test_no_question_is_dragged_to_nothing_or_takes_all():
    plan = parse_plan(PLAN)
    for share in (0.0, 1.0):
        found = dragged(plan, quick_way(plan), "visits", share)
        assert min(found.weights.values()) >= 0.0009
        assert min(parts(adjusted(PLAN, found, Path())).values()) > 0.0
    alone = parse_plan('budget = {epsilon = 1.0}\nquery = [{name = "a", kind = "count"}]')
    assert dragged(alone, quick_way(alone), "a", 0.3).weights == {"a": 1.0}  # one alone has all


CHANGES = PlanChanges(
    epsilon=2.0, delta=1e-6, weights={"visits": 3.0, "people": 1.0}, margins={"minutes": 900.0}, rows=4, groups=3
)


@pytest.mark.parametrize(
    ("old", "new", "left"),
    [
        ('kind = "sum"', 'kind = "mean"', {}),  # of which the changes do not speak
        ("epsilon = 1.0", "epsilon = 3.0", {"epsilon": None}),
        ("epsilon = 1.0", "epsilon = 1.0, delta = 1e-9", {"delta": None}),
        ("weight = 2", "weight = 4", {"weights": {"visits": 3.0}}),
        ('name = "visits"', 'name = "stays"', {"weights": {"people": 1.0}}),
        ("range = [0, 60]", "range = [0, 60]\nmargin = 700", {"margins": {}}),
        ("rows = 2", "rows = 5", {"rows": None}),
        ('"person"', '"house"', {"rows": None, "groups": None}),
    ],
)
def test_where_the_text_was_edited_in_the_same_field_it_wins(old, new, left):
    found = kept(PLAN, PLAN.replace(old, new), CHANGES, Path())
    assert found == dataclasses.replace(CHANGES, **left)
    assert PlanChanges.from_dict(found.to_dict()) == found
    assert PlanChanges(rows=4, groups=3).words() == "rows 4, groups 3"


def test_a_text_that_is_no_plan_keeps_nothing():
    with pytest.raises(PlanError, match=r"plan:3: budget\.epsilon"):
        kept(PLAN, PLAN.replace("1.0", '"1"'), CHANGES, Path())


def test_a_question_that_is_added_after_a_drag_gets_an_average_share():
    plan = parse_plan(PLAN)
    found = dragged(plan, quick_way(plan), "visits", 0.5)
    after = parts(adjusted(PLAN + '[[query]]\nname = "more"\nkind = "count"\n', found, Path()))
    assert after["more"] == pytest.approx(0.25, rel=1e-3)
    assert after["visits"] == pytest.approx(0.375, rel=1e-3)


def test_bounds_of_the_unit_are_those_that_a_file_would_have():
    found = adjusted(PLAN, PlanChanges(rows=4, groups=3), Path())
    assert found == parse_plan(PLAN.replace("rows = 2", "rows = 4, groups = 3"))
    assert found != adjusted(PLAN, PlanChanges(rows=4), Path())  # the control
    row = 'budget = {epsilon = 1.0}\nquery = [{name = "visits", kind = "count"}]'
    with pytest.raises(PlanError, match="name a column"):
        adjusted(row, PlanChanges(rows=4), Path())
