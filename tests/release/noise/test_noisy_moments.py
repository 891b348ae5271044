"""Moments from coordinates against numpy; simulated noise is fixed and of its law; both kinds of intervals compared.

The interval of a ratio: the law of its noise by another route, its ends by theirs, and that it holds as said.
"""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from rangebound.laws.gaussian import Gaussian
from rangebound.laws.laplace import Laplace
from rangebound.release.noise import noisy_moments as own
from rangebound.release.noise.draw import AddedNoise, Reading
from rangebound.release.noise.forms import form_of
from rangebound.release.noise.noisy_moments import _tail, ratio_interval
from rangebound.release.plan.kinds.kind import KINDS
from rangebound.release.plan.unit import Unit
from tests.thinning import crossed


def coordinates(x, y):
    a, b, c = map(float, (own.ALPHA, own.BETA, own.GAMMA))
    u, v = x + y - 1.0, x - y
    return np.array([a * len(x), b * u.sum(), b * v.sum(), c * (u * u).sum(), c * (v * v).sum(), 2 * c * (u * v).sum()])


def reading(values, noise, level=0.95, half=None):
    half = noise.scale * 5.0 if half is None else half
    values = tuple(map(float, values))
    intervals = tuple((each - half, each + half) for each in values)
    return Reading(values=values, intervals=intervals, added=AddedNoise(noise=noise, level=level, slack=0.0), part=0)


def correlation_ends(reading):
    found = own.correlation(own._simulated(reading.values, reading.added))
    return own.interval(reading, found, lambda: own.correlation_bounds(own.box(reading)), (-1.0, 1.0))


def sample(rows=400, seed=1):
    chance = np.random.default_rng(seed)
    x = chance.uniform(0, 1, rows)
    return x, np.clip(0.3 * x + chance.uniform(0, 0.7, rows), 0, 1)


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
    found = correlation_ends(far)
    assert found == own.correlation_bounds(own.box(far))
    assert own.box(reading(np.zeros(6), noise)) is None


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
        assert correlation_ends(own_reading) == (-1.0, 1.0)
        value = float(own.correlation(own.steadied(own_reading))[0])
        assert -1.0 <= value <= 1.0
        assert math.isfinite(value)


NOISES = [(Laplace(scale=2.0), stats.laplace(scale=2.0)), (Gaussian(scale=2.0), stats.norm(scale=2.0))]


@pytest.mark.few(9)
@crossed(
    {
        "seen": [0.1, 3.0, 25.0],
        "a, b": [(1.0, 0.0), (1.0, 0.3), (0.7, 1.3), (1.0, 1.0), (1.0, 1.0 + 1e-9), (3.0, 1.0)],
        "noise, law": NOISES,
    }
)
def test_the_tail_of_two_draws_is_that_of_a_quadrature(noise, law, a, b, seen):
    added, small = AddedNoise(noise=noise, level=0.95, slack=0.0), 1e-12
    a, b = max(a, b), min(a, b)
    if b == 0.0:
        expected = 2 * law.sf(seen / a)
    else:
        far = [-80.0, 0.0, *sorted((-seen / b, seen / b)), 80.0]
        inner = sorted({each for each in far if -80.0 <= each <= 80.0})
        expected = sum(
            integrate.quad(lambda y: law.pdf(y) * (law.sf((seen - b * y) / a) + law.cdf((-seen - b * y) / a)), *ends)[0]
            for ends in itertools.pairwise(inner)
        )
    assert _tail(added, a, b, seen) == pytest.approx(expected, rel=1e-5, abs=small)
    assert _tail(added, b, a, seen) == _tail(added, a, b, seen)


