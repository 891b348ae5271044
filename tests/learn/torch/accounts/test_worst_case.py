"""The account of training against quadrature: every factor of the bound, and both directions of a Poisson sample."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import rangebound as rb
from rangebound.learn.torch.accounts import worst_case
from tests.learn.torch.accounts.test_accounts import hockey_sticks
from tests.thinning import crossed

CLIP = 1.0
NODES, WEIGHTS = np.polynomial.legendre.leggauss(400)
LINE = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=CLIP)
SHORT = rb.Query(range=rb.Interval(-2.0, 2.0), sensitivity=CLIP)


def step(query: rb.Query, bounding: Any, *, scale: float = 2.0, **changes: Any) -> worst_case.Step:
    mechanism = rb.Mechanism(noise=rb.Gaussian(scale=scale), query=query, bounding=bounding)
    return worst_case.Step(**{"mechanism": mechanism, "coordinates": 3, "rate": 1.0, "together": False, **changes})


@pytest.mark.parametrize(("together", "coordinates", "times"), [(False, 3, 4), (False, 1, 7), (True, 3, 4)])
def test_the_pure_epsilon_adds_up_over_coordinates_and_steps(together: bool, coordinates: int, times: int) -> None:
    one = step(SHORT, rb.TRUNCATE, coordinates=coordinates, together=together)
    laws = [one.mechanism.law(a).log_pdf(np.linspace(-2.0, 2.0, 801)) for a in np.linspace(-2.0, 2.0, 401).tolist()]
    loss = max(float(np.abs(a - b).max()) for a, b in zip(laws[:-100], laws[100:], strict=True))  # CLIP apart
    exact = times * (1 if together else coordinates) * loss
    assert worst_case.epsilon({one: times}, 0.0) == pytest.approx(exact, rel=1e-4)


def both_directions(rate: float, coordinates: int, epsilon: float) -> np.ndarray:
    """Delta of one unbounded step on a Poisson sample, for adding and for removing a person, by quadrature.

    The noise is isotropic, so the shift by the clip in every coordinate is a shift by clip * sqrt(coordinates) in one.
    """
    shift = CLIP * math.sqrt(coordinates) / 2.0
    z, width = np.linspace(-12.0, 14.0, 2_000_001, retstep=True)
    return hockey_sticks(width * norm.pdf(z - shift), width * norm.pdf(z), rate, np.array([epsilon]))[:, 0]


@pytest.mark.few(1)
@crossed({"coordinates": [1, 2, 9], "rate": [0.05, 0.5, 0.95]})
def test_a_sampled_step_is_exact_in_the_worse_direction(rate: float, coordinates: int) -> None:
    delta = 1e-3
    found = worst_case.epsilon({step(LINE, rb.UNBOUNDED, coordinates=coordinates, rate=rate): 1}, delta)
    added, removed = both_directions(rate, coordinates, found)
    assert max(added, removed) <= delta * (1.0 + 1e-6)
    assert max(both_directions(rate, coordinates, 0.99 * found)) > delta


def test_control_one_direction_alone_would_promise_too_much() -> None:
    """At a large rate the epsilon that is enough for removing a person is not enough for adding one."""
    delta, rate, coordinates = 1e-3, 0.5, 9
    found = worst_case.epsilon({step(LINE, rb.UNBOUNDED, coordinates=coordinates, rate=rate): 1}, delta)
    added, removed = both_directions(rate, coordinates, 0.8 * found)
    assert removed < delta < added


def products(mechanism: rb.Mechanism, rate: float, at: float, epsilon: float) -> np.ndarray:
    """The same of two truncated coordinates that move together from `at`, by quadrature in the plane."""
    one, other = (2.0 * WEIGHTS * np.exp(mechanism.law(place).log_pdf(2.0 * NODES)) for place in (at, at + CLIP))
    return hockey_sticks(np.outer(other, other).ravel(), np.outer(one, one).ravel(), rate, np.array([epsilon]))[:, 0]


@pytest.mark.parametrize("rate", [0.2, 0.9])
def test_a_sampled_truncated_step_keeps_its_epsilon_in_both_directions(rate: float) -> None:
    delta = 1e-3
    one = step(SHORT, rb.TRUNCATE, scale=0.7, coordinates=2, rate=rate)
    found = worst_case.epsilon({one: 1}, delta)
    seen = [products(one.mechanism, rate, at, found) for at in (-2.0, -1.3, -0.5, 0.2, 1.0)]
    assert max(map(max, seen)) <= delta * (1.0 + 1e-4)
    assert max(max(products(one.mechanism, rate, at, 0.5 * found)) for at in (-2.0, -0.5, 1.0)) > delta


@pytest.mark.slow
def test_the_risk_of_a_run_is_that_of_the_gaussian_that_dominates_it() -> None:
    run = worst_case.together({step(LINE, rb.UNBOUNDED, coordinates=4): 2, step(LINE, rb.UNBOUNDED, together=True): 1})
    mu = math.sqrt(2 * 4 * 0.5**2 + 0.5**2)
    exact = 2.0 * norm.cdf(0.5 * mu) - 1.0
    assert exact <= run.advantage() <= exact + 1e-4
    assert run.tradeoff(0.1) == pytest.approx(norm.cdf(norm.isf(0.1) - mu), abs=1e-4)
    assert worst_case.together({}).advantage() == 0.0
    sampled = worst_case.together({step(LINE, rb.UNBOUNDED, coordinates=4, rate=0.1): 2})
    assert 0.0 < sampled.advantage() < 0.5 * run.advantage()  # control: a sample reveals less


def test_the_risk_of_a_run_is_enclosed_by_an_example_with_the_longest_gradient() -> None:
    found = worst_case.risk({step(LINE, rb.UNBOUNDED, together=True): 4}).enclosed.advantage()
    exact = 2.0 * norm.cdf(0.5 * math.sqrt(4 * 0.5**2)) - 1.0
    assert found.lower <= exact <= found.upper
    assert found.width < 1e-4
    many = worst_case.risk({step(LINE, rb.RECTIFY, coordinates=9): 1}).enclosed.advantage()
    one = 2.0 * norm.cdf(0.5 * 0.5) - 1.0  # one coordinate, far from the ends
    assert 0.5 * one < many.lower <= one * (1.0 + 1e-9) < many.upper
    assert worst_case.risk({}).enclosed.advantage().upper == 0.0
