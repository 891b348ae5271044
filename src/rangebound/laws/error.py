"""Bias, mean absolute error and mean squared error: at one true answer, on average, and in the worst case."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from rangebound.errors import ArgumentError
from rangebound.laws.boundings import Shape
from rangebound.laws.distribution import Law, moments
from rangebound.laws.family import Noise
from rangebound.values.array_types import Bools, Floats, legendre, np, npt
from rangebound.values.support import Interval, Union

_SCAN = 257
_RIPPLES = 1000  # more ends than this are not scanned one by one


T = TypeVar("T", float, Floats, float | Floats)


@dataclass(frozen=True, kw_only=True)
class Error(Generic[T]):
    """How far the published number is from the true answer: `bias` (signed), `mae` and `mse`; floats or arrays."""

    bias: T
    mae: T
    mse: T


def worst_error(noise: Noise, shape: Shape, answers: Interval | Union) -> Error[float]:
    """The largest of each error over the range of true answers: a scan, refined around its best points.

    Guarantee: attained, so never above the true worst case; the refinement stops at 1e-9 of the scale.
    Edge cases: an unbounded range is scanned up to 60 scales beyond the ends of the support. Past that the errors of an
    unbounded side no longer change, and those of a bounded side grow without limit: then they are infinite.
    """
    low, high = answers.hull.lower, answers.hull.upper
    ends = [end for end in (*shape.ends, low, high) if math.isfinite(end)] or [0.0]
    escapes = (math.isinf(low) and math.isfinite(shape.ends[0])) or (math.isinf(high) and math.isfinite(shape.ends[1]))
    if escapes:
        return Error(bias=math.inf, mae=math.inf, mse=math.inf)
    reach = 60.0 * noise.scale
    low = low if math.isfinite(low) else min(ends) - reach
    high = high if math.isfinite(high) else max(ends) + reach
    inner = [x for x in _landmarks(shape, answers) if low <= x <= high]
    near = [
        x + k * noise.scale
        for x in inner
        for k in (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0)
        if low <= x + k * noise.scale <= high
    ]
    grid = np.unique(np.concatenate([np.linspace(low, high, _SCAN), np.asarray(inner), np.asarray(near)]))
    grid = _inside(grid, answers)
    found = moments(noise, shape, grid)
    bias = _climb(noise, shape, answers, grid, found.bias, 2)
    other = _climb(noise, shape, answers, grid, -found.bias, 2)
    return Error(
        bias=max(bias, other),
        mae=_climb(noise, shape, answers, grid, found.mae, 3),
        mse=_climb(noise, shape, answers, grid, found.mse, 4),
    )


def average_error(noise: Noise, shape: Shape, answers: Interval | Union) -> Error[float]:
    """The errors averaged over a true answer uniform on the range: Gauss-Legendre panels that follow the scale.

    Edge cases: an unbounded range has no uniform average and is refused; the bias is the average of its absolute value.
    """
    if not answers.bounded:
        raise ArgumentError(f"range={answers}: must be bounded for an average over it")
    places, weights = [], []
    for lower, upper in answers.spans:
        cuts = {lower, upper, *(x for x in _landmarks(shape, answers) if lower < x < upper)}
        for end in (*shape.ends, lower, upper):
            for k in (-16.0, -8.0, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 8.0, 16.0):
                x = end + k * noise.scale
                if lower < x < upper:
                    cuts.add(x)
        count = max(1, math.ceil(min(16, 128 / len(answers.spans)) / len(cuts)))
        edges = np.unique(np.concatenate([np.linspace(a, b, count + 1) for a, b in itertools.pairwise(sorted(cuts))]))
        half = 0.5 * np.diff(edges)
        places.append(((edges[:-1] + half)[:, None] + half[:, None] * legendre(16)[0]).reshape(-1))
        weights.append((half[:, None] * legendre(16)[1]).reshape(-1))
    at, weight = np.concatenate(places), np.concatenate(weights)
    weight = weight / weight.sum()
    found = moments(noise, shape, at)
    return Error(bias=float(weight @ np.abs(found.bias)), mae=float(weight @ found.mae), mse=float(weight @ found.mse))


def _landmarks(shape: Shape, answers: Interval | Union) -> list[float]:
    """Ends of spans and points, and what lies halfway between them: the errors rise and fall from one to the next."""
    ends = sorted({x for span in (*answers.spans, *shape.spans) for x in span if math.isfinite(x)} | set(shape.points))
    if len(ends) > _RIPPLES:
        return [ends[0], ends[-1]]
    return sorted({*ends, *(0.5 * a + 0.5 * b for a, b in itertools.pairwise(ends))})


def _inside(grid: Floats, answers: Interval | Union) -> Floats:
    keep = np.zeros(grid.shape, dtype=bool)
    for lower, upper in answers.spans:
        keep |= (grid >= lower) & (grid <= upper)
    return grid[keep]


def _climb(noise: Noise, shape: Shape, answers: Interval | Union, grid: Floats, values: Floats, field: int) -> float:
    """Narrow the scan around its best point until the step is 1e-9 of the scale."""
    best, at = float(values.max()), int(values.argmax())
    low, high = float(grid[max(at - 1, 0)]), float(grid[min(at + 1, len(grid) - 1)])
    sign = -1.0 if field == 2 and values[at] != moments(noise, shape, grid[at : at + 1])[field][0] else 1.0
    while high - low > 1e-9 * max(noise.scale, abs(low) * 1e-6):
        finer = _inside(np.linspace(low, high, 17), answers)
        if len(finer) == 0:
            break
        here = sign * moments(noise, shape, finer)[field]
        at = int(here.argmax())
        best = max(best, float(here[at]))
        new_low, new_high = float(finer[max(at - 1, 0)]), float(finer[min(at + 1, len(finer) - 1)])
        if new_high - new_low >= high - low:
            break
        low, high = new_low, new_high
    return best


Test = Callable[[Floats], Bools]

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
