"""Sums of clipped gradients against a loop over the examples, on every route."""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import rangebound as rb  # noqa: E402
from rangebound.learn.torch import Elementwise, Euclidean, clamped, layers  # noqa: E402
from rangebound.learn.torch.gradients import check_module, clipped_sum, example_gradients, learned  # noqa: E402
from tests.learn.torch.models import CRITERION, SHAPES, Custom, Mixing, chain, data, images, linear  # noqa: E402

MODELS = list(SHAPES)
MEMORY = 2**28


def loop(module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> list[dict[str, torch.Tensor]]:
    """The gradient of each example by itself, by ordinary backward passes."""
    found = []
    for i in range(len(x)):
        module.zero_grad()
        CRITERION(module(x[i : i + 1]), y[i : i + 1]).backward()
        found.append({name: each.grad.clone() for name, each in learned(module).items()})
    return found


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
def test_example_gradients_are_those_of_a_loop(kind: Callable[[], nn.Module]) -> None:
    torch.manual_seed(1)
    module = kind()
    x, y = data(SHAPES[kind])
    ours, losses = example_gradients(module, CRITERION, x, y)
    for i, theirs in enumerate(loop(module, x, y)):
        for name, each in theirs.items():
            torch.testing.assert_close(ours[name][i], each, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(losses.sum(), CRITERION(module(x), y, reduction="sum").detach())


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("clip", [1e-3, 0.05, 100.0])
def test_elementwise_sums_are_those_of_a_loop(kind: Callable[[], nn.Module], clip: float) -> None:
    torch.manual_seed(2)
    module, rule = kind(), Elementwise(clip=clip)
    assert (layers.chain(module) is None) == (kind is Custom)
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


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 3, 2), (700, 70, 3), (33, 129, 10), (2, 64, 1)])
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
    shared = nn.Linear(3, 3)
    assert layers.chain(nn.Sequential(shared, shared)) is None
    assert layers.chain(Mixing()) is None
    assert layers.chain(nn.Sequential(nn.Conv2d(2, 2, 1, groups=2))) is None
    assert layers.chain(nn.Sequential(nn.Linear(2, 2), nn.Softmax(dim=0))) is None
    tied = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    tied[1].weight = tied[0].weight
    assert layers.chain(tied) is None
    hooked = nn.Sequential(nn.Linear(3, 3))
    hooked[0].register_forward_hook(lambda module, given, output: output + output.mean(0))
    assert layers.chain(hooked) is None


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
