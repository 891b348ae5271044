"""Linear regression from noisy second moments, with predictions that stay in the range of the target."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from rangebound.learn.sklearn import row_sums, statistics
from rangebound.learn.sklearn.class_labels import target_ends, targets
from rangebound.learn.sklearn.private_estimator import RowSumEstimator
from rangebound.values import arguments
from rangebound.values.array_types import Floats


@arguments.guided
@dataclass(kw_only=True, eq=False, repr=False)
class LinearRegression(RegressorMixin, RowSumEstimator):  # type: ignore[misc]
    """Least squares with an intercept from one noisy matrix, and predictions inside the range of the target.

    Features and target are scaled to [-1, 1] by their bounds. A row z = (1, features, target) longer than `clip` times
    the largest length, R = clip sqrt(features + 2), is scaled down to R, which gives it less weight. Released is the
    sum of z z^T with Gaussian noise, once; all else is post-processing: eigenvalues below zero become zero, and the
    slopes are shrunk by a ridge of sigma sqrt(features), where sigma is the noise, which vanishes with it.

    Guarantee: (epsilon, delta)-private for adding or removing one row, and mu-GDP for the mu of them. Proof: the
    squares of z and sqrt(2) times the products of its pairs are a vector of length |z|^2 <= R^2, which is what one row
    moves the sum by, in whole numbers; noise of scale R^2/mu on each coordinate is mu-GDP [dong2022].
    Assumes: `bounds`, `target_bounds` and `clip` are public.
    Edge cases: values outside the bounds are clipped when fitting. A missing feature counts as the middle of its range,
    and a row with a missing target is left out; both silently. There may be no rows at all.

    >>> import numpy as np
    >>> X = np.linspace(0.0, 10.0, 1000)[:, None]
    >>> fitted = LinearRegression(epsilon=50.0, bounds=(0, 10), target_bounds=(0, 20), clip=1.0).fit(X, 2.0 * X[:, 0])
    >>> bool(abs(fitted.coef_[0] - 2.0) < 0.5)
    True
    """

    target_bounds: object = None
    clip: float = 0.5

    def fit(self, X: object, y: object) -> Self:
        """Release the second moments, and find the slopes and the intercept from them."""
        x = self._rows(X, y)
        goal = targets(y, len(x))
        lower, upper = statistics.ranges(self.bounds, x.shape[1])
        low, high = target_ends(self.target_bounds)
        clip = row_sums.fraction("clip", self.clip)
        size = x.shape[1] + 2
        norm = clip * math.sqrt(size)
        rows = moment_rows(x, goal, (lower, upper), (low, high))
        found, mu = self._released(
            "linear regression: second moments",
            lambda mu: {"moments": row_sums.noisy(row_sums.moments(rows, norm), norm**2, mu)},
            lower.tolist(), upper.tolist(), low, high, clip,
        )  # fmt: skip
        slopes, offset = solved(row_sums.symmetric(found["moments"], size), norm**2 / mu)
        middle, half = (high + low) / 2.0, (high - low) / 2.0
        self.coef_: Floats = slopes * half / ((upper - lower) / 2.0)
        self.intercept_ = float(middle + half * offset - self.coef_ @ ((upper + lower) / 2.0))
        self._middle, self._target = (lower + upper) / 2.0, (low, high)
        return self

    def predict(self, X: object) -> Floats:
        """The prediction for each row, clamped to the range of the target."""
        check_is_fitted(self)
        x = self._asked(X)
        inside = np.where(np.isnan(x), self._middle, x)
        result: Floats = np.clip(inside @ self.coef_ + self.intercept_, *self._target)
        return result


def moment_rows(x: Floats, goal: Floats, bounds: tuple[Floats, Floats], ends: tuple[float, float]) -> Floats:
    """The rows (1, features, target), scaled to [-1, 1]; those without a target are left out."""
    there = ~np.isnan(goal)
    scaled = row_sums.centred(goal[there], np.asarray(ends[0]), np.asarray(ends[1]))
    return np.column_stack([np.ones(int(there.sum())), row_sums.centred(x[there], *bounds), scaled])


def solved(matrix: Floats, scale: float) -> tuple[Floats, float]:
    """Slopes and intercept from a noisy matrix of second moments whose diagonal has noise of this scale."""
    values, vectors = np.linalg.eigh(matrix)
    matrix = (vectors * np.maximum(values, 0.0)) @ vectors.T
    count, sums, total = max(float(matrix[0, 0]), scale), matrix[0, 1:-1], float(matrix[0, -1])
    spread, joint = matrix[1:-1, 1:-1] - np.outer(sums, sums) / count, matrix[1:-1, -1] - sums * total / count
    values, vectors = np.linalg.eigh(spread)
    ridge = scale * math.sqrt(len(values))
    slopes: Floats = vectors @ ((vectors.T @ joint) / (np.maximum(values, 0.0) + ridge))
    return slopes, (total - float(sums @ slopes)) / count
