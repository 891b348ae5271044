"""Held-out random designs against the full linear program."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from rangebound.optimum import column_generation
from rangebound.optimum.column_generation import solve
from rangebound.optimum.design_problem import DesignProblem
from tests.optimum.full_program import least_error
from tests.optimum.test_stair_pricing import windows


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


@pytest.mark.parametrize("seed", range(24))
def test_a_design_is_that_of_the_full_program(seed):
    agrees(case(seed))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(24, 150))
def test_many_designs_are_those_of_the_full_program(seed):
    agrees(case(seed))


def test_coarse_starts_and_halves_end_at_the_same_value():
    inputs = np.arange(33) / 4.0
    first = np.maximum(np.arange(33) - 4, 0)
    losses = np.abs(inputs[None, :, None] - inputs)
    problem = DesignProblem(first_neighbour=first, epsilon=1.0, losses=losses)
    assert problem.symmetric
    wanted = agrees(problem)
    tilted = np.linspace(1.0, 1.0 + 1e-9, 33)[None, :, None] * losses  # not symmetric, and the same for all else
    other = DesignProblem(first_neighbour=first, epsilon=1.0, losses=tilted)
    assert not other.symmetric
    assert solve(other, gap=1e-6, final=1e-9).value == pytest.approx(wanted, rel=1e-5)


def test_one_neighbour_less_is_noticed():
    inputs = np.arange(9.0)
    losses = np.abs(inputs[None, :, None] - inputs)
    wide, narrow = (np.maximum(np.arange(9) - reach, 0) for reach in (2, 1))
    wanted = least_error(losses, wide, 1.0)
    assert solve(DesignProblem(first_neighbour=narrow, epsilon=1.0, losses=losses)).value < 0.9 * wanted


def lattice(count, steps, epsilon):
    x = np.arange(count) / steps
    first = np.maximum(np.arange(count) - steps, 0)
    return DesignProblem(first_neighbour=first, epsilon=epsilon, losses=np.abs(x[None, :, None] - x))


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
def test_a_search_that_begins_with_tents_ends_at_the_value_of_the_full_program(monkeypatch, epsilon):
    monkeypatch.setattr(column_generation, "_SMALL", 8)
    agrees(lattice(25, 3, epsilon))


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_tents_are_left_where_they_are_not_near_enough(monkeypatch, epsilon):
    problem = lattice(81, 8, epsilon)
    found = solve(problem, gap=1e-3)
    monkeypatch.setattr(column_generation, "_SMALL", 1000)
    wanted = solve(problem, gap=1e-4)
    assert found.closed
    assert wanted.closed
    assert found.limit <= wanted.value
    assert found.value >= wanted.limit
    assert found.value == pytest.approx(wanted.value, rel=1.1e-3)


def test_a_search_that_ends_before_its_gap_is_closed_says_so():
    x = np.arange(40.0)
    problem = DesignProblem(
        first_neighbour=np.maximum(np.arange(40) - 3, 0), epsilon=1.0, losses=np.abs(x[:, None] - x)[None]
    )
    assert not solve(problem, gap=1e-9, rounds=1).closed
    assert solve(problem, gap=1e-3).closed


def test_a_search_has_one_blas_thread_and_leaves_their_number_alone():
    def threads():
        return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]

    heard = []
    problem = DesignProblem(
        first_neighbour=np.maximum(np.arange(9) - 2, 0),
        epsilon=1.0,
        losses=np.abs(np.arange(9.0)[None, :, None] - np.arange(9.0)),
    )
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        solve(problem, tell=lambda gap: heard.append(threads()))
        assert before == threads()
        assert 2 in before
    assert heard
    assert all(set(each) == {1} for each in heard)
