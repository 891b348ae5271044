"""Sums of rounded Gaussian laws in floats with error bounds, against mpmath from the definition."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

from rangebound.law import Shape
from rangebound.privacy.gaussian_rounded import _Cells

CUTS = (-math.inf, 0.5, 1.5, 2.5, math.inf)
SHAPE = Shape(points=(0.0, 1.0, 2.0, 3.0), cells=tuple(itertools.pairwise(CUTS)))


@pytest.mark.parametrize("order", [1.5, 3.0, 20.0, 1e3, 1e5, 1e6])
def test_sums_are_within_their_errors(order: float) -> None:
    """At orders of 1e6 the logarithms cancel until nothing is known; before, the error was capped at 1.7 of the sum."""
    d = 0.7
    p = np.asarray([0.3, (order - 1.0) * d, (order - 1.0) * d + 1.3])
    with np.errstate(all="ignore"):
        value, error = _Cells(1.0, SHAPE, order, d)._sums(p)
    with mp.workdps(40):
        a, lift = mp.mpf(order), mp.mpf(order) * (mp.mpf(order) - 1) * mp.mpf(d) ** 2 / 2
        for k, at in enumerate(map(mp.mpf, p)):
            total = mp.mpf(0)
            for low, high in SHAPE.cells:
                near, far = (log_mass(low - x, high - x) for x in (at, at + mp.mpf(d)))
                total += mp.exp(a * near - (a - 1) * far - lift)
            assert abs(total - value[k]) <= error[k] if math.isfinite(error[k]) else order > 1e4


def log_mass(low: mp.mpf, high: mp.mpf) -> mp.mpf:
    """The logarithm of the mass of the unit normal law."""
    if high < 0:
        low, high = -high, -low
    root = mp.sqrt(2)
    if low > 0:
        return mp.log((mp.erfc(low / root) - mp.erfc(high / root)) / 2)
    return mp.log((mp.erf(high / root) - mp.erf(low / root)) / 2)
