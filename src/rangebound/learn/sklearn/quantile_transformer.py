"""Features by their ranks: private quantiles of each feature, monotone and in range."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.isotonic import isotonic_regression
from sklearn.utils.validation import check_is_fitted

from rangebound.learn.sklearn import row_sums, statistics
from rangebound.learn.sklearn.private_estimator import RowSumEstimator
from rangebound.values import arguments
from rangebound.values.array_types import Floats, Integers

_FINEST = 1024


@arguments.guided
@dataclass(kw_only=True, eq=False, repr=False)
class QuantileTransformer(OneToOneFeatureMixin, TransformerMixin, RowSumEstimator):  # type: ignore[misc]
    """Each feature becomes its rank among the rows, between 0 and 1, by a noisy cumulative distribution.

    The range of a feature has `bins` equally wide bins. Released are the counts of all bins of all features, once; all
    else is post-processing: cumulative counts are made monotone, drawn a little to those of equally likely bins, more
    so where there are few rows, and interpolated. `edges_` are the edges of the bins and `ranks_` the ranks there.

    Guarantee: (epsilon, delta)-private for adding or removing one row, and mu-GDP for the mu of them. Proof: a row adds
    1 to one bin of each feature, or to none, a vector of length sqrt(features) at most, in whole numbers; noise of
    scale sqrt(features)/mu on each count is mu-GDP [dong2022]. Ranks rise strictly from 0 to 1.
    Assumes: `bounds` and `bins` are public.
    Edge cases: values outside the bounds count at the nearer end, and have the rank 0 or 1. A missing value is left out
    of its feature, and stays missing in `transform`. There may be no rows at all.

    >>> import numpy as np
    >>> X = np.linspace(0.0, 1.0, 4000)[:, None] ** 2
    >>> fitted = QuantileTransformer(epsilon=20.0, bounds=(0, 1)).fit(X)
    >>> fitted.transform([[0.0], [0.25], [1.0]]).round(1).tolist()
    [[0.0], [0.5], [1.0]]
    """

    bins: int = 32

    def fit(self, X: object, y: object = None) -> Self:
        """Release the counts of all bins, and find the ranks from them."""
        x = self._rows(X)
        features = x.shape[1]
        lower, upper = statistics.ranges(self.bounds, features)
        bins = row_sums.whole("bins", self.bins, _FINEST)
        norm = math.sqrt(features)
        found, mu = self._released(
            "quantiles: counts of bins",
            lambda mu: {"counts": row_sums.noisy(bin_counts(x, lower, upper, bins), norm, mu)},
            lower.tolist(), upper.tolist(), bins,
        )  # fmt: skip
        self.edges_: Floats = np.linspace(lower, upper, bins + 1, axis=1)
        self.ranks_: Floats = np.stack([ranks(each, norm / mu) for each in found["counts"]])
        return self

    def _interpolated(self, X: object, places: Floats, values: Floats) -> Floats:
        check_is_fitted(self)
        x = self._asked(X)
        columns = [np.interp(column, *pair) for column, *pair in zip(x.T, places, values, strict=True)]
        found: Floats = np.where(np.isnan(x), math.nan, np.column_stack(columns))
        return found

    def transform(self, X: object) -> Floats:
        """The rank of each value, from 0 to 1."""
        check_is_fitted(self)
        return self._interpolated(X, self.edges_, self.ranks_)

    def inverse_transform(self, X: object) -> Floats:
        """The value of each rank, inside the bounds: 0.5 has the median."""
        check_is_fitted(self)
        return self._interpolated(X, self.ranks_, self.edges_)


def bin_counts(x: Floats, lower: Floats, upper: Floats, bins: int) -> Integers:
    """How many values of each feature are in each bin, in quanta of sqrt(features); missing ones are in none."""
    features = x.shape[1]
    found: Integers = np.zeros((features, bins), dtype=np.int64)
    one = int(row_sums.clipped(np.ones((1, 1)), math.sqrt(features), features)[0, 0])
    places = np.minimum(np.floor((row_sums.centred(x, lower, upper) + 1.0) / 2.0 * bins), bins - 1).astype(np.int64)
    for feature in range(features):
        there = places[~np.isnan(x[:, feature]), feature]
        found[feature] = one * np.bincount(there, minlength=bins)
    return found


def ranks(counts: Floats, scale: float) -> Floats:
    """Strictly rising ranks at the edges of bins, from 0 to 1, for counts with noise of this scale."""
    bins = len(counts)
    rising = isotonic_regression(np.concatenate([[0.0], np.cumsum(counts)]), y_min=0.0)
    few = scale * math.sqrt(bins)
    even = np.linspace(0.0, 1.0, bins + 1)
    mixed = rising - rising[0] + few * even
    found: Floats = mixed / mixed[-1]
    return found
