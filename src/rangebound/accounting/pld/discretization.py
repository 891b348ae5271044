"""The privacy-loss distribution (PLD) of one step on a grid, by connecting the dots of its privacy profile.

With x = e^epsilon a profile h(x) = sup_A P(A) - x Q(A) is convex in x. The line through its values at some knots lies
above it everywhere, and is itself the profile of a discrete pair whose privacy loss takes the values of the knots: the
mass of Q at a knot is the change of slope there, the mass of P is x times that. That pair leaks at least as much, and
so do all its compositions [doroshenko2022; zhu2022, Thm 10]. For the lower bound the line is moved down by as much as
it can be above the profile between two knots, which the slopes on both sides limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import count, pairwise
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from rangebound.accounting.event import AllocatedEvent, FixedBatchEvent, MechanismEvent, SampledEvent, SingleEvent
from rangebound.accounting.pld import step_profile
from rangebound.accounting.pld.allocation_profile import allocated
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.values.array_types import Floats
from rangebound.values.ball import Ball, ball, down, precision, up

Point = tuple[Ball, Ball]  # x = e^epsilon, and the profile there or a bound on it


@dataclass(frozen=True, eq=False)
class DiscretePLD:
    """A PLD on a grid: the masses of P at the privacy losses index * step, and the mass at an infinite loss.

    An upper PLD has masses at or above those of a pair that leaks at least as much as the step, a lower PLD has masses
    at or below those of a pair that leaks at most as much. Delta at every epsilon only rises with a mass.
    """

    step: float
    index: npt.NDArray[np.int64]
    mass: Floats
    infinite: float

    @cached_property
    def losses(self) -> Floats:
        """The privacy losses."""
        return self.index.astype(np.float64) * self.step

    @cached_property
    def log_mass(self) -> Floats:
        """Logarithms of the masses; minus infinity where there is none."""
        with np.errstate(divide="ignore"):
            return np.log(self.mass)


@dataclass(frozen=True)
class DiscretizedEvent:
    """Upper PLDs of a step, for adding and for removing a person, and lower PLDs from some single pairs."""

    upper: tuple[DiscretePLD, ...]
    find_lower: Callable[[], tuple[DiscretePLD, ...]]

    @cached_property
    def lower(self) -> tuple[DiscretePLD, ...]:
        """Found when asked for: who needs an upper bound alone does without."""
        return self.find_lower()


@dataclass(frozen=True)
class Spacing:
    """How the knots are set: this many to a typical loss, evenly up to `even` of these, then ever farther apart."""

    fine: int
    even: float
    growth: float


QUICK = Spacing(fine=64, even=10.0, growth=1.01)
SEARCHED = Spacing(fine=12, even=4.0, growth=1.05)


def spacing(step: SingleEvent) -> Spacing:
    """Fine knots where a value of the profile is cheap, fewer where each is a search."""
    return QUICK if step.mechanism._is_quick else SEARCHED


def typical_loss(step: SingleEvent) -> float:
    """The mu of the Gaussian mechanism with the same total variation distance: it sets the grid and proves nothing."""
    with precision(step_profile.BITS):
        distance = float(profile_of(step)(0.0).mid())
    return 2.0 * NormalDist().inv_cdf(0.5 + 0.5 * min(distance, 1.0 - 1e-15))


def largest_loss(step: SingleEvent) -> float:
    """The largest finite privacy loss, for adding a person; sampling can only shrink it."""
    limit, edge = step_profile.pure(step.mechanism).upper, step.mechanism._edge
    if edge is not None and math.isinf(limit):
        limit = edge
    if isinstance(step, SampledEvent) and math.isfinite(limit):
        with precision(step_profile.BITS):
            limit = up((ball(step.rate) * ball(limit).expm1()).log1p())
    return limit


def discretize(step: SingleEvent, width: float, tail: float) -> DiscretizedEvent:
    """Upper and lower PLDs of a step on multiples of `width`, up to where the profile has fallen to `tail`."""
    with precision(step_profile.BITS):
        above = profile_of(step)
        places = _knots(step, above, width, tail)
        forth, back = dominating(above, places, width)
    upper = (forth, forth if isinstance(step, MechanismEvent) else back)
    return DiscretizedEvent(upper, partial(_below, step, places, width))


def _below(step: SingleEvent, places: list[int], width: float) -> tuple[DiscretePLD, ...]:
    """The lower PLDs of a step with these knots."""
    lower: list[DiscretePLD] = []
    with precision(step_profile.BITS):
        first, second = step_profile.pairs(step.mechanism)
        for each in (first,) if first is second else (first, second):
            points = _lowered(_points(profile_below(each, step), places, width), edge=step.mechanism._edge is not None)
            lower += _both(_masses(points, lambda new, old: new <= old), places, width, down)
    if step.mechanism._is_mirrored and isinstance(step, MechanismEvent):
        lower = lower[:1] * 2  # its own mirror image
    return (*lower[:2], *lower[-2:])


def sketch(step: SingleEvent, tail: float) -> DiscretePLD:
    """The upper PLD for adding a person with few knots, to choose a grid by."""
    width = max(typical_loss(step), 1e-12) / SEARCHED.fine
    with precision(step_profile.BITS):
        above = profile_of(step)
        return dominating(above, _knots(step, above, width, tail, SEARCHED), width)[0]


def dominating(above: step_profile.Profile, places: list[int], width: float) -> tuple[DiscretePLD, DiscretePLD]:
    """The upper PLDs of a profile, or of upper bounds on it at the knots, and of the other direction."""
    return _both(_masses(_points(above, places, width), lambda new, old: not new > old), places, width, up)


def profile_of(step: SingleEvent) -> step_profile.Profile:
    """An upper bound on the profile of a step over all pairs, at an epsilon of any sign."""
    found = step_profile.worst(step.mechanism)
    match step:
        case MechanismEvent():
            return found
        case SampledEvent():
            return step_profile.sampled(found, step.rate)
        case FixedBatchEvent(mechanism=Mechanism() as mechanism):
            return step_profile.fixed_batch(mechanism, step.rate)
        case AllocatedEvent(mechanism=Mechanism() as mechanism):
            return allocated(found, mechanism, step.batches)
    raise NotImplementedError(type(step))


def profile_below(found: step_profile.Profile, step: SingleEvent) -> step_profile.Profile:
    """The profile of a pair of a step, from that of a pair of its mechanism.

    Of a batch of fixed size it is the pair of `opposed`, where all other gradients point the other way. Of an epoch it
    is that of the sum of all its steps, where one example alone has a gradient: N(d, b s^2) against N(0, b s^2), for b
    batches. The sum is post-processing of the steps, so that these leak no less.
    """
    match step:
        case SampledEvent():
            return step_profile.sampled(found, step.rate)
        case FixedBatchEvent(mechanism=Mechanism() as mechanism):
            return step_profile.opposed(mechanism, step.rate)
        case AllocatedEvent(mechanism=Mechanism() as mechanism):
            return step_profile.summed(mechanism, step.batches)
    return found


def _points(found: step_profile.Profile, places: list[int], width: float) -> list[Point]:
    return [(ball(place * width).exp(), found(place * width)) for place in places]


def _knots(
    step: SingleEvent, above: step_profile.Profile, width: float, tail: float, rule: Spacing | None = None
) -> list[int]:
    """The multiples of the width at which to look, in rising order."""
    rule = rule or spacing(step)
    limit, last = largest_loss(step), math.inf
    if math.isfinite(limit):
        last = next(place for place in count(math.ceil(limit / width)) if place * width >= limit)
    right = []
    for place in _places(rule, last):
        right.append(place)
        if above(place * width) <= tail:
            break
    left = right
    if isinstance(step, SampledEvent):
        # Without the person nothing is less likely by more than 1 - rate.
        left = list(_places(rule, 1 - math.floor(math.log1p(-step.rate) / width)))
    elif not isinstance(step, MechanismEvent):
        # A batch only adds uncertainty. Far out the first number is lost in its rounding, and the second is not.
        left, plain = [], step_profile.worst(step.mechanism)
        for place in _places(rule, math.inf):
            left.append(place)
            if 1 - ball(place * width).exp() * (1 - above(-place * width)) <= tail or plain(place * width) <= tail:
                break
    return [*(-place for place in reversed(left) if place), *right]


def _places(rule: Spacing, last: float) -> Iterator[int]:
    """0, 1, 2, ... and then wider, up to the last."""
    place, gap = 0, 1.0
    while place < last:
        yield place
        if place >= rule.even * rule.fine:
            gap *= rule.growth
        place += int(gap)
    yield int(last)


def _lowered(points: list[Point], *, edge: bool) -> list[Point]:
    """Values at the knots whose connecting line is nowhere above the profile, and that are those of some pair.

    Between two knots the profile is above the lines through the two knots on the left and the two on the right. With a
    and b the differences of their slopes from the chord's, the chord is at most a b w/(a + b) above both.
    """
    zero = ball(0.0)
    row = [(zero, ball(1.0)), *points]
    slopes = [ball(-1.0)]  # no profile falls faster
    slopes += [(h1 - h0) / (x1 - x0) for (x0, h0), (x1, h1) in pairwise(row)]
    slopes.append(zero)
    sags = []
    for before, chord, after, (x0, _), (x1, _) in zip(slopes, slopes[1:], slopes[2:], row, row[1:], strict=False):
        left, right = chord - before, after - chord
        sags.append(left * right * (x1 - x0) / (left + right) if left > 0 and right > 0 else zero)
    sags.append(zero)
    values = [h - before.max(after) for (_, h), before, after in zip(points, sags[:-1], sags[1:], strict=True)]
    return _feasible([x for x, _ in points], values, points[-1][1] if edge else zero)


def _feasible(xs: list[Ball], values: list[Ball], floor: Ball) -> list[Point]:
    """The same, but nowhere below 1 - x or the floor: cut to these from the last knot on that is safely above."""
    middle = next(i for i, x in enumerate(xs) if x >= 1)
    right = next((i for i in range(middle, len(xs)) if not values[i] > floor), len(xs)) - 1
    left = next((i for i in range(middle, -1, -1) if not values[i] > 1 - xs[i]), -1) + 1
    if not left < middle < right:
        return [(x, (1 - x).max(ball(0.0))) for x in xs]
    ends = [(1 - xs[i] if i <= left else values[i] if i < right else floor) for i in range(len(xs))]
    return list(zip(xs, ends, strict=True))


@dataclass(frozen=True)
class _PairMasses:
    """Masses of P and Q at the knots, and what each has where the other has nothing."""

    p: list[Ball]
    q: list[Ball]
    only_p: Ball
    only_q: Ball


def _masses(points: list[Point], drops: Callable[[Ball, Ball], bool]) -> _PairMasses:
    """Changes of slope of the convex hull of the points, from (0, 1) on the left to a flat line on the right.

    An upper line stays above the profile whichever knot is left out, so it drops a knot in doubt. A lower line goes
    down only if the knot was above, so it keeps one in doubt, and a mass that may be negative is rounded down to zero.
    """
    zero = ball(0.0)
    kept: list[tuple[int, Ball, Ball]] = [(-1, zero, ball(1.0))]
    slopes: list[Ball] = [ball(-math.inf)]
    for i, (x, value) in enumerate(points):
        while True:
            slope = (value - kept[-1][2]) / (x - kept[-1][1])
            if len(kept) == 1 or not drops(slope, slopes[-1]):
                break
            kept.pop()
            slopes.pop()
        kept.append((i, x, value))
        slopes.append(slope)
    q = [zero] * len(points)
    for (i, _, _), slope, after in zip(kept[1:], slopes[1:], [*slopes[2:], zero], strict=True):
        q[i] = after - slope
    p = [x * each for (x, _), each in zip(points, q, strict=True)]
    return _PairMasses(p, q, points[-1][1], 1 + slopes[1])


def _both(
    found: _PairMasses, places: list[int], width: float, rounded: Callable[[Ball], float]
) -> tuple[DiscretePLD, DiscretePLD]:
    index = np.asarray(places, dtype=np.int64)
    forth = np.maximum([rounded(each) for each in found.p], 0.0)
    back = np.maximum([rounded(each) for each in found.q], 0.0)
    return (
        DiscretePLD(width, index, forth, max(0.0, rounded(found.only_p))),
        DiscretePLD(width, -index[::-1], back[::-1].copy(), max(0.0, rounded(found.only_q))),
    )
