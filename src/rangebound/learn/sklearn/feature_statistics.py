"""Means and scales of features, and Gaussian naive Bayes whose variances cannot become zero [holohan2018, Ex 1.3]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from rangebound.learn.sklearn.linear_models import ScoredClassifier
from rangebound.learn.sklearn.private_estimator import StatisticsEstimator, labelled
from rangebound.values import arguments
from rangebound.values.array_types import Floats


@arguments.guided
@dataclass(kw_only=True, eq=False, repr=False)
class MeanEstimator(StatisticsEstimator):
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

    def fit(self, X: object, y: object = None) -> Self:
        """Release the means."""
        self.mean_ = self._moments("mean of each feature", self._rows(X))["mean"]
        return self


@arguments.guided
@dataclass(kw_only=True, eq=False, repr=False)
class StandardScaler(OneToOneFeatureMixin, TransformerMixin, StatisticsEstimator):  # type: ignore[misc]
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

    smallest_variance: float = 1e-6

    def fit(self, X: object, y: object = None) -> Self:
        """Release the means and the variances, half of the budget each."""
        found = self._moments("mean and variance of each feature", self._rows(X), floor=self.smallest_variance)
        self.mean_, self.var_ = found["mean"], found["variance"]
        self.scale_: Floats = np.sqrt(self.var_)
        return self

    def transform(self, X: object) -> Floats:
        """(X - mean_)/scale_."""
        return (self._asked(X) - self.mean_) / self.scale_

    def inverse_transform(self, X: object) -> Floats:
        """X * scale_ + mean_."""
        check_is_fitted(self)
        return np.asarray(X, dtype=np.float64) * self.scale_ + self.mean_


@arguments.guided
@dataclass(kw_only=True, eq=False, repr=False)
class GaussianNB(ScoredClassifier, StatisticsEstimator):
    """Naive Bayes from a private count for each class, and a private mean and variance for each class and feature.

    A row belongs to one class, so the classes share the budget: one part for the counts, and two for each feature. All
    variances lie between `smallest_variance` and 1/4 of the squared width of the range.

    Guarantee: (epsilon, delta)-private for adding or removing one row.
    Assumes: the bounds, the set of classes (`classes`, else the labels that occur), `smallest_count` (of rows in a
    class) and `smallest_variance` are public.
    Edge cases: values outside the bounds are clipped when fitting, infinite ones too. A missing value (NaN, None, or a
    cell that is not a number) is left out of the statistics of its feature and class, and a row whose label is not in
    `classes` is left out altogether; both silently. When predicting, a missing value counts neither for nor against a
    class. Without `classes` the labels are public, and an invalid label (NaN, a fraction) is an error.

    >>> import numpy as np
    >>> X = np.concatenate([np.linspace(0.0, 4.0, 500), np.linspace(6.0, 10.0, 500)])[:, None]
    >>> y = np.repeat(["low", "high"], 500)
    >>> fitted = GaussianNB(epsilon=20.0, bounds=(0, 10), smallest_count=300).fit(X, y)
    >>> fitted.predict([[1.5], [8.5]]).tolist()
    ['low', 'high']
    """

    classes: object = None
    smallest_variance: float = 1e-6

    def fit(self, X: object, y: object) -> Self:
        """Release the counts, means and variances."""
        x = self._rows(X, y)
        self.classes_, codes = labelled(y, self.classes, len(x))
        found = self._moments(
            "naive Bayes: counts, means, variances", x, floor=self.smallest_variance, codes=codes, classes=self.classes_
        )
        counts = np.maximum(found["count"], 1.0)
        self.class_prior_: Floats = counts / counts.sum()
        self.theta_, self.var_ = found["mean"], found["variance"]
        return self

    def _scores(self, X: object) -> Floats:
        """The log of each class's prior times its density, for each row."""
        x = self._asked(X)
        densities = np.log(2.0 * np.pi * self.var_) + (x[:, None, :] - self.theta_) ** 2 / self.var_
        result: Floats = np.log(self.class_prior_) - 0.5 * np.nansum(densities, axis=2)
        return result
