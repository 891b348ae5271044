"""Lemmas 1 and 2 and Theorems 2 to 5 of [geng2020] by brute force, each with a control that must fail."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog

import rangebound as rb
from papers.geng2020._additive_noise import additive_noise_limits
from tests.errata.test_geng2020 import lower_bound, moment, reach, steps

LINE = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)
PAIRS = [(0.1, 0.01), (1.0, 1e-4), (1.0, 0.2), (5.0, 1e-6)]


def mechanism(epsilon, delta):
    noise = rb.TruncatedLaplacian(scale=1.0 / epsilon, limit=reach(epsilon, delta))
    return rb.Mechanism(noise=noise, query=LINE, bounding=rb.UNBOUNDED)


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_theorems_2_and_3_amplitude_and_power_of_the_noise(epsilon, delta):
    c = math.expm1(epsilon) / (2.0 * delta)
    amplitude = (1.0 - math.log1p(c) / c) / epsilon
    power = 2.0 / epsilon**2 * (1.0 - (0.5 * math.log1p(c) ** 2 + math.log1p(c)) / c)
    assert amplitude == pytest.approx(float(moment(epsilon, delta, 1)), rel=1e-9)
    assert power == pytest.approx(float(moment(epsilon, delta, 2)), rel=1e-9)
    error = mechanism(epsilon, delta).error(0.0)
    assert (error.mae, error.mse) == pytest.approx((amplitude, power), rel=1e-9)
    assert amplitude < 1.0 / epsilon  # less than Laplace noise, as the text says
    without = 2.0 / epsilon**2 * (1.0 - 0.5 * math.log1p(c) ** 2 / c)
    assert without != pytest.approx(float(moment(epsilon, delta, 2)), rel=1e-9)  # the control: a term left out


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_lemma_1_private_noise_is_noise_whose_shifts_hardly_differ(epsilon, delta):
    m, end = mechanism(epsilon, delta), reach(epsilon, delta)
    law = m.law(0.0)

    def excess(shift):
        """The largest P(S) - e^epsilon P(S + shift): the density falls, so the set is where it exceeds."""
        cuts = np.linspace(-end, end, 4001)
        here, there = law.pdf(0.5 * (cuts[1:] + cuts[:-1])), law.pdf(0.5 * (cuts[1:] + cuts[:-1]) + shift)
        above = here > math.exp(epsilon) * there * (1.0 + 1e-9)
        width = np.diff(cuts)
        return float(((here - math.exp(epsilon) * there) * width)[above].sum())

    assert max(excess(shift) for shift in (0.1, 0.5, 1.0, -1.0)) <= delta * 1.02
    assert m.delta(epsilon) == pytest.approx(delta, rel=1e-9)
    assert excess(1.5) > 1.2 * delta  # the control: beyond the sensitivity


def least_cost(epsilon, delta, sensitivity, half):
    """The smallest mean |i| of any distribution on the whole numbers that is (epsilon, delta)-private, as a program.

    P(S) - e^epsilon P(S + d) <= delta for all S means that the positive parts sum to at most delta.
    """
    size, shifts = 2 * half + 1, [d for d in range(-sensitivity, sensitivity + 1) if d]
    costs = np.concatenate([abs(np.arange(-half, half + 1)), np.zeros(size * len(shifts))])
    rows, limits = [], []
    for k, d in enumerate(shifts):
        for i in range(size):
            row = np.zeros(len(costs))
            row[i] += 1.0
            if 0 <= i + d < size:
                row[i + d] -= math.exp(epsilon)
            row[size + k * size + i] = -1.0
            rows.append(row)
            limits.append(0.0)
        row = np.zeros(len(costs))
        row[size + k * size : size + (k + 1) * size] = 1.0
        rows.append(row)
        limits.append(delta)
    whole = np.concatenate([np.ones(size), np.zeros(size * len(shifts))])[None]
    return float(linprog(costs, np.asarray(rows), limits, whole, [1.0]).fun)


@pytest.mark.parametrize(("epsilon", "n"), [(0.5, 3), (0.3, 2)])
def test_lemma_2_no_private_distribution_on_the_whole_numbers_costs_less(epsilon, n):
    b, sensitivity = math.exp(-epsilon), 4
    a = 0.5 * (1.0 - b) / (1.0 - b**n)
    delta = a * math.exp(epsilon) - 0.5 * math.expm1(epsilon)
    assert steps(epsilon, delta)[2] == pytest.approx(n)
    change = sum(b**i * (sensitivity - 2) for i in range(1, n))
    assert change >= 1.0  # condition (9) for the cost |i|
    bound = 2.0 * sum(a * b**k * (1 + k * sensitivity) for k in range(n))
    least = least_cost(epsilon, delta, sensitivity, half=20)
    assert least >= bound * (1.0 - 1e-7)
    more = bound + 2.0 * a * b**n * (1 + n * sensitivity)
    assert least < more  # the control: with one term more it would not be a bound


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_theorems_4_and_5_the_lower_bounds_are_below_what_is_reached(epsilon, delta):
    n = math.floor(steps(epsilon, delta)[2] + 1e-9)
    limits = additive_noise_limits(epsilon=epsilon, delta=delta, sensitivity=1.0)
    for power, limit in ((1, limits.amplitude_at_least), (2, limits.power_at_least)):
        printed = lower_bound(epsilon, delta, n, power)
        assert limit == pytest.approx(printed, rel=1e-9)
        assert printed <= float(moment(epsilon, delta, power))
    assert lower_bound(0.1, 0.15, 4, 1) > float(moment(0.1, 0.15, 1))  # the control: rounded up, it is above
