"""The rules that add costs up: what their totals are, and what they refuse."""

import math
from fractions import Fraction
from functools import partial
from pathlib import Path

import mpmath
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rangebound.accounting.fisher_information import PerInstance
from rangebound.errors import ArgumentError, ArgumentTypeError, Unsatisfiable
from rangebound.ledger.amount import LARGEST, SCALE, Amount, rounded_down
from rangebound.ledger.rule import Cost, GaussianCost, GaussianFilter, RenyiCost, RenyiFilter, charged, rule_from_dict
from rangebound.privacy.gdp import epsilon_of_mu, largest_mu, mu_of_pure, pure_epsilon
from tests.ledger.rules import RULES

GAUSSIAN = [1, 1570797, 15702348542, 1517911190742, 61276243753873, 7962259782730944]
RENYI = [1, 7999680, 59977820525, 979115887499, 9999996973407, 1000000000000000]


def total(order, epsilon, delta):
    return RenyiFilter(order=order).total(rounded_down("epsilon", epsilon), rounded_down("delta", delta)).divergence


def exact_total(order, epsilon, delta):
    with mpmath.workdps(60):
        a, limit, slack = mpmath.mpf(order), mpmath.mpf(epsilon), mpmath.mpf(delta)
        return limit - mpmath.log((a - 1) / a) + (mpmath.log(slack) + mpmath.log(a)) / (a - 1)


def check_total(order, epsilon, delta):
    truth = exact_total(order, epsilon, delta)
    assume(mpmath.mpf("1e-11") < truth < LARGEST)
    with mpmath.workdps(60):
        assert 0 <= truth * SCALE - total(order, epsilon, delta).units < 1


@given(st.integers(2, 10**6), st.integers(1, 10**4), st.integers(1, 12))
def test_the_renyi_total_is_the_conversion_rounded_down(order, epsilon, digits):
    check_total(order, epsilon, f"1e-{digits}")


@given(st.integers(1, 10**9), st.integers(1, 10**4))
def test_the_total_of_an_order_close_to_one_is_rounded_down(above, epsilon):
    """Close to 1 the parts of a total are large and cancel; a delta near 1 leaves a positive one."""
    check_total(f"1.{above:012d}", epsilon, "0.999999999999")


def test_the_ends_of_a_renyi_total():
    with pytest.raises(Unsatisfiable, match="larger order"):
        total(2, 1, "1e-6")
    assert exact_total(2, LARGEST, "0.999999") > LARGEST
    assert total(2, LARGEST, "0.999999").units == LARGEST * SCALE
    with pytest.raises(ArgumentError, match="delta=0"):
        total(8, 1, 0)


def test_a_bad_order_or_spare_part_is_refused():
    for order in (1, 0.5, "1.0000000000001", "0", -2, float("inf"), float("nan"), 10**7):
        for make in (RenyiFilter, partial(RenyiCost, divergence=1)):
            with pytest.raises(ArgumentError, match=r"^order="):
                make(order=order)
    for spare in (1, "1.5", -1, "0.0000000000001", float("nan")):
        with pytest.raises(ArgumentError, match=r"^spare="):
            GaussianFilter(spare=spare)


class Pretender:
    """Stands for a number that holds for one database only."""

    epsilon = Amount(units=1)
    delta = Amount(units=0)
    units = (1, 0)

    def __float__(self) -> float:
        return 0.1


class CostPerInstance(Cost):
    pass


@pytest.mark.parametrize("value", [Pretender(), PerInstance(0.1, notion="epsilon"), True, None, [1]])
def test_no_cost_takes_what_is_not_an_exact_amount(value):
    for make in (
        lambda: Cost(epsilon=value),
        lambda: Cost(epsilon=1, delta=value),
        lambda: RenyiCost(order=2, divergence=value),
        lambda: RenyiCost(order=value, divergence=1),
        lambda: GaussianCost(mu=value),
        lambda: GaussianCost(mu=1, delta=value),
        lambda: GaussianFilter(spare=value),
    ):
        with pytest.raises(ArgumentTypeError):
            make()


