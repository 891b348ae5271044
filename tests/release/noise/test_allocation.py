"""A release is charged at least what it loses, to the last bit: in fractions, for every mechanism."""

import itertools
import math
import random
from dataclasses import replace
from fractions import Fraction

import mpmath
import pytest
from flint import arb, fmpq
from scipy.stats import norm

from rangebound.ball import precision
from rangebound.discrete_laplace import DiscreteLaplace
from rangebound.gdp import largest_mu, mu_of_pure, pure_epsilon
from rangebound.learn.sklearn.statistics import share as part_of
from rangebound.ledger.amount import promised
from rangebound.ledger.rule import Cost
from rangebound.mechanism import Mechanism
from rangebound.noise import Laplace
from rangebound.numeric import rounded_down
from rangebound.release import make_plan
from rangebound.release.noise import exponential_mechanism as exponential
from rangebound.release.noise.allocation import (
    Allocation,
    LossForm,
    Request,
    is_within,
    parts_together,
    spent,
    split_gaussian,
)
from rangebound.release.noise.partition_selection import WHOLE, partition_selection
from rangebound.release.plan.kinds.rank_kind import RankKind
from rangebound.release.prepare import allocations, prepare, prepared
from rangebound.support import Interval
from tests.release.plans import KINDS, SUPPORTED

HALF_LINE = Interval(0, math.inf)
EPSILONS = [k / 1000 for k in range(1, 1000)]


def charged(epsilon, delta=0.0):
    cost = Cost(epsilon=repr(epsilon), delta=repr(delta))
    return cost.epsilon.fraction, cost.delta.fraction


def loss(mechanism):
    """The exact loss of discrete Laplace noise away from its ends: sensitivity / scale."""
    return Fraction(mechanism.sensitivity) / Fraction(mechanism.scale)


def discrete_laplace(rows, epsilon):
    return DiscreteLaplace.calibrated(sensitivity=rows, epsilon=epsilon, support=HALF_LINE)


def test_discrete_laplace_noise_loses_at_most_the_charge():
    for epsilon in EPSILONS:
        most, own = charged(epsilon)[0], rounded_down(promised(epsilon))
        for rows in range(1, 40):
            assert loss(discrete_laplace(rows, own)) <= most


def test_control_noise_from_the_double_itself_loses_more():
    found = [
        epsilon
        for epsilon in EPSILONS
        if any(loss(discrete_laplace(rows, epsilon)) > charged(epsilon)[0] for rows in range(1, 40))
    ]
    assert len(found) > 100


def test_one_count_is_calibrated_from_what_is_charged():
    for epsilon in EPSILONS[::97]:
        for rows in (1, 7):
            data = {"unit": {"column": "u", "rows": rows}, "budget": {"epsilon": epsilon}}
            plan = make_plan({**data, "query": [{"name": "n", "kind": "count"}]})
            mechanism = prepare(plan).publishers[0].mechanism
            if isinstance(mechanism, DiscreteLaplace):
                assert loss(mechanism) <= charged(epsilon)[0]
            else:
                assert Fraction(mechanism.epsilon()) <= charged(epsilon)[0]


def random_plan(chance):
    """A plan of a few questions with odd weights, groups and budgets."""
    questions = []
    for at in range(chance.randint(1, 6)):
        question = dict(chance.choice(SUPPORTED))
        by = chance.choice([[], ["a"], ["a", "b"], ["p"]])
        questions.append({**question, "name": str(at), "by": by, "weight": chance.choice([1.0, 0.1, 0.3, 7.7, 1 / 3])})
    unit = {"column": "u", "rows": chance.choice([1, 3, 7]), "groups": chance.choice([1, 3, 11])}
    if chance.random() < 0.3:
        unit |= {"neighbours": "replace", "size": 1000}
    used = {column for each in questions for column in each["by"]}
    keys = {name: each for name, each in {"a": ["x", "y", "z"], "b": ["1", "2"]}.items() if name in used}
    budget = {"epsilon": chance.choice(EPSILONS) * chance.choice([1, 3, 10]), "delta": chance.choice([1e-6, 3e-7, 0.1])}
    return make_plan({"unit": unit, "budget": budget, "keys": keys, "query": questions, "selection": 0.7})


