"""Staircase noise in whole steps: its masses, tails and partial moments, as closed forms over arrays.

With `steps` = k steps to a sensitivity, `plateau` = r steps to the first stair and rho = e^-epsilon, the noise X has

    P(X = x) = a rho^level(|x|),  level(i) = floor((i + k - r) / k),  a = (1 - rho) / ((2 r - 1)(1 - rho) + 2 k rho).

So P(X >= m + k) = rho P(X >= m) for m >= 0, and every sum over tails is that of one period times a geometric series.
All terms are positive: nothing cancels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from rangebound.values.array_types import Floats, np, npt

_GONE = 800.0  # e^-800 is zero in doubles: tails beyond this many levels add nothing
_SERIES = 0.01  # below it a sum of j rho^j is taken as a series, above it the closed form loses less than 1e-11


@dataclass(frozen=True)
class StairSums:
    """Sums over staircase noise with `steps` steps to a level, `plateau` to the first one, and the level ratio e^-rate.

    >>> round(float(StairSums(1, 1, 1.0).mass(np.asarray(0.0))), 6)  # discrete Laplace noise of scale 1
    0.462117
    """

    steps: int
    plateau: int
    rate: float

    @cached_property
    def rho(self) -> float:
        """The ratio of the masses of two successive levels."""
        return math.exp(-self.rate)

    @cached_property
    def top(self) -> float:
        """P(X = 0), the largest mass."""
        loss = -math.expm1(-self.rate)
        return loss / ((2 * self.plateau - 1) * loss + 2.0 * self.steps * self.rho)

    @cached_property
    def _tails(self) -> Floats:
        """P(X >= m) for m = 0, ..., k: the sum of the masses from m to k - 1 and of all periods after."""
        weights = np.where(np.arange(self.steps) < self.plateau, 1.0, self.rho)
        rest = weights.sum() * self.rho / -math.expm1(-self.rate)
        inside = np.append(np.cumsum(weights[::-1])[::-1], 0.0)
        found: Floats = self.top * (inside + rest)
        return found

    @cached_property
    def _firsts(self) -> Floats:
        """The sum of P(X >= m) over m = 1, ..., s, for s = 0, ..., k."""
        return np.append(0.0, np.cumsum(self._tails[1:]))

    @cached_property
    def _seconds(self) -> Floats:
        """The sum of (2 m - 1) P(X >= m) over m = 1, ..., s, for s = 0, ..., k."""
        return np.append(0.0, np.cumsum((2.0 * np.arange(1, self.steps + 1) - 1.0) * self._tails[1:]))

    def mass(self, place: Floats) -> Floats:
        """P(X = place), for whole numbers."""
        level = np.floor((np.abs(place) + (self.steps - self.plateau)) / self.steps)
        return self.top * np.exp(-self.rate * level)

    def tail(self, place: Floats) -> Floats:
        """P(X >= place), for whole numbers from 0 on."""
        level, within = self._split(place)
        found: Floats = np.exp(-self.rate * level) * self._tails[within]
        return found

    def first(self, room: Floats) -> Floats:
        """E min(X+, room), for whole numbers from 0 on, or infinity."""
        level, within = self._split(room)
        found: Floats = self._firsts[-1] * self._series(level) + np.exp(-self.rate * level) * self._firsts[within]
        return found

    def second(self, room: Floats) -> Floats:
        """E min(X+, room)^2, for whole numbers from 0 on, or infinity."""
        level, within = self._split(room)
        whole = self._seconds[-1] * self._series(level) + 2.0 * self.steps * self._firsts[-1] * self._rising(level)
        part = self._seconds[within] + 2.0 * self.steps * level * self._firsts[within]
        found: Floats = whole + np.exp(-self.rate * level) * part
        return found

    def _split(self, place: Floats) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Whole periods and the steps left over; places where nothing is left are all one."""
        near = np.minimum(place, self.steps * math.ceil(_GONE / self.rate))
        level = np.floor(near / self.steps)
        return level, np.clip(near - level * self.steps, 0, self.steps).astype(np.int64)

    def _series(self, level: Floats) -> Floats:
        """The sum of rho^j over j < level."""
        return np.expm1(-self.rate * level) / math.expm1(-self.rate)

    def _rising(self, level: Floats) -> Floats:
        """The sum of j rho^j over j < level."""
        loss = -math.expm1(-self.rate)
        far = (
            self.rho * self._series(np.maximum(level - 1.0, 0.0)) - (level - 1.0) * np.exp(-self.rate * level)
        ) / loss
        last = level - 1.0
        powers = [
            last * level / 2.0,
            last * level * (2.0 * last + 1.0) / 6.0,
            (last * level / 2.0) ** 2,
            last * level * (2.0 * last + 1.0) * (3.0 * last * level - 1.0) / 30.0,
            (last * level) ** 2 * (2.0 * last * level - 1.0) / 12.0,
        ]
        near = sum((-self.rate) ** i / math.factorial(i) * each for i, each in enumerate(powers))
        return np.where(level <= 0.0, 0.0, np.where(self.rate * level < _SERIES, near, far))


def best_plateau(steps: int, rate: float, squared: bool) -> int:
    """The plateau, in steps, of the staircase noise with the smallest mean absolute (or squared) error on the line.

    Guarantee: the smallest over all whole numbers from 1 to `steps`, up to the last digits of doubles. In the limit
    of small steps the share of the plateau is 1 / (1 + e^(epsilon / 2)) for the absolute error [geng2016].

    >>> best_plateau(1, 1.0, False), best_plateau(1000, 2.0, False)
    (1, 269)
    """
    rho, loss = math.exp(-rate), -math.expm1(-rate)
    place = np.arange(steps, dtype=np.float64)
    # Over one period i < k and the levels j: sums of rho^j (i + j k), or of its square.
    zero, one, two = 1.0 / loss, rho / loss**2, rho * (1.0 + rho) / loss**3
    sums = place * zero + steps * one
    if squared:
        sums = place**2 * zero + 2.0 * steps * place * one + steps**2 * two
    high, low = np.cumsum(sums), sums.sum()
    plateau = np.arange(1, steps + 1)
    top = 1.0 / (2 * plateau - 1 + 2.0 * steps * rho / loss)
    return int(plateau[np.argmin(top * (high + rho * (low - high)))])
