"""Every layer's rule against the gradient of one example at a time, in double precision."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from rangebound.learn.torch import Elementwise, Euclidean
from rangebound.learn.torch.gradients import gradient_forms, layer_rules
from rangebound.learn.torch.gradients.gradient_forms import OuterProducts
from rangebound.learn.torch.gradients.one_pass import example_losses, learned, one_pass
from rangebound.learn.torch.gradients.survey import survey
from tests.learn.torch.models import Built, called, clipped_sum, deciding, mixing, private, problem

COUNT = 5
MEMORY = 2**26


def criterion(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The cross entropy of whatever a layer returns, so that every output has a gradient."""
    return F.cross_entropy(output.reshape(len(output), -1).tanh(), target)


def attending(causal: bool = False) -> nn.Module:
    """Attention as it is usually written: linear layers and the function."""

    def run(m: Any, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (each.unflatten(-1, (2, 3)).transpose(1, 2) for each in m.inner(x).chunk(3, -1))
        mask = None if causal else torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        found = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)
        return x + m.out(found.transpose(1, 2).flatten(2))

    return Built(run, inner=nn.Linear(6, 18), out=nn.Linear(6, 6))


def heads(weights: bool = False, other: bool = False) -> nn.Module:
    return Built(
        lambda m, x: m.inner(x, x.flip(1) if other else x, x, need_weights=weights)[0],
        inner=nn.MultiheadAttention(6, 2, batch_first=True),
    )


def recurring(kind: type[nn.Module], **options: Any) -> nn.Module:
    def run(m: Any, x: torch.Tensor) -> torch.Tensor:
        first = m.inner.batch_first
        output, state = m.inner(x if first else x.transpose(0, 1))
        last = state[1] if isinstance(state, tuple) else state
        return torch.cat([(output if first else output.transpose(0, 1)).flatten(1), last.transpose(0, 1).flatten(1)], 1)

    return Built(run, inner=kind(6, 4, **options))


def stepping(kind: type[nn.Module]) -> nn.Module:
    """A cell that a loop calls: its parameters have one use for each step."""

    def run(m: Any, x: torch.Tensor) -> torch.Tensor:
        state = None
        for t in range(x.shape[1]):
            state = m.inner(x[:, t], state)
        return state[0] * state[1] if isinstance(state, tuple) else state

    return Built(run, inner=kind(6, 4))


def named(cell: Callable[..., Any], kind: type[nn.Module]) -> nn.Module:
    """The function of a cell with its arguments by name."""

    def run(m: Any, x: torch.Tensor) -> torch.Tensor:
        start, own = x.new_zeros(len(x), 4), m.inner
        found = cell(
            input=x[:, 0], hx=(start, start) if kind is nn.LSTMCell else start,
            w_ih=own.weight_ih, w_hh=own.weight_hh, b_ih=own.bias_ih, b_hh=own.bias_hh,
        )  # fmt: skip
        return found[0] * found[1] if isinstance(found, tuple) else found

    return Built(run, inner=kind(6, 4))


def words(tied: bool = False, padding: int | None = None) -> nn.Module:
    """Tokens that repeat, positions that are the same for all examples, and a head with the weights of the table."""

    def run(m: Any, x: torch.Tensor) -> torch.Tensor:
        return m.head(m.norm(m.table(x) + m.places(torch.arange(x.shape[1]))).tanh())

    parts = {"table": nn.Embedding(7, 6, padding), "places": nn.Embedding(4, 6), "norm": nn.LayerNorm(6)}
    found = Built(run, **parts, head=nn.Linear(6, 7, bias=False))
    if tied:
        found.head.weight = found.table.weight
    return found


def residual() -> nn.Module:
    """A branch, a layer that is called twice, activations in place."""

    def run(m: Any, x: torch.Tensor) -> torch.Tensor:
        inner = m.relu(m.norm(m.one(x)))
        inner = m.relu(m.norm(m.two(inner)))
        inner = m.two(inner)
        inner += m.short(x)
        return m.relu(inner).mean((2, 3))

    return Built(
        run, one=nn.Conv2d(2, 4, 3, padding=1), two=nn.Conv2d(4, 4, 3, padding=1), norm=nn.GroupNorm(2, 4),
        relu=nn.ReLU(inplace=True), short=nn.Conv2d(2, 4, 1, bias=False),
    )  # fmt: skip


def adapted() -> nn.Module:
    """A frozen layer with a trained product of two thin ones (LoRA)."""
    return Built(
        lambda m, x: m.norm(m.base(x) + 2.0 * m.up(m.down(x))),
        base=nn.Linear(6, 5).requires_grad_(False), norm=nn.LayerNorm(5).requires_grad_(False),
        down=nn.Linear(6, 2, bias=False), up=nn.Linear(2, 5, bias=False),
    )  # fmt: skip


