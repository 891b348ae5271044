"""No single example decides whether a step is taken: what is not finite counts with gradient zero, in silence."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import rangebound as rb
from rangebound.accounting.fisher_information import PerInstance
from rangebound.learn.torch import Elementwise, Euclidean, FisherWatcher, RenyiWatcher
from rangebound.learn.torch.gradients import sums
from rangebound.learn.torch.gradients.one_pass import learned
from rangebound.learn.torch.gradients.sums import blocked
from tests.learn.torch.models import (
    CRITERION,
    SHAPES,
    Built,
    NoNoise,
    clipped_sum,
    custom,
    data,
    deciding,
    linear,
    private,
    simple,
    train,
)
from tests.thinning import crossed

MEMORY = 2**24


MODELS: dict[Callable[[], nn.Module], tuple[int, ...]] = {**SHAPES, deciding: (6,)}  # type: ignore[dict-item]
LARGEST = {torch.float64: 1e300, torch.float32: 1e38, torch.bfloat16: 1e38}


def square(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """A loss, and a gradient, that overflow where the outputs are large."""
    return (output**3).sum() * 1e30


def infinite(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """A loss that is infinite, and whose gradient is NaN, where an output is not positive."""
    return -(output - output.detach() + torch.relu(output.detach() - 3.0)).log().sum()


def length(sums: dict[str, torch.Tensor], clip: Any) -> float:
    """How far sums are from zero, in clips: the largest coordinate, or the length."""
    whole = torch.cat([each.reshape(-1) for each in sums.values()])
    assert torch.isfinite(whole).all()
    return float(whole.abs().max()) / clip.levels if isinstance(clip, Elementwise) else float(whole.norm()) / clip.clip


@pytest.mark.few(2)
@crossed(
    {
        "kind": MODELS,
        "dtype": [torch.float32, torch.float64, torch.bfloat16],
        "clip": [Elementwise(clip=1e-3), Elementwise(clip=1e-30), Euclidean(clip=1e-3)],
    },
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_a_bad_example_moves_the_sum_by_no_more_than_the_clip(kind: Any, dtype: Any, clip: Any) -> None:
    """Every route, layer and precision: with and without the example, and NaN or infinite ones move nothing at all."""
    module = kind().to(dtype)
    x, y = data(MODELS[kind], count=2)
    x, largest = x.to(dtype), LARGEST[dtype]
    found = {}
    for value, whole, criterion in (
        (math.nan, True, CRITERION), (math.inf, False, CRITERION), (largest, True, CRITERION),
        (-largest, False, square), (0.0, True, infinite),
    ):  # fmt: skip
        bad = x[:1].clone()
        bad.view(-1)[slice(None) if whole else slice(1)] = value  # all numbers of the example, or one
        if criterion not in found:  # layers round otherwise in batches of another size: each example by itself
            found[criterion] = [
                clipped_sum(module, criterion, x[i : i + 1], y[i : i + 1], clip, MEMORY) for i in (0, 1)
            ]
        both, losses, _ = clipped_sum(module, criterion, torch.cat([x, bad]), y[[0, 1, 0]], clip, MEMORY)
        moved = {name: both[name] - sum(sums[name] for sums, _, _ in found[criterion]) for name in both}
        room = {torch.float64: 1e-9, torch.float32: 1e-3, torch.bfloat16: 1e-1}[dtype]
        assert length(moved, clip) <= 1.0 + (0.0 if dtype is torch.float64 else room)
        if not math.isfinite(value):
            assert length(moved, clip) <= room
            assert losses.isnan().tolist() == [False, False, True]


def test_the_control_without_the_rule_is_caught() -> None:
    """A sum of rows as they are is NaN once one of them is."""
    rows = torch.tensor([[1.0, 2.0], [math.nan, 1.0]])
    assert blocked(rows, torch.ones(2, 1), Elementwise(clip=1.0)).isnan().any()


@pytest.mark.parametrize("clip", [Elementwise(clip=1.0), Euclidean(clip=1.0)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_row_does_not_stop_a_step(clip: Any, dtype: Any) -> None:
    """With a row of NaN, infinities or 1e300 there was an error, and without it a step."""
    huge = 1e30 if dtype is torch.float32 else 1e300
    for value in (math.nan, math.inf, huge):
        x = torch.tensor([[1.0, 2.0]] * 4 + [[value, 1.0]], dtype=dtype)
        seen: list[torch.Tensor] = []
        model = nn.Linear(2, 2).to(dtype)
        engine, optimizer, loader = private(
            model, x, torch.zeros(5, dtype=torch.long), clipping=clip, noise=NoNoise(seen=seen)
        )
        train(optimizer, loader, 3)  # in silence: a warning is an error
        assert engine.steps == 3
        assert all(torch.isfinite(each).all() for each in (*seen, *model.parameters()))
        if not math.isfinite(value):
            assert optimizer.bad_examples.reveal() == 3.0


class Unheard(Exception):
    pass


def picky(refused: Callable[[torch.Tensor, torch.Tensor], object], error: Any = ValueError) -> Any:
    def criterion(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        if refused(output.detach(), target):
            raise error("what is nobody's business")
        return CRITERION(output, target.clamp(0, 2))

    return criterion


@pytest.mark.parametrize("error", [AssertionError, AttributeError, KeyError, TypeError, ZeroDivisionError, Unheard])
def test_whatever_a_criterion_raises_for_a_label_it_is_a_bad_example(error: Any) -> None:
    x, y = data((6,), count=4)
    y[2] = 7
    for kind in (linear, deciding):
        criterion = picky(lambda output, target: int(target) == 7, error)
        _, losses, _ = clipped_sum(kind(), criterion, x, y, Euclidean(clip=1.0), MEMORY)
        assert losses.isnan().tolist() == [False, False, True, False]


@pytest.mark.parametrize("kind", [linear, custom, deciding])
def test_a_wrong_call_is_an_error_that_shows_no_data(kind: Any) -> None:
    """Not every error may be taken for that of an example: a model of the wrong size would train on noise alone."""
    x, y = data((5,), count=4)
    x[:] = 41.75
    with pytest.raises(RuntimeError) as caught:
        clipped_sum(kind(), CRITERION, x, y, Elementwise(clip=1.0), MEMORY)
    assert "41.75" not in str(caught.value)

    def wrong_for_all(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        raise ValueError(f"target {int(target)}")

    x, y = data((6,), count=4)
    with pytest.raises(ValueError, match="target 0") as wrong:  # of zeros in the place of an example
        clipped_sum(kind(), wrong_for_all, x, y + 5, Elementwise(clip=1.0), MEMORY)
    assert all(f"target {k}" not in str(wrong.value.__context__) for k in (5, 6, 7))


def test_zeros_alone_decide_nothing() -> None:
    """A module may refuse a matrix of zeros, and a criterion the label 0, while true examples have neither."""
    module = Built(lambda m, x: m.inner(torch.linalg.inv(x.reshape(-1, 2, 2)).flatten(1)), inner=nn.Linear(4, 3))
    x, y = data((4,), count=4)
    x[2], y = x[2] * 0.0, y + 1
    for criterion in (picky(lambda o, t: int(t) == 0), lambda output, target: CRITERION(output, target - 1)):
        for chunk in (None, 6):
            _, losses, _ = clipped_sum(module, criterion, x, y, Euclidean(clip=1.0), MEMORY, chunk)
            assert losses.isnan().tolist() == [False, False, True, False]


def test_parameters_that_let_made_up_examples_fail_let_no_true_one_end_a_step() -> None:
    """Whether the call is right was seen at the first step; later, an error would say that the example is there."""
    criterion = picky(lambda output, target: float(output.max()) > 5.0)
    module, (x, y) = Built(lambda m, x: m.inner(x), inner=linear()), data((6,), count=4)
    x[:, 0] = torch.tensor([-1.0, -1.0, 1.0, -1.0])
    with torch.no_grad():
        module.inner.weight.zero_()[:, 0] = 10.0
    for bias in (0.0, 8.0):
        nn.init.constant_(module.inner.bias, bias)
        _, losses, _ = clipped_sum(module, criterion, x, y, Euclidean(clip=1.0), MEMORY)
        assert losses.isnan().tolist() == [False, False, True, False]


def test_bad_examples_are_counted_in_private() -> None:
    x, y = data((6,), count=8)
    x[3] = math.nan
    watchers = RenyiWatcher(orders=(2.0,)), FisherWatcher(iterations=3)
    engine, optimizer, loader = private(linear(), x, y, watchers=watchers)
    assert optimizer.bad_examples.reveal() == 0.0
    train(optimizer, loader, 2)
    assert isinstance(optimizer.bad_examples, PerInstance)
    assert "2" not in repr(optimizer.bad_examples)
    assert optimizer.bad_examples.reveal() == 2.0
    assert engine.steps == 2
    assert watchers[1].loss(3).reveal() == 0.0  # it moved nothing
    assert watchers[1].loss(2).reveal() > 0.0
    assert math.isfinite(watchers[1].largest().reveal())
    for a, b in loader:
        optimizer.backward(a, b)
        optimizer.zero_grad()  # what is forgotten is not counted
        optimizer.backward(a, b)
        optimizer.step()
    assert optimizer.bad_examples.reveal() == 3.0


def test_a_model_that_has_diverged_is_an_error_by_its_parameters() -> None:
    """They are published, so that the error says nothing about an example."""
    engine, optimizer, loader = simple()
    with torch.no_grad():
        optimizer.module.weight[0, 0] = math.nan
    for a, b in loader:
        optimizer.backward(a, b)
        with pytest.raises(rb.errors.ArgumentError, match="parameters that are not finite"):
            optimizer.step()
    assert engine.steps == 0


def test_all_examples_may_be_bad() -> None:
    x, y = data((6,), count=3)
    x[:] = math.nan
    for kind in (linear, custom, deciding):
        seen: list[torch.Tensor] = []
        module = kind()
        engine, optimizer, loader = private(module, x, y, noise=NoNoise(seen=seen))
        train(optimizer, loader, 1)
        assert not seen[0].any()
        assert len(seen[0]) == sum(each.numel() for each in learned(module).values())
        assert engine.steps == 1


@pytest.mark.parametrize("compiled", [True, False])
def test_factors_too_large_in_quanta_are_clamped(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A factor that overflows when it is counted in quanta, times a zero, would be no number."""
    if not compiled:
        monkeypatch.setattr(sums, "_kernel", None)
    clip = Elementwise(clip=1e-30)
    found = sums.clamped_products(torch.tensor([[0.0, 1.0]]), torch.tensor([[1e30], ]), clip)  # fmt: skip
    assert found.tolist() == [[0.0, clip.levels]]
