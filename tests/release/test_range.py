"""Every published number in its support, whatever the table and however much noise there is."""

import math
import random

import pyarrow as pa
import pytest

from rangebound.release import Release, make_plan, release
from rangebound.release.engine.duckdb import DuckDB
from tests.release.plans import KINDS, SUPPORTED, plan_data

PEOPLE = {"column": "person", "rows": 2, "groups": 2}


def table(count, seed=1):
    chance = random.Random(seed)
    rows = range(count)
    return pa.table(
        {
            "person": pa.array([chance.randrange(30) for _ in rows], pa.int64()),
            "clinic": pa.array([chance.choice("abc") for _ in rows], pa.string()),
            "wait": pa.array([chance.choice([9.9, None, math.nan, math.inf, 250.0]) for _ in rows], pa.float64()),
            "age": pa.array([chance.choice([5, 30, 70]) for _ in rows], pa.int64()),
        }
    )


def in_support(found):
    for cell in found.cells:
        question = found.plan.query[cell.question]
        assert any(lower <= cell.value <= upper for lower, upper in question.allowed.spans), (question, cell)
        assert cell.lower <= cell.upper
        if question.kind in ("count", "count of units"):
            assert cell.value == int(cell.value)
        if question.kind in ("variance", "standard deviation"):
            assert cell.value > 0.0


@pytest.mark.parametrize("part", range(5))
@pytest.mark.parametrize("times", [40, pytest.param(1000, marks=pytest.mark.long)])
def test_every_number_is_in_its_support_over_many_releases_of_tiny_tables_at_epsilon_0_01(part, times):
    data = plan_data([], SUPPORTED[part::5], unit=PEOPLE)
    plan = make_plan({**data, "budget": {"epsilon": 0.01}})
    engines = [DuckDB(table(count, seed), threads=1) for count in (0, 1, 3) for seed in range(3)]
    for turn in range(times):
        found = release(plan, engines[turn % len(engines)], ledger=None)
        assert {cell.question for cell in found.cells} == set(range(len(plan.query)))
        in_support(found)


def test_every_number_is_in_its_support_in_1000_groups_at_epsilon_0_01():
    clinics = [str(each) for each in range(1000)]
    rows = [(at, str(at % 1000), wait, 30) for at, wait in enumerate([9.9, None, math.nan, math.inf, 250.0] * 400)]
    data = pa.table({name: [row[at] for row in rows] for at, name in enumerate(("person", "clinic", "wait", "age"))})
    unit = {"column": "person", "rows": 2, "groups": 1}
    plan = make_plan(
        {**plan_data(["clinic"], SUPPORTED, unit=unit, keys={"clinic": clinics}), "budget": {"epsilon": 0.01}}
    )
    found = release(plan, data, ledger=None)
    assert len({cell.key for cell in found.cells}) == 1000
    in_support(found)


def test_control_a_number_outside_is_noticed():
    found = release(make_plan(plan_data([], KINDS[:1])), table(3), ledger=None)
    cell = found.cells[0]
    with pytest.raises(AssertionError):
        in_support(Release(plan=found.plan, cells=(type(cell)(**{**vars(cell), "value": -1.0}),), mechanisms=("",)))
