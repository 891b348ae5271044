"""Logistic regression: equal to scikit-learn's where the noise is gone, and one row moves each sum by the clip."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn")

from sklearn.datasets import load_iris  # noqa: E402
from sklearn.linear_model import LogisticRegression as Plain  # noqa: E402

from rangebound.gdp import largest_mu  # noqa: E402
from rangebound.learn.sklearn import LogisticRegression, row_sums  # noqa: E402
from rangebound.learn.sklearn.logistic_regression import gradient_rows, gradients  # noqa: E402
from rangebound.learn.sklearn.row_sums import QUANTA  # noqa: E402
from tests.learn.sklearn.test_row_sums import squared  # noqa: E402

BOUNDS = np.array([4.5, 2.0, 1.0, 0.0]), np.array([7.5, 4.5, 7.0, 2.5])


@pytest.mark.parametrize("classes", [2, 3])
def test_without_noise_it_is_that_of_scikit_learn_on_clipped_data(classes: int) -> None:
    x, y = load_iris(return_X_y=True)
    x, y = x[y < classes], y[y < classes]
    options: dict[str, Any] = {"clip": 1.0, "steps": 400, "learning_rate": 8.0, "penalty": 0.05}
    ours = LogisticRegression(epsilon=1e11, bounds=BOUNDS, **options).fit(x, y)
    rows = gradient_rows(x, y, *BOUNDS)[:, :-1]
    # of two classes scikit-learn has one vector of weights, the difference of ours
    weight = (2.0 if classes == 2 else 1.0) / (0.05 * len(x))
    plain = Plain(C=weight, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(rows, y)
    x = np.clip(x, *BOUNDS)
    np.testing.assert_allclose(ours.predict_proba(x), plain.predict_proba(rows), atol=2e-3)
    if classes == 3:
        scaled = plain.coef_[:, 1:] / math.sqrt(5.0) / ((BOUNDS[1] - BOUNDS[0]) / 2.0)
        np.testing.assert_allclose(ours.coef_, scaled, atol=5e-3)
    noisy = LogisticRegression(epsilon=0.01, bounds=BOUNDS, **options).fit(x, y)  # the control
    assert np.abs(noisy.predict_proba(x) - plain.predict_proba(rows)).max() > 0.05


def test_the_gradient_is_that_of_the_loss() -> None:
    """By differences of the loss of one row."""
    draw = np.random.default_rng(1)
    rows = gradient_rows(draw.uniform(-1, 1, (5, 3)), np.array([0, 1, 2, 1, 0]), np.full(3, -1.0), np.ones(3))
    weights = draw.standard_normal((4, 3))

    def loss(row: Any, at: Any) -> float:
        scores = row[:-1] @ at
        return float(np.log(np.exp(scores).sum()) - scores[int(row[-1])])

    found = gradients(rows, weights).reshape(5, 4, 3)
    for i, row in enumerate(rows):
        for at in np.ndindex(4, 3):
            moved = np.zeros((4, 3))
            moved[at] = 1e-6
            slope = (loss(row, weights + moved) - loss(row, weights - moved)) / 2e-6
            assert found[i][at] == pytest.approx(slope, abs=1e-8)


def test_one_row_moves_the_sum_of_a_step_by_the_clip_at_most() -> None:
    draw = np.random.default_rng(2)
    largest, unclipped = 0, 0.0
    for _ in range(60):
        n = int(draw.integers(1, 30))
        x, codes = draw.uniform(-9, 9, (n, 3)), draw.integers(-1, 3, n)
        x[draw.random(x.shape) < 0.1] = math.nan
        weights = draw.standard_normal((4, 3)) * 20.0
        norm = float(draw.choice([0.25, 1.0])) * math.sqrt(2.0)
        sums = [
            row_sums.total(
                gradient_rows(x[k:], codes[k:], np.full(3, -2.0), np.full(3, 2.0)),
                lambda block, at=weights: gradients(block, at),  # type: ignore[misc]
                norm,
            )
            for k in (0, 1)
        ]
        assert squared(sums[0] - sums[1]) <= QUANTA**2
        largest = max(largest, squared(sums[0] - sums[1]))
        rows = gradient_rows(x, codes, np.full(3, -2.0), np.full(3, 2.0))
        unclipped = max([unclipped, *np.sqrt((gradients(rows, weights) ** 2).sum(axis=1))])
    assert largest > 0.999 * QUANTA**2  # attained
    assert 0.25 * math.sqrt(2.0) < unclipped <= math.sqrt(2.0) * (1 + 1e-12)  # the control, and the largest there is


def test_a_gradient_is_the_same_whoever_is_beside_it() -> None:
    draw = np.random.default_rng(3)
    rows = gradient_rows(draw.uniform(-1, 1, (67, 9)), draw.integers(0, 4, 67), np.full(9, -1.0), np.ones(9))
    weights = draw.standard_normal((10, 4)) * 5.0
    found = gradients(rows, weights)
    for i in range(67):
        for j in (i + 1, 67):
            assert (gradients(rows[i:j], weights)[0] == found[i]).all()
    scores = row_sums.scores(rows[:, :-1], weights)  # the control: powers of scores less the largest of all rows
    whole, alone = (np.exp2(scores - top) for top in (scores.max(), scores.max(axis=1, keepdims=True)))
    chances = [each / each.sum(axis=1, keepdims=True) for each in (whole, alone)]
    assert (chances[0] != chances[1]).any()


@pytest.mark.parametrize("steps", [1, 7, 20])
def test_all_releases_together_cost_no_more_than_mu(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    spent, make = [], row_sums.noisy

    def recorded(sums: Any, norm: float, mu: float) -> Any:
        spent.append(Fraction(mu) ** 2)
        return make(sums, norm, mu)

    monkeypatch.setattr(row_sums, "noisy", recorded)
    x, y = load_iris(return_X_y=True)
    LogisticRegression(bounds=BOUNDS, steps=steps).fit(x, y)
    allowed = Fraction(largest_mu(Fraction(1), Fraction(1, 10**6))) ** 2
    assert len(spent) == steps + 1
    assert sum(spent) <= allowed
    assert float(sum(spent)) == pytest.approx(float(allowed), rel=1e-9)


def test_probabilities_are_probabilities() -> None:
    x, y = load_iris(return_X_y=True)
    for _ in range(5):
        fitted = LogisticRegression(epsilon=0.05, bounds=BOUNDS).fit(x, y)
        found = fitted.predict_proba(np.concatenate([x, 100.0 * x, np.full((1, 4), math.nan)]))
        assert ((found >= 0.0) & (found <= 1.0)).all()
        np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_labels_outside_the_classes_are_left_out() -> None:
    rows = gradient_rows(np.array([[0.0], [1.0]]), np.array([-1, 1]), np.zeros(1), np.ones(1))
    assert rows[:, -1].tolist() == [1.0]
    x, y = load_iris(return_X_y=True)
    fitted = LogisticRegression(epsilon=100.0, bounds=BOUNDS, classes=[0, 1, 7]).fit(x, y)
    assert fitted.classes_.tolist() == [0, 1, 7]
    assert set(fitted.predict(x[:100]).tolist()) <= {0, 1}
