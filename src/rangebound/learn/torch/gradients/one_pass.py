"""One forward and one backward pass over a block of examples: the gradients of each parameter for each example.

Where one pass cannot make them, the examples go one at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.func import vmap

from rangebound.learn.torch.batch_tree import Leaves, Structure, put_together, taken_apart
from rangebound.learn.torch.called_criterion import CalledCriterion, Objective
from rangebound.learn.torch.gradients.bad_examples import spared
from rangebound.learn.torch.gradients.gradient_forms import ExampleRows, Gradients, OuterProducts, outer
from rangebound.learn.torch.gradients.layer_rules import RULES
from rangebound.learn.torch.gradients.tape import Tape, as_if_compiled, discarded_state, passing

Tensors = Mapping[str, torch.Tensor]

_ALIGNED = 512  # where tensors begin that torch makes on a GPU; arithmetic may depend on it


def learned(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The trainable parameters by name, each once."""
    return {name: each for name, each in module.named_parameters() if each.requires_grad}


@dataclass(frozen=True, eq=False)
class Problem:
    """What is differentiated by which parameters of a module: the loss of batches of one structure."""

    module: torch.nn.Module
    objective: Objective
    parameters: Tensors
    structure: Structure
    discarded: frozenset[str] = frozenset()  # buffers that the module may write, and that are discarded

    def loss(self, leaves: Sequence[torch.Tensor]) -> torch.Tensor:
        """The loss of one example, of which each tensor has an axis of one."""
        found: torch.Tensor = self.objective(self.module, put_together(self.structure, leaves))
        return found.sum()


@dataclass(frozen=True, kw_only=True)
class Pass:
    """What a pass found: gradients by the parameters' names, losses, and the tensors that must be finite.

    Also by which rule each parameter's gradient was made, and which buffers were written.
    """

    gradients: dict[str, Gradients]
    losses: torch.Tensor
    watched: list[torch.Tensor]
    layers: dict[str, str]
    written: set[str]


def one_pass(problem: Problem, leaves: Leaves) -> Pass:
    """The gradients of each example by the loss of that example alone.

    The module runs under vmap, so that no example can affect another, whatever it does. Each example has its own view
    of a parameter that is used where no rule applies.
    """
    module, objective, parameters = problem.module, problem.objective, problem.parameters
    count = len(leaves[0])
    tape = Tape(parameters, RULES, count=count)

    def loss(*one: torch.Tensor) -> torch.Tensor:
        tape.enter(one[0])
        return problem.loss([each[None] for each in one])

    with discarded_state(module, objective) as written, torch.enable_grad():
        if any(each._backward_hooks or each._backward_pre_hooks for each in module.modules()):
            raise RuntimeError("hooks of the backward pass are not called under torch.func.vmap")
        with tape, as_if_compiled(module):  # with copies, over which the module may write
            losses: torch.Tensor = vmap(loss, randomness="different")(*(each.clone() for each in leaves))
    wanted = [*tape.edges, *parameters.values()]
    with torch.autocast(leaves[0].device.type, enabled=False):
        found = (
            torch.autograd.grad(losses.sum(), wanted, allow_unused=True)
            if losses.requires_grad
            else [None] * len(wanted)
        )
    tape.check_nothing_is_kept()
    slopes = found[: len(tape.edges)]
    missed = [name for name, each in zip(parameters, found[len(slopes) :], strict=True) if each is not None]
    if missed:
        raise RuntimeError(f"{', '.join(missed)}: is used where no function of torch shows it")
    uses: dict[str, list[Gradients]] = {}
    for use in tape.uses:
        slope = slopes[use.output]
        if slope is not None:
            uses.setdefault(use.name, []).append(use.gradients(slope))
    watched = [*tape.inputs, *(each.reshape(count, -1) for each in slopes if each is not None)]
    return Pass(
        gradients={name: parts[0] if len(parts) == 1 else added(parts) for name, parts in uses.items()},
        losses=losses.detach(),
        watched=watched,
        layers={use.name: use.layer for use in tape.uses if slopes[use.output] is not None},
        written=written,
    )


def added(parts: list[Gradients]) -> Gradients:
    """The sum of gradients of one parameter (tied weights, modules called twice), as rows, which its norm needs."""
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


