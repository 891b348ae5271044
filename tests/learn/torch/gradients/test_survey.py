"""Chunks in which an example's gradient has the same bits at every place, and how floats are multiplied."""

import math
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import rangebound as rb
from rangebound.learn.torch import Elementwise, Euclidean
from rangebound.learn.torch.gradients import gradient_forms
from rangebound.learn.torch.gradients.gradient_forms import ExampleRows
from rangebound.learn.torch.gradients.one_pass import learned
from rangebound.learn.torch.gradients.survey import (
    Route,
    SteadyChunk,
    _candidates,
    _found,
    _made_up,
    float_precision,
    full_precision,
    steady_chunk,
    survey,
)
from tests.learn.torch.models import Built, NoNoise, clipped_sum, data, linear, private, problem

CLIPS = [Elementwise(clip=1.0), Euclidean(clip=1.0)]


def chunk(moves: Any, size: int, most: int, clip: Any, threads: int = 1) -> Any:
    """What is found where the last of some examples has another gradient if `moves(examples, threads)`."""

    def made(module: nn.Module, leaves: Any) -> dict[str, Any]:
        x, _ = leaves
        rows = torch.ones(len(x), 5)
        rows[-1, 3] += 1e-6 * moves(len(x), torch.get_num_threads())
        return {"weight": gradient_forms.held(rows)}

    x, y = data((6,), count=3)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return steady_chunk(Route(), linear(), made, (x, y), clip, size, most)
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
    assert "no account covers" in found.why


def route_of(module: nn.Module, clip: Any = CLIPS[1], made: Any = torch.clone) -> Route:
    x, y = data((6,), count=5)
    x = made(x)
    clipped_sum(module, F.cross_entropy, x, y, clip, 2**30, 7)
    return survey(problem(module, F.cross_entropy, x, y), (x, y))


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

    def made(part: nn.Module, leaves: Any) -> dict[str, Any]:
        moved = torch.ones(len(leaves[0]), 5)
        moved[-1, 3] += rows(part, *leaves)
        return {"weight": gradient_forms.held(moved)}

    return steady_chunk(Route(), module, made, (x, y), CLIPS[1], 6, 6)


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


class Uncopied(nn.Linear):
    def __deepcopy__(self, memo: Any) -> Any:
        raise RuntimeError


def test_what_was_tried_in_part_is_said():
    def same(part: nn.Module, leaves: Any) -> Any:
        return {"weight": gradient_forms.held(torch.ones(len(leaves[0]), 5))}

    def drawn(part: nn.Module, leaves: Any) -> Any:
        rows = torch.ones(len(leaves[0]), 5)
        return {"weight": gradient_forms.held(rows if (leaves[0] == leaves[0][:1]).all() else rows + torch.randn(5))}

    def why(made: Any, module: nn.Module) -> str:
        return steady_chunk(Route(), module, made, (FLOATS, FLOATS), CLIPS[1], 6, 6).why

    module = Uncopied(6, 3)
    assert why(same, module) == ""
    assert "random for others" in why(drawn, module)
    nn.init.zeros_(module.weight)
    assert "zero" in why(same, module)


@pytest.mark.parametrize("factor", [math.nan, math.inf, 0.0])
def test_gradients_that_are_no_numbers_or_zero_tell_nothing(factor):
    def made(part: nn.Module, leaves: Any) -> Any:
        return {"weight": gradient_forms.held(torch.full((len(leaves[0]), 5), factor))}

    found = steady_chunk(Route(), linear(), made, (FLOATS, FLOATS), CLIPS[1], 6, 6)
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
    def made(part: nn.Module, leaves: Any) -> dict[str, Any]:
        if len(leaves[0]) > 20:
            raise torch.OutOfMemoryError
        return {"weight": gradient_forms.held(torch.ones(len(leaves[0]), 5))}

    candidates = [SteadyChunk(size=size, threads=1) for size in (32, 16)]
    found = _found(linear(), made, (FLOATS, FLOATS), CLIPS[1], candidates)
    assert found is not None
    assert found.size == 16


