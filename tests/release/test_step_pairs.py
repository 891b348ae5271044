"""Neighbouring tables through joins and steps that make one row per unit: no unit moves more, or costs more, than said.

A unit has rows in the plan's table and in a second private one; both tables of a pair differ in the rows of one unit.
The coordinates of every question, as the engine computes them, must be within its L1 and L2 sensitivities, and what is
drawn from them, by itself or in a workload, must lose no more than its share.
"""

import datetime
import random
from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pytest

from rangebound.release.budget_split import allocations
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.plan.groupings import hidden_blocks
from rangebound.release.plan.toml import make_plan
from rangebound.release.prepare import prepare, prepared
from rangebound.release.sql import unit_rows
from rangebound.release.sql import view as joined
from rangebound.release.sql.aggregate import _gather, aggregate, statements
from rangebound.release.sql.view import view
from tests.release.pair_loss import (
    CLOSE,
    PairLaw,
    check_stated,
    laws_of_groups,
    question_laws,
    question_losses,
    strategy_of,
)
from tests.release.plans import SALT
from tests.release.test_plan_pairs import check_distances, note

DAYS = [datetime.date(2025, 1, 1) + datetime.timedelta(days=at) for at in range(3)]
CLINICS, DRUGS = ["a", "b", "c"], ["p", "q"]
VISITS = {"person": pa.string(), "clinic": pa.string(), "day": pa.date32(), "wait": pa.float64(), "ill": pa.bool_()}
TAKEN = {"who": pa.string(), "drug": pa.string(), "day": pa.date32(), "dose": pa.float64()}
REGIONS = pa.table({"code": ["a", "b"], "name": ["north", "south"], "price": [1.0, -3.0]})

PUBLIC = {"table": "regions", "public": True, "on": {"clinic": "code"}, "columns": ["name", "price"]}
PRIVATE = {
    "table": "taken",
    "public": False,
    "on": {"person": "who"},
    "columns": ["drug", "dose"],
    "rows": 2,
    "own_rows": 2,
}
DATED = {**PRIVATE, "on": {"person": "who", "day": "day"}}
ABOUT_PRICES = [
    {"kind": "count", "by": ["name"]},
    {"kind": "sum", "column": "price", "range": [-3, 1], "by": []},
    {"kind": "mean", "column": "wait", "range": [0, 10], "by": ["name"]},
    {"kind": "histogram", "column": "price", "range": [-4, 4], "bins": 4, "by": []},
]
ABOUT_DRUGS = [
    {"kind": "count", "by": ["drug"]},
    {"kind": "count of units", "by": ["drug"]},
    {"kind": "sum", "column": "dose", "range": [0, 5], "by": ["drug"]},
    {"kind": "variance", "column": "dose", "range": [0, 5], "by": []},
    {"kind": "median", "column": "dose", "range": [0, 5], "step": 1.0, "by": []},
    {"kind": "share", "of": [{"column": "dose", "is": ">", "value": 2}], "by": ["clinic"]},
]
PER_UNIT = {
    "visits": "COUNT(*)",
    "waited": {"value": "sum(wait)", "range": [0, 20]},
    "ill_once": "BOOL_OR(ill)",
    "always": "BOOL_AND(ill = true)",
    "first_clinic": "ARG_MIN(clinic, day)",
    "last_clinic": "ARG_MAX(clinic, day)",
    "longest": "max(wait)",
    "places": "COUNT(DISTINCT clinic)",
}
ABOUT_UNITS = [
    {"kind": "count", "by": ["first_clinic"]},
    {"kind": "count", "by": ["first_clinic", "last_clinic"]},
    {"kind": "count", "by": ["ill_once"]},
    {"kind": "sum", "column": "waited", "range": [0, 20], "by": ["last_clinic"]},
    {"kind": "mean", "column": "longest", "range": [0, 10], "by": []},
    {"kind": "histogram", "column": "places", "range": [0, 4], "bins": 4, "by": []},
    {"kind": "quantiles", "column": "visits", "range": [0, 10], "levels": [0.5], "step": 1.0, "by": []},
]
MARGINALS = [{"kind": "count", "by": by} for by in ([], ["first_clinic"], ["last_clinic"], ["ill_once"], ["always"])]
MARGINALS += [{"kind": "count", "by": by} for by in (["first_clinic", "last_clinic"], ["ill_once", "last_clinic"])]
KEYS = {"name": ["north", "south"], "drug": DRUGS, "clinic": CLINICS, "first_clinic": CLINICS, "last_clinic": CLINICS}
KEYS |= {"ill_once": [True, False], "always": [True, False]}
CROSSED = {"public": ["name", "clinic"], "private": ["drug", "clinic"], "one": ["first_clinic", "last_clinic"]}
OWNERS = {"column": "person", "rows": 3, "groups": 2}
SIZE = 5
FAR = "cell|groups|L1|L2|share"

