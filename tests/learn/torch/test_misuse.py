"""What would make the account say too little is refused before anything is released."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, IterableDataset, SubsetRandomSampler, TensorDataset  # noqa: E402

import rangebound as rb  # noqa: E402
from rangebound.learn.torch import Elementwise, Euclidean, FisherWatcher, PrivacyEngine, RenyiWatcher, privacy_engine  # noqa: E402
from rangebound.learn.torch.accounts import worst_case  # noqa: E402
from rangebound.learn.torch.step_mechanism import step_mechanism  # noqa: E402
from tests.learn.torch.models import CRITERION, NoNoise, chain, data, linear, private, train  # noqa: E402

Refused = rb.errors.ArgumentError


def test_a_gradient_from_elsewhere_is_not_learned_from() -> None:
    """A parameter that comes to the optimizer later would be moved by its own gradient, without noise."""
    x, y = data((6,))
    account, optimizer, loader = private(linear(), x, y)
    later = nn.Parameter(torch.zeros(6))
    optimizer.inner.add_param_group({"params": [later]})
    train(optimizer, loader, 1)  # as long as it has no gradient it is left alone
    later.grad = x[0].clone()
    for a, b in loader:
        with pytest.raises(Refused, match="not released"):
            optimizer.backward(a, b)
        with pytest.raises(Refused):
            optimizer.step()
    assert not later.any()
    assert account.steps == 1


@pytest.mark.parametrize("frozen_first", [True, False])
def test_parameters_stay_those_that_are_accounted_for(frozen_first: bool) -> None:
    x, y = data((6,))
    model = chain()
    model[2][0].weight.requires_grad_(not frozen_first)
    account, optimizer, loader = private(model, x, y)
    train(optimizer, loader, 1)
    model[2][0].weight.requires_grad_(frozen_first)
    for a, b in loader:
        with pytest.raises(Refused, match="load_state_dict"):
            optimizer.backward(a, b)
        with pytest.raises(Refused, match="load_state_dict"):
            optimizer.step()
    assert account.steps == 1
    again, optimizer, loader = private(model, x, y)  # the way out
    again.load_state_dict(account.state_dict())
    train(optimizer, loader, 1)
    assert again.steps == 2


def test_an_interruption_counts_nobody_twice() -> None:
    x, y = data((6,), count=4)
    seen: list[torch.Tensor] = []
    _, optimizer, loader = private(linear(), x, y, noise=NoNoise(seen=seen), clipping=Elementwise(clip=2.0**-10))
    for a, b in loader:

        class Torn(dict):  # type: ignore[type-arg]
            def items(self) -> Any:
                yield next(iter(super().items()))
                raise KeyboardInterrupt

        optimizer._totals = Torn(optimizer._totals)
        with pytest.raises(KeyboardInterrupt):
            optimizer.backward(a, b)
        optimizer._totals = dict(optimizer._totals)
        with pytest.raises(Refused, match="counts once"):
            optimizer.backward(a, b)
        optimizer.step()
    assert seen[0].abs().max() <= 4 * 2.0**-10


def test_what_was_accounted_for_cannot_be_changed() -> None:
    x, y = data((6,))
    _, optimizer, _ = private(linear(), x, y)
    for name in ("clipping", "mechanism", "inner"):
        with pytest.raises(AttributeError):
            setattr(optimizer, name, None)


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, pickle.dumps])
def test_no_copy_takes_steps_that_no_account_sees(copied: Callable[[Any], Any]) -> None:
    x, y = data((6,))
    with pytest.raises(Refused, match="state_dict"):
        copied(private(linear(), x, y)[1])


def test_an_optimizer_that_asks_again_is_refused() -> None:
    x, y = data((6,))
    with pytest.raises(Refused, match="LBFGS"):
        private(linear(), x, y, inner=torch.optim.LBFGS)


def test_only_the_secure_draw_has_an_epsilon() -> None:
    x, y = data((6,))
    account, optimizer, loader = private(linear(), x, y, noise=NoNoise(seen=[]))
    with pytest.raises(Refused, match="only SecureNoise"):
        account.epsilons(1e-5, [3])
    train(optimizer, loader, 1)
    with pytest.raises(Refused, match="only SecureNoise"):
        account.epsilon(delta=1e-5)


class Stream(IterableDataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Iterator[Any]:
        return iter(())


def test_samplers_that_would_be_passed_over_are_refused() -> None:
    x, y = data((6,))
    pairs = TensorDataset(x, y)
    cases = [
        (DataLoader(pairs, batch_size=3, sampler=SubsetRandomSampler([0, 1, 2])), "SubsetRandomSampler"),
        (DataLoader(Stream(), batch_size=3), "by integers"),
    ]
    for loader, words in cases:
        model = linear()
        with pytest.raises(Refused, match=words):
            PrivacyEngine().make_private(
                module=model,
                optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
                data_loader=loader,
                criterion=CRITERION,
                clipping=Elementwise(clip=1.0),
                noise_multiplier=1.0,
            )


def test_euclidean_sums_are_not_too_long() -> None:
    x, y = torch.zeros(1, 6).expand(100_001, 6), torch.zeros(1, dtype=torch.long).expand(100_001)
    with pytest.raises(Refused, match="100000"):
        private(linear(), x, y, clipping=Euclidean(clip=1.0))
    private(linear(), x, y, clipping=Euclidean(clip=1.0), batch_size=1000)


@pytest.mark.parametrize("wrong", ["1", -1, 0, float("nan")])
def test_a_memory_limit_is_a_number(wrong: Any) -> None:
    x, y = data((6,))
    with pytest.raises(rb.errors.RangeboundError, match="memory"):
        private(linear(), x, y, memory=wrong)


@pytest.mark.parametrize(
    "change",
    [
        {"times": 0}, {"times": 0.5}, {"times": "3"}, {"rate": 0.0}, {"rate": 2.0}, {"rate": float("nan")},
        {"coordinates": 0}, {"coordinates": 2.5}, {"together": "yes"}, {"mechanism": {}},
    ],
    ids=str,
)  # fmt: skip
def test_a_changed_checkpoint_is_refused(change: dict[str, Any]) -> None:
    x, y = data((6,))
    account, optimizer, loader = private(linear(), x, y)
    train(optimizer, loader, 2)
    state = account.state_dict()
    (entry,) = state["history"]
    fresh = PrivacyEngine()
    with pytest.raises(rb.errors.RangeboundError):
        fresh.load_state_dict({**state, "history": [{**entry, **change}]})
    assert fresh.steps == 0
    for broken in ({}, None, {"history": [], "insecure": 0}, {**state, "history": [{}]}):
        with pytest.raises(Refused, match="state"):
            fresh.load_state_dict(broken)  # type: ignore[arg-type]
    fresh.load_state_dict({**state, "history": [entry, entry]})
    assert fresh.steps == 4  # entries add up


def test_a_large_noise_costs_next_to_nothing() -> None:
    mechanism = step_mechanism(clipping=Elementwise(clip=1.0), noise_multiplier=1e300)
    step = worst_case.Step(mechanism=mechanism, coordinates=10, rate=1.0, together=False)
    assert 0.0 <= worst_case.epsilon({step: 3}, 1e-5) < 1e-6
    assert worst_case.Step(mechanism=mechanism, coordinates=10**11, rate=1.0, together=False)


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(7, 4), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.table(x).mean(1))


def test_fisher_says_what_it_cannot_do_before_anything_is_charged() -> None:
    x, y = data((6,))
    dropping = nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.5), nn.Linear(4, 3))
    for model, inputs in ((dropping, x), (Words(), torch.randint(0, 7, (12, 5)))):
        account, optimizer, loader = private(model, inputs, y, watchers=(FisherWatcher(iterations=3),))
        with pytest.raises(Refused, match="FisherWatcher"):
            train(optimizer, loader, 1)
        assert account.steps == 0
    with pytest.raises(Refused, match="iterations"):
        FisherWatcher(iterations=0)


def test_fisher_accounts_are_of_the_examples_of_the_run() -> None:
    x, y = data((6,))
    first = FisherWatcher(iterations=3)
    private(linear(), x, y, watchers=(first,))
    other = FisherWatcher(iterations=3)
    other.load_state_dict(first.state_dict())
    with pytest.raises(Refused, match="another number of examples"):
        private(linear(), x[:3], y[:3], watchers=(other,))


@pytest.mark.parametrize("members", [[0, 0], [0], [0, 99]])
def test_members_are_those_of_the_batch(members: list[int]) -> None:
    x, y = data((6,), count=4)
    _, optimizer, loader = private(linear(), x, y, watchers=(FisherWatcher(iterations=3),))
    for a, b in loader:
        with pytest.raises(Refused, match="members"):
            optimizer.backward(a[:2], b[:2], members=np.asarray(members))
        optimizer.backward(a[:2], b[:2], members=np.asarray([2, 1]))


def test_processes_must_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process with fewer examples has a higher rate, of which the account of the others would know nothing."""

    def gathered(found: list[Any], mine: Any) -> None:
        found[:] = [mine, *others]

    monkeypatch.setattr(privacy_engine.dist, "all_gather_object", gathered)
    others = [repr((1, 2))]
    privacy_engine._agree((1, 2), 2)
    others = [repr((1, 3))]
    with pytest.raises(Refused, match="whole dataset"):
        privacy_engine._agree((1, 2), 2)


