"""What would make the account say too little is refused before anything is released."""

import copy
import math
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, SubsetRandomSampler, TensorDataset

import rangebound as rb
from rangebound.learn.torch import (
    Adaptive,
    Elementwise,
    Euclidean,
    FisherWatcher,
    PrivacyEngine,
    RenyiWatcher,
    several_processes,
)
from rangebound.learn.torch.accounts import worst_case
from rangebound.learn.torch.noise_source import step_mechanism
from tests.learn.torch.models import NoNoise, chain, data, linear, private, simple, train

Refused = rb.errors.ArgumentError
UNIT = rb.Interval(-1, 1)
BOUNDED = {"bounding": rb.TRUNCATE, "support": UNIT}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"support": UNIT}, "support"),
    ({"bounding": rb.RECTIFY}, "support"),
    ({"bounding": rb.RECTIFY, "support": rb.Grid(step=1.0, within=UNIT)}, "support"),
    ({"bounding": rb.QUANTIZE, "support": UNIT}, "support"),
    ({"bounding": rb.TRUNCATE, "support": rb.Interval(0, math.inf)}, "support"),
    ({"bounding": rb.TRUNCATE, "support": rb.Union((0, 1), (2, 3))}, "support"),
    ({"clipping": 1.0}, "clipping"),
    ({"clipping": Euclidean(clip=1.0), **BOUNDED}, "Elementwise"),
    ({"clipping": Adaptive(clip=1.0), **BOUNDED}, "Euclidean clipping"),
    ({"clipping": Adaptive(clip=1.0), "watchers": (RenyiWatcher(),)}, "Euclidean"),
    ({"clipping": Euclidean(clip=1.0), "watchers": (RenyiWatcher(),)}, "Euclidean"),
    ({"clipping": Euclidean(clip=1.0), "watchers": (FisherWatcher(),)}, "Euclidean"),
    ({"batch_size": 3, "sampling": "fixed-size", "watchers": (RenyiWatcher(),)}, "all examples"),
    ({"clipping": Adaptive(clip=1.0, tally_noise=0.5), "noise_multiplier": 2.0}, "above half the noise multiplier"),
    ({"inner": torch.optim.LBFGS}, "LBFGS"),  # which asks again
    ({"chunk_size": 0}, "chunk_size"),
    ({"target_epsilon": 1.0}, "noise_multiplier"),
    *(({"noise_multiplier": each}, "noise_multiplier") for each in (0.0, math.nan, None)),
    ({"noise_multiplier": None, "epochs": 3}, "noise_multiplier"),
    *(({"memory": each}, "memory") for each in ("1", -1, 0, math.nan)),
    *(({"loss_scale": each}, "loss_scale") for each in (0.0, -2.0, 3.0, 0.5, 2.0**25, math.nan, "2")),
    *(({"neighbours": each}, "neighbours") for each in ("replace-one", 3)),
    ({"rate": 0.5}, "expected_batch"),
    ({"expected_batch": 4}, "rate"),
    *(({"rate": each, "expected_batch": 4}, "rate") for each in (0.0, 1.5, math.nan, "1", True)),
    *(({"rate": 1.0, "expected_batch": each}, "expected_batch") for each in (0, -1, math.inf)),
    ({"sampling": "shuffle"}, "no account that is proved"),
    ({"sampling": "cyclic"}, "random-allocation"),
    ({"sampling": "fixed-size", "rate": 0.1, "expected_batch": 6}, "public"),
    ({"sampling": "fixed-size", "neighbours": "add-remove"}, "public"),
    ({"sampling": "random-allocation", "rate": 0.15, "expected_batch": 6}, "whole number of batches"),
]


@pytest.mark.parametrize(("wrong", "words"), WRONG, ids=lambda each: each if isinstance(each, str) else ", ".join(each))
def test_settings_that_no_account_covers_are_refused_with_the_way_out(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(rb.errors.RangeboundError, match=words):
        simple(**wrong)


@pytest.mark.parametrize(
    "wrong", [{"clip": 0.0}, {"quantile": 0.0}, {"quantile": 1.0}, {"speed": 0.0}, {"tally_noise": 0.0}], ids=str
)
def test_adaptive_clipping_that_protects_nothing_is_refused(wrong: dict[str, Any]) -> None:
    ((name, value),) = wrong.items()
    with pytest.raises(Refused, match=f"{name}={value:g}"):
        simple(clipping=Adaptive(**{"clip": 1.0, **wrong}))
    with pytest.raises(Refused, match="make_private"):
        PrivacyEngine().noise_multiplier  # noqa: B018


def test_a_gradient_from_elsewhere_is_not_learned_from() -> None:
    """A parameter that comes to the optimizer later would be moved by its own gradient, without noise."""
    account, optimizer, loader = simple()
    later = nn.Parameter(torch.zeros(6))
    optimizer.inner.add_param_group({"params": [later]})
    train(optimizer, loader, 1)  # as long as it has no gradient it is left alone
    later.grad = torch.ones(6)
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
    seen: list[torch.Tensor] = []
    _, optimizer, loader = simple(4, noise=NoNoise(seen=seen), clipping=Elementwise(clip=2.0**-10))
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


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, pickle.dumps])
def test_no_copy_takes_steps_that_no_account_sees(copied: Callable[[Any], Any]) -> None:
    _, optimizer, _ = simple()
    with pytest.raises(Refused, match="state_dict"):
        copied(optimizer)
    for name in ("clipping", "mechanism", "inner"):  # what was accounted for cannot be changed
        with pytest.raises(AttributeError):
            setattr(optimizer, name, None)


