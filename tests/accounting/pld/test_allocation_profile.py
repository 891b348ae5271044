"""Epochs of random allocation and batches of fixed size: quadrature, enumeration, simulation; and controls."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

import rangebound as rb
from rangebound.accounting import AllocatedEvent, FixedBatchEvent, SampledEvent
from rangebound.accounting.pld import accountant
from rangebound.accounting.pld.allocation_profile import AllocationProfile
from rangebound.accounting.pld.step_profile import fixed_batch
from rangebound.privacy.gdp import epsilon_of_mu
from rangebound.values.ball import precision
from tests.accounting.mechanisms import free, gaussian, short
from tests.thinning import crossed


@pytest.mark.few(2)
@pytest.mark.parametrize("mu", [2.0, 1e-3, 1.0, 4.0, 15.0, 0.3])
def test_one_step_is_the_gaussian_itself(mu):
    """Exact in closed form: never below it, in either direction, and close, also far out in the tails."""
    found = AllocationProfile(mu, 1)
    for z in (-2.0, 0.0, 1.0, 3.0, 6.0, 9.0):
        epsilon = mu * z + 0.5 * mu * mu
        if epsilon >= 0.0:
            exact = exact_gaussian(mu, epsilon)
            for bound in (found.forth(epsilon), found.back(epsilon)):
                assert exact <= float(bound.mid()) * (1.0 + 1e-15) <= exact * 1.01 + 1e-30


def exact_gaussian(mu, epsilon):
    with mpmath.workdps(40):
        near, far = (mpmath.ncdf(side * mpmath.mpf(mu) / 2 - mpmath.mpf(epsilon) / mu) for side in (1, -1))
        return float(near - mpmath.exp(epsilon) * far)


@pytest.mark.slow
@pytest.mark.parametrize(("mu", "steps"), [(1.0, 40), (1.25, 234), (0.5, 1000)])
def test_many_steps_by_simulation(mu, steps):
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
        # Both as expectations under Q, the first E_P (1 - x/L)+.
        for values, bound in ((plain - x, found.forth(epsilon)), (1.0 - x * plain, found.back(epsilon))):
            values = np.maximum(values, 0.0)
            error = 5.0 * values.std() / math.sqrt(size) + 1e-9
            assert values.mean() - error <= float(bound.mid()) <= 1.02 * values.mean() + error
    fewer = AllocationProfile(mu, max(steps // 2, 1))
    values = np.maximum(plain - 1.0, 0.0)
    assert float(fewer.forth(0.0).mid()) > 1.1 * values.mean()  # control: half the steps are told apart


@pytest.mark.few(1)
@pytest.mark.parametrize(("scale", "batches", "epochs"), [(2.0, 50, 4), (1.0, 100, 10)])
def test_an_epoch_against_what_dp_accounting_knows(scale, batches, epochs):
    """Poisson samples of the same rate, and no sampling at all, by another accountant: below both, and no less than a
    part of the former."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    ours = accountant.epsilon(AllocatedEvent(mechanism=gaussian(scale), batches=batches, times=epochs), 1e-5).upper
    whole = pld.from_gaussian_mechanism(scale, value_discretization_interval=1e-3).self_compose(epochs)
    sampled = pld.from_gaussian_mechanism(scale, sampling_prob=1.0 / batches, value_discretization_interval=1e-4)
    poisson = sampled.self_compose(batches * epochs).get_epsilon_for_delta(1e-5)
    assert 0.85 * poisson < ours < 1.02 * poisson
    assert ours < 0.5 * whole.get_epsilon_for_delta(1e-5)


