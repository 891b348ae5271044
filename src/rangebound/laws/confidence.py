"""Confidence intervals: which true answers are compatible with a published number."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from rangebound.laws.boundings import Shape
from rangebound.laws.distribution import Law
from rangebound.laws.family import Noise
from rangebound.values.array_types import Floats
from rangebound.values.support import Interval, Union

Test = Callable[[Floats], npt.NDArray[np.bool_]]

_SLACK = 1e-9  # relative, far above the error of a law's probabilities
_FINE = 2.0**-30  # scales
_DOUBLINGS = 64


def confidence_interval(
    noise: Noise, shape: Shape, answers: Interval | Union, published: Floats, level: float, half: float
) -> tuple[Floats, Floats]:
    """The true answers q for which neither P_q(Y >= published) nor P_q(Y <= published) is below (1 - level)/2.

    Y is the number as published: the law rounded to the nearest point, at most `half` away. Its probabilities are
    monotone in q (the laws have a monotone likelihood ratio), so these answers form an interval, found by bisection.

    Guarantee: covers every true answer, the ends of the range included, with probability at least `level`; the ends
    are rounded outwards.
    Edge cases: inside the range of answers; a single point, the nearest end, where the number is rare for every answer
    in the range.
    """
    tail = 0.5 * (1.0 - level) * (1.0 - _SLACK)
    low, high = answers.hull.lower, answers.hull.upper
    lower = _lowest(noise, shape, low, high, published - half, tail)
    upper = -_lowest(noise, shape.mirrored(), -high, -low, -(published + half), tail)
    spans = np.array(answers.spans)
    starts, ends = spans[:, 0], spans[:, 1]
    # There are no true answers in a gap.
    lower = np.maximum(lower, starts[np.minimum(np.searchsorted(ends, lower), len(ends) - 1)])
    upper = np.minimum(upper, ends[np.maximum(np.searchsorted(starts, upper, side="right") - 1, 0)])
    return np.minimum(lower, upper), np.maximum(lower, upper)


def _lowest(noise: Noise, shape: Shape, low: float, high: float, cut: Floats, tail: float) -> Floats:
    """The smallest q from `low` to `high` with P_q(X >= cut) >= tail, rounded down; `high` where there is none."""

    def enough(q: Floats) -> npt.NDArray[np.bool_]:
        with np.errstate(invalid="ignore"):  # too far out for the law to have any digits left: not excluded
            return ~(Law(noise, shape, q).sf(cut) < tail)

    below, above = np.full(cut.shape, low), np.full(cut.shape, high)
    if math.isfinite(low):
        everywhere = enough(below)
    else:
        below, found = _doubled(noise.scale, np.minimum(cut, high), -1.0, lambda q: ~enough(q))
        everywhere = ~found
    if math.isfinite(high):
        nowhere = ~enough(above)
    else:
        above, found = _doubled(noise.scale, np.maximum(cut, low), 1.0, enough)
        nowhere = ~found
    first, last = below, above
    while True:
        middle = 0.5 * first + 0.5 * last
        open_ = (last - first > _FINE * noise.scale) & (middle > first) & (middle < last)
        if not (open_ & ~everywhere & ~nowhere).any():
            break
        reached = enough(middle)
        first, last = np.where(reached, first, middle), np.where(reached, middle, last)
    return np.where(everywhere, low, np.where(nowhere, high, first))


def _doubled(scale: float, start: Floats, sign: float, wanted: Test) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """A location that is `wanted`, at doubling distances from the start; and whether there is one."""
    place, found = start + sign * scale, np.zeros(start.shape, dtype=bool)
    for power in range(_DOUBLINGS):
        found = found | wanted(place)
        if found.all():
            break
        place = np.where(found, place, start + sign * scale * 2.0**power)
    return place, found
