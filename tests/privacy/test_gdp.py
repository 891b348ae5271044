"""Gaussian differential privacy: profiles and conversions, against other people's numbers and by brute force."""

import itertools
import math
from fractions import Fraction

import mpmath
import pytest
from dp_accounting.pld import common, privacy_loss_distribution
from scipy.stats import norm

from rangebound.errors import RangeboundError
from rangebound.privacy.gdp import (
    bounded_range_epsilon,
    delta_of_mu,
    delta_of_parts,
    epsilon_of_mu,
    is_private,
    largest_mu,
    mu_of_bounded_range,
    mu_of_parts,
    mu_of_pure,
    pure_epsilon,
    rho_of_mu,
)
from tests.thinning import crossed

MUS = (1e-6, 0.01, 0.2367, 1.0, 3.0, 12.0)
EPSILONS = (0.0, 1e-3, 0.1, 1.0, 4.0, 20.0)


def exact_delta(mu, epsilon):
    with mpmath.workdps(60):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_delta_is_that_of_the_formula_rounded_up(mu, epsilon):
    exact, found = exact_delta(mu, epsilon), delta_of_mu(mu, epsilon=epsilon)
    assert exact <= found <= exact * (1 + mpmath.mpf(2) ** -50) + mpmath.mpf(5e-324)


@pytest.mark.parametrize("mu", MUS[1:])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-3])
def test_the_epsilon_and_the_mu_are_each_others_inverse_on_the_safe_side(mu, delta):
    epsilon = epsilon_of_mu(mu, delta=delta)
    if epsilon:
        assert exact_delta(mu, epsilon) <= delta < exact_delta(mu, epsilon * (1 - 1e-13))
        again = largest_mu(epsilon, delta)
        assert exact_delta(again, epsilon) <= delta < exact_delta(again * (1 + 1e-13), epsilon)
        assert again == pytest.approx(mu, rel=1e-12)
    else:
        assert exact_delta(mu, 0.0) <= delta


@pytest.mark.parametrize("epsilon", [1e-9, 1.0, 90.0, 1e6])
def test_one_part_and_two_that_are_alike_need_this_mu_however_large_they_are(epsilon):
    one, two = (mu_of_parts(((Fraction(epsilon), number),)) for number in (1, 2))
    assert one == pytest.approx(mu_of_pure(epsilon), rel=1e-12)
    assert one < two <= 2**0.5 * one * (1 + 1e-12)


@pytest.mark.few(1)
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-9), (5.0, 1e-5)])
def test_the_mu_is_that_of_google_s_accountant(epsilon, delta):
    mu = largest_mu(epsilon, delta)
    theirs = privacy_loss_distribution.from_gaussian_mechanism(1.0 / mu).get_epsilon_for_delta(delta)
    assert theirs == pytest.approx(epsilon, rel=1e-3)


def test_a_fraction_is_taken_exactly():
    assert largest_mu(Fraction(1), Fraction(1, 10**6)) <= largest_mu(1.0, 1.0000001e-6)
    tiny = largest_mu(Fraction(1, 3), Fraction(1, 3 * 10**7))
    assert exact_delta(tiny, mpmath.mpf(1) / 3) <= mpmath.mpf(1) / (3 * 10**7)


def corner(p, q):
    """The smallest mu for which a coin is mu-GDP that falls on a side with probability p or q."""
    return abs(norm.ppf(q) - norm.ppf(p))


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 3.0, 8.0])
def test_a_pure_coin_needs_this_mu_and_no_less(epsilon):
    mu_of_pure.cache_clear()  # of a value that a test at another precision has asked for
    p = 1.0 / (1.0 + math.exp(epsilon))
    assert mu_of_pure(epsilon) == pytest.approx(corner(p, 1.0 - p), rel=1e-9)
    assert pure_epsilon(mu_of_pure(epsilon)) >= epsilon > pure_epsilon(mu_of_pure(epsilon) * (1 - 1e-13))


@pytest.mark.few(1)
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 3.0, 8.0])
def test_no_coin_of_bounded_range_needs_more(epsilon):
    shifts = [epsilon * at / 2000 for at in range(1, 2000)]
    needs = []
    for t in shifts:
        p = (math.exp(-t) - math.exp(-epsilon)) / -math.expm1(-epsilon)
        needs.append(corner(p, math.exp(t) * p))
    assert max(needs) == pytest.approx(mu_of_bounded_range(epsilon), rel=1e-6)
    assert bounded_range_epsilon(mu_of_bounded_range(epsilon)) >= epsilon


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_curve_of_a_coin_lies_above_that_of_its_mu_everywhere(epsilon):
    """Second route: delta at every epsilon, not the corner; with a control of slightly smaller mu."""
    p = 1.0 / (1.0 + math.exp(epsilon))

    def coin(at):
        return max(0.0, (1 - p) - math.exp(at) * p) + max(0.0, p - math.exp(at) * (1 - p))

    places = [epsilon * (at / 200 - 1) for at in range(400)]
    mu = mu_of_pure(epsilon)
    assert all(coin(at) <= float(exact_delta(mu, at)) + 1e-12 for at in places)
    assert any(coin(at) > float(exact_delta(0.99 * mu, at)) for at in places)


