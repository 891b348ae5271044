"""Hostile modules: no example may reach the gradient of another, nor stay in a module, whatever the module does.

Sums are compared with ordinary backward passes of one example at a time, through a copy of the module, in doubles.
"""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import rangebound as rb
from rangebound.learn.torch import Elementwise, Euclidean
from rangebound.learn.torch.batch_tree import taken_apart
from rangebound.learn.torch.gradients import per_example
from rangebound.learn.torch.gradients.one_pass import example_outputs
from tests.learn.torch.gradients.test_layer_rules import (
    CASES,
    COUNT,
    MEMORY,
    TOKENS,
    criterion,
    difference,
    examples,
    one_at_a_time,
)
from tests.learn.torch.models import Built, clipped_sum, mixing, private


class Product(torch.autograd.Function):
    """A product, for which vmap makes a rule."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x @ w.t()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        x, w = ctx.saved_tensors
        return g @ w, g.t() @ x


class Meddling(torch.autograd.Function):
    """Brings its own rule for vmap, in which the examples meet."""

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:
        return g

    @staticmethod
    def vmap(info: Any, dims: Any, x: torch.Tensor) -> Any:
        return Meddling.apply(x) - x.mean(0), 0


def remembering(module: Any, x: torch.Tensor) -> torch.Tensor:
    module.mean = 0.5 * module.mean + x.mean(0)
    return module.a(x - module.mean)


def counting(module: Any, x: torch.Tensor) -> torch.Tensor:
    module.calls.add_(1.0)
    module.more += 1
    return module.a(x) * module.calls * module.more


def hoarding(module: Any, x: torch.Tensor) -> torch.Tensor:
    module.seen.append(x.detach())
    module.last = module.a(x)
    return module.last + sum(module.seen)


def within(module: Any, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        fixed = module.b(x)
    return module.a(x) + fixed


def sliced(module: Any, x: torch.Tensor) -> torch.Tensor:
    inner = module.a(x)
    inner[:, 0] = inner[:, 1].detach() * 2
    inner[:, 2:] += 1
    return module.b(inner)


def filled(module: Any, x: torch.Tensor) -> torch.Tensor:
    return module.a(x).index_fill(1, (3.0 * x[0, :2]).long(), 0.5)


def hooked(module: Any, x: torch.Tensor) -> torch.Tensor:
    inner = module.a(x)
    inner.register_hook(lambda g: 3.0 * g)
    return module.b(inner)


def tripled() -> nn.Module:
    layer = nn.Linear(6, 6)
    layer.register_full_backward_hook(lambda part, inner, outer: (3.0 * inner[0],) if inner[0] is not None else None)
    return nn.Sequential(nn.Linear(6, 6), layer, nn.Tanh(), nn.Linear(6, 4))


def centred() -> nn.Module:
    layer = nn.Linear(6, 6)
    layer.register_forward_hook(lambda part, given, output: output - output.mean(0))
    return nn.Sequential(layer, nn.Tanh(), nn.Linear(6, 4))


def own(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(shape))


def two(run: Callable[[Any, torch.Tensor], torch.Tensor], **parts: Any) -> Callable[[], nn.Module]:
    return lambda: Built(run, a=nn.Linear(6, 6), b=nn.Linear(6, 6), **{k: each() for k, each in parts.items()})


def only(
    run: Callable[[Any, torch.Tensor], torch.Tensor], part: Callable[[], nn.Module], **parts: Any
) -> Callable[[], nn.Module]:
    return lambda: Built(run, a=part(), **{name: each() for name, each in parts.items()})


HOSTILE: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "a mean that it remembers": (two(remembering, mean=lambda: torch.zeros(6)), (6,)),
    "counters": (two(counting, calls=lambda: torch.zeros(()), more=lambda: 0), (6,)),
    "tensors that it keeps": (two(hoarding, seen=list), (6,)),
    "spectral norm": (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(6, 6)), (6,)),
    "batch norm as a function": (
        two(lambda m, x: F.batch_norm(m.a(x).unflatten(1, (3, 2)), None, None, training=True)), (6,),
    ),
    "batch norm with statistics": (
        two(lambda m, x: F.batch_norm(m.a(x).unflatten(1, (3, 2)), m.m, m.v, training=True),
            m=lambda: torch.zeros(3), v=lambda: torch.ones(3)), (6,),
    ),
    "softmax over the batch": (two(lambda m, x: m.a(x).softmax(0) + m.b(x)), (6,)),
    "attention over the batch": (two(lambda m, x: F.scaled_dot_product_attention(*[m.a(x)[None]] * 3)[0]), (6,)),
    "a batch that is rolled": (two(lambda m, x: m.a(x.roll(1, 0))), (6,)),
    "heads over the batch": (only(lambda m, x: m.a(x, x, x)[0], lambda: nn.MultiheadAttention(6, 2)), (4, 6)),
    "a bias of attention": (
        two(lambda m, x: F.scaled_dot_product_attention(m.a(x), m.b(x), x, attn_mask=m.p), p=lambda: own(4, 4)), (4, 6),
    ),
    "parameters as keys": (
        two(lambda m, x: F.scaled_dot_product_attention(m.a(x), m.k[None], m.v[None]),
            k=lambda: own(5, 6), v=lambda: own(5, 6)), (4, 6),
    ),
    "a weight and its transpose": (two(lambda m, x: F.linear(m.a(x).tanh(), m.a.weight.t()) + m.a.bias), (6,)),
    "a weight as input": (two(lambda m, x: m.a(x) + F.linear(m.a.weight, m.b.weight).sum(0)), (6,)),
    "gradients that are not asked for": (two(within), (6,)),
    "one output twice": (two(lambda m, x: (lambda h: h * h + h.sin() + m.b(h) + m.b(h))(m.a(x))), (6,)),
    "slices in place": (two(sliced), (6,)),
    "an input that is written over": (two(lambda m, x: m.a(x.mul_(2.0))), (6,)),
    "the same, one example at a time": (two(lambda m, x: m.a(x.mul_(2.0)) if x.sum() < 99.0 else m.b(x)), (6,)),
    "checkpoints": (two(lambda m, x: checkpoint(lambda z: m.b(m.a(z).tanh()), x, use_reentrant=False)), (6,)),
    "a product of its own": (two(lambda m, x: Product.apply(m.a(x), m.w), w=lambda: own(4, 6)), (6,)),
    "a rule of its own for vmap": (two(lambda m, x: Meddling.apply(m.a(x))), (6,)),
    "indices beyond an example": (two(filled), (6,)),
    "a hook on a tensor": (two(hooked), (6,)),
    "a hook of the backward pass": (tripled, (6,)),
    "a hook of the forward pass": (centred, (6,)),
    "frames without an axis of one": (
        only(lambda m, x: m.a(x[0]).flatten()[None], lambda: nn.Conv2d(2, 3, 3)), (3, 2, 5, 5),
    ),
    "weights from the data": (two(lambda m, x: F.conv1d(x, m.a(x)[:, :, :3].transpose(0, 1).expand(3, 3, 3))), (3, 6)),
    "a sparse embedding": (lambda: nn.Embedding(7, 5, sparse=True), TOKENS),
    "an embedding by frequency": (lambda: nn.Embedding(7, 5, scale_grad_by_freq=True), TOKENS),
    "an embedding with other uses": (
        only(lambda m, x: F.linear(m.a(x), m.a.weight) + m.a.weight.sum(1), lambda: nn.Embedding(7, 5)), TOKENS,
    ),
    "a bag": (lambda: nn.EmbeddingBag(7, 5), TOKENS),
    "RNN": (only(lambda m, x: m.a(x)[0], lambda: nn.RNN(6, 4, batch_first=True)), (4, 6)),
    "LSTM with projections": (only(lambda m, x: m.a(x)[0], lambda: nn.LSTM(6, 4, proj_size=2)), (4, 6)),
    "LSTM over the batch": (only(lambda m, x: m.a(x)[0], lambda: nn.LSTM(6, 4)), (4, 6)),
    "LSTM twice, from learned states": (
        only(lambda m, x: m.a(x, (m.h, m.h))[0] + m.a(x.flip(1))[0], lambda: nn.LSTM(6, 4, batch_first=True),
             h=lambda: own(1, 1, 4)), (4, 6),
    ),
    "GRU from the data": (
        only(lambda m, x: m.a(x, m.b(x[:, 0])[None])[0], lambda: nn.GRU(6, 4, batch_first=True),
             b=lambda: nn.Linear(6, 4)), (4, 6),
    ),
    "a packed LSTM": (
        only(lambda m, x: nn.utils.rnn.pad_packed_sequence(
            m.a(nn.utils.rnn.pack_padded_sequence(x, [3], batch_first=True))[0], batch_first=True)[0],
            lambda: nn.LSTM(6, 4, batch_first=True)), (4, 6),
    ),
    "a parameter without an axis": (two(lambda m, x: m.a(x) * m.s, s=own), (6,)),
    "the same, by the data": (two(lambda m, x: m.a(x) * m.s if x.sum() < 99.0 else m.b(x), s=own), (6,)),
    "data that decides the shape": (two(lambda m, x: m.a(x[x[:, 0] > -9.0])), (6,)),
}  # fmt: skip
IGNORED = (
    "ignore:There is a performance drop", "ignore:Using padding=.same", "ignore:Using a target", "ignore:In CPU",
    "ignore:LSTM with projections",
)  # fmt: skip


@pytest.mark.few(7)
@pytest.mark.filterwarnings(*IGNORED)
@pytest.mark.parametrize("case", HOSTILE)
def test_sums_are_those_of_one_example_at_a_time(case: str) -> None:
    make, shape = HOSTILE[case]
    module, (x, y) = make().double(), examples(shape)
    before = {name: each.clone() for name, each in module.state_dict().items()}
    given, singles = x.clone(), one_at_a_time(module, x, y)
    for _ in range(2):  # what a first call left behind would be in the second
        assert difference(module, x, y, Euclidean(clip=0.05), singles=singles) < 1e-12
        assert difference(module, x, y, Elementwise(clip=50.0), singles=singles) <= 1.0
    assert difference(module, x, y, Euclidean(clip=50.0), 1, singles) < 1e-12
    assert all(torch.equal(each, before[name]) for name, each in module.state_dict().items())
    assert torch.equal(x, given)


def moved_by_others(make: Callable[[], nn.Module], shape: tuple[int, ...], clip: Any) -> float:
    """How far bad examples move the sum of the good ones, in clips."""
    torch.manual_seed(1)
    module, (x, y) = make(), examples(shape, torch.float32)
    good, _, _ = clipped_sum(module, criterion, x[1:2], y[1:2], clip, MEMORY)
    worst = 0.0
    for value in (99, -3, -7) if shape == TOKENS else (math.nan, math.inf):
        others = x.clone()
        others[[0, 2, 3, 4]] = value
        sums, losses, _ = clipped_sum(module, criterion, others, y, clip, MEMORY)
        assert all(bool(torch.isfinite(each).all()) for each in sums.values())
        assert not losses[1].isnan()
        counted = ~losses.isnan()
        counted[1] = False  # an example may count by itself, where nothing in it is invalid for this module
        rest, _, _ = clipped_sum(module, criterion, others[counted], y[counted], clip, MEMORY)
        unit = clip.levels if isinstance(clip, Elementwise) else clip.clip
        worst = max(worst, *(float((sums[n] - rest[n] - good[n]).abs().max()) / unit for n in sums))
    return worst


@pytest.mark.few(9)
@pytest.mark.filterwarnings(*IGNORED)
@pytest.mark.parametrize("clip", [Elementwise(clip=0.01), Euclidean(clip=0.05)], ids=["elementwise", "Euclidean"])
@pytest.mark.parametrize("case", [*CASES, *HOSTILE])
def test_bad_examples_move_no_other(case: str, clip: Any) -> None:
    """Numbers that are not finite, and tokens that are in no table: in LSTMs one such example erased all others."""
    assert moved_by_others(*{**CASES, **HOSTILE}[case], clip) < 1e-3


def test_a_wrong_order_of_examples_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the check for finite numbers with its examples in another order."""
    found = per_example.finite
    monkeypatch.setattr(per_example, "finite", lambda *tensors: found(*tensors).roll(1))
    with pytest.raises(AssertionError):
        assert moved_by_others(*CASES["LSTM"], Elementwise(clip=0.01)) < 1e-3


