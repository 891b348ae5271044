"""Moments from coordinates against numpy; simulated noise is fixed and of its law; both kinds of intervals compared."""

import math

import numpy as np
import pytest
from scipy import stats

from rangebound.laws.laplace import Laplace
from rangebound.release.noise import moment_intervals as own
from rangebound.release.noise.draw import AddedNoise, Reading


def coordinates(x, y):
    a, b, c = map(float, (own.ALPHA, own.BETA, own.GAMMA))
    u, v = x + y - 1.0, x - y
    return np.array([a * len(x), b * u.sum(), b * v.sum(), c * (u * u).sum(), c * (v * v).sum(), 2 * c * (u * v).sum()])


def reading(values, noise, level=0.95, half=None):
    half = noise.scale * 5.0 if half is None else half
    values = tuple(map(float, values))
    intervals = tuple((each - half, each + half) for each in values)
    return Reading(values=values, intervals=intervals, added=AddedNoise(noise=noise, level=level, slack=0.0), part=0)


def sample(rows=400, seed=1):
    chance = np.random.default_rng(seed)
    x = chance.uniform(0, 1, rows)
    return x, np.clip(0.3 * x + chance.uniform(0, 0.7, rows), 0, 1)


def test_moments_are_those_of_numpy():
    x, y = sample()
    found = own.moments(coordinates(x, y))
    assert found.rows == pytest.approx(400)
    assert (found.x, found.y) == (pytest.approx(x.mean()), pytest.approx(y.mean()))
    assert (found.xx, found.yy) == (pytest.approx(x.var()), pytest.approx(y.var()))
    assert found.xy == pytest.approx(np.cov(x, y, bias=True)[0, 1])
    assert own.correlation(found)[0] == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert own.slope(found)[0] == pytest.approx(stats.linregress(x, y).slope)


@pytest.mark.parametrize("gaussian", [False, True])
def test_simulated_noise_is_fixed_and_of_its_law(gaussian):
    found = own._noise(6, gaussian=gaussian)
    assert found.shape == (own.DRAWS, 6)
    law = stats.norm() if gaussian else stats.laplace()
    for column in found.T:
        assert stats.kstest(column, law.cdf).pvalue > 1e-3
    assert np.abs(np.corrcoef(found.T) - np.eye(6)).max() < 0.06
    assert (found * 2**20 == np.round(found * 2**20)).all()
    own._noise.cache_clear()
    assert (own._noise(6, gaussian=gaussian) == found).all()


def test_at_levels_beyond_the_draws_arithmetic_is_taken():
    x, y = sample(4000)
    values, noise = coordinates(x, y), Laplace(scale=1.0)
    far = reading(values, noise, level=0.999999, half=15.0)
    found = own.interval(far, own.correlation, own.correlation_bounds, (-1.0, 1.0))
    assert found == own.correlation_bounds(own.box(far))
    assert own.slope_bounds(own.box(reading(np.zeros(6), noise))) == own.ALL


def test_boxes_hold_what_is_in_them():
    chance, (x, y) = np.random.default_rng(3), sample(500)
    values, noise = coordinates(x, y), Laplace(scale=0.2)
    box = own.box(reading(values, noise, half=2.0))
    assert box is not None
    for _ in range(500):
        found = own.moments(values + chance.uniform(-2.0, 2.0, 6))
        for name in ("x", "y", "xx", "yy", "xy"):
            low, high = getattr(box, name)
            assert low <= getattr(found, name) <= high, name
        if own.correlation(found)[1]:
            low, high = own.correlation_bounds(box)
            assert low <= own.correlation(found)[0] <= high


def test_moments_without_rows_or_variance_claim_nothing():
    noise = Laplace(scale=1.0)
    for values in (np.zeros(6), -np.ones(6), coordinates(np.full(50, 0.5), np.full(50, 0.25))):
        own_reading = reading(values, noise)
        ends = own.interval(own_reading, own.correlation, own.correlation_bounds, (-1.0, 1.0))
        assert ends == (-1.0, 1.0)
        value = float(own.correlation(own.steadied(own_reading))[0])
        assert -1.0 <= value <= 1.0
        assert math.isfinite(value)
