"""Means and scales of features, and Gaussian naive Bayes whose variances cannot become zero [holohan2018, Ex 1.3].

All counts, means and variances follow from one sum over the rows.

A value, clipped to its range and scaled to u in [0, 1], has the numbers (1 - u, u), with variances ((1 - u)^2,
2 u (1 - u), u^2). They are nonnegative and add up to 1, so they are a vector of at most 1 in absolute values and in
Euclidean length, and count, sum and sum of squares are sums and differences of them: a value costs as much as a count
alone. A missing value (NaN) has zeros. A row has such numbers in each column, of its own class where there are classes,
and 1 in the count of its class.

Where the number of rows is public a value has x = 2 u - 1, with variances (x, x^2 - 1/3), of at most 1 and 5/3 in
absolute values, and of at most 1 and sqrt(13/9) in length. A missing value has zeros: it counts as one drawn evenly
from the range, whose mean is in the middle and whose mean square is 1/3.

If a row is replaced, two rows' numbers differ. Those of the first kind are nonnegative, so the square of the length of
a difference is no more than the sum of both squares, 2 for a value, where absolute values may add up to 2. Those of the
second kind, with d = |x - y| and s = |x + y|, differ by d (1 + s) and d sqrt(1 + s^2), where d <= 2 - s, since neither
is longer than 1: by at most 9/4, at s = 1/2, and 2, at s = 0. Rounded towards zero, x and y of different signs are no
farther apart than before, nor are x^2 - 1/3 and y^2 - 1/3; where signs are the same these bounds are far away.

Numbers are rounded towards zero to whole quanta, 2^-26 each, so sums are exact, and the bounds hold to the last bit:
nonnegative numbers that add up to 1 but for rounding add up to no more than 2^26 quanta, a whole number, once rounded
down; and then so do their squares to no more than 2^52. x and x^2 - 1/3 are at most 2^26 and 2^26 2/3 quanta in size.

What is made of the sums is post-processing. With count n, and noise of deviation s in each number, a ratio to n is
drawn to what it is compared with by 6 s^2/(n^2 + 6 s^2), which vanishes as n grows, like the noise itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from rangebound.errors import ArgumentError
from rangebound.laws.family import Noise
from rangebound.learn.sklearn import row_sums
from rangebound.learn.sklearn.linear_models import ScoredClassifier
from rangebound.learn.sklearn.private_estimator import Labels, Private, Released, labelled
from rangebound.learn.sklearn.row_sums import QUANTA, SumNoise
from rangebound.values import arguments
from rangebound.values.array_types import Floats, Integers

_LEAST = 1e-100
_NO_ZERO = "a variance of zero must not occur"
_EVEN = 1.0 / 3.0  # the mean square of values spread evenly over [-1, 1]
_HIDDEN = 6.0  # the noise of a sum is that of two numbers, and a mean somewhere in [-1, 1] has the variance 1/3


@dataclass(frozen=True, kw_only=True)
class FeatureSums:
    """Which numbers a row has: `degree` is 2 with variances; `rows` is their number, where it is public.

    With `classes` the numbers of their rows are not public, so there are counts whatever `rows` is. `changed` rows are
    what the sums of two neighbours differ by: 2 where a row is replaced.
    """

    features: int
    degree: int
    classes: int | None = None
    rows: int | None = None
    changed: int = 1

    @property
    def lengths(self) -> tuple[Fraction, Fraction]:
        """What a neighbour moves all sums by: the most in absolute values, and the square of the most in length.

        Proof: see the module. A row is in one class, and has each column's numbers there, and 1 in its count. Replaced
        by one of another class it moves no number that the other moves.
        """
        if self.rows is not None and self.degree == 2:
            most = (Fraction(5, 3), Fraction(13, 9)) if self.changed == 1 else (Fraction(9, 4), Fraction(4))
            return most[0] * self.features, most[1] * self.features
        own = Fraction(self.features + (self.classes is not None))
        return self.changed * own, self.changed * own * (1 if self.rows is None else self.changed)

    def numbers(self, u: Floats) -> Floats:
        """The numbers of scaled values of one column, none of which is missing."""
        if self.rows is not None:
            x = 2.0 * u - 1.0
            return np.column_stack([x, x * x - _EVEN][: self.degree])
        return np.column_stack([1.0 - u, u] if self.degree == 1 else [(1.0 - u) ** 2, 2.0 * u * (1.0 - u), u * u])

    def total(self, x: Floats, lower: Floats, upper: Floats, codes: Integers) -> Integers:
        """The sums in quanta: counts of the classes, if any, then all numbers by class and column."""
        sums = []
        for column in row_sums.scaled(x, lower, upper).T:
            there = ~np.isnan(column)
            whole = np.trunc(self.numbers(column[there]) * QUANTA).astype(np.int64)
            sums.append([whole[codes[there] == each].sum(axis=0) for each in range(self.classes or 1)])
        counts = [QUANTA * int((codes == each).sum()) for each in range(self.classes or 0)]
        return np.concatenate([np.array(counts, dtype=np.int64), np.stack(sums, axis=1).reshape(-1)])

    def estimates(self, found: Floats, noise: SumNoise, least: int, floor: float) -> dict[str, Floats]:
        """Noisy counts, means and variances of scaled values, by class; a class is drawn to all classes, these to 1/2.

        Variances lie between `floor`, or what noise may hide, and 1/4.
        """
        groups = self.classes or 0
        sums = found[groups:].reshape(max(groups, 1), self.features, -1)
        overall = self._moments(sums.sum(axis=0), noise.deviation * max(groups, 1) ** 0.5, least, (0.0, _EVEN))
        count, mean, square = self._moments(sums, noise.deviation, least, overall[1:]) if groups else overall
        lowest = np.minimum(np.maximum(4.0 * floor, noise.deviation / count), 1.0)
        result = {"mean": (1.0 + mean) / 2.0, "variance": np.clip(square - mean**2, lowest, 1.0) / 4.0}
        return result | ({"count": np.maximum(found[:groups], noise.deviation)} if groups else {})

    def _moments(
        self, sums: Floats, noise: float, least: int, aim: tuple[Floats | float, Floats | float]
    ) -> tuple[Floats, Floats, Floats]:
        """Count, mean and mean square in units where the range is [-1, 1], the latter two drawn to `aim`."""
        if self.rows is not None:
            count, total = np.full(sums.shape[:-1], float(self.rows)), sums[..., 0]
            squares = sums[..., -1] + count * _EVEN
        else:
            count, total = sums.sum(axis=-1), sums[..., -1] - sums[..., 0]
            squares = count - 2.0 * sums[..., 1]
        count = np.maximum(count, max(noise, float(least)))
        weight = count**2 / (count**2 + _HIDDEN * noise**2)
        mean = np.clip(weight * total / count + (1.0 - weight) * aim[0], -1.0, 1.0)
        return count, mean, np.clip(weight * squares / count + (1.0 - weight) * aim[1], 0.0, 1.0)


@dataclass(kw_only=True, eq=False, repr=False)
class StatisticsEstimator(Private):
    """An estimator that releases counts, means and variances, all of one noisy sum over the rows, see the module."""

    smallest_count: int = 1
    noise: type[Noise] | None = None

    def _moments(
        self,
        what: str,
        x: Floats,
        *,
        floor: float | None = None,
        codes: Integers | None = None,
        classes: Labels | None = None,
    ) -> Released:
        """Private means, with a floor variances too, by class with counts if any: paid for before anything is drawn."""
        lower, upper = row_sums.ranges(self.bounds, x.shape[1])
        least, width = row_sums.whole("smallest_count", self.smallest_count, 10**9), upper - lower
        lowest = 0.0 if floor is None else arguments.positive("smallest_variance", floor, why=_NO_ZERO)
        if not (floor is None or _LEAST < lowest < 0.25):
            raise ArgumentError(
                f"smallest_variance={lowest}: must be below 1/4, the largest of scaled values, and above 1e-100"
            )
        rows, changed = self._known(x)
        groups, rows = (None, rows) if classes is None else (len(classes), None)
        degree = 1 if floor is None else 2
        sums = FeatureSums(features=x.shape[1], degree=degree, classes=groups, rows=rows, changed=changed)
        noise = row_sums.sum_noise(self.epsilon, self.delta, self.noise, *sums.lengths)
        places = np.zeros(len(x), dtype=np.int64) if codes is None else codes
        drawn = self._spend(
            noise.epsilon, noise.delta, what,
            lambda: {"sums": row_sums.drawn(sums.total(x, lower, upper, places), noise.noise)}, noise.mu,
        )  # fmt: skip
        found = sums.estimates(drawn["sums"], noise, least, lowest)
        found["mean"] = np.clip(lower + found["mean"] * width, lower, upper)
        return found | {"variance": found["variance"] * width**2}


@arguments.guided
@dataclass(kw_only=True, eq=False, repr=False)
class MeanEstimator(StatisticsEstimator):
    """The mean of each feature, released inside the feature's range.

    Released is one sum over the rows, from which all counts and sums follow, with Laplace or Gaussian noise (`noise`;
    None is the one of less variance, Laplace without a delta): the error falls with the number of rows. Where noise
    hides the rows, the mean is drawn to the middle of the range.

    Guarantee: (epsilon, delta)-private for adding or removing one row, all features together, and epsilon-private with
    Laplace noise, which is what is charged. `neighbours="replace-one"`, or "zero-out", is for a public number of rows.
    `mean_` lies within `bounds`. Proof: `FeatureSums.lengths` bounds what a row adds to all sums
    together, in absolute values and in length; `row_sums.sum_noise` has the noise for these.
    Assumes: the bounds are public, and so is `smallest_count`: with fewer rows the sum is divided by that.
    Edge cases: values outside the bounds are clipped, infinite ones too. A missing value (NaN, None, or a cell that is
    not a number) is silently left out of the mean of its feature, or counts as the middle of its range where the number
    of rows is public; there may be no rows at all. Gaussian noise needs a delta.

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

    Guarantee: that of `MeanEstimator`; `scale_` is at least the root of `smallest_variance` times the width of the
    range, and of what noise may hide.
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
        """Release the sums that means and variances follow from."""
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

    A row belongs to one class, so the classes share the budget. Where noise hides a class, its means and variances are
    drawn to those of all classes. All variances lie between `smallest_variance` and 1/4 of the squared width.

    Guarantee: that of `MeanEstimator`: a row adds 1 to the count of its class, and its numbers to the class's sums.
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
        self.class_prior_: Floats = found["count"] / found["count"].sum()
        self.theta_, self.var_ = found["mean"], found["variance"]
        return self

    def _scores(self, X: object) -> Floats:
        """The log of each class's prior times its density, for each row."""
        x = self._asked(X)
        densities = np.log(2.0 * np.pi * self.var_) + (x[:, None, :] - self.theta_) ** 2 / self.var_
        result: Floats = np.log(self.class_prior_) - 0.5 * np.nansum(densities, axis=2)
        return result
