"""The sum of clipped per-example gradients of a module, by `torch.func`, a few examples at a time.

`torch.func.vmap` runs each example by itself, so no example can reach into the gradient of another, whatever the module
does. That is what makes the clip a limit on what one example can change. Modules that it cannot run (a GRU, decisions
by values, functions without its rules) go one example at a time, each through a copy of the module, to the same end.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.func import functional_call, grad_and_value, vmap

from rangebound import arguments
from rangebound.errors import ArgumentError
from rangebound.learn.torch import layers
from rangebound.learn.torch.clamped import clamped_rows
from rangebound.learn.torch.clip import Clipping, Elementwise

Criterion = layers.Criterion
Tensors = dict[str, torch.Tensor]

_COPIES = 4  # the gradients of a block of examples exist about so often at once


def check_module(module: object) -> torch.nn.Module:
    """A module whose examples do not mix and that has something to learn; any other is refused with the fix named."""
    found: torch.nn.Module = arguments.instance("module", module, torch.nn.Module, "a torch.nn.Module")
    for name, part in found.named_modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
            raise ArgumentError(
                f"module={name or type(part).__name__}: {type(part).__name__} mixes the examples of a batch, so "
                "clipping one limits nothing; use torch.nn.GroupNorm, or LayerNorm, in its place"
            )
        if getattr(part, "track_running_stats", False):
            raise ArgumentError(
                f"module={name or type(part).__name__}: {type(part).__name__} keeps statistics of the data, which "
                "no noise covers; leave track_running_stats out"
            )
    if any(isinstance(each, torch.nn.parameter.UninitializedParameter) for each in found.parameters()):
        raise ArgumentError("module: has a lazy layer that does not know its size; run it once, on made-up data")
    if not learned(found):
        raise ArgumentError("module: has no parameter that requires a gradient; there is nothing to learn")
    return found


def learned(module: torch.nn.Module) -> Tensors:
    """The parameters that are trained, by name, each once."""
    return {name: each for name, each in module.named_parameters() if each.requires_grad}


def clipped_sum(
    module: torch.nn.Module, criterion: Criterion, x: torch.Tensor, y: torch.Tensor, clip: Clipping, memory: int
) -> tuple[Tensors, torch.Tensor]:
    """The sum over the examples of the clipped gradients, in doubles, and the losses of the examples.

    Elementwise sums are in quanta of the clip, whole numbers. `memory` limits the bytes of gradients held at once; the
    result of elementwise clipping depends on it no more than the layers' rounding does.
    """
    parameters = learned(module)
    totals = {name: torch.zeros_like(each, dtype=torch.float64) for name, each in parameters.items()}
    plain = layers.chain(module)
    size = len(x) if plain is None else layers.block(plain, x, memory)
    if plain is None:
        width = sum(each.numel() for each in parameters.values())
        size = max(1, memory // (8 * _COPIES * max(width, 1)))
    losses = [torch.zeros(0, device=x.device)]
    for start in range(0, len(x), size):
        here = x[start : start + size], y[start : start + size]
        part, loss = (
            layers.sums(plain, criterion, *here, clip)
            if plain is not None
            else _by_func(module, parameters, criterion, *here, clip)
        )
        for name, total in totals.items():
            total += part[name].reshape(total.shape)
        losses.append(loss)
    return totals, torch.cat(losses)


def example_gradients(
    module: torch.nn.Module, criterion: Criterion, x: torch.Tensor, y: torch.Tensor
) -> tuple[Tensors, torch.Tensor]:
    """The gradient of each example, along a first axis, and the losses."""
    return _examples(module, learned(module), criterion, x, y)


def _examples(
    module: torch.nn.Module, parameters: Tensors, criterion: Criterion, x: torch.Tensor, y: torch.Tensor
) -> tuple[Tensors, torch.Tensor]:
    rest = {name: each for name, each in module.named_parameters() if name not in parameters}
    fixed = {**rest, **dict(module.named_buffers())}

    def loss(values: Tensors, one: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        output = functional_call(module, {**values, **fixed}, (one[None],))
        return criterion(output, target[None]).sum()

    values = {name: each.detach() for name, each in parameters.items()}
    each: Any = vmap(grad_and_value(loss), in_dims=(None, 0, 0), randomness="different")
    try:
        gradients, losses = each(values, x, y)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError:
        return _one_by_one(module, list(parameters), criterion, x, y)
    return gradients, losses.detach()


def _one_by_one(
    module: torch.nn.Module, names: list[str], criterion: Criterion, x: torch.Tensor, y: torch.Tensor
) -> tuple[Tensors, torch.Tensor]:
    """The same, slowly: what the module or the criterion remembers of one example is gone with its copy.

    Assumes: neither keeps anything outside itself.
    """
    rows, losses = [], []
    for one, target in zip(x, y, strict=True):
        fresh, judge = copy.deepcopy((module, criterion))
        with torch.enable_grad():
            loss = judge(fresh(one[None]), target[None]).sum()
            rows.append(
                torch.autograd.grad(loss, [*learned(fresh).values()], allow_unused=True, materialize_grads=True)
            )
        losses.append(loss.detach())
    return {name: torch.stack(each) for name, each in zip(names, zip(*rows, strict=True), strict=True)}, torch.stack(
        losses
    )


def _by_func(
    module: torch.nn.Module,
    parameters: Tensors,
    criterion: Criterion,
    x: torch.Tensor,
    y: torch.Tensor,
    clip: Clipping,
) -> tuple[Tensors, torch.Tensor]:
    gradients, losses = _examples(module, parameters, criterion, x, y)
    with torch.no_grad(), torch.autocast(x.device.type, enabled=False):
        rows = {name: each.flatten(1) for name, each in gradients.items()}
        if isinstance(clip, Elementwise):
            return {name: clamped_rows(each, clip) for name, each in rows.items()}, losses
        squares = sum(each.double().square().sum(1) for each in rows.values())
        factors = layers.shrink(torch.as_tensor(squares), clip)
        return {name: factors @ each.double() for name, each in rows.items()}, losses
