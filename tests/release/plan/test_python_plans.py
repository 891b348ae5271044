"""Plans in Python: typed parts, or dicts in their place, with the errors of a TOML file."""

import datetime
import random

import numpy as np
import pyarrow as pa
import pytest

import rangebound as rb
from rangebound import release as room
from rangebound.errors import PlanError
from rangebound.release import Budget, Condition, Count, Mean, Share, Source, Unit, explain, make_plan, parse_plan
from rangebound.release.plan.questions import written_kinds
from rangebound.release.plan.toml_text import toml_text
from tests.release.plans import SUPPORTED
from tests.release.random_plans import random_plan

DAY = datetime.date(2025, 3, 1)
NAMES = {each.__name__: each for each in written_kinds().values()} | {"datetime": datetime}
NAMES |= {name: getattr(room, name) for name in room.__all__}


def test_parts_dicts_and_toml_make_the_same_plan():
    parts = rb.Plan(
        unit=Unit(column="person", rows=2),
        budget=Budget(epsilon=1, delta=1e-6),
        keys={"clinic": ["north", "south"]},
        query=[
            Count(name="visits", by=["clinic"], where=[Condition(column="age", comparison=">=", value=18)]),
            Mean(name="wait", column="waiting", range=[0, 100]),
            {"name": "day", "kind": "median", "column": "day", "range": (DAY, datetime.date(2025, 4, 1))},
        ],
    )
    dicts = rb.Plan(
        unit={"column": "person", "rows": 2},
        budget={"epsilon": 1.0, "delta": 1e-6},
        keys={"clinic": ("north", "south")},
        query=(
            {
                "name": "visits",
                "kind": "count",
                "by": ("clinic",),
                "where": ({"column": "age", "is": ">=", "value": 18},),
            },
            {"name": "wait", "kind": "mean", "column": "waiting", "range": (0, 100.0)},
            {"name": "day", "kind": "median", "column": "day", "range": [DAY, datetime.date(2025, 4, 1)]},
        ),
    )
    text = """
    unit = {column = "person", rows = 2}
    budget = {epsilon = 1.0, delta = 1e-6}
    keys = {clinic = ["north", "south"]}
    [[query]]
    name = "visits"
    kind = "count"
    by = ["clinic"]
    where = [{column = "age", is = ">=", value = 18}]
    [[query]]
    name = "wait"
    kind = "mean"
    column = "waiting"
    range = [0, 100]
    [[query]]
    name = "day"
    kind = "median"
    column = "day"
    range = [2025-03-01, 2025-04-01]
    """
    assert parts == dicts == parse_plan(text)
    assert Condition(column="a", comparison="==", value=1) == Condition(**{"column": "a", "is": "==", "value": 1})


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
    assert plan == make_plan(eval(repr(plan), NAMES).model_dump(by_alias=True, exclude_none=True))
    with pytest.raises(PlanError, match="time of day"):
        Mean(name="m", column="x", range=[np.datetime64("2025-03-01T10", "ns"), np.datetime64("2025-03-02", "ns")])
    with pytest.raises(PlanError, match=r"unit: rows=2\.5: "):
        Unit(column="x", rows=np.float64(2.5))


def test_a_repr_makes_the_same_plan_again():
    for seed in range(200):
        data = random_plan(random.Random(seed))
        plan = make_plan(data | {"report_clipping": seed % 3 == 0 and any("range" in each for each in data["query"])})
        assert eval(repr(plan), NAMES) == plan
    for question in SUPPORTED:
        made = rb.Plan(budget=Budget(epsilon=1), unit=Unit(column="w"), query=[{"name": "n", **question}])
        assert eval(repr(made), NAMES) == made
    assert repr(Source(path="a.csv")) == "Source(path='a.csv')"


WAIT = {"column": "w", "range": [0, 10]}
FAULTS = [
    *({"query": [{**WAIT, "name": "n", "kind": kind, "nme": 1}]} for kind in ("mean", "sum", "median", "histogram")),
    {"query": [{"name": "n", "kind": "count", "column": "x"}]},
    {"query": [{"name": "", "kind": "count"}]},
    {"query": [{"name": "n", "kind": "count", "by": "x"}]},
    {"query": [{"name": "n", "kind": "count", "by": ["x", "x"]}]},
    {"query": [{"name": "n", "kind": "count", "step": 0.5}]},
    {"query": [{"name": "n", "kind": "count", "weight": -1}]},
    {"query": [{"name": "n", "kind": "count", "support": [5, 1]}]},
    {"query": [{"name": "n", "kind": "count", "where": {"column": "a"}}]},
    {"query": [{"name": "n", "kind": "count", "where": [{"column": "a", "is": "~", "value": 1}]}]},
    {"query": [{"name": "n", "kind": "count", "where": [{"column": "a", "is": "in", "value": 1}]}]},
    {"query": [{"name": "n", "kind": "count", "where": [{"column": "a", "is": "missing", "value": 1}]}]},
    {"query": [{"name": "n", "kind": "mean", "column": "w", "range": [10, 0]}]},
    {"query": [{"name": "n", "kind": "mean", "column": "w", "range": [0, "b"]}]},
    {"query": [{"name": "n", "kind": "mean", "column": "w"}]},
    {"query": [{"name": "n", "kind": "share", "of": []}]},
    {"query": [{"name": "n", "kind": "quantiles", **WAIT, "levels": [0.5, 0.2]}]},
    {"query": [{"name": "n", "kind": "minimum", **WAIT, "level": 0.9}]},
    {"query": [{"name": "n", "kind": "histogram", **WAIT, "bins": 1}]},
    {"query": [{"name": "n", "kind": "crosstab", "by": ["a"]}]},
    {"query": [{"name": "n", "kind": "hierarchy", "by": ["a"], "levels": [{"name": "b"}]}]},
    {"query": [{"name": "n", "kind": "series", "by": ["a"], "totals": ["year"]}]},
    {"query": [{"name": "n", "kind": "counts"}]},
    {"query": [{"name": "n"}]},
    {"query": []},
    {"query": [{"name": "n", "kind": "count"}, {"name": "n", "kind": "count"}]},
    {"budget": {"epsilon": 0}},
    {"budget": {"epsilon": "1"}},
    {"budget": {"epsilon": 1, "delta": 0.7}},
    {"budget": {}},
    {"unit": {"rows": 2}},
    {"unit": {"column": "x", "rows": 0}},
    {"unit": {"column": "x", "neighbours": "swap"}},
    {"source": {}},
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
    assert python.value.field == toml.value.field
    (place, value), *_ = fault.items()
    kind = value[0].get("kind") if place == "query" and value else None
    maker = written_kinds().get(kind) if kind else PARTS.get(place)
    own = value[0] if place == "query" and value else value
    lacks = isinstance(own, dict) and own.keys() == {"name", "kind", "column"}  # a range may come from the plan around
    if maker is not None and len(value) <= 1 + (place != "query") and not lacks:
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
