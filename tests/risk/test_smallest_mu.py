"""The smallest mu: against closed forms and a dense grid, never too small, with controls."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import rangebound as rb
from rangebound.gdp import delta_of_mu, mu_of_pure
from rangebound.risk.smallest_mu import smallest_mu

QUERY = rb.Query(range=rb.Interval(0, 4), sensitivity=1.0)
LINE = rb.Query(range=rb.Interval(0, math.inf), sensitivity=1.0)


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 1.0, 5.0, 20.0])
def test_randomized_response_has_the_mu_of_its_closed_form(epsilon):
    def coin(x):
        return max(0.0, math.exp(epsilon) - math.exp(x)) / (1.0 + math.exp(epsilon)) * (1 + 1e-15)

    found, _ = smallest_mu(coin, epsilon)
    assert mu_of_pure(epsilon) * (1 - 1e-12) <= found <= mu_of_pure(epsilon)


@pytest.mark.parametrize("scale", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("noise", [rb.Laplace, rb.Gaussian])
def test_no_epsilon_needs_more_and_one_nearly_as_much(noise, scale):
    """By a dense grid of epsilons: the mu whose own delta is that of the mechanism, at each of them."""
    m = rb.Mechanism(
        noise=noise(scale=scale), query=QUERY, bounding=rb.RECTIFY if noise is rb.Laplace else rb.UNBOUNDED
    )
    found, last = m.gdp(), min(m.epsilon(), 3.0 / scale)
    needs = []
    for epsilon in np.linspace(0.0, 0.999 * last, 40):
        delta = m.delta(float(epsilon))
        if delta > 1e-12:
            needs.append(brentq(lambda mu, e=float(epsilon), d=delta: delta_of_mu(mu, epsilon=e) - d, 1e-6, 60.0))
    assert max(needs) * (1 - 1e-9) <= found <= max(needs) * 1.003


def test_gaussian_noise_has_sensitivity_over_scale_and_bounds_make_it_no_worse():
    free = rb.Mechanism(noise=rb.Gaussian(scale=2.0), query=QUERY, bounding=rb.UNBOUNDED).gdp()
    assert free == 0.5
    for bounding, support in ((rb.RECTIFY, None), (rb.QUANTIZE, rb.Grid(step=1, within=rb.Interval(0, 4)))):
        assert rb.Mechanism(noise=rb.Gaussian(scale=2.0), query=QUERY, support=support, bounding=bounding).gdp() <= free
    assert rb.Mechanism(noise=rb.Gaussian(scale=2.0), query=QUERY).gdp() < free
    narrow = rb.Query(range=rb.Interval(0, 1), sensitivity=3.0)
    assert rb.Mechanism(noise=rb.Gaussian(scale=2.0), query=narrow, bounding=rb.UNBOUNDED).gdp() == 0.5


@pytest.mark.parametrize("at", [0.0, 0.3, 2.0, 5.0])
@pytest.mark.parametrize("apart", [0.1, 1.0])
def test_a_gaussian_cut_at_zero_is_told_apart_by_no_more_than_its_shift(at, apart):
    """The lemma behind the mu of truncated noise on a half-line, at many thresholds; gaps are the control."""
    cuts = np.linspace(0.01, 12.0, 300)

    def power(q):
        return norm.sf(cuts - q) / norm.sf(-q)

    assert (norm.isf(power(at)) - norm.isf(power(at + apart)) <= apart + 1e-9).all()
    assert rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=LINE).gdp() == 1.0


def test_a_support_with_gaps_may_leak_more_than_its_shift():
    query = rb.Query(range=rb.Interval(0, 7), sensitivity=1.0)
    m = rb.Mechanism(noise=rb.Gaussian(scale=2.0), query=query, support=rb.Union((0, 1), (6, 7)))
    assert m.gdp() > 1.5 * 1.0 / 2.0
    endless = rb.Query(range=rb.Union((0, 1), (3, math.inf)), sensitivity=1.0)
    assert rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=endless).gdp() == math.inf


def test_what_gives_a_person_away_has_no_mu():
    m = rb.Mechanism(noise=rb.TruncatedLaplacian(scale=1.0, limit=7.0), query=LINE, bounding=rb.UNBOUNDED)
    assert m.gdp() == math.inf
    assert m.posterior(0.01) == 1.0


def test_nothing_has_the_mu_zero():
    assert smallest_mu(lambda _: 0.0, 0.0) == (0.0, 0.0)


def test_a_delta_that_is_too_small_gives_a_mu_that_is_too_small():
    """The control of all above."""
    m = rb.DiscreteLaplace(scale=1.0)
    assert smallest_mu(lambda epsilon: 0.9 * m.delta(epsilon), 1.0)[0] < 0.99 * m.gdp()
