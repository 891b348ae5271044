"""Forests of trees that are cut at random, with noisy sums in their leaves, whose answers stay in range.

A row has statistics of a bounded length: of a classifier 1 for its class, of a regressor (1, target). Which feature a
node is cut by is drawn evenly; where, around the noisy mean of the feature. So the cuts know nothing of a row but what
these means tell, and each row adds its statistics to one leaf of every tree: its vector has as many copies of them as
there are trees.

What a row of the same leaves gets is the sum over all trees. With t trees the noise of a leaf is sqrt(t) times that of
a single tree, and the noise of the sum t times; the statistics add up t times, too. So more trees cost nothing, and
make the answer smoother: the sum over the trees is that of the statistics of all rows, each weighted by the number of
trees in which it shares a leaf. A classifier lets leaves that are clear of noise vote (`RandomTrees.votes`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr
from sklearn.base import RegressorMixin

from rangebound.learn.sklearn import row_sums
from rangebound.learn.sklearn.linear_models import ScoredClassifier
from rangebound.learn.sklearn.private_estimator import Released, RowSumEstimator, labelled, target_ends, targets
from rangebound.learn.sklearn.row_sums import normals, spread
from rangebound.values import arguments
from rangebound.values.array_types import Floats, Integers

_LEAVES = 8.0  # what the leaves weigh when the squares of mu are shared, beside the length of the first sums
_CLIP = 0.35  # of the largest length of (1, features, squares)
_WIDTH = 0.5  # standard deviations of a feature: the spread of its cuts
_HALF = 4.0  # deviations of its noise: with this many rows a leaf has half the weight of one with none
_MOST, _DEEPEST = 10_000, 12
_USUAL = 8  # the deepest that is chosen: a ledger has room for the leaves of a hundred such trees
_FEW = 3.0  # what draws a mean to that of all rows, in squares of the noise; a deviation of 0.6 is usual, 1 is most
_CLEAR = 5.0  # standard deviations of noise: what is above is hardly ever noise alone


@dataclass(frozen=True, kw_only=True)
class RandomTrees:
    """The feature and the cut of each node of each tree, and the noisy sums of the leaves.

    A row, in units of the bounds, goes right in a node if the node's feature is above the node's cut. Node i of a tree
    has the children 2 i + 1 and 2 i + 2. `scale` is the noise of each number of a leaf.
    """

    features: Integers
    cuts: Floats
    leaves: Floats
    scale: float

    def sums(self, rows: Floats) -> Floats:
        """For each row, the sum over all trees of what is in its leaf."""
        found: Floats = np.zeros((len(rows), self.leaves.shape[2]))
        for features, cuts, values in zip(self.features, self.cuts, self.leaves, strict=True):
            found += values[leaf(rows, features, cuts)]
        return found

    @property
    def votes(self) -> RandomTrees:
        """The same trees with counts of classes weighted by leaf: leaves far above their noise weigh the same.

        Else few leaves with many rows would outvote many small ones, which know more of a place.
        """
        rows = np.maximum(self.leaves.sum(axis=2, keepdims=True), 0.0)
        half = _HALF * self.scale * math.sqrt(self.leaves.shape[2])
        return replace(self, leaves=self.leaves / (1.0 + rows / half))

    @property
    def noise(self) -> float:
        """The standard deviation of the noise of a sum over all trees."""
        return self.scale * math.sqrt(len(self.leaves))

    def noise_alone(self, columns: int) -> float:
        """How large the sum of the first columns, which count rows, may be where no row is: 0 if nobody can say.

        5 standard deviations of its noise. Where rows are few, it is an even share of all of them less one deviation:
        places with rows are hardly ever above 5, and what they know would be lost.
        """
        noise = self.noise * math.sqrt(columns)
        even = float(self.everyone[:columns].sum()) / self.leaves.shape[1]
        least: float = max(min(_CLEAR * noise, even - noise), 0.0)
        return least

    @property
    def everyone(self) -> Floats:
        """The sum over all leaves and trees: that of all rows, once for each tree."""
        found: Floats = self.leaves.sum(axis=(0, 1))
        return found


def leaf(rows: Floats, features: Integers, cuts: Floats) -> Integers:
    """The leaf of each row in one tree."""
    node: Integers = np.zeros(len(rows), dtype=np.int64)
    places = np.arange(len(rows))
    while len(rows) and node[0] < len(cuts):
        node = 2 * node + 1 + (rows[places, features[node]] > cuts[node])
    return node - len(cuts) if len(rows) else node


def leaf_sums(statistics: Integers, rows: Floats, features: Integers, cuts: Floats) -> Integers:
    """The sums of the statistics of the rows in each leaf of each tree."""
    trees, nodes = cuts.shape
    found: Integers = np.zeros((trees, nodes + 1, statistics.shape[1]), dtype=np.int64)
    for tree in range(trees):
        np.add.at(found[tree], leaf(rows, features[tree], cuts[tree]), statistics)
    return found


def grown(
    rows: Floats, statistics: Floats, *, norm: float, trees: int, depth: int | None, mu: float, changed: int = 1
) -> Released:
    """This many trees, for rows in units of the bounds and their statistics, of length `norm` at most.

    Without a depth it is one at which noise leaves something of the rows of a leaf.

    Guarantee: mu-GDP for adding or removing a row. Proof: a count, which the depth follows from, and the means and
    deviations, which the cuts are drawn around, are released first. Given the cuts, one row adds its statistics to one
    leaf of every tree, a vector of length sqrt(trees) norm at most, in whole numbers. The squares of the two mu add up
    to mu^2 [dong2022, smith2022]. If a row is replaced (`changed` is 2), all is mu-GDP for half of each distance: the
    first sums may be twice as far apart, and the leaves as `row_sums.apart` says, since no leaf has an obtuse angle.
    """
    near = changed**2 / row_sums.apart(changed, trees * statistics.shape[1])
    length = _CLIP * math.sqrt(2 * rows.shape[1] + 1)
    start = Fraction(length / (length + _LEAVES))  # of the squares of mu: what is longer needs more to be as clear
    first, second = row_sums.part(mu, start), row_sums.part(mu, (1 - start) * near)
    count, mean, deviation = spread(rows, _CLIP, first)
    depth = depth or min(max(math.floor(math.log2(max(count * mu, 1.0))) - 3, 2), _USUAL)
    shape = (trees, 2**depth - 1)
    places = np.floor(ndtr(normals(shape)) * rows.shape[1])
    features: Integers = np.minimum(places, rows.shape[1] - 1).astype(np.int64)
    cuts: Floats = np.clip(mean[features] + _WIDTH * deviation[features] * normals(shape), -1.0, 1.0)
    wide = norm * math.sqrt(trees)
    sums = leaf_sums(row_sums.clipped(statistics, wide, trees), rows, features, cuts)
    leaves = row_sums.noisy(sums, wide, second)
    return {
        "features": features.astype(np.float64), "cuts": cuts, "leaves": leaves, "scale": np.array(wide / second),
    }  # fmt: skip


@dataclass(kw_only=True, eq=False, repr=False)
class ForestEstimator(RowSumEstimator):
    """What the forests have in common: settings, growing, and the sums over the leaves of a row."""

    n_estimators: int = 100
    max_depth: int | None = None
    trees: int | None = None
    depth: int | None = None

    def _grow(self, x: Floats, rows: Floats, norm: float, keep: npt.NDArray[np.bool_]) -> None:
        """Grow the trees on the rows to keep, with these statistics."""
        lower, upper = row_sums.ranges(self.bounds, x.shape[1])
        trees = self._named("n_estimators", "trees", _MOST)
        asked = self.max_depth is not None or self.depth is not None
        depth = self._named("max_depth", "depth", _DEEPEST) if asked else None
        inside, (_, changed) = row_sums.centred(x[keep], lower, upper), self._known(x)
        found, _ = self._released(
            "random forest: means of features, and leaves",
            lambda mu: grown(inside, rows, norm=norm, trees=trees, depth=depth, mu=mu, changed=changed),
            lower, upper,
        )  # fmt: skip
        self._bounds = lower, upper
        features, scale = found["features"].astype(np.int64), float(found["scale"])
        self._forest = RandomTrees(features=features, cuts=found["cuts"], leaves=found["leaves"], scale=scale)

    def _inside(self, X: object) -> Floats:
        return row_sums.centred(self._asked(X), *self._bounds)

    def apply(self, X: object) -> Integers:
        """The index of the leaf of each row in each tree."""
        rows, trees = self._inside(X), zip(self._forest.features, self._forest.cuts, strict=True)
        return np.column_stack([leaf(rows, features, cuts) for features, cuts in trees])


@arguments.guided
@dataclass(kw_only=True, eq=False, repr=False)
class RandomForestClassifier(ScoredClassifier, ForestEstimator):
    """A forest of random trees, with noisy counts of the classes in each leaf.

    Each of the `n_estimators` trees (or `trees`, its other name) has 2^depth leaves. The depth is `max_depth` (or
    `depth`), else it grows with the number of rows over the noise, which is released first, from 2 to 8. Nodes are cut
    at random, by a feature drawn evenly, around the noisy mean of this feature. The probabilities of a row are the
    counts of its leaves, added up over all trees; where these are no more than their noise may be, they are those of
    all rows, and where they are far above it, leaves with many rows weigh no more than others.

    Guarantee: (epsilon, delta)-private for adding or removing one row, and mu-GDP for the mu of them: see
    `rangebound.learn.sklearn.random_forest`; the statistics of a row have length 1. Probabilities lie in [0, 1].
    Assumes: the bounds, the set of classes (`classes`, else the labels that occur) and all other settings are public.
    Edge cases: values outside the bounds are clipped, also when predicting; a missing value counts as the middle of its
    range. A row whose label is not in `classes` is left out, silently. Without `classes` the labels are public, and an
    invalid label is an error.

    >>> import numpy as np
    >>> X = np.concatenate([np.linspace(0.0, 4.0, 500), np.linspace(6.0, 10.0, 500)])[:, None]
    >>> y = np.repeat(["low", "high"], 500)
    >>> fitted = RandomForestClassifier(epsilon=20.0, bounds=(0, 10)).fit(X, y)
    >>> fitted.predict([[1.5], [8.5]]).tolist()
    ['low', 'high']
    """

    classes: object = None

    def fit(self, X: object, y: object) -> Self:
        """Release the means of the features, and the counts of the leaves of all trees."""
        x = self._rows(X, y)
        self.classes_, codes = labelled(y, self.classes, len(x))
        keep = codes >= 0
        rows = (codes[keep][:, None] == np.arange(len(self.classes_))).astype(np.float64)
        self._grow(x, rows, 1.0, keep)
        return self

    def _scores(self, X: object) -> Floats:
        """The log of the sum of each class's counts in the leaves of each row."""
        rows = self._inside(X)
        everyone = np.maximum(self._forest.everyone, 0.0) + self._forest.noise
        few = 0.5 * self._forest.noise * everyone / everyone.sum()
        sums, votes, least = self._forest.sums(rows), self._forest.votes.sums(rows), self._forest.noise_alone(len(few))
        clear = votes.sum(axis=1) > _CLEAR * self._forest.noise * math.sqrt(len(few))  # of the noise of leaves beside
        counts = np.maximum(np.where(clear[:, None], votes, sums), 0.0) + few
        if least > 0.0:
            counts[sums.sum(axis=1) <= least] = everyone
        result: Floats = np.log(counts)
        return result


