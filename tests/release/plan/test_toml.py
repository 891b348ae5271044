"""A plan is read or refused with the line and the field; nothing else ever comes out."""

import datetime
import math
import re
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rangebound.errors import PlanError
from rangebound.release import parse_plan, read_plan
from rangebound.release.plan.kinds import written_kinds
from rangebound.release.plan.toml import lines, make_plan

PLAN = """title = "clinics"   # a comment with [brackets] = and "quotes"

[unit]
column = "person_id"
rows = 3
groups = 2
[budget]
epsilon = 1.0
delta = 1e-6
[keys]
clinic = [
  "north", # the [first]
  "south",
]
[[query]]
name = "visits"
kind = "count"
by = ["clinic"]
where = [{column="age", is=">=", value=18}, {column="c", is="in", value=["x","y"]}]
[[query]]
name = "wait"
kind = "mean"
column = "wait"
range = [0, 100]
[[query]]
name = "day"
kind = "median"
column = "day"
range = [2024-01-01, 2024-12-31]
support = [[2024-01-01, 2024-02-01], [2024-03-01, 2024-12-31]]
"""

FAULTS = [
    ("range = [0, 100]", "range = [100, 0]", 24, "query[1].range", "below"),
    ("range = [0, 100]", 'range = [0, "a"]', 24, "query[1].range[1]", "number"),
    ("range = [0, 100]", "range = [0, 2024-01-01]", 24, "query[1].range", "dates"),
    ("range = [0, 100]", "range = [0, nan]", 24, "query[1].range[1]", "finite"),
    ("range = [0, 100]", "range = [0, 1e300]", 24, "query[1].range", "width"),
    ("range = [0, 100]", "range = [1e15, 1000000000000000.25]", 24, "query[1].range", "narrow"),
    ("range = [0, 100]\n", "", 20, "query[1].range", "missing"),
    ("epsilon = 1.0", "epsilon = true", 8, "budget.epsilon", "number"),
    ("epsilon = 1.0", "epsilon = nan", 8, "budget.epsilon", "finite"),
    ("epsilon = 1.0", "epsilon = 0", 8, "budget.epsilon", "greater"),
    ("epsilon = 1.0", "epsilon = '1'", 8, "budget.epsilon", "number"),
    ("delta = 1e-6", "delta = 1.0", 9, "budget.delta", "less"),
    ('"mean"', '"maen"', 22, "query[1].kind", "'mean'"),
    ('kind = "mean"\n', "", 20, "query[1]", "kind"),
    ('is=">="', 'is="=>"', 19, "query[0].where[0].is", "must be one of"),
    ("value=18", 'value="a"', 19, "query[0].where[0]", "order"),
    ("value=18", "value=[18]", 19, "query[0].where[0]", "list"),
    (", value=18", "", 19, "query[0].where[0]", "needs a value"),
    ("rows = 3", "rows = 0", 5, "unit.rows", "greater"),
    ("rows = 3", "rows = 3.5", 5, "unit.rows", "whole number"),
    ('"south"', '"north"', 11, "keys.clinic", "twice"),
    ('"south",', '"south", 1.5', 11, "keys.clinic[2]", "must be a text, a whole number, a date"),
    ('"south",', '"south", 2024-01-01T10:00:00', 11, "keys.clinic[2]", "without a time of day"),
    ('"south",', '"sou\\u0000th",', 11, "keys.clinic[1]", "code 0"),
    ("by = [", "buy = [", 18, "query[0].buy", "unknown field"),
    ('by = ["clinic"]', 'by = ["clinic", "ward"]\nweight = 0', 19, "query[0].weight", "greater"),
    ('column = "person_id"\n', "", 3, "unit", "row"),
    ("groups = 2", 'groups = 2\nneighbours = "replace"', 3, "unit", "size"),
    ('"visits"', '"wait"', 20, "query[1]", "another"),
    ("support = [[2024-01-01", "support = [[2023-01-01", 30, "query[2].support", "within"),
    ("2024-02-01]", "2024-06-01]", 30, "query[2].support", "overlap"),
    ("2024-02-01]", "2024-01-01]", 30, "query[2].support[0]", "the lower end must be below the upper end"),
    ("2024-02-01]", "2024-02-01T10:00:00]", 30, "query[2].support[0][1]", "time of day"),
    ('[[query]]\nname = "wait"', '[[query]]\nname = "w\\u0000"', 21, "query[1].name", "code 0"),
    ("delta = 1e-6", "delta == 1", 9, "text", "TOML"),
    ("[keys]", '[columns]\na = "b + 1"\nc = "lower(b)"\n[keys]', 12, "columns.c.value", "engines have different"),
    ("[keys]", '[[join]]\npath = "x.csv"\npublic = true\ncolumns = ["name"]\n[keys]', 10, "join[0].on", "on"),
    ("[keys]", '[[query]]\nname = "m"\nkind = "count"\nwhere = "a + b"\n[keys]', 13, "query[0].where", "is a number"),
]


