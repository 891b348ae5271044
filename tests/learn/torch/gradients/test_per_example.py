"""Sums of clipped gradients against a loop over the examples, on every route."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import rangebound as rb  # noqa: E402
from rangebound.learn.torch import Elementwise, Euclidean  # noqa: E402
from rangebound.learn.torch.gradients import clamped  # noqa: E402
from rangebound.learn.torch.gradients.chain_of_layers import is_chain  # noqa: E402
from rangebound.learn.torch.gradients.per_example import check_module, clipped_sum, example_gradients, learned  # noqa: E402
from tests.learn.torch.models import CRITERION, SHAPES, Custom, Mixing, chain, data, images, linear  # noqa: E402

MODELS = list(SHAPES)
MEMORY = 2**28


def loop(module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> list[dict[str, torch.Tensor]]:
    """The gradient of each example by itself, by ordinary backward passes."""
    found = []
    for i in range(len(x)):
        module.zero_grad(set_to_none=False)
        CRITERION(module(x[i : i + 1].clone()), y[i : i + 1]).backward()
        grads = {
            name: torch.zeros_like(each) if each.grad is None else each.grad for name, each in learned(module).items()
        }
        found.append({name: each.clone() for name, each in grads.items()})
    return found


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
def test_example_gradients_are_those_of_a_loop(kind: Callable[[], nn.Module]) -> None:
    torch.manual_seed(1)
    module = kind()
    x, y = data(SHAPES[kind])
    ours, losses = example_gradients(module, learned(module), CRITERION, x, y)
    for i, theirs in enumerate(loop(module, x, y)):
        for name, each in theirs.items():
            torch.testing.assert_close(ours[name][i], each, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(losses.sum(), CRITERION(module(x), y, reduction="sum").detach())


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("clip", [1e-3, 0.05, 100.0])
def test_elementwise_sums_are_those_of_a_loop(kind: Callable[[], nn.Module], clip: float) -> None:
    torch.manual_seed(2)
    module, rule = kind(), Elementwise(clip=clip)
    assert is_chain(module) == (kind is not Custom)
    x, y = data(SHAPES[kind])
    sums, _ = clipped_sum(module, CRITERION, x, y, rule, MEMORY)
    singles = loop(module, x, y)
    for name, total in sums.items():
        quanta = [(each[name].double().clamp(-rule.bound, rule.bound) / rule.quantum).round() for each in singles]
        assert torch.equal(total, total.round())  # whole numbers
        off = (total - sum(quanta)).abs().max().item() * rule.quantum
        assert off <= 12 * (rule.quantum + 4e-6)


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
def test_euclidean_sums_are_those_of_a_loop(kind: Callable[[], nn.Module]) -> None:
    torch.manual_seed(3)
    module, rule = kind(), Euclidean(clip=0.3)
    x, y = data(SHAPES[kind])
    sums, _ = clipped_sum(module, CRITERION, x, y, rule, MEMORY)
    expected = {name: torch.zeros_like(total) for name, total in sums.items()}
    for each in loop(module, x, y):
        length = torch.cat([part.reshape(-1).double() for part in each.values()]).norm()
        for name, part in each.items():
            expected[name] += part.double() * min(1.0, rule.target / length.item())
    for name, total in sums.items():
        torch.testing.assert_close(total, expected[name], rtol=1e-5, atol=1e-6)
    one, _ = clipped_sum(module, CRITERION, x[:1], y[:1], Euclidean(clip=1e-3), MEMORY)
    length = torch.cat([part.reshape(-1) for part in one.values()]).norm().item()
    assert 0.999e-3 <= length <= 1e-3


@pytest.mark.parametrize("kind", [linear, images, Custom], ids=lambda kind: kind.__name__)
def test_small_pieces_give_the_same_sum(kind: Callable[[], nn.Module]) -> None:
    module, rule = kind(), Elementwise(clip=0.01)
    x, y = data(SHAPES[kind])
    whole, _ = clipped_sum(module, CRITERION, x, y, rule, MEMORY)
    pieces, losses = clipped_sum(module, CRITERION, x, y, rule, 1)
    assert len(losses) == len(x)
    for name, total in whole.items():
        assert (total - pieces[name]).abs().max().item() * rule.quantum <= 12 * (rule.quantum + 1e-6)


def test_the_clip_is_exact_at_the_bound() -> None:
    rule = Elementwise(clip=0.1)
    assert 0.1 * (1 - 2**-17) < rule.bound <= 0.1
    rows = torch.tensor([[50.0, -50.0, rule.bound, torch.inf, 0.0]]).repeat(7, 1)
    sums = clamped.clamped_rows(rows, rule) * rule.quantum
    assert sums.tolist() == [7 * rule.bound, -7 * rule.bound, 7 * rule.bound, 7 * rule.bound, 0.0]
    assert Elementwise(clip=0.75).bound == 0.75


@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (5, 3, 2), (700, 70, 3), (33, 129, 10), (2, 64, 1), (193, 96, 33), (384, 48, 16)]
)
@pytest.mark.parametrize("clip", [1e-3, 0.3, 1e4])
def test_the_kernel_is_the_blocked_route(shape: tuple[int, int, int], clip: float) -> None:
    rows, columns, outputs = shape
    generator = torch.Generator().manual_seed(4)
    a = torch.randn(rows, columns, generator=generator)
    g = torch.randn(rows, outputs, generator=generator)
    rule = Elementwise(clip=clip)
    ours = clamped.clamped_products(a, g, rule)
    plain = clamped.blocked(a, g / rule.quantum, rule)
    assert torch.equal(ours, plain)
    order = torch.randperm(rows, generator=generator)
    assert torch.equal(clamped.clamped_products(a[order], g[order], rule), plain)  # in any order of the examples
    if clip == 1e-3 and rows > 2:
        assert not torch.equal(ours * rule.quantum, g.double().T @ a.double())  # a control: the clamp matters


def test_what_is_no_number_stays_within_the_bound() -> None:
    rule = Elementwise(clip=1.0)
    sums = clamped.clamped_rows(torch.full((3, 70), torch.nan), rule) * rule.quantum
    assert bool((sums.isnan() | (sums.abs() <= 3.0)).all())


def test_doubles_stay_doubles() -> None:
    module = chain().double()
    x, y = data((6,))
    rule = Elementwise(clip=1.0)
    sums, _ = clipped_sum(module, CRITERION, x.double(), y, rule, MEMORY)
    expected = sum((each["0.weight"] / rule.quantum).round() for each in loop(module, x.double(), y))
    assert torch.equal(sums["0.weight"], expected)


def test_an_example_cannot_reach_into_another() -> None:
    module = Mixing()
    x, y = data((6,), count=2)
    rule = Elementwise(clip=1.0)
    both, _ = clipped_sum(module, CRITERION, x, y, rule, MEMORY)
    parts = [clipped_sum(module, CRITERION, x[i : i + 1], y[i : i + 1], rule, MEMORY)[0] for i in range(2)]
    for name, total in both.items():
        assert (total - parts[0][name] - parts[1][name]).abs().max() <= 2
    CRITERION(module(x), y, reduction="sum").backward()  # the control: an ordinary pass mixes them
    weight = both["inner.weight"] * rule.quantum
    assert not torch.allclose(module.inner.weight.grad.double(), weight, atol=1e-3)


def test_only_untouched_chains_take_the_quick_route() -> None:
    assert not is_chain(Mixing())
    assert not is_chain(nn.Sequential(nn.Linear(2, 2), nn.Softmax(dim=0)))
    hooked = nn.Sequential(nn.Linear(3, 3))
    hooked[0].register_forward_hook(lambda module, given, output: output + output.mean(0))
    assert not is_chain(hooked)


@pytest.mark.parametrize("kind", [nn.ReLU, nn.LeakyReLU, nn.ELU, nn.SiLU, nn.Dropout], ids=lambda kind: kind.__name__)
def test_layers_in_place_have_their_own_slope(kind: Callable[..., nn.Module]) -> None:
    """A layer that writes over its input must not write over the output whose gradient is asked for."""
    torch.manual_seed(5)
    part = kind(0.0, inplace=True) if kind is nn.Dropout else kind(inplace=True)
    module, rule = nn.Sequential(nn.Linear(6, 5), part, nn.Linear(5, 3)), Elementwise(clip=8.0)
    assert is_chain(module)
    x, y = data((6,))
    given = x.clone()
    sums, _ = clipped_sum(module, CRITERION, x, y, rule, MEMORY)
    for name, total in sums.items():
        expected = sum(each[name].double() for each in loop(module, given, y))
        torch.testing.assert_close(total * rule.quantum, expected, rtol=0.0, atol=12 * (rule.quantum + 4e-6))
    assert torch.equal(x, given)


def test_a_replaced_function_takes_the_slow_route() -> None:
    module = nn.Sequential(nn.Linear(6, 3))
    module[0].forward = lambda x: nn.functional.linear(x - x.mean(0), module[0].weight, module[0].bias)
    assert not is_chain(module)
    assert is_chain(nn.Sequential(nn.Linear(6, 3)))
    hook = nn.modules.module.register_module_forward_hook(lambda part, given, output: output - output.mean(0))
    assert not is_chain(nn.Sequential(nn.Linear(6, 3)))
    hook.remove()


def test_images_without_an_axis_for_examples_are_refused() -> None:
    """Twelve channels and twelve examples: the convolution would mix them."""
    module = nn.Sequential(nn.Conv2d(12, 12, 1), nn.Flatten(), nn.Linear(16, 3))
    module[0].requires_grad_(False)
    x, y = data((4, 4))
    with pytest.raises(rb.errors.ArgumentError, match="four axes"):
        clipped_sum(module, CRITERION, x, y, Elementwise(clip=1.0), MEMORY)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.out = nn.GRU(6, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.inner(x)[0][:, -1])


class Deciding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(6, 3), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.one(x) if x.sum() > 0.0 else self.other(x)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, slope: torch.Tensor) -> torch.Tensor:
        return 2.0 * ctx.saved_tensors[0] * slope


class Squaring(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Square.apply(self.inner(x))


class Remembering(nn.Module):
    """Moves its input by a mean over all examples so far, kept in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 3)
        self.register_buffer("seen", torch.zeros(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.mul_(0.5).add_(0.5 * x.mean(0).detach())
        return self.inner(x - self.seen)


@pytest.mark.parametrize("kind", [Recurrent, Deciding, Squaring, Remembering], ids=lambda kind: kind.__name__)
def test_what_vmap_cannot_run_goes_one_by_one(kind: Callable[[], nn.Module]) -> None:
    module, rule = kind(), Elementwise(clip=8.0)
    x, y = data((3, 6) if kind is Recurrent else (6,))
    sums, losses = clipped_sum(module, CRITERION, x, y, rule, MEMORY)
    assert losses.shape == (12,)
    if kind is Remembering:
        assert not module.seen.any()  # nothing of the data is left in the module
    singles = [loop(copy.deepcopy(module), x[i : i + 1], y[i : i + 1])[0] for i in range(12)]
    for name, total in sums.items():
        expected = sum(each[name].double() for each in singles)
        torch.testing.assert_close(total * rule.quantum, expected, rtol=0.0, atol=12 * (rule.quantum + 4e-6))
    if kind is Remembering:  # the control: one module for all examples does mix them
        mixed = sum(each["inner.weight"].double() for each in loop(module, x, y))
        assert not torch.allclose(sums["inner.weight"] * rule.quantum, mixed, atol=1e-2)


class Centred(nn.Module):
    """A criterion that decides by values and remembers what it saw."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0.0

    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        self.seen += output.sum().item()
        return CRITERION(output, target) * (1.0 + self.seen**2)


@pytest.mark.parametrize("kind", [linear, Recurrent])
def test_a_criterion_that_vmap_cannot_run_goes_one_by_one(kind: Callable[[], nn.Module]) -> None:
    module, rule, criterion = kind(), Elementwise(clip=8.0), Centred()
    x, y = data((3, 6) if kind is Recurrent else (6,))
    sums, losses = clipped_sum(module, criterion, x, y, rule, MEMORY)
    assert criterion.seen == 0.0
    alone = [clipped_sum(module, criterion, x[i : i + 1], y[i : i + 1], rule, MEMORY) for i in range(12)]
    torch.testing.assert_close(losses, torch.cat([each for _, each in alone]))
    for name, total in sums.items():
        assert (total - sum(each[name] for each, _ in alone)).abs().max() <= 12


def test_statistics_of_the_data_are_refused() -> None:
    with pytest.raises(rb.errors.ArgumentError, match="no noise covers"):
        check_module(nn.Sequential(nn.Conv2d(2, 3, 1), nn.InstanceNorm2d(3, track_running_stats=True)))
    assert check_module(nn.Sequential(nn.Conv2d(2, 3, 1), nn.InstanceNorm2d(3)))
    with pytest.raises(rb.errors.ArgumentError, match="lazy"):
        check_module(nn.LazyLinear(3))


def test_frozen_parameters_are_left_out() -> None:
    module = chain()
    module[0].weight.requires_grad_(False)
    x, y = data((6,))
    sums, _ = clipped_sum(module, CRITERION, x, y, Elementwise(clip=1.0), MEMORY)
    assert sorted(sums) == ["0.bias", "2.0.weight"]


def test_mixed_precision_is_clipped_in_floats() -> None:
    module, rule = chain(), Elementwise(clip=0.01)
    x, y = data((6,))
    with torch.autocast("cpu", torch.bfloat16):
        low, _ = clipped_sum(module, CRITERION, 1e3 * x, y, rule, MEMORY)
    for each in low.values():
        assert each.dtype == torch.float64
        assert each.abs().max() * rule.quantum <= 12 * rule.bound
        assert torch.equal(each, each.round())


@pytest.mark.parametrize("bad", [nn.BatchNorm1d(6), nn.BatchNorm2d(2), nn.SyncBatchNorm(3)])
def test_modules_that_mix_examples_are_refused(bad: nn.Module) -> None:
    with pytest.raises(rb.errors.ArgumentError, match="GroupNorm"):
        check_module(nn.Sequential(nn.Linear(6, 6), bad))
    assert check_module(nn.Sequential(nn.Linear(6, 6), nn.GroupNorm(2, 6)))


def test_nothing_to_learn_is_refused() -> None:
    with pytest.raises(rb.errors.ArgumentError, match="nothing to learn"):
        check_module(nn.ReLU())


@pytest.mark.parametrize("clip", [0.0, -1.0, float("nan"), float("inf"), "1", True, 1e-40])
@pytest.mark.parametrize("kind", [Elementwise, Euclidean])
def test_bad_clips_are_refused(kind: type, clip: object) -> None:
    with pytest.raises(rb.errors.RangeboundError, match="clip"):
        kind(clip=clip)
