"""Kernels: every row lies below a mixture of two of them, everywhere on the grid, also by a linear program."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog

import rangebound as rb
from rangebound.accounting.adaptive.curve_rows import SampledRows
from rangebound.accounting.adaptive.kernel_cover import Kernels, cover
from rangebound.accounting.adaptive.pair_rows import pair_rows

SHORT = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
MECHANISMS = [
    rb.Mechanism(noise=rb.Laplace(scale=1.0), query=SHORT),
    rb.Mechanism(noise=rb.Laplace(scale=20.0), query=SHORT),
    rb.Mechanism(noise=rb.Gaussian(scale=4.0), query=SHORT),
    rb.Mechanism(noise=rb.Laplace(scale=3.0), query=SHORT, support=rb.Interval(0, math.inf)),
]
TILTS = np.asarray([0.1, 0.3, 1.0])


def curves(kernels: Kernels, levels: np.ndarray) -> np.ndarray:
    losses = np.arange(kernels.first, kernels.last + 1) * kernels.step
    hinges = np.maximum(-np.expm1(levels[None, :] - losses[:, None]), 0.0)
    return kernels.mass @ hinges + kernels.infinite[:, None]


def shortfall(row: np.ndarray, found: np.ndarray) -> float:
    """What a row has more than the best mixture of kernels: minimise t with row - mixture <= t, by a linear program."""
    count = len(found)
    answer = linprog(
        np.asarray([0.0] * count + [1.0]),
        A_ub=np.hstack([-found.T, -np.ones((found.shape[1], 1))]),
        b_ub=-row,
        A_eq=np.asarray([[1.0] * count + [0.0]]),
        b_eq=[1.0],
        bounds=[(0.0, None)] * count + [(None, None)],
    )
    assert answer.status == 0
    return float(answer.fun)


@pytest.mark.parametrize("m", MECHANISMS, ids=lambda m: str(m.noise))
@pytest.mark.parametrize("tolerance", [1e-4, 1e-2])
def test_every_row_lies_below_a_mixture_of_kernels(m, tolerance):
    rows = pair_rows(m)
    assert rows is not None
    top = m.epsilon()
    step = top / 20.0
    kernels = cover(rows, step, top, TILTS, tolerance)
    assert (kernels.mass >= 0.0).all()
    assert (kernels.mass.sum(axis=1) >= 1.0).all()
    assert kernels.mass.sum(axis=1) == pytest.approx(1.0, abs=1e-9)
    levels = np.arange(-25, 26) * step
    found = curves(kernels, levels)
    for line in rows:
        exact = line.at(levels)
        for i in np.linspace(0, len(exact) - 1, 25).astype(int):
            assert shortfall(exact[i], found) <= 1e-9  # of the solver; the rows without the slack


def test_fewer_kernels_are_a_little_larger_and_none_is_lower_than_its_rows():
    m = MECHANISMS[0]
    rows = pair_rows(m)
    assert rows is not None
    step, top = m.epsilon() / 25.0, m.epsilon()
    fine, coarse = (cover(rows, step, top, TILTS, tolerance) for tolerance in (1e-5, 1e-2))
    assert len(coarse.mass) < len(fine.mass) < 200
    assert coarse.log_moment(0.15) > fine.log_moment(0.15)
    assert coarse.log_moment(0.15) < fine.log_moment(0.15) * 1.011


def test_a_kernel_that_is_made_smaller_is_caught():
    """The control: without its last hundredth of loss a kernel no longer covers its rows."""
    m = MECHANISMS[1]
    rows = pair_rows(m)
    assert rows is not None
    top = m.epsilon()
    kernels = cover(rows, top / 20.0, top, TILTS, 1e-4)
    smaller = Kernels(kernels.step * 0.99, kernels.first, kernels.mass, kernels.infinite)
    levels = np.arange(-20, 21) * kernels.step
    assert max(shortfall(row, curves(smaller, levels)) for row in rows[0].at(levels)[::400]) > 1e-4


@pytest.mark.parametrize("removed", [False, True])
def test_sampled_rows_are_covered(removed):
    m, rate = MECHANISMS[0], 0.05
    top = math.log1p(rate * math.expm1(m.epsilon())) * (1.0 + 1e-12)
    rows = [SampledRows(each, rate, removed) for each in pair_rows(m) or ()]
    kernels = cover(rows, top / 30.0, top, TILTS * 20.0, 1e-3)
    levels = np.arange(-35, 36) * kernels.step
    found = curves(kernels, levels)
    exact = rows[0].at(levels)
    assert max(shortfall(exact[i], found) for i in np.linspace(0, len(exact) - 1, 25).astype(int)) <= 1e-9


def test_a_grid_that_is_too_coarse_has_no_kernels():
    """Rows that no pair can have, above the pair that dominates all others, are refused and never cut."""

    class Above:
        def slack(self, levels: np.ndarray) -> np.ndarray:
            return np.zeros(len(levels))

        def at(self, levels: np.ndarray) -> np.ndarray:
            return np.ones((1, len(levels)))

    assert cover([Above()], 0.1, 1.0, TILTS, 1e-3) is None
