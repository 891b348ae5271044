"""The private step: what it releases, what it refuses, and how it goes on after a checkpoint."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import rangebound as rb
from rangebound.learn.torch import Elementwise, InsecureTorchNoise, Relation, SecureNoise
from rangebound.learn.torch.noise_source import step_mechanism
from tests.learn.torch.models import CRITERION, NoNoise, chain, data, linear, private, simple, train
from tests.statistical.test_goodness_of_fit import p_value

BOUNDINGS: list[tuple[Any, Any]] = [
    (rb.UNBOUNDED, None),
    (rb.TRUNCATE, rb.Interval(-1.0, 1.5)),
    (rb.RECTIFY, rb.Interval(-1.0, 1.5)),
    (rb.QUANTIZE, rb.Grid(step=2.0, within=rb.Interval(-1.0, 1.0))),
    (rb.QUANTIZE, rb.Grid(step=0.5, within=rb.Interval(-1.0, 1.0))),
]


@pytest.mark.few(3)
@pytest.mark.parametrize(("bounding", "support"), BOUNDINGS, ids=str)
@pytest.mark.parametrize("source", ["secure", "insecure"])
def test_the_released_coordinate_has_the_law(bounding: Any, support: Any, source: str) -> None:
    """A coordinate of a step, drawn 20,000 times at once; a false alarm once in 10^11 runs, and a control."""
    noise = SecureNoise() if source == "secure" else InsecureTorchNoise(generator=torch.Generator().manual_seed(5))
    model = nn.Linear(20_000, 1, bias=False)
    nn.init.zeros_(model.weight)
    x, y = torch.ones(1, 20_000), torch.zeros(1)
    _, optimizer, loader = private(
        model, x, y,
        criterion=lambda output, target: -0.7 * output.sum(),
        clipping=Elementwise(clip=0.5), noise_multiplier=1.6, bounding=bounding, support=support, noise=noise,
    )  # fmt: skip
    train(optimizer, loader, 1)
    released = model.weight.grad.double().numpy().reshape(-1)
    mechanism = optimizer.mechanism
    if support is not None:
        assert released.min() >= support.hull.lower - 1e-6
        assert released.max() <= support.hull.upper + 1e-6
    exact = mechanism.release(np.full(20_000, -0.5)) if source == "secure" else released
    cuts = np.unique(mechanism.law(-0.5).quantile(np.linspace(0.05, 0.95, 19)))
    assert p_value(exact, mechanism, -0.5, cuts) > 1e-11
    if bounding is not rb.QUANTIZE:  # single precision of the gradient keeps atoms, and moves the rest by 1e-7
        assert p_value(released, mechanism, -0.5, cuts) > 1e-11
    half = step_mechanism(clipping=Elementwise(clip=0.5), noise_multiplier=0.8, bounding=bounding, support=support)
    assert p_value(half.release(np.full(20_000, -0.5)), mechanism, -0.5, cuts) < 1e-11  # the control: half the noise


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "inner",
    [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.NAdam],
)
def test_any_optimizer_takes_the_released_gradient(inner: Any) -> None:
    x, y = data((6,))
    ours = chain()
    plain = copy.deepcopy(ours)
    # With a large eps a coordinate whose gradient is as small as the quantum is not blown up to a full step.
    tame = {} if inner is torch.optim.SGD else {"eps": 0.1}
    build = lambda parameters: inner(parameters, lr=0.01, **tame)  # noqa: E731
    wide = Elementwise(clip=64.0)
    _, optimizer, loader = private(ours, x, y, inner=build, noise=NoNoise(seen=[]), clipping=wide)
    train(optimizer, loader, 3)
    theirs = build(plain.parameters())
    for _ in range(3):
        theirs.zero_grad()
        CRITERION(plain(x), y).backward()
        theirs.step()
    for a, b in zip(ours.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(a, b, atol=2e-3)  # without noise and clipping it is ordinary training


def test_a_step_takes_one_batch_and_each_example_once() -> None:
    engine, optimizer, loader = simple(8)
    with pytest.raises(rb.errors.ArgumentError, match="exactly one logical batch"):
        optimizer.step()
    batches = iter(loader)
    a, b = next(batches)
    optimizer.backward(a, b)
    with pytest.raises(rb.errors.ArgumentError, match="counts once"):
        optimizer.backward(a[:1], b[:1])
    optimizer.zero_grad()  # what was given is forgotten, and may be given again
    optimizer.backward(a, b)
    optimizer.step()
    with pytest.raises(rb.errors.ArgumentError, match="exactly one logical batch"):
        optimizer.step()
    assert engine.steps == 1
    engine, optimizer, loader = simple(8, rate=0.5, expected_batch=4.0)
    batches = iter(loader)
    (a, b), _ = next(batches), next(batches)
    with pytest.raises(rb.errors.ArgumentError, match="exactly one logical batch"):
        optimizer.backward(a, b)
    assert engine.steps == 0


def test_a_step_without_private_gradients_is_refused_and_an_empty_batch_may_be_passed_over() -> None:
    x, y = data((6,), count=8)
    model = linear()
    engine, optimizer, loader = private(model, x, y)
    for a, b in loader:
        CRITERION(model(a), b).backward()  # the habit of ordinary training
        with pytest.raises(rb.errors.ArgumentError, match=r"optimizer\.backward\(x, y\) instead of loss\.backward"):
            optimizer.step()
    assert engine.steps == 0
    optimizer.zero_grad()
    loader.members = loader.members[:0]
    optimizer.step()
    assert engine.steps == 1


def test_the_power_iteration_of_a_spectral_norm_follows_the_weights() -> None:
    """All that a pass keeps is discarded; this is computed from released weights alone."""
    first = nn.utils.parametrizations.spectral_norm(nn.Linear(6, 5))
    control = copy.deepcopy(first)
    _, optimizer, loader = private(
        nn.Sequential(first, nn.ReLU(), nn.Linear(5, 3)), *data((6,)), noise=NoNoise(seen=[])
    )
    change = torch.tensor([1.0, -1.0, 2.0, 0.5, 3.0])[:, None] * torch.arange(6.0)
    with torch.no_grad():
        for each in (first, control):
            each.parametrizations.weight.original.add_(change)
    train(optimizer, loader, 12)
    control.parametrizations.weight.original.data.copy_(first.parametrizations.weight.original.detach())

    def largest(layer: nn.Module) -> float:
        return float(torch.linalg.matrix_norm(layer.eval().weight.detach(), 2))

    assert largest(first) == pytest.approx(1.0, abs=0.02)
    assert largest(control) > 1.5  # with the iteration as it was


def test_parameters_of_another_module_are_refused() -> None:
    x, y = data((6,), count=8)
    model, other = linear(), linear()
    for parameters in ([*other.parameters()], [*model.parameters(), *other.parameters()]):
        with pytest.raises(rb.errors.ArgumentError, match="optimizer: contains parameters that are not the module's"):
            private(model, x, y, inner=lambda _, held=parameters: torch.optim.SGD(held, lr=0.1))
    head = list(model.parameters())[-1:]
    private(model, x, y, inner=lambda _: torch.optim.SGD(head, lr=0.1))  # a part of its own is enough


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("stated", "relation"),
    [({"batch_size": 4}, Relation.ZERO_OUT), ({"rate": 0.02, "expected_batch": 4}, Relation.ADD_REMOVE)],
    ids=["counted", "stated"],
)
def test_poisson_batches(stated: dict[str, Any], relation: Relation) -> None:
    x, y = data((6,), count=200)
    x[:, 0] = torch.arange(200)
    engine, optimizer, loader = private(linear(), x, y, **stated)
    assert (len(loader), loader.rate, loader.expected) == (50, 0.02, 4.0)
    sizes = []
    for a, b in loader:
        sizes.append(len(a))
        assert a[:, 0].tolist() == loader.members.tolist()
        optimizer.backward(a, b)
        optimizer.step()
    assert 0 in sizes or min(sizes) < 4
    assert stats.binomtest(sum(sizes), 200 * 50, 0.02).pvalue > 1e-11
    assert engine.steps == 50
    (step,) = engine._history
    assert (step.rate, step.relation) == (0.02, relation)


def test_an_ordinary_dataset_is_sampled_too() -> None:
    pairs = [(torch.full((6,), float(i)), i % 3) for i in range(5)]
    engine, optimizer, loader = private(linear(), pairs, batch_size=1)
    train(optimizer, loader, 12)
    assert engine.steps == 12


@pytest.mark.parametrize(
    "noise", [InsecureTorchNoise(generator=torch.Generator()), NoNoise(seen=[])], ids=["torch", "none"]
)
def test_only_the_secure_draw_has_an_epsilon(noise: Any) -> None:
    engine, optimizer, loader = simple(noise=noise)
    with pytest.raises(rb.errors.ArgumentError, match="only SecureNoise"):
        engine.epsilons(1e-5, [3])
    train(optimizer, loader, 1)
    with pytest.raises(rb.errors.ArgumentError, match="guarantees nothing"):
        engine.epsilon(delta=1e-6)
    resumed, _, _ = simple()
    resumed.load_state_dict(engine.state_dict())
    with pytest.raises(rb.errors.ArgumentError, match="guarantees nothing"):
        resumed.epsilon(delta=1e-6)


def test_a_saved_and_resumed_run_accounts_the_same(tmp_path: Any) -> None:
    options: dict[str, Any] = {"batch_size": 5, "bounding": rb.RECTIFY, "support": rb.Interval(-2, 2)}
    engine, optimizer, loader = simple(20, **options)
    train(optimizer, loader, 7)
    torch.save({"engine": engine.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "run.pt")
    saved = torch.load(tmp_path / "run.pt")  # plain data only, so that loading runs no code
    resumed, again, loader_again = simple(20, **options)
    resumed.load_state_dict(saved["engine"])
    again.load_state_dict(saved["optimizer"])
    assert resumed.epsilon(delta=1e-5) == engine.epsilon(delta=1e-5)
    train(optimizer, loader, 3)
    train(again, loader_again, 3)
    assert resumed.steps == engine.steps == 10
    assert resumed.epsilon(delta=1e-5) == engine.epsilon(delta=1e-5)
    with pytest.raises(rb.errors.ArgumentError, match="cannot be replaced"):
        engine.load_state_dict(saved["engine"])
