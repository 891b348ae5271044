"""Which way the gradients of each parameter take, found on made-up examples of the same shape, and why.

Also whether an example's gradient has the same bits wherever it stands in a chunk, and a chunk in which it has.
Libraries of matrix products and convolutions promise no such thing: rows of one matrix may be added up in different
orders, by the thread or the tile that they fall to, or where few rows are left for a kernel that takes several. Then
who else is in a batch moves an example's gradient, in its last bits, or with TF32 on a GPU by a hundredth, and no
account knows. So it is tried once for each shape, on this machine, with made-up examples that are all the same. Where
their gradients differ, chunks of other sizes are tried, and then fewer threads of the processor, or convolutions and
products without TF32. On a processor smaller chunks are tried as well: one in which the gradient has the same bits may
take the examples that are left over, with fewer zeros beside them.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from traceback import extract_tb
from typing import Any, Literal
from weakref import WeakKeyDictionary, ref

import torch
from torch.random import fork_rng

from rangebound.errors import ArgumentError
from rangebound.learn.torch.batch_tree import Leaves
from rangebound.learn.torch.clipping_norm import Clipping, Euclidean
from rangebound.learn.torch.gradients import sums
from rangebound.learn.torch.gradients.bad_examples import ERRORS, numbers, stand_ins
from rangebound.learn.torch.gradients.gradient_forms import ExampleRows, Gradients, held
from rangebound.learn.torch.gradients.one_pass import Pass, Problem, Tensors, example_gradients, one_pass
from rangebound.learn.torch.gradients.tape import TRACED

Made = Callable[[torch.nn.Module, Leaves], dict[str, Gradients]]

_TENSORS = 3  # of the size of each that is noted exist at once, about
_MULTIPLE = 16
_THREADS = (8, 1)
_EIGHTHS = range(1, 8)  # of a chunk, to which the last one may be filled up on a processor
_ENOUGH = 16  # examples, which tell whether two sizes give the same bits
_MORE_PARTS = 3  # into which a chunk is cut on a GPU
_NOT_THEIRS = str(Path(torch.__file__).parent), str(Path(__file__).parent.parent), "<"
_PLACES, _WORD = attrgetter("cudnn.conv", "cudnn.rnn", "cuda.matmul", "mkldnn.matmul"), "fp32_precision"

_KNOWN: WeakKeyDictionary[torch.nn.Module, dict[object, Route]] = WeakKeyDictionary()


@dataclass(frozen=True, kw_only=True)
class SteadyChunk:
    """How many examples are computed at once, and how; `why` their gradients may depend on the place, if they may.

    In chunks of the `smaller` sizes they have the same bits as in one of `size`.
    """

    size: int
    threads: int
    smaller: tuple[int, ...] = ()
    exact: bool = False  # without TF32 on a GPU
    why: str = ""

    def filled(self, count: int) -> int:
        """The size to which a chunk of this many examples is filled up."""
        return min((each for each in self.smaller if each >= count), default=self.size)


@dataclass(kw_only=True)
class Route:
    """How a module's gradients are made; `refused` says why one pass cannot make them, and is empty if it can."""

    layers: dict[str, str] = field(default_factory=dict)
    stored: int = 0  # numbers in the rows that are held for the norm of an example
    room: int = 0  # bytes that an example takes beside these
    refused: str = ""
    chunks: dict[object, SteadyChunk] = field(default_factory=dict)  # that were tried
    judge: Callable[[], object] = lambda: None  # the objective, if it is still there

    def explain(self, parameters: Tensors) -> str:
        """One line for each parameter: by the rule of a layer, alone, or with the whole module, and why."""
        tried = []
        for each in [*self.chunks.values()][-1:]:
            how = "without TF32" if each.exact else f"at most {each.threads} threads of the processor"
            tried = [f"chunk size {each.size}, {how}; gradients: {each.why or 'the same bits at every place'}"]
        if self.refused:
            return "\n".join([f"every parameter: one example at a time, since {self.refused}", *tried])
        ways = {name: f"in the one pass, {layer}" for name, layer in self.layers.items()}
        lines = [f"{name}: {ways.get(name, 'not used: its gradient is zero')}" for name in parameters]
        return "\n".join(["the module runs under torch.func.vmap, one example each", *lines, *tried])


