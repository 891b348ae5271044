"""The theorem of one peak: truncated Laplace on an interval, delta over the positions of a pair (docs/theory.md)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import rangebound as rb
from rangebound.ball import ball, down, precision, taylor, up
from rangebound.law import Shape
from rangebound.privacy.search.branch_and_bound import enclose
from rangebound.privacy.search.cell_bound import Task, bound
from rangebound.privacy.search.delta_objective import Delta
from rangebound.privacy.search.loss_objective import Loss
from rangebound.privacy.search.positions import SearchLine
from rangebound.privacy.search.renyi_objective import Renyi
from tests.crosscheck.oracle import Oracle

INF = math.inf


def valley(values: Sequence[Any]) -> Any:
    """How far a sequence goes down before it goes up again, relative to its largest value."""
    before, after = list(itertools.accumulate(values, max)), list(itertools.accumulate(reversed(values), max))[::-1]
    return max(min(a, b) - value for a, b, value in zip(before, after, values, strict=True)) / max(*values, 1e-300)


def deltas(noise: Any, support: Any, d: float, epsilon: float, positions: Sequence[float]) -> list[Any]:
    """Delta of every pair (p, p + d), from its definition."""
    true = Oracle(noise, support, rb.TRUNCATE, digits=40)
    return [true.stick(p, mp.mpf(p) + mp.mpf(d), epsilon) for p in positions]


@pytest.mark.parametrize("seed", range(4))
def test_delta_has_one_peak(seed: int) -> None:
    """Inside the support and beyond it, on intervals and half-lines, to 30 digits."""
    generator = np.random.default_rng([181, seed])
    seen = 0
    for k in range(20):
        width = float(10.0 ** generator.uniform(-1.0, 1.2))
        d = float(width * 10.0 ** generator.uniform(-1.5, 0.0))
        support = [rb.Interval(0, width), rb.Interval(0, width), rb.Interval(0, INF), rb.Interval(-INF, width)][k % 4]
        epsilon = float(d * generator.uniform(0.0, 1.0) ** 0.5 * generator.uniform(0.1, 1.9))
        inside = np.linspace(0.0, width - d, 25)[1:-1]
        outside = [-1.5 * d, -0.5 * d, -0.1 * d, 0.0, width - d, width - 0.9 * d, width - 0.5 * d, width + 0.5 * d]
        values = deltas(rb.Laplace(scale=1.0), support, d, epsilon, sorted([*inside.tolist(), *outside]))
        assert valley(values) < mp.mpf(10) ** -30, (width, d, epsilon, support)
        seen += max(values) > 1e-9 and 0 < np.argmax(values) < len(values) - 1
    assert seen > 3


def test_with_a_gap_there_may_be_two() -> None:
    """The control, and what no objective may claim."""
    support = rb.Union((0, 1), (2, 6), (7, 8))
    values = deltas(rb.Laplace(scale=1.0), support, 0.5, 0.2, np.linspace(0.0, 7.5, 40).tolist())
    assert valley(values) > 0.1


@pytest.mark.parametrize(
    ("noise", "spans", "one"),
    [
        (rb.Laplace(scale=1.0), ((0.0, 4.0),), True),
        (rb.Laplace(scale=1.0), ((0.0, INF),), True),
        (rb.Laplace(scale=1.0), ((0.0, 1.0), (2.0, 4.0)), False),
        (rb.TruncatedLaplacian(scale=1.0, limit=9.0), ((0.0, 4.0),), False),
        (rb.Gaussian(scale=1.0), ((0.0, 4.0),), False),
    ],
    ids=str,
)
def test_only_what_the_theorem_is_about_is_called_peaked(noise: Any, spans: Any, one: bool) -> None:
    shape = Shape(spans=spans, normalised=True)
    assert Delta(noise, shape, 0.5).peaked is one
    assert not Delta(noise, shape, -0.5).peaked
    assert not Renyi(noise, shape, 2.0).peaked
    assert not Loss(noise, shape).peaked


def test_grids_and_clamped_laws_are_not_peaked() -> None:
    query = rb.Query(range=rb.Interval(0, 4), sensitivity=1.0)
    grid = rb.Grid(step=1.0, within=rb.Interval(0, 4))
    for support, bounding in ((grid, rb.TRUNCATE), (grid, rb.QUANTIZE), (None, rb.RECTIFY)):
        m = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query, support=support, bounding=bounding)
        assert not Delta(m.noise, m.shape, 0.5).peaked


def h(x: Any, w: Any) -> Any:
    return x * x / (2 * x - 1 - w * x * x)


def rate(s: Any, w: Any) -> Any:
    """D(s) of the proof."""
    return (1 - w) * (s + 2) - w / s


def test_the_two_masses_of_the_proof() -> None:
    true = Oracle(rb.Laplace(scale=1.0), rb.Interval(0, 3), rb.TRUNCATE, digits=40)
    with mp.workdps(40):
        width, p, d, t = mp.mpf(3), mp.mpf(0.5), mp.mpf(1.25), mp.mpf(1.125)
        w, tau, omega = mp.exp(-width), mp.exp(-t), mp.exp(t - width)
        above = (true.mass_of_noise(t - p, width - p)) / true.mass_of_noise(-p, width - p)
        below = true.mass_of_noise(-p - d, t - p - d) / true.mass_of_noise(-p - d, width - p - d)
        assert abs(above - tau * (1 - omega) * h(mp.exp(p), w)) < 1e-35
        assert abs(below - omega * (1 - tau) * h(mp.exp(width - p - d), w)) < 1e-35
        # d/dp log h = 2/D(s) and h''/h = N/D^2
        z = mp.exp(p)
        s = 1 / (z - 1)
        slope = mp.diff(lambda x: mp.log(h(mp.exp(x), w)), p)
        bend = mp.diff(lambda x: h(mp.exp(x), w), p, 2) / h(z, w)
        assert abs(slope - 2 / rate(s, w)) < 1e-15
        assert abs(bend - bent(s, w) / rate(s, w) ** 2) < 1e-12


def bent(s: Any, w: Any) -> Any:
    """N(s) of the proof."""
    return 6 + 2 * (1 - w) * (1 + s) ** 2 - 2 * rate(s, w)


def stationary(generator: np.random.Generator, reach: float) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Random q, r, s and sigma with q D(s) = r D(sigma), s at least `reach` times its least value."""
    for _ in range(400):
        q, r = (mp.mpf(float(x)) for x in 1.0 - 10.0 ** generator.uniform(-4.0, -0.001, size=2))
        w = (1 - q) * (1 - r)
        s = (1 / q - 1) * mp.mpf(float(reach * 10.0 ** generator.uniform(0.001, 4.0)))
        level = q * rate(s, w) / r  # of D(sigma): a quadratic equation with one root above zero
        half = (level / (1 - w) - 2) / 2
        yield q, r, s, half + mp.sqrt(half * half + w / (1 - w))


