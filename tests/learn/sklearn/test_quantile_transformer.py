"""Quantiles: those of numpy where the noise is gone, monotone and in range."""

import math

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.preprocessing import QuantileTransformer as PlainTransformer

from rangebound.learn.sklearn import QuantileTransformer
from rangebound.learn.sklearn.transformers import ranks


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
