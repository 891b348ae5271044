"""Other features made of the features: principal components, distances to the centres of clusters, and ranks.

Variances of components are never negative, centres stay in the range of the features, and ranks are monotone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassNamePrefixFeaturesOutMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.isotonic import isotonic_regression
from sklearn.utils.validation import check_is_fitted

from rangebound.errors import ArgumentError
from rangebound.learn.sklearn import row_sums
from rangebound.learn.sklearn.private_estimator import RowSumEstimator
from rangebound.learn.sklearn.row_sums import normals, spread
from rangebound.values import arguments
from rangebound.values.array_types import Floats, Integers

_START = Fraction(1, 5)  # of the squares of mu: mean and variance of each feature, where the centres begin
_SPREAD = 0.5  # standard deviations that the first centres are away from the mean, in each feature
_MOST, _STEPS = 10**5, 10**6
_FINEST = 1024


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
    Assumes: `bounds`, `clip` and `n_components` (or by its other name `components`) are public.
    Edge cases: values outside the bounds are clipped when fitting; a missing value counts as the middle of its range,
    then and in `transform`, but a row of nothing else is left out of a fit. There may be no rows at all.

    >>> import numpy as np
    >>> X = np.linspace(0.0, 10.0, 1000)[:, None] * [1.0, 0.5]
    >>> fitted = PCA(epsilon=50.0, bounds=([0, 0], [10, 5]), n_components=1, clip=1.0).fit(X)
    >>> np.abs(fitted.components_).round(1).tolist()
    [[0.9, 0.4]]
    """

    n_components: int = 2
    components: int | None = None
    clip: float = 0.5

    def fit(self, X: object, y: object = None) -> Self:
        """Release the second moments, and find mean and components from them."""
        x = self._rows(X)
        features = x.shape[1]
        lower, upper = row_sums.ranges(self.bounds, features)
        clip, kept = row_sums.fraction("clip", self.clip), self._named("n_components", "components", features)
        norm = clip * math.sqrt(features + 1)
        inside = row_sums.centred(row_sums.present(x), lower, upper)
        rows = np.column_stack([np.ones(len(inside)), inside])
        found, mu = self._released(
            "principal components: second moments",
            lambda mu: {"moments": row_sums.noisy(row_sums.moments(rows, norm), norm**2, mu)},
            lower, upper, (features + 1) * (features + 2) // 2,
        )  # fmt: skip
        matrix = row_sums.symmetric(found["moments"], features + 1)
        matrix /= max(float(matrix[0, 0]), norm**2 / mu)
        mean: Floats = np.clip(matrix[0, 1:], -1.0, 1.0)
        covariance = matrix[1:, 1:] - np.outer(mean, mean)
        half = (upper - lower) / 2.0
        values, vectors = np.linalg.eigh(covariance * np.outer(half, half))
        largest = np.argsort(values)[::-1][:kept]
        self.mean_: Floats = np.clip(self._middle + half * mean, lower, upper)
        rows = vectors.T[largest]  # each with its largest number positive, as in scikit-learn
        tops = np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, None], axis=1)
        self.components_: Floats = rows * np.where(tops < 0.0, -1.0, 1.0)
        self._n_features_out = kept
        self.explained_variance_: Floats = np.clip(values[largest], 0.0, float((half**2).sum()))
        return self

    def transform(self, X: object) -> Floats:
        """The components of each row: (X - mean_) components_^T."""
        return (self._filled(X) - self.mean_) @ self.components_.T

    def inverse_transform(self, X: object) -> Floats:
        """X components_ + mean_."""
        check_is_fitted(self)
        x = np.asarray(X, dtype=np.float64)
        if x.ndim != 2 or x.shape[1] != len(self.components_):
            raise ArgumentError(f"X: must have {arguments.counted(len(self.components_), 'column')}")
        return x @ self.components_ + self.mean_


@arguments.guided
@dataclass(kw_only=True, eq=False, repr=False)
class KMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, RowSumEstimator):  # type: ignore[misc]
    """Cluster centres by `steps` noisy steps of Lloyd's algorithm.

    Features are scaled to [-1, 1] by their bounds. First the number of rows and the sums of the features and of their
    squares are released; the first centres are drawn around the mean, half a standard deviation away. In each step a
    row belongs to the nearest centre, and released is, for each centre, the sum of (1, row - centre) over its rows; the
    centre moves by the mean of these, and stays within the bounds. A vector longer than `clip` times the largest
    length inside the bounds around their middle, sqrt(2 features + 1) or sqrt(features + 1), is scaled down to that.

    Guarantee: (epsilon, delta)-private for adding or removing one row, and mu-GDP for the mu of them. Proof: given what
    was released before, one row adds one vector of at most that length, in whole numbers, to one centre's numbers.
    Noise of scale length/m makes a release m-GDP, and the squares of all m add up to mu^2 at most
    [dong2022, smith2022].
    Assumes: `bounds`, `n_clusters` (or by its other name `clusters`), `steps` and `clip` are public.
    Edge cases: values outside the bounds are clipped when fitting; a missing value counts as the middle of its range,
    then and when predicting, but a row of nothing else is left out of a fit. There may be no rows at all. There are no
    `labels_` and no `inertia_`, which would be about the rows of the fit; `predict` gives labels to all who have rows.

    >>> import numpy as np
    >>> X = np.repeat([[1.0, 1.0], [9.0, 9.0]], 2000, axis=0)
    >>> fitted = KMeans(epsilon=50.0, bounds=(0, 10), n_clusters=2, clip=1.0).fit(X)
    >>> bool(((fitted.cluster_centers_ >= 0.0) & (fitted.cluster_centers_ <= 10.0)).all())
    True
    """

    n_clusters: int = 8
    clusters: int | None = None
    steps: int = 5
    clip: float = 0.35

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "clusterer"
        return tags

    def fit(self, X: object, y: object = None) -> Self:
        """Release where the centres begin, and the sums of each step."""
        x = self._rows(X)
        lower, upper = row_sums.ranges(self.bounds, x.shape[1])
        clusters = self._named("n_clusters", "clusters", _MOST)
        steps = row_sums.whole("steps", self.steps, _STEPS)
        clip = row_sums.fraction("clip", self.clip)
        rows = row_sums.centred(row_sums.present(x), lower, upper)
        found, _ = self._released(
            "k-means: centres", lambda mu: {"centres": _moved(rows, clusters, steps, clip, mu)},
            lower, upper,
        )  # fmt: skip
        self._half, self._n_features_out = (upper - lower) / 2.0, clusters
        self.cluster_centers_: Floats = np.clip(self._middle + self._half * found["centres"], lower, upper)
        return self

    def _distances(self, X: object) -> Floats:
        """The squared distance of each row to each centre, in units of the bounds."""
        inside = (self._filled(X) - self._middle) / self._half
        return squared_distances(inside, (self.cluster_centers_ - self._middle) / self._half)

    def predict(self, X: object) -> npt.NDArray[np.int32]:
        """The index of the nearest centre, for each row; distances are in units of the bounds."""
        found: npt.NDArray[np.int32] = np.argmin(self._distances(X), axis=1).astype(np.int32)
        return found

    def transform(self, X: object) -> Floats:
        """The distance of each row to each centre, in units of half the width of the bounds."""
        return np.sqrt(self._distances(X))


