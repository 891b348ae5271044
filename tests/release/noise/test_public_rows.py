"""A public number of rows: counts of all rows are free and exact, means and variances need less noise, soundly."""

import math
import random
import statistics

import pyarrow as pa
import pytest

from rangebound.release import check_certificate, explain, make_plan, release
from rangebound.release.budget_split import allocations
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.noise.draw import Reading
from rangebound.release.noise.forms import form_of
from rangebound.release.noise.publishers import PublicConstant
from rangebound.release.prepare import answers, prepare
from rangebound.release.sql.aggregate import aggregate
from tests.release.output.asked import asked
from tests.release.plans import KINDS, SALT, plan_data

SIZE = 6


def public(kinds, size=SIZE, **parts):
    """A plan for a table of public size, where a missing value counts as a number: how many have one is not public."""
    unit = {"neighbours": "replace", "size": size}
    asked = [{"missing": 50.0, **each} if "column" in each else each for each in kinds if "units" not in each["kind"]]
    return make_plan(plan_data([], asked, unit=unit, **parts))


def table(rows):
    return pa.table({"wait": pa.array([row[0] for row in rows], pa.float64()), "age": [row[1] for row in rows]})


def test_control_without_a_filter_the_size_is_public_and_with_one_it_is_not():
    everyone, adults = KINDS[3], {**KINDS[3], "where": [{"column": "age", "is": ">=", "value": 18}]}
    plan = public([everyone, adults])
    assert [len(each.coordinates({}, plan.unit)) for each in plan.query] == [1, 2]
    assert [each.sensitivity(plan.unit, 1).cell for each in plan.query] == [1, 2]
    partial = make_plan(plan_data([], [everyone], unit={"neighbours": "replace", "size": 6}))  # of rows with a value
    assert len(partial.query[0].coordinates({}, partial.unit)) == 2
    assert partial.query[0].sensitivity(partial.unit, 1).cell == 2
    owners = asked({**everyone, "missing": 0}, unit={"column": "age", "neighbours": "replace", "size": 3})
    assert len(owners.query[0].coordinates({}, owners.unit)) == 2


def test_a_count_of_all_rows_is_exact_and_free_and_the_rest_gets_its_part():
    plan = public(KINDS[:4])
    allocation = allocations(plan)[0]
    assert [each.epsilon for each in allocation.questions.values()] == [0.0, 0.5, 0.5]
    assert sum(each.epsilon * each.groups * each.parts for each in allocation.questions.values()) == 1
    assert prepare(plan).publishers[0] == PublicConstant(value=6.0)
    found = release(plan, table([(5.0, 3)] * SIZE), ledger=None)
    count = found.cells[0]
    assert (count.value, count.lower, count.upper, count.epsilon) == (6.0, 6.0, 6.0, 0.0)
    assert check_certificate(found.certificate, found.to_bytes()).numbers == 3
    assert "by no mechanism, since it is public" in explain(plan)
    alone = release(public(KINDS[:1]), table([(5.0, 3)] * 9), ledger=None)  # the plan is believed, not the table
    assert alone.cells[0].value == 6.0


def drawn(plan, rows, times):
    with DuckDB(table(rows), threads=1) as engine:
        (found,) = aggregate(plan, engine, SALT)
    ready = prepare(plan)
    return [answers(ready, found)[0] for _ in range(times)]


@pytest.mark.slow
def test_a_filtered_count_is_clamped_to_the_size():
    adults = {"kind": "count", "where": [{"column": "age", "is": ">=", "value": 18}]}
    plan, free = (asked(adults, epsilon=0.01, unit=unit) for unit in ({"neighbours": "replace", "size": SIZE}, {}))
    assert "published in [0, 6]" in explain(plan)
    values, wide = ({cell.value for cell in drawn(each, [(5.0, 70)] * SIZE, 30)} for each in (plan, free))
    assert values <= set(map(float, range(SIZE + 1)))
    assert len(values) > 2  # 30 draws from seven numbers, none of which has a fifth of the chance: below 1e-10
    assert max(wide) > SIZE  # the control: a private size bounds nothing; 30 draws below have a chance of 1e-9


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", ["mean", "variance", "standard deviation", "share"])
def test_answers_are_near_the_truth_and_intervals_hold_it(kind):
    chance = random.Random(8)
    waits = [min(chance.expovariate(1 / 30), 100.0) for _ in range(3000)]
    truth = {
        "mean": statistics.fmean(waits),
        "variance": statistics.pvariance(waits),
        "standard deviation": statistics.pstdev(waits),
        "share": sum(x > 50 for x in waits) / 3000,
    }[kind]
    question = next(each for each in KINDS if each["kind"] == kind)
    cells = drawn(public([{**question, "where": []}], size=3000), [(x, 30) for x in waits], 1000)
    assert statistics.fmean(cell.value for cell in cells) == pytest.approx(truth, rel=0.01)
    held = sum(cell.lower - 1e-6 <= truth <= cell.upper + 1e-6 for cell in cells)
    assert held >= 898  # of 1,000, each with 0.95 at least: fewer has a chance of 1e-11


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2])
def test_the_smallest_sizes_go_through(size):
    found = release(public(KINDS, size=size), table([(5.0, 30)] * size), ledger=None)
    assert len(found.cells) == sum(len(each.parts) for each in found.plan.query) > len(KINDS)
    check_certificate(found.certificate, found.to_bytes())


def test_parts_beyond_the_rows_stay_in_range():
    plan = public([{"kind": "variance", "column": "wait", "range": [0, 100]}])
    (question,) = plan.query
    found = form_of(question, plan.unit).estimate(Reading(values=(SIZE, SIZE), intervals=((0.0, math.inf),) * 2))
    assert question.allowed.lower <= found.value <= 2500.0
    assert (found.lower, found.upper) == (0.0, 2500.0)
