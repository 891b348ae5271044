"""Changes, and edits of the text, make the plan that a file with them would make."""

import datetime
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rangebound.errors import ArgumentError, PlanError
from rangebound.release import demo, make_plan, parse_plan
from rangebound.release.output.forecast import part_of
from rangebound.release.plan.kinds import written_kinds
from rangebound.release.prepare import prepare
from rangebound.web.explorer.edited_plan import (
    adjusted,
    dragged,
    kept,
    with_query,
    with_question,
    with_values,
    without_query,
)
from rangebound.web.explorer.plan_view import quick_way
from rangebound.web.explorer.question_forms import EXAMPLES, OF_VALUES, PlanChanges, QuestionForm

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
    return {
        each.name: part_of(plan.budget.epsilon, allocation, allocation.questions[at])
        for at, each in enumerate(plan.query)
    }


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


@pytest.mark.parametrize("epsilon", [0.0, -1.0, 100.5])
def test_an_epsilon_that_no_file_may_have_is_refused(epsilon):
    with pytest.raises(PlanError, match=r"budget\.epsilon"):
        adjusted(PLAN, PlanChanges(epsilon=epsilon), Path())


@pytest.mark.parametrize("text", [PLAN, SECRET])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_a_share_that_is_dragged_is_got_and_the_others_keep_their_proportions(text, share):
    plan = parse_plan(text)
    before = parts(plan)
    found = dragged(plan.query, plan.budget.epsilon, quick_way(plan), "visits", share)
    after = parts(adjusted(text, found, Path()))
    assert after["visits"] == pytest.approx(share, rel=1e-3)
    assert after["people"] / after["minutes"] == pytest.approx(before["people"] / before["minutes"], rel=1e-3)
    assert after["visits"] != pytest.approx(before["visits"], rel=1e-3)  # the control


def test_a_margin_keeps_its_share_while_another_is_dragged():
    text = PLAN.replace("weight = 2", "margin = 40")
    plan = parse_plan(text)
    found = dragged(plan.query, plan.budget.epsilon, quick_way(plan), "visits", 0.6)
    after = parts(adjusted(text, found, Path()))
    assert after["people"] == parts(plan)["people"]
    assert after["visits"] == pytest.approx(0.6, rel=1e-3)
    assert "people" not in found.weights
    with pytest.raises(ArgumentError, match="people"):
        dragged(plan.query, plan.budget.epsilon, quick_way(plan), "people", 0.5)


def test_no_question_is_dragged_to_nothing_or_takes_all():
    plan = parse_plan(PLAN)
    for share in (0.0, 1.0):
        found = dragged(plan.query, plan.budget.epsilon, quick_way(plan), "visits", share)
        assert min(found.weights.values()) >= 0.0009
        assert min(parts(adjusted(PLAN, found, Path())).values()) > 0.0
    alone = parse_plan('budget = {epsilon = 1.0}\nquery = [{name = "a", kind = "count"}]')
    assert dragged(alone.query, alone.budget.epsilon, quick_way(alone), "a", 0.3).weights == {
        "a": 1.0
    }  # one alone has all


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
    assert found == CHANGES.model_copy(update=left)
    assert PlanChanges(**found.to_dict()) == found


def test_a_text_that_is_no_plan_keeps_nothing():
    with pytest.raises(PlanError, match=r"plan:3: budget\.epsilon"):
        kept(PLAN, PLAN.replace("1.0", '"1"'), CHANGES, Path())


def test_a_question_that_is_added_after_a_drag_gets_an_average_share():
    plan = parse_plan(PLAN)
    found = dragged(plan.query, plan.budget.epsilon, quick_way(plan), "visits", 0.5)
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


TEXT = """# who may see it
[budget] # of a year
epsilon = 1.0

[keys]
clinic = [ # as on the map
  "north",
  "south",
]
ward = ["a", "b"]

# first
[[query]]
name = "visits" # all
kind = "count"
by = ["clinic"]
# its end

# second
[[query]]
name = "by ward"
kind = "count"
by = [
  "ward",
]
# the end
"""
MORE = {"name": "more", "kind": "count", "by": ["clinic"]}


def said(text):
    return tomllib.loads(text)


def test_a_question_is_added_behind_all_that_is_written():
    found = with_query(TEXT, MORE, {"clinic": ("east",)})
    assert found.startswith(TEXT)
    assert said(found) == {**said(TEXT), "query": [*said(TEXT)["query"], MORE]}
    parse_plan(found)


