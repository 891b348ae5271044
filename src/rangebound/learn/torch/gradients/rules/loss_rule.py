"""Cross entropy and log likelihood of each example, which run on the batch: vmap would take them apart.

A label of no class makes its example's loss NaN, and nothing else, where torch raises an error for the whole batch or,
on a GPU, ends all work of the process.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from rangebound.learn.torch.gradients.tape import Tape, Unruled


def cross_entropy(
    mode: TorchFunctionMode,
    tape: Tape,
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> torch.Tensor:
    """`torch.nn.functional.cross_entropy` of the labels of one example."""
    loss = partial(F.cross_entropy, label_smoothing=label_smoothing)
    return _of_labels(loss, tape, input, target, weight, size_average, ignore_index, reduce, reduction)


def nll_loss(
    mode: TorchFunctionMode,
    tape: Tape,
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> torch.Tensor:
    """`torch.nn.functional.nll_loss` of the labels of one example."""
    return _of_labels(F.nll_loss, tape, input, target, weight, size_average, ignore_index, reduce, reduction)


def _of_labels(
    loss: Callable[..., torch.Tensor], tape: Tape, input: torch.Tensor, target: torch.Tensor,
    weight: torch.Tensor | None, size_average: bool | None, ignore_index: int, reduce: bool | None, reduction: str,
) -> torch.Tensor:  # fmt: skip
    """The mean or the sum over the labels that are not ignored.

    Edge cases: the mean is NaN, as in torch, where all labels are ignored, and the sum 0.
    """
    plain = weight is None and size_average is None and reduce is None and reduction in ("mean", "sum")
    if not plain or input.dim() < 2 or target.shape != input.shape[:1] + input.shape[2:] or target.is_floating_point():
        raise Unruled

    def run(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        examples, outputs, labels = len(labels), outputs.flatten(0, 1), labels.flatten(0, 1)
        counted = labels != ignore_index
        unknown = counted & ((labels < 0) | (labels >= outputs.shape[1]))
        losses = loss(outputs, labels.masked_fill(unknown, 0), ignore_index=ignore_index, reduction="none")
        total = losses.masked_fill(unknown, math.nan).reshape(examples, -1).sum(1)
        if reduction == "sum":
            return total
        count = counted.reshape(examples, -1).sum(1)
        return (total / count.clamp(min=1)).masked_fill(count == 0, math.nan)

    found: torch.Tensor = tape.folded(run, input, target)
    return found


RULES = {F.cross_entropy: cross_entropy, F.nll_loss: nll_loss}
