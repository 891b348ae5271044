"""What every noise family promises: log-functions that agree with mpmath and with each other, arrays in and out."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import rangebound as rb
from tests.crosscheck.compare import agree
from tests.crosscheck.oracle import Oracle

FAMILIES: dict[str, Any] = {
    "laplace": rb.Laplace(scale=0.7),
    "gaussian": rb.Gaussian(scale=0.7),
    "truncated_laplacian": rb.TruncatedLaplacian(scale=0.7, limit=2.1),
}
SPANS = [
    (-0.3, 0.4),
    (0.1, 0.10001),
    (-2.0, -1.9),
    (1.0, 2.0),
    (-5.0, 1.0),
    (-1e-9, 1e-9),
    (0.3, 0.9),
    (0.5, math.inf),
    (-math.inf, -0.8),
    (0.0, 0.0),
    (-math.inf, 0.0),
    (-math.inf, math.inf),
]
FAR = [at for away in (1.0, 10.0, 50.0, 300.0) for at in (0.3 - 0.7 * away, 0.9 + 0.7 * away)]


def truth(noise: Any, digits: int = 400) -> Oracle:
    return Oracle(noise, rb.Interval(-math.inf, math.inf), rb.UNBOUNDED, digits)


@pytest.mark.parametrize("name", FAMILIES)
def test_log_density(name: str) -> None:
    noise = FAMILIES[name]
    x = np.array([-3.0, -2.09, -0.4, 0.0, 1e-12, 0.9, 2.05])
    for value, ours in zip(x, noise.log_pdf(x), strict=True):
        exact = truth(noise).log_density(mp.mpf(float(value)))
        agree(ours, exact, rel=1e-13, floor=0.1, what=value)


@pytest.mark.few(12)
@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("name", FAMILIES)
def test_log_mass(name: str, span: tuple[float, float]) -> None:
    noise, exact = FAMILIES[name], truth(FAMILIES[name])
    for at in (0.0, 0.25, -1.4, *FAR):
        with mp.workdps(400):
            mass = exact.mass_of_noise(mp.mpf(span[0]) - mp.mpf(at), mp.mpf(span[1]) - mp.mpf(at))
            log = mp.log(mass) if mass else -mp.inf
        agree(noise.log_mass(*map(np.asarray, (*span, at))), log, rel=1e-12, floor=0.1, what=at)


@pytest.mark.parametrize("name", FAMILIES)
def test_reach_inverts_log_mass(name: str) -> None:
    noise = FAMILIES[name]
    for at in (0.0, 0.9, -0.9):
        for lower in (-1.1, 0.0, 0.3, -math.inf):
            for chance in (1e-9, 0.01, 0.2):
                upper = noise.reach(np.asarray(lower), np.asarray(math.log(chance)), np.asarray(at))
                if math.exp(noise.log_mass(np.asarray(lower), np.asarray(math.inf), np.asarray(at))) < chance:
                    continue
                got = noise.log_mass(np.asarray(lower), upper, np.asarray(at))
                assert float(got) == pytest.approx(math.log(chance), abs=1e-7 if chance < 1e-8 else 1e-11)


def test_a_subtraction_of_distribution_functions_would_be_caught() -> None:
    """A control: what the narrow-span form avoids has no digits left, and the comparison sees that."""
    noise = FAMILIES["gaussian"]
    low, high, at = 5.0, 5.0 + 1e-9, 0.0
    exact = truth(noise, digits=60)
    with mp.workdps(60):
        log = mp.log(exact.mass_of_noise(mp.mpf(low), mp.mpf(high)))
    agree(noise.log_mass(*map(np.asarray, (low, high, at))), log, rel=1e-9)
    plain = 0.5 * (math.erf(high / 0.7 / math.sqrt(2)) - math.erf(low / 0.7 / math.sqrt(2)))
    with pytest.raises(AssertionError):
        agree(math.log(plain) if plain > 0 else -math.inf, log, rel=1e-9)