def writing(module: Any, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        module.b.weight.mul_(0.9)
    return module.a(x)


def replacing(module: Any, x: torch.Tensor) -> torch.Tensor:
    module.b.bias.data = x[0] if x.sum() < 99.0 else x[0] + 1.0
    return module.a(x)


def writing_over_an_input(module: Any, x: torch.Tensor) -> torch.Tensor:
    inner = module.a(x).tanh()
    output = module.b(inner)
    inner.mul_(2.0)
    return output


KIND = taken_apart(((torch.zeros(1),), {}), "x")[0]
KEPT: list[torch.Tensor] = []
HELD = nn.Parameter(torch.ones(6))


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("run", "error", "words"),
    [
        (lambda m, x: (KEPT.append(x), m.a(x))[1], rb.errors.ArgumentError, "keeps tensors"),
        (writing, rb.errors.ArgumentError, "writes over a parameter"),
        (lambda m, x: (m.b.bias.data.add_(1.0), m.a(x))[1], rb.errors.ArgumentError, "writes over a parameter"),
        (lambda m, x: (m.b.bias.data.copy_(x[0]), m.a(x))[1], rb.errors.ArgumentError, "writes over a parameter"),
        (lambda m, x: (m.b.bias.detach().numpy().fill(2.0), m.a(x))[1], rb.errors.ArgumentError, "over a parameter"),
        (
            lambda m, x: (torch.from_dlpack(m.b.bias.detach()).add_(1.0), m.a(x))[1],
            rb.errors.ArgumentError,
            "over a par",
        ),
        (replacing, rb.errors.ArgumentError, "writes over a parameter"),
        (writing_over_an_input, RuntimeError, "in place|inplace"),
    ],
    ids=[
        "kept",
        "written over",
        "written past the count",
        "the same, by the data",
        "by numpy",
        "by its memory",
        "replaced",
        "in place",
    ],
)
def test_what_would_make_a_gradient_incomplete_is_refused(run: Any, error: Any, words: str) -> None:
    module, (x, y) = two(run)(), examples((6,), torch.float32)
    with pytest.raises(error, match=words):
        clipped_sum(module, criterion, x, y, Euclidean(clip=1.0), MEMORY)


