"""Hierarchies: counts at the nodes of a tree, each measured with noise of its own, in either account."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from rangebound.release.noise.projection import Identities
from rangebound.release.noise.projection_bias import Drift, gaussian_moments, laplace_moments, tree_drift
from rangebound.release.noise.strategies.contributions import Contributions, NoiseAccount
from rangebound.release.noise.strategies.laplace_tail import excess_of_continuous
from rangebound.release.noise.strategies.lattice_noise import Wholes
from rangebound.release.noise.strategies.strategy import Strategy, listed
from rangebound.release.noise.strategies.tree import Places, Tree
from rangebound.release.noise.strategies.tree_design import design_tree
from rangebound.release.noise.workload_publisher import Level, Measurements


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

    def tables(self, finest: Wholes) -> Wholes:
        """The counts of the leaves."""
        return finest

    def drift(self, strategy: Strategy) -> Drift:
        """By the tree: no number depends on how many leaves there are but through their logarithm."""
        pure = strategy.account is NoiseAccount.PURE
        moments = laplace_moments(excess_of_continuous(strategy.noises)) if pure else gaussian_moments()
        return tree_drift(self.tree, strategy.variances, moments).reordered(self.order)

    @cached_property
    def levels(self) -> list[Level]:
        """The levels from the leaves up."""
        ends = np.cumsum([len(nodes) for nodes in self.tree.levels[::-1]]).tolist()
        return list(zip(self.names, map(slice, [0, *ends], ends), strict=True))

    def to_dict(self) -> dict[str, object]:
        return {"parents": listed(self.parents)}


@lru_cache(maxsize=16)
def tree_measurements(
    found: LeveledTree, account: NoiseAccount, budget: Fraction, contributions: Contributions
) -> Measurements:
    """The strategy for a hierarchy with the least total variance.

    Guarantee: the cost is at most the budget, in exact arithmetic.
    """
    strategy = design_tree(found.tree, budget=budget, account=account, contributions=contributions)
    return Measurements(workload=found, strategy=strategy)
