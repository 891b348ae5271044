"""The draw in NumPy: the reference of the compiled kernel, and what runs where there is none.

One word k stands for a number U in [k, k + 1) 2^-64. The law's distribution function is inverted at U on the side whose
tail is smaller, so that the probability w of that tail, and with it the number drawn, keeps its relative precision:

    Laplace   location q clipped into [l, u], A = (q - l)/b, B = (u - q)/b, T = 2 - e^-A - e^-B
              left  (U T < 1 - e^-A):  w = e^-A + U T,        x = q + b log w
              right (otherwise):       w = e^-B + (1 - U) T,  x = q - b log w
    Gaussian  M = mass of [l, u];  left: w = P(X < l) + U M,  right: w = P(X > u) + (1 - U) M,  x = q -+ s z(w)

1 - U comes from the complement of the word, so nothing cancels. Every line is computed for every draw, whatever the
location. The bound on the error, and so the margin, is in papers/numerics.md.

**Gaussian noise truncated to an interval that may be far from the location, where its tail has no digits left.**
From a location d > 0 standard deviations outside the near end, the way y from that end inwards obeys, with R the
Mills ratio,

    -log P(Y > y) = d y + y^2/2 - log(R(d + y)/R(d)) =: f(y)        (no far end)

and with a far end at w the same E = f(y) for E = -log(1 - U (1 - e^-f(w))). f is convex with slope 1/R(d + y), so
Newton's method closes in from one side, and what is left of f(y) - E bounds the error of y. Nothing here is lost to the
size of d.

**Truncation to spans in log space: a union of any number of them, or one that is far from the location.**
With M the mass of the spans, and L and R the mass of the gaps to the left and to the right of the span into which U
falls, the number drawn has the tails w = L + U M and w = R + (1 - U) M under the whole noise: sums of positive terms,
each with its relative precision. The smaller of the two is inverted.

**Laws on the points of a grid** are rounded to them (quantize), or weighed by the density at them (truncate).
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

from rangebound.laws.boundings import Shape
from rangebound.laws.family import Noise
from rangebound.sampling.draw_plan import (
    MARGIN,
    NEAR,
    RARE,
    ROUNDING,
    DrawFamily,
    DrawPlan,
    Lattice,
    gaps,
    largest,
    steps_to_the_unit,
)
from rangebound.values.array_types import Bools, Floats, Words, np
from rangebound.values.numeric import log_sum

_STEPS = 5
_LEFT_OVER = 2.0**-46


class Drawn(NamedTuple):
    """Numbers before rounding: `centre` + `noise` (in scales), and whether the word is fine enough for them."""

    centre: Floats
    noise: Floats
    fine: Bools


def uniform(words: Words) -> Floats:
    """The middle of each word's place in (0, 1), with relative precision near 0."""
    high, low = words >> np.uint64(32), words & np.uint64(0xFFFFFFFF)
    return high.astype(np.float64) * 2.0**-32 + (low.astype(np.float64) + 0.5) * 2.0**-64


def inverted(plan: DrawPlan, words: Words, answers: Floats) -> Drawn:
    """Noise around each answer for each word."""
    up, down = uniform(words), uniform(~words)
    location = np.clip(answers, *plan.answers)
    return (_gaussian if plan.family in _GAUSSIAN else _laplace)(plan, up, down, location)


_GAUSSIAN = (DrawFamily.GAUSSIAN, DrawFamily.PLAIN_GAUSSIAN)


def _laplace(plan: DrawPlan, up: Floats, down: Floats, location: Floats) -> Drawn:
    centre = np.clip(location, *plan.given)
    reach = np.maximum(plan.limit - np.abs(location - centre), 0.0)
    below = np.exp(-np.minimum(centre - plan.given[0], reach) / plan.scale)
    above = np.exp(-np.minimum(plan.given[1] - centre, reach) / plan.scale)
    mass = (1.0 - below) + (1.0 - above)
    left = up * mass < 1.0 - below
    w = np.where(left, below + up * mass, above + down * mass)
    return Drawn(centre, np.where(left, 1.0, -1.0) * np.log(w), w >= mass * RARE)


