"""A plan in TOML, in Python, as plain data or as its own text is one plan, with the same errors, whatever is in it."""

import datetime
import json
import random
import re
import tomllib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

import rangebound as rb
from rangebound import release as room
from rangebound.errors import PlanError
from rangebound.release import Budget, Count, Mean, Share, Source, Unit, explain, make_plan, parse_plan
from rangebound.release.output.plan_facts import plan_from_json, plan_json
from rangebound.release.plan.kinds import written_kinds
from rangebound.release.plan.toml_text import toml_text, written_fields
from tests.release.plans import SUPPORTED, plan_data
from tests.release.random_plans import random_plan

DAY = datetime.date(2025, 3, 1)


def evaluated(plan):
    """The plan that its text makes in Python."""
    text = BaseModel.__repr__(plan)  # whole
    return eval(
        text, {each: getattr(room, each) for each in re.findall(r"\b[A-Z]\w+(?=\()", text)} | {"datetime": datetime}
    )


def same_in_every_form(plan, *, in_python=True):
    read = parse_plan(plan.to_toml())
    assert read == plan
    assert read.to_toml() == plan.to_toml()
    assert make_plan(plan.model_dump(by_alias=True, exclude_none=True)) == plan
    assert plan_from_json(json.loads(plan_json(plan))) == plan
    if in_python:
        assert evaluated(plan) == plan


@pytest.mark.few(1)
@pytest.mark.parametrize("first", range(0, 200, 50))
def test_random_plans_are_read_back(first):
    for seed in range(first, first + 50):
        data = random_plan(random.Random(seed))
        clipping = seed % 3 == 0 and any("range" in each for each in data["query"])
        same_in_every_form(make_plan(data | {"title": f'"{seed}"\n\\ \x7f\u00e9', "report_clipping": clipping}))


@pytest.mark.parametrize("question", SUPPORTED, ids=lambda each: each["kind"])
def test_every_kind_is_read_back(question):
    keys = {"a b": ["x", 'y"'], "c.d": [DAY, 3, True]}
    same_in_every_form(make_plan(plan_data(["a b", "c.d"], [question], unit={"column": "who", "rows": 2}, keys=keys)))


def test_what_is_as_by_default_is_left_out():
    plan = make_plan({"budget": {"epsilon": 1}, "level": 0.95, "query": [{"name": "n", "kind": "count", "by": []}]})
    assert tomllib.loads(plan.to_toml()) == {"budget": {"epsilon": 1.0}, "query": [{"name": "n", "kind": "count"}]}
    assert written_fields(plan.budget) == {"epsilon": 1.0}


values = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text() | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=100)
@given(st.dictionaries(st.text(), values, max_size=5))
def test_any_plain_data_is_read_back(data):
    found = tomllib.loads(toml_text(data))
    assert found == data
    assert json.dumps(found, default=str, sort_keys=True) == json.dumps(data, default=str, sort_keys=True)


WHERES = [
    "age >= 18 and a + b > 3",
    "NOT ill AND (x = 'y' OR z > DATE '2025-01-01')",
    '"odd name" IN (1, 2) AND x IS NULL AND y IS NOT NULL AND a + 1 < 2',
    "x <> 'it''s \"q\"' AND flag = true AND t NOT IN ('a', 'b') AND a * 2 > b",
    "d >= DATE '2025-01-31' AND STARTS_WITH(x, 'a')",
]


