"""Columns of a coarse problem are staircases of the fine one."""

import numpy as np
import pytest
from scipy.optimize import linprog

from rangebound.optimum.staircase_columns import Columns, DesignProblem, price, refined
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


def design(first, places):
    return DesignProblem(first_neighbour=np.array(first), epsilon=1.0, losses=np.abs(places[:, None] - places)[None])


@pytest.mark.parametrize(
    ("first", "places", "symmetric"),
    [
        ([0, 0, 1, 2], [0.0, 1.0, 2.0, 3.0], True),
        ([0, 0, 1, 2], [0.0, 1.0, 2.0, 3.1], False),
        ([0, 0, 0, 2], [0.0, 1.0, 2.0, 3.0], False),
    ],
)
def test_a_design_is_symmetric_if_its_mirror_image_is_the_same(first, places, symmetric):
    assert design(first, np.array(places)).symmetric is symmetric


def test_a_coarser_design_has_the_neighbours_that_are_left():
    problem = design([0, 0, 0, 1, 2], np.arange(5.0))
    coarse = problem.coarse(np.array([0, 2, 4]), np.array([0, 4]))
    assert coarse.first_neighbour.tolist() == [0, 0, 1]
    assert coarse.losses[0].tolist() == [[0.0, 4.0], [2.0, 2.0], [4.0, 0.0]]
    assert coarse.connected
    assert not problem.coarse(np.array([0, 4]), np.array([0, 4])).connected


def windows(rng, count):
    """Random first neighbours: ascending, each input a neighbour of the one before it."""
    return np.array([0, *(min(i - 1, x) for i, x in enumerate(np.sort(rng.integers(0, count, count - 1)), start=1))])


def cheapest_in_cone(costs, first, epsilon):
    """min costs . v over the cone, with v = 1 at the last input."""
    count = len(costs)
    rows = []
    for j in range(count):
        for i in range(first[j], j):
            for a, b in ((i, j), (j, i)):
                row = np.zeros(count)
                row[a], row[b] = 1.0, -np.exp(epsilon)
                rows.append(row)
    last = np.eye(count)[-1:]
    return linprog(costs, A_ub=np.array(rows), b_ub=np.zeros(len(rows)), A_eq=last, b_eq=[1.0]).fun


@pytest.mark.few(20)
@pytest.mark.parametrize("seed", range(40))
def test_the_cheapest_staircase_is_the_cheapest_vector_of_the_cone(seed):
    rng = np.random.default_rng(seed)
    count, epsilon = int(rng.integers(2, 12)), float(rng.uniform(0.05, 2.5))
    first, costs = windows(rng, count), rng.normal(size=(count, 3))
    priced = price(costs, first, epsilon)
    for column in range(3):
        wanted = cheapest_in_cone(costs[:, column], first, epsilon)
        assert priced.least[column] == pytest.approx(wanted, rel=1e-7, abs=1e-7)
        levels = priced.levels[:, column]
        assert np.exp(epsilon * levels) @ costs[:, column] == pytest.approx(priced.least[column], rel=1e-9, abs=1e-9)
        assert all(np.ptp(levels[first[j] : j + 1]) <= 1 for j in range(count))


def test_a_window_that_is_too_narrow_is_noticed():
    costs = np.array([[3.0], [1.0], [-4.0]])
    true, narrow = np.array([0, 0, 0]), np.array([0, 0, 1])
    assert price(costs, true, 1.0).least[0] > price(costs, narrow, 1.0).least[0]
    assert price(costs, true, 1.0).least[0] == pytest.approx(cheapest_in_cone(costs[:, 0], true, 1.0))
