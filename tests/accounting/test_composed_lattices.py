"""Composition of noise on a lattice: the worst pair is known, so a brute-force composition of it is the truth."""

import math

import numpy as np
import pytest

import rangebound as rb
from rangebound.accounting import MechanismEvent, SampledEvent, group_event
from rangebound.errors import ArgumentError

TEN = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
STAIRS = rb.Staircase.calibrated(query=TEN, epsilon=0.5, step=0.25)
COUNTS = rb.DiscreteLaplace.calibrated(sensitivity=3, epsilon=0.6, support=rb.Interval(0, 20))


def brute(laws, times, epsilon):
    """delta at epsilon of so many uses of a pair, all outcomes summed by their loss."""
    p, q = laws
    seen = (p > 0.0) & (q > 0.0)
    losses, masses = np.log(p[seen] / q[seen]), p[seen]
    keys, merged = np.round(losses, 9), {}
    for key, mass in zip(keys.tolist(), masses.tolist(), strict=True):
        merged[key] = merged.get(key, 0.0) + mass
    total = {0.0: 1.0}
    for _ in range(times):
        after = {}
        for a, x in total.items():
            for b, y in merged.items():
                key = round(a + b, 9)
                after[key] = after.get(key, 0.0) + x * y
        total = after
    return sum(mass * max(1.0 - math.exp(epsilon - loss), 0.0) for loss, mass in total.items())


@pytest.mark.parametrize("mechanism", [STAIRS, COUNTS], ids=["staircase", "discrete Laplace"])
def test_a_composition_is_that_of_its_worst_pair(mechanism):
    start = 8.0
    laws = mechanism.law([start, start + mechanism.query.sensitivity if mechanism is COUNTS else start + 1.0]).chances
    for epsilon in (0.5, 1.5):
        true = brute(laws, 6, epsilon)
        found = rb.compose((mechanism, 6)).delta(epsilon)
        assert found.lower <= true * (1 + 1e-6)
        assert true * (1 - 1e-6) <= found.upper <= true * 1.02
    assert rb.compose((mechanism, 6)).epsilon(0.0).upper == pytest.approx(6 * mechanism.epsilon(), rel=1e-9)
    assert rb.compose(mechanism).epsilon(1e-3).upper == pytest.approx(mechanism.epsilon(1e-3), rel=1e-9)
    assert rb.compose(mechanism, (mechanism, 5)).delta(1.5).upper == rb.compose((mechanism, 6)).delta(1.5).upper


def test_lattices_compose_with_other_mechanisms_and_samples():
    laplace = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=TEN, bounding=rb.RECTIFY)
    both = rb.compose(STAIRS, laplace).epsilon(1e-6)
    assert both.upper <= STAIRS.epsilon() + laplace.epsilon() + 1e-9
    sampled = rb.compose(SampledEvent(mechanism=STAIRS, rate=0.1, times=10)).epsilon(1e-6)
    assert sampled.upper < rb.compose((STAIRS, 10)).epsilon(1e-6).upper


def test_groups_of_a_lattice():
    event = group_event(MechanismEvent(mechanism=COUNTS), 2)
    assert event.mechanism.epsilon() == pytest.approx(2 * COUNTS.epsilon(), rel=1e-12)
    with pytest.raises(ArgumentError, match="stairs"):
        group_event(MechanismEvent(mechanism=STAIRS), 2)
