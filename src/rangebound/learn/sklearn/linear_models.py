"""Linear regression from noisy second moments, and logistic regression by noisy gradient descent over all rows.

Predictions of the former stay in the range of the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy.special import exp2
from sklearn.base import ClassifierMixin, RegressorMixin

from rangebound.errors import ArgumentError
from rangebound.learn.sklearn import row_sums
from rangebound.learn.sklearn.private_estimator import RowSumEstimator, labelled, target_ends, targets
from rangebound.values import arguments
from rangebound.values.array_types import Floats

_COUNT = Fraction(1, 25)  # of the squares of mu: the number of rows is needed to a factor of two only
_Settings = tuple[float | None, int | None, float | None, float]  # clip, steps, learning rate, penalty
_Neighbours = tuple[int | None, int]  # the number of rows where it is public, and how many rows they differ by
_CURVES, _SHORT = Fraction(1, 8), 0.5  # of the squares of mu, and least of the largest length: for the products
_STEPS = 10**6
_MEANS = Fraction(1, 8)  # of the squares of mu: mean and deviation of the target, and as much for the features
_FEW = 2.5  # rows over noise and size: with fewer a line tells less than its noise hides
_CLIP = 0.35  # of the largest length of (1, features, squares)
_SHORTEST, _GROWTH = 0.7, 0.1  # the length that rows are clipped to, in deviations; its square grows less than rows do
_LARGEST = 1e50  # learning rate and penalty
_FARTHEST = 1e100  # weight: scores and their differences are ordinary doubles


@arguments.guided
@dataclass(kw_only=True, eq=False, repr=False)
class LinearRegression(RegressorMixin, RowSumEstimator):  # type: ignore[misc]
    """Least squares with an intercept from noisy second moments, and predictions inside the range of the target.

    Features and target are scaled to [-1, 1] by their bounds. First the means and deviations of the target are
    released, and where rows are so few that noise hides any line, its mean once more, which is then what is predicted.
    Else those of the features are, and a row z = (1, features, target), each number less the mean in deviations, that
    is longer than R is scaled down to R, which gives it less weight. Released is the sum of z z^T; all else is
    post-processing: eigenvalues below zero become zero, and the slopes are shrunk by a ridge of sigma sqrt(features),
    where sigma is the noise, and by what noise has of them, which vanishes with it. R is `clip` times the longest z
    inside the bounds; by default 0.7 deviations of each number, and longer the farther the rows are above the noise, by
    a rule that was chosen on generated tables.

    Guarantee: (epsilon, delta)-private for adding or removing one row, and mu-GDP for the mu of them. Proof: a row
    moves the sums of (1, target, its square) by sqrt(3) at most, those of the features by what `row_sums.spread` says.
    Given these, the squares of z and sqrt(2) times the products of its pairs are a vector of length |z|^2 <= R^2. All
    are in whole numbers, noise of length/m on each coordinate makes each m-GDP, and the squares of these m add up to
    mu^2 [dong2022, smith2022]. If a row is replaced, the first and the last have no obtuse angle (1 + x y + x^2 y^2 is
    positive), as `row_sums.apart` wants; those of the features may be twice as far apart, and have that much noise.
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
    clip: float | None = None

    def fit(self, X: object, y: object) -> Self:
        """Release means, deviations and second moments, and find the slopes and the intercept from them."""
        x = self._rows(X, y)
        goal = targets(y, len(x))
        lower, upper = row_sums.ranges(self.bounds, x.shape[1])
        low, high = target_ends(self.target_bounds)
        clip = None if self.clip is None else row_sums.fraction("clip", self.clip)
        rows, size, near = moment_rows(x, goal, (lower, upper), (low, high)), x.shape[1] + 2, self._known(x)
        found, _ = self._released(
            "linear regression: second moments", lambda mu: {"line": fitted_line(rows, clip, near, mu)},
            lower, upper, size * (size + 1) // 2,
        )  # fmt: skip
        middle, half = (high + low) / 2.0, (high - low) / 2.0
        self.coef_: Floats = found["line"][1:] * half / ((upper - lower) / 2.0)
        self.intercept_ = float(middle + half * found["line"][0] - self.coef_ @ ((upper + lower) / 2.0))
        self._target = low, high
        return self

    def predict(self, X: object) -> Floats:
        """The prediction for each row, clamped to the range of the target."""
        result: Floats = np.clip(self._filled(X) @ self.coef_ + self.intercept_, *self._target)
        return result