def test_keys_are_added_to_the_table_that_is_there_or_to_a_new_one():
    assert '[keys]\n"odd name" = ["x"]\nclinic = [ # as on the map' in with_query(TEXT, MORE, {"odd name": ("x",)})
    assert said(with_query("[[query]]\nname = 'a'\n", MORE, {"clinic": ("x",)}))["keys"] == {"clinic": ["x"]}


def test_a_question_is_taken_out_with_the_keys_that_it_alone_used():
    found = without_query(TEXT, "by ward")
    assert [each["name"] for each in said(found)["query"]] == ["visits"]
    assert said(found)["keys"] == {"clinic": ["north", "south"]}
    for comment in ("who may see it", "of a year", "as on the map", "first", "its end", "second", "the end"):
        assert f"# {comment}" in found
    parse_plan(found)
    other = without_query(TEXT, "visits")
    assert "clinic" not in said(other)["keys"]
    assert "# its end" in other
    parse_plan(other)


def test_questions_in_one_value_are_written_anew():
    text = "# ours\nbudget = {epsilon = 1.0}\nquery = [{name = 'a', kind = 'count'}]\n"
    found = with_query(text, MORE, {"clinic": ("x",)})
    assert said(found) == {**said(text), "keys": {"clinic": ["x"]}, "query": [*said(text)["query"], MORE]}
    assert said(without_query(found, "more"))["query"] == said(text)["query"]
    assert "# ours" not in found  # the control: what the edit of a text avoids


@pytest.mark.parametrize("name", [each["name"] for each in said(demo.plan())["query"]])
def test_every_question_of_the_demo_can_be_taken_out_and_nothing_else_changes(name):
    found = without_query(demo.plan(), name)
    left = [each for each in said(demo.plan())["query"] if each["name"] != name]
    assert said(found) == {**said(demo.plan()), "query": left}
    assert set(found.splitlines()) <= set(demo.plan().splitlines())  # no line is written anew
    parse_plan(found)


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=8)


@pytest.mark.slow
@given(NAMES, NAMES, st.lists(NAMES, min_size=1, max_size=3))
def test_whatever_the_names_are_the_text_says_what_is_wanted_and_goes_back(name, by, keys):
    question = {"name": f"{name}?", "kind": "count", "by": [f"{by}!"]}
    found = with_query(TEXT, question, {f"{by}!": keys})
    assert said(found)["query"][-1] == question
    assert said(found)["keys"][f"{by}!"] == keys
    assert said(without_query(found, f"{name}?")) == said(TEXT)


def test_the_last_question_stays():
    with pytest.raises(ArgumentError, match="only one"):
        without_query("[[query]]\nname = 'a'\n", "a")
    with pytest.raises(ArgumentError, match="not in the plan"):
        without_query(TEXT, "odd")


def comments(text):
    return [line.partition("#")[2] for line in text.splitlines() if "#" in line]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("budget", "epsilon"), 2.5),
        (("budget", "delta"), 1e-6),
        (("unit", "rows"), 3),
        (("unit", "column"), 'the "owner"'),
        (("query", 1, "name"), "by \\ ward"),
        (("query", 1, "weight"), 0.25),
        (("query", 0, "margin"), 25.0),
        (("selection",), 0.5),
    ],
)
def test_a_number_is_changed_in_its_line_and_all_comments_stay(place, value):
    wanted = tomllib.loads(TEXT)
    inner = wanted
    for each in place[:-1]:
        inner = inner.setdefault(each, {}) if isinstance(each, str) else inner[each]
    inner[place[-1]] = value
    edited = with_values(TEXT, wanted)
    assert tomllib.loads(edited) == wanted
    assert comments(edited) == comments(TEXT)
    gone = with_values(edited, tomllib.loads(TEXT))
    assert {name: each for name, each in tomllib.loads(gone).items() if each} == tomllib.loads(TEXT)
    if place[0] != "unit":
        assert comments(gone) == comments(TEXT)


def test_numbers_in_one_line_and_several_at_once():
    text = 'budget = {epsilon = 1.0} # a year\nquery = [{name = "a", kind = "count", weight = 2}] # one\n'
    wanted = tomllib.loads(text)
    wanted["budget"] = {"epsilon": 0.5, "delta": 1e-9}
    assert with_values(text, wanted).splitlines()[0].endswith("} # a year")
    assert tomllib.loads(with_values(text, wanted)) == wanted


