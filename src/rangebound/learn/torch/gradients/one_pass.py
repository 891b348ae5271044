"""One forward and one backward pass over a block of examples: the gradients of each parameter for each example."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.func import functional_call, vmap

from rangebound.errors import ArgumentError
from rangebound.learn.torch.gradients import doubles, example_rows
from rangebound.learn.torch.gradients.bad_examples import spared
from rangebound.learn.torch.gradients.chain_of_layers import is_chain
from rangebound.learn.torch.gradients.example_rows import ExampleRows
from rangebound.learn.torch.gradients.module_state import discarded_state, fresh_copy
from rangebound.learn.torch.gradients.outer_products import OuterProducts, outer
from rangebound.learn.torch.gradients.rules import RULES
from rangebound.learn.torch.gradients.tape import Gradients, Interception, Tape

Criterion = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Tensors = Mapping[str, torch.Tensor]


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


def one_pass(
    module: torch.nn.Module,
    parameters: Tensors,
    criterion: Criterion,
    x: torch.Tensor,
    y: torch.Tensor,
    *,
    loose: Collection[str],
    separate: bool,
) -> Pass:
    """The gradients of each example by the loss of that example alone.

    With `separate` the module runs under vmap, so that no example can affect another, whatever it does; without, it
    must be a chain of known layers. Each example has its own view of the parameters in `loose`.

    Raises `Loose` if further parameters are used where no rule applies.
    """
    tape = Tape({name: each for name, each in parameters.items() if name not in loose}, separate=separate)
    own = {f"module.{name}": _view_for_each(parameters[name], len(x)) for name in parameters if name in loose}
    judged = _Judged(module, criterion)
    if separate or any(getattr(part, "inplace", False) for part in module.modules()):
        x, y = x.clone(), y.clone()  # the module, or a first layer in place, may write over them

    def loss(one: torch.Tensor, target: torch.Tensor, views: dict[str, torch.Tensor]) -> torch.Tensor:
        tape.enter(one)
        found: torch.Tensor = (
            functional_call(judged, views, (one[None], target[None])) if views else judged(one[None], target[None])
        )
        return found

    mode = Interception(tape, RULES)
    with discarded_state(*((module, criterion) if separate else ())), torch.enable_grad():
        if separate:
            check_hooks(module)
        with mode:
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
    mode.check_nothing_is_kept()
    missed = [
        name for name, each in zip(parameters, found[len(found) - len(parameters) :], strict=True) if each is not None
    ]
    if any(name in loose for name in missed):
        raise ArgumentError(
            f"module={', '.join(missed)}: is used by another name than that in the module, so its gradients would be "
            "incomplete; use it as an attribute of the module"
        )
    if missed:
        raise Loose({name: ", ".join(sorted(mode.seen.get(name, ()))) for name in missed})
    slopes = found[: len(tape.edges)]
    views = dict(zip(own, found[len(tape.edges) : len(wanted) - len(parameters)], strict=True))
    watched = [*tape.inputs, *(each.reshape(len(x), -1) for each in slopes if each is not None)]
    gradients = _by_parameter(tape, slopes)
    for name, each in views.items():
        if each is not None:
            rows = example_rows.of(each.to(doubles.wide(each)))
            gradients[name.removeprefix("module.")] = rows
            watched.append(rows.rows(0, len(x)))
    layers = {use.name: use.layer for use in tape.uses}
    return Pass(gradients=gradients, losses=losses.detach(), watched=watched, layers=layers)


class _Judged(torch.nn.Module):
    """The loss of a module, as a module: the criterion may use parameters too."""

    def __init__(self, module: torch.nn.Module, criterion: Criterion) -> None:
        super().__init__()
        self.module, self._criterion = module, (criterion,)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The loss of one example."""
        return self._criterion[0](self.module(x), y).sum()


def check_hooks(module: torch.nn.Module) -> None:
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


def _view_for_each(parameter: torch.Tensor, count: int) -> torch.Tensor:
    return parameter.detach()[None].expand(count, *parameter.shape).requires_grad_()


def example_losses(criterion: Criterion, output: torch.Tensor, y: torch.Tensor, *, known: bool = False) -> torch.Tensor:
    """The criterion of each example separately, whatever its reduction; one that vmap cannot run keeps no state.

    `known` is as in `spared`. Edge cases: NaN, of which no gradient is finite, for an example for which the criterion
    raises an error.
    """

    def together(o: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        tape = Tape({}, separate=True)

        def loss(one: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            tape.enter(one)
            return criterion(one[None], target[None]).sum()

        mode = Interception(tape, RULES)
        with discarded_state(criterion), mode:
            losses: torch.Tensor = vmap(loss, randomness="different")(o, t)
        mode.check_nothing_is_kept()
        return losses

    def alone(o: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        (judge,) = fresh_copy(criterion)
        losses: torch.Tensor = judge(o, t).sum()
        return losses[None]

    return torch.cat([torch.zeros_like(output.flatten()[:0]), *spared(together, alone, _lost, output, y, known=known)])


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
        tape = Tape({}, separate=True)

        def output(one: torch.Tensor) -> torch.Tensor:
            tape.enter(one)
            return forward(one[None])[0]

        mode = Interception(tape, RULES)
        with discarded_state(module), mode:
            found: torch.Tensor = vmap(output, randomness="different")(some.clone())
        mode.check_nothing_is_kept()
        return found

    def alone(one: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        (fresh,) = fresh_copy(module)
        found: torch.Tensor = fresh(one.clone())
        return found if found.shape == blank.shape else blank

    return torch.cat([blank[:0], *spared(together, alone, lambda one, y: blank, x, x, known=True)])


def _lost(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (output * math.nan).flatten(1).sum(1)
