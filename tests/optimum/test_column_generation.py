"""Held-out random designs against the full linear program."""

import dataclasses

import numpy as np
import pytest

from rangebound.optimum import column_generation
from rangebound.optimum.column_generation import solve
from rangebound.optimum.staircase_columns import DesignProblem
from tests.optimum.designs import lattice, least_error
from tests.optimum.test_staircase_columns import windows


def case(seed):
    """A random design: lattice or uneven inputs, one or two answers an input, either loss, worst case or a prior."""
    rng = np.random.default_rng(1000 + seed)
    count, epsilon = int(rng.integers(3, 26)), float(rng.uniform(0.1, 2.5))
    if rng.random() < 0.5:
        first = np.maximum(np.arange(count) - int(rng.integers(1, 7)), 0)
        inputs = np.arange(count) / 4.0
    else:
        first, inputs = windows(rng, count), np.sort(rng.uniform(0.0, 10.0, count))
    answers = np.stack((inputs - 0.1, inputs + 0.1)) if rng.random() < 0.5 else inputs[None]
    losses = np.abs(answers[:, :, None] - np.unique(answers))
    if rng.random() < 0.4:
        losses = losses**2
    prior = rng.uniform(0.0, 1.0, answers.shape) if rng.random() < 0.5 else None
    return DesignProblem(
        first_neighbour=first, epsilon=epsilon, losses=losses, prior=None if prior is None else prior / prior.sum()
    )


def agrees(problem):
    design = solve(problem, gap=1e-6, final=1e-9)
    wanted = least_error(problem.losses, problem.first_neighbour, problem.epsilon, problem.prior)
    assert design.value == pytest.approx(wanted, rel=2e-5)
    assert design.limit <= wanted * (1.0 + 1e-6)
    table = design.probabilities
    assert table.sum(axis=1) == pytest.approx(1.0)
    for j, first in enumerate(problem.first_neighbour):
        for i in range(first, j):
            assert (table[i] <= np.exp(problem.epsilon) * table[j] + 1e-7).all()
            assert (table[j] <= np.exp(problem.epsilon) * table[i] + 1e-7).all()
    return wanted


@pytest.mark.few(3)
@pytest.mark.parametrize("seed", [*range(24), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(24, 150))])
def test_a_design_is_that_of_the_full_program(seed):
    agrees(case(seed))


@pytest.mark.slow
def test_coarse_starts_and_halves_end_at_the_same_value():
    problem = lattice(33, 4)
    assert problem.symmetric
    wanted = agrees(problem)
    tilt = np.linspace(1.0, 1.0 + 1e-9, 33)[None, :, None]  # not symmetric, and the same for all else
    other = dataclasses.replace(problem, losses=tilt * problem.losses)
    assert not other.symmetric
    assert solve(other, gap=1e-6, final=1e-9).value == pytest.approx(wanted, rel=1e-5)


def test_one_neighbour_less_is_noticed():
    wide = lattice(9, 2)
    narrow = dataclasses.replace(wide, first_neighbour=np.maximum(np.arange(9) - 1, 0))
    assert solve(narrow).value < 0.9 * least_error(wide.losses, wide.first_neighbour, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
def test_a_search_that_begins_with_tents_ends_at_the_value_of_the_full_program(monkeypatch, epsilon):
    monkeypatch.setattr(column_generation, "_SMALL", 8)
    agrees(lattice(25, 3, epsilon))


def test_a_search_that_ends_before_its_gap_is_closed_says_so():
    assert not solve(lattice(40, 3), gap=1e-9, rounds=1).closed
    assert solve(lattice(40, 3), gap=1e-3).closed
