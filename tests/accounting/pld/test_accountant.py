"""The privacy-loss accountant against closed forms: never below, seldom more than 1 % above.

A case is a composition and a delta. Its exact epsilon need not be computed: delta falls with epsilon, so the upper end
is not too small if the exact delta there is at most the one asked for, and not 1 % too large if the exact delta
at 1/1.01 of it is at least that. Both are decided in ball arithmetic.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import rangebound as rb
from rangebound.accounting import ComposedEvent, Enclosure, MechanismEvent, SampledEvent
from rangebound.accounting.pld import accountant
from rangebound.errors import RangeboundError
from tests.accounting.pld.exact import gaussian_delta, laplace_delta

LINE = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)
Exact = Callable[[float], Any]


def free(noise: Any) -> rb.Mechanism:
    return rb.Mechanism(noise=noise, query=LINE, bounding=rb.UNBOUNDED)


@dataclass(frozen=True)
class Case:
    name: str
    event: MechanismEvent
    exact: Exact
    delta: float


def cases() -> list[Case]:
    """The grid of the bar: more than 1,000 compositions, up to 1e5 steps, delta from 0.03 down to 1e-12."""
    random = np.random.default_rng(20)
    found: list[Case] = []

    def add(name: str, noise: Any, times: int, exact: Exact, count: int) -> None:
        event = MechanismEvent(mechanism=free(noise), times=times)
        found.extend(Case(name, event, exact, 10.0 ** random.uniform(-12, -1.5)) for _ in range(count))

    for scale, times in itertools.product((0.5, 1.0, 3.0, 10.0, 30.0), (2, 7, 30, 200, 1000)):
        add("Gaussian", rb.Gaussian(scale=scale), times, lambda e, s=scale, k=times: gaussian_delta(s, k, e), 15)
    for scale, times in ((3.0, 10_000), (50.0, 10_000), (100.0, 100_000), (1000.0, 100_000)):
        add("Gaussian", rb.Gaussian(scale=scale), times, lambda e, s=scale, k=times: gaussian_delta(s, k, e), 6)
    for scale, times in itertools.product((0.3, 0.7, 1.0, 2.0, 5.0, 15.0), (2, 3, 4, 6)):
        add("Laplace", rb.Laplace(scale=scale), times, lambda e, s=scale, k=times: laplace_delta(s, k, e), 17)
    for scale, times, limit in itertools.product((0.5, 1.0, 4.0), (2, 3, 5), (12.0, 34.0)):
        noise = rb.TruncatedLaplacian(scale=scale, limit=limit * scale)
        add(
            "truncated Laplacian",
            noise,
            times,
            lambda e, s=scale, k=times, a=noise.limit: laplace_delta(s, k, e, a),
            14,
        )
    return found


CASES = cases()


@pytest.fixture(scope="module", params=[4, pytest.param(1, marks=pytest.mark.long)], ids=["every fourth", "all"])
def answers(request: pytest.FixtureRequest) -> list[tuple[Case, Enclosure]]:
    return [(case, accountant.epsilon(case.event, case.delta)) for case in CASES[:: request.param]]


def understated(exact: Exact, delta: float, epsilon: float) -> bool:
    """Whether epsilon is too small for delta; not knowing counts as too small."""
    return not (math.isinf(epsilon) or exact(epsilon) <= delta)


def loose(exact: Exact, delta: float, epsilon: float) -> bool:
    """Whether epsilon is more than 1 % above what delta needs."""
    if math.isinf(epsilon):
        return not exact(1e4) > delta
    return not (epsilon == 0.0 or exact(epsilon / 1.01) >= delta)


def test_there_are_enough_cases():
    assert len(CASES) >= 1000
    assert max(case.event.times for case in CASES) == 100_000
    assert min(case.delta for case in CASES) < 2e-12


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
    ours = accountant.epsilon(MechanismEvent(mechanism=free(rb.Gaussian(scale=100.0)), times=100_000), 1e-12)
    assert not understated(lambda e: gaussian_delta(100.0, 100_000, e), 1e-12, ours.upper)
    assert ours.upper < 1.001 * 26.7198


@pytest.mark.long
def test_many_more_gaussians():
    random, late = np.random.default_rng(5), []
    for _ in range(1000):
        scale, times = 10.0 ** random.uniform(-0.5, 3.5), int(10.0 ** random.uniform(0.4, 5.0))
        delta = 10.0 ** random.uniform(-12, -1)
        found = accountant.epsilon(MechanismEvent(mechanism=free(rb.Gaussian(scale=scale)), times=times), delta)
        assert found.upper == 0.0 or gaussian_delta(scale, times, found.upper) <= delta
        assert found.lower == 0.0 or gaussian_delta(scale, times, found.lower) >= delta
        late.append(found.upper > 0.0 and not gaussian_delta(scale, times, found.upper / 1.01) >= delta)
    assert np.mean(late) <= 0.05


def test_the_thousandfold_gaussian():
    found = accountant.epsilon(MechanismEvent(mechanism=free(rb.Gaussian(scale=1.0)), times=1000), 1e-6)
    assert found.lower <= 649.38509 <= found.upper <= 649.38509 * 1.001


BOUNDED = [
    (width, scale, epsilon)
    for width, scale in ((1.0, 1.0), (10.0, 1.0), (10.0, 5.0), (3.0, 0.5), (100.0, 7.0))
    for epsilon in np.linspace(0.0, 0.95, 20)
]


def test_bounded_laplace_once_through_the_grid_and_directly():
    """100 more cases. The exact value is the core's; the grid is forced by asking below the shortcut for one step."""
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
    assert len(ratios) == 100
    assert np.quantile(ratios, 0.95) <= 1.01


