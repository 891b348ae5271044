"""What training gives away in the worst case, over all datasets: the number to publish.

A step of d coordinates on a Poisson sample of rate p. Each coordinate moves by at most the clip C, all at once.

| step | bound |
| --- | --- |
| all examples, bounded noise | d times the exact worst-case Renyi curve of one coordinate: every location is possible |
| unbounded, rectified, quantized | post-processing of Gaussian noise with the Euclidean sensitivity C sqrt(d) |
| truncated to an interval | its Renyi divergences are never above those of that Gaussian |
| truncated, on a sample | from those divergences, by the binomial sum B: moments at most 2 B - 1 in either direction |

The last line holds because the two moments of a sampled pair add up to at most those of the first kind of the pair and
of its mirror image; `rangebound.accounting.renyi` proves it. Euclidean clipping has the sensitivity C and Gaussian
noise alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rangebound import arguments
from rangebound.accounting import best, renyi
from rangebound.accounting.event import Batch, Release, Sampled
from rangebound.ball import ball, precision, up
from rangebound.bounding import TRUNCATE, UNBOUNDED
from rangebound.errors import ArgumentError
from rangebound.mechanism import Mechanism
from rangebound.noise import Gaussian
from rangebound.privacy import worst_renyi
from rangebound.query import Query
from rangebound.support import Interval

_BITS = 128
_AROUND = (0.7, 1.0, 1.3, 2.0)
_HIGHEST = 1e6
_POINTS = 16  # the exact curve of a finer grid is dear, and hardly below that of the line
_ORDERS = (*range(2, 65), *(round(64 * 1.05**k) for k in range(1, 57)))


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step: `coordinates` numbers, each released by `mechanism`, on a Poisson sample of `rate` (1 is everybody).

    `together` says that the sensitivity is the Euclidean length of all coordinates, not the size of each.
    """

    mechanism: Mechanism
    coordinates: int
    rate: float
    together: bool

    def __post_init__(self) -> None:
        arguments.instance("mechanism", self.mechanism, Mechanism, "a Mechanism")
        arguments.instance("together", self.together, bool, "True or False")
        if self.coordinates != int(arguments.positive("coordinates", self.coordinates)):
            raise ArgumentError(f"coordinates={self.coordinates}: must be a whole number")
        if not 0.0 < arguments.finite("rate", self.rate) <= 1.0:
            raise ArgumentError(f"rate={self.rate}: must lie in (0, 1]")

    @property
    def ceiling(self) -> Mechanism:
        """The unbounded mechanism on the line that gives away at least as much at every Renyi order."""
        width = self.mechanism.query.sensitivity
        if not self.together:
            with precision(_BITS):
                width = up(ball(width) * ball(self.coordinates).sqrt())
        line = Query(range=Interval(-math.inf, math.inf), sensitivity=width)
        return Mechanism(noise=Gaussian(scale=self.mechanism.noise.scale), query=line, bounding=UNBOUNDED)


History = Mapping[Step, int]


def epsilon(history: History, delta: float) -> float:
    """The epsilon at delta of all steps together: a guarantee for all neighbouring datasets, valid to publish.

    Guarantee: never below the exact value. Neighbours differ by adding or removing one example.
    Assumes: steps were taken as `PrivateOptimizer` takes them; who was in a sample is not known.
    Edge cases: 0 before the first step; delta = 0 is finite only for bounded noise on all examples.
    """
    delta = arguments.probability("delta", delta)
    taken = {step: times for step, times in history.items() if times}
    if not taken:
        return 0.0
    found = [math.inf]
    if not any(step.mechanism.bounding is TRUNCATE for step in taken):
        whole = Batch(events=tuple(_free(step, times) for step, times in taken.items()))
        found.append(best.epsilon(whole, delta).upper)
    if all(step.rate >= 1.0 and len(step.mechanism.shape.points) <= _POINTS for step in taken):
        found.append(_by_coordinates(taken, delta))
    if delta > 0.0 and any(step.mechanism.bounding is TRUNCATE for step in taken):
        found.append(_by_ceilings(taken, delta))
    return min(found)


def epsilons(history: History, delta: float, steps: Iterable[int]) -> list[float]:
    """The epsilon after each of these numbers of steps, of a run whose steps were all alike."""
    (step,) = history
    return [epsilon({step: number}, delta) for number in steps]


def curve(step: Step, orders: Sequence[int]) -> list[float]:
    """An upper bound on the worst-case Renyi divergence of one step at integer orders, from the Gaussian ceiling."""
    free = renyi.curve(_free(step, 1), [float(order) for order in orders]).tolist()
    if step.mechanism.bounding is not TRUNCATE or step.rate >= 1.0:
        return list(map(float, free))
    plain = renyi.curve(Release(mechanism=step.ceiling), [float(order) for order in orders]).tolist()
    with precision(_BITS):
        return [
            min(whole, up((2 * ((order - 1) * ball(value)).exp() - 1).log() / (order - 1)))
            for order, value, whole in zip(orders, free, plain, strict=True)
        ]


def _free(step: Step, times: int) -> Release | Sampled:
    if step.rate >= 1.0:
        return Release(mechanism=step.ceiling, times=times)
    return Sampled(mechanism=step.ceiling, rate=step.rate, times=times)


def _by_coordinates(taken: History, delta: float) -> float:
    """All coordinates of all steps, each at its own worst location, by their exact curves.

    These are dear, so the order is looked for where the Gaussian ceiling has its best one, and a little around it.
    """

    def total(order: float) -> float:
        with precision(_BITS):
            parts = [
                times
                * (1 if step.together else step.coordinates)
                * ball(worst_renyi(step.mechanism.setting, order).upper)
                for step, times in taken.items()
            ]
            return up(sum(parts, ball(0.0))) if all(each.is_finite() for each in parts) else math.inf

    pure = total(math.inf)
    if delta == 0.0 or pure == 0.0:
        return pure
    slope = sum(times * 0.5 * _square(step) for step, times in taken.items())
    guess = (
        1.0 + math.sqrt(-math.log(delta) / slope) if slope else math.inf
    )  # the best order where the curve is slope * order
    orders = [1.0 + (guess - 1.0) * factor for factor in _AROUND]
    return min([pure, *(renyi.epsilon_at(order, total(order), delta) for order in orders if order < _HIGHEST)])


def _square(step: Step) -> float:
    ceiling = step.ceiling
    return float((ceiling.query.sensitivity / ceiling.noise.scale) ** 2)


def _by_ceilings(taken: History, delta: float) -> float:
    curves = {step: curve(step, _ORDERS) for step in taken}
    with precision(_BITS):
        totals = [
            up(sum((times * ball(curves[step][i]) for step, times in taken.items()), ball(0.0)))
            for i in range(len(_ORDERS))
        ]
    return min(renyi.epsilon_at(float(order), total, delta) for order, total in zip(_ORDERS, totals, strict=True))
