"""Composition that needs no grid: plain sums, groups, disjoint parts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from rangebound import arguments
from rangebound.accounting.event import Batch, Event, Release, Sampled, repetitions
from rangebound.accounting.per_instance import PerInstance
from rangebound.ball import ball, precision, up
from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.mechanism import Mechanism
from rangebound.numeric import rounded_up
from rangebound.query import Query

_BITS = 192


@arguments.guided
@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """A worst-case guarantee: (epsilon, delta)-privacy for everyone. An infinite epsilon or delta = 1 promises nothing.

    >>> Guarantee(epsilon=1.0)
    Guarantee(epsilon=1.0, delta=0.0)
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            if isinstance(getattr(self, name), PerInstance):
                raise ArgumentTypeError(f"{name}: a per-instance number is no guarantee for anyone else")
            number = arguments.real(name, getattr(self, name))
            if number < 0.0:
                raise ArgumentError(f"{name}={number}: must be zero or more")
            object.__setattr__(self, name, abs(number))
        if self.delta > 1.0:
            raise ArgumentError(f"delta={self.delta}: must lie in [0, 1]")


def in_sequence(guarantees: Iterable[Guarantee]) -> Guarantee:
    """All of them on the same people: the epsilons add and the deltas add.

    Guarantee: exact sums of the doubles, rounded up once; delta is 1 at most.

    >>> in_sequence([Guarantee(epsilon=0.5, delta=1e-6)] * 4)
    Guarantee(epsilon=2.0, delta=4e-06)
    """
    found = _checked(guarantees)
    return Guarantee(
        epsilon=_sum([each.epsilon for each in found]), delta=min(_sum([each.delta for each in found]), 1.0)
    )


def in_parallel(guarantees: Iterable[Guarantee]) -> Guarantee:
    """Each on another part of the people: the largest epsilon and the largest delta.

    Assumes: the parts are disjoint and fixed beforehand, and neighbouring databases differ by adding or removing one
    person, who is in one part only. Where a person is changed instead, two parts may change: add the two largest up.

    >>> in_parallel([Guarantee(epsilon=0.5, delta=1e-6), Guarantee(epsilon=1.0)])
    Guarantee(epsilon=1.0, delta=1e-06)
    """
    found = _checked(guarantees)
    return Guarantee(
        epsilon=max((each.epsilon for each in found), default=0.0),
        delta=max((each.delta for each in found), default=0.0),
    )


def for_group(guarantee: Guarantee, size: int) -> Guarantee:
    """What a guarantee for one person says of a group: size * epsilon and delta (e^(size eps) - 1)/(e^eps - 1).

    Guarantee: rounded up. For a known mechanism `group_event` is sharper.
    Edge cases: delta is 1 at most; at epsilon = 0 it is size * delta.

    >>> for_group(Guarantee(epsilon=0.5), 3)
    Guarantee(epsilon=1.5, delta=0.0)
    """
    arguments.instance("guarantee", guarantee, Guarantee, "a Guarantee")
    number = repetitions("size", size)
    if math.isinf(guarantee.epsilon):
        return replace(guarantee, delta=1.0 if guarantee.delta and number > 1 else guarantee.delta)
    with precision(_BITS):
        epsilon, delta = ball(guarantee.epsilon), ball(guarantee.delta)
        growth = (number * epsilon).expm1() / epsilon.expm1() if guarantee.epsilon else ball(float(number))
        return Guarantee(epsilon=up(number * epsilon), delta=min(up(delta * growth), 1.0) if guarantee.delta else 0.0)


def group_event(event: Event, size: int) -> Event:
    """The event as it looks to a group of `size` people: every query's sensitivity times the size.

    Guarantee: exact for a group, where `for_group` is only a bound. Sampled steps are refused: members of a group are
    sampled one by one, which is no single sample.

    >>> import rangebound as rb
    >>> count = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)
    >>> seen = group_event(Release(mechanism=rb.Mechanism(noise=rb.Laplace(scale=1.0), query=count)), 3)
    >>> seen.mechanism.query.sensitivity
    3.0
    """
    number = repetitions("size", size)
    if isinstance(event, Batch):
        return replace(event, events=tuple(group_event(each, number) for each in event.events))
    if isinstance(event, Sampled):
        raise ArgumentError(f"event={arguments.shown(event)}: a sampled step has no exact group; use for_group")
    arguments.instance("event", event, Release, "an event: Release or Batch")
    return replace(event, mechanism=_for_group(event.mechanism, number))


def _for_group(mechanism: Mechanism, size: int) -> Mechanism:
    query = mechanism.query
    sensitivity = rounded_up(Fraction(query.sensitivity) * size)
    return replace(mechanism, query=Query(range=query.range, sensitivity=sensitivity))


def _checked(guarantees: Iterable[Guarantee]) -> list[Guarantee]:
    arguments.instance("guarantees", guarantees, Iterable, "a list of Guarantees")
    return [arguments.instance("guarantees", each, Guarantee, "a list of Guarantees") for each in guarantees]


def _sum(numbers: list[float]) -> float:
    """The exact sum, rounded up."""
    if any(map(math.isinf, numbers)):
        return math.inf
    return rounded_up(sum(map(Fraction, numbers), Fraction(0)))