FALSE = [Pretender(), PerInstance(0.1, notion="epsilon"), CostPerInstance(epsilon=1), 0.1]
FALSE.append(RenyiCost(order="16.000000000001", divergence=1))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("cost", FALSE, ids=lambda cost: type(cost).__name__)
def test_a_rule_refuses_what_it_cannot_hold(rule, cost):
    """What another rule can hold: `test_every_rule.py`."""
    for call in (lambda: RULES[rule].units(cost), lambda: charged(RULES[rule], (cost, cost))):
        with pytest.raises(ArgumentTypeError, match=r"^cost="):
            call()


WRONG = [{}, {"rule": "odometer"}, {"rule": "sum", "order": "2"}, {"rule": "renyi"}, {"rule": "gaussian"}]


def test_a_rule_is_read_back_and_no_other():
    for rule in (*RULES.values(), RenyiFilter(order="1.5"), GaussianFilter(spare=0)):
        assert rule_from_dict(rule.to_dict()) == rule
    for data in (*WRONG, {"rule": "gaussian", "spare": "1"}):
        with pytest.raises(ArgumentError, match=r"^(rule|spare)="):
            rule_from_dict(data)


def exact_delta(mu_squared, epsilon):
    mu = mpmath.sqrt(mu_squared)
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


@settings(max_examples=60)
@given(st.integers(1, 20_000), st.integers(1, 10), st.sampled_from(["0", "0.25", "0.5", "0.999"]))
def test_a_gaussian_total_spent_in_full_keeps_the_promise_and_two_units_more_would_not(thousandths, digits, spare):
    epsilon, delta = Fraction(thousandths, 1000), Fraction(1, 10**digits)
    amounts = rounded_down("epsilon", epsilon), rounded_down("delta", delta)
    square, beside = GaussianFilter(spare=spare).total(*amounts).units
    assert beside == int(Fraction(spare) * amounts[1].units)
    with mpmath.workdps(60):
        limit, noise = mpmath.mpf(thousandths) / 1000, mpmath.mpf(amounts[1].units - beside) / SCALE
        assert exact_delta(mpmath.mpf(square) / SCALE, limit) <= noise
        assert exact_delta(mpmath.mpf(square + 2) / SCALE, limit) > noise


def test_a_gaussian_total_beyond_the_largest_amount_is_the_largest_amount():
    found = GaussianFilter(spare=0).total(rounded_down("epsilon", LARGEST), rounded_down("delta", "0.9"))
    assert found.mu_squared.units == LARGEST * SCALE
    with pytest.raises(ArgumentError, match=r"^mu=1000.1: must be at most 1000"):
        GaussianCost(mu=1000.1)
    with pytest.raises(ArgumentError, match="more than an account of this rule can hold"):
        GaussianFilter().units(Cost(epsilon=LARGEST))
    with pytest.raises(ArgumentError, match="more than an account of this rule can hold"):
        RenyiFilter(order=LARGEST).units(GaussianCost(mu=1000))


@given(st.integers(0, 10**18))
def test_what_a_mechanism_may_be_calibrated_to_is_the_root_rounded_down_and_what_is_shown_is_rounded_up(units):
    cost = GaussianCost.of_units((units, 0))
    assert Fraction(cost.mu) ** 2 <= Fraction(units, SCALE)
    assert Fraction(math.nextafter(cost.mu, math.inf)) ** 2 > Fraction(units, SCALE)
    shown = Fraction(cost.to_dict()["mu"])
    assert shown**2 >= Fraction(units, SCALE)
    assert not units or (shown - Fraction(1, SCALE)) ** 2 < Fraction(units, SCALE)
    if units <= 10**15:  # where a double has digits enough, all that is left can be spent
        assert GaussianCost(mu=Fraction(cost.mu)) == cost


