"""Intervals of 95 % hold in at least 95 % of simulated tables: every kind, both accounts, empty and tiny cells too.

Workloads are projected when they are published, which can only widen an interval; here their numbers are rounded only.
A case fails if fewer intervals hold than a coin of 95 % allows with probability 1e-11 (there are some hundred cases).
"""

import math
from fractions import Fraction
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from rangebound.release import check_certificate, release
from rangebound.release.noise import workload_publisher
from rangebound.release.noise.allocation import BudgetShare
from rangebound.release.noise.forms import form_of
from rangebound.release.plan.groupings import blocks
from rangebound.release.plan.toml import make_plan
from rangebound.release.prepare import answers, prepare
from rangebound.release.sql.aggregate import Aggregate
from rangebound.sampling.entropy import secure_bits
from tests.release.noise.test_workload_publisher import ACCOUNTS, KEYS, WORKLOADS, finest, plan_of
from tests.release.output.asked import report
from tests.release.output.test_reliability import CELL, UNIT

LEVEL, RARE = 0.95, 1e-11
X = {"column": "x", "range": [0, 1]}
SHARES = {
    "pure": BudgetShare(epsilon=0.2, delta=0.0, groups=1, parts=1),
    "with delta": BudgetShare(epsilon=0.2, delta=1e-3, groups=1, parts=1),
    "gaussian": BudgetShare(epsilon=0.0, delta=0.0, groups=1, parts=1, mu=0.2),
}
COUNTS = {
    "count": {"kind": "count"},
    "unbiased count": {"kind": "count", "unbiased": True},
    "signed count": {"kind": "count", "signed": True},
    "distinct count": {"kind": "distinct count", "column": "x"},
    "count in fives": {"kind": "count", "step": 5},
    "count up to 40": {"kind": "count", "support": [0, 40]},
    "count with gaps": {"kind": "count", "support": [[0, 4], [9, 11], [20, 400]]},
    "sum": {"kind": "sum", **X},
    "signed sum": {"kind": "sum", "column": "x", "range": [-1, 1], "signed": True},
    "sum in quarters": {"kind": "sum", **X, "step": 0.25},
    "truncated sum": {"kind": "sum", **X, "support": [0, 40], "mechanism": "truncate Laplace"},
    "histogram": {"kind": "histogram", **X, "bins": 1 + 1},
}
RATIOS = {
    "mean": {"kind": "mean", **X},
    "share": {"kind": "share", "of": [{"column": "x", "is": ">", "value": 0.5}]},
    "variance": {"kind": "variance", **X},
    "standard deviation": {"kind": "standard deviation", **X},
}
TRUTHS = (0, 1, 3, 40, 4000)


def question_of(data):
    return make_plan({"budget": {"epsilon": 1.0, "delta": 1e-3}, "query": [{"name": "n", **data}]}).query[0]


def publisher_of(question, account):
    return form_of(question, UNIT).publisher(CELL, SHARES[account], level=LEVEL, columns=())


def held(question, publisher, coordinates, truth, runs, narrow=1.0):
    readings = publisher.read(publisher.draw([coordinates] * runs, secure_bits))
    found = [form_of(question, UNIT).estimate(each[0]) for each in readings]
    lower, upper = (np.array([getattr(each, name) for each in found]) for name in ("lower", "upper"))
    middle, half = (lower + upper) / 2, narrow * (upper - lower) / 2
    return int((np.abs(truth - middle) <= half + 1e-9 * max(1.0, abs(truth))).sum())


def least(runs, level=LEVEL):
    return stats.binom.ppf(RARE, runs, level)


