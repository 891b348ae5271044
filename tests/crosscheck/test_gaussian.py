"""Gaussian noise against formulas of others: Balle and Wang's calibration, the truncated Renyi curve, Fisher."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import pytest

import rangebound as rb
from tests.crosscheck.compare import TIGHT, agree
from tests.thinning import crossed

INF = math.inf
DIGITS = 60
EPSILONS = (1e-9, 1e-4, 0.1, 1.0, 8.0, 50.0)
DELTAS = (1e-15, 1e-9, 1e-3, 0.1, 0.4)


def profile(epsilon: float, scale: mp.mpf, sensitivity: float) -> mp.mpf:
    """delta of the Gaussian mechanism [Balle and Wang 2018, Thm 8]."""
    shift = mp.mpf(sensitivity) / scale
    e = mp.mpf(epsilon)
    return mp.ncdf(shift / 2 - e / shift) - mp.exp(e) * mp.ncdf(-shift / 2 - e / shift)


def analytic(epsilon: float, delta: float, sensitivity: float) -> mp.mpf:
    """The root of the profile, by bisection in the logarithm of the scale."""
    low, high = mp.mpf(10) ** -12, mp.mpf(10) ** 22
    for _ in range(160):
        middle = mp.sqrt(low * high)
        low, high = (middle, high) if profile(epsilon, middle, sensitivity) > delta else (low, middle)
    return high


@crossed({"delta": DELTAS, "epsilon": EPSILONS})
def test_the_analytic_gaussian(epsilon: float, delta: float) -> None:
    query = rb.Query(range=rb.Interval(-INF, INF), sensitivity=2.5)
    mechanism = rb.calibrate(noise=rb.Gaussian, query=query, bounding=rb.UNBOUNDED, epsilon=epsilon, delta=delta)
    with mp.workdps(DIGITS):
        scale = mp.mpf(mechanism.noise.scale)
        assert profile(epsilon, scale, 2.5) <= delta
        agree(scale, analytic(epsilon, delta, 2.5), rel=TIGHT)
        agree(mechanism.delta(epsilon), profile(epsilon, scale, 2.5), rel=TIGHT)


def test_the_classical_calibration_is_not_the_analytic_one() -> None:
    """A control: sqrt(2 ln(1.25/delta))/epsilon fails the same comparison."""
    with mp.workdps(DIGITS), pytest.raises(AssertionError):
        agree(math.sqrt(2.0 * math.log(1.25 / 1e-3)) * 2.5, analytic(1.0, 1e-3, 2.5), rel=TIGHT)


def kept(t: mp.mpf, low: float, high: float, scale: float) -> mp.mpf:
    """Z(t) = Phi((u-t)/s) - Phi((l-t)/s)."""
    a, b = (mp.mpf(low) - t) / scale, (mp.mpf(high) - t) / scale
    a, b = (-b, -a) if b < 0 else (a, b)
    return (mp.erfc(a / mp.sqrt(2)) - mp.erfc(b / mp.sqrt(2))) / 2


def truncated(
    q: float, other: float, order: float, low: float, high: float, scale: float, *, eq6: bool = False
) -> mp.mpf:
    """The truncated-Gaussian divergence of THEORY section 4; `eq6` is hu2024's misprint, without the middle term."""
    q, other, a, s = mp.mpf(q), mp.mpf(other), mp.mpf(order), mp.mpf(scale)
    c = other - q
    middle = mp.log(kept(other, low, high, s) / kept(q, low, high, s))
    last = mp.log(kept(q + (1 - a) * c, low, high, s) / kept(q, low, high, s)) / (a - 1)
    return a * c**2 / (2 * s**2) + (0 if eq6 else middle) + last


@pytest.mark.parametrize("order", [1.001, 1.5, 2.0, 8.0, 64.0])
@pytest.mark.parametrize("support", [(-1.0, 1.0), (0.0, INF), (-INF, 0.5), (2.0, 2.5)])
def test_the_truncated_renyi_curve(support: tuple[float, float], order: float) -> None:
    mechanism = rb.Mechanism(
        noise=rb.Gaussian(scale=0.8),
        query=rb.Query(range=rb.Interval(-9, 9), sensitivity=1.0),
        support=rb.Interval(*support),
    )
    with mp.workdps(400):
        for p, q in ((-0.3, 0.7), (0.7, -0.3), (1.9, 2.1), (-2.0, -1.0)):
            exact = truncated(p, q, order, *support, 0.8)
            agree(rb.renyi(mechanism.law(p), mechanism.law(q), order), exact, rel=TIGHT, what=(p, q))
            assert exact <= mp.mpf(order) * (mp.mpf(p) - mp.mpf(q)) ** 2 / (2 * mp.mpf(0.8) ** 2)