@pytest.mark.usefixtures("all_sizes")
@pytest.mark.parametrize("clip", CLIPS, ids=["elementwise", "Euclidean"])
def test_what_is_left_over_goes_where_it_has_the_same_bits(clip):
    def made(module: nn.Module, leaves: Any) -> dict[str, Any]:
        count = len(leaves[0])
        return {"weight": gradient_forms.held(torch.full((count, 5), 1.0 + 1e-6 * (count in (4, 10))))}

    found = steady_chunk(Route(), linear(), made, data((6,), count=3), clip, 16, 99)
    assert sorted(found.smaller) == [2, 6, 8, 12, 14]
    assert [found.filled(count) for count in (1, 3, 9, 15, 16)] == [2, 6, 12, 16, 16]


@pytest.mark.usefixtures("all_sizes")
@pytest.mark.parametrize(
    ("size", "last", "expected"),
    [(6, False, (11, [2, 3, 5, 7, 9, 10])), (11, True, (16, [])), (0, False, (11, [2, 3, 5, 6, 7, 9, 10]))],
)
def test_one_example_of_many_that_moves_is_found(size, last, expected):
    """In chunks of some size, or in its last place; the last case is the control."""
    rare = float(_made_up(data((6,), count=3), 16, ones=True, equal=False)[0][-1, 0])

    def made(module: nn.Module, leaves: Any) -> dict[str, Any]:
        moved = leaves[0][:, 0] == rare
        moved[: -1 if last else 0] = False
        return {"weight": gradient_forms.held(torch.ones(len(moved), 5) + 1e-6 * moved[:, None] * (len(moved) == size))}

    found = steady_chunk(Route(), linear(), made, data((6,), count=3), CLIPS[1], 11, 99)
    assert (found.size, sorted(found.smaller) if found.size == 11 else []) == expected


def test_it_is_tried_again_when_the_arithmetic_may_be_another():
    module, words = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(8, 3)), torch.ones(5, 2).long()

    def chunks() -> int:
        clipped_sum(module, F.cross_entropy, words, words[:, 0], CLIPS[1], 2**30, 7)
        given = words, words[:, 0]
        return len(survey(problem(module, F.cross_entropy, *given), given).chunks)

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


class Masked(nn.Module):
    """Attention as the models of Hugging Face have it: a mask that is full is left out, where one may look."""

    def __init__(self, *, always: bool = False, wrong: bool = False) -> None:
        super().__init__()
        self.words, self.join, self.head = nn.Embedding(9, 8), Conv1D(24, 8), Conv1D(3, 8)
        self.token, self.scale = nn.Parameter(torch.randn(1, 1, 8)), nn.Parameter(torch.full((8,), 0.5))
        self.places = nn.Parameter(torch.randn(1, 6, 8))
        self._always, self._wrong = always, wrong

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = torch.cat([self.token.expand(len(words), -1, -1), self.words(words)], 1) + self.places
        mask = torch.cat([mask.new_ones(len(mask), 1), mask], 1)
        looks = self._always or not torch.compiler.is_compiling()
        if looks and mask.all():
            given = None if not self._wrong else torch.zeros(6, 6)
        else:
            given = mask[:, None, None, :].bool().expand(-1, 1, 6, 6)
            given = given.tril() if self._wrong else given
        q, k, v = (each.unflatten(2, (2, 4)).transpose(1, 2) for each in self.join(x).chunk(3, 2))
        y = F.scaled_dot_product_attention(q, k, v, given).transpose(1, 2).flatten(2)
        return self.head((x + y * self.scale)[:, 0])


