"""Partition selection: which groups may be named at all, decided by how many units they have.

Groups that may be named because their noisy count is large: a selection that a published count pays for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from flint import arb

from rangebound.errors import ArgumentError, CertificateInvalid
from rangebound.release.noise.draw import Bits, Draw, Key
from rangebound.values.ball import Ball, ball, precision, up
from rangebound.values.roots import first_above

_UNIT_BITS, _RATIO_BITS, _CHECK_BITS = 128, 96, 192
WHOLE = 1 << _UNIT_BITS
"""Probability one, in the whole numbers that probabilities are computed in."""
_LONGEST = 1_000_000


@dataclass(frozen=True, kw_only=True)
class PartitionSelection:
    """Name a key with n units with probability probabilities[n] / 2^128; beyond the last one, with the last.

    Guarantee: none by itself; `check` proves that a claim holds.
    """

    probabilities: tuple[int, ...]

    def select(self, units: Mapping[Key, int], bits: Bits) -> tuple[Key, ...]:
        """The keys that may be named, in order; each is drawn on its own by its number of units."""
        last = len(self.probabilities) - 1
        return tuple(key for key in sorted(units) if bits(_UNIT_BITS) < self.probabilities[min(units[key], last)])

    def check(self, epsilon: float, delta: float) -> None:
        """Refuse a selection that is not (epsilon, delta)-private for a unit in one group.

        With p the probability of naming a key for n units and q for n + 1: p <= e^epsilon q + delta and
        q <= e^epsilon p + delta, and the same of 1 - p and 1 - q. A key without units is never named, since the list of
        such keys has no end.

        Guarantee: raises `CertificateInvalid` unless all of that holds for every n, in whole numbers: e^epsilon and
        delta are rounded down, to 2^-192 and 2^-128.
        """
        with precision(4 * _CHECK_BITS):
            ratio = _floor(arb(min(epsilon, 100.0)).exp() * (1 << _CHECK_BITS))
            slack = _floor(arb(delta) * WHOLE) << _CHECK_BITS
        # A probability is at most 2^128, so an e^epsilon beyond e^100 > 2^128 allows what e^100 does.
        named = bool(self.probabilities) and self.probabilities[0] == 0
        if not named or not all(0 <= each <= WHOLE for each in self.probabilities):
            raise CertificateInvalid("has probabilities that no partition selection can have")
        for p, q in pairwise(self.probabilities):
            for one, other in ((p, q), (q, p), (WHOLE - p, WHOLE - q), (WHOLE - q, WHOLE - p)):
                if one << _CHECK_BITS > other * ratio + slack:
                    raise CertificateInvalid("names keys with probabilities that are less private than it says")


@lru_cache(maxsize=64)
def partition_selection(epsilon: float, delta: float) -> PartitionSelection:
    """The partition selection that names a key with n = 0, 1, 2, ... units with the largest possible probability.

    p(0) = 0, p(n+1) = min(e^epsilon p(n) + delta, 1 - e^-epsilon (1 - p(n) - delta), 1), in units of 2^-128, up to the
    first n where it is 1: the largest numbers that keep every pair of neighbours within (epsilon, delta)
    [desfontaines2022, Thm 1].

    Guarantee: (epsilon, delta)-private for a unit in one group, exactly: e^epsilon is rounded down to a fraction, and
    every step is rounded down in whole numbers.
    Edge cases: an epsilon so small that a million units would not do is refused, and so is a delta of 0.

    >>> [round(each / WHOLE, 3) for each in partition_selection(1.0, 0.1).probabilities]
    [0.0, 0.1, 0.372, 0.806, 0.965, 1.0]
    """
    with precision(256):
        ratio = _floor(arb(min(epsilon, 40.0)).exp() * (1 << _RATIO_BITS))
        slack = _floor(arb(delta) * WHOLE)
    found = [0]
    while found[-1] < WHOLE:
        p = found[-1]
        rising = (p * ratio >> _RATIO_BITS) + slack
        falling = WHOLE - -(-(max(WHOLE - p - slack, 0) << _RATIO_BITS) // ratio)
        found.append(min(rising, falling, WHOLE))
        if len(found) > _LONGEST or found[-1] <= p:
            raise ArgumentError(
                f"epsilon={epsilon}: too small for partition selection; list the keys, or give it more weight"
            )
    return PartitionSelection(probabilities=tuple(found))


def _floor(value: arb) -> int:
    """The whole number below a ball."""
    return int(str(value.lower().floor().unique_fmpz()))


@dataclass(frozen=True, kw_only=True)
class ThresholdSelection:
    """Name a key if its noisy count is at least `threshold`; the count is that of the question of this index.

    Guarantee: none by itself; `check` proves that a claim holds.
    """

    question: int
    threshold: float

    def named(self, draws: Sequence[Sequence[Draw]]) -> list[int]:
        """The places of the groups that may be named, by what was drawn for the count in every group."""
        return [at for at, (draw,) in enumerate(draws) if draw[0] >= self.threshold]

    def check(self, *, rows: int, scale: float, delta: float) -> None:
        """Refuse a threshold that a key which only one unit has passes with a larger probability than `delta`.

        The noisy counts of keys that both of two neighbours have are private by their noise, and comparing them is
        post-processing. A key that only one of them has belongs to the unit that differs: its count is at most `rows`,
        and it is named if Gaussian noise, rounded to a whole number, is at least threshold - rows. The union bound over
        the groups of a unit is in the shares.

        Guarantee: raises `CertificateInvalid` unless that holds, in ball arithmetic.
        """
        if not _passes(self.threshold, rows, scale) <= delta:
            raise CertificateInvalid("names keys by a threshold that is less private than it says")


def threshold_selection(question: int, *, rows: int, scale: float, delta: float) -> ThresholdSelection:
    """The lowest whole threshold that `ThresholdSelection.check` accepts, or a little more.

    >>> threshold_selection(0, rows=1, scale=10.0, delta=1e-6).threshold
    50.0
    """
    start = math.ceil(rows + scale)
    found = first_above(float(start), lambda each: _passes(math.floor(each), rows, scale) <= delta)
    low, high = start, math.floor(found)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _passes(middle, rows, scale) <= delta else (middle, high)
    return ThresholdSelection(question=question, threshold=float(high))


def _passes(threshold: float, rows: int, scale: float) -> float:
    """The probability that a count of `rows` with rounded Gaussian noise is at least the threshold, rounded up."""
    least = Fraction(threshold) - rows - Fraction(1, 2)
    distance = Ball(least.numerator) / Ball(least.denominator) / ball(scale)
    return up((distance / Ball(2).sqrt()).erfc() / 2)
