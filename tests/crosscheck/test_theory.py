"""Calibrations of others in closed form: Balle and Wang's Gaussian noise, geng2020's truncated Laplacian."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import pytest

import rangebound as rb
from tests.crosscheck.compare import TIGHT, agree
from tests.crosscheck.oracle import oracle
from tests.thinning import crossed

EPSILONS = (1e-9, 1e-4, 0.1, 1.0, 8.0, 50.0)
DELTAS = (1e-15, 1e-9, 1e-3, 0.1, 0.4)
SENSITIVITY = 2.5


def calibrated(noise: Any, epsilon: float, delta: float) -> rb.Mechanism:
    query = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=SENSITIVITY)
    return rb.calibrate(noise=noise, query=query, bounding=rb.UNBOUNDED, epsilon=epsilon, delta=delta)


def profile(epsilon: float, scale: mp.mpf) -> mp.mpf:
    """delta of the Gaussian mechanism [Balle and Wang 2018, Thm 8]."""
    shift, e = mp.mpf(SENSITIVITY) / scale, mp.mpf(epsilon)
    return mp.ncdf(shift / 2 - e / shift) - mp.exp(e) * mp.ncdf(-shift / 2 - e / shift)


def analytic(epsilon: float, delta: float) -> mp.mpf:
    """The root of the profile, by bisection in the logarithm of the scale."""
    low, high = mp.mpf(10) ** -12, mp.mpf(10) ** 22
    for _ in range(160):
        middle = mp.sqrt(low * high)
        low, high = (middle, high) if profile(epsilon, middle) > delta else (low, middle)
    return high


@crossed({"delta": DELTAS, "epsilon": EPSILONS})
def test_the_analytic_gaussian(epsilon: float, delta: float) -> None:
    mechanism = calibrated(rb.Gaussian, epsilon, delta)
    with mp.workdps(60):
        scale = mp.mpf(mechanism.noise.scale)
        assert profile(epsilon, scale) <= delta
        agree(scale, analytic(epsilon, delta), rel=TIGHT)
        agree(mechanism.delta(epsilon), profile(epsilon, scale), rel=TIGHT)


def published(epsilon: float, delta: float) -> tuple[mp.mpf, mp.mpf, mp.mpf, mp.mpf]:
    """Scale, limit, amplitude and power of truncated Laplacian noise [geng2020]."""
    e, d, s = mp.mpf(epsilon), mp.mpf(delta), mp.mpf(SENSITIVITY)
    c = mp.expm1(e) / (2 * d)
    log = mp.log1p(c)
    amplitude = s / e * (1 - log / c)
    return s / e, s / e * log, amplitude, 2 * s**2 / e**2 * (1 - (log**2 / 2 + log) / c)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_truncated_laplacian(epsilon: float, delta: float) -> None:
    mechanism = calibrated(rb.TruncatedLaplacian, epsilon, delta)
    with mp.workdps(120):
        scale, limit, amplitude, power = published(epsilon, delta)
        agree(mechanism.noise.scale, scale, rel=TIGHT, what="scale")
        agree(mechanism.noise.limit, limit, rel=TIGHT, what="limit")
        error = mechanism.error(1.0)
        agree(error.mae, amplitude, rel=2e-9, what="amplitude")
        agree(error.mse, power, rel=4e-9, what="power")
        given = oracle(mechanism, 120).stick(mp.mpf(0), mp.mpf(SENSITIVITY), epsilon)
        assert given <= mp.mpf(delta)
        agree(mechanism.delta(epsilon), given, rel=TIGHT, what="delta")
        assert given >= mp.mpf(delta) * (1 - mp.mpf(1e-6))


def test_misprints_are_caught() -> None:
    """Controls: sqrt(2 ln(1.25/delta))/epsilon for a Gaussian; delta for 2 delta in c."""
    with mp.workdps(60):
        wrong = [
            (math.sqrt(2.0 * math.log(1.25 / 1e-3)) * SENSITIVITY, analytic(1.0, 1e-3)),
            (calibrated(rb.TruncatedLaplacian, 1.0, 1e-3).noise.limit, published(1.0, 5e-4)[1]),
        ]
        for ours, truth in wrong:
            with pytest.raises(AssertionError):
                agree(ours, truth, rel=TIGHT)
