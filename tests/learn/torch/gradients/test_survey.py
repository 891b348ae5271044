"""Chunks in which an example's gradient has the same bits at every place, and how floats are multiplied."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from rangebound.learn.torch import Elementwise, Euclidean
from rangebound.learn.torch.gradients import gradient_forms
from rangebound.learn.torch.gradients.gradient_forms import ExampleRows
from rangebound.learn.torch.gradients.one_pass import Problem
from rangebound.learn.torch.gradients.per_example import clipped_sum
from rangebound.learn.torch.gradients.survey import (
    Route,
    SteadyChunk,
    _candidates,
    _found,
    float_precision,
    full_precision,
    steady_chunk,
    survey,
)
from tests.learn.torch.models import Built, data, linear

CLIPS = [Elementwise(clip=1.0), Euclidean(clip=1.0)]


def chunk(moves: Any, size: int, most: int, clip: Any, threads: int = 1) -> Any:
    """What is found where the last of some examples has another gradient if `moves(examples, threads)`."""

    def made(module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
        rows = torch.ones(len(x), 5)
        rows[-1, 3] += 1e-6 * moves(len(x), torch.get_num_threads())
        return {"weight": gradient_forms.held(rows)}

    x, y = data((6,), count=3)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return steady_chunk(Route(separate=False), linear(), made, x, y, clip, size, most)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("clip", CLIPS, ids=["elementwise", "Euclidean"])
@pytest.mark.parametrize(
    ("moves", "size", "most", "threads", "expected"),
    [
        (lambda n, t: False, 6, 99, 1, (6, 1)),
        (lambda n, t: n < 10, 6, 99, 1, (16, 1)),
        (lambda n, t: n % 16, 30, 40, 1, (32, 1)),
        (lambda n, t: n % 16, 35, 40, 1, (32, 1)),  # as many as there is memory for
        (lambda n, t: False, 50, 40, 1, (25, 1)),
        (lambda n, t: n % 16, 50, 40, 1, (32, 1)),
        (lambda n, t: t > 8, 6, 99, 16, (6, 8)),
        (lambda n, t: t > 1, 6, 99, 16, (6, 1)),
        (lambda n, t: t > 8 or n < 10, 6, 99, 16, (16, 8)),
    ],
)
def test_a_chunk_grows_and_then_threads_are_fewer(moves, size, most, threads, expected, clip):
    found = chunk(moves, size, most, clip, threads)
    assert (found.size, found.threads, found.why) == (*expected, "")


@pytest.mark.parametrize(("chunk", "most"), [(256, 180), (10, 99), (100, 8), (1, 1)])
def test_on_a_gpu_smaller_chunks_come_before_full_precision(chunk, most):
    found = [*_candidates(torch.device("cuda"), chunk, most, 4)]
    assert all(0 < each.size <= most and each.threads == 4 for each in found)
    assert [each.exact for each in found] == [False] * 5 + [True]
    if chunk == 256:
        assert [each.size for each in found] == [128, 128, 96, 64, 64, 128]


@pytest.mark.parametrize("clip", CLIPS, ids=["elementwise", "Euclidean"])
def test_where_nothing_helps_it_is_said(clip):
    with pytest.warns(UserWarning, match="which no account covers"):
        found = chunk(lambda n, t: True, 6, 99, clip)
    assert (found.size, found.threads) == (6, 1)
    assert "no account covers" in found.explain()


def route_of(module: nn.Module, clip: Any = CLIPS[1], made: Any = torch.clone) -> Route:
    x, y = data((6,), count=5)
    x = made(x)
    clipped_sum(module, F.cross_entropy, x, y, clip, 2**30, 7)
    return survey(Problem(module, F.cross_entropy, dict(module.named_parameters())), x, y)


def test_dropout_does_not_count_as_a_move_and_a_module_that_is_random_cannot_be_tried():
    module = nn.Sequential(nn.Linear(6, 40), nn.Dropout(0.5), nn.Linear(40, 3))
    (found,) = route_of(module).chunks.values()
    assert not found.why
    assert [each.training for each in module.modules()] == [True] * 4
    (found,) = route_of(Built(lambda m, x: m.one(x + torch.randn_like(x)), one=nn.Linear(6, 3))).chunks.values()
    assert "not tried" in found.why


Rows = Callable[[nn.Module, torch.Tensor, torch.Tensor], torch.Tensor]


def tried(rows: Rows, module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> SteadyChunk:
    """What is found for a module whose gradients are these rows, the last of which has a number on top."""

    def made(part: nn.Module, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
        moved = torch.ones(len(x), 5)
        moved[-1, 3] += rows(part, x, y)
        return {"weight": gradient_forms.held(moved)}

    return steady_chunk(Route(separate=False), module, made, x, y, CLIPS[1], 6, 6)


FLOATS, WORDS = torch.zeros(2, 6), torch.zeros(2, 6, dtype=torch.int64)


@pytest.mark.parametrize(
    ("rows", "x", "y"),
    [
        (lambda part, x, y: part[0].weight.detach().sum(), FLOATS, WORDS[:, 0]),
        (lambda part, x, y: x.sum(), WORDS, WORDS[:, 0]),
        (lambda part, x, y: y.sum(), FLOATS, WORDS[:, 0]),
        (lambda part, x, y: x.sum(), FLOATS, FLOATS),
        (lambda part, x, y: x.log().sum(), FLOATS, FLOATS),
    ],
    ids=["weights", "words", "classes", "numbers", "positive numbers"],
)
def test_zeros_hide_nothing(rows, x, y):
    module = nn.Sequential(nn.Linear(6, 3), nn.Dropout(0.5))
    for each in module.parameters():
        nn.init.zeros_(each)
    with pytest.warns(UserWarning, match="no account covers"):
        assert "moved" in tried(rows, module, x, y).why
    assert not any(each.any() for each in module.parameters())
    assert [each.training for each in module.modules()] == [True] * 3


@pytest.mark.parametrize("factor", [math.nan, math.inf, 0.0])
def test_gradients_that_are_no_numbers_or_zero_tell_nothing(factor):
    def made(part: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Any:
        return {"weight": gradient_forms.held(torch.full((len(x), 5), factor))}

    found = steady_chunk(Route(separate=False), linear(), made, FLOATS, FLOATS, CLIPS[1], 6, 6)
    assert "not tried" in found.why


def test_a_module_that_takes_only_some_numbers_is_tried_with_those():
    """Python code that takes images from 0 to 1, and that vmap cannot run."""

    def positive(module: Any, x: torch.Tensor) -> torch.Tensor:
        assert float(x.min()) >= 0.0
        return module.one(x)

    (found,) = route_of(Built(positive, one=nn.Linear(6, 3)), made=torch.abs).chunks.values()
    assert not found.why


def test_a_module_that_takes_no_made_up_numbers_is_not_tried():
    def rows(part: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        part.add_module("late", nn.Linear(1, 1))
        raise KeyError("a number that was not foreseen")

    module = linear()
    assert "not tried" in tried(rows, module, FLOATS, FLOATS).why
    assert all(each.training for each in module.modules())


def test_a_chunk_for_which_there_is_no_memory_is_passed_over():
    def made(part: nn.Module, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
        if len(x) > 20:
            raise torch.OutOfMemoryError
        return {"weight": gradient_forms.held(torch.ones(len(x), 5))}

    candidates = [SteadyChunk(size=size, threads=1) for size in (32, 16)]
    found = _found(linear(), made, FLOATS, FLOATS, CLIPS[1], candidates)
    assert found == candidates[1]


def test_it_is_tried_again_when_the_arithmetic_may_be_another():
    module, words = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(8, 3)), torch.ones(5, 2).long()

    def chunks() -> int:
        clipped_sum(module, F.cross_entropy, words, words[:, 0], CLIPS[1], 2**30, 7)
        return len(survey(Problem(module, F.cross_entropy, dict(module.named_parameters())), words, words[:, 0]).chunks)

    assert (chunks(), chunks()) == (1, 1)
    torch.set_float32_matmul_precision("high")
    try:
        assert (chunks(), chunks()) == (2, 2)
    finally:
        torch.set_float32_matmul_precision("highest")
    module.double()
    assert (chunks(), chunks()) == (3, 3)
    module[2] = nn.Linear(8, 4).double()
    assert (chunks(), chunks()) == (4, 4)


def test_all_rows_are_made_in_one_shape(monkeypatch):
    monkeypatch.setitem(gradient_forms._HELD_AT_ONCE, "cpu", 12)
    seen, table = [], torch.arange(28.0).reshape(7, 4)

    def make(first: int, last: int) -> torch.Tensor:
        seen.append(last - first)
        return table[first:last]

    rows = ExampleRows(count=7, width=4, make=make, device=table.device)
    parts = [*rows.pieces()]
    assert [part[:2] for part in parts] == [(0, 3), (3, 6), (6, 7)]
    assert torch.equal(torch.cat([part[2] for part in parts]), table)
    assert seen == [3, 3, 3]
    total, good = rows.clamped(Elementwise(clip=100.0))
    assert torch.equal(total * Elementwise(clip=100.0).quantum, table.double().sum(0))
    assert good.tolist() == [True] * 7
    assert not [*ExampleRows(count=0, width=4, make=make, device=table.device).pieces()]


CUDNN, CUDA, MKLDNN = torch.backends.cudnn, torch.backends.cuda, torch.backends.mkldnn
NEWER = [CUDNN.conv, CUDNN.rnn, CUDA.matmul, MKLDNN.matmul] if hasattr(CUDNN, "conv") else []


def said() -> list[object]:
    """All settings; for a flag that torch does not tell, that."""
    return [*flags(), *(each.fp32_precision for each in NEWER)]


def flags() -> Iterator[object]:
    for read in (lambda: CUDNN.allow_tf32, torch.get_float32_matmul_precision, lambda: CUDA.matmul.allow_tf32):
        try:
            yield read()
        except RuntimeError:
            yield "contradicted"


SETTINGS: dict[str, Any] = {
    "as they are": lambda: None,
    "flags": lambda: torch.set_float32_matmul_precision("high"),
    "one flag": lambda: setattr(CUDA.matmul, "allow_tf32", True),
}
PLACES: dict[str, Any] = {
    "all": lambda: setattr(torch.backends, "fp32_precision", "tf32"),
    "products": lambda: setattr(CUDA.matmul, "fp32_precision", "tf32"),
    "convolutions": lambda: setattr(CUDNN.conv, "fp32_precision", "ieee"),
}


@pytest.fixture(autouse=True)
def _settings_stay() -> Iterator[None]:
    whole = torch.backends.fp32_precision if NEWER else ""
    before, words = (CUDNN.allow_tf32, torch.get_float32_matmul_precision()), [each.fp32_precision for each in NEWER]
    for each in NEWER[2:]:
        each.fp32_precision = "none"  # as in a new process
    yield
    if NEWER:
        torch.backends.fp32_precision = whole
    CUDNN.allow_tf32 = before[0]
    torch.set_float32_matmul_precision(before[1])
    for each, word in zip(NEWER, words, strict=True):
        each.fp32_precision = word


@pytest.mark.parametrize("setting", [*SETTINGS.values(), *(PLACES.values() if NEWER else ())])
def test_products_are_exact_for_a_while_and_all_settings_stay(setting):
    default = float_precision()
    setting()
    before, known = said(), float_precision()
    assert (known == default) is (setting is SETTINGS["as they are"])  # another setting is told apart
    with full_precision():
        assert all(each.fp32_precision == "ieee" for each in NEWER)
        assert True not in [*flags()]
    assert said() == before
    assert float_precision() == known
    with pytest.raises(ZeroDivisionError), full_precision():
        raise ZeroDivisionError
    assert said() == before


@pytest.mark.skipif(not NEWER, reason="an older torch")
def test_control_the_flags_alone_do_not_reach_a_word_for_all():
    PLACES["all"]()
    with pytest.raises(RuntimeError, match="mix of the legacy and new"):
        torch.get_float32_matmul_precision()
    CUDNN.allow_tf32 = False
    assert CUDNN.conv.fp32_precision == "tf32"
