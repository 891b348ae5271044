"""A plan is read or refused with the line and the field; nothing else ever comes out."""

import datetime
import json
import pickle
import re
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rangebound as rb
from rangebound.errors import PlanError
from rangebound.release import parse_plan, plan_schema, read_plan
from rangebound.release.plan.condition import Condition
from rangebound.release.plan.kinds.count import Count
from rangebound.release.plan.model import Budget, Plan, Unit
from rangebound.release.plan.questions import written_kinds
from rangebound.release.plan.toml import lines, make_plan
from rangebound.release.prepare import prepare

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
    ('"south",', '"south", ["east"]', 11, "keys.clinic[2]", "must be a text, a whole number, a date"),
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
]


def test_a_plan_is_read():
    plan = parse_plan(PLAN)
    assert plan.unit.rows == 3
    assert plan.columns(("clinic",)) == (("north", "south"),)
    assert plan.query[0].where[1].values == ("x", "y")
    assert plan.query[2].allowed == rb.Union((19723, 19754), (19783, 20088))
    assert plan.query[2].range[0] == datetime.date(2024, 1, 1)


@pytest.mark.parametrize(("good", "bad", "line", "field", "word"), FAULTS)
def test_an_error_points_at_the_line_and_names_the_field(good, bad, line, field, word):
    assert good in PLAN
    with pytest.raises(PlanError) as caught:
        parse_plan(PLAN.replace(good, bad), name="plan.toml")
    error = caught.value
    assert (error.line, error.field) == (line, field)
    assert str(error).startswith(f"plan.toml:{line}: ")
    assert word in str(error)


ODD = ["2024-01-01T10:00:00", '"a\\u0000"', "[[1]]", "{x = 1}", "inf", "nan", "9007199254740993", "10:00:00", "[]"]
ODD += [
    "[2024-01-01T10:00:00]",
    '["a\\u0000"]',
    "[{x = 1}]",
    "[nan]",
    "[9007199254740993]",
    "''",
    "[['']]",
    "true",
    "'a'",
]
FIELDS = {
    "value": 'kind = "count"\nwhere = [{{column = "a", is = "==", value = {}}}]',
    "values": 'kind = "count"\nwhere = [{{column = "a", is = "in", value = {}}}]',
    "column of a condition": 'kind = "count"\nwhere = [{{column = {}, is = "present"}}]',
    "of": 'kind = "share"\nof = {}',
    "by": 'kind = "count"\nby = {}',
    "missing": 'kind = "mean"\ncolumn = "a"\nrange = [0, 1]\nmissing = {}',
    "range": 'kind = "mean"\ncolumn = "a"\nrange = {}',
    "support": 'kind = "mean"\ncolumn = "a"\nrange = [0, 1]\nsupport = {}',
    "weight": 'kind = "count"\nweight = {}',
    "levels": 'kind = "quantiles"\ncolumn = "a"\nrange = [0, 1]\nlevels = {}',
    "bins": 'kind = "histogram"\ncolumn = "a"\nrange = [0, 1]\nbins = {}',
    "column": 'kind = "mean"\nrange = [0, 1]\ncolumn = {}',
    "keys": 'kind = "count"\nby = ["a"]\n[keys]\na = {}',
    "unit": 'kind = "count"\n[unit]\ncolumn = {}',
    "consistent": 'kind = "count"\n[unit]\nrows = {}',
}


@pytest.mark.parametrize("name", FIELDS)
def test_an_error_is_in_our_words_whatever_stands_in_a_field(name):
    refused = 0
    for odd in ODD:
        try:
            parse_plan(f'budget = {{epsilon = 1.0}}\n[[query]]\nname = "n"\n{FIELDS[name].format(odd)}')
        except PlanError as error:
            refused += 1
            said = str(error)
            assert not re.search(
                "after validation|should|valid (boolean|string|date|tuple|integer)|Input|Field", said
            ), said
            if name in ("value", "values") and "9007" in odd:
                assert "must be a number that a double holds exactly" in said
    assert refused


def test_an_error_survives_pickling():
    error = PlanError("plan:3: unit: wrong", field="unit", line=3)
    again = pickle.loads(pickle.dumps(error))
    assert (again.args, again.field, again.line) == (error.args, "unit", 3)


def test_plain_data_get_the_same_errors_without_a_line():
    with pytest.raises(PlanError, match=r"plan: budget\.epsilon=-1") as caught:
        make_plan({"budget": {"epsilon": -1}, "query": [{"name": "n", "kind": "count"}]})
    assert caught.value.line is None


def test_private_keys_need_a_delta():
    with pytest.raises(PlanError, match="privately") as caught:
        parse_plan(PLAN.replace("delta = 1e-6", "").replace('by = ["clinic"]', 'by = ["clinic", "ward"]'))
    assert caught.value.field == "budget.delta"


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
    assert found[("a", "b")] == 1
    assert found[("x y", "z")] == 2
    assert found[("query", 0)] == 5
    assert found[("query", 0, "name")] == 6
    assert found[("query", 0, "inner", "k", "p")] == 8
    assert found[("query", 1)] == 9
    assert found[("query", 1, "r")] == 12
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


