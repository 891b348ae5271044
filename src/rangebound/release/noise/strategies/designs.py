"""The best measurements for a budget: of series by the optimal Gram matrix or a Laplace tree, of trees by node."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from rangebound.errors import Unsatisfiable
from rangebound.release.noise.bias import Drift, energy_drift
from rangebound.release.noise.joint_loss import Contributions, NoiseAccount
from rangebound.release.noise.projection import DIVIDED, Identities
from rangebound.release.noise.strategies.series_strategies import BlockStrategy, FactorStrategy, Range, squared_length
from rangebound.release.noise.strategies.strategy import LARGER, Strategy, Wholes, listed, within_budget
from rangebound.release.noise.strategies.tree_strategy import (
    Tree,
    TreeStrategy,
    of_siblings,
    tree_variances,
    tree_weights,
)
from rangebound.values.array_types import Floats, Integers
from rangebound.values.numeric import root_up

_QUANTUM = 2**12  # the largest entry of a factor
_CLOSE = 5e-4  # how far the total variance may be above the optimum
_ROUNDS = 100
_RIDGE = 1e-6  # of the mean diagonal, so that single cells can be found also where none is wanted
_MIXTURES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)


@lru_cache(maxsize=16)
def design_series(
    length: int,
    wanted: tuple[Range, ...],
    *,
    budget: Fraction | float,
    account: NoiseAccount,
    contributions: Contributions | None = None,
    series: int = 1,
) -> FactorStrategy | BlockStrategy:
    """The strategy that answers the wanted sums over ranges of each series with little total variance.

    Gaussian account, `budget` of mu^2: the Gram matrix of least total variance for one contribution is a fixed point
    [denisov2022]; its triangular factor is rounded to whole numbers. For several contributions it is compared, by the
    cost that is proved for them, with matrices between it and noise on single cells. Pure account, `budget` of
    epsilon: blocks of cells with noise beside the cells, with the best length and scales, or cells alone.

    Guarantee: `cost` of the strategy is at most `budget`, in exact arithmetic; never more total variance than noise on
    single cells has.
    Assumes: length, ranges and contribution bounds are public.

    >>> totals = tuple((0, stop) for stop in range(1, 6))
    >>> strategy = design_series(5, totals, budget=1.0, account=NoiseAccount.PURE, series=2)
    >>> drawn = strategy.draw([[3, 0, 2, 4, 1], [0, 0, 0, 0, 9]])
    >>> len(strategy.answers(drawn).values), len(strategy.variances), strategy.cost <= 1
    (10, 10, True)
    """
    limit, bounds = Fraction(budget), contributions or Contributions()
    if account is NoiseAccount.PURE:
        return _blocks(length, wanted, limit, bounds, series)
    rows, size = _best_factor(length, wanted, bounds)
    scale = root_up(Fraction(size) / limit)
    strategy = FactorStrategy(factor=rows, ranges=wanted, contributions=bounds, scale=scale, series=series)
    if strategy.cost > limit:
        raise Unsatisfiable(f"budget={float(limit)!r}: no scale was found that costs as much and not more")
    return strategy


@lru_cache(maxsize=8)
def _best_factor(
    length: int, ranges: tuple[Range, ...], contributions: Contributions
) -> tuple[tuple[tuple[int, ...], ...], int]:
    """The factor and its squared length, which do not depend on the budget."""
    square = workload_square(length, ranges)
    found = [np.eye(length, dtype=np.int64)]
    grams = [optimal_gram(square)]
    if contributions.cells > 1:
        grams += list(_mixtures(square))
    found += [_rounded_factor(each) for each in grams]
    best = min(found, key=lambda each: _score(each, square, contributions))
    rows = tuple(tuple(row[: at + 1]) for at, row in enumerate(best.tolist()))
    return rows, squared_length(best, contributions)


def workload_square(length: int, ranges: Sequence[Range]) -> Floats:
    """W' W of the wanted sums."""
    rows = np.zeros((len(ranges), length))
    for at, (first, stop) in enumerate(ranges):
        rows[at, first:stop] = 1.0
    found: Floats = rows.T @ rows
    return found


