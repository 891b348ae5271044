"""The losses of an attached module: what one example can move, whatever the loss does with the batch, and chance."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import rangebound as rb
from rangebound.learn.torch import Elementwise, Euclidean
from tests.learn.torch.models import CRITERION, Built, NoNoise, custom, data, deciding, linear, private, simple, train
from tests.learn.torch.test_attached_module import sums

Refused = rb.errors.ArgumentError
Loss = Callable[[Any, torch.Tensor, torch.Tensor], torch.Tensor]

WEIGHTS = torch.tensor([1.0, 1.0, 30.0])
TOKENS = 6


def backward(net: Any, output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """In place of a loss: `optimizer.backward(x, y)`."""
    raise AssertionError


def step_by(loss: Loss, model: nn.Module, x: torch.Tensor, y: torch.Tensor, **options: Any) -> torch.Tensor:
    """The sum that a step of the ordinary loop by this loss would release."""

    def loop(engine: Any, optimizer: Any, a: torch.Tensor, b: torch.Tensor) -> None:
        if loss is backward:
            optimizer.backward(a, b)
        else:
            net = engine.attach(optimizer.module)
            loss(net, net(a), b).backward()

    return sums(model, loop, x, y, **options)


def focal(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """A loss of several functions, each of which treats examples separately, and a mean over those not ignored."""
    own = F.cross_entropy(output, target, reduction="none")
    return (own * (1.0 - (-own).exp()) ** 2).sum() / (target != -100).sum()


def balanced(net: Any, output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(output, y, weight=1.0 / (1.0 + torch.bincount(y, minlength=3)), reduction="sum")


def by_name(net: Any, output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return net.criterion(output, y) if hasattr(net, "criterion") else focal(output, y)


BASES: dict[str, tuple[torch.Tensor, list[Any], tuple[int, ...]]] = {
    "labels": (torch.tensor([0] * 10), [1, 2], ()),
    "ignored": (torch.tensor([-100] * 60 + [0] * 12), [1, 0], ()),
    "tokens": (torch.tensor([[0] + [-100] * (TOKENS - 1)] * 20), [[1] * TOKENS, [0] * TOKENS, [2] * TOKENS], (TOKENS,)),
    "numbers": (torch.tensor([3.0] * 12), [-100.0, 50.0], ()),
}
"""Targets of a batch, others for one example more, and the shape of a target."""

LOSSES: dict[str, tuple[Loss, str, str]] = {
    "ignored labels": (lambda net, o, y: nn.CrossEntropyLoss()(o, y), "ignored", ""),
    "ignored, log likelihood": (lambda net, o, y: nn.NLLLoss()(o, y), "ignored", ""),
    "ignored, smoothed": (lambda net, o, y: F.cross_entropy(o, y, label_smoothing=0.1), "ignored", ""),
    "ignored tokens": (lambda net, o, y: nn.CrossEntropyLoss()(o, y), "tokens", ""),
    "tokens in float64": (lambda net, o, y: F.cross_entropy(o.double(), y), "tokens", ""),
    "a criterion of its own": (by_name, "ignored", ""),
    "the same without its name": (lambda net, o, y: focal(o, y), "ignored", "net.criterion"),
    "a target that is broadcast": (lambda net, o, y: F.mse_loss(o, y), "numbers", ""),
    "weights of the batch": (balanced, "labels", "weight: a tensor"),
    "divided by a count": (
        lambda net, o, y: F.cross_entropy(o, y, reduction="sum") / (y != -100).sum(), "tokens", "multiplied, divided",
    ),
    "single losses": (
        lambda net, o, y: (F.cross_entropy(o, y, reduction="none") * y.float().softmax(0)).sum(), "labels", "none",
    ),
    "contrastive": (
        lambda net, o, y: F.cross_entropy(o @ o.T, torch.arange(len(o))), "labels", "one example into the gradients",
    ),
    "a penalty on outputs": (
        lambda net, o, y: F.cross_entropy(o, y) + o.mean(0).square().sum(), "labels", "one example into the gradients",
    ),
}  # fmt: skip
"""A loss of a batch; the batch; what a refusal says, or nothing where it is right."""


def parts(base: str, last: int | None) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """A linear module with some weights, and a batch without, or with, one example more."""
    y, others, shape = BASES[base]
    count = 1 if base == "numbers" else 3
    x = torch.ones(len(y), *shape, 2)
    if base == "labels":  # which losses compare
        x[:, 1] = torch.linspace(0.5, 1.5, len(x))
    if last is not None:
        y = torch.cat([y, torch.tensor([others[last]], dtype=y.dtype)])
        x = torch.cat([x, -x[:1]])
    # torch's losses take (examples, classes, tokens)
    run = (lambda m, x: m.inner(x).transpose(1, 2)) if shape else (lambda m, x: m.inner(x))
    model = Built(run, inner=nn.Linear(2, count, bias=False))
    with torch.no_grad():
        model.inner.weight.copy_(torch.tensor([[0.2, 0.1], [0.5, 0.0], [-0.3, 0.2]])[:count])
    return model, x, y


def released(loss: Loss, base: str, last: int | None, clip: float) -> torch.Tensor:
    options: dict[str, Any] = {"clipping": Euclidean(clip=clip), "criterion": focal, "rate": 1.0, "expected_batch": 10}
    return step_by(loss, *parts(base, last), **options)


def old_rows(loss: Loss, base: str, last: int | None) -> torch.Tensor:
    """The control: the gradients of the examples by the slopes of the loss of the batch, times its size."""
    model, x, y = parts(base, last)
    output = model(x).detach().requires_grad_()
    slopes = len(x) * torch.autograd.grad(loss(None, output, y), output)[0]
    rows = [
        torch.autograd.grad((model(one[None])[0] * slope).sum(), [model.inner.weight])[0].flatten()
        for one, slope in zip(x, slopes, strict=True)
    ]
    return torch.stack(rows).double()


def moved_before(loss: Loss, base: str, last: int, clip: float) -> float:
    """By how many clipping norms the example then moves the sum of the clipped gradients."""
    sums = []
    for rows in (old_rows(loss, base, None), old_rows(loss, base, last)):
        sums.append((rows * (clip / rows.norm(dim=1, keepdim=True).clamp(min=clip))).sum(0))
    return float((sums[1] - sums[0]).norm()) / clip


@pytest.mark.few(4)
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.filterwarnings("ignore:Using a target size:UserWarning")
def test_one_example_moves_the_sum_by_at_most_the_clipping_norm(name: str) -> None:
    """Whatever its target is; or the loss is refused. By the slopes of the batch it moves those of others as well."""
    loss, base, words = LOSSES[name]
    clip = 1.0001 * float(old_rows(loss, base, None).norm(dim=1).max())
    cases = range(len(BASES[base][1]))
    assert max(moved_before(loss, base, last, clip * more) for last in cases for more in (1.0, 1.5)) > 1.1
    if words:
        with pytest.raises(Refused, match=words):
            released(loss, base, None, clip)
        return
    without = released(loss, base, None, clip)
    moved = [float((released(loss, base, last, clip) - without).norm()) / clip for last in cases]
    assert 0.0 < max(moved) <= 1.0 + 1e-6


@pytest.mark.parametrize("kind", [nn.CrossEntropyLoss, nn.NLLLoss])
def test_weights_of_classes_count_or_are_refused(kind: Any) -> None:
    """In the mean over one label its weight is divided out, so that the weights would be lost in silence."""
    given = linear(), *data((6,))
    one = torch.ones(1, 3), torch.tensor([2])
    torch.testing.assert_close(kind(weight=WEIGHTS)(*one), kind()(*one))  # why
    plain, weighted = kind(reduction="sum"), kind(weight=WEIGHTS, reduction="sum")
    options: dict[str, Any] = {"clipping": Euclidean(clip=1e3)}
    found = [step_by(backward, *given, criterion=each, **options) for each in (weighted, plain)]
    assert not torch.allclose(*found, atol=1e-3)
    for loss in (backward, by_name, lambda net, o, b: net._optimizer[0].criterion(o, b)):
        with pytest.raises(Refused, match="the weight of its class cancels"):
            step_by(loss, *given, criterion=kind(weight=WEIGHTS))
        assert torch.equal(step_by(loss, *given, criterion=weighted, **options), found[0])
    with pytest.raises(Refused, match="weight: a tensor"):  # equal, but not that of the criterion
        step_by(lambda net, o, b: kind(weight=WEIGHTS.clone(), reduction="sum")(o, b), *given, criterion=weighted)


def test_a_loss_whose_settings_change_is_refused() -> None:
    """They may come from the batch."""
    engine, optimizer, loader = simple(noise=NoNoise(seen=[]))
    for smoothing in (0.1, 0.1, 0.2):
        net = engine.attach(optimizer.module)
        for a, b in loader:
            F.l1_loss(net(a), F.one_hot(b, 3).float())  # to look at
            loss = F.cross_entropy(net(a), b, label_smoothing=smoothing)
            if engine.steps == 2:
                with pytest.raises(Refused, match="other settings"):
                    loss.backward()
            else:
                loss.backward()
                optimizer.step()
    assert engine.steps == 2


def test_targets_are_one_for_each_example_and_without_a_gradient() -> None:
    engine, optimizer, ((x, y),) = simple()
    net = engine.attach(optimizer.module)
    for wrong in (y[:5], y[0], [], net(x)):
        with pytest.raises(Refused, match="one target for each example"):
            F.cross_entropy(net(x), wrong)
    with pytest.raises(Refused, match="criterion"):
        F.mse_loss(torch.zeros(12, 3), net(x)).backward()  # the outputs come first
    F.mse_loss(net(x), y[:, None].expand(12, 3).to(net(x))).backward()
    with pytest.raises(RuntimeError, match="Long"):  # a wrong call is an error at once, and of made-up targets
        F.cross_entropy(net(x), y + 0.125)


def test_targets_may_be_written_over_after_the_loss() -> None:
    def loss(net: Any, output: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        b = b.clone()
        found = CRITERION(output, b)
        b.zero_()
        return found

    given = linear(), *data((6,))
    assert torch.equal(step_by(loss, *given), step_by(backward, *given))


@pytest.mark.parametrize(
    ("loss", "name"),
    [
        (lambda o, y: CRITERION(o.squeeze(1), y), "squeeze"), (lambda o, y: (o - y[:, None]).square().mean(), "sub"),
        (lambda o, y: CRITERION(o[:, :2].log_softmax(1), y), "__getitem__"), (lambda o, y: 1.0 / o.mean(), "mean"),
        (lambda o, y: F.triplet_margin_loss(o, o.detach(), o.detach()), "triplet_margin_loss"),
        (lambda o, y: torch.stack([o, o]).sum(), "a function"),
    ],
)  # fmt: skip
def test_a_refusal_names_what_was_done_and_what_to_write(loss: Any, name: str) -> None:
    engine, optimizer, ((x, y),) = simple()
    found = loss(engine.attach(optimizer.module)(x), y.clamp(max=1))
    with pytest.raises(
        Refused, match=rf"went through {name}\b.*make_private\(criterion=.*net\.criterion\(net\(x\), y\)"
    ):
        found.backward()


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (lambda m, x: m.inner(x).flatten(), r"shape \(3,\)"), (lambda m, x: m.inner(x).argmax(1), "int64"),
        (lambda m, x: (m.inner(x), m.inner(x).flatten()), r"shape \(3,\)"), (lambda m, x: [2.0], "no tensor"),
    ],
)  # fmt: skip
def test_a_module_whose_outputs_are_not_of_examples_is_refused(run: Any, words: str) -> None:
    """Of one axis for examples and tokens, the first part was taken for the outputs."""
    model, (x, y) = Built(run, inner=linear()), data((6,))
    engine, _, ((a, _),) = private(model, x, y, loss_scale=2.0**4)
    with pytest.raises(Refused, match=rf"{words}.*optimizer\.backward\(x, y\)"):
        engine.attach(model)(a)


def test_a_batch_may_be_empty_whatever_the_module_does_with_none() -> None:
    model, (x, y) = Built(lambda m, x: m.inner(x.view(len(x), -1)), inner=linear()), data((6,))
    engine, optimizer, loader = private(model, x, y)
    net = engine.attach(model)
    for _ in loader:
        loader.members = loader.members[:0]
        loss = CRITERION(net(x[:0]), y[:0])
        loss.backward()
        optimizer.step()
        assert (float(loss.detach()), engine.steps) == (0.0, 1)
    with pytest.raises(RuntimeError, match="ambiguous"):
        model(x[:0])


def test_a_penalty_on_the_weights_is_not_lost_in_silence() -> None:
    """A step writes the released gradient over every other; `weight_decay` is what such a penalty is."""
    engine, optimizer, loader = simple(noise=NoNoise(seen=[]))
    net = engine.attach(optimizer.module)
    for penalty in (False, True, True):  # the second time with the released gradient of the step before
        for a, b in loader:
            if penalty:
                (CRITERION(net(a), b) + optimizer.module.weight.square().sum()).backward()
                with pytest.raises(Refused, match=r"module=weight: .*weight_decay"):
                    optimizer.step()
                optimizer.zero_grad(set_to_none=False)
            CRITERION(net(a), b).backward()
            optimizer.step()
    assert engine.steps == 3


def likelihood(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """That of distributions, which raise an error for an invalid scale, and cannot run under vmap."""
    scale = F.softplus(output[:, 1:])
    return -torch.distributions.Normal(output[:, :1], scale).log_prob(target[:, None] + 0.5).sum()


@pytest.mark.few(4)
@pytest.mark.parametrize("clip", [Elementwise(clip=0.05), Euclidean(clip=0.4)], ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("criterion", [CRITERION, likelihood])
@pytest.mark.parametrize("kind", [linear, custom, deciding])
def test_an_example_that_is_refused_counts_zero_in_silence(kind: Any, criterion: Any, clip: Any, capfd: Any) -> None:
    """An error would say that the example is there, and print its label."""
    model, (x, y) = kind(), data((6,), count=6)
    shown = []

    def loss(net: Any, output: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        shown.append(CRITERION(output, b) if criterion is CRITERION else net.criterion(output, b))
        return shown[-1]

    options = {"clipping": clip, "chunk_size": 6, "rate": 1.0, "expected_batch": 6, "criterion": criterion}
    without = step_by(loss, model, x[:5], y[:5], **options)
    for label in (7, -3):
        bad = x if criterion is CRITERION else torch.cat([x[:5], torch.full((1, 6), torch.nan)])
        found = step_by(loss, model, bad, torch.cat([y[:5], torch.tensor([label])]), **options)
        torch.testing.assert_close(found, without, rtol=0.0, atol=1e-13)  # gradients are floats, sums doubles
        torch.testing.assert_close(shown[-1], shown[0])
    assert not torch.allclose(step_by(loss, model, x, y, **options), without, atol=1e-3)  # the control
    assert "".join(capfd.readouterr()) == ""


class Remembering(nn.Module):
    """A criterion that keeps the number of its calls and its last outputs, and uses them."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.last = 0, torch.zeros(())

    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        loss = CRITERION(output, target) * self.calls + self.last.sum()
        self.last = output
        return loss


