"""A plan that could never be answered is refused before its account pays."""

import datetime
import math
import random
from dataclasses import replace

import pyarrow as pa
import pytest

from rangebound.errors import CertificateInvalid, PlanError
from rangebound.laws.boundings import Bounding
from rangebound.laws.gaussian import Gaussian
from rangebound.laws.laplace import Laplace
from rangebound.ledger.book import Ledger
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.privacy.gdp import delta_of_mu
from rangebound.release import explain, make_plan, release
from rangebound.release.budget_split import allocations
from rangebound.release.noise.noisy_coordinates import DiscreteLaplacePublisher, MechanismPublisher
from rangebound.release.noise.workload_publisher import WorkloadPublisher
from rangebound.release.plan.groupings import public_keys
from rangebound.release.prepare import prepare, prepared, total_error
from rangebound.values.support import Interval, Query, Union
from tests.release.output.asked import asked
from tests.release.plans import SUPPORTED, plan_data
from tests.release.test_plan_pairs import FEWER, KEYS, plan_of, with_keys

X = {"name": "q", "column": "x", "range": [0, 10]}
HOPELESS = {
    "step of a sum": {"query": [{**X, "kind": "sum", "step": 1 / 3}]},
    "step of private groups": {"query": [{**X, "kind": "sum", "step": 1 / 3, "by": ["k"]}]},
    "level": {"level": 0.9999999999999999, "query": [{**X, "kind": "mean"}]},
}


@pytest.mark.parametrize("name", HOPELESS)
def test_what_cannot_be_drawn_is_refused_before_the_charge(tmp_path, name):
    plan = make_plan({"budget": {"epsilon": 1.0, "delta": 1e-6, "account": "people"}, **HOPELESS[name]})
    with pytest.raises(PlanError, match=r"query\[0\]: no number can be drawn") as caught:
        explain(plan)
    assert caught.value.field == "query[0]"
    with Ledger.create(tmp_path / "l.ledger") as book:
        book.open_account("people", epsilon=2, delta="1e-5")
        with pytest.raises(PlanError, match=r"query\[0\]: no number can be drawn"):
            release(plan, pa.table({"x": [1.0, 2.0], "k": ["a", "b"]}), ledger=book, request="one")
        assert str(book.account("people").spent) == "epsilon 0"


def test_control_sound_plans_pass():
    assert explain(make_plan(plan_data([], SUPPORTED, unit={"column": "person"})))
    assert explain(make_plan(plan_data(["clinic"], SUPPORTED, unit={"column": "person"})))


@pytest.mark.few(3)
@pytest.mark.parametrize(("number", "most"), [(1, 1.36), (8, 11.4), (10, 13.37), (100, 42.25), (1000, 133.61)])
def test_many_counts_share_one_account(number, most):
    """Plain sums give 1.41 times the number, a Gaussian account 4.22 times its root: see THEORY, 7."""
    ready = prepare(asked(*[{"kind": "count"}] * number, delta=1e-6))
    assert math.sqrt(ready.publishers[0].mse) <= most
    assert bool(ready.allocation.mu) == (number >= 10)
    if number > 1:
        assert math.sqrt(ready.publishers[0].mse) >= 0.99 * most  # control: no better than theory allows


def square_error(publisher):
    """The mean squared error of a number by a formula of its noise, where it has one; by the publisher elsewhere."""
    if isinstance(publisher, DiscreteLaplacePublisher):
        ratio = math.exp(-1.0 / publisher.mechanism.scale)
        return 2.0 * ratio / (1.0 - ratio) ** 2
    own = getattr(publisher, "mechanism", None)
    additive = own is not None and own.bounding in (Bounding.RECTIFY, Bounding.UNBOUNDED) and not own.shape.normalised
    clamped = getattr(publisher, "clamped", None) or (own and own.query.range.hull)
    if additive and not clamped.bounded and isinstance(own.noise, Gaussian | Laplace):
        rounding = (publisher.step or 0.0) ** 2 / 12.0
        return own.noise.scale**2 * (1.0 if isinstance(own.noise, Gaussian) else 2.0) + rounding
    if isinstance(publisher, WorkloadPublisher):
        return float(publisher.variances.mean())
    return publisher.mse


def objective_of(plan, way):
    """The plan's objective by its words: the variances of all numbers, each in rows; relative ones by their number."""
    total = 0.0
    for index, (question, publisher) in enumerate(zip(plan.query, prepared(plan, way).publishers, strict=True)):
        if way.sensitivities[index].cell:
            keys = public_keys(plan, question.by) or [("",) * len(question.by)] * plan.unit.groups
            numbers = sum(map(len, question.labels(keys)))
            row = max(map(abs, question.range)) if question.kind == "sum" else 1.0
            total += numbers ** (3 if plan.objective == "relative" else 1) * square_error(publisher) / row**2
    return total


