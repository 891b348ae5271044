"""What a design says of itself: symmetric, connected, and coarser on some of its inputs."""

import numpy as np
import pytest

from rangebound.optimum.design_problem import DesignProblem, last_neighbour


def design(first, places):
    return DesignProblem(first_neighbour=np.array(first), epsilon=1.0, losses=np.abs(places[:, None] - places)[None])


def test_last_neighbours_are_those_of_which_it_is_the_first():
    first = np.array([0, 0, 1, 1, 4])
    last = last_neighbour(first)
    assert last.tolist() == [1, 3, 3, 3, 4]
    assert all((first[j] <= i) == (j <= last[i]) for i in range(5) for j in range(i, 5))


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
