"""Forests: leaves counted as somebody else does, answers in range, more trees cost nothing."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.tree import DecisionTreeRegressor

from rangebound.learn.sklearn import RandomForestClassifier, RandomForestRegressor
from rangebound.learn.sklearn.random_forest import RandomTrees, leaf, leaf_sums
from rangebound.learn.sklearn.row_sums import spread


def drawn(seed: int, trees: int, depth: int, features: int) -> tuple[Any, Any]:
    draw = np.random.default_rng(seed)
    shape = trees, 2**depth - 1
    return draw.integers(0, features, shape), draw.uniform(-1.0, 1.0, shape)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_the_leaf_of_a_row_is_that_of_a_tree_of_scikit_learn(depth: int) -> None:
    """Cuts of theirs, found on a full table so that every node has two children, give the leaves of theirs."""
    draw = np.random.default_rng(depth)
    x = draw.uniform(-1.0, 1.0, (4000, 3)).astype(np.float32).astype(np.float64)
    plain = DecisionTreeRegressor(max_depth=depth, min_samples_leaf=20).fit(x, x @ [3.0, 2.0, 1.0])
    made = plain.tree_
    order = [0]  # our numbers to theirs, level by level
    for at in range(2**depth - 1):
        order += [made.children_left[order[at]], made.children_right[order[at]]]
    assert min(order) >= 0
    nodes = np.array(order[: 2**depth - 1])
    found = leaf(x, made.feature[nodes], made.threshold[nodes])
    assert (np.array(order[2**depth - 1 :])[found] == plain.apply(x)).all()


def test_leaves_hold_what_a_loop_over_rows_counts() -> None:
    features, cuts = drawn(1, 4, 3, 2)
    draw = np.random.default_rng(2)
    x, statistics = draw.uniform(-1.0, 1.0, (200, 2)), draw.integers(0, 5, (200, 3))
    plain = np.zeros((4, 8, 3), dtype=int)
    for row, counts in zip(x, statistics, strict=True):
        for tree in range(4):
            node = 0
            for _ in range(3):
                node = 2 * node + (2 if row[features[tree, node]] > cuts[tree, node] else 1)
            plain[tree, node - 7] += counts
    assert (leaf_sums(statistics, x, features, cuts) == plain).all()
    made = RandomTrees(features=features, cuts=cuts, leaves=plain.astype(float), scale=1.0)
    by_hand = [
        plain[np.arange(4), places].sum(axis=0)
        for places in np.column_stack([leaf(x, *each) for each in zip(features, cuts, strict=True)])
    ]
    assert (made.sums(x) == by_hand).all()
    assert (made.everyone == 4 * statistics.sum(axis=0)).all()
    assert made.sums(x[:0]).shape == (0, 3)
    clear, hidden = (replace(made, scale=scale).votes.leaves * 2.0 / scale for scale in (1e-9, 1e9))
    full = plain.sum(axis=2, keepdims=True) > 0  # without noise all leaves weigh the same, within noise rows do
    assert np.allclose(clear.sum(axis=2, keepdims=True)[full], 8.0 * math.sqrt(3.0))
    assert np.allclose(hidden * 1e9 / 2.0, plain)


def test_the_cuts_depend_on_rows_by_what_was_released_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cuts follow the released means; with those hidden, they do not follow the rows."""
    x = np.full((500, 1), 0.9)
    cuts = RandomForestClassifier(epsilon=100.0, bounds=(-1, 1), classes=[0]).fit(x, np.zeros(500))._forest.cuts
    assert abs(float(np.mean(cuts)) - 0.9) < 0.05
    monkeypatch.setattr(
        "rangebound.learn.sklearn.random_forest.spread", lambda rows, clip, mu: (9.0, np.zeros(1), np.full(1, 0.2))
    )
    hidden = RandomForestClassifier(epsilon=100.0, bounds=(-1, 1), classes=[0]).fit(x, np.zeros(500))._forest.cuts
    assert abs(float(np.mean(hidden))) < 0.02
    assert 0.08 < float(np.std(hidden)) < 0.12


