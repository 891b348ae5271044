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
    output.square().mean().backward()


def two_passes(net: Any, x: torch.Tensor, y: torch.Tensor) -> None:
    for _ in range(2):
        CRITERION(net(x[:4]), y[:4]).backward()


def one_buffer(net: Any, x: torch.Tensor, y: torch.Tensor) -> None:
    buffer = torch.empty_like(x[:4])
    for start in (0, 4):
        CRITERION(net(buffer.copy_(x[start : start + 4])), y[start : start + 4]).backward()


def asked_for_slopes(net: Any, x: torch.Tensor, y: torch.Tensor) -> None:
    output = net(x[:4])
    loss = CRITERION(output, y[:4])
    torch.autograd.grad(loss, output, retain_graph=True)
    loss.backward()


@pytest.mark.parametrize("loop", [reused_graph, two_losses, two_passes, one_buffer, asked_for_slopes])
def test_no_order_of_calls_counts_a_part_of_a_batch_twice(loop: Any) -> None:
    """Of 12 examples, 8 gradients are few enough; but four examples would be in them twice, and count double."""
    x, y = data((6,))
    model = linear()
    seen: list[torch.Tensor] = []
    engine, optimizer, loader = private(model, x, y, noise=NoNoise(seen=seen))
    net = engine.attach(model)

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
    expected = sums(model, x, y, private_loop)
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
    x, y = data((6,), count=40)
    model = linear()
    engine, optimizer, loader = private(model, x, y, batch_size=20)
    net = engine.attach(model)
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


@pytest.mark.parametrize("kind", [nn.CrossEntropyLoss, nn.NLLLoss])
def test_a_mean_that_depends_on_the_labels_of_others_is_refused(kind: Any) -> None:
    """And why: the label of one example more than halves the slopes of all others."""
    x, y = data((6,))
    weights = torch.tensor([1.0, 1.0, 50.0])
    for more in ({"weight": weights}, {"ignore_index": 0}):
        engine, optimizer, _ = private(linear(), x, y, criterion=kind(**more))
        with pytest.raises(Refused, match="weights of the labels"):
            engine.attach(optimizer.module)
        engine.attach(optimizer.module, reduction="sum")
        engine, optimizer, _ = private(linear(), x, y, criterion=kind(**more, reduction="sum"))
        engine.attach(optimizer.module)
    engine, optimizer, _ = private(linear(), x, y, criterion=kind())
    engine.attach(optimizer.module)
    output = torch.zeros(11, 3, requires_grad=True)
    slopes = []
    for label in (0, 2):  # the last example's
        labels = torch.tensor([0] * 10 + [label])
        loss = kind(weight=weights)(output, labels)
        slopes.append(11 * torch.autograd.grad(loss, output)[0][:10])
    assert slopes[1].abs().sum() < 0.5 * slopes[0].abs().sum()


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
