"""Laws one at a time and in batches: what they say at the ends, in gaps, at atoms and far away."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rangebound as rb
from rangebound.errors import ArgumentError, RangeboundError

INF = math.inf


def mechanism(bounding: rb.Law = rb.TRUNCATE, support: object = None, noise: object = None) -> rb.Mechanism:
    """A mechanism on [0, 3], or on another support."""
    return rb.Mechanism(
        noise=noise or rb.Laplace(scale=1.0),
        query=rb.Query(range=rb.Interval(-5, 5), sensitivity=1.0),
        support=support or rb.Interval(0, 3),
        bounding=bounding,
    )


def test_truncated_laplace_in_closed_form() -> None:
    law = mechanism().law(1.0)
    kept = 1.0 - 0.5 * math.exp(-1.0) - 0.5 * math.exp(-2.0)
    assert float(law.pdf(1.0)) == pytest.approx(0.5 / kept, rel=1e-15)
    assert float(law.cdf(1.0)) == pytest.approx(0.5 * (1.0 - math.exp(-1.0)) / kept, rel=1e-15)
    assert float(law.log_norm) == pytest.approx(math.log(kept), rel=1e-14)


def test_clamping_collects_the_tails_at_the_ends() -> None:
    law = mechanism(rb.RECTIFY).law(1.0)
    points, weights = law.atoms
    assert points.tolist() == [0.0, 3.0]
    np.testing.assert_allclose(weights, [0.5 * math.exp(-1.0), 0.5 * math.exp(-2.0)], rtol=1e-15)
    assert float(law.cdf(0.0)) == pytest.approx(weights[0], rel=1e-15)
    assert float(law.cdf(-1e-9)) == 0.0
    assert float(law.sf(3.0)) == pytest.approx(weights[1], rel=1e-15)
    assert float(law.mass(0.0, 0.0)) == pytest.approx(weights[0], rel=1e-15)
    assert float(law.quantile(0.1)) == 0.0
    assert float(law.quantile(0.99)) == 3.0


def test_rounding_leaves_atoms_only() -> None:
    law = mechanism(rb.QUANTIZE, rb.Grid(step=1.0, within=rb.Interval(0, 3))).law(1.2)
    points, weights = law.atoms
    assert points.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert weights.sum() == pytest.approx(1.0, abs=1e-15)
    assert float(law.pdf(1.0)) == 0.0
    assert float(law.log_pdf(1.0)) == -INF
    assert float(law.mass(0.5, 2.5)) == pytest.approx(weights[1] + weights[2], rel=1e-14)


def test_a_gap_has_no_mass_and_its_quantile_is_the_end_before_it() -> None:
    law = mechanism(support=rb.Union((0, 1), (2, 3))).law(1.5)
    assert float(law.mass(1.0, 2.0)) == 0.0
    assert float(law.pdf(1.5)) == 0.0
    assert float(law.quantile(0.5)) == 1.0
    assert 2.0 <= float(law.quantile(0.5 + 1e-9)) < 2.0 + 1e-8
    assert float(law.cdf(1.7)) == pytest.approx(0.5, rel=1e-15)


def test_quantiles_at_the_ends_of_the_law() -> None:
    assert mechanism().law(1.0).quantile([0.0, 1.0]).tolist() == [0.0, 3.0]
    half = mechanism(support=rb.Interval(0, INF)).law(1.0)
    assert half.quantile([0.0, 1.0]).tolist() == [0.0, INF]
    line = mechanism(rb.UNBOUNDED, rb.Interval(-INF, INF)).law(1.0)
    assert line.quantile([0.0, 0.5, 1.0]).tolist() == [-INF, 1.0, INF]


def test_batches_broadcast() -> None:
    law = mechanism().law(np.linspace(0.0, 3.0, 4)[:, None])
    x = np.array([0.1, 0.9, 2.4])
    assert law.pdf(x).shape == law.cdf(x).shape == law.quantile(x / 3.0).shape == (4, 3)
    assert law.mean.shape == (4, 1)
    assert law.atoms[1].shape == (4, 1, 0)


def test_an_answer_outside_the_range_is_clipped_first() -> None:
    m = mechanism()
    assert float(m.law(99.0).location) == 5.0
    assert float(m.law(-99.0).mean) == float(m.law(-5.0).mean)


@pytest.mark.parametrize("probability", [-1e-9, 1.0 + 1e-9, math.nan, "half", None, True])
def test_a_probability_that_is_none_is_refused(probability: object) -> None:
    with pytest.raises(RangeboundError, match="probability"):
        mechanism().law(1.0).quantile(probability)


@pytest.mark.parametrize("x", [math.nan, [0.0, math.nan], "x", None, True])
def test_a_place_that_is_none_is_refused(x: object) -> None:
    law = mechanism().law(1.0)
    for method in (law.pdf, law.log_pdf, law.cdf, law.sf):
        with pytest.raises(RangeboundError):
            method(x)


def test_a_reversed_interval_is_refused() -> None:
    with pytest.raises(ArgumentError, match="order"):
        mechanism().law(1.0).mass(2.0, 1.0)
