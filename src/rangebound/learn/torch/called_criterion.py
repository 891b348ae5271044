"""What a step needs of a loop: a criterion as it is called with one example, and the examples of a forward pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from rangebound.errors import ArgumentError
from rangebound.learn.torch.batch_tree import Leaves, Structure, put_together, taken_apart
from rangebound.values import arguments

Precision = tuple[str, torch.dtype, bool]
"""The arguments of `torch.autocast` with which it is as it was."""


def precision(device: torch.device) -> Precision:
    """The setting of `torch.autocast` that is in force for a kind of device."""
    return device.type, torch.get_autocast_dtype(device.type), torch.is_autocast_enabled(device.type)


@dataclass(frozen=True, kw_only=True, eq=False)
class ForwardPass:
    """The arguments of a forward pass of an attached module: as which version of each tensor, and of which batch."""

    structure: Structure
    leaves: Leaves
    precision: Precision
    versions: list[int]
    drawn: int

    def batch(self, y: object) -> tuple[Structure, Leaves]:
        """Structure and tensors of the batch of these arguments and the targets `y`."""
        return taken_apart((put_together(self.structure, self.leaves), y), "batch")


class CalledCriterion(torch.nn.Module):
    """A criterion as a step calls it: times a fixed factor, with fixed settings, in the precision of its first call.

    With `place`, it takes that one of the module's output tensors; with `dtype`, in that precision. It is a module, so
    that what a criterion keeps of its examples is discarded as for the criterion alone.
    """

    def __init__(
        self, criterion: Callable[..., torch.Tensor], *, scale: float = 1.0,
        settings: Mapping[str, object] | None = None, place: int | None = None, precision: Precision | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.criterion, self.scale, self.settings = criterion, scale, dict(settings or {})
        self.place, self.precision, self.dtype = place, precision, dtype

    def forward(self, module: torch.nn.Module, batch: Any) -> torch.Tensor:
        """The loss of a batch ((arguments, arguments by name), targets)."""
        (given, named), target = batch
        output = module(*given, **named)
        if self.dtype is not None:
            form, leaves = taken_apart(output, "output", lenient=True)
            halves = [each.to(self.dtype) if each.dtype == torch.float16 else each for each in leaves]
            output = put_together(form, halves) if self.place is None else leaves[self.place]
        return self.judge(output, target)

    def judge(self, output: Any, target: Any) -> torch.Tensor:
        """The loss of these outputs, times the factor: gradients in half precision do not vanish then."""
        with nullcontext() if self.precision is None else torch.autocast(*self.precision):
            if self.dtype is not None and isinstance(output, torch.Tensor):
                output = output.to(self.dtype)
            return self.criterion(output, target, **self.settings) * self.scale

    def is_like(self, other: CalledCriterion) -> bool:
        """Whether both call the same criterion with the same settings."""
        mine, theirs = (
            {name: id(value) if isinstance(value, torch.Tensor) else value for name, value in each.settings.items()}
            for each in (self, other)
        )
        return self.criterion is other.criterion and self.place == other.place and mine == theirs


class BatchLoss(torch.nn.Module):
    """The loss of a batch as a function of the module and the batch, times a fixed factor."""

    def __init__(self, loss: Callable[..., torch.Tensor], scale: float) -> None:
        super().__init__()
        self.criterion, self.scale = loss, scale

    def forward(self, module: torch.nn.Module, batch: Any) -> torch.Tensor:
        """The loss of a batch, which is called with one example."""
        return self.criterion(module, batch) * self.scale


Objective = CalledCriterion | BatchLoss


def check_weights(criterion: object, settings: Mapping[str, object], y: object) -> None:
    """Refuse a mean that is divided by the weights of the classes: of one label, it is the loss without a weight."""
    if isinstance(criterion, (torch.nn.CrossEntropyLoss, torch.nn.NLLLoss)):
        settings = {"weight": criterion.weight, "reduction": criterion.reduction}
    elif criterion not in (F.cross_entropy, F.nll_loss):
        return
    mean = settings.get("reduction", "mean") == "mean" and settings.get("weight") is not None
    if mean and isinstance(y, torch.Tensor) and y.dim() == 1 and not y.is_floating_point():
        raise ArgumentError(
            "criterion: with one label for each example, the weight of its class cancels in the mean; "
            'use reduction="sum", with which it counts'
        )


def objective(criterion: object, loss: object, loss_scale: object) -> Objective:
    """What is minimised: a criterion of outputs and targets, or a loss of the module and a batch."""
    scale = arguments.positive("loss_scale", loss_scale)
    if math.frexp(scale)[0] != 0.5 or not 1.0 <= scale <= 2.0**24:  # multiplying and dividing by it is exact
        shown = arguments.shown(loss_scale)
        raise ArgumentError(f"loss_scale={shown}: must be a power of two from 1 to 2^24, such as 4096")
    if (criterion is None) == (loss is None):
        raise ArgumentError(
            "criterion, loss: give one of them, a function of outputs and targets, or of model and batch"
        )
    given: Any = loss if criterion is None else criterion
    if not callable(given):
        name, of = ("loss", "the module and a batch") if criterion is None else ("criterion", "outputs and targets")
        raise ArgumentError(f"{name}={arguments.shown(given)}: must be a function of {of}")
    return BatchLoss(given, scale) if criterion is None else CalledCriterion(given, scale=scale)
