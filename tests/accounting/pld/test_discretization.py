"""DiscretePLD: the discrete pair gives away at least as much as the mechanism, the lowered one at most."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

import rangebound as rb
from rangebound.accounting import MechanismEvent, SampledEvent
from rangebound.accounting.event import SingleEvent
from rangebound.accounting.pld import discretization, step_profile
from rangebound.accounting.pld.discretization import DiscretePLD
from rangebound.ball import ball, precision

LINE = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)
UNIT = rb.Query(range=rb.Interval(0, 4), sensitivity=1.0)
GRID = rb.Grid(step=0.5, within=rb.Interval(0, 4))
MECHANISMS = [
    rb.Mechanism(noise=rb.Gaussian(scale=0.8), query=LINE, bounding=rb.UNBOUNDED),
    rb.Mechanism(noise=rb.Laplace(scale=0.5), query=LINE, bounding=rb.UNBOUNDED),
    rb.Mechanism(noise=rb.TruncatedLaplacian(scale=1.0, limit=6.0), query=LINE, bounding=rb.UNBOUNDED),
    rb.Mechanism(noise=rb.Laplace(scale=1.0), query=UNIT),
    rb.Mechanism(noise=rb.Gaussian(scale=2.0), query=UNIT, bounding=rb.RECTIFY),
    rb.Mechanism(noise=rb.Laplace(scale=1.0), query=UNIT, support=GRID, bounding=rb.QUANTIZE),
    rb.Mechanism(noise=rb.Gaussian(scale=3.0), query=UNIT),
]
STEPS = [
    *(MechanismEvent(mechanism=m) for m in MECHANISMS),
    *(SampledEvent(mechanism=m, rate=rate) for m in MECHANISMS[:4] for rate in (0.05, 0.6)),
]


def stick(found: DiscretePLD, epsilon: float) -> float:
    over = np.maximum(-np.expm1(np.minimum(epsilon - found.losses, 0.0)), 0.0)
    return float((found.mass * over).sum()) + found.infinite


def discretized(step: SingleEvent) -> discretization.DiscretizedEvent:
    width = discretization.typical_loss(step) / discretization.spacing(step).fine
    return discretization.discretize(step, math.ldexp(round(math.ldexp(width, 30)), -30), 1e-12)


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


@pytest.mark.parametrize("step", STEPS, ids=lambda step: repr(step)[:70])
def test_masses_are_those_of_a_pair_of_laws(step):
    found = discretized(step)
    for pld in (*found.upper, *found.lower):
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
    loud = discretized(
        MechanismEvent(mechanism=rb.Mechanism(noise=rb.Gaussian(scale=0.81), query=LINE, bounding=rb.UNBOUNDED))
    )
    truth = [MECHANISMS[0].delta(e) for e in (0.1, 0.5, 1.0)]
    assert any(stick(loud.upper[0], e) < d for e, d in zip((0.1, 0.5, 1.0), truth, strict=True))


def test_a_lowered_line_is_below_a_profile_with_a_kink_between_two_knots():
    """A profile of two lines, 1 - x and one that falls less: the lowered line leaves 1 - x only past the kink."""
    xs = [0.25 * k for k in range(9)]
    for kink in (0.3, 0.375, 0.45):

        def profile(x, kink=kink):
            return max(1.0 - x, 0.8 * (1.0 - kink) * (2.0 - x) / (2.0 - kink) + 0.2 * (1.0 - kink), 0.0)

        with precision(step_profile.BITS):
            knots = [(ball(x), ball(profile(x))) for x in xs[1:]]
            found = [
                (0.0, 1.0),
                *((float(x.mid()), float(y.mid())) for x, y in discretization._lowered(knots, edge=True)),
            ]
        for (x0, y0), (x1, y1) in pairwise(found):
            for x in np.linspace(x0, x1, 11):
                assert y0 + (y1 - y0) * (x - x0) / (x1 - x0) <= profile(x) + 1e-12
        assert max(y - (1.0 - x) for x, y in found) > 0.1  # and is not just 1 - x