def test_the_spread_is_that_of_numpy() -> None:
    x = np.random.default_rng(3).uniform(-0.5, 1.0, (4000, 2))
    count, mean, deviation = spread(x, 1.0, 1e5)
    assert count == pytest.approx(4000.0, abs=0.1)
    np.testing.assert_allclose(mean, x.mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(deviation, x.std(axis=0), atol=1e-4)
    _, mean, deviation = spread(x[:0], 0.35, 0.1)
    assert (np.abs(mean) <= 1.0).all()
    assert ((deviation >= 0.0) & (deviation <= 1.0)).all()


def test_answers_stay_in_range() -> None:
    x, y = load_diabetes(return_X_y=True)
    for rows in (x, x[:3], x[:0]):
        line = RandomForestRegressor(epsilon=0.05, bounds=(-0.2, 0.2), target_bounds=(0, 400)).fit(rows, y[: len(rows)])
        found = line.predict(np.concatenate([x, np.full((1, 10), math.nan)]))
        assert ((found >= 0.0) & (found <= 400.0)).all()
        made = RandomForestClassifier(epsilon=0.05, bounds=(-0.2, 0.2), classes=[0, 1])
        chances = made.fit(rows, y[: len(rows)] > 150).predict_proba(x)
        assert ((chances >= 0.0) & (chances <= 1.0)).all()
        np.testing.assert_allclose(chances.sum(axis=1), 1.0)
        assert ((made.apply(x) >= 0) & (made.apply(x) < 2**8)).all()
        assert made.apply(x).shape == (len(x), 100)


FAR = [(1.0, 10, 5000), (1e4, 100, 500)]  # epsilon, trees, rows; noise alone is above 5 deviations with 3e-7 a place


def far_off(epsilon: float, trees: int, rows: int) -> tuple[float, float]:
    """Of forests whose rows are all in one place: how many are off by 0.2 anywhere, and how many have another class."""
    x, y, places = np.full((rows, 1), 0.1), np.full(rows, 3.0), np.linspace(0, 1, 50)[:, None]
    given: dict[str, Any] = {"epsilon": epsilon, "trees": trees, "bounds": (0, 1), "depth": 2}
    line = RandomForestRegressor(target_bounds=(0, 4), **given)
    fitted = RandomForestClassifier(classes=[1, 3], **given)
    off = [np.abs(line.fit(x, y).predict(places) - 3.0).max() > 0.2 for _ in range(60)]
    return float(np.mean(off)), float(np.mean([(fitted.fit(x, y).predict(places) != 3).any() for _ in range(60)]))


@pytest.mark.slow
@pytest.mark.parametrize("settings", FAR, ids=str)
def test_far_from_all_rows_every_forest_answers_with_all_rows(settings: tuple[float, int, int]) -> None:
    assert far_off(*settings) == (0.0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("settings", FAR, ids=str)
def test_noise_alone_would_answer_anything(settings: tuple[float, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: leaves without rows are asked like others; one in ten forests is off, and none of 120 with 3e-6."""
    monkeypatch.setattr(RandomTrees, "noise_alone", lambda *given: 0.0)
    assert sum(far_off(*settings)) > 0.0


def test_a_place_with_few_rows_is_drawn_to_all_rows_the_more_the_fewer() -> None:
    """By hand: one tree of two leaves, 100 rows of mean 0.5 in the left, more and more of mean -0.5 in the right."""
    line = RandomForestRegressor(epsilon=1.0, bounds=(-1, 1), target_bounds=(-1, 1)).fit(np.zeros((1, 1)), [0.0])
    found = []
    for rows in (0.0, 4.0, 6.0, 12.0, 1000.0):
        leaves = np.array([[[100.0, 50.0], [rows, -0.5 * rows]]])
        cuts = np.zeros((1, 1))
        line._forest = RandomTrees(features=np.zeros((1, 1), dtype=int), cuts=cuts, leaves=leaves, scale=1.0)
        mean = (50.0 - 0.5 * rows) / (100.0 + rows)
        far = (line.predict([[0.5]])[0] - mean) / (-0.5 - mean)
        above = max(rows - 5.0, 0.0)
        assert far == pytest.approx(above * rows / (above * rows + 3.0), abs=1e-12)
        found.append(far)
    assert found[:2] == [0.0, 0.0]
    assert found == sorted(found)
    assert found[-1] > 0.99999
    few = RandomTrees(features=np.zeros((1, 1), dtype=int), cuts=cuts, leaves=leaves / 300.0, scale=1.0)
    assert few.noise_alone(1) == pytest.approx(1100.0 / 300.0 / 2.0 - 1.0)  # an even share of few rows
    assert few.noise_alone(2) == 0.0  # less than its noise


def test_the_depth_grows_with_the_rows_above_the_noise() -> None:
    x, y = np.tile(np.linspace(0.0, 1.0, 500), 4)[:, None], np.tile(np.arange(500) % 2, 4)
    leaves = []
    for epsilon in (0.1, 1.0, 10.0, 1000.0):
        made = RandomForestClassifier(bounds=(0, 1), epsilon=epsilon, n_estimators=3).fit(x, y)
        leaves.append(made._forest.leaves.shape[1])
    assert leaves == sorted(leaves)
    assert (leaves[0], leaves[-1]) == (4, 256)
    assert RandomForestClassifier(bounds=(0, 1), max_depth=3, n_estimators=3).fit(x, y)._forest.leaves.shape[1] == 8


def test_more_trees_cost_nothing() -> None:
    """The noise of a sum over all trees, for each of the rows' statistics, does not depend on their number."""
    x, y = load_iris(return_X_y=True)
    noises = [RandomForestClassifier(bounds=(0, 8), trees=t).fit(x, y)._forest.noise / t for t in (1, 10, 100)]
    np.testing.assert_allclose(noises, noises[0])