def test_a_step_that_fails_in_the_draw_has_been_paid_for() -> None:
    class Failing:
        def release(self, mechanism: rb.Mechanism, location: torch.Tensor) -> torch.Tensor:
            raise OSError("no entropy")

    x, y = data((6,))
    account, optimizer, loader = private(linear(), x, y, watchers=(RenyiWatcher(),), noise=Failing())
    with pytest.raises(OSError, match="no entropy"):
        train(optimizer, loader, 1)
    assert account.steps == 1


@pytest.mark.parametrize("sampling", ["poisson", "random-allocation"])
@pytest.mark.parametrize("where", ["draw", "gradient", "inner step"])
def test_no_sums_are_drawn_from_twice(where: str, sampling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that fails after its charge is over: in an epoch of random allocation a second draw would cost nothing."""

    def failing(*given: Any, **options: Any) -> Any:
        raise MemoryError

    x, y = data((6,), count=40)
    engine, optimizer, loader = private(linear(), x, y, batch_size=20, sampling=sampling)
    drawn: list[torch.Tensor] = []
    release = optimizer._noise.release.__func__
    for a, b in loader:
        with monkeypatch.context() as patch:
            if where == "inner step":
                patch.setattr(optimizer.inner, "step", failing)
            elif where == "gradient":
                patch.setattr(loader, "expected", "no number")
            patch.setattr(
                type(optimizer._noise), "release",
                failing if where == "draw" else lambda *given: drawn.append(release(*given)) or drawn[-1],
            )  # fmt: skip
            optimizer.backward(a, b)
            with pytest.raises((MemoryError, TypeError)):
                optimizer.step()
            for again in (optimizer.step, lambda x=a, y=b: optimizer.backward(x, y)):
                with pytest.raises(Refused, match="exactly one logical batch"):
                    again()
        break
    assert len(drawn) == (where != "draw")
    assert engine.steps == 1
    train(optimizer, loader, 1)  # control: the next batch makes a step
    assert engine.steps == 2
