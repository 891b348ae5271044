"""Laws on the points of a grid: rounded to them (quantize), or weighed by the density at them (truncate)."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

from rangebound.laws.boundings import Shape
from rangebound.laws.family import Noise
from rangebound.sampling.draw_plan import MARGIN, ROUNDING, DrawPlan, largest
from rangebound.sampling.inversion import inverted, uniform
from rangebound.values.array_types import Bools, Floats, Words, np

_REACH = 9.5  # standard deviations beyond which lies less than 2^-68 of a Gaussian
_SLACK = 2.0**-40


def quantized(plan: DrawPlan, shape: Shape, words: Words, answers: Floats) -> tuple[Floats, Bools]:
    """The point whose cell holds location plus noise, and which of them are undecided: too near to a cut."""
    points = np.array(shape.points)
    lowers, uppers = np.array(shape.cells).T
    drawn = inverted(plan, words, answers)
    x = drawn.centre + plan.scale * drawn.noise
    reach = 0.0 if math.isinf(plan.limit) else plan.limit
    size = np.maximum(np.abs(drawn.centre), largest(plan.answers)) + np.abs(x) + reach
    margin = MARGIN * plan.scale + ROUNDING * size
    pitch = (points[-1] - points[0]) / (len(points) - 1)
    last = len(points) - 1
    index = np.clip(np.rint((x - points[0]) / pitch), 0, last).astype(np.intp)
    for _ in range(2):  # the points are rounded and the last step may be short: a neighbour may be the one
        index = np.clip(index + (x > uppers[index]) - (x < lowers[index]), 0, last)
    sure = drawn.fine & (x > lowers[index] + margin) & (x < uppers[index] - margin)
    return points[index], ~sure


class Sums(NamedTuple):
    """Points in scales from their middle, and logs of the sums of e^place up to each and of e^-place from each on."""

    points: Floats
    places: Floats
    upto: Floats
    onward: Floats


def laplace_sums(noise: Noise, shape: Shape) -> Sums:
    """What all draws from points weighed by Laplace noise share: but for a factor the location is not in the sums."""
    points = np.array(shape.points)
    places = (points - (0.5 * points[0] + 0.5 * points[-1])) / noise.scale
    falls = np.exp(-np.diff(points) / noise.scale)
    upto = np.array(list(itertools.accumulate(falls.tolist(), lambda total, fall: 1.0 + total * fall, initial=1.0)))
    onward = np.array(
        list(itertools.accumulate(falls[::-1].tolist(), lambda total, fall: 1.0 + total * fall, initial=1.0))
    )
    return Sums(points, places, np.log(upto) + places, np.log(onward[::-1]) - places)


def weighed_laplace(noise: Noise, sums: Sums, words: Words, location: Floats) -> tuple[Floats, Bools]:
    """The point at which the running sum of the weights passes U, counted from the side that does not cancel."""
    points, places, upto, onward = sums
    count = len(points)
    middle = 0.5 * points[0] + 0.5 * points[-1]
    at = (np.clip(location, points[0], points[-1]) - middle) / noise.scale
    split = np.clip(np.searchsorted(places, at, side="right"), 1, count)
    padded_upto, padded_onward = np.append(-np.inf, upto), np.append(onward, -np.inf)
    before, after = upto[split - 1] - at, padded_onward[split] + at
    whole = np.logaddexp(before, after)
    up, down = np.log(uniform(words)) + whole, np.log(uniform(~words)) + whole
    left = up < before
    target = np.where(left, up + at, down - at)
    first = np.searchsorted(upto, target, side="right")
    final = count - 1 - np.searchsorted(onward[::-1], target, side="right")
    index = np.clip(np.where(left, first, final), 0, count - 1)
    low = np.where(left, padded_upto[index], padded_onward[index + 1])
    high = np.where(left, padded_upto[index + 1], padded_onward[index])
    slack = _SLACK + ROUNDING * (count + np.abs(at) + float(places[-1]))
    sure = (target > low + slack) & (target < high - slack) & (np.abs(up - before) > slack)
    return points[index], ~sure


def window(noise: Noise, shape: Shape) -> int:
    """How many points are looked at for one draw from points weighed by Gaussian noise."""
    pitch = (shape.points[-1] - shape.points[0]) / (len(shape.points) - 1)
    return int(min(len(shape.points), math.ceil(min(2.0 * _REACH * noise.scale / pitch, 1e9)) + 4))


def weighed_gaussian(noise: Noise, shape: Shape, words: Words, location: Floats) -> tuple[Floats, Bools]:
    """Points weighed by Gaussian noise: a running sum over all the points that can be drawn."""
    points = np.array(shape.points)
    count, last = window(noise, shape), len(points) - 1
    pitch = (points[-1] - points[0]) / last
    middle = np.clip(np.rint((location - points[0]) / pitch), 0, last).astype(np.intp)
    start = np.clip(middle - count // 2, 0, len(points) - count)
    index = start[:, None] + np.arange(count)
    near = points[middle][:, None]
    # The exponent beside that of the nearest point, as a product: far from the points a difference of squares cancels.
    x, at = points[index], location[:, None]
    logs = -0.5 * ((x - near) / noise.scale) * (((x - at) + (near - at)) / noise.scale)
    sums = np.cumsum(np.exp(logs), axis=1)
    target = uniform(words) * sums[:, -1]
    chosen = np.minimum((target[:, None] >= sums).sum(axis=1), count - 1)[:, None]
    low = np.where(chosen > 0, np.take_along_axis(sums, np.maximum(chosen - 1, 0), axis=1), 0.0)[:, 0]
    high = np.take_along_axis(sums, chosen, axis=1)[:, 0]
    slack = _SLACK * sums[:, -1]
    sure = (target > low + slack) & (target < high - slack)
    return np.take_along_axis(x, chosen, axis=1)[:, 0], ~sure
