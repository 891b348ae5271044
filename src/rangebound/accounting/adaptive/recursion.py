"""The recursion over all adaptive adversaries: the value of what is left to come, as a function of the loss so far.

Let x = e^l be the price of the likelihood ratio that is left. The value V_c(l) of a rest c of steps obeys

    V_0(l) = (1 - e^l)+,        V_c(l) = sup over the kinds of steps in c and their pairs of E_P[V_(c - one)(l - L)],

and delta(eps) = V(eps) for all steps. V is convex and falls in x, so at the points of a grid the kernels of
`kernel_cover`, which dominate the pairs there, are upper bounds. All terms are positive: the round-off is relative.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from rangebound.accounting.adaptive.kernel_cover import Kernels
from rangebound.values.array_types import Floats

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
        for rest in _rests(free):
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
        top = min(_least((moments - small) / TILTS), sum(k * step.kernels.last for step, k in rest) * self._step)
        with np.errstate(invalid="ignore"):
            past = np.where(np.isfinite(everything), everything - moments, math.inf)
        gone = _least((past - small) / TILTS)
        low = math.floor((self.epsilon - gone) / self._step) - 1
        low = min(low, math.floor(self.epsilon / self._step) - 1)
        high = max(math.ceil(top / self._step) + 1, low + 2)
        return low, high


def _least(values: Floats) -> float:
    return float(np.nanmin(values))


def _rests(steps: Sequence[AdaptiveStep]) -> Iterator[tuple[int, ...]]:
    """All rests but the empty one, smaller ones first."""
    every = product(*(range(step.times + 1) for step in steps))
    yield from sorted((rest for rest in every if any(rest)), key=sum)


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
