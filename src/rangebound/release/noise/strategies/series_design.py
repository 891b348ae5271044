"""The best measurements of series for wanted sums: the optimal Gram matrix, or a Laplace tree of two levels."""

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
