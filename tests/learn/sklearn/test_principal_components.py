"""Principal components: equal to scikit-learn's where the noise is gone."""

import math

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA as Plain

from rangebound.errors import ArgumentError
from rangebound.learn.sklearn import PCA


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
