"""What is charged and stated, against the exact laws of what is drawn on neighbouring tables, for every kind.

A plan's profile, its mu, its conversions and its charge in accounts of every rule are compared with the law of what is
published on two tables, at several parts of its epsilon: at epsilon itself nothing shows. Coordinates are moved as far
as the sensitivity of a question allows, in as many groups; that no unit moves them farther is what `test_plan_pairs.py`
is about. The control is what version 0.2 stated: as many losses of epsilon / groups as a unit has groups, also for
workloads, whose blocks, margins and nodes several groups move at once.
"""

import datetime
import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest

from rangebound.ledger.rule import Cost, GaussianCost, GaussianFilter, RenyiFilter
from rangebound.privacy.gdp import delta_of_mu
from rangebound.release.budget_split import allocations
from rangebound.release.noise.workload_publisher import WorkloadPublisher
from rangebound.release.output.ledger_entry import charges
from rangebound.release.output.plan_facts import plan_risk
from rangebound.release.plan.kinds.kind import KINDS as KNOWN
from rangebound.release.plan.kinds.two_columns import ALPHA, BETA, GAMMA, MomentsKind
from rangebound.release.plan.toml import make_plan
from rangebound.release.prepare import prepared
from rangebound.values.numeric import root_down
from tests.release.pair_loss import PairLaw, as_stated_before, check_stated, group_law, strategy_of, workload_law
from tests.release.plans import WAIT

COST = {"column": "cost", "range": [5, 100]}
ROOMS = [f"{at:03d}" for at in range(130)]
WARDS = {f"ward {at}": ROOMS[40 * at : 40 * at + 40] for at in range(3)} | {"annexe": ROOMS[120:]}
DAYS = [datetime.date(2025, 1, 1) + datetime.timedelta(days=at) for at in range(130)]
KEYS = {"room": ROOMS, "day": DAYS, "sex": ["f", "m"], "floor": [1, 2, 3], "drug": ["p", "q", "r"]}
BY_ROOM = {"by": ["room"]}
QUESTIONS = {
    "count": {"kind": "count", **BY_ROOM},
    "clamped count": {"kind": "count", **BY_ROOM, "mechanism": "truncate Laplace", "support": [0, 400]},
    "optimal count": {"kind": "count", **BY_ROOM, "mechanism": "optimal", "support": [0, 6]},
    "unbiased count": {"kind": "count", **BY_ROOM, "unbiased": True},
    "count of units": {"kind": "count of units", **BY_ROOM},
    "distinct count": {"kind": "distinct count", "column": "drug", **BY_ROOM},
    "sum": {"kind": "sum", "column": "wait", "range": [-20, 100], **BY_ROOM},
    "mean": {"kind": "mean", **WAIT, **BY_ROOM},
    "share": {"kind": "share", "of": [{"column": "wait", "is": ">", "value": 50}], **BY_ROOM},
    "variance": {"kind": "variance", **WAIT, **BY_ROOM},
    "standard deviation": {"kind": "standard deviation", **WAIT, **BY_ROOM},
    "ratio": {"kind": "ratio", "numerator": WAIT, "denominator": COST, **BY_ROOM},
    "correlation": {"kind": "correlation", "x": WAIT, "y": COST, **BY_ROOM},
    "line": {"kind": "line", "x": WAIT, "y": COST, **BY_ROOM},
    "histogram": {"kind": "histogram", **WAIT, "bins": 3, **BY_ROOM},
    "quantiles": {"kind": "quantiles", **WAIT, "levels": [0.25, 0.75], "step": 25.0, **BY_ROOM},
    "median": {"kind": "median", **WAIT, "step": 25.0, "interval_share": 0.5, **BY_ROOM},
    "minimum": {"kind": "minimum", **WAIT, "step": 50.0, **BY_ROOM},
    "maximum": {"kind": "maximum", **WAIT, "step": 50.0, **BY_ROOM},
    "central range": {"kind": "central range", **WAIT, "step": 25.0, **BY_ROOM},
    "bounds": {"kind": "bounds", "column": "wait", **BY_ROOM},
    "top k": {"kind": "top k", "column": "drug", "k": 2, **BY_ROOM},
    "mode": {"kind": "mode", "column": "drug", **BY_ROOM},
    "crosstab": {"kind": "crosstab", "by": ["room", "sex"]},
    "crosstab of three": {"kind": "crosstab", "by": ["sex", "floor", "drug"]},
    "cells": {"kind": "crosstab", "by": ["room", "sex"], "margins": False},
    "hierarchy": {"kind": "hierarchy", **BY_ROOM, "levels": [{"name": "ward", "members": WARDS}]},
    "series": {"kind": "series", "by": ["day"]},
    "running series": {"kind": "series", "by": ["day"], "totals": ["running"]},
}
BUDGETS = {
    "epsilon": {"epsilon": 2.0},
    "epsilon and delta": {"epsilon": 1.0, "delta": 1e-5},
    "half of it": {"epsilon": 1.0, "delta": 1e-5},
}
"""Forms of a budget; of the last, half goes by weight to a count beside the question."""
BESIDE = {"name": "beside", "kind": "count"}


