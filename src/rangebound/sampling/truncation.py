"""Truncation to spans in log space: a union of any number of them, or one that is far from the location.

With M the mass of the spans, and L and R the mass of the gaps to the left and to the right of the span into which U
falls, the number drawn has the tails w = L + U M and w = R + (1 - U) M under the whole noise: sums of positive terms,
each with its relative precision. The smaller of the two is inverted.
"""

from __future__ import annotations

import math

import numpy as np

from rangebound.laws.family import Noise
from rangebound.laws.shape import Shape
from rangebound.sampling.draw_plan import MARGIN, RARE, ROUNDING, gaps, steps_to_the_unit
from rangebound.sampling.entropy import Words
from rangebound.sampling.inversion import uniform
from rangebound.sampling.lattice import Lattice
from rangebound.values.array_types import Bools, Floats
from rangebound.values.numeric import log_sum


def between_gaps(
    noise: Noise, shape: Shape, lattice: Lattice, bound: float, words: Words, location: Floats
) -> tuple[Floats, Bools]:
    """Numbers from the truncated law, rounded to the lattice, and which of them are undecided.

    `bound` is the size of the largest location, if there is one: then the margin is the same for all of them.
    """
    lowers, uppers = np.array(shape.spans).T
    starts, ends = np.array(gaps(shape)).T
    at = location[:, None]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        inside, outside = _log_mass(noise, lowers, uppers, at), _log_mass(noise, starts, ends, at)
        if noise.limited:  # what lies beyond the limit is a gap on either side
            beyond = noise.untruncated.log_mass(np.asarray(noise.extent), np.asarray(math.inf), np.asarray(0.0))
            outside[:, [0, -1]] = np.logaddexp(outside[:, [0, -1]], beyond)
        top = log_sum(inside)[:, None]
        shares, skipped = np.exp(inside - top), np.exp(outside - top)
        up, down = uniform(words), uniform(~words)
        chosen = (up[:, None] >= np.cumsum(shares, axis=1)[:, :-1]).sum(axis=1)[:, None]
        left = np.take_along_axis(np.cumsum(skipped, axis=1), chosen, axis=1)[:, 0] + up
        right = np.take_along_axis(np.cumsum(skipped[:, ::-1], axis=1)[:, ::-1], chosen + 1, axis=1)[:, 0] + down
        smaller = np.minimum(left, right)
        offset = noise.scale * np.where(left < right, 1.0, -1.0) * _quantile(noise, np.log(smaller) + top[:, 0])
        low, high = lowers[chosen[:, 0]], uppers[chosen[:, 0]]
        x = location + offset
        size = np.maximum(np.abs(location), bound) + np.abs(offset)
        if noise.limited:
            size = size + noise.extent
        margin = MARGIN * noise.scale * len(lowers) + ROUNDING * size
        place = x * steps_to_the_unit(lattice)
        nearest = np.rint(place)
        slack = margin * steps_to_the_unit(lattice)
        values = nearest * float(lattice.numerator) / float(lattice.denominator)
        sure = (smaller >= RARE) & (np.abs(place - nearest) < 0.5 - slack) & (x > low + margin) & (x < high - margin)
    return np.clip(values, low, high) + 0.0, ~sure


def _log_mass(noise: Noise, lowers: Floats, uppers: Floats, at: Floats) -> Floats:
    """log of the mass under the whole noise of every interval, cut to what the noise can reach."""
    empty = lowers == uppers  # a gap beyond an infinite span
    start, end = np.where(empty, 0.0, lowers), np.where(empty, 0.0, uppers)
    if noise.limited:
        start, end = (np.clip(each, at - noise.extent, at + noise.extent) for each in (start, end))
        noise = noise.untruncated
    masses: Floats = noise.log_mass(start, end, at)
    return masses


def _quantile(noise: Noise, log_w: Floats) -> Floats:
    """The place, in scales, below which noise lies with probability e^log_w, at most one half."""
    if noise.gaussian:
        from scipy.special import ndtri  # here, because it is not needed to import the package

        z: Floats = ndtri(np.exp(log_w))
        return z
    return np.minimum(log_w + math.log(2.0), 0.0)
