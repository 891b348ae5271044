"""What is drawn and what becomes of it: coordinates in, draws, readings and published cells out.

From noisy coordinates to the number that was asked for: post-processing, always inside the support.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rangebound.laws.family import Noise
from rangebound.release.plan.statistic import Columns, Coordinates, Draw, Fractional, Key, Label, Pair, Summed
from rangebound.values.array_types import Floats
from rangebound.values.support import Interval, Union

__all__ = ["AddedNoise", "Bits", "Cell", "Columns", "Coordinates", "Draw", "Key", "Label", "Pair", "Reading", "Summed"]

Bits = Callable[[int], int]
"""n secure random bits as an integer below 2^n."""


@dataclass(frozen=True, kw_only=True)
class AddedNoise:
    """The noise that was added to each coordinate by itself, and how often an interval made of all of them holds.

    A coordinate was moved by up to `slack` more, since it was rounded.
    """

    noise: Noise
    level: float
    slack: float


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a draw says about the true coordinates: values, an interval for each, and the rank error of a quantile.

    `added` is the noise, where it was added to the coordinates and not clamped or truncated. Where several numbers are
    made of one draw, `part` says which one this reading is for.
    """

    values: tuple[float, ...]
    intervals: tuple[Pair, ...]
    rank_error: float | None = None
    added: AddedNoise | None = None
    part: int = 0


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One published number: whose it is, what was drawn for it, what was made of that, and what it cost.

    In a Gaussian account `mu` is the cost of all numbers of the question together, where their noise is Gaussian.

    But for the draws, and for keys that were selected privately, all of it follows from the plan.
    """

    question: int
    key: Summed
    part: str
    value: float
    lower: float
    upper: float
    epsilon: float
    delta: float
    rank_error: float | None = None
    draws: Draw = ()
    mu: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number to publish, and an interval for the true one."""

    value: float
    lower: float
    upper: float


def held(value: float, lower: float, upper: float, support: Interval | Union) -> Estimate:
    """A number with its interval, cut to the hull of the support and then widened to hold the number.

    A number that a step or a gap has moved may lie outside its interval; one that spans both holds no less.

    >>> held(5.0, -1.0, 4.5, Union((0, 3), (5, 9)))
    Estimate(value=5.0, lower=0.0, upper=5.0)
    """
    low, high = (min(max(end, support.hull.lower), support.hull.upper) for end in (lower, upper))
    return Estimate(value=value, lower=min(low, value), upper=max(high, value))


def nearest(value: float, support: Interval | Union, step: float | None) -> float:
    """The point of the support that is nearest to a number, on a multiple of the step where a span has one near there.

    >>> nearest(4.4, Union((0, 3), (5, 9)), 2.0)
    5.0
    """

    def within(lower: float, upper: float) -> float:
        held = min(max(value, lower), upper)
        if step is None or not math.isfinite(held):
            return held
        rounded = _rounded(held, step)
        if lower <= rounded <= upper or held in (lower, upper):
            return rounded if lower <= rounded <= upper else held
        return lower if held - lower <= upper - held else upper

    return min((within(*span) for span in support.spans), key=lambda point: abs(point - value))


def _rounded(value: float, step: float) -> float:
    """The multiple of a step nearest to a number, which is itself where it has more steps than any double counts."""
    inverse = 1.0 / step
    if not math.isfinite(inverse) or not math.isfinite(value / step):
        return value
    per_unit = round(inverse)  # steps such as 0.1 have no double, but their tenfold has
    if per_unit > 0 and math.isclose(per_unit * step, 1.0, rel_tol=1e-12):
        steps = value * per_unit
        return round(steps) / per_unit if math.isfinite(steps) else value
    return round(value / step) * step


def farthest(lower: Floats, upper: Floats, support: Interval | Union) -> Floats:
    """The farthest that a number in the support can be from a true answer between `lower` and `upper`.

    What is published lies in the support, whatever is drawn, and so does its mean: no bias is larger.

    >>> farthest(np.array([2.0]), np.array([5.0]), Interval(0, 10))
    array([8.])
    """
    ends = support.hull
    return np.maximum(ends.upper - lower, upper - ends.lower)


def fractions(noisy: Sequence[float], intervals: Sequence[Pair], *, rows: int | None = None) -> list[Fractional]:
    """Every coordinate but the first as a fraction of all of them, with the interval of that.

    Without `rows` the coordinates add up to the number of rows; with it the first of them is left out.

    >>> fractions([30.0, 10.0], [(28.0, 32.0), (8.0, 12.0)])
    [(0.25, (0.2, 0.3))]
    """
    if rows is not None:
        pairs = zip(noisy, intervals, strict=True)
        return [(min(value / rows, 1.0), (lower / rows, min(upper / rows, 1.0))) for value, (lower, upper) in pairs]
    found = []
    for at in range(1, len(noisy)):
        rest = sum(noisy) - noisy[at]
        least = sum(lower for lower, _ in intervals) - intervals[at][0]
        most = sum(upper for place, (_, upper) in enumerate(intervals) if place != at)
        value = _ratio(noisy[at], max(rest, 0.0), 1.0 / len(noisy))
        ends = _ratio(intervals[at][0], most, 0.0), _ratio(intervals[at][1], max(least, 0.0), 1.0)
        found.append((value, ends))
    return found


def _ratio(part: float, rest: float, empty: float) -> float:
    """part / (part + rest), with `empty` where both are zero; an infinite one outweighs the other."""
    if math.isinf(part):
        return 1.0 if math.isfinite(rest) else empty
    return part / (part + rest) if part + rest > 0.0 else empty