@pytest.mark.parametrize("plans", [60, pytest.param(400, marks=pytest.mark.long)])
def test_the_shares_of_a_plan_add_up_to_at_most_its_charge(plans):
    chance = random.Random(20)
    for _ in range(plans):
        plan = random_plan(chance)
        first, *others = allocations(plan)
        total, most = spent(first), charged(plan.budget.epsilon, plan.budget.delta)
        assert total[0] <= most[0]
        assert total[1] <= most[1]
        assert total[0] > most[0] * (1 - Fraction(1, 10**12)) - Fraction(1, 10**11)  # and to no less than that
        assert is_within(first, plan.budget.epsilon, plan.budget.delta)
        for each in others:
            assert is_within(each, plan.budget.epsilon, plan.budget.delta)
            assert each.mu == 0.0 or gaussian_total(each, float(most[0])) <= most[1]


def gaussian_total(allocation, epsilon):
    """The delta of a Gaussian account by another route: each part's mu by SciPy, pure ones as coins of two sides.

    The coins are tossed one by one, in floats: after each, the probabilities of all losses so far.
    """
    squares, coins = 0.0, []
    for each in allocation.shares:
        times = each.groups * each.parts * (2 if each.twice else 1)
        if each.loss is LossForm.GAUSSIAN:
            squares += each.mu**2
        elif each.loss is LossForm.PURE:
            coins += [2 * each.epsilon] * (times // 4) if each.twice else [each.epsilon] * times
        else:
            ends = (each.drawn, each.end, each.end)
            squares += times * sum((2 * norm.ppf(1 / (1 + math.exp(-own / 2)))) ** 2 for own in ends)
    losses = {0.0: 1.0}
    for own in coins:
        after = {}
        for loss, chance in losses.items():
            for other, part in ((own, 1 / (1 + math.exp(-own))), (-own, 1 / (1 + math.exp(own)))):
                place = round(loss + other, 12)
                after[place] = after.get(place, 0.0) + chance * part
        losses = after
    added = sum(each.delta * each.groups * each.parts for each in allocation.shares)
    with mpmath.workdps(40):
        gone, mu = mpmath.mpf(0), mpmath.sqrt(squares)
        for loss, chance in losses.items():
            e = mpmath.mpf(epsilon) - loss
            one = (
                mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)
                if mu
                else 1 - mpmath.exp(e)
            )
            gone += chance * max(one, 0)
        return Fraction(float(gone * (1 - mpmath.mpf("1e-9")))) + Fraction(added) * (1 - Fraction(1, 10**9))


def test_control_shares_that_are_a_little_larger_are_not_within_the_budget():
    chance, seen = random.Random(21), 0
    for _ in range(40):
        plan = random_plan(chance)
        for each in allocations(plan):
            for index, share in each.questions.items():
                more = replace(share, epsilon=share.epsilon * (1 + 1e-6), mu=share.mu * (1 + 1e-6))
                changed = replace(each, questions={**each.questions, index: more})
                heavy = (
                    share.epsilon * share.groups * share.parts > 1e-3 * plan.budget.epsilon or share.mu > 1e-2 * each.mu
                )
                if heavy and not (each.mu and share.loss is not LossForm.GAUSSIAN):
                    seen += 1
                    assert not is_within(changed, plan.budget.epsilon, plan.budget.delta)
            if each.mu:
                larger = {
                    index: replace(share, epsilon=share.epsilon * (1 + 1e-9), mu=share.mu * (1 + 1e-9))
                    for index, share in each.questions.items()
                }
                changed = replace(each, questions=larger, mu=each.mu * (1 + 2e-9))
                assert not is_within(changed, plan.budget.epsilon, plan.budget.delta)
    assert seen > 100


def check_mechanism(question, mechanism, share):
    """No mechanism loses more than its share, by its own bound, and Laplace noise by its fraction too."""
    if isinstance(mechanism, DiscreteLaplace):
        assert loss(mechanism) <= Fraction(share.epsilon)
    elif isinstance(mechanism, Mechanism):
        held = mechanism.delta(share.epsilon) <= share.delta or mechanism.epsilon(share.delta) <= share.epsilon
        assert held, question  # both are rounded to the safe side, by searches of their own
        if not share.delta and isinstance(mechanism.noise, Laplace) and mechanism.bounding.value == "rectify":
            scale, reach = Fraction(mechanism.noise.scale), Fraction(mechanism.query.sensitivity)
            assert reach / scale <= Fraction(share.epsilon), question


PURE = ("rectify Laplace", "truncate Laplace")
NAMES = ["rectify Laplace", "truncate Laplace", "truncate Gaussian", "rectify Gaussian", "rectify TruncatedLaplacian"]


CHARGED = (0.1, 0.3, 0.7, 1.1)
OFTEN = [*((name, 0, 4) for name in NAMES), (None, 1, 2)]
SELDOM = [pytest.param(None, *each, marks=pytest.mark.long) for each in ((0, 1), (2, 4))]


