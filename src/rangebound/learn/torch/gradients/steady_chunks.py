"""Whether an example's gradient has the same bits wherever it stands in a chunk, and a chunk in which it has.

Libraries of matrix products and convolutions promise no such thing: rows of one matrix may be added up in different
orders, by the thread or the tile that they fall to, or where few rows are left for a kernel that takes several. Then
who else is in a batch moves an example's gradient, in its last bits, or with TF32 on a GPU by a thousandth, and no
account knows. So it is tried once for each shape, on this machine, with made-up examples that are all the same. Where
their gradients differ, chunks of other sizes are tried, and then fewer threads of the processor, or convolutions and
products without TF32.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from rangebound.learn.torch.clipping_norm import Clipping, Euclidean
from rangebound.learn.torch.gradients import doubles
from rangebound.learn.torch.gradients.bad_examples import ERRORS
from rangebound.learn.torch.gradients.example_rows import ExampleRows
from rangebound.learn.torch.gradients.survey import Route, SteadyChunk
from rangebound.learn.torch.gradients.tape import Gradients

Made = Callable[[torch.Tensor, torch.Tensor], dict[str, Gradients]]

_MULTIPLE = 16
_THREADS = (8, 1)
_MORE_PARTS = 3  # into which a chunk is cut on a GPU
_SEED = 16


def steady_chunk(
    route: Route, module: torch.nn.Module, made: Made, x: torch.Tensor, y: torch.Tensor, clip: Clipping, chunk: int,
    most: int,
) -> SteadyChunk:  # fmt: skip
    """How many examples to compute at once, and how: `chunk` or an equal part of it if that will do, at most `most`.

    `made` returns the gradients of examples like `x` and `y`, of which only the shapes are used. What is found is kept
    in the route. Edge cases: a module that is random beyond dropout cannot be tried. Where nothing helps, the chunk
    stays as it is, with a warning.
    """
    threads = torch.get_num_threads()
    key = chunk, most, threads, type(clip)
    if key not in route.chunks:
        route.chunks[key] = _found(module, made, x, y, clip, [*_candidates(x.device, chunk, most, threads)])
    return route.chunks[key]


def _candidates(device: torch.device, chunk: int, most: int, threads: int) -> Iterator[SteadyChunk]:
    parts = math.ceil(chunk / most)
    first = SteadyChunk(size=math.ceil(chunk / parts), threads=threads)
    higher = _multiple(first.size)
    whole = replace(first, size=higher if higher <= most else most - most % _MULTIPLE or first.size)
    yield from (first, whole)
    if device.type == "cpu":
        for number in _THREADS:
            if number < threads:
                yield from (replace(first, threads=number), replace(whole, threads=number))
    else:
        for number in range(parts + 1, parts + 1 + _MORE_PARTS):
            yield replace(first, size=min(_multiple(math.ceil(chunk / number)), whole.size))
        yield replace(first, exact=True)


def _multiple(size: int) -> int:
    return -(-size // _MULTIPLE) * _MULTIPLE


def _found(
    module: torch.nn.Module, made: Made, x: torch.Tensor, y: torch.Tensor, clip: Clipping, candidates: list[SteadyChunk]
) -> SteadyChunk:
    for each in dict.fromkeys(candidates):
        same = _same_everywhere(module, made, x, y, clip, each)
        if same is None:
            return replace(candidates[0], why="not tried: its gradients are random, or fail")
        if same:
            return each
    warnings.warn(
        "module: on this machine an example's gradient depends, in its last bits or more, on its place in the batch, "
        "and so on who else is in it, which no account covers; try another chunk_size, torch.set_num_threads(1), or "
        "layers of other sizes",
        stacklevel=2,
    )
    return replace(candidates[0], why="moved by its place in the chunk, which no account covers")


def _same_everywhere(
    module: torch.nn.Module, made: Made, x: torch.Tensor, y: torch.Tensor, clip: Clipping, chunk: SteadyChunk
) -> bool | None:
    """Whether examples that are all the same have the same gradients; None if the same twice does not give the same."""
    generator = torch.Generator().manual_seed(_SEED)
    one, target = _made_up(x, torch.randn, generator), _made_up(y, torch.rand, generator)
    given = [each.expand(chunk.size, *each.shape[1:]).contiguous() for each in (one, target)]
    devices = [x.device] if x.device.type == "cuda" else []
    modes = [each.training for each in module.modules()]
    try:
        with torch.random.fork_rng(devices), computed_as(chunk):
            for training in (True, False):  # then without dropout
                for part, mode in zip(module.modules(), modes, strict=True):
                    part.training = mode and training
                marks = _marks(made(*given), clip)
                if _equal(marks, marks[:, :1]):
                    return True
            return False if _equal(marks, _marks(made(*given), clip)) else None
    except ERRORS:
        return None
    finally:
        for part, mode in zip(module.modules(), modes, strict=True):
            part.training = mode


def _made_up(like: torch.Tensor, drawn: Callable[..., torch.Tensor], generator: torch.Generator) -> torch.Tensor:
    """One example of that shape; zeros in whole numbers, which are classes or words."""
    if not like.is_floating_point():
        return like.new_zeros(1, *like.shape[1:])
    return drawn(1, *like.shape[1:], generator=generator).to(like)


def _marks(gradients: dict[str, Gradients], clip: Clipping) -> torch.Tensor:
    """The squared norm of each parameter's gradient for each example: hardly a bit of it can change unnoticed."""
    found = []
    for each in gradients.values():
        if isinstance(clip, Euclidean) or not isinstance(each, ExampleRows):
            found.append(each.squares())
        else:
            found.append(torch.cat([doubles.squares(rows) for _, _, rows in each.pieces()]))
    return torch.stack(found)


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(((a == b) | (a.isnan() & b.isnan())).all())


@contextmanager
def computed_as(chunk: SteadyChunk) -> Iterator[None]:
    """Compute with the threads of the chunk, and without TF32 where it is to be exact."""
    flags = torch.backends.cudnn
    threads = torch.get_num_threads()
    if chunk.threads != threads:
        torch.set_num_threads(chunk.threads)
    before = (flags.allow_tf32, torch.get_float32_matmul_precision()) if chunk.exact else (True, "")
    if chunk.exact:
        flags.allow_tf32 = False
        torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        if chunk.threads != threads:
            torch.set_num_threads(threads)
        if chunk.exact:
            flags.allow_tf32 = before[0]
            torch.set_float32_matmul_precision(before[1])
