"""An epoch of random allocation against quadrature, enumeration and simulation; and controls."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm

import rangebound as rb
from rangebound.accounting import AllocatedEvent, MechanismEvent, SampledEvent
from rangebound.accounting.pld import accountant
from rangebound.accounting.pld.allocation_profile import AllocationProfile
from rangebound.gdp import epsilon_of_mu
from tests.accounting.pld.binned_pair import binned_normal, composed_delta
from tests.thinning import crossed

LINE = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)


def gaussian(scale: float) -> rb.Mechanism:
    return rb.Mechanism(noise=rb.Gaussian(scale=scale), query=LINE, bounding=rb.UNBOUNDED)


def by_quadrature(mu: float, steps: int, epsilon: float) -> tuple[float, float]:
    """Both divergences of the pair of laws of two or three numbers, by Gauss-Hermite points in each."""
    points, weights = np.polynomial.hermite_e.hermegauss(160 if steps == 2 else 64)
    weights = weights / weights.sum()
    z = np.meshgrid(*[points] * steps, indexing="ij")
    mass = np.prod(np.meshgrid(*[weights] * steps, indexing="ij"), axis=0)
    ratio = np.mean([np.exp(mu * each - 0.5 * mu * mu) for each in z], axis=0)
    x = math.exp(epsilon)
    return float((mass * np.maximum(ratio - x, 0.0)).sum()), float((mass * np.maximum(1.0 - x * ratio, 0.0)).sum())


@crossed({"epsilon": [0.0, 0.1, 0.5], "mu, steps": [(1.0, 2), (0.4, 2), (1.7, 3)]})
def test_two_and_three_steps_by_quadrature(mu: float, steps: int, epsilon: float) -> None:
    found = AllocationProfile(mu, steps)
    exact = by_quadrature(mu, steps, epsilon)
    for ours, theirs in zip((found.forth(epsilon), found.back(epsilon)), exact, strict=True):
        assert float(ours.mid()) == pytest.approx(theirs, rel=2e-2, abs=2e-4)  # kinks cost the quadrature digits
    assert max(exact) < max(by_quadrature(mu, 1, epsilon))  # control: one more step helps


# A coarse grid for large ones.
@crossed({"epsilon": [0.0, 0.3, 1.0, 3.0], "mu, room": [(0.3, 0.02), (1.0, 0.02), (2.0, math.inf)]})
def test_one_step_is_the_gaussian_itself(mu: float, room: float, epsilon: float) -> None:
    """Exact in closed form: never below it, in either direction, and close."""
    exact = norm.cdf(0.5 * mu - epsilon / mu) - math.exp(epsilon) * norm.cdf(-0.5 * mu - epsilon / mu)
    found = AllocationProfile(mu, 1)
    forth, back = float(found.forth(epsilon).mid()), float(found.back(epsilon).mid())
    assert exact <= forth <= exact * (1.0 + room) + 2e-5
    assert exact <= back  # below the first cells of the grid, little is known about one step
    assert back <= exact * (1.0 + room) + 2e-5 or epsilon > 1.0


@pytest.mark.parametrize(("mu", "steps"), [(1.0, 40), (1.25, 234), (0.5, 1000)])
def test_many_steps_by_simulation(mu: float, steps: int) -> None:
    """80,000 epochs and more; the mean is within five standard errors, a false alarm in 10^6 runs; and a control."""
    generator = np.random.default_rng(3)
    found, count = AllocationProfile(mu, steps), 400_000
    sums = np.concatenate([
        np.exp(mu * generator.standard_normal((2000, steps)) - 0.5 * mu * mu).sum(1)
        for _ in range(count // 2000 if steps < 100 else 40)
    ])  # fmt: skip
    size, plain = len(sums), sums / steps
    for epsilon in (0.0, 0.05, 0.2):
        x = math.exp(epsilon)
        values = np.maximum(1.0 - x * plain, 0.0)
        error = 5.0 * values.std() / math.sqrt(size) + 1e-9
        assert values.mean() - error <= float(found.back(epsilon).mid()) <= 1.02 * values.mean() + error
        values = np.maximum(plain - x, 0.0)  # E_P (1 - x/L)+ as an expectation under Q
        error = 5.0 * values.std() / math.sqrt(size) + 1e-9
        assert values.mean() - error <= float(found.forth(epsilon).mid()) <= 1.02 * values.mean() + error
    fewer = AllocationProfile(mu, max(steps // 2, 1))
    values = np.maximum(plain - 1.0, 0.0)
    assert float(fewer.forth(0.0).mid()) > 1.1 * values.mean()  # control: half the steps are told apart


def test_an_epoch_against_what_dp_accounting_knows() -> None:
    """Poisson samples of the same rate, and no sampling at all, by another accountant: below both, and no less than a
    part of the former."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    for scale, batches, epochs in ((1.0, 100, 10), (2.0, 50, 4)):
        ours = accountant.epsilon(AllocatedEvent(mechanism=gaussian(scale), batches=batches, times=epochs), 1e-5).upper
        whole = pld.from_gaussian_mechanism(scale, value_discretization_interval=1e-3).self_compose(epochs)
        poisson = pld.from_gaussian_mechanism(
            scale, sampling_prob=1.0 / batches, value_discretization_interval=1e-4
        ).self_compose(batches * epochs)  # fmt: skip
        assert 0.85 * poisson.get_epsilon_for_delta(1e-5) < ours < 1.02 * poisson.get_epsilon_for_delta(1e-5)
        assert ours < 0.5 * whole.get_epsilon_for_delta(1e-5)