def optimal_gram(square: Floats) -> Floats:
    """The X with diagonal 1 and the least tr(M X^-1): V^-1/2 (V^1/2 M V^1/2)^1/2 V^-1/2 at the fixed point for V.

    For any V, the squared trace of (V^1/2 M V^1/2)^1/2 over the trace of V bounds the optimum from one side; what is
    found, with its diagonal brought to 1, bounds it from the other.

    Guarantee: the total variance is within 0.05 % of the optimum where the iteration converged (100 rounds).
    """
    from scipy import linalg

    ridged = square + _RIDGE * np.trace(square) / len(square) * np.eye(len(square))
    v = np.sqrt(np.diag(ridged))
    for _ in range(_ROUNDS):
        roots = np.sqrt(v)
        values, vectors = linalg.eigh(roots[:, None] * ridged * roots, driver="evd", check_finite=False)
        halves = np.sqrt(np.maximum(values, values.max() * 1e-14))
        after = (vectors**2) @ halves
        outer = roots * np.sqrt(after / v)  # X^-1 with the diagonal of X brought to 1
        total = float((outer[:, None] * ridged * outer * ((vectors / halves) @ vectors.T)).sum())
        if total <= (1.0 + _CLOSE) * halves.sum() ** 2 / v.sum():
            break
        v = after
    half = vectors * np.sqrt(halves) / roots[:, None]
    return _with_unit_diagonal(half @ half.T)


def _mixtures(square: Floats) -> Iterator[Floats]:
    """Gram matrices between the square root of M and the identity, which cost less where a unit has many cells."""
    from scipy import linalg

    values, vectors = linalg.eigh(square, check_finite=False)
    largest = values.max()
    for share in _MIXTURES:
        half = vectors * (np.maximum(values, 0.0) + share * largest) ** 0.25
        yield _with_unit_diagonal(half @ half.T)


def _with_unit_diagonal(gram: Floats) -> Floats:
    roots = np.sqrt(np.diag(gram))
    found: Floats = gram / roots[:, None] / roots
    return found


def _rounded_factor(gram: Floats) -> Integers:
    """The lower triangular A with A' A near the Gram matrix, in whole numbers."""
    from scipy import linalg

    upper: Floats = linalg.cholesky(gram[::-1, ::-1], lower=True)[::-1, ::-1]
    lower = upper.T
    found = np.rint(lower * (_QUANTUM / np.abs(lower).max())).astype(np.int64)
    np.fill_diagonal(found, np.maximum(np.diag(found), 1))
    return np.tril(found)


def _score(matrix: Integers, square: Floats, contributions: Contributions) -> float:
    """Total variance at a cost of 1."""
    from scipy import linalg

    inverse = linalg.solve_triangular(matrix.astype(np.float64), np.eye(len(matrix)), lower=True)
    return float((inverse * (square @ inverse)).sum()) * squared_length(matrix, contributions)


def _blocks(
    length: int, ranges: tuple[Range, ...], limit: Fraction, bounds: Contributions, series: int
) -> BlockStrategy:
    from scipy import optimize

    rate = float(limit) / bounds.reach
    ends = np.array(ranges)
    plain = _laplace_variance(1.0 / rate) * float((ends[:, 1] - ends[:, 0]).sum())
    best = (plain, 1, 0.0)
    for block in range(2, length + 1):
        parts = _part_weights(length, block, ends)
        found = optimize.minimize_scalar(
            lambda share, block=block, parts=parts: _block_total(share, rate, length, block, parts),
            bounds=(0.01, 0.99),
            method="bounded",
            options={"xatol": 1e-3},
        )
        best = min(best, (float(found.fun), block, float(found.x)))
    _, block, share = best

    def made(scales: tuple[float, ...]) -> BlockStrategy:
        return BlockStrategy(
            length=length,
            block=block,
            ranges=ranges,
            contributions=bounds,
            cell_scale=scales[0],
            block_scale=scales[1] or None,
            series=series,
        )

    scales = [1.0 / (rate * (1.0 - share)), 1.0 / (rate * share) if share else 0.0]
    return within_budget(made, scales, limit, lambda _: LARGER)


def _laplace_variance(scale: float) -> float:
    """The variance of discrete Laplace noise."""
    return 0.5 / math.sinh(0.5 / scale) ** 2 if scale > 1e-3 else 0.0


def _part_weights(length: int, block: int, ends: Integers) -> tuple[Floats, Floats]:
    """How many sums of j cells of a block there are, for blocks of full length and for the last one."""
    last = (length - 1) // block
    regular, final = np.zeros(block + 1), np.zeros(block + 1)
    begin, end = ends[:, 0] // block, (ends[:, 1] - 1) // block
    inside = begin == end
    in_last = end == last
    tails = np.where(inside, ends[:, 1] - ends[:, 0], ends[:, 1] - end * block)
    np.add.at(final, tails[in_last], 1.0)
    np.add.at(regular, tails[~in_last], 1.0)
    across = ~inside
    np.add.at(regular, ((begin + 1) * block - ends[:, 0])[across], 1.0)
    regular[block] += float((end - begin - 1)[across].sum())
    return regular, final


