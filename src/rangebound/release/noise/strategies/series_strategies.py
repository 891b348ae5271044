"""Series of days, of which sums of consecutive cells are wanted: days, weeks, months, running totals.

In a Gaussian account a series is measured through a triangular matrix of whole numbers. The measurements are A x, A
lower triangular with whole entries, each with noise of one scale; x is found again by forward substitution, and every
sum of consecutive cells from it. The privacy cost is the largest v' X v / scale^2 with X = A' A, over moves v of at
most g cells by 0 to r each. With c_j the sum of the g largest positive entries of row j,

    v' X v <= r^2 g min(max of c_j, lambda),  lambda >= every eigenvalue of X:

v' X v = sum over the moved j of v_j (X v)_j, and (X v)_j <= r c_j; and |v|^2 <= r^2 g. The largest row sum of |X| in
any positive weights u, max of (|X| u)_j / u_j, is not below an eigenvalue of X.
A replaced unit moves by the difference of two such: 2 r^2 g min(max of c_j + d, lambda), where d is the largest sum of
the g largest entries of a row of -X that are positive.

In a pure account it is measured by cells and by blocks of cells: a Laplace tree of two levels. Cells x_d have noise of
variance a, sums of blocks of k consecutive cells noise of variance b. Least squares adds to every cell of a block the
same part of what the block's measurement and the sum of its cells differ by:

    x_d + gamma (y_block - sum of y_d),  gamma = a / (b + k a).

The sum of j cells of a block then has the variance  j a (1 - j gamma)^2 + (k - j) a (j gamma)^2 + b (j gamma)^2, and
sums from different blocks are independent. A row is in one cell and in one block, so a unit's privacy loss is at most
r g (1 / cell scale + 1 / block scale), and twice that where it is replaced.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rangebound.release.noise.draw import Bits
from rangebound.release.noise.joint_loss import Contributions, JointLoss, NoiseAccount, added_up, layer_loss
from rangebound.release.noise.strategies.strategy import (
    ExactAnswers,
    LatticeNoise,
    Strategy,
    Wholes,
    clamped_counts,
    excess_of_continuous,
    laplace_radius,
    listed,
    measured_radius,
    published,
    wholes,
)
from rangebound.sampling.entropy import secure_bits
from rangebound.values.array_types import Floats, Integers
from rangebound.values.numeric import rounded_up

Range = tuple[int, int]
"""The first cell of a sum, and the one after its last."""


def sums(cells: Wholes, ranges: Sequence[Range]) -> Wholes:
    """The sums of whole numbers over ranges of the last axis.

    >>> sums(wholes([1, 2, 4]), [(0, 2), (1, 3)]).tolist()
    [3, 6]
    """
    zero = np.zeros((*cells.shape[:-1], 1), dtype=object)
    totals = np.concatenate([zero, np.cumsum(cells, axis=-1)], axis=-1)
    ends: npt.NDArray[np.intp] = np.array(ranges, dtype=np.intp)
    found: Wholes = totals[..., ends[:, 1]] - totals[..., ends[:, 0]]
    return found


LARGEST = 2**16
"""No entry of the matrix is larger, so that products of two of its columns are exact in doubles."""
_FRACTION = 64  # bits behind the point in the forward substitution
_POWER_STEPS = 40
_WEIGHT = 2**20


@dataclass(frozen=True, kw_only=True)
class FactorStrategy(Strategy):
    """Sums over `ranges` of each series, from measurements by the rows of a triangular `factor` of whole numbers.

    Row i of the factor has i + 1 entries, the last of them positive. `design_series` finds a good one; it is data of
    the strategy, since the optimum is computed in floating point and may differ in a digit between machines.

    Guarantee: what `draw` returns is mu-GDP with mu^2 = `cost`, which is computed in whole numbers; `answers` are the
    same on every machine, add up exactly, and are unbiased to 2^-60 of the noise; `variances` are theirs to 1e-9.
    Assumes: counts are the finest ones, one row per series, in which `contributions` hold over all series together.
    """

    account: NoiseAccount = field(default=NoiseAccount.GAUSSIAN, init=False)
    factor: tuple[tuple[int, ...], ...]
    ranges: tuple[Range, ...]
    scale: float
    series: int = 1

    def __post_init__(self) -> None:
        assert self.noise.scale == self.scale  # which it checks
        assert all(len(row) == at and row[-1] > 0 for at, row in enumerate(self.factor, 1))
        assert max(abs(each) for row in self.factor for each in row) <= LARGEST

    @cached_property
    def noise(self) -> LatticeNoise:
        """The noise of every measurement."""
        return LatticeNoise(account=NoiseAccount.GAUSSIAN, scale=self.scale)

    @property
    def noises(self) -> tuple[LatticeNoise, ...]:
        return (self.noise,)

    @cached_property
    def steps(self) -> Floats:
        return np.full(self.series * len(self.factor), self.noise.step)

    @cached_property
    def matrix(self) -> Integers:
        """The factor as a matrix."""
        found = np.zeros((len(self.factor), len(self.factor)), dtype=np.int64)
        for at, row in enumerate(self.factor):
            found[at, : at + 1] = row
        return found

    @cached_property
    def cost(self) -> Fraction:
        return Fraction(squared_length(self.matrix, self.contributions)) / Fraction(self.scale) ** 2

    def draw(self, counts: npt.ArrayLike, bits: Bits = secure_bits) -> Floats:
        most = 2**61 // int(np.abs(self.matrix).sum(axis=1).max())
        cells = clamped_counts(counts, len(self.factor), most, self.series)
        exact = wholes(cells.astype(np.int64) @ self.matrix.T)
        return published(self.noise.measured(exact, bits), self.noise.step).ravel()

    def answers(self, drawn: npt.ArrayLike) -> ExactAnswers:
        """All wanted sums, series by series."""
        cells = self.in_steps(drawn).reshape(self.series, -1).T << _FRACTION
        for at, row in enumerate(self.factor):  # forward substitution in whole numbers, each rounded down
            if at:
                cells[at] = cells[at] - np.tensordot(np.array(row[:at], dtype=object), cells[:at], axes=1)
            cells[at] = cells[at] // row[at]
        found = sums(cells.T, self.ranges).ravel()
        return ExactAnswers(numerators=found, denominator=int(1 / self.noise.step) << _FRACTION)

    @cached_property
    def variances(self) -> Floats:
        """The variance of the noise times the squared length of the row of W A^-1 of each wanted sum.

        The inverse is made by sums and products of doubles one by one, in a fixed order: the same on every machine.
        """
        own = [self.noise.variance * each for each in squared_rows(self.matrix, self.ranges)]
        return np.tile(own, self.series)

    def words(self) -> str:
        return "Gaussian noise through a triangular factor"

    def to_dict(self) -> dict[str, object]:
        factor = listed([entry for row in self.factor for entry in row])
        return {"strategy": "factor", "factor": factor, "scale": self.scale}


def squared_length(matrix: Integers, contributions: Contributions) -> int:
    """The bound of v' A' A v in the module's docstring: whole numbers, and the same on every machine."""
    doubles = matrix.astype(np.float64)
    square = (doubles.T @ doubles).astype(np.int64)  # exact in any order: whole numbers below 2^53
    rows, cells = contributions.rows, min(contributions.cells, len(matrix))
    own = _largest_sums(square, cells)
    radius = _spectral_radius(square)
    if not contributions.replaced:
        return rows**2 * contributions.cells * min(own, radius)
    return 2 * rows**2 * contributions.cells * min(own + _largest_sums(-square, cells), radius)


