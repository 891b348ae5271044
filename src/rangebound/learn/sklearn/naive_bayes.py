"""Gaussian naive Bayes whose variances cannot become zero [holohan2018, Ex 1.3]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from rangebound.learn.sklearn import statistics
from rangebound.learn.sklearn.class_labels import labelled
from rangebound.learn.sklearn.private_estimator import StatisticsEstimator
from rangebound.learn.sklearn.scored_classifier import ScoredClassifier
from rangebound.values import arguments
from rangebound.values.array_types import Floats


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
        features = x.shape[1]
        lower, upper = statistics.ranges(self.bounds, features)
        least = statistics.smallest(self.smallest_count)
        share, part = self._shares(2 * features + 1, 2 * features)
        count = statistics.count_mechanism(share)
        mean = statistics.mean_mechanism(least, self.noise, self.bounding, share, part)
        variance = statistics.variance_mechanism(least, self.noise, self.bounding, share, part, self.smallest_variance)
        inside = statistics.scaled(x, lower, upper)
        groups = [inside[codes == each] for each in range(len(self.classes_))]
        found = self._released(
            "naive Bayes: counts, means, variances",
            lambda: {
                "count": count.release(np.array([float(len(each)) for each in groups]), step=1),
                "mean": mean.release(np.stack([statistics.means(each, least) for each in groups])),
                "variance": variance.release(np.stack([statistics.variances(each, least) for each in groups])),
            },
            lower, upper, float(self.smallest_variance), self.classes_.tolist(),
        )  # fmt: skip
        width = upper - lower
        counts = np.maximum(found["count"], 1.0)
        self.class_prior_: Floats = counts / counts.sum()
        self.theta_: Floats = np.clip(lower + found["mean"] * width, lower, upper)
        self.var_: Floats = found["variance"] * width**2
        return self

    def _scores(self, X: object) -> Floats:
        """The log of each class's prior times its density, for each row."""
        check_is_fitted(self)
        x = self._asked(X)
        densities = np.log(2.0 * np.pi * self.var_) + (x[:, None, :] - self.theta_) ** 2 / self.var_
        result: Floats = np.log(self.class_prior_) - 0.5 * np.nansum(densities, axis=2)
        return result
