"""Decision trees from noisy histograms, whose leaves stay in range."""

from __future__ import annotations

import math
from typing import Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from rangebound import arguments
from rangebound.errors import ArgumentError
from rangebound.learn.sklearn import histogram_tree, row_sums, statistics
from rangebound.learn.sklearn.budget import LedgerBudget, Released, spend
from rangebound.learn.sklearn.class_labels import labelled, targets
from rangebound.learn.sklearn.histogram_tree import HistogramTree, Purity
from rangebound.learn.sklearn.linear_regression import target_ends
from rangebound.learn.sklearn.private_estimator import Private

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_DEEPEST, _FINEST = 12, 1024


class TreeEstimator(Private):
    """What the trees have in common: settings, growing and finding the leaf of a row."""

    epsilon: float
    delta: float
    bounds: object
    depth: int
    bins: int
    budget: LedgerBudget | None

    def _grow(
        self, x: Floats, rows: Floats, purity: Purity, norm: float, keep: npt.NDArray[np.bool_], *facts: object
    ) -> Floats:
        """Grow the tree on the rows to keep, with these statistics; the noisy sums of its leaves."""
        lower, upper = statistics.ranges(self.bounds, x.shape[1])
        depth = row_sums.whole("depth", self.depth, _DEEPEST)
        bins = row_sums.whole("bins", self.bins, _FINEST)
        if bins < 2:
            raise ArgumentError("bins=1: must be at least 2; one bin has nothing to cut")
        epsilon, delta, mu = row_sums.budget_mu(self.epsilon, self.delta)
        table = histogram_tree.binned(x[keep], lower, upper, bins)

        def draw() -> Released:
            made = histogram_tree.grown(rows, table, purity, norm=norm, depth=depth, bins=bins, mu=mu)
            return {
                "features": np.concatenate(made.features).astype(np.float64),
                "cuts": np.concatenate(made.cuts).astype(np.float64),
                "leaves": made.leaves,
                "scale": np.array(made.scale),
            }

        what = "decision tree: histograms of all levels, and leaves"
        settings = self._meaning(lower.tolist(), upper.tolist(), depth, bins, *facts)
        found = spend(self.budget, epsilon, delta, what, settings, draw, mu)
        starts = [2**level - 1 for level in range(1, depth)]
        features, cuts = (np.split(found[name].astype(np.int64), starts) for name in ("features", "cuts"))
        self._bounds, self._bins = (lower, upper), bins
        self._tree = HistogramTree(features=features, cuts=cuts, leaves=found["leaves"], scale=float(found["scale"]))
        return self._tree.leaves

    def apply(self, X: object) -> Integers:
        """The index of the leaf of each row."""
        check_is_fitted(self)
        x = self._asked(X)
        return self._tree.leaf(histogram_tree.binned(x, *self._bounds, self._bins))


@arguments.guided
class DecisionTreeClassifier(ClassifierMixin, TreeEstimator):  # type: ignore[misc]
    """A tree of public depth whose cuts come from noisy histograms, and whose leaves are class probabilities.

    Each feature has `bins` equally wide bins between its bounds. In each level noisy counts for every node, feature,
    bin and class are released, and each node is cut where the Gini impurity falls most; then the noisy counts of each
    leaf and class. A leaf with hardly more rows than noise has the probabilities of all rows.

    Guarantee: (epsilon, delta)-private for adding or removing one row, and mu-GDP for the mu of them: see
    `rangebound.learn.sklearn.histogram_tree`; the statistics of a row have length 1. Probabilities lie in [0, 1].
    Assumes: the bounds, the set of classes (`classes`, else the labels that occur), `depth` and `bins` are public.
    Edge cases: values outside the bounds are in the first or last bin, and a missing value in that of the middle. A row
    whose label is not in `classes` is left out, silently. Without `classes` the labels are public, and an invalid label
    is an error.

    >>> import numpy as np
    >>> X = np.concatenate([np.linspace(0.0, 4.0, 500), np.linspace(6.0, 10.0, 500)])[:, None]
    >>> y = np.repeat(["low", "high"], 500)
    >>> fitted = DecisionTreeClassifier(epsilon=20.0, bounds=(0, 10), depth=1).fit(X, y)
    >>> fitted.predict([[1.5], [8.5]]).tolist()
    ['low', 'high']
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        bounds: object = None,
        classes: object = None,
        depth: int = 3,
        bins: int = 8,
        budget: LedgerBudget | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.classes = classes
        self.depth = depth
        self.bins = bins
        self.budget = budget

    def fit(self, X: object, y: object) -> Self:
        """Release the histograms of all levels and the counts of the leaves."""
        x = self._rows(X, y)
        self.classes_, codes = labelled(y, self.classes, len(x))
        keep = codes >= 0
        rows = (codes[keep][:, None] == np.arange(len(self.classes_))).astype(np.float64)
        leaves = self._grow(x, rows, class_purity, 1.0, keep, self.classes_.tolist())
        counts = np.maximum(leaves, 0.0)
        everyone = np.maximum(leaves.sum(axis=0), 0.0)
        everyone = everyone / everyone.sum() if everyone.sum() > 0.0 else np.full(len(everyone), 1.0 / len(everyone))
        total = counts.sum(axis=1, keepdims=True)
        sure = leaves.sum(axis=1, keepdims=True) > 2.0 * self._tree.scale * math.sqrt(leaves.shape[1])
        self._chances: Floats = np.where(sure, counts / np.where(total > 0.0, total, 1.0), everyone)
        return self

    def predict_proba(self, X: object) -> Floats:
        """Each class's probability, for each row: that of its leaf."""
        leaf = self.apply(X)
        found: Floats = self._chances[leaf]
        return found

    def predict(self, X: object) -> npt.NDArray[np.generic]:
        """The most likely class of each row."""
        chances = self.predict_proba(X)
        found: npt.NDArray[np.generic] = self.classes_[np.argmax(chances, axis=1)]
        return found


