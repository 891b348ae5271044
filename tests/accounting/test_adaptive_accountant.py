"""The adaptive accountant between what single pairs leak, by a direct convolution, and what the others prove."""

import math
import time

import numpy as np
import pytest

import rangebound as rb
from rangebound.accounting import (
    ComposedEvent,
    MechanismEvent,
    SampledEvent,
    adaptive_accountant,
    best_accountant,
    compose,
)
from rangebound.accounting.pld import accountant
from tests.accounting.mechanisms import free, short
from tests.thinning import some

DELTA = 1e-6


def laplace(width, scale, sensitivity=1.0):
    return short(rb.Laplace(scale=scale), width, sensitivity)


def losses(p, q, h):
    """The masses of P at its losses, rounded down to multiples of h, which can only leak less."""
    p, q = p[(p > 0.0) & (q > 0.0)], q[(p > 0.0) & (q > 0.0)]
    index = np.floor(np.log(p / q) / h).astype(int)
    return int(index.min()), np.bincount(index - index.min(), weights=p)


def cells(m, *answers):
    """The masses of small cells of the outputs: a partition is post-processing, so it can only leak less."""
    low, high = m.setting.shape.ends
    fine = np.linspace(low, high, 20_001)
    cuts = np.unique(np.concatenate([fine, np.linspace(min(answers), max(answers), 10_001)]))
    cuts = cuts[np.concatenate([[True], np.diff(cuts) > 1e-9])]
    return [np.diff(np.asarray(m.law(at).cdf(cuts))) for at in answers]


def composed(p, q, k, h, delta=DELTA):
    """At most the epsilon of k uses of one pair of finite laws: one Fourier transform and a bisection."""
    first, masses = losses(p, q, h)
    size = 1 << math.ceil(math.log2(k * len(masses)))
    bins = np.fft.irfft(np.fft.rfft(masses, size) ** k, size)
    sums = (k * first + np.arange(size)) * h

    def needed(epsilon):
        over = sums > epsilon
        return float((bins[over] * -np.expm1(epsilon - sums[over])).sum())

    low, high = 0.0, float(sums.max())
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if needed(middle) > delta else (low, middle)
    return low


# Range, scale, uses; the epsilon of the recursion in a trial without certificates, and of the best fixed pair.
BARS = [(5.0, 4.0, 20, 4.841, 4.793), (10.0, 1.0, 100, 72.9, 72.7), (100.0, 20.0, 52, 1.555, 1.546)]


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scale", "k", "trial", "fixed"), BARS)
def test_the_bars(width, scale, k, trial, fixed):
    """Above the best fixed pair, at most 0.1 % above the trial, and below what both other accountants prove."""
    m = laplace(width, scale)
    event = MechanismEvent(mechanism=m, times=k)
    pairs = [(p, p + 1.0) for p in np.linspace(0.0, 0.3 * (width - 1.0), 7).tolist()]
    best = max(composed(*cells(m, *pair), k, 1e-4 * fixed / k**0.5) for pair in pairs)
    assert best == pytest.approx(fixed, rel=2e-3)
    found = best_accountant.every_epsilon(event, DELTA)
    assert best <= found.adaptive
    assert fixed * (1.0 - 1e-3) < found.adaptive <= trial * 1.001
    assert found.adaptive < 0.99 * min(found.pld.upper, found.renyi)
    assert compose((m, k)).epsilon(DELTA).upper == found.adaptive


@pytest.mark.long
def test_a_thousand_uses_take_less_than_five_seconds():
    m = laplace(10.0, 1.0)
    event = MechanismEvent(mechanism=m, times=1000)
    before = time.process_time()
    found = adaptive_accountant.epsilon_within(event, DELTA, 485.0, 497.7)
    assert time.process_time() - before < 5.0
    best = max(composed(*cells(m, p, p + 1.0), 1000, 2e-4) for p in (1.8, 1.95, 2.1))
    assert best == pytest.approx(487.07, abs=0.2)
    assert best <= found <= 487.7


def random_event(random):
    width = float(10.0 ** random.uniform(0.2, 1.2))
    scale = float(10.0 ** random.uniform(-0.2, 1.0))
    noise = rb.Laplace(scale=scale) if random.uniform() < 0.7 else rb.Gaussian(scale=max(scale, width / 3.0))
    return short(noise, width), int(random.integers(2, 40))


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", some(range(8), of=2))
def test_never_below_a_pair_and_never_above_the_others(seed):
    random = np.random.default_rng(seed)
    m, k = random_event(random)
    delta = float(10.0 ** random.uniform(-9, -2))
    found = best_accountant.every_epsilon(MechanismEvent(mechanism=m, times=k), delta)
    assert found.adaptive <= min(found.pld.upper, found.renyi)
    top = m.query.range.upper - 1.0
    for p in (random.uniform(0.0, 1.0, 3) ** 2 * top).tolist():
        for pair in ((p, p + 1.0), (p + 1.0, p)):
            assert composed(*cells(m, *pair), k, m.epsilon() / 4000.0, delta) <= found.adaptive
    assert found.pld.lower <= found.adaptive * (1.0 + 1e-12)


