"""The sum of clipped per-example gradients of a module, a block of examples at a time.

One forward and one backward pass over a block give the gradients of each of its examples
(`rangebound.learn.torch.gradients.tape`). A module that such a pass cannot run (functions without a rule for
`torch.func.vmap`, data-dependent control flow) goes one example at a time. On either route no example can affect the
gradient of another, whatever the module does. Therefore the clipping norm bounds what one example can change.

An example whose gradient is not finite, or for which the module or the criterion raises an error, counts with gradient
zero (`rangebound.learn.torch.gradients.bad_examples`).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.nn.utils.spectral_norm import SpectralNorm

from rangebound.errors import ArgumentError
from rangebound.learn.torch.batch_tree import Leaves
from rangebound.learn.torch.clipping_norm import Clipping, Elementwise
from rangebound.learn.torch.gradients import sums as row_sums
from rangebound.learn.torch.gradients.bad_examples import finite, known_all, spared
from rangebound.learn.torch.gradients.captured_pass import CapturedPasses, Measured
from rangebound.learn.torch.gradients.gradient_forms import ExampleRows, Gradients, held
from rangebound.learn.torch.gradients.one_pass import Problem, example_gradients, filled, learned, one_pass
from rangebound.learn.torch.gradients.survey import Route, SteadyChunk, computed_as, steady_chunk, survey
from rangebound.values import arguments

_COPIES = 4  # about this many copies of the gradients of a block exist at once
_AT_ONCE = 1 << 20  # numbers of clamped rows
_SMALL = 1 << 14  # rows up to this width are joined, so that one operation serves many small parameters


def check_module(module: torch.nn.Module) -> torch.nn.Module:
    """Refuse a module that mixes examples or has nothing to learn; the error names the remedy."""
    found = arguments.instance("module", module, torch.nn.Module, "a torch.nn.Module")
    for name, part in found.named_modules():
        kind = type(part).__name__
        if has_statistics(part):
            check_frozen(name or kind, part)
        elif isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
            raise ArgumentError(
                f"module={name or kind}: {kind} mixes the examples of a batch, so "
                "clipping one example bounds nothing; use torch.nn.GroupNorm or LayerNorm instead"
            )
        if getattr(part, "max_norm", None) is not None:
            raise ArgumentError(
                f"module={name or kind}: max_norm writes over the weights of the words it sees, which "
                "no noise covers; leave max_norm out"
            )
        if any(isinstance(each, SpectralNorm) for each in part._forward_pre_hooks.values()):
            raise ArgumentError(
                f"module={name or kind}: torch.nn.utils.spectral_norm keeps its power iteration in the "
                "forward pass, where it is discarded; use torch.nn.utils.parametrizations.spectral_norm"
            )
    if any(isinstance(each, torch.nn.parameter.UninitializedParameter) for each in found.parameters()):
        raise ArgumentError("module: has a lazy layer of unknown size; run it once on made-up data")
    for name, each in learned(found).items():
        if each._backward_hooks or getattr(each, "_post_accumulate_grad_hooks", None):
            raise ArgumentError(
                f"module={name}: has a hook on its gradient, which a released gradient does not pass; change the "
                "loss or the optimizer instead"
            )
    if not learned(found):
        raise ArgumentError("module: has no parameter that requires a gradient; there is nothing to learn")
    return found


def check_optimizer(optimizer: object, module: torch.nn.Module) -> None:
    """Refuse what would move a parameter of the module by numbers that are not released, or twice for one release."""
    given: Any = arguments.instance("optimizer", optimizer, torch.optim.Optimizer, "a torch.optim.Optimizer")
    own = set(map(id, module.parameters()))
    if any(id(each) not in own for group in given.param_groups for each in group["params"]):
        raise ArgumentError(
            "optimizer: contains parameters that are not the module's, whose gradients would not be protected; "
            "make it from module.parameters()"
        )
    closure = inspect.signature(given.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise ArgumentError(
            f"optimizer={type(given).__name__}: evaluates the loss again within a step, which no account "
            "covers; use an optimizer that takes gradients, such as torch.optim.Adam"
        )


def has_statistics(part: torch.nn.Module) -> bool:
    """Whether a norm keeps statistics of the data, which it uses in evaluation mode."""
    return isinstance(part, torch.nn.modules.batchnorm._NormBase) and part.running_mean is not None


def check_frozen(name: str, part: torch.nn.Module) -> None:
    """Refuse a norm in training mode, in which it uses or writes what it knows of other examples."""
    if part.training:
        kind = type(part).__name__
        mixes = "mixes the examples of a batch" if isinstance(part, torch.nn.modules.batchnorm._BatchNorm) else ""
        raise ArgumentError(
            f"module={name}: {kind} {mixes or 'keeps statistics of the data'}, which no noise covers; use "
            "torch.nn.GroupNorm or LayerNorm instead; or, with statistics of public data, call .eval() on it, before "
            "make_private and after each call of train()"
        )


def clipped_sum(
    problem: Problem, leaves: Leaves, clip: Clipping, memory: int, chunk: int | None = None,
    captured: CapturedPasses | None = None, lengths: bool = False,
) -> Measured:  # fmt: skip
    """The sum over the examples of the clipped gradients, in doubles, and the losses of the examples.

    With Euclidean clipping also the squared norms of the gradients in doubles; with elementwise clipping nothing, or,
    for `lengths`, those of the clipped gradients in quanta, which are whole numbers.

    Guarantee: finite, and moved by an example by at most the clipping norm, whatever its values are. The loss of an
    example whose gradient is not finite, and so counts as zero, is NaN, and its norm 0. Elementwise sums are in quanta
    of the clip, whole numbers. `memory` limits the bytes of gradients held at once; the result of elementwise clipping
    depends on it only as far as the layers' rounding does. With `chunk`, a public number, examples are taken in chunks
    of that many, or of equal parts of it that fit into the memory, the last one filled with zeros that do not count:
    layers round by the shapes that they see, and then they see one shape, or a smaller one in which they round alike,
    whichever and however many others there are, so that a norm is the same to the last bit. Whether the place matters
    is tried first (`rangebound.learn.torch.gradients.survey`), and chunks may grow for it. With `captured`, blocks of
    one shape on a GPU are captured in a graph, which is then run again.
    """
    totals: dict[str, torch.Tensor] = {}
    count, device = len(leaves[0]), leaves[0].device
    losses = [torch.zeros(0, device=device)]
    squares = [torch.zeros(0, dtype=torch.float64, device=device)]
    start = 0
    with repeatable_convolutions():
        while start < count:
            route = survey(problem, leaves)
            wide = route.room if isinstance(clip, Elementwise) else route.room + 4 * route.stored
            if route.refused:
                wide = 8 * _COPIES * sum(each.numel() for each in problem.parameters.values())
            size = max(1, memory // max(wide, 1))  # examples at a time that keep within the memory
            steady = SteadyChunk(size=0, threads=torch.get_num_threads())
            if chunk is not None:
                steady = steady_chunk(route, problem.module, partial(_made, route, problem), leaves, clip, chunk, size)
            size = steady.size or size
            here = tuple(each[start : start + size] for each in leaves)
            with computed_as(steady):
                parts = _block(route, problem, here, clip, steady.filled(len(here[0])), captured, lengths)
            for sums, some, found in parts:
                for name, each in sums.items():
                    part = each.reshape(problem.parameters[name].shape)
                    totals[name] = totals[name].add_(part) if name in totals else part
                losses.append(some)
                squares.append(found)
            start += size
    for name, value in problem.parameters.items():
        if name not in totals:
            totals[name] = torch.zeros_like(value, dtype=torch.float64)
    return totals, torch.cat(losses), torch.cat(squares)


@contextmanager
def repeatable_convolutions() -> Iterator[None]:
    """Let convolutions on a GPU take no algorithm that adds in an order of chance, nor one that won a trial run."""
    flags = torch.backends.cudnn
    before = flags.deterministic, flags.benchmark
    flags.deterministic, flags.benchmark = True, False
    try:
        yield
    finally:
        flags.deterministic, flags.benchmark = before


def _made(route: Route, problem: Problem, module: torch.nn.Module, leaves: Leaves) -> dict[str, Gradients]:
    """The gradients of some examples along this route, of the module or a copy with other numbers."""
    parameters = {name: each for name, each in learned(module).items() if name in problem.parameters}
    here = replace(problem, module=module, parameters=parameters)
    if not route.refused:
        return one_pass(here, leaves).gradients
    return {name: held(rows) for name, rows in example_gradients(here, leaves, known=True)[0].items()}


def _block(
    route: Route, problem: Problem, leaves: Leaves, clip: Clipping, full: int, captured: CapturedPasses | None,
    lengths: bool,
) -> list[Measured]:  # fmt: skip
    def one_by_one(*some: torch.Tensor) -> Measured:
        gradients, losses = example_gradients(problem, some, known=True)
        padded = filled(full, *gradients.values())  # norms see one shape, too
        rows: dict[str, Gradients] = {name: held(each) for name, each in zip(gradients, padded, strict=True)}
        watched = [each.rows(0, full or len(losses)) for each in rows.values()]
        return _clipped(rows, filled(full, losses)[0], watched, clip, len(losses), lengths)

    def passed(some: Leaves, counted: int | torch.Tensor) -> Measured:
        found = one_pass(problem, some)
        return _clipped(found.gradients, found.losses, found.watched, clip, counted, lengths)

    def together(*some: torch.Tensor) -> Measured:
        given = filled(full, *some)
        if captured is not None and some[0].device.type == "cuda":
            setting = clip, id(problem.objective), problem.structure
            return captured.run(passed, problem.module, problem.objective.criterion, setting, given, len(some[0]))
        return passed(given, len(some[0]))

    def lost(first: torch.Tensor, *rest: torch.Tensor) -> Measured:
        none = torch.zeros(len(first), dtype=torch.float64, device=first.device)
        return {}, torch.full((len(first),), math.nan, device=first.device), none

    return [one_by_one(*leaves)] if route.refused else spared(together, one_by_one, lost, *leaves, known=True)


def _clipped(
    gradients: dict[str, Gradients], losses: torch.Tensor, watched: list[torch.Tensor], clip: Clipping,
    counted: int | torch.Tensor, lengths: bool = False,
) -> Measured:  # fmt: skip
    """The sums of the clipped gradients by the parameters' names, the losses, NaN where nothing counts, and norms.

    Only the first `counted` examples count, or those for which it is true.
    """
    count = counted if isinstance(counted, int) else len(losses)
    with torch.no_grad(), torch.autocast(losses.device.type, enabled=False):
        good = ~torch.isnan(losses) if isinstance(counted, int) else ~torch.isnan(losses) & counted
        packed, parts = _packed(gradients)
        if isinstance(clip, Elementwise):
            squares = losses.new_zeros(0, dtype=torch.float64)
            if watched:
                good &= finite(*watched)
            _keep(packed, good)
            good = good[:count]
            if lengths:
                squares = _lengths(packed, clip, count)
            sums = {}
            for name, each in packed.items():
                each.trim(count)
                sums[name], whole = each.clamped(clip)
                good &= whole
        else:
            squares = torch.zeros_like(losses, dtype=torch.float64)
            for each in packed.values():
                squares += each.squares()
            ordinary = torch.isfinite(squares)
            _keep(packed, ordinary)
            good &= ordinary
            good[count:] = False
            squares = torch.where(good, squares, torch.zeros_like(squares))
            weights = clip.shrink(squares) * good
            sums = {name: each.weighted(weights) for name, each in packed.items()}
    for joined, names in parts.items():
        widths = [gradients[name].rows(0, 0).shape[1] for name in names]
        sums.update(zip(names, torch.split(sums.pop(joined), widths), strict=True))  # type: ignore[no-untyped-call, unused-ignore]
    if lengths:
        squares = torch.where(good[:count], squares[:count], 0.0)
    return sums, losses[:count].masked_fill(~good[:count], math.nan), squares[:count]


def _lengths(gradients: dict[str, Gradients], clip: Elementwise, count: int) -> torch.Tensor:
    """The squared norms of the clamped gradients in quanta, as whole numbers are added: exactly, up to 2^53."""
    totals = []
    for each in gradients.values():
        width, found = each.rows(0, 1).shape[1], []
        size = max(1, _AT_ONCE // width)
        room = torch.empty(0)
        for first in range(0, count, size):
            rows = each.rows(first, min(first + size, count))
            rows = rows.to(row_sums.wide(rows))
            room = torch.empty_like(rows) if len(room) != len(rows) else room  # new memory would take more time
            whole = 1.5 / torch.finfo(rows.dtype).eps  # what is added to it is rounded to a whole number
            torch.mul(rows, 1.0 / clip.quantum, out=room)
            found.append(row_sums.squares(room.clamp_(-clip.levels, clip.levels).add_(whole).sub_(whole)))
        totals.append(torch.cat(found))
    return torch.stack(totals).sum(0)


def _keep(gradients: dict[str, Gradients], good: torch.Tensor) -> None:
    if not known_all(good):
        for each in gradients.values():
            each.keep(good)


def _packed(gradients: dict[str, Gradients]) -> tuple[dict[str, Gradients], dict[str, list[str]]]:
    """The same gradients with short rows joined by their precision, and which names are joined under which."""
    parts: dict[str, list[str]] = {}
    rows: dict[str, list[torch.Tensor]] = {}
    packed: dict[str, Gradients] = {}
    for name, each in gradients.items():
        if isinstance(each, ExampleRows) and each.held is not None and each.width <= _SMALL:
            parts.setdefault(f"joined {each.held.dtype}", []).append(name)
            rows.setdefault(f"joined {each.held.dtype}", []).append(each.held)
        else:
            packed[name] = each
    return packed | {key: held(torch.cat(some, 1)) for key, some in rows.items()}, parts
