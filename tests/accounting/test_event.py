"""Events: data that is valid once made, and what they are made of."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rangebound as rb
from rangebound.accounting import ComposedEvent, Enclosure, MechanismEvent, SampledEvent
from rangebound.accounting.event import steps
from rangebound.errors import ArgumentError, ArgumentTypeError

LINE = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)
GAUSSIAN = rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=LINE, bounding=rb.UNBOUNDED)
LAPLACE = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=LINE, bounding=rb.UNBOUNDED)


def test_equal_steps_are_counted_together():
    event = ComposedEvent(
        events=(
            MechanismEvent(mechanism=GAUSSIAN, times=2),
            ComposedEvent(
                events=[MechanismEvent(mechanism=GAUSSIAN), MechanismEvent(mechanism=LAPLACE, times=5)], times=3
            ),
            SampledEvent(mechanism=GAUSSIAN, rate=0.5, times=7),
            SampledEvent(mechanism=GAUSSIAN, rate=1, times=11),
        ),
        times=10,
    )
    assert steps(event) == {
        MechanismEvent(mechanism=GAUSSIAN): 10 * (2 + 3 + 11),
        MechanismEvent(mechanism=LAPLACE): 150,
        SampledEvent(mechanism=GAUSSIAN, rate=0.5): 70,
    }
    assert hash(event) == hash(ComposedEvent(events=event.events, times=10))


@pytest.mark.parametrize("bad", [0, -1, 1.0, "3", True, None, math.nan, np.array([1, 2]), 10**10])
def test_bad_repetitions(bad):
    with pytest.raises((ArgumentError, ArgumentTypeError), match="times"):
        MechanismEvent(mechanism=GAUSSIAN, times=bad)
    with pytest.raises((ArgumentError, ArgumentTypeError), match="times"):
        ComposedEvent(events=(), times=bad)


@pytest.mark.parametrize("bad", [0.0, -0.1, 1.1, math.nan, math.inf, "0.5", True, None])
def test_bad_rates(bad):
    with pytest.raises((ArgumentError, ArgumentTypeError), match="rate"):
        SampledEvent(mechanism=GAUSSIAN, rate=bad)


def test_bad_parts():
    with pytest.raises(ArgumentTypeError, match="mechanism"):
        MechanismEvent(mechanism="gaussian")
    with pytest.raises(ArgumentTypeError, match="events"):
        ComposedEvent(events=(GAUSSIAN,))
    with pytest.raises(ArgumentTypeError, match="events"):
        ComposedEvent(events=MechanismEvent(mechanism=GAUSSIAN))
    with pytest.raises(ArgumentTypeError, match="event"):
        steps([MechanismEvent(mechanism=GAUSSIAN)])
    with pytest.raises(ArgumentError, match="at most"):
        steps(ComposedEvent(events=(MechanismEvent(mechanism=GAUSSIAN, times=10**6),), times=10**6))


def test_an_enclosure_has_its_ends_in_order():
    assert Enclosure(lower=1, upper=2).width == 1.0
    assert Enclosure(lower=math.inf, upper=math.inf).width == 0.0
    with pytest.raises(ArgumentError, match="lower"):
        Enclosure(lower=2.0, upper=1.0)
    with pytest.raises(ArgumentError):
        Enclosure(lower=math.nan, upper=1.0)
