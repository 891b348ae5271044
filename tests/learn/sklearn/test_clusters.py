"""k-means: Lloyd's algorithm of scikit-learn where the noise is gone."""

import math

import numpy as np
import pytest
from sklearn.cluster import KMeans as Plain
from sklearn.datasets import load_iris

from rangebound.learn.sklearn import KMeans, transformers
from rangebound.learn.sklearn.row_sums import centred

BOUNDS = np.array([4.5, 2.0, 1.0, 0.0]), np.array([7.5, 4.5, 7.0, 2.5])


def test_without_noise_it_is_that_of_scikit_learn_from_the_same_start(monkeypatch: pytest.MonkeyPatch) -> None:
    x, _ = load_iris(return_X_y=True)
    rows = centred(x, *BOUNDS)
    start = rows[[0, 60, 120]]
    monkeypatch.setattr(transformers, "spread", lambda *given: (start, np.zeros(4)))
    ours = KMeans(epsilon=4e11, bounds=BOUNDS, clusters=3, steps=30, clip=1.0).fit(x)
    plain = Plain(3, init=start, n_init=1, max_iter=300, tol=0.0).fit(rows)
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
