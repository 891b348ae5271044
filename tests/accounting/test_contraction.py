"""The contraction: against hockey sticks of pairs, against dense searches, and with controls that must fail."""

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import rangebound as rb
from rangebound.accounting.kernel_cover import _steepest, contraction
from tests.accounting.pld.exact import gaussian_delta

INF = math.inf


def narrow(half, far, scale=1.0, sensitivity=1.0):
    query = rb.Query(range=rb.Interval(-far * scale, far * scale), sensitivity=sensitivity * scale)
    support = rb.Interval(-half * scale, half * scale)
    return rb.Mechanism(noise=rb.Gaussian(scale=scale), query=query, support=support, bounding=rb.TRUNCATE)


@pytest.mark.few(6)
@pytest.mark.parametrize("half", [0.3, 1.0, 1.7, 3.0])
@pytest.mark.parametrize("shift", [0.2, 1.0, 2.5])
def test_the_gaussian_with_the_smaller_shift_dominates_every_pair(half, shift):
    m = narrow(half, half + 4.0, scale=2.0)
    limit = contraction(m)
    random = np.random.default_rng(7)
    for p in (random.uniform(-half - 4.0, half + 4.0 - shift, 12) * 2.0).tolist():
        first, second = m.law(p), m.law(p + 2.0 * shift)
        for epsilon in (0.0, 0.1, 0.5, 1.5):
            most = gaussian_delta(1.0 / (limit * shift), 1, epsilon) * (1.0 + 1e-12)
            assert rb.hockey_stick(first, second, epsilon) <= most
            assert rb.hockey_stick(second, first, epsilon) <= most


def test_without_the_margin_of_the_middle_it_fails():
    """The control: near the middle the slope is attained, and a shift that is a tenth smaller does not dominate."""
    half = 3.0
    m = narrow(half, half)
    short = 0.9 * contraction(m)
    assert any(
        rb.hockey_stick(m.law(-0.05), m.law(0.05), epsilon) > gaussian_delta(10.0 / short, 1, epsilon)
        for epsilon in (0.0, 0.05, 0.1)
    )


@pytest.mark.parametrize("half", [0.05, 0.4, 1.0, 2.0, 4.0])
def test_it_is_above_every_slope_of_a_dense_search_and_near_the_one_of_the_middle(half):
    far = half + 4.0
    found = _steepest(half, far)
    y = np.linspace(-half - far - 3.0, half + far + 3.0, 4001)
    largest = 0.0
    for location in np.linspace(0.0, far, 101).tolist():
        below, above = ndtr(-half - location), ndtr(location - half)
        mass = ndtr(half - location) - below
        left, right = below + mass * ndtr(y), above + mass * ndtr(-y)
        z = np.where(left < right, ndtri(left), -ndtri(right))
        largest = max(largest, float((mass * np.exp(0.5 * (z * z - y * y))).max()))
    assert largest <= found * (1.0 + 1e-12)
    middle = float(ndtr(half) - ndtr(-half))
    assert middle <= found <= middle * (1.0 + 5e-3)


def test_units_do_not_matter():
    query = rb.Query(range=rb.Interval(100.0, 104.0), sensitivity=1.0)
    shifted = rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=query, support=rb.Interval(101.0, 103.0))
    for m in (shifted, narrow(1.0, 2.0, scale=8.0)):
        assert contraction(m) == pytest.approx(contraction(narrow(1.0, 2.0)), rel=1e-12)


LINE = rb.Query(range=rb.Interval(-INF, INF), sensitivity=1.0)
SHORT = rb.Query(range=rb.Interval(0, 2), sensitivity=1.0)


@pytest.mark.parametrize(
    "m",
    [
        rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=LINE, bounding=rb.UNBOUNDED),
        rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=LINE, support=rb.Interval(0, 1)),
        rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=SHORT, bounding=rb.RECTIFY),
        rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=SHORT, support=rb.Interval(0, INF)),
        rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=SHORT, support=rb.Union((0, 1), (1.5, 2))),
        rb.Mechanism(noise=rb.Laplace(scale=1.0), query=SHORT),
        narrow(6.5, 6.5),
    ],
)
def test_one_where_there_is_no_rule(m):
    assert contraction(m) == 1.0
