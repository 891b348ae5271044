"""Random allocation and fixed sizes: what is drawn, what it costs, and what is refused."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import rangebound as rb
from rangebound.accounting import AllocatedEvent, FixedBatchEvent, compose
from rangebound.learn.torch import BatchSampling, Euclidean, PrivacyEngine, Relation
from rangebound.learn.torch.loader import _places, _subset
from rangebound.ledger import Ledger
from tests.learn.torch.models import data, linear, private, simple, train

Refused = rb.errors.ArgumentError
EUCLIDEAN: dict[str, Any] = {"clipping": Euclidean(clip=1.0), "noise_multiplier": 1.5}
LINE = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)
STEP = rb.Mechanism(noise=rb.Gaussian(scale=1.5), query=LINE, bounding=rb.UNBOUNDED)


def batches(**options: Any) -> tuple[PrivacyEngine, list[list[int]]]:
    engine, optimizer, loader = simple(60, **{**EUCLIDEAN, **options})
    found = []
    for _ in range(2):
        for a, b in loader:
            found.append(loader.members.tolist())
            optimizer.backward(a, b)
            optimizer.step()
    return engine, found


def test_an_allocation_has_each_example_once_in_an_epoch() -> None:
    engine, found = batches(sampling="random-allocation", rate=0.1, expected_batch=6)
    assert len(found) == 20
    for epoch in (found[:10], found[10:]):
        assert sorted(i for batch in epoch for i in batch) == list(range(60))
    assert found[:10] != found[10:]
    assert len({len(batch) for batch in found}) > 1
    assert engine.relation is Relation.ADD_REMOVE
    assert engine.steps == 20
    exact = compose(AllocatedEvent(mechanism=STEP, batches=10, times=2)).epsilon(1e-5).upper
    assert engine.epsilon(1e-5) == exact
    assert engine.epsilons(1e-5, [1, 10, 11, 20]) == [engine.epsilons(1e-5, [10])[0]] * 2 + [exact] * 2
    counted, _ = batches(sampling=BatchSampling.ALLOCATION, batch_size=6)
    assert counted.relation is Relation.ZERO_OUT
    assert counted.epsilon(1e-5) == exact


@pytest.mark.slow
def test_a_fixed_batch_has_its_size() -> None:
    engine, found = batches(sampling="fixed-size", batch_size=6)
    assert [len(set(batch)) for batch in found] == [6] * 20
    assert len(set(map(tuple, found))) > 15
    exact = compose(FixedBatchEvent(mechanism=STEP, rate=0.1, times=20)).epsilon(1e-5).upper
    assert engine.epsilon(1e-5) == exact
    poisson, _ = batches(batch_size=6)
    assert exact > 1.5 * poisson.epsilon(1e-5)  # control: it costs more than a Poisson sample
    assert engine.relation is Relation.ZERO_OUT


def test_an_epoch_that_was_begun_is_counted_whole_and_again() -> None:
    """Starting over draws a new allocation; without a count of epochs begun, nobody would pay for the first."""
    options = {"sampling": "random-allocation", "rate": 0.1, "expected_batch": 6, "epochs": 2, **EUCLIDEAN}
    engine, optimizer, loader = simple(60, **options)
    for _ in range(2):
        train(optimizer, loader, 1)
    assert engine.steps == 2
    assert engine.epsilon(1e-5) == compose(AllocatedEvent(mechanism=STEP, batches=10, times=2)).epsilon(1e-5).upper
    again = PrivacyEngine()
    again.load_state_dict(engine.state_dict())
    assert (again.steps, again.epsilon(1e-5)) == (2, engine.epsilon(1e-5))
    with pytest.raises(Refused, match="planned"):
        train(optimizer, loader, 1)


@pytest.mark.few(1)
@pytest.mark.claim("charge")
@pytest.mark.parametrize(
    "sampling", [pytest.param(BatchSampling.POISSON, marks=pytest.mark.slow), *[*BatchSampling][1:]]
)
def test_targets_plans_and_ledgers_take_every_sampling(sampling: BatchSampling, tmp_path: Any) -> None:
    with Ledger.create(tmp_path / "budget.ledger") as ledger:
        ledger.open_account("patients", epsilon=10, delta="0.001")
        engine, optimizer, loader = simple(
            60, sampling=sampling, batch_size=20, clipping=Euclidean(clip=1.0), noise_multiplier=None,
            target_epsilon=2.0, target_delta=1e-5, epochs=2, ledger=ledger, account="patients", request="one",
        )  # fmt: skip
        train(optimizer, loader, 6)
        assert 1.99 < engine.epsilon(1e-5) <= 2.0
        options: dict[str, Any] = {"batches": 20, "epochs": 2, "sampling": sampling}
        plan = PrivacyEngine.plan(examples=60, delta=1e-5, noise_multipliers=engine.noise_multiplier, **options)
        assert plan.runs[0].epsilon == pytest.approx(engine.epsilon(1e-5), rel=1e-12)
        assert 1.99 < float(ledger.account("patients").spent.epsilon) <= 2.0 + 1e-9


@pytest.mark.slow
def test_truncated_noise_is_allocated_and_not_of_fixed_size() -> None:
    options = {"bounding": rb.TRUNCATE, "support": rb.Interval(-1, 1), "batch_size": 6}
    engine, optimizer, loader = simple(60, sampling="random-allocation", **options)
    train(optimizer, loader, 3)
    assert 0.0 < engine.epsilon(1e-5) < math.inf
    with pytest.raises(Refused, match="TRUNCATE"):
        simple(60, sampling="fixed-size", **options)


def test_the_loop_of_a_shuffling_loader_is_refused() -> None:
    x, y = data((6,), count=60)
    shuffled = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=6, shuffle=True)
    engine, optimizer, _ = private(linear(), x, y, batch_size=6, **EUCLIDEAN)
    for a, b in shuffled:  # not the loader that make_private returned
        with pytest.raises(Refused, match="batch of the loader"):
            optimizer.backward(a, b)
        break
    assert engine.steps == 0


def test_places_and_subsets_are_uniform() -> None:
    """Chi-square tests, each with a false alarm once in 10^11 runs, and controls that fail."""
    counts = np.bincount(_places(70_000, 7), minlength=7)
    assert stats.chisquare(counts).pvalue > 1e-11
    assert stats.chisquare(counts + 700 * np.arange(7)).pvalue < 1e-11
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(6_000):
        key = tuple(_subset(5, 2).tolist())
        seen[key] = seen.get(key, 0) + 1
    assert len(seen) == 10
    assert stats.chisquare(list(seen.values())).pvalue > 1e-11
    assert stats.chisquare([each + 60 * i for i, each in enumerate(seen.values())]).pvalue < 1e-11


def test_words_of_the_last_round_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    given = iter([[2**64 - 1, 5, 2**64 - 1], [2**64 - 1, 8], [9]])
    monkeypatch.setattr("rangebound.learn.torch.loader._words", lambda count: np.asarray(next(given), dtype=np.uint64))
    assert _places(3, 7).tolist() == [2, 5, 1]
    ties = iter([[4, 4, 1], [3, 2, 1]])
    monkeypatch.setattr("rangebound.learn.torch.loader._words", lambda count: np.asarray(next(ties), dtype=np.uint64))
    assert _subset(3, 2).tolist() == [1, 2]
