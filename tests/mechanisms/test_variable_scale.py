"""croft2022's variable-scale mechanism: as printed, its false theorem, and its true guarantee against quadrature."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.integrate import quad
from scipy.special import lambertw

from rangebound.errors import ArgumentError
from rangebound.mechanisms import variable_scale
from rangebound.mechanisms.variable_scale import VariableScaleLaplace
from rangebound.values.support import Interval, Query, Union
from tests.errata import brute_force
from tests.thinning import crossed, some, some_pairs

INF = math.inf


def half_line(epsilon: float, sensitivity: float = 1.0, end: float = 0.0) -> VariableScaleLaplace:
    return VariableScaleLaplace(query=Query(range=Interval(end, INF), sensitivity=sensitivity), epsilon=epsilon)


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 1.0, 5.0, 50.0])
@pytest.mark.parametrize("sensitivity", [1e-3, 1.0, 7.0])
def test_published_constants(epsilon: float, sensitivity: float) -> None:
    unit = sensitivity / epsilon
    mechanism = half_line(epsilon, sensitivity)
    assert float(mechanism.scale(0.0)) == pytest.approx(1.585954172178 * unit, rel=1e-12)
    assert float(mechanism.scale(unit)) == pytest.approx(1.3020171356 * unit, rel=1e-10)
    assert float(mechanism.scale(1e9 * unit)) == pytest.approx(unit, rel=1e-9)


def exact_scale(t: float) -> mpf:
    """Formula 33 at 60 digits, in units of sensitivity/epsilon."""
    at = mpf(t)
    r = -mp.lambertw(-1 / (2 * mp.e)) * mp.e * at * mp.exp(-at)
    y = -mp.lambertw(-2 * r * mp.exp(-r), 0 if at <= 1 else -1).real
    return at / (y - r)


BRANCH_POINT = [1.0 + sign * 10.0**-k for k in range(1, 16, 2) for sign in (-1, 1)]


@pytest.mark.parametrize(
    "t", [1e-200, 1e-12, 1e-3, 0.3, 0.5, 0.5000001, *BRANCH_POINT, 1.5, 1.6, 5.0, 499.0, 501.0, 1e4]
)
def test_scale_keeps_its_digits_at_the_branch_point_and_far_out(t: float) -> None:
    with mp.workdps(60):
        exact = exact_scale(t)
        assert abs(float(variable_scale._scale(np.array(t)) / exact - 1)) < 2e-15
        if t > 1e-100:
            width = mpf(t) * mpf(10) ** -25
            slope = (mp.log(exact_scale(mpf(t) + width)) - mp.log(exact_scale(mpf(t) - width))) / (2 * width)
            if abs(t - 1.0) > 1e-20:
                assert float(variable_scale._log_slope(np.array(t)) / slope) == pytest.approx(1.0, abs=1e-11)


def test_control_the_lambert_function_alone_loses_half_its_digits_at_the_branch_point() -> None:
    t = 1.0 + 1e-5
    r = variable_scale._W * math.e * t * math.exp(-t)
    plain = t / (-lambertw(-2.0 * r * math.exp(-r), -1).real - r)
    with mp.workdps(60):
        assert abs(float(plain / exact_scale(t) - 1)) > 1e-13


@pytest.mark.parametrize("location", [0.0, 0.3, 1.0, 8.0])
def test_density_is_a_density(location: float) -> None:
    mechanism = half_line(0.8, end=-2.0)
    at = location - 2.0
    mass = sum(quad(lambda x: float(mechanism.pdf(x, at)), *ends)[0] for ends in ((-2.0, at), (at, 80.0)))
    assert mass == pytest.approx(1.0, abs=1e-9)
    assert mechanism.pdf([-2.1, -100.0], at).tolist() == [0.0, 0.0]


def test_density_at_the_end_falls_exactly_as_claimed() -> None:
    """This is what the formulas solve for; the theorem is right about this place and wrong about the tail."""
    locations = np.linspace(0.0, 12.0, 50)
    log_pdf = np.log(half_line(0.7).pdf(0.0, locations))
    np.testing.assert_allclose(log_pdf - log_pdf[0], -0.7 * locations, atol=1e-13)


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", some(range(60), of=5))
def test_closed_form_matches_quadrature(seed: int) -> None:
    rng = np.random.default_rng(seed)
    t = 0.0 if seed % 10 == 0 else float(10.0 ** rng.uniform(-2, 1.3))
    d = float(10.0 ** rng.uniform(-1.5, 1.0))
    level = d * float(rng.choice([0.0, rng.uniform(0.0, 1.0), rng.uniform(1.0, 1.5)]))
    pair = variable_scale._pair(np.array([t]), np.array([d]))
    found = variable_scale._lower_over_upper(pair, level)[0], variable_scale._upper_over_lower(pair, level)[0]
    scales = variable_scale._scale(np.array([t, t + d])).tolist()
    laws = [brute_force.truncated(brute_force.laplace, *at, (0, INF)) for at in zip((t, t + d), scales, strict=True)]
    for value, both in zip(found, (laws, laws[::-1]), strict=True):
        assert value == pytest.approx(float(brute_force.stick(*both, level)), rel=1e-8, abs=1e-16)


@pytest.mark.parametrize("d", [1e-9, 1e-6, 1e-3])
def test_close_neighbours_lose_no_digits(d: float) -> None:
    """To first order both sticks are d times a limit; the closed form reaches it smoothly."""
    t, share = np.array([0.0, 0.2, 1.0, 3.0]), 0.6
    small, smaller = (
        np.stack([f(variable_scale._pair(t, np.full(4, x)), share * x) / x for f in DIRECTIONS]) for x in (d, d / 4.0)
    )
    np.testing.assert_allclose(small, smaller, rtol=3.0 * d + 1e-12)


DIRECTIONS = (variable_scale._lower_over_upper, variable_scale._upper_over_lower)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("epsilon", "share"), some_pairs([1e-9, 0.1, 1.0, 5.0, 50.0], [0.0, 0.3, 0.99, 1.0, 1.5, 3.0], of=3)
)
def test_no_pair_of_a_dense_scan_gives_away_more(epsilon: float, share: float) -> None:
    mechanism, level = half_line(epsilon), share * epsilon
    rng = np.random.default_rng(5)
    t = np.concatenate((np.zeros(5000), 10.0 ** rng.uniform(-3, 5, 25_000)))
    d = epsilon * np.concatenate((np.geomspace(1e-2, 1.0, 5000), np.ones(10_000), rng.uniform(1e-3, 1.0, 15_000)))
    scanned = float(variable_scale._divergence(variable_scale._pair(t, d), level).max())
    delta = mechanism.delta(level)
    assert scanned <= delta
    assert delta <= scanned * (1.0 + 1e-2)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(epsilon=st.floats(1e-3, 20.0), low=st.floats(0.0, 30.0), more=st.floats(0.0, 5.0))
def test_delta_falls_with_epsilon(epsilon: float, low: float, more: float) -> None:
    mechanism = half_line(epsilon)
    assert mechanism.delta(low + more) <= mechanism.delta(low) * (1.0 + 1e-9)


@pytest.mark.few(1)
@crossed({"delta": [1e-30, 1e-9, 1e-3, 0.04], "epsilon": [0.1, 1.0, 5.0]})
def test_epsilon_is_the_inverse_of_delta_on_the_safe_side(epsilon: float, delta: float) -> None:
    mechanism = half_line(epsilon)
    found = mechanism.epsilon(delta)
    assert mechanism.delta(found) <= delta
    assert mechanism.delta(found * (1.0 - 1e-7)) > delta


def test_edges_of_epsilon_and_delta() -> None:
    mechanism = half_line(1.0)
    assert mechanism.epsilon(0.9) == 0.0
    assert mechanism.epsilon() == mechanism.epsilon(0.0) == mechanism.epsilon(1e-300) == INF
    assert 0.0 < mechanism.delta(1e6) < 1e-280
    assert mechanism.delta(0.0) == pytest.approx(1.0 - math.exp(-0.5), rel=1e-3)


@pytest.mark.slow
def test_mirror_shift_and_unit_change_nothing() -> None:
    plain = half_line(0.6)
    x, q = np.array([0.0, 0.4, 2.0, 9.0]), np.array([0.0, 0.1, 2.5, 30.0])
    for end, unit, sign in ((5.0, 8.0, 1.0), (-3.0, 0.25, -1.0)):  # all three at once
        span = Interval(end, INF) if sign > 0 else Interval(-INF, end)
        other = VariableScaleLaplace(query=Query(range=span, sensitivity=unit), epsilon=0.6)
        place, at = end + sign * unit * x, end + sign * unit * q
        np.testing.assert_allclose(other.scale(at), unit * plain.scale(q), rtol=1e-14)
        np.testing.assert_allclose(other.pdf(place, at) * unit, plain.pdf(x, q), rtol=1e-13)
        assert other.delta(0.6) == plain.delta(0.6)
        assert other.epsilon(1e-6) == plain.epsilon(1e-6)


def test_answers_outside_are_clipped_and_arrays_keep_their_shape() -> None:
    mechanism = half_line(1.0, end=3.0)
    assert float(mechanism.scale(-50.0)) == float(mechanism.scale(3.0))
    assert mechanism.scale([[3.0, 4.0], [5.0, 6.0]]).shape == (2, 2)
    assert mechanism.pdf(np.linspace(3.0, 5.0, 4)[:, None], [3.0, 4.0]).shape == (4, 2)


@pytest.mark.few(1)
@pytest.mark.parametrize("epsilon", [1e-250, 1e-30, 700.0, 1e5, 1e100])
def test_extremes_give_numbers_without_warnings(epsilon: float) -> None:
    mechanism = half_line(epsilon)
    for level in (0.0, epsilon / 2.0, epsilon, 2.0 * epsilon, 1.0, 1e3):
        assert 0.0 < mechanism.delta(level) <= 1.0
    assert np.isfinite(mechanism.scale([0.0, 1.0, 1e300])).all()
    assert np.isfinite(mechanism.pdf([0.0, 1.0, 1e300], 1.0)).all()


@pytest.mark.parametrize("span", [Interval(0, 1), Interval(-INF, INF), Union((0, 1), (2, INF))])
def test_only_a_half_line_will_do(span: Interval | Union) -> None:
    with pytest.raises(ArgumentError, match="half-line"):
        VariableScaleLaplace(query=Query(range=span, sensitivity=1.0), epsilon=1.0)
