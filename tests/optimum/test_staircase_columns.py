"""Columns that a search begins with are staircases, each of them once."""

import numpy as np
import pytest

from rangebound.optimum.design_problem import DesignProblem
from rangebound.optimum.stair_pricing import price
from rangebound.optimum.staircase_columns import Columns, first_columns, refined


def test_the_first_columns_are_staircases_and_the_constant_is_one_of_them():
    x = np.arange(20.0)
    first = np.maximum(np.arange(20) - 3, 0)
    problem = DesignProblem(first_neighbour=first, epsilon=1.0, losses=np.abs(x[:, None] - x)[None])
    columns = first_columns(problem)
    assert columns.allowed(first).all()
    assert (np.ptp(columns.levels, axis=1) == 0).any()
    assert len(columns.with_others(columns)) == len(columns)
    steep = Columns(levels=2 * columns.levels, outputs=columns.outputs)
    assert not steep.allowed(first).all()


@pytest.mark.parametrize("seed", range(6))
def test_columns_of_a_coarse_problem_stay_staircases(seed):
    """Jumps that are moved apart may pass each other, which made two of a direction neighbours."""
    rng = np.random.default_rng(seed)
    count, steps, epsilon = 36, 3, 0.56
    first = np.maximum(np.arange(count) - steps, 0)
    x = np.arange(float(count))
    problem = DesignProblem(first_neighbour=first, epsilon=epsilon, losses=np.abs(x[:, None] - x)[None])
    inputs = np.union1d(np.arange(0, 18, 2), 35 - np.arange(0, 18, 2))
    coarse = problem.coarse(inputs, inputs)
    priced = [price(rng.normal(size=(len(inputs), 8)), coarse.first_neighbour, epsilon) for _ in range(20)]
    levels = np.concatenate([each.levels.T for each in priced])
    columns = Columns(levels=levels, outputs=np.zeros(len(levels), dtype=np.int64))
    fine = refined(columns, problem, inputs, inputs)
    assert len(fine) > 20
    for row in fine.levels:
        assert all(np.ptp(row[first[j] : j + 1]) <= 1 for j in range(count))
