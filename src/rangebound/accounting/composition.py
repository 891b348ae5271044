"""Composition: of mechanisms by the best accountant, and of bare guarantees (sequential, parallel, group)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

from rangebound.accounting import best_accountant
from rangebound.accounting.adaptive_accountant import Progress
from rangebound.accounting.event import EVENTS, ComposedEvent, Event, MechanismEvent, Private, repetitions, steps
from rangebound.accounting.fisher_information import PerInstance
from rangebound.accounting.pld import accountant
from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.mechanisms.certificates import A_MECHANISM, PRIVATE
from rangebound.mechanisms.discrete_laplace import DiscreteLaplace
from rangebound.mechanisms.remapping import Remapped
from rangebound.mechanisms.staircase import Staircase
from rangebound.privacy.attack_risk import AttackRisk
from rangebound.privacy.tradeoff_curve import PairProfile, smallest_mu
from rangebound.values import arguments
from rangebound.values.ball import ball, precision, up
from rangebound.values.data_frames import rows_as_html
from rangebound.values.numeric import Enclosure, rounded_up
from rangebound.values.support import Query

_BITS = 192
_CLOSE_MU = 1e-4  # relative, of a mu: a delta of a composition takes long

Composable: TypeAlias = Private | Event
"""What is composed: a mechanism that is used once, or an event."""


@arguments.brief
@dataclass(frozen=True)
class Composition(AttackRisk):
    """The sequential composition that `compose` made: its event, and its privacy by the best accountant."""

    event: ComposedEvent

    def epsilon(self, delta: float, *, progress: Progress | None = None) -> Enclosure:
        """The epsilon at delta, enclosed; publish the upper bound. Infinite where no epsilon is enough.

        `progress` is called with the number of steps done and the number in all; many steps can take seconds.
        """
        return best_accountant.epsilon(self.event, delta, progress)

    def delta(self, epsilon: float, *, progress: Progress | None = None) -> Enclosure:
        """The delta at epsilon, enclosed; publish the upper bound. `progress` as for `epsilon`."""
        return best_accountant.delta(self.event, epsilon, progress)

    def _repr_html_(self) -> str:
        uses = ((str(times), str(event)) for event, times in steps(self.event).items())
        return rows_as_html(("uses", "of"), uses, "Composition")

    def _attack_delta(self, epsilon: float) -> float:
        return self.delta(epsilon).upper

    def _attack_pure(self) -> float:
        return self.epsilon(0.0).upper

    def _attack_pairs(self, epsilon: float) -> Sequence[PairProfile]:
        return accountant.pairs_at(self.event, epsilon)

    def _attack_pure_below(self) -> float:
        return accountant.epsilon(self.event, 0.0).lower

    def _smallest_mu(self) -> tuple[float, float]:
        return smallest_mu(self._attack_delta, self._attack_pure(), self._attack_mu(), _CLOSE_MU)

    def _attack_mu(self) -> float:
        """The root of the sum of the squares of all steps [dong2022]; a sample leaks no more than all rows."""
        squares = [times * ball(each.mechanism.gdp()) ** 2 for each, times in steps(self.event).items()]
        return up(sum(squares, ball(0.0)).sqrt()) if all(each.is_finite() for each in squares) else math.inf


def compose(*parts: Composable | tuple[Composable, int]) -> Composition:
    """Compose mechanisms and events on the same people; a pair (part, times) is a part that is used `times` times.

    Guarantee: the upper bound of `epsilon(delta)` and of `delta(epsilon)` is the smallest one of the privacy-loss
    accountant, the Renyi accountant and the recursion over adaptive adversaries. It holds for all neighbouring
    datasets, for queries chosen adaptively and for the parts in any order. The lower bound is what one pair of answers
    leaks.
    Assumes: every use draws fresh noise.
    Edge cases: without parts nothing leaks. Mechanisms on a random sample are events: `SampledEvent`,
    `FixedBatchEvent`, `AllocatedEvent`. A remapped
    mechanism counts as its base.

    >>> import rangebound as rb
    >>> count = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    >>> weekly = rb.Mechanism(noise=rb.Laplace(scale=20.0), query=count)
    >>> once = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=count)
    >>> year = compose((weekly, 52), once)
    >>> 52 * weekly.epsilon() + once.epsilon()  # sequential composition of the bare guarantees
    5.7152530
    >>> year.epsilon(delta=1e-6).upper
    2.134
    >>> compose().delta(epsilon=0.0).upper
    0.0
    """
    return Composition(ComposedEvent(events=tuple(map(_as_event, parts))))


def _as_event(part: object) -> Event:
    if isinstance(part, PRIVATE):
        return MechanismEvent(mechanism=part)
    if isinstance(part, EVENTS):
        return part
    match part:
        case (mechanism, times) if isinstance(mechanism, PRIVATE):
            return MechanismEvent(mechanism=mechanism, times=repetitions("times", times))
        case (event, times) if isinstance(event, EVENTS):
            return ComposedEvent(events=(event,), times=repetitions("times", times))
    raise ArgumentTypeError(
        f"parts={arguments.shown(part)}: must be {A_MECHANISM}; or an event; or a pair of one of these and how often "
        "it is used, such as (m, 52)"
    )


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
                raise ArgumentTypeError(f"{name}: a per-instance number is not a guarantee for anyone else")
            number = arguments.real(name, getattr(self, name))
            if number < 0.0:
                raise ArgumentError(f"{name}={number}: must be zero or more")
            object.__setattr__(self, name, abs(number))
        if self.delta > 1.0:
            raise ArgumentError(f"delta={self.delta}: must lie in [0, 1]")


def sequential(guarantees: Iterable[Guarantee]) -> Guarantee:
    """Sequential composition: all releases are about the same people, so epsilons add and deltas add.

    Guarantee: exact sums of the doubles, rounded up once; delta is 1 at most.

    >>> sequential([Guarantee(epsilon=0.5, delta=1e-6)] * 4)
    Guarantee(epsilon=2.0, delta=4e-06)
    """
    found = _checked(guarantees)
    return Guarantee(
        epsilon=_sum([each.epsilon for each in found]), delta=min(_sum([each.delta for each in found]), 1.0)
    )


def parallel(guarantees: Iterable[Guarantee]) -> Guarantee:
    """Parallel composition: each release is about a part of its own, so the largest epsilon and delta hold for all.

    Assumes: the parts are disjoint and fixed beforehand, and neighbouring datasets differ by adding or removing one
    person (add-remove), who is in one part only. For replace-one two parts may change: add up the two largest.

    >>> parallel([Guarantee(epsilon=0.5, delta=1e-6), Guarantee(epsilon=1.0)])
    Guarantee(epsilon=1.0, delta=1e-06)
    """
    found = _checked(guarantees)
    return Guarantee(
        epsilon=max((each.epsilon for each in found), default=0.0),
        delta=max((each.delta for each in found), default=0.0),
    )


def group(guarantee: Guarantee, size: int) -> Guarantee:
    """Group privacy from the guarantee for one person: size * epsilon and delta (e^(size eps) - 1)/(e^eps - 1).

    Guarantee: rounded up. For a known mechanism `group_event` is sharper.
    Edge cases: delta is 1 at most; at epsilon = 0 it is size * delta.

    >>> group(Guarantee(epsilon=0.5), 3)
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
    """Group privacy of a known event: every query's sensitivity times the size of the group.

    Guarantee: exact for a group, where `group` is only a bound.
    Edge cases: a `SampledEvent` is refused: members of a group are sampled one by one, which is not one sample.

    >>> import rangebound as rb
    >>> count = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)
    >>> seen = group_event(MechanismEvent(mechanism=rb.Mechanism(noise=rb.Laplace(scale=1.0), query=count)), 3)
    >>> seen.mechanism.query.sensitivity
    3.0
    """
    number = repetitions("size", size)
    if isinstance(event, ComposedEvent):
        return replace(event, events=tuple(group_event(each, number) for each in event.events))
    if not isinstance(event, MechanismEvent) and isinstance(event, EVENTS):
        raise ArgumentError(
            f"event={arguments.shown(event)}: group privacy of a {type(event).__name__} is not known exactly; "
            "use `group`"
        )
    arguments.instance("event", event, MechanismEvent, "a MechanismEvent or a ComposedEvent")
    return replace(event, mechanism=_group_mechanism(event.mechanism, number))


def _group_mechanism(mechanism: Private, size: int) -> Private:
    if isinstance(mechanism, DiscreteLaplace):
        return replace(mechanism, sensitivity=mechanism.sensitivity * size)
    if isinstance(mechanism, Staircase):
        raise ArgumentError("event: the stairs of staircase noise are those of one person; use `group`")
    if isinstance(mechanism, Remapped):
        base = _group_mechanism(mechanism.base, size)
        assert not isinstance(base, Remapped)
        return replace(mechanism, base=base)
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
