"""Quantiles: the exponential mechanism on a public grid, drawn exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

from flint import arb, fmpq

from rangebound.ball import precision
from rangebound.support import Interval, Union

Bits = Callable[[int], int]

_WEIGHT_BITS = 256
_DEEPEST = 88  # weights below e^-88 of the largest count as that: it keeps all of them exact to 2^-128
_MARGIN = Fraction(2**20 - 1, 2**20)  # what the rounding of weights and of the draw may cost, and more


@lru_cache(maxsize=64)
def grid(question: Any) -> tuple[float, ...]:
    """The points of a question's grid, those outside its support included."""
    points: tuple[float, ...] = question.points
    return points


@lru_cache(maxsize=64)
def candidates(question: Any) -> tuple[int, ...]:
    """The places on the grid that may be published."""
    support = question.allowed
    return tuple(at for at, value in enumerate(grid(question)) if _inside(support, value))


def _inside(support: Interval | Union, value: float) -> bool:
    return any(lower <= value <= upper for lower, upper in support.spans)


def misses(counts: Sequence[Fraction], level: float) -> list[Fraction]:
    """By how many rows each point of the grid misses being the quantile at `level`.

    With n rows, b of them below the point and a at it: max(0, b - level n, level n - b - a).

    Guarantee: one row more or less moves each number by at most max(level, 1 - level).

    >>> misses([Fraction(1), Fraction(0), Fraction(3)], 0.5)
    [Fraction(1, 1), Fraction(1, 1), Fraction(0, 1)]
    """
    sums = list(accumulate(counts, initial=Fraction(0)))
    middle = Fraction(level) * sums[-1]
    return [max(Fraction(0), below - middle, middle - upto) for below, upto in pairwise(sums)]


def rate(level: float, sensitivity: Fraction, epsilon: float | Fraction) -> Fraction:
    """How fast the weight of a point falls with its miss: epsilon / (2 max(level, 1 - level) sensitivity), and less."""
    q = Fraction(level)
    return _MARGIN * Fraction(epsilon) / (2 * max(q, 1 - q) * sensitivity)


def weights(found: Sequence[Fraction], speed: Fraction) -> list[int]:
    """The weight 2^256 e^(-speed miss) of every miss, rounded down.

    Guarantee: every weight is exact to 2^-128 relative, since those below e^-88 count as that.
    """
    rate, floor = fmpq(speed.numerator, speed.denominator), fmpq(_DEEPEST)
    with precision(_WEIGHT_BITS + 160):
        one, result = arb(2) ** _WEIGHT_BITS, []
        for each in found:
            depth = min(fmpq(each.numerator, each.denominator) * rate, floor)
            whole = ((-arb(depth)).exp() * one).lower().floor().unique_fmpz()
            assert whole is not None  # the floor of an exact number
            result.append(int(whole))
    return result


def draw(chances: Sequence[int], bits: Bits) -> int:
    """The place drawn in proportion to whole-number weights, with one number of fixed length and no loop over tries."""
    total = sum(chances)
    length = total.bit_length() + 128
    at = bits(length) * total >> length
    for place, chance in enumerate(chances):
        at -= chance
        if at < 0:
            return place
    raise AssertionError("the draw lies below the total")


def rank_error(question: Any, speed: Fraction, level: float) -> float:
    """How many rows lie between the published point and the best one, at most, with probability `level`.

    ln(points / (1 - level)) / speed [mcsherry2007].
    """
    return math.log(len(candidates(question)) / (1.0 - level)) / float(speed)
