"""Forests: leaves counted as somebody else does, answers in range, one row moves little, more trees cost nothing."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn")

from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris  # noqa: E402
from sklearn.tree import DecisionTreeRegressor  # noqa: E402

from rangebound.gdp import largest_mu  # noqa: E402
from rangebound.learn.sklearn import RandomForestClassifier, RandomForestRegressor, row_sums  # noqa: E402
from rangebound.learn.sklearn.feature_spread import spread, square_vectors  # noqa: E402
from rangebound.learn.sklearn.random_trees import RandomTrees, leaf, leaf_sums  # noqa: E402
from rangebound.learn.sklearn.row_sums import QUANTA, clipped  # noqa: E402
from tests.learn.sklearn.test_row_sums import squared  # noqa: E402


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
    by_hand = [plain[np.arange(4), places].sum(axis=0) for places in made.apply(x)]
    assert (made.sums(x) == by_hand).all()
    assert (made.everyone == 4 * statistics.sum(axis=0)).all()
    assert made.sums(x[:0]).shape == (0, 3)


@pytest.mark.parametrize("trees", [1, 2, 3, 7, 100])
def test_one_row_moves_the_leaves_by_their_norm_at_most(trees: int) -> None:
    draw = np.random.default_rng(1)
    largest, norm = 0, math.sqrt(2.0)
    features, cuts = drawn(trees, trees, 3, 2)
    for _ in range(20):
        n = int(draw.integers(1, 20))
        x, rows = draw.uniform(-1.0, 1.0, (n, 2)), np.column_stack([np.ones(n), draw.choice([-1.0, 1.0, 0.3], n)])
        copied = clipped(rows, norm * math.sqrt(trees), trees)
        more, less = (leaf_sums(copied[k:], x[k:], features, cuts) for k in (0, 1))
        moved = squared(more - less)
        assert moved <= QUANTA**2
        largest = max(largest, moved)
    assert largest > 0.999 * QUANTA**2  # attained
    once = clipped(rows, norm)
    control = leaf_sums(once, x, features, cuts) - leaf_sums(once[1:], x[1:], features, cuts)
    assert (squared(control) > QUANTA**2) == (trees > 1)  # as many copies as trees, unless they are scaled


@pytest.mark.parametrize("trees", [1, 20])
@pytest.mark.parametrize("kind", [RandomForestClassifier, RandomForestRegressor])
def test_all_releases_together_cost_no_more_than_mu(kind: Any, trees: int, monkeypatch: pytest.MonkeyPatch) -> None:
    spent, make = [], row_sums.noisy

    def recorded(sums: Any, norm: float, mu: float) -> Any:
        if sums.any():  # what is drawn around zero is of no row
            spent.append(Fraction(mu) ** 2)
        return make(sums, norm, mu)

    monkeypatch.setattr(row_sums, "noisy", recorded)
    x, y = load_iris(return_X_y=True)
    more: dict[str, Any] = {"target_bounds": (0, 2)} if kind is RandomForestRegressor else {}
    kind(bounds=(0, 8), trees=trees, **more).fit(x, y)
    allowed = Fraction(largest_mu(Fraction(1), Fraction(1, 10**6))) ** 2
    assert len(spent) == 2
    assert sum(spent) <= allowed
    assert float(sum(spent)) == pytest.approx(float(allowed), rel=1e-9)


def test_the_cuts_depend_on_rows_by_what_was_released_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cuts follow the released means; with those hidden, they do not follow the rows."""
    x = np.full((500, 1), 0.9)
    cuts = RandomForestClassifier(epsilon=100.0, bounds=(-1, 1), classes=[0]).fit(x, np.zeros(500))._forest.cuts
    assert abs(float(np.mean(cuts)) - 0.9) < 0.05
    monkeypatch.setattr(
        "rangebound.learn.sklearn.random_trees.spread", lambda rows, clip, mu: (np.zeros(1), np.full(1, 0.2))
    )
    hidden = RandomForestClassifier(epsilon=100.0, bounds=(-1, 1), classes=[0]).fit(x, np.zeros(500))._forest.cuts
    assert abs(float(np.mean(hidden))) < 0.02
    assert 0.08 < float(np.std(hidden)) < 0.12


def test_the_spread_is_that_of_numpy_and_one_row_moves_its_sum_by_its_norm() -> None:
    x = np.random.default_rng(3).uniform(-0.5, 1.0, (4000, 2))
    mean, deviation = spread(x, 1.0, 1e5)
    np.testing.assert_allclose(mean, x.mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(deviation, x.std(axis=0), atol=1e-4)
    mean, deviation = spread(x[:0], 0.35, 0.1)
    assert (np.abs(mean) <= 1.0).all()
    assert ((deviation >= 0.0) & (deviation <= 1.0)).all()
    norm = 0.35 * math.sqrt(5.0)
    sums = [row_sums.total(x[k:], square_vectors, norm) for k in (0, 1)]
    assert 0 < squared(sums[0] - sums[1]) <= QUANTA**2


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
        assert ((made.apply(x) >= 0) & (made.apply(x) < 16)).all()
        assert made.apply(x).shape == (len(x), 100)


FAR = [(1e4, 100, 500), (1.0, 10, 5000)]  # epsilon, trees, rows; noise alone is above 5 deviations with 3e-7 a place


def far_off(epsilon: float, trees: int, rows: int) -> tuple[float, float]:
    """Of forests whose rows are all in one place: how many are off by 0.2 anywhere, and how many have another class."""
    x, y, places = np.full((rows, 1), 0.1), np.full(rows, 3.0), np.linspace(0, 1, 50)[:, None]
    given: dict[str, Any] = {"epsilon": epsilon, "trees": trees, "bounds": (0, 1), "depth": 2}
    line = RandomForestRegressor(target_bounds=(0, 4), **given)
    fitted = RandomForestClassifier(classes=[1, 3], **given)
    off = [np.abs(line.fit(x, y).predict(places) - 3.0).max() > 0.2 for _ in range(60)]
    return float(np.mean(off)), float(np.mean([(fitted.fit(x, y).predict(places) != 3).any() for _ in range(60)]))


@pytest.mark.parametrize("settings", FAR, ids=str)
def test_far_from_all_rows_every_forest_answers_with_all_rows(settings: tuple[float, int, int]) -> None:
    assert far_off(*settings) == (0.0, 0.0)


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


def test_more_trees_cost_nothing() -> None:
    """The noise of a sum over all trees, for each of the rows' statistics, does not depend on their number."""
    x, y = load_iris(return_X_y=True)
    noises = [RandomForestClassifier(bounds=(0, 8), trees=t).fit(x, y)._forest.noise / t for t in (1, 10, 100)]
    np.testing.assert_allclose(noises, noises[0])


def test_it_learns() -> None:
    """More than half way from guessing to no errors; the control is a forest of labels that say nothing."""
    x, y = load_breast_cancer(return_X_y=True)
    bounds = x.min(axis=0) - 0.1, x.max(axis=0) + 0.1
    scores = [
        [(RandomForestClassifier(epsilon=3.0, bounds=bounds).fit(x, labels).predict(x) == y).mean() for _ in "abc"]
        for labels in (y, np.random.default_rng(1).permutation(y))
    ]
    assert min(scores[0]) > 0.84
    assert max(scores[1]) < 0.75
