"""PLDs to be composed: their cumulants against sums over every outcome, and the tilt that centres them."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from rangebound.accounting.pld.cumulants import PLDComposition, tilt_for_epsilon
from rangebound.accounting.pld.discretization import DiscretePLD

ONE = DiscretePLD(0.25, np.array([-2, 0, 1, 4]), np.array([0.1, 0.5, 0.3, 0.09]), 0.01)
TWO = DiscretePLD(0.5, np.array([-1, 1]), np.array([0.4, 0.6]), 0.0)
COMPOSITION = PLDComposition((ONE, TWO), (2, 3))


def outcomes() -> tuple[np.ndarray, np.ndarray]:
    """Every sum of finite privacy losses, and its mass."""
    parts = [ONE, ONE, TWO, TWO, TWO]
    sums = [sum(each) for each in itertools.product(*(part.losses for part in parts))]
    masses = [math.prod(each) for each in itertools.product(*(part.mass for part in parts))]
    return np.asarray(sums), np.asarray(masses)


@pytest.mark.parametrize("t", [0.0, 0.5, 3.0, -1.0])
def test_the_cumulants_are_those_of_the_sum(t):
    sums, masses = outcomes()
    weights = masses * np.exp(t * sums)
    total = weights.sum()
    mean = (weights * sums).sum() / total
    variance = (weights * (sums - mean) ** 2).sum() / total
    assert COMPOSITION.cumulants(t) == pytest.approx((math.log(total), mean, variance), rel=1e-12)


def test_the_sizes_of_a_composition():
    sums, _ = outcomes()
    assert COMPOSITION.count == 5
    assert COMPOSITION.reach == 1.0
    assert COMPOSITION.extremes == (sums.min(), sums.max())
    low, high = COMPOSITION.infinite
    assert low <= 1 - (1 - Fraction(0.01)) ** 2 <= high
    assert high - low < 1e-15


@pytest.mark.parametrize("t", [0.0, 2.0, 50.0])
def test_the_blur_covers_the_rounding_of_the_masses(t):
    """Against the same masses in 60 digits."""
    with mp.workdps(60):
        for pld, (log_m, masses) in zip(COMPOSITION.plds, COMPOSITION.tilted(t), strict=True):
            exact = [
                mp.mpf(float(m)) * mp.exp(mp.mpf(t) * mp.mpf(float(x)))
                for m, x in zip(pld.mass, pld.losses, strict=True)
            ]
            total = mp.fsum(exact)
            blur = COMPOSITION.blur(t)
            assert abs(log_m - mp.log(total)) <= blur
            assert all(abs(mp.mpf(float(m)) * total / e - 1) <= blur for m, e in zip(masses, exact, strict=True))


def test_the_tilt_centres_the_sum_and_is_never_negative():
    for epsilon in (1.0, 2.0, 3.0):
        assert COMPOSITION.cumulants(tilt_for_epsilon(COMPOSITION, epsilon))[1] == pytest.approx(epsilon, rel=1e-2)
    assert tilt_for_epsilon(COMPOSITION, -1.0) == 0.0
