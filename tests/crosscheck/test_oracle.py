"""The oracle itself, against quadrature of densities: what checks everything else is checked first."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import pytest

import rangebound as rb
from tests.crosscheck.compare import agree, distance
from tests.crosscheck.oracle import Oracle
from tests.errata import brute_force
from tests.thinning import some_pairs

INF = math.inf


def limited(y: Any) -> Any:
    """Density of truncated Laplacian noise of scale 1 that ends at 8, where brute force cuts its integrals."""
    return brute_force.laplace(y) / -mp.expm1(-8) if abs(y) <= 8 else mp.mpf(0)


NOISES = {
    "laplace": (rb.Laplace(scale=0.7), brute_force.laplace),
    "gaussian": (rb.Gaussian(scale=0.7), brute_force.gaussian),
    "truncated_laplacian": (rb.TruncatedLaplacian(scale=0.7, limit=8 * 0.7), limited),
}
SUPPORTS = {
    "interval": (rb.Interval(-1, 2), rb.TRUNCATE),
    "half_line": (rb.Interval(0, INF), rb.TRUNCATE),
    "union": (rb.Union((-2, -1), (0, 2)), rb.TRUNCATE),
    "line": (rb.Interval(-INF, INF), rb.UNBOUNDED),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("pair", [(0.3, 1.1), (1.1, -0.6), (-1.2, -0.4)])
@pytest.mark.parametrize(("name", "place"), some_pairs(NOISES, SUPPORTS, of=2))
def test_closed_pieces_against_quadrature(name: str, place: str, pair: tuple[float, float]) -> None:
    (noise, density), (support, bounding) = NOISES[name], SUPPORTS[place]
    true = Oracle(noise, support, bounding)
    laws = [brute_force.truncated(density, at, 0.7, *support.spans) for at in pair]
    agree(true.norm(pair[0]), laws[0].norm, rel=1e-15)
    assert distance(true.stick(*pair, 0.3), brute_force.stick(*laws, 0.3), floor=1e-12) < 1e-12
    if name != "truncated_laplacian":
        assert distance(true.renyi(*pair, 2.5), brute_force.renyi(*laws, 2.5), floor=1e-12) < 1e-12
    law = laws[0]
    for key, power in (("bias", lambda y: y), ("mae", abs), ("mse", lambda y: y * y)):
        with mp.workdps(brute_force.DIGITS):
            mean = brute_force.integral(lambda x, f=power: f(x - law.location) * law.density(x), law)
        assert distance(true.moments(pair[0])[key], mean, floor=1e-12) < 1e-12, key


def test_a_wrong_formula_is_caught_by_the_quadrature() -> None:
    """A control: the two directions exchanged."""
    true = Oracle(rb.Laplace(scale=0.7), rb.Interval(0, INF), rb.TRUNCATE)
    laws = [brute_force.truncated(brute_force.laplace, at, 0.7, (0, INF)) for at in (0.3, 1.1)]
    with pytest.raises(AssertionError):
        agree(true.stick(1.1, 0.3, 0.3), brute_force.stick(*laws, 0.3), rel=1e-9)


def test_the_comparison_knows_nan_infinity_and_zero() -> None:
    assert distance(float("nan"), 1.0) == distance(INF, 1.0) == distance(1e-5, 0.0) == INF
    assert distance(INF, mp.inf) == distance(0.0, 0.0) == 0.0
    assert distance(1e-12, 0.0, floor=1e-3) == pytest.approx(1e-9)
