"""Noisy counts around places of a grid, and what they say about where a quantile is."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from rangebound.release.noise.joint_loss import NoiseAccount
from rangebound.release.noise.strategies.strategy import LatticeNoise, gaussian_reach, laplace_radius
from rangebound.values.array_types import Bools, Floats

DEFINITIONS = 1  # rows by which the usual definitions of a sample quantile differ from the rank level * n
GRAIN = Fraction(1, 2**20)  # of a row: rows of a unit that has too many count in parts


def cut_around(places: Sequence[int], size: int) -> list[int]:
    """Where the places of a grid are cut into cells: at every place in `places`, behind it, and 1, 2, 4, ... beyond.

    >>> cut_around([4], 12), cut_around([0, 1], 3)
    ([0, 2, 3, 4, 5, 6, 7, 9, 12], [0, 1, 2, 3])
    """
    away = (0, *(2**power for power in range(size.bit_length())))
    found = {cut for at in places for far in away for cut in (at - far, at + 1 + far)}
    return sorted({0, size} | {cut for cut in found if 0 < cut < size})


def most_cells(levels: int, size: int) -> int:
    return min(2 * levels * (size.bit_length() + 1) + 1, size)


_WAVES = (np.arange(640) + 0.5) * (math.tau / 80.0)
_SURE = 1e-6  # a probability that `laplace_beyond` finds is right to less


def laplace_beyond(far: Floats, below: Floats, above: Floats, level: float) -> Floats:
    """P(S > far) for S = (1 - level) A - level B, sums of `below` and of `above` draws of Laplace noise of scale 1.

    By the characteristic function of S, in standard deviations, on waves so long that only what lies 80 of
    them away is taken for what it is not, and as short as a fiftieth of one.

    >>> one = np.ones(1)
    >>> round(float(laplace_beyond(3.0 * one, 2.0 * one, 0.0 * one, 0.0)[0]), 6), round(2.5 / 2 * math.exp(-3.0), 6)
    (0.062234, 0.062234)
    """
    a, b = 1.0 - level, level
    deviation = np.sqrt(2.0 * (a * a * below + b * b * above))
    waves = _WAVES / deviation[..., None]
    logs = below[..., None] * np.log1p((a * waves) ** 2) + above[..., None] * np.log1p((b * waves) ** 2)
    reach = np.clip(far / deviation, -30.0, 30.0)[..., None]
    sums = (np.sin(_WAVES * reach) * np.exp(-logs) / _WAVES).sum(axis=-1)
    return np.asarray(0.5 - sums * (math.tau / 80.0) / math.pi)


@dataclass(frozen=True, kw_only=True)
class NoisyRanks:
    """What noisy counts in cells say about the rank `level` n: how many rows it is below each cut.

    `cuts` are places of the grid, 0 and their number included; `rows` are the noisy counts between them, with `noise`
    in grains of a row. `offsets` has b - level n for the b rows below each cut: at most 0 if the quantile is not below.
    """

    cuts: Sequence[int]
    rows: Floats
    level: float
    noise: LatticeNoise

    @cached_property
    def offsets(self) -> Floats:
        sums = np.append(0.0, np.cumsum(self.rows))
        return np.asarray(sums - self.level * sums[-1])

    @cached_property
    def _squares(self) -> Floats:
        """The variance of the offset of each cut, in those of a cell: each has noise of its own."""
        below = np.arange(float(len(self.cuts)))
        return np.asarray((1.0 - self.level) ** 2 * below + self.level**2 * below[::-1])

    @cached_property
    def _deviations(self) -> Floats:
        return np.asarray(np.sqrt(self.noise.variance * self._squares) * float(GRAIN))

    def _is_noise(self, offsets: Floats, confidence: float) -> Bools:
        """Whether noise is this large with probability (1 - confidence) / 2 or more; one row aside."""
        far, below = offsets - DEFINITIONS, np.arange(float(len(offsets)))
        if self.noise.account is NoiseAccount.GAUSSIAN:
            return np.asarray(far <= gaussian_reach(confidence) * self._deviations)
        beyond = laplace_beyond(far / (self.noise.scale * float(GRAIN)), below, below[::-1], self.level)
        return np.asarray(beyond >= (1.0 - confidence) / 2.0 - _SURE)

    def cells(self, confidence: float) -> tuple[int, int]:
        """The first and the last cell in which the quantile may lie; all of them where there is none.

        Guarantee: the quantile is between them with probability `confidence` or more, by every usual definition: the
        offset is at most a row above 0 at the lower cut of its cell, and at most one below at the upper cut. What the
        cells are may follow from draws that were made before, of which the noise is independent.
        """
        lower, upper = (self._is_noise(each, confidence) for each in (self.offsets, -self.offsets))
        lower[0] = upper[-1] = True  # no value counts below the first cut, or above the last
        (found,) = np.nonzero(lower[:-1] & upper[1:])
        return (int(found[0]), int(found[-1])) if len(found) else (0, len(self.rows) - 1)

    def place(self, at: int, rate: Fraction) -> int:
        """The place of the quantile, by the counts and by the place that was drawn at `rate`, together.

        A draw misses the rank by r rows with a probability that falls as e^(-rate r). This and the noisy counts make a
        law of where the rank is; its median says how many rows to go.
        """
        cell = bisect_right(self.cuts, at) - 1
        own, slope = max(float(self.rows[cell]), 0.0), float(rate)
        deviation, seen = float(self._deviations[cell]), -float(self.offsets[cell])
        low = max(seen - 8.0 * deviation, min(seen, 0.0) - 40.0 / slope)
        high = min(seen + 8.0 * deviation, max(seen, own) + 40.0 / slope)
        rows = np.linspace(low, high, 513)
        missed = np.maximum(np.maximum(-rows, rows - own), 0.0)
        depths = slope * missed + ((rows - seen) / deviation) ** 2 / 2.0
        law = np.cumsum(np.exp(depths.min() - depths))
        median = float(rows[np.searchsorted(law, law[-1] / 2.0)])
        if median < 0.0:
            return self._walk(cell, -1, -median)
        return self._walk(cell, 1, median - own) if median > own else at

    def _walk(self, cell: int, way: int, rows: float) -> int:
        """The place that is this many rows beyond a cell."""
        while 0 <= cell + way < len(self.rows):
            cell += way
            own, (first, last) = max(float(self.rows[cell]), 0.0), (self.cuts[cell], self.cuts[cell + 1] - 1)
            if rows < own:
                gone = math.floor((last - first + 1) * rows / own)
                return min(first + gone, last) if way > 0 else max(last - gone, first)
            rows -= own
        return self.cuts[cell] if way < 0 else self.cuts[cell + 1] - 1

    def rank_error(self, at: int, confidence: float) -> float:
        """How many rows lie between a place and the quantile at most, with this probability."""
        cell, level = bisect_right(self.cuts, at) - 1, (1.0 + confidence) / 2.0
        if self.noise.account is NoiseAccount.GAUSSIAN:
            reach = gaussian_reach(level) * self._deviations
        else:
            scale = self.noise.scale * float(GRAIN)
            reach = laplace_radius(scale**2 * self._squares, scale * max(self.level, 1.0 - self.level), level)
        return float((np.abs(self.offsets) + reach)[cell : cell + 2].max())