def scalar_cases(name, account):
    """The question, its publisher, coordinates, and the true answer that they make, in the hull of the support."""
    question = question_of({**COUNTS, **RATIOS}[name])
    publisher = publisher_of(question, account)
    hull = question.allowed.hull
    if name in COUNTS:
        for truth in TRUTHS:
            inside = min(max(float(truth), hull.lower), hull.upper)
            yield question, publisher, (Fraction(truth),) * len(question.parts), inside
        return
    for rows in (1, 2, 30, 4000):
        for part in (Fraction(0), Fraction(1, 2), Fraction(1)):
            ones = math.floor(rows * part)
            share = Fraction(ones, rows)
            if name in ("mean", "share"):
                yield question, publisher, (Fraction(rows - ones), Fraction(ones)), float(share)
            else:  # values of 0 and 1 alone: 1 - 2 t + t^2, 2 t - 2 t^2 and t^2
                spread = float(share * (1 - share)) ** (1.0 if name == "variance" else 0.5)
                yield question, publisher, (Fraction(rows - ones), Fraction(0), Fraction(ones)), spread


SCALARS = [
    (name, account)
    for name in (*COUNTS, *RATIOS)
    for account in SHARES
    if not (name == "truncated sum" and account != "pure") and not (name in RATIOS and account == "with delta")
]


SLOW = [case for case in SCALARS if case[1] == "with delta" or case[0] in ("count with gaps", *list(RATIOS)[2:])]


@pytest.mark.claim("interval")
@pytest.mark.parametrize("runs", [300, pytest.param(10_000, marks=pytest.mark.long)])
def test_intervals_of_numbers_hold(runs):
    asked = [case for case in SCALARS if runs > 300 or case not in SLOW]
    found = {case: min(held(*each, runs) for each in scalar_cases(*case)) for case in asked}
    assert [case for case, count in found.items() if count < least(runs)] == []


@pytest.mark.claim("interval")
def test_control_intervals_of_numbers_that_are_cut_do_not():
    runs = 2000
    for case in (("count", "pure"), ("signed count", "gaussian"), ("sum", "pure"), ("histogram", "gaussian")):
        assert any(held(*each, runs, 0.65) < least(runs) for each in scalar_cases(*case)), case


HARDLY_VARYING = {  # values from 0 to 1 in equal parts
    "constant": (0.373, 0.373),
    "at the lower end": (0.0, 0.0),
    "at the upper end": (1.0, 1.0),
    "two values": (0.373, 0.3735),
}
SPREADS = [RATIOS["variance"], RATIOS["standard deviation"], {**RATIOS["standard deviation"], "step": 0.1}]


@pytest.mark.few
@pytest.mark.claim("interval")
@pytest.mark.parametrize("column", HARDLY_VARYING)
@pytest.mark.parametrize("account", ["pure", "gaussian"])
def test_intervals_of_the_spread_of_a_column_that_hardly_varies_hold(account, column):
    runs, values, rows = 60, [Fraction(str(each)) for each in HARDLY_VARYING[column]], 2000
    added = zip(*(((1 - x) ** 2, 2 * x * (1 - x), x**2) for x in values), strict=True)
    coordinates = tuple(sum(each) * rows / 2 for each in added)
    variance = float(((values[0] - values[1]) / 2) ** 2)
    for data in SPREADS:
        question = question_of(data)
        truth = variance if data["kind"] == "variance" else math.sqrt(variance)
        assert truth < question.allowed.hull.lower  # what is published is positive, and larger than that
        publisher = publisher_of(question, account)
        assert held(question, publisher, coordinates, truth, runs) >= least(runs)
        fields = {**question.given, "support": [question.natural.lower * 1.5, question.natural.upper]}
        stated = type(question).model_validate(fields)
        assert held(stated, publisher, coordinates, truth, runs) == 0  # moved into the support, as its scope says


def columns_to_ask_about(rows):
    """Columns x and y, from 0 to 100, at the edges of what a table can be."""
    half = np.arange(rows) % 2 == 0
    yield np.full(rows, 37.3), np.where(half, 0.0, 100.0)
    yield np.where(half, 50.0, 50.01), np.where(half, 0.0, 100.0)  # a slope beyond all that are published
    yield np.where(half, 0.0, 100.0), np.where(half, 20.0, 20.01)
    yield np.zeros(rows), np.full(rows, 100.0)
    yield np.where(np.arange(rows) == 0, 100.0, 0.0), np.where(np.arange(rows) == 1, 0.0, 100.0)


