"""The auxiliary statements of [fu2023] by brute force, each with a control that must fail."""

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

import rangebound as rb

LINE = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)
INTERVALS = [(-1.0, 2.0), (0.2, 0.7), (-3.0, -1.0), (2.0, 2.5), (-6.0, 6.0)]


def kept(at, lower, upper, sigma):
    """The mass that normal noise around `at` leaves in the interval (mu = 1)."""
    return ndtr((upper - at) / sigma) - ndtr((lower - at) / sigma)


def factors(order, lower, upper, sigma):
    """A and B of Theorem 3.2."""
    zero, one = kept(0.0, lower, upper, sigma), kept(1.0, lower, upper, sigma)
    a = one ** (order - 1.0) * kept(1.0 - order, lower, upper, sigma) / zero**order
    b = zero ** (order - 1.0) * kept(order, lower, upper, sigma) / one**order
    return a, b


@pytest.mark.parametrize(("lower", "upper"), INTERVALS)
@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
def test_theorem_3_2_both_factors_are_at_most_one(lower, upper, sigma):
    for order in (1.0, 1.2, 2.0, 3.5, 5.0):
        assert max(factors(order, lower, upper, sigma)) <= 1.0 + 1e-9
    if upper - lower < 10.0:  # the control: below order 1 the inequality turns round
        assert min(factors(0.5, lower, upper, sigma)) > 1.0
    a, _ = factors(2.0, lower, upper, sigma)
    m = rb.Mechanism(noise=rb.Gaussian(scale=sigma), query=LINE, support=rb.Interval(lower, upper))
    assert rb.renyi(m.law(0.0), m.law(1.0), 2.0) == pytest.approx(1.0 / sigma**2 + math.log(a), rel=1e-6, abs=1e-9)


def aczel(a, b):
    """Both sides of Aczel's inequality (eq. 14)."""
    left = (a[0] ** 2 - (a[1:] ** 2).sum()) * (b[0] ** 2 - (b[1:] ** 2).sum())
    return left, (a[0] * b[0] - (a[1:] * b[1:]).sum()) ** 2


def test_definition_3_3_aczels_inequality():
    source = np.random.default_rng(0)
    for _ in range(500):
        a, b = source.random((2, 4))
        a[0], b[0] = (math.sqrt((each[1:] ** 2).sum()) * (1.0 + source.random()) for each in (a, b))
        left, right = aczel(a, b)
        assert left <= right * (1.0 + 1e-12)
    left, right = aczel(np.asarray([0.1, 1.0, 0.5]), np.asarray([0.2, 0.3, 1.0]))
    assert left > right  # the control: without the condition on the first terms


@pytest.mark.parametrize("mu", [0.05, 1.0, 4.0])
@pytest.mark.parametrize("scale", [0.3, 1.0, 8.0])
def test_theorem_4_2_the_untruncated_divergence_is_not_negative(mu, scale):
    for order in (1.0, 1.3, 2.0, 10.0):
        rise = order / (2.0 * order - 1.0) * math.exp((order - 1.0) * mu / scale)
        fall = (order - 1.0) / (2.0 * order - 1.0) * math.exp(-order * mu / scale)
        assert rise + fall >= 1.0 - 1e-15
    assert 2.0 / 3.0 * math.exp(0.05 / 8.0) < 1.0  # the control: the first term alone does not suffice


def slopes(f, inner, outer):
    """The sizes of the slopes over an inner and an outer interval with the same middle."""
    return [abs((f(b) - f(a)) / (b - a)) for a, b in (inner, outer)]


def test_theorem_4_4_the_outer_slope_is_the_larger():
    functions = [math.exp, lambda x: -math.exp(-x), lambda x: math.exp(-x), lambda x: x**3 + x, lambda x: -(x**3) - x]
    for f, (half, more, middle) in itertools.product(functions, itertools.product((0.1, 1.0), (0.2, 2.0), (-1.0, 0.5))):
        inner, outer = slopes(f, (middle - half, middle + half), (middle - half - more, middle + half + more))
        assert inner <= outer
    inner, outer = slopes(lambda x: x - x**3 / 6.0, (-0.1, 0.1), (-1.0, 1.0))
    assert inner > outer  # the control: f' and f''' of different signs


@pytest.mark.parametrize("order", [1.5, 2.0, 8.0])
def test_definitions_2_7_and_2_8_the_divergences_on_the_line(order):
    """Also Definition 2.4: from the densities."""
    laplace = order * math.exp(order - 1.0) + (order - 1.0) * math.exp(-order)
    formulas = {
        rb.Gaussian: (lambda x: -x * x / 2.0 - 0.5 * math.log(2.0 * math.pi), order / 2.0),
        rb.Laplace: (lambda x: -abs(x) - math.log(2.0), math.log(laplace / (2.0 * order - 1.0)) / (order - 1.0)),
    }
    for noise, (log_density, formula) in formulas.items():
        parts = [(-35.0, -8.0), (-8.0, 0.0), (0.0, 1.0), (1.0, 35.0)]
        inside = sum(
            quad(lambda x, f=log_density: math.exp(order * f(x) + (1.0 - order) * f(x - 1.0)), *part, limit=200)[0]
            for part in parts
        )
        assert math.log(inside) / (order - 1.0) == pytest.approx(formula, rel=1e-6)
        m = rb.Mechanism(noise=noise(scale=1.0), query=LINE, bounding=rb.UNBOUNDED)
        assert m.rdp(order) == pytest.approx(formula, rel=1e-9)
        assert m.rdp(order + 0.5) != pytest.approx(formula, rel=1e-3)  # the control: another order


@pytest.mark.parametrize("delta", [1e-2, 1e-6])
@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_lemma_2_6_the_conversion_never_promises_too_much(delta, scale):
    m = rb.Mechanism(noise=rb.Gaussian(scale=scale), query=LINE, bounding=rb.UNBOUNDED)
    orders = np.geomspace(1.1, 200.0, 60)
    curve = orders / (2.0 * scale**2)
    found = curve + np.log((orders - 1.0) / orders) - (math.log(delta) + np.log(orders)) / (orders - 1.0)
    assert all(m.delta(float(each)) <= delta for each in found if each > 0.0)
    assert m.delta(0.8 * m.epsilon(delta)) > delta  # the control: a smaller epsilon would be too much
    assert found.min() < 1.5 * m.epsilon(delta)


def test_lemma_2_3_a_function_of_the_output_costs_nothing():
    plain = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=rb.Query(range=rb.Interval(0, 5), sensitivity=1.0),
                         bounding=rb.UNBOUNDED)  # fmt: skip
    clamped, again = (
        rb.Mechanism(noise=plain.noise, query=plain.query, support=rb.Interval(0, 5), bounding=each)
        for each in (rb.RECTIFY, rb.TRUNCATE)
    )
    for epsilon in (0.2, 0.7):
        assert clamped.delta(epsilon) <= plain.delta(epsilon) * (1.0 + 1e-12)
    assert again.epsilon() > plain.epsilon()  # the control: drawing again is not a function of the output