def unit_of(groups, *, replaced, rows=1):
    size = {"neighbours": "replace", "size": 1000} if replaced else {}
    return {"column": "person", "rows": rows, "groups": groups, **size}


def plan_of(name, unit, budget, **own):
    weighted = budget == "half of it"
    asked = [{"name": "asked", **QUESTIONS[name], **own, **({"weight": 1.0} if weighted else {})}]
    asked += [{**BESIDE, "weight": 1.0}] if weighted else []
    used = {column for each in asked for column in (*each.get("by", ()), each.get("column"))}
    keys = {column: listed for column, listed in KEYS.items() if column in used and column != "wait"}
    if QUESTIONS[name]["kind"] == "distinct count":
        keys.pop("drug", None)
    return make_plan({"unit": unit, "budget": BUDGETS[budget], "keys": keys, "query": asked})


def moved_law(plan, index, share, publisher):
    """The law of two tables between which one unit moves the numbers of a question as far as it can, group by group."""
    question = plan.query[index]
    unit = plan.unit_of(question)
    found = question.sensitivity(unit, plan.groups(question.counted_by))
    if not found.cell:
        return PairLaw()
    width, groups = len(question.coordinates({}, unit)), found.groups // (2 if found.twice else 1)
    base, far = [Fraction(3)] * width, found.cell
    here, there = list(base), list(base)
    here[0] += far
    if found.supremum:
        here = [each + far * (at % 2) for at, each in enumerate(base)]
        there = [each + far * (1 - at % 2) * found.twice for at, each in enumerate(base)]
    elif isinstance(question, MomentsKind):  # a row with both values at the upper ends; with one at the upper end
        rows = unit.most_rows
        here = [each + rows * part for each, part in zip(base, (ALPHA, BETA, 0, GAMMA, 0, 0), strict=True)]
        there = [each + rows * part for each, part in zip(base, (ALPHA, 0, BETA, 0, GAMMA, 0), strict=True)]
        there = there if unit.replaced else base
    elif found.twice and width > 1:
        there[-1] += far
    elif found.twice:  # two steps in one group, as far as the Euclidean length allows
        there[0] -= min(far, Fraction(root_down(found.square / groups)) - far)
    if share.mu:  # in a few of its groups a replaced unit must have been before
        groups = min(groups, int(found.square / sum((a - b) ** 2 for a, b in zip(here, there, strict=True))))
    law = group_law(publisher, share, tuple(here), tuple(there))
    return PairLaw(pairs=law.pairs * groups, square=law.square * groups)