@arguments.guided
class DecisionTreeRegressor(RegressorMixin, TreeEstimator):  # type: ignore[misc]
    """A tree of public depth whose cuts come from noisy histograms, and whose leaves are means inside the range.

    As `DecisionTreeClassifier`, with numbers of rows and sums of targets, scaled to [-1, 1], for counts of classes;
    a node is cut where the variance falls most.

    Guarantee: (epsilon, delta)-private for adding or removing one row, and mu-GDP for the mu of them: see
    `rangebound.learn.sklearn.histogram_tree`; the statistics (1, target) of a row have a length of sqrt(2) at most.
    Predictions lie within `target_bounds`.
    Assumes: `bounds`, `target_bounds`, `depth` and `bins` are public.
    Edge cases: as for the classifier. A row with a missing target is left out, and an infinite one is clipped.

    >>> import numpy as np
    >>> X = np.linspace(0.0, 10.0, 1000)[:, None]
    >>> fitted = DecisionTreeRegressor(epsilon=20.0, bounds=(0, 10), target_bounds=(0, 1)).fit(X, X[:, 0] > 5.0)
    >>> fitted.predict([[2.0], [8.0]]).round().tolist()
    [0.0, 1.0]
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        bounds: object = None,
        target_bounds: object = None,
        depth: int = 3,
        bins: int = 8,
        budget: LedgerBudget | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.depth = depth
        self.bins = bins
        self.budget = budget

    def fit(self, X: object, y: object) -> Self:
        """Release the histograms of all levels and the sums of the leaves."""
        x = self._rows(X, y)
        goal = targets(y, len(x))
        low, high = target_ends(self.target_bounds)
        keep = ~np.isnan(goal)
        scaled = row_sums.centred(goal[keep], np.asarray(low), np.asarray(high))
        rows = np.column_stack([np.ones(len(scaled)), scaled])
        leaves = self._grow(x, rows, mean_purity, math.sqrt(2.0), keep, low, high)
        scale, whole = self._tree.scale, leaves.sum(axis=0)
        everyone = whole[1] / max(float(whole[0]), scale)
        means = np.where(leaves[:, 0] > 2.0 * scale, leaves[:, 1] / np.maximum(leaves[:, 0], scale), everyone)
        self._means: Floats = np.clip((low + high) / 2.0 + (high - low) / 2.0 * means, low, high)
        return self

    def predict(self, X: object) -> Floats:
        """The mean of the leaf of each row."""
        leaf = self.apply(X)
        found: Floats = self._means[leaf]
        return found


def class_purity(sums: Floats) -> tuple[Floats, Floats]:
    """Counts of classes: their total, and themselves, for the Gini impurity."""
    return sums.sum(axis=-1), sums


def mean_purity(sums: Floats) -> tuple[Floats, Floats]:
    """Numbers of rows and sums of targets, for the variance."""
    return sums[..., 0], sums[..., 1:]
