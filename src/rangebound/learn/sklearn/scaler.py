"""Means and scales of features: `MeanEstimator` and `StandardScaler`."""

from __future__ import annotations

from typing import Self

import numpy as np
import numpy.typing as npt
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from rangebound import arguments
from rangebound.bounding import TRUNCATE, Bounding
from rangebound.learn.sklearn import statistics
from rangebound.learn.sklearn.budget import LedgerBudget, spend
from rangebound.learn.sklearn.private_estimator import Private
from rangebound.noise import Laplace, Noise

Floats = npt.NDArray[np.float64]


@arguments.guided
class MeanEstimator(Private):
    """The mean of each feature, released inside the feature's range.

    Guarantee: (epsilon, delta)-private for adding or removing one row, all features together; `mean_` lies within
    `bounds`.
    Assumes: the bounds are public, and so is `smallest_count`: with fewer rows the mean is shrunk towards the middle of
    the range.
    Edge cases: values outside the bounds are clipped, infinite ones too. A missing value (NaN, None, or a cell that is
    not a number) is silently left out of the mean of its feature; there may be no rows at all. Gaussian noise needs a
    delta unless the range bounds it.

    >>> import numpy as np
    >>> X = np.tile([[2.0, 30.0]], (1000, 1))
    >>> fitted = MeanEstimator(epsilon=10.0, bounds=([0, 0], [10, 100]), smallest_count=500).fit(X)
    >>> bool(((fitted.mean_ >= 0.0) & (fitted.mean_ <= [10.0, 100.0])).all())
    True
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 0.0,
        bounds: object = None,
        smallest_count: int = 30,
        noise: type[Noise] = Laplace,
        bounding: Bounding | str = TRUNCATE.value,
        budget: LedgerBudget | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.smallest_count = smallest_count
        self.noise = noise
        self.bounding = bounding
        self.budget = budget

    def fit(self, X: object, y: object = None) -> Self:
        """Release the means."""
        x = self._rows(X)
        lower, upper = statistics.ranges(self.bounds, x.shape[1])
        least = statistics.smallest(self.smallest_count)
        epsilon, delta = arguments.positive("epsilon", self.epsilon), arguments.probability("delta", self.delta)
        share, part = (statistics.share(each, x.shape[1]) for each in (epsilon, delta))
        mechanism = statistics.mean_mechanism(least, self.noise, self.bounding, share, part)
        inside = statistics.scaled(x, lower, upper)
        found = spend(
            self.budget, epsilon, delta, "mean of each feature", self._settings(lower, upper),
            lambda: {"mean": mechanism.release(statistics.means(inside, least))},
        )  # fmt: skip
        self.mean_: Floats = np.clip(lower + found["mean"] * (upper - lower), lower, upper)
        return self


@arguments.guided
class StandardScaler(OneToOneFeatureMixin, TransformerMixin, Private):  # type: ignore[misc]
    """Features standardised by a private mean and a private variance that cannot be zero.

    Guarantee: (epsilon, delta)-private for adding or removing one row; `scale_` is at least the root of
    `smallest_variance` times the width of the range.
    Assumes: as for `MeanEstimator`; `smallest_variance` is public, in units of the squared width of the range.
    Edge cases: as for `MeanEstimator`; `transform` keeps missing values, and refuses infinities.

    >>> import numpy as np
    >>> X = np.linspace(0.0, 1.0, 2000)[:, None]
    >>> fitted = StandardScaler(epsilon=10.0, bounds=(0, 1), smallest_count=1000).fit(X)
    >>> bool(0.2 < fitted.scale_[0] < 0.4)
    True
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 0.0,
        bounds: object = None,
        smallest_count: int = 30,
        smallest_variance: float = 1e-6,
        noise: type[Noise] = Laplace,
        bounding: Bounding | str = TRUNCATE.value,
        budget: LedgerBudget | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.smallest_count = smallest_count
        self.smallest_variance = smallest_variance
        self.noise = noise
        self.bounding = bounding
        self.budget = budget

    def fit(self, X: object, y: object = None) -> Self:
        """Release the means and the variances, half of the budget each."""
        x = self._rows(X)
        lower, upper = statistics.ranges(self.bounds, x.shape[1])
        least = statistics.smallest(self.smallest_count)
        epsilon, delta = arguments.positive("epsilon", self.epsilon), arguments.probability("delta", self.delta)
        share, part = (statistics.share(each, 2 * x.shape[1]) for each in (epsilon, delta))
        first = statistics.mean_mechanism(least, self.noise, self.bounding, share, part)
        second = statistics.variance_mechanism(least, self.noise, self.bounding, share, part, self.smallest_variance)
        inside = statistics.scaled(x, lower, upper)
        found = spend(
            self.budget, epsilon, delta, "mean and variance of each feature",
            self._settings(lower, upper, float(self.smallest_variance)),
            lambda: {
                "mean": first.release(statistics.means(inside, least)),
                "variance": second.release(statistics.variances(inside, least)),
            },
        )  # fmt: skip
        width = upper - lower
        self.mean_: Floats = np.clip(lower + found["mean"] * width, lower, upper)
        self.var_: Floats = found["variance"] * width**2
        self.scale_: Floats = np.sqrt(self.var_)
        return self

    def transform(self, X: object) -> Floats:
        """(X - mean_)/scale_."""
        check_is_fitted(self)
        x = self._asked(X)
        result: Floats = (x - self.mean_) / self.scale_
        return result

    def inverse_transform(self, X: object) -> Floats:
        """X * scale_ + mean_."""
        check_is_fitted(self)
        x = np.asarray(X, dtype=np.float64)
        result: Floats = x * self.scale_ + self.mean_
        return result
