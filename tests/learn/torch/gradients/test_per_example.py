"""Sums of clipped gradients in floats against a loop over the examples, on every route; what is refused."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import rangebound as rb
from rangebound.learn.torch import Elementwise, Euclidean
from rangebound.learn.torch.gradients.per_example import check_module
from rangebound.learn.torch.gradients.sums import blocked, clamped_products, weighted
from rangebound.learn.torch.gradients.sums import squares as squares_of
from tests.learn.torch.gradients.test_layer_rules import MEMORY, difference
from tests.learn.torch.models import CRITERION, SHAPES, Built, clipped_sum, data, deciding, linear


def off(module: nn.Module, x: torch.Tensor, y: torch.Tensor, rule: Any, memory: int = MEMORY) -> float:
    """How far the sums of twelve clipped gradients are from those of a loop, less a quantum for each."""
    unit = rule.quantum if isinstance(rule, Elementwise) else 0.0
    return difference(module, x, y, rule, memory) * (unit or 1.0) - 12 * unit


@pytest.mark.few(5)
@pytest.mark.parametrize("kind", SHAPES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    "rule", [*(Elementwise(clip=clip) for clip in (1e-3, 0.05, 100.0)), Euclidean(clip=0.3)], ids=str
)
def test_sums_in_floats_are_those_of_a_loop(kind: Callable[[], nn.Module], rule: Any) -> None:
    module, (x, y) = kind(), data(SHAPES[kind])
    assert off(module, x, y, rule) <= 12 * 4e-6
    assert off(module, x, y, rule, memory=1) <= 12 * 4e-6  # in small pieces
    one, _, _ = clipped_sum(module, CRITERION, x[:1], y[:1], Euclidean(clip=1e-3), MEMORY)
    length = torch.cat([part.reshape(-1) for part in one.values()]).norm().item()
    assert 0.999e-3 <= length <= 1e-3


def test_the_clip_is_exact_at_the_bound() -> None:
    rule = Elementwise(clip=0.1)
    assert 0.1 * (1 - 2**-17) < rule.bound <= 0.1
    rows = torch.tensor([[50.0, -50.0, rule.bound, torch.inf, 0.0]]).repeat(7, 1)
    found = clamped_products(rows, torch.ones(7, 1), rule)[0] * rule.quantum
    assert found.tolist() == [7 * rule.bound, -7 * rule.bound, 7 * rule.bound, 7 * rule.bound, 0.0]
    assert Elementwise(clip=0.75).bound == 0.75
    found = clamped_products(torch.full((3, 70), torch.nan), torch.ones(3, 1), rule) * rule.quantum  # no number
    assert bool((found.isnan() | (found.abs() <= 3 * rule.bound)).all())


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape", [(4, 1), (3, 37), (7, 70_001), (2, 300_000), (0, 5)])
def test_norms_and_weighted_sums_are_those_of_exact_arithmetic(shape: tuple[int, int], threads: int) -> None:
    rows, weights = 1e3 * torch.randn(shape), torch.rand(shape[0], dtype=torch.float64)
    rows[:1] *= 1e35
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        squares, sums = squares_of(rows), weighted(weights, rows)
        unknown = squares_of(rows[1:2] * torch.nan)
    finally:
        torch.set_num_threads(before)
    exact = [math.fsum(x * x for x in row) for row in rows.double().tolist()]
    assert squares.tolist() == pytest.approx(exact, rel=1e-14)
    assert torch.allclose(sums, (weights[:, None] * rows.double()).sum(0), rtol=1e-13, atol=1e-9)
    assert unknown.isnan().all()


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
    ours = clamped_products(a, g, rule)
    plain = blocked(a, g / rule.quantum, rule)
    assert torch.equal(ours, plain)
    order = torch.randperm(rows, generator=generator)
    assert torch.equal(clamped_products(a[order], g[order], rule), plain)  # in any order of the examples
    if clip == 1e-3 and rows > 2:
        assert not torch.equal(ours * rule.quantum, g.double().T @ a.double())  # a control: the clamp matters


@pytest.mark.parametrize("kind", [nn.ReLU, nn.LeakyReLU, nn.ELU, nn.SiLU, nn.Dropout], ids=lambda kind: kind.__name__)
def test_layers_in_place_have_their_own_slope(kind: Callable[..., nn.Module]) -> None:
    """A layer that writes over its input must not write over the output whose gradient is asked for."""
    part = kind(0.0, inplace=True) if kind is nn.Dropout else kind(inplace=True)
    module, (x, y) = nn.Sequential(nn.Linear(6, 5), part, nn.Linear(5, 3)), data((6,))
    given = x.clone()
    assert off(module, x, y, Elementwise(clip=8.0)) <= 12 * 4e-6
    assert torch.equal(x, given)


def test_images_without_an_axis_for_examples_are_refused() -> None:
    """Twelve channels and twelve examples: a convolution of the batch would mix them."""
    module = nn.Sequential(nn.Conv2d(12, 12, 1), nn.Flatten(), nn.Linear(16, 3))
    module[0].requires_grad_(False)
    x, y = data((4, 4))
    with pytest.raises(RuntimeError, match="12 channels"):
        clipped_sum(module, CRITERION, x, y, Elementwise(clip=1.0), MEMORY)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, slope: torch.Tensor) -> torch.Tensor:
        return 2.0 * ctx.saved_tensors[0] * slope


def squaring() -> nn.Module:
    return Built(lambda m, x: Square.apply(m.inner(x)), inner=nn.Linear(6, 3))


@pytest.mark.parametrize("kind", [deciding, squaring])
def test_what_vmap_cannot_run_goes_one_by_one(kind: Callable[[], nn.Module]) -> None:
    assert off(kind(), *data((6,)), Elementwise(clip=8.0)) <= 12 * 4e-6


class Centred(nn.Module):
    """A criterion that decides by values and remembers what it saw."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0.0

    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        self.seen += output.sum().item()
        return CRITERION(output, target) * (1.0 + self.seen**2)