def true_answers(x, y):
    """By the kind of a question, and by its part where it has several."""
    slope = np.cov(x, y, bias=True)[0, 1] / x.var() if x.var() > 1e-12 else 0.0
    near = {"mean": x.mean(), "sum": x.sum(), "share": (x > 50).mean(), "variance": x.var()}
    if x.var() > 1e-12 < y.var():
        near["correlation"] = np.corrcoef(x, y)[0, 1]
    if y.sum() > 0:
        near["ratio"] = x.sum() / y.sum()
    return {
        **near,
        "standard deviation": x.std(),
        "count": len(x),
        "median": np.median(x),
        "minimum": x.min(),
        "maximum": x.max(),
        "slope": slope,
        "intercept": y.mean() - slope * x.mean(),
    }


@pytest.mark.claim("interval")
@pytest.mark.few(2)
@pytest.mark.parametrize("at", range(5))
def test_no_interval_is_cut_to_what_is_published_where_the_answer_can_be_beyond(at):
    rows = 1_000_000 if at == 1 else 2000
    x, y = list(columns_to_ask_about(rows))[at]
    first, second = ({"column": name, "range": [0, 100]} for name in "xy")
    asked = [
        *({"kind": kind, **first} for kind in ("mean", "sum", "variance", "standard deviation")),
        *({"kind": kind, **first, "step": 10.0} for kind in ("median", "minimum", "maximum")),
        {"kind": "count"},
        {"kind": "share", "of": [{"column": "x", "is": ">", "value": 50}]},
        {"kind": "ratio", "numerator": first, "denominator": second, "support": [0, 1e9]},
        {"kind": "correlation", "x": first, "y": second},
        {"kind": "line", "x": first, "y": second},
    ]
    queries = [{"name": each["kind"], **each} for each in asked]
    plan = make_plan({"budget": {"epsilon": 100.0}, "joint": True, "level": 1 - 1e-9, "query": queries})
    found, truths = release(plan, pa.table({"x": x, "y": y}), ledger=None), true_answers(x, y)
    for row in found.rows():
        truth = truths.get(row["part"] if row["kind"] == "line" else row["kind"])
        if truth is not None:
            slack = 1e-6 * max(1.0, abs(truth))
            assert row["lower"] - slack <= truth <= row["upper"] + slack, (row["kind"], row["part"], truth)
    assert check_certificate(found.certificate, found.to_bytes()).numbers == len(found.cells)
    assert "<svg" in report(found)


def rounded(numbers, sums):
    """In place of the projection: the nearest whole numbers that are not negative."""
    return SimpleNamespace(numbers=np.maximum(np.rint(numbers), 0.0))


def without_projection():
    return mock.patch.object(workload_publisher, "project", rounded)


def cells_of(keys, seed):
    """Exact counts of the finest cells: empty and tiny ones, a few large ones; all of them empty for seed 0."""
    chance = np.random.default_rng(seed)
    return {key: int(chance.choice([0, 0, 0, 1, 2, 30, 5000]) if seed else 0) for key in keys}


def workload_coverage(name, account, runs, narrow=1.0):
    """For each number of a workload, how many intervals held, over tables that are empty and tables that are not."""
    plan = plan_of(name, ACCOUNTS[account])
    ready = prepare(plan)
    assert bool(ready.allocation.mu) == (account == "gaussian")
    (publisher,), (block,), question = ready.publishers, blocks(plan), plan.query[0]
    labels, found = question.labels(block.keys)[0], []
    for seed in (0, 1):
        own = cells_of(block.keys, seed)
        truths = np.array([sum(own[key] for key in finest(WORKLOADS[name], *label, block.keys)) for label in labels])
        exact, hits = [(Fraction(own[key]),) for key in block.keys], np.zeros(len(truths))
        with without_projection():
            for _ in range(runs):
                (readings,) = publisher.read(publisher.draw(exact, secure_bits))
                made = [form_of(question, plan.unit).estimate(each) for each in readings]
                ends = np.array([(each.lower, each.upper) for each in made])
                middle, half = ends.mean(axis=1), narrow * (ends[:, 1] - ends[:, 0]) / 2
                hits += np.abs(truths - middle) <= half
        found.append(hits)
    return np.concatenate(found)


