"""Gaussian noise rounded to a grid: the ceiling of the endless lattice, beside sums in another arithmetic."""

from __future__ import annotations

import math
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest

import rangebound as rb
from rangebound.ball import ball, down, up
from rangebound.privacy import worst_renyi
from rangebound.privacy.search.rounded_lattice import rounded_ceiling
from rangebound.privacy.worst import _rounded_inside
from tests.matrix.deadline import deadline

INF = math.inf


def divergence(cuts: list[float], scale: float, order: float, p: float, d: float) -> float:
    """The Renyi divergence after rounding to the cells between cuts, the outermost endless, in mpmath."""
    with mp.workdps(60):

        def mass(low: float, high: float, at: float) -> mp.mpf:
            low, high = (mp.mpf(low) - at) / scale, (mp.mpf(high) - at) / scale
            return mp.ncdf(high) - mp.ncdf(low) if high < 0 else mp.ncdf(-low) - mp.ncdf(-high)

        total = mp.mpf(0)
        for low, high in pairwise([-mp.inf, *cuts, mp.inf]):
            total += mass(low, high, mp.mpf(p)) ** order * mass(low, high, mp.mpf(p) + d) ** (1 - order)
        return float(mp.log(total) / (order - 1))


@pytest.mark.parametrize(
    ("step", "scale", "order", "d"), [(1.0, 1.0, 2.0, 1.0), (1.0, 1.5, 3.0, 0.7), (0.5, 1.0, 8.0, 0.5)]
)
def test_no_position_is_above_the_ceiling_and_all_are_close_below_it(
    step: float, scale: float, order: float, d: float
) -> None:
    top = rounded_ceiling(ball(step), ball(scale), ball(order), ball(d), ball(0.0)).value
    cuts = [step * k for k in range(-45, 45)]
    seen = [divergence(cuts, scale, order, step * k / 7, d) for k in range(8)]
    assert max(seen) <= up(top) * (1.0 + 1e-13)
    assert min(seen) >= down(top) * (1.0 - 1e-4)


def test_a_coarser_lattice_has_a_lower_ceiling() -> None:
    """The control: rounding to steps of 1 must be refuted as a ceiling for steps of a half."""
    coarse, fine = (rounded_ceiling(ball(h), ball(1.5), ball(3.0), ball(0.7), ball(0.0)).value for h in (1.0, 0.5))
    seen = divergence([0.5 * k for k in range(-45, 45)], 1.5, 3.0, 0.1, 0.7)
    assert up(coarse) < seen <= up(fine) * (1.0 + 1e-13)


def test_cuts_off_their_places_need_the_margin_for_them() -> None:
    """With it none is above; the control without it is refuted."""
    generator, off = np.random.default_rng(12), 0.02
    exact, safe = (rounded_ceiling(ball(1.0), ball(1.5), ball(4.0), ball(1.0), ball(x)).value for x in (0.0, off))
    seen = []
    for _ in range(12):
        cuts = [k + off * float(generator.choice([-1.0, 1.0])) for k in range(-30, 30)]
        seen.append(divergence(cuts, 1.5, 4.0, float(generator.uniform()), 1.0))
    assert up(exact) < max(seen) <= up(safe)


@pytest.mark.parametrize(
    ("scale", "answers", "sensitivity", "grid", "order"),
    [
        (0.4, rb.Interval(0, 100), 0.1, rb.Grid(step=0.1, within=rb.Interval(0, 50)), 8),
        (10.0, rb.Interval(-100, 100), 0.5, rb.Grid(step=0.5, within=rb.Interval(-100, 100)), 16),
        (5.0, rb.Interval(-INF, INF), 1.0, rb.Grid(step=1, within=rb.Interval(-50, 50)), 2),
    ],
)
def test_a_long_grid_needs_no_search(
    scale: float, answers: rb.Interval, sensitivity: float, grid: rb.Grid, order: float
) -> None:
    """These took from 4 to more than 40 seconds."""
    query = rb.Query(range=answers, sensitivity=sensitivity)
    m = rb.Mechanism(noise=rb.Gaussian(scale=scale), query=query, support=grid, bounding=rb.QUANTIZE)
    with deadline(m, 3.0):
        found = worst_renyi(m.setting, order)
    assert found.closed
    p, q = found.pair
    cuts = [high for _, high in m.shape.cells[:-1] if abs(high - p) < (12.0 + order) * scale]
    assert math.isclose(divergence(cuts, scale, order, p, q - p), found.lower, rel_tol=1e-9)


def test_the_ceiling_is_what_the_search_finds() -> None:
    query = rb.Query(range=rb.Interval(0, 30), sensitivity=1.0)
    grid = rb.Grid(step=1, within=rb.Interval(0, 30))
    m = rb.Mechanism(noise=rb.Gaussian(scale=1.5), query=query, support=grid, bounding=rb.QUANTIZE)
    quick = _rounded_inside(m.setting, 2.0)
    assert quick is not None
    assert quick.closed
    near_the_ends = rb.Query(range=rb.Interval(0, 3), sensitivity=1.0)
    short = rb.Mechanism(noise=rb.Gaussian(scale=1.5), query=near_the_ends, support=grid, bounding=rb.QUANTIZE)
    assert _rounded_inside(short.setting, 2.0) is None  # the control: seen from there an end hides something
    assert worst_renyi(short.setting, 2.0).upper < quick.lower