def scaled() -> nn.Module:
    """Parameters of its own, beside a layer."""

    def run(m: Any, x: torch.Tensor) -> torch.Tensor:
        return m.inner(x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * m.scale).tanh() @ m.free

    own = {"scale": nn.Parameter(torch.linspace(0.5, 1.5, 6)), "free": nn.Parameter(torch.randn(5, 4))}
    return Built(run, inner=nn.Linear(6, 5), **own)


def inner() -> nn.Module:
    """A module that uses vmap itself: its axes are not examples."""

    def run(m: Any, x: torch.Tensor) -> torch.Tensor:
        found = torch.func.vmap(m.one)(x.transpose(0, 1)).transpose(0, 1)
        return torch.cat([found, torch.func.vmap(m.two)(m.same).expand(len(x), -1, -1)], 2)

    return Built(run, one=nn.Linear(6, 5), two=nn.Linear(3, 2), same=torch.randn(4, 3))


def within() -> nn.Module:
    """Layers without an axis of one: a tensor of all positions of all examples."""

    def run(m: Any, x: torch.Tensor) -> torch.Tensor:
        return m.two(m.one(x.flatten(0, 1)).tanh()).unflatten(0, x.shape[:2])

    return Built(run, one=nn.Linear(6, 5), two=nn.Linear(5, 3))


def frozen() -> nn.Module:
    made = nn.Sequential(nn.Linear(6, 5), nn.ReLU(inplace=True), nn.Linear(5, 3))
    made[0].weight.requires_grad_(False)
    made[2].bias.requires_grad_(False)
    return made


def frozen_first() -> nn.Module:
    first = nn.LSTM(6, 4, batch_first=True).requires_grad_(False)
    return Built(lambda m, x: m.b(m.a(x)[0]), a=first, b=nn.Linear(4, 3))


def twice() -> nn.Module:
    layer = nn.Linear(6, 6)
    return nn.Sequential(layer, nn.Tanh(), layer)


Make = Callable[[], nn.Module]
TOKENS = (4,)
CASES: dict[str, tuple[Make, tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(6, 3), (6,)),
    "linear of a sequence": (lambda: nn.Linear(6, 3), (4, 6)),
    "linear with a vector of the example": (
        lambda: Built(lambda m, x: m.inner(x) * F.linear(x, x[0])[:, None], inner=nn.Linear(6, 3)), (6,),
    ),
    "linear without a bias": (lambda: nn.Linear(6, 3, bias=False), (2, 2, 6)),
    "bilinear, which has no rule": (lambda: Built(lambda m, x: m.inner(x, x), inner=nn.Bilinear(6, 6, 3)), (6,)),
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
    "words": (words, TOKENS),
    "tied words": (lambda: words(tied=True), TOKENS),
    "words with padding": (lambda: words(padding=2), TOKENS),
    "attention": (attending, (4, 6)),
    "causal attention": (lambda: attending(causal=True), (4, 6)),
    "heads": (heads, (4, 6)),
    "heads with weights": (lambda: heads(weights=True), (4, 6)),
    "heads of another": (lambda: heads(other=True), (4, 6)),
    "encoder layer": (lambda: nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True), (4, 6)),
    "LSTM": (lambda: recurring(nn.LSTM, batch_first=True), (4, 6)),
    "LSTM of two layers, both ways": (lambda: recurring(nn.LSTM, num_layers=2, bidirectional=True), (4, 6)),
    "LSTM without biases": (lambda: recurring(nn.LSTM, bias=False, batch_first=True), (4, 6)),
    "GRU": (lambda: recurring(nn.GRU, batch_first=True), (4, 6)),
    "GRU of two layers, both ways": (lambda: recurring(nn.GRU, num_layers=2, bidirectional=True), (4, 6)),
    "GRU without biases": (lambda: recurring(nn.GRU, bias=False), (4, 6)),
    "LSTM cell": (lambda: stepping(nn.LSTMCell), (4, 6)),
    "GRU cell": (lambda: stepping(nn.GRUCell), (4, 6)),
    "LSTM cell by name": (lambda: named(torch.lstm_cell, nn.LSTMCell), (4, 6)),
    "GRU cell by name": (lambda: named(torch.gru_cell, nn.GRUCell), (4, 6)),
    "residual": (residual, (2, 5, 5)),
    "LoRA": (adapted, (4, 6)),
    "own parameters": (scaled, (4, 6)),
    "weight norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(6, 3)), (6,)),
    "frozen bias": (frozen, (6,)),
    "frozen first layer": (frozen_first, (4, 6)),
    "called twice": (twice, (6,)),
    "without an axis of one": (within, (4, 6)),
    "vmap within": (inner, (4, 6)),
    "mixing": (mixing, (6,)),
}  # fmt: skip


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
            name: torch.zeros_like(each).double() if each.grad is None else each.grad.to_dense().double()
            for name, each in learned(own).items()
        })  # fmt: skip
    return found


