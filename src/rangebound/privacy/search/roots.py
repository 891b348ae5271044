"""Roots of falling functions, for what a search needs before it begins; nothing here is a proof."""

from __future__ import annotations

from collections.abc import Callable


def bracket(above: Callable[[float], float], limit: float, start: float = 0.0) -> tuple[float, float]:
    """Two points with the root of a falling function between them, steps growing from `start` to at most `limit`."""
    low, step = start, start / 64.0 or 1.0
    while (high := min(low + step, limit)) < limit and above(high) > 0.0:
        low, step = high, 8.0 * step
    return low, high


def falling_root(above: Callable[[float], float], low: float, high: float, absolute: float = 0.0) -> float:
    """The root of a falling function in a bracket: the last point above zero, to 1e-12 relative (or `absolute`).

    Inverse quadratic steps where the last three points lie as if on a monotone curve, else halving [chandrupatla1997].
    Steps keep off the ends by a part of the tolerance, so that the bracket closes from both sides.
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
