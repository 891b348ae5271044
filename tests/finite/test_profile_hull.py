"""The hull of all pairs: an upper bound on the profile, at most 2^-46 above it, at every epsilon."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mpf

from rangebound.ball import precision, up
from rangebound.finite.profile_hull import SLACK, _hull, profile_hull
from tests.finite import brute_force
from tests.finite.random_tables import random_table


@pytest.mark.parametrize("seed", range(30))
def test_the_hull_bounds_the_profile_closely(seed):
    table = random_table(np.random.default_rng(seed))
    pairs = brute_force.neighbouring_inputs(table.inputs, table.query.range.spans, table.query.sensitivity)
    hull = profile_hull(table.weights, table.reach)
    for epsilon in (0.0, 1e-6, 0.1, 0.7, 2.0, 10.0, 40.0, 80.0):
        exact = brute_force.delta(table.weights.tolist(), pairs, epsilon)
        with precision(192):
            found = mpf(up(hull.delta(epsilon)))
        assert exact <= found <= exact + 2.1 * SLACK


def test_the_upper_hull_has_falling_slopes():
    rng = np.random.default_rng(1)
    points = sorted({(int(x), int(y)) for x, y in rng.integers(0, 50, (200, 2))})
    corners = _hull(points)
    slopes = [Fraction(b[1] - a[1], b[0] - a[0]) for a, b in itertools.pairwise(corners)]
    assert slopes == sorted(slopes, reverse=True)
    for x, y in points:
        left = max(corner for corner in corners if corner[0] <= x)
        right = min(corner for corner in corners if corner[0] >= x)
        height = (
            left[1] if left == right else left[1] + Fraction(right[1] - left[1], right[0] - left[0]) * (x - left[0])
        )
        assert y <= height


def test_control_a_hull_without_the_worst_pair_is_below_the_profile():
    weights = np.array([[3 << 60, 1 << 60], [1 << 60, 3 << 60], [1 << 60, 3 << 60]])
    whole = profile_hull(weights, np.array([1, 2, 2]))
    without = profile_hull(weights, np.array([0, 2, 2]))
    assert math.isclose(float(whole.delta(0.0).mid()), 0.5, abs_tol=1e-12)
    assert float(without.delta(0.0).mid()) < 1e-12
