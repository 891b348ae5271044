"""Every layer's rule against the gradient of one example at a time, in double precision."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import rangebound as rb  # noqa: E402
from rangebound.learn.torch import Elementwise, Euclidean  # noqa: E402
from rangebound.learn.torch.gradients import example_rows, outer_products  # noqa: E402
from rangebound.learn.torch.gradients.one_pass import example_losses, one_pass  # noqa: E402
from rangebound.learn.torch.gradients.outer_products import OuterProducts  # noqa: E402
from rangebound.learn.torch.gradients.per_example import clipped_sum, learned, shrink  # noqa: E402
from rangebound.learn.torch.gradients.survey import survey  # noqa: E402
from tests.learn.torch.models import Mixing, private  # noqa: E402

COUNT = 5
MEMORY = 2**26


def criterion(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The cross entropy of whatever a layer returns, so that every output has a gradient."""
    return F.cross_entropy(output.reshape(len(output), -1).tanh(), target)


class Attending(nn.Module):
    """Attention as it is usually written: linear layers and the function."""

    def __init__(self, causal: bool = False) -> None:
        super().__init__()
        self.inner, self.out, self.causal = nn.Linear(6, 18), nn.Linear(6, 6), causal

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (each.unflatten(-1, (2, 3)).transpose(1, 2) for each in self.inner(x).chunk(3, -1))
        mask = None if self.causal else torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        found = F.scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal)
        return x + self.out(found.transpose(1, 2).flatten(2))


class Heads(nn.Module):
    def __init__(self, weights: bool = False, other: bool = False) -> None:
        super().__init__()
        self.inner, self.weights, self.other = nn.MultiheadAttention(6, 2, batch_first=True), weights, other

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x, x.flip(1) if self.other else x, x, need_weights=self.weights)[0]


class Recurring(nn.Module):
    def __init__(self, kind: type[nn.Module], **options: Any) -> None:
        super().__init__()
        self.inner = kind(6, 4, **options)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.inner.batch_first
        output, state = self.inner(x if first else x.transpose(0, 1))
        last = state[1] if isinstance(state, tuple) else state
        return torch.cat([(output if first else output.transpose(0, 1)).flatten(1), last.transpose(0, 1).flatten(1)], 1)


class Stepping(nn.Module):
    """A cell that a loop calls: its parameters have one use for each step."""

    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.inner = kind(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = None
        for t in range(x.shape[1]):
            state = self.inner(x[:, t], state)
        return state[0] * state[1] if isinstance(state, tuple) else state


class Words(nn.Module):
    """Tokens that repeat, positions that are the same for all examples, and a head with the weights of the table."""

    def __init__(self, tied: bool = False, padding: int | None = None) -> None:
        super().__init__()
        self.table, self.places, self.norm = nn.Embedding(7, 6, padding), nn.Embedding(4, 6), nn.LayerNorm(6)
        self.head = nn.Linear(6, 7, bias=False)
        if tied:
            self.head.weight = self.table.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.table(x) + self.places(torch.arange(x.shape[1]))
        return self.head(self.norm(inner).tanh())


class Residual(nn.Module):
    """A branch, a layer that is called twice, activations in place."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.norm = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1), nn.GroupNorm(2, 4)
        self.relu, self.short = nn.ReLU(inplace=True), nn.Conv2d(2, 4, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.relu(self.norm(self.one(x)))
        inner = self.relu(self.norm(self.two(inner)))
        inner = self.two(inner)
        inner += self.short(x)
        return self.relu(inner).mean((2, 3))


class Adapted(nn.Module):
    """A frozen layer with a trained product of two thin ones (LoRA)."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(6, 5).requires_grad_(False)
        self.down, self.up = nn.Linear(6, 2, bias=False), nn.Linear(2, 5, bias=False)
        self.norm = nn.LayerNorm(5).requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.base(x) + 2.0 * self.up(self.down(x)))