def test_epochs_compose_and_mix_with_other_steps() -> None:
    one, ten = (AllocatedEvent(mechanism=gaussian(1.0), batches=100, times=k) for k in (1, 10))
    few, many = rb.compose(one).epsilon(1e-5), rb.compose(ten).epsilon(1e-5)
    summed = epsilon_of_mu(0.1, delta=1e-5)  # of the sum of all steps
    assert few.lower <= summed <= 1.001 * few.lower
    assert few.lower < few.upper < many.upper < 10.0 * few.upper
    other = SampledEvent(mechanism=gaussian(2.0), rate=0.02, times=30)
    alone = rb.compose(other).epsilon(1e-5).upper
    assert max(many.upper, alone) < rb.compose(ten, other).epsilon(1e-5).upper <= 1.001 * (many.upper + alone)
    single = AllocatedEvent(mechanism=gaussian(1.0), batches=1, times=3)
    assert rb.compose(single).epsilon(1e-5) == rb.compose(MechanismEvent(mechanism=gaussian(1.0), times=3)).epsilon(
        1e-5
    )
    assert rb.compose(one).delta(0.5).upper == pytest.approx(float(AllocationProfile(1.0, 100).forth(0.5).mid()))


def test_only_gaussian_noise_on_the_line_is_allocated() -> None:
    laplace = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=LINE, bounding=rb.UNBOUNDED)
    for wrong in (
        laplace,
        rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)),
    ):
        with pytest.raises(rb.errors.ArgumentError, match="unbounded Gaussian"):
            AllocatedEvent(mechanism=wrong, batches=3)
    for batches in (0, 2.5):
        with pytest.raises(rb.errors.RangeboundError, match="batches"):
            AllocatedEvent(mechanism=gaussian(1.0), batches=batches)
    with pytest.raises(rb.errors.ArgumentError, match="AllocatedEvent is not known"):
        rb.accounting.group_event(AllocatedEvent(mechanism=gaussian(1.0), batches=3), 2)


