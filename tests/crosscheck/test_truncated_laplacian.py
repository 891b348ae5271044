"""Truncated Laplacian noise against geng2020's formulas, THEORY section 3."""

from __future__ import annotations

import math

import mpmath as mp
import pytest

import rangebound as rb
from tests.crosscheck.compare import TIGHT, agree
from tests.crosscheck.oracle import oracle

INF = math.inf
EPSILONS = (1e-9, 1e-4, 0.1, 1.0, 8.0, 50.0)
DELTAS = (1e-15, 1e-9, 1e-3, 0.1, 0.4)
SENSITIVITY = 2.5


def published(epsilon: float, delta: float) -> tuple[mp.mpf, mp.mpf, mp.mpf, mp.mpf]:
    """Scale, limit, amplitude and power."""
    e, d, s = mp.mpf(epsilon), mp.mpf(delta), mp.mpf(SENSITIVITY)
    c = mp.expm1(e) / (2 * d)
    log = mp.log1p(c)
    amplitude = s / e * (1 - log / c)
    return s / e, s / e * log, amplitude, 2 * s**2 / e**2 * (1 - (log**2 / 2 + log) / c)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_scale_limit_noise_and_delta(epsilon: float, delta: float) -> None:
    query = rb.Query(range=rb.Interval(-INF, INF), sensitivity=SENSITIVITY)
    mechanism = rb.calibrate(
        noise=rb.TruncatedLaplacian, query=query, bounding=rb.UNBOUNDED, epsilon=epsilon, delta=delta
    )
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


def test_a_misprint_is_caught() -> None:
    """A control: delta for 2 delta in c."""
    query = rb.Query(range=rb.Interval(-INF, INF), sensitivity=SENSITIVITY)
    mechanism = rb.calibrate(noise=rb.TruncatedLaplacian, query=query, bounding=rb.UNBOUNDED, epsilon=1.0, delta=1e-3)
    with mp.workdps(40), pytest.raises(AssertionError):
        agree(mechanism.noise.limit, mp.mpf(SENSITIVITY) * mp.log1p(mp.expm1(mp.mpf(1)) / mp.mpf(1e-3)), rel=TIGHT)
