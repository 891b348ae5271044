"""Profiles against the core's search; the discrete pair leaks at least as much, the lowered one at most."""

import math
from itertools import pairwise

import numpy as np
import pytest

import rangebound as rb
from rangebound.accounting import MechanismEvent, SampledEvent
from rangebound.accounting.pld import discretization, step_profile
from rangebound.privacy.worst import worst_delta
from rangebound.values.ball import ball, precision
from tests.accounting.mechanisms import free, gaussian, short

GRID = rb.Grid(step=0.5, within=rb.Interval(0, 4))
MECHANISMS = [
    gaussian(0.8),
    free(rb.Laplace(scale=0.5)),
    free(rb.TruncatedLaplacian(scale=1.0, limit=6.0)),
    short(rb.Laplace(scale=1.0), 4.0),
    short(rb.Gaussian(scale=2.0), 4.0, bounding=rb.RECTIFY),
    short(rb.Laplace(scale=1.0), 4.0, support=GRID, bounding=rb.QUANTIZE),
    short(rb.Gaussian(scale=3.0), 4.0),
]
STEPS = [
    *(MechanismEvent(mechanism=m) for m in MECHANISMS),
    *(SampledEvent(mechanism=m, rate=rate) for m in MECHANISMS[:4] for rate in (0.05, 0.6)),
]


def stick(found, epsilon):
    over = np.maximum(-np.expm1(np.minimum(epsilon - found.losses, 0.0)), 0.0)
    return float((found.mass * over).sum()) + found.infinite


def discretized(step):
    width = discretization.typical_loss(step) / discretization.spacing(step).fine
    return discretization.discretize(step, math.ldexp(round(math.ldexp(width, 30)), -30), 1e-12)


@pytest.mark.few(3)
@pytest.mark.parametrize("step", STEPS, ids=lambda step: repr(step)[:70])
def test_the_line_lies_above_the_profile_and_the_lowered_one_below(step):
    found = discretized(step)
    worst = step_profile.worst(step.mechanism)
    for epsilon in np.linspace(0.01, 3.0, 23):
        with precision(step_profile.BITS):
            there = step_profile.sampled(worst, step.rate) if isinstance(step, SampledEvent) else worst
            forth = float(there(float(epsilon)).mid())
            back = 1.0 - math.exp(epsilon) * (1.0 - float(there(float(-epsilon)).mid()))
        for pld, truth in zip(found.upper, (forth, back), strict=True):
            assert stick(pld, float(epsilon)) >= truth * (1.0 - 1e-9) - 1e-14
        for pld in found.lower:
            assert stick(pld, float(epsilon)) <= max(forth, back) * (1.0 + 1e-9) + 1e-14
    for pld in (*found.upper, *found.lower):  # masses of a pair of laws
        assert (pld.mass >= 0.0).all()
        assert pld.infinite >= 0.0
        total = math.fsum(pld.mass) + pld.infinite
        assert total == pytest.approx(1.0, abs=1e-10)
        assert any(pld is each for each in found.upper) <= (total >= 1.0)  # rounded up, each of them
        assert any(pld is each for each in found.lower) <= (total <= 1.0)
        assert (pld.mass * np.exp(-pld.losses)).sum() <= 1.0 + 1e-10  # of the other law
        assert (np.diff(pld.index) > 0).all()


def test_control_a_line_through_smaller_values_is_below_the_profile():
    """The check above must object to the PLD of a mechanism with more noise."""
    loud = discretized(MechanismEvent(mechanism=gaussian(0.81)))
    truth = [MECHANISMS[0].delta(e) for e in (0.1, 0.5, 1.0)]
    assert any(stick(loud.upper[0], e) < d for e, d in zip((0.1, 0.5, 1.0), truth, strict=True))