@pytest.mark.parametrize("key", ['"key",\n', '"]",\n', "[1, 2],\n"])
def test_each_statement_is_read_once(key, monkeypatch):
    read = []
    plain = tomllib.loads
    monkeypatch.setattr(tomllib, "loads", lambda text: read.append(len(text)) or plain(text))
    text = "keys = [\n" + key * 500 + "]\n" + "[[query]]\n" * 500
    found = lines(text)
    assert found[("keys", 499)] == 1
    assert found[("query", 499)] == 1002
    assert sum(read) <= len(text)


def test_keys_deeper_than_a_plan_are_a_plan_error():
    for text in ("a" + ".a" * 1500 + " = 1\n", "[a" + ".a" * 1500 + "]\n"):
        with pytest.raises(PlanError, match=r"unknown field|is missing"):
            parse_plan(text)


def test_the_schema_is_json_and_names_every_kind():
    text = json.dumps(plan_schema())
    for kind in ("count of units", "standard deviation", "histogram", "quantiles", "maximum"):
        assert f'"{kind}"' in text


MADE_BY_US = ("share dropped", "share clipped")


AGE = {"column": "age", "range": [0, 1]}
NEEDED = {
    "bounds": {"column": "age"},
    "correlation": {"x": AGE, "y": {"column": "size", "range": [0, 2]}},
    "count": {},
    "count of units": {},
    "crosstab": {"by": ["sex", "city"]},
    "distinct count": {"column": "age"},
    "hierarchy": {"by": ["city"], "levels": [{"name": "all", "members": {"all": ["a", "b"]}}]},
    "line": {"x": AGE, "y": {"column": "size", "range": [0, 2]}},
    "mode": {"column": "city"},
    "quantiles": {**AGE, "levels": [0.5]},
    "ratio": {"numerator": AGE, "denominator": {"column": "size", "range": [1, 2]}},
    "series": {"by": ["day"]},
    "share": {"of": [{"column": "age", "is": "present"}]},
    "top k": {"column": "city", "k": 1},
}
"""What kinds need beside their name, if it is not a column and its range."""


def test_a_wrong_kind_is_told_the_kinds_that_can_be_written():
    with pytest.raises(PlanError) as caught:
        parse_plan(PLAN.replace('"mean"', '"maen"'))
    said, query, name = str(caught.value).partition("must be one of")[2].partition(" (in query ")
    assert (query, name) == (" (in query ", "'wait')")
    named = re.findall("'([^']*)'", said)
    assert named == list(written_kinds())
    assert not set(named) & set(MADE_BY_US)
    for kind in named:
        asked = NEEDED.get(kind, AGE)
        days = [datetime.date(2025, 1, 1), datetime.date(2025, 1, 2)]
        columns = asked.get("by", ["city"] if asked.get("column") == "city" else [])
        keys = {column: days if column == "day" else ["a", "b"] for column in columns}
        plan = {"budget": {"epsilon": 1.0}, "unit": {"column": "who"}, "keys": keys}
        made = make_plan({**plan, "query": [{"name": "n", **asked, "kind": kind}]})
        assert made.query[0].kind == kind
        assert hash(made.query[0]) == hash(made.query[0].model_copy())  # the share that a margin needs is kept by it


@pytest.mark.parametrize("more", [{}, {"about": ["n"]}, {"abuot": ["n"]}, {"valued": 1}], ids=str)
@pytest.mark.parametrize("kind", MADE_BY_US)
def test_a_kind_that_only_we_make_is_refused_by_its_name(kind, more):
    query = [{"name": "n", "kind": "count"}, {"name": "x", "kind": kind, **more}]
    with pytest.raises(PlanError, match=r"made by report_clipping = true alone") as caught:
        make_plan({"budget": {"epsilon": 1.0}, "query": query})
    assert caught.value.field == "query[1].kind"


def test_the_schema_has_what_can_be_written_and_nothing_else():
    schema = plan_schema()
    text = json.dumps(schema)
    assert not any(kind in text for kind in MADE_BY_US)
    used = set(re.findall(r"#/\$defs/(\w+)", text))
    assert used == set(schema["$defs"])


def accepts_or_refuses(given, read=parse_plan):
    """Whether it is a plan; what is not is refused with a plan error that says something."""
    try:
        read(given)
    except PlanError as error:
        said = str(error)
    else:
        return True
    assert said
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


@given(
    st.sampled_from(["unit", "budget", "keys", "query", "source", "level", "consistent", "selection", "title"]),
    VALUES,
    st.sampled_from(["name", "kind", "by", "where", "range", "column", "support", "step", "weight", "missing", "of"]),
    VALUES,
)
def test_any_value_in_any_field_is_a_plan_or_a_plan_error(part, value, field, inner):
    query = {"name": "n", "kind": "mean", "column": "c", "range": [0, 1], field: inner}
    for data in (
        {"budget": {"epsilon": 1.0}, "query": [query]},
        {"budget": {"epsilon": 1.0}, "query": [], part: value},
    ):
        accepts_or_refuses(data, make_plan)


