"""The sum of clipped per-example gradients of a module, by `torch.func`, a few examples at a time.

`torch.func.vmap` runs each example separately, so no example can affect the gradient of another, whatever the module
does. Therefore the clipping norm bounds what one example can change. Modules that it cannot run (a GRU, data-dependent
control flow, functions without its rules) are run one example at a time, each through a copy of the module.

An example whose gradient is not finite, or for which the module or the criterion raises an error, counts with gradient
zero (`rangebound.learn.torch.gradients.layers`).
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch.func import functional_call, grad_and_value, vmap

from rangebound import arguments
from rangebound.errors import ArgumentError
from rangebound.learn.torch.clipping_norm import Clipping, Elementwise
from rangebound.learn.torch.gradients import layers
from rangebound.learn.torch.gradients.clamped import clamped_rows

Criterion = layers.Criterion
Tensors = dict[str, torch.Tensor]

_COPIES = 4  # about so many copies of the gradients of a block exist at once


def check_module(module: torch.nn.Module) -> torch.nn.Module:
    """Refuse a module that mixes examples or has nothing to learn; the error names the remedy."""
    found = arguments.instance("module", module, torch.nn.Module, "a torch.nn.Module")
    for name, part in found.named_modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
            raise ArgumentError(
                f"module={name or type(part).__name__}: {type(part).__name__} mixes the examples of a batch, so "
                "clipping one example bounds nothing; use torch.nn.GroupNorm or LayerNorm instead"
            )
        if getattr(part, "track_running_stats", False):
            raise ArgumentError(
                f"module={name or type(part).__name__}: {type(part).__name__} keeps statistics of the data, which "
                "no noise covers; leave track_running_stats out"
            )
    if any(isinstance(each, torch.nn.parameter.UninitializedParameter) for each in found.parameters()):
        raise ArgumentError("module: has a lazy layer of unknown size; run it once on made-up data")
    if not learned(found):
        raise ArgumentError("module: has no parameter that requires a gradient; there is nothing to learn")
    return found


def learned(module: torch.nn.Module) -> Tensors:
    """The trainable parameters by name, each once."""
    return {name: each for name, each in module.named_parameters() if each.requires_grad}


def clipped_sum(
    module: torch.nn.Module, criterion: Criterion, x: torch.Tensor, y: torch.Tensor, clip: Clipping, memory: int
) -> tuple[Tensors, torch.Tensor]:
    """The sum over the examples of the clipped gradients, in doubles, and the losses of the examples.

    Guarantee: finite, and moved by an example by at most the clipping norm, whatever its values are. The loss of an
    example whose gradient is not finite, and so counts as zero, is NaN. Elementwise sums are in quanta of the clip,
    whole numbers. `memory` limits the bytes of gradients held at once; the result of elementwise clipping depends on it
    only as far as the layers' rounding does.
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

    def together(some: torch.Tensor, targets: torch.Tensor) -> tuple[Tensors, torch.Tensor]:
        gradients, losses = each(values, some, targets)
        return gradients, losses.detach()

    def lost(one: torch.Tensor, target: torch.Tensor) -> tuple[Tensors, torch.Tensor]:
        none = {name: torch.full_like(value[None], math.nan) for name, value in values.items()}
        return none, torch.full((1,), math.nan, device=one.device)

    names = list(parameters)
    found = layers.spared(together, lambda a, b: _alone(module, names, criterion, a, b), lost, x, y)
    if len(found) == 1:
        return found[0]
    gradients = {name: torch.cat([part[name] for part, _ in found]) for name in names}
    return gradients, torch.cat([losses for _, losses in found])


def _alone(
    module: torch.nn.Module, names: list[str], criterion: Criterion, x: torch.Tensor, y: torch.Tensor
) -> tuple[Tensors, torch.Tensor]:
    """The same for one example, slowly: state that the module or the criterion keeps is discarded with the copy.

    Assumes: neither keeps anything outside itself.
    """
    fresh, judge = copy.deepcopy((module, criterion))
    with torch.enable_grad():
        loss = judge(fresh(x), y).sum()
        row = torch.autograd.grad(loss, [*learned(fresh).values()], allow_unused=True, materialize_grads=True)
    return {name: each[None] for name, each in zip(names, row, strict=True)}, loss.detach()[None]


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
        good = ~torch.isnan(losses)
        for each in rows.values():
            good &= layers.finite(each)
        if not bool(good.all()):
            rows = {name: layers.kept(each, good) for name, each in rows.items()}
        if isinstance(clip, Elementwise):
            return {name: clamped_rows(each, clip) for name, each in rows.items()}, layers.without(losses, good)
        squares = torch.as_tensor(sum(each.double().square().sum(1) for each in rows.values()))
        factors = layers.shrink(squares, clip)
        losses = layers.without(losses, good & torch.isfinite(squares))
        return {name: factors @ each.double() for name, each in rows.items()}, losses