@pytest.mark.parametrize("deep", [False, True])
def test_the_number_of_passes_stays_in_no_tensor(deep: bool) -> None:
    calls: Any = {"each": [torch.zeros(())], "list": []} if deep else torch.zeros(())

    def run(m: Any, x: torch.Tensor) -> torch.Tensor:
        if deep:
            m.calls["list"].append(1)
        return m.a(x) * (m.calls["each"][0] if deep else m.calls).add_(1.0) + float(m.b.bias.detach().numpy()[0])

    module, (x, y) = two(run)(), examples((6,), torch.float32)
    module.calls = calls  # neither a buffer nor a parameter
    found = [clipped_sum(module, criterion, x, y, Euclidean(clip=50.0), each)[0] for each in (MEMORY, 1)]
    assert module.calls == ({"each": [torch.zeros(())], "list": []} if deep else torch.zeros(()))
    assert all(torch.allclose(each, found[1][name]) for name, each in found[0].items())
    module(x)
    assert module.calls["list"] if deep else module.calls  # control: by itself it counts


def test_a_parameter_may_be_used_by_another_name() -> None:
    module, (x, y) = two(lambda m, x: m.a(x) * HELD, held=lambda: HELD)(), examples((6,), torch.float32)
    sums, _, _ = clipped_sum(module, criterion, x, y, Euclidean(clip=50.0), MEMORY)
    (slope,) = torch.autograd.grad(sum(criterion(module(x[i : i + 1]), y[i : i + 1]) for i in range(COUNT)), [HELD])
    torch.testing.assert_close(sums["held"], slope.double(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("count", [0, 1])
def test_batches_of_none_and_one(count: int) -> None:
    for make, shape in (CASES["LSTM"], CASES["residual"], CASES["tied words"], CASES["linear"]):
        module, (x, y) = make(), examples(shape, torch.float32)
        for clip in (Elementwise(clip=0.01), Euclidean(clip=0.05)):
            sums, losses, _ = clipped_sum(module, criterion, x[:count], y[:count], clip, MEMORY)
            assert len(losses) == count
            assert all(bool(each.any()) == bool(count) for name, each in sums.items() if "places" not in name)


def test_an_attached_module_runs_each_example_by_itself() -> None:
    """Otherwise the slopes of the loss would hold numbers of the others, and its buffers those of all."""
    x, y = examples((6,), torch.float32)
    module = mixing()
    engine, _, _ = private(module, x, y, criterion=criterion)
    net = engine.attach(module)
    found = net(x)
    torch.testing.assert_close(found, torch.cat([module(x[i : i + 1]) for i in range(COUNT)]).detach())
    assert not torch.allclose(found, module(x))  # the control
    module = HOSTILE["a mean that it remembers"][0]()
    example_outputs(module, module, KIND, (x,), (torch.zeros(1, 6),))
    assert not module.mean.any()
    assert example_outputs(module, module, KIND, (x[:0],), (torch.zeros(1, 6),))[0].shape == (0, 6)
