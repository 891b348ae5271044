"""The privacy-loss accountant: epsilon at delta and delta at epsilon of a composition, each enclosed.

The privacy-loss distribution (PLD) of every step is put on a grid by connecting the dots of its exact profile
(`discretization`), and the steps are composed by a tilted Fourier transform with a bound on its error (`fourier`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache, partial

from rangebound.accounting.event import (
    AllocatedEvent,
    Event,
    FixedBatchEvent,
    MechanismEvent,
    SampledEvent,
    SingleEvent,
    steps,
)
from rangebound.accounting.pld import discretization, step_profile
from rangebound.accounting.pld.fixed_batch_run import fixed_batch_run
from rangebound.accounting.pld.fourier import ComposedPLD, PLDComposition, tilt_for_delta, tilt_for_epsilon
from rangebound.values import arguments
from rangebound.values.ball import Ball, ball, down, precision, span, up
from rangebound.values.numeric import Enclosure
from rangebound.values.roots import falling_bracket

_TAIL, _LAST_TAIL, _LEAST = 1e-25, 1e-270, 1e-290
_MOST_BINS = 2.0**21
_COARSEST = 4.0**10
_CLOSE = 1e-6  # relative, of a root
_FEW, _MANY = 4, 64  # steps
_COARSE = 8.0  # with wider grids the lower bound suffers
_ENOUGH = 2e-3  # relative: two bounds as close as that need no third one


def delta(event: Event, epsilon: float) -> Enclosure:
    """The delta that a composition needs at epsilon.

    Guarantee: the upper bound holds for all neighbouring datasets and all adaptive choices of queries; the lower bound
    is what one fixed pair of answers leaks.
    Assumes: each step is answered with fresh noise.
    Edge cases: 0 for an event without steps. The upper bound composes the supremum of the profiles over all pairs.
    Where the worst pair differs from one epsilon to another, as for noise truncated near the ends of the range, that is
    more than any one pair needs, the two bounds do not meet, and the Renyi accountant or the recursion over adaptive
    adversaries has a smaller one (`compose` takes the best).

    >>> import rangebound as rb
    >>> line = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)
    >>> m = rb.Mechanism(noise=rb.Gaussian(scale=10.0), query=line, bounding=rb.UNBOUNDED)
    >>> found = delta(MechanismEvent(mechanism=m, times=100), 1.0)  # exactly one Gaussian release with scale 1
    >>> round(found.upper, 4)
    0.127
    """
    epsilon = arguments.nonnegative("epsilon", epsilon)
    counts = _leaking(event)
    if not counts:
        return Enclosure(lower=0.0, upper=0.0)
    if epsilon >= _pure(counts).upper:
        return Enclosure(lower=0.0, upper=0.0)
    if sum(counts.values()) == 1:
        return _single(next(iter(counts)), epsilon)
    tail = _TAIL
    while True:
        found = _composed_delta(counts, epsilon, tail)
        floor = 2.0 * tail
        endless = any(math.isinf(discretization.largest_loss(step)) for step in counts)
        if found.upper > 1e3 * floor or tail <= _LAST_TAIL or not endless:
            return found
        tail *= 1e-40


def epsilon(event: Event, delta: float) -> Enclosure:
    """The epsilon that a composition needs at delta.

    Guarantee: as for `delta`; `inf` where no epsilon is enough.
    Assumes: as for `delta`.
    Edge cases: delta = 0 adds up the pure epsilons; delta below 1e-270 does too.

    >>> import rangebound as rb
    >>> line = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)
    >>> m = rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=line, bounding=rb.UNBOUNDED)
    >>> round(epsilon(MechanismEvent(mechanism=m, times=1000), 1e-6).upper, 0)
    649.0
    """
    delta = arguments.probability("delta", delta)
    counts = _leaking(event)
    if not counts:
        return Enclosure(lower=0.0, upper=0.0)
    pure = _pure(counts)
    if delta < _LAST_TAIL:
        return pure if delta == 0.0 else Enclosure(lower=0.0, upper=pure.upper)
    step = next(iter(counts))
    if sum(counts.values()) == 1 and isinstance(step, MechanismEvent):
        return step.mechanism._enclosed_epsilon(delta)
    found = _composed_epsilon(counts, delta)
    return Enclosure(lower=min(found.lower, pure.upper), upper=min(found.upper, pure.upper))


def epsilon_above(event: Event, delta: float) -> float:
    """The upper end of `epsilon`, in about half the time."""
    counts = _leaking(event)
    if delta < _LAST_TAIL or sum(counts.values()) < 2 or any(isinstance(each, FixedBatchEvent) for each in counts):
        return epsilon(event, delta).upper
    _, above = _on_grid(counts, 1e-4 * delta, partial(tilt_for_delta, delta=delta))
    found = _other_ways(_root(above[0].delta_upper, delta, above[0])[1], above[1:], delta)
    return min(found, _pure(counts).upper)


def pairs_at(event: Event, epsilon: float) -> list[step_profile.Profile]:
    """Profiles of pairs of datasets that leak much at epsilon, enclosed at an epsilon of any sign.

    Of several steps, it is that of the lower PLDs of one pair of answers in each of them, on one grid: a convex
    function of e^epsilon that is nowhere above the profile of the pair. One step has no grid; of a few steps, each is
    there by itself too.

    Guarantee: each is attained by some neighbouring datasets, or exceeded.
    Edge cases: none for steps that leak nothing.
    """
    counts = _leaking(event)
    if not counts:
        return []
    number = sum(counts.values())
    alone = list(counts) if number <= _FEW else []  # one step alone may leak more than a grid shows of all
    if number == 1:
        return _pairs_of(next(iter(counts)), epsilon)
    found, _ = _on_grid(counts, _TAIL, lambda composition: tilt_for_epsilon(composition, epsilon))
    columns = zip(*(each.lower for each in found), strict=True)
    first, first_turned, second, second_turned = (PLDComposition(each, tuple(counts.values())) for each in columns)
    pairs = [(first, first_turned), (second, second_turned)]
    same = all(a is b for a, b in zip(first.plds, second.plds, strict=True))
    composed = [partial(_enclosed, *each) for each in (pairs[:1] if same else pairs)]
    return [*composed, *(each for step in alone for each in _pairs_of(step, epsilon))]


def _pairs_of(step: SingleEvent, epsilon: float) -> list[step_profile.Profile]:
    """Profiles of pairs of one step, without a grid."""
    if isinstance(step, MechanismEvent):
        return list(step.mechanism._attack_pairs(epsilon))
    return [discretization.profile_below(pair, step) for pair in step_profile.pairs(step.mechanism)]


def _enclosed(forth: PLDComposition, back: PLDComposition, epsilon: float) -> Ball:
    """The profile of composed PLDs at an epsilon of any sign: those of a pair, and those of its other order."""
    if epsilon < 0.0:
        return 1 - ball(epsilon).exp() * (1 - _enclosed(back, forth, -epsilon))
    composed = ComposedPLD(forth, tilt_for_epsilon(forth, epsilon))
    return span(composed.delta_lower(epsilon), composed.delta_upper(epsilon))


def _leaking(event: Event) -> dict[SingleEvent, int]:
    """The steps that leak anything, and how often each was taken."""
    return {step: times for step, times in steps(event).items() if step_profile.pure(step.mechanism).upper > 0.0}


def _single(step: SingleEvent, epsilon: float) -> Enclosure:
    """One step: its privacy profile, without a grid."""
    if isinstance(step, MechanismEvent):
        worst = step.mechanism._enclosed_delta(epsilon)
        return Enclosure(lower=min(worst.lower, 1.0), upper=min(worst.upper, 1.0))
    with precision(step_profile.BITS):
        upper = max(map(up, _both_ways(discretization.profile_of(step), epsilon)))
        lower = 0.0
        for pair in step_profile.pairs(step.mechanism):
            lower = max(lower, *map(down, _both_ways(discretization.profile_below(pair, step), epsilon)))
        return Enclosure(lower=min(lower, upper, 1.0), upper=min(max(upper, 0.0), 1.0))


def _both_ways(found: step_profile.Profile, epsilon: float) -> tuple[Ball, Ball]:
    """A profile at epsilon, and that of the pair in the other direction: H_x(Q || P) = 1 - x + x H_(1/x)(P || Q)."""
    x = ball(epsilon).exp()
    return found(epsilon), 1 - x * (1 - found(-epsilon))


def _pure(counts: dict[SingleEvent, int]) -> Enclosure:
    """The sum of the pure epsilons."""
    with precision(step_profile.BITS):
        low = high = ball(0.0)
        for step, times in counts.items():
            worst = step_profile.pure(step.mechanism)
            if math.isinf(worst.upper):
                high = ball(math.inf)
            elif isinstance(step, SampledEvent):
                high = high + times * (ball(step.rate) * ball(worst.upper).expm1()).log1p()
            else:
                high = high + times * ball(worst.upper)
            low = low + times * _attained_loss(step, worst.lower)
        return Enclosure(lower=max(down(low), 0.0), upper=up(high))


def _attained_loss(step: SingleEvent, loss: float) -> Ball:
    """A privacy loss that some pair of a step comes near to, from that of a pair of its mechanism.

    A sample has the loss log(1 + p (e^loss - 1)) with the person against without; all steps may have it at once.
    """
    if isinstance(step, MechanismEvent) or (isinstance(step, AllocatedEvent) and math.isinf(loss)):
        return ball(loss)
    if isinstance(step, AllocatedEvent):
        return ball(0.0)
    return ball(loss) if math.isinf(loss) else (ball(step.rate) * ball(loss).expm1()).log1p()


def _composed_delta(counts: dict[SingleEvent, int], epsilon: float, tail: float) -> Enclosure:
    tilt = partial(tilt_for_epsilon, epsilon=epsilon)
    found, above, below = _compositions(counts, tail, tilt)
    uppers = [each.delta_upper(epsilon) for each in above]
    lower = max(each.delta_lower(epsilon) for each in below)
    if lower < (1.0 - _ENOUGH) * uppers[0] and (run := _run(counts, found)) is not None:
        uppers[0] = min(uppers[0], ComposedPLD(run, tilt(run)).delta_upper(epsilon))
    return Enclosure(lower=min(lower, max(uppers)), upper=max(uppers))


def _composed_epsilon(counts: dict[SingleEvent, int], delta: float) -> Enclosure:
    tilt = partial(tilt_for_delta, delta=delta)
    found, above, below = _compositions(counts, 1e-4 * delta, tilt)
    lower = 0.0
    for each in below:
        if not lower or (math.isfinite(lower) and each.delta_lower(lower) > delta):
            lower = max(lower, _root(each.delta_lower, delta, each)[0])
    upper = _root(above[0].delta_upper, delta, above[0])[1]
    if lower < (1.0 - _ENOUGH) * upper and (run := _run(counts, found)) is not None:
        composed = ComposedPLD(run, tilt(run))
        upper = min(upper, _root(composed.delta_upper, delta, composed)[1])
    upper = _other_ways(upper, above[1:], delta)
    return Enclosure(lower=min(lower, upper), upper=upper)


def _other_ways(upper: float, others: list[ComposedPLD], delta: float) -> float:
    """An epsilon that is enough for these too, most of which need no more."""
    for each in others:
        if math.isfinite(upper) and each.delta_upper(upper) > delta:
            upper = max(upper, _root(each.delta_upper, delta, each)[1])
    return upper


def _run(counts: dict[SingleEvent, int], found: list[discretization.DiscretizedEvent]) -> PLDComposition | None:
    """Other upper PLDs, of the dataset with the person against the one without, where there are some."""
    return fixed_batch_run(counts, [each.upper[0] for each in found])


def _compositions(
    counts: dict[SingleEvent, int], tail: float, tilt: Callable[[PLDComposition], float]
) -> tuple[list[discretization.DiscretizedEvent], list[ComposedPLD], list[ComposedPLD]]:
    """The steps on the finest grid that fits, their upper PLDs composed in each direction, and lower ones of pairs."""
    found, above = _on_grid(counts, tail, tilt)
    below = _columns([each.lower for each in found], tuple(counts.values()))
    return found, above, [ComposedPLD(each, tilt(each)) for each in below]


def _on_grid(
    counts: dict[SingleEvent, int], tail: float, tilt: Callable[[PLDComposition], float]
) -> tuple[list[discretization.DiscretizedEvent], list[ComposedPLD]]:
    """The PLDs of each step on the finest grid that fits, and the upper ones composed."""
    tail = max(tail, _LEAST) / sum(counts.values())
    tail = 10.0 ** (5 * math.floor(math.log10(tail) / 5))  # few different sizes, so that the cache of PLDs is hit
    coarser = _coarseness(counts, tail, tilt)
    while True:
        widths = _widths(counts, coarser)
        found = [_discretized(step, widths[step], tail) for step in counts]
        times = tuple(counts.values())
        above = [ComposedPLD(each, tilt(each)) for each in _columns([each.upper for each in found], times)]
        if all(each.roomy for each in above) or coarser >= _COARSEST:
            return found, above
        coarser *= 2.0


def _coarseness(counts: dict[SingleEvent, int], tail: float, tilt: Callable[[PLDComposition], float]) -> float:
    """How much coarser a grid may be, where few large losses matter and not many typical ones; it proves nothing.

    Knots at a distance h add about k h^2 (t+1)/12 to epsilon, which of typical losses is a fixed part of it.
    """
    if sum(counts.values()) < _MANY or not all(each.mechanism._is_quick for each in counts):
        return 1.0
    sketches = PLDComposition(tuple(_sketch(each, tail) for each in counts), tuple(counts.values()))
    t, typical = tilt(sketches), sum(k * discretization.typical_loss(step) ** 2 for step, k in counts.items())
    square = sketches.cumulants(t)[1] / ((t + 1.0) * max(typical, 1e-24))
    return 2.0 ** round(0.5 * math.log2(min(max(square, 1.0), _COARSE**2)))


def _columns(rows: list[tuple[discretization.DiscretePLD, ...]], times: tuple[int, ...]) -> list[PLDComposition]:
    """The first of each, the second of each and so on; the same objects only once."""
    columns = {tuple(map(id, column)): column for column in zip(*rows, strict=True)}
    return [PLDComposition(column, times) for column in columns.values()]


_discretized = lru_cache(maxsize=64)(discretization.discretize)
_sketch = lru_cache(maxsize=64)(discretization.sketch)


def _widths(counts: dict[SingleEvent, int], coarser: float) -> dict[SingleEvent, float]:
    """The grid of each step: multiples of a common width, such that each kind of step adds about the same excess.

    Knots at a distance h add about h^2/6 to the variance of a loss, and half as much to its mean.
    """
    sizes = {step: max(discretization.typical_loss(step), 1e-12) for step in counts}
    total = math.sqrt(sum(k * sizes[step] ** 2 for step, k in counts.items()))
    least = 20.0 * total / _MOST_BINS
    wanted = {
        step: coarser * max(total / math.sqrt(len(counts) * k) / discretization.spacing(step).fine, least)
        for step, k in counts.items()
    }
    if len(counts) == 1:
        (step,) = counts
        largest, width = discretization.largest_loss(step), wanted[step]
        # A last knot on the largest loss, where much of the mass may be.
        return {step: short(largest / math.ceil(largest / width) if math.isfinite(largest) else width)}
    base = short(min(wanted.values()))
    return {step: base * 2.0 ** max(math.floor(math.log2(width / base)), 0) for step, width in wanted.items()}


def short(width: float) -> float:
    """The width rounded up to 24 bits, so that its multiples are doubles without rounding."""
    mantissa, exponent = math.frexp(width)
    return math.ldexp(math.ceil(math.ldexp(mantissa, 24)), exponent - 24)


def _root(function: Callable[[float], float], delta: float, around: ComposedPLD) -> tuple[float, float]:
    """Where a falling function passes delta: a place where it is above and one where it is not, close to each other."""
    aim = math.log(delta)

    @cache
    def height(place: float) -> float:
        value = function(place)
        return math.log(value) - aim if value > 0.0 else -math.inf

    # From the middle of the window outwards, because far from it nothing is known.
    top = max(around.composition.extremes[1], 0.0)
    low = high = min(max(around.mean, 0.0), top)
    h_low = h_high = height(low)
    pace = max(min(1.2 * abs(h_low) / (around.t + 0.1), around.deviation), 1e-3 * around.deviation)
    while h_low <= 0.0:
        if low == 0.0:
            return 0.0, 0.0
        high, h_high = low, h_low
        low, pace = max(low - pace, 0.0), 2.0 * pace
        h_low = height(low)
    while h_high > 0.0:
        if high >= top:
            return (math.inf if around.composition.infinite[0] > delta else high), math.inf
        low, h_low = high, h_high
        high, pace = min(high + pace, top), 2.0 * pace
        h_high = height(high)
    return falling_bracket(height, low, high, _CLOSE)
