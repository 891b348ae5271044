"""Series: known figures, optimality, cost against all neighbours, answers against dense least squares."""

import math

import numpy as np
import pytest

from rangebound.errors import ArgumentError
from rangebound.release.noise.joint_loss import Contributions, NoiseAccount
from rangebound.release.noise.strategies.designs import design_series, workload_square
from rangebound.release.noise.strategies.series_strategies import (
    BlockStrategy,
    FactorStrategy,
    squared_length,
)
from tests.release.noise.strategies.dense_optimum import optimum
from tests.release.noise.strategies.neighbours import moves
from tests.release.noise.strategies.sums_of_days import periods, running_totals

GAUSSIAN, PURE = NoiseAccount
MU_SQUARED = 1 / 4.2245**2  # of (1, 1e-6)


def worst_neighbour(strategy):
    factored = isinstance(strategy, FactorStrategy)
    found = moves(len(strategy.factor) if factored else strategy.length, strategy.contributions)
    if factored:
        return ((found @ strategy.matrix.T) ** 2).sum(axis=1).max() / strategy.scale**2
    cost = np.abs(found).sum(axis=1) / strategy.cell_scale
    if strategy.block_scale is not None:
        cost = cost + np.abs(np.add.reduceat(found, strategy.starts, axis=1)).sum(axis=1) / strategy.block_scale
    return cost.max()


def dense(strategy):
    if isinstance(strategy, FactorStrategy):
        return strategy.matrix.astype(float), np.full(len(strategy.factor), strategy.noise.variance)
    cells = np.eye(strategy.length)
    blocks = np.add.reduceat(cells, strategy.starts, axis=0)
    cell, block = (strategy.noises * 2)[:2]
    if strategy.block_scale is None:
        return cells, np.full(len(cells), cell.variance)
    return np.vstack([cells, blocks]), np.repeat([cell.variance, block.variance], [len(cells), len(blocks)])


SMALL = [
    (6, running_totals(6)),
    (7, (*running_totals(7), *periods(range(7), 7), *periods([0, 3], 7))),
    (5, ((0, 2), (2, 5))),
    (1, ((0, 1),)),
]


@pytest.mark.few(12)
@pytest.mark.parametrize(("length", "ranges"), SMALL)
@pytest.mark.parametrize("account", NoiseAccount)
@pytest.mark.parametrize("cells", [1, 2, 3])
@pytest.mark.parametrize("replaced", [False, True])
def test_no_neighbour_costs_more_than_the_strategy_says(length, ranges, account, cells, replaced):
    bounds = Contributions(rows=2 if cells < 3 else 1, cells=cells, replaced=replaced)
    strategy = design_series(length, ranges, budget=0.7, account=account, contributions=bounds)
    assert worst_neighbour(strategy) <= float(strategy.cost) * (1 + 1e-9)
    assert 0.7 * (1 - 1e-9) <= strategy.cost <= 0.7
    if cells == 1 and not replaced:
        assert worst_neighbour(strategy) == pytest.approx(0.7, rel=1e-9)


def test_the_cost_of_one_contribution_is_not_enough_for_three():
    """The control: g times the cost of one cell, as for independent cells, is less than some unit costs."""
    one = design_series(6, running_totals(6), budget=1.0, account=GAUSSIAN)
    three = FactorStrategy(factor=one.factor, ranges=one.ranges, contributions=Contributions(cells=3), scale=one.scale)
    assert worst_neighbour(three) > 1.2 * 3 * one.cost
    assert worst_neighbour(three) <= three.cost


@pytest.mark.parametrize("replaced", [False, True])
def test_bounds_hold_for_matrices_with_entries_of_both_signs(replaced):
    random = np.random.default_rng(5)
    for cells in (1, 2, 4):
        for _ in range(30):
            matrix = np.tril(random.integers(-9, 10, (6, 6)))
            np.fill_diagonal(matrix, random.integers(1, 10, 6))
            bounds = Contributions(cells=cells, replaced=replaced)
            assert ((moves(6, bounds) @ matrix.T) ** 2).sum(axis=1).max() <= squared_length(matrix, bounds)


@pytest.mark.parametrize(("length", "ranges"), [*SMALL, (23, (*running_totals(23), *periods([0, 7, 14, 21], 23)))])
@pytest.mark.parametrize("account", NoiseAccount)
def test_answers_are_those_of_dense_least_squares(length, ranges, account):
    strategy = design_series(length, ranges, budget=2.0, account=account, series=2)
    truth = np.arange(2 * length).reshape(2, length)
    drawn = strategy.draw(truth)
    assert strategy.admits(drawn)
    noisy = drawn.reshape(2, -1)
    matrix, variances = dense(strategy)
    weighted = matrix / np.sqrt(variances)[:, None]
    cells = np.linalg.lstsq(weighted, (noisy / np.sqrt(variances)).T, rcond=None)[0]
    rows = np.array([[first <= at < stop for at in range(length)] for first, stop in ranges], dtype=float)
    np.testing.assert_allclose(strategy.answers(drawn).values, (rows @ cells).T.ravel(), rtol=1e-6, atol=1e-5)
    spread = rows @ np.linalg.inv(weighted.T @ weighted) @ rows.T
    np.testing.assert_allclose(strategy.variances, np.tile(np.diag(spread), 2), rtol=1e-6)


@pytest.mark.slow
def test_all_running_totals_of_a_year_have_small_errors():
    totals = running_totals(365)
    blocks = design_series(365, totals, budget=1.0, account=PURE)
    assert isinstance(blocks, BlockStrategy)
    assert math.sqrt(blocks.variances.mean()) < 9.2
    plain = BlockStrategy(
        length=365, block=1, ranges=totals, contributions=Contributions(), cell_scale=1.0, block_scale=None
    )
    assert 18.0 < math.sqrt(plain.variances.mean()) < 19.1
    gaussian = design_series(365, totals, budget=MU_SQUARED, account=GAUSSIAN)
    assert math.sqrt(gaussian.variances.mean()) < 11.15
    least = optimum(workload_square(365, totals), rounds=6, close=0.0) / MU_SQUARED
    assert gaussian.variances.sum() <= 1.005 * least


@pytest.mark.parametrize(("length", "ranges"), SMALL)
def test_total_variance_is_near_the_optimum_over_all_gram_matrices(length, ranges):
    least = optimum(workload_square(length, ranges), rounds=3000)
    strategy = design_series(length, ranges, budget=1.0, account=GAUSSIAN)
    assert least * (1 - 1e-6) <= strategy.variances.sum() <= least * 1.01


def test_what_cannot_have_been_drawn_is_refused():
    for account in NoiseAccount:
        strategy = design_series(4, running_totals(4), budget=1.0, account=account)
        drawn = strategy.draw([1, 2, 3, 4])
        assert not strategy.admits(drawn[:-1])
        with pytest.raises(ArgumentError, match="drawn"):
            strategy.answers(drawn + 2.0**-30)
        assert strategy.admits(strategy.draw([10**30, 0, 0, 0]))


def test_wrong_factors_are_errors():
    for factor in [((1,), (0, 0)), ((1,), (1,)), ((2**17,),)]:
        with pytest.raises(AssertionError):
            FactorStrategy(factor=factor, ranges=((0, 1),), contributions=Contributions(), scale=1.0)
