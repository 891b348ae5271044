"""Public ranges: where the value of an expression lies, whatever the row, by the ranges of its parts.

Sums, differences, products and quotients are computed in doubles by every engine, to the nearest. Rounding to the
nearest never changes an order, so the same operation on the ends of the ranges bounds the result to the last bit. A
bound that overflows is infinite, which is to say that there is none: a value that overflows is missing.

Nothing private depends on a range being narrow or even right: whatever a question counts is clipped to its range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import product

from rangebound.release.plan.expressions.value_type import CALENDAR, EVERYTHING, Range

Ranges = Sequence[Range]


def _hull(values: Iterable[float]) -> Range:
    """The range of some values; a NaN among them is infinity times zero or less itself, of which nothing is known."""
    found = [each + 0.0 for each in values]
    return EVERYTHING if any(map(math.isnan, found)) else (min(found), max(found))


def total(ranges: Ranges) -> Range:
    """x + y."""
    (a, b), (c, d) = ranges
    return _hull((a + c, b + d))


def difference(ranges: Ranges) -> Range:
    """x - y."""
    (a, b), (c, d) = ranges
    return _hull((a - d, b - c))


def times(ranges: Ranges) -> Range:
    """x * y."""
    first, second = ranges
    return _hull(x * y for x, y in product(first, second))


def quotient(ranges: Ranges) -> Range:
    """x / y; nothing is known where y may be 0, however near."""
    first, (c, d) = ranges
    if c <= 0.0 <= d or not all(map(math.isfinite, first)):
        return EVERYTHING
    return _hull(x / y for x, y in product(first, (c, d)))


def whole_quotient(ranges: Ranges) -> Range:
    """x // y, which is the whole number at or below x / y."""
    return rounded_down([quotient(ranges)])


def remainder(ranges: Ranges) -> Range:
    """x % y, between 0 and y; it may be y itself where a tiny negative x is rounded to it."""
    _, (c, d) = ranges
    return min(c, 0.0), max(d, 0.0)


def negative(ranges: Ranges) -> Range:
    """-x."""
    ((a, b),) = ranges
    return _hull((-b, -a))


def size(ranges: Ranges) -> Range:
    """abs(x)."""
    ((a, b),) = ranges
    return (0.0 if a <= 0.0 <= b else min(abs(a), abs(b))), max(abs(a), abs(b))


def _on_both(rounding: Callable[[float], int]) -> Callable[[Ranges], Range]:
    """A rounding, which keeps order; what is infinite stays so."""

    def rounded(ranges: Ranges) -> Range:
        low, high = (float(rounding(each)) if math.isfinite(each) else each for each in ranges[0])
        return low, high

    return rounded


def _nearest(value: float) -> int:
    low = math.floor(abs(value))
    size = low + (abs(value) - low >= 0.5)
    return size if value > 0.0 else -size


rounded_down, rounded_up, rounded = _on_both(math.floor), _on_both(math.ceil), _on_both(_nearest)
"""The ranges of floor(x), ceil(x), and round(x), a half away from zero."""


def least(ranges: Ranges) -> Range:
    """min(x, ...)."""
    return min(a for a, _ in ranges), min(b for _, b in ranges)


def largest(ranges: Ranges) -> Range:
    """max(x, ...)."""
    return max(a for a, _ in ranges), max(b for _, b in ranges)


def clipped(ranges: Ranges) -> Range:
    """clip(x, lower, upper)."""
    x, lower, upper = ranges
    return least([largest([x, lower]), upper])


def union(ranges: Ranges) -> Range:
    """One of several values."""
    return min(a for a, _ in ranges), max(b for _, b in ranges)


def chosen(ranges: Ranges) -> Range:
    """case(condition, value, ..., default): one of the values."""
    values = ranges[1::2] if len(ranges) % 2 == 0 else (*ranges[1::2], ranges[-1])
    return union(values)


def binned(ranges: Ranges) -> Range:
    """bin(x, width): a multiple of the width; or bin(x, edge, edge, ...): one of the edges but the last."""
    if len(ranges) > 2:
        return ranges[1][0], ranges[-2][1]
    return times([whole_quotient(ranges), ranges[1]])


def days_later(ranges: Ranges) -> Range:
    """A date and a number of days, within the calendar: what is beyond is missing.

    >>> days_later([(0.0, 10.0), (1e308, 1e308)])
    (2932896.0, 2932896.0)
    """
    return _within_calendar(total([ranges[0], rounded_down([ranges[1]])]))


def days_before(ranges: Ranges) -> Range:
    """A date less a number of days, within the calendar."""
    return _within_calendar(difference([ranges[0], rounded_down([ranges[1]])]))


def _within_calendar(found: Range) -> Range:
    """Where all days are beyond the calendar every value is missing, and its nearest day serves as the range."""
    low, high = (min(max(each, CALENDAR[0]), CALENDAR[1]) for each in found)
    return low, high
