"""The best scales for the nodes of a hierarchy, in either account: least weighted total variance for a budget."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from rangebound.release.noise.joint_loss import Contributions, NoiseAccount
from rangebound.release.noise.strategies.strategy import within_budget
from rangebound.release.noise.strategies.tree_strategy import (
    Tree,
    TreeStrategy,
    of_siblings,
    tree_variances,
    tree_weights,
)
from rangebound.values.array_types import Floats

_ROUNDS = 100
_GRID = 256  # scales are powers of 2^(1/256), so that few of them are different
_UNMEASURED = 1e-5  # a node whose share of its path's budget is below this is not measured


@lru_cache(maxsize=16)
def design_tree(
    tree: Tree,
    *,
    budget: Fraction | float,
    account: NoiseAccount,
    contributions: Contributions | None = None,
) -> TreeStrategy:
    """The strategy that answers all nodes of a tree with the least total variance.

    Every path from the root to a leaf has the same budget; a node takes a fraction of what is left of it. The total
    variance and its derivatives by these fractions take one pass up and two down the tree, so that a general
    minimiser needs time in proportion to the nodes.

    Guarantee: `cost` of the strategy is at most `budget` (of mu^2, or of epsilon), in exact arithmetic.
    Assumes: tree and contribution bounds are public.

    Independent noise at the nodes is optimal among all Gaussian measurements where all subtrees of a level are alike,
    and was within 1 % of the optimum on irregular trees.

    >>> tree = Tree(parents=(-1, 0, 0, 1, 1))
    >>> strategy = design_tree(tree, budget=1.0, account=NoiseAccount.GAUSSIAN)
    >>> found = strategy.answers(strategy.draw([30, 10, 20])).fractions()  # the leaves are the nodes 2, 3 and 4
    >>> found[3] + found[4] == found[1], found[1] + found[2] == found[0]
    (True, True)
    >>> bool(abs(float(found[0]) - 60) < 8 * strategy.variances[0] ** 0.5)
    True
    """
    limit, bounds = Fraction(budget), contributions or Contributions()
    gaussian = account is NoiseAccount.GAUSSIAN
    rates = _best_rates(tree, bounds.cells if gaussian else 0)
    with np.errstate(divide="ignore"):
        exact = np.where(rates > 0.0, 1.0 / np.sqrt(rates) if gaussian else 1.0 / rates, 0.0)
        scales = np.where(rates > 0.0, 2.0 ** (np.rint(np.log2(exact) * _GRID) / _GRID), 0.0)
    return within_budget(
        lambda scales: TreeStrategy(tree=tree, account=account, contributions=bounds, scales=scales),
        scales,
        limit,
        lambda ratio: (math.sqrt(ratio) if gaussian else ratio) * (1.0 + 1e-12),
    )


@lru_cache(maxsize=8)
def _best_rates(tree: Tree, cells: int) -> Floats:
    """The rates of the nodes, 1 / scale^2 or 1 / scale, up to a factor: they do not depend on the budget.

    They follow from how much of the budget of its paths each node takes. `cells` is how many leaves a unit has in a
    Gaussian account, and 0 in a pure one.
    """
    from scipy import optimize

    gaussian = bool(cells)
    shared = np.minimum(tree.leaf_counts, cells).astype(np.float64) if cells else np.ones(len(tree))
    heights = np.zeros(len(tree))
    for level in tree.levels[:0:-1]:
        np.maximum.at(heights, tree.places[level], heights[level] + 1.0)
    inner = np.flatnonzero(heights)
    if not len(inner):
        return 1.0 / shared

    def spending(logits: Floats) -> tuple[Floats, Floats, Floats]:
        fractions, spent, left = np.ones(len(tree)), np.zeros(len(tree)), np.ones(len(tree))
        fractions[inner] = 1.0 / (1.0 + np.exp(-logits))
        for level in tree.levels:
            given = left[tree.places[level]]
            spent[level] = given * fractions[level]
            left[level] = given * (1.0 - fractions[level])
        return fractions, spent, left

    def objective(logits: Floats) -> tuple[float, Floats]:
        fractions, spent, left = spending(logits)
        total, slopes = total_variance(tree, spent / shared if gaussian else spent**2 / 2.0)
        slopes = slopes / shared if gaussian else slopes * spent  # by what the node spends
        of_rest = np.zeros(len(tree))
        for level in tree.levels[:0:-1]:
            mixed = fractions[level] * slopes[level] + (1.0 - fractions[level]) * of_rest[level]
            of_rest += np.bincount(tree.places[level], weights=mixed, minlength=len(tree))
        given = left[tree.places[inner]]
        given[inner == 0] = 1.0
        gradient = given * (slopes[inner] - of_rest[inner]) * fractions[inner] * (1.0 - fractions[inner])
        return math.log(total), gradient / total

    found = optimize.minimize(
        objective,
        -np.log(heights[inner]),
        jac=True,
        method="L-BFGS-B",
        bounds=[(-16.0, 16.0)] * len(inner),
        options={"maxiter": _ROUNDS, "ftol": 1e-8},
    )
    fractions, spent, _ = spending(found.x)
    spent[fractions < _UNMEASURED] = 0.0
    return spent / shared


def total_variance(tree: Tree, precisions: Floats) -> tuple[float, Floats]:
    """The total variance for measurements of these precisions, and its derivatives by them.

    The derivative by p_n is minus the sum of squared covariances of node n with all nodes: a_n V_n^2 with its
    subtree, a_n = 1 + sum of share^2 a over its children, and H_n with the rest,

        H_n = share_n^2 (V_p^2 + H_p + (V_p - T)^2 (sum of share^2 a over the siblings)),  p its parent.
    """
    with np.errstate(divide="ignore"):
        parts = tree_weights(tree, 1.0 / precisions)
    _, variance, shares = parts
    final = tree_variances(tree, parts)
    spread, sums = np.zeros(len(tree)), np.zeros(len(tree))
    for level in tree.levels[:0:-1]:
        passed = shares[level] ** 2 * (1.0 + spread[level])
        spread += np.bincount(tree.places[level], weights=passed, minlength=len(tree))
        sums += np.bincount(tree.places[level], weights=variance[level], minlength=len(tree))
    rest, others = np.zeros(len(tree)), of_siblings(tree, shares**2 * (1.0 + spread))
    for level in tree.levels[1:]:
        parent, share = tree.places[level], shares[level] ** 2
        siblings = others[level]
        rest[level] = share * (final[parent] ** 2 + rest[parent] + (final[parent] - sums[parent]) ** 2 * siblings)
    return float(np.ones(len(tree)) @ final), -((1.0 + spread) * final**2 + rest)