def patterns(chance, cells, groups, *, replaced):
    """Which cells a unit has, and which it gets instead: next to each other, spread out, and by chance."""
    held = min(groups, cells)
    first, spread = list(range(held)), np.linspace(0, cells - 1, held).astype(int).tolist()
    middle = list(range((cells - held) // 2, (cells - held) // 2 + held))
    ways = [first, middle, spread, *(chance.sample(range(cells), held) for _ in range(2))]
    last = list(range(cells - held, cells))
    for own in ways:
        moved = np.zeros(cells)
        moved[own] = 1.0
        if replaced:
            moved[last if own is not spread else middle] -= 1.0
        yield moved


def laws_of(plan, way, seed=0):
    """The plan with one way to split its budget, and the laws of some pairs of neighbouring tables."""
    ready, chance = prepared(plan, way), random.Random(seed)
    found = [PairLaw()]
    for index, publisher in enumerate(ready.publishers):
        question, share = plan.query[index], way.questions[index]
        if isinstance(publisher, WorkloadPublisher):
            cells = int(plan.groups(question.by))
            strategy, unit = strategy_of(publisher, cells), plan.unit_of(question)
            moves = patterns(chance, cells, unit.groups, replaced=unit.replaced)
            own = [workload_law(strategy, unit.most_rows * each) for each in moves]
        else:
            own = [moved_law(plan, index, share, publisher)]
        found = [one + two for one in found for two in own]
    return ready, found


def check(plan, *, control=False):
    """That no way to split the budget of a plan states or charges too little; how near it comes, and is caught."""
    nearest = 0.0
    for way in allocations(plan):
        ready, laws = laws_of(plan, way)
        nearest = max(nearest, check_stated(ready, laws, loss=as_stated_before(ready) if control else None))
    return nearest


def test_every_kind_is_there():
    asked = {name for name, kind in KNOWN.items() if not kind.made}
    assert {each["kind"] for each in QUESTIONS.values()} == asked, "add a question of the kind to QUESTIONS"


def rotated(settings, each, every=1):
    """Every question with every setting: by default one of them, of `each` question another; the others are slow.

    By default only `every` second or third question, and so on.
    """
    return [
        pytest.param(name, *setting, marks=[pytest.mark.slow] * (number != each * at % len(settings) or at % every > 0))
        for at, name in enumerate(QUESTIONS)
        for number, setting in enumerate(settings)
    ]


SETTINGS = list(itertools.product([1, 8, 30, 100], [False, True], BUDGETS))


@pytest.mark.few(14)
@pytest.mark.claim("privacy", "charge")
@pytest.mark.parametrize(("name", "groups", "replaced", "budget"), rotated(SETTINGS, 7))
def test_nothing_is_stated_or_charged_below_the_law_of_two_tables(name, groups, replaced, budget):
    check(plan_of(name, unit_of(groups, replaced=replaced), budget))


UNITS = {
    "rows": ({}, {}),
    "replaced rows": ({"neighbours": "replace", "size": 1000}, {}),
    "several rows": (unit_of(30, replaced=False, rows=3), {}),
    "bounds of its own": (unit_of(2, replaced=False), {"rows": 2, "groups": 30}),
    "replaced, bounds of its own": (unit_of(100, replaced=True), {"groups": 8}),
}
OWNED = ("count of units",)


@pytest.mark.few(7)
@pytest.mark.claim("privacy", "charge")
@pytest.mark.parametrize(("name", "unit", "budget"), rotated(list(itertools.product(UNITS, BUDGETS)), 4, every=2))
def test_nor_with_other_units(name, unit, budget):
    whose, own = UNITS[unit]
    if name in OWNED and "column" not in whose:
        pytest.skip("there are no owners to count")
    bounds = own if not KNOWN[QUESTIONS[name]["kind"]].no_rows else {at: own[at] for at in own if at != "rows"}
    check(plan_of(name, whose, budget, **bounds))


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["crosstab", "hierarchy", "series", "running series"])
def test_control_a_workload_that_is_stated_as_numbers_of_its_groups_is_caught(name):
    plan = plan_of(name, unit_of(60, replaced=False), "epsilon")
    with pytest.raises(AssertionError, match=r"profile|mu|divergence"):
        check(plan, control=True)


def series(days, groups, epsilon):
    keys = {"day": [datetime.date(2025, 1, 1) + datetime.timedelta(days=at) for at in range(days)]}
    asked = [{"name": "visits", "kind": "series", "by": ["day"]}]
    return make_plan(
        {"unit": unit_of(groups, replaced=False), "budget": {"epsilon": epsilon}, "keys": keys, "query": asked}
    )


FOUND = {
    "60 of 120 days": ((120, 60, 2.0), {"advantage": 0.2042, "before": 0.1023, "mu before": 0.3236}),
    "120 of 120 days": ((120, 120, 1.0), {"before": 0.0364, "mu before": 0.1144}),
    "30 of 365 days": ((365, 30, 1.0), {"advantage": 0.1922, "before": 0.0721, "mu before": 0.2288, "mu": 0.487}),
}
"""Days, groups and epsilon of series of which version 0.2 stated too little; what two tables show, what it stated."""


@pytest.mark.claim("privacy", "charge")
@pytest.mark.parametrize("name", [pytest.param(each, marks=[pytest.mark.slow] * ("365" in each)) for each in FOUND])
def test_the_series_of_which_too_little_was_stated(name):
    asked, known = FOUND[name]
    plan = series(*asked)
    (way,) = allocations(plan)
    ready, laws = laws_of(plan, way)
    exact = max(float(law.deltas((0.0,))[0]) for law in laws)
    assert exact == pytest.approx(known.get("advantage", exact), abs=3e-4)
    assert exact <= plan_risk(plan).advantage() < 1.4 * exact
    before = as_stated_before(ready)
    assert before.delta_at(0.0) == pytest.approx(known["before"], abs=1e-4)
    assert math.sqrt(sum(each.square for each in way.questions.values())) == pytest.approx(known["mu before"], abs=1e-4)
    needed = max(needed_mu(law, plan.budget.epsilon) for law in laws)
    assert needed == pytest.approx(known.get("mu", needed), abs=1e-3)
    assert known["mu before"] < 0.7 * needed
    assert needed <= plan_risk(plan).gdp() < 1.5 * needed


def needed_mu(law, epsilon):
    """The smallest mu whose profile is nowhere below that of a law, by halving."""
    points = np.linspace(0.0, 0.95, 39) * epsilon
    deltas = law.deltas(tuple(points.tolist())).tolist()
    low, high = 0.0, 10.0
    while high - low > 1e-5:
        middle = (low + high) / 2
        enough = all(delta_of_mu(middle, epsilon=e) >= d for e, d in zip(points.tolist(), deltas, strict=True))
        low, high = (low, middle) if enough else (middle, high)
    return high


@pytest.mark.parametrize("rule", [GaussianFilter(), RenyiFilter(order=32)], ids=["gaussian", "renyi"])
def test_an_account_admits_no_more_of_them_than_it_promises(rule):
    """Of (1, 1e-6) the exact delta of all that are admitted; by the charges of version 0.2 it is far more."""
    plan = series(120, 120, 0.25)
    ready, (law, *_) = laws_of(plan, allocations(plan)[0])  # all have the same cells
    one, millionth = Cost(epsilon=1).epsilon, Cost(epsilon="1e-6").epsilon
    total = rule.total(one, millionth).units[0]

    def delta(cost):
        number = total // rule.units(cost)[0]
        return float(PairLaw(pairs=law.pairs * number).deltas((1.0,))[0])

    assert 0.0 < delta(charges(ready)[0]) <= 1e-6
    before = GaussianCost(mu=Fraction(math.sqrt(sum(each.square for each in ready.allocation.questions.values()))))
    assert delta(before) > 5e-5  # control