CASES = [(name, account) for name in ("two columns", "tree", "days") for account in ACCOUNTS]
ALL = [pytest.param(name, account, 10_000, marks=pytest.mark.long) for name in WORKLOADS for account in ACCOUNTS]


@pytest.mark.few(2)
@pytest.mark.parametrize(("name", "account", "runs"), [*((*each, 150) for each in CASES), *ALL])
def test_intervals_of_workloads_hold(name, account, runs):
    hits = workload_coverage(name, account, runs)
    assert (hits >= least(runs)).all()
    assert hits.mean() >= LEVEL * runs * (1 - (0.03 if runs == 150 else 0.01))


@pytest.mark.parametrize(
    ("name", "account", "runs", "narrow"),
    [
        ("two columns", "gaussian", 150, 0.5),
        ("no margins", "pure", 150, 0.5),
        pytest.param("three columns", "gaussian", 5000, 0.9, marks=pytest.mark.long),
    ],
)
def test_control_intervals_of_workloads_that_are_cut_do_not(name, account, runs, narrow):
    assert (workload_coverage(name, account, runs, narrow) < least(runs)).any()


def joint_plan(account, *, joint):
    queries = [
        {"name": "cross", **WORKLOADS["two columns"]},
        {"name": "tree", **WORKLOADS["tree"]},
        {"name": "days", **WORKLOADS["days"]},
        {"name": "visits", "kind": "count", "by": ["city"]},
        {"name": "bins", "kind": "histogram", **X, "bins": 3},
    ]
    keys = {name: each for name, each in KEYS.items() if name != "age"}
    return make_plan({"budget": ACCOUNTS[account], "keys": keys, "joint": joint, "query": queries})


def joint_coverage(account, runs, *, joint=True):
    """How many of this many tables had intervals that held all at once: of an empty table, and of another."""
    plan = joint_plan(account, joint=joint)
    ready, found = prepare(plan), []
    for seed in (0, 1):
        aggregates, truths = [], {}
        for block in blocks(plan):
            own, made = cells_of(block.keys, seed), {}
            for index in block.questions:
                question = plan.query[index]
                made[index] = {key: (Fraction(n),) * len(question.parts) for key, n in own.items()}
                whole = WORKLOADS.get({"cross": "two columns"}.get(question.name, question.name))
                for key, part in question.labels(block.keys)[0] if whole else []:
                    truths[index, key, part] = sum(own[each] for each in finest(whole, key, part, block.keys))
                for key in own if not whole else []:
                    truths |= {(index, key, part): own[key] for part in question.parts}
            aggregates.append(Aggregate(block=block, keys=block.keys, answers=made, units={}))
        held_at_once = 0
        with without_projection():
            for _ in range(runs):
                cells = [cell for each in aggregates for cell in answers(ready, each)]
                assert len(cells) == len(truths)
                held_at_once += all(
                    each.lower <= truths[each.question, each.key, each.part] <= each.upper for each in cells
                )
        found.append(held_at_once)
    return found


@pytest.mark.few(1)
@pytest.mark.parametrize("runs", [60, pytest.param(10_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("account", ACCOUNTS)
def test_joint_intervals_hold_all_at_once(account, runs):
    found = joint_coverage(account, runs)
    assert min(found) >= least(runs)


def test_control_intervals_that_hold_one_by_one_do_not_hold_all_at_once():
    assert joint_coverage("pure", 60, joint=False)[1] < least(60)