def difference(
    module: nn.Module, x: torch.Tensor, y: torch.Tensor, clip: Any, memory: int = MEMORY, singles: Any = None
) -> float:
    """The largest difference between our sums and those of clipped gradients of one example at a time."""
    sums, losses, _ = clipped_sum(module, criterion, x, y, clip, memory)
    assert not losses.isnan().any()
    assert sums.keys() == learned(module).keys()  # what is frozen is left out
    singles = singles or one_at_a_time(module, x, y)
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


@pytest.mark.few(8)
@pytest.mark.filterwarnings("ignore:There is a performance drop", "ignore:Using padding=.same")  # of torch itself
@pytest.mark.parametrize("case", CASES)
def test_sums_are_those_of_one_example_at_a_time(case: str) -> None:
    make, shape = CASES[case]
    module, (x, y) = make().double(), examples(shape)
    assert not survey(problem(module, criterion, x, y), (x, y)).refused
    singles = one_at_a_time(module, x, y)
    assert difference(module, x, y, Euclidean(clip=0.05), singles=singles) < 1e-12
    assert difference(module, x, y, Euclidean(clip=50.0), singles=singles) < 1e-12
    assert difference(module, x, y, Euclidean(clip=0.05), 1, singles) < 1e-12  # one example in a block
    assert difference(module, x, y, Elementwise(clip=0.01), singles=singles) <= 1.0  # a quantum: the rounding of a tie
    assert difference(module, x, y, Elementwise(clip=50.0), singles=singles) <= 1.0


