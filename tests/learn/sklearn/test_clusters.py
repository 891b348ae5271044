"""k-means: Lloyd's algorithm of scikit-learn where the noise is gone; one row moves each release by the clip."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn")

from sklearn.cluster import KMeans as Plain  # noqa: E402
from sklearn.datasets import load_iris  # noqa: E402

from rangebound.gdp import largest_mu  # noqa: E402
from rangebound.learn.sklearn import KMeans, clusters, row_sums  # noqa: E402
from rangebound.learn.sklearn.clusters import cluster_vectors, squared_distances  # noqa: E402
from rangebound.learn.sklearn.feature_spread import square_vectors  # noqa: E402
from rangebound.learn.sklearn.row_sums import QUANTA, centred  # noqa: E402
from tests.learn.sklearn.test_row_sums import squared  # noqa: E402

BOUNDS = np.array([4.5, 2.0, 1.0, 0.0]), np.array([7.5, 4.5, 7.0, 2.5])


def test_without_noise_it_is_that_of_scikit_learn_from_the_same_start(monkeypatch: pytest.MonkeyPatch) -> None:
    x, _ = load_iris(return_X_y=True)
    rows = centred(x, *BOUNDS)
    start = rows[[0, 60, 120]]
    monkeypatch.setattr(clusters, "_started", lambda *given: start)
    ours = KMeans(epsilon=4e11, bounds=BOUNDS, clusters=3, steps=30, clip=1.0).fit(x)
    plain = Plain(3, init=start, n_init=1, max_iter=300, tol=0.0).fit(rows)
    middle, half = (BOUNDS[0] + BOUNDS[1]) / 2.0, (BOUNDS[1] - BOUNDS[0]) / 2.0
    np.testing.assert_allclose((ours.cluster_centers_ - middle) / half, plain.cluster_centers_, atol=1e-3)
    inside = np.clip(x, *BOUNDS)
    assert (ours.predict(inside) == plain.labels_).all()
    np.testing.assert_allclose(ours.transform(inside), plain.transform(rows), atol=1e-2)
    noisy = KMeans(epsilon=0.01, bounds=BOUNDS, clusters=3, steps=30).fit(x)  # the control
    assert np.abs((noisy.cluster_centers_ - middle) / half - plain.cluster_centers_).max() > 0.1


def test_the_first_centres_are_around_the_mean() -> None:
    rows = centred(load_iris(return_X_y=True)[0], *BOUNDS)
    found = clusters._started(rows, 4000, 1.0, 1e5)
    np.testing.assert_allclose(found.mean(axis=0), rows.mean(axis=0), atol=0.06)
    np.testing.assert_allclose(found.std(axis=0), 0.5 * rows.std(axis=0), atol=0.03)


def test_one_row_moves_each_release_by_its_norm_at_most() -> None:
    draw = np.random.default_rng(1)
    largest = [0, 0]
    unclipped = 0.0
    for _ in range(60):
        rows = np.clip(draw.uniform(-3, 3, (int(draw.integers(1, 30)), 3)), -1, 1)
        centres = draw.uniform(-1, 1, (4, 3))
        clip = float(draw.choice([0.35, 1.0]))
        releases: list[tuple[Any, float]] = [
            (square_vectors, clip * math.sqrt(7.0)),
            (lambda block, at=centres: cluster_vectors(block, at), clip * 2.0),
        ]
        for i, (vectors, norm) in enumerate(releases):
            moved = row_sums.total(rows, vectors, norm) - row_sums.total(rows[1:], vectors, norm)
            assert squared(moved) <= QUANTA**2
            largest[i] = max(largest[i], squared(moved))
        unclipped = max(unclipped, float((cluster_vectors(rows, centres) ** 2).sum(axis=1).max()))
    assert min(largest) > 0.999 * QUANTA**2  # attained
    assert unclipped > (0.35 * 2.0) ** 2  # the control: rows that are not clipped


def test_a_row_is_the_same_whoever_is_beside_it() -> None:
    draw = np.random.default_rng(2)
    rows, centres = draw.uniform(-1, 1, (61, 9)), draw.uniform(-1, 1, (5, 9))
    whole = squared_distances(rows, centres)
    assert all((squared_distances(rows[i : i + 1], centres)[0] == whole[i]).all() for i in range(61))
    np.testing.assert_allclose(whole, ((rows[:, None] - centres) ** 2).sum(axis=2))


@pytest.mark.parametrize("steps", [1, 5])
def test_all_releases_together_cost_no_more_than_mu(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    spent, make = [], row_sums.noisy

    def recorded(sums: Any, norm: float, mu: float) -> Any:
        if np.any(sums):  # the directions of the start are about nobody
            spent.append(Fraction(mu) ** 2)
        return make(sums, norm, mu)

    monkeypatch.setattr(row_sums, "noisy", recorded)
    KMeans(bounds=BOUNDS, clusters=3, steps=steps).fit(load_iris(return_X_y=True)[0])
    allowed = Fraction(largest_mu(Fraction(1), Fraction(1, 10**6))) ** 2
    assert len(spent) == steps + 1
    assert sum(spent) <= allowed
    assert float(sum(spent)) == pytest.approx(float(allowed), rel=1e-9)


def test_centres_stay_in_range_and_nothing_is_about_the_rows() -> None:
    x, _ = load_iris(return_X_y=True)
    for rows in (x, x[:2], x[:0]):
        fitted = KMeans(epsilon=0.05, bounds=BOUNDS, clusters=3).fit(rows)
        assert ((fitted.cluster_centers_ >= BOUNDS[0]) & (fitted.cluster_centers_ <= BOUNDS[1])).all()
        public = {name for name in vars(fitted) if name.endswith("_")}
        assert public == {"cluster_centers_", "n_features_in_"}
        assert not hasattr(fitted, "fit_predict")
    assert set(fitted.predict([[math.nan] * 4, [5.0, 3.0, 2.0, 1.0]]).tolist()) <= {0, 1, 2}