def test_every_stationary_place_is_a_maximum() -> None:
    generator = np.random.default_rng(182)
    with mp.workdps(40):
        for q, r, s, sigma in stationary(generator, 1.0):
            w = (1 - q) * (1 - r)
            assert 1 + sigma >= 1 / r
            assert q * bent(s, w) + r * bent(sigma, w) > 2 * (q + r) ** 2 / (q * r)


def test_it_would_not_be_with_the_threshold_outside_the_pair() -> None:
    """The control: below the least s the inequality fails."""
    generator = np.random.default_rng(183)
    with mp.workdps(40):
        assert any(
            q * bent(s, (1 - q) * (1 - r)) + r * bent(sigma, (1 - q) * (1 - r)) < 2 * (q + r) ** 2 / (q * r)
            for q, r, s, sigma in stationary(generator, 1e-4)
        )


def test_a_slope_bounds_a_cell_and_three_cells_bound_a_line() -> None:
    noise, shape = rb.Laplace(scale=1.5), Shape(spans=((0.0, 10.0),), normalised=True)
    with precision(128):
        task = Task(Delta(noise, shape, 0.6), SearchLine(0.0, 9.0, 1.0))
        found = enclose([task])
        assert 0.0 < found.position < 1.0
        assert len(found.cells) <= 3
        assert found.upper <= found.lower * (1.0 + 1e-12)
        values = [down(task.objective.value(ball(float(x)), task.line.d)) for x in np.linspace(0.0, 9.0, 400)]
        assert max(values) <= found.upper
        for start, end in ((0.0, 0.9 * found.position), (1.1 * found.position, 9.0)):
            top = bound(task, start, end)
            assert top == max(up(task.objective.value(ball(x), task.line.d)) for x in (start, end))


@pytest.mark.parametrize("position", [0.0, 9.0])
def test_at_an_end_of_the_support_the_series_is_the_one_from_inside(position: float) -> None:
    """Where the scale is a power of two; else it is not known on which side of the kink the position is."""
    noise, shape = rb.Laplace(scale=2.0), Shape(spans=((0.0, 10.0),), normalised=True)
    with precision(256):
        objective, d = Delta(noise, shape, 0.05), ball(1.0)
        exact = objective.branches(taylor(ball(position), 3), d)[0]
        near = objective.branches(taylor(ball(position) + (5 - ball(position)) * ball(2.0**-200), 3), d)[0]
        assert all(abs(exact[k] - near[k]) < 1e-50 for k in range(4))
