"""What one unit can change: 10,000 pairs of neighbouring tables against the declared sensitivities, and a control.

Whole plans with crosstabs, hierarchies, series and selected keys, in L2 and by their loss: `test_plan_pairs.py`.

Many small worlds share one table, so that the engine is asked once for all of them: units carry the number of their
world, and one of the grouping columns is the world. Each world is a table of its own, and its neighbour lacks (or
replaces) one unit.
"""

import random
from dataclasses import replace

import pyarrow as pa
import pytest

from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.plan.toml import make_plan
from rangebound.release.prepare import allocate
from rangebound.release.sql.aggregate import aggregate
from tests.release.plans import KINDS, SALT, plan_data
from tests.thinning import some

CLINICS = ["a", "b", "c"]
ODD = [None, float("nan"), float("inf"), -50.0, 0.0, 100.0, 1e9]


def world(chance, number, people):
    """The rows of some people: few or many, in few or many clinics, at the ends of the range more often than not."""
    rows = []
    for person in people:
        for _ in range(chance.choice([1, 1, 2, 3, 9])):
            wait = chance.choice([*ODD, chance.uniform(0, 100)])
            rows.append(
                (
                    number * 100 + person,
                    number,
                    chance.choice([*CLINICS, "other"]),
                    wait,
                    chance.choice([None, 5, 30, 70]),
                )
            )
    return rows


def pair(chance, number, replaced):
    rows = world(chance, number, range(chance.choice([1, 2, 5])))
    owners = [row[0] for row in rows]
    left = [row for row in rows if row[0] != owners[0]]
    return rows, left + (world(chance, number, [99]) if replaced else [])


def table(rows):
    kinds = [
        ("person", pa.int64()),
        ("world", pa.int64()),
        ("clinic", pa.string()),
        ("wait", pa.float64()),
        ("age", pa.int64()),
    ]
    return pa.table({name: pa.array([row[at] for row in rows], kind) for at, (name, kind) in enumerate(kinds)})


def distances(plan, worlds, replaced, seed):
    """For every question: the largest L1 distance in a group, in all groups of a world, and the most groups changed."""
    chance = random.Random(seed)
    pairs = [pair(chance, number, replaced) for number in range(worlds)]
    sides = []
    for side in (0, 1):
        with DuckDB(table([row for each in pairs for row in each[side]])) as engine:
            (found,) = aggregate(plan, engine, SALT)
            sides.append(found.answers)
    assert sides[0].keys() == sides[1].keys()
    result = {}
    for index, before in sides[0].items():
        cells, totals, touched = [0], {}, {}
        assert before.keys() == sides[1][index].keys()
        for key, values in before.items():
            moved = sum(abs(x - y) for x, y in zip(values, sides[1][index][key], strict=True))
            cells.append(moved)
            totals[key[0]] = totals.get(key[0], 0) + moved
            touched[key[0]] = touched.get(key[0], 0) + (moved > 0)
        result[index] = max(cells), max(totals.values()), max(touched.values())
    return result


def sensitivity(question, unit, groups):
    return question.sensitivity(unit, groups)


def plan_for(worlds, unit):
    keys = {"world": list(range(worlds)), "clinic": CLINICS}
    return make_plan(
        plan_data(
            ["world", "clinic"],
            [each for each in KINDS if unit.get("column") or "units" not in each["kind"]],
            unit=unit,
            keys=keys,
        )
    )


UNITS = [
    {"column": "person", "rows": 2, "groups": 2},
    {"column": "person", "rows": 3, "groups": 1},
    {"column": "person", "rows": 1, "groups": 3},
]


def check(worlds, unit, seed):
    unit = {**unit, **({"size": 1000} if unit.get("neighbours") else {})}
    plan = plan_for(worlds, unit)
    found = distances(plan, worlds, plan.unit.replaced, seed)
    attained = 0
    for index, question in enumerate(plan.query):
        declared = sensitivity(question, plan.unit, len(CLINICS))
        cell, total, touched = found[index]
        assert cell <= declared.cell * (2 if declared.twice else 1), question.kind
        assert total <= declared.cell * declared.groups, question.kind
        assert touched <= declared.groups, question.kind
        attained += total == declared.cell * declared.groups if plan.unit.replaced else cell == declared.cell
    return attained, len(plan.query)


@pytest.mark.parametrize("worlds", [120, pytest.param(3334, marks=pytest.mark.long)])
@pytest.mark.parametrize("unit", some(UNITS, of=3), ids=str)
def test_no_unit_moves_an_aggregate_by_more_than_its_sensitivity(unit, worlds):
    attained, questions = check(worlds, unit, seed=11)
    assert attained >= questions - 2  # the bounds are met, not just respected


@pytest.mark.parametrize("unit", some(UNITS, of=3), ids=str)
def test_the_same_holds_where_groups_are_chosen_by_bits(unit):
    check(42, unit, seed=0)


