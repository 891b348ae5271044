"""Bounds from values at Chebyshev points, against the same maximum on a fine mesh and against the theorem's error."""

from __future__ import annotations

import numpy as np
import pytest

from rangebound.privacy.windows.chebyshev import lebesgue, nodes, tops, truncation

MESH = np.linspace(-1.0, 1.0, 200_001)
CURVES = {
    "inner peak": lambda x: 1.0 - (x - 0.2) ** 2,
    "at an end": lambda x: np.exp(2.0 * x),
    "negative": lambda x: -np.cosh(x - 0.3),
    "two peaks": lambda x: np.cos(4.0 * x) + 0.01 * x,
    "flat": lambda x: 1.0 + 1e-12 * x,
}


@pytest.mark.parametrize("degree", [24, 48])
def test_the_bound_is_above_the_largest_value_and_close_to_it(degree: int) -> None:
    values = np.stack([curve(nodes(degree)) for curve in CURVES.values()])
    for bound, attained, place, curve in zip(*tops(values), CURVES.values(), strict=True):
        largest = curve(MESH).max()
        assert attained <= largest + 1e-9 * abs(largest)
        assert largest <= bound + 1e-15
        assert bound <= largest + 2e-8 * abs(largest)
        assert curve(place) >= largest - 1e-6 * abs(largest)


def test_a_floor_leaves_rows_below_it_rough_but_true() -> None:
    values = np.stack([np.cos(4.0 * nodes(24)), 2.0 + np.cos(4.0 * nodes(24))])
    bounds = tops(values, floor=2.9).upper
    assert bounds[0] >= 1.0
    assert 3.0 <= bounds[1] <= 3.0 + 1e-7


def test_the_truncation_error_of_a_pole_is_covered_and_a_larger_ellipse_is_not() -> None:
    """1/(x - a) has its pole at a: inside the ellipse of any rho above a + sqrt(a^2 - 1) the theorem says nothing."""
    a, degree = 1.5, 12
    rho = 2.0  # reaches to (rho + 1/rho)/2 = 1.25
    bound = 1.0 / (a - 1.25)
    coefficients = np.polynomial.chebyshev.chebfit(nodes(degree), 1.0 / (nodes(degree) - a), degree)
    error = np.abs(np.polynomial.chebyshev.chebval(MESH, coefficients) - 1.0 / (MESH - a)).max()
    assert error <= bound * truncation(degree, rho)
    assert error > bound * truncation(degree, 8.0)  # the control: outside the theorem


def test_errors_of_values_grow_by_the_lebesgue_constant_at_most() -> None:
    dice = np.random.default_rng(1)
    for degree in (6, 24, 48):
        signs = dice.choice([-1.0, 1.0], size=(200, degree + 1))
        for row in signs:
            coefficients = np.polynomial.chebyshev.chebfit(nodes(degree), row, degree)
            assert np.abs(np.polynomial.chebyshev.chebval(MESH[::100], coefficients)).max() <= lebesgue(degree) + 1e-9
