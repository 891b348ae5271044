"""What a step needs of a loop: a criterion as it is called with one example, and the examples of a forward pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from rangebound.errors import ArgumentError
from rangebound.values import arguments


@dataclass(frozen=True, kw_only=True)
class Precision:
    """The setting of `torch.autocast` for a kind of device: as it is now, to be in force again later."""

    kind: str
    dtype: torch.dtype
    enabled: bool

    @classmethod
    def present(cls, device: torch.device) -> Precision:
        """The setting in force."""
        kind = device.type
        return cls(kind=kind, dtype=torch.get_autocast_dtype(kind), enabled=torch.is_autocast_enabled(kind))

    def again(self) -> torch.autocast:
        """A context in which it is in force."""
        return torch.autocast(self.kind, dtype=self.dtype, enabled=self.enabled)


@dataclass(frozen=True, kw_only=True, eq=False)
class ForwardPass:
    """The examples of a forward pass of an attached module: as which version of a tensor, and of which batch."""

    x: torch.Tensor
    precision: Precision
    version: int
    drawn: int

    def repeats(self, other: ForwardPass) -> bool:
        """Whether both begin at the same number in memory, as they do for the same examples."""
        return self is other or (self.x.numel() > 0 and self.x.data_ptr() == other.x.data_ptr())


class CalledCriterion(torch.nn.Module):
    """A criterion as a step calls it: times a fixed factor, with fixed settings, in the precision of its first call.

    It is a module, so that what a criterion keeps of its examples is discarded as for the criterion alone.
    """

    def __init__(
        self,
        criterion: Callable[..., torch.Tensor],
        *,
        scale: float = 1.0,
        settings: Mapping[str, object] | None = None,
        precision: Precision | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.criterion, self.scale, self.settings = criterion, scale, dict(settings or {})
        self.precision, self.dtype = precision, dtype

    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The loss of these outputs, times the factor: gradients in half precision do not vanish then."""
        with nullcontext() if self.precision is None else self.precision.again():
            given = output if self.dtype is None else output.to(self.dtype)
            return self.criterion(given, target, **self.settings) * self.scale

    def is_like(self, other: CalledCriterion) -> bool:
        """Whether both call the same criterion with the same settings."""
        mine, theirs = (
            {name: id(value) if isinstance(value, torch.Tensor) else value for name, value in each.settings.items()}
            for each in (self, other)
        )
        return self.criterion is other.criterion and mine == theirs


def check_weights(criterion: object, settings: Mapping[str, object], y: torch.Tensor) -> None:
    """Refuse a mean that is divided by the weights of the classes: of one label, it is the loss without a weight."""
    if isinstance(criterion, (torch.nn.CrossEntropyLoss, torch.nn.NLLLoss)):
        settings = {"weight": criterion.weight, "reduction": criterion.reduction}
    elif criterion not in (F.cross_entropy, F.nll_loss):
        return
    mean = settings.get("reduction", "mean") == "mean"
    if mean and settings.get("weight") is not None and y.dim() == 1 and not y.is_floating_point():
        raise ArgumentError(
            "criterion: with one label for each example, the weight of its class cancels in the mean; "
            'use reduction="sum", with which it counts'
        )


def fixed_scale(value: object) -> float:
    """A factor of the loss: a power of two, so that multiplying and dividing by it is exact."""
    number = arguments.positive("loss_scale", value)
    if math.frexp(number)[0] != 0.5 or not 1.0 <= number <= 2.0**24:
        raise ArgumentError(f"loss_scale={arguments.shown(value)}: must be a power of two from 1 to 2^24, such as 4096")
    return number
