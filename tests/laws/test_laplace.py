"""Truncated Laplacian noise: its edges, and the Laplace noise it is a part of."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rangebound as rb


def test_nothing_lies_beyond_the_limit() -> None:
    noise = rb.TruncatedLaplacian(scale=0.7, limit=2.1)
    assert noise.untruncated == rb.Laplace(scale=0.7)
    assert noise.log_pdf(np.asarray(2.1)) > -math.inf
    assert noise.log_pdf(np.nextafter(2.1, 3.0)) == -math.inf
    assert noise.log_mass(*map(np.asarray, (2.1, 9.0, 0.0))) == -math.inf
    assert noise.log_mass(*map(np.asarray, (-9.0, 9.0, 0.0))) == 0.0


def test_a_tiny_limit_makes_it_uniform() -> None:
    noise = rb.TruncatedLaplacian(scale=1.0, limit=1e-6)
    assert math.exp(noise.log_pdf(np.asarray(5e-7))) == pytest.approx(0.5e6, rel=1e-6)
