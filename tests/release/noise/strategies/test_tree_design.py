"""Hierarchies: cost against all neighbours, answers against dense least squares, total variance against the optimum."""

import time

import numpy as np
import pytest

from rangebound.errors import ArgumentError
from rangebound.release.noise.joint_loss import Contributions, NoiseAccount
from rangebound.release.noise.strategies.designs import design_tree
from rangebound.release.noise.strategies.tree_strategy import Tree, TreeStrategy
from tests.release.noise.strategies.dense_optimum import optimum
from tests.release.noise.strategies.neighbours import moves

GAUSSIAN, PURE = NoiseAccount
TREES = {
    "regular": (-1, 0, 0, 1, 1, 1, 2, 2, 2),
    "irregular": (-1, 0, 0, 0, 1, 1, 1, 1, 2, 8, 8, 10),
    "chain": (-1, 0, 1, 2, 3, 3),
    "star": (-1, 0, 0, 0, 0, 0),
    "point": (-1,),
}


def incidence(tree):
    rows = np.zeros((len(tree), len(tree.leaves)))
    for column, leaf in enumerate(tree.leaves.tolist()):
        node = leaf
        while node >= 0:
            rows[node, column] = 1.0
            node = tree.parents[node]
    return rows


def worst_neighbour(strategy):
    rows = incidence(strategy.tree)[strategy.measured]
    moved = np.abs(moves(rows.shape[1], strategy.contributions) @ rows.T) / np.array(strategy.scales)[strategy.measured]
    return (moved**2 if strategy.account is GAUSSIAN else moved).sum(axis=1).max()


@pytest.mark.few(15)
@pytest.mark.parametrize("parents", TREES.values(), ids=TREES)
@pytest.mark.parametrize("account", NoiseAccount)
@pytest.mark.parametrize("cells", [1, 2, 3])
@pytest.mark.parametrize("replaced", [False, True])
def test_no_neighbour_costs_more_than_the_strategy_says(parents, account, cells, replaced):
    bounds = Contributions(rows=2 if cells == 1 else 1, cells=cells, replaced=replaced)
    strategy = design_tree(Tree(parents=parents), budget=0.4, account=account, contributions=bounds)
    assert worst_neighbour(strategy) <= float(strategy.cost) * (1 + 1e-9)
    assert 0.4 * (1 - 1e-8) <= strategy.cost <= 0.4
    if cells == 1 and not replaced:
        assert worst_neighbour(strategy) == pytest.approx(0.4, rel=1e-8)


def test_more_contributions_than_leaves_cost_no_more_than_all_leaves():
    tree = Tree(parents=TREES["irregular"])
    for account in NoiseAccount:
        bounds = Contributions(cells=len(tree.leaves))
        strategy = design_tree(tree, budget=1.0, account=account, contributions=bounds)
        more = TreeStrategy(tree=tree, account=account, contributions=Contributions(cells=100), scales=strategy.scales)
        assert float(more.cost) == pytest.approx(float(strategy.cost), rel=1e-12)


def test_the_cost_of_one_leaf_times_their_number_is_not_enough():
    """The control: in a Gaussian account, g leaves under one node cost more than g times one of them."""
    one = design_tree(Tree(parents=TREES["regular"]), budget=1.0, account=GAUSSIAN)
    three = TreeStrategy(tree=one.tree, account=GAUSSIAN, contributions=Contributions(cells=3), scales=one.scales)
    assert worst_neighbour(three) > 1.2 * 3 * one.cost
    assert worst_neighbour(three) <= float(three.cost) * (1 + 1e-9)


