"""What an attacker gains: brute force over outputs, closed forms, the audit, the sentence, and the smallest mu."""

import math
import re

import numpy as np
import pytest
from scipy.optimize import brentq

import rangebound as rb
from rangebound.privacy.attack_risk import guaranteed, odds
from rangebound.privacy.gdp import delta_of_mu, mu_of_pure
from rangebound.privacy.tradeoff_curve import smallest_mu
from tests.privacy.closed_forms import ROWS, free, table

P, Q = np.array(ROWS[0]) / 16
TABLE = table(ROWS[0])
COIN = rb.DiscreteLaplace(scale=1.0)
LAPLACE = free(rb.Laplace(scale=1.0))
CUT = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=rb.Query(range=rb.Interval(0, 4), sensitivity=1.0))


@pytest.mark.parametrize("prior", [0.0, 1e-9, 0.1, 0.3, 0.5, 0.6, 0.95, 1.0])
def test_the_success_is_that_of_the_best_guess_at_every_output(prior):
    exact = max(np.maximum(prior * a, (1 - prior) * b).sum() for a, b in ((P, Q), (Q, P)))
    assert exact - 1e-15 <= TABLE.success(prior) <= exact + 1e-12
    assert TABLE.success(prior) >= max(prior, 1.0 - prior)


def test_the_advantage_is_the_total_variation_distance():
    exact = 0.5 * np.abs(P - Q).sum()
    assert exact <= TABLE.advantage() <= exact + 1e-12
    assert LAPLACE.advantage() == pytest.approx(1 - math.exp(-0.5), abs=1e-9)
    assert TABLE.success() == pytest.approx(0.5 + 0.5 * exact, abs=1e-12)


@pytest.mark.parametrize("prior", [1e-9, 0.1, 0.5, 0.9])
def test_the_posterior_is_that_of_the_worst_output(prior):
    exact = prior * math.e / (prior * math.e + 1 - prior)
    assert exact * (1 - 1e-15) <= COIN.posterior(prior) <= exact * (1 + 1e-12)
    assert TABLE.posterior(prior) == 1.0  # one output that one input never has
    assert (COIN.posterior(0.0), COIN.posterior(1.0)) == (0.0, 1.0)


@pytest.mark.parametrize("baseline", [0.0, 0.01, 0.2, 0.5, 1.0])
def test_a_reconstruction_is_at_most_what_the_curve_leaves(baseline):
    found = LAPLACE.reconstruction(baseline)
    assert 1.0 - LAPLACE.tradeoff(baseline) <= found <= 1.0 - LAPLACE.tradeoff(baseline) + 1e-15
    assert found >= baseline
    assert found <= min(1.0, math.e * baseline + 2e-9)


@pytest.mark.few(2)
@pytest.mark.parametrize("m", [TABLE, COIN, LAPLACE, CUT])
def test_the_audit_never_finds_more(m):
    """The event that an attack found, on outputs it was not searched on, with a bound that fails once in 10^9 runs."""
    found = rb.audit.attack(m, draws=20_000, confidence=1 - 1e-9)
    caught, accused = (each / found.held_out for each in found.hits)
    slack = math.sqrt(math.log(4e9) / (2 * found.held_out))
    assert caught - accused <= m.advantage() + 2 * slack
    assert 1.0 - caught + slack >= m.tradeoff(min(accused + slack, 1.0))


def test_the_audit_finds_more_where_the_truth_is_published():
    """The control: the same attack on a mechanism that claims a risk and adds no noise."""
    found = rb.audit.attack(lambda answer, count: np.full(count, answer), pair=(0.0, 1.0), draws=20_000)
    caught, accused = (each / found.held_out for each in found.hits)
    assert caught - accused == 1.0 > COIN.advantage() + 0.1


def test_a_bare_guarantee_allows_what_its_worst_mechanism_does():
    for epsilon, delta in ((1.0, 0.0), (0.3, 1e-6), (3.0, 0.1)):
        risk = guaranteed(epsilon, delta)
        exact = (math.expm1(epsilon) + 2 * delta) / (math.exp(epsilon) + 1)
        assert risk.advantage() == pytest.approx(exact, rel=1e-12)
        assert risk.tradeoff(0.1) == pytest.approx(
            max(1 - delta - math.exp(epsilon) * 0.1, math.exp(-epsilon) * (0.9 - delta), 0.0), abs=2e-9
        )
    assert guaranteed(1.0, 0.0).gdp() == pytest.approx(COIN.gdp(), rel=1e-9)
    assert guaranteed(math.inf, 0.0).advantage() == guaranteed(0.5, 1.0).advantage() == 1.0
    assert guaranteed(1.0, 1e-6).gdp() == math.inf


def test_arrays_are_answered_in_their_shape():
    assert COIN.tradeoff([[0.1, 0.5], [0.0, 1.0]]).shape == (2, 2)
    assert COIN.tradeoff(np.float64(0.1)) == COIN.tradeoff(np.asarray(0.1)) == COIN.tradeoff(0.1)


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan, math.inf, "0.5", None, True])
@pytest.mark.parametrize("name", ["tradeoff", "posterior", "success", "reconstruction"])
def test_what_is_no_probability_is_refused(name, bad):
    with pytest.raises(rb.RangeboundError, match=r"^(false_positive_rate|prior|baseline)="):
        getattr(COIN, name)(bad)


@pytest.mark.parametrize(
    ("advantage", "size", "right"),
    [
        (0.0, "1,000,000", "500,000"),
        (0.4621, "100", "74"),
        (0.02, "100", "51"),
        (0.001, "10,000", "5,005"),
        (1.0, "100", "100"),
    ],
)
def test_the_sentence_shows_whole_people_rounded_up(advantage, size, right):
    found = re.findall(r"[\d,]*\d", odds(advantage, "patients"))
    assert found[:2] == [size, right]
    assert odds(advantage, "patients").startswith(f"Of {size} patients, ")
    assert COIN.odds() == odds(COIN.advantage())


QUERY = rb.Query(range=rb.Interval(0, 4), sensitivity=1.0)
LINE = rb.Query(range=rb.Interval(0, math.inf), sensitivity=1.0)


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 1.0, 5.0, 20.0])
def test_randomized_response_has_the_mu_of_its_closed_form(epsilon):
    def coin(x):
        return max(0.0, math.exp(epsilon) - math.exp(x)) / (1.0 + math.exp(epsilon)) * (1 + 1e-15)

    found, _ = smallest_mu(coin, epsilon)
    assert mu_of_pure(epsilon) * (1 - 1e-12) <= found <= mu_of_pure(epsilon)


@pytest.mark.few(3)
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
    assert rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=LINE).gdp() == 1.0
    narrow = rb.Query(range=rb.Interval(0, 1), sensitivity=3.0)
    assert rb.Mechanism(noise=rb.Gaussian(scale=2.0), query=narrow, bounding=rb.UNBOUNDED).gdp() == 0.5


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


def test_a_delta_that_is_too_small_gives_a_mu_that_is_too_small():
    m = rb.DiscreteLaplace(scale=1.0)
    assert smallest_mu(lambda epsilon: 0.9 * m.delta(epsilon), 1.0)[0] < 0.99 * m.gdp()