class Stream(IterableDataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Iterator[Any]:
        return iter(())


@pytest.mark.parametrize(
    ("loader", "words"),
    [
        (DataLoader(TensorDataset(*data((6,))), 3, sampler=SubsetRandomSampler([0, 1, 2])), "SubsetRandomSampler"),
        (DataLoader(Stream(), batch_size=3), "by integers"),
    ],
    ids=["subset", "stream"],
)
def test_samplers_that_would_be_passed_over_are_refused(loader: Any, words: str) -> None:
    with pytest.raises(Refused, match=words):
        private(linear(), loader)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "change",
    [
        {"times": 0}, {"times": 0.5}, {"times": "3"}, {"rate": 0.0}, {"rate": 2.0}, {"rate": float("nan")},
        {"coordinates": 0}, {"coordinates": 2.5}, {"together": "yes"}, {"mechanism": {}},
    ],
    ids=str,
)  # fmt: skip
def test_a_changed_checkpoint_is_refused(change: dict[str, Any]) -> None:
    account, optimizer, loader = simple()
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


def test_fisher_says_what_it_cannot_do_before_anything_is_charged() -> None:
    x, y = data((6,))
    dropping = nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.5), nn.Linear(4, 3))
    reading = nn.Sequential(nn.Embedding(7, 4), nn.Flatten(), nn.Linear(20, 3))
    for model, inputs in ((dropping, x), (reading, torch.randint(0, 7, (12, 5)))):
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


ARGUMENTS = {
    "max_grad_norm": r"here it is clipping=Euclidean\(clip=",
    "poisson_sampling": "sampling=",
    "momentum": "momentum$",
}
ATTRIBUTES = {
    "get_epsilon": r"here it is epsilon\(delta=",
    "make_private_with_epsilon": "target_epsilon",
    "other": "other$",
}


def test_names_of_opacus_are_refused_with_ours() -> None:
    for name, ours in ARGUMENTS.items():
        with pytest.raises(TypeError, match=rf"it has no argument {name}.*{ours}|no argument {ours}"):
            simple(12, **{name: 1.0})
    with pytest.raises(TypeError, match=r"no argument accountant.*proved"):
        PrivacyEngine(accountant="rdp")
    for name, ours in ATTRIBUTES.items():
        assert not hasattr(PrivacyEngine(), name)
        with pytest.raises(AttributeError, match=ours):
            getattr(PrivacyEngine(), name)


@pytest.mark.parametrize("members", [[0, 0], [0], [0, 99]])
def test_members_are_those_of_the_batch(members: list[int]) -> None:
    _, optimizer, loader = simple(4, watchers=(FisherWatcher(iterations=3),))
    for a, b in loader:
        with pytest.raises(Refused, match="members"):
            optimizer.backward(a[:2], b[:2], members=np.asarray(members))
        optimizer.backward(a[:2], b[:2], members=np.asarray([2, 1]))


def test_processes_must_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process with fewer examples has a higher rate, of which the account of the others would know nothing."""
    gathered = lambda found, mine: found.__setitem__(slice(None), [mine, repr((1, 2))])  # noqa: E731
    monkeypatch.setattr(several_processes, "place", lambda: (0, 2))
    monkeypatch.setattr(torch.distributed, "all_gather_object", gathered)
    several_processes.agree((1, 2))
    with pytest.raises(Refused, match="whole dataset"):
        several_processes.agree((1, 3))


@pytest.mark.parametrize("sampling", ["poisson", "random-allocation"])
@pytest.mark.parametrize("where", ["draw", "gradient", "inner step"])
def test_no_sums_are_drawn_from_twice(where: str, sampling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that fails after its charge is over: in an epoch of random allocation a second draw would cost nothing."""

    def failing(*given: Any, **options: Any) -> Any:
        raise MemoryError

    engine, optimizer, loader = simple(40, batch_size=20, sampling=sampling)
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