def of_two_steps(mu: float, epsilon: float) -> tuple[float, float]:
    """Both divergences for two steps: given the first number, the second is a call or a put on a lognormal price."""
    x = math.exp(epsilon)

    def density(z: float) -> float:
        return math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)

    def call(z: float) -> float:
        strike = 2.0 * x - math.exp(mu * z - 0.5 * mu * mu)
        if strike <= 0.0:
            return 0.5 * density(z) * (1.0 - strike)
        d = 0.5 * mu - math.log(strike) / mu
        return float(0.5 * density(z) * (ndtr(d) - strike * ndtr(d - mu)))

    def put(z: float) -> float:
        strike = 2.0 / x - math.exp(mu * z - 0.5 * mu * mu)
        d = 0.5 * mu - math.log(strike) / mu
        return float(0.5 * x * density(z) * (strike * ndtr(mu - d) - ndtr(-d)))

    kink, last = ((math.log(2.0 * each) + 0.5 * mu * mu) / mu for each in (x, 1.0 / x))
    options = {"epsabs": 0.0, "epsrel": 1e-11, "limit": 200}
    forth = sum(quad(call, a, b, **options)[0] for a, b in ((-12.0, 0.0), (0.0, kink), (kink, kink + 12.0)))
    return forth, quad(put, last - 12.0 - abs(last), last - 1e-12, **options)[0]


@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_two_steps_are_never_below_the_exact_value(mu: float) -> None:
    """A quadrature that is good to ten digits: never below it, in either direction, and close."""
    found, less = AllocationProfile(mu, 2), AllocationProfile(0.99 * mu, 2)
    assert of_two_steps(mu, 0.0)[0] == pytest.approx(of_two_steps(mu, 0.0)[1], rel=1e-9)  # total variation
    for epsilon in (0.0, 1e-3, 0.1 * mu, 0.7 * mu, 2.0 * mu):
        forth, back = of_two_steps(mu, epsilon)
        assert forth * (1.0 - 1e-9) <= float(found.forth(epsilon).mid()) <= forth * 1.001 + 1e-4 * mu
        assert back * (1.0 - 1e-9) <= float(found.back(epsilon).mid()) <= back * 1.02 + 1e-4 * mu
        assert float(less.forth(epsilon).mid()) < forth  # control: a little less


def epoch_pair(mu: float, steps: int, bins: int = 2**16) -> tuple[np.ndarray, np.ndarray]:
    """The laws with and without the person of a whole number that is made of the numbers of an epoch: post-processing.

    Each likelihood ratio e^(mu z - mu^2/2) is rounded down to a multiple of a width, and these are added up.
    """
    top = steps + 10.0 * math.sqrt(steps * math.expm1(mu * mu)) + math.exp(7.0 * mu + 0.5 * mu * mu)
    with np.errstate(divide="ignore"):
        ends = (np.log(np.arange(bins + 1) * (top / bins)) + 0.5 * mu * mu) / mu
    plain, person = (np.fft.rfft(binned_normal(ends, mean), 2 * bins) for mean in (0.0, mu))
    return np.fft.irfft(person * plain ** (steps - 1)), np.fft.irfft(plain**steps)


@pytest.mark.parametrize(("mu", "batches", "epochs"), [(1.0, 100, 10), (0.5, 50, 40), (1.4, 100, 3)])
def test_no_attack_on_several_epochs_leaks_more(mu: float, batches: int, epochs: int) -> None:
    """What a statistic of all epochs leaks is a lower bound on the truth, in both directions."""
    given, free = epoch_pair(mu, batches)
    run = rb.compose(AllocatedEvent(mechanism=gaussian(1.0 / mu), batches=batches, times=epochs))
    for delta in (1e-7, 1e-2):
        bound = run.epsilon(delta).upper
        leaked, control = (
            max(composed_delta(*pair, epochs, epsilon) for pair in ((given, free), (free, given)))
            for epsilon in (bound, 0.93 * bound)
        )
        assert leaked <= delta < control


@pytest.mark.parametrize("scale", [1e-3, 0.03, 0.24])
def test_next_to_no_noise_has_a_number(scale: float) -> None:
    """No more than without allocation; a search for the noise of a target passes through these."""
    for times in (1, 3):
        ours = rb.compose(AllocatedEvent(mechanism=gaussian(scale), batches=10, times=times)).epsilon(1e-6).upper
        plain = rb.compose((gaussian(scale), times)).epsilon(1e-6)
        assert 0.5 * plain.lower < ours <= 1.05 * plain.upper
