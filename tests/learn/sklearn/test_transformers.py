"""Components, clusters and ranks: those of scikit-learn where the noise is gone."""

import math

import numpy as np
import pytest
from sklearn.cluster import KMeans as PlainKMeans
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import PCA as PlainPCA
from sklearn.preprocessing import QuantileTransformer as PlainTransformer

from rangebound.errors import ArgumentError
from rangebound.learn.sklearn import PCA, KMeans, QuantileTransformer, transformers
from rangebound.learn.sklearn.row_sums import centred
from rangebound.learn.sklearn.transformers import ranks


@pytest.mark.parametrize("upper", [[8.0, 4.5, 7.0, 2.5], [6.5, 3.5, 5.0, 1.5]])
def test_without_noise_it_is_that_of_scikit_learn_on_clipped_data(upper: list[float]) -> None:
    x, _ = load_iris(return_X_y=True)
    bounds = np.array([4.0, 2.0, 1.0, 0.0]), np.array(upper)
    ours = PCA(epsilon=1e10, bounds=bounds, components=3, clip=1.0).fit(x)
    inside = np.clip(x, *bounds)
    plain = PlainPCA(3).fit(inside)
    np.testing.assert_allclose(ours.mean_, plain.mean_, atol=1e-3)
    np.testing.assert_allclose(ours.explained_variance_, plain.explained_variance_ * 149 / 150, atol=2e-3)
    np.testing.assert_allclose(np.abs((ours.components_ * plain.components_).sum(axis=1)), 1.0, atol=1e-3)
    np.testing.assert_allclose(np.abs(ours.transform(inside)), np.abs(plain.transform(inside)), atol=2e-2)
    noisy = [PCA(epsilon=0.01, bounds=bounds, components=3, clip=1.0).fit(x) for _ in range(5)]  # the control
    assert max(np.abs(each.explained_variance_ - plain.explained_variance_).max() for each in noisy) > 0.05


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


BOUNDS = np.array([4.5, 2.0, 1.0, 0.0]), np.array([7.5, 4.5, 7.0, 2.5])


def test_without_noise_it_is_that_of_scikit_learn_from_the_same_start(monkeypatch: pytest.MonkeyPatch) -> None:
    x, _ = load_iris(return_X_y=True)
    rows = centred(x, *BOUNDS)
    start = rows[[0, 60, 120]]
    monkeypatch.setattr(transformers, "spread", lambda *given: (9.0, start, np.zeros(4)))
    ours = KMeans(epsilon=4e11, bounds=BOUNDS, clusters=3, steps=30, clip=1.0).fit(x)
    plain = PlainKMeans(3, init=start, n_init=1, max_iter=300, tol=0.0).fit(rows)
    middle, half = (BOUNDS[0] + BOUNDS[1]) / 2.0, (BOUNDS[1] - BOUNDS[0]) / 2.0
    np.testing.assert_allclose((ours.cluster_centers_ - middle) / half, plain.cluster_centers_, atol=1e-3)
    inside = np.clip(x, *BOUNDS)
    assert (ours.predict(inside) == plain.labels_).all()
    np.testing.assert_allclose(ours.transform(inside), plain.transform(rows), atol=1e-2)
    noisy = KMeans(epsilon=0.01, bounds=BOUNDS, clusters=3, steps=30).fit(x)  # the control
    assert np.abs((noisy.cluster_centers_ - middle) / half - plain.cluster_centers_).max() > 0.1


def test_centres_stay_in_range_and_nothing_is_about_the_rows() -> None:
    x, _ = load_iris(return_X_y=True)
    for rows in (x, x[:2], x[:0]):
        fitted = KMeans(epsilon=0.05, bounds=BOUNDS, clusters=3).fit(rows)
        assert ((fitted.cluster_centers_ >= BOUNDS[0]) & (fitted.cluster_centers_ <= BOUNDS[1])).all()
        public = {name for name in vars(fitted) if name.endswith("_")}
        assert public == {"cluster_centers_", "n_features_in_"}
        assert not hasattr(fitted, "fit_predict")
    assert set(fitted.predict([[math.nan] * 4, [5.0, 3.0, 2.0, 1.0]]).tolist()) <= {0, 1, 2}


def test_without_noise_they_are_those_of_somebody_else() -> None:
    draw = np.random.default_rng(1)
    x = np.column_stack([draw.uniform(0, 1, 5000) ** 2, draw.normal(0.5, 0.1, 5000).clip(0, 1)])
    fitted = QuantileTransformer(epsilon=4e11, bounds=(0, 1), bins=256).fit(x)
    plain = PlainTransformer(n_quantiles=5000, subsample=None).fit(x)
    np.testing.assert_allclose(fitted.transform(x), plain.transform(x), atol=0.04)
    np.testing.assert_allclose(
        fitted.inverse_transform([[0.25, 0.25], [0.9, 0.9]]), np.quantile(x, [0.25, 0.9], axis=0), atol=0.005
    )
    edges = np.linspace(0, 1, 257)
    np.testing.assert_allclose(
        fitted.ranks_[0], [np.mean(x[:, 0] < edge) if edge < 1 else 1.0 for edge in edges], atol=1e-6
    )
    noisy = QuantileTransformer(epsilon=0.01, bounds=(0, 1), bins=256).fit(x)  # the control
    assert np.abs(noisy.transform(x) - plain.transform(x)).max() > 0.1


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("rows", [0, 1, 178])
def test_ranks_rise_and_stay_in_range(epsilon: float, rows: int) -> None:
    x, _ = load_wine(return_X_y=True)
    fitted = QuantileTransformer(epsilon=epsilon, bounds=(0, 2000)).fit(x[:rows])
    assert (np.diff(fitted.ranks_, axis=1) > 0.0).all()
    assert (fitted.ranks_[:, [0, -1]] == [0.0, 1.0]).all()
    found = fitted.transform(np.concatenate([x, -x, x + 1e9]))
    assert ((found >= 0.0) & (found <= 1.0)).all()
    assert (np.diff(fitted.transform(np.sort(x, axis=0)), axis=0) >= 0.0).all()
    back = fitted.inverse_transform(fitted.transform(x))
    assert ((back >= 0.0) & (back <= 2000.0)).all()
    np.testing.assert_allclose(back, x, atol=1e-6)


def test_missing_values_stay_missing_and_count_for_nothing() -> None:
    x = np.full((400, 1), 0.25)
    x[200:] = math.nan
    fitted = QuantileTransformer(epsilon=1e6, bounds=(0, 1), bins=4).fit(x)
    assert np.isnan(fitted.transform([[math.nan]])).all()
    np.testing.assert_allclose(fitted.ranks_[0], [0.0, 0.0, 1.0, 1.0, 1.0], atol=1e-2)


def test_where_there_is_only_noise_ranks_are_drawn_to_equal_bins() -> None:
    even = np.linspace(0, 1, 9)
    np.testing.assert_allclose(ranks(np.zeros(8), 1.0), even)
    assert np.abs(ranks(np.array([1000.0, *[0.0] * 7]), 1.0) - even).max() > 0.8  # the control
