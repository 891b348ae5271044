"""The best measurements of a series for wanted sums: the optimal Gram matrix, or a Laplace tree of two levels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from rangebound.errors import ArgumentError, Unsatisfiable
from rangebound.release.noise.strategies.block_strategy import BlockStrategy
from rangebound.release.noise.strategies.contributions import (
    LARGER,
    Contributions,
    NoiseAccount,
    budget_of,
    within_budget,
)
from rangebound.release.noise.strategies.factor_strategy import FactorStrategy, squared_length
from rangebound.release.noise.strategies.ranges import Range, check_ranges
from rangebound.values.array_types import Floats, Integers
from rangebound.values.numeric import root_up

_QUANTUM = 2**12  # the largest entry of a factor
_CLOSE = 5e-4  # how far the total variance may be above the optimum
_ROUNDS = 100
_RIDGE = 1e-6  # of the mean diagonal, so that single cells can be found also where none is wanted
_MIXTURES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)


def design_series(
    length: int,
    ranges: Sequence[Range],
    *,
    budget: Fraction | float,
    account: NoiseAccount,
    contributions: Contributions | None = None,
    weights: Sequence[float] | None = None,
    series: int = 1,
) -> FactorStrategy | BlockStrategy:
    """The strategy that answers sums over ranges of each series with little total variance, each times its weight.

    Gaussian account, `budget` of mu^2: the Gram matrix of least total variance for one contribution is a fixed point
    [denisov2022]; its triangular factor is rounded to whole numbers. For several contributions it is compared, by the
    cost that is proved for them, with matrices between it and noise on single cells. Pure account, `budget` of
    epsilon: blocks of cells with noise beside the cells, with the best length and scales, or cells alone.

    Guarantee: `cost` of the strategy is at most `budget`, in exact arithmetic; never more total variance than noise on
    single cells has.
    Assumes: length, ranges, weights and contribution bounds are public.

    >>> from rangebound.release.noise.strategies.ranges import running_totals
    >>> strategy = design_series(5, running_totals(5), budget=1.0, account=NoiseAccount.PURE, series=2)
    >>> drawn = strategy.draw([[3, 0, 2, 4, 1], [0, 0, 0, 0, 9]])
    >>> len(strategy.answers(drawn).values), len(strategy.variances), strategy.cost <= 1
    (10, 10, True)
    """
    limit, bounds, wanted = budget_of(budget), contributions or Contributions(), tuple(ranges)
    check_ranges(length, wanted)
    shares = np.ones(len(wanted)) if weights is None else np.asarray(weights, dtype=np.float64)
    if shares.shape != (len(wanted),) or not ((shares > 0.0) & (shares < math.inf)).all():
        raise ArgumentError("weights: must be one positive number for each range")
    if account is NoiseAccount.PURE:
        return _blocks(length, wanted, limit, bounds, shares, series)
    rows, size = _best_factor(length, wanted, bounds, tuple(shares.tolist()))
    scale = root_up(Fraction(size) / limit)
    strategy = FactorStrategy(factor=rows, ranges=wanted, contributions=bounds, scale=scale, series=series)
    if strategy.cost > limit:
        raise Unsatisfiable(f"budget={float(limit)!r}: no scale was found that costs as much and not more")
    return strategy


@lru_cache(maxsize=8)
def _best_factor(
    length: int, ranges: tuple[Range, ...], contributions: Contributions, weights: tuple[float, ...]
) -> tuple[tuple[tuple[int, ...], ...], int]:
    """The factor and its squared length, which do not depend on the budget."""
    square = workload_square(length, ranges, np.array(weights))
    found = [np.eye(length, dtype=np.int64)]
    grams = [optimal_gram(square)]
    if contributions.cells > 1:
        grams += list(_mixtures(square))
    found += [_rounded_factor(each) for each in grams]
    best = min(found, key=lambda each: _score(each, square, contributions))
    rows = tuple(tuple(row[: at + 1]) for at, row in enumerate(best.tolist()))
    return rows, squared_length(best, contributions)


def workload_square(length: int, ranges: Sequence[Range], weights: Floats) -> Floats:
    """W' W of the wanted sums, each row times the root of its weight."""
    rows = np.zeros((len(ranges), length))
    for at, (first, stop) in enumerate(ranges):
        rows[at, first:stop] = math.sqrt(weights[at])
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
    length: int, ranges: tuple[Range, ...], limit: Fraction, bounds: Contributions, weights: Floats, series: int
) -> BlockStrategy:
    from scipy import optimize

    rate = float(limit) / bounds.reach
    ends = np.array(ranges)
    plain = _laplace_variance(1.0 / rate) * float(((ends[:, 1] - ends[:, 0]) * weights).sum())
    best = (plain, 1, 0.0)
    for block in range(2, length + 1):
        parts = _part_weights(length, block, ends, weights)
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


def _part_weights(length: int, block: int, ends: Integers, weights: Floats) -> tuple[Floats, Floats]:
    """How much weight sums of j cells of a block have, for blocks of full length and for the last one."""
    last = (length - 1) // block
    regular, final = np.zeros(block + 1), np.zeros(block + 1)
    begin, end = ends[:, 0] // block, (ends[:, 1] - 1) // block
    inside = begin == end
    in_last = end == last
    tails = np.where(inside, ends[:, 1] - ends[:, 0], ends[:, 1] - end * block)
    np.add.at(final, tails[in_last], weights[in_last])
    np.add.at(regular, tails[~in_last], weights[~in_last])
    across = ~inside
    np.add.at(regular, ((begin + 1) * block - ends[:, 0])[across], weights[across])
    regular[block] += float(((end - begin - 1) * weights)[across].sum())
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