def test_a_batch_in_any_order_and_split_is_one_composition():
    first = MechanismEvent(mechanism=free(rb.Gaussian(scale=2.0)), times=6)
    second = MechanismEvent(mechanism=free(rb.Gaussian(scale=5.0)), times=20)
    joined = accountant.epsilon(ComposedEvent(events=(first, second)), 1e-8)
    assert accountant.epsilon(ComposedEvent(events=(second, first)), 1e-8).upper == pytest.approx(
        joined.upper, rel=1e-9
    )
    halves = ComposedEvent(
        events=(
            MechanismEvent(mechanism=first.mechanism, times=3),
            MechanismEvent(mechanism=second.mechanism, times=10),
        )
    )
    assert accountant.epsilon(ComposedEvent(events=(halves,), times=2), 1e-8) == joined
    # Gaussians of different scales compose to one with the sum of the squares of their mu.
    scale = 1.0 / math.sqrt(6 / 4 + 20 / 25)
    assert gaussian_delta(scale, 1, joined.upper) <= 1e-8
    assert gaussian_delta(scale, 1, joined.upper / 1.002) >= 1e-8
    assert gaussian_delta(scale, 1, joined.lower) >= 1e-8


@pytest.mark.parametrize("times", [(1, 100_000), (3, 1000), (50, 2)])
def test_steps_of_very_different_size(times):
    few, many = times
    event = ComposedEvent(
        events=(
            MechanismEvent(mechanism=free(rb.Gaussian(scale=1.0)), times=few),
            MechanismEvent(mechanism=free(rb.Gaussian(scale=300.0)), times=many),
        )
    )
    found = accountant.epsilon(event, 1e-9)
    scale = 1.0 / math.sqrt(few + many / 300.0**2)
    assert gaussian_delta(scale, 1, found.upper) <= 1e-9
    assert gaussian_delta(scale, 1, found.upper / 1.005) >= 1e-9
    assert gaussian_delta(scale, 1, found.lower) >= 1e-9


def test_a_sample_of_everyone_is_no_sample():
    m = free(rb.Gaussian(scale=2.0))
    assert accountant.epsilon(SampledEvent(mechanism=m, rate=1.0, times=9), 1e-6) == accountant.epsilon(
        MechanismEvent(mechanism=m, times=9), 1e-6
    )


