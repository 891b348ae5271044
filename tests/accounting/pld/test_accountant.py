"""The privacy-loss accountant against closed forms: never below, seldom more than 1 % above.

A case is a composition and a delta. Its exact epsilon need not be computed: delta falls with epsilon, so the upper end
is not too small if the exact delta there is at most the one asked for, and not 1 % too large if the exact delta
at 1/1.01 of it is at least that. Both are decided in ball arithmetic.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import rangebound as rb
from rangebound.accounting import ComposedEvent, Enclosure, MechanismEvent, SampledEvent
from rangebound.accounting.pld import accountant
from tests.accounting.mechanisms import free, gaussian
from tests.accounting.pld.exact import gaussian_delta, laplace_delta

Exact = Callable[[float], Any]


@dataclass(frozen=True)
class Case:
    event: MechanismEvent
    exact: Exact
    delta: float


def cases():
    """The grid of the bar: more than 1,000 compositions, up to 1e5 steps, delta from 0.03 down to 1e-12."""
    random = np.random.default_rng(20)
    found = []

    def add(noise, times, exact, count, *limit):
        event = MechanismEvent(mechanism=free(noise), times=times)
        for _ in range(count):
            delta = 10.0 ** random.uniform(-12, -1.5)
            found.append(Case(event, lambda epsilon: exact(noise.scale, times, epsilon, *limit), delta))

    for scale, times in itertools.product((0.5, 1.0, 3.0, 10.0, 30.0), (2, 7, 30, 200, 1000)):
        add(rb.Gaussian(scale=scale), times, gaussian_delta, 15)
    for scale, times in ((3.0, 10_000), (50.0, 10_000), (100.0, 100_000), (1000.0, 100_000)):
        add(rb.Gaussian(scale=scale), times, gaussian_delta, 6)
    for scale, times in itertools.product((0.3, 0.7, 1.0, 2.0, 5.0, 15.0), (2, 3, 4, 6)):
        add(rb.Laplace(scale=scale), times, laplace_delta, 17)
    for scale, times, limit in itertools.product((0.5, 1.0, 4.0), (2, 3, 5), (12.0, 34.0)):
        add(rb.TruncatedLaplacian(scale=scale, limit=limit * scale), times, laplace_delta, 14, limit * scale)
    assert len(found) >= 1000
    return found


CASES = cases()


PARTS = [24, pytest.param(4, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.long)]


@pytest.fixture(scope="module", params=PARTS, ids=["every 24th", "every fourth", "all"])
def answers(request):
    return [(case, accountant.epsilon(case.event, case.delta)) for case in CASES[:: request.param]]


def understated(exact, delta, epsilon):
    """Whether epsilon is too small for delta; not knowing counts as too small."""
    return not (math.isinf(epsilon) or exact(epsilon) <= delta)


def loose(exact, delta, epsilon):
    if math.isinf(epsilon):
        return not exact(1e4) > delta
    return not (epsilon == 0.0 or exact(epsilon / 1.01) >= delta)


@pytest.mark.claim("privacy")
def test_the_upper_end_is_never_below_the_exact_value(answers):
    bad = [case for case, got in answers if understated(case.exact, case.delta, got.upper)]
    assert bad == []


def test_the_lower_end_is_never_above_the_exact_value(answers):
    for case, got in answers:
        assert got.lower == 0.0 or case.exact(min(got.lower, 1e6)) >= case.delta, case


def test_the_excess_is_at_most_one_percent_in_95_percent_of_the_cases(answers):
    excess = [loose(case.exact, case.delta, got.upper) for case, got in answers]
    assert np.mean(excess) <= 0.05, [case for (case, _), bad in zip(answers, excess, strict=True) if bad]


def test_delta_is_enclosed_and_never_negative(answers):
    ratios = []
    for number, (case, got) in enumerate(answers):
        if number % 5 or math.isinf(got.upper):
            continue
        epsilon = got.upper * (0.3 + 0.7 * (number % 7) / 7.0)
        found = accountant.delta(case.event, epsilon)
        truth = case.exact(epsilon)
        assert 0.0 <= found.lower <= found.upper <= 1.0
        assert found.lower <= truth or float(truth) > 1.0 - 1e-9
        assert found.upper >= truth or found.upper == 1.0, (case, epsilon)
        ratios.append(found.upper / float(truth))
    assert len(ratios) >= 0.15 * len(answers)
    assert np.quantile(ratios, 0.95) <= 1.01


def test_control_dp_accounting_alone_fails_the_same_test():
    """Its convolution loses the tail: with many steps and a small delta it reports too little."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    composed = pld.from_gaussian_mechanism(100.0, value_discretization_interval=1e-3).self_compose(100_000)
    peer = composed.get_epsilon_for_delta(1e-12)
    assert understated(lambda e: gaussian_delta(100.0, 100_000, e), 1e-12, peer)
    ours = accountant.epsilon(MechanismEvent(mechanism=gaussian(100.0), times=100_000), 1e-12)
    assert not understated(lambda e: gaussian_delta(100.0, 100_000, e), 1e-12, ours.upper)
    assert ours.upper < 1.001 * 26.7198


BOUNDED = [
    (width, scale, epsilon)
    for width, scale in ((1.0, 1.0), (10.0, 1.0), (10.0, 5.0), (3.0, 0.5), (100.0, 7.0))
    for epsilon in np.linspace(0.0, 0.95, 5)
]


