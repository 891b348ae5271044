"""Principal components: equal to scikit-learn's where the noise is gone; one row moves the moments by R^2."""

from __future__ import annotations

import math

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn")

from sklearn.datasets import load_iris  # noqa: E402
from sklearn.decomposition import PCA as Plain  # noqa: E402

from rangebound.errors import ArgumentError  # noqa: E402
from rangebound.learn.sklearn import PCA  # noqa: E402
from rangebound.learn.sklearn.principal_components import component_rows  # noqa: E402
from rangebound.learn.sklearn.row_sums import QUANTA, moments  # noqa: E402
from tests.learn.sklearn.test_row_sums import squared  # noqa: E402


@pytest.mark.parametrize("upper", [[8.0, 4.5, 7.0, 2.5], [6.5, 3.5, 5.0, 1.5]])
def test_without_noise_it_is_that_of_scikit_learn_on_clipped_data(upper: list[float]) -> None:
    x, _ = load_iris(return_X_y=True)
    bounds = np.array([4.0, 2.0, 1.0, 0.0]), np.array(upper)
    ours = PCA(epsilon=1e10, bounds=bounds, components=3, clip=1.0).fit(x)
    inside = np.clip(x, *bounds)
    plain = Plain(3).fit(inside)
    np.testing.assert_allclose(ours.mean_, plain.mean_, atol=1e-3)
    np.testing.assert_allclose(ours.explained_variance_, plain.explained_variance_ * 149 / 150, atol=2e-3)
    np.testing.assert_allclose(np.abs((ours.components_ * plain.components_).sum(axis=1)), 1.0, atol=1e-3)
    np.testing.assert_allclose(np.abs(ours.transform(inside)), np.abs(plain.transform(inside)), atol=2e-2)
    noisy = PCA(epsilon=0.01, bounds=bounds, components=3, clip=1.0).fit(x)  # the control
    assert np.abs(noisy.explained_variance_ - plain.explained_variance_).max() > 0.05


def test_one_row_moves_the_moments_by_the_squared_norm_at_most() -> None:
    draw = np.random.default_rng(1)
    largest, lower, upper = 0, np.full(3, -2.0), np.full(3, 2.0)
    for _ in range(60):
        x = draw.uniform(-5, 5, (int(draw.integers(1, 30)), 3))
        x[draw.random(x.shape) < 0.1] = math.nan
        norm = float(draw.choice([0.5, 1.0])) * 2.0
        moved = moments(component_rows(x, lower, upper), norm) - moments(component_rows(x[1:], lower, upper), norm)
        assert squared(moved) <= QUANTA**2
        largest = max(largest, squared(moved))
    assert largest > 0.999 * QUANTA**2  # attained
    assert (component_rows(np.full((1, 3), 9.0), lower, upper) ** 2).sum() == 4.0  # the control: longer than norm 1


def test_everything_published_is_in_range() -> None:
    x, _ = load_iris(return_X_y=True)
    for rows in (x, x[:3], x[:0]):
        fitted = PCA(epsilon=0.05, bounds=(0.0, 8.0), components=4).fit(rows)
        assert ((fitted.mean_ >= 0.0) & (fitted.mean_ <= 8.0)).all()
        assert ((fitted.explained_variance_ >= 0.0) & (fitted.explained_variance_ <= 64.0)).all()
        np.testing.assert_allclose(fitted.components_ @ fitted.components_.T, np.eye(4), atol=1e-9)
        assert (np.diff(fitted.explained_variance_) <= 0.0).all()


def test_transforming_there_and_back() -> None:
    x, _ = load_iris(return_X_y=True)
    fitted = PCA(bounds=(0.0, 8.0), components=4).fit(x)
    np.testing.assert_allclose(fitted.inverse_transform(fitted.transform(x)), x)
    assert np.isfinite(fitted.transform([[math.nan, 1.0, 1.0, 1.0]])).all()
    with pytest.raises(ArgumentError, match="4 columns"):
        fitted.inverse_transform(x[:, :3])
