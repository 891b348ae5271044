"""Batches of fixed size against enumeration, quadrature over all directions, and dp_accounting; and controls."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

import rangebound as rb
from rangebound.accounting import FixedBatchEvent
from rangebound.accounting.pld import accountant
from rangebound.accounting.pld.fixed_batch_profile import fixed_batch
from rangebound.ball import precision
from tests.accounting.pld.binned_pair import binned_normal, composed_delta
from tests.thinning import crossed

LINE = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)


def gaussian(scale: float) -> rb.Mechanism:
    return rb.Mechanism(noise=rb.Gaussian(scale=scale), query=LINE, bounding=rb.UNBOUNDED)


def claimed(scale: float, rate: float, epsilon: float) -> float:
    with precision(192):
        return float(fixed_batch(gaussian(scale), rate)(epsilon).mid())


Z = np.linspace(-15.0, 15.0, 40_001)


def enumerated(gradients: list[float], size: int, scale: float, epsilon: float) -> tuple[float, float]:
    """All batches of a small dataset, with the gradient of its first example and without, by quadrature."""
    laws = []
    for first in (gradients[0], 0.0):
        values = np.asarray([first, *gradients[1:]])
        sums = [values[list(batch)].sum() for batch in itertools.combinations(range(len(values)), size)]
        laws.append(np.mean([norm.pdf(Z, each, scale) for each in sums], axis=0))
    (p, q), x, width = laws, math.exp(epsilon), Z[1] - Z[0]
    return float(np.maximum(p - x * q, 0.0).sum() * width), float(np.maximum(q - x * p, 0.0).sum() * width)


@crossed({"examples, size": [(4, 1), (5, 2), (4, 3)], "scale": [0.7, 1.5]})
def test_no_small_dataset_leaks_more_and_the_worst_ones_as_much(scale: float, examples: int, size: int) -> None:
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


def test_directions_in_the_plane_leak_no_more() -> None:
    """The second route to the theorem: gradients of any direction and length, by quadrature in the plane."""
    scale, rate = 0.8, 0.2
    axis = np.linspace(-6.0, 6.0, 301)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"))
    area = (axis[1] - axis[0]) ** 2

    def law(mean: np.ndarray) -> np.ndarray:
        return norm.pdf(grid[0], mean[0], scale) * norm.pdf(grid[1], mean[1], scale)

    generator = np.random.default_rng(1)
    corners = [np.array(each) for each in ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.5, 0.0), (0.6, 0.8))]
    pairs = [*itertools.product(corners, corners)]
    for _ in range(30):
        angles, lengths = generator.uniform(0, 2 * math.pi, 2), generator.uniform(0, 1, 2) ** 0.2
        pairs.append(tuple(r * np.array([math.cos(a), math.sin(a)]) for a, r in zip(angles, lengths, strict=True)))
    for epsilon in (0.05, 0.7, 2.0):
        x, bound = math.exp(epsilon), claimed(scale, rate, epsilon)
        found = []
        for u, v in pairs:
            p, q = ((1 - rate) * law(v) + rate * law(mean) for mean in (u, np.zeros(2)))
            found.append(float(np.maximum(p - x * q, 0.0).sum() * area))
        assert max(found) == pytest.approx(bound, abs=1e-5)  # attained by opposed corners; cells at the threshold err
        assert claimed(1.02 * scale, rate, epsilon) < max(found)  # control: a little more noise would promise too much


def test_control_a_poisson_account_would_promise_too_much() -> None:
    """What a Poisson sample of the same rate leaks is below what the opposed dataset leaks on batches of fixed size."""
    worst = enumerated([1.0, *[-1.0] * 4], 1, 1.0, 1.0)[0]
    poisson = 0.2 * enumerated([1.0], 1, 1.0, math.log((math.e - 0.8) / 0.2))[0]
    assert worst > 2.0 * poisson


@pytest.mark.parametrize(("scale", "rate", "times"), [(2.0, 0.02, 200), (4.0, 0.1, 50)])
def test_compositions_against_dp_accounting(scale: float, rate: float, times: int) -> None:
    """Its Renyi bound for replacing one example, whose gradients are twice the clip apart, is above ours; the Poisson
    account, that of a dataset where all others have no gradient, is below."""
    dp, rdp = pytest.importorskip("dp_accounting"), pytest.importorskip("dp_accounting.rdp")
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    event = dp.SampledWithoutReplacementDpEvent(1000, round(1000 * rate), dp.GaussianDpEvent(scale / 2.0))
    theirs = rdp.RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
    theirs.compose(dp.SelfComposedDpEvent(event, times))
    ours = accountant.epsilon(FixedBatchEvent(mechanism=gaussian(scale), rate=rate, times=times), 1e-5)
    poisson = pld.from_gaussian_mechanism(scale, sampling_prob=rate, value_discretization_interval=1e-4)
    assert ours.upper < theirs.get_epsilon(1e-5)
    assert ours.lower == pytest.approx(poisson.self_compose(times).get_epsilon_for_delta(1e-5), rel=5e-3)
    assert ours.lower < ours.upper


def test_a_batch_of_everybody_is_the_mechanism() -> None:
    every = FixedBatchEvent(mechanism=gaussian(1.5), rate=1.0, times=3)
    assert rb.compose(every).epsilon(1e-5) == rb.compose((gaussian(1.5), 3)).epsilon(1e-5)
    for rate in (0.0, 1.5, math.nan):
        with pytest.raises(rb.errors.RangeboundError, match="rate"):
            FixedBatchEvent(mechanism=gaussian(1.0), rate=rate)


@pytest.mark.parametrize(("mu", "rate", "times"), [(1.0, 0.05, 5), (0.3, 0.5, 20), (0.7, 0.97, 10)])
def test_no_attack_on_several_batches_leaks_more(mu: float, rate: float, times: int) -> None:
    """Of two datasets, one with all others opposed and one with all alike, in both directions."""
    ends = np.linspace(-9.0 - mu, 9.0 + mu, 4001)

    def leaked(epsilon: float) -> float:
        found = []
        for other in (-mu, mu):
            p, q = (
                (1.0 - rate) * binned_normal(ends, other) + rate * binned_normal(ends, own) for own in (mu, 0.0)
            )  # fmt: skip
            found += [composed_delta(*pair, times, epsilon) for pair in ((p, q), (q, p))]
        return max(found)

    for delta in (1e-6, 1e-2):
        run = rb.compose(FixedBatchEvent(mechanism=gaussian(1.0 / mu), rate=rate, times=times))
        bound = run.epsilon(delta).upper
        assert leaked(bound) <= delta < leaked(0.8 * bound - 1e-3)  # the latter is the control


def test_next_to_no_noise_has_a_number() -> None:
    ours = rb.compose(FixedBatchEvent(mechanism=gaussian(0.1), rate=0.5)).epsilon(1e-6).upper
    plain = rb.compose(gaussian(0.1)).epsilon(1e-6)
    assert 0.5 * plain.lower < ours <= 1.05 * plain.upper
