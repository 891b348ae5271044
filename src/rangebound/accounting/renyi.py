"""The Renyi accountant: Renyi curves add up, and a curve converts to (epsilon, delta).

    eps = R(a) + ln((a-1)/a) - (ln delta + ln a)/(a-1), the best order a of a fine grid [canonne2020, Prop 12].

A step on a Poisson sample of rate p, at an integer order a: with

    B = sum over j of C(a,j) (1-p)^(a-j) p^j e^((j-1) R(j))

the dataset with the person against the one without costs at most ln(B)/(a-1). In the other direction, write L for
the likelihood ratio of a pair, s = 1-p+pL and r = (1-p)L+p. For every L > 0 and a >= 1

    s^(1-a) + L^a r^(1-a) <= s^a + L^(1-a) r^a,

since for L > 1 the difference is (s-1) [f(ln s) - f(ln(L/r))] with f(x) = sinh((a-1/2)x)/sinh(x/2), which rises, and
s r >= L; and L < 1 is the same with the roles exchanged. Summed over the outcomes this says that the moments of the
second kind of (P, Q) and (Q, P) add up to at most those of the first kind. So a pair that is its own mirror image costs
no more in this direction [mironov2019, Thm 5], and any other has a moment of at most 2 B - 1, because the other
pair's is at least 1. Sampling never makes a step worse than it is without, so R(a) is a limit as well.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from rangebound.accounting.event import (
    AllocatedEvent,
    Event,
    FixedBatchEvent,
    MechanismEvent,
    Private,
    SampledEvent,
    SingleEvent,
    steps,
)
from rangebound.errors import ArgumentError
from rangebound.laws.boundings import UNBOUNDED
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.values import arguments
from rangebound.values.array_types import Floats
from rangebound.values.ball import Ball, ball, precision, up

Worth = Callable[[float, float], float]  # of an order and a divergence

_BITS = 192
_INTEGERS = (*range(2, 65), *(round(64 * 1.05**k) for k in range(1, 57)))  # up to about 1,000
_ORDERS = tuple(1.0 + 1.05**k for k in range(-190, 350))
_COARSE, _NEAR = 32, 6
_EDGED = 40.0
_HIGHEST = 1e5
_CLOSE = 1e-6  # relative: a better order that gains less is not asked for
_NODES = (*range(2, 13), *(round(12 * 1.2**k) for k in range(1, 26)))
_LARGEST_SAMPLED = _NODES[-1]


def curve(event: Event, orders: float | Sequence[float]) -> Floats:
    """The Renyi curve of an event: the sum of those of its steps, at each order.

    Guarantee: never below the exact worst case of each step; sums rounded up.
    Assumes: as for `rangebound.accounting.pld.accountant.delta`.
    Edge cases: a sampled step needs integer orders from 2 on. Infinite where one step's curve is.

    >>> import rangebound as rb
    >>> line = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)
    >>> m = rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=line, bounding=rb.UNBOUNDED)
    >>> curve(MechanismEvent(mechanism=m, times=10), [2.0, 4.0]).tolist()
    [10.0, 20.0]
    """
    counts = steps(event)
    asked = np.atleast_1d(arguments.reals("orders", orders))
    return np.asarray([_total(counts, arguments.order("orders", order)) for order in asked.reshape(-1).tolist()])


def epsilon(event: Event, delta: float) -> float:
    """The epsilon at delta by the best Renyi order of a fine grid.

    Guarantee: never below the exact value; looser than the privacy-loss accountant, and quick for any number of steps.
    Edge cases: delta = 0 asks for the pure epsilon, the order infinity. 0 for no steps.

    >>> import rangebound as rb
    >>> line = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)
    >>> m = rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=line, bounding=rb.UNBOUNDED)
    >>> 649.3 < epsilon(MechanismEvent(mechanism=m, times=1000), 1e-6) < 664
    True
    """
    return epsilon_within(event, arguments.probability("delta", delta), math.inf)


def epsilon_within(event: Event, delta: float, known: float) -> float:
    """The same where an epsilon is known already, and orders that cannot lower it are not asked for.

    Guarantee: at most `known`, and never below the exact value if `known` is not.

    >>> import rangebound as rb
    >>> line = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)
    >>> m = rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=line, bounding=rb.UNBOUNDED)
    >>> epsilon_within(MechanismEvent(mechanism=m, times=1000), 1e-6, 650.0)
    650.0
    """
    counts = steps(event)
    if not counts:
        return 0.0
    known = min(known, _total(counts, math.inf))
    if delta == 0.0:
        return known
    return min(known, _lowest(counts, lambda order, value: epsilon_at(order, value, delta), known))


def delta(event: Event, epsilon: float) -> float:
    """The delta at epsilon by the best Renyi order of a fine grid.

    ln delta = (a-1) (R(a) - eps + ln((a-1)/a)) - ln a [canonne2020, Prop 12].

    Guarantee: never below the exact value.
    Edge cases: 0 from the sum of the pure epsilons on, and for no steps.

    >>> import rangebound as rb
    >>> line = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)
    >>> m = rb.Mechanism(noise=rb.Gaussian(scale=10.0), query=line, bounding=rb.UNBOUNDED)
    >>> delta(MechanismEvent(mechanism=m, times=100), 4.0) < 2e-4  # 4.7e-5 exactly
    True
    """
    epsilon = arguments.nonnegative("epsilon", epsilon)
    counts = steps(event)
    if not counts or _total(counts, math.inf) <= epsilon:
        return 0.0
    return min(_lowest(counts, lambda order, value: delta_at(order, value, epsilon)), 1.0)


def epsilon_at(order: float, value: float, delta: float) -> float:
    """What a Renyi divergence of one order is worth in epsilon at delta, rounded up, zero at least.

    >>> round(epsilon_at(10.0, 1.0, 1e-6), 4)
    2.1739
    """
    if math.isinf(value):
        return math.inf
    with precision(_BITS):
        a = ball(order)
        worth = ball(value) + ((a - 1) / a).log() - (ball(delta).log() + a.log()) / (a - 1)
        return max(up(worth), 0.0)


def delta_at(order: float, value: float, epsilon: float) -> float:
    """What a Renyi divergence of one order is worth in delta at epsilon, rounded up."""
    if math.isinf(value):
        return math.inf
    with precision(_BITS):
        a = ball(order)
        return up(((a - 1) * (ball(value) - ball(epsilon) + ((a - 1) / a).log()) - a.log()).exp())


def _lowest(counts: dict[SingleEvent, int], worth: Worth, known: float = math.inf) -> float:
    """The lowest worth over the grid of orders, or `inf` where none is below `known`.

    A clamped or rounded mechanism is post-processing of an unbounded one, whose curve is cheap: that finds the order,
    and the expensive exact curve is evaluated only there and nearby.
    """
    grid = list(map(float, _INTEGERS)) if any(isinstance(step, SampledEvent) for step in counts) else list(_ORDERS)
    highest = min(_highest(step.mechanism) for step in counts)
    grid = [order for order in grid if order <= highest]
    free: dict[SingleEvent, int] = {}
    for step, times in counts.items():
        unmapped = replace(step, mechanism=_unmapped(step.mechanism))
        free[unmapped] = free.get(unmapped, 0) + times
    if free == counts:
        return _descend(grid, lambda order: _total(counts, order), worth, known)[1]
    place, value = _descend(grid, lambda order: _total(free, order), worth, math.inf)
    if math.isinf(value):
        return value
    near = [i for i in (place - _NEAR, place, place + _NEAR) if 0 <= i < len(grid)]
    return min(value, *(worth(grid[i], _total(counts, grid[i])) for i in near))


def _descend(grid: list[float], curve: Callable[[float], float], worth: Worth, known: float) -> tuple[int, float]:
    """The place of a low worth on a grid of orders, and the worth: every few places, then ever nearer.

    An order is left out where the least that the curve can be is worth no less than the lowest worth so far, or than
    what is known, but for the last digits. That costs nothing but tightness: every order gives a valid number.
    """
    totals: dict[float, float] = {}
    values: dict[int, float] = {}

    def look(i: int) -> None:
        values[i] = math.inf
        if worth(grid[i], _least(totals, grid[i])) < min(known, *values.values()) * (1.0 - _CLOSE):
            totals[grid[i]] = curve(grid[i])
            values[i] = worth(grid[i], totals[grid[i]])

    for i in sorted({*range(0, len(grid), _COARSE), len(grid) - 1}):
        look(i)
    gap = _COARSE
    while gap > 1:
        gap //= 2
        best = min(values, key=lambda i: values[i])
        for i in (best - gap, best + gap):
            if 0 <= i < len(grid) and i not in values:
                look(i)
    best = min(values, key=lambda i: values[i])
    return best, values[best]


def _least(totals: dict[float, float], order: float) -> float:
    """About the least that a curve with these values can be at an order: it rises, and (a-1) R(a) is convex."""
    known = [a for a in sorted(totals) if math.isfinite(totals[a])]
    below, above = [a for a in known if a < order], [a for a in known if a > order]
    found = [0.0, *(totals[a] for a in below)]
    for near in (below[-2:], above[:2]):
        if len(near) == 2:
            (a, b), (at_a, at_b) = near, [(x - 1.0) * totals[x] for x in near]
            found.append((at_a + (order - a) * (at_b - at_a) / (b - a)) / (order - 1.0))
    return max(found)


def _total(counts: dict[SingleEvent, int], order: float) -> float:
    with precision(_BITS):
        total: Ball = ball(0.0)
        for step, times in counts.items():
            value = _of_step(step, order)
            if math.isinf(value):
                return math.inf
            total = total + times * ball(value)
        return up(total)


@lru_cache(maxsize=1 << 14)
def _of_step(step: SingleEvent, order: float) -> float:
    if isinstance(step, (MechanismEvent, FixedBatchEvent, AllocatedEvent)):  # batches only add uncertainty
        return _of_mechanism(step.mechanism, order)
    if math.isinf(order):
        plain = _of_mechanism(step.mechanism, order)
        with precision(_BITS):
            return up((ball(step.rate) * ball(plain).expm1()).log1p()) if math.isfinite(plain) else plain
    if order != int(order) or not 2 <= order <= _LARGEST_SAMPLED:
        raise ArgumentError(f"orders={order}: a sampled step needs integer orders from 2 to {_LARGEST_SAMPLED}")
    base = _unmapped(step.mechanism)
    moment = _sampled_moment(base, step.rate, int(order))
    if moment is None:
        return math.inf
    with precision(_BITS):
        mirrored = _is_free(base)
        plain = up(_log_moment(base, int(order)) / (ball(order) - 1))
        return min(plain, up((moment if mirrored else 2 * moment - 1).log() / (ball(order) - 1)))


def _highest(mechanism: Private) -> float:
    """The highest order that is worth its time."""
    if not isinstance(mechanism, Mechanism):
        return _HIGHEST
    if mechanism.noise.limited:
        return _EDGED  # its curve costs seconds at high orders
    # Beyond, the curve of a bounded mechanism is as good as the pure epsilon.
    return _HIGHEST if mechanism.shape.points or mechanism.shape.normalised else math.inf


def _is_free(mechanism: Private) -> bool:
    """Whether noise is added and nothing else done, so that pairs are their own mirror images and curves are cheap."""
    return isinstance(mechanism, Mechanism) and mechanism.bounding is UNBOUNDED


def _unmapped(mechanism: Private) -> Private:
    """The unbounded mechanism of which a clamped or rounded one is post-processing; any other as it is.

    Its pairs are their own mirror images, and its curve costs next to nothing. Noise of limited reach is left as it is,
    because without its bounding its curve is infinite.
    """
    if not isinstance(mechanism, Mechanism) or mechanism.shape.normalised or mechanism.noise.limited:
        return mechanism
    return Mechanism(noise=mechanism.noise, query=mechanism.query, bounding=UNBOUNDED)


def _sampled_moment(mechanism: Private, rate: float, order: int) -> Ball | None:
    """The binomial sum B; None where it is infinite."""
    with precision(_BITS):
        p = ball(rate)
        total = (1 - p) ** order + order * p * (1 - p) ** (order - 1)
        for j in range(2, order + 1):
            log_moment = _log_moment(mechanism, j)
            if not log_moment.is_finite():
                return None
            total = total + math.comb(order, j) * (1 - p) ** (order - j) * p**j * log_moment.exp()
        return total


@lru_cache(maxsize=1 << 14)
def _log_moment(mechanism: Private, order: int) -> Ball:
    """(j-1) R(j), which is convex in j: exact at the nodes, and the chord between them, which is above, elsewhere."""
    with precision(_BITS):
        if _is_free(mechanism) or order in _NODES:
            return (order - 1) * ball(_of_mechanism(mechanism, float(order)))
        right = bisect.bisect(_NODES, order)
        low, high = _NODES[right - 1], _NODES[right]
        below, above = _log_moment(mechanism, low), _log_moment(mechanism, high)
        chord: Ball = (below * (high - order) + above * (order - low)) / (high - low)
        return chord


@lru_cache(maxsize=1 << 14)
def _of_mechanism(mechanism: Private, order: float) -> float:
    return mechanism._divergence(order)