class Conv1D(nn.Module):
    """The layer of GPT-2: a linear one whose weight is turned."""

    def __init__(self, outputs: int, inputs: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(inputs, outputs) / 3), nn.Parameter(torch.zeros(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(*x.size()[:-1], -1)


def masked_run(module: nn.Module) -> tuple[Any, torch.Tensor, torch.Tensor]:
    """An engine, its sum of gradients after a step on sentences with and without padding, and one at a time."""
    generator = torch.Generator().manual_seed(2)
    words, y = torch.randint(0, 9, (8, 5), generator=generator), torch.randint(0, 3, (8,), generator=generator)
    mask = torch.ones(8, 5, dtype=torch.int64)
    mask[::2, 3:] = 0
    seen = NoNoise(seen=[])

    def loss(model: Any, b: Any) -> torch.Tensor:
        return F.cross_entropy(model(words=b[0], mask=b[1]), b[2])

    clip = Euclidean(clip=50.0)
    dataset = torch.utils.data.TensorDataset(words, mask, y)
    engine, optimizer, loader = private(module, dataset, criterion=None, loss=loss, clipping=clip, noise=seen)
    total: Any = 0.0
    for i in range(8):
        found = loss(module, (words[i : i + 1], mask[i : i + 1], y[i : i + 1]))
        total = total + torch.cat([g.flatten() for g in torch.autograd.grad(found, [*module.parameters()])]).double()
    for batch in loader:
        optimizer.backward(batch)
        optimizer.step()
    return engine, seen.seen[0], total


def test_a_look_at_a_mask_that_only_takes_a_short_cut_is_left_out():
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine, total, alone = masked_run(Masked())
    torch.testing.assert_close(total, alone, rtol=0.0, atol=1e-5)
    told = engine.explain()
    assert "one at a time" not in told
    assert not torch.compiler.is_compiling()
    for name in ("join.weight", "head.weight", "head.bias"):
        assert f"{name}: in the one pass, rule: linear" in told
    for name in ("token", "scale", "places"):
        assert f"{name}: in the one pass, a view for each example" in told


@pytest.mark.parametrize("kind", [{"always": True}, {"wrong": True}], ids=["it always looks", "it is no short cut"])
def test_a_module_that_decides_by_values_takes_one_example_at_a_time_and_says_why_once(kind):
    """A module that computes something else where it is compiled would have wrong gradients; its sums are right."""
    torch.manual_seed(0)
    with pytest.warns(UserWarning, match=r"one at a time.*test_survey\.py:\d+: if looks and mask\.all\(\)") as caught:
        engine, total, alone = masked_run(Masked(**kind))
    assert len([each for each in caught if "one at a time" in str(each.message)]) == 1
    torch.testing.assert_close(total, alone, rtol=0.0, atol=1e-5)
    assert re.search(r"one example at a time.*if looks and mask\.all\(\)", engine.explain())


class Guarded(nn.Module):
    """Frozen statistics of public data, before a head that is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.image, self.head = nn.BatchNorm1d(6), nn.InstanceNorm1d(2, track_running_stats=True), linear()
        self.norm.running_mean, self.norm.running_var = torch.linspace(-1, 1, 6), torch.linspace(0.5, 2, 6)
        self.norm.eval()
        self.image.eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.image(self.norm(x).unflatten(1, (2, 3))).flatten(1))


@pytest.mark.parametrize("frozen", [True, False])
def test_a_norm_with_frozen_statistics_treats_each_example_by_itself(frozen):
    module, (x, y) = Guarded(), data((6,), 8)
    module.norm.requires_grad_(not frozen)
    clip, seen = Euclidean(clip=50.0), NoNoise(seen=[])
    before = {name: each.clone() for name, each in module.named_buffers()}
    engine, optimizer, loader = private(module, x, y, clipping=clip, noise=seen)
    slopes = [torch.autograd.grad(F.cross_entropy(module(x[i : i + 1]), y[i : i + 1]), learned(module).values())
              for i in range(8)]  # fmt: skip
    alone = torch.cat([sum(parts).flatten() for parts in zip(*slopes, strict=True)]).double()
    for a, b in loader:
        optimizer.backward(a, b)
        module.train()  # as loops do, each epoch
        for use in (lambda a=a, b=b: optimizer.backward(a, b), optimizer.step):
            optimizer._given = 0
            with pytest.raises(rb.errors.ArgumentError, match=r"module=norm: BatchNorm1d.*call \.eval\(\)"):
                use()
        optimizer._given = 8
        engine.attach(module).train()  # as a trainer does, with frozen parts as they are now: in training mode
        module.norm.eval()
        module.image.eval()
        assert not engine.attach(module).train().module.norm.training
        optimizer.step()
    torch.testing.assert_close(seen.seen[0], alone, rtol=0.0, atol=1e-5)
    assert all(torch.equal(each, before[name]) for name, each in module.named_buffers())


class Power(nn.Module):
    """A spectral norm of its own: power iteration in a buffer, by which the forward pass divides."""

    def __init__(self, kind: str = "written in place") -> None:
        super().__init__()
        self.weight, self.kind = nn.Parameter(10.0 * torch.randn(3, 6)), kind
        self.register_buffer("u", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            v = F.normalize(self.weight.t() @ self.u, dim=0)
            u = F.normalize(self.weight @ v, dim=0)
            if self.kind == "set":
                self.u = u
            elif self.kind == "by numpy":
                self.u.numpy()[:] = u
            else:
                self.u.copy_(u)
        if self.kind == "one at a time" and x.sum() > 99.0:
            return x[:, :3]
        return F.linear(x, self.weight / (self.u @ self.weight @ v))


@pytest.mark.parametrize("kind", ["written in place", "set", "by numpy", "one at a time"])
def test_a_buffer_that_the_forward_pass_writes_is_refused_by_its_name_or_declared(kind):
    """What it writes is discarded, so a power iteration would stay where it began."""
    module, (x, y) = nn.Sequential(nn.Linear(6, 6), Power(kind)), data((6,), 8)
    _, optimizer, loader = private(module, x, y)
    for a, b in loader:
        with pytest.raises(rb.errors.ArgumentError, match=r"module=1\.u: is a buffer.*discarded_buffers=\['1\.u'\]"):
            optimizer.backward(a, b)
    _, optimizer, loader = private(module, x, y, discarded_buffers=["1.u"])
    for a, b in loader:
        assert torch.isfinite(optimizer.backward(a, b)).all()
        optimizer.step()
    assert torch.equal(module[1].u, torch.ones(3))
    spectral = nn.utils.parametrizations.spectral_norm(nn.Linear(6, 3))
    _, optimizer, loader = private(spectral, x, y)  # the control: of torch, from parameters alone
    for a, b in loader:
        optimizer.backward(a, b)
        optimizer.step()


@pytest.mark.parametrize("width", [5, 6, 13])
def test_a_row_of_a_product_is_rounded_alike_wherever_it_lies(width: int) -> None:
    """On x86 it was not, unless MKL is told before its first product, which the import does."""
    generator = torch.Generator().manual_seed(width)
    weight = torch.randn(4, width, generator=generator)
    rows = torch.randn(1, width, generator=generator).expand(16, -1).contiguous()
    found = F.linear(rows, weight)
    assert os.environ["MKL_CBWR"]
    assert torch.equal(found, found[:1].expand_as(found))
    rows[3] *= 1.001  # the control
    assert not torch.equal(found, F.linear(rows, weight))


@pytest.mark.slow
@pytest.mark.parametrize(("given", "kept"), [(None, "AUTO,STRICT"), ("", "AUTO,STRICT"), ("COMPATIBLE", "COMPATIBLE")])
def test_a_mode_of_mkl_that_was_chosen_is_kept_and_an_empty_one_is_none(given: str | None, kept: str) -> None:
    others = {name: value for name, value in os.environ.items() if name != "MKL_CBWR"}
    code = "import os, torch, rangebound.learn.torch; print(os.environ['MKL_CBWR'])"
    env = others if given is None else {**others, "MKL_CBWR": given}
    assert subprocess.check_output([sys.executable, "-c", code], env=env, text=True).split() == [kept]
