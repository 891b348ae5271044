"""The pairs of neighbouring true answers that matter: for each position the farthest neighbour to its right.

By the monotonicity theorem a pair inside another pair leaks no more, so these pairs decide the worst case.
In an interval they are (p, p + D) for one line of positions p. In a union, p + D may fall into a gap, and then the
widest such pair is a single one.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from fractions import Fraction

from rangebound.values.ball import Ball, ball
from rangebound.values.numeric import rounded_down, rounded_up
from rangebound.values.support import Interval, Union


@dataclass(frozen=True)
class SearchLine:
    """The pairs (p, p + d) for all p in [start, end]; `d` is the exact difference of two doubles."""

    start: float
    end: float
    far: float
    near: float = 0.0

    @property
    def d(self) -> Ball:
        """The distance of every pair on the line, exactly."""
        return ball(self.far) - ball(self.near)

    def clipped(self, low: float, high: float) -> list[SearchLine]:
        """The pairs as they are after clipping both answers to [low, high], of those that collapse only the widest."""
        d = self.far - self.near
        if self.start == self.end:  # one pair: clip it, exactly where it is given by its ends
            other = self.far if self.near == self.start else _sum(self.start, d, +1)
            a, b = min(max(self.start, low), high), min(max(other, low), high)
            return [SearchLine(a, a, b, a)] if a < b else []
        found = []
        start, end = max(self.start, low), min(self.end, _sum(high, -d, +1))
        if start <= end:
            found.append(SearchLine(start, end, self.far, self.near))
        if self.start < low:
            reach = min(_sum(min(self.end, low), d, +1), high)
            found += [SearchLine(low, low, reach, low)] if low < reach else []
        if self.end > high - d:
            first = max(self.start, _sum(high, -d, -1), low)
            found += [SearchLine(first, first, high, first)] if first < high else []
        return found


def lines(answers: Interval | Union, sensitivity: float) -> list[SearchLine]:
    """Lines of pairs that dominate every pair of `answers` at most `sensitivity` apart.

    Guarantee: complete. Ends that are not doubles are rounded outward, so a line may reach over by one ulp.
    """
    spans = answers.spans
    ends = [end for _, end in spans]
    found: list[SearchLine] = []
    for lower, upper in spans:
        nearest, farthest = _sum(lower, sensitivity, -1), _sum(upper, sensitivity, +1)
        for i in range(bisect.bisect_left(ends, nearest), len(spans)):
            start, end = spans[i]
            if start > farthest:
                break
            low, high = max(lower, _sum(start, -sensitivity, -1)), min(upper, _sum(end, -sensitivity, +1))
            if low <= high:
                found.append(SearchLine(low, high, sensitivity))
        stop = _stop(lower, spans, ends, sensitivity)
        if stop is not None:
            found.append(SearchLine(lower, lower, stop, lower))
    return found


def _stop(lower: float, spans: tuple[tuple[float, float], ...], ends: list[float], sensitivity: float) -> float | None:
    """The farthest answer from `lower` if lower + sensitivity falls into a gap or beyond the last span."""
    if math.isinf(lower):
        return None
    reach = Fraction(lower) + Fraction(sensitivity)
    behind = bisect.bisect_right(ends, _sum(lower, sensitivity, +1))
    while behind and Fraction(ends[behind - 1]) > reach:
        behind -= 1
    if not behind or not ends[behind - 1] > lower:
        return None
    following = spans[behind][0] if behind < len(spans) else math.inf
    return ends[behind - 1] if math.isinf(following) or Fraction(following) > reach else None


def _sum(x: float, y: float, direction: int) -> float:
    """x + y rounded to a double in the given direction."""
    total = x + y
    if math.isinf(total):
        return total
    exact = Fraction(x) + Fraction(y)
    return rounded_up(exact) if direction > 0 else rounded_down(exact)
