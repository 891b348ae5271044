"""What every noise family promises: log-functions that agree with mpmath and with each other, arrays in and out."""

from __future__ import annotations

import itertools
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


@pytest.mark.parametrize("name", FAMILIES)
def test_slope_is_the_derivative_of_the_log_density(name: str) -> None:
    noise = FAMILIES[name]
    x = np.array([-1.7, -0.4, 0.3, 1.9])
    step = 1e-6
    slope = (noise.log_pdf(x + step) - noise.log_pdf(x - step)) / (2.0 * step)
    np.testing.assert_allclose(noise.log_pdf_slope(x), slope, rtol=1e-8)


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


@pytest.mark.parametrize("name", FAMILIES)
def test_crossing_is_where_the_log_ratio_passes_the_level(name: str) -> None:
    noise = FAMILIES[name]
    p, q = np.asarray(-0.2), np.asarray(0.6)
    for level in (-0.9, -0.3, 0.0, 0.5, 1.0):
        x = noise.crossing(p, q, np.asarray(level))
        ratio = noise.log_pdf(x - p) - noise.log_pdf(x - q)
        assert float(ratio) == pytest.approx(level, abs=1e-12)


@pytest.mark.parametrize("order", [1.3, 2.0, 7.5])
@pytest.mark.parametrize("name", FAMILIES)
def test_log_blend_is_the_integral_of_the_powers(name: str, order: float) -> None:
    noise = FAMILIES[name]
    nodes, weights = np.polynomial.legendre.leggauss(60)
    for p, q, low, high in ((-0.2, 0.6, -1.2, 1.4), (0.6, -0.2, -1.2, 1.4), (0.1, 0.3, 0.15, 0.25)):
        cuts = sorted({low, high, *(x for x in (p, q) if low < x < high)})
        total = 0.0
        for a, b in itertools.pairwise(cuts):
            x = 0.5 * (a + b) + 0.5 * (b - a) * nodes
            logs = order * noise.log_pdf(x - p) + (1.0 - order) * noise.log_pdf(x - q)
            total += 0.5 * (b - a) * float(weights @ np.exp(logs))
        ours = noise.log_renyi_integral(*map(np.asarray, (p, q)), order, *map(np.asarray, (low, high)))
        assert float(ours) == pytest.approx(math.log(total), rel=1e-12, abs=1e-12)


def test_log_blend_is_infinite_where_only_the_first_lives() -> None:
    noise = FAMILIES["truncated_laplacian"]
    p, q, low, high = map(np.asarray, (0.0, 1.0, -3.0, 3.0))
    assert noise.log_renyi_integral(p, q, 2.0, low, high) == math.inf
    inside = noise.log_renyi_integral(p, q, 2.0, np.asarray(-1.0), np.asarray(2.0))
    assert math.isfinite(float(inside))


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
