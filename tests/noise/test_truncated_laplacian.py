"""Truncated Laplacian noise: its edges, and the Laplace noise it is a part of."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rangebound as rb
from rangebound.errors import ArgumentError


def test_it_is_laplace_noise_conditioned_on_staying_inside() -> None:
    noise = rb.TruncatedLaplacian(scale=0.7, limit=2.1)
    whole = rb.Laplace(scale=0.7)
    kept = math.exp(whole.log_mass(*map(np.asarray, (-2.1, 2.1, 0.0))))
    x = np.linspace(-2.0, 2.0, 9)
    np.testing.assert_allclose(np.exp(noise.log_pdf(x)), np.exp(whole.log_pdf(x)) / kept, rtol=1e-14)
    assert noise.untruncated == whole


def test_nothing_lies_beyond_the_limit() -> None:
    noise = rb.TruncatedLaplacian(scale=0.7, limit=2.1)
    assert noise.log_pdf(np.asarray(2.1)) > -math.inf
    assert noise.log_pdf(np.nextafter(2.1, 3.0)) == -math.inf
    assert noise.log_mass(*map(np.asarray, (2.1, 9.0, 0.0))) == -math.inf
    assert noise.log_mass(*map(np.asarray, (-9.0, 9.0, 0.0))) == 0.0


def test_a_tiny_limit_makes_it_uniform() -> None:
    noise = rb.TruncatedLaplacian(scale=1.0, limit=1e-6)
    assert math.exp(noise.log_pdf(np.asarray(5e-7))) == pytest.approx(0.5e6, rel=1e-6)


@pytest.mark.parametrize("limit", [1e-13, 0.0, -1.0, math.inf, math.nan])
def test_a_limit_that_makes_no_sense_is_refused(limit: float) -> None:
    with pytest.raises(ArgumentError, match="limit"):
        rb.TruncatedLaplacian(scale=1.0, limit=limit)
