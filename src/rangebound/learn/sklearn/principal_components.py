"""Principal components from noisy second moments, with variances that are never negative."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from rangebound.errors import ArgumentError
from rangebound.learn.sklearn import row_sums, statistics
from rangebound.learn.sklearn.private_estimator import RowSumEstimator
from rangebound.values import arguments
from rangebound.values.array_types import Floats


@arguments.guided
@dataclass(kw_only=True, eq=False, repr=False)
class PCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, RowSumEstimator):  # type: ignore[misc]
    """Principal components from one noisy matrix of second moments.

    Features are scaled to [-1, 1] by their bounds. A row z = (1, features) longer than R = clip sqrt(features + 1) is
    scaled down to R, which gives it less weight. Released is the sum of z z^T with Gaussian noise, once; all else is
    post-processing: the mean, and the eigenvectors of the covariance, in units of the features.

    Guarantee: (epsilon, delta)-private for adding or removing one row, and mu-GDP for the mu of them. Proof: the
    squares of z and sqrt(2) times the products of its pairs are a vector of length |z|^2 <= R^2, which is what one row
    moves the sum by, in whole numbers; noise of scale R^2/mu on each coordinate is mu-GDP [dong2022]. `mean_` lies
    within the bounds, and `explained_variance_` between zero and a quarter of the summed squared widths.
    Assumes: `bounds`, `clip` and `components` are public.
    Edge cases: values outside the bounds are clipped when fitting; a missing value counts as the middle of its range,
    then and in `transform`. There may be no rows at all.

    >>> import numpy as np
    >>> X = np.linspace(0.0, 10.0, 1000)[:, None] * [1.0, 0.5]
    >>> fitted = PCA(epsilon=50.0, bounds=([0, 0], [10, 5]), components=1, clip=1.0).fit(X)
    >>> np.abs(fitted.components_).round(1).tolist()
    [[0.9, 0.4]]
    """

    components: int = 2
    clip: float = 0.5

    def fit(self, X: object, y: object = None) -> Self:
        """Release the second moments, and find mean and components from them."""
        x = self._rows(X)
        features = x.shape[1]
        lower, upper = statistics.ranges(self.bounds, features)
        clip, kept = row_sums.fraction("clip", self.clip), row_sums.whole("components", self.components, features)
        norm = clip * math.sqrt(features + 1)
        rows = component_rows(x, lower, upper)
        found, mu = self._released(
            "principal components: second moments",
            lambda mu: {"moments": row_sums.noisy(row_sums.moments(rows, norm), norm**2, mu)},
            lower.tolist(), upper.tolist(), clip,
        )  # fmt: skip
        matrix = row_sums.symmetric(found["moments"], features + 1)
        mean, covariance = centre_and_spread(matrix, norm**2 / mu)
        half = (upper - lower) / 2.0
        values, vectors = np.linalg.eigh(covariance * np.outer(half, half))
        largest = np.argsort(values)[::-1][:kept]
        limit = float((half**2).sum())
        self.mean_: Floats = np.clip((lower + upper) / 2.0 + half * mean, lower, upper)
        self.components_: Floats = _oriented(vectors.T[largest])
        self.explained_variance_: Floats = np.clip(values[largest], 0.0, limit)
        self._middle = (lower + upper) / 2.0
        return self

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def transform(self, X: object) -> Floats:
        """The components of each row: (X - mean_) components_^T."""
        check_is_fitted(self)
        x = self._asked(X)
        result: Floats = (np.where(np.isnan(x), self._middle, x) - self.mean_) @ self.components_.T
        return result

    def inverse_transform(self, X: object) -> Floats:
        """X components_ + mean_."""
        check_is_fitted(self)
        x = np.asarray(X, dtype=np.float64)
        if x.ndim != 2 or x.shape[1] != len(self.components_):
            raise ArgumentError(f"X: must have {arguments.counted(len(self.components_), 'column')}")
        result: Floats = x @ self.components_ + self.mean_
        return result


def component_rows(x: Floats, lower: Floats, upper: Floats) -> Floats:
    """The rows (1, features), scaled to [-1, 1]."""
    return np.column_stack([np.ones(len(x)), row_sums.centred(x, lower, upper)])


def centre_and_spread(matrix: Floats, scale: float) -> tuple[Floats, Floats]:
    """Mean and covariance from a noisy matrix of second moments whose diagonal has noise of this scale."""
    count = max(float(matrix[0, 0]), scale)
    mean: Floats = np.clip(matrix[0, 1:] / count, -1.0, 1.0)
    covariance: Floats = matrix[1:, 1:] / count - np.outer(mean, mean)
    return mean, covariance


def _oriented(vectors: Floats) -> Floats:
    """Each vector with its largest number positive, as in scikit-learn."""
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=1)[:, None], axis=1)
    found: Floats = vectors * np.where(largest < 0.0, -1.0, 1.0)
    return found