def test_bounded_laplace_once_through_the_grid_and_directly():
    """25 more cases. The exact value is the core's; the grid is forced by asking below the shortcut for one step."""
    ratios = []
    for width, scale, share in BOUNDED:
        query = rb.Query(range=rb.Interval(0, width), sensitivity=1.0)
        m = rb.Mechanism(noise=rb.Laplace(scale=scale), query=query)
        epsilon = share * m.epsilon()
        truth = m.delta(epsilon)
        direct = accountant.delta(MechanismEvent(mechanism=m), epsilon)
        assert direct.lower <= truth == direct.upper
        gridded = accountant._composed_delta({MechanismEvent(mechanism=m): 1}, epsilon, 1e-25)
        assert gridded.lower <= truth
        assert gridded.upper >= truth * (1.0 - 1e-8)  # the core's own number is rounded up
        ratios.append(gridded.upper / truth)
    assert np.quantile(ratios, 0.95) <= 1.01


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("scale", "few", "many"), [(300.0, 1, 100_000), (300.0, 3, 1000), (300.0, 50, 2), (2.5, 9, 20)]
)
def test_steps_of_very_different_size(scale, few, many):
    """Gaussians of different scales compose to one with the sum of the squares of their mu."""
    both = MechanismEvent(mechanism=gaussian(1.0), times=few), MechanismEvent(mechanism=gaussian(scale), times=many)
    found = accountant.epsilon(ComposedEvent(events=both), 1e-9)
    scale = 1.0 / math.sqrt(few + many / scale**2)
    assert gaussian_delta(scale, 1, found.upper) <= 1e-9
    assert gaussian_delta(scale, 1, found.upper / 1.005) >= 1e-9
    assert gaussian_delta(scale, 1, found.lower) >= 1e-9


@pytest.mark.few(1)
@pytest.mark.parametrize(("scale", "rate", "times", "delta"), [(1.0, 0.01, 300, 1e-6), (2.0, 0.2, 10, 1e-5)])
def test_sampled_gaussian_steps_agree_with_dp_accounting(scale, rate, times, delta):
    """At few steps and a moderate delta its round-off does not matter, and it too is pessimistic."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    peer = pld.from_gaussian_mechanism(scale, value_discretization_interval=1e-4, sampling_prob=rate)
    epsilon = peer.self_compose(times).get_epsilon_for_delta(delta)
    found = accountant.epsilon(SampledEvent(mechanism=gaussian(scale), rate=rate, times=times), delta)
    assert found.lower <= epsilon * (1.0 + 1e-9)
    assert found.upper == pytest.approx(epsilon, rel=2e-3)


def test_many_pure_steps_never_exceed_their_sum():
    m = free(rb.Laplace(scale=2.0))
    found = accountant.epsilon(MechanismEvent(mechanism=m, times=5), 1e-30)
    assert found.upper <= 2.5
    assert accountant.epsilon(MechanismEvent(mechanism=m, times=5), 0.0) == Enclosure(lower=2.5, upper=2.5)
    assert accountant.delta(MechanismEvent(mechanism=m, times=5), 2.5).upper <= 1e-12


def test_no_epsilon_is_enough_where_outputs_of_one_side_alone_are_likelier_than_delta():
    noise = rb.TruncatedLaplacian(scale=1.0, limit=14.0)
    m = rb.Mechanism(noise=noise, query=rb.Query(range=rb.Interval(-120, 120), sensitivity=1.0))
    event = MechanismEvent(mechanism=m, times=10)
    assert accountant.epsilon(event, 1e-6).lower == math.inf  # both pairs say so
    assert math.isfinite(accountant.epsilon(event, 1e-4).upper)  # control: what may be told apart is rarer than that


def test_tiny_deltas_are_still_sharp():
    event, truth = MechanismEvent(mechanism=gaussian(1.0), times=4), gaussian_delta(1.0, 4, 60.0)
    assert float(truth) < 1e-100
    found = accountant.delta(event, 60.0)
    assert found.lower <= truth <= found.upper
    assert found.upper <= 2.0 * float(truth)
    assert 60.0 <= accountant.epsilon(event, float(truth) * (1.0 - 1e-12)).upper <= 60.0 * 1.001


def test_each_end_of_a_composed_delta_is_that_of_the_worse_direction(monkeypatch):
    def known(value):
        return SimpleNamespace(delta_upper=lambda epsilon: value + 0.1, delta_lower=lambda epsilon: value - 0.1)

    for values in ((0.2, 0.5), (0.5, 0.2)):
        directions = [known(each) for each in values]
        monkeypatch.setattr(accountant, "_compositions", lambda *_, found=directions: ([], found, found))
        assert accountant._composed_delta({}, 1.0, 1e-9) == Enclosure(lower=0.4, upper=0.6)


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, "1", None, True, [1.0]])
def test_bad_numbers_are_refused(bad):
    event = MechanismEvent(mechanism=gaussian(1.0), times=2)
    for call, *given in (
        (accountant.delta, event, bad),
        (accountant.epsilon, event, bad),
        (accountant.epsilon, bad, 0.1),
    ):
        with pytest.raises(rb.RangeboundError):
            call(*given)
