"""Per-instance divergences: the certified table against balls, formulas and the published undercount."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import rangebound as rb
from rangebound.learn.torch.accounts.renyi_watcher import LossTable, _slack
from rangebound.privacy.pairs.divergences import fisher_formula, renyi_formula
from tests.learn.torch.models import exact_divergence
from tests.thinning import crossed

LINE = rb.Interval(-math.inf, math.inf)
KINDS: list[tuple[Any, Any]] = [
    (rb.UNBOUNDED, None),
    (rb.TRUNCATE, rb.Interval(-1.0, 1.0)),
    (rb.TRUNCATE, rb.Interval(-2.0, 5.0)),
    (rb.RECTIFY, rb.Interval(-1.0, 1.0)),
    (rb.RECTIFY, rb.Interval(-2.0, 5.0)),
    (rb.QUANTIZE, rb.Grid(step=2.0, within=rb.Interval(-1.0, 1.0))),
    (rb.QUANTIZE, rb.Grid(step=1.0, within=rb.Interval(-1.0, 2.0))),
]
ORDERS = (1.1, 2.0, 8.0, 64.0)


def mechanism(bounding: Any, support: Any, shift: float = 0.1, scale: float = 1.0) -> rb.Mechanism:
    query = rb.Query(range=LINE, sensitivity=shift)
    return rb.Mechanism(noise=rb.Gaussian(scale=scale), query=query, support=support, bounding=bounding)


def in_balls(m: rb.Mechanism, at: float, order: float) -> tuple[float, float]:
    """Forward and backward at one location, by the certified scalar function of the core."""
    c = m.query.sensitivity
    forward = max(rb.renyi(m.law(at), m.law(at + s), order) for s in (c, -c))
    return forward, max(rb.renyi(m.law(at + s), m.law(at), order) for s in (c, -c))


@pytest.mark.slow
@crossed({"bounding, support": KINDS, "dtype": [torch.float32, torch.float64]}, ids=str)
def test_tensors_equal_the_scalar_function(bounding: Any, support: Any, dtype: Any) -> None:
    m = mechanism(bounding, support)
    generator = np.random.default_rng(1)
    places = torch.tensor([*generator.uniform(-6, 6, 2), 0.0, 30.0, -30.0, 100.0, -100.0]).to(dtype)
    for order in ORDERS:
        for q in places:
            exact = max(in_balls(m, float(q), order))
            ours = exact_divergence(m, q[None], [order])
            assert not torch.isnan(ours).any()
            # Far out the logarithms are in the thousands, and their last digits show.
            rounding = 3e-15 * (4.0 + float(q) ** 2) * order / (order - 1.0)
            close = 1e-6 if dtype == torch.float32 else 1e-10
            assert float(ours[0]) == pytest.approx(exact, rel=close, abs=rounding)


@pytest.mark.few(2)
@crossed({"bounding, support": KINDS, "shift": [2.0**-13, 2.0**-6, 0.3125, 2.0]}, ids=str)
def test_the_table_is_above_the_truth_and_close(bounding: Any, support: Any, shift: float) -> None:
    m = mechanism(bounding, support, shift=shift)
    table = LossTable(m, ORDERS)
    generator = np.random.default_rng(3)
    places = np.round(generator.uniform(-7, 7, 5) * 2**16) / 2**16  # so that a place plus the shift is exact
    for at in [*places.tolist(), 0.0, 1.0, -1.0, 40.0, -100.0]:
        bound = table.divergence(torch.tensor([at], dtype=torch.float64))
        for order, ours in zip(ORDERS, bound.tolist(), strict=True):
            true = max(in_balls(m, at, order))
            free = 0.5 * order * shift**2
            assert ours >= true
            assert abs(at) > 8.0 or ours <= true + (0.02 if order < 60 else 0.06) * free
            assert 0.0 < ours <= free * (1.0 + 1e-9)  # never "no leakage"


@pytest.mark.claim("privacy")
@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.floats(1e-3, 3.0),
    st.lists(st.floats(-12.0, 12.0), min_size=1, max_size=20),
    st.floats(1.05, 80.0),
)
def test_sums_over_coordinates(kind: tuple[Any, Any], shift: float, places: list[float], order: float) -> None:
    m = mechanism(*kind, shift=shift)
    at = np.asarray(places)
    sums = exact_divergence(m, at, [order])
    bound = LossTable(m, [order]).divergence(torch.tensor(at))
    assert bound[0] >= sums[0] * (1.0 - 1e-12)


def test_the_bound_on_the_curvature() -> None:
    """The second derivative of G, by differences, against what the slack rests on; a control without it must fail."""
    for bounding, support in KINDS:
        for order in (1.5, 4.0, 16.0):
            m = mechanism(bounding, support, shift=0.05)
            at = np.linspace(-6.0, 6.0, 601)
            h = 1e-2

            def g(q: np.ndarray, m: rb.Mechanism = m, order: float = order) -> np.ndarray:
                return np.expm1((order - 1.0) * renyi_formula(m.noise, m.shape, q, q + 0.05, order))

            bent = np.abs(g(at + h) - 2.0 * g(at) + g(at - h)).max() / h**2
            allowed = float(_slack(np.array([order]), 0.05, bounding is rb.TRUNCATE, 1.0)[0]) * 8.0
            assert bent <= allowed
            if bounding is not rb.UNBOUNDED:
                assert bent > 1e-4 * allowed  # the bound matters


def test_the_published_undercount_is_reproduced_and_fixed() -> None:
    """[hu2024, Prop 5.1] as printed takes one shift and one direction: 0.3904 where 0.9307 is true."""
    m = mechanism(rb.RECTIFY, rb.Interval(-1.0, 1.0), shift=1.0)
    printed = rb.renyi(m.law(-2.0), m.law(-1.0), 2.0)
    assert printed == pytest.approx(0.3904, abs=5e-5)
    at = torch.tensor([-2.0], dtype=torch.float64)
    assert float(exact_divergence(m, at, [2.0])[0]) == pytest.approx(0.9307, abs=5e-5)
    assert 0.9307 - 5e-5 <= LossTable(m, [2.0]).divergence(at)[0] <= 0.9307 * 1.01


def test_coordinates_everywhere() -> None:
    """Outliers that spread over more bins than are counted in a plain array, and no coordinate at all."""
    m = mechanism(rb.RECTIFY, rb.Interval(-1.0, 1.0))
    table = LossTable(m, ORDERS)
    wild = torch.tensor([1e12, -1e7, 0.0, 3e5], dtype=torch.float64)
    assert bool(np.isfinite(table.divergence(wild)).all())
    assert table.divergence(torch.zeros(0, dtype=torch.float64)).tolist() == [0.0] * len(ORDERS)


@pytest.mark.parametrize(("bounding", "support"), KINDS, ids=str)
def test_fisher_over_arrays(bounding: Any, support: Any) -> None:
    m = mechanism(bounding, support, scale=1.3)
    at = np.array([-100.0, -20.0, -5.0, -1.0, -0.3, 0.0, 0.3, 1.0, 4.0, 15.0, 60.0])
    exact = m.fisher(at)
    for ours in (
        fisher_formula(m.noise, m.shape, at),
        fisher_formula(m.noise, m.shape, torch.tensor(at)).numpy(),
    ):
        assert (ours >= exact * (1.0 - 1e-15)).all()
        assert (ours > 0.0).all()
        np.testing.assert_allclose(ours[2:9], exact[2:9], rtol=1e-7, atol=1e-9)
        assert (ours <= 1.0 / 1.3**2 * (1.0 + 1e-14)).all()


def test_other_noise_is_refused() -> None:
    query = rb.Query(range=LINE, sensitivity=1.0)
    with pytest.raises(rb.errors.ArgumentError, match="Gaussian"):
        LossTable(rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query, bounding=rb.UNBOUNDED), [2.0])
    with pytest.raises(rb.errors.ArgumentError, match="Interval"):
        LossTable(mechanism(rb.TRUNCATE, rb.Union((-1, 0), (1, 2))), [2.0])
    with pytest.raises(rb.errors.ArgumentError, match="orders"):
        LossTable(mechanism(rb.UNBOUNDED, None), [math.inf])


def test_the_margin_for_rounding_is_that_of_the_farther_location() -> None:
    """Forward from p to q is backward from q to p, margin included, also where one of the two is far out."""
    table = LossTable(mechanism(rb.RECTIFY, rb.Interval(-1.0, 1.0)), ORDERS)
    near, far = np.asarray([0.5, -0.5, 5.0, -5.0]), np.asarray([1e3, -1e3, 5e3, -5e3])
    for p, q in ((near, far), (far, near)):
        for ours, turned in zip(table._pairs(p, q), table._pairs(q, p), strict=True):
            assert np.array_equal(ours[::-1], turned)