def _block_total(share: float, rate: float, length: int, block: int, parts: tuple[Floats, Floats]) -> float:
    """The total variance where blocks get this share of the budget."""
    cell, whole_block = _laplace_variance(1.0 / (rate * (1.0 - share))), _laplace_variance(1.0 / (rate * share))
    total = 0.0
    for size, weights in ((block, parts[0]), (length - (length - 1) // block * block, parts[1])):
        counts = np.arange(size + 1)
        gamma = cell / (whole_block + size * cell) if cell else 0.0
        total += float((weights[: size + 1] * (counts * cell - counts**2 * cell * gamma)).sum())
    return total


@dataclass(frozen=True, kw_only=True)
class Periods:
    """Series of the same cells: for each, sums over the `ranges` of every kind, by name; single cells come first.

    `sizes` are those of the grouping columns, `axis` the place of the days among them.
    """

    sizes: tuple[int, ...]
    axis: int
    ranges: tuple[tuple[str, tuple[Range, ...]], ...]

    order = slice(None)

    @property
    def length(self) -> int:
        """How many cells a series has."""
        return self.sizes[self.axis]

    @property
    def series(self) -> int:
        """How many series there are."""
        return math.prod(self.sizes) // self.length

    @cached_property
    def wanted(self) -> tuple[Range, ...]:
        """All ranges."""
        return tuple(each for _, ranges in self.ranges for each in ranges)

    @cached_property
    def sums(self) -> Identities:
        """A running total is the one before it and a cell; a period is the sum of its cells."""
        one: list[tuple[int, list[int]]] = []
        place = 0
        for number, (_, ranges) in enumerate(self.ranges):
            for at, (first, stop) in enumerate(ranges):
                follows = at > 0 and ranges[at - 1] == (first, stop - 1)
                parts = [place - 1, stop - 1] if follows else list(range(first, stop))
                if number:
                    one.append((place, parts))
                place += 1
        return Identities.of(
            (total + start, [part + start for part in parts])
            for start in range(0, place * self.series, place)
            for total, parts in one
        )

    def tables(self, finest: Wholes) -> Wholes:
        """The cells of each series."""
        table = finest.reshape(self.sizes)
        return np.moveaxis(table, self.axis, -1).reshape(-1, self.length)

    def drift(self, strategy: Strategy) -> Drift | None:
        """By the energy of the noise in one series; none where this many numbers are rounded part by part."""
        return energy_drift(strategy.variances, self.sums) if len(strategy.variances) <= DIVIDED else None

    @property
    def kinds(self) -> list[tuple[str, slice]]:
        """The kinds of sums, in the first series."""
        ends = np.cumsum([len(ranges) for _, ranges in self.ranges]).tolist()
        return list(zip((name for name, _ in self.ranges), map(slice, [0, *ends], ends), strict=True))

    def to_dict(self) -> dict[str, object]:
        ends = [end for each in self.wanted for end in each]
        return {"sizes": list(self.sizes), "axis": self.axis, "ranges": listed(ends)}


_TREE_ROUNDS = 100
_TREE_GRID = 256  # scales are powers of 2^(1/256), so that few of them are different
_UNMEASURED = 1e-5  # a node whose share of its path's budget is below this is not measured


@lru_cache(maxsize=16)
def design_tree(
    tree: Tree, *, budget: Fraction | float, account: NoiseAccount, contributions: Contributions | None = None
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
    >>> found = strategy.answers(strategy.draw([30, 10, 20])).numerators  # the leaves are the nodes 2, 3 and 4
    >>> found[3] + found[4] == found[1], found[1] + found[2] == found[0]
    (True, True)
    """
    limit, bounds = Fraction(budget), contributions or Contributions()
    gaussian = account is NoiseAccount.GAUSSIAN
    rates = _best_rates(tree, bounds.cells if gaussian else 0)
    with np.errstate(divide="ignore"):
        exact = np.where(rates > 0.0, 1.0 / np.sqrt(rates) if gaussian else 1.0 / rates, 0.0)
        scales = np.where(rates > 0.0, 2.0 ** (np.rint(np.log2(exact) * _TREE_GRID) / _TREE_GRID), 0.0)
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
        options={"maxiter": _TREE_ROUNDS, "ftol": 1e-8},
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
