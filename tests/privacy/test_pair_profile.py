"""The profile of one pair, against quadrature of the densities, and the pair that is the worst."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

import rangebound as rb
from rangebound.ball import down, up
from rangebound.privacy import worst_delta
from rangebound.privacy.pair_profile import pair_profile, worst_pair_at

QUERY = rb.Query(range=rb.Interval(0, 4), sensitivity=1.0)
HALF = rb.Query(range=rb.Interval(0, math.inf), sensitivity=1.0)


@pytest.mark.parametrize("noise", [rb.Laplace(scale=1.0), rb.Gaussian(scale=1.0)])
@pytest.mark.parametrize("pair", [(0.0, 1.0), (1.0, 0.0), (1.5, 2.25)])
@pytest.mark.parametrize("epsilon", [-1.5, -0.2, 0.0, 0.4, 1.5])
def test_it_is_the_integral_of_what_one_density_is_above_the_other(noise, pair, epsilon):
    m = rb.Mechanism(noise=noise, query=QUERY)
    p, q = (m.law(each) for each in pair)

    def over(x):
        return max(float(p.pdf(x)) - math.exp(epsilon) * float(q.pdf(x)), 0.0)

    exact = sum(
        quad(over, a, b, limit=200)[0] for a, b in zip(np.linspace(0, 4, 17), np.linspace(0, 4, 17)[1:], strict=False)
    )
    assert float(pair_profile(m.noise, m.shape, pair)(epsilon).mid()) == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize("query", [QUERY, HALF])
@pytest.mark.parametrize("noise", [rb.Laplace(scale=1.0), rb.Gaussian(scale=1.0)])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.2])
def test_the_worst_pair_attains_the_profile_at_finite_answers(query, noise, epsilon):
    m = rb.Mechanism(noise=noise, query=query)
    pair = worst_pair_at(m.setting, epsilon)
    assert all(math.isfinite(each) and each >= 0.0 for each in pair)
    assert abs(pair[0] - pair[1]) <= 1.0
    found, worst = pair_profile(m.noise, m.shape, pair)(epsilon), worst_delta(m.setting, epsilon)
    assert down(found) <= worst.upper
    assert up(found) >= worst.lower * (1 - 1e-6)


def test_another_pair_leaks_less():
    """The control: near the middle truncated noise reveals less than at the end."""
    m = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=QUERY)
    middle = pair_profile(m.noise, m.shape, (1.5, 2.5))(0.9)
    assert up(middle) < 0.9 * worst_delta(m.setting, 0.9).lower