def test_a_lowered_line_is_below_a_profile_with_a_kink_between_two_knots():
    """A profile of two lines, 1 - x and one that falls less: the lowered line leaves 1 - x only past the kink."""
    xs = [0.25 * k for k in range(9)]
    for kink in (0.3, 0.375, 0.45):

        def profile(x, kink=kink):
            return max(1.0 - x, 0.8 * (1.0 - kink) * (2.0 - x) / (2.0 - kink) + 0.2 * (1.0 - kink), 0.0)

        with precision(step_profile.BITS):
            lowered = discretization._lowered([(ball(x), ball(profile(x))) for x in xs[1:]], edge=True)
            found = [(0.0, 1.0), *((float(x.mid()), float(y.mid())) for x, y in lowered)]
        for (x0, y0), (x1, y1) in pairwise(found):
            for x in np.linspace(x0, x1, 11):
                assert y0 + (y1 - y0) * (x - x0) / (x1 - x0) <= profile(x) + 1e-12
        assert max(y - (1.0 - x) for x, y in found) > 0.1  # and is not just 1 - x


INTERVALS = [(10.0, 1.0, 1.0), (10.0, 1.0, 5.0), (1.0, 1.0, 0.7), (3.0, 0.5, 0.2), (40.0, 2.0, 1.0), (2.0, 1.9, 30.0)]


def bounded(width, sensitivity, scale, noise=rb.Laplace):
    query = rb.Query(range=rb.Interval(-1.0, width - 1.0), sensitivity=sensitivity)
    return rb.Mechanism(noise=noise(scale=scale), query=query)


@pytest.mark.few(3)
@pytest.mark.parametrize(("width", "sensitivity", "scale"), INTERVALS)
def test_the_row_of_positions_is_above_the_exact_profile_and_close(width, sensitivity, scale):
    m = bounded(width, sensitivity, scale)
    row = m._quick_profile
    largest = m.delta(0.0)
    for share in np.linspace(0.0, 0.99, 12):
        epsilon = float(share * m.epsilon())
        exact = worst_delta(m.setting, epsilon)
        assert row(epsilon) >= exact.lower
        assert row(epsilon) <= exact.upper + 1e-4 * largest


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_the_row_adds_what_its_profile_can_bend_between_two_places(epsilon):
    """Beyond the pure epsilon the profile is 0, and M w^2/8 of the proof is left; at this width most of M is 2/z."""
    width, d = 0.1, 0.02
    m = bounded(width, d, 1.0)
    assert m.epsilon() < epsilon
    z, spacing = -math.expm1(-width), (width - d) / 1999
    bend = (2.0 / z + 2.0) + math.exp(epsilon) * (5.0 + 2.0 / z)
    row = m._quick_profile
    assert row(epsilon) == pytest.approx(bend * spacing**2 / 8.0, rel=1e-3)


def test_the_row_is_left_alone_where_it_would_be_coarse():
    assert bounded(1e4, 1.0, 1.0)._quick_profile is None
    assert bounded(4.0, 1.0, 1.0, rb.Gaussian)._quick_profile is None


def test_the_formula_of_the_free_gaussian_is_the_core_s():
    m = short(rb.Gaussian(scale=3.0), 50.0, 2.0, bounding=rb.UNBOUNDED)
    with precision(step_profile.BITS):
        for epsilon in (0.0, 0.3, 2.0, 9.0):
            assert float(step_profile.worst(m)(epsilon).mid()) == pytest.approx(m.delta(epsilon), rel=1e-12)


def test_negative_epsilons_are_the_mirror_image():
    m = bounded(10.0, 1.0, 1.0)
    with precision(step_profile.BITS):
        at = step_profile.worst(m)
        assert float(at(-0.5).mid()) == pytest.approx(1.0 - math.exp(-0.5) * (1.0 - float(at(0.5).mid())), rel=1e-12)
        for pair in step_profile.pairs(m):
            assert pair(-0.5) <= at(-0.5)
            assert pair(0.5) <= at(0.5)
        for epsilon in (-0.7, 0.0, 0.4):  # a sample of everyone changes nothing
            whole = step_profile.sampled(at, 1.0)(epsilon)
            assert float(whole.mid()) == pytest.approx(float(at(epsilon).mid()), rel=1e-12)
        small = step_profile.sampled(at, 0.01)
        assert float(small(-1.0).mid()) == pytest.approx(1.0 - math.exp(-1.0), rel=1e-12)
