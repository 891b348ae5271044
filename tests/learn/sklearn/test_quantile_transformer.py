"""Quantiles: those of numpy where the noise is gone, monotone and in range, and one row moves little."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn")

from sklearn.datasets import load_wine  # noqa: E402
from sklearn.preprocessing import QuantileTransformer as PlainTransformer  # noqa: E402

from rangebound.learn.sklearn import QuantileTransformer  # noqa: E402
from rangebound.learn.sklearn.quantile_transformer import bin_counts, ranks  # noqa: E402
from rangebound.learn.sklearn.row_sums import QUANTA  # noqa: E402
from tests.learn.sklearn.test_row_sums import squared  # noqa: E402


def rank_errors(fitted: Any, x: Any) -> Any:
    """How far the ranks at the deciles, in the order of the rows, are from those that are meant."""
    deciles = np.linspace(0.1, 0.9, 9)
    found = fitted.inverse_transform(np.repeat(deciles[:, None], x.shape[1], axis=1))
    return np.abs((x[None] <= found[:, None]).mean(axis=1) - deciles[:, None])


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


@pytest.mark.parametrize("features", [1, 2, 3, 7, 64])
def test_one_row_moves_the_counts_by_their_norm_at_most(features: int) -> None:
    draw = np.random.default_rng(features)
    x = draw.uniform(-0.5, 1.5, (20, features))
    low, high = np.zeros(features), np.ones(features)
    more, less = (bin_counts(x[k:], low, high, 8) for k in (0, 1))
    assert 0.999 * QUANTA**2 < squared(more - less) <= QUANTA**2
    x[0, 0] = math.nan
    assert squared(bin_counts(x, low, high, 8) - less) < (1.001 - 1.0 / features) * QUANTA**2
    once = math.ceil(QUANTA / features**0.5) + 1
    assert features * once**2 > QUANTA**2  # the control: a little more would be too much


def test_counts_are_those_of_numpy() -> None:
    x = np.random.default_rng(3).uniform(0, 1, (300, 2))
    found = bin_counts(x, np.zeros(2), np.ones(2), 10)
    for feature in range(2):
        plain, _ = np.histogram(x[:, feature], bins=10, range=(0, 1))
        np.testing.assert_allclose(found[feature] / found.sum() * 600, plain)


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


def test_quantiles_are_near_at_epsilon_one() -> None:
    x = np.random.default_rng(5).normal(0, 1, (2000, 4))
    near = [rank_errors(QuantileTransformer(bounds=(-5, 5)).fit(x), x).mean() for _ in range(3)]
    assert max(near) < 0.05
    far = rank_errors(QuantileTransformer(bounds=(-5, 5)).fit(x[:0]), x).mean()
    assert far > 0.1  # the control: without rows