@pytest.mark.parametrize("loss", [backward, by_name], ids=["private", "ordinary"])
@pytest.mark.parametrize("scale", [1.0, 2.0**4])
def test_what_a_criterion_keeps_is_discarded_with_a_factor_too(loss: Any, scale: float) -> None:
    given, ours = (linear(), *data((6,))), Remembering()
    options: dict[str, Any] = {"loss_scale": scale, "clipping": Euclidean(clip=4.0)}
    found = step_by(loss, *given, criterion=ours, **options)
    torch.testing.assert_close(found, step_by(backward, *given, **options), rtol=1e-6, atol=1e-6)
    assert ours.calls == 0


BLOCK, FEW = 3, 16
DICE = torch.Generator().manual_seed(5)


def weights() -> nn.Module:
    """A linear layer of which each example reads a block of its own, so that a sum shows each of their gradients."""
    module = nn.Linear(FEW * BLOCK, 1, bias=False)
    nn.init.ones_(module.weight)
    return module


def randomly(run: Callable[[Any, torch.Tensor], torch.Tensor], **parts: Any) -> nn.Module:
    return Built(lambda m, x: m.inner(run(m, x)), inner=weights(), **parts)


RANDOM: dict[str, Callable[[], nn.Module]] = {
    "a chain with dropout": lambda: nn.Sequential(nn.Dropout(0.5), weights()),
    "dropout in place": lambda: nn.Sequential(nn.Dropout(0.5, inplace=True), weights()),
    "dropout within a module": lambda: randomly(lambda m, x: F.dropout(x, 0.5)),
    "one example at a time": lambda: randomly(lambda m, x: F.dropout(x, 0.5) if x.sum() > 0.0 else x),
    "a generator": lambda: randomly(lambda m, x: 2.0 * x * (torch.rand(x.shape, generator=DICE) < 0.5)),
    "a generator of its own": lambda: randomly(
        lambda m, x: 2.0 * x * (torch.rand(x.shape, generator=m.dice) < 0.5) if x.sum() > 0.0 else x, dice=DICE
    ),
    "a sample": lambda: randomly(lambda m, x: torch.randn_like(x) * x),
}