@pytest.mark.parametrize(("scale", "rate", "times", "delta"), [(1.0, 0.01, 300, 1e-6), (2.0, 0.2, 10, 1e-5)])
def test_sampled_gaussian_steps_agree_with_dp_accounting(scale, rate, times, delta):
    """At few steps and a moderate delta its round-off does not matter, and it too is pessimistic."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    peer = pld.from_gaussian_mechanism(scale, value_discretization_interval=1e-4, sampling_prob=rate)
    epsilon = peer.self_compose(times).get_epsilon_for_delta(delta)
    found = accountant.epsilon(SampledEvent(mechanism=free(rb.Gaussian(scale=scale)), rate=rate, times=times), delta)
    assert found.lower <= epsilon * (1.0 + 1e-9)
    assert found.upper == pytest.approx(epsilon, rel=2e-3)


def test_one_sampled_step_is_a_mixture():
    """sup over sets of ((1-p) Q + p P)(A) - e^eps Q(A) and of the reverse, by a sum over many outcomes."""
    rate, scale, epsilon = 0.3, 1.0, 0.2
    x = np.linspace(-12.0, 13.0, 400_001)
    q, p = (np.exp(-0.5 * ((x - at) / scale) ** 2) / math.sqrt(2.0 * math.pi) for at in (0.0, 1.0))
    mixed = (1.0 - rate) * q + rate * p
    width = x[1] - x[0]
    brute = max(
        np.maximum(mixed - math.exp(epsilon) * q, 0.0).sum() * width,
        np.maximum(q - math.exp(epsilon) * mixed, 0.0).sum() * width,
    )
    found = accountant.delta(SampledEvent(mechanism=free(rb.Gaussian(scale=scale)), rate=rate), epsilon)
    assert found.upper == pytest.approx(brute, rel=1e-6)
    assert found.lower == pytest.approx(brute, rel=1e-6)


def test_the_deltas_of_a_simulation_lie_inside():
    """Monte Carlo with a fixed pair of a bounded mechanism: below the upper end, at or above the lower end."""
    query = rb.Query(range=rb.Interval(0, 4), sensitivity=1.0)
    m = rb.Mechanism(noise=rb.Gaussian(scale=1.5), query=query, bounding=rb.RECTIFY)
    random, times, n = np.random.default_rng(7), 4, 400_000
    total = np.zeros(n)
    for _ in range(times):
        y = np.clip(random.normal(1.5, 1.5, n), 0.0, 4.0)
        p, q = m.law(1.5), m.law(2.5)
        inner = p.log_pdf(y) - q.log_pdf(y)
        low = math.log(p.cdf(0.0) / q.cdf(0.0))
        high = math.log(p.mass(4.0, 4.0) / q.mass(4.0, 4.0))
        total += np.where(y <= 0.0, low, np.where(y >= 4.0, high, inner))
    for epsilon in (0.5, 1.5, 3.0):
        terms = np.maximum(-np.expm1(epsilon - total), 0.0)
        found = accountant.delta(MechanismEvent(mechanism=m, times=times), epsilon)
        assert terms.mean() <= found.upper + 5.0 * terms.std() / math.sqrt(n)
        assert found.lower <= found.upper


def test_many_pure_steps_never_exceed_their_sum():
    m = free(rb.Laplace(scale=2.0))
    found = accountant.epsilon(MechanismEvent(mechanism=m, times=5), 1e-30)
    assert found.upper <= 2.5
    assert accountant.epsilon(MechanismEvent(mechanism=m, times=5), 0.0) == Enclosure(lower=2.5, upper=2.5)
    assert accountant.delta(MechanismEvent(mechanism=m, times=5), 2.5).upper <= 1e-12


def test_tiny_deltas_are_still_sharp():
    event, truth = MechanismEvent(mechanism=free(rb.Gaussian(scale=1.0)), times=4), gaussian_delta(1.0, 4, 60.0)
    assert float(truth) < 1e-100
    found = accountant.delta(event, 60.0)
    assert found.lower <= truth <= found.upper
    assert found.upper <= 2.0 * float(truth)
    assert 60.0 <= accountant.epsilon(event, float(truth) * (1.0 - 1e-12)).upper <= 60.0 * 1.001


def test_each_end_of_a_composed_delta_is_that_of_the_worse_direction(monkeypatch):
    @dataclass
    class Known:
        value: float

        def delta_upper(self, epsilon):
            return self.value + 0.1

        def delta_lower(self, epsilon):
            return self.value - 0.1

    for values in ((0.2, 0.5), (0.5, 0.2)):
        directions = [Known(each) for each in values]
        monkeypatch.setattr(accountant, "_compositions", lambda *_, found=directions: (found, found))
        assert accountant._composed_delta({}, 1.0, 1e-9) == Enclosure(lower=0.4, upper=0.6)


def test_nothing_released_gives_nothing_away():
    assert (
        accountant.epsilon(ComposedEvent(events=()), 1e-6)
        == accountant.delta(ComposedEvent(events=()), 0.0)
        == Enclosure(lower=0.0, upper=0.0)
    )


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, "1", None, True, [1.0]])
def test_bad_numbers_are_refused(bad):
    event = MechanismEvent(mechanism=free(rb.Gaussian(scale=1.0)), times=2)
    with pytest.raises(RangeboundError):
        accountant.delta(event, bad)
    with pytest.raises(RangeboundError):
        accountant.epsilon(event, bad)
    with pytest.raises(RangeboundError):
        accountant.epsilon(bad, 1e-6)
