"""Columns of a coarse problem are staircases of the fine one."""

import numpy as np
import pytest

from rangebound.optimum.stair_pricing import price
from rangebound.optimum.staircase_columns import Columns, refined
from tests.optimum.designs import lattice


@pytest.mark.few(3)
@pytest.mark.parametrize("seed", range(6))
def test_columns_of_a_coarse_problem_stay_staircases(seed):
    """Jumps that are moved apart may pass each other, which made two of a direction neighbours."""
    rng = np.random.default_rng(seed)
    problem = lattice(36, 3, 0.56)
    inputs = np.union1d(np.arange(0, 18, 2), 35 - np.arange(0, 18, 2))
    coarse = problem.coarse(inputs, inputs)
    priced = [price(rng.normal(size=(len(inputs), 8)), coarse.first_neighbour, 0.56) for _ in range(20)]
    levels = np.concatenate([each.levels.T for each in priced])
    columns = Columns(levels=levels, outputs=np.zeros(len(levels), dtype=np.int64))
    fine = refined(columns, problem, inputs, inputs)
    assert len(fine) > 20
    for row in fine.levels:
        assert all(np.ptp(row[first : j + 1]) <= 1 for j, first in enumerate(problem.first_neighbour))
