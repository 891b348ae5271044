"""Events, as data only: a mechanism and how often it was used, steps on random samples, a composition of events."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.laws.boundings import UNBOUNDED
from rangebound.mechanisms.certificates import A_MECHANISM, PRIVATE, Certified
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.mechanisms.remapping import Remapped
from rangebound.values import arguments
from rangebound.values.support import Interval

_MOST = 10**9

Private: TypeAlias = Certified
"""What an event uses: a mechanism of any kind whose privacy the accountants know."""


@arguments.brief
@arguments.guided
@dataclass(frozen=True, kw_only=True)
class MechanismEvent:
    """A mechanism used `times` times on the same people; its queries may be chosen adaptively.

    >>> import rangebound as rb
    >>> count = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    >>> MechanismEvent(mechanism=rb.Mechanism(noise=rb.Laplace(scale=2.0), query=count), times=12).times
    12
    """

    mechanism: Private
    times: int = 1

    def __post_init__(self) -> None:
        arguments.instance("mechanism", self.mechanism, PRIVATE, A_MECHANISM)
        object.__setattr__(self, "times", repetitions("times", self.times))


@arguments.brief
@arguments.guided
@dataclass(frozen=True, kw_only=True)
class SampledEvent:
    """A mechanism on a Poisson sample: each person takes part with probability `rate`, independently and in secret.

    Assumes: neighbouring datasets differ by adding or removing one person, and the sensitivity of the mechanism's
    query is that of adding or removing one person in the sample.

    >>> import rangebound as rb
    >>> total = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    >>> SampledEvent(mechanism=rb.Mechanism(noise=rb.Gaussian(scale=2.0), query=total), rate=0.01, times=100).rate
    0.01
    """

    mechanism: Private
    rate: float
    times: int = 1

    def __post_init__(self) -> None:
        arguments.instance("mechanism", self.mechanism, PRIVATE, A_MECHANISM)
        object.__setattr__(self, "rate", _rate(self.rate, "the probability of taking part"))
        object.__setattr__(self, "times", repetitions("times", self.times))


@arguments.brief
@arguments.guided
@dataclass(frozen=True, kw_only=True)
class FixedBatchEvent:
    """Gaussian noise on a batch of fixed size, drawn anew and without replacement; `rate` is its share of the examples.

    Assumes: neighbouring datasets have the same size, and in one of them an example counts with zero (zero-out); the
    sensitivity of the mechanism's query is that of adding or removing one example in the batch. The members of a
    batch are secret.
    Edge cases: only for Gaussian noise on the line, of which clamped and rounded noise is post-processing.

    >>> import rangebound as rb
    >>> line = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    >>> m = rb.Mechanism(noise=rb.Gaussian(scale=2.0), query=line, bounding=rb.UNBOUNDED)
    >>> FixedBatchEvent(mechanism=m, rate=0.01, times=100).rate
    0.01
    """

    mechanism: Private
    rate: float
    times: int = 1

    def __post_init__(self) -> None:
        _check_gaussian(self.mechanism)
        object.__setattr__(self, "rate", _rate(self.rate, "the share of the examples in a batch"))
        object.__setattr__(self, "times", repetitions("times", self.times))


@arguments.brief
@arguments.guided
@dataclass(frozen=True, kw_only=True)
class AllocatedEvent:
    """An epoch of `batches` steps of Gaussian noise; each example is in one of them, chosen at random (balls in bins).

    `times` counts epochs, each with a new and independent allocation.

    Assumes: neighbouring datasets differ by adding or removing one example, or by zero-out; the sensitivity is that of
    adding or removing one example in a batch. The allocation is secret; later steps may depend on earlier ones.
    Edge cases: an epoch that ends early counts as a whole one. Only for Gaussian noise on the line.

    >>> import rangebound as rb
    >>> line = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    >>> m = rb.Mechanism(noise=rb.Gaussian(scale=2.0), query=line, bounding=rb.UNBOUNDED)
    >>> AllocatedEvent(mechanism=m, batches=100, times=5).batches
    100
    """

    mechanism: Private
    batches: int
    times: int = 1

    def __post_init__(self) -> None:
        _check_gaussian(self.mechanism)
        object.__setattr__(self, "batches", repetitions("batches", self.batches))
        object.__setattr__(self, "times", repetitions("times", self.times))


def _rate(value: object, what: str) -> float:
    rate = arguments.positive("rate", value)
    if rate > 1.0:
        raise ArgumentError(f"rate={value}: must lie in (0, 1]; it is {what}")
    return rate


def _check_gaussian(mechanism: object) -> None:
    found: Any = arguments.instance("mechanism", mechanism, Mechanism, "a Mechanism")
    if found.bounding is not UNBOUNDED or not found.noise.gaussian or not isinstance(found.query.range, Interval):
        raise ArgumentError(
            f"mechanism={arguments.shown(mechanism)}: must have unbounded Gaussian noise; clamped or rounded noise is "
            "post-processing of that, and costs no more"
        )


@arguments.brief
@arguments.guided
@dataclass(frozen=True, kw_only=True)
class ComposedEvent:
    """Several events on the same people, and the whole of them `times` times.

    >>> ComposedEvent(events=()).events
    ()
    """

    events: tuple[Event, ...]
    times: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.events, list):
            object.__setattr__(self, "events", tuple(self.events))
        arguments.instance("events", self.events, tuple, "a tuple of events")
        for each in self.events:
            kinds = "events: MechanismEvent, SampledEvent, FixedBatchEvent, AllocatedEvent or ComposedEvent"
            arguments.instance("events", each, EVENTS, kinds)
        object.__setattr__(self, "times", repetitions("times", self.times))


SingleEvent: TypeAlias = MechanismEvent | SampledEvent | FixedBatchEvent | AllocatedEvent
Event: TypeAlias = SingleEvent | ComposedEvent
EVENTS = (MechanismEvent, SampledEvent, FixedBatchEvent, AllocatedEvent, ComposedEvent)


def steps(event: Event) -> dict[SingleEvent, int]:
    """The different single steps of an event and how often each was taken; the order does not matter.

    A remapped mechanism is there as its base: a remap is post-processing, and the guarantee is that of the base.

    >>> steps(ComposedEvent(events=(), times=3))
    {}
    """
    arguments.instance("event", event, EVENTS, "an event, such as MechanismEvent(mechanism=m)")
    counts: dict[SingleEvent, int] = {}
    for step, times in _walk(event, 1):
        counts[step] = counts.get(step, 0) + times
    total = sum(counts.values())
    if total > _MOST:
        raise ArgumentError(f"times={total}: an event may have at most {_MOST:.0e} steps in all")
    return counts


def _walk(event: Event, times: int) -> Iterator[tuple[SingleEvent, int]]:
    if isinstance(event, ComposedEvent):
        for each in event.events:
            yield from _walk(each, times * event.times)
    elif isinstance(event, SampledEvent) and event.rate < 1.0:
        yield SampledEvent(mechanism=before_remap(event.mechanism), rate=event.rate), times * event.times
    elif (isinstance(event, FixedBatchEvent) and event.rate < 1.0) or (
        isinstance(event, AllocatedEvent) and event.batches > 1
    ):
        yield replace(event, times=1), times * event.times
    else:
        yield MechanismEvent(mechanism=before_remap(event.mechanism)), times * event.times


def before_remap(mechanism: Private) -> Private:
    """The base of a remapped mechanism, which has its guarantee; any other mechanism as it is."""
    return mechanism.base if isinstance(mechanism, Remapped) else mechanism


def repetitions(name: str, value: object) -> int:
    """A count of repetitions: an integer from 1 on."""
    if isinstance(value, bool):
        raise ArgumentTypeError(f"{name}={value}: must be an integer")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ArgumentTypeError(f"{name}={arguments.shown(value)}: must be an integer") from None
    if not 1 <= number <= _MOST:
        raise ArgumentError(f"{name}={arguments.shown(value)}: must lie between 1 and {_MOST:.0e}")
    return number