def test_a_transposed_factor_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the rule of a square linear layer with its two factors exchanged."""
    module, (x, y) = nn.Linear(6, 6).double(), examples((4, 6))
    assert difference(module, x, y, Euclidean(clip=50.0)) < 1e-12
    monkeypatch.setattr(layer_rules, "outer", lambda a, g: gradient_forms.outer(g, a))
    assert difference(module, x, y, Euclidean(clip=50.0)) > 1e-3
    assert difference(module, x, y, Elementwise(clip=50.0)) > 1e3


@pytest.mark.few(6)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize(
    "judge",
    [
        nn.CrossEntropyLoss(), nn.CrossEntropyLoss(reduction="sum"), nn.CrossEntropyLoss(label_smoothing=0.2),
        nn.CrossEntropyLoss(ignore_index=1), nn.NLLLoss(), nn.NLLLoss(ignore_index=0, reduction="sum"),
    ],
    ids=lambda judge: f"{type(judge).__name__} {judge.reduction} {judge.ignore_index}",
)  # fmt: skip
def test_the_loss_of_each_example_is_that_of_one(judge: nn.Module, shape: tuple[int, ...]) -> None:
    """Of one label, and of those of a sequence or an image; a label of no class is nobody else's concern."""
    output = torch.randn(7, 4, *shape, dtype=torch.float64, requires_grad=True)
    y = torch.randint(0, 4, (7, *shape), generator=torch.Generator().manual_seed(3))
    y[0], y[1] = 0, 1  # of which one may be ignored
    y[5].view(-1)[-1:] = 9

    def flattened(o: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return judge(o.movedim(1, -1).reshape(-1, 4), t.reshape(-1))  # type: ignore[no-any-return]

    singles = [judge(output[i : i + 1], y[i : i + 1]) for i in range(7) if i != 5]
    alone = torch.stack([*singles[:5], torch.tensor(torch.nan, dtype=torch.float64), *singles[5:]])
    for each in (judge, flattened):
        losses = example_losses(called(each), torch.Tensor, (output,), torch.Tensor, (y,))
        torch.testing.assert_close(losses, alone, equal_nan=True, rtol=0.0, atol=1e-13)
        good = ~losses.isnan()
        slopes = [torch.autograd.grad(found[good].sum(), output, retain_graph=True)[0] for found in (losses, alone)]
        torch.testing.assert_close(*slopes, rtol=0.0, atol=1e-13)
    with pytest.raises(IndexError):  # the control: torch itself
        judge(output, y)


def test_a_criterion_that_uses_a_parameter_is_seen() -> None:
    module, (x, y) = nn.Sequential(nn.Linear(6, 3)).double(), examples((6,))

    def with_penalty(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return criterion(F.linear(output, module[0].weight[:, :3]), target) + module[0].bias.square().sum()

    sums, _, _ = clipped_sum(module, with_penalty, x, y, Euclidean(clip=50.0), MEMORY)
    sum(with_penalty(module(x[i : i + 1]), y[i : i + 1]) for i in range(COUNT)).backward()
    for name, each in learned(module).items():
        torch.testing.assert_close(sums[name], each.grad, rtol=1e-12, atol=1e-12)


def test_a_batch_without_vmap_mixes_examples_of_a_module_that_does() -> None:
    """The control of the case `mixing` above."""
    module, (x, y) = mixing().double(), examples((6,))
    found = one_pass(problem(module, criterion, x, y), (x, y)).gradients["inner.weight"].rows(0, 5)
    alone = torch.stack([each["inner.weight"].flatten() for each in one_at_a_time(module, x, y)])
    assert float((found - alone).abs().max()) < 1e-12
    (mixed,) = torch.autograd.grad(criterion(module(x)[:1], y[:1]), [module.inner.weight])
    assert float((mixed.flatten() - alone[0]).abs().max()) > 1e-2


@pytest.mark.few(2)
@pytest.mark.parametrize("case", ["residual", "LoRA", "tied words", "LSTM", "GRU", "heads", "layer norm"])
def test_mixed_precision_is_near(case: str) -> None:
    make, shape = CASES[case]
    module, (x, y) = make(), examples(shape, torch.float32)
    clip = Euclidean(clip=50.0)
    exact, _, _ = clipped_sum(module, criterion, x, y, clip, MEMORY)
    with torch.autocast("cpu", torch.bfloat16):
        sums, losses, _ = clipped_sum(module, criterion, x, y, clip, MEMORY)
        whole, _, _ = clipped_sum(module, criterion, x, y, Elementwise(clip=0.01), MEMORY)
    assert not losses.isnan().any()
    for name, total in sums.items():
        assert total.dtype == torch.float64
        assert float((total - exact[name]).norm()) <= 0.1 * float(exact[name].norm()) + 0.02
        assert torch.equal(whole[name], whole[name].round())
        assert whole[name].abs().max() <= COUNT * Elementwise(clip=0.01).levels


def test_the_engine_explains_each_parameter() -> None:
    """Of one without a rule, each example has a view."""
    module, (x, y) = scaled(), examples((4, 6), torch.float32)
    engine, optimizer, _ = private(module, x, y, criterion=criterion)
    assert engine.explain() == optimizer.explain()
    assert engine.explain().splitlines()[0] == "the module runs under torch.func.vmap, one example each"
    assert "scale: in the one pass, a view for each example, since mul uses it and has no rule" in engine.explain()
    for name in ("inner.weight", "inner.bias", "free"):
        assert f"{name}: in the one pass, rule: linear" in engine.explain()
    engine, _, _ = private(deciding(), x[:, 0], y, criterion=criterion)
    assert engine.explain().startswith("every parameter: one example at a time")


@pytest.mark.few(3)
@pytest.mark.parametrize("case", ["linear of a sequence", "conv2d", "tied words", "LSTM", "residual", "encoder layer"])
def test_rows_that_are_made_twice_give_the_same_sums(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, where wide rows are not held; and a second making that comes out longer is scaled down."""
    make, shape = CASES[case]
    module, (x, y) = make().double(), examples(shape)
    monkeypatch.setattr(gradient_forms, "_WIDE", {"cpu": 1})
    monkeypatch.setattr(gradient_forms, "_HELD_AT_ONCE", {"cpu": 100})
    assert difference(module, x, y, Euclidean(clip=0.05)) < 1e-12
    assert difference(module, x, y, Euclidean(clip=50.0)) < 1e-12
    calls = iter((1.0, 1.0, 3.0, 0.5))
    rows = gradient_forms.ExampleRows(
        count=2, width=60, make=lambda a, b: torch.full((b - a, 60), next(calls)), device=torch.device("cpu")
    )
    lengths = rows.squares()
    torch.testing.assert_close(lengths, torch.full((2,), 60.0).double())
    torch.testing.assert_close(rows.weighted(torch.ones(2, dtype=torch.float64)), torch.full((60,), 1.5).double())


@pytest.mark.parametrize(
    ("input", "slope"), [(3e307, 1e-300), (1.5e-162, 1e154), (1e308, 1e-290), (1e-300, 1e308), (1.0, 1e150)]
)
def test_no_double_is_too_large_or_too_small_for_a_clip(input, slope):
    """A weight times a factor may be below all doubles where its product with the other factor is not."""
    clip = Euclidean(clip=1e-16)
    a, g = (torch.tensor([[each]], dtype=torch.float64) for each in (input, slope))
    made = OuterProducts(a=a, g=g)
    weights = clip.shrink(made.squares())
    assert 0.9 * clip.clip < float(made.weighted(weights)) <= clip.clip
    if input == 3e307:  # the control: factor by factor it is longer than the clip
        assert float((weights * g[0]) * a[0]) > 1.4 * clip.clip
