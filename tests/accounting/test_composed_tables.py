"""Tables and noise on a lattice in compositions, against sums over all outcomes of some uses, by every accountant."""

import itertools
import math

import numpy as np
import pytest
from mpmath import mp, mpf

import rangebound as rb
from rangebound.accounting import MechanismEvent, SampledEvent, group_event
from rangebound.accounting import renyi as renyi_accountant
from rangebound.accounting.pld import accountant
from rangebound.errors import ArgumentError
from rangebound.mechanisms.finite import TOTAL
from tests.mechanisms.finite import brute_force
from tests.mechanisms.finite.random_tables import random_table
from tests.thinning import some

BIT = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
FLIP = rb.Table(query=BIT, inputs=(0, 1), outputs=(0, 1), weights=[[3 * 2**60, 2**60], [2**60, 3 * 2**60]])


@mp.workdps(50)
def flips(times, epsilon):
    """delta of randomized response with 3/4 for the truth, used this many times: a binomial sum."""
    total = mpf(0)
    for k in range(times + 1):
        p = mp.binomial(times, k) * mpf(3) ** k / mpf(4) ** times
        q = mp.binomial(times, k) * mpf(3) ** (times - k) / mpf(4) ** times
        total += max(p - mp.exp(epsilon) * q, 0)
    return total


@pytest.mark.parametrize("times", [1, 2, 7, 40])
def test_randomized_response_is_enclosed_closely(times):
    for epsilon in (0.0, 1.0, 0.6 * times):
        exact = flips(times, epsilon)
        found = rb.compose((FLIP, times)).delta(epsilon)
        assert found.lower <= exact <= found.upper
        assert found.upper <= exact * (1 + mpf(10) ** -4) + mpf(10) ** -12
    delta = 1e-6
    found = rb.compose((FLIP, times)).epsilon(delta)
    assert flips(times, found.upper) <= delta
    assert flips(times, 0.98 * found.upper) > delta
    assert flips(times, found.lower) >= delta * (1 - 1e-9)


@mp.workdps(50)
def two_uses(weights, pairs, epsilon):
    """The worst pair of non-adaptive adversaries of two uses, each with a pair of its own, by all outcomes."""
    level, worst = mp.exp(epsilon), mpf(0)
    ordered = [(a, b) for i, j in pairs for a, b in ((i, j), (j, i))]
    for (a, b), (c, d) in itertools.product(ordered, repeat=2):
        total = mpf(0)
        for (p, q), (r, s) in itertools.product(
            zip(weights[a], weights[b], strict=True), zip(weights[c], weights[d], strict=True)
        ):
            total += max(mpf(p) * r - level * mpf(q) * s, mpf(0))
        worst = max(worst, total / TOTAL**2)
    return worst


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", some(range(8), of=2))
def test_two_uses_of_random_tables_are_bounded(seed):
    table = random_table(np.random.default_rng(seed))
    pairs = brute_force.neighbouring_inputs(table.inputs, table.query.range.spans, table.query.sensitivity)
    for epsilon in (0.0, 0.5, 3.0):
        exact = two_uses(table.weights.tolist(), sorted(pairs)[:4], epsilon)
        assert rb.compose((table, 2)).delta(epsilon).upper >= exact
        assert renyi_accountant.delta(MechanismEvent(mechanism=table, times=2), epsilon) >= exact


def test_one_use_is_the_table_itself():
    for seed in range(6):
        table = random_table(np.random.default_rng(seed), zeros=False)
        found = accountant.delta(MechanismEvent(mechanism=table), 0.25)
        assert found.upper == table.delta(0.25)
        assert found.lower <= found.upper
        assert accountant.epsilon(MechanismEvent(mechanism=table), 0.01).upper == table.epsilon(0.01)
        assert rb.compose((table, 3)).epsilon(0.0).upper == pytest.approx(3 * table.epsilon())


def test_tables_compose_with_mechanisms_and_on_samples():
    count = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=BIT)
    both = rb.compose(FLIP, (count, 2)).epsilon(1e-6)
    assert both.lower <= both.upper <= FLIP.epsilon() + 2 * count.epsilon()
    sampled = rb.compose(SampledEvent(mechanism=FLIP, rate=0.1, times=10)).epsilon(1e-6)
    assert 0.0 < sampled.lower <= sampled.upper < rb.compose((FLIP, 10)).epsilon(1e-6).upper
    grouped = group_event(MechanismEvent(mechanism=FLIP), 3)
    assert grouped.mechanism.epsilon() == FLIP.epsilon()  # two inputs: no one is farther away


def test_a_sampled_table_holds_for_the_exact_mixture():
    """Poisson sampling of one person: output laws (1-p) Q + p P against Q, in exact arithmetic."""
    rate, epsilon = 0.25, 0.3
    p, q = np.array([0.75, 0.25]), np.array([0.25, 0.75])
    mixed = (1 - rate) * q + rate * p
    exact = max(np.maximum(mixed - math.exp(epsilon) * q, 0).sum(), np.maximum(q - math.exp(epsilon) * mixed, 0).sum())
    found = rb.compose(SampledEvent(mechanism=FLIP, rate=rate)).delta(epsilon)
    assert found.upper == pytest.approx(exact, rel=1e-9)


def test_a_table_with_impossible_outputs_keeps_a_delta():
    half = TOTAL // 2
    table = rb.Table(query=BIT, inputs=(0, 1), outputs=(0, 1, 2), weights=[[half, half, 0], [0, half, half]])
    found = rb.compose((table, 2)).delta(5.0)
    assert found.lower <= 0.75 <= found.upper <= 0.75 + 1e-9
    assert rb.compose((table, 2)).epsilon(0.1).upper == math.inf


def test_control_fewer_uses_are_below_the_truth():
    assert rb.compose((FLIP, 6)).delta(1.0).upper < flips(7, 1.0)


TEN = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
STAIRS = rb.Staircase.calibrated(query=TEN, epsilon=0.5, step=0.25)
COUNTS = rb.DiscreteLaplace.calibrated(sensitivity=3, epsilon=0.6, support=rb.Interval(0, 20))


def brute(laws, times, epsilon):
    """delta at epsilon of this many uses of a pair, all outcomes summed by their loss."""
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
