"""Pairs of laws: values known otherwise, both directions, rounding to the safe side, batches, what is refused."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import norm

import rangebound as rb
from rangebound.errors import RangeboundError
from rangebound.privacy.pairs.divergences import renyi_formula, stick_formula
from tests.crosscheck.compare import agree
from tests.crosscheck.oracle import oracle
from tests.matrix.cells import ALLOWED, Cell, places

INF = math.inf


def free(noise: object) -> rb.Mechanism:
    """Unbounded noise."""
    return rb.Mechanism(noise=noise, query=rb.Query(range=rb.Interval(-9, 9), sensitivity=1.0), bounding=rb.UNBOUNDED)


def test_gaussian_hockey_stick_is_the_textbook_one() -> None:
    m = free(rb.Gaussian(scale=1.5))
    for epsilon in (-0.5, 0.0, 0.3, 2.0):
        shift = 1.0 / 1.5
        expected = norm.cdf(shift / 2 - epsilon / shift) - math.exp(epsilon) * norm.cdf(-shift / 2 - epsilon / shift)
        assert rb.hockey_stick(m.law(0.0), m.law(1.0), epsilon) == pytest.approx(expected, rel=1e-13)


def test_laplace_hockey_stick_is_the_textbook_one() -> None:
    m = free(rb.Laplace(scale=2.0))
    assert rb.hockey_stick(m.law(0.0), m.law(1.0), 0.2) == pytest.approx(-math.expm1(-0.15), rel=1e-14)
    assert rb.hockey_stick(m.law(0.0), m.law(1.0), 0.5) <= 1e-300
    assert rb.renyi(m.law(0.0), m.law(1.0), INF) == 0.5


def test_gaussian_renyi_is_the_textbook_one() -> None:
    m = free(rb.Gaussian(scale=1.5))
    for order in (1.01, 2.0, 50.0):
        assert rb.renyi(m.law(0.0), m.law(1.0), order) == pytest.approx(order / (2 * 1.5**2), rel=1e-15)
    assert rb.renyi(m.law(0.0), m.law(1.0), INF) == INF


def test_limited_noise_shows_its_edge() -> None:
    m = free(rb.TruncatedLaplacian(scale=1.0, limit=2.0))
    p, q = m.law(0.0), m.law(1.0)
    assert rb.renyi(p, q, 2.0) == INF
    outside = float(p.cdf(-1.0))
    assert rb.hockey_stick(p, q, 30.0) == pytest.approx(outside, rel=1e-14)
    assert rb.hockey_stick(m.law(-3.0), m.law(3.0), 1.0) == 1.0


@pytest.mark.parametrize("noise", [rb.Laplace(scale=1.0), rb.Gaussian(scale=1.0)], ids=["laplace", "gaussian"])
def test_a_negative_epsilon_gives_at_least_the_certain_event(noise: object) -> None:
    m = rb.Mechanism(noise=noise, query=rb.Query(range=rb.Interval(0, 4), sensitivity=1.0))
    p, q = m.law(1.0), m.law(2.0)
    assert rb.hockey_stick(p, q, -1.0) >= 1.0 - math.exp(-1.0)
    assert rb.hockey_stick(p, p, -1.0) == pytest.approx(1.0 - math.exp(-1.0), rel=1e-15)
    assert rb.hockey_stick(p, p, 0.0) == 0.0
    # D_eps(p || q) - D_-eps(q || p) e^eps = 1 - e^eps, for every pair of laws
    for epsilon in (0.1, 0.7, 2.5, 6.0):
        gap = rb.hockey_stick(p, q, epsilon) - math.exp(epsilon) * rb.hockey_stick(q, p, -epsilon)
        assert gap == pytest.approx(1.0 - math.exp(epsilon), abs=1e-12)
    assert rb.hockey_stick(m.law(3.0), m.law(4.0), -6.0) == pytest.approx(-math.expm1(-6.0), rel=1e-14)


@pytest.mark.parametrize("cell", [c for c in ALLOWED if c.range == "larger"], ids=str)
def test_single_laws_are_never_understated(cell: Cell) -> None:
    mechanism = cell.mechanism()
    true = oracle(mechanism)
    p, q = (float(x) for x in places(mechanism, 2, seed=51))
    for epsilon in (0.1, 1.3):
        assert mp.mpf(rb.hockey_stick(mechanism.law(p), mechanism.law(q), epsilon)) >= true.stick(p, q, epsilon)
    for order in (1.5, 9.0, INF):
        value, exact = rb.renyi(mechanism.law(p), mechanism.law(q), order), true.renyi(p, q, order)
        agree(value, exact, rel=1e-14, floor=1e-60)
        assert mp.mpf(value) >= exact


def test_batches_compare_element_by_element() -> None:
    m = Cell("gaussian", "truncate", "interval", "larger").mechanism()
    p, q = np.linspace(-1.0, 1.0, 5), np.array([[0.3], [1.4]])
    sticks = rb.hockey_stick(m.law(p), m.law(q), 0.2)
    renyis = rb.renyi(m.law(p), m.law(q), 3.0)
    losses = rb.renyi(m.law(p), m.law(q), INF)
    assert sticks.shape == renyis.shape == losses.shape == (2, 5)
    for i in range(2):
        for j in range(5):
            pair = m.law(p[j]), m.law(q[i, 0])
            assert sticks[i, j] == pytest.approx(rb.hockey_stick(*pair, 0.2), rel=1e-10, abs=1e-15)
            assert renyis[i, j] == pytest.approx(rb.renyi(*pair, 3.0), rel=1e-10, abs=1e-14)
            assert losses[i, j] == pytest.approx(rb.renyi(*pair, INF), rel=1e-14)


def test_a_batch_against_one_law() -> None:
    m = Cell("laplace", "rectify", "interval", "larger").mechanism()
    many = rb.hockey_stick(m.law(np.array([0.0, 1.0])), m.law(0.5), 0.3)
    assert many.shape == (2,)
    assert many[1] == pytest.approx(rb.hockey_stick(m.law(1.0), m.law(0.5), 0.3), rel=1e-12)


def test_formulas_know_equal_locations_and_far_ones() -> None:
    m = Cell("gaussian", "rectify", "interval", "larger").mechanism()
    same = np.array([0.5, 0.5])
    assert stick_formula(m.noise, m.shape, same, same, 0.3).tolist() == [0.0, 0.0]
    assert stick_formula(m.noise, m.shape, same, same, -0.3).tolist() == pytest.approx([-math.expm1(-0.3)] * 2)
    assert renyi_formula(m.noise, m.shape, same, same, 3.0).tolist() == [0.0, 0.0]
    far = stick_formula(m.noise, m.shape, np.array([-40.0]), np.array([40.0]), 1.0)
    assert far[0] == 1.0


def test_fisher_of_a_batch_is_that_of_its_laws() -> None:
    m = Cell("gaussian", "rectify", "interval", "larger").mechanism()
    at = np.array([[0.0], [0.7]])
    found = m.fisher(at)
    assert found.shape == (2, 1)
    assert found[1, 0] == m.fisher(0.7)


def test_fisher_is_infinite_where_an_edge_moves_and_only_there() -> None:
    assert free(rb.TruncatedLaplacian(scale=1.0, limit=2.0)).fisher(0.0) == INF
    query = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
    hidden = rb.Mechanism(noise=rb.TruncatedLaplacian(scale=1.0, limit=2.0), query=query)
    plain = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query)
    assert hidden.fisher(0.4) == pytest.approx(plain.fisher(0.4), rel=1e-14)


def test_fisher_bounds_the_squared_score_distance() -> None:
    """Renyi of order 2 of a small shift h is about F h^2."""
    for cell in (c for c in ALLOWED if c.range == "smaller" and c.noise == "gaussian"):
        m = cell.mechanism()
        at, step = 0.1, 1e-5
        if not any(a <= at < at + step <= b for a, b in m.query.range.spans):
            at = m.query.range.spans[0][0]
        near = rb.renyi(m.law(at), m.law(at + step), 2.0) / step**2
        assert near == pytest.approx(m.fisher(at), rel=1e-3), cell


@pytest.mark.parametrize("other", ["scale", "support", "bounding"])
def test_laws_of_different_mechanisms_are_refused(other: str) -> None:
    query = rb.Query(range=rb.Interval(0, 4), sensitivity=1.0)
    first = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query)
    second = {
        "scale": rb.Mechanism(noise=rb.Laplace(scale=2.0), query=query),
        "support": rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query, support=rb.Interval(0, 5)),
        "bounding": rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query, bounding=rb.RECTIFY),
    }[other]
    for compare in (lambda p, q: rb.hockey_stick(p, q, 1.0), lambda p, q: rb.renyi(p, q, 2.0)):
        with pytest.raises(RangeboundError, match="one mechanism"):
            compare(first.law(1.0), second.law(2.0))


@pytest.mark.parametrize("bad", [1.0, 0.5, -2.0, math.nan, "2", None, True])
def test_an_order_that_is_none_is_refused(bad: object) -> None:
    law = free(rb.Laplace(scale=1.0)).law(0.0)
    with pytest.raises(RangeboundError, match="alpha"):
        rb.renyi(law, law, bad)


@pytest.mark.parametrize("bad", [math.nan, INF, "1", None, True])
def test_an_epsilon_that_is_none_is_refused(bad: object) -> None:
    law = free(rb.Laplace(scale=1.0)).law(0.0)
    with pytest.raises(RangeboundError, match="epsilon"):
        rb.hockey_stick(law, law, bad)