# The comments are what the explanation of the plan says.
WRITTEN = {
    "columns": """
# Column 'hours' is minutes / 60, clipped to [0, 24].
# Column 'late' is delay > 15.
# Column 'age' is clipped to [0, 120] where it is computed with.
columns = {hours = {value = "minutes/60", range = [0, 24]}, late = "delay > 15", age = {range = [0, 120]}}
query = [{name = "m", kind = "mean", column = "hours", weighted_by = {column = "w", range = [0, 5]}}]
""",
    "joins": """
# Joins label of the public table 'regions.csv' by region; rows without a match are left out.
# Joins day of the private table 'visits' by person, at most 5 of its rows for each key
# rows per key of 'visits' cut at 5, own rows per key of 'visits' cut at 3
unit = {column = "person"}
query = [{name = "n", kind = "count"}]
join = [
    {path = "regions.csv", public = true, on = {region = "code"}, columns = {label = "name"}, how = "inner"},
    {table = "visits", public = false, on = ["person"], columns = ["day"], rows = 5, own_rows = 3},
]
""",
    "keys": """
# Keys of 'age': bins 'young' [0, 18), 'old' [18, 65], and '?' for all others.
# h: histogram of 'y', which lies in [0, 9.5], in bins 'few' 0 to 1, 'many' 1 to 9.5.
query = [
    {name = "n", kind = "count", by = ["clinic", "age", "label"]},
    {name = "h", kind = "histogram", column = "y", bins = [0, 1, 9.5], bin_names = ["few", "many"]},
    {name = "t", kind = "hierarchy", by = ["town"], levels = [{name = "l", members = {"Z H" = ["u"], R = ["w", "x"]}}]},
    {name = "top", kind = "top k", column = "airport", by = ["town"], weight = 2.0},
]
[keys]
clinic = {values = ["a", "b"], missing = "unknown", other = "other"}
age = {bins = [0, 18, 65], names = ["young", "old"], other = "?"}
label = {fold = {north = ["p", "q"]}, other = "elsewhere"}
town = ["u", "w", "x"]
""",
    "one row per unit": """
# Makes one row of all rows of each 'person': visits = COUNT(*); spent = SUM(cost * 2), clipped to [0, 5000]
# of: one row per 'person', rows without 'person' left out
unit = {column = "person"}
columns = {cost = {range = [0, 500]}, many = "visits > 3"}
per_unit = {visits = "COUNT( * )", spent = {value = "sum(cost*2)", range = [0, 5000]}}
query = [{name = "n", kind = "count"}, {name = "m", kind = "mean", column = "spent"}]
""",
    "bounds": """
# 2 rows in each of them and each week of 'day' from 2025-01-01 to 2025-12-31 count
# for queries without bounds of their own
# rows per 'person' and week cut at 5
report_clipping = true
unit = {column = "person", rows = 2, period = {column = "day", each = "week", range = [2025-01-01, 2025-12-31]}}
query = [{name = "n", kind = "count"}, {name = "own", kind = "count", rows = 5}, {name = "u", kind = "count of units"}]
""",
}
CONDITIONS = [
    {"name": f"{kind} {each}", "kind": kind, field: each}
    for kind, field in (("count", "where"), ("share", "of"))
    for each in WHERES
]


@pytest.mark.few(2)
@pytest.mark.parametrize("name", [*WRITTEN, "conditions"])
def test_every_part_of_a_plan_is_read_back_and_told_in_words(name):
    data = tomllib.loads(WRITTEN.get(name, "")) or {"query": CONDITIONS}
    plan = make_plan({"budget": {"epsilon": 1, "delta": 1e-6}, **data})
    same_in_every_form(plan, in_python=name != "conditions")  # a name is never an expression
    words = re.findall(r"(?m)^# (.*)$", WRITTEN.get(name, ""))
    assert [each for each in words if each not in explain(plan)] == []
    if name == "conditions":  # as their text, never as a hidden column
        assert not re.search(r'where = \[|= "= ', plan.to_toml())


def test_a_dict_is_released_and_explained_like_a_plan():
    data = {"budget": {"epsilon": 60.0}, "query": [Count(name="n")]}
    assert rb.release_table(data, pa.table({"x": [1, 2, 3]}), ledger=None).rows()[0]["value"] == 3
    assert explain(data) == explain(rb.Plan(**data))
    with pytest.raises(PlanError, match=r"plan: query: is missing"):
        explain({"budget": {"epsilon": 1}})
    with pytest.raises(rb.ArgumentTypeError, match="plan of type list: must be a Plan"):
        explain([1])


def test_every_kind_that_a_plan_can_ask_for_is_exported():
    for kind, cls in written_kinds().items():
        name = "".join(word.capitalize() for word in kind.split())
        assert getattr(room, name, None) is cls, f"rangebound.release.{name} is missing"
    assert not hasattr(rb, "Count")  # the top stays small


