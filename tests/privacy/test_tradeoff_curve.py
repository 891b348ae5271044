"""Trade-off curves: closed forms in balls, tests of Neyman and Pearson in fractions, both ends, with controls."""

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, fmpq
from hypothesis import given, settings
from hypothesis import strategies as st

import rangebound as rb
from rangebound.accounting import SampledEvent
from rangebound.privacy.tradeoff_curve import attained_miss_rate, best_line, mirrored, turned
from rangebound.values.ball import ball
from tests.privacy.closed_forms import FAMILIES, RATES, ROWS, best_miss, free, laplace_curve, table


@pytest.mark.few(30)
@pytest.mark.parametrize("alpha", RATES)
@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("noise", FAMILIES)
def test_plain_noise_has_the_curve_of_its_closed_form(noise, scale, alpha):
    found, exact = free(noise(scale=scale)).tradeoff(alpha), FAMILIES[noise][1](alpha, 1 / arb(scale))
    assert not found > exact
    assert exact - found < 2e-9


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("alpha", [0.0, 0.05, 0.125, 0.3, 0.5, 0.8])
def test_a_table_of_two_laws_has_the_convex_hull_of_both_best_tests(rows, alpha):
    """Of one pair and its mirror image: the largest convex function below both curves, by all mixtures of two tests."""
    p, q = ([Fraction(each, 16) for each in row] for row in rows)
    found, corners = table(rows).tradeoff(alpha), [Fraction(at, 16) for at in range(17)]
    curve = {at: min(best_miss(p, q, at), best_miss(q, p, at)) for at in (*corners, Fraction(alpha))}
    mixed = [
        curve[a] + (curve[b] - curve[a]) * (Fraction(alpha) - a) / (b - a)
        for a in corners
        for b in corners
        if a <= alpha <= b and a < b
    ]
    hull = min(curve[Fraction(alpha)], *mixed)
    assert Fraction(found) <= hull
    assert float(hull) - found < 2e-9


def test_a_profile_that_is_too_small_gives_a_curve_that_is_too_high():
    """The control: with half of delta the curve is above the exact one."""
    m = free(rb.Laplace(scale=1.0))
    assert best_line(lambda epsilon: 0.5 * m.delta(epsilon), 1.0, 0.25)[1] > laplace_curve(0.25, arb(1))


def test_a_profile_without_an_end_is_followed_as_far_as_it_pays():
    asked = []

    def profile(epsilon):
        asked.append(epsilon)
        return max(0.0, 0.5 - epsilon / 60.0)

    assert best_line(profile, float("inf"), 1e-13)[1] == pytest.approx(1.0, abs=0.2)
    assert max(asked) < 100.0
    assert len(asked) < 60


@pytest.mark.slow
def test_rates_that_are_asked_together_are_those_that_are_asked_one_by_one():
    m = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=rb.Query(range=rb.Interval(0, 4), sensitivity=1.0))
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

        best_line(profile, m.epsilon(), 0.3, tolerance=tolerance)
    assert asked[1] < asked[0]  # control: a tolerance that did nothing would not be faster


# By riskcal 1.5.1 with losses of dp_accounting 0.6.0 in steps of 1e-4: scale, times, rate; miss rate at 1 %, advantage.
BY_RISKCAL = [
    (1.0, 1, 1.0, 1.0 - 0.09236214091562367, 0.38292492254810667),
    (5.0, 20, 1.0, 1.0 - 0.07608316579170837, 0.3452791621398657),
    pytest.param(1.0, 1000, 0.01, 1.0 - 0.02909970914854909, 0.16101842080670986, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("scale", "times", "rate", "missed", "advantage"), BY_RISKCAL)
def test_riskcal_finds_the_same_for_gaussian_noise(scale, times, rate, missed, advantage):
    m = free(rb.Gaussian(scale=scale))
    part = SampledEvent(mechanism=m, rate=rate, times=times) if rate < 1.0 else (m, times)
    risk = rb.compose(part)
    assert risk.tradeoff(0.01) == pytest.approx(missed, abs=5e-5)
    assert risk.advantage() == pytest.approx(advantage, abs=5e-5)


LAWS = st.lists(st.integers(0, 40), min_size=2, max_size=6).filter(any)


def profile(p, q):

    def at(epsilon):
        t = ball(epsilon).exp()
        return sum(
            (arb(fmpq(a.numerator, a.denominator)) - t * arb(fmpq(b.numerator, b.denominator))).max(0)
            for a, b in zip(p, q, strict=True)
        )

    return at


@settings(max_examples=60, deadline=None)
@given(LAWS, LAWS, st.sampled_from([0.0, 1e-3, 0.1, 0.25, 0.5, 0.9, 1.0]))
def test_it_is_the_best_test_of_the_pair_or_a_little_worse(one, two, alpha):
    size = min(len(one), len(two))
    p, q = ([Fraction(each, sum(law[:size]) or 1) for each in law[:size]] for law in (one, two))
    if sum(p) != 1 or sum(q) != 1:
        p = q = [Fraction(1)]
    exact = best_miss(p, q, alpha)
    found = attained_miss_rate(profile(p, q), alpha)
    assert Fraction(found) >= exact
    if alpha or not any(b == 0 < a for a, b in zip(p, q, strict=True)):  # at 0 what one law alone has is not seen
        assert found - float(exact) < 1e-5


def test_a_profile_that_is_too_large_would_be_below_the_best_test():
    """The control: it says that a test misses less than any does."""
    p, q = [Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]
    exact = best_miss(p, q, 0.1)
    assert attained_miss_rate(profile(p, q), 0.1) >= exact
    assert attained_miss_rate(lambda x: profile(p, q)(x) + 0.01, 0.1) < exact


@pytest.mark.parametrize("x", [-2.0, -0.3, 0.0, 0.3, 2.0])
def test_turned_twice_it_is_the_same_and_turned_once_the_other_order(x):
    p, q = [Fraction(1, 2), Fraction(3, 8), Fraction(1, 8)], [Fraction(1, 8), Fraction(3, 8), Fraction(1, 2)]
    r = [Fraction(1, 4), Fraction(1, 4), Fraction(1, 2)]
    assert turned(profile(p, r))(x).overlaps(profile(r, p)(x))
    assert turned(turned(profile(p, r)))(x).overlaps(profile(p, r)(x))
    assert mirrored(profile(p, q))(x).overlaps(profile(q, p)(x))  # its own mirror image
    assert not mirrored(profile(p, r))(-1.0).overlaps(profile(p, r)(-1.0))  # control: this one is not


def test_wide_balls_give_a_larger_miss_rate_never_a_smaller_one():
    p, q = [Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]
    sharp, wide = profile(p, q), lambda x: profile(p, q)(x) + arb(0, 1e-6)
    found = [attained_miss_rate(each, 0.1, tolerance=1e-7) for each in (sharp, wide)]
    assert found[0] <= found[1] <= found[0] + 1e-4
    assert found[0] == pytest.approx(float(best_miss(p, q, 0.1)), abs=1e-6)
