"""The ordinary loop: `loss.backward()` on an attached module gives the same sums as `optimizer.backward(x, y)`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import rangebound as rb  # noqa: E402
from rangebound.learn.torch import Elementwise, Euclidean, FisherWatcher, PrivacyEngine  # noqa: E402
from tests.learn.torch.models import CRITERION, SHAPES, NoNoise, chain, data, linear, private  # noqa: E402

Refused = rb.errors.ArgumentError


def sums(model: nn.Module, x: torch.Tensor, y: torch.Tensor, loop: Callable[..., None], **options: Any) -> torch.Tensor:
    """What a step would release without noise."""
    seen: list[torch.Tensor] = []
    settings = {"clipping": Euclidean(clip=0.4), "noise": NoNoise(seen=seen), **options}
    engine, optimizer, loader = private(copy.deepcopy(model), x, y, **settings)
    for a, b in loader:
        optimizer.zero_grad()
        loop(engine, optimizer, a, b)
        optimizer.step()
    return seen[0]


def ordinary(reduction: str = "mean", parts: int = 1, wrap: Callable[[Any], Any] = lambda module: module) -> Any:
    def loop(engine: PrivacyEngine, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> None:
        net = engine.attach(wrap(optimizer.module), reduction=reduction)
        for a, b in zip(x.chunk(parts), y.chunk(parts), strict=True):
            nn.functional.cross_entropy(net(a), b, reduction=reduction).backward()

    return loop


def private_loop(engine: PrivacyEngine, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> None:
    optimizer.backward(x, y)


@pytest.mark.parametrize("build", list(SHAPES), ids=lambda each: each.__name__)
@pytest.mark.parametrize("clipping", [Euclidean(clip=0.4), Elementwise(clip=0.05)], ids=lambda c: type(c).__name__)
def test_both_loops_release_the_same(build: Any, clipping: Any) -> None:
    model = build()
    x, y = data(SHAPES[build])
    ours = sums(model, x, y, private_loop, clipping=clipping)
    for loop in (ordinary(), ordinary("sum"), ordinary(parts=3)):
        theirs = sums(model, x, y, loop, clipping=clipping)
        torch.testing.assert_close(theirs, ours, rtol=0.0, atol=1e-5)
    half = sums(model, 0.5 * x, y, ordinary(), clipping=clipping)
    assert (half - ours).abs().max() > 1e-3  # control: other examples, other sums


def test_control_the_wrong_reduction_is_another_scale() -> None:
    x, y = data((6,))
    large = {"clipping": Euclidean(clip=100.0)}

    def wrong(engine: PrivacyEngine, optimizer: Any, a: torch.Tensor, b: torch.Tensor) -> None:
        CRITERION(engine.attach(optimizer.module, reduction="sum")(a), b).backward()

    model = linear()
    ours = sums(model, x, y, private_loop, **large)
    torch.testing.assert_close(12 * sums(model, x, y, wrong, **large), ours, rtol=1e-4, atol=1e-5)
    assert ours.abs().max() > 0.1


def test_a_compiled_forward_pass() -> None:
    x, y = data((6,))
    model = chain()
    compiled = sums(model, x, y, ordinary(wrap=lambda module: torch.compile(module, backend="eager")))
    torch.testing.assert_close(compiled, sums(model, x, y, private_loop), rtol=0.0, atol=1e-5)


def test_autocast_holds_until_the_step() -> None:
    x, y = data((6,))
    model = chain()

    def cast(engine: PrivacyEngine, optimizer: Any, a: torch.Tensor, b: torch.Tensor) -> None:
        net = engine.attach(optimizer.module)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            output = net(a)
            assert output.dtype == torch.bfloat16
            loss = CRITERION(output.float(), b)
        loss.backward()

    full, half = sums(model, x, y, private_loop), sums(model, x, y, cast)
    assert 1e-6 < (full - half).abs().max() < 0.05 * full.abs().max()


def test_evaluation_is_the_module_itself() -> None:
    x, y = data((6,))
    model = linear()
    engine, optimizer, _ = private(model, x, y)
    net = engine.attach(model)
    with torch.no_grad():
        assert torch.equal(net(x), model(x))
    net.eval()
    assert not model.training
    assert torch.equal(net(x), model(x))
    assert optimizer._pending == []
    assert {id(each) for each in net.parameters()} == {id(each) for each in model.parameters()}


def test_an_example_counts_once_and_nothing_is_released_otherwise() -> None:
    x, y = data((6,))
    model = linear()
    engine, optimizer, loader = private(model, x, y)
    net = engine.attach(model)
    for a, b in loader:
        for _ in range(2):
            CRITERION(net(a), b).backward()
        with pytest.raises(Refused, match="counts once"):
            optimizer.step()
        optimizer.zero_grad()
        CRITERION(net(a), b).backward()
        optimizer.step()
    assert engine.steps == 1


def test_a_scaler_that_adapts_is_refused_and_one_that_is_off_is_not() -> None:
    x, y = data((6,))
    model = linear()
    engine, optimizer, loader = private(model, x, y)
    net = engine.attach(model)
    for enabled, taken in ((True, 0), (False, 1)):
        scaler = torch.amp.GradScaler("cpu", enabled=enabled)
        for a, b in loader:
            optimizer.zero_grad()
            scaler.scale(CRITERION(net(a), b)).backward()
            if enabled:
                with pytest.raises(Refused, match="overflows"):
                    scaler.step(optimizer)
                optimizer.step()
            else:
                scaler.step(optimizer)
                scaler.update()
        assert engine.steps == taken + 1


def test_a_schedule_and_a_checkpoint() -> None:
    x, y = data((6,))
    model = linear()
    engine, optimizer, loader = private(model, x, y)
    net = engine.attach(model)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer.inner, step_size=1, gamma=0.5)
    for a, b in loader:
        CRITERION(net(a), b).backward()
        optimizer.step()
        schedule.step()
    assert optimizer.param_groups[0]["lr"] == 0.25
    other = linear()
    other.load_state_dict({name.removeprefix("module."): each for name, each in net.state_dict().items()})
    assert torch.equal(other.weight, model.weight)


def test_what_cannot_be_attached_is_refused() -> None:
    x, y = data((6,))
    model = linear()
    engine, _, _ = private(model, x, y)
    with pytest.raises(Refused, match="make_private"):
        PrivacyEngine().attach(model)
    with pytest.raises(Refused, match="made private"):
        engine.attach(linear())
    with pytest.raises(Refused, match="reduction"):
        engine.attach(model, reduction="none")
    watched, _, _ = private(model, x, y, watchers=(FisherWatcher(iterations=3),))
    with pytest.raises(Refused, match="watchers"):
        watched.attach(model)
