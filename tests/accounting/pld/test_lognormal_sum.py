"""Sums of lognormal numbers on a grid of equal ratios: above the truth in convex order, and close to it."""

import itertools
import math

import mpmath
import numpy as np
import pytest

from rangebound.accounting.pld import allocation_profile as sums
from rangebound.accounting.pld.allocation_profile import SumLaw, lognormal_sum, running_sums


def points_of(law):
    return np.concatenate([[0.0], np.exp(law.logarithms)]), np.concatenate([[law.zero], law.mass])


def expected(law, kink, sign):
    """Of max(sign (x - kink), 0): these functions make up all convex ones."""
    points, masses = points_of(law)
    return float((np.maximum(sign * (points - kink), 0.0) * masses).sum())


@pytest.mark.few(2)
@pytest.mark.parametrize(("mu", "count"), [(15.0, 1000), (1.0, 100), (0.3, 1), (1e-6, 3), (1.0, 10**9), (2.5, 7)])
def test_masses_and_means_are_those_of_the_sum(mu, count):
    law = lognormal_sum(mu, count)
    points, masses = points_of(law)
    assert masses.min() >= 0.0
    assert 1.0 - 1e-12 <= masses.sum() <= 1.0 + 1e-4  # by rounding up, in the worst case of 10^9 summands
    assert (points * masses).sum() == pytest.approx(count, rel=1e-4)
    assert law.lost < 1e-30
    variance = ((points / count - 1.0) ** 2 * masses).sum()
    true = math.expm1(mu * mu) / count
    assert true * (1.0 - 1e-9) <= variance * (1.0 + 1e-9) or mu > 4.0  # there it is in what was cut off
    assert variance < 1.09 * true + 1e-12


@pytest.mark.few(1)
@pytest.mark.parametrize("mu", [3.0, 0.5])
def test_one_number_is_above_the_truth_for_all_convex_functions(mu):
    law = lognormal_sum(mu, 1)
    for kink in np.exp(mu * np.linspace(-6.0, 6.0, 7) - 0.5 * mu * mu).tolist():
        with mpmath.workdps(30):
            d = (mpmath.log(kink) + mu * mpmath.mpf(mu) / 2) / mu
            call = mpmath.ncdf(mu - d) - kink * mpmath.ncdf(-d)
            put = kink * mpmath.ncdf(d) - mpmath.ncdf(d - mu)
        for sign, exact in ((1.0, float(call)), (-1.0, float(put))):
            assert exact * (1.0 - 1e-12) <= expected(law, kink, sign) + law.lost <= exact * 1.01 + 1e-25


def test_sums_of_two_short_laws_by_enumeration():
    """Every pair of points by itself: the masses of the sum are above it for all convex functions, with the mean."""
    generator = np.random.default_rng(4)
    cases = [*itertools.product((2.0**-3, 2.0**-6), (3, 40, 400), (0,), (0.0, 0.25)), (2.0**-30, 5, 10**9, 0.0)]
    for step, size, away, zero in cases:
        firsts = generator.integers(-50, 50, 2) + np.array([0, away])
        one, two = (
            SumLaw(step=step, first=int(first), mass=generator.random(size), zero=zero, lost=0.0) for first in firsts
        )
        found = sums._added(one, two)
        (a, p), (b, q) = points_of(one), points_of(two)
        values, weights = np.add.outer(a, b).ravel(), np.outer(p, q).ravel()
        points, masses = points_of(found)
        assert masses.sum() == pytest.approx(weights.sum(), rel=1e-12)
        assert (points * masses).sum() == pytest.approx((values * weights).sum(), rel=1e-12)
        for kink in np.quantile(values, [0.0, 0.1, 0.4, 0.5, 0.8, 0.99]).tolist():
            exact, mean = (float((np.maximum(values - each, 0.0) * weights).sum()) for each in (kink, 0.0))
            assert exact <= expected(found, kink, 1.0) + 1e-13 * mean
            assert expected(found, kink, 1.0) <= exact + (max(step**2, step / size) + 1e-12) * mean or zero
        lowered = SumLaw(step=step, first=found.first - 1, mass=found.mass, zero=found.zero, lost=0.0)
        assert expected(lowered, 0.0, 1.0) < mean * (1.0 - 0.5 * step)  # control: a point too low is seen


def test_cutting_keeps_the_mean_below_and_says_what_is_lost_above(monkeypatch):
    generator = np.random.default_rng(5)
    law = SumLaw(step=2.0**-5, first=-300, mass=np.exp(-np.abs(np.arange(600) - 300) / 5.0), zero=0.1, lost=0.0)
    monkeypatch.setattr(sums, "_TAIL", 1e-3)
    found = sums._cut(law, 2, 10)
    assert len(np.unique(found.mass[found.mass > 0])) < len(law.mass)
    kept = found.logarithms[-1]
    above = law.logarithms > kept
    values = np.exp(law.logarithms)
    lost = float((law.mass * values / 2.0)[above].sum() + 5.0 * law.mass[above].sum())
    assert lost <= found.lost <= 1e-3
    below, after = points_of(law), points_of(found)
    assert after[1].sum() == pytest.approx(below[1].sum() - law.mass[above].sum(), rel=1e-9)
    means = [float((points * masses).sum()) for points, masses in (below, after)]
    assert means[1] == pytest.approx(means[0] - float((law.mass * values)[above].sum()), rel=1e-9)
    row = generator.random(1000)
    assert running_sums(row) == pytest.approx(np.cumsum(row), rel=1e-14)