@pytest.mark.parametrize(("name", "first", "end"), [*OFTEN, *SELDOM])
def test_no_mechanism_loses_more_than_its_share(name, first, end):
    kinds = [each for each in KINDS if each["kind"] in ("count", "sum")]
    for at, epsilon in list(enumerate(CHARGED))[first:end]:
        question = {**kinds[at % len(kinds)], "name": "q"} | ({"mechanism": name} if name else {})
        questions = [question] if name else [{**each, "name": str(index)} for index, each in enumerate(SUPPORTED)]
        unit = {"column": "u", "rows": 3, "groups": 1}
        delta = 0.0 if name in PURE and at % 2 else 1e-6
        plan = make_plan({"unit": unit, "budget": {"epsilon": epsilon, "delta": delta}, "query": questions})
        allocation = allocations(plan)[0]  # in plain sums
        ready = prepared(plan, allocation)
        for index, each in enumerate(plan.query):
            share, publisher = allocation.questions[index], ready.publishers[index]
            if isinstance(each, RankKind):
                check_ranks(each, share, allocation.sensitivities[index].cell)
            else:
                check_mechanism(each, publisher.mechanism, share)


def check_ranks(question, share, cell):
    """The exponential mechanism of a quantile, and of both ends of its interval; its weights are right to 2^-126."""
    assert 2 * Fraction(share.end) + Fraction(share.drawn) <= Fraction(share.epsilon)
    for level in question.asked:
        worst = max(Fraction(level), 1 - Fraction(level))
        for own in (share.drawn, share.end):
            slope = exponential.rate(level, cell, own)
            assert 2 * slope * worst * cell + Fraction(1, 2**119) * (own > 0) <= Fraction(own)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (0.3, 1e-3), (1.1, 0.1), (5.0, 1e-9)])
def test_the_choice_of_keys_loses_at_most_its_share(epsilon, delta):
    chances = partition_selection(epsilon, delta).probabilities
    with precision(400):
        ratio, slack = arb(epsilon).exp(), arb(delta)
        for one, other in itertools.pairwise(chances):
            for p, q in ((one, other), (WHOLE - one, WHOLE - other)):
                p, q = arb(fmpq(p, WHOLE)), arb(fmpq(q, WHOLE))
                assert p <= ratio * q + slack
                assert q <= ratio * p + slack


def test_the_parts_of_a_fit_add_up_to_at_most_its_charge():
    for epsilon in EPSILONS:
        for parts in range(1, 40):
            assert parts * Fraction(part_of(epsilon, parts)) <= charged(epsilon)[0]
    naive = [epsilon for epsilon in EPSILONS if Fraction(epsilon) > charged(epsilon)[0]]
    assert len(naive) > 100  # control: the double itself is above the decimal as often as not


def test_a_share_is_a_part_of_a_unit_that_is_replaced_too():
    mean = {"name": "m", "kind": "mean", "column": "x", "range": [0, 1]}
    unit = {"neighbours": "replace", "size": 50}
    plan = make_plan({"unit": unit, "budget": {"epsilon": 0.7}, "query": [mean]})
    total = spent(allocations(plan)[0])
    assert total[0] <= charged(0.7)[0]


def test_pure_parts_leave_more_of_a_gaussian_account_than_their_mu_does():
    """A hundred truncated Laplace numbers at (1, 1e-6): a fifth less noise than by the mu of each."""
    mu, shares = split_gaussian(1.0, 1e-6, [Request(weight=Fraction(1), groups=1)] * 100)
    by_mu = pure_epsilon(largest_mu(Fraction(1), Fraction(1, 10**6)) / 10)
    assert 1.25 < shares[0].epsilon / by_mu < 1.28
    assert mu == pytest.approx(10 * mu_of_pure(shares[0].epsilon), rel=1e-9)
    (one,) = split_gaussian(1.0, 1e-6, [Request(weight=Fraction(1), groups=1)])[1]
    assert 1.0 < one.epsilon < 1.00001  # all of it, and what delta adds


def test_many_different_pure_parts_count_by_their_mu():
    requests = [Request(weight=Fraction(at), groups=3) for at in range(1, 40)]
    mu, shares = split_gaussian(1.0, 1e-6, requests)
    size, listed = parts_together(shares)
    assert math.prod(number + 1 for _, number in listed) <= 2000
    assert len(listed) < 39
    assert size < mu
    exact = Allocation(questions=dict(enumerate(shares)), selections={}, sensitivities={}, mu=mu)
    assert is_within(exact, 1.0, 1e-6)
