"""Linear and logistic regression: equal to scikit-learn's where the noise is gone."""

import math
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris, make_classification
from sklearn.linear_model import LinearRegression as Plain
from sklearn.linear_model import LogisticRegression as PlainLogistic

from rangebound.learn.sklearn import LinearRegression, LogisticRegression, row_sums
from rangebound.learn.sklearn.linear_models import gradient_rows, moment_rows, solved


@pytest.mark.parametrize("narrow", [1.0, 0.6])
def test_without_noise_it_is_that_of_scikit_learn_on_clipped_data(narrow: float) -> None:
    x, y = load_diabetes(return_X_y=True)
    x = x[:, :4]
    bounds, ends = (narrow * x.min(axis=0), narrow * x.max(axis=0)), (30.0, 400.0 * narrow)
    ours = LinearRegression(epsilon=1e11, bounds=bounds, target_bounds=ends, clip=1.0).fit(x, y)
    plain = Plain().fit(np.clip(x, *bounds), np.clip(y, *ends))
    np.testing.assert_allclose(ours.coef_, plain.coef_, rtol=2e-2, atol=2.0)
    assert ours.intercept_ == pytest.approx(plain.intercept_, rel=1e-3)
    np.testing.assert_allclose(ours.predict(x), np.clip(plain.predict(x), *ends), atol=0.5)
    noisy = LinearRegression(epsilon=0.01, bounds=bounds, target_bounds=ends, clip=1.0).fit(x, y)  # the control
    assert np.abs(noisy.predict(x) - plain.predict(x)).max() > 5.0


def test_clipped_rows_weigh_less() -> None:
    """Which is weighted least squares, by somebody else's solver."""
    draw = np.random.default_rng(1)
    x, y = draw.uniform(-1, 1, (400, 3)), draw.uniform(-1, 1, 400)
    ours = LinearRegression(epsilon=1e11, bounds=(-1, 1), target_bounds=(-1, 1), clip=0.6).fit(x, y)
    z = np.column_stack([x, y])
    _, mean, deviation = (np.append(*each) for each in zip(
        row_sums.spread(x, 0.35, 1e9), row_sums.spread(y[:, None], 1.0, 1e9), strict=True
    ))  # fmt: skip
    norm = 0.6 * math.sqrt(1.0 + (((1.0 + np.abs(mean)) / deviation) ** 2).sum())
    weights = np.minimum(1.0, norm / np.sqrt(1.0 + (((z - mean) / deviation) ** 2).sum(axis=1))) ** 2
    plain = Plain().fit(x, y, sample_weight=weights)
    np.testing.assert_allclose(ours.coef_, plain.coef_, atol=1e-4)
    assert np.abs(ours.coef_ - Plain().fit(x, y).coef_).max() > 1e-3  # the control: unweighted, other slopes


def test_predictions_stay_in_the_range_of_the_target() -> None:
    x, y = load_diabetes(return_X_y=True)
    for _ in range(5):
        fitted = LinearRegression(epsilon=5.0, bounds=(-0.2, 0.2), target_bounds=(0, 400)).fit(x, y)
        found = fitted.predict(100.0 * x)
        assert ((found >= 0.0) & (found <= 400.0)).all()
        assert np.isfinite(fitted.predict(np.full((1, 10), math.nan))).all()
    assert np.abs(100.0 * x @ fitted.coef_ + fitted.intercept_).max() > 400.0  # the control: without the clamp


def test_rows_without_a_target_are_left_out() -> None:
    bounds = np.zeros(1), np.ones(1)
    rows = moment_rows(np.array([[0.0], [1.0], [math.nan]]), np.array([1.0, math.nan, 9.0]), bounds, (0.0, 1.0))
    assert rows.tolist() == [[1.0, -1.0, 1.0], [1.0, 0.0, 1.0]]