def _gaussian(plan: DrawPlan, up: Floats, down: Floats, location: Floats) -> Drawn:
    from scipy.special import ndtr, ndtri  # here, because it is not needed to import the package

    low, high = (plan.given[0] - location) / plan.scale, (plan.given[1] - location) / plan.scale
    flip = low > -high
    deep, shallow = np.where(flip, high, -low), np.where(flip, -low, high)
    first, second = np.where(flip, down, up), np.where(flip, up, down)
    far, near = ndtr(-deep), ndtr(-np.abs(shallow))
    astride = shallow > 0.0
    mass = np.where(astride, 1.0 - near, near) - far
    left, right = far + first * mass, np.where(astride, near, 1.0 - near) + second * mass
    w = np.minimum(left, right)
    sign = np.where((left < right) != flip, 1.0, -1.0)
    return Drawn(location, sign * ndtri(w), w >= mass * RARE)


def rounded(plan: DrawPlan, drawn: Drawn) -> tuple[Floats, Bools]:
    """Nearest multiples, clamped; and which of them are undecided: too near to the edge of a cell."""
    lower, upper = plan.outputs
    with np.errstate(over="ignore", invalid="ignore"):
        noise = drawn.noise * plan.scale_steps
        place = drawn.centre * plan.per_step
        whole = np.rint(place)
        offset = (place - whole) + noise
        steps = np.rint(offset)
        values = (whole + steps) * float(plan.lattice.numerator) / float(plan.lattice.denominator)
        # What falls beyond an end belongs to the end, even if the nearest multiple lies inside.
        under, over = offset - (plan.collected[0] - whole), (plan.collected[1] - whole) - offset
        values = np.where(under < 0.0, lower, np.where(over < 0.0, upper, np.clip(values, lower, upper)))
        margin = plan.margin + plan.margin_growth * (np.abs(place) + np.abs(noise))
        sure = (np.abs(offset - steps) < 0.5 - margin) & (np.abs(under) > margin) & (np.abs(over) > margin)
    return values + 0.0, ~(sure & drawn.fine)


def inverted_tail(plan: DrawPlan, words: Words, answers: Floats) -> Drawn:
    """Numbers before rounding, from locations anywhere: both formulas for every draw, and the one that holds."""
    lower, upper = plan.given
    location = np.clip(answers, *plan.answers)
    reach = NEAR * plan.scale
    near = inverted(plan, words, np.clip(location, lower - reach, upper + reach))
    with np.errstate(all="ignore"):
        under = location < lower
        away = np.where(under, lower - location, location - upper) / plan.scale
        distance = np.maximum(away, 1.0)
        up, down = uniform(words), uniform(~words)
        first, second = np.where(under, up, down), np.where(under, down, up)
        rest = np.exp(-_exponent(distance, np.full_like(distance, (upper - lower) / plan.scale)))
        passed = rest + second * (1.0 - rest)
        exponent = np.where(first < 0.5, -np.log1p(-first * (1.0 - rest)), -np.log(passed))
        y = 2.0 * exponent / (distance + np.hypot(distance, np.sqrt(2.0 * exponent)))
        for _ in range(_STEPS):
            y = np.maximum(y - (_exponent(distance, y) - exponent) * _mills(distance + y), 0.0)
        off = np.abs(_exponent(distance, y) - exponent) * _mills(distance)
        fine = (passed >= RARE) & (off < _LEFT_OVER)
    far = away > NEAR
    return Drawn(
        np.where(far, np.where(under, lower, upper), near.centre),
        np.where(far, np.where(under, y, -y), near.noise),
        np.where(far, fine, near.fine),
    )


def _mills(z: Floats) -> Floats:
    """P(Z > z) over the density at z."""
    from scipy.special import erfcx  # here, because it is not needed to import the package

    ratio: Floats = math.sqrt(0.5 * math.pi) * erfcx(z * math.sqrt(0.5))
    return ratio


def _exponent(d: Floats, y: Floats) -> Floats:
    """-log P(Z > d + y | Z > d)."""
    endless = np.isinf(y)
    way = np.where(endless, 0.0, y)
    return np.where(endless, np.inf, way * (d + 0.5 * way) - np.log(_mills(d + way) / _mills(d)))


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