@pytest.mark.claim("privacy")
def test_epochs_compose_and_mix_with_other_steps():
    one, ten = (AllocatedEvent(mechanism=gaussian(1.0), batches=100, times=k) for k in (1, 10))
    few, many = rb.compose(one).epsilon(1e-5), rb.compose(ten).epsilon(1e-5)
    summed = epsilon_of_mu(0.1, delta=1e-5)  # of the sum of all steps
    assert few.lower <= summed <= 1.001 * few.lower
    assert few.lower < few.upper < many.upper < 10.0 * few.upper
    other = SampledEvent(mechanism=gaussian(2.0), rate=0.02, times=30)
    alone = rb.compose(other).epsilon(1e-5).upper
    assert max(many.upper, alone) < rb.compose(ten, other).epsilon(1e-5).upper <= 1.001 * (many.upper + alone)
    single = AllocatedEvent(mechanism=gaussian(1.0), batches=1, times=3)
    assert rb.compose(single).epsilon(1e-5) == rb.compose((gaussian(1.0), 3)).epsilon(1e-5)
    assert rb.compose(one).delta(0.5).upper == pytest.approx(float(AllocationProfile(1.0, 100).forth(0.5).mid()))


def test_only_gaussian_noise_on_the_line_is_allocated():
    for wrong in (free(rb.Laplace(scale=1.0)), short(rb.Gaussian(scale=1.0))):
        with pytest.raises(rb.errors.ArgumentError, match="unbounded Gaussian"):
            AllocatedEvent(mechanism=wrong, batches=3)
    for batches in (0, 2.5):
        with pytest.raises(rb.errors.RangeboundError, match="batches"):
            AllocatedEvent(mechanism=gaussian(1.0), batches=batches)
    with pytest.raises(rb.errors.ArgumentError, match="AllocatedEvent is not known"):
        rb.accounting.group_event(AllocatedEvent(mechanism=gaussian(1.0), batches=3), 2)


def of_two_steps(mu, epsilon):
    """Both divergences for two steps: given the first number, the second is a call or a put on a lognormal price."""
    x = math.exp(epsilon)

    def density(z):
        return math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)

    def call(z):
        strike = 2.0 * x - math.exp(mu * z - 0.5 * mu * mu)
        if strike <= 0.0:
            return 0.5 * density(z) * (1.0 - strike)
        d = 0.5 * mu - math.log(strike) / mu
        return float(0.5 * density(z) * (ndtr(d) - strike * ndtr(d - mu)))

    def put(z):
        strike = 2.0 / x - math.exp(mu * z - 0.5 * mu * mu)
        d = 0.5 * mu - math.log(strike) / mu
        return float(0.5 * x * density(z) * (strike * ndtr(mu - d) - ndtr(-d)))

    kink, last = ((math.log(2.0 * each) + 0.5 * mu * mu) / mu for each in (x, 1.0 / x))
    options = {"epsabs": 0.0, "epsrel": 1e-11, "limit": 200}
    forth = sum(quad(call, a, b, **options)[0] for a, b in ((-12.0, 0.0), (0.0, kink), (kink, kink + 12.0)))
    return forth, quad(put, last - 12.0 - abs(last), last - 1e-12, **options)[0]


@pytest.mark.few(1)
@pytest.mark.parametrize("mu", [2.5, 0.3])
def test_two_steps_are_never_below_the_exact_value(mu):
    """A quadrature that is good to ten digits: never below it, in either direction, and close."""
    found, less = AllocationProfile(mu, 2), AllocationProfile(0.99 * mu, 2)
    assert of_two_steps(mu, 0.0)[0] == pytest.approx(of_two_steps(mu, 0.0)[1], rel=1e-9)  # total variation
    for epsilon in (0.0, 1e-3, 0.1 * mu, 0.7 * mu, 2.0 * mu):
        forth, back = of_two_steps(mu, epsilon)
        assert forth * (1.0 - 1e-9) <= float(found.forth(epsilon).mid()) <= forth * 1.002
        assert back * (1.0 - 1e-9) <= float(found.back(epsilon).mid()) <= back * 1.002
        assert float(less.forth(epsilon).mid()) < forth  # control: a little less


def simulated(mu, steps, epsilon, generator, count=4000):
    """E_P (1 - x/L)+ and its standard error: the number of the person is drawn farther out, and its weight made up."""
    z = generator.standard_normal((count, steps))
    shift = max((epsilon + math.log(steps)) / mu - 0.5 * mu, 0.0)  # where it alone has that loss
    z[:, 0] += mu + shift
    weights = np.exp(-shift * (z[:, 0] - mu) + 0.5 * shift * shift)
    losses = np.log(np.exp(mu * z - 0.5 * mu * mu).mean(1))
    values = np.maximum(-np.expm1(epsilon - losses), 0.0) * weights
    return values.mean(), values.std() / math.sqrt(count)


