"""Noise on a lattice: its step, its variance by two routes, what can be published, and exact answers.

Radii of sums of discrete Laplace noise, against exact distributions and exact moments.
"""

import math
from fractions import Fraction
from statistics import NormalDist

import mpmath
import numpy as np
import pytest
from mpmath import mp
from scipy.signal import fftconvolve
from scipy.special import ndtr

from rangebound.errors import ArgumentError
from rangebound.release.noise.joint_loss import NoiseAccount
from rangebound.release.noise.strategies.strategy import (
    ExactAnswers,
    LatticeNoise,
    admits,
    gaussian_reach,
    laplace_radius,
    published,
    wholes,
)
from rangebound.sampling.entropy import secure_bits


@pytest.mark.parametrize("scale", [1e-3, 0.7, 1.0, 3.0, 5e3, 1e9])
def test_the_step_is_a_power_of_two_that_divides_one(scale):
    step = LatticeNoise(account=NoiseAccount.GAUSSIAN, scale=scale).step
    assert math.frexp(step)[0] == 0.5
    assert step <= 1.0
    assert step <= scale / 2**12


@pytest.mark.parametrize("scale", [0.05, 0.9, 4.0, 1e3])
def test_variance_is_the_sum_over_the_lattice_rounded_up(scale):
    noise = LatticeNoise(account=NoiseAccount.PURE, scale=scale)
    with mp.workdps(50):
        ratio = mp.exp(-1 / mp.mpf(scale))
        exact = 2 * ratio / (1 - ratio) ** 2
        assert exact <= noise.variance <= exact * (1 + mp.mpf(2) ** -50)
    gaussian = LatticeNoise(account=NoiseAccount.GAUSSIAN, scale=scale)
    assert scale**2 < gaussian.variance < scale**2 * (1 + 1e-8)


@pytest.mark.parametrize("account", NoiseAccount)
def test_draws_have_that_variance(account):
    """False alarms below 1e-12: 8 standard errors of 20,000 draws (fourth moments 3 and 6)."""
    noise = LatticeNoise(account=account, scale=7.0)
    drawn = noise.draw(20_000, secure_bits).astype(np.float64) * noise.step
    assert abs(drawn.mean()) < 8 * math.sqrt(noise.variance / 20_000)
    assert abs((drawn**2).mean() / noise.variance - 1) < 8 * math.sqrt(5 / 20_000)


def test_published_numbers_come_back_and_others_are_refused():
    steps = wholes([3, -5, 0, 2**53])
    assert admits(published(steps, 0.25), 0.25)
    assert wholes(published(steps, 0.25) / 0.25).tolist() == steps.tolist()
    for wrong in (0.1, -0.0, math.nan, math.inf, 2.0**54):
        assert not admits(np.array([wrong]), 0.25)
        assert not admits(np.array([0.5, wrong]), np.array([0.5, 0.25]))


def test_what_is_no_scale_or_no_whole_number_is_an_error_that_shows_no_number():
    for scale in (0.0, -1.0, 1e200):
        with pytest.raises(ArgumentError, match="scale"):
            LatticeNoise(account=NoiseAccount.GAUSSIAN, scale=scale)
    for wrong in ([1.5], [math.nan], np.array([1, 2.25], dtype=object), np.array([None])):
        with pytest.raises((AssertionError, ValueError, TypeError)) as caught:
            wholes(wrong)
        assert not any(character.isdigit() for character in str(caught.value))
    assert wholes(np.array([2**70], dtype=object)).tolist() == [2**70]


