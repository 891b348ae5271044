"""A series measured by cells and by blocks of cells, in a pure account: a Laplace tree of two levels.

Cells x_d have noise of variance a, sums of blocks of k consecutive cells noise of variance b. Least squares adds to
every cell of a block the same part of what the block's measurement and the sum of its cells differ by:

    x_d + gamma (y_block - sum of y_d),  gamma = a / (b + k a).

The sum of j cells of a block then has the variance  j a (1 - j gamma)^2 + (k - j) a (j gamma)^2 + b (j gamma)^2, and
sums from different blocks are independent. A row is in one cell and in one block, so a unit's privacy loss is at most
r g (1 / cell scale + 1 / block scale), and twice that where it is replaced.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rangebound.release.noise.joint_loss import JointLoss, added_up
from rangebound.release.noise.strategies.contributions import NoiseAccount, layer_loss, whole
from rangebound.release.noise.strategies.laplace_tail import excess_of_continuous, laplace_radius, measured_radius
from rangebound.release.noise.strategies.lattice_noise import Bits, ExactAnswers, LatticeNoise, Wholes, published
from rangebound.release.noise.strategies.ranges import Range, check_ranges, clamped_counts, sums
from rangebound.release.noise.strategies.strategy import Strategy
from rangebound.sampling.entropy import secure_bits
from rangebound.values.array_types import Floats
from rangebound.values.numeric import rounded_up

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

    def __post_init__(self) -> None:
        check_ranges(self.length, self.ranges)
        whole("block", self.block)
        assert self.noises

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