def moment_rows(x: Floats, goal: Floats, bounds: tuple[Floats, Floats], ends: tuple[float, float]) -> Floats:
    """The rows (1, features, target), scaled to [-1, 1]; those without a target are left out."""
    there = ~np.isnan(goal)
    scaled = row_sums.centred(goal[there], np.asarray(ends[0]), np.asarray(ends[1]))
    return np.column_stack([np.ones(int(there.sum())), row_sums.centred(x[there], *bounds), scaled])


def fitted_line(rows: Floats, clip: float | None, neighbours: _Neighbours, mu: float) -> Floats:
    """Intercept and slopes of rows (1, features, target) in units of the bounds, see `LinearRegression`."""
    (known, changed), size = neighbours, rows.shape[1]
    first, rest = row_sums.part(mu, _MEANS), row_sums.part(mu, 1 - 2 * _MEANS)
    count, mean, spread = row_sums.spread(rows[:, -1:], 1.0, first, known)
    clear = count * rest / size  # how far the rows are above the noise
    if clear < _FEW:
        mean = row_sums.spread(rows[:, -1:], 1.0, row_sums.part(mu, 1 - _MEANS), known)[1]
        return np.append(mean, np.zeros(size - 2))
    near = row_sums.part(first, row_sums.apart(changed, size * (size + 1) // 2) / changed**2)
    _, means, spreads = row_sums.spread(rows[:, 1:-1], _CLIP, near)
    hidden = 2.0 / (count * near)  # variances that noise may hide
    mean, deviation = np.append(means, mean), np.sqrt(np.maximum(np.append(spreads, spread) ** 2, min(hidden, 1.0)))
    farthest = (1.0 + np.abs(mean)) / deviation
    longest = math.sqrt(1.0 + float(farthest @ farthest))
    norm = min(max(_SHORTEST, _GROWTH * clear**0.4) * math.sqrt(size), longest) if clip is None else clip * longest
    whitened = np.column_stack([rows[:, 0], (rows[:, 1:] - mean) / deviation])
    moments = row_sums.noisy(row_sums.moments(whitened, norm), norm**2, rest)
    doubt = 3.0 / (count * first * float(deviation[-1])) ** 2
    slopes, offset = solved(row_sums.symmetric(moments, size), norm**2 / rest, doubt)
    slopes = slopes * deviation[-1] / deviation[:-1]
    return np.append(mean[-1] + deviation[-1] * offset - slopes @ mean[:-1], slopes)


def solved(matrix: Floats, scale: float, doubt: float) -> tuple[Floats, float]:
    """Slopes and intercept from a noisy matrix of second moments whose diagonal has noise of this scale.

    The mean of the target is drawn to 0, where it was found to be with a variance of `doubt`. A covariance with the
    target, along an eigenvector of the features, is shrunk by the part that noise has of its square: where noise hides
    all of them slopes are zero, and the mean is predicted.
    """
    values, vectors = np.linalg.eigh(matrix)
    matrix = (vectors * np.maximum(values, 0.0)) @ vectors.T
    count, sums, total = max(float(matrix[0, 0]), scale), matrix[0, 1:-1], float(matrix[0, -1])
    total *= doubt / (doubt + (scale / count) ** 2 / 2.0)
    spread, joint = matrix[1:-1, 1:-1] - np.outer(sums, sums) / count, matrix[1:-1, -1] - sums * total / count
    values, vectors = np.linalg.eigh(spread)
    values, found, size = np.maximum(values, 0.0), vectors.T @ joint, len(values)
    centring = (1.0 + float(sums @ sums) / count**2 / size) * scale**2 / 2.0  # sums have noise, which means multiply
    noise = centring * (1.0 + (total / count) ** 2)
    clear = np.maximum(1.0 - noise / np.maximum(found**2, noise), 0.0)
    slopes: Floats = vectors @ (clear * found / (values + scale * math.sqrt(size)))
    return slopes, (total - float(sums @ slopes)) / count


class ScoredClassifier(ClassifierMixin):  # type: ignore[misc]
    """A classifier by the score of each class for each row: logs of probabilities, up to a number for each row."""

    classes_: npt.NDArray[np.generic]
    _scores: Callable[[object], Floats]

    def predict(self, X: object) -> npt.NDArray[np.generic]:
        """The most likely class of each row."""
        scores = self._scores(X)
        found: npt.NDArray[np.generic] = self.classes_[np.argmax(scores, axis=1)]
        return found

    def predict_log_proba(self, X: object) -> Floats:
        """The log of each class's probability, for each row."""
        scores = self._scores(X)
        top = scores.max(axis=1, keepdims=True)
        result: Floats = scores - top - np.log(np.exp(scores - top).sum(axis=1, keepdims=True))
        return result

    def predict_proba(self, X: object) -> Floats:
        """Each class's probability, for each row."""
        return np.exp(self.predict_log_proba(X))


@arguments.guided
@dataclass(kw_only=True, eq=False, repr=False)
class LogisticRegression(ScoredClassifier, RowSumEstimator):
    """Multinomial logistic regression by noisy Newton steps over all rows, as many as the noise lets count.

    Features are scaled to [-1, 1] by their bounds, and a row is (1, features)/sqrt(features + 1), of length 1 at most.
    First the number of rows is released, unless it is public, and the sum of the products of each row's pairs, of which
    half bounds every Hessian where no row is clipped [bohning1992]. In each step the sum of the rows' gradients is
    released, each clipped in Euclidean length to `clip` times the largest possible one, sqrt(2), and divided by that
    bound and a ridge as large as the noise; steps have momentum. The weights are the mean over the later half of the
    steps; `penalty` times half their squared length is added to the mean loss.

    The number of steps and the clip follow from the number of rows and mu: without noise to speak of 30 steps and no
    clip. These rules were chosen on generated tables. With a `learning_rate` steps are the gradients over the number of
    rows times that, without momentum.

    Guarantee: (epsilon, delta)-private for adding or removing one row, and mu-GDP for the mu of them. Proof: given what
    was released before, one row moves the number of rows by 1, the sum of products by the square of the length that its
    rows are clipped to, and the sum of a step by sqrt(2) clip at most, in whole numbers. With noise of 1/m_0 of these
    they are m_0-GDP, m_1-GDP and m-GDP, and m_0^2 + m_1^2 + steps m^2 <= mu^2 [dong2022, smith2022].
    Assumes: the bounds, the set of classes (`classes`, else the labels that occur) and all other settings are public.
    Edge cases: values outside the bounds are clipped when fitting. A missing feature counts as the middle of its range,
    and a row whose label is not in `classes` is left out; both silently. Without `classes` the labels are public, and
    an invalid label is an error.

    >>> import numpy as np
    >>> X = np.concatenate([np.linspace(0.0, 4.0, 500), np.linspace(6.0, 10.0, 500)])[:, None]
    >>> y = np.repeat(["low", "high"], 500)
    >>> fitted = LogisticRegression(epsilon=20.0, bounds=(0, 10)).fit(X, y)
    >>> fitted.predict([[1.5], [8.5]]).tolist()
    ['low', 'high']
    """

    classes: object = None
    clip: float | None = None
    steps: int | None = None
    learning_rate: float | None = None
    penalty: float = 0.0

    def fit(self, X: object, y: object) -> Self:
        """Release the products of the rows and the sum of the gradients of each step."""
        x = self._rows(X, y)
        self.classes_, codes = labelled(y, self.classes, len(x))
        lower, upper = row_sums.ranges(self.bounds, x.shape[1])
        norm = None if self.clip is None else row_sums.fraction("clip", self.clip) * math.sqrt(2.0)
        steps = None if self.steps is None else row_sums.whole("steps", self.steps, _STEPS)
        given = self.learning_rate
        rate = None if given is None else _moderate("learning_rate", arguments.positive("learning_rate", given))
        penalty = _moderate("penalty", arguments.nonnegative("penalty", self.penalty))
        settings = norm, steps, rate, penalty
        rows, known = gradient_rows(x, codes, lower, upper), self._known(x)
        found, _ = self._released(
            "logistic regression: gradient descent",
            lambda mu: {"weights": _descended(rows, len(self.classes_), settings, known, mu)},
            lower, upper,
        )  # fmt: skip
        weights = found["weights"] / math.sqrt(x.shape[1] + 1)
        self.coef_: Floats = (weights[1:] / ((upper - lower) / 2.0)[:, None]).T
        self.intercept_: Floats = weights[0] - self.coef_ @ ((upper + lower) / 2.0)
        return self

    def _scores(self, X: object) -> Floats:
        return self._filled(X) @ self.coef_.T + self.intercept_


def gradient_rows(x: Floats, codes: npt.NDArray[np.int64], lower: Floats, upper: Floats) -> Floats:
    """The rows (1, features)/sqrt(features + 1) and the code of the class; those of no class are left out."""
    there = codes >= 0
    inside = row_sums.centred(x[there], lower, upper)
    ones = np.ones(len(inside))
    return np.column_stack([np.column_stack([ones, inside]) / math.sqrt(x.shape[1] + 1), codes[there]])


def gradients(rows: Floats, weights: Floats) -> Floats:
    """The gradient of each row's loss: its features times the probability of each class, less 1 for its own.

    Each step is one operation of the standard on each number, or a function that takes one number at a time: numpy's
    own exponential may round a number differently in another place.
    """
    features, codes = rows[:, :-1], rows[:, -1:]
    scores = row_sums.scores(features, weights)
    powers = exp2((scores - scores.max(axis=1, keepdims=True)) * math.log2(math.e))
    total = np.zeros(len(rows))
    for column in powers.T:
        total += column
    errors = powers / total[:, None] - (codes == np.arange(weights.shape[1]))
    found: Floats = (features[:, :, None] * errors[:, None, :]).reshape(len(rows), weights.size)
    return found


def _moderate(name: str, number: float) -> float:
    if number > _LARGEST:
        raise ArgumentError(f"{name}={number}: must be at most {_LARGEST:g}")
    return number


def _descended(rows: Floats, classes: int, settings: _Settings, neighbours: _Neighbours, mu: float) -> Floats:
    """The mean of the weights over the later half of the steps."""
    (norm, steps, rate, penalty), (known, changed) = settings, neighbours
    width, left = rows.shape[1] - 1, Fraction(1)
    vectors, values, hidden, count = np.eye(width), np.zeros(width), 0.0, float(known or 0)
    if known is None:
        first, left = row_sums.part(mu, _COUNT), left - _COUNT
        count = float(row_sums.noisy(row_sums.total(rows, lambda block: np.ones((len(block), 1)), 1.0), 1.0, first)[0])
    count = max(count, 2.0 / row_sums.part(mu, _COUNT))
    clear = max(count * mu / math.sqrt(width * classes), 1.0)  # how far the rows are above the noise
    steps = steps or min(max(round(2.0 * math.log2(clear)), 3), 30)
    norm = norm or math.sqrt(2.0) * min(0.08 * clear**0.4, 1.0)
    if rate is None:
        short = max(_SHORT, norm / math.sqrt(2.0))  # where no gradient is clipped, half the sum bounds every Hessian
        first, left = row_sums.part(mu, _CURVES), left - _CURVES
        first = row_sums.part(first, changed**2 / row_sums.apart(changed, width * (width + 1) // 2))
        released = row_sums.noisy(row_sums.moments(rows[:, :-1], short), short**2, first)
        values, vectors = np.linalg.eigh(row_sums.symmetric(released, width))
        hidden = short**2 / first
    each = row_sums.part(mu, left / steps)
    curves: Floats = (np.maximum(values, 0.0) + max(hidden * math.sqrt(width), norm / each / 2.0)) / 2.0
    if rate is not None:
        curves = np.full(width, min(count / rate, _FARTHEST))
    weights: Floats = np.zeros((width, classes))
    mean, before = np.zeros_like(weights), weights
    for step in range(steps):
        ahead = weights if rate is not None else weights + step / (step + 3.0) * (weights - before)
        sums = row_sums.total(rows, lambda block, at=ahead: gradients(block, at), norm)  # type: ignore[misc]
        released = row_sums.noisy(sums, norm, each).reshape(weights.shape)
        turned = curves[:, None] * (vectors.T @ ahead) - vectors.T @ released
        before, weights = weights, vectors @ (turned / (curves + count * penalty)[:, None])
        weights = np.clip(weights, -_FARTHEST, _FARTHEST)
        if step >= steps // 2:
            mean = mean + weights / (steps - steps // 2)
    return mean