def outside(reach, weights, fineness=12):
    """P(|S| > reach standard deviations) for a weighted sum of rounded normal numbers, from all their probabilities."""
    step, span = 2.0**-fineness, 12
    points = np.arange(-span * 2**fineness, span * 2**fineness + 1)
    mass = np.diff(ndtr(np.concatenate([points - 0.5, [points[-1] + 0.5]]) * step))
    total = np.ones(1)
    for weight in weights:
        spread = np.zeros((len(mass) - 1) * weight + 1)
        spread[::weight] = mass
        total = fftconvolve(total, spread)
    places = (np.arange(len(total)) - len(total) // 2) * step
    deviation = math.sqrt(sum(weight**2 for weight in weights) * (1.0 + step**2 / 12))
    return math.fsum(total[np.abs(places) > reach * deviation].tolist())


@pytest.mark.few(4)
@pytest.mark.parametrize("weights", [(1,), (1, 1), (1, 2), (3, 1, 1)])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_a_sum_of_rounded_noise_stays_within_its_reach(weights, level):
    assert outside(gaussian_reach(level), weights) <= 1.0 - level
    assert gaussian_reach(level) < NormalDist().inv_cdf(0.5 + level / 2) + 0.004


def test_control_the_reach_of_a_normal_number_is_too_short():
    levels = [0.9 + at / 10_000 for at in range(1, 100)]
    assert any(outside(NormalDist().inv_cdf(0.5 + level / 2), (1,)) > 1.0 - level for level in levels)


@pytest.mark.parametrize("scale", [2.0**30, 1e17, 1e30, 1e100])
def test_the_last_bits_of_noise_hide_those_of_a_count_at_every_scale(scale):
    """Noise of doubles is a multiple of 2 or more from 2^53 on: an exact count that is added to it would be seen."""
    drawn = LatticeNoise(account=NoiseAccount.PURE, scale=scale).draw(200, secure_bits).tolist()
    assert 40 < sum(each % 2 for each in drawn) < 160  # fails by chance with probability 1e-17
    if scale <= 2.0**44:
        drawn = LatticeNoise(account=NoiseAccount.GAUSSIAN, scale=scale).draw(200, secure_bits).tolist()
        assert 40 < sum(each % 2 for each in drawn) < 160
    else:
        with pytest.raises(ArgumentError, match="so that doubles hold Gaussian noise exactly"):
            LatticeNoise(account=NoiseAccount.GAUSSIAN, scale=scale)


def test_values_are_the_nearest_doubles_also_of_very_large_numerators():
    numerators = np.array([[10**40 + 1, -1], [0, 7]], dtype=object)
    answers = ExactAnswers(numerators=numerators, denominator=3 * 10**30)
    exact = [[float(Fraction(each, answers.denominator)) for each in row] for row in numerators.tolist()]
    assert answers.values.tolist() == exact


def beyond(count, scale, weight, radius):
    """The exact probability that `weight` times the sum of some draws is beyond a radius."""
    far, ratio = math.ceil(60 * scale) + 5, math.exp(-1 / scale)
    law = (1 - ratio) / (1 + ratio) * ratio ** np.abs(np.arange(-far, far + 1))
    total = np.array([1.0])
    for _ in range(count):
        total = np.convolve(total, law)
    places = (np.arange(len(total)) - len(total) // 2) * weight
    return total[np.abs(places) > radius].sum()


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("count", [1, 2, 5, 12])
@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5])
def test_sums_lie_within_their_radius_as_often_as_asked(count, scale, level):
    (radius,) = laplace_radius([count * (0.5 * scale) ** 2], [0.5 * scale], level)
    assert beyond(count, scale, 0.5, radius) <= 1 - level
    assert count * scale < 2 or beyond(count, scale, 0.5, radius / 2) > 1 - level or level < 0.9  # not all there is


def test_control_a_radius_of_fewer_draws_is_too_small_and_none_is_none():
    radius, none = laplace_radius([7.5**2, 0.0], [7.5, 0.0], 0.95)
    assert beyond(12, 7.5, 1.0, radius) > 0.05
    assert none == 0.0


@pytest.mark.parametrize("scale", [0.02, 0.1, 0.3, 0.5, 1.0, 2.0, 5.0, 20.0, 100.0])
def test_no_even_moment_is_above_that_of_continuous_noise(scale):
    with mpmath.workdps(40):
        ratio = mpmath.exp(-1 / mpmath.mpf(scale))
        for order in range(2, 26, 2):
            exact = 2 * (1 - ratio) / (1 + ratio) * mpmath.polylog(-order, ratio)
            assert exact <= mpmath.factorial(order) * mpmath.mpf(scale) ** order
