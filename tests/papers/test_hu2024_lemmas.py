"""The lemmas of [hu2024] and its Theorem F.1 by brute force, each with a control that must fail."""

import itertools
import math

import numpy as np
import pytest

import rangebound as rb
from tests.errata import brute_force
from tests.errata.test_hu2024 import UNIT, divergence, kept, law, mechanism

PLACES = (-2.5, -0.4, 0.0, 1.3)


def gaussian(scale=1.0):
    return mechanism(rb.UNBOUNDED, scale)


@pytest.mark.few(2)
@pytest.mark.parametrize("at", PLACES)
def test_lemma_4_1_the_fisher_information_of_truncated_noise(at):
    phi, z = (lambda x: math.exp(-x * x / 2.0) / math.sqrt(2.0 * math.pi)), kept(at)
    low, high = -1.0 - at, 1.0 - at
    formula = 1.0 - ((phi(high) - phi(low)) / z) ** 2 + (low * phi(low) - high * phi(high)) / z
    brute = float(brute_force.fisher(lambda q: law(rb.TRUNCATE, q), at))
    assert formula == pytest.approx(brute, rel=1e-6)
    assert mechanism(rb.TRUNCATE).fisher(at) == pytest.approx(brute, rel=1e-6)
    without = 1.0 + (low * phi(low) - high * phi(high)) / z
    assert (without == pytest.approx(brute, rel=1e-6)) == (at == 0.0)  # the control: off the centre the square counts


@pytest.mark.few(1)
@pytest.mark.parametrize("order", [1.5, 2.0, 6.0])
@pytest.mark.parametrize("at", PLACES)
def test_lemmas_4_3_and_4_4_the_divergences_of_plain_and_rectified_noise(at, order):
    m = gaussian()
    assert rb.renyi(m.law(at), m.law(at + 1.0), order) == pytest.approx(order / 2.0, rel=1e-9)
    ends = [float(each) for each in law(rb.RECTIFY, at).atoms.values()]
    moved = [float(each) for each in law(rb.RECTIFY, at + 1.0).atoms.values()]
    inside = math.exp(order * (order - 1.0) / 2.0) * kept(at + 1.0 - order)
    total = inside + sum(p**order * q ** (1.0 - order) for p, q in zip(ends, moved, strict=True))
    assert math.log(total) / (order - 1.0) == pytest.approx(divergence(rb.RECTIFY, at, at + 1.0, order), rel=1e-6)
    if at == 0.0:  # the control: the atoms alone are not all
        assert math.log(total - inside) / (order - 1.0) < divergence(rb.RECTIFY, at, at + 1.0, order) - 1e-3


@pytest.mark.parametrize("order", [1.5, 2.0, 6.0])
def test_lemma_4_5_and_proposition_4_6_a_map_of_the_output_reveals_no_more(order):
    sign = rb.Mechanism(
        noise=rb.Gaussian(scale=1.0),
        query=gaussian().query,
        support=rb.Grid(step=2.0, within=UNIT),
        bounding=rb.QUANTIZE,
    )
    for at in PLACES:
        chain = [rb.renyi(m.law(at), m.law(at + 1.0), order) for m in (gaussian(), mechanism(rb.RECTIFY), sign)]
        assert chain[0] >= chain[1] >= chain[2]
    laplace = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=gaussian().query, bounding=rb.UNBOUNDED)
    again = rb.Mechanism(noise=laplace.noise, query=laplace.query, support=rb.Interval(0.0, math.inf))
    one, other = (rb.renyi(m.law(0.0), m.law(1.0), 10.0) for m in (laplace, again))
    assert other > one  # the control: drawing again is not a map of the output, and can reveal more


@pytest.mark.parametrize("order", [1.2, 2.0, 8.0])
def test_lemma_4_8_and_theorem_4_9_the_divergence_rises_with_the_shift_and_stays_below_plain_noise(order):
    m, shifts = mechanism(rb.TRUNCATE), np.linspace(0.05, 3.0, 60)
    for at in PLACES:
        values = np.asarray([rb.renyi(m.law(at), m.law(at + c), order) for c in shifts])
        assert (np.diff(values) > 0.0).all()
        assert (values <= order * shifts**2 / 2.0).all()
    gap = rb.Mechanism(noise=m.noise, query=m.query, support=rb.Union.excluding((-1.0, 1.0), within=m.query.range))
    assert rb.renyi(gap.law(-0.5), gap.law(0.5), 2.0) > 1.0  # the control: with a gap the ceiling does not hold


