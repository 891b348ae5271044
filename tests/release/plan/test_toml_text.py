"""A plan written as TOML is the plan that is read from it, whatever it has in it."""

import datetime
import json
import random
import re
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rangebound import release as room
from rangebound.release import make_plan, parse_plan
from rangebound.release.plan.toml_text import toml_text, written_fields
from tests.release.plans import SUPPORTED, plan_data
from tests.release.random_plans import random_plan

DAY = datetime.date(2025, 3, 1)


def test_random_plans_are_read_back():
    for seed in range(200):
        data = random_plan(random.Random(seed))
        clipping = seed % 3 == 0 and any("range" in each for each in data["query"])
        plan = make_plan(data | {"title": f'"{seed}"\n\\ \x7f\u00e9', "report_clipping": clipping})
        text = plan.to_toml()
        assert parse_plan(text) == plan
        assert parse_plan(text).to_toml() == text


@pytest.mark.parametrize("question", SUPPORTED, ids=lambda each: each["kind"])
def test_every_kind_is_read_back(question):
    unit = {"column": "who", "rows": 2}
    plan = make_plan(plan_data(["a b", "c.d"], [question], unit=unit, keys={"a b": ["x", 'y"'], "c.d": [DAY, 3, True]}))
    assert parse_plan(plan.to_toml()) == plan


def test_what_is_as_by_default_is_left_out():
    plan = make_plan({"budget": {"epsilon": 1}, "level": 0.95, "query": [{"name": "n", "kind": "count", "by": []}]})
    assert tomllib.loads(plan.to_toml()) == {"budget": {"epsilon": 1.0}, "query": [{"name": "n", "kind": "count"}]}
    assert written_fields(plan.budget) == {"epsilon": 1.0}


def test_nested_tables_are_read_back():
    levels = [{"name": "canton", "members": {"Z H": ["u"], "UR": ["w", "x"]}}]
    query = [{"name": "n", "kind": "hierarchy", "by": ["town"], "levels": levels}]
    plan = make_plan({"budget": {"epsilon": 1}, "keys": {"town": ["u", "w", "x"]}, "query": query})
    assert parse_plan(plan.to_toml()) == plan


values = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text() | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100)
@given(st.dictionaries(st.text(), values, max_size=5))
def test_any_plain_data_is_read_back(data):
    found = tomllib.loads(toml_text(data))
    assert found == data
    assert json.dumps(found, default=str, sort_keys=True) == json.dumps(data, default=str, sort_keys=True)


WHERES = [
    "age >= 18 and a + b > 3",
    "not ill and (x == 'y' or z > date('2025-01-01'))",
    "column('odd name') in [1, 2] and missing(x) and not missing(y) and a + 1 < 2",
    "x != 'it\\'s \"q\"' and flag == true and t not in ['a', 'b'] and a * 2 > b",
    "d >= date('2025-01-31') and starts(x, 'a')",
]


@pytest.mark.parametrize("where", WHERES)
def test_conditions_that_are_expressions_are_read_back(where):
    query = [{"name": "n", "kind": "count", "where": where}, {"name": "s", "kind": "share", "of": where}]
    plan = make_plan({"budget": {"epsilon": 1}, "query": query})
    assert "= a" not in plan.to_toml().replace('where = "', "").replace('of = "', "")
    assert parse_plan(plan.to_toml()) == plan
    assert "where = [" not in plan.to_toml()


def test_joins_columns_and_key_rules_are_read_back():
    plan = make_plan(
        {
            "budget": {"epsilon": 1, "delta": 1e-6},
            "columns": {
                "hours": {"value": "minutes / 60", "range": [0, 24]},
                "late": "delay > 15",
                "x": {"range": [0, 1]},
            },
            "join": [{"table": "regions", "public": True, "on": {"region": "code"}, "columns": {"label": "name"}}],
            "keys": {
                "clinic": {"values": ["a", "b"], "missing": "unknown", "other": "other"},
                "age": {"bins": [0, 18, 120], "names": ["child", "adult"]},
                "label": {"fold": {"north": ["p", "q"]}, "other": "elsewhere"},
            },
            "query": [
                {"name": "n", "kind": "count", "by": ["clinic", "age", "label"]},
                {"name": "m", "kind": "mean", "column": "hours", "weighted_by": {"column": "w", "range": [0, 5]}},
            ],
        }
    )
    assert parse_plan(plan.to_toml()) == plan
    names = {name: getattr(room, name) for name in re.findall(r"\b[A-Z]\w+(?=\()", repr(plan))}
    assert eval(repr(plan), names) == plan
