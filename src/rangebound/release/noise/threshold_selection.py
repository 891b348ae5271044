"""Groups that may be named because their noisy count is large: a selection that a published count pays for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from rangebound.errors import CertificateInvalid
from rangebound.release.noise.draw import Draw
from rangebound.values.ball import Ball, ball, up
from rangebound.values.roots import first_above


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