@pytest.mark.parametrize("at", PLACES)
def test_lemma_a1_and_theorem_4_2_a_statistic_has_no_more_information(at):
    grid = rb.Mechanism(
        noise=rb.Gaussian(scale=1.0),
        query=gaussian().query,
        support=rb.Grid(step=0.5, within=UNIT),
        bounding=rb.QUANTIZE,
    )
    plain, rectified, quantized, truncated = (
        m.fisher(at) for m in (gaussian(), mechanism(rb.RECTIFY), grid, mechanism(rb.TRUNCATE))
    )
    assert plain == pytest.approx(1.0)
    assert plain >= rectified >= quantized > 0.0
    assert truncated <= plain
    gap = rb.Mechanism(
        noise=rb.Gaussian(scale=1.0),
        query=gaussian().query,
        support=rb.Union.excluding((-1.0, 1.0), within=gaussian().query.range),
    )
    assert gap.fisher(0.0) > plain  # the control: with a gap truncation can have more


def test_lemma_a2_the_log_mass_of_an_interval_is_concave():
    at, step = np.linspace(-6.0, 6.0, 200), 1e-3

    def bent(mass):
        return np.asarray([math.log(mass(x - step)) - 2.0 * math.log(mass(x)) + math.log(mass(x + step)) for x in at])

    assert (bent(kept) < 0.0).all()
    assert bent(lambda x: 1.0 - kept(x)).max() > 0.0  # the control: that of the rest of the line is not


def integrated(slope):
    """Zero at zero, with this slope, over [0, 40]."""
    x = np.linspace(0.0, 40.0, 40_001)
    values = slope(x)
    return np.concatenate([[0.0], np.cumsum(0.5 * (values[1:] + values[:-1]) * np.diff(x))])


def test_lemma_a3_a_slope_with_a_concave_factor_keeps_a_function_above_zero():
    for weight in (lambda x: np.exp(-x), lambda x: np.exp(-x) * (2.0 + np.sin(x)), lambda x: (1.0 + x) ** -4.0):
        for end in (3.0, 4.0, 8.0):  # t(x) = x (end - x) is concave
            values = integrated(lambda x, w=weight, e=end: w(x) * x * (e - x))
            if values[-1] >= 0.0:  # the condition on the limit
                assert values.min() >= -1e-6
    cubic = integrated(lambda x: np.exp(-x) * x * (x - 0.3) * (x - 2.4) * (6.0 - x))
    assert cubic[100] > 0.0
    assert cubic.min() < -1e-3  # the control: with more roots, which no concave factor has, it dips below zero


@pytest.mark.parametrize("at", [-2.5, 0.0, 0.3, 1.3])
def test_theorem_f1_fine_quantization_is_rectification(at):
    rectified = mechanism(rb.RECTIFY)

    def quantized(points):
        grid = rb.Grid(step=2.0 / points, within=UNIT)
        return rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=rectified.query, support=grid, bounding=rb.QUANTIZE)

    x = np.linspace(-1.3, 1.3, 53)
    apart, missing = [], []
    for points in (4, 16, 64):
        m = quantized(points)
        apart.append(float(abs(m.law(at).cdf(x) - rectified.law(at).cdf(x)).max()))
        missing.append(rectified.fisher(at) - m.fisher(at))
    assert all(0.15 < finer / coarser < 0.4 for coarser, finer in itertools.pairwise(apart))
    assert all(0.0 < finer < 0.4 * coarser for coarser, finer in itertools.pairwise(missing))
    plain = [gaussian().fisher(at) - quantized(points).fisher(at) for points in (4, 16, 64)]
    assert plain[2] > 0.01 + 0.25 * plain[1]  # the control: the limit is not the Gaussian mechanism's
