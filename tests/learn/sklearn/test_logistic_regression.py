"""Logistic regression: equal to scikit-learn's where the noise is gone."""

import math
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression as Plain

from rangebound.learn.sklearn import LogisticRegression
from rangebound.learn.sklearn.linear_models import gradient_rows

BOUNDS = np.array([4.5, 2.0, 1.0, 0.0]), np.array([7.5, 4.5, 7.0, 2.5])


@pytest.mark.few(1)
@pytest.mark.parametrize("classes", [3, 2])
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
