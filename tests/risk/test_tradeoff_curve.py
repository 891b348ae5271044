"""The trade-off curve: against closed forms in balls and the tests of Neyman and Pearson, with a control."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb

import rangebound as rb
from rangebound.accounting import SampledEvent
from rangebound.risk.tradeoff_curve import miss_rate

RATES = (0.0, 1e-6, 0.01, 0.1, 0.2, 0.4, 0.5, 0.7, 0.99, 1.0)
QUERY = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)


def laplace(alpha, epsilon):
    """The curve of Laplace noise [dong2022], in balls."""
    alpha, shrink = arb(alpha), (-arb(epsilon)).exp()
    if alpha < shrink / 2:
        return 1 - alpha / shrink
    return shrink / (4 * alpha) if alpha <= 0.5 else shrink * (1 - alpha)


def gaussian(alpha, mu):
    """The curve of N(0, 1) against N(mu, 1), in balls."""
    if alpha in (0.0, 1.0):
        return arb(1 - alpha)
    z = arb(2).sqrt() * (2 * arb(alpha)).erfcinv()
    return ((arb(mu) - z) / arb(2).sqrt()).erfc() / 2


@pytest.mark.parametrize("alpha", RATES)
@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
def test_laplace_noise_has_the_curve_of_its_closed_form(scale, alpha):
    found = rb.Mechanism(noise=rb.Laplace(scale=scale), query=QUERY, bounding=rb.UNBOUNDED).tradeoff(alpha)
    exact = laplace(alpha, arb(1) / arb(scale))
    assert not found > exact
    assert exact - found < 2e-9


@pytest.mark.parametrize("alpha", RATES)
@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
def test_gaussian_noise_has_the_curve_of_its_closed_form(scale, alpha):
    found = rb.Mechanism(noise=rb.Gaussian(scale=scale), query=QUERY, bounding=rb.UNBOUNDED).tradeoff(alpha)
    exact = gaussian(alpha, arb(1) / arb(scale))
    assert not found > exact
    assert exact - found < 2e-9


ROWS = ([7, 2, 1, 0, 6], [4, 4, 4, 3, 1]), ([1, 2, 3, 4, 6], [6, 4, 3, 2, 1]), ([0, 8, 8], [8, 8, 0])


def best_test(p, q, alpha):
    """The least miss rate of a test of Q against P, by the lemma of Neyman and Pearson, in fractions."""
    left, hit = Fraction(alpha), Fraction(0)
    for a, b in sorted(
        zip(p, q, strict=True), key=lambda pair: pair[1] * 10**6 // max(pair[0], 1) + pair[1] * (not pair[0]) * 10**9
    )[::-1]:
        share = min(Fraction(1), left / Fraction(a, 16)) if a else Fraction(1)
        hit, left = hit + share * Fraction(b, 16), left - share * Fraction(a, 16)
    return 1 - hit


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("alpha", [0.0, 0.05, 0.125, 0.3, 0.5, 0.8])
def test_a_table_of_two_laws_has_the_convex_hull_of_both_best_tests(rows, alpha):
    """Of one pair and its mirror image: the largest convex function below both curves, by all mixtures of two tests."""
    m = rb.Table(
        query=rb.Query(range=rb.Interval(0, 1), sensitivity=1.0),
        inputs=(0, 1),
        outputs=tuple(range(len(rows[0]))),
        weights=[[each * 2**58 for each in row] for row in rows],
    )
    found = m.tradeoff(alpha)
    direct = min(best_test(*rows, alpha), best_test(*rows[::-1], alpha))
    corners = [Fraction(at, 16) for at in range(17)]
    curve = {at: min(best_test(*rows, at), best_test(*rows[::-1], at)) for at in (*corners, Fraction(alpha))}
    mixed = min(
        curve[a] + (curve[b] - curve[a]) * (Fraction(alpha) - a) / (b - a)
        for a in corners
        for b in corners
        if a <= alpha <= b and a < b
    )
    hull = min(direct, mixed)
    assert Fraction(found) <= hull
    assert float(hull) - found < 2e-9


def test_a_profile_that_is_too_small_gives_a_curve_that_is_too_high():
    """The control: with half of delta the curve is above the exact one."""
    m = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=QUERY, bounding=rb.UNBOUNDED)
    assert miss_rate(lambda epsilon: 0.5 * m.delta(epsilon), 1.0, 0.25) > laplace(0.25, 1.0)


def test_a_profile_without_an_end_is_followed_as_far_as_it_pays():
    asked = []

    def profile(epsilon):
        asked.append(epsilon)
        return max(0.0, 0.5 - epsilon / 60.0)

    assert miss_rate(profile, float("inf"), 1e-13) == pytest.approx(1.0, abs=0.2)
    assert max(asked) < 100.0
    assert len(asked) < 60


def test_nothing_published_is_told_apart_by_nothing():
    assert [miss_rate(lambda _: 0.0, 0.0, alpha) for alpha in (0.0, 0.25, 1.0)] == [1.0, 0.75, 0.0]


def test_rates_that_are_asked_together_are_those_that_are_asked_one_by_one():
    m = rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=rb.Query(range=rb.Interval(0, 4), sensitivity=1.0))
    rates = [0.0, 1e-6, 0.01, 0.3, 0.5, 0.99, 1.0]
    alone = np.array([m.tradeoff(each) for each in rates])
    np.testing.assert_allclose(m.tradeoff(rates), alone, rtol=0.0, atol=1e-9)
    rough = m.tradeoff(rates, tolerance=1e-3)
    assert np.all(rough <= alone + 1e-9)
    assert np.all(rough >= alone - 1e-3)
    asked = []
    for tolerance in (1e-9, 1e-3):
        asked.append(0)

        def profile(epsilon):
            asked[-1] += 1
            return m.delta(epsilon)

        miss_rate(profile, m.epsilon(), 0.3, tolerance=tolerance)
    assert asked[1] < asked[0]  # control: a tolerance that did nothing would not be faster


# By riskcal 1.5.1 with losses of dp_accounting 0.6.0 in steps of 1e-4: scale, times, rate; miss rate at 1 %, advantage.
BY_RISKCAL = [
    (1.0, 1, 1.0, 1.0 - 0.09236214091562367, 0.38292492254810667),
    (5.0, 20, 1.0, 1.0 - 0.07608316579170837, 0.3452791621398657),
    (1.0, 1000, 0.01, 1.0 - 0.02909970914854909, 0.16101842080670986),
]


@pytest.mark.parametrize(("scale", "times", "rate", "missed", "advantage"), BY_RISKCAL)
def test_riskcal_finds_the_same_for_gaussian_noise(scale, times, rate, missed, advantage):
    query = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)
    m = rb.Mechanism(noise=rb.Gaussian(scale=scale), query=query, bounding=rb.UNBOUNDED)
    part = SampledEvent(mechanism=m, rate=rate, times=times) if rate < 1.0 else (m, times)
    risk = rb.compose(part)
    assert risk.tradeoff(0.01) == pytest.approx(missed, abs=5e-5)
    assert risk.advantage() == pytest.approx(advantage, abs=5e-5)
