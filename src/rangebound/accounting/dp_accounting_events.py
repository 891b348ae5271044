"""Events from and to dp_accounting, where both sides have one.

An event of dp_accounting has sensitivity 1 and a noise multiplier. Ours has a query with a range; a converted
mechanism answers a query on the whole line, which is the worst case of any range. Bounded mechanisms have
no counterpart there, and most sampling schemes none here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from rangebound.accounting.event import ComposedEvent, Event, MechanismEvent, Private, SampledEvent, before_remap
from rangebound.errors import ArgumentError
from rangebound.laws.boundings import UNBOUNDED
from rangebound.laws.family import Curve
from rangebound.laws.gaussian import Gaussian
from rangebound.laws.laplace import Laplace
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.values import arguments
from rangebound.values.extras import need
from rangebound.values.numeric import rounded_down
from rangebound.values.support import Interval, Query


def to_dp_accounting(event: Event) -> Any:
    """The dp_accounting.DpEvent of an event of unbounded Laplace and Gaussian mechanisms.

    Guarantee: the noise multiplier, scale over sensitivity, is rounded down, so the converted event never claims more
    privacy.
    Edge cases: any other mechanism is refused; dp_accounting knows no bounded noise.
    """
    peer = _peer()
    arguments.instance(
        "event",
        event,
        (MechanismEvent, SampledEvent, ComposedEvent),
        "an event: MechanismEvent, SampledEvent or ComposedEvent",
    )
    if isinstance(event, ComposedEvent):
        inner = peer.ComposedDpEvent(events=[to_dp_accounting(each) for each in event.events])
    else:
        inner = _single_event(peer, before_remap(event.mechanism))
        if isinstance(event, SampledEvent):
            inner = peer.PoissonSampledDpEvent(sampling_probability=event.rate, event=inner)
    return inner if event.times == 1 else peer.SelfComposedDpEvent(event=inner, count=event.times)


def from_dp_accounting(event: Any) -> Event:
    """The event of a dp_accounting.DpEvent: Gaussian, Laplace, Poisson-sampled, composed and self-composed ones.

    Edge cases: every other kind is refused by name, and so is a noise multiplier of 0, which gives no privacy.
    """
    peer = _peer()
    arguments.instance("event", event, peer.DpEvent, "a dp_accounting.DpEvent")
    kinds: dict[str, Callable[[Any], Event]] = {
        "NoOpDpEvent": lambda each: ComposedEvent(events=()),
        "GaussianDpEvent": lambda each: MechanismEvent(mechanism=_on_the_line(Gaussian, each.noise_multiplier)),
        "LaplaceDpEvent": lambda each: MechanismEvent(mechanism=_on_the_line(Laplace, each.noise_multiplier)),
        "PoissonSampledDpEvent": _from_sampled,
        "ComposedDpEvent": lambda each: ComposedEvent(events=tuple(map(from_dp_accounting, each.events))),
        "SelfComposedDpEvent": lambda each: ComposedEvent(events=(from_dp_accounting(each.event),), times=each.count),
    }
    name = type(event).__name__
    if name not in kinds:
        raise ArgumentError(f"event={name}: has no counterpart here; these have: {', '.join(sorted(kinds))}")
    return kinds[name](event)


def _from_sampled(event: Any) -> Event:
    inner = from_dp_accounting(event.event)
    if not isinstance(inner, MechanismEvent) or inner.times != 1:
        raise ArgumentError(
            f"event={arguments.shown(event)}: only a single mechanism on a sample has a counterpart here"
        )
    return SampledEvent(mechanism=inner.mechanism, rate=event.sampling_probability)


def _single_event(peer: Any, mechanism: Private) -> Any:
    kinds = {Curve.QUADRATIC: peer.GaussianDpEvent, Curve.LINEAR: peer.LaplaceDpEvent}
    noise = mechanism.noise if isinstance(mechanism, Mechanism) and mechanism.bounding is UNBOUNDED else None
    if noise is None or noise.limited or noise.curve not in kinds:
        raise ArgumentError(
            f"mechanism={arguments.shown(mechanism)}: dp_accounting has only unbounded Gaussian and Laplace noise"
        )
    multiplier = rounded_down(Fraction(noise.scale) / Fraction(mechanism.query.sensitivity))
    return kinds[noise.curve](multiplier)


def _on_the_line(family: type[Gaussian] | type[Laplace], multiplier: float) -> Mechanism:
    scale = arguments.positive("noise_multiplier", multiplier, why="without noise nothing is protected")
    line = Query(range=Interval(-math.inf, math.inf), sensitivity=1.0)
    return Mechanism(noise=family(scale=scale), query=line, bounding=UNBOUNDED)


def _peer() -> Any:
    need("dp_accounting")
    import dp_accounting

    return dp_accounting
