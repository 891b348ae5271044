"""Every published number in its support, whatever the table and however much noise there is."""

import math
import random

import pyarrow as pa
import pytest

from rangebound.errors import PlanError
from rangebound.release import Release, make_plan, release
from rangebound.release.engine.duckdb import DuckDB
from tests.release.plans import KINDS, SUPPORTED, WAIT, plan_data

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
        spread = question.kind in ("variance", "standard deviation")  # 0 is possible, and never published
        lowest = 0.0 if spread and question.support is None else question.allowed.hull.lower
        assert lowest <= cell.lower <= cell.value <= cell.upper <= question.allowed.hull.upper
        if question.kind in ("count", "count of units", "histogram"):
            assert cell.value == int(cell.value)
        if spread:
            assert cell.value > 0.0


@pytest.mark.claim("range")
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 5))])
@pytest.mark.parametrize("times", [9, pytest.param(1000, marks=pytest.mark.long)])
def test_every_number_is_in_its_support_over_many_releases_of_tiny_tables_at_epsilon_0_01(part, times):
    plan = make_plan(plan_data([], SUPPORTED[part::5], unit=PEOPLE, budget={"epsilon": 0.01}))
    engines = [DuckDB(table(count, seed), threads=1) for count in (0, 1, 3) for seed in range(3)]
    for turn in range(times):
        found = release(plan, engines[turn % len(engines)], ledger=None)
        assert {cell.question for cell in found.cells} == set(range(len(plan.query)))
        in_support(found)


@pytest.mark.slow
@pytest.mark.parametrize("groups", [150, pytest.param(1000, marks=pytest.mark.long)])
def test_every_number_is_in_its_support_in_many_groups_at_epsilon_0_01(groups):
    clinics = [str(each) for each in range(groups)]
    odd = [9.9, None, math.nan, math.inf, 250.0]
    rows = [(at, str(at % groups), odd[at % len(odd)], 30) for at in range(2 * groups)]
    data = pa.table({name: [row[at] for row in rows] for at, name in enumerate(("person", "clinic", "wait", "age"))})
    unit = {"column": "person", "rows": 2, "groups": 1}
    plan = make_plan(plan_data(["clinic"], SUPPORTED, unit=unit, keys={"clinic": clinics}, budget={"epsilon": 0.01}))
    found = release(plan, data, ledger=None)
    assert len({cell.key for cell in found.cells}) == groups
    in_support(found)


MOVED = [  # by a step, by a gap, or both
    {"kind": "mean", **WAIT, "step": 30.0},
    {"kind": "mean", **WAIT, "support": [[0, 10], [50, 60]]},
    {"kind": "share", "of": [{"column": "wait", "is": ">", "value": 50}], "step": 0.7},
    {"kind": "sum", **WAIT, "support": [[0, 100], [300, 400]]},
    {"kind": "histogram", **WAIT, "bins": 3, "step": 3.0},
    {"kind": "histogram", **WAIT, "bins": 3, "support": [[0, 2], [50, 90]]},
]


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.05, pytest.param(50.0, marks=pytest.mark.slow)])
def test_numbers_that_a_step_or_a_gap_has_moved_are_in_their_intervals(epsilon):
    data = plan_data(["clinic"], MOVED, unit=PEOPLE, keys={"clinic": ["a", "b", "none"]})
    plan = make_plan({**data, "budget": {"epsilon": epsilon}})
    for seed in range(3):
        in_support(release(plan, table(9, seed), ledger=None))


@pytest.mark.parametrize("kind", [{"kind": "count"}, {"kind": "count of units"}, {"kind": "histogram", **WAIT}])
@pytest.mark.parametrize(
    ("part", "says"),
    [({"support": [0, 0.9]}, "support"), ({"support": [[0, 2], [2.5, 9]]}, "support"), ({"step": 0.7}, "step")],
)
def test_counts_are_asked_for_in_whole_numbers(kind, part, says):
    with pytest.raises(PlanError, match="whole numbers") as caught:
        make_plan(plan_data([], [{**kind, **part}], unit=PEOPLE))
    assert caught.value.field == f"query[0].{says}"
    make_plan(plan_data([], [{**kind, "support": [[0, 2], [3, 9]], "step": 2.0}], unit=PEOPLE))


def test_control_a_number_outside_is_noticed():
    found = release(make_plan(plan_data([], KINDS[:1])), table(3), ledger=None)
    cell = found.cells[0]
    with pytest.raises(AssertionError):
        in_support(Release(plan=found.plan, cells=(type(cell)(**{**vars(cell), "value": -1.0}),), mechanisms=("",)))