PLANS = {
    "public, left": ({**OWNERS}, [PUBLIC], ABOUT_PRICES, None),
    "public, inner, rows": ({}, [{**PUBLIC, "how": "inner"}], ABOUT_PRICES, None),
    "private": ({"column": "person", "groups": 1}, [PRIVATE], ABOUT_DRUGS, None),
    "private by date, inner": ({**OWNERS, "rows": 1}, [{**DATED, "how": "inner"}], ABOUT_DRUGS, None),
    "private and public": ({**OWNERS}, [PRIVATE, PUBLIC], [*ABOUT_DRUGS, *ABOUT_PRICES], None),
    "one row per unit": ({"column": "person"}, [], ABOUT_UNITS, PER_UNIT),
    "one row per unit after a join": (
        {"column": "person"},
        [{**DATED, "own_rows": 9}],
        [*ABOUT_UNITS, {"kind": "sum", "column": "doses", "range": [0, 9], "by": []}],
        {**PER_UNIT, "doses": {"value": "sum(clip(dose, 0, 4))", "range": [0, 9]}},
    ),
}


def plan_of(name, *, replaced):
    unit, joins, asked, per_unit = PLANS[name]
    unit = {**unit, **({"neighbours": "replace", "size": SIZE} if replaced else {})}
    return made_plan(unit, joins, asked, per_unit, {"epsilon": 1.0, "delta": 1e-4})


def random_plans(name, budgets, chance, *, replaced):
    """Some questions of a plan of `PLANS` with other contribution bounds, and with this many budgets and weights."""
    unit, joins, asked, per_unit = PLANS[name]
    unit = {**unit, **({"neighbours": "replace", "size": SIZE} if replaced else {})}
    if not per_unit and "column" in unit:
        unit |= {"rows": chance.randint(1, 4), "groups": chance.randint(1, 6)}
    asked = [*asked, {"kind": "crosstab", "by": CROSSED[name.split(" ")[0].strip(",")]}]
    asked = chance.sample(asked, chance.randint(1, len(asked)))
    for _ in range(budgets):
        weighted = chance.random() < 0.3
        shares = [{**each, **({"weight": chance.choice([0.3, 3.0])} if weighted else {})} for each in asked]
        budget = {"epsilon": chance.choice([0.3, 1.0, 4.0]), "delta": chance.choice([0.0, 1e-6, 1e-3])}
        yield made_plan(unit, joins, shares, per_unit, budget)


def made_plan(unit, joins, asked, per_unit, budget):
    used = {column for each in asked for column in each["by"]}
    made = {"columns": {"wait": {"range": [0, 10]}}, "per_unit": per_unit} if per_unit else {}
    return make_plan(
        {
            "unit": unit,
            "budget": budget,
            **({"join": joins} if joins else {}),
            **made,
            "keys": {column: keys for column, keys in KEYS.items() if column in used},
            "query": [{**each, "name": f"{at} {each['kind']}"} for at, each in enumerate(asked)],
        }
    )


def rows_of(chance, person, most):
    """Rows of one person in both tables: ordinary ones, or many that are alike and extreme."""
    extreme = chance.random() < 0.4
    clinic, wait, dose = chance.choice(CLINICS), chance.choice([-9.0, 99.0]), chance.choice([-9.0, 99.0])

    def visit():
        if extreme:
            return person, clinic, DAYS[0], wait, True
        return (
            person,
            chance.choice([*CLINICS, "?", None]),
            chance.choice([*DAYS, None]),
            chance.choice([None, float("nan"), float("inf"), chance.uniform(-1, 11)]),
            chance.choice([True, False, None]),
        )

    def drug():
        if extreme:
            return person, "p", DAYS[0], dose
        return person, chance.choice([*DRUGS, None]), chance.choice([*DAYS, None]), chance.uniform(-1, 6)

    counts = [most if extreme else chance.choice([0, 1, 2, 5]) for _ in range(2)]
    return [visit() for _ in range(min(counts[0], most))], [drug() for _ in range(counts[1])]