def test_control_the_plan_itself_is_accepted_and_a_broken_one_is_not():
    assert accepts_or_refuses(PLAN)
    assert not accepts_or_refuses(PLAN.replace("epsilon", "epsilom"))


@pytest.mark.parametrize(
    ("make", "message", "field"),
    [
        (lambda: Plan(budget=Budget(epsilon=1.0), query=()), r"^plan: query=\(\): must not be empty", "query"),
        (
            lambda: Plan(budget={"epsilon": "1"}, query=()),
            r"^plan: budget.epsilon='1': must be a number, without",
            None,
        ),
        (lambda: Plan(queries=()), "^plan: queries=.*: unknown field.*query", "queries"),
        (lambda: Unit(row=2), "^unit: row=2: unknown field.*rows", "row"),
        (lambda: Budget(epsilon=0.0), "^budget: epsilon=0.0: must be greater than 0", "epsilon"),
        (lambda: Unit(rows=2), "^unit: .*rows and groups are 1", None),
        (lambda: Count(), "^count: name: is missing", "name"),
        (lambda: Condition(column="age", comparison="~", value=1), 'must be one of "=="', None),
    ],
)
def test_parts_made_in_python_have_the_errors_of_a_file(make, message, field):
    with pytest.raises(PlanError, match=message) as caught:
        make()
    assert field in (None, caught.value.field)


def test_a_plan_made_in_python_of_sound_parts_is_that_of_a_file():
    made = Plan(budget=Budget(epsilon=1.0), unit=Unit(column="who", rows=2), query=(Count(name="n"),))
    assert made == parse_plan(
        'budget = {epsilon = 1.0}\nunit = {column = "who", rows = 2}\nquery = [{name = "n", kind = "count"}]'
    )


def test_keys_by_rule_are_those_that_the_rule_stands_for():
    text = """
    budget = {epsilon = 1.0}
    keys = {day = {days = [2024-02-27, 2024-03-01]}, age = {numbers = [-1, 2]}}
    query = [{name = "visits", kind = "count", by = ["day", "age"]}]
    """
    plan = parse_plan(text)
    assert plan.columns(("day", "age")) == (
        ("2024-02-27", "2024-02-28", "2024-02-29", "2024-03-01"),
        ("-1", "0", "1", "2"),
    )
    listed = parse_plan(
        text.replace("{days = [2024-02-27, 2024-03-01]}", "[2024-02-27, 2024-02-28, 2024-02-29, 2024-03-01]").replace(
            "{numbers = [-1, 2]}", "[-1, 0, 1, 2]"
        )
    )
    assert plan == listed


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("{days = [2025-01-01]}", "days must be the first and the last of them, two dates"),
        ("{days = [1, 2]}", "days must be the first and the last of them, two dates"),
        ("{days = [2025-01-01T00:00:00, 2025-01-02]}", "days must be the first and the last of them, two dates"),
        ("{numbers = [1.0, 2.0]}", "numbers must be the first and the last of them, two whole numbers"),
        ("{numbers = [true, false]}", "numbers must be the first and the last of them, two whole numbers"),
        ("{numbers = [5, 4]}", "numbers must be in order, and at most 100000 of them"),
        ("{numbers = [0, 100000]}", "numbers must be in order, and at most 100000 of them"),
        ("{days = [2025-01-02, 2025-01-01]}", "days must be in order, and at most 100000 of them"),
        ("{weekdays = [1, 2]}", "unknown field; did you mean 'weeks'?"),
        ("{days = [2025-01-01, 2025-01-02], numbers = [1, 2]}", "must have one of values, days, numbers, weeks"),
        ("{}", "must have one of values, days, numbers, weeks, months, file, fold, bins; or `missing` alone"),
        ("'a'", "must be a list of keys, or a table with one of values, days"),
        ("3", "must be a list of keys, or a table with one of values, days"),
    ],
)
def test_a_rule_that_stands_for_no_keys_is_refused(rule, words):
    with pytest.raises(PlanError) as caught:
        parse_plan(
            f'budget = {{epsilon = 1.0}}\nkeys = {{day = {rule}}}\nquery = [{{name="v", kind="count", by=["day"]}}]'
        )
    assert words in str(caught.value)
    assert caught.value.field.startswith("keys.day")
    assert caught.value.line == 2


@pytest.mark.parametrize("delta", ["5e-324", "1e-100", "9.9e-25"])
def test_a_delta_that_would_take_minutes_to_use_is_refused(delta):
    text = f'budget = {{epsilon = 1.0, delta = {delta}}}\nquery = [{{name = "v", kind = "count"}}]'
    with pytest.raises(PlanError, match=r"budget.delta=.*must be 0, or at least 1e-24"):
        parse_plan(text)


def test_the_smallest_delta_is_split_among_many_groups_in_time():
    plan = parse_plan(
        "unit = {column = 'u', groups = 1000}\nbudget = {epsilon = 1.0, delta = 1e-24}\n"
        "query = [{name = 'v', kind = 'count', by = ['a']}]"
    )
    assert prepare(plan).allocation.shares
