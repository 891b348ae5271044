"""What an attacker gains, of mechanisms: brute force over outputs, closed forms, the audit, and the sentence."""

import math
import re

import numpy as np
import pytest

import rangebound as rb
from rangebound.risk import ProfileRisk, guaranteed, odds

P, Q = np.array([7, 2, 1, 0, 6]) / 16, np.array([4, 4, 4, 3, 1]) / 16
TABLE = rb.Table(
    query=rb.Query(range=rb.Interval(0, 1), sensitivity=1.0),
    inputs=(0, 1),
    outputs=range(5),
    weights=[[int(each * 16) * 2**58 for each in row] for row in (P, Q)],
)
COIN = rb.DiscreteLaplace(scale=1.0)
QUERY = rb.Query(range=rb.Interval(0, 4), sensitivity=1.0)
LAPLACE = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=QUERY, bounding=rb.UNBOUNDED)


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


@pytest.mark.parametrize("m", [TABLE, COIN, LAPLACE])
def test_the_advantage_is_the_widest_gap_of_the_curve(m):
    rates = np.linspace(0.0, 1.0, 41)
    gaps = 1.0 - rates - m.tradeoff(rates)
    assert gaps.max() <= m.advantage() + 2e-9
    assert gaps.max() >= m.advantage() - 0.05


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


@pytest.mark.parametrize("m", [TABLE, COIN, LAPLACE, rb.Mechanism(noise=rb.Laplace(scale=1.0), query=QUERY)])
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


def test_a_profile_of_any_kind_has_the_same_risks():
    risk = ProfileRisk(profile=COIN.delta, pure=COIN.epsilon(), mu=1.0)
    assert risk.tradeoff(0.2) == COIN.tradeoff(0.2)
    assert risk.success(0.3) == COIN.success(0.3)
    assert risk.gdp() == 1.0


def test_arrays_are_answered_in_their_shape():
    assert COIN.tradeoff([[0.1, 0.5], [0.0, 1.0]]).shape == (2, 2)
    assert isinstance(COIN.tradeoff(0.1), float)
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