def survey(problem: Problem, leaves: Leaves) -> Route:
    """The route for examples of these shapes, which does not depend on their values: made-up ones stand in for them.

    Raises the error of the module or the criterion where they fail for all of these, whatever the examples are.
    """
    module, objective, device = problem.module, problem.objective, leaves[0].device.type
    kind = (
        id(objective), problem.structure, tuple((each.shape[1:], each.dtype, each.device) for each in leaves),
        module.training, tuple(problem.parameters),
        torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device),
    )  # fmt: skip
    known = _KNOWN.setdefault(module, {})
    if kind not in known or known[kind].judge() is not objective:
        known[kind] = _surveyed(problem, leaves)
    return known[kind]


def _surveyed(problem: Problem, leaves: Leaves) -> Route:
    route = Route(judge=ref(problem.objective))
    found = _tried(route, problem, leaves)
    if found is None and problem.module not in TRACED:
        TRACED.add(problem.module)
        why, found = route.refused, _tried(route, problem, leaves)
        if found is None or not _as_alone(problem, leaves):
            TRACED.discard(problem.module)
            route.refused, found = why, None
    if found is not None:
        route.layers, route.refused = found.layers, ""
        route.stored = sum(each.stored for each in found.gradients.values())
        route.room = _TENSORS * (sum(each.numel() * each.element_size() for each in found.watched) // 2)
        _check_written(found.written - problem.discarded)
        return route
    written: set[str] = set()
    example_gradients(problem, next(stand_ins(1, *leaves)), written=written)  # an error if the call is wrong
    _check_written(written - problem.discarded)
    warnings.warn(
        f"module: its examples go one at a time, which is slow, since {route.refused}; what a module decides by the "
        "numbers of an example, torch.where can decide for each",
        stacklevel=2,
    )
    return route


def _tried(route: Route, problem: Problem, leaves: Leaves) -> Pass | None:
    """What a pass over made-up examples finds; else why there is none is in the route."""
    for given in stand_ins(2, *leaves):
        try:
            return one_pass(problem, given)
        except (ArgumentError, torch.OutOfMemoryError):
            raise
        except ERRORS as error:
            route.refused = route.refused or _reason(error)
    return None


def _reason(error: Exception) -> str:
    """What an error says, and the line of the module, or of the criterion, that is why."""
    said = str(error).partition("\n")[0] or type(error).__name__
    frames = [each for each in extract_tb(error.__traceback__) if not each.filename.startswith(_NOT_THEIRS)]
    return said + "".join(f" ({each.filename}:{each.lineno}: {each.line})" for each in frames[-1:])


def _as_alone(problem: Problem, leaves: Leaves) -> bool:
    """Whether made-up examples have the gradients that they have one at a time, without dropout."""
    modes = [(part, part.training) for part in problem.module.modules()]
    problem.module.eval()
    told = False
    try:
        mixed = _made_up(leaves, 2, ones=True, equal=True)
        full = [(*mixed[:i], torch.ones_like(each), *mixed[i + 1 :]) for i, each in enumerate(mixed)]  # full masks too
        for given in (mixed, *full, *stand_ins(2, *leaves)):
            gradients, losses = example_gradients(problem, given)
            found = one_pass(problem, given)
            pairs = [(losses, found.losses)]
            pairs += [(held(rows).rows(0, 2), found.gradients[name].rows(0, 2)) for name, rows in gradients.items()
                      if name in found.gradients]  # fmt: skip
            if not all(torch.allclose(a.float(), b.float(), 1e-3, 1e-5, equal_nan=True) for a, b in pairs):
                return False
            told = told or bool(torch.isfinite(losses).all())
        return told
    except ERRORS:
        return False
    finally:
        for part, mode in modes:
            part.training = mode


def _check_written(names: set[str]) -> None:
    if names:
        raise ArgumentError(
            f"module={', '.join(sorted(names))}: is a buffer that the forward pass writes, and what it writes there is "
            "discarded, since it may be of examples; compute it from parameters in a parametrization of torch, such as "
            "torch.nn.utils.parametrizations.spectral_norm; or, where the module needs none of it, declare it: "
            f"make_private(discarded_buffers={sorted(names)})"
        )


def steady_chunk(
    route: Route, module: torch.nn.Module, made: Made, leaves: Leaves, clip: Clipping, chunk: int, most: int
) -> SteadyChunk:
    """How many examples to compute at once, and how: `chunk` or an equal part of it if that will do, at most `most`.

    `made(module, leaves)` are the gradients of examples like these, of which only the shapes are used here. What is
    found is kept in the route. Edge cases: a module that is random beyond dropout cannot be tried, nor one that takes
    none of the examples that are made up. Where nothing helps, the chunk stays as it is, with a warning.
    """
    threads = torch.get_num_threads()
    weights = tuple((each.shape, each.dtype) for each in module.parameters())
    key = chunk, most, threads, type(clip), float_precision(), weights
    if key not in route.chunks:
        candidates = [*_candidates(leaves[0].device, chunk, most, threads)]
        modules = dict.fromkeys((_without_zeros(module), module))
        tried = ((each, _found(each, made, leaves, clip, candidates)) for each in modules)
        untried = replace(candidates[0], why="not tried: those of made-up examples are random, zero, or fail")
        last, found = next(((each, one) for each, one in tried if one is not None), (None, untried))
        if last is module and not all(each.any() for each in module.parameters()):
            found = replace(found, why=found.why or "tried with parameters that are zero, which may hide a difference")
        route.chunks[key] = found
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
        made = copy.deepcopy(module, shared) if zero else module
        TRACED.update([made] if module in TRACED else [])
        return made
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
    module: torch.nn.Module, made: Made, leaves: Leaves, clip: Clipping, candidates: list[SteadyChunk]
) -> SteadyChunk | None:
    """The first candidate in which no place matters; None if it cannot be tried."""
    for each in dict.fromkeys(candidates):
        same = _same(module, made, leaves, clip, each, ones=True)
        if same is None:
            same = _same(module, made, leaves, clip, each, ones=False)
        if same is None:
            return None
        if same:
            return same
    warnings.warn(
        "module: on this machine an example's gradient depends, in its last bits or more, on its place in the batch, "
        "and so on who else is in it, which no account covers; import rangebound.learn.torch before torch multiplies "
        "anything, or try another chunk_size, torch.set_num_threads(1), or layers of other sizes",
        stacklevel=2,
    )
    return replace(candidates[0], why="moved by its place in the chunk, which no account covers")


