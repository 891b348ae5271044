"""k-means by noisy steps of Lloyd's algorithm, with centres that stay in the range of the features."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from rangebound.learn.sklearn import row_sums, statistics
from rangebound.learn.sklearn.feature_spread import normals, spread
from rangebound.learn.sklearn.private_estimator import RowSumEstimator
from rangebound.values import arguments
from rangebound.values.array_types import Floats

_START = Fraction(1, 5)  # of the squares of mu: mean and variance of each feature, where the centres begin
_SPREAD = 0.5  # standard deviations that the first centres are away from the mean, in each feature
_MOST, _STEPS = 10**5, 10**6


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
    Assumes: `bounds`, `clusters`, `steps` and `clip` are public.
    Edge cases: values outside the bounds are clipped when fitting; a missing value counts as the middle of its range,
    then and when predicting. There may be no rows at all. There are no `labels_` and no `inertia_`, which would be
    about the rows of the fit; `predict` gives labels to anyone who has rows.

    >>> import numpy as np
    >>> X = np.repeat([[1.0, 1.0], [9.0, 9.0]], 2000, axis=0)
    >>> fitted = KMeans(epsilon=50.0, bounds=(0, 10), clusters=2, clip=1.0).fit(X)
    >>> bool(((fitted.cluster_centers_ >= 0.0) & (fitted.cluster_centers_ <= 10.0)).all())
    True
    """

    clusters: int = 8
    steps: int = 5
    clip: float = 0.35

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "clusterer"
        return tags

    def fit(self, X: object, y: object = None) -> Self:
        """Release where the centres begin, and the sums of each step."""
        x = self._rows(X)
        lower, upper = statistics.ranges(self.bounds, x.shape[1])
        clusters = row_sums.whole("clusters", self.clusters, _MOST)
        steps = row_sums.whole("steps", self.steps, _STEPS)
        clip = row_sums.fraction("clip", self.clip)
        rows = row_sums.centred(x, lower, upper)
        found, _ = self._released(
            "k-means: centres", lambda mu: {"centres": _moved(rows, clusters, steps, clip, mu)},
            lower.tolist(), upper.tolist(), clusters, steps, clip,
        )  # fmt: skip
        self._middle, self._half = (lower + upper) / 2.0, (upper - lower) / 2.0
        self.cluster_centers_: Floats = np.clip(self._middle + self._half * found["centres"], lower, upper)
        return self

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)

    def _distances(self, X: object) -> Floats:
        """The squared distance of each row to each centre, in units of the bounds."""
        check_is_fitted(self)
        x = self._asked(X)
        inside = (np.where(np.isnan(x), self._middle, x) - self._middle) / self._half
        return squared_distances(inside, (self.cluster_centers_ - self._middle) / self._half)

    def predict(self, X: object) -> npt.NDArray[np.int32]:
        """The index of the nearest centre, for each row; distances are in units of the bounds."""
        distances = self._distances(X)
        found: npt.NDArray[np.int32] = np.argmin(distances, axis=1).astype(np.int32)
        return found

    def transform(self, X: object) -> Floats:
        """The distance of each row to each centre, in units of half the width of the bounds."""
        distances = self._distances(X)
        found: Floats = np.sqrt(distances)
        return found


def squared_distances(rows: Floats, centres: Floats) -> Floats:
    """The squared distance of each row to each centre, column by column, so that no row depends on another."""
    found: Floats = np.zeros((len(rows), len(centres)))
    for column, places in zip(rows.T, centres.T, strict=True):
        found += (column[:, None] - places) ** 2
    return found


def cluster_vectors(rows: Floats, centres: Floats) -> Floats:
    """Of each row, (1, row - centre) among the numbers of its nearest centre, and zeros elsewhere."""
    nearest = squared_distances(rows, centres).argmin(axis=1)
    found: Floats = np.zeros((len(rows), len(centres), rows.shape[1] + 1))
    found[np.arange(len(rows)), nearest, 0] = 1.0
    found[np.arange(len(rows)), nearest, 1:] = rows - centres[nearest]
    return found.reshape(len(rows), centres.size + len(centres))


def _started(rows: Floats, clusters: int, clip: float, mu: float) -> Floats:
    """The first centres: around the noisy mean, in normal directions, which are drawn like the noise."""
    mean, deviation = spread(rows, clip, mu)
    centres: Floats = np.clip(mean + _SPREAD * deviation * normals((clusters, rows.shape[1])), -1.0, 1.0)
    return centres


def _moved(rows: Floats, clusters: int, steps: int, clip: float, mu: float) -> Floats:
    """The centres after all steps."""
    centres = _started(rows, clusters, clip, row_sums.part(mu, _START))
    norm = clip * math.sqrt(rows.shape[1] + 1)
    each = row_sums.part(mu, (1 - _START) / steps)
    for _ in range(steps):
        sums = row_sums.total(rows, lambda block, at=centres: cluster_vectors(block, at), norm)  # type: ignore[misc]
        found = row_sums.noisy(sums, norm, each).reshape(clusters, -1)
        counts = np.maximum(found[:, :1], 2.0 * norm / each)  # where noise hides the rows, a centre moves little
        centres = np.clip(centres + found[:, 1:] / counts, -1.0, 1.0)
    return centres
