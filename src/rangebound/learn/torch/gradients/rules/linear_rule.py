"""Linear layers: the gradient of the weights is a sum of outer products over the positions of an example."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from rangebound.learn.torch.gradients import doubles, example_rows
from rangebound.learn.torch.gradients.outer_products import outer
from rangebound.learn.torch.gradients.tape import Tape


def linear(
    mode: TorchFunctionMode, tape: Tape, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """`torch.nn.functional.linear`, for inputs with any number of axes."""

    def run(x: torch.Tensor) -> torch.Tensor:
        count, flat = len(x), x.reshape(-1, x.shape[-1])
        output = F.linear(flat, tape.copy_of(weight), tape.copy_of(bias))
        if tape.traced(weight, bias):
            output, place = tape.note_output(output, count)
            note(tape, "linear", place, x, count, weight, bias)
        return output.view(*x.shape[:-1], output.shape[-1])

    return tape.batched(run, input, weight, bias)


def note(tape: Tape, layer: str, place: int, x: torch.Tensor, count: int, weight: torch.Tensor, *biases: Any) -> None:
    """Note that output `place` is x weight^T + biases, each with one row for each example and position."""
    if tape.traced(weight):
        a = tape.note_input(x.reshape(count, -1, x.shape[-1]))
        tape.note_use(weight, place, layer, lambda g: outer(a, g.reshape(count, -1, g.shape[-1])))
    for bias in biases:
        tape.note_use(bias, place, layer, lambda g: example_rows.of(_over_positions(g, count)))


def _over_positions(g: torch.Tensor, count: int) -> torch.Tensor:
    return g.reshape(count, -1, g.shape[-1]).sum(1, dtype=doubles.wide(g))


RULES = {F.linear: linear}