def pair_of(chance, *, owned, replaced):
    """Two pairs of tables that differ in the rows of one person, or in one row where rows are the units."""
    most = 8 if owned else 1
    rest = [rows_of(chance, f"{at}", most) for at in range(1, SIZE)]
    rest += [rows_of(chance, None, 2)] if owned and chance.random() < 0.3 else []
    if not owned:  # exactly one row of each, and the second table is not used
        rest = [(rows or [(None, "a", DAYS[0], 1.0, True)], []) for rows, _ in rest]

    def one():
        rows, more = rows_of(chance, "0", most)
        return (rows or [(None, "b", DAYS[0], 99.0, False)], []) if not owned else (rows, more)

    sides = [[one(), *rest], [*([one()] if replaced else []), *rest]]
    chance.shuffle(sides)
    return sides


def table(kinds, rows):
    return pa.table({name: pa.array([row[at] for row in rows], kind) for at, (name, kind) in enumerate(kinds.items())})


class Reader:
    """One engine for many pairs: the statements of a plan are written once, and the tables below them change."""

    def __init__(self, plan, hidden, public):
        self.plan, self.hidden = plan, hidden
        self.engine = DuckDB(table(VISITS, []), threads=1)
        self.engine.give({"taken": table(TAKEN, []), "regions": public})
        seen = view(plan, self.engine)
        given = {"source": seen.source(SALT), "dialect": self.engine.dialect, "also": hidden}
        found = statements(plan, seen.schema, SALT, **given)
        self.statements = [(each, self.engine.written(each.tree)) for each in found]

    def found(self, side):
        """The coordinates of every question by key, and those of the hidden groupings of workloads."""
        connection = self.engine._connection
        connection.register(self.engine._table._raw, table(VISITS, [row for rows, _ in side for row in rows]))
        for place, other in self.engine._joined.items():
            if not place.public:
                connection.register(other._raw, table(TAKEN, [row for _, rows in side for row in rows]))
        results = [(each, self.engine.run(text)) for each, text in self.statements]
        own, hidden = {}, {}
        for block in dict.fromkeys(each.block for each, _ in self.statements):
            found = _gather(self.plan, block, results)
            for index in block.questions:
                numbers = [found.answers[index][key] for key in found.keys]
                if block in self.hidden:
                    hidden[block] = numbers
                else:
                    own[index] = numbers
        return own, hidden


def check(name, pairs, *, replaced=False, public=REGIONS):
    """That no pair is farther apart, or loses more, than a plan says; how near they come, and the plan prepared."""
    plan, most = plan_of(name, replaced=replaced), {}
    ready = prepared(plan, allocations(plan)[-1])
    check_all([ready], pairs, random.Random(f"{name} {replaced}"), most, public=public)
    return most, ready


def check_all(made, pairs, chance, most, *, public=REGIONS):
    """The same of plans with the same questions about the same units, which ask the engine for the same numbers."""
    plan, found = made[0].plan, []
    reader = Reader(plan, tuple(dict.fromkeys(each for ready in made for each in ready.hidden)), public)
    for _ in range(pairs):
        sides = pair_of(chance, owned=plan.unit.column is not None, replaced=plan.unit.replaced)
        one, two = map(reader.found, sides)
        for index in range(len(plan.query)):
            check_distances(plan, index, [one[0][index]], [two[0][index]], most)
        found.append((one, two))
    for ready in made:
        laws, strategies = [], {}
        shares = ready.allocation.questions
        known = [laws_of_groups(publisher, shares[at]) for at, publisher in enumerate(ready.publishers)]
        for one, two in found:
            law = PairLaw()
            for index in range(len(plan.query)):
                law += check_question(ready, index, one[0][index], two[0][index], known[index])
            for workload in ready.workloads:
                law += check_workload(ready, workload, one, two, strategies, most)
            laws.append(law)
        check_stated(ready, laws)


def check_question(ready, index, before, after, law):
    """That one question is within its share; what the pair sees of it."""
    if ready.allocation.workload(index) is None and before != after:
        share = ready.allocation.questions[index]
        (loss,) = question_losses(ready.publishers[index], share, [before], [after], law)
        spent, limit = loss.epsilon, share.epsilon * share.groups * share.parts
        if ready.allocation.mu:
            spent, limit = loss.square, float(share.square)
        assert spent <= limit * (1 + CLOSE), (ready.plan.query[index].name, "share")
        return question_laws(ready.publishers[index], share, [before], [after], law)[0]
    return PairLaw()


def check_workload(ready, workload, before, after, strategies, most):
    counts = [before[0][at] for at in workload.questions], [after[0][at] for at in workload.questions]
    hidden = [[side[1][block] for block in hidden_blocks(ready.plan, workload)] for side in (before, after)]
    counts = [*counts[0], *hidden[0]], [*counts[1], *hidden[1]]
    moved = [[int(x[0] - y[0]) for x, y in zip(one, two, strict=True)] for one, two in zip(*counts, strict=True)]
    first = workload.questions[0]
    if first not in strategies:
        strategies[first] = strategy_of(ready.publishers[first], *map(len, moved))
    (loss,) = strategies[first].losses(np.array([[x for each in moved for x in each]], dtype=float)).tolist()
    limit = float(ready.allocation.questions[first].square)
    assert loss <= limit * (1 + CLOSE), "workload"
    note(most, "workload", loss / limit)
    return PairLaw(square=loss)