@pytest.mark.few(1)
@pytest.mark.claim("privacy")
@pytest.mark.parametrize(
    ("mu", "steps", "epsilon"), [(2.5, 20, 10.2), (2.0, 100, 5.4), (5.0, 100, 20.0), (1.7, 100, 1)]
)
def test_little_noise_costs_what_a_simulation_finds(mu, steps, epsilon):
    """Within five standard errors; the controls have a tenth more noise, and a tenth less."""
    generator = np.random.default_rng(8)
    found, error = simulated(mu, steps, epsilon, generator, count=20_000)
    bound, less, more = (float(AllocationProfile(each * mu, steps).forth(epsilon).mid()) for each in (1.0, 0.9, 1.1))
    assert found - 5.0 * error <= bound <= 1.01 * found + 5.0 * error
    assert less < found - 5.0 * error < found + 5.0 * error < more


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.4, 0.5, 0.6, 0.8])
def test_little_noise_costs_no_more_than_it_has_to(scale):
    """Where the grid was too coarse, an epoch of 20 batches cost up to three times as much as Poisson samples."""
    ours = rb.compose(AllocatedEvent(mechanism=gaussian(scale), batches=20)).epsilon(1e-5).upper
    poisson = rb.compose(SampledEvent(mechanism=gaussian(scale), rate=0.05, times=20)).epsilon(1e-5).upper
    assert ours < 1.2 * poisson
    assert ours < rb.compose(gaussian(scale)).epsilon(1e-5).upper - 0.8 * math.log(20)  # which step it is


@pytest.mark.parametrize("mu", [1e-15, 1e-20])
def test_points_nearer_to_each_other_than_losses_are_known_count(mu):
    """The total variation distance of an epoch of two steps is mu / sqrt(4 pi); no point was above 0, by rounding."""
    found = AllocationProfile(mu, 2)
    assert min(float(side(0.0).mid()) for side in (found.forth, found.back)) >= 0.282 * mu


def epoch_pair(mu, steps, bins=2**16):
    """The laws with and without the person of a whole number that is made of the numbers of an epoch: post-processing.

    Each likelihood ratio e^(mu z - mu^2/2) is rounded down to a multiple of a width, and these are added up.
    """
    top = steps + 10.0 * math.sqrt(steps * math.expm1(mu * mu)) + math.exp(7.0 * mu + 0.5 * mu * mu)
    with np.errstate(divide="ignore"):
        ends = (np.log(np.arange(bins + 1) * (top / bins)) + 0.5 * mu * mu) / mu
    plain, person = (np.fft.rfft(binned_normal(ends, mean), 2 * bins) for mean in (0.0, mu))
    return np.fft.irfft(person * plain ** (steps - 1)), np.fft.irfft(plain**steps)


@pytest.mark.slow
@pytest.mark.parametrize(("mu", "batches", "epochs"), [(1.0, 100, 10), (0.5, 50, 40), (1.4, 100, 3)])
def test_no_attack_on_several_epochs_leaks_more(mu, batches, epochs):
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


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1e-3, 0.03, 0.24])
def test_next_to_no_noise_has_a_number(scale):
    """No more than without allocation; a search for the noise of a target passes through these."""
    for times in (1, 3):
        ours = rb.compose(AllocatedEvent(mechanism=gaussian(scale), batches=10, times=times)).epsilon(1e-6).upper
        plain = rb.compose((gaussian(scale), times)).epsilon(1e-6)
        assert 0.5 * plain.lower < ours <= 1.05 * plain.upper


def claimed(scale, rate, epsilon):
    with precision(192):
        return float(fixed_batch(gaussian(scale), rate)(epsilon).mid())


Z = np.linspace(-15.0, 15.0, 40_001)


def normal(x, mean, scale):
    return np.exp(-0.5 * ((x - mean) / scale) ** 2) / (scale * math.sqrt(2.0 * math.pi))


