"""The limits of additive noise: geng2020's formulas in mpmath, and a mechanism that has what they say."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

import rangebound as rb
from rangebound.errors import RangeboundError
from rangebound.published.additive_noise import additive_noise_limits
from tests.crosscheck.compare import agree

CASES = [(e, d) for e in (1e-4, 0.01, 0.1, 1.0, 3.0, 10.0) for d in (1e-15, 1e-6, 1e-3, 0.1, 0.4)]


def published(epsilon: float, delta: float, sensitivity: float) -> tuple[mp.mpf, mp.mpf]:
    """Amplitude and power of truncated Laplacian noise, THEORY section 3."""
    e, d, s = map(mp.mpf, (epsilon, delta, sensitivity))
    c = mp.expm1(e) / (2 * d)
    log = mp.log(1 + c)
    return s / e * (1 - log / c), 2 * s**2 / e**2 * (1 - (log**2 / 2 + log) / c)


def least(epsilon: float, delta: float, sensitivity: float) -> tuple[mp.mpf, mp.mpf]:
    """The lower limits with floor(n) steps, as plain sums."""
    e, d, s = map(mp.mpf, (epsilon, delta, sensitivity))
    b = mp.exp(-e)
    a = (d + mp.expm1(e) / 2) * b
    n = int(mp.floor(mp.log(1 - (1 - b) / (2 * a)) / mp.log(b)))
    amplitude = 2 * a * s * ((b - b**n) / (1 - b) ** 2 - (n - 1) * b**n / (1 - b)) if n else mp.mpf(0)
    if n > 20000:
        return amplitude, mp.nan
    return amplitude, 2 * a * s**2 * mp.fsum(b**k * k * k for k in range(n))


@pytest.mark.parametrize(("epsilon", "delta"), CASES)
def test_the_formulas(epsilon: float, delta: float) -> None:
    limits = additive_noise_limits(epsilon=epsilon, delta=delta, sensitivity=2.5)
    with mp.workdps(60):
        amplitude, power = published(epsilon, delta, 2.5)
        agree(limits.amplitude, amplitude, rel=1e-13)
        agree(limits.power, power, rel=1e-13)
        amplitude_least, power_least = least(epsilon, delta, 2.5)
        agree(limits.amplitude_at_least, amplitude_least, rel=1e-12, floor=1e-12)
        if not mp.isnan(power_least):
            agree(limits.power_at_least, power_least, rel=1e-12, floor=1e-12)
        assert mp.mpf(limits.amplitude) >= amplitude
        assert mp.mpf(limits.amplitude_at_least) <= amplitude_least + mp.mpf(10) ** -50


@pytest.mark.parametrize(("epsilon", "delta"), CASES)
def test_the_lower_limits_are_below_the_upper_ones(epsilon: float, delta: float) -> None:
    limits = additive_noise_limits(epsilon=epsilon, delta=delta)
    assert 0.0 <= limits.amplitude_at_least <= limits.amplitude
    assert 0.0 <= limits.power_at_least <= limits.power


@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 1e-3), (1.0, 1e-6), (4.0, 0.1)])
def test_a_truncated_laplacian_has_that_noise(epsilon: float, delta: float) -> None:
    query = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=2.5)
    mechanism = rb.calibrate(
        noise=rb.TruncatedLaplacian, query=query, bounding=rb.UNBOUNDED, epsilon=epsilon, delta=delta
    )
    limits = additive_noise_limits(epsilon=epsilon, delta=delta, sensitivity=2.5)
    error = mechanism.error(1.0)
    assert error.mae == pytest.approx(limits.amplitude, rel=1e-9)
    assert error.mse == pytest.approx(limits.power, rel=1e-9)


def test_no_additive_noise_of_ours_is_below_the_limit() -> None:
    query = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)
    for epsilon, delta in ((0.5, 1e-5), (2.0, 1e-2)):
        limits = additive_noise_limits(epsilon=epsilon, delta=delta)
        for noise in (rb.Laplace, rb.Gaussian, rb.TruncatedLaplacian):
            m = rb.calibrate(noise=noise, query=query, bounding=rb.UNBOUNDED, epsilon=epsilon, delta=delta)
            assert m.error(0.0).mae >= limits.amplitude_at_least
            assert m.error(0.0).mse >= limits.power_at_least


def test_a_misprint_is_caught() -> None:
    """A control: the ceiling of n instead of the floor is not what the limits are."""
    limits = additive_noise_limits(epsilon=1.0, delta=1e-3)
    with mp.workdps(40):
        e, d = mp.mpf(1.0), mp.mpf(1e-3)
        b = mp.exp(-e)
        a = (d + mp.expm1(e) / 2) * b
        n = int(mp.ceil(mp.log(1 - (1 - b) / (2 * a)) / mp.log(b)))
        wrong = 2 * a * mp.fsum(k * b**k for k in range(n))
        with pytest.raises(AssertionError):
            agree(limits.amplitude_at_least, wrong, rel=1e-9)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 0.1), (-1.0, 0.1), (1.0, 0.0), (1.0, 0.5), (1.0, np.nan), ("1", 0.1), (1.0, True)]
)
def test_arguments_that_make_no_sense_are_refused(epsilon: object, delta: object) -> None:
    with pytest.raises(RangeboundError):
        additive_noise_limits(epsilon=epsilon, delta=delta)
