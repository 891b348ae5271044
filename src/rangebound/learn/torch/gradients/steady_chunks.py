"""Whether an example's gradient has the same bits wherever it stands in a chunk, and a chunk in which it has.

Libraries of matrix products and convolutions promise no such thing: rows of one matrix may be added up in different
orders, by the thread or the tile that they fall to, or where few rows are left for a kernel that takes several. Then
who else is in a batch moves an example's gradient, in its last bits, or with TF32 on a GPU by a hundredth, and no
account knows. So it is tried once for each shape, on this machine, with made-up examples that are all the same. Where
their gradients differ, chunks of other sizes are tried, and then fewer threads of the processor, or convolutions and
products without TF32.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial

import torch
from torch.random import fork_rng

from rangebound.learn.torch.clipping_norm import Clipping, Euclidean
from rangebound.learn.torch.gradients import doubles
from rangebound.learn.torch.gradients.example_rows import ExampleRows
from rangebound.learn.torch.gradients.float_precision import float_precision, full_precision
from rangebound.learn.torch.gradients.one_pass import Loose
from rangebound.learn.torch.gradients.stand_ins import numbers
from rangebound.learn.torch.gradients.survey import Route, SteadyChunk
from rangebound.learn.torch.gradients.tape import Gradients

Made = Callable[[torch.Tensor, torch.Tensor], dict[str, Gradients]]

_MULTIPLE = 16
_THREADS = (8, 1)
_MORE_PARTS = 3  # into which a chunk is cut on a GPU


def steady_chunk(
    route: Route, module: torch.nn.Module, maker: Callable[[torch.nn.Module], Made], x: torch.Tensor, y: torch.Tensor,
    clip: Clipping, chunk: int, most: int,
) -> SteadyChunk:  # fmt: skip
    """How many examples to compute at once, and how: `chunk` or an equal part of it if that will do, at most `most`.

    `maker(module)` makes the gradients of examples like `x` and `y`, of which only the shapes are used. What is found
    is kept in the route. Edge cases: a module that is random beyond dropout cannot be tried, nor one that takes none of
    the examples that are made up. Where nothing helps, the chunk stays as it is, with a warning.
    """
    threads = torch.get_num_threads()
    weights = tuple((each.shape, each.dtype) for each in module.parameters())
    key = chunk, most, threads, type(clip), float_precision(), weights
    if key not in route.chunks:
        candidates = [*_candidates(x.device, chunk, most, threads)]
        modules = dict.fromkeys((_without_zeros(module), module))
        tried = (_found(each, maker(each), x, y, clip, candidates) for each in modules)
        untried = replace(candidates[0], why="not tried: those of made-up examples are random, zero, or fail")
        route.chunks[key] = next(filter(None, tried), untried)
    return route.chunks[key]


def _without_zeros(module: torch.nn.Module) -> torch.nn.Module:
    """The module, or a copy with made-up numbers for parameters that are zero, which would hide how others are added.

    All other tensors are shared. Edge cases: a module that cannot be copied is tried as it is.
    """
    shared: dict[int, object] = {id(each): each for each in (*module.parameters(), *module.buffers())}
    try:
        zero = [each for each in module.parameters() if not each.any()]
        for each in zero:
            made_up = numbers(each, -1.0) / math.sqrt(each.shape[-1] if each.dim() else 1)
            shared[id(each)] = torch.nn.Parameter(made_up.to(each), requires_grad=each.requires_grad)
        return copy.deepcopy(module, shared) if zero else module
    except Exception:
        return module


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
) -> SteadyChunk | None:
    """The first candidate in which no place matters; None if it cannot be tried."""
    for each in dict.fromkeys(candidates):
        same = _same_everywhere(module, made, x, y, clip, each)
        if same is None:
            return None
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
    """Whether examples that are all the same have the same gradients; None if no made-up example can tell."""
    for likely in (True, False):
        one, target = _made_up(x, -1.0 if likely else 0.0, ones=likely), _made_up(y, 0.0, ones=likely)
        given = [each.expand(chunk.size, *each.shape[1:]).contiguous() for each in (one, target)]
        same = _same(module, partial(_marks, made, given, clip), x.device, chunk)
        if same is not None:
            return same
    return None


def _same(
    module: torch.nn.Module, marks_again: Callable[[], torch.Tensor], device: torch.device, chunk: SteadyChunk
) -> bool | None:
    """Whether all examples have the same marks; None if those are not finite, zero, or others when made again."""
    modes = [(part, part.training) for part in module.modules()]
    try:
        with fork_rng([device] if device.type == "cuda" else []), computed_as(chunk):
            for training in (True, False):  # then without dropout
                for part, mode in modes:
                    part.training = mode and training
                marks = marks_again()
                if not marks.any() or not torch.isfinite(marks).all():
                    return None
                if torch.equal(marks, marks[:, :1].expand_as(marks)):
                    return True
            return False if torch.equal(marks, marks_again()) else None
    except Loose:
        raise
    except torch.OutOfMemoryError:
        return False  # a smaller chunk may do
    except Exception:  # whatever it is, true examples need not raise it
        return None
    finally:
        for part, mode in modes:
            part.training = mode


def _made_up(like: torch.Tensor, lower: float, *, ones: bool) -> torch.Tensor:
    """One example of that shape; in whole numbers, which are classes or words, zeros or both ones and zeros."""
    zeros = like.new_zeros(1, *like.shape[1:])
    if like.is_floating_point():
        return numbers(zeros, lower)
    if ones:
        zeros.view(-1)[::2] = 1
    return zeros


def _marks(made: Made, given: list[torch.Tensor], clip: Clipping) -> torch.Tensor:
    """The squared norm of each parameter's gradient for each example: hardly a bit of it can change unnoticed."""
    found = []
    for each in made(*given).values():
        if isinstance(clip, Euclidean) or not isinstance(each, ExampleRows):
            found.append(each.squares())
        else:
            found.append(torch.cat([doubles.squares(rows) for _, _, rows in each.pieces()]))
    return torch.stack(found)


@contextmanager
def computed_as(chunk: SteadyChunk) -> Iterator[None]:
    """Compute with the threads of the chunk, and without TF32 where it is to be exact."""
    threads = torch.get_num_threads()
    if chunk.threads != threads:
        torch.set_num_threads(chunk.threads)
    try:
        with full_precision() if chunk.exact else nullcontext():
            yield
    finally:
        if chunk.threads != threads:
            torch.set_num_threads(threads)