@settings(max_examples=60)
@given(st.integers(1, 50 * SCALE) | st.integers(1, 10**6))
def test_a_pure_cost_has_the_mu_of_its_epsilon_rounded_up(units):
    """By the quantile function, where the package inverts the distribution function in balls."""
    (found, delta) = GaussianFilter().units(Cost(epsilon=Amount(units=units), delta="1e-9"))
    assert delta == 1000
    with mpmath.workdps(60):
        coin = 1 / (1 + mpmath.exp(mpmath.mpf(units) / SCALE))
        truth = (2 * mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * coin)) ** 2 * SCALE
        assert truth <= found < truth * (1 + mpmath.mpf("1e-14")) + 1


@given(st.integers(1, 20 * SCALE) | st.integers(1, 10**6), st.integers(1, 10**15))
def test_a_pure_cost_has_the_divergence_of_randomised_response_rounded_up(units, above):
    """Summed over the two answers, where the package has a form that does not overflow."""
    order = Amount(units=SCALE + above)
    found = RenyiFilter(order=order).units(Cost(epsilon=Amount(units=units)))
    with mpmath.workdps(200):
        a, odds = mpmath.mpf(order.units) / SCALE, mpmath.exp(mpmath.mpf(units) / SCALE)
        p, q = odds / (1 + odds), 1 / (1 + odds)
        truth = mpmath.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1) * SCALE
        assert found[1] == 0
        assert truth <= found[0] < truth + 1


@given(st.data(), st.integers(2, 5), st.floats(0.01, 4.0), st.floats(1.01, 40.0))
def test_no_pure_release_has_a_larger_divergence(data, answers, epsilon, order):
    """The second route: any probabilities whose ratios stay within e^epsilon; randomised response comes up to it."""
    weights = data.draw(st.lists(st.floats(0.01, 1.0), min_size=answers, max_size=answers))
    tilts = data.draw(st.lists(st.floats(-0.5, 0.5), min_size=answers, max_size=answers))
    p = [x / sum(weights) for x in weights]
    q = [x * math.exp(t * epsilon) for x, t in zip(p, tilts, strict=True)]
    q = [x / sum(q) for x in q]

    def divergence(p: list[float], q: list[float]) -> float:
        return math.log(math.fsum(x**order * y ** (1 - order) for x, y in zip(p, q, strict=True))) / (order - 1)

    order = float(f"{order:.6f}")
    limit = float(RenyiFilter(order=order).cost(RenyiFilter(order=order).units(Cost(epsilon=epsilon))).divergence)
    assert max(divergence(p, q), divergence(q, p)) <= limit * (1 + 1e-9) + 1e-11
    coin = 1 / (1 + math.exp(-epsilon))
    assert divergence([coin, 1 - coin], [1 - coin, coin]) == pytest.approx(limit, rel=1e-6, abs=1e-11)


def test_the_figures_of_the_page_are_true():
    page = (Path(__file__).parents[2] / "docs" / "ledger.md").read_text(encoding="utf-8")
    assert pure_epsilon(largest_mu(1.0, 1e-6)) == pytest.approx(0.1885, abs=5e-4)
    assert "epsilon 1 holds one pure release of epsilon 0.188." in page
    assert 6.33 < epsilon_of_mu(10 * mu_of_pure(0.1), delta=1e-6) <= 6.34
    assert "and 6.34 at delta 1e-6 in a Gaussian account" in page
    assert epsilon_of_mu(0.1, delta=1e-6) <= 0.4
    assert "(GaussianCost(mu=0.1), Cost(epsilon=0.4, delta=" in page


def test_a_gaussian_cost_has_half_its_square_times_the_order_rounded_up():
    assert RenyiFilter(order="2.5").units(GaussianCost(mu=0.2)) == (SCALE // 20, 0)
    assert RenyiFilter(order="2.000000000001").units(GaussianCost(mu="1e-6")) == (2, 0)


def test_conversions_stay_what_they_are():
    """A request that is repeated is compared by what it was charged: other digits would be a conflict."""
    epsilons = ["1e-12", "0.001", "0.1", "1", "10", "1000"]
    assert [GaussianFilter().units(Cost(epsilon=each))[0] for each in epsilons] == GAUSSIAN
    assert [RenyiFilter(order=16).units(Cost(epsilon=each))[0] for each in epsilons] == RENYI
