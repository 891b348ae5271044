"""One forward and one backward pass over a block of examples: the gradients of each parameter for each example.

Where one pass cannot make them, they come from `torch.func` of the whole module, or from one example at a time, each
through a copy of the module.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.func import functional_call, grad_and_value, vmap

from rangebound.errors import ArgumentError
from rangebound.learn.torch.gradients import sums
from rangebound.learn.torch.gradients.bad_examples import spared
from rangebound.learn.torch.gradients.gradient_forms import ExampleRows, Gradients, OuterProducts, held, outer
from rangebound.learn.torch.gradients.layer_rules import RULES
from rangebound.learn.torch.gradients.tape import Tape, discarded_state, fresh_copy, is_chain, passing

Criterion = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Tensors = Mapping[str, torch.Tensor]

_ALIGNED = 512  # where tensors begin that torch makes on a GPU; arithmetic may depend on it


def learned(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The trainable parameters by name, each once."""
    return {name: each for name, each in module.named_parameters() if each.requires_grad}


@dataclass(frozen=True, eq=False)
class Problem:
    """What is differentiated: the loss of a module's outputs by a criterion, by these parameters of the module."""

    module: torch.nn.Module
    criterion: Criterion
    parameters: Tensors


class Loose(Exception):
    """Parameters that are used where no rule applies, with the functions that use them."""

    def __init__(self, names: dict[str, str]) -> None:
        super().__init__(", ".join(names))
        self.names = names


@dataclass(frozen=True, kw_only=True)
class Pass:
    """What a pass found: gradients by the parameters' names, losses, and the tensors that must be finite."""

    gradients: dict[str, Gradients]
    losses: torch.Tensor
    watched: list[torch.Tensor]
    layers: dict[str, str]


class _Judged(torch.nn.Module):
    """The loss of a module, as a module: the criterion may use parameters too."""

    def __init__(self, module: torch.nn.Module, criterion: Criterion) -> None:
        super().__init__()
        self.module, self._criterion = module, (criterion,)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self._criterion[0](self.module(x), y).sum()


def one_pass(problem: Problem, x: torch.Tensor, y: torch.Tensor, *, loose: Collection[str], separate: bool) -> Pass:
    """The gradients of each example by the loss of that example alone.

    With `separate` the module runs under vmap, so that no example can affect another, whatever it does; without, it
    must be a chain of known layers. Each example has its own view of the parameters in `loose`.

    Raises `Loose` if further parameters are used where no rule applies.
    """
    module, criterion, parameters = problem.module, problem.criterion, problem.parameters
    tape = Tape({name: each for name, each in parameters.items() if name not in loose}, RULES, separate=separate)
    own = {
        f"module.{name}": each.detach()[None].expand(len(x), *each.shape).requires_grad_()
        for name, each in parameters.items()
        if name in loose
    }
    judged = _Judged(module, criterion)
    if separate or any(getattr(part, "inplace", False) for part in module.modules()):
        x, y = x.clone(), y.clone()  # the module, or a first layer in place, may write over them

    def loss(one: torch.Tensor, target: torch.Tensor, views: dict[str, torch.Tensor]) -> torch.Tensor:
        tape.enter(one)
        given = one[None], target[None]
        found: torch.Tensor = functional_call(judged, views, given) if views else judged(*given)
        return found

    with discarded_state(*((module, criterion) if separate else ())), torch.enable_grad():
        if separate:
            _check_hooks(module)
        with tape:
            outcome: torch.Tensor = vmap(loss, randomness="different")(x, y, own) if separate else module(x)
    with torch.enable_grad():
        losses = outcome if separate else example_losses(criterion, outcome, y)
    wanted = [*tape.edges, *own.values(), *parameters.values()]
    with torch.autocast(x.device.type, enabled=False):
        found = (
            torch.autograd.grad(losses.sum(), wanted, allow_unused=True)
            if losses.requires_grad
            else [None] * len(wanted)
        )
    tape.check_nothing_is_kept()
    edges, views = len(tape.edges), len(tape.edges) + len(own)
    missed = [name for name, each in zip(parameters, found[views:], strict=True) if each is not None]
    if any(name in loose for name in missed):
        raise ArgumentError(
            f"module={', '.join(missed)}: is used by another name than that in the module, so its gradients would be "
            "incomplete; use it as an attribute of the module"
        )
    if missed:
        raise Loose({name: ", ".join(sorted(tape.seen.get(name, ()))) for name in missed})
    slopes = found[:edges]
    watched = [*tape.inputs, *(each.reshape(len(x), -1) for each in slopes if each is not None)]
    gradients = _by_parameter(tape, slopes)
    for name, each in zip(own, found[edges:views], strict=True):
        if each is not None:
            rows = held(each.to(sums.wide(each)))
            gradients[name.removeprefix("module.")] = rows
            watched.append(rows.rows(0, len(x)))
    layers = {use.name: use.layer for use in tape.uses}
    return Pass(gradients=gradients, losses=losses.detach(), watched=watched, layers=layers)


def _check_hooks(module: torch.nn.Module) -> None:
    """Raise an error for hooks of the backward pass, which vmap does not call, so that another route is taken."""
    if any(each._backward_hooks or each._backward_pre_hooks for each in module.modules()):
        raise RuntimeError("hooks of the backward pass are not called under torch.func.vmap")


