"""The loss that is stated for what is drawn dominates every way in which a unit can spread its cells."""

from collections import Counter
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy.special import ndtri

from rangebound.privacy.gdp import mu_of_parts, mu_of_pure
from rangebound.release.noise.joint_loss import HALF_PI, Contributions, JointLoss, NoiseAccount, added_up, layer_loss
from rangebound.release.noise.strategies.tree_strategy import Tree, TreeStrategy
from rangebound.values.numeric import rounded_up
from tests.release.noise.strategies.test_tree_design import incidence
from tests.release.pair_loss import profile


def spreads(cells, capacity, most=None):
    """All ways to have this many cells in sums of at most `capacity`: the sizes of the sums, falling."""
    if not cells:
        yield ()
    for first in range(min(cells, capacity, most or cells), 0, -1):
        for rest in spreads(cells - first, capacity, first):
            yield (first, *rest)


def stated(loss, epsilon):
    """The delta of a loss by another route, and no more than its epsilon allows."""
    coins = [float(own) for own, number in loss.pure for _ in range(number)]
    return profile(float(loss.square), coins, epsilon)


SIZES = [(1, 9), (3, 9), (8, 9), (9, 9), (40, 9), (3, 6), (5, 6)]
CASES = [(scale, *each) for scale in (4.0, 20.0) for each in SIZES]


