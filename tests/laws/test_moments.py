"""Moments: the fast route against the exact one, which tests/crosscheck compares with mpmath."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rangebound as rb
from rangebound.laws.distribution import moments
from tests.matrix.cells import Cell, every_cell, places


@every_cell
def test_the_fast_route_is_the_exact_one(cell: Cell) -> None:
    mechanism = cell.mechanism()
    locations = places(mechanism, 3, seed=41)
    fast = moments(mechanism.noise, mechanism.shape, locations)
    for i, location in enumerate(locations):
        sharp = moments(mechanism.noise, mechanism.shape, np.asarray(location))
        spread = math.sqrt(float(sharp.variance)) + abs(float(sharp.bias))
        assert fast.mean[i] == pytest.approx(float(sharp.mean), rel=1e-13, abs=1e-11 * spread)
        assert fast.bias[i] == pytest.approx(float(sharp.bias), abs=1e-11 * spread)
        assert fast.mae[i] == pytest.approx(float(sharp.mae), rel=1e-11)
        assert fast.mse[i] == pytest.approx(float(sharp.mse), rel=1e-11)
        assert fast.variance[i] == pytest.approx(float(sharp.variance), rel=1e-11)


@pytest.mark.parametrize("away", [10.0, 50.0])
@pytest.mark.parametrize("noise", [rb.Laplace(scale=1e6), rb.Gaussian(scale=1e6)], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("bounding", [rb.TRUNCATE, rb.RECTIFY], ids=["truncate", "rectify"])
def test_the_fast_route_keeps_its_digits_far_outside(noise: object, bounding: object, away: float) -> None:
    """A location many scales outside a support much narrower than the scale: the mean still lies in the support."""
    support, location = rb.Interval(0.3, 10.3), -away * 1e6
    mechanism = rb.Mechanism(
        noise=noise, query=rb.Query(range=rb.Interval(-1e8, 1e8), sensitivity=1.0), support=support, bounding=bounding
    )
    fast = moments(mechanism.noise, mechanism.shape, np.array([location]))
    sharp = moments(mechanism.noise, mechanism.shape, np.asarray(location))
    assert float(fast.mean[0]) == pytest.approx(float(sharp.mean), rel=1e-9)
    assert float(fast.variance[0]) == pytest.approx(float(sharp.variance), rel=1e-9)


def test_more_answers_than_a_chunk() -> None:
    mechanism = Cell("laplace", "truncate", "interval", "equal").mechanism()
    many = np.linspace(-1.0, 2.0, 5000)
    found = mechanism.law(many).mean
    assert found.shape == (5000,)
    assert (np.diff(found) > 0.0).all()
    assert found[4999] == pytest.approx(float(mechanism.law(2.0).mean), rel=1e-12)
