"""Profiles: each quick route against the certified search of the core."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rangebound as rb
from rangebound.accounting.pld import step_profile
from rangebound.ball import precision
from rangebound.privacy.pair_profile import pair_profile

INTERVALS = [(10.0, 1.0, 1.0), (10.0, 1.0, 5.0), (1.0, 1.0, 0.7), (3.0, 0.5, 0.2), (40.0, 2.0, 1.0), (2.0, 1.9, 30.0)]


def bounded(width: float, sensitivity: float, scale: float) -> rb.Mechanism:
    query = rb.Query(range=rb.Interval(-1.0, width - 1.0), sensitivity=sensitivity)
    return rb.Mechanism(noise=rb.Laplace(scale=scale), query=query)


@pytest.mark.parametrize(("width", "sensitivity", "scale"), INTERVALS)
def test_the_row_of_positions_is_above_the_exact_profile_and_close(width, sensitivity, scale):
    m = bounded(width, sensitivity, scale)
    row = step_profile._positions(m)
    assert row is not None
    largest = m.delta(0.0)
    for share in np.linspace(0.0, 0.99, 12):
        epsilon = float(share * m.epsilon())
        exact = rb.privacy.worst_delta(m.setting, epsilon)
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
    row = step_profile._positions(m)
    assert row is not None
    assert row(epsilon) == pytest.approx(bend * spacing**2 / 8.0, rel=1e-3)


def test_the_row_is_left_alone_where_it_would_be_coarse():
    assert step_profile._positions(bounded(1e4, 1.0, 1.0)) is None
    assert (
        step_profile._positions(rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=bounded(4.0, 1.0, 1.0).query)) is None
    )


def test_the_formula_of_the_free_gaussian_is_the_core_s():
    query = rb.Query(range=rb.Interval(0, 50), sensitivity=2.0)
    m = rb.Mechanism(noise=rb.Gaussian(scale=3.0), query=query, bounding=rb.UNBOUNDED)
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


def test_a_sample_of_everyone_changes_nothing():
    m = bounded(10.0, 1.0, 1.0)
    with precision(step_profile.BITS):
        at = step_profile.worst(m)
        for epsilon in (-0.7, 0.0, 0.4):
            assert float(step_profile.sampled(at, 1.0)(epsilon).mid()) == pytest.approx(
                float(at(epsilon).mid()), rel=1e-12
            )
        small = step_profile.sampled(at, 0.01)
        assert float(small(-1.0).mid()) == pytest.approx(1.0 - math.exp(-1.0), rel=1e-12)


@pytest.mark.parametrize("noise", [rb.Laplace(scale=1.0), rb.Gaussian(scale=1.0)])
@pytest.mark.parametrize("answers", [rb.Interval(0, 5), rb.Union((0, 1), (4, 5))])
def test_a_pair_at_a_negative_epsilon_is_the_pair_in_the_other_order(noise, answers):
    """H_x(P || Q) = 1 - x + x H_(1/x)(Q || P); below the least loss it is 1 - x, and never more than 1."""
    m = rb.Mechanism(noise=noise, query=rb.Query(range=answers, sensitivity=1.0))
    with precision(step_profile.BITS):
        for pair in ((0.0, 1.0), (1.0, 0.0), (4.0, 5.0)):
            for epsilon in (0.3, 1.0, 2.5, 8.0):
                back = float(pair_profile(m.noise, m.shape, pair[::-1])(epsilon).mid())
                found = float(pair_profile(m.noise, m.shape, pair)(-epsilon).mid())
                assert found == pytest.approx(1.0 - math.exp(-epsilon) * (1.0 - back), abs=1e-12)
            assert float(pair_profile(m.noise, m.shape, pair)(-8.0).mid()) == pytest.approx(-math.expm1(-8.0), abs=1e-9)