@arguments.guided
@dataclass(kw_only=True, eq=False, repr=False)
class RandomForestRegressor(RegressorMixin, ForestEstimator):  # type: ignore[misc]
    """A forest of random trees, with noisy numbers of rows and sums of targets in each leaf.

    As `RandomForestClassifier`; a prediction is the sum of the targets in a row's leaves over the number of rows in
    them, both added up over all trees. It is drawn to the mean of all rows, the more so the less that number is above
    its noise, and where it is no more than its noise may be the prediction is that mean.

    Guarantee: (epsilon, delta)-private for adding or removing one row, and mu-GDP for the mu of them: see
    `rangebound.learn.sklearn.random_forest`; the statistics (1, target), in units of `target_bounds`, have a length of
    sqrt(2) at most. Predictions lie within `target_bounds`.
    Assumes: `bounds`, `target_bounds` and all other settings are public.
    Edge cases: as for the classifier. A row with a missing target is left out, and an infinite one is clipped.
    Where no row is, the leaves hold noise alone, and the prediction is the noisy mean of all rows. With fewer rows than
    9/mu 2^depth that cannot be told, and there it may lie anywhere within `target_bounds`.

    >>> import numpy as np
    >>> X = np.linspace(0.0, 10.0, 1000)[:, None]
    >>> fitted = RandomForestRegressor(epsilon=20.0, bounds=(0, 10), target_bounds=(0, 1)).fit(X, X[:, 0] > 5.0)
    >>> fitted.predict([[1.0], [9.0]]).round().tolist()
    [0.0, 1.0]
    """

    target_bounds: object = None

    def fit(self, X: object, y: object) -> Self:
        """Release the means of the features, and the sums of the leaves of all trees."""
        x = self._rows(X, y)
        goal = targets(y, len(x))
        low, high = target_ends(self.target_bounds)
        keep = ~np.isnan(goal)
        scaled = row_sums.centred(goal[keep], np.asarray(low), np.asarray(high))
        rows = np.column_stack([np.ones(len(scaled)), scaled])
        self._grow(x, rows, math.sqrt(2.0), keep)
        self._target = low, high
        return self

    def predict(self, X: object) -> Floats:
        """The prediction for each row, within the bounds of the target."""
        rows = self._inside(X)
        low, high = self._target
        noise, everyone = self._forest.noise, self._forest.everyone
        mean = np.clip(everyone[1] / max(float(everyone[0]), 2.0 * noise), -1.0, 1.0)
        counts, totals = self._forest.sums(rows).T
        above = np.maximum(counts - self._forest.noise_alone(1), 0.0)
        means = mean + above * (totals - mean * counts) / (above * counts + _FEW * noise**2)
        found: Floats = np.clip((low + high) / 2.0 + (high - low) / 2.0 * means, low, high)
        return found
