"""The ordinary loop: `loss.backward()` on an attached module gives the sums of `optimizer.backward(x, y)`; factors.

What one example moves is in `test_attached_losses.py`.
"""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import rangebound as rb
from rangebound.learn.torch import Adaptive, Elementwise, Euclidean, FisherWatcher, PrivacyEngine
from tests.learn.torch.models import CRITERION, SHAPES, NoNoise, chain, data, linear, private, simple

Refused = rb.errors.ArgumentError


def sums(model: nn.Module, loop: Callable[..., None], x: Any = None, y: Any = None, **options: Any) -> torch.Tensor:
    """What a step would release without noise."""
    seen: list[torch.Tensor] = []
    settings = {"clipping": Euclidean(clip=0.4), "noise": NoNoise(seen=seen), **options}
    x, y = data((6,)) if x is None else (x, y)
    engine, optimizer, loader = private(copy.deepcopy(model), x, y, **settings)
    for a, b in loader:
        optimizer.zero_grad()
        loop(engine, optimizer, a, b)
        optimizer.step()
    return torch.cat(seen)


def cast(half: torch.dtype | None) -> torch.autocast:
    return torch.autocast("cpu", dtype=half or torch.float16, enabled=half is not None)


def ordinary(
    reduction: str = "mean", parts: int = 1, wrap: Any = lambda module: module, half: Any = None, own: bool = False
) -> Any:
    def loop(engine: PrivacyEngine, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> None:
        net = engine.attach(wrap(optimizer.module), reduction=reduction)
        for a, b in zip(x.chunk(parts), y.chunk(parts), strict=True):
            with cast(half):
                loss = net.criterion(net(a), b) if own else CRITERION(net(a), b, reduction=reduction)
            loss.backward()

    return loop


def private_loop(half: torch.dtype | None = None) -> Any:
    def loop(engine: PrivacyEngine, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> None:
        with cast(half):
            optimizer.backward(x, y)

    return loop


@pytest.mark.few(1)
@pytest.mark.parametrize("build", list(SHAPES), ids=lambda each: each.__name__)
@pytest.mark.parametrize("clipping", [Euclidean(clip=0.4), Elementwise(clip=0.05)], ids=lambda c: type(c).__name__)
def test_both_loops_release_the_same(build: Any, clipping: Any) -> None:
    model, (x, y) = build(), data(SHAPES[build])
    ours = sums(model, private_loop(), x, y, clipping=clipping)
    compiled = ordinary(wrap=lambda module: torch.compile(module, backend="eager"))
    assert torch.equal(sums(model, ordinary(), x, y, clipping=clipping), ours)  # a step computes the same
    loops = ordinary("sum"), ordinary(parts=3), ordinary(own=True), compiled
    for loop in loops:
        theirs = sums(model, loop, x, y, clipping=clipping)
        torch.testing.assert_close(theirs, ours, rtol=0.0, atol=1e-5)
    half = sums(model, ordinary(), 0.5 * x, y, clipping=clipping)
    assert (half - ours).abs().max() > 1e-3  # control: other examples, other sums


@pytest.mark.few(2)
@pytest.mark.parametrize("place", range(6))
def test_a_loss_is_seen_as_it_is_reduced_and_no_gradient_depends_on_it(place: int) -> None:
    def loop(engine: PrivacyEngine, optimizer: Any, a: torch.Tensor, b: torch.Tensor) -> None:
        seen = []
        for attached in ("sum", "mean"):
            net = engine.attach(optimizer.module, reduction=attached)
            for own in ("mean", "sum"):
                named = {} if own == "mean" else {"reduction": own}
                seen.append((CRITERION(net(a), b, **named), CRITERION(optimizer.module(a), b, **named)))
            seen.append((net.criterion(net(a), b), CRITERION(optimizer.module(a), b, reduction=attached)))
        seen[place][0].backward()
        for ours, plain in seen:
            torch.testing.assert_close(ours, plain)
        with torch.no_grad():
            assert torch.equal(net.criterion(net(a), b), CRITERION(optimizer.module(a), b))

    model = linear()
    assert torch.equal(sums(model, loop), sums(model, private_loop()))


def test_autocast_holds_until_the_step() -> None:
    model = chain()
    full, half = (sums(model, loop) for loop in (private_loop(), ordinary(half=torch.bfloat16)))
    assert 1e-6 < (full - half).abs().max() < 0.05 * full.abs().max()


@pytest.mark.few(3)
@pytest.mark.parametrize("loop", [private_loop(), ordinary()], ids=["private", "ordinary"])
@pytest.mark.parametrize(
    "clipping", [Euclidean(clip=0.4), Elementwise(clip=0.05), Adaptive(clip=0.4)], ids=lambda each: type(each).__name__
)
def test_a_factor_on_the_loss_changes_nothing_in_float32(clipping: Any, loop: Any) -> None:
    model, losses = chain(), []
    plain, scaled = (sums(model, loop, clipping=clipping, loss_scale=scale) for scale in (1.0, 2.0**12))
    torch.testing.assert_close(scaled, plain, rtol=1e-6, atol=1e-7)
    for scale in (1.0, 2.0**12):
        _, optimizer, ((a, b),) = private(copy.deepcopy(model), *data((6,)), loss_scale=scale)
        losses.append(optimizer.backward(a, b))
    torch.testing.assert_close(*losses)


@pytest.mark.parametrize("loop", [private_loop, ordinary])
def test_with_a_factor_gradients_do_not_vanish_in_float16(loop: Any) -> None:
    model = chain()
    small = {} if loop is private_loop else {"own": True}
    options: dict[str, Any] = {"clipping": Euclidean(clip=1e-6), "criterion": lambda *given: CRITERION(*given) * 1e-7}
    wanted = sums(model, private_loop(), **options)
    lost, found = (
        sums(model, loop(half=torch.float16, **small), loss_scale=scale, **options) for scale in (1.0, 2.0**20)
    )
    size = float(wanted.abs().max())
    assert float((found - wanted).abs().max()) < 0.02 * size
    assert float((lost - wanted).abs().max()) > 0.05 * size  # the control


def test_it_is_an_optimizer_for_schedulers_and_trainers() -> None:
    _, optimizer, loader = simple()
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
    assert (optimizer.state, optimizer.defaults) == (optimizer.inner.state, optimizer.inner.defaults)


def test_evaluation_is_the_module_itself() -> None:
    engine, optimizer, ((x, _),) = simple()
    net = engine.attach(optimizer.module)
    with torch.no_grad():
        assert torch.equal(net(x), optimizer.module(x))
    net.eval()
    assert not optimizer.module.training
    assert torch.equal(net(x), optimizer.module(x))
    assert optimizer._pending == []


def test_an_example_counts_once_and_nothing_is_released_otherwise() -> None:
    engine, optimizer, loader = simple()
    net = engine.attach(optimizer.module)
    for a, b in loader:
        CRITERION(net(a), b).backward()
        with pytest.raises(Refused, match="counts once"):
            CRITERION(net(a), b).backward()
        CRITERION(net(a[:1].clone()), b[:1]).backward()  # a copy, and one example too many
        with pytest.raises(Refused, match="counts once"):
            optimizer.step()
        optimizer.zero_grad()
        CRITERION(net(a), b).backward()
        optimizer.step()
    assert engine.steps == 1


def reused_graph(net: Any, x: torch.Tensor, y: torch.Tensor) -> None:
    loss = CRITERION(net(x[:4]), y[:4])
    loss.backward(retain_graph=True)
    loss.backward()


def two_losses(net: Any, x: torch.Tensor, y: torch.Tensor) -> None:
    output = net(x[:4])
    CRITERION(output, y[:4]).backward()
    CRITERION(output.double(), y[:4]).backward()


def added_losses(net: Any, x: torch.Tensor, y: torch.Tensor) -> None:
    output = net(x[:4])
    (CRITERION(output, y[:4]) + CRITERION(output, y[:4])).backward()


def two_passes(net: Any, x: torch.Tensor, y: torch.Tensor) -> None:
    for _ in range(2):
        CRITERION(net(x[:4]), y[:4]).backward()


def one_buffer(net: Any, x: torch.Tensor, y: torch.Tensor) -> None:
    buffer = torch.empty_like(x[:4])
    for start in (0, 4):
        CRITERION(net(buffer.copy_(x[start : start + 4])), y[start : start + 4]).backward()


@pytest.mark.parametrize("loop", [reused_graph, two_losses, added_losses, two_passes, one_buffer])
def test_no_order_of_calls_counts_a_part_of_a_batch_twice(loop: Any) -> None:
    """Of 12 examples, 8 gradients are few enough; but four examples would be in them twice, and count double."""
    seen: list[torch.Tensor] = []
    engine, optimizer, loader = simple(noise=NoNoise(seen=seen))
    net = engine.attach(optimizer.module)

    def step(a: torch.Tensor, b: torch.Tensor) -> None:
        loop(net, a, b)
        optimizer.step()

    for batch in loader:
        with pytest.raises(Refused, match=r"counts once|overwritten"):
            step(*batch)
    assert engine.steps == 0
    assert seen == []


def test_control_parts_that_are_apart_are_added_up() -> None:
    x, y = data((6,))
    model, clipping = linear(), Euclidean(clip=0.4)
    expected = sums(model, private_loop())
    seen: list[torch.Tensor] = []
    engine, optimizer, loader = private(model, x, y, clipping=clipping, noise=NoNoise(seen=seen))
    net = engine.attach(model)
    for a, b in loader:
        for part in (slice(0, 12, 2), slice(1, 12, 2)):  # views of one memory that do not overlap
            CRITERION(net(a[part]), b[part]).backward()
        optimizer.step()
    torch.testing.assert_close(seen[0], expected, rtol=0.0, atol=1e-5)
    with torch.inference_mode():
        frozen = x.clone()
    for _, b in loader:
        CRITERION(net(frozen), b).backward()  # which has no version, and so is copied
        optimizer.step()
    assert engine.steps == 2


@pytest.mark.parametrize("stepped", [True, False])
def test_a_loss_of_an_earlier_batch_is_refused(stepped: bool) -> None:
    """Its examples were not drawn for this step, so the sampling does not hide them."""
    engine, optimizer, loader = simple(40, batch_size=20)
    net = engine.attach(optimizer.module)
    batches = (each for _ in range(9) for each in loader if len(each[0]))
    a, b = next(batches)
    loss = CRITERION(net(a), b)
    if stepped:
        loss.backward(retain_graph=True)
        optimizer.step()
        with pytest.raises(Refused, match="exactly one logical batch"):  # before the next one is drawn
            loss.backward(retain_graph=True)
    else:
        optimizer.backward(a, b)
        optimizer.step()
    next(batches)
    with pytest.raises(Refused, match="earlier batch"):
        loss.backward()
    with pytest.raises(Refused, match="no gradients"):
        optimizer.step()
    assert engine.steps == 1


def test_a_scaler_that_adapts_is_refused_and_one_that_is_off_is_not() -> None:
    engine, optimizer, loader = simple()
    net = engine.attach(optimizer.module)
    for enabled, taken in ((True, 0), (False, 1)):
        scaler = torch.amp.GradScaler("cpu", enabled=enabled)
        for a, b in loader:
            optimizer.zero_grad()
            if enabled:
                with pytest.raises(Refused, match=r"loss_scale=.* GradScaler"):
                    scaler.scale(CRITERION(net(a), b)).backward()
                optimizer.backward(a, b)
                with pytest.raises(Refused, match=r"(?s)overflows.*loss_scale"):
                    scaler.step(optimizer)
                optimizer.step()
            else:
                scaler.scale(CRITERION(net(a), b)).backward()
                scaler.step(optimizer)
                scaler.update()
        assert engine.steps == taken + 1


def test_what_cannot_be_attached_is_refused() -> None:
    engine, optimizer, _ = simple()
    watched, other, _ = simple(watchers=(FisherWatcher(iterations=3),))
    for account, model, options, words in (
        (PrivacyEngine(), optimizer.module, {}, "make_private"), (engine, linear(), {}, "made private"),
        (engine, optimizer.module, {"reduction": "none"}, "reduction"), (watched, other.module, {}, "watchers"),
    ):  # fmt: skip
        with pytest.raises(Refused, match=words):
            account.attach(model, **options)