@pytest.mark.few(2)
@pytest.mark.claim("sensitivity")
@pytest.mark.parametrize("replaced", [False, True], ids=["add or remove", "replace"])
@pytest.mark.parametrize("name", PLANS)
def test_no_unit_moves_more_or_costs_more_than_the_plan_says(name, replaced):
    most, _ = check(name, 6, replaced=replaced)
    assert max(most.values()) > 0.3  # the pairs come near


@pytest.mark.long
@pytest.mark.parametrize("replaced", [False, True], ids=["add or remove", "replace"])
@pytest.mark.parametrize("name", PLANS)
def test_nor_does_one_of_ten_thousand(name, replaced):
    check(name, 10_000 // (2 * len(PLANS)) + 1, replaced=replaced)


@pytest.mark.long
def test_nor_does_one_of_many_random_plans(pytestconfig):
    """The worst of ten pairs, by every way to split the budget, of a tenth as many plans as `--plans` says."""
    for seed in range(-(-pytestconfig.getoption("--plans") // (10 * BUDGETS))):
        check_random(seed)


BUDGETS = 5
"""With which the questions of a random plan are asked."""


def check_random(seed):
    chance = random.Random(seed)
    plans = [*random_plans([*PLANS][seed % len(PLANS)], BUDGETS, chance, replaced=seed // len(PLANS) % 2 == 1)]
    check_all([prepared(plan, way) for plan in plans for way in allocations(plan)], 10, chance, {})
    return plans


@pytest.mark.slow
def test_counts_of_units_form_a_workload_by_themselves(monkeypatch):
    monkeypatch.setitem(PLANS, "marginals", ({"column": "person"}, [], MARGINALS, PER_UNIT))
    most, ready = check("marginals", 6)
    assert ready.workloads
    assert prepare(plan_of("marginals", replaced=False)).workloads
    assert 0.9 < most["workload"] <= 1 + CLOSE


def test_control_a_public_table_with_a_key_twice_is_caught(monkeypatch):
    twice = pa.table({"code": ["a", "a", "b", "b"], "name": ["north"] * 4, "price": [1.0, -3.0, 1.0, 1.0]})
    monkeypatch.setattr(joined, "_copied", lambda engine, rows, width, field: engine.copied(rows, lambda _: None))
    with pytest.raises(AssertionError, match=FAR):
        check("public, inner, rows", 40, public=twice)


@pytest.mark.claim("sensitivity")
def test_control_a_private_table_that_is_joined_without_the_unit_is_caught(monkeypatch):
    monkeypatch.setattr("rangebound.release.plan.model.join_misfit", lambda joins, unit: "")
    unit, _, asked, _ = PLANS["private by date, inner"]
    monkeypatch.setitem(PLANS, "by date", (unit, [{**DATED, "on": {"day": "day"}}], asked, None))
    with pytest.raises(AssertionError, match=FAR):
        check("by date", 40)


@pytest.mark.slow
def test_control_one_row_of_more_than_a_unit_is_caught(monkeypatch):
    monkeypatch.setattr(unit_rows._UnitCompiler, "owner", lambda self: unit_rows.as_key("clinic", self.schema))
    with pytest.raises(AssertionError, match=FAR):
        check("one row per unit", 40)


@pytest.mark.slow
def test_control_owners_that_are_compared_as_numbers_are_caught():
    """One person of the second table would be a part of two people of the first."""
    plan = plan_of("private", replaced=False)
    visits = [(name, "a", DAYS[0], 1.0, True) for name in ("1", "1.0", "01")]
    moved = []
    for kind in (str, int):
        sides = []
        for taken in ([(1, "p", DAYS[0], 1.0)], []):
            with ExitStack() as stack:
                engine = stack.enter_context(DuckDB(table(VISITS, visits)))
                engine.give({"taken": table({**TAKEN, "who": pa.int64()}, taken)})
                patch = stack.enter_context(pytest.MonkeyPatch.context())
                if kind is int:
                    patch.setattr(joined, "_keys", lambda *_: [int])
                (block, *_) = aggregate(plan, engine, SALT)
                sides.append(block.answers[0][("p",)][0])
        moved.append(abs(sides[0] - sides[1]))
    assert moved == [1, 2]  # of three owners that are taken for one, two rows are joined
