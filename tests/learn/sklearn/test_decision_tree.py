"""Trees: those of scikit-learn on binned data where the noise is gone; leaves in range; one row moves little."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn")

from sklearn.datasets import load_diabetes, load_iris  # noqa: E402
from sklearn.tree import DecisionTreeClassifier as PlainClassifier  # noqa: E402
from sklearn.tree import DecisionTreeRegressor as PlainRegressor  # noqa: E402

from rangebound.gdp import largest_mu  # noqa: E402
from rangebound.learn.sklearn import DecisionTreeClassifier, DecisionTreeRegressor, row_sums  # noqa: E402
from rangebound.learn.sklearn.histogram_tree import binned, histogram, leaf_sums  # noqa: E402
from rangebound.learn.sklearn.row_sums import QUANTA, clipped  # noqa: E402
from tests.learn.sklearn.test_row_sums import squared  # noqa: E402


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("seed", [1, 2])
def test_without_noise_they_are_those_of_scikit_learn_on_binned_data(depth: int, seed: int) -> None:
    """Noisy targets, so that no two cuts are equally good; features in bins, so that both have the same cuts."""
    draw = np.random.default_rng(seed)
    x = draw.uniform(-0.2, 1.2, (1500, 3))
    score = x[:, 0] + 0.7 * x[:, 1] * x[:, 2] + 0.2 * draw.standard_normal(1500)
    classes = np.digitize(score, [0.5, 0.9])
    table = binned(x, np.zeros(3), np.ones(3), 8)
    options: dict[str, Any] = {"epsilon": 4e11, "bounds": (0, 1), "depth": depth}
    ours = DecisionTreeClassifier(**options).fit(x, classes)
    plain = PlainClassifier(max_depth=depth).fit(table, classes)
    np.testing.assert_allclose(ours.predict_proba(x), plain.predict_proba(table), atol=1e-3)
    line = DecisionTreeRegressor(**options, target_bounds=(-2, 3)).fit(x, score)
    np.testing.assert_allclose(
        line.predict(x), PlainRegressor(max_depth=depth).fit(table, score).predict(table), atol=1e-3
    )
    noisy = DecisionTreeClassifier(**{**options, "epsilon": 0.01}).fit(x, classes)  # the control
    assert np.abs(noisy.predict_proba(x) - plain.predict_proba(table)).max() > 0.05


def test_bins_are_equally_wide_and_hold_every_value() -> None:
    x = np.array([[-9.0, 0.0, 0.24, 0.25, 0.5, 0.99, 1.0, 9.0, math.nan, math.inf, -math.inf]]).T
    assert binned(x, np.zeros(1), np.ones(1), 4)[:, 0].tolist() == [0, 0, 0, 1, 2, 3, 3, 3, 2, 3, 0]


@pytest.mark.parametrize("features", [1, 2, 3, 7, 64])
def test_one_row_moves_each_release_by_its_norm_at_most(features: int) -> None:
    draw = np.random.default_rng(1)
    largest = [0, 0]
    for _ in range(30):
        n, bins, nodes = int(draw.integers(1, 20)), 4, 2
        norm = math.sqrt(2.0)
        rows = np.column_stack([np.ones(n), draw.choice([-1.0, 1.0, 0.3], n)])
        table, node = draw.integers(0, bins, (n, features)), draw.integers(0, nodes, n)
        copied, once = clipped(rows, norm * math.sqrt(features), features), clipped(rows, norm)
        wide, less = (histogram(copied[k:], table[k:], node[k:], nodes, bins) for k in (0, 1))
        leaves, fewer = (leaf_sums(once[k:], node[k:], nodes) for k in (0, 1))
        moved = squared(wide - less), squared(leaves - fewer)
        assert max(moved) <= QUANTA**2
        largest = [max(a, b) for a, b in zip(largest, moved, strict=True)]
    assert min(largest) > 0.999 * QUANTA**2  # attained
    control = histogram(once, table, node, nodes, bins) - histogram(once[1:], table[1:], node[1:], nodes, bins)
    assert (squared(control) > QUANTA**2) == (features > 1)  # as many copies as features, unless they are scaled


def test_the_histogram_counts_as_somebody_else_does() -> None:
    draw = np.random.default_rng(2)
    table, node, classes = draw.integers(0, 4, (200, 3)), draw.integers(0, 2, 200), draw.integers(0, 3, 200)
    found = histogram((classes[:, None] == np.arange(3)).astype(np.int64), table, node, 2, 4)
    for feature in range(3):
        plain, _ = np.histogramdd(np.column_stack([node, table[:, feature], classes]), bins=[2, 4, 3])
        assert (found[:, feature] == plain).all()


@pytest.mark.parametrize("depth", [1, 3])
def test_all_releases_together_cost_no_more_than_mu(depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    spent, make = [], row_sums.noisy

    def recorded(sums: Any, norm: float, mu: float) -> Any:
        spent.append(Fraction(mu) ** 2)
        return make(sums, norm, mu)

    monkeypatch.setattr(row_sums, "noisy", recorded)
    x, y = load_iris(return_X_y=True)
    DecisionTreeClassifier(bounds=(0, 8), depth=depth).fit(x, y)
    allowed = Fraction(largest_mu(Fraction(1), Fraction(1, 10**6))) ** 2
    assert len(spent) == depth + 1
    assert sum(spent) <= allowed
    assert float(sum(spent)) == pytest.approx(float(allowed), rel=1e-9)


def test_leaves_stay_in_range() -> None:
    x, y = load_diabetes(return_X_y=True)
    for rows in (x, x[:3], x[:0]):
        line = DecisionTreeRegressor(epsilon=0.05, bounds=(-0.2, 0.2), target_bounds=(0, 400)).fit(rows, y[: len(rows)])
        found = line.predict(np.concatenate([x, np.full((1, 10), math.nan)]))
        assert ((found >= 0.0) & (found <= 400.0)).all()
        made = DecisionTreeClassifier(epsilon=0.05, bounds=(-0.2, 0.2), classes=[0, 1])
        chances = made.fit(rows, y[: len(rows)] > 150).predict_proba(x)
        assert ((chances >= 0.0) & (chances <= 1.0)).all()
        np.testing.assert_allclose(chances.sum(axis=1), 1.0)
        assert ((made.apply(x) >= 0) & (made.apply(x) < 8)).all()


def test_a_leaf_without_rows_has_the_answer_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_sums, "noisy", lambda sums, norm, mu: sums * (norm / QUANTA))
    x, y = np.full((500, 1), 0.1), np.full(500, 3.0)
    line = DecisionTreeRegressor(epsilon=1e4, bounds=(0, 1), target_bounds=(0, 4), depth=2).fit(x, y)
    np.testing.assert_allclose(line.predict(np.linspace(0, 1, 50)[:, None]), 3.0, atol=0.1)
    fitted = DecisionTreeClassifier(epsilon=1e4, bounds=(0, 1), classes=[1, 3], depth=2).fit(x, y)
    assert (fitted.predict(np.linspace(0, 1, 50)[:, None]) == 3).all()