@pytest.mark.parametrize("kind", RANDOM)
def test_one_mask_serves_the_outputs_and_the_gradients(kind: str) -> None:
    """With one mask u, of zeros and twos, an example's gradient is 2 (u . 1) u; with two it is not."""
    model = RANDOM[kind]()
    (name, weight), x = next(model.named_parameters()), torch.eye(FEW).repeat_interleave(BLOCK, 1)
    many: dict[str, Any] = {"clipping": Euclidean(clip=1e6), "criterion": nn.MSELoss()}
    found = step_by(lambda net, o, b: F.mse_loss(o, b), model, x.clone(), torch.zeros(FEW, 1), **many)

    def output(weight: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, {name: weight}, (x.clone(),))

    # the control: the slopes of one pass, and the inputs of another
    slopes = torch.autograd.functional.jacobian(output, weight).reshape(FEW, -1)
    mixed = (2.0 * output(weight).detach() * slopes).sum(0)
    for total, right in ((found, True), (mixed, False)):
        rows = total.reshape(FEW, BLOCK)
        masks = (rows / (2.0 * rows.sum(1, keepdim=True)).sqrt()).nan_to_num(-1.0 if "sample" in kind else 0.0)
        if "sample" in kind:  # a square is never negative
            assert bool((masks != -1.0).all()) is right
        else:
            assert torch.allclose(masks, masks.round(), atol=1e-3) is right
            assert not right or set(masks.round().flatten().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("kind", RANDOM)
def test_random_numbers_are_new_in_each_step(kind: str) -> None:
    """Where each example has a copy of the module, so would have the generator that it holds."""
    seen: list[torch.Tensor] = []
    options = {"criterion": nn.MSELoss(), "clipping": Euclidean(clip=1e6), "noise": NoNoise(seen=seen)}
    model, x = RANDOM[kind](), torch.eye(FEW).repeat_interleave(BLOCK, 1)
    _, optimizer, loader = private(
        model, x, torch.zeros(FEW, 1), inner=lambda own: torch.optim.SGD(own, lr=0.0), **options
    )
    train(optimizer, loader, 2)
    assert not torch.equal(*seen)
