"""Composition of mechanisms by the best accountant; sequential, parallel and group composition of guarantees."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

import rangebound as rb
from rangebound.accounting import ComposedEvent, MechanismEvent, PerInstance, SampledEvent, renyi
from rangebound.accounting.composition import Guarantee, compose, group, group_event, parallel, sequential
from rangebound.accounting.event import steps
from rangebound.accounting.pld import accountant
from rangebound.errors import ArgumentError, ArgumentTypeError

LINE = rb.Query(range=rb.Interval(0, 100), sensitivity=0.1)
SHORT = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)


@pytest.mark.parametrize("bounding", [rb.TRUNCATE, rb.UNBOUNDED])
def test_compose_is_the_best_of_the_accountants(bounding):
    m = rb.Mechanism(noise=rb.Laplace(scale=4.0), query=SHORT, bounding=bounding)
    event = MechanismEvent(mechanism=m, times=100)
    found = compose((m, 100))
    others = min(accountant.epsilon(event, 1e-6).upper, renyi.epsilon(event, 1e-6))
    at_five = min(accountant.delta(event, 5.0).upper, renyi.delta(event, 5.0))
    if bounding is rb.TRUNCATE:
        assert found.epsilon(1e-6).upper < 0.99 * others
        assert found.delta(5.0).upper < 0.9 * at_five
    else:
        assert found.epsilon(1e-6).upper == others
        assert found.delta(5.0).upper == at_five
    assert found.epsilon(1e-6).lower <= found.epsilon(1e-6).upper


def test_compose_takes_mechanisms_events_and_counts():
    m = rb.Mechanism(noise=rb.Laplace(scale=4.0), query=SHORT)
    sampled = SampledEvent(mechanism=m, rate=0.1)
    once = MechanismEvent(mechanism=m)
    found = compose(m, (m, 2), once, (sampled, 3), (ComposedEvent(events=(sampled, once)), 2))
    assert steps(found.event) == {once: 6, sampled: 5}
    assert compose().epsilon(0.0).upper == compose().delta(0.0).upper == 0.0


@pytest.mark.parametrize("bad", [0.1, "m", (LINE, 2), ("m", 2), [1], None])
def test_compose_refuses_what_is_not_a_mechanism_or_an_event(bad):
    with pytest.raises(ArgumentTypeError, match="such as"):
        compose(bad)


@pytest.mark.parametrize("times", [0, -1, 1.5, True, "2"])
def test_compose_refuses_a_count_that_is_not_a_positive_integer(times):
    with pytest.raises((ArgumentError, ArgumentTypeError), match="times"):
        compose((rb.Mechanism(noise=rb.Laplace(scale=4.0), query=SHORT), times))


def test_sums_are_exact_and_rounded_up_once():
    total = sequential([Guarantee(epsilon=0.1, delta=1e-7)] * 10)
    assert Fraction(total.epsilon) >= 10 * Fraction(0.1)
    assert total.epsilon == math.nextafter(1.0, 2.0)  # ten times the double 0.1 is above 1
    assert Fraction(total.delta) >= 10 * Fraction(1e-7)
    assert sequential([]) == Guarantee(epsilon=0.0)
    assert sequential([Guarantee(epsilon=1e308)] * 9).epsilon == math.inf
    assert sequential([Guarantee(epsilon=1.0, delta=0.6)] * 2).delta == 1.0


def test_control_a_float_sum_is_too_small():
    numbers = [1.0] + [1e-16] * 1000
    assert sum(numbers) < sequential([Guarantee(epsilon=x) for x in numbers]).epsilon


def test_disjoint_parts():
    parts = [Guarantee(epsilon=0.5, delta=1e-5), Guarantee(epsilon=2.0, delta=1e-9)]
    assert parallel(parts) == Guarantee(epsilon=2.0, delta=1e-5)
    assert parallel([]) == Guarantee(epsilon=0.0)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_exact_group_is_within_the_general_bound(size):
    m = rb.calibrate(noise=rb.Gaussian, query=LINE, bounding=rb.UNBOUNDED, epsilon=0.5, delta=1e-6)
    bound = group(Guarantee(epsilon=0.5, delta=1e-6), size)
    seen = group_event(MechanismEvent(mechanism=m), size)
    assert accountant.delta(seen, bound.epsilon).upper <= bound.delta
    assert Fraction(seen.mechanism.query.sensitivity) >= size * Fraction(0.1)
    assert group_event(ComposedEvent(events=(MechanismEvent(mechanism=m, times=3),)), size).events[0].times == 3


def test_groups():
    assert group(Guarantee(epsilon=1.0), 4) == Guarantee(epsilon=4.0)
    assert group(Guarantee(epsilon=0.0, delta=0.01), 4).delta == pytest.approx(0.04)
    assert group(Guarantee(epsilon=1.0, delta=1e-3), 2).delta >= 1e-3 * (1.0 + math.e) * (1.0 - 1e-15)
    assert group(Guarantee(epsilon=50.0, delta=1e-3), 2).delta == 1.0
    assert group(Guarantee(epsilon=math.inf), 2) == Guarantee(epsilon=math.inf)
    with pytest.raises(ArgumentError, match="SampledEvent"):
        group_event(SampledEvent(mechanism=rb.Mechanism(noise=rb.Laplace(scale=1.0), query=LINE), rate=0.5), 2)


@pytest.mark.parametrize("bad", [-1.0, math.nan, "1", None, True, [1.0]])
def test_bad_guarantees(bad):
    with pytest.raises((ArgumentError, ArgumentTypeError)):
        Guarantee(epsilon=bad)
    with pytest.raises((ArgumentError, ArgumentTypeError)):
        Guarantee(epsilon=1.0, delta=bad)
    with pytest.raises((ArgumentError, ArgumentTypeError)):
        sequential([bad])
    with pytest.raises((ArgumentError, ArgumentTypeError)):
        group(Guarantee(epsilon=1.0), bad)


def test_a_per_instance_number_is_no_guarantee():
    leak = PerInstance(0.1, notion="epsilon of one record")
    with pytest.raises(ArgumentTypeError, match="per-instance"):
        Guarantee(epsilon=leak)
    with pytest.raises(ArgumentTypeError, match="Guarantee"):
        sequential([leak])


def test_gaussian_steps_together_have_the_risk_of_one():
    line = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    many = rb.compose((rb.Mechanism(noise=rb.Gaussian(scale=2.0), query=line, bounding=rb.UNBOUNDED), 4))
    one = rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=line, bounding=rb.UNBOUNDED)
    assert one.gdp() == many.gdp() == 1.0
    assert one.advantage() <= many.advantage() * (1 + 1e-9) <= one.advantage() * 1.0001
    assert one.tradeoff(0.1) - 1e-4 <= many.tradeoff(0.1) <= one.tradeoff(0.1) + 2e-9
    assert one.success(0.2) <= many.success(0.2) * (1 + 1e-9) <= one.success(0.2) * 1.0001
    assert many.posterior(0.5) == 1.0


def test_coins_together_have_the_risk_of_all_their_outcomes():
    """Brute force over 3 coins with the odds e^(1/2); the control is one coin."""
    from itertools import product

    heads = 1.0 / (1.0 + math.exp(-0.5))
    outcomes = [(math.prod(p), math.prod(1.0 - each for each in p)) for p in product((heads, 1.0 - heads), repeat=3)]
    coin = rb.DiscreteLaplace(scale=2.0, support=rb.Interval(0, 1))
    found = rb.compose((coin, 3))
    exact = 0.5 * sum(abs(p - q) for p, q in outcomes)
    assert exact <= found.advantage() <= exact + 0.01
    assert found.advantage() > 1.3 * coin.advantage()
    assert found.reconstruction(0.25) >= 0.25 + 0.5 * exact
    assert found.posterior(0.5) == pytest.approx(1.0 / (1.0 + math.exp(-1.5)), rel=1e-9)
    assert found.gdp() <= math.sqrt(3.0) * coin.gdp() * (1 + 1e-9)


def test_a_composition_of_nothing_helps_nobody():
    nothing = rb.compose()
    assert (nothing.advantage(), nothing.gdp(), nothing.tradeoff(0.25)) == (0.0, 0.0, 0.75)
    assert nothing.odds().startswith("Of 1,000,000 people")
