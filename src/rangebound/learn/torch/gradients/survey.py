"""Which way the gradients of each parameter take, found on made-up examples of the same shape, and why.

Also whether an example's gradient has the same bits wherever it stands in a chunk, and a chunk in which it has.
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
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Protocol
from weakref import WeakKeyDictionary, ref

import torch
from torch.random import fork_rng

from rangebound.errors import ArgumentError
from rangebound.learn.torch.clipping_norm import Clipping, Euclidean
from rangebound.learn.torch.gradients import sums
from rangebound.learn.torch.gradients.bad_examples import ERRORS, numbers, stand_ins
from rangebound.learn.torch.gradients.gradient_forms import ExampleRows, Gradients
from rangebound.learn.torch.gradients.one_pass import (
    Criterion,
    Loose,
    Pass,
    Problem,
    Tensors,
    example_gradients,
    one_pass,
)  # fmt: skip
from rangebound.learn.torch.gradients.tape import is_chain

Made = Callable[[torch.nn.Module, torch.Tensor, torch.Tensor], dict[str, Gradients]]

_TENSORS = 3  # of the size of each that is noted exist at once, about
_MULTIPLE = 16
_THREADS = (8, 1)
_MORE_PARTS = 3  # into which a chunk is cut on a GPU
_PLACES = attrgetter("cudnn.conv", "cudnn.rnn", "cuda.matmul", "mkldnn.matmul")

_KNOWN: WeakKeyDictionary[torch.nn.Module, dict[object, Route]] = WeakKeyDictionary()


@dataclass(frozen=True, kw_only=True)
class SteadyChunk:
    """How many examples are computed at once, and how; `why` their gradients may depend on the place, if they may."""

    size: int
    threads: int
    exact: bool = False  # without TF32 on a GPU
    why: str = ""

    def explain(self) -> str:
        """What it means for an example."""
        how = "without TF32" if self.exact else f"at most {self.threads} threads of the processor"
        return f"chunk size {self.size}, {how}; gradients: {self.why or 'the same bits at every place'}"


@dataclass(kw_only=True)
class Route:
    """How a module's gradients are made; `refused` says why one pass cannot make them, and is empty if it can."""

    separate: bool
    loose: dict[str, str] = field(default_factory=dict)
    layers: dict[str, str] = field(default_factory=dict)
    stored: int = 0
    noted: int = 0
    refused: str = ""
    chunks: dict[object, SteadyChunk] = field(default_factory=dict)  # that were tried
    judge: Callable[[], object] = lambda: None  # the criterion, if it is still there

    def passed(self, problem: Problem, x: torch.Tensor, y: torch.Tensor) -> Pass:
        """One pass along this route."""
        return one_pass(problem, x, y, loose=self.loose.keys(), separate=self.separate)

    def widen(self, more: Loose) -> None:
        """Let the parameters that are used where no rule applies fall back."""
        self.separate = True
        self.loose |= more.names
        self.chunks.clear()

    def room(self, *, rows: bool) -> int:
        """The bytes that an example takes in a pass, with or without the rows that are held for its norm."""
        return _TENSORS * self.noted + (4 * self.stored if rows else 0)

    def explain(self, parameters: Tensors) -> str:
        """One line for each parameter: by the rule of a layer, alone, or with the whole module, and why."""
        tried = [each.explain() for each in self.chunks.values()][-1:]
        if self.refused:
            whole = f"every parameter: torch.func.vmap of the whole module, or one example at a time: {self.refused}"
            return "\n".join([whole, *tried])
        ways = {name: f"in the one pass, rule: {layer}" for name, layer in self.layers.items()}
        ways |= {
            name: f"its own view for each example, since {why or 'other code'} uses it and has no rule"
            for name, why in self.loose.items()
        }
        lines = [f"{name}: {ways.get(name, 'not used: its gradient is zero')}" for name in parameters]
        how = "under torch.func.vmap, one example each" if self.separate else "as it is: a chain of known layers"
        return "\n".join([f"the module runs {how}", *lines, *tried])


def survey(problem: Problem, x: torch.Tensor, y: torch.Tensor) -> Route:
    """The route for examples of this shape, which does not depend on their values: made-up ones stand in for them.

    Raises the error of the module or the criterion where they fail for all of these, whatever the examples are.
    """
    module, criterion, device = problem.module, problem.criterion, x.device.type
    kind = (
        id(criterion), x.shape[1:], x.dtype, y.shape[1:], y.dtype, x.device, module.training, tuple(problem.parameters),
        is_chain(module), torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device),
    )  # fmt: skip
    known = _KNOWN.setdefault(module, {})
    if kind not in known or known[kind].judge() is not criterion:
        known[kind] = _surveyed(problem, x, y)
    return known[kind]


def _surveyed(problem: Problem, x: torch.Tensor, y: torch.Tensor) -> Route:
    route = Route(judge=_reference(problem.criterion), separate=not is_chain(problem.module))
    for given in stand_ins(2, x, y):
        try:
            found = _passed(route, problem, *given)
        except (ArgumentError, torch.OutOfMemoryError):
            raise
        except ERRORS as error:
            route.refused = route.refused or str(error).partition("\n")[0] or type(error).__name__
            continue
        route.layers, route.refused = found.layers, ""
        route.stored = sum(each.stored for each in found.gradients.values())
        route.noted = sum(each.numel() * each.element_size() for each in found.watched) // 2
        return route
    zeros = next(stand_ins(1, x, y))
    example_gradients(problem, zeros[0], zeros[1])  # an error if the call is wrong
    return route


