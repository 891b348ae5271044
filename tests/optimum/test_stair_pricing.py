"""The cheapest staircase is the cheapest vector of the cone, by linear programming over the cone itself."""

import numpy as np
import pytest
from scipy.optimize import linprog

from rangebound.optimum.stair_pricing import price


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