def enumerated(gradients, size, scale, epsilon):
    """All batches of a small dataset, with the gradient of its first example and without, by quadrature."""
    laws = []
    for first in (gradients[0], 0.0):
        values = np.asarray([first, *gradients[1:]])
        sums = [values[list(batch)].sum() for batch in itertools.combinations(range(len(values)), size)]
        laws.append(np.mean([normal(Z, each, scale) for each in sums], axis=0))
    (p, q), x, width = laws, math.exp(epsilon), Z[1] - Z[0]
    return float(np.maximum(p - x * q, 0.0).sum() * width), float(np.maximum(q - x * p, 0.0).sum() * width)


@pytest.mark.few(2)
@crossed({"examples, size": [(4, 1), (5, 2), (4, 3)], "scale": [0.7, 1.5]})
def test_no_small_dataset_leaks_more_and_the_worst_ones_as_much(scale, examples, size):
    generator = np.random.default_rng(size)
    opposed, alike = [1.0, *[-1.0] * (examples - 1)], [1.0] * examples
    for epsilon in (0.0, 0.3, 1.0, 2.5):
        bound = claimed(scale, size / examples, epsilon)
        back = 1.0 - math.exp(epsilon) * (1.0 - claimed(scale, size / examples, -epsilon))
        tried = [opposed, alike, [1.0, *[0.0] * (examples - 1)]]
        tried += [generator.uniform(-1.0, 1.0, examples).tolist() for _ in range(8)]
        found = [enumerated(each, size, scale, epsilon) for each in tried]
        kink = 0.125 * (Z[1] - Z[0]) ** 2  # what a cell with the threshold inside is off by, for slopes up to 1
        assert max(each[0] for each in found) <= bound + kink
        assert max(each[1] for each in found) <= back + kink
        assert found[0][0] == pytest.approx(bound, rel=1e-6, abs=kink)  # attained: others pull the other way
        assert found[1][1] == pytest.approx(back, rel=1e-6, abs=kink)  # attained: all are alike


def test_directions_in_the_plane_leak_no_more():
    """The second route to the theorem: gradients of any direction and length, by quadrature in the plane."""
    scale, rate = 0.8, 0.2
    axis = np.linspace(-6.0, 6.0, 301)
    area = (axis[1] - axis[0]) ** 2

    def law(mean):
        return np.outer(normal(axis, mean[0], scale), normal(axis, mean[1], scale))

    generator = np.random.default_rng(1)
    corners = [np.array(each) for each in ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.5, 0.0), (0.6, 0.8))]
    pairs = [*itertools.product(corners, corners)]
    for _ in range(30):
        angles, lengths = generator.uniform(0, 2 * math.pi, 2), generator.uniform(0, 1, 2) ** 0.2
        pairs.append(tuple(r * np.array([math.cos(a), math.sin(a)]) for a, r in zip(angles, lengths, strict=True)))
    laws = [[(1 - rate) * law(v) + rate * law(mean) for mean in (u, np.zeros(2))] for u, v in pairs]
    for epsilon in (0.05, 0.7, 2.0):
        bound = claimed(scale, rate, epsilon)
        found = [float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum() * area) for p, q in laws]
        assert max(found) == pytest.approx(bound, abs=1e-5)  # attained by opposed corners; cells at the threshold err
        assert claimed(1.02 * scale, rate, epsilon) < max(found)  # control: a little more noise would promise too much