class Scaled(nn.Module):
    """Parameters of its own, beside a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.scale = nn.Linear(6, 5), nn.Parameter(torch.linspace(0.5, 1.5, 6))
        self.free = nn.Parameter(torch.randn(5, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rms = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.scale
        return self.inner(rms).tanh() @ self.free


class Inner(nn.Module):
    """A module that uses vmap itself: its axes are no examples."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(6, 5), nn.Linear(3, 2)
        self.register_buffer("same", torch.randn(4, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = torch.func.vmap(self.one)(x.transpose(0, 1)).transpose(0, 1)
        return torch.cat([inner, torch.func.vmap(self.two)(self.same).expand(len(x), -1, -1)], 2)


class Within(nn.Module):
    """Layers without an axis of one: a tensor of all positions of all examples."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(self.one(x.flatten(0, 1)).tanh()).unflatten(0, x.shape[:2])


Make = Callable[[], nn.Module]
TOKENS = (4,)
CASES: dict[str, tuple[Make, tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(6, 3), (6,)),
    "linear of a sequence": (lambda: nn.Linear(6, 3), (4, 6)),
    "linear without a bias": (lambda: nn.Linear(6, 3, bias=False), (2, 2, 6)),
    "bilinear, which has no rule": (lambda: Pair(), (6,)),
    "conv1d": (lambda: nn.Conv1d(3, 4, 3, stride=2, padding=1), (3, 9)),
    "conv2d": (lambda: nn.Conv2d(2, 3, (3, 2), stride=(1, 2), padding=(2, 1), dilation=(1, 2)), (2, 6, 7)),
    "conv2d same": (lambda: nn.Conv2d(2, 3, 3, padding="same"), (2, 5, 5)),
    "conv2d even same": (lambda: nn.Conv2d(2, 3, 2, padding="same"), (2, 5, 5)),
    "conv2d reflected": (lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), (2, 5, 5)),
    "conv2d in groups": (lambda: nn.Conv2d(4, 6, 3, groups=2), (4, 5, 5)),
    "conv2d depthwise": (lambda: nn.Conv2d(3, 3, 3, groups=3, padding=1), (3, 5, 5)),
    "conv3d": (lambda: nn.Conv3d(1, 2, 2), (1, 3, 4, 3)),
    "transposed conv1d": (lambda: nn.ConvTranspose1d(3, 2, 3, stride=2, output_padding=1), (3, 4)),
    "transposed conv2d": (
        lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2, dilation=2), (4, 3, 3),
    ),
    "layer norm": (lambda: nn.LayerNorm((4, 6)), (3, 4, 6)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (4, 3, 3)),
    "RMS norm": (lambda: nn.RMSNorm(6), (4, 6)),
    "instance norm, which has no rule": (lambda: nn.InstanceNorm2d(3, affine=True), (3, 4, 4)),
    "embedding": (lambda: nn.Embedding(7, 5), TOKENS),
    "words": (lambda: Words(), TOKENS),
    "tied words": (lambda: Words(tied=True), TOKENS),
    "words with padding": (lambda: Words(padding=2), TOKENS),
    "attention": (lambda: Attending(), (4, 6)),
    "causal attention": (lambda: Attending(causal=True), (4, 6)),
    "heads": (lambda: Heads(), (4, 6)),
    "heads with weights": (lambda: Heads(weights=True), (4, 6)),
    "heads of another": (lambda: Heads(other=True), (4, 6)),
    "encoder layer": (lambda: nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True), (4, 6)),
    "LSTM": (lambda: Recurring(nn.LSTM, batch_first=True), (4, 6)),
    "LSTM of two layers, both ways": (lambda: Recurring(nn.LSTM, num_layers=2, bidirectional=True), (4, 6)),
    "LSTM without biases": (lambda: Recurring(nn.LSTM, bias=False, batch_first=True), (4, 6)),
    "GRU": (lambda: Recurring(nn.GRU, batch_first=True), (4, 6)),
    "GRU of two layers, both ways": (lambda: Recurring(nn.GRU, num_layers=2, bidirectional=True), (4, 6)),
    "GRU without biases": (lambda: Recurring(nn.GRU, bias=False), (4, 6)),
    "LSTM cell": (lambda: Stepping(nn.LSTMCell), (4, 6)),
    "GRU cell": (lambda: Stepping(nn.GRUCell), (4, 6)),
    "residual": (lambda: Residual(), (2, 5, 5)),
    "LoRA": (lambda: Adapted(), (4, 6)),
    "own parameters": (lambda: Scaled(), (4, 6)),
    "weight norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(6, 3)), (6,)),
    "frozen bias": (lambda: frozen(), (6,)),
    "called twice": (lambda: twice(), (6,)),
    "without an axis of one": (lambda: Within(), (4, 6)),
    "vmap within": (lambda: Inner(), (4, 6)),
    "mixing": (lambda: Mixing(), (6,)),
}  # fmt: skip


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Bilinear(6, 6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x, x)


def frozen() -> nn.Module:
    made = nn.Sequential(nn.Linear(6, 5), nn.ReLU(inplace=True), nn.Linear(5, 3))
    made[0].weight.requires_grad_(False)
    made[2].bias.requires_grad_(False)
    return made


def twice() -> nn.Module:
    layer = nn.Linear(6, 6)
    return nn.Sequential(layer, nn.Tanh(), layer)


def examples(shape: tuple[int, ...], dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    if shape == TOKENS:
        x = torch.randint(0, 7, (COUNT, *shape), generator=generator)
        x[0, :3] = 2
    else:
        x = torch.randn(COUNT, *shape, generator=generator, dtype=torch.float64).to(dtype)
    return x, torch.randint(0, 3, (COUNT,), generator=generator)


def one_at_a_time(module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> list[dict[str, torch.Tensor]]:
    found = []
    for i in range(len(x)):
        own = copy.deepcopy(module)
        criterion(own(x[i : i + 1].clone()), y[i : i + 1]).backward()
        found.append({
            name: torch.zeros_like(each) if each.grad is None else each.grad.to_dense()
            for name, each in learned(own).items()
        })  # fmt: skip
    return found


def difference(module: nn.Module, x: torch.Tensor, y: torch.Tensor, clip: Any, memory: int = MEMORY) -> float:
    """The largest difference between our sums and those of clipped gradients of one example at a time."""
    sums, losses = clipped_sum(module, criterion, x, y, clip, memory)
    assert not losses.isnan().any()
    singles = one_at_a_time(module, x, y)
    worst = 0.0
    for name, total in sums.items():
        if isinstance(clip, Elementwise):
            expected = sum((each[name].clamp(-clip.bound, clip.bound) / clip.quantum).round() for each in singles)
            assert torch.equal(total, total.round())
        else:
            norms = [torch.cat([part.flatten() for part in each.values()]).norm() for each in singles]
            expected = sum(
                each[name] * (clip.target / norm).clamp(max=1.0) for each, norm in zip(singles, norms, strict=True)
            )
        worst = max(worst, float((total - expected).abs().max()))
    return worst


@pytest.mark.filterwarnings("ignore:There is a performance drop", "ignore:Using padding=.same")  # of torch itself
@pytest.mark.parametrize("case", CASES)
def test_sums_are_those_of_one_example_at_a_time(case: str) -> None:
    make, shape = CASES[case]
    module, (x, y) = make().double(), examples(shape)
    assert not survey(module, learned(module), criterion, x, y).refused
    assert difference(module, x, y, Euclidean(clip=0.05)) < 1e-12
    assert difference(module, x, y, Euclidean(clip=50.0)) < 1e-12
    assert difference(module, x, y, Euclidean(clip=0.05), memory=1) < 1e-12  # one example in a block
    assert difference(module, x, y, Elementwise(clip=0.01)) <= 1.0  # a quantum: the rounding of a tie
    assert difference(module, x, y, Elementwise(clip=50.0)) <= 1.0


def test_a_transposed_factor_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the rule of a square linear layer with its two factors exchanged."""
    module, (x, y) = nn.Linear(6, 6).double(), examples((4, 6))
    assert difference(module, x, y, Euclidean(clip=50.0)) < 1e-12
    from rangebound.learn.torch.gradients.rules import linear_rule

    monkeypatch.setattr(linear_rule, "outer", lambda a, g: outer_products.outer(g, a))
    assert difference(module, x, y, Euclidean(clip=50.0)) > 1e-3
    assert difference(module, x, y, Elementwise(clip=50.0)) > 1e3


@pytest.mark.parametrize("options", [{}, {"reduction": "sum"}, {"label_smoothing": 0.2}, {"ignore_index": 1}], ids=str)
def test_the_loss_of_each_example_is_that_of_one(options: dict[str, Any]) -> None:
    output = torch.randn(7, 4, dtype=torch.float64, requires_grad=True)
    y = torch.tensor([0, 1, 2, 3, 1, 0, 2])
    judge = nn.CrossEntropyLoss(**options)
    losses = example_losses(judge, output, y)
    alone = torch.stack([judge(output[i : i + 1], y[i : i + 1]) for i in range(7)])
    torch.testing.assert_close(losses, alone, equal_nan=True, rtol=0.0, atol=1e-14)
    if "ignore_index" not in options:
        (ours,), (theirs,) = (torch.autograd.grad(each.sum(), output) for each in (losses, alone))
        torch.testing.assert_close(ours, theirs, rtol=0.0, atol=1e-14)
    else:
        assert losses.isnan().tolist() == (y == 1).tolist()


def test_a_criterion_that_uses_a_parameter_is_seen() -> None:
    """In a chain too, where the criterion runs after the pass."""
    module, (x, y) = nn.Sequential(nn.Linear(6, 3)).double(), examples((6,))

    def with_penalty(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return criterion(F.linear(output, module[0].weight[:, :3]), target) + module[0].bias.square().sum()

    sums, _ = clipped_sum(module, with_penalty, x, y, Euclidean(clip=50.0), MEMORY)
    sum(with_penalty(module(x[i : i + 1]), y[i : i + 1]) for i in range(COUNT)).backward()
    for name, each in learned(module).items():
        torch.testing.assert_close(sums[name], each.grad, rtol=1e-12, atol=1e-12)


def test_a_parameter_by_another_name_is_refused() -> None:
    """A view for each example would not reach it, and its gradient would be incomplete."""
    module, (x, y) = nn.Sequential(nn.Linear(6, 3)).double(), examples((6,))
    held = module[0].bias
    with pytest.raises(rb.errors.ArgumentError, match="by another name"):
        clipped_sum(module, lambda o, t: criterion(o * held, t), x, y, Euclidean(clip=1.0), MEMORY)


def test_a_pass_without_vmap_mixes_examples_of_a_module_that_does() -> None:
    """The control of the case `mixing` above: why only chains of known layers run without vmap."""
    module, (x, y) = Mixing().double(), examples((6,))
    found = [
        one_pass(module, learned(module), criterion, x, y, loose=(), separate=separate)
        .gradients["inner.weight"]
        .rows(0, 5)
        for separate in (True, False)
    ]
    alone = torch.stack([each["inner.weight"].flatten() for each in one_at_a_time(module, x, y)])
    assert float((found[0] - alone).abs().max()) < 1e-12
    assert float((found[1] - alone).abs().max()) > 1e-2


def test_a_parameter_without_a_rule_falls_back_alone() -> None:
    module, (x, y) = Scaled(), examples((4, 6), torch.float32)
    route = survey(module, learned(module), criterion, x, y)
    assert sorted(route.loose) == ["free", "scale"]
    assert sorted(route.layers) == ["inner.bias", "inner.weight"]
    text = route.explain(learned(module))
    assert "scale: its own view for each example, since mul uses it" in text
    assert "inner.weight: in the one pass, rule: linear" in text


@pytest.mark.parametrize("case", ["residual", "LoRA", "tied words", "LSTM", "GRU", "heads", "layer norm"])
def test_mixed_precision_is_near(case: str) -> None:
    make, shape = CASES[case]
    module, (x, y) = make(), examples(shape, torch.float32)
    clip = Euclidean(clip=50.0)
    exact, _ = clipped_sum(module, criterion, x, y, clip, MEMORY)
    with torch.autocast("cpu", torch.bfloat16):
        sums, losses = clipped_sum(module, criterion, x, y, clip, MEMORY)
        whole, _ = clipped_sum(module, criterion, x, y, Elementwise(clip=0.01), MEMORY)
    assert not losses.isnan().any()
    for name, total in sums.items():
        assert total.dtype == torch.float64
        assert float((total - exact[name]).norm()) <= 0.1 * float(exact[name].norm()) + 0.02
        assert torch.equal(whole[name], whole[name].round())


def test_an_input_that_is_written_over_is_an_error() -> None:
    class Writing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(6, 6), nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            inner = self.one(x).tanh()
            output = self.two(inner)
            inner.mul_(2.0)
            return output

    x, y = examples((6,), torch.float32)
    with pytest.raises(RuntimeError, match=r"in place|inplace"):
        clipped_sum(Writing(), criterion, x, y, Euclidean(clip=1.0), MEMORY)


def test_the_engine_explains_each_parameter() -> None:
    module, (x, y) = Scaled(), examples((4, 6), torch.float32)
    engine, optimizer, _ = private(module, x, y, criterion=criterion)
    assert engine.explain() == optimizer.explain()
    assert engine.explain().splitlines()[0] == "the module runs under torch.func.vmap, one example each"
    assert len(engine.explain().splitlines()) == 5
    engine, _, _ = private(nn.Linear(6, 3), x, y, criterion=criterion)
    assert "chain of known layers" in engine.explain()
    module = Deciding()
    engine, _, _ = private(module, x[:, 0], y, criterion=criterion)
    assert engine.explain().startswith("every parameter: torch.func.vmap of the whole module")


class Deciding(nn.Module):
    """A module that vmap cannot run."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(6, 3), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.one(x) if x.sum() > 0.0 else self.other(x)


@pytest.mark.parametrize("case", ["linear of a sequence", "conv2d", "tied words", "LSTM", "residual", "encoder layer"])
def test_rows_that_are_made_twice_give_the_same_sums(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, where wide rows are not held; and a second making that comes out longer is scaled down."""
    make, shape = CASES[case]
    module, (x, y) = make().double(), examples(shape)
    monkeypatch.setattr(example_rows, "_WIDE", {"cpu": 1})
    monkeypatch.setattr(example_rows, "_AT_ONCE", {"cpu": 100})
    assert difference(module, x, y, Euclidean(clip=0.05)) < 1e-12
    assert difference(module, x, y, Euclidean(clip=50.0)) < 1e-12
    calls = iter((1.0, 1.0, 3.0, 0.5))
    rows = example_rows.ExampleRows(
        count=2, width=60, make=lambda a, b: torch.full((b - a, 60), next(calls)), device=torch.device("cpu")
    )
    lengths = rows.squares()
    torch.testing.assert_close(lengths, torch.full((2,), 60.0).double())
    torch.testing.assert_close(rows.weighted(torch.ones(2, dtype=torch.float64)), torch.full((60,), 1.5).double())


@pytest.mark.parametrize(("input", "slope"), [(3e307, 1e-300), (1e308, 1e-290), (1e-300, 1e308), (1.0, 1e150)])
def test_no_double_is_too_large_or_too_small_for_a_clip(input, slope):
    """A weight times a factor may be below all doubles where its product with the other factor is not."""
    clip = Euclidean(clip=1e-16)
    a, g = (torch.tensor([[each]], dtype=torch.float64) for each in (input, slope))
    made = OuterProducts(a=a, g=g)
    weights = shrink(made.squares(), clip)
    assert 0.9 * clip.clip < float(made.weighted(weights)) <= clip.clip
    if input == 3e307:  # the control: factor by factor it is longer than the clip
        assert float((weights * g[0]) * a[0]) > 1.4 * clip.clip
