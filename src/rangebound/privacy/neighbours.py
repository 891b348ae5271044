"""Pairs of neighbouring answers as doubles: both in the range, and no farther apart than the sensitivity."""

from __future__ import annotations

import math
from fractions import Fraction

from rangebound.privacy.search.positions import SearchLine
from rangebound.privacy.setting import Setting
from rangebound.values.numeric import rounded_down, rounded_up
from rangebound.values.support import Interval, Union


def pair_at(side: Setting, setting: Setting, line: SearchLine, position: float) -> tuple[float, float]:
    sign = 1.0 if side is setting or side == setting else -1.0
    if math.isinf(position):
        return sign * position, sign * position
    other = line.far if line.near == position else position + line.far - line.near
    position, other = neighbours(side, position, other)
    return sign * position + 0.0, sign * other + 0.0


def neighbours(setting: Setting, first: float, second: float) -> tuple[float, float]:
    """The answers nearest to two places that may have been rounded out of the range, or too far apart, by an ulp."""
    first, second = _inside(setting.answers, first), _inside(setting.answers, second)
    nearer = _inside(setting.answers, _within(first, second, setting.sensitivity))
    if abs(Fraction(nearer) - Fraction(first)) <= Fraction(setting.sensitivity):
        return first, nearer
    return _inside(setting.answers, _within(second, first, setting.sensitivity)), second


def _within(start: float, end: float, limit: float) -> float:
    """`end`, or the farthest double towards it that is at most `limit` from `start`."""
    apart = Fraction(end) - Fraction(start)
    if abs(apart) <= Fraction(limit):
        return end
    exact = Fraction(start) + (Fraction(limit) if apart > 0 else -Fraction(limit))
    return rounded_down(exact) if apart > 0 else rounded_up(exact)


def _inside(answers: Interval | Union, x: float) -> float:
    """The answer nearest to x: a line may reach over the end of a span by one ulp."""
    return min((min(max(x, lower), upper) for lower, upper in answers.spans), key=lambda y: abs(y - x))


def some_pair(setting: Setting) -> tuple[float, float]:
    hull = setting.answers.hull
    start = min(max(0.0, hull.lower), hull.upper)
    return start, min(start + setting.sensitivity, hull.upper)