@pytest.mark.parametrize(("good", "bad", "line", "field", "word"), FAULTS)
def test_an_error_points_at_the_line_and_names_the_field(good, bad, line, field, word):
    assert good in PLAN
    with pytest.raises(PlanError) as caught:
        parse_plan(PLAN.replace(good, bad), name="plan.toml")
    error = caught.value
    assert (error.line, error.field) == (line, field)
    assert str(error).startswith(f"plan.toml:{line}: ")
    assert word in str(error)


def test_a_file_that_cannot_be_read_is_a_plan_error(tmp_path):
    with pytest.raises(PlanError, match="cannot be read"):
        read_plan(tmp_path / "missing.toml")
    odd = tmp_path / "odd.toml"
    odd.write_bytes(b"title = 'x'\n\xff")
    with pytest.raises(PlanError, match="UTF-8") as caught:
        read_plan(odd)
    assert caught.value.line == 2


def test_the_lines_of_all_keys_are_found():
    found = lines(
        'a.b = 1\n"x y".z = """\n[no]\n"""\n[[query]]\nname = "x"\n[query.inner]\nk = {p = 1}\n[[query]]\nq=[\n1]\nr=2'
    )
    places = [("a", "b"), ("x y", "z"), ("query", 0), ("query", 0, "name"), ("query", 0, "inner", "k", "p")]
    assert [found[place] for place in [*places, ("query", 1), ("query", 1, "r")]] == [1, 2, 5, 6, 8, 9, 12]
    assert ("no",) not in found


def test_statements_end_outside_of_texts_brackets_and_remarks():
    text = r'''a = """[ # no bracket
\"""" # ] nor here """
b = """
{ ' [[ """""
c = [ # open [
 "]", '"', "#", "\"",
]
d = {x = [1, {y = 2}]}
e = "U+2028"
"f]" = ""
['g.[']
h.i = """""" # """
j = 1
'''
    for end in ("\n", "\r\n"):
        other = text.replace("U+2028", "\u2028").replace("\n", end)
        tomllib.loads(other)
        found = lines(other)
        places = [
            ("a",),
            ("b",),
            ("c",),
            ("d", "x", 1, "y"),
            ("e",),
            ("f]",),
            ("g.[",),
            ("g.[", "h", "i"),
            ("g.[", "j"),
        ]
        assert [found[place] for place in places] == [1, 3, 5, 8, 9, 10, 11, 12, 13]
    assert lines("a = '''\n[ \" # ]'''''\nb = 1")[("b",)] == 3


@pytest.mark.parametrize("change", [{"keys": {"g": ["\ud800"]}}, {"title": "\udfff"}])
def test_half_of_a_surrogate_pair_is_a_plan_error(change):
    with pytest.raises(PlanError, match="without half of a surrogate pair"):
        make_plan({"budget": {"epsilon": 1.0}, "query": [{"name": "n", "kind": "count"}], **change})


def test_keys_deeper_than_a_plan_are_a_plan_error():
    for text in ("a" + ".a" * 1500 + " = 1\n", "[a" + ".a" * 1500 + "]\n"):
        with pytest.raises(PlanError, match=r"unknown field|is missing"):
            parse_plan(text)


MADE_BY_US = ("share dropped", "share clipped")