@pytest.mark.parametrize(("noise", "law"), NOISES, ids=["laplace", "gaussian"])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.9999])
def test_what_is_outside_is_too_large_for_noise_and_the_interval_has_all_else(noise, law, level):
    added = AddedNoise(noise=noise, level=level, slack=0.0)
    for p, q in ((150.0, -50.0), (30.0, 3.0), (8.0, -1.0), (4.0, 3.5), (60.0, -59.0)):
        value, (lower, upper) = ratio_interval(p, q, added, lower=-4.0, upper=40.0)
        assert lower <= value <= upper
        inside = []
        for ratio in np.linspace(-4.0, 40.0, 2001):
            seen = abs((1 - ratio) * p + (1 + ratio) * q)
            inside.append(_tail(added, abs(1 - ratio), abs(1 + ratio), seen) >= 1 - level)
        plausible = np.linspace(-4.0, 40.0, 2001)[inside]
        if len(plausible):
            assert lower <= plausible.min() + 1e-9
            assert upper >= plausible.max() - 1e-9


def test_a_denominator_that_is_not_positive_says_nothing():
    added = AddedNoise(noise=Laplace(scale=1.0), level=0.95, slack=0.0)
    for p, q in ((1.0, 1.0), (-3.0, 2.0), (0.0, 0.0)):
        value, ends = ratio_interval(p, q, added, lower=0.0, upper=9.0)
        assert ends == (0.0, 9.0)
        assert 0.0 <= value <= 9.0


def test_slack_and_a_higher_level_widen_it():
    widths = []
    for level, slack in ((0.5, 0.0), (0.95, 0.0), (0.95, 0.5), (0.999, 0.5)):
        added = AddedNoise(noise=Laplace(scale=1.0), level=level, slack=slack)
        lower, upper = ratio_interval(150.0, -50.0, added, lower=0.0, upper=10.0)[1]
        widths.append(upper - lower)
    assert widths == sorted(widths)
    assert len(set(widths)) == 4


def squares(x):
    return np.array([((1.0 - x) ** 2).sum(), (2.0 * x * (1.0 - x)).sum(), (x * x).sum()])


def test_variances_of_coordinates_are_those_of_numpy_with_a_private_or_a_public_number_of_rows():
    x, _ = sample(300)
    for given, rows in ((squares(x), None), (squares(x)[1:], 300)):
        found, there = own.variances(np.array([given]), rows)
        assert found[0] == pytest.approx(np.var(x), rel=1e-12)
        assert there[0]
    assert not own.variances(np.array([[-1.0, -1.0, 1.0]]), None)[1][0]


@pytest.mark.parametrize("noise", [Laplace(scale=8.0), Gaussian(scale=8.0)])
@pytest.mark.parametrize("kind", ["variance", "standard deviation"])
def test_intervals_of_spreads_hold_as_often_as_stated_and_are_six_errors_wide_at_most(kind, noise):
    """Control: the intervals of noise half as large do not hold."""
    question = KINDS[kind](name="v", column="x", range=(0.0, 1.0))
    form, chance, times = form_of(question, Unit()), np.random.default_rng(4), 400
    x = chance.beta(2.0, 5.0, 3000)
    true, draw = getattr(np, "var" if kind == "variance" else "std")(x), chance.laplace
    draw = chance.normal if isinstance(noise, Gaussian) else draw
    held, wrong, widths, errors = 0, 0, [], []
    for _ in range(times):
        drawn = reading(squares(x) + draw(0.0, 8.0, 3), noise, half=40.0)
        found = form.estimate(drawn)
        half = AddedNoise(noise=replace(noise, scale=4.0), level=0.95, slack=0.0)
        narrow = form.estimate(replace(drawn, added=half))
        held += found.lower <= true <= found.upper
        wrong += narrow.lower <= true <= narrow.upper
        widths.append(found.upper - found.lower)
        errors.append((found.value - true) ** 2)
        assert found.lower <= found.value <= found.upper
        box = form.earlier_estimate(drawn)
        assert box.upper - box.lower > 2.0 * widths[-1]
    assert held >= 358  # fewer of 400 at 0.95 have a chance of 1e-5
    assert wrong < 358
    assert np.mean(widths) <= 6.0 * math.sqrt(np.mean(errors))


def test_a_clamped_coordinate_has_the_interval_of_the_coordinates():
    question = KINDS["variance"](name="v", column="x", range=(0.0, 1.0))
    form, clamped = form_of(question, Unit()), reading([30.0, 0.0, 5.0], Laplace(scale=4.0))
    assert form.estimate(clamped).upper == form.earlier_estimate(clamped).upper
