"""The accountant over adaptive adversaries: epsilon and delta of compositions in which the worst pair varies.

Where all pairs of a step are dominated by one of them there is nothing to gain, and the privacy-loss accountant is
exact. For truncated noise the worst pair differs from one epsilon to the next; the recursion lets the adversary choose
a pair at every step, which is all that an adversary can do.

Let x = e^l be the price of the likelihood ratio that is left. The value V_c(l) of a rest c of steps obeys

    V_0(l) = (1 - e^l)+,        V_c(l) = sup over the kinds of steps in c and their pairs of E_P[V_(c - one)(l - L)],

and delta(eps) = V(eps) for all steps. V is convex and falls in x, so at the points of a grid the kernels of
`kernel_cover`, which dominate the pairs there, are upper bounds. All terms are positive: the round-off is relative.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from rangebound.accounting import kernel_cover
from rangebound.accounting.event import Event, MechanismEvent, SampledEvent, SingleEvent, steps
from rangebound.accounting.kernel_cover import Kernels
from rangebound.accounting.pair_rows import SampledRows, pair_rows
from rangebound.accounting.pld import discretization, step_profile
from rangebound.accounting.pld.accountant import short
from rangebound.accounting.pld.discretization import spacing
from rangebound.values.array_types import Floats
from rangebound.values.ball import precision

Progress = Callable[[int, int], None]  # steps done, steps in all

_UNIT = 2.0**-53
_LEAST = 1e-280  # smaller values are replaced by this: no product of theirs with a mass is lost
_BLOCK = (
    1 << 18
)  # multiplications in one product of matrices: so few that BLAS does not start threads, which costs more
TILTS: Floats = 2.0 ** np.arange(-24.0, 12.0, 0.25)


@dataclass(frozen=True, eq=False)
class AdversaryValues:
    """Upper bounds on a falling function of the loss at (first + i) * step; 1 before, the last one after."""

    step: float
    first: int
    values: Floats

    def between(self, first: int, last: int) -> Floats:
        """The bounds from one index to another, also beyond the ends."""
        index = np.arange(first, last + 1) - self.first
        found = self.values[np.clip(index, 0, len(self.values) - 1)]
        found[index < 0] = 1.0
        return found

    def at(self, level: float) -> float:
        """A bound between the points of the grid: the chord in e^l, which a convex function does not exceed."""
        place = math.floor(level / self.step)
        left, right = map(float, self.between(place, place + 1))
        share = math.expm1(level - place * self.step) / math.expm1(self.step)
        share = min(max(share - 1e-9, 0.0), 1.0)  # a smaller level has a larger value
        return min(((1.0 - share) * left + share * right) * (1.0 + 1e-12), 1.0)

    def root(self, value: float) -> float:
        """A level from which on the function is at most `value`; infinite where none is known."""
        below = np.flatnonzero(self.values * (1.0 + 1e-12) <= value)
        if not len(below):
            return math.inf
        place = int(below[0])
        if place == 0:
            return self.first * self.step
        left, right = self.values[place - 1 : place + 1] * (1.0 + 1e-12)
        share = min(float((left - value) / (left - right)) + 1e-9, 1.0)
        start = (self.first + place - 1) * self.step
        return start + math.log1p(share * math.expm1(self.step)) + 1e-12 * (abs(start) + self.step)


@dataclass(frozen=True, eq=False)
class AdaptiveStep:
    """A kind of step: kernels that dominate all its pairs, and how often it is taken."""

    kernels: Kernels
    times: int
    log_moments: Floats

    @property
    def adaptive(self) -> bool:
        """Whether there is a choice between kernels."""
        return len(self.kernels.mass) > 1


def make_step(kernels: Kernels, times: int) -> AdaptiveStep:
    """A step with its logarithmic moments at `TILTS`, which set the windows and prove nothing."""
    largest = max(abs(kernels.first), abs(kernels.last)) * kernels.step
    moments = [kernels.log_moment(t) if t * largest < 600.0 else math.inf for t in TILTS.tolist()]
    return AdaptiveStep(kernels, times, np.asarray(moments))


@dataclass(frozen=True, eq=False)
class Adversary:
    """The steps of a composition, and for which epsilon and which delta the windows of the grid are to be sharp."""

    steps: tuple[AdaptiveStep, ...]
    epsilon: float
    delta: float

    def value(self, progress: Progress | None = None) -> AdversaryValues:
        """The value of all steps, in any order, which the adversary may choose as it goes.

        Steps without a choice come first in time: the mean of a supremum is at least the supremum of the mean.
        """
        free = [step for step in self.steps if step.adaptive]
        fixed = [step for step in self.steps if not step.adaptive]
        total = math.prod(step.times + 1 for step in free) - 1 + sum(step.times for step in fixed)
        done = 0
        first = self._window(())
        index = np.arange(first[0], first[1] + 1)
        known = {
            (0,) * len(free): AdversaryValues(self._step, first[0], np.maximum(-np.expm1(index * self._step), _LEAST))
        }
        every = product(*(range(step.times + 1) for step in free))
        for rest in sorted((each for each in every if any(each)), key=sum):  # all but the empty one, smaller ones first
            window = self._window(list(zip(free, rest, strict=True)))
            found = [
                _advance(known[(*rest[:i], count - 1, *rest[i + 1 :])], step.kernels, *window)
                for i, (step, count) in enumerate(zip(free, rest, strict=True))
                if count
            ]
            known[rest] = AdversaryValues(self._step, window[0], np.max(found, axis=0))
            for old in [key for key in known if sum(key) < sum(rest) - 1]:
                del known[old]
            done += 1
            if progress is not None:
                progress(done, total)
        result = known[tuple(step.times for step in free)]
        left = [(step, step.times) for step in free]
        for step in fixed:
            for count in range(1, step.times + 1):
                window = self._window([*left, (step, count)])
                result = AdversaryValues(self._step, window[0], _advance(result, step.kernels, *window))
                done += 1
                if progress is not None:
                    progress(done, total)
            left.append((step, step.times))
        return result

    @property
    def _step(self) -> float:
        return self.steps[0].kernels.step

    def _window(self, rest: Sequence[tuple[AdaptiveStep, int]]) -> tuple[int, int]:
        """Where the value of a rest of steps matters: before, the past is too unlikely; after, the value too small."""
        count = sum(step.times for step in self.steps)
        small = math.log(1e-4 * self.delta / count)
        moments = sum((k * step.log_moments for step, k in rest if k), np.zeros(len(TILTS)))
        everything = sum((step.times * step.log_moments for step in self.steps), np.zeros(len(TILTS)))
        farthest = sum(k * step.kernels.last for step, k in rest) * self._step
        top = min(float(np.nanmin((moments - small) / TILTS)), farthest)
        with np.errstate(invalid="ignore"):
            past = np.where(np.isfinite(everything), everything - moments, math.inf)
        gone = float(np.nanmin((past - small) / TILTS))
        low = math.floor((self.epsilon - gone) / self._step) - 1
        low = min(low, math.floor(self.epsilon / self._step) - 1)
        high = max(math.ceil(top / self._step) + 1, low + 2)
        return low, high


def _advance(values: AdversaryValues, kernels: Kernels, first: int, last: int) -> Floats:
    """The largest of sum over i of m_i V(l - i), plus the mass at an infinite loss, from one index to another."""
    size = kernels.mass.shape[1]
    row = values.between(first - kernels.last, last - kernels.first)
    weights = np.ascontiguousarray(kernels.mass[:, ::-1].T)
    windows = sliding_window_view(row, size)
    block = max(_BLOCK // weights.size, 16)
    parts = [(windows[i : i + block] @ weights + kernels.infinite).max(axis=1) for i in range(0, len(windows), block)]
    # Products and sums of positive numbers: each of `size` operations is off by one unit at most.
    found: Floats = np.concatenate(parts) * (1.0 + 2.0 * (size + 8) * _UNIT)
    return np.clip(found, _LEAST, 1.0)


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
    # About the tilt at which the Chernoff bound on delta is best: it chooses kernels and proves nothing.
    total = sum((k * _log_moments(step) for step, k in counts.items()), np.zeros(len(TILTS)))
    tilt = float(TILTS[np.nanargmin((total - math.log(delta)) / TILTS)])
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
    return short(width)


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