@pytest.mark.parametrize("worlds", [60, pytest.param(3334, marks=pytest.mark.long)])
@pytest.mark.parametrize("unit", some(UNITS, of=3), ids=str)
def test_the_same_holds_for_units_that_are_replaced(unit, worlds):
    check(worlds, {**unit, "neighbours": "replace"}, seed=5)


def farthest(plan, pairs):
    """For every question: the largest L1 distance of its coordinates in any pair, in all groups together.

    Each pair is a world of one owner, from the clinic, wait and age of each row.
    """
    sides = []
    for side in (0, 1):
        rows = [(world, world, *each) for world, pair in enumerate(pairs) for each in pair[side]]
        with DuckDB(table(rows), threads=1) as engine:
            sides.append(aggregate(plan, engine, SALT)[0].answers)
    found = {}
    for index, before in sides[0].items():
        moved = {}
        for key, values in before.items():
            far = sum(abs(x - y) for x, y in zip(values, sides[1][index][key], strict=True))
            moved[key[0]] = moved.get(key[0], 0) + far
        found[index] = max(moved.values())
    return found


@pytest.mark.parametrize("groups", [1, 2])
def test_a_replaced_unit_moves_all_coordinates_by_twice_its_rows_and_groups_and_no_more(groups):
    rows, clinics = 2, ["a", "b", "c", "d"]
    unit = {"column": "person", "rows": rows, "groups": groups, "neighbours": "replace", "size": 10}
    asked = [each for each in KINDS if each["kind"] not in ("median", "minimum", "maximum")]
    asked += [{**each, "range": [-100, 100]} for each in KINDS if each["kind"] == "sum"]
    low, high = -500.0, 500.0
    some = [(clinic, low, 30) for clinic in clinics[:groups] for _ in range(rows + 1)]
    pairs = [
        (some, [(clinic, wait, 30) for clinic in chosen for _ in range(rows + 1)])
        for chosen in (clinics[:groups], clinics[-groups:])
        for wait in (high, low, None, float("nan"))
    ]
    pairs += [([(clinic, high, 30) for clinic, _, _ in before], after) for before, after in pairs]
    keys = {"world": list(range(len(pairs))), "clinic": clinics}
    plan = make_plan(plan_data(["world", "clinic"], asked, unit=unit, keys=keys))
    largest = farthest(plan, pairs)
    for index, question in enumerate(plan.query):
        declared = sensitivity(question, plan.unit, len(clinics))
        assert largest[index] == declared.cell * declared.groups, question.kind
        if question.kind in ("mean", "share", "variance", "standard deviation", "histogram", "quantiles"):
            assert declared.cell * declared.groups == 2 * rows * groups
        if question.kind == "sum":
            assert declared.cell * declared.groups == 2 * rows * groups * 100
            assert declared.twice


def test_only_pure_noise_is_used_where_a_unit_may_move_a_group_by_two_steps():
    unit = {"column": "person", "rows": 2, "groups": 2, "neighbours": "replace", "size": 10}
    across = {"kind": "sum", "column": "wait", "range": [-100, 100]}
    named = {**across, "mechanism": "truncate Gaussian", "support": [-1000, 1000]}
    plan = make_plan(plan_data(["clinic"], [across, named, KINDS[0]], unit=unit, keys={"clinic": ["a", "b", "c", "d"]}))
    allocation = allocate(plan)
    assert [each.twice for each in allocation.sensitivities.values()] == [True, False, False]
    assert [each.delta > 0 for each in allocation.questions.values()] == [False, True, True]
    assert [each.cell for each in allocation.sensitivities.values()] == [200, 400, 2]


def test_control_half_the_noise_of_a_replaced_unit_is_too_little(monkeypatch):
    def halved(question, unit, groups):
        found = question.sensitivity(unit, groups)
        return replace(found, groups=found.groups // 2) if found.twice else found

    monkeypatch.setattr("tests.release.test_neighbours.sensitivity", halved)
    with pytest.raises(AssertionError):
        test_a_replaced_unit_moves_all_coordinates_by_twice_its_rows_and_groups_and_no_more(2)


def test_control_without_bounds_the_sensitivity_is_exceeded(monkeypatch):
    monkeypatch.setattr("rangebound.release.sql.statements.at_most", lambda amount, n, rows, dialect: amount.copy())
    with pytest.raises(AssertionError):
        check(80, UNITS[0], seed=11)


def test_control_a_choice_that_looks_at_others_is_exceeded(monkeypatch):
    plain = "rangebound.release.sql.contribution_bound.Scan.truncated"
    monkeypatch.setattr(plain, lambda self, measures: self.indexed(measures))
    with pytest.raises(AssertionError):
        check(80, UNITS[1], seed=11)
