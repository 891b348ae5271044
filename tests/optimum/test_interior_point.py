"""The master's solver against HiGHS."""

import numpy as np
import pytest
from scipy.optimize import linprog

from rangebound.optimum.interior_point import minimise


@pytest.mark.parametrize("seed", range(12))
def test_it_finds_the_least_value_and_its_dual(seed):
    rng = np.random.default_rng(seed)
    rows, slacks, columns = 6, 3, 30
    matrix = rng.uniform(0.0, 1.0, (rows, columns))
    right = matrix @ rng.uniform(0.0, 1.0, columns) + np.r_[np.zeros(rows - slacks), rng.uniform(0.1, 1.0, slacks)]
    cost = rng.uniform(0.1, 1.0, columns)
    found = minimise(matrix, right, cost, slacks=slacks, tolerance=1e-9)
    equal, most = matrix[: rows - slacks], matrix[rows - slacks :]
    wanted = linprog(cost, A_ub=most, b_ub=right[rows - slacks :], A_eq=equal, b_eq=right[: rows - slacks]).fun
    assert found.gap < 1e-9
    assert cost @ found.primal == pytest.approx(wanted, rel=1e-7)
    assert right @ found.dual == pytest.approx(wanted, rel=1e-7)
    assert (cost - matrix.T @ found.dual > -1e-7).all()
    assert (found.dual[rows - slacks :] < 1e-7).all()


@pytest.mark.slow
def test_rows_that_are_almost_combinations_of_others_are_no_error():
    rng = np.random.default_rng(2)
    few = rng.uniform(0.0, 1.0, (600, 3)) * 10.0 ** rng.uniform(-3.0, 3.0, 3)
    matrix = few @ rng.uniform(0.0, 1.0, (3, 2000))
    found = minimise(matrix, matrix.sum(axis=1), rng.uniform(0.1, 1.0, 2000), tolerance=1e-6)
    assert np.isfinite(found.dual).all()
