"""A plan's text that gains or loses a question keeps its comments, and says the same otherwise."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rangebound.errors import ArgumentError
from rangebound.release import demo, parse_plan
from rangebound.web.explorer.edited_text import with_query, with_values, without_query

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