@pytest.mark.few(9)
@pytest.mark.parametrize(("scale", "capacity", "cells"), CASES)
@pytest.mark.parametrize("replaced", [False, True], ids=["add or remove", "replace"])
def test_a_layer_loses_as_much_as_any_spread_of_cells(scale, capacity, cells, replaced):
    bounds = Contributions(rows=2, cells=cells, replaced=replaced)
    loss, each = layer_loss(scale, capacity=capacity, nodes=100, bounds=bounds), 2 / scale
    ways, attained = list(spreads(cells, capacity)), 0.0
    for one in ways:
        for other in ways[:: len(ways) // 2 + 1] if replaced else [()]:
            coins = [n * each for n in (*one, *other)]
            for part in (0.0, 0.2, 0.5, 0.8, 0.97):
                epsilon = part * sum(coins)
                exact, said = profile(1e-13, coins, epsilon), stated(loss, epsilon)
                assert exact <= said * (1 + 1e-7) + 1e-12
                attained = max(attained, exact / said)
            assert mu_of_parts(tuple(Counter(map(Fraction, coins)).items())) <= loss.mu * (1 + 1e-9)
    assert attained > (0.999 if loss.pure else 0.5)


def test_control_full_sums_and_a_rest_are_not_the_worst():
    """Four and two cells of six lose less at the end than three and three."""
    full, alike = (profile(1e-13, [float(n) for n in sizes], 5.8) for sizes in ((4, 2), (3, 3)))
    assert alike > 1.04 * full
    one = layer_loss(1.0, capacity=6, nodes=2, bounds=Contributions(cells=6))
    between = layer_loss(1.0, capacity=4, nodes=2, bounds=Contributions(cells=6))
    assert alike < min(stated(one, 5.8), stated(between, 5.8))
    assert between.square < 0.8 * HALF_PI * 4 * 6  # all ways are compared


def test_there_are_no_more_losses_than_sums():
    replaced = Contributions(rows=1, cells=5, replaced=True)
    assert layer_loss(10.0, capacity=30, nodes=1, bounds=replaced).pure == ((Fraction(1, 2), 1),)
    assert layer_loss(10.0, capacity=30, nodes=7, bounds=replaced).pure == ((Fraction(1, 2), 2),)
    assert layer_loss(10.0, capacity=1, nodes=7, bounds=replaced).pure == ((Fraction(1, 10), 7),)
    assert layer_loss(10.0, capacity=1, nodes=70, bounds=replaced).pure == ((Fraction(1, 10), 10),)
    large = Contributions(rows=1, cells=90, replaced=True)  # too many ways to compare them
    few, many = (layer_loss(10.0, capacity=10, nodes=nodes, bounds=large).square for nodes in (12, 70))
    assert (few, many) == (HALF_PI * 12, HALF_PI * 18)


def test_the_bound_of_a_pure_loss_holds_and_is_near():
    for epsilon in np.geomspace(1e-6, 50.0, 60).tolist():
        assert mu_of_pure(epsilon) ** 2 <= HALF_PI * Fraction(epsilon) ** 2 * (1 + Fraction(1, 10**12))
    assert mu_of_pure(0.01) ** 2 > 0.9999 * float(HALF_PI) * 1e-4


TREES = {
    "regular": ((-1, 0, 0, 1, 1, 1, 2, 2, 2), (9.0, 7.0, 7.0, *[5.0] * 6)),
    "irregular": ((-1, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3), (0.0, 7.0, 6.0, 9.0, 5.0, 5.0, 4.0, 5.0, 6.0, 6.0, 3.0)),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("cells", [1, 2, 3, 4])
@pytest.mark.parametrize("replaced", [False, True], ids=["add or remove", "replace"])
@pytest.mark.parametrize("name", TREES)
def test_a_tree_loses_as_much_as_any_leaves_of_a_unit(name, replaced, cells):
    parents, scales = TREES[name]
    tree, bounds = Tree(parents=parents), Contributions(rows=1, cells=cells, replaced=replaced)
    strategy = TreeStrategy(tree=tree, account=NoiseAccount.PURE, contributions=bounds, scales=scales)
    loss, held = strategy.loss, list(combinations(range(len(tree.leaves)), cells))
    assert loss.epsilon == strategy.cost
    above = incidence(tree).T
    rates = np.array([1.0 / each if each else 0.0 for each in scales])
    attained = 0.0
    for own in held:
        for other in held[::3] if replaced else [()]:
            moved = np.abs(above[list(own)].sum(axis=0) - above[list(other)].sum(axis=0)) * rates
            coins = moved[moved > 0.0].tolist()
            for epsilon in (0.0, 0.3 * sum(coins), 0.7 * sum(coins)):
                exact, said = profile(1e-13, coins, epsilon), stated(loss, epsilon)
                assert exact <= said * (1 + 1e-7) + 1e-12
                attained = max(attained, exact / said)
    assert attained > 0.5


def test_losses_add_up():
    one = JointLoss(pure=((Fraction(1, 4), 3),), square=Fraction(1), delta=Fraction(1, 10), epsilon=Fraction(3, 4))
    two = JointLoss(pure=((Fraction(1, 4), 1), (Fraction(1, 2), 2)), epsilon=Fraction(5, 4))
    both = added_up([one, two])
    assert dict(both.pure) == {Fraction(1, 4): 4, Fraction(1, 2): 2}
    assert (both.square, both.delta, both.epsilon) == (1, Fraction(1, 10), 2)
    assert (one + JointLoss(epsilon=None)).epsilon is None
    assert both.delta_at(0.5) == pytest.approx(0.1 + profile(1.0, [0.25] * 4 + [0.5] * 2, 0.5))


def test_mu_is_that_of_all_parts_together_and_no_more_than_that_of_epsilon():
    """Second route: the corners of the coins' trade-off curve in doubles."""
    loss = JointLoss(pure=((Fraction(1, 4), 3), (Fraction(1, 2), 1)), epsilon=Fraction(5, 4))
    outcomes = {}
    for heads in range(4):
        for sign in (-1, 1):
            own = 0.25 * (2 * heads - 3) + 0.5 * sign
            chance = [1, 3, 3, 1][heads] * _heads(0.25) ** heads * (1 - _heads(0.25)) ** (3 - heads)
            outcomes[own] = outcomes.get(own, 0.0) + chance * (_heads(0.5) if sign > 0 else 1 - _heads(0.5))
    power = np.cumsum([outcomes[each] for each in sorted(outcomes, reverse=True)])[:-1]
    alpha = np.cumsum([outcomes[-each] for each in sorted(outcomes, reverse=True)])[:-1]
    assert loss.mu == pytest.approx(float((ndtri(power) - ndtri(alpha)).max()), rel=1e-12)
    squares = 3 * mu_of_pure(0.25) ** 2 + mu_of_pure(0.5) ** 2
    assert loss.mu < 0.95 * squares**0.5
    beside = JointLoss(pure=loss.pure, square=Fraction(9), epsilon=None)
    assert beside.mu == pytest.approx((9 + loss.mu**2) ** 0.5)
    large = JointLoss(square=Fraction(9), epsilon=Fraction(5, 4))
    assert large.mu == mu_of_pure(rounded_up(Fraction(5, 4)))


def _heads(epsilon):
    return 1 / (1 + np.exp(-epsilon))
