"""Radii of sums of discrete Laplace noise, against exact distributions and exact moments."""

import math

import mpmath
import numpy as np
import pytest

from rangebound.release.noise.strategies.laplace_tail import laplace_radius


def outside(count, scale, weight, radius):
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
    assert outside(count, scale, 0.5, radius) <= 1 - level
    assert count * scale < 2 or outside(count, scale, 0.5, radius / 2) > 1 - level or level < 0.9  # not all there is


def test_control_a_radius_of_fewer_draws_is_too_small_and_none_is_none():
    radius, none = laplace_radius([7.5**2, 0.0], [7.5, 0.0], 0.95)
    assert outside(12, 7.5, 1.0, radius) > 0.05
    assert none == 0.0


@pytest.mark.parametrize("scale", [0.02, 0.1, 0.3, 0.5, 1.0, 2.0, 5.0, 20.0, 100.0])
def test_no_even_moment_is_above_that_of_continuous_noise(scale):
    with mpmath.workdps(40):
        ratio = mpmath.exp(-1 / mpmath.mpf(scale))
        for order in range(2, 26, 2):
            exact = 2 * (1 - ratio) / (1 + ratio) * mpmath.polylog(-order, ratio)
            assert exact <= mpmath.factorial(order) * mpmath.mpf(scale) ** order