def _largest_sums(square: Integers, count: int) -> int:
    """The largest sum of this many entries of a row, those that are positive."""
    highest = np.partition(square, len(square) - count, axis=1)[:, len(square) - count :]
    return int(np.maximum(highest, 0).sum(axis=1).max())


def _spectral_radius(square: Integers) -> int:
    """An upper bound of the largest eigenvalue: max of (|X| u) / u for whole positive u, found by power iteration."""
    size = np.abs(square)
    bits = int(size.max()).bit_length() + len(size).bit_length() + _WEIGHT.bit_length()
    coarse = (size >> max(0, bits - 53)).astype(np.float64)  # products and sums are whole, and exact in any order
    weights = np.full(len(size), float(_WEIGHT))
    for _ in range(_POWER_STEPS):
        after = coarse @ weights
        weights = np.maximum(after // (after.max() // _WEIGHT + 1.0), 1.0)
    whole = np.int64 if bits <= 62 else object  # the weights may be any: only the last line has to be exact
    moved = size.astype(whole) @ weights.astype(np.int64).astype(whole)
    return max(-(-int(a) // int(u)) for a, u in zip(moved.tolist(), weights.tolist(), strict=True))


def squared_rows(matrix: Integers, ranges: Sequence[Range]) -> list[float]:
    """The squared length of each row of W A^-1."""
    inverse = np.zeros(matrix.shape)
    left = np.eye(len(matrix))
    doubles = matrix.astype(np.float64)
    for at in range(len(matrix)):
        inverse[at, : at + 1] = left[at, : at + 1] / doubles[at, at]
        left[at + 1 :, : at + 1] -= doubles[at + 1 :, at, None] * inverse[at, : at + 1]
    totals = np.zeros((len(matrix) + 1, len(matrix)))
    np.cumsum(inverse, axis=0, out=totals[1:])
    return [math.fsum(((totals[stop] - totals[first]) ** 2).tolist()) for first, stop in ranges]


_GAMMA = 2**30
_MOST = 2**52


@dataclass(frozen=True, kw_only=True)
class BlockStrategy(Strategy):
    """Sums over `ranges` of each series, from noisy cells and noisy blocks of `block` cells (the last may be shorter).

    Without a `block_scale` the cells alone are measured. `design_series` finds block and scales.

    Guarantee: what `draw` returns is `cost`-private in pure form; `answers` are exact, unbiased and add up;
    `variances` are theirs, rounded up.
    Assumes: counts are the finest ones, one row per series, in which `contributions` hold over all series together.
    """

    account: NoiseAccount = field(default=NoiseAccount.PURE, init=False)
    length: int
    block: int
    ranges: tuple[Range, ...]
    cell_scale: float
    block_scale: float | None
    series: int = 1

    @cached_property
    def noises(self) -> tuple[LatticeNoise, ...]:
        """The noise of cells and, where they are measured, of blocks."""
        scales = [each for each in (self.cell_scale, self.block_scale) if each is not None]
        return tuple(LatticeNoise(account=NoiseAccount.PURE, scale=each) for each in scales)

    @property
    def cost(self) -> Fraction:
        """An upper bound that some unit attains."""
        return self.contributions.reach * sum((1 / Fraction(each.scale) for each in self.noises), Fraction(0))

    @cached_property
    def loss(self) -> JointLoss:
        """What a unit can lose by its cells and by its blocks; see `layer_loss`."""
        layers = zip(self.noises, (1, self.block), (self.length, len(self.starts)), strict=False)
        return added_up(
            layer_loss(noise.scale, capacity=capacity, nodes=nodes * self.series, bounds=self.contributions)
            for noise, capacity, nodes in layers
        )

    @cached_property
    def steps(self) -> Floats:
        return np.ones(self.series * (self.length + (len(self.starts) if self.block_scale is not None else 0)))

    @property
    def starts(self) -> npt.NDArray[np.intp]:
        """The first cell of each block."""
        return np.arange(0, self.length, self.block)

    def draw(self, counts: npt.ArrayLike, bits: Bits = secure_bits) -> Floats:
        """For each series the noisy cells, and behind them the noisy blocks."""
        cells = clamped_counts(counts, self.length, _MOST, self.series)
        parts = [cells, np.add.reduceat(cells, self.starts, axis=-1)]
        noisy = [noise.measured(part, bits) for part, noise in zip(parts, self.noises, strict=False)]
        return published(np.concatenate(noisy, axis=-1), 1.0).ravel()

    def answers(self, drawn: npt.ArrayLike) -> ExactAnswers:
        """All wanted sums, series by series."""
        noisy = self.in_steps(drawn).reshape(self.series, -1)
        cells: Wholes = noisy[:, : self.length] * _GAMMA
        if self.block_scale is not None:
            gap = noisy[:, self.length :] - np.add.reduceat(noisy[:, : self.length], self.starts, axis=-1)
            sizes = np.diff([*self.starts.tolist(), self.length])
            gammas = np.array([self._gamma(each) for each in sizes.tolist()], dtype=object)
            cells = cells + np.repeat(gap * gammas, sizes, axis=-1)
        return ExactAnswers(numerators=sums(cells, self.ranges).ravel(), denominator=_GAMMA)

    @cached_property
    def variances(self) -> Floats:
        """Rounded up."""
        last = int(self.starts[-1])
        regular = [self._part(j, self.block) for j in range(self.block + 1)]
        final = [self._part(j, self.length - last) for j in range(self.length - last + 1)]
        found = []
        for first, stop in self.ranges:
            table = final if stop > last else regular
            begin, end = first // self.block, (stop - 1) // self.block
            if begin == end:
                found.append(table[stop - first])
                continue
            head, tail = regular[(begin + 1) * self.block - first], table[stop - end * self.block]
            found.append(head + (end - begin - 1) * regular[self.block] + tail)
        return np.tile([rounded_up(each) for each in found], self.series)

    def radii(self, level: float) -> Floats:
        """By moments; exact for single cells without blocks.

        No cell has a weight above 1, and a block of k cells none above k a / (b + k a), for variances a and b.
        """
        cell, block = self.noises[0], self.noises[-1]
        part = self.block * cell.variance / (block.variance + self.block * cell.variance)
        largest = np.full(len(self.variances), max(cell.scale, block.scale * part) * (1.0 + 1e-9))
        found = laplace_radius(self.variances / 2.0 * excess_of_continuous(self.noises), largest, level)
        if self.block_scale is not None:
            return found
        single = np.tile([stop - first == 1 for first, stop in self.ranges], self.series)
        return np.where(single, measured_radius(cell.scale, level), found)

    def words(self) -> str:
        blocks = "" if self.block_scale is None else f" and on blocks of {self.block}"
        return f"discrete Laplace noise on the days{blocks}"

    def to_dict(self) -> dict[str, object]:
        scales = {"cell_scale": self.cell_scale, "block_scale": self.block_scale}
        return {"strategy": "blocks", "block": self.block, **scales}

    def _gamma(self, size: int) -> int:
        """gamma of a block, in 2^-30."""
        if self.block_scale is None:
            return 0
        cell, block = (Fraction(each.variance) for each in self.noises)
        return int(_GAMMA * cell / (block + size * cell))

    def _part(self, count: int, size: int) -> Fraction:
        """The variance of the sum of some cells of one block."""
        cell, share = Fraction(self.noises[0].variance), count * Fraction(self._gamma(size), _GAMMA)
        block = Fraction(self.noises[-1].variance)
        return count * cell * (1 - share) ** 2 + (size - count) * cell * share**2 + block * share**2