@pytest.mark.parametrize("parents", TREES.values(), ids=TREES)
@pytest.mark.parametrize("account", NoiseAccount)
def test_answers_are_those_of_dense_least_squares(parents, account):
    tree = Tree(parents=parents)
    strategy = design_tree(tree, budget=0.5, account=account)
    rows = incidence(tree)
    drawn = strategy.draw(np.arange(len(tree.leaves)) * 7)
    assert strategy.admits(drawn)
    variances = np.array(
        [
            next(each.variance for each in strategy.noises if each.scale == strategy.scales[at])
            for at in strategy.measured
        ]
    )
    weighted = rows[strategy.measured] / np.sqrt(variances)[:, None]
    leaves = np.linalg.lstsq(weighted, drawn / np.sqrt(variances), rcond=None)[0]
    np.testing.assert_allclose(strategy.answers(drawn).values, rows @ leaves, rtol=1e-9, atol=1e-8)
    spread = rows @ np.linalg.inv(weighted.T @ weighted) @ rows.T
    np.testing.assert_allclose(strategy.variances, np.diag(spread), rtol=1e-9)


def test_variances_hold_where_scales_are_very_different():
    """A leaf with 10^7 times the noise of its sibling and its parent: 1 - t / T has few digits left."""
    tree = Tree(parents=(-1, 0, 0, 1, 1))
    scales = (1.0, 1.0, 1.0, 1e7, 1.0)
    strategy = TreeStrategy(tree=tree, account=GAUSSIAN, contributions=Contributions(), scales=scales)
    rows = incidence(tree) / np.array(scales)[:, None]
    with_digits = np.linalg.inv(rows.T @ rows)
    exact = np.diag(incidence(tree) @ with_digits @ incidence(tree).T)
    np.testing.assert_allclose(strategy.variances, exact, rtol=1e-6)


def regular(*widths):
    parents, level = [-1], [0]
    for width in widths:
        level = [parents.append(node) or len(parents) - 1 for node in level for _ in range(width)]
    return Tree(parents=tuple(parents))


def irregular(seed):
    random, parents, level = np.random.default_rng(seed), [-1], [0]
    for depth in range(3):
        below = []
        for node in level:
            if not depth or random.random() > 0.3:
                for _ in range(int(random.choice([1, 2, 3, 5, 9]))):
                    parents.append(node)
                    below.append(len(parents) - 1)
        level = below
    return Tree(parents=tuple(parents))


@pytest.mark.few(1)
@pytest.mark.parametrize("made_of", [(3, 4), (5,), (2, 2, 3), (1, 6), (2, 10), 5, 4, 3, 2, 1, 0], ids=str)
def test_the_total_variance_is_near_the_least_of_all(made_of):
    tree, most = (irregular(made_of), 1.01) if isinstance(made_of, int) else (regular(*made_of), 1.005)
    rows, strategy = incidence(tree), design_tree(tree, budget=1.0, account=GAUSSIAN)
    assert 1 - 1e-6 <= strategy.variances.sum() / optimum(rows.T @ rows, rounds=600) <= most


def test_control_equal_budgets_for_all_levels_miss_the_bar():
    tree = irregular(0)
    plain = TreeStrategy(tree=tree, account=GAUSSIAN, contributions=Contributions(), scales=(1.0,) * len(tree))
    rows = incidence(tree)
    assert float(plain.cost) * plain.variances.sum() > 1.1 * optimum(rows.T @ rows, rounds=600)


@pytest.mark.slow
@pytest.mark.parametrize("account", NoiseAccount)
def test_a_hundred_thousand_leaves_take_seconds(account):
    random = np.random.default_rng(1)
    middle = [0] * 26 + random.integers(1, 27, 2000).tolist()
    parents = (-1, *middle, *random.integers(27, 2027, 100_000).tolist())
    tree = Tree(parents=parents)
    begin = time.process_time()
    strategy = design_tree(tree, budget=1.0, account=account)
    found = strategy.answers(strategy.draw(np.ones(len(tree.leaves), dtype=int)))
    assert len(strategy.variances) == len(found.values) == len(tree)
    assert time.process_time() - begin < 10.0


def test_wrong_numbers_are_refused():
    tree = Tree(parents=(-1, 0, 0))
    strategy = design_tree(tree, budget=1.0, account=PURE)
    with pytest.raises(ArgumentError, match="drawn"):
        strategy.answers(strategy.draw([1, 2]) + 0.5)
    assert not strategy.admits(np.zeros(len(strategy.measured) + 1))
