"""Sums of rounded Gaussian laws in floats with error bounds, against mpmath from the definition."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest

import rangebound as rb
from rangebound.ball import ball, down, up
from rangebound.law import Shape
from rangebound.privacy.search.renyi_objective import Renyi
from rangebound.privacy.supremum import tasks
from rangebound.privacy.windows import gaussian_rounded, gaussian_worst
from rangebound.privacy.windows.gaussian_rounded import _GaussianCells, rounded_renyi
from rangebound.privacy.windows.gaussian_windows import windows_of

CUTS = (-math.inf, 0.5, 1.5, 2.5, math.inf)
SHAPE = Shape(points=(0.0, 1.0, 2.0, 3.0), cells=tuple(itertools.pairwise(CUTS)))


@pytest.mark.parametrize("order", [1.5, 3.0, 20.0, 1e3, 1e5, 1e6])
def test_sums_are_within_their_errors(order: float) -> None:
    """At orders of 1e6 the logarithms cancel until nothing is known; before, the error was capped at 1.7 of the sum."""
    d = 0.7
    p = np.asarray([0.3, (order - 1.0) * d, (order - 1.0) * d + 1.3])
    with np.errstate(all="ignore"):
        cells = _GaussianCells(1.0, SHAPE, order, d)
        value, error = cells._sum(p, *cells._near(p, cells.level))
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


GRID = rb.Grid(step=0.5, within=rb.Interval(0, 6))
DEEP = {
    "far ends": (0.5, rb.Interval(0, 6), 1.0, GRID, rb.QUANTIZE, 64.0),
    "wide noise": (20.0, rb.Interval(0, 6), 3.0, GRID, rb.QUANTIZE, 256.0),
    "beyond the grid": (2.0, rb.Interval(-10, 30), 1.0, GRID, rb.QUANTIZE, 128.0),
    "half-line": (3.0, rb.Interval(0, math.inf), 2.0, GRID, rb.QUANTIZE, 32.0),
    "clamped": (0.5, rb.Interval(0, 6), 1.0, rb.Interval(0, 6), rb.RECTIFY, 64.0),
    "clamped, half-line": (3.0, rb.Interval(0, math.inf), 2.0, rb.Interval(0, 6), rb.RECTIFY, 128.0),
    "low order": (2.0, rb.Interval(0, 6), 1.0, GRID, rb.QUANTIZE, 1.25),
}


def lines_of(name: str) -> tuple[list, float]:
    scale, answers, d, support, bounding, order = DEEP[name]
    m = rb.Mechanism(
        noise=rb.Gaussian(scale=scale),
        query=rb.Query(range=answers, sensitivity=d),
        support=support,
        bounding=bounding,
    )
    return tasks(m.setting, lambda noise, shape: Renyi(noise, shape, order)), scale


@pytest.mark.parametrize("name", DEEP)
def test_no_position_has_more_than_the_upper_end_however_far_the_sum_is_below_the_unbounded_one(name: str) -> None:
    lines, scale = lines_of(name)
    found = gaussian_worst.enclosed(lines, None)
    assert found is not None
    assert found.closed
    dice = np.random.default_rng(3)
    for objective, line in lines:
        start, end = max(line.start, -40.0 * scale), min(line.end, 400.0 * scale)
        places = [*dice.uniform(start, end, 60), start, end, found.position + 1e-3 * scale, found.position]
        for p in (float(x) for x in places if line.start <= x <= line.end):
            assert down(objective.value(ball(p), line.d)) <= found.upper
    objective, line = lines[found.task]
    assert up(objective.value(ball(found.position), line.d)) >= found.lower


def test_control_windows_without_an_ellipse_miss_the_largest_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """On whole lines, with nothing added for what a polynomial misses, an upper end falls below an attained value.

    On the windows that have ellipses even a degree of 4 does not, so that would be no control.
    """
    monkeypatch.setattr(gaussian_rounded, "truncation", lambda degree, rho: 0.0)
    monkeypatch.setattr(
        _GaussianCells, "subdivided", lambda self, windows: windows._replace(rho=np.full_like(windows.rho, 4.0))
    )
    below = 0
    for name in DEEP:
        for objective, line in lines_of(name)[0]:
            reach = 400.0 * objective.step()
            start, end = max(line.start, -reach), min(line.end, reach)
            windows = windows_of([(start, end, line.far - line.near, 0, 0, 0.0)])
            found = rounded_renyi(objective.step(), objective.shape, DEEP[name][-1], windows)
            places = np.linspace(start, end, 400)
            below += found is not None and any(down(objective.value(ball(p), line.d)) > found.upper for p in places)
    assert below > 0


def test_windows_are_cut_until_every_ellipse_is_low_enough() -> None:
    """Half its height is at most s/sqrt(a), and the parts of a window are together the window."""
    scale, order = 1.0, 20.0
    for start, end in ((0.0, 1e-3), (0.0, 0.4), (-3.0, 40.0)):
        found = _GaussianCells(scale, SHAPE, order, 0.7).subdivided(windows_of([(start, end, 0.7, 0, 0, 0.0)]))
        assert found is not None
        assert (found.high <= scale / math.sqrt(order)).all()
        assert (found.start[0], found.end[-1]) == (start, end)
        assert (found.start[1:] == found.end[:-1]).all()