def example_losses(
    criterion: CalledCriterion, form: Structure, outputs: Leaves, kind: Structure, targets: Leaves,
    *, known: bool = False,
) -> torch.Tensor:  # fmt: skip
    """The criterion of each example separately, whatever its reduction; one that vmap cannot run keeps no state.

    `form` and `kind` are the structures of outputs and targets, and `known` is as in `spared`. Edge cases: NaN, of
    which no gradient is finite, for an example for which the criterion raises an error.
    """

    def judged(given: Sequence[torch.Tensor]) -> torch.Tensor:
        several = len(outputs)
        return criterion.judge(put_together(form, given[:several]), put_together(kind, given[several:])).sum()

    def together(*leaves: torch.Tensor) -> torch.Tensor:
        tape = Tape({}, RULES)

        def loss(*one: torch.Tensor) -> torch.Tensor:
            tape.enter(one[0])
            return judged([each[None] for each in one])

        with passing(tape, criterion):
            losses: torch.Tensor = vmap(loss, randomness="different")(*leaves)
        return losses

    def alone(*one: torch.Tensor) -> torch.Tensor:
        with discarded_state(criterion, whole=True):
            return judged(one)[None]

    def lost(first: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        return (first * math.nan).flatten(1).sum(1)

    none = torch.zeros_like(outputs[0].flatten()[:0], dtype=torch.promote_types(outputs[0].dtype, torch.float32))
    return torch.cat([none, *spared(together, alone, lost, *outputs, *targets, known=known)])


def example_outputs(
    module: torch.nn.Module, forward: Callable[..., Any], structure: Structure, leaves: Leaves, blank: Leaves
) -> Leaves:
    """The outputs of a module (by `forward`, the module itself or a compiled one), of each example by itself.

    Guarantee: no example affects the output of another, and the module keeps nothing and leaves the examples as they
    are, as in `one_pass`.
    Edge cases: `blank`, the output of one example, for an example for which the module raises an error, or gives an
    output of another shape.
    """

    def run(of: Callable[..., Any], given: Sequence[torch.Tensor]) -> Leaves:
        arguments, named = put_together(structure, given)
        return taken_apart(of(*arguments, **named), "output", lenient=True)[1]

    def together(*some: torch.Tensor) -> Leaves:
        some = tuple(each.clone() for each in some)
        tape = Tape({}, RULES)

        def output(*one: torch.Tensor) -> Leaves:
            tape.enter(one[0])
            found = zip(run(forward, [each[None] for each in one]), blank, strict=True)
            return tuple(each.reshape(like.shape[1:]) for each, like in found)

        with passing(tape, module), as_if_compiled(module):
            found: Leaves = vmap(output, randomness="different")(*some)
        return found

    def alone(*one: torch.Tensor) -> Leaves:
        with discarded_state(module, whole=True):
            found = tuple(each if each.dim() else each[None] for each in run(module, [each.clone() for each in one]))
        return found if [each.shape for each in found] == [each.shape for each in blank] else blank

    parts = spared(together, alone, lambda *one: blank, *leaves, known=True)
    return tuple(torch.cat([each[:0], *(part[i] for part in parts)]) for i, each in enumerate(blank))


def filled(full: int, *tensors: torch.Tensor) -> Leaves:
    """The tensors with zeros after their examples, so that there are `full` of them; all begin alike in memory."""
    if not full or all(len(each) == full and each.data_ptr() % _ALIGNED == 0 for each in tensors):
        return tensors
    return tuple(torch.cat([each, each.new_zeros(full - len(each), *each.shape[1:])]) for each in tensors)


def example_gradients(
    problem: Problem, leaves: Leaves, *, known: bool = False, written: set[str] | None = None
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """The gradient of each example, along a first axis, and the losses, one example at a time.

    `known` is as in `spared`; to `written` the names of buffers are added that were written.
    Assumes: neither the module nor the criterion keeps anything outside itself.
    """
    parameters = problem.parameters

    def alone(*one: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        with discarded_state(problem.module, problem.objective, whole=True) as names, torch.enable_grad():
            value = problem.loss([each.clone() for each in one])  # either may write over them
            rows = torch.autograd.grad(value, [*parameters.values()], allow_unused=True, materialize_grads=True)
        if written is not None:
            written.update(names)
        return {name: row[None] for name, row in zip(parameters, rows, strict=True)}, value.detach()[None]

    def lost(first: torch.Tensor, *rest: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        none = {name: torch.full_like(value[None], math.nan) for name, value in parameters.items()}
        return none, torch.full((1,), math.nan, device=first.device)

    found = spared(None, alone, lost, *leaves, known=known)
    gradients = {name: torch.cat([part[name] for part, _ in found]) for name in parameters}
    return gradients, torch.cat([losses for _, losses in found])