@pytest.mark.slow
def test_sampled_steps_lie_between_a_pair_and_the_others():
    """Mixtures of the two laws of one pair, convolved directly, in both directions."""
    m, rate, k = laplace(10.0, 1.0), 0.1, 30
    found = best_accountant.every_epsilon(SampledEvent(mechanism=m, rate=rate, times=k), DELTA)
    assert found.adaptive <= min(found.pld.upper, found.renyi)
    best = 0.0
    for pair in ((0.5, 1.5), (1.5, 2.5), (2.5, 1.5), (1.5, 0.5)):
        there, without = cells(m, *pair)
        with_one = rate * there + (1.0 - rate) * without
        best = max(best, composed(with_one, without, k, 1e-4), composed(without, with_one, k, 1e-4))
    assert best <= found.adaptive < 1.02 * best
    assert found.adaptive < 0.995 * min(found.pld.upper, found.renyi)


@pytest.mark.slow
def test_mixtures_of_steps():
    """Two kinds with a choice and one without: between the sum of what they have alone and what the others prove."""
    first, second = laplace(5.0, 4.0), laplace(10.0, 4.0)
    last = free(rb.Gaussian(scale=6.0), first.query)
    counts = ((first, 6), (second, 2), (last, 1))
    events = [MechanismEvent(mechanism=m, times=k) for m, k in counts]
    found = best_accountant.every_epsilon(ComposedEvent(events=events), DELTA)
    assert found.pld.lower <= found.adaptive < 0.99 * min(found.pld.upper, found.renyi)
    assert best_accountant.epsilon(events[0], DELTA).upper < found.adaptive
    assert compose(*events[::-1]).epsilon(DELTA).upper == pytest.approx(found.adaptive, rel=1e-9)


ONE_PAIR = MechanismEvent(mechanism=short(rb.Laplace(scale=2.0), bounding=rb.RECTIFY), times=10)  # is the worst


@pytest.mark.parametrize(
    ("event", "delta", "lower", "known"),
    [
        (ComposedEvent(events=()), 1e-6, 0.0, 1.0),
        (MechanismEvent(mechanism=laplace(5.0, 4.0)), 1e-6, 0.0, 1.0),  # a single use has its own exact profile
        (MechanismEvent(mechanism=laplace(5.0, 4.0), times=3), 0.0, 0.0, 1.0),
        (MechanismEvent(mechanism=laplace(5.0, 4.0), times=10**9), 1e-6, 0.0, 1e12),  # would take years
        (MechanismEvent(mechanism=laplace(5.0, 4.0), times=3), 1e-6, 2.0, 2.0),
        (MechanismEvent(mechanism=laplace(8.4, 0.1, 2.2), times=100), 1e-6, 0.0, 2e3),  # losses too large for floats
        (SampledEvent(mechanism=laplace(0.93, 0.04, 0.93), rate=0.5, times=46), 1e-6, 0.0, 2e3),
        (ONE_PAIR, 1e-6, 0.0, 3.0),
    ],
)
def test_what_is_known_stays_where_there_is_nothing_to_gain(event, delta, lower, known):
    assert adaptive_accountant.epsilon_within(event, delta, lower, known) == known
    assert event is not ONE_PAIR or adaptive_accountant.delta_within(event, 1.0, 0.0, 0.5) == 0.5


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-12, pytest.param(1e-40, marks=pytest.mark.slow)])
def test_tiny_deltas_keep_their_digits(delta):
    event = MechanismEvent(mechanism=laplace(5.0, 4.0), times=20)
    found = best_accountant.every_epsilon(event, delta)
    assert found.pld.lower <= found.adaptive <= min(found.pld.upper, found.renyi)
    assert accountant.delta(event, found.adaptive).lower <= delta
    assert delta < 1e-12 or found.adaptive < 0.98 * found.pld.upper


@pytest.mark.slow
def test_progress_counts_the_steps():
    seen = []
    compose((laplace(5.0, 4.0), 7)).epsilon(DELTA, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(i, 7) for i in range(1, 8)]