def test_the_misprinted_curve_is_caught() -> None:
    mechanism = rb.Mechanism(noise=rb.Gaussian(scale=0.8), query=rb.Query(range=rb.Interval(-1, 1), sensitivity=1.0))
    with mp.workdps(60):
        wrong = truncated(-0.3, 0.7, 2.0, -1.0, 1.0, 0.8, eq6=True)
    with mp.workdps(60), pytest.raises(AssertionError):
        agree(rb.renyi(mechanism.law(-0.3), mechanism.law(0.7), 2.0), wrong, rel=TIGHT)


def unit(support: object, bounding: object, scale: float = 1.0) -> rb.Mechanism:
    """Gaussian noise, answers anywhere within nine."""
    query = rb.Query(range=rb.Interval(-9, 9), sensitivity=1.0)
    return rb.Mechanism(noise=rb.Gaussian(scale=scale), query=query, support=support, bounding=bounding)


def test_with_a_gap_the_curve_may_exceed_the_untruncated_one() -> None:
    mechanism = unit(rb.Union((-INF, -1), (1, INF)), rb.TRUNCATE)
    assert rb.renyi(mechanism.law(-0.5), mechanism.law(0.5), 2.0) == pytest.approx(1.6199, abs=5e-5)


def test_fisher_of_the_rectified_law() -> None:
    """eq. 4 of hu2024 with its sign mended: 0.926221023019974 at q = .3 on [-1, 1]."""
    agree(unit(rb.Interval(-1, 1), rb.RECTIFY).fisher(0.3), mp.mpf("0.926221023019974"), rel=1e-14)


def test_fisher_of_the_truncated_law_is_its_variance() -> None:
    for support in (rb.Interval(-1, 1), rb.Interval(0, INF), rb.Union((-1, 0), (2, 3))):
        mechanism = unit(support, rb.TRUNCATE, scale=0.7)
        assert mechanism.fisher(0.4) == pytest.approx(float(mechanism.law(0.4).variance) / 0.7**4, rel=1e-13)


def test_fisher_of_the_sign() -> None:
    mechanism = unit(rb.Grid(step=2.0, within=rb.Interval(-1, 1)), rb.QUANTIZE, scale=0.7)
    with mp.workdps(40):
        z = mp.mpf(0.4) / mp.mpf(0.7)
        exact = mp.npdf(z) ** 2 / (mp.mpf(0.7) ** 2 * mp.ncdf(z) * mp.ncdf(-z))
        agree(mechanism.fisher(0.4), exact, rel=1e-14)


def test_fisher_of_rounding_tends_to_that_of_clamping() -> None:
    limit = unit(rb.Interval(-1, 1), rb.RECTIFY).fisher(0.3)
    gaps = [
        limit - unit(rb.Grid(step=2.0 / k, within=rb.Interval(-1, 1)), rb.QUANTIZE).fisher(0.3) for k in (8, 16, 32, 64)
    ]
    assert all(gap > 0.0 for gap in gaps)
    assert all(1.6 < a / b < 2.4 for a, b in itertools.pairwise(gaps)), gaps


def test_per_instance_numbers_of_the_rectified_law() -> None:
    """hu2024 as printed takes one shift and one direction: 0.3904 where 0.9307 is true."""
    mechanism = unit(rb.Interval(-1, 1), rb.RECTIFY)
    at = mechanism.law(-2.0)
    assert rb.renyi(at, mechanism.law(-1.0), 2.0) == pytest.approx(0.3904, abs=5e-5)
    every = [
        rb.renyi(*pair, 2.0)
        for shift in (-1.0, 1.0)
        for pair in ((at, mechanism.law(-2.0 + shift)), (mechanism.law(-2.0 + shift), at))
    ]
    assert max(every) == pytest.approx(0.9307, abs=5e-5)
