"""A series measured through a triangular matrix of whole numbers, in a Gaussian account.

The measurements are A x, A lower triangular with whole entries, each with noise of one scale; x is found again by
forward substitution, and every sum of consecutive cells from it. The privacy cost is the largest v' X v / scale^2 with
X = A' A, over moves v of at most g cells by 0 to r each. With c_j the sum of the g largest positive entries of row j,

    v' X v <= r^2 g min(max of c_j, lambda),  lambda >= every eigenvalue of X:

v' X v = sum over the moved j of v_j (X v)_j, and (X v)_j <= r c_j; and |v|^2 <= r^2 g. The largest row sum of |X| in
any positive weights u, max of (|X| u)_j / u_j, is not below an eigenvalue of X.
A replaced unit moves by the difference of two such: 2 r^2 g min(max of c_j + d, lambda), where d is the largest sum of
the g largest entries of a row of -X that are positive.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rangebound.errors import ArgumentError
from rangebound.release.noise.strategies.contributions import Contributions, NoiseAccount
from rangebound.release.noise.strategies.lattice_noise import (
    Bits,
    ExactAnswers,
    LatticeNoise,
    Wholes,
    published,
    wholes,
)
from rangebound.release.noise.strategies.ranges import Range, check_ranges, clamped_counts, sums
from rangebound.release.noise.strategies.strategy import Strategy, listed
from rangebound.sampling.entropy import secure_bits
from rangebound.values.array_types import Floats, Integers

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
        check_ranges(self.length, self.ranges)
        for at, row in enumerate(self.factor):
            if len(row) != at + 1 or row[-1] < 1 or max(map(abs, row)) > LARGEST:
                raise ArgumentError(
                    f"factor row {at}: must have as many whole numbers as its place says, up to {LARGEST}"
                )
        object.__setattr__(self, "scale", self.noise.scale)  # which checks it

    @property
    def length(self) -> int:
        """How many cells a series has."""
        return len(self.factor)

    @cached_property
    def noise(self) -> LatticeNoise:
        """The noise of every measurement."""
        return LatticeNoise(account=NoiseAccount.GAUSSIAN, scale=self.scale)

    @property
    def noises(self) -> tuple[LatticeNoise, ...]:
        return (self.noise,)

    @cached_property
    def steps(self) -> Floats:
        return np.full(self.series * self.length, self.noise.step)

    @cached_property
    def matrix(self) -> Integers:
        """The factor as a matrix."""
        found = np.zeros((self.length, self.length), dtype=np.int64)
        for at, row in enumerate(self.factor):
            found[at, : at + 1] = row
        return found

    @cached_property
    def cost(self) -> Fraction:
        return Fraction(squared_length(self.matrix, self.contributions)) / Fraction(self.scale) ** 2

    def draw(self, counts: npt.ArrayLike, bits: Bits = secure_bits) -> Floats:
        most = 2**61 // int(np.abs(self.matrix).sum(axis=1).max())
        cells = clamped_counts(counts, self.length, most, self.series)
        exact = wholes(cells.astype(np.int64) @ self.matrix.T)
        return published(self.noise.measured(exact, bits), self.noise.step).ravel()

    def answers(self, drawn: npt.ArrayLike) -> ExactAnswers:
        """All wanted sums, series by series."""
        noisy = self.in_steps(drawn).reshape(self.series, self.length)
        cells = _substituted(self.matrix, noisy.T << _FRACTION).T
        found = sums(cells, self.ranges).ravel()
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
    """The largest sum of so many entries of a row, those that are positive."""
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


def _substituted(matrix: Integers, noisy: Wholes) -> Wholes:
    """A^-1 y along the first axis, by forward substitution in whole numbers, each rounded down."""
    cells = noisy.copy()
    for at, row in enumerate(matrix.tolist()):
        if at:
            cells[at] = cells[at] - np.tensordot(np.array(row[:at], dtype=object), cells[:at], axes=1)
        cells[at] = cells[at] // row[at]
    return cells


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
