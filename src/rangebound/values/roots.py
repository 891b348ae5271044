"""Root finding: where a number, or the truth of a condition, changes sides.

Each function says which end of its bracket it returns, because for a privacy number one of the two is the safe one.
Nothing here is a proof: a caller that needs one evaluates the end it takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable


def bracket(above: Callable[[float], float], limit: float, start: float = 0.0) -> tuple[float, float]:
    """Two points with the root of a falling function between them, steps growing from `start` to at most `limit`.

    >>> bracket(lambda x: 10.0 - x, limit=100.0)
    (9.0, 73.0)
    """
    low, step = start, start / 64.0 or 1.0
    while (high := min(low + step, limit)) < limit and above(high) > 0.0:
        low, step = high, 8.0 * step
    return low, high


def falling_root(above: Callable[[float], float], low: float, high: float, absolute: float = 0.0) -> float:
    """The root of a falling function in a bracket: the last point above zero, to 1e-12 relative (or `absolute`).

    Inverse quadratic steps where the last three points lie as if on a monotone curve, else halving [chandrupatla1997].
    Steps keep off the ends by a part of the tolerance, so that the bracket closes from both sides.

    >>> root = falling_root(lambda x: 2.0 - x * x, 1.0, 2.0)
    >>> root < 2.0**0.5 < root * (1.0 + 1e-11)
    True
    """
    (a, b), share = (low, high), 0.5  # a: the latest point, b: the other end of the bracket, c: the point before
    f_a, f_b = above(a), above(b)
    for _ in range(200):
        width = absolute or 1e-12 * max(a, b)
        if abs(b - a) <= width or max(f_a, f_b) <= 0.0:
            break
        x = a + share * (b - a)
        f = above(x)
        if (f > 0.0) == (f_a > 0.0):
            c, f_c = a, f_a
        else:
            c, b, f_c, f_b = b, a, f_b, f_a
        a, f_a, share = x, f, 0.5
        place, level = (a - b) / (c - b), (f_a - f_b) / (f_c - f_b)
        if level * level < place and (1.0 - level) ** 2 < 1.0 - place:
            bent = (c - a) / (b - a) * f_a / (f_c - f_a) * f_b / (f_c - f_b)
            share = f_a / (f_b - f_a) * f_c / (f_b - f_c) + bent
        least = min(0.4 * width / abs(b - a), 0.5)
        share = min(max(share, least), 1.0 - least)
    return min(a, b)


def falling_bracket(height: Callable[[float], float], low: float, high: float, relative: float) -> tuple[float, float]:
    """The root of a falling function between a point above zero and one that is not: both, `relative` apart at most.

    Secant steps on what may be -inf, set off a little so that both ends of the bracket move, and some of halving.

    >>> low, high = falling_bracket(lambda x: 2.0 - x * x, 1.0, 2.0, 1e-9)
    >>> low < 2.0**0.5 <= high <= low * (1.0 + 2e-9)
    True
    """
    h_low, h_high = height(low), height(high)
    for turn in range(100):
        if high - low <= relative * high:
            break
        middle = 0.5 * (low + high)
        if turn % 4 != 3 and math.isfinite(h_low) and math.isfinite(h_high):
            guess = low + (high - low) * h_low / (h_low - h_high) + (-1) ** turn * 0.3 * relative * high
            middle = min(max(guess, low + 0.1 * relative * high), high - 0.1 * relative * high)
        value = height(middle)
        if value > 0.0:
            low, h_low = middle, value
        else:
            high, h_high = middle, value
    return low, high


def boundary(holds: Callable[[float], bool], low: float, high: float, relative: float) -> tuple[float, float]:
    """Where a condition begins to hold between a point where it does not and one where it does: both, by halving.

    >>> low, high = boundary(lambda x: x * x >= 2.0, 1.0, 2.0, 1e-9)
    >>> low * low < 2.0 <= high * high
    True
    """
    while high - low > relative * high:
        middle = 0.5 * low + 0.5 * high
        if not low < middle < high:
            break
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high


def first_above(start: float, holds: Callable[[float], bool]) -> float:
    """The first point at or just above `start` at which a condition holds: steps of an ulp, then growing.

    >>> first_above(1.0, lambda x: x > 1.0) == math.nextafter(1.0, 2.0)
    True
    """
    step = math.ulp(start)
    while not holds(start):
        start, step = start + step, 2.0 * step
    return start
