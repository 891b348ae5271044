"""A series measured by cells and by blocks of cells, in a pure account: a Laplace tree of two levels.

Cells x_d have noise of variance a, sums of blocks of k consecutive cells noise of variance b. Least squares adds to
every cell of a block the same part of what the block's measurement and the sum of its cells differ by:

    x_d + gamma (y_block - sum of y_d),  gamma = a / (b + k a).

The sum of j cells of a block then has the variance  j a (1 - j gamma)^2 + (k - j) a (j gamma)^2 + b (j gamma)^2, and
sums from different blocks are independent. A row is in one cell and in one block, so a unit's privacy loss is at most
r g (1 / cell scale + 1 / block scale), and twice that where it is replaced.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rangebound.errors import ArgumentError
from rangebound.release.noise.joint_loss import JointLoss, added_up
from rangebound.release.noise.strategies.contributions import Contributions, NoiseAccount, whole
from rangebound.release.noise.strategies.exact_answers import ExactAnswers
from rangebound.release.noise.strategies.lattice_noise import Bits, LatticeNoise, Wholes, admits, in_steps, published
from rangebound.release.noise.strategies.layer_loss import layer_loss
from rangebound.release.noise.strategies.ranges import Range, check_ranges, clamped_counts, sums
from rangebound.sampling.entropy import secure_bits
from rangebound.values.array_types import Floats
from rangebound.values.numeric import rounded_up

_GAMMA = 2**30
_MOST = 2**52


@dataclass(frozen=True, kw_only=True)
class BlockStrategy:
    """Sums over `ranges` of a series, from noisy cells and noisy blocks of `block` cells (the last may be shorter).

    Without a `block_scale` the cells alone are measured. `design_series` finds block and scales.

    Guarantee: what `draw` returns is `cost`-private in pure form; `answers` are exact, unbiased and add up;
    `variances` are theirs, rounded up.
    Assumes: counts are the finest ones (one series, or several along leading axes), in which `contributions` hold over
    all series together.
    """

    length: int
    block: int
    ranges: tuple[Range, ...]
    contributions: Contributions
    cell_scale: float
    block_scale: float | None

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
        """An upper bound of epsilon over all neighbouring datasets; some unit attains it."""
        bounds = self.contributions
        rate = sum((1 / Fraction(each.scale) for each in self.noises), Fraction(0))
        return bounds.rows * bounds.cells * rate * (2 if bounds.replaced else 1)

    def loss(self, series: int) -> JointLoss:
        """What a unit can lose, by its cells and by its blocks, of so many series; see `layer_loss`."""
        cells, *blocks = self.noises
        layers = [(cells, 1, self.length), *((each, self.block, len(self.starts)) for each in blocks)]
        return added_up(
            layer_loss(noise.scale, capacity=capacity, nodes=nodes * series, bounds=self.contributions)
            for noise, capacity, nodes in layers
        )

    @property
    def starts(self) -> npt.NDArray[np.intp]:
        """The first cell of each block."""
        return np.arange(0, self.length, self.block)

    def draw(self, counts: npt.ArrayLike, bits: Bits = secure_bits) -> Floats:
        """The noisy cells of exact counts, and behind them along the last axis the noisy blocks."""
        cells = clamped_counts(counts, self.length, _MOST)
        parts = [cells, np.add.reduceat(cells, self.starts, axis=-1)]
        noisy = [
            part + noise.draw(part.size, bits).reshape(part.shape)
            for part, noise in zip(parts, self.noises, strict=False)
        ]
        return published(np.concatenate(noisy, axis=-1), 1.0)

    def admits(self, drawn: Floats) -> bool:
        """Whether `draw` can return this array."""
        width = self.length + (len(self.starts) if self.block_scale is not None else 0)
        return bool(drawn.ndim) and drawn.shape[-1] == width and admits(drawn, 1.0)

    def answers(self, drawn: Floats) -> ExactAnswers:
        """All wanted sums, from the published measurements alone; the last axis has one for each range."""
        if not self.admits(drawn):
            raise ArgumentError("drawn: must be the array that draw returned")
        noisy = in_steps(drawn, 1.0)
        cells: Wholes = noisy[..., : self.length] * _GAMMA
        if self.block_scale is not None:
            gap = noisy[..., self.length :] - np.add.reduceat(noisy[..., : self.length], self.starts, axis=-1)
            sizes = np.diff([*self.starts.tolist(), self.length])
            gammas = np.array([self._gamma(each) for each in sizes.tolist()], dtype=object)
            cells = cells + np.repeat(gap * gammas, sizes, axis=-1)
        return ExactAnswers(numerators=sums(cells, self.ranges), denominator=_GAMMA)

    def variances(self) -> Floats:
        """The variance of each wanted sum, rounded up."""
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
        return np.array([rounded_up(each) for each in found])

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