def _passed(route: Route, problem: Problem, x: torch.Tensor, y: torch.Tensor) -> Pass:
    while True:
        try:
            return route.passed(problem, x, y)
        except Loose as more:
            route.widen(more)


def _reference(criterion: Criterion) -> Callable[[], object]:
    """A weak reference, where there can be one: a criterion may hold the module, which then would live for ever."""
    try:
        return ref(criterion)
    except TypeError:
        return lambda: criterion


def steady_chunk(
    route: Route, module: torch.nn.Module, made: Made, x: torch.Tensor, y: torch.Tensor, clip: Clipping, chunk: int,
    most: int,
) -> SteadyChunk:  # fmt: skip
    """How many examples to compute at once, and how: `chunk` or an equal part of it if that will do, at most `most`.

    `made(module, x, y)` are the gradients of examples like `x` and `y`, of which only the shapes are used here. What is
    found is kept in the route. Edge cases: a module that is random beyond dropout cannot be tried, nor one that takes
    none of the examples that are made up. Where nothing helps, the chunk stays as it is, with a warning.
    """
    threads = torch.get_num_threads()
    weights = tuple((each.shape, each.dtype) for each in module.parameters())
    key = chunk, most, threads, type(clip), float_precision(), weights
    if key not in route.chunks:
        candidates = [*_candidates(x.device, chunk, most, threads)]
        modules = dict.fromkeys((_without_zeros(module), module))
        tried = (_found(each, made, x, y, clip, candidates) for each in modules)
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
        likely, unlikely = (
            [_made_up(x, -1.0 if ones else 0.0, each.size, ones=ones), _made_up(y, 0.0, each.size, ones=ones)]
            for ones in (True, False)
        )
        same = _same(module, made, likely, clip, each)
        if same is None:
            same = _same(module, made, unlikely, clip, each)
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


def _same(
    module: torch.nn.Module, made: Made, given: list[torch.Tensor], clip: Clipping, chunk: SteadyChunk
) -> bool | None:
    """Whether examples that are all the same have the same gradients.

    None if no one can tell: gradients that are not finite, zero, or others when made again.
    """

    def marks() -> torch.Tensor:
        """The squared norm of each parameter's gradient for each example: hardly a bit of it can change unnoticed."""
        return torch.stack([
            each.squares() if isinstance(clip, Euclidean) or not isinstance(each, ExampleRows)
            else torch.cat([sums.squares(rows) for _, _, rows in each.pieces()])
            for each in made(module, *given).values()
        ])  # fmt: skip

    device = given[0].device
    modes = [(part, part.training) for part in module.modules()]
    try:
        with fork_rng([device] if device.type == "cuda" else []), computed_as(chunk):
            for training in (True, False):  # then without dropout
                for part, mode in modes:
                    part.training = mode and training
                found = marks()
                if not found.any() or not torch.isfinite(found).all():
                    return None
                if torch.equal(found, found[:, :1].expand_as(found)):
                    return True
            return False if torch.equal(found, marks()) else None
    except Loose:
        raise
    except torch.OutOfMemoryError:
        return False  # a smaller chunk may do
    except Exception:  # whatever it is, true examples need not raise it
        return None
    finally:
        for part, mode in modes:
            part.training = mode


def _made_up(like: torch.Tensor, lower: float, count: int, *, ones: bool) -> torch.Tensor:
    """Equal examples of that shape; in whole numbers, which are classes or words, zeros or both ones and zeros."""
    one = like.new_zeros(1, *like.shape[1:])
    if like.is_floating_point():
        one = numbers(one, lower)
    elif ones:
        one.view(-1)[::2] = 1
    return one.expand(count, *one.shape[1:]).contiguous()


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


class _Words(Protocol):
    fp32_precision: str


def float_precision() -> tuple[object, ...]:
    """With how many bits torch multiplies floats on a GPU: two that are equal give the same arithmetic.

    Two sets of settings say it: older flags and newer words.
    """
    newer = _newer()
    return tuple(each.fp32_precision for each in newer) if newer else _flags()


@contextmanager
def full_precision() -> Iterator[None]:
    """Multiply without TF32, and leave all settings as they were.

    Edge cases: torch refuses to tell the flags where the newer words contradict them; then the words alone are used.
    """
    before = [(each, each.fp32_precision) for each in _newer()]
    convolutions, products = _flags()
    cudnn = torch.backends.cudnn
    try:
        if convolutions is not None:
            cudnn.allow_tf32 = False
        if products is not None:
            torch.set_float32_matmul_precision("highest")
        for each, _ in before:
            each.fp32_precision = "ieee"  # a flag that is off leaves it to a word for all of torch, which may say tf32
        yield
    finally:
        if convolutions is not None:
            cudnn.allow_tf32 = convolutions
        if products is not None:
            torch.set_float32_matmul_precision(products)
        for each, word in before:
            each.fp32_precision = word


def _newer() -> tuple[_Words, ...]:
    """Where the newer words are said; nowhere in an older torch."""
    return _PLACES(torch.backends) if hasattr(torch.backends.cudnn, "conv") else ()


def _flags() -> tuple[bool | None, str | None]:
    """The older flags, for convolutions and for products; None where the newer words contradict them."""
    convolutions, products = None, None
    with suppress(RuntimeError):
        convolutions = torch.backends.cudnn.allow_tf32
    with suppress(RuntimeError):
        products = torch.get_float32_matmul_precision()
    return convolutions, products
