"""Hierarchies: counts at the nodes of a tree, each measured with noise of its own, in either account."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from rangebound.release.noise.draw import Bits
from rangebound.release.noise.joint_loss import JointLoss
from rangebound.release.noise.laplace_tail import excess_of_continuous, laplace_radius
from rangebound.release.noise.projection import Identities
from rangebound.release.noise.projection_bias import Drift, gaussian_moments, laplace_moments, tree_drift
from rangebound.release.noise.strategies.contributions import Contributions, NoiseAccount
from rangebound.release.noise.strategies.tree import Places, Tree
from rangebound.release.noise.strategies.tree_design import design_tree
from rangebound.release.noise.strategies.tree_strategy import TreeStrategy, tree_weights
from rangebound.release.noise.workload_publisher import Measurements, listed
from rangebound.values.array_types import Floats


@dataclass(frozen=True, kw_only=True)
class LeveledTree:
    """A tree whose nodes stand level by level from the root down; `names` are those of the levels, from the leaves up.

    Published are the leaves first, then level by level upwards, the root last.
    """

    parents: tuple[int, ...]
    names: tuple[str, ...]

    @cached_property
    def tree(self) -> Tree:
        """The tree itself."""
        return Tree(parents=self.parents)

    @cached_property
    def order(self) -> Places:
        """The nodes in the order in which they are published."""
        return np.concatenate(self.tree.levels[::-1])

    @cached_property
    def sums(self) -> Identities:
        """Every node above the leaves is the sum of its children."""
        places = np.empty(len(self.tree), dtype=np.int64)
        places[self.order] = np.arange(len(self.tree))
        children = np.argsort(self.tree.places[1:], kind="stable") + 1
        parents, counts = np.unique(self.tree.places[1:], return_counts=True)
        return Identities(
            totals=places[parents], parts=places[children], starts=np.concatenate([[0], np.cumsum(counts)])
        )


@dataclass(frozen=True, kw_only=True)
class TreeMeasurements:
    """A hierarchy by noisy counts of its nodes; see `TreeStrategy`."""

    hierarchy: LeveledTree
    strategy: TreeStrategy

    @property
    def account(self) -> NoiseAccount:
        """That of the strategy."""
        return self.strategy.account

    @property
    def contributions(self) -> Contributions:
        """Those of the strategy."""
        return self.strategy.contributions

    @property
    def cost(self) -> Fraction:
        """mu^2, or epsilon."""
        return self.strategy.cost

    @property
    def loss(self) -> JointLoss:
        """That of the strategy."""
        return self.strategy.loss

    @property
    def size(self) -> int:
        """One measurement for every measured node."""
        return len(self.strategy.measured)

    def draw(self, counts: Sequence[int], bits: Bits) -> list[float]:
        """The noisy counts of the measured nodes."""
        found: list[float] = self.strategy.draw(counts, bits).tolist()
        return found

    def admits(self, drawn: Sequence[float]) -> bool:
        """Whether every number is on its lattice."""
        return self.strategy.admits(np.array(drawn, dtype=np.float64))

    def answers(self, drawn: Sequence[float]) -> Floats:
        """The least-squares answers."""
        return self.strategy.answers(np.array(drawn, dtype=np.float64)).values[self.hierarchy.order]

    @cached_property
    def variances(self) -> Floats:
        """By node."""
        return self.strategy.variances()[self.hierarchy.order]

    def laplace_radii(self, level: float) -> Floats:
        """By moments: from the variance of each answer, and a bound of the largest part that one measurement has in it.

        Let A be the weights of measurements in a node's estimate from its subtree, and s the share of a node in what is
        spread over it and its siblings. By induction from the root, the weight of a measurement in the final estimate
        of a node above it is from 0 to A. So in the final estimate of c it is at most A_c below c, at most s A below a
        sibling, and s times that in the final estimate of the parent elsewhere.
        """
        tree, noises = self.hierarchy.tree, self.strategy.noises
        scales = np.array(self.strategy.scales)
        noise = np.array([noises[each].variance if each else np.inf for each in scales.tolist()])
        own, _, shares = tree_weights(tree, noise)
        below, highest = own * scales, np.zeros(len(tree))
        for nodes in tree.levels[::-1]:
            below[nodes] = np.maximum(below[nodes], (1.0 - own[nodes]) * highest[nodes])
            if nodes[0]:
                np.maximum.at(highest, tree.places[nodes], below[nodes])
        final = below.copy()
        for nodes in tree.levels[1:]:
            parents = tree.places[nodes]
            final[nodes] = np.maximum(below[nodes], shares[nodes] * np.maximum(highest[parents], final[parents]))
        order = self.hierarchy.order
        return laplace_radius(self.variances / 2.0 * self._excess, final[order] * (1.0 + 1e-9), level)

    @property
    def _excess(self) -> float:
        """By how much the variance of continuous Laplace noise is above that of the measurements."""
        return max(excess_of_continuous(scale, each.variance) for scale, each in self.strategy.noises.items())

    @cached_property
    def drift(self) -> Drift:
        """By the tree: no number depends on how many leaves there are but through their logarithm."""
        moments = laplace_moments(self._excess) if self.account is NoiseAccount.PURE else gaussian_moments()
        order = self.hierarchy.order
        return tree_drift(self.hierarchy.tree, self.strategy.variances(), moments).reordered(order)

    @property
    def sums(self) -> Identities:
        """Nodes are sums of their children."""
        return self.hierarchy.sums

    @cached_property
    def levels(self) -> list[tuple[str, float]]:
        """The mean variance of each level."""
        found = self.strategy.variances()
        means = [float(found[nodes].mean()) for nodes in self.hierarchy.tree.levels[::-1]]
        return list(zip(self.hierarchy.names, means, strict=True))

    def words(self) -> str:
        """The noise, and on how many nodes."""
        noise = "Gaussian" if self.account is NoiseAccount.GAUSSIAN else "discrete Laplace"
        return f"{noise} noise on {self.size} nodes of a tree"

    def to_dict(self) -> dict[str, object]:
        """The tree and the scales of its nodes."""
        return {
            "strategy": "tree",
            "parents": listed(self.hierarchy.parents),
            "scales": listed(self.strategy.scales),
        }


@lru_cache(maxsize=16)
def tree_measurements(
    found: LeveledTree, account: NoiseAccount, budget: Fraction, contributions: Contributions
) -> Measurements:
    """The strategy for a hierarchy with the least total variance.

    Guarantee: the cost is at most the budget, in exact arithmetic.
    """
    strategy = design_tree(found.tree, budget=budget, account=account, contributions=contributions)
    return TreeMeasurements(hierarchy=found, strategy=strategy)
