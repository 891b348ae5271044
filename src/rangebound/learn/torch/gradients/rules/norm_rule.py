"""Group, layer and RMS norms: the gradient of the weights is that of the output times the normalised input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from rangebound.learn.torch.gradients import doubles, example_rows
from rangebound.learn.torch.gradients.tape import Tape


def layer_norm(
    mode: TorchFunctionMode,
    tape: Tape,
    input: torch.Tensor,
    normalized_shape: list[int],
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    """`torch.nn.functional.layer_norm`."""

    def run(x: torch.Tensor) -> torch.Tensor:
        output = F.layer_norm(x, normalized_shape, tape.copy_of(weight), tape.copy_of(bias), eps)
        return _last_axes(tape, x, output, weight, bias, lambda a: F.layer_norm(a, normalized_shape, eps=eps))

    return tape.batched(run, input, weight, bias)


def rms_norm(
    mode: TorchFunctionMode,
    tape: Tape,
    input: torch.Tensor,
    normalized_shape: list[int],
    weight: torch.Tensor | None = None,
    eps: float | None = None,
) -> torch.Tensor:
    """`torch.nn.functional.rms_norm`."""

    def run(x: torch.Tensor) -> torch.Tensor:
        output = F.rms_norm(x, normalized_shape, tape.copy_of(weight), eps)
        return _last_axes(tape, x, output, weight, None, lambda a: F.rms_norm(a, normalized_shape, None, eps))

    return tape.batched(run, input, weight)


def group_norm(
    mode: TorchFunctionMode,
    tape: Tape,
    input: torch.Tensor,
    num_groups: int,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    """`torch.nn.functional.group_norm`."""

    def run(x: torch.Tensor) -> torch.Tensor:
        count, flat = len(x), x.flatten(0, 1)
        output = F.group_norm(flat, num_groups, tape.copy_of(weight), tape.copy_of(bias), eps)
        if tape.traced(weight, bias):
            output, place = tape.note_output(output, count)
            if tape.traced(weight):
                a = tape.note_input(flat)
                tape.note_use(
                    weight,
                    place,
                    "norm",
                    lambda g: example_rows.of(_by_channel(F.group_norm(a, num_groups, eps=eps) * g, count)),
                )
            tape.note_use(bias, place, "norm", lambda g: example_rows.of(_by_channel(g, count)))
        return output.view(*x.shape[:2], *output.shape[1:])

    return tape.batched(run, input, weight, bias)


def _last_axes(
    tape: Tape,
    x: torch.Tensor,
    output: torch.Tensor,
    weight: Any,
    bias: Any,
    normalised: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    if not tape.traced(weight, bias):
        return output
    count = len(x)
    output, place = tape.note_output(output, count)
    if tape.traced(weight):
        a = tape.note_input(x)
        tape.note_use(
            weight, place, "norm", lambda g: example_rows.of(_by_place(normalised(a) * g, weight.numel(), count))
        )
    tape.note_use(bias, place, "norm", lambda g: example_rows.of(_by_place(g, bias.numel(), count)))
    return output


def _by_place(g: torch.Tensor, width: int, count: int) -> torch.Tensor:
    return g.reshape(count, -1, width).sum(1, dtype=doubles.wide(g))


def _by_channel(g: torch.Tensor, count: int) -> torch.Tensor:
    return g.reshape(count, -1, g.shape[1], g[0, 0].numel()).sum((1, 3), dtype=doubles.wide(g))


RULES: dict[Any, Callable[..., Any]] = {F.layer_norm: layer_norm, F.rms_norm: rms_norm, F.group_norm: group_norm}