def _same(
    module: torch.nn.Module, made: Made, leaves: Leaves, clip: Clipping, chunk: SteadyChunk, *, ones: bool
) -> SteadyChunk | Literal[False] | None:
    """The chunk, with the smaller ones that give the same bits, if examples that are all the same have one gradient.

    None if no one can tell: gradients that are not finite, zero, or others when made again. On a processor the chunk is
    tried with examples that differ as well, a chunk full of them or sixteen, at two places each, and so are smaller
    ones: for one example alone another order of adding may change no bit.
    """

    def marks(given: Leaves) -> torch.Tensor:
        """The squared norm of each parameter's gradient for each example: hardly a bit of it can change unnoticed."""
        some = made(module, given)
        return torch.stack([
            each.squares() if isinstance(clip, Euclidean) or not isinstance(each, ExampleRows)
            else torch.cat([sums.squares(rows) for _, _, rows in each.pieces()])
            for each in some.values()
        ])  # fmt: skip

    count = max(chunk.size, _ENOUGH)
    given = _made_up(leaves, chunk.size, ones=ones, equal=True)
    several = _made_up(leaves, count, ones=ones, equal=False)
    device = given[0].device
    modes = [(part, part.training) for part in module.modules()]

    def cut(size: int) -> Iterator[tuple[slice, torch.Tensor]]:
        """All examples that differ in chunks of this size, of which the last may overlap the one before."""
        for start in (*range(0, count - size, size), count - size):
            part = slice(start, start + size)
            yield part, marks(tuple(each[part] for each in several))

    def fits(size: int) -> bool:
        return all(torch.equal(some, whole[:, part]) for part, some in cut(size))

    try:
        with fork_rng([device] if device.type == "cuda" else []), computed_as(chunk):
            for training in (True, False):  # then without dropout
                for part, mode in modes:
                    part.training = mode and training
                found = marks(given)
                if not found.any() or not torch.isfinite(found).all():
                    return None
                if torch.equal(found, found[:, :1].expand_as(found)):
                    if device.type != "cpu" or chunk.size == 1:
                        return chunk
                    whole = found.new_zeros(len(found), count)
                    for place, some in cut(chunk.size):
                        whole[:, place] = some
                    several, whole = tuple(each.flip(0) for each in several), whole.flip(1)  # at another place
                    if not torch.isfinite(whole).all():
                        return replace(chunk, why="same for equal examples, not finite for others")
                    if not fits(chunk.size):
                        several, whole = tuple(each.flip(0) for each in several), whole.flip(1)
                        return not fits(chunk.size) and replace(chunk, why="same for equal examples, random for others")
                    sizes = {-(-chunk.size * each // 8) for each in _EIGHTHS} - {1, chunk.size}
                    tells = bool(whole.any(0).all())
                    return replace(chunk, smaller=tuple(n for n in sizes if tells and fits(n)))
            return False if torch.equal(found, marks(given)) else None
    except torch.OutOfMemoryError:
        return False  # a smaller chunk may do
    except Exception:  # whatever it is, true examples need not raise it
        return None
    finally:
        for part, mode in modes:
            part.training = mode


def _made_up(leaves: Leaves, count: int, *, ones: bool, equal: bool) -> Leaves:
    """Examples of these shapes, equal or not; whole numbers, which are classes or words, are zeros, or ones as well.

    With ones the numbers of the first tensor have both signs.
    """

    def made(like: torch.Tensor, lower: float) -> torch.Tensor:
        some = like.new_zeros(1 if equal else count, *like.shape[1:])
        if like.is_floating_point():
            some = numbers(some, lower)
        elif ones:
            some = (numbers(some.double(), -1.0) > 0.0).to(like)
        return some.expand(count, *some.shape[1:]).contiguous()

    return tuple(made(each, -1.0 if ones and not i else 0.0) for i, each in enumerate(leaves))


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


Setting = tuple[Callable[[], Any], Callable[[Any], None], object]
"""How a setting is read and written, and what it is without TF32."""


def _precision_settings() -> list[Setting]:
    """With how many bits torch multiplies floats on a GPU: two older flags, and newer words where torch has them."""
    cudnn: Any = torch.backends.cudnn
    words = _PLACES(torch.backends) if hasattr(cudnn, "conv") else ()
    return [
        (lambda: cudnn.allow_tf32, partial(setattr, cudnn, "allow_tf32"), False),
        (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "highest"),
        # a flag that is off leaves it to a word for all of torch, which may say tf32
        *((partial(getattr, each, _WORD), partial(setattr, each, _WORD), "ieee") for each in words),
    ]


def float_precision() -> tuple[object, ...]:
    """With how many bits torch multiplies floats on a GPU: two that are equal give the same arithmetic."""
    settings = _precision_settings()
    return tuple(read() for read, _, _ in settings[2:] or settings)


@contextmanager
def full_precision() -> Iterator[None]:
    """Multiply without TF32, and leave all settings as they were.

    Edge cases: torch refuses to tell the flags where the newer words contradict them; then the words alone are used.
    """
    before = []
    for read, write, exact in _precision_settings():
        with suppress(RuntimeError):
            before.append((write, read(), exact))
    try:
        for write, _, exact in before:
            write(exact)
        yield
    finally:
        for write, value, _ in before:
            write(value)
