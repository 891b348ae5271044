"""Noisy counts around places of a grid, and what they say about where a quantile is: in the table, in a population.

At most `level` n of n rows drawn from a population are expected below its quantile. Let D be what is above that: the
number of rows below is no larger than a binomial one, B, in law, and if B + 1 - U - level n with U uniform on [0, 1] is
at least x >= 1 with some probability, more rows make it no smaller (tails of B are convex there: Jensen's inequality,
row by row). Let S be the noise on D. Where cells are cut follows from draws, and so from the rows: but however many
there are and are below, S is above x >= 0 no more often than noise on as many as there can be, each with the larger of
the two factors: symmetric noise with one mode is, if more is added [anderson1955]. So P(D + S > t) is at most that of
B+ + S+, both at least 0, independent of each other. Of units of up to r rows, which count in parts, D is r times that
of a sum of numbers from 0 to 1: no more than twice as likely, one number farther, as of a binomial one [jogdeo1968].
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from rangebound.release.noise.joint_loss import NoiseAccount
from rangebound.release.noise.noisy_coordinates import gaussian_length
from rangebound.release.noise.strategies.strategy import LatticeNoise, gaussian_beyond, gaussian_reach, laplace_radius
from rangebound.release.plan.kinds.facts import SampledCounts
from rangebound.release.plan.statistic import Sensitivity
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


def cells_reach(found: Sensitivity, cells: int, *, gaussian: bool) -> Fraction:
    """How far a unit moves counts of disjoint cells, in grains: in L1 with one step, or in L2 over all groups together.

    The sensitivity holds for any counts that are not negative and add up to a unit's rows, however they are spread over
    cells; rounding down to a grain moves each by less than one more.
    """
    moved = gaussian_length(found, float(GRAIN), cells) if gaussian else found.cell + cells * GRAIN
    return moved / GRAIN


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


_ROWS_PART = 0.1  # of what a level leaves: how often there may be more rows than they are taken for
_POINTS = 512  # of a law that is added to another
_REST = 2.0**-6  # the part of a probability that is left beyond these points


@lru_cache(maxsize=256)
def _noise_beyond(noise: LatticeNoise, cells: int, rest: float) -> tuple[float, Floats]:
    """How often the noise of this many cells is at multiples of a number of rows or above, at most; and that number.

    It is above sqrt(2 v l) + c l with probability e^-l at most, v its variance and c the scale of Laplace noise, 0 of
    Gaussian: that is the last multiple, for a probability of `rest`.
    """
    deviation, depth = math.sqrt(cells * noise.variance) * float(GRAIN), -math.log(rest)
    if noise.account is NoiseAccount.GAUSSIAN:
        far = np.linspace(0.0, math.sqrt(2.0 * depth), _POINTS + 1)
        return float(far[1]) * deviation, np.append(1.0, gaussian_beyond(far[1:]))
    far = np.linspace(0.0, math.sqrt(2.0 * depth) + depth / math.sqrt(2.0 * cells), _POINTS + 1)
    all_of_them = np.full(len(far), float(cells))
    found = laplace_beyond(far * math.sqrt(2.0 * cells), all_of_them, 0.0 * far, 0.0) + _SURE
    found[0] = 1.0
    return float(far[1]) * deviation, np.minimum.accumulate(np.minimum(found, 1.0))


def most_rows(noise: LatticeNoise, cells: int, seen: float, part: float) -> int:
    """How many rows there are at most, where noisy counts add up to `seen`: more with probability `part` or less.

    Of more than 255 their first 8 bits are rounded up.
    """
    step, beyond = _noise_beyond(noise, cells, part * _REST)
    far = step * int(np.argmax(beyond <= part)) if beyond[-1] <= part else math.inf
    found = max(math.ceil(min(seen + far, 2.0**60)), 0) + 1
    digit = 1 << max(found.bit_length() - 8, 0)
    return -(-found // digit) * digit


@lru_cache(maxsize=4096)
def sampled_reach(
    noise: LatticeNoise, cells: int, level: float, rows: int, sampled: SampledCounts, part: float
) -> float:
    """What D + S is above with probability `part` at most, for up to this many rows; see above. It may be infinite."""
    from scipy import special  # an import of rangebound stays light

    part, each = (part, 1.0) if sampled.single else (part / 2.0, float(sampled.rows))
    own, beyond = _noise_beyond(noise, cells, part * _REST)
    own *= max(level, 1.0 - level)
    depth, mean = -math.log(part * _REST), level * rows
    most = each * (math.sqrt(2.0 * mean * (1.0 - level) * depth) + depth + 1.0)
    step = (own * _POINTS + most) / _POINTS
    far = step * np.arange(_POINTS + 1)
    noisy = beyond[np.minimum(far / own, _POINTS).astype(int)]
    whole = np.floor(mean + far / each)
    over = mean + far / each - whole
    low, high = (
        np.where(at > 0.0, special.betainc(np.maximum(at, 1.0), np.maximum(rows - at + 1.0, 1.0), level), 1.0)
        * (at <= rows)
        for at in (whole, whole + 1.0)
    )
    drawn = np.where(far < each, 1.0, (1.0 - over) * low + over * high)
    found = np.convolve(noisy[:-1] - noisy[1:], drawn)[:_POINTS] + noisy[1:]
    if not found[-1] <= part:
        return math.inf
    return float(far[1:][np.argmax(found <= part)]) + (0.0 if sampled.single else each)


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
        return self._between(*(self._is_noise(each, confidence) for each in (self.offsets, -self.offsets)))

    def cells_of_population(self, confidence: float, sampled: SampledCounts, most: int) -> tuple[int, int]:
        """The same for the quantile of a population that the rows were drawn from, of `most` cells at most.

        Guarantee: the quantile is between them with probability `confidence` or more, for any number of rows, if units
        are independent. Each side has its part of what that leaves, and so has the number of rows.
        """
        part = _ROWS_PART * (1.0 - confidence)
        rows = most_rows(self.noise, len(self.rows), float(self.rows.sum()), part)
        side = (1.0 - confidence - part) / 2.0
        low, high = (
            sampled_reach(self.noise, most, level, rows, sampled, side) for level in (self.level, 1.0 - self.level)
        )
        return self._between(self.offsets <= low, -self.offsets <= high)

    def _between(self, lower: Bools, upper: Bools) -> tuple[int, int]:
        """The first and the last cell of those whose lower cut may be `lower`, and whose upper cut `upper`."""
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