def test_a_line_is_no_worse_than_the_mean_and_learns_more_with_more_epsilon() -> None:
    """In a range that is far wider than the rows; the control are products in units of the range, as they were."""
    draw = np.random.default_rng(5)
    x = draw.normal(size=(4000, 4))
    y = x[:, 0] - x[:, 1] + draw.normal(size=4000)
    plain = np.mean((Plain().fit(x, y).predict(x) - y) ** 2) / y.var()

    def error(epsilon: float) -> float:
        made = LinearRegression(epsilon=epsilon, bounds=(-20, 20), target_bounds=(-20, 20))
        return float(np.mean([np.mean((made.fit(x, y).predict(x) - y) ** 2) for _ in range(3)]) / y.var())

    found = [error(each) for each in (0.05, 1.0, 100.0)]
    assert found[0] < 2.0
    assert found[1] < 0.7
    assert found[2] < 1.01 * plain
    raw = np.column_stack([np.ones(4000), x / 20.0, y / 20.0])
    scale = 6.0 / row_sums.budget_mu(1.0, 1e-6)[2]
    noise = draw.normal(size=(6, 6)) * scale / 2.0
    slopes, _ = solved(raw.T @ raw + noise + noise.T, scale, 1.0)
    assert np.mean((x @ slopes - y) ** 2) / y.var() > 0.8


BOUNDS = np.array([4.5, 2.0, 1.0, 0.0]), np.array([7.5, 4.5, 7.0, 2.5])


@pytest.mark.few(1)
@pytest.mark.parametrize("classes", [3, 2])
def test_without_noise_classes_are_those_of_scikit_learn_on_clipped_data(classes: int) -> None:
    x, y = load_iris(return_X_y=True)
    x, y = x[y < classes], y[y < classes]
    options: dict[str, Any] = {"clip": 1.0, "steps": 400, "learning_rate": 8.0, "penalty": 0.05}
    ours = LogisticRegression(epsilon=1e11, bounds=BOUNDS, **options).fit(x, y)
    rows = gradient_rows(x, y, *BOUNDS)[:, :-1]
    # of two classes scikit-learn has one vector of weights, the difference of ours
    weight = (2.0 if classes == 2 else 1.0) / (0.05 * len(x))
    plain = PlainLogistic(C=weight, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(rows, y)
    x = np.clip(x, *BOUNDS)
    np.testing.assert_allclose(ours.predict_proba(x), plain.predict_proba(rows), atol=2e-3)
    if classes == 3:
        scaled = plain.coef_[:, 1:] / math.sqrt(5.0) / ((BOUNDS[1] - BOUNDS[0]) / 2.0)
        np.testing.assert_allclose(ours.coef_, scaled, atol=5e-3)
    noisy = LogisticRegression(epsilon=0.01, bounds=BOUNDS, **options).fit(x, y)  # the control
    assert np.abs(noisy.predict_proba(x) - plain.predict_proba(rows)).max() > 0.05


def test_it_learns_more_with_more_epsilon_up_to_what_has_no_noise() -> None:
    given = {"n_informative": 5, "n_classes": 3, "n_clusters_per_class": 1, "random_state": 2}
    x, y = make_classification(1500, 6, n_redundant=0, **given)
    ends = x.min(axis=0), x.max(axis=0)
    plain = PlainLogistic(C=1e4, max_iter=2000).fit(x, y).score(x, y)
    found = [
        np.mean([LogisticRegression(epsilon=each, bounds=ends).fit(x, y).score(x, y) for _ in range(6)])
        for each in (0.02, 1.0, 100.0)
    ]
    assert found[0] < found[1] - 0.1
    assert found[1] > 0.9 * plain
    assert found[2] > 0.99 * plain


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


def test_slopes_that_noise_hides_are_next_to_nothing_and_clear_ones_stay() -> None:
    """The error that slopes add to the mean of a target about which the features tell nothing, over its variance; the
    control is the ridge alone, which adds more than twice as much.
    """
    draw, count, features, scale = np.random.default_rng(3), 3000.0, 6, 60.0
    truth = np.diag([count, *np.full(features, 0.1 * count), 0.04 * count])
    added = []
    for _ in range(60):
        noise = draw.normal(size=truth.shape) * scale / 2.0
        matrix = truth + noise + noise.T
        slopes, _ = solved(matrix, scale, 1.0)
        ridge = np.linalg.solve(matrix[1:-1, 1:-1] + scale * features**0.5 * np.eye(features), matrix[1:-1, -1])
        added.append([float(each @ truth[1:-1, 1:-1] @ each) / truth[-1, -1] for each in (slopes, ridge)])
    ours, control = np.mean(added, axis=0)
    assert ours < control / 2.0
    assert ours < 0.1
    truth[1:-1, -1] = truth[-1, 1:-1] = 0.01 * count
    np.testing.assert_allclose(solved(truth, 1e-6, 1.0)[0], 0.1, rtol=1e-6)
