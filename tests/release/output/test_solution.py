"""The smallest epsilon that meets all margins: it suffices, and one that is 1 % smaller does not."""

import random

import pytest
from scipy import optimize, stats

from rangebound.errors import ArgumentError, PlanError
from rangebound.release import solve
from rangebound.release.prepare import prepare
from tests.release.output.asked import asked

X = {"column": "x", "range": [0, 10]}
MEAN = {"kind": "mean", **X}


def counts(number, margin=25.0):
    return [{"kind": "count", "margin": margin}] * number


def at_epsilon(plan, epsilon):
    return plan.model_copy(update={"budget": plan.budget.model_copy(update={"epsilon": epsilon})})


def any_margins(chance):
    kinds = [
        {"kind": "count"},
        {"kind": "count", "mechanism": "rectify Laplace"},
        {"kind": "sum", **X},
        {"kind": "histogram", **X, "bins": 3},
        {"kind": "count of units"},
    ]
    number = chance.choice([1, 3, 12])
    query = [{**chance.choice(kinds), "margin": chance.choice([20, 90.5, 400])} for _ in range(number)]
    return asked(*query, delta=chance.choice([0.0, 1e-9, 1e-5]), unit={"column": "u", "rows": chance.choice([1, 2])})


@pytest.mark.parametrize("seed", [0, *(pytest.param(each, marks=pytest.mark.long) for each in range(1, 20))])
def test_it_suffices_and_one_percent_less_does_not(seed):
    chance = random.Random(seed)
    for _ in range(4):
        this = any_margins(chance)
        found = solve(this)
        ready = prepare(at_epsilon(this, found.epsilon))
        for own, met in zip(ready.questions, found.questions, strict=True):
            assert own.form.half_width(own.publisher) == met.half_width <= met.margin == own.question.margin
        with pytest.raises(PlanError, match="is less than what the margins need"):
            prepare(at_epsilon(this, 0.99 * found.epsilon))


def test_the_closed_form_by_scipy():
    """Margin to sigma to mu to epsilon: margin = z sigma + 1, mu^2 = 100 / sigma^2, and the profile at delta."""
    found = solve(asked(*counts(100), delta=1e-6))
    mu = 10.0 * stats.norm.ppf(0.975) / 24.0

    def excess(e):
        return stats.norm.cdf(mu / 2 - e / mu) - stats.norm.cdf(-mu / 2 - e / mu) * 2.718281828459045**e - 1e-6

    epsilon = optimize.brentq(excess, 0.1, 20.0)
    assert epsilon <= found.epsilon <= epsilon * 1.001
    assert found.terms.gaussian
    assert solve(asked(*counts(100))).epsilon > 2 * found.epsilon  # plain sums need more


def test_the_plan_s_own_epsilon_does_not_matter_and_the_plan_is_not_changed():
    one, other = (asked(*counts(2), epsilon=each) for each in (0.001, 50.0))
    assert solve(one).epsilon == solve(other).epsilon == 0.2349
    assert one.budget.epsilon == 0.001
    assert solve(one).plan.budget.epsilon == 0.2349
    assert str(solve(one)) == "epsilon 0.2349 meets all margins; the plan file is not changed"


def test_what_has_no_margin_gets_the_rest():
    this = asked(*counts(3), MEAN)
    alone = solve(asked(*counts(3))).epsilon
    assert solve(this).epsilon == pytest.approx(alone / (1 - 1 / 4), rel=1e-3)
    found = solve(this, rest=0.5)
    assert found.epsilon == pytest.approx(2 * alone, rel=1e-3)
    assert found.questions[-1].share == pytest.approx(0.5, rel=1e-3)
    assert found.questions[-1].half_width is None
    assert "with 50 % left for what has no margin" in str(found)
    keys = asked({**counts(1)[0], "by": ["k"]}, delta=1e-6)  # its keys are selected privately
    assert solve(keys).rest == 0.5
    for rest, words in ((0.0, "must be positive, since some"), (1.0, r"must lie in \[0, 1\)"), (-1.0, "must lie in")):
        with pytest.raises(ArgumentError, match=words):
            solve(this, rest=rest)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_what_the_margins_need_alone_is_what_they_need_without_the_others(delta):
    both, alone = solve(asked(*counts(3), MEAN, delta=delta)), solve(asked(*counts(3), delta=delta))
    assert both.margins_alone == alone.epsilon == alone.margins_alone < both.epsilon
    nearly = solve(asked(*counts(3), MEAN, delta=delta), rest=0.001)
    assert both.margins_alone < nearly.epsilon < 1.01 * both.margins_alone
    assert f"the margins alone need {alone.epsilon!r}" in str(both)
    assert "alone" not in str(alone)
    assert both.to_dict()["margins_alone"] == alone.epsilon


def test_a_plan_that_cannot_be_solved_is_refused_with_the_reason():
    with pytest.raises(PlanError, match="no question has a margin; give one half the width"):
        solve(asked(MEAN))
    with pytest.raises(PlanError, match=r"the margins need epsilon 366\.4, and a plan has at most 100"):
        solve(asked(*counts(100, margin=0.5)))
    gaussian = {**counts(1, margin=0.5)[0], "mechanism": "rectify Gaussian"}
    with pytest.raises(PlanError, match=r"query\[0\]\.margin=0\.5: cannot be met"):
        solve(asked(gaussian, delta=1e-6))
