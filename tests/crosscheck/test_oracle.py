"""The oracle itself, against quadrature of its densities: what checks everything else is checked first."""

from __future__ import annotations

import math

import mpmath as mp
import pytest

import rangebound as rb
from tests.crosscheck.compare import agree, distance
from tests.crosscheck.oracle import Oracle
from tests.thinning import some_pairs

INF = math.inf
NOISES = {
    "laplace": rb.Laplace(scale=0.7),
    "gaussian": rb.Gaussian(scale=0.7),
    "truncated_laplacian": rb.TruncatedLaplacian(scale=0.7, limit=4.0),
}
SUPPORTS = {
    "interval": (rb.Interval(-1, 2), rb.TRUNCATE),
    "half_line": (rb.Interval(0, INF), rb.TRUNCATE),
    "union": (rb.Union((-2, -1), (0, 2)), rb.TRUNCATE),
    "line": (rb.Interval(-INF, INF), rb.UNBOUNDED),
}


@pytest.mark.parametrize(("name", "place"), some_pairs(NOISES, SUPPORTS, of=2))
def test_closed_pieces_against_quadrature(name: str, place: str) -> None:
    support, bounding = SUPPORTS[place]
    true = Oracle(NOISES[name], support, bounding)
    with mp.workdps(25):
        for p, q in ((0.3, 1.1), (1.1, -0.6), (-1.2, -0.4)):
            if true.restricted:
                agree(true.norm(p), true.norm_quadrature(p), rel=1e-15)
            quadrature = true.stick_quadrature(p, q, 0.3)
            assert distance(true.stick(p, q, 0.3), quadrature, floor=1e-12) < 1e-12, (p, q)
            if name != "truncated_laplacian":
                assert distance(true.renyi(p, q, 2.5), true.renyi_quadrature(p, q, 2.5), floor=1e-12) < 1e-12, (p, q)


@pytest.mark.parametrize(("name", "place"), some_pairs(NOISES, SUPPORTS, of=2))
def test_moments_against_quadrature(name: str, place: str) -> None:
    support, bounding = SUPPORTS[place]
    true = Oracle(NOISES[name], support, bounding)
    with mp.workdps(25):
        q = mp.mpf(0.4)
        found = true.moments(0.4)
        for key, power in (("bias", lambda y: y), ("mae", abs), ("mse", lambda y: y * y)):
            parts = true._integral(lambda x, f=power: f(x - q) * mp.exp(true.log_density(x - q)), q, q, ())
            assert distance(found[key], mp.fsum(parts) / true.norm(0.4), floor=1e-12) < 1e-12, key


@pytest.mark.parametrize("bounding", [rb.RECTIFY, rb.QUANTIZE], ids=["rectify", "quantize"])
def test_fisher_is_the_curvature_of_the_divergence(bounding: object) -> None:
    support = rb.Interval(-1, 2) if bounding is rb.RECTIFY else rb.Grid(step=1.0, within=rb.Interval(-1, 2))
    for noise in (rb.Laplace(scale=0.7), rb.Gaussian(scale=0.7)):
        true = Oracle(noise, support, bounding, digits=60)
        with mp.workdps(60):
            step = mp.mpf(10) ** -12
            curvature = true.renyi(mp.mpf(0.4), mp.mpf(0.4) + step, 2) / step**2
            assert abs(curvature / true.fisher(0.4) - 1) < 1e-10


def test_a_wrong_formula_is_caught_by_the_quadrature() -> None:
    """A control: the two directions exchanged."""
    true = Oracle(rb.Laplace(scale=0.7), rb.Interval(0, INF), rb.TRUNCATE)
    with mp.workdps(25), pytest.raises(AssertionError):
        agree(true.stick(1.1, 0.3, 0.3), true.stick_quadrature(0.3, 1.1, 0.3), rel=1e-9)


def test_the_comparison_knows_nan_infinity_and_zero() -> None:
    assert distance(float("nan"), 1.0) == INF
    assert distance(INF, 1.0) == INF
    assert distance(INF, mp.inf) == 0.0
    assert distance(0.0, 0.0) == 0.0
    assert distance(1e-5, 0.0) == INF
    assert distance(1e-12, 0.0, floor=1e-3) == pytest.approx(1e-9)
