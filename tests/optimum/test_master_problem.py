"""The master problem with a risk for every answer, and with tents, which can only be lower."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import linprog

from rangebound.optimum.master_problem import MasterProblem, minimise, tents
from rangebound.optimum.staircase_columns import first_columns
from tests.optimum.designs import lattice


def designs():
    points = lattice(30, 4)
    x = np.arange(30) / 4.0
    cells, y = np.stack((x - 0.125, x + 0.125)), x + 0.1 * np.sin(x)
    yield points
    yield dataclasses.replace(points, losses=np.abs(cells[:, :, None] - np.unique(cells)))
    yield dataclasses.replace(points, losses=np.abs(y[None, :, None] - y))


def solved(problem, apart):
    master = MasterProblem(problem, first_columns(problem), problem.symmetric, apart)
    return master, minimise(*master.program, slacks=master.slacks, tolerance=1e-9)


@pytest.mark.parametrize("problem", list(designs()), ids=["points", "cells", "uneven"])
def test_the_value_is_that_of_another_solver_and_tents_leave_the_sums_and_lower_the_risk(problem):
    (master, found), (rough, least) = both = [solved(problem, apart) for apart in (1, 8)]
    for each, solution in both:
        matrix, right, cost = each.program
        equal, below = matrix[: each.rows], matrix[each.rows :]
        other = linprog(cost, A_ub=below, b_ub=right[each.rows :], A_eq=equal, b_eq=right[: each.rows])
        assert each.value(solution.primal) == pytest.approx(other.fun * each.scale, rel=1e-5)
    assert 0.9 * master.value(found.primal) < rough.value(least.primal) <= master.value(found.primal) * (1.0 + 1e-7)
    assert len(rough.program[1]) < len(master.program[1])
    weights = least.primal[:-1]
    sums = weights @ rough.heights
    assert (sums + sums[::-1] if rough.half else sums) == pytest.approx(1.0, abs=1e-6)
    prior, prices = rough.dual(least.dual)
    assert prior.min() >= 0.0
    assert prior.sum() == pytest.approx(1.0)
    assert prices.sum() == pytest.approx(rough.value(least.primal), rel=1e-6)


@pytest.mark.parametrize(("count", "apart"), [(1, 8), (2, 8), (20, 3), (161, 8), (320, 16)])
def test_tents_sum_to_one_and_every_end_is_a_top(count, apart):
    found = tents(count, apart)
    assert found.min() >= 0.0
    assert found.sum(axis=0) == pytest.approx(1.0)
    assert found[0, 0] == found[-1, -1] == 1.0
    tops = found.argmax(axis=1)
    assert np.diff(tops).max(initial=1) <= apart
    assert len(found) <= 2 * count / apart + 8 * np.log2(2 * apart)


@pytest.mark.slow
def test_rows_that_are_almost_combinations_of_others_are_no_error():
    rng = np.random.default_rng(2)
    few = rng.uniform(0.0, 1.0, (600, 3)) * 10.0 ** rng.uniform(-3.0, 3.0, 3)
    matrix = few @ rng.uniform(0.0, 1.0, (3, 2000))
    found = minimise(matrix, matrix.sum(axis=1), rng.uniform(0.1, 1.0, 2000), tolerance=1e-6)
    assert np.isfinite(found.dual).all()
