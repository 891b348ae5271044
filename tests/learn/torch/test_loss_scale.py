"""A fixed factor on the loss: nothing changes but what half precision would lose, and only a fixed one is accepted."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import rangebound as rb  # noqa: E402
from rangebound.learn.torch import Adaptive, Elementwise, Euclidean  # noqa: E402
from tests.learn.torch.models import CRITERION, NoNoise, chain, data, private  # noqa: E402


def tiny(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """A loss whose gradients are too small for half precision."""
    return CRITERION(output, target) * 1e-7


def release(model: nn.Module, attached: bool = False, half: bool = False, **options: Any) -> tuple[Any, Any]:
    """What a step would release without noise, and the losses."""
    x, y = data((6,))
    seen: list[torch.Tensor] = []
    engine, optimizer, loader = private(copy.deepcopy(model), x, y, noise=NoNoise(seen=seen), **options)
    losses = None
    for a, b in loader:
        with torch.autocast("cpu", dtype=torch.float16, enabled=half):
            if attached:
                loss = options["criterion"](engine.attach(optimizer.module)(a), b)
            else:
                losses = optimizer.backward(a, b)
        if attached:
            loss.backward()
        optimizer.step()
    return torch.cat(seen), losses


@pytest.mark.parametrize("attached", [False, True])
@pytest.mark.parametrize(
    "clipping", [Euclidean(clip=0.4), Elementwise(clip=0.05), Adaptive(clip=0.4)], ids=lambda each: type(each).__name__
)
def test_in_float32_nothing_changes(clipping: Any, attached: bool) -> None:
    model = chain()
    plain, scaled = (
        release(model, attached, clipping=clipping, criterion=CRITERION, loss_scale=scale) for scale in (1.0, 2.0**12)
    )
    torch.testing.assert_close(scaled[0], plain[0], rtol=1e-6, atol=1e-7)
    if not attached:
        torch.testing.assert_close(scaled[1], plain[1])


@pytest.mark.parametrize("attached", [False, True])
def test_in_float16_gradients_do_not_vanish(attached: bool) -> None:
    model = chain()
    settings: dict[str, Any] = {"clipping": Euclidean(clip=1e-6), "criterion": tiny}
    wanted, _ = release(model, **settings)
    lost, _ = release(model, attached, half=True, **settings)
    found, _ = release(model, attached, half=True, loss_scale=2.0**20, **settings)
    size = float(wanted.abs().max())
    assert float((found - wanted).abs().max()) < 0.02 * size
    assert float((lost - wanted).abs().max()) > 0.05 * size  # the control


@pytest.mark.parametrize("scale", [0.0, -2.0, 3.0, 0.5, 2.0**25, float("nan"), "2"])
def test_only_powers_of_two_are_accepted(scale: Any) -> None:
    x, y = data((6,))
    with pytest.raises(rb.errors.RangeboundError, match="loss_scale"):
        private(chain(), x, y, loss_scale=scale)


def test_a_scaler_that_adapts_is_refused_with_the_way_out() -> None:
    x, y = data((6,))
    _, optimizer, _ = private(chain(), x, y)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones(1))
    with pytest.raises(rb.errors.ArgumentError, match="loss_scale"):
        scaler.step(optimizer)


def test_it_is_an_optimizer_for_schedulers_and_trainers() -> None:
    x, y = data((6,))
    _, optimizer, loader = private(chain(), x, y)
    assert isinstance(optimizer, torch.optim.Optimizer)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
    called = []
    ((a, b),) = loader

    def closure() -> float:
        called.append(torch.is_grad_enabled())
        optimizer.backward(a, b)
        return 7.0

    assert optimizer.step(closure) == 7.0
    schedule.step()
    assert called == [True]
    assert optimizer.inner.param_groups[0]["lr"] == pytest.approx(0.05)
    assert optimizer.state is optimizer.inner.state
    assert optimizer.defaults is optimizer.inner.defaults
