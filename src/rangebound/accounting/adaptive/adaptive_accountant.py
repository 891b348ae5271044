"""The accountant over adaptive adversaries: epsilon and delta of compositions in which the worst pair varies.

Where all pairs of a step are dominated by one of them there is nothing to gain, and the privacy-loss accountant is
exact. For truncated noise the worst pair differs from one epsilon to the next; the recursion lets the adversary choose
a pair at every step, which is all that an adversary can do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rangebound.accounting.adaptive import kernel_cover
from rangebound.accounting.adaptive.kernel_cover import Kernels
from rangebound.accounting.adaptive.pair_rows import SampledRows, pair_rows
from rangebound.accounting.adaptive.recursion import TILTS, Adversary, Progress, make_step
from rangebound.accounting.event import Event, MechanismEvent, SampledEvent, SingleEvent, steps
from rangebound.accounting.pld import discretization, step_profile
from rangebound.accounting.pld.discretization import spacing
from rangebound.values.array_types import Floats
from rangebound.values.ball import precision

_FINE, _COARSE = 64.0, 5.0  # points of the grid to a typical loss
_WORK = 2e10  # multiplications that are worth it: about three seconds
_MOST_LOSSES = 250  # points of the grid up to the largest loss of a step
_MOST_CURVES = 1.6e6  # numbers in all rows of a step on the grid, for losses above zero
_LARGEST = 12.0  # loss of a step: beyond, no use of the steps is private and floats lose the curves
_USUAL = 25  # kernels of a step
_TOLERANCE = 1e-4
_LEAST_DELTA = 1e-250


def epsilon_within(event: Event, delta: float, lower: float, known: float, progress: Progress | None = None) -> float:
    """The epsilon at delta over all adaptive adversaries, where it is known to lie between two numbers.

    Guarantee: at most `known`, and never below the exact value if `known` is not. It holds for all neighbouring
    datasets, for queries chosen adaptively, and for the steps in any order.
    Assumes: as for `rangebound.accounting.pld.accountant.delta`.
    Edge cases: `known` where no step has pairs to choose from, and where there are so many steps that the recursion
    would take minutes.

    >>> import rangebound as rb
    >>> from rangebound.accounting import MechanismEvent
    >>> count = rb.Query(range=rb.Interval(0, 5), sensitivity=1.0)
    >>> m = rb.Mechanism(noise=rb.Laplace(scale=4.0), query=count)
    >>> 4.79 < epsilon_within(MechanismEvent(mechanism=m, times=20), 1e-6, 4.7, 5.04) < 4.86
    True
    """
    if not (_LEAST_DELTA < delta < 1.0 and lower < known < math.inf):
        return known
    found = [each.value(progress).root(delta) for each in _adversaries(event, lower, delta)]
    return min(known, max(found, default=math.inf))


def delta_within(event: Event, epsilon: float, lower: float, known: float, progress: Progress | None = None) -> float:
    """The delta at epsilon over all adaptive adversaries, where it is known to lie between two numbers.

    Guarantee: as for `epsilon_within`.
    """
    if not (lower < known and known > _LEAST_DELTA):
        return known
    found = [each.value(progress).at(epsilon) for each in _adversaries(event, epsilon, max(lower, 1e-3 * known))]
    return min(known, max(found, default=1.0))


def _adversaries(event: Event, epsilon: float, delta: float) -> list[Adversary]:
    """One for adding and one for removing a person, the same where no step is sampled; none where there is no gain."""
    counts = {step: k for step, k in steps(event).items() if step_profile.pure(step.mechanism).upper > 0.0}
    if sum(counts.values()) < 2 or not all(isinstance(step, (MechanismEvent, SampledEvent)) for step in counts):
        return []
    grid = _grid(counts)
    if grid is None:
        return []
    tilt = _tilt(counts, delta)
    tail = 10.0 ** (5 * math.floor(math.log10(1e-5 * delta / sum(counts.values())) / 5))
    both = (False, True) if any(isinstance(step, SampledEvent) for step in counts) else (False,)
    found = []
    for removed in both:
        kernels = [(_of_step(step, removed, grid, tilt, tail), k) for step, k in counts.items()]
        made = tuple(make_step(each, k) for each, k in kernels if each is not None)
        if len(made) < len(counts):
            return []  # both directions count, and every step
        found.append(Adversary(made, epsilon, delta))
    return found


def _of_step(step: SingleEvent, removed: bool, grid: _GridChoice, tilt: float, tail: float) -> Kernels | None:
    if step in grid.multiples:
        return _fixed(step, removed, grid.width, grid.multiples[step], tail)
    return _kernels(step, removed, grid.width, tilt)


_rows = lru_cache(maxsize=32)(pair_rows)


def _lines(step: SingleEvent, removed: bool) -> list[kernel_cover.CurveRows]:
    rows = _rows(step.mechanism) or ()
    if isinstance(step, SampledEvent):
        return [SampledRows(each, step.rate, removed) for each in rows]
    return list(rows)


@lru_cache(maxsize=64)
def _kernels(step: SingleEvent, removed: bool, width: float, tilt: float) -> Kernels | None:
    """Kernels of a step whose pairs have rows; None where the grid is too coarse for them."""
    tilts = tilt * np.asarray([0.4, 0.6, 0.8, 1.0, 1.25, 1.6, 2.2])
    return kernel_cover.cover(_lines(step, removed), width, discretization.largest_loss(step), tilts, _TOLERANCE)


@lru_cache(maxsize=64)
def _fixed(step: SingleEvent, removed: bool, width: float, multiple: int, tail: float) -> Kernels:
    """The one kernel of a step that the privacy-loss accountant has: it dominates all pairs."""
    pld = discretization.discretize(step, multiple * width, tail).upper[removed]
    index = pld.index * multiple
    mass = np.zeros((1, int(index[-1] - index[0]) + 1))
    mass[0, index - index[0]] = pld.mass
    return Kernels(width, int(index[0]), mass, np.asarray([pld.infinite]))


def _tilt(counts: dict[SingleEvent, int], delta: float) -> float:
    """About the tilt at which the Chernoff bound on delta is best: it chooses kernels and proves nothing."""
    total = sum((k * _log_moments(step) for step, k in counts.items()), np.zeros(len(TILTS)))
    return float(TILTS[np.nanargmin((total - math.log(delta)) / TILTS)])


@lru_cache(maxsize=64)
def _log_moments(step: SingleEvent) -> Floats:
    """About the largest ln E e^(t L) of a pair, at TILTS: t (t+1) times the integral of the curve minus (1-x)+."""
    size = discretization.typical_loss(step)
    top = min(discretization.largest_loss(step), 12.0 * size)
    levels = np.linspace(-top, top, 41)
    lines = _lines(step, removed=False)
    with precision(step_profile.BITS):
        profile = step_profile.worst(step.mechanism)
        if isinstance(step, SampledEvent):
            profile = step_profile.sampled(profile, step.rate)
        rows = [line.at(levels) for line in lines] or [np.asarray([[float(profile(x).mid()) for x in levels.tolist()]])]
    floor = np.maximum(-np.expm1(levels), 0.0)
    exponents = levels[:, None] * TILTS
    with np.errstate(over="ignore"):
        weights = np.where(exponents < 600.0, np.exp(np.minimum(exponents, 600.0)), math.inf)
    with np.errstate(invalid="ignore"):  # 0 times inf, where a profile ends: no tilt that is taken
        found: Floats = np.max([(np.maximum(row - floor, 0.0) @ weights).max(axis=0) for row in rows], axis=0)
    moments: Floats = np.log1p(TILTS * (TILTS + 1.0) * found * (levels[1] - levels[0]))
    return moments


@dataclass(frozen=True)
class _GridChoice:
    """The width of the grid, and for each step without a choice the multiple of it on which its kernel is."""

    width: float
    multiples: dict[SingleEvent, int]


def _grid(counts: dict[SingleEvent, int]) -> _GridChoice | None:
    """The finest grid that the work allows, with a choice at as many kinds of steps as it allows; None if at none.

    Points at a distance h add about h^2/6 to the variance of a loss, and half as much to its mean.
    """
    free = [step for step in counts if discretization.largest_loss(step) <= _LARGEST and _rows(step.mechanism)]
    if not free:
        return None
    sizes = {step: max(discretization.typical_loss(step), 1e-12) for step in counts}
    total = math.sqrt(sum(k * sizes[step] ** 2 for step, k in counts.items()))
    free.sort(key=lambda step: counts[step] * sizes[step] ** 2)
    while free:
        fine = _FINE
        while fine >= _COARSE:
            width = _rounded(counts, total / math.sqrt(sum(counts.values())) / fine)
            if _fits(free, width) and _work(counts, free, sizes, total / width, width) <= _WORK:
                wanted = {step: total / math.sqrt(len(counts) * k) / spacing(step).fine for step, k in counts.items()}
                others = [step for step in counts if step not in free]
                return _GridChoice(
                    width, {step: 2 ** max(math.floor(math.log2(wanted[step] / width)), 0) for step in others}
                )
            fine /= 1.25
        free.pop(0)
    return None


def _fits(free: list[SingleEvent], width: float) -> bool:
    """Whether kernels for these steps on this grid are made in about a second."""
    points = {step: discretization.largest_loss(step) / width for step in free}
    rows = {step: sum(len(each.places) for each in _rows(step.mechanism) or ()) for step in free}
    return all(points[step] <= _MOST_LOSSES and points[step] * rows[step] <= _MOST_CURVES for step in free)


def _rounded(counts: dict[SingleEvent, int], width: float) -> float:
    """The width such that the largest loss of a single kind of step is a point, with 24 bits."""
    if len(counts) == 1:
        largest = discretization.largest_loss(next(iter(counts)))
        width = largest / math.ceil(largest / width) if math.isfinite(largest) else width
    mantissa, exponent = math.frexp(width)
    return math.ldexp(math.ceil(math.ldexp(mantissa, 24)), exponent - 24)


def _work(
    counts: dict[SingleEvent, int],
    free: list[SingleEvent],
    sizes: dict[SingleEvent, float],
    spread: float,
    width: float,
) -> float:
    """About how many multiplications the recursion takes."""
    states = math.prod(counts[step] + 1 for step in free)
    found = 0.0
    for step, k in counts.items():
        taps = 2.0 * min(discretization.largest_loss(step), 12.0 * sizes[step]) / width + 3.0
        found += taps * (_USUAL * states if step in free else k)
    return 6.0 * spread * found
