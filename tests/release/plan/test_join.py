"""Joins in a plan: what is refused and why, and what they do to the rows a unit may have."""

import json

import pytest

from rangebound.errors import PlanError
from rangebound.release import make_plan, parse_plan
from rangebound.release.output.plan_facts import plan_from_json, plan_json

REGIONS = {"path": "regions.csv", "public": True, "on": ["region"], "columns": ["name"]}
VISITS = {"table": "visits", "public": False, "on": ["person"], "columns": ["day"], "rows": 5}


def plan_with(*joins, unit=None, **parts):
    count = {"name": "n", "kind": "count"}
    return make_plan(
        {"unit": unit or {"column": "person"}, "budget": {"epsilon": 1.0}, "join": joins, "query": [count], **parts}
    )


@pytest.mark.parametrize(
    ("join", "words"),
    [
        ({**REGIONS, "path": None}, r"join\[0\].*path of a file or the name of a table"),
        ({**REGIONS, "on": []}, r"join\[0\].on"),
        ({**REGIONS, "on": ["region", "region"]}, r"join\[0\].on.*twice"),
        ({**REGIONS, "on": "region"}, r"join\[0\].on.*list of columns"),
        ({**REGIONS, "columns": []}, r"join\[0\].columns"),
        ({**REGIONS, "how": "outer"}, r"join\[0\].how"),
        ({**REGIONS, "rows": 2}, r"join\[0\].*bounds of a private table"),
        ({key: value for key, value in REGIONS.items() if key != "public"}, r"join\[0\].public"),
        ({**VISITS, "rows": None}, r"join\[0\].rows.*missing"),
        ({**VISITS, "rows": 0}, r"join\[0\].rows"),
        ({**VISITS, "on": ["day"]}, r"join\[0\].on.*must contain the unit's column 'person'"),
        ({**VISITS, "on": {"day": "person"}}, r"join\[0\].on.*must contain the unit's column 'person'"),
        ({**VISITS, "sql": "1"}, r"join\[0\].sql"),
        ({**VISITS, "rows": 10_000, "own_rows": 10_000}, r"unit.rows.*state how many"),
    ],
)
def test_a_join_that_cannot_be_is_refused_with_the_reason(join, words):
    with pytest.raises(PlanError, match=words):
        plan_with({key: value for key, value in join.items() if value is not None})


def test_joins_that_cannot_be_together_or_for_rows_are_refused():
    with pytest.raises(PlanError, match=r"join\[0\].public.*the unit is the row"):
        plan_with(VISITS, unit={"rows": 1})
    with pytest.raises(PlanError, match=r"join\[1\].columns.*'NAME'.*rename"):
        plan_with(REGIONS, {**REGIONS, "columns": {"NAME": "name"}})


@pytest.mark.parametrize(
    ("joins", "unit", "rows"),
    [
        ([REGIONS], {}, 1),
        ([VISITS], {}, 1),  # nothing bounds the rows of the table itself
        ([{**VISITS, "own_rows": 3}], {}, 15),
        ([{**VISITS, "own_rows": 3}, REGIONS], {}, 15),
        ([{**VISITS, "own_rows": 3}, {**VISITS, "columns": ["x"], "rows": 2}], {}, 30),
        ([{**VISITS, "own_rows": 3}, {**VISITS, "columns": ["x"], "rows": 2, "own_rows": 4}], {}, 8),
        ([{**VISITS, "own_rows": 3}], {"rows": 1}, 1),
        ([{**VISITS, "own_rows": 3, "on": ["person", "day"]}], {}, 1),  # this many a day, not this many in all
    ],
)
def test_the_rows_of_a_unit_are_the_product_of_the_bounds_unless_they_are_stated(joins, unit, rows):
    plan = plan_with(*joins, unit={"column": "person", **unit})
    assert plan.unit.rows == rows
    assert parse_plan(plan.to_toml()).unit.rows == rows
    assert plan_from_json(json.loads(plan_json(plan))) == plan


def test_after_an_inner_join_the_number_of_rows_is_not_public():
    unit = {"neighbours": "replace", "size": 50}
    assert plan_with(REGIONS, unit=unit).unit.public_rows == 50
    assert plan_with({**REGIONS, "how": "inner"}, unit=unit).unit.public_rows is None


def test_plans_are_equal_wherever_they_were_read(tmp_path):
    text = plan_with(REGIONS).to_toml()
    assert parse_plan(text, folder=tmp_path) == parse_plan(text)
    assert parse_plan(text, folder=tmp_path).folder == tmp_path
