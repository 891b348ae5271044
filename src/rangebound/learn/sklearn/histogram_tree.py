"""A decision tree grown from noisy histograms, one level at a time.

Features are cut into equally wide bins by their public bounds. A row has statistics of a bounded length: of a
classifier 1 for its class, of a regressor (1, target). In each level of the tree a row is in one node, and in one bin
of each feature: its statistics are added to the cell (node, feature, bin) of every feature, so that its vector has as
many copies of them as there are features. In the end they are added to its leaf, once. The cuts between bins that
separate the statistics best are found from the noisy sums, which is post-processing.

Of the squares of mu, a half is for the leaves and the rest is shared by the levels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt

from rangebound.learn.sklearn import row_sums

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_LEAVES = Fraction(1, 2)


class Purity(Protocol):
    """How many rows a vector of sums stands for, and which of its numbers distinguish nodes."""

    def __call__(self, sums: Floats) -> tuple[Floats, Floats]:
        """Numbers of rows, and the sums whose squares over them are to be large."""


@dataclass(frozen=True, kw_only=True)
class HistogramTree:
    """The cuts of all nodes, level by level, and the noisy sums of the leaves.

    A row goes right in a node if its bin of the node's feature is above the node's cut. Node i of a level has the
    children 2 i and 2 i + 1. `scale` is the noise of each number of a leaf.
    """

    features: list[Integers]
    cuts: list[Integers]
    leaves: Floats
    scale: float

    def leaf(self, binned: Integers) -> Integers:
        """The leaf of each row."""
        node: Integers = np.zeros(len(binned), dtype=np.int64)
        for features, cuts in zip(self.features, self.cuts, strict=True):
            node = _child(binned, node, features, cuts)
        return node


def binned(x: Floats, lower: Floats, upper: Floats, bins: int) -> Integers:
    """The bin of each value; values outside the bounds are in the first or last, missing ones in that of the middle."""
    places = (row_sums.centred(x, lower, upper) + 1.0) / 2.0
    found: Integers = np.minimum(np.floor(places * bins), bins - 1).astype(np.int64)
    return found


def histogram(statistics: Integers, table: Integers, node: Integers, nodes: int, bins: int) -> Integers:
    """The sums of the statistics of the rows in each node, for each feature and bin."""
    features = table.shape[1]
    found: Integers = np.zeros((nodes, features, bins, statistics.shape[1]), dtype=np.int64)
    for feature in range(features):
        np.add.at(found[:, feature], (node, table[:, feature]), statistics)
    return found


def leaf_sums(statistics: Integers, node: Integers, nodes: int) -> Integers:
    """The sums of the statistics of the rows in each leaf."""
    found: Integers = np.zeros((nodes, statistics.shape[1]), dtype=np.int64)
    np.add.at(found, node, statistics)
    return found


def grown(
    rows: Floats, table: Integers, purity: Purity, *, norm: float, depth: int, bins: int, mu: float
) -> HistogramTree:
    """A tree of this depth, from the statistics of each row, of length `norm` at most, and its bins.

    Guarantee: mu-GDP for adding or removing a row. Proof: given the levels above, one row adds its statistics to one
    cell of each feature, a vector of length sqrt(features) norm at most, in whole numbers; and in the end to one leaf.
    The mu of these releases add up by their squares [dong2022, smith2022].
    """
    features = table.shape[1]
    wide = norm * math.sqrt(features)
    each, last = row_sums.part(mu, (1 - _LEAVES) / depth), row_sums.part(mu, _LEAVES)
    copied = row_sums.clipped(rows, wide, features)
    node: Integers = np.zeros(len(rows), dtype=np.int64)
    chosen: list[Integers] = []
    cuts: list[Integers] = []
    for level in range(depth):
        sums = histogram(copied, table, node, 2**level, bins)
        best = best_cuts(row_sums.noisy(sums, wide, each), purity, wide / each)
        chosen.append(best[0])
        cuts.append(best[1])
        node = _child(table, node, *best)
    sums = leaf_sums(row_sums.clipped(rows, norm), node, 2**depth)
    return HistogramTree(features=chosen, cuts=cuts, leaves=row_sums.noisy(sums, norm, last), scale=norm / last)


def best_cuts(sums: Floats, purity: Purity, scale: float) -> tuple[Integers, Integers]:
    """For each node, the feature and the cut between its bins that make squares over numbers of rows largest.

    Noise has this scale in each cell. A side counts as no fewer rows than its noise could make up.
    """
    nodes, bins, width = len(sums), *sums.shape[2:]
    left = sums.cumsum(axis=2)[:, :, :-1]
    right = sums.sum(axis=2, keepdims=True) - left
    floor = 2.0 * scale * math.sqrt(bins * width)
    gain = np.zeros(left.shape[:3])
    for side in (left, right):
        count, parts = purity(side)
        gain += (parts**2).sum(axis=-1) / np.maximum(count, floor)
    best = gain.reshape(nodes, -1).argmax(axis=1)
    return best // (bins - 1), best % (bins - 1)


def _child(table: Integers, node: Integers, features: Integers, cuts: Integers) -> Integers:
    right = table[np.arange(len(table)), features[node]] > cuts[node]
    found: Integers = 2 * node + right
    return found