def test_what_cannot_be_changed_in_its_line_is_written_anew():
    """The control: the text that is given back always says what is wanted, comments or not."""
    text = 'query = [\n  {name = "a", kind = "count"}, # one\n]\n[budget]\nepsilon = 1.0\n'
    wanted = tomllib.loads(text)
    wanted["query"][0]["margin"] = 3.0
    assert tomllib.loads(with_values(text, wanted)) == wanted


@pytest.mark.parametrize("separator", ["\x85", "\u2028", "\u2029"])
def test_a_comment_with_a_separator_of_unicode_is_one_line(separator):
    """TOML ends a line with a line feed alone; rows that are cut elsewhere are not those that are numbered."""
    text = f"# ours{separator}and yours\n[budget]\nepsilon = 1.0 # a year\n\n[[query]]\nname = 'a'\nkind = 'count'\n"
    data = tomllib.loads(text)
    assert with_values(text, {**data, "budget": {"epsilon": 2.0}}) == text.replace("1.0", "2.0")


ASKED = """unit = {column = "person"}
budget = {epsilon = 1.0} # for a year
[[query]]
name = "count" # all
kind = "count"
margin = 30
"""


DAY = datetime.date(2025, 1, 1)
DAYS = {"keys": {"clinic": ["north", "south"], "ward": ["a", "b"], "day": {"days": [DAY, DAY.replace(day=28)]}}}
BY = {"crosstab": "clinic, ward", "series": "day"}


@pytest.mark.parametrize("kind", written_kinds())
def test_every_kind_of_a_plan_can_be_asked_in_the_form(kind):
    text = make_plan({**tomllib.loads(ASKED), **DAYS, "budget": {"epsilon": 1.0, "delta": 1e-6}}).to_toml()
    column = "clinic" if kind in ("mode", "top k") else "age"
    ends = {} if kind == "mode" else {"lower": 0, "upper": 110}
    form = {"kind": kind, "column": column, **ends, "by": "" if column == "clinic" else BY.get(kind, "clinic")}
    found = parse_plan(
        with_question(text, QuestionForm(**form, more=EXAMPLES.get(kind, "k = 2" if kind == "top k" else "")))
    )
    assert found.query[1].kind == kind
    assert prepare(found).publishers[1]
    if kind in EXAMPLES:  # the control: it does need more
        with pytest.raises(PlanError):
            parse_plan(with_question(text, QuestionForm(**form)))


def test_groups_and_further_fields_are_those_of_the_question():
    form = {"kind": "count", "by": "clinic", "keys": "north, south", "groups": 3, "more": 'where = "age > 3"'}
    found = parse_plan(with_question(ASKED, QuestionForm(**form))).query[1]
    assert (found.groups, found.where[0].column) == (3, "age")
    with pytest.raises(ArgumentError, match="more='where': not valid TOML"):
        with_question(ASKED, QuestionForm(kind="count", more="where"))


@pytest.mark.parametrize("kind", ["count", "count of units", *OF_VALUES])
def test_values_of_the_form_are_keys_of_the_plan(kind):
    data = {"kind": kind, "column": "age", "lower": 0, "upper": 110, "by": "clinic", "keys": "north, south,"}
    text = with_question(ASKED, QuestionForm(**data))
    assert text.startswith(ASKED)
    found = parse_plan(text)
    assert found.query[0].margin == 30.0
    assert (found.query[1].kind, found.query[1].by) == (kind, ("clinic",))
    assert found.columns(("clinic",)) == (("north", "south"),)
    assert len(prepare(found).publishers) == 2


def test_the_range_of_a_column_of_days_is_one_of_days():
    data = {"kind": "median", "column": "day", "lower": "2025-01-01", "upper": "2025-12-31"}
    text = with_question(ASKED, QuestionForm(**data))
    assert "range = [2025-01-01, 2025-12-31]" in text
    assert parse_plan(text).query[1].answers_dated
    with pytest.raises(ArgumentError, match="upper='2025-02-30': must be a number, or a day"):
        QuestionForm(**{**data, "upper": "2025-02-30"})


def test_a_name_that_is_taken_gets_a_number():
    text = ASKED
    for _ in range(2):
        text = with_question(text, QuestionForm(kind="count"))
    assert [each.name for each in parse_plan(text).query] == ["count", "count 2", "count 3"]


def test_groups_without_keys_need_a_delta_as_in_a_file():
    with pytest.raises(PlanError, match="delta"):
        parse_plan(with_question(ASKED, QuestionForm(kind="count", by="clinic")))
