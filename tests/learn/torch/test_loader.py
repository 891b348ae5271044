"""The private loader reads as the loader that it is made from, and loops that are left go on."""

import os
import warnings
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, default_collate

import rangebound as rb
from rangebound.learn.torch import Euclidean, PrivacyEngine
from rangebound.learn.torch.loader import PrivateLoader
from tests.learn.torch.models import CRITERION, Built, NoNoise, data, linear, private, simple, train

Refused = rb.errors.ArgumentError
OPTIONS: dict[str, Any] = {"clipping": Euclidean(clip=1.0), "noise_multiplier": 1.5, "rate": 0.2, "expected_batch": 8}


class Numbered(Dataset[Any]):
    """Examples that are their own numbers, beside the process that read them."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        return torch.full((6,), float(i)), os.getpid()


def numbers(batch: Any) -> list[int]:
    return [int(each) for each in batch[0][:, 0]]


def doubled(some: list[Any]) -> list[torch.Tensor]:
    x, y = default_collate(some)
    return [2.0 * x, y]


@pytest.mark.parametrize(
    "given", [{}, {"num_workers": 2, "prefetch_factor": 3, "persistent_workers": True}], ids=["here", "workers"]
)
def test_batches_come_in_the_order_of_their_draws_from_the_loader_s_own_workers(given: Any) -> None:
    loader = PrivateLoader(DataLoader(Numbered(), batch_size=8, collate_fn=doubled, **given), rate=0.2, expected=8.0)
    processes, seen = set(), []
    for _ in range(2):
        for batch in loader:
            assert numbers(batch) == [2 * i for i in loader.members]
            assert len(batch[0]) == len(loader.members)
            processes |= {int(each) for each in batch[1]}
            seen.append(tuple(loader.members))
    assert len(seen) == 2 * len(loader) == loader.drawn == 10
    assert len(set(seen)) == 10
    assert (os.getpid() in processes) is not bool(given)
    assert len(processes) == (2 if given else 1)


def test_a_collate_function_is_called_for_a_dataset_of_tensors_too() -> None:
    x, y = data((6,), 40)
    for collate, factor in ((doubled, 2.0), (default_collate, 1.0)):
        loader = PrivateLoader(DataLoader(TensorDataset(x, y), batch_size=8, collate_fn=collate), rate=0.2, expected=8)
        for batch in loader:
            torch.testing.assert_close(batch[0], factor * x[loader.members])
    empty = TensorDataset(x[:0], y[:0])
    assert [each.shape for each in next(iter(PrivateLoader(DataLoader(empty), rate=0.5, expected=8)))] == [(0, 6), (0,)]
    with pytest.raises(Refused, match="at least one example"):
        PrivateLoader(DataLoader(empty, collate_fn=doubled), rate=0.5, expected=8)


class AtOnce(Numbered):
    def __getitems__(self, places: list[int]) -> list[Any]:
        return [(torch.full((6,), float(i)), -1) for i in places]


def test_datasets_that_read_several_at_once_do_and_memory_is_pinned_where_it_can_be() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without a GPU nothing is pinned
        loader = PrivateLoader(DataLoader(AtOnce(), batch_size=8, pin_memory=True), rate=0.2, expected=8)
        for batch in loader:
            assert numbers(batch) == loader.members.tolist()
            assert set(batch[1].tolist()) <= {-1}
    loader = PrivateLoader(DataLoader(Subset(Numbered(), range(5, 20)), batch_size=8), rate=0.2, expected=8)
    batch = next(iter(loader))
    assert [i + 5 for i in loader.members] == numbers(batch)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loop_that_is_left_early_goes_on_with_the_batch_of_which_no_step_was_taken(workers: int) -> None:
    seen: list[list[int]] = []
    given = DataLoader(Numbered(), batch_size=8, num_workers=workers)
    model = Built(lambda m, x: m.inner(x), inner=linear())
    engine, optimizer, loader = private(model, given, criterion=lambda o, y: o.sum(), noise=NoNoise(seen=[]), **OPTIONS)
    handed = []
    draws = loader.draws

    def noted() -> Any:
        for members in draws():
            handed.append(members.tolist())
            yield members

    loader.draws = noted
    for _ in range(3):
        for batch, _ in zip(loader, range(2), strict=False):  # which draws a third one
            optimizer.backward(batch[0], batch[1])
            optimizer.step()
            seen.append(numbers(batch))
    assert (engine.steps, loader.drawn) == (6, 7)
    if not workers:
        assert seen == handed[:6]  # every batch that was drawn made a step, in order
    assert len(set(map(tuple, seen))) == 6
    batch = next(iter(loader))
    assert numbers(batch) == loader.members.tolist()
    optimizer.backward(batch[0][:2], batch[1][:2])  # and a loop that is left between backward and step
    for batch in loader:
        optimizer.backward(batch[0], batch[1])
        optimizer.step()
    assert engine.steps == 6 + len(loader)


def test_a_batch_that_is_passed_over_within_a_loop_is_still_refused() -> None:
    """Otherwise a loop could choose batches by what is in them."""
    _, optimizer, loader = simple(40, **OPTIONS)
    for number, (a, b) in enumerate(loader):
        if number == 2:
            with pytest.raises(Refused, match="exactly one logical batch"):
                optimizer.backward(a, b)
            break
        if number == 0:
            optimizer.backward(a, b)
            optimizer.step()


def test_an_attached_loop_that_is_left_between_backward_and_step_goes_on() -> None:
    engine, optimizer, loader = simple(40, **OPTIONS)
    net = engine.attach(optimizer.module)
    for _ in range(3):
        for a, b in loader:
            CRITERION(net(a), b).backward()
            break
    for a, b in loader:
        CRITERION(net(a), b).backward()
        optimizer.step()
    assert engine.steps == len(loader)


def test_a_full_batch_that_was_looked_at_makes_a_step() -> None:
    engine, optimizer, loader = simple(12)
    next(iter(loader))
    for a, b in loader:
        optimizer.backward(a, b)
        optimizer.step()
    assert engine.steps == 1


@pytest.mark.few(1)
@pytest.mark.parametrize("before", [True, False], ids=["loaded before", "loaded after"])
@pytest.mark.parametrize("taken", [1, 3])
def test_a_target_is_for_the_whole_account(before: bool, taken: int) -> None:
    """After a restart, with the noise or the steps that are left."""
    target: dict[str, Any] = {
        "noise_multiplier": None, "target_epsilon": 4.0, "target_delta": 1e-5, "clipping": Euclidean(clip=1.0),
        "rate": 0.2, "expected_batch": 8,
    }  # fmt: skip

    first, optimizer, loader = simple(40, epochs=2, **target)
    train(optimizer, loader, 2 * taken)
    state, second = first.state_dict(), PrivacyEngine()
    if before:
        second.load_state_dict(state)
    _, optimizer, loader = simple(40, epochs=2, engine=second, **target)
    if not before:
        assert second.noise_multiplier == first.noise_multiplier
        second.load_state_dict(state)
    else:
        assert second.noise_multiplier > first.noise_multiplier
    train(optimizer, loader, 10 if before else 10 - 2 * taken)
    assert 3.9 < second.epsilon(1e-5) <= 4.0
    with pytest.raises(Refused, match="planned"):
        train(optimizer, loader, 1)


def test_a_target_that_is_spent_is_refused() -> None:
    first, optimizer, loader = simple(40, epochs=1, **{**OPTIONS, "noise_multiplier": 1.0})
    for a, b in loader:
        optimizer.backward(a, b)
        optimizer.step()
    spent, second = first.epsilon(1e-5), PrivacyEngine()
    second.load_state_dict(first.state_dict())
    with pytest.raises(Refused, match=r"target_epsilon.*already"):
        simple(40, epochs=1, engine=second, **OPTIONS | {"noise_multiplier": None, "target_epsilon": spent / 2,
                                                         "target_delta": 1e-5})  # fmt: skip
