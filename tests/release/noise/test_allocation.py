"""A release is charged at least what it loses, to the last bit: in fractions, for every mechanism."""

import math
import random
from dataclasses import replace
from fractions import Fraction

import pytest

from rangebound.ledger.amount import promised
from rangebound.ledger.rule import Cost
from rangebound.mechanisms.discrete_laplace import DiscreteLaplace
from rangebound.release.budget_split import allocations
from rangebound.release.noise.allocation import LossForm, Request, is_within, split_gaussian
from rangebound.release.noise.joint_loss import added_up
from rangebound.values.numeric import rounded_down
from rangebound.values.support import Interval
from tests.release.output.asked import asked
from tests.release.pair_loss import of_pure, profile
from tests.release.plans import SUPPORTED

EPSILONS = [k / 1000 for k in range(1, 1000)]


def charged(epsilon, delta=0.0):
    cost = Cost(epsilon=repr(epsilon), delta=repr(delta))
    return cost.epsilon.fraction, cost.delta.fraction


def loss(mechanism):
    """The exact loss of discrete Laplace noise away from its ends: sensitivity / scale."""
    return Fraction(mechanism.sensitivity) / Fraction(mechanism.scale)


def discrete_laplace(rows, epsilon):
    return DiscreteLaplace.calibrated(sensitivity=rows, epsilon=epsilon, support=Interval(0, math.inf))


@pytest.mark.claim("charge")
def test_discrete_laplace_noise_loses_at_most_the_charge_and_control_that_of_the_double_itself_more():
    more = 0
    for epsilon in EPSILONS:
        most, own = charged(epsilon)[0], rounded_down(promised(epsilon))
        assert all(loss(discrete_laplace(rows, own)) <= most for rows in range(1, 40, 3))
        more += any(loss(discrete_laplace(rows, epsilon)) > most for rows in range(1, 40, 3))
    assert more > 100


def loss_of(allocation):
    """What its shares may lose, each number drawn by itself."""
    return added_up(each.apart for each in shares_of(allocation))


def shares_of(allocation):
    return [*allocation.once.values(), *allocation.selections.values()]


def within(allocation, budget):
    return is_within(loss_of(allocation), allocation.mu, budget.epsilon, budget.delta)


def random_plan(chance):
    questions = []
    for _ in range(chance.randint(1, 6)):
        question, by = chance.choice(SUPPORTED), chance.choice([[], ["a"], ["a", "b"], ["p"]])
        questions.append({**question, "by": by, "weight": chance.choice([1.0, 0.1, 0.3, 7.7, 1 / 3])})
    unit = {"column": "u", "rows": chance.choice([1, 3, 7]), "groups": chance.choice([1, 3, 11])}
    if chance.random() < 0.3:
        unit |= {"neighbours": "replace", "size": 1000}
    used = {column for each in questions for column in each["by"]}
    keys = {name: each for name, each in {"a": ["x", "y", "z"], "b": ["1", "2"]}.items() if name in used}
    budget = {"epsilon": chance.choice(EPSILONS) * chance.choice([1, 3, 10]), "delta": chance.choice([1e-6, 3e-7, 0.1])}
    return asked(*questions, unit=unit, budget=budget, keys=keys, selection=0.7)


@pytest.mark.few(1)
@pytest.mark.parametrize("plans", [25, 60, pytest.param(400, marks=pytest.mark.long)])
def test_the_shares_of_a_plan_add_up_to_at_most_its_charge(plans):
    chance = random.Random(20)
    for _ in range(plans):
        plan = random_plan(chance)
        first, *others = allocations(plan)
        total, most = (loss_of(first).epsilon, loss_of(first).delta), charged(plan.budget.epsilon, plan.budget.delta)
        assert total[0] <= most[0]
        assert total[1] <= most[1]
        assert total[0] > most[0] * (1 - Fraction(1, 10**12)) - Fraction(1, 10**11)  # and to no less than that
        assert within(first, plan.budget)
        for each in others:
            assert within(each, plan.budget)
            assert each.mu == 0.0 or gaussian_total(each, float(most[0])) <= most[1]


def gaussian_total(allocation, epsilon):
    """The delta of a Gaussian account by another route: each part's mu by SciPy, pure ones as coins of two sides."""
    squares, coins = 0.0, []
    for each in shares_of(allocation):
        times = each.groups * each.parts * (2 if each.twice else 1)
        if each.loss is LossForm.GAUSSIAN:
            squares += each.mu**2
        elif each.loss is LossForm.PURE:
            coins += [2 * each.epsilon] * (times // 4) if each.twice else [each.epsilon] * times
        else:
            squares += times * sum(of_pure(own / 2) for own in (each.drawn, each.end, each.end))
    added = sum(each.delta * each.groups * each.parts for each in shares_of(allocation))
    return (Fraction(profile(squares, coins, epsilon)) + Fraction(added)) * (1 - Fraction(1, 10**9))


@pytest.mark.claim("charge")
def test_control_shares_that_are_a_little_larger_are_not_within_the_budget():
    chance, seen = random.Random(21), 0
    for _ in range(40):
        plan = random_plan(chance)
        for each in allocations(plan):
            for index, share in each.questions.items():
                more = replace(share, epsilon=share.epsilon * (1 + 1e-6), mu=share.mu * (1 + 1e-6))
                changed = replace(each, questions={**each.questions, index: more})
                own = share.epsilon * share.groups * share.parts
                heavy = own > 1e-3 * plan.budget.epsilon or share.mu > 1e-2 * each.mu
                if heavy and not (each.mu and share.loss is not LossForm.GAUSSIAN):
                    seen += 1
                    assert not within(changed, plan.budget)
            if each.mu:
                larger = {
                    index: replace(share, epsilon=share.epsilon * (1 + 1e-9), mu=share.mu * (1 + 1e-9))
                    for index, share in each.questions.items()
                }
                changed = replace(each, questions=larger, mu=each.mu * (1 + 2e-9))
                assert not within(changed, plan.budget)
    assert seen > 100


@pytest.mark.slow
def test_many_different_pure_parts_count_by_their_mu():
    requests = [Request(weight=Fraction(at), groups=3) for at in range(1, 40)]
    mu, shares = split_gaussian(1.0, 1e-6, tuple(requests))
    loss = added_up(each.apart for each in shares)
    size, listed = loss.parts
    assert math.prod(number + 1 for _, number in listed) <= 2000
    assert len(listed) < 39
    assert size < mu
    assert is_within(loss, mu, 1.0, 1e-6)
