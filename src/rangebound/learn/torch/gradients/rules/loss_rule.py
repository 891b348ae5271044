"""The cross entropy of each example, which runs on the batch: vmap would take it apart into many small functions."""

from __future__ import annotations

import math

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
    """`torch.nn.functional.cross_entropy` of one row of outputs and one class.

    Edge cases: NaN for a class that is to be ignored, of which there is no mean, as in torch; 0 where sums are asked.
    """
    plain = weight is None and size_average is None and reduce is None and reduction in ("mean", "sum")
    if not plain or input.shape[:1] != (1,) or input.dim() != 2 or target.shape != (1,) or target.is_floating_point():
        raise Unruled

    def run(outputs: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        outputs, classes = outputs[:, 0], classes[:, 0]
        options = {"ignore_index": ignore_index, "label_smoothing": label_smoothing}
        losses = F.cross_entropy(outputs, classes, reduction="none", **options)  # type: ignore[arg-type]
        return losses if reduction == "sum" else losses.masked_fill(classes == ignore_index, math.nan)

    found: torch.Tensor = tape.folded(run, input, target)
    return found


RULES = {F.cross_entropy: cross_entropy}