@pytest.mark.parametrize("kind", [linear, deciding])
def test_a_criterion_that_vmap_cannot_run_goes_one_by_one(kind: Callable[[], nn.Module]) -> None:
    module, rule, criterion, (x, y) = kind(), Elementwise(clip=8.0), Centred(), data((6,))
    sums, losses, _ = clipped_sum(module, criterion, x, y, rule, MEMORY)
    assert criterion.seen == 0.0
    alone = [clipped_sum(module, criterion, x[i : i + 1], y[i : i + 1], rule, MEMORY) for i in range(12)]
    torch.testing.assert_close(losses, torch.cat([each for _, each, _ in alone]))
    for name, total in sums.items():
        assert (total - sum(each[name] for each, _, _ in alone)).abs().max() <= 12


def hooked() -> nn.Module:
    module = nn.Linear(6, 3)
    module.weight.register_hook(lambda g: g * 0.0)
    return module


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (nn.BatchNorm1d(6), "GroupNorm"), (nn.BatchNorm2d(2), "GroupNorm"), (nn.SyncBatchNorm(3), "GroupNorm"),
        (nn.InstanceNorm2d(3, track_running_stats=True), "no noise covers"), (nn.LazyLinear(3), "lazy"),
        (nn.Embedding(7, 5, max_norm=1.0), "max_norm"), (nn.EmbeddingBag(7, 5, max_norm=1.0), "max_norm"),
        (hooked(), "hook on its gradient"), (nn.utils.spectral_norm(nn.Linear(6, 6)), "parametrizations.spectral_norm"),
    ],
    ids=str,
)  # fmt: skip
def test_modules_that_mix_examples_or_keep_them_are_refused(part: nn.Module, words: str) -> None:
    with pytest.raises(rb.errors.ArgumentError, match=words):
        check_module(nn.Sequential(nn.Linear(6, 6), part))
    assert check_module(nn.Sequential(nn.Linear(6, 6), nn.GroupNorm(2, 6), nn.InstanceNorm2d(3)))  # the control
    with pytest.raises(rb.errors.ArgumentError, match="nothing to learn"):
        check_module(nn.ReLU())


@pytest.mark.parametrize("clip", [0.0, -1.0, float("nan"), float("inf"), "1", True, 1e-40])
@pytest.mark.parametrize("kind", [Elementwise, Euclidean])
def test_bad_clips_are_refused(kind: type, clip: object) -> None:
    with pytest.raises(rb.errors.RangeboundError, match="clip"):
        kind(clip=clip)
