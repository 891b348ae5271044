"""Fisher information adds up, and limits reconstruction."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rangebound as rb
from rangebound.accounting import ComposedEvent, MechanismEvent, SampledEvent, fisher_information
from rangebound.accounting.per_instance import PerInstance
from rangebound.errors import ArgumentError, ArgumentTypeError

SHORT = rb.Query(range=rb.Interval(0, 4), sensitivity=1.0)
FREE = rb.Mechanism(noise=rb.Gaussian(scale=2.0), query=SHORT, bounding=rb.UNBOUNDED)
CUT = rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=SHORT)


def test_information_adds():
    event = ComposedEvent(
        events=(MechanismEvent(mechanism=FREE, times=8), MechanismEvent(mechanism=CUT, times=3)), times=2
    )
    total = fisher_information.information(event, 1.5)
    assert isinstance(total, PerInstance)
    assert total.reveal() == pytest.approx(2 * (8 / 4 + 3 * CUT.fisher(1.5)), rel=1e-12)
    assert fisher_information.information(ComposedEvent(events=()), 1.0).reveal() == 0.0


def test_the_limit_is_met_by_the_mean_of_gaussian_releases_and_beaten_by_nothing():
    """Simulation: the average of n unbounded releases is unbiased and just as good as the limit says."""
    total = fisher_information.information(MechanismEvent(mechanism=FREE, times=25), 1.0)
    limit = fisher_information.smallest_deviation(total).reveal()
    means = np.random.default_rng(3).normal(1.0, 2.0, (40_000, 25)).mean(axis=1)
    assert limit == pytest.approx(0.4)
    assert means.std() == pytest.approx(limit, rel=0.02)
    assert means.std() >= limit * (1.0 - 0.02)


def test_a_batch_counts_for_its_members_only():
    random = np.random.default_rng(0)
    members = [np.flatnonzero(random.uniform(size=50) < 0.2).tolist() for _ in range(200)]
    values = random.uniform(0.0, 1.0, 200)
    totals = [each.reveal() for each in fisher_information.per_example(values, members, 50)]
    for example, total in enumerate(totals):
        exact = math.fsum(value for value, batch in zip(values, members, strict=True) if example in batch)
        assert exact <= total <= exact * (1.0 + 1e-12)


def test_the_ends():
    assert fisher_information.smallest_deviation(PerInstance(0.0, notion="x")).reveal() == math.inf
    assert fisher_information.smallest_deviation(PerInstance(math.inf, notion="x")).reveal() == 0.0
    edge = rb.Mechanism(noise=rb.TruncatedLaplacian(scale=1.0, limit=3.0), query=SHORT, bounding=rb.UNBOUNDED)
    assert fisher_information.information(MechanismEvent(mechanism=edge), 1.0).reveal() == math.inf
    assert "nothing" in fisher_information.in_words(PerInstance(0.0, notion="x"))
    assert "no limit" in fisher_information.in_words(PerInstance(math.inf, notion="x"))
    assert fisher_information.in_words(PerInstance(4.0, notion="x")).endswith("at least 0.5.")


def test_a_limit_in_words_is_rounded_down():
    """1/sqrt(2.2499) is 0.66668...: to four digits the nearest is 0.6667, which would promise too much."""
    assert fisher_information.in_words(PerInstance(2.2499, notion="x")).endswith("at least 0.6666.")


def test_bad_input():
    with pytest.raises(ArgumentTypeError, match="per_example"):
        fisher_information.information(SampledEvent(mechanism=FREE, rate=0.5), 1.0)
    with pytest.raises(ArgumentError, match="finite"):
        fisher_information.information(MechanismEvent(mechanism=FREE), math.inf)
    for values, members, error in (
        ([1.0], [[0], [1]], ArgumentError),
        ([-1.0], [[0]], ArgumentError),
        ([1.0], [[9]], ArgumentError),
        ([1.0], [[0, 0]], ArgumentError),
        ([1.0], [[0.5]], ArgumentTypeError),
        ([math.nan], [[0]], ArgumentError),
    ):
        with pytest.raises(error):
            fisher_information.per_example(values, members, 3)
    with pytest.raises(ArgumentTypeError):
        fisher_information.smallest_deviation(25.0)