def test_numpy_numbers_texts_and_arrays_are_taken_as_python_s():
    plan = rb.Plan(
        budget={"epsilon": np.float32(0.5)},
        unit={"column": np.str_("who"), "rows": np.int64(3)},
        keys={"floor": np.array([1, 2]), "day": [np.datetime64("2025-03-01")]},
        joint=np.bool_(True),
        query=[
            Count(name="n", by=np.array(["floor", "day"])),
            Mean(name="m", column="x", range=np.array([0, 10]), weight=np.int8(2)),
            Share(name="s", of=[{"column": "x", "is": "in", "value": np.arange(2)}]),
        ],
    )
    assert {name: rule.values for name, rule in plan.keys.items()} == {"floor": (1, 2), "day": (DAY,)}
    assert plan.query[1].range == (0.0, 10.0)
    assert plan == make_plan(evaluated(plan).model_dump(by_alias=True, exclude_none=True))
    with pytest.raises(PlanError, match="time of day"):
        Mean(name="m", column="x", range=[np.datetime64("2025-03-01T10", "ns"), np.datetime64("2025-03-02", "ns")])
    with pytest.raises(PlanError, match=r"unit: rows=2\.5: "):
        Unit(column="x", rows=np.float64(2.5))


WAIT = {"column": "w", "range": [0, 10]}
FAULTS = [
    *({"query": [{**WAIT, "name": "n", "kind": kind, "nme": 1}]} for kind in ("mean", "sum", "median", "histogram")),
    {"query": [{"name": "", "kind": "count"}]},
    {"query": [{"name": "n", "kind": "count", "by": "x"}]},
    {"query": [{"name": "n", "kind": "count", "by": ["x", "x"]}]},
    {"query": [{"name": "n", "kind": "count", "support": [5, 1]}]},
    {"query": [{"name": "n", "kind": "count", "where": {"column": "a"}}]},
    {"query": [{"name": "n", "kind": "count", "where": [{"column": "a", "is": "in", "value": 1}]}]},
    {"query": [{"name": "n", "kind": "count", "where": [{"column": "a", "is": "missing", "value": 1}]}]},
    {"query": [{"name": "n", "kind": "share", "of": []}]},
    {"query": [{"name": "n", "kind": "quantiles", **WAIT, "levels": [0.5, 0.2]}]},
    {"query": [{"name": "n", "kind": "minimum", **WAIT, "level": 0.9}]},
    {"query": [{"name": "n", "kind": "hierarchy", "by": ["a"], "levels": [{"name": "b"}]}]},
    {"query": [{"kind": "count"}]},
    {"query": []},
    {"budget": {"epsilon": 1, "delta": 0.7}},
    {"budget": {}},
    {"unit": {"column": "x", "neighbours": "swap"}},
    {"source": {"path": "x", "tabel": "y"}},
    {"keys": {"x": []}},
    {"level": 1.0},
    {"joint": "yes"},
    {"tittle": "x"},
]
PARTS = {"budget": Budget, "unit": Unit, "source": Source}


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_is_the_same_error_as_in_toml(fault):
    data = {"budget": {"epsilon": 1}, "query": [{"name": "n", "kind": "count"}]} | fault
    with pytest.raises(PlanError) as toml:
        parse_plan(toml_text(data))
    with pytest.raises(PlanError) as python:
        rb.Plan(**data)
    rule = str(toml.value).split(": ", 1)[1]
    assert str(python.value) == f"plan: {rule}"
    assert (python.value.field, python.value.line) == (toml.value.field, None)
    (place, value), *_ = fault.items()
    kind = value[0].get("kind") if place == "query" and value else None
    maker = written_kinds().get(kind) if kind else PARTS.get(place)
    own = value[0] if place == "query" and value else value
    if maker is not None and len(value) <= 1 + (place != "query"):
        with pytest.raises(PlanError) as alone:  # a part by itself is refused by the same rule
            maker(**own)
        named = rule.removesuffix(" (in query 'n')")  # which only the plan around it knows
        assert named.removeprefix(f"{place}[0]").removeprefix(place).removeprefix(".") in str(alone.value)


def test_plans_are_equal_in_whatever_order_their_columns_are_made():
    asked = {"budget": {"epsilon": 1.0}, "query": [{"name": "n", "kind": "count", "where": "late and old"}]}
    columns = {"old": "age > 60", "late": "delay > 15"}
    one, two = (make_plan({**asked, "columns": dict(each)}) for each in (columns.items(), reversed(columns.items())))
    assert one == two
    assert one != make_plan({**asked, "columns": {**columns, "old": "age > 61"}})
    assert one != asked


def test_a_text_is_on_one_line_and_not_turned_round_for_whoever_reads_it():
    odd = "a\r\n\x0b\x85\u2028\u2029\x7f\u202eb\u2066c\ufeff"
    text = toml_text({"keys": {odd: [odd]}})
    assert tomllib.loads(text) == {"keys": {odd: [odd]}}
    assert len(text.splitlines()) == 2
    assert all(each.isprintable() for each in text.splitlines())