def test_a_wrong_kind_is_told_the_kinds_that_can_be_written():
    with pytest.raises(PlanError) as caught:
        parse_plan(PLAN.replace('"mean"', '"maen"'))
    said, query, name = str(caught.value).partition("must be one of")[2].partition(" (in query ")
    assert (query, name) == (" (in query ", "'wait')")
    named = re.findall("'([^']*)'", said)
    assert named == list(written_kinds())
    assert not set(named) & set(MADE_BY_US)


@pytest.mark.parametrize("more", [{}, {"about": ["n"]}, {"abuot": ["n"]}, {"valued": 1}], ids=str)
@pytest.mark.parametrize("kind", MADE_BY_US)
def test_a_kind_that_only_we_make_is_refused_by_its_name(kind, more):
    query = [{"name": "n", "kind": "count"}, {"name": "x", "kind": kind, **more}]
    with pytest.raises(PlanError, match=r"made by report_clipping = true alone") as caught:
        make_plan({"budget": {"epsilon": 1.0}, "query": query})
    assert caught.value.field == "query[1].kind"


def accepts_or_refuses(given, read=parse_plan):
    """Whether it is a plan; what is not is refused with a plan error in our words."""
    try:
        read(given)
    except PlanError as error:
        said = str(error)
    else:
        return True
    assert said
    assert not re.search("after validation|should|valid (boolean|string|date|tuple|integer)|Input|Field", said), said
    return False


@given(st.text())
def test_any_text_is_a_plan_or_a_plan_error(text):
    accepts_or_refuses(text)


LINES = PLAN.splitlines()


@given(st.lists(st.tuples(st.integers(0, len(LINES) - 1), st.sampled_from(LINES) | st.text(max_size=20)), max_size=4))
def test_a_plan_with_lines_changed_is_a_plan_or_a_plan_error(changes):
    rows = list(LINES)
    for at, row in changes:
        rows[at] = row
    accepts_or_refuses("\n".join(rows))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates() | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


ODD = st.sampled_from([9007199254740993, "a\0", datetime.time(10), datetime.datetime(2024, 1, 1, 10), "", math.nan, []])
C = {"column": "c", "range": [0, 1]}
ASKED = {"count": {}, "mean": C, "share": {"of": "a > 1"}, "quantiles": {**C, "levels": [0.5]}, "histogram": C}


@pytest.mark.slow
@settings(max_examples=200)
@given(
    st.sampled_from(["unit", "budget", "keys", "query", "source", "level", "consistent", "selection", "title"]),
    VALUES,
    st.sampled_from([(kind, field) for kind in ASKED for field in written_kinds()[kind].model_fields]),
    VALUES | ODD | st.lists(ODD, max_size=2),
)
def test_any_value_in_any_field_is_a_plan_or_a_plan_error(part, value, asked, inner):
    kind, field = asked
    conditions = [{"column": "a", "is": sign, "value": inner} for sign in ("==", "in")]
    for data in (
        {"query": [{"name": "n", "kind": kind, **ASKED[kind], field: inner}]},
        {"query": [{"name": "n", "kind": "count", "where": conditions}]},
        {"query": [], part: value},
    ):
        accepts_or_refuses({"budget": {"epsilon": 1.0}, **data}, make_plan)


def test_control_the_plan_itself_is_accepted_and_a_broken_one_is_not():
    assert accepts_or_refuses(PLAN)
    assert not accepts_or_refuses(PLAN.replace("epsilon", "epsilom"))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_file_may_begin_with_a_byte_order_mark(encoding, tmp_path):
    file = tmp_path / "plan.toml"
    file.write_text(PLAN, encoding=encoding)
    assert read_plan(file) == parse_plan(PLAN) == parse_plan("\ufeff" + PLAN)
    file.write_text(PLAN.replace("epsilon = 1.0", "epsilon = 0"), encoding=encoding)
    with pytest.raises(PlanError, match=r"plan\.toml:8: budget\.epsilon"):
        read_plan(file)
    file.write_bytes(b"\xff\xfea")  # half a character
    with pytest.raises(PlanError, match=r"plan\.toml:1: must be UTF-8"):
        read_plan(file)