def test_rho_is_half_the_square_rounded_up():
    for mu in (0.1, 1.0, 1 / 3, 5.7):
        assert Fraction(mu) ** 2 / 2 <= Fraction(rho_of_mu(mu)) <= Fraction(mu) ** 2 / 2 * (1 + Fraction(1, 2**50))


def test_nothing_costs_nothing_and_the_limits_are_as_they_must_be():
    assert mu_of_pure(0.0) == pure_epsilon(0.0) == delta_of_mu(0.0, epsilon=0.0) == epsilon_of_mu(0.0, delta=0.0) == 0.0
    assert epsilon_of_mu(1.0, delta=0.0) == math.inf
    assert epsilon_of_mu(1.0, delta=1.0) == 0.0
    for delta in (0.0, 1.0, -1.0):  # without room
        with pytest.raises(RangeboundError, match="delta="):
            largest_mu(1.0, delta)


PURE = ([(1.0, 1)], [(0.01, 100)], [(0.3, 4), (0.05, 20)], [(2.0, 1), (0.5, 2), (0.125, 7)])


@pytest.mark.few
@crossed({"epsilon": [0.25, 1.0, 3.0], "pure": PURE, "mu": [0.0, 0.1, 1.0]})
def test_pure_parts_beside_a_mu_lose_what_another_accountant_says(mu, pure, epsilon):
    parts = [
        privacy_loss_distribution.from_privacy_parameters(common.DifferentialPrivacyParameters(own, 0.0))
        for own, number in pure
        for _ in range(number)
    ]
    if mu:
        parts.append(privacy_loss_distribution.from_gaussian_mechanism(1.0 / mu, value_discretization_interval=1e-4))
    whole = parts[0]
    for each in parts[1:]:
        whole = whole.compose(each)
    ours = delta_of_parts(mu, [(Fraction(own), number) for own, number in pure], epsilon=epsilon)
    above = float(whole.get_delta_for_epsilon(epsilon))
    below = float(whole.get_delta_for_epsilon(epsilon + 1e-4 * (len(parts) + 1)))  # its losses are rounded up
    assert below * (1 - 1e-6) - 1e-13 <= ours <= above * (1 + 1e-6) + 1e-13


@pytest.mark.parametrize("pure", PURE)
def test_pure_parts_lose_the_hockey_stick_divergence_of_their_coins(pure):
    """By its definition, over all outcomes of all coins and by quadrature over the Gaussian number."""
    mu, epsilon = 0.5, 0.75
    first = [(Fraction(own), number) for own, number in pure][:2]
    total = mpmath.mpf(0)
    with mpmath.workdps(30):
        for heads in itertools.product(*(range(number + 1) for _, number in first)):
            p = q = mpmath.mpf(1)
            for (own, number), up in zip(first, heads, strict=True):
                side = 1 / (1 + mpmath.exp(-mpmath.mpf(float(own))))
                p *= mpmath.binomial(number, up) * side**up * (1 - side) ** (number - up)
                q *= mpmath.binomial(number, up) * (1 - side) ** up * side ** (number - up)
            cut = (mpmath.log(q / p) + epsilon) / mu + mu / 2  # above it the first density is the larger
            total += p * mpmath.ncdf(mu - cut) - mpmath.exp(epsilon) * q * mpmath.ncdf(-cut)
    found = delta_of_parts(mu, first, epsilon=epsilon)
    assert total * (1 - mpmath.mpf("1e-15")) <= found <= total * (1 + mpmath.mpf("1e-12"))


def test_pure_parts_are_private_up_to_their_sum_and_a_little_less_is_not():
    pure = [(Fraction(1, 4), 4)]
    assert is_private(0.0, 1.0, 0.0, pure)
    assert delta_of_parts(0.0, pure, epsilon=1.0) == 0.0
    assert not is_private(0.0, 0.999, 0.0, pure)
    assert delta_of_parts(0.0, pure, epsilon=0.999) > 0.0