def squared_distances(rows: Floats, centres: Floats) -> Floats:
    """The squared distance of each row to each centre, column by column, so that no row depends on another."""
    found: Floats = np.zeros((len(rows), len(centres)))
    for column, places in zip(rows.T, centres.T, strict=True):
        found += (column[:, None] - places) ** 2
    return found


def _moved(rows: Floats, clusters: int, steps: int, clip: float, mu: float) -> Floats:
    """The centres after all steps; the first are around the noisy mean, in normal directions, drawn like the noise."""
    _, mean, deviation = spread(rows, clip, row_sums.part(mu, _START))
    centres: Floats = np.clip(mean + _SPREAD * deviation * normals((clusters, rows.shape[1])), -1.0, 1.0)
    norm = clip * math.sqrt(rows.shape[1] + 1)
    each = row_sums.part(mu, (1 - _START) / steps)

    def vectors(block: Floats) -> Floats:
        """Of each row, (1, row - centre) among the numbers of its nearest centre, and zeros elsewhere."""
        nearest, places = squared_distances(block, centres).argmin(axis=1), np.arange(len(block))
        found: Floats = np.zeros((len(block), clusters, block.shape[1] + 1))
        found[places, nearest] = np.column_stack([np.ones(len(block)), block - centres[nearest]])
        return found.reshape(len(block), centres.size + clusters)

    for _ in range(steps):
        sums = row_sums.total(rows, vectors, norm)
        found = row_sums.noisy(sums, norm, each).reshape(clusters, -1)
        counts = np.maximum(found[:, :1], 2.0 * norm / each)  # where noise hides the rows, a centre moves little
        centres = np.clip(centres + found[:, 1:] / counts, -1.0, 1.0)
    return centres


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
        lower, upper = row_sums.ranges(self.bounds, features)
        bins = row_sums.whole("bins", self.bins, _FINEST)
        norm = math.sqrt(features)
        one = int(row_sums.clipped(np.ones((1, 1)), norm, features)[0, 0])  # a value in quanta of the norm
        u = (row_sums.centred(x, lower, upper) + 1.0) / 2.0
        places = np.minimum(np.floor(u * bins), bins - 1).astype(np.int64)
        there = [column[~missing] for column, missing in zip(places.T, np.isnan(x).T, strict=True)]
        counts: Integers = one * np.stack([np.bincount(column, minlength=bins) for column in there])
        found, mu = self._released(
            "quantiles: counts of bins",
            lambda mu: {"counts": row_sums.noisy(counts, norm, mu)}, lower, upper, features * bins,
        )  # fmt: skip
        self.edges_: Floats = np.linspace(lower, upper, bins + 1, axis=1)
        self.ranks_: Floats = np.stack([ranks(each, norm / mu) for each in found["counts"]])
        return self

    def _interpolated(self, X: object, places: Floats, values: Floats) -> Floats:
        x = self._asked(X)
        columns = [np.interp(column, *pair) for column, *pair in zip(x.T, places, values, strict=True)]
        return np.where(np.isnan(x), math.nan, np.column_stack(columns))

    def transform(self, X: object) -> Floats:
        """The rank of each value, from 0 to 1."""
        check_is_fitted(self)
        return self._interpolated(X, self.edges_, self.ranks_)

    def inverse_transform(self, X: object) -> Floats:
        """The value of each rank, inside the bounds: 0.5 has the median."""
        check_is_fitted(self)
        return self._interpolated(X, self.ranks_, self.edges_)


def ranks(counts: Floats, scale: float) -> Floats:
    """Strictly rising ranks at the edges of bins, from 0 to 1, for counts with noise of this scale."""
    bins = len(counts)
    rising = isotonic_regression(np.concatenate([[0.0], np.cumsum(counts)]), y_min=0.0)
    few = scale * math.sqrt(bins)
    even = np.linspace(0.0, 1.0, bins + 1)
    mixed = rising - rising[0] + few * even
    found: Floats = mixed / mixed[-1]
    return found