def test_control_a_poisson_account_would_promise_too_much():
    """What a Poisson sample of the same rate leaks is below what the opposed dataset leaks on batches of fixed size."""
    worst = enumerated([1.0, *[-1.0] * 4], 1, 1.0, 1.0)[0]
    poisson = 0.2 * enumerated([1.0], 1, 1.0, math.log((math.e - 0.8) / 0.2))[0]
    assert worst > 2.0 * poisson


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "rate", "times"), [(2.0, 0.02, 200), (4.0, 0.1, 50)])
def test_compositions_against_dp_accounting(scale, rate, times):
    """Its Renyi bound for replacing one example, whose gradients are twice the clip apart, is above ours; the Poisson
    account, that of a dataset where all others have no gradient, is below what the opposed dataset leaks."""
    dp, rdp = pytest.importorskip("dp_accounting"), pytest.importorskip("dp_accounting.rdp")
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    event = dp.SampledWithoutReplacementDpEvent(1000, round(1000 * rate), dp.GaussianDpEvent(scale / 2.0))
    theirs = rdp.RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
    theirs.compose(dp.SelfComposedDpEvent(event, times))
    ours = accountant.epsilon(FixedBatchEvent(mechanism=gaussian(scale), rate=rate, times=times), 1e-5)
    poisson = pld.from_gaussian_mechanism(scale, sampling_prob=rate, value_discretization_interval=1e-4)
    assert ours.upper < theirs.get_epsilon(1e-5)
    assert poisson.self_compose(times).get_epsilon_for_delta(1e-5) < ours.lower < ours.upper < 1.13 * ours.lower


def test_a_batch_of_everybody_is_the_mechanism():
    every = FixedBatchEvent(mechanism=gaussian(1.5), rate=1.0, times=3)
    assert rb.compose(every).epsilon(1e-5) == rb.compose((gaussian(1.5), 3)).epsilon(1e-5)
    for rate in (0.0, 1.5, math.nan):
        with pytest.raises(rb.errors.RangeboundError, match="rate"):
            FixedBatchEvent(mechanism=gaussian(1.0), rate=rate)


@pytest.mark.slow
@pytest.mark.parametrize(("mu", "rate", "times"), [(1.0, 0.05, 5), (0.3, 0.5, 20), (0.7, 0.97, 10)])
def test_no_attack_on_several_batches_leaks_more(mu, rate, times):
    """Of two datasets, one with all others opposed and one with all alike, in both directions."""
    ends = np.linspace(-9.0 - mu, 9.0 + mu, 4001)

    def leaked(epsilon):
        found = []
        for other in (-mu, mu):
            others, own, none = (binned_normal(ends, mean) for mean in (other, mu, 0.0))
            p, q = ((1.0 - rate) * others + rate * each for each in (own, none))
            found += [composed_delta(*pair, times, epsilon) for pair in ((p, q), (q, p))]
        return max(found)

    for delta in (1e-6, 1e-2):
        run = rb.compose(FixedBatchEvent(mechanism=gaussian(1.0 / mu), rate=rate, times=times)).epsilon(delta)
        assert leaked(run.upper) <= delta < leaked(0.8 * run.upper - 1e-3)  # the latter is the control
        assert delta < leaked(0.99 * run.lower - 1e-3)  # the opposed dataset attains the lower bound
        assert run.upper < 1.13 * run.lower + 1e-3


@pytest.mark.slow
def test_next_to_no_noise_in_a_fixed_batch_has_a_number():
    ours = rb.compose(FixedBatchEvent(mechanism=gaussian(0.1), rate=0.5)).epsilon(1e-6).upper
    plain = rb.compose(gaussian(0.1)).epsilon(1e-6)
    assert 0.5 * plain.lower < ours <= 1.05 * plain.upper


_LEAST = 1e-13  # a probability that a transform in doubles knows


def binned_normal(ends, mean):
    """The probabilities of the bins between these ends, of a normal number of deviation 1."""
    z = ends - mean
    return np.where(z[1:] > 0.0, ndtr(-z[:-1]) - ndtr(-z[1:]), ndtr(z[1:]) - ndtr(z[:-1]))


def composed_delta(p, q, times, epsilon):
    """A lower bound on the delta of this many draws at epsilon: their losses are rounded down and added up."""
    known = (p > _LEAST) & (q > _LEAST)
    losses = np.log(p[known] / q[known])
    width = float(losses.max() - losses.min()) / 8000.0
    index = np.floor(losses / width).astype(np.int64)
    row = np.bincount(index - index.min(), weights=p[known])
    size = 1 << math.ceil(math.log2(len(row) * times + 1))
    law = np.fft.irfft(np.fft.rfft(row, size) ** times, size)
    sums = (np.arange(size) + times * int(index.min())) * width
    return float((law * np.maximum(-np.expm1(np.minimum(epsilon - sums, 0.0)), 0.0)).sum())
