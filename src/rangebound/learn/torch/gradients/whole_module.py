"""Gradients of a module that one pass cannot make: `torch.func` of the whole module, or one example at a time."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.func import functional_call, grad_and_value, vmap

from rangebound.learn.torch.gradients.bad_examples import spared
from rangebound.learn.torch.gradients.module_state import discarded_state, fresh_copy
from rangebound.learn.torch.gradients.one_pass import Criterion, Tensors, check_hooks
from rangebound.learn.torch.gradients.tape import Interception, Tape

_ALIGNED = 512  # where tensors begin that torch makes on a GPU; arithmetic may depend on it


def learned(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The trainable parameters by name, each once."""
    return {name: each for name, each in module.named_parameters() if each.requires_grad}


def filled(full: int, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The tensors with zeros after their examples, so that there are `full` of them; all begin alike in memory."""
    if not full or all(len(each) == full and each.data_ptr() % _ALIGNED == 0 for each in tensors):
        return tensors
    return tuple(torch.cat([each, each.new_zeros(full - len(each), *each.shape[1:])]) for each in tensors)


def example_gradients(
    module: torch.nn.Module,
    parameters: Tensors,
    criterion: Criterion,
    x: torch.Tensor,
    y: torch.Tensor,
    full: int = 0,
    *,
    known: bool = False,
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """The gradient of each example, along a first axis, and the losses; `full` examples at once, filled with zeros.

    `known` is as in `spared`. Assumes: where examples go one at a time, neither the module nor the criterion keeps
    anything outside itself.
    """

    def loss(values: Tensors, one: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        output = functional_call(module, dict(values), (one[None],))
        return criterion(output, target[None]).sum()

    names, values = list(parameters), {name: each.detach() for name, each in parameters.items()}
    each: Any = vmap(grad_and_value(loss), in_dims=(None, 0, 0), randomness="different")

    def together(some: torch.Tensor, targets: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        mode = Interception(Tape({}, separate=True), {})
        with discarded_state(module, criterion), mode:
            check_hooks(module)
            gradients, losses = each(values, *filled(full or len(some), some, targets))
        mode.check_nothing_is_kept()
        return {name: rows[: len(some)] for name, rows in gradients.items()}, losses.detach()[: len(some)]

    def alone(one: torch.Tensor, target: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        fresh, judge = fresh_copy(module, criterion)
        with torch.enable_grad():
            value = judge(fresh(one.clone()), target.clone()).sum()  # either may write over them
            rows = torch.autograd.grad(value, [*learned(fresh).values()], allow_unused=True, materialize_grads=True)
        return {name: row[None] for name, row in zip(names, rows, strict=True)}, value.detach()[None]

    def lost(one: torch.Tensor, target: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        none = {name: torch.full_like(value[None], math.nan) for name, value in values.items()}
        return none, torch.full((1,), math.nan, device=one.device)

    found = spared(together, alone, lost, x, y, known=known)
    if len(found) == 1:
        return found[0]
    gradients = {name: torch.cat([part[name] for part, _ in found]) for name in names}
    return gradients, torch.cat([losses for _, losses in found])
