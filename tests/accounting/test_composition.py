"""Events, and their composition by the best accountant; sequential, parallel and group composition of guarantees."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import rangebound as rb
from rangebound.accounting import ComposedEvent, MechanismEvent, PerInstance, SampledEvent, best_accountant, renyi
from rangebound.accounting.composition import Guarantee, compose, group, group_event, parallel, sequential
from rangebound.accounting.event import steps
from rangebound.accounting.pld import accountant
from rangebound.errors import ArgumentError, ArgumentTypeError
from tests.accounting.mechanisms import free, gaussian, short

LINE = rb.Query(range=rb.Interval(0, 100), sensitivity=0.1)


def test_compose_takes_mechanisms_events_and_counts():
    m = short(rb.Laplace(scale=4.0))
    sampled = SampledEvent(mechanism=m, rate=0.1)
    once = MechanismEvent(mechanism=m)
    nested = ComposedEvent(events=[sampled, ComposedEvent(events=(once, sampled), times=3)], times=2)
    everyone = SampledEvent(mechanism=m, rate=1, times=4)  # a sample of everyone is the whole
    found = compose(m, (m, 2), once, (sampled, 3), (nested, 5), everyone, LAPLACE)
    assert steps(found.event) == {once: 4 + 30 + 4, sampled: 3 + 40, MechanismEvent(mechanism=LAPLACE): 1}
    assert compose().epsilon(0.0).upper == compose().delta(0.0).upper == 0.0


@pytest.mark.parametrize("bad", [0.1, "m", (LINE, 2), ("m", 2), [1], None])
def test_compose_refuses_what_is_not_a_mechanism_or_an_event(bad):
    with pytest.raises(ArgumentTypeError, match="such as"):
        compose(bad)


@pytest.mark.parametrize("times", [0, -1, 1.5, True, "2"])
def test_compose_refuses_a_count_that_is_not_a_positive_integer(times):
    with pytest.raises((ArgumentError, ArgumentTypeError), match="times"):
        compose((short(rb.Laplace(scale=4.0)), times))


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
        group_event(SampledEvent(mechanism=gaussian(1.0), rate=0.5), 2)


@pytest.mark.parametrize("bad", [-1.0, math.nan, "1", None, True, [1.0], PerInstance(0.1, notion="of one record")])
@pytest.mark.parametrize(
    "made",
    [
        lambda bad: Guarantee(epsilon=bad),
        lambda bad: Guarantee(epsilon=1.0, delta=bad),
        lambda bad: sequential([bad]),
        lambda bad: group(Guarantee(epsilon=1.0), bad),
    ],
)
def test_bad_guarantees(made, bad):
    with pytest.raises((ArgumentError, ArgumentTypeError)):
        made(bad)


def test_coins_together_have_the_risk_of_all_their_outcomes():
    """Brute force over 3 coins with the odds e^(1/2); the control is one coin."""
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


@pytest.mark.slow
@pytest.mark.parametrize("bounding", [rb.TRUNCATE, rb.UNBOUNDED])
def test_it_is_the_smaller_upper_end(bounding):
    event = MechanismEvent(mechanism=short(rb.Laplace(scale=4.0), bounding=bounding), times=100)
    by_loss, by_renyi = accountant.epsilon(event, 1e-6), renyi.epsilon(event, 1e-6)
    found = best_accountant.epsilon(event, 1e-6)
    every = best_accountant.every_epsilon(event, 1e-6)
    assert (every.pld, every.renyi) == (by_loss, by_renyi)
    assert found.upper == every.best.upper == min(by_loss.upper, by_renyi, every.adaptive)
    assert (found.upper < 0.99 * min(by_loss.upper, by_renyi)) == (bounding is rb.TRUNCATE)
    assert found.lower == min(by_loss.lower, found.upper)
    assert by_loss.lower <= by_renyi  # both are true, so a pair cannot leak more than the other proves
    at = best_accountant.delta(event, found.upper)
    assert at.lower <= at.upper <= 1e-6 * (1.0 + 1e-6)
    assert rb.compose(event).epsilon(1e-6) == found
    gain = at.upper / min(accountant.delta(event, found.upper).upper, renyi.delta(event, found.upper))
    assert gain < 0.9 if bounding is rb.TRUNCATE else gain == 1.0


GAUSSIAN, LAPLACE = gaussian(1.0), free(rb.Laplace(scale=1.0))


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
    for wrong in ((GAUSSIAN,), MechanismEvent(mechanism=GAUSSIAN)):
        with pytest.raises(ArgumentTypeError, match="events"):
            ComposedEvent(events=wrong)
    with pytest.raises(ArgumentTypeError, match="event"):
        steps([MechanismEvent(mechanism=GAUSSIAN)])
    with pytest.raises(ArgumentError, match="at most"):
        steps(ComposedEvent(events=(MechanismEvent(mechanism=GAUSSIAN, times=10**6),), times=10**6))