def _by_parameter(tape: Tape, slopes: Sequence[torch.Tensor | None]) -> dict[str, Gradients]:
    """The gradients of each parameter, added over its uses: tied weights, and modules that are called twice."""
    uses: dict[str, list[Gradients]] = {}
    for use in tape.uses:
        slope = slopes[use.output]
        if slope is not None:
            uses.setdefault(use.name, []).append(use.gradients(slope))
    return {name: parts[0] if len(parts) == 1 else added(parts) for name, parts in uses.items()}


def added(parts: list[Gradients]) -> Gradients:
    """The sum of gradients of the same parameter, as rows: the norm of a sum needs the sum itself."""
    single = [each for each in parts if isinstance(each, OuterProducts)]
    if len(single) == len(parts):
        return outer(torch.stack([each.a for each in single], 1), torch.stack([each.g for each in single], 1))

    def make(first: int, last: int) -> torch.Tensor:
        total = parts[0].rows(first, last)
        for each in parts[1:]:
            total = total + each.rows(first, last)
        return total

    one = make(0, 1)
    return ExampleRows(count=parts[0].count, width=one.shape[1], make=make, device=one.device)


def example_losses(criterion: Criterion, output: torch.Tensor, y: torch.Tensor, *, known: bool = False) -> torch.Tensor:
    """The criterion of each example separately, whatever its reduction; one that vmap cannot run keeps no state.

    `known` is as in `spared`. Edge cases: NaN, of which no gradient is finite, for an example for which the criterion
    raises an error.
    """

    def together(o: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        tape = Tape({}, RULES, separate=True)

        def loss(one: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            tape.enter(one)
            return criterion(one[None], target[None]).sum()

        with passing(tape, criterion):
            losses: torch.Tensor = vmap(loss, randomness="different")(o, t)
        return losses

    def alone(o: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        (judge,) = fresh_copy(criterion)
        losses: torch.Tensor = judge(o, t).sum()
        return losses[None]

    def lost(o: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return (o * math.nan).flatten(1).sum(1)

    return torch.cat([torch.zeros_like(output.flatten()[:0]), *spared(together, alone, lost, output, y, known=known)])


def example_outputs(
    module: torch.nn.Module, forward: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, blank: torch.Tensor
) -> torch.Tensor:
    """The outputs of a module (by `forward`, the module itself or a compiled one), of each example by itself.

    Guarantee: no example affects the output of another, and the module keeps nothing and leaves the examples as they
    are, as in `one_pass`.
    Edge cases: `blank`, the output of one example, for an example for which the module raises an error, or gives an
    output of another shape.
    """

    def together(some: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if is_chain(module):
            return forward(some.clone())
        tape = Tape({}, RULES, separate=True)

        def output(one: torch.Tensor) -> torch.Tensor:
            tape.enter(one)
            return forward(one[None])[0]

        with passing(tape, module):
            found: torch.Tensor = vmap(output, randomness="different")(some.clone())
        return found

    def alone(one: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        (fresh,) = fresh_copy(module)
        found: torch.Tensor = fresh(one.clone())
        return found if found.shape == blank.shape else blank

    return torch.cat([blank[:0], *spared(together, alone, lambda one, y: blank, x, x, known=True)])


def filled(full: int, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The tensors with zeros after their examples, so that there are `full` of them; all begin alike in memory."""
    if not full or all(len(each) == full and each.data_ptr() % _ALIGNED == 0 for each in tensors):
        return tensors
    return tuple(torch.cat([each, each.new_zeros(full - len(each), *each.shape[1:])]) for each in tensors)


def example_gradients(
    problem: Problem, x: torch.Tensor, y: torch.Tensor, full: int = 0, *, known: bool = False
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """The gradient of each example, along a first axis, and the losses; `full` examples at once, filled with zeros.

    `known` is as in `spared`. Assumes: where examples go one at a time, neither the module nor the criterion keeps
    anything outside itself.
    """
    module, criterion = problem.module, problem.criterion

    def loss(values: Tensors, one: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        output = functional_call(module, dict(values), (one[None],))
        return criterion(output, target[None]).sum()

    values = {name: each.detach() for name, each in problem.parameters.items()}
    each: Any = vmap(grad_and_value(loss), in_dims=(None, 0, 0), randomness="different")

    def together(some: torch.Tensor, targets: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        with passing(Tape({}, {}, separate=True), module, criterion):
            _check_hooks(module)
            gradients, losses = each(values, *filled(full or len(some), some, targets))
        return {name: rows[: len(some)] for name, rows in gradients.items()}, losses.detach()[: len(some)]

    def alone(one: torch.Tensor, target: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        fresh, judge = fresh_copy(module, criterion)
        with torch.enable_grad():
            value = judge(fresh(one.clone()), target.clone()).sum()  # either may write over them
            rows = torch.autograd.grad(value, [*learned(fresh).values()], allow_unused=True, materialize_grads=True)
        return {name: row[None] for name, row in zip(values, rows, strict=True)}, value.detach()[None]

    def lost(one: torch.Tensor, target: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        none = {name: torch.full_like(value[None], math.nan) for name, value in values.items()}
        return none, torch.full((1,), math.nan, device=one.device)

    found = spared(together, alone, lost, x, y, known=known)
    if len(found) == 1:
        return found[0]
    gradients = {name: torch.cat([part[name] for part, _ in found]) for name in values}
    return gradients, torch.cat([losses for _, losses in found])