def even_split(plan, way):
    """Whether a way to split the budget is that of plain sums by weight, as it was before there was another."""
    asked = [(each, way.questions[at]) for at, each in enumerate(plan.query) if way.sensitivities[at].cell]
    weights = sum(each.weight or 1.0 for each, _ in asked) + plan.selection * len(way.selections)
    shares = [own.epsilon * own.groups * own.parts for _, own in asked]
    return shares == pytest.approx([plan.budget.epsilon * (each.weight or 1) / weights for each, _ in asked])


@pytest.mark.parametrize("seeds", [FEWER[:10:2], pytest.param(range(96), marks=pytest.mark.long)])
def test_no_plan_has_more_error_than_its_budget_split_by_plain_sums(seeds):
    """By a second route to the objective: what is taken is chosen by the first, and could not lose by that."""
    better = 0
    for seed in seeds:
        plan = with_keys(plan_of(seed), KEYS)
        plain, taken = allocations(plan)[0], prepare(plan).allocation
        assert even_split(plan, plain)
        before, after = objective_of(plan, plain), objective_of(plan, taken)
        assert after <= before * (1 + 1e-6)
        assert total_error(plan, taken) == pytest.approx(after, rel=0.01)
        better += after < 0.99 * before
    assert better  # control: it makes a difference


A = {"column": "x", "range": [0, 1], "by": ["a"]}
APART = [{"kind": "mean", **A, "by": []}, {"kind": "histogram", **A}, {"kind": "variance", **A}]
LONG_TREE = {"kind": "hierarchy", "by": ["k"], "levels": [{"name": "l", "members": {"x": [*"abcde"], "y": [*"fghij"]}}]}
WITH_COUNT = [LONG_TREE, {"kind": "crosstab", "by": ["k", "m"]}, {"kind": "series", "by": ["day"]}]
SHARED = [APART, *([{"kind": "count", "by": []}, each] for each in WITH_COUNT)]
OF = {"a": ["1", "2", "3"], "k": [*"abcdefghij"], "m": ["1", "2", "3"]}
OF["day"] = [datetime.date(2025, 1, 30) + datetime.timedelta(at) for at in range(30)]


@pytest.mark.few(2)
@pytest.mark.parametrize("objective", ["total", "relative"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("asked", SHARED, ids=lambda asked: asked[-1]["kind"])
def test_the_shares_without_weights_are_those_with_the_least_error(asked, delta, objective):
    """Second route: no random other shares have less, near or far, in either account."""
    chance, query = random.Random(5), [{**each, "name": str(at)} for at, each in enumerate(asked)]
    base = {"unit": {"column": "u", "rows": 2, "groups": 2}, "budget": {"epsilon": 0.1, "delta": delta}}
    base |= {"keys": {column: OF[column] for each in query for column in each["by"]}, "objective": objective}

    def error(asked):
        plan = make_plan({**base, "query": asked})
        way = allocations(plan)[-1]
        return total_error(plan, way), way

    least, way = error(query)
    shares = [each.mu**2 or each.epsilon * each.groups * each.parts for each in way.questions.values()]
    for spread in (0.05, 1.0):
        found = []
        for _ in range(20 if asked is APART else 5):
            weights = [share * chance.lognormvariate(0, spread) for share in shares]
            weighted = [{**each, "weight": weight} for each, weight in zip(query, weights, strict=True)]
            found.append(error(weighted)[0])
        assert least <= min(found) * (1 + (1e-5 if asked is APART else 2e-4))
    assert max(found) > least * (
        1.1 if asked is APART else 1.001
    )  # control: it is the same measure, and it can be worse


def test_noise_that_is_truncated_to_a_support_with_gaps_is_never_taken_for_gaussian_noise():
    """With a gap it leaks more than Gaussian noise of its scale: twice the delta at epsilon 0.05 here."""
    gap = {"kind": "count", "mechanism": "truncate Gaussian", "support": [[0, 5], [40, 100]]}
    plan = asked(gap, *[{"kind": "count"}] * 30, delta=1e-6)
    found = allocations(plan)[-1]
    share, sensitivity = found.questions[0], found.sensitivities[0]
    assert found.mu
    assert share.mu == 0.0
    publisher = prepared(plan, found).publishers[0]
    assert publisher.mechanism.delta(share.epsilon) <= share.delta
    publisher.check(sensitivity, share)
    query = Query(range=Interval(0, 100), sensitivity=1.0)
    noise, spans = Gaussian(scale=25.0), {True: Union((0, 5), (40, 100)), False: Interval(0, 100)}
    for gaps, support in spans.items():
        mechanism = Mechanism(noise=noise, query=query, support=support, bounding=Bounding.TRUNCATE)
        assert (
            mechanism.delta(0.05) > delta_of_mu(0.04, epsilon=0.05)
        ) is gaps  # control: without gaps it is as private
        forged = MechanismPublisher(mechanism=mechanism, grain=1.0, step=1.0, level=0.95, whole=True)
        claim = replace(share, mu=0.04, epsilon=0.0, delta=0.0)
        if not gaps:
            forged.check(sensitivity, claim)
            continue
        with pytest.raises(CertificateInvalid, match="truncated to a support with gaps in a Gaussian account"):
            forged.check(sensitivity, claim)
