"""Trees that are cut at random, with noisy sums in their leaves.

A row has statistics of a bounded length: of a classifier 1 for its class, of a regressor (1, target). Which feature a
node is cut by is drawn evenly; where, around the noisy mean of the feature. So the cuts know nothing of a row but what
these means tell, and each row adds its statistics to one leaf of every tree: its vector has as many copies of them as
there are trees.

What a row of the same leaves gets is the sum over all trees. With t trees the noise of a leaf is sqrt(t) times that of
a single tree, and the noise of the sum t times; the statistics add up t times, too. So more trees cost nothing, and
make the answer smoother: the sum over the trees is that of the statistics of all rows, each weighted by the number of
trees in which it shares a leaf.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import ndtr

from rangebound.learn.sklearn import row_sums
from rangebound.learn.sklearn.feature_spread import normals, spread
from rangebound.values.array_types import Floats, Integers

_START = Fraction(1, 10)  # of the squares of mu: mean and deviation of each feature
_CLIP = 0.35  # of the largest length of (1, features, squares)
_WIDTH = 0.5  # standard deviations of a feature: the spread of its cuts
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

    def apply(self, rows: Floats) -> Integers:
        """The leaf of each row in each tree."""
        pairs = zip(self.features, self.cuts, strict=True)
        return np.column_stack([leaf(rows, features, cuts) for features, cuts in pairs])

    def sums(self, rows: Floats) -> Floats:
        """For each row, the sum over all trees of what is in its leaf."""
        found: Floats = np.zeros((len(rows), self.leaves.shape[2]))
        for features, cuts, values in zip(self.features, self.cuts, self.leaves, strict=True):
            found += values[leaf(rows, features, cuts)]
        return found

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


def grown(rows: Floats, statistics: Floats, *, norm: float, trees: int, depth: int, mu: float) -> RandomTrees:
    """So many trees of this depth, for rows in units of the bounds and their statistics, of length `norm` at most.

    Guarantee: mu-GDP for adding or removing a row. Proof: the means and deviations, which the cuts are drawn around,
    are released first. Given the cuts, one row adds its statistics to one leaf of every tree, a vector of length
    sqrt(trees) norm at most, in whole numbers. The squares of the two mu add up to mu^2 [dong2022, smith2022].
    """
    first, second = row_sums.part(mu, _START), row_sums.part(mu, 1 - _START)
    mean, deviation = spread(rows, _CLIP, first)
    shape = (trees, 2**depth - 1)
    places = np.floor(ndtr(normals(shape)) * rows.shape[1])
    features: Integers = np.minimum(places, rows.shape[1] - 1).astype(np.int64)
    cuts: Floats = np.clip(mean[features] + _WIDTH * deviation[features] * normals(shape), -1.0, 1.0)
    wide = norm * math.sqrt(trees)
    sums = leaf_sums(row_sums.clipped(statistics, wide, trees), rows, features, cuts)
    return RandomTrees(features=features, cuts=cuts, leaves=row_sums.noisy(sums, wide, second), scale=wide / second)
