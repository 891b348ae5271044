"""A hierarchy measured at its nodes, each with noise of its own scale, and answered by least squares on the tree.

Bottom up, a node's estimate from its subtree combines its own measurement (variance u) with the sum of its children's
estimates (variance T = sum of t): it has the variance t = 1 / (1 / u + 1 / T). Top down, what the final estimate of the
parent and the sum of its children's estimates differ by is spread over the children in proportion to their t:

    final_c = z_c + (t_c / T) (final_parent - sum of z),  variance (t_c / T) (T - t_c) + (t_c / T)^2 variance_parent

[hay2010]. Privacy: with p = 1 / scale^2 of the node, a unit with r rows in each of g leaves costs sum of p (r k)^2, k
the number of its leaves under the node. Since k = sum over those leaves of 1, and no node holds more of them than
min(g, its leaves),

    mu^2 <= r^2 g max over leaves of the sum over the nodes above it of p min(g, leaves of the node),

and a replaced unit costs at most twice that: all products of counts are non-negative. In a pure account the loss is
linear, r g max over leaves of the sum of 1 / scale, and twice that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rangebound.release.noise.bias import Drift, Places, gaussian_moments, laplace_moments, tree_drift
from rangebound.release.noise.draw import Bits
from rangebound.release.noise.joint_loss import HALF_PI, JointLoss, NoiseAccount, layer_loss
from rangebound.release.noise.projection import Identities
from rangebound.release.noise.strategies.strategy import (
    ExactAnswers,
    LatticeNoise,
    Strategy,
    Wholes,
    clamped_counts,
    excess_of_continuous,
    laplace_radius,
    listed,
    published,
    wholes,
)
from rangebound.sampling.entropy import secure_bits
from rangebound.values.array_types import Floats, Integers

_FRACTION = 96  # bits behind the point in the passes over the tree
_SHARE = 60  # bits of a child's share in what is spread
_SUM = 60  # bits of the sums in which the cost is found


@dataclass(frozen=True, kw_only=True)
class Tree:
    """Nested levels by the parent of each node: -1 for the first one, the root, and a smaller number for every other.

    The leaves are the finest cells. `names` are those of the levels, from the leaves up. As a workload its leaves are
    published first, then level by level upwards, the root last.

    >>> tree = Tree(parents=(-1, 0, 0, 1, 1))
    >>> tree.leaves.tolist(), tree.leaf_counts.tolist(), tree.depths.tolist()
    ([2, 3, 4], [3, 2, 1, 1, 1], [0, 1, 1, 2, 2])
    """

    parents: tuple[int, ...]
    names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def places(self) -> Places:
        """The parents as an array; the root is its own."""
        return np.maximum(np.array(self.parents, dtype=np.intp), 0)

    @cached_property
    def leaves(self) -> Places:
        """The nodes without children, in order."""
        return np.flatnonzero(np.bincount(self.places[1:], minlength=len(self)) == 0)

    @cached_property
    def depths(self) -> Places:
        """How many nodes are above each."""
        found = [0] * len(self)
        for at, parent in enumerate(self.parents[1:], 1):
            found[at] = found[parent] + 1
        return np.array(found, dtype=np.intp)

    @cached_property
    def levels(self) -> list[Places]:
        """The nodes of each depth, from the root down."""
        order = np.argsort(self.depths, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.depths))[:-1])

    @cached_property
    def leaf_counts(self) -> Integers:
        """How many leaves are under each node; one for a leaf."""
        return self.added(np.ones(len(self.leaves), dtype=np.int64))

    def added(self, counts: Integers) -> Integers:
        """Counts of the leaves as those of all nodes."""
        found = np.zeros(len(self), dtype=np.int64)
        found[self.leaves] = counts
        for level in self.levels[:0:-1]:
            np.add.at(found, self.places[level], found[level])
        return found

    @cached_property
    def order(self) -> Places:
        """The nodes in the order in which they are published."""
        return np.concatenate(self.levels[::-1])

    @cached_property
    def sums(self) -> Identities:
        """Every node above the leaves is the sum of its children."""
        places = np.empty(len(self), dtype=np.int64)
        places[self.order] = np.arange(len(self))
        children = np.argsort(self.places[1:], kind="stable") + 1
        parents, counts = np.unique(self.places[1:], return_counts=True)
        return Identities(
            totals=places[parents], parts=places[children], starts=np.concatenate([[0], np.cumsum(counts)])
        )

    def tables(self, finest: Wholes) -> Wholes:
        """The counts of the leaves."""
        return finest

    def drift(self, strategy: Strategy) -> Drift:
        """By the tree: no number depends on how many leaves there are but through their logarithm."""
        pure = strategy.account is NoiseAccount.PURE
        moments = laplace_moments(excess_of_continuous(strategy.noises)) if pure else gaussian_moments()
        return tree_drift(self.levels, self.places, strategy.variances, moments, self.order)

    @cached_property
    def kinds(self) -> list[tuple[str, slice]]:
        """The levels from the leaves up."""
        ends = np.cumsum([len(nodes) for nodes in self.levels[::-1]]).tolist()
        return list(zip(self.names, map(slice, [0, *ends], ends), strict=True))

    def to_dict(self) -> dict[str, object]:
        return {"parents": listed(self.parents)}


@dataclass(frozen=True, kw_only=True)
class TreeStrategy(Strategy):
    """Counts of all nodes of a `tree`, measured with noise of the given `scales`; 0 for a node without a measurement.

    `design_tree` finds the best scales. Measurements and answers are in the order of the nodes; the counts of children
    add up to that of their parent.

    Guarantee: what `draw` returns is mu-GDP with mu^2 = `cost`, or `cost`-private in a pure account; `answers` are the
    same on every machine, add up exactly, and are unbiased to 2^-60; `variances` are theirs to 1e-9.
    Assumes: counts are those of the leaves, in which `contributions` hold.
    Edge cases: every leaf is measured. Counts of leaves are clamped at 2^61 over the number of leaves.
    """

    tree: Tree
    scales: tuple[float, ...]

    @cached_property
    def noises(self) -> tuple[LatticeNoise, ...]:
        """The noise of each scale, the smallest first."""
        return tuple(LatticeNoise(account=self.account, scale=each) for each in sorted({*self.scales} - {0.0}))

    def _by_node(self, numbers: Sequence[float], unmeasured: float = 0.0) -> Floats:
        """Numbers of the noises as those of the nodes that are measured with each."""
        places = np.searchsorted([0.0, *(each.scale for each in self.noises)], self.scales)
        return np.array([unmeasured, *numbers])[places]

    @cached_property
    def steps(self) -> Floats:
        return self._by_node([each.step for each in self.noises])[self.measured]

    @cached_property
    def measured(self) -> Places:
        """The nodes that are measured, in the order in which they are published."""
        return np.flatnonzero(np.array(self.scales))

    @cached_property
    def cost(self) -> Fraction:
        bounds, gaussian = self.contributions, self.account is NoiseAccount.GAUSSIAN
        shared = np.minimum(self.tree.leaf_counts, bounds.cells) if gaussian else np.ones(len(self.tree), np.int64)
        held = min(bounds.cells, len(self.tree.leaves))
        power, reach = (2, bounds.rows**2) if gaussian else (1, bounds.rows)
        return self._dearest_path(shared, power) * held * reach * (2 if bounds.replaced else 1)

    def _dearest_path(self, shared: Integers, power: int) -> Fraction:
        """The largest sum of shared / scale^power over the measured nodes from the root to a leaf, rounded up.

        Assumes: no node is shared by more cells than a unit has.
        """
        rates = {each.scale: 1 / Fraction(each.scale) ** power for each in self.noises}
        most = max(rates.values()) * self.contributions.cells * len(self.tree.levels)
        unit = Fraction(2) ** (_SUM + most.denominator.bit_length() - most.numerator.bit_length() - 1)
        loads = {0.0: 0} | {each: -int(-rate * unit // 1) for each, rate in rates.items()}
        paths = np.array([loads[each] for each in self.scales], dtype=np.int64) * shared
        for level in self.tree.levels[1:]:
            paths[level] += paths[self.tree.places[level]]
        return Fraction(int(paths[self.tree.leaves].max())) / unit

    @cached_property
    def loss(self) -> JointLoss:
        """What a unit can lose; in a pure account each level is a layer, with noise of its smallest scale at most.

        Levels whose nodes have noise of different scales have another bound, and the smaller one counts. A node of
        noise s under which a unit has n of its leaves loses r n / s at most, and is mu-GDP with
        mu^2 <= (pi/2) (r n / s)^2. With k the smaller of g and the leaves of the node, n^2 <= n k, so that all of them
        together have at most (pi/2) r^2 times the sum, over the leaves of the unit, of k / s^2 of the nodes above: g
        times the largest such sum. A unit that is replaced leaves g leaves and enters g others, and no node moves by
        more than the larger of both: twice that.
        """
        if self.account is NoiseAccount.GAUSSIAN:
            return super().loss
        bounds, sizes, scales = self.contributions, self.tree.leaf_counts, np.array(self.scales)
        held = min(bounds.cells, len(self.tree.leaves))
        alike, others, rest = JointLoss(), JointLoss(), np.minimum(sizes, held)
        for level in self.tree.levels:
            nodes = level[scales[level] > 0.0]
            if not nodes.size:
                continue
            least, capacity = float(scales[nodes].min()), int(sizes[nodes].max())
            layer = layer_loss(least, capacity=capacity, nodes=len(nodes), bounds=bounds)
            if least == scales[nodes].max() and layer.pure:
                alike, rest[nodes] = alike + layer, 0
            else:
                others += layer
        path = self._dearest_path(rest, 2) * held * bounds.rows**2 * (2 if bounds.replaced else 1)
        ways = (alike + others, alike + JointLoss(square=HALF_PI * path))
        return min((replace(each, epsilon=self.cost) for each in ways), key=lambda each: each.mu)

    def draw(self, counts: npt.ArrayLike, bits: Bits = secure_bits) -> Floats:
        (leaves,) = clamped_counts(counts, len(self.tree.leaves), 2**61 // len(self.tree.leaves))
        exact, found, scales = self.tree.added(leaves.astype(np.int64)), np.zeros(len(self.tree)), np.array(self.scales)
        for noise in self.noises:
            nodes = np.flatnonzero(scales == noise.scale)
            found[nodes] = published(noise.measured(wholes(exact[nodes]), bits), noise.step)
        return found[self.measured]

    def answers(self, drawn: npt.ArrayLike) -> ExactAnswers:
        noisy = wholes(np.zeros(len(self.tree)))
        per_one = wholes(1.0 / self.steps)
        noisy[self.measured] = (self.in_steps(drawn) << _FRACTION) // per_one
        return ExactAnswers(numerators=self._fitted(noisy), denominator=1 << _FRACTION)

    def _fitted(self, noisy: Wholes) -> Wholes:
        """Both passes over the tree, in whole numbers."""
        places, (own, _, shares) = self.tree.places, self._weights
        keeps = wholes(np.floor(own * 2.0**_SHARE))
        spreads = wholes(np.floor(shares * 2.0**_SHARE))
        leaf = np.zeros(len(self.tree), dtype=np.bool_)
        leaf[self.tree.leaves] = True
        estimates, below = noisy.copy(), wholes(np.zeros(len(self.tree)))
        for level in self.tree.levels[::-1]:
            inner = level[~leaf[level]]
            gap = (noisy[inner] - below[inner]) * keeps[inner]
            estimates[inner] = below[inner] + (gap >> _SHARE)
            if level[0]:
                np.add.at(below, places[level], estimates[level])
        final = estimates.copy()
        for level in self.tree.levels[1:]:
            parents = places[level]
            moved = (final[parents] - below[parents]) * spreads[level] >> _SHARE
            final[level] = estimates[level] + moved
            left = final - below  # what rounding left over goes to the last child
            np.subtract.at(left, parents, moved)
            last = dict(zip(parents.tolist(), level.tolist(), strict=True))
            children = np.fromiter(last.values(), dtype=np.intp)
            final[children] = final[children] + left[np.fromiter(last, dtype=np.intp)]
        return final

    @cached_property
    def variances(self) -> Floats:
        """The variance of the answer at each node, by doubles in a fixed order: the same on every machine."""
        return tree_variances(self.tree, self._weights)

    @cached_property
    def _weights(self) -> tuple[Floats, Floats, Floats]:
        return tree_weights(self.tree, self._by_node([each.variance for each in self.noises], np.inf))

    def radii(self, level: float) -> Floats:
        """In a pure account by moments: the variance of each answer, and the largest part of one measurement in it.

        Let A be the weights of measurements in a node's estimate from its subtree, and s the share of a node in what is
        spread over it and its siblings. By induction from the root, the weight of a measurement in the final estimate
        of a node above it is from 0 to A. So in the final estimate of c it is at most A_c below c, at most s A below a
        sibling, and s times that in the final estimate of the parent elsewhere.
        """
        if self.account is NoiseAccount.GAUSSIAN:
            return super().radii(level)
        tree, (own, _, shares) = self.tree, self._weights
        below, highest = own * np.array(self.scales), np.zeros(len(tree))
        for nodes in tree.levels[::-1]:
            below[nodes] = np.maximum(below[nodes], (1.0 - own[nodes]) * highest[nodes])
            if nodes[0]:
                np.maximum.at(highest, tree.places[nodes], below[nodes])
        final = below.copy()
        for nodes in tree.levels[1:]:
            parents = tree.places[nodes]
            final[nodes] = np.maximum(below[nodes], shares[nodes] * np.maximum(highest[parents], final[parents]))
        squares = self.variances / 2.0 * excess_of_continuous(self.noises)
        return laplace_radius(squares, final * (1.0 + 1e-9), level)

    def words(self) -> str:
        noise = "Gaussian" if self.account is NoiseAccount.GAUSSIAN else "discrete Laplace"
        return f"{noise} noise on {self.size} nodes of a tree"

    def to_dict(self) -> dict[str, object]:
        return {"strategy": "tree", "scales": listed(self.scales)}


def tree_weights(tree: Tree, noise: Floats) -> tuple[Floats, Floats, Floats]:
    """By node: the weight of its own measurement, the variance t from its subtree, and its share t / T at its parent.

    `noise` has the variances of the measurements, infinite where there is none.
    """
    from_below, variance, own = np.zeros(len(tree)), noise.copy(), np.ones(len(tree))
    inner = np.zeros(len(tree), dtype=np.bool_)
    inner[tree.places[1:]] = True
    for level in tree.levels[::-1]:
        nodes = level[inner[level]]
        below = from_below[nodes]
        own[nodes] = below / (below + noise[nodes])
        measured = np.isfinite(noise[nodes])
        variance[nodes] = np.where(measured, own[nodes] * np.where(measured, noise[nodes], 0.0), below)
        if level[0]:
            from_below += np.bincount(tree.places[level], weights=variance[level], minlength=len(tree))
    shares = np.ones(len(tree))
    shares[1:] = variance[1:] / from_below[tree.places[1:]]
    return own, variance, shares


def tree_variances(tree: Tree, weights: tuple[Floats, Floats, Floats]) -> Floats:
    """The variances of the final estimates of all nodes."""
    _, variance, shares = weights
    found, others = variance.copy(), of_siblings(tree, variance)
    for level in tree.levels[1:]:
        share = shares[level]
        found[level] = share * others[level] + share * share * found[tree.places[level]]
    return found


def of_siblings(tree: Tree, values: Floats) -> Floats:
    """The sum of positive values over the siblings of each node, also where the node's own is far larger."""
    places, nodes = tree.places[1:], np.arange(1, len(tree))
    largest = np.zeros(len(tree))
    np.maximum.at(largest, places, values[1:])
    heirs = nodes[values[1:] == largest[places]]
    heirs = heirs[np.unique(tree.places[heirs], return_index=True)[1]]  # one child of each parent, a largest one
    rest = values.copy()
    rest[heirs] = 0.0
    without = np.bincount(places, weights=rest[1:], minlength=len(tree))
    found = np.zeros(len(tree))
    found[1:] = without[places] - values[1:] + largest[places]
    found[heirs] = without[tree.places[heirs]]
    return found
