"""The ordinary training loop: `loss.backward()` on the outputs of an attached module leads to a private step.

The loss of a batch is a sum (or mean) over its examples, so all that an example's gradient needs of it is its slope by
the example's own outputs. The module runs forward once without a graph, for each example by itself, as in the step, or
an output would hold numbers of other examples; the loss's backward pass ends at its outputs; and the slopes, with the
inputs, are kept until the step, which takes each example's gradient of

    slope . output(example)

by the route of `PrivateOptimizer.backward`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

import torch

from rangebound.errors import ArgumentError
from rangebound.learn.torch.gradients.one_pass import example_outputs
from rangebound.learn.torch.optimizer import PrivateOptimizer


class Reduction(enum.Enum):
    """How the loss of a batch is made of the losses of its examples."""

    MEAN = "mean"
    SUM = "sum"


def check_mean(criterion: object) -> None:
    """Refuse a criterion whose mean over a batch is not the mean of the losses of its examples."""
    if not isinstance(criterion, (torch.nn.CrossEntropyLoss, torch.nn.NLLLoss)) or criterion.reduction != "mean":
        return
    if criterion.weight is not None or criterion.ignore_index >= 0:
        raise ArgumentError(
            f"criterion={type(criterion).__name__}(...): its mean divides by the weights of the labels in the batch, "
            'ignored ones left out, so that one example changes the slopes of others; use reduction="sum" in both'
        )


class AttachedModule(torch.nn.Module):
    """A module for the ordinary loop: its outputs take `loss.backward()`, and `optimizer.step()` releases.

    Guarantee: as for `PrivateOptimizer`: each example's gradient is clipped by itself, whatever its slope is.
    Assumes: the loss is the sum, or the mean, over the examples of a number that depends on the outputs of that example
    alone. A loss that compares examples (a contrastive loss, a ranking, statistics of the batch) puts one example's
    data into the slopes of others, which no clipping undoes; and so does a mean over labels that are not ignored, or
    one that is divided by the classes' weights.
    Edge cases: the outputs of a forward pass take one backward pass, before the step of their batch. In evaluation
    mode, and without gradients, it is the module itself. The forward pass has the batch as it is, and a mean divides by
    its size, so that the last bits of an example's slope may depend on who else is in the batch, which no account
    covers; where that counts, call `optimizer.backward(x, y)`, which computes in chunks of one size.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        forward: Callable[..., torch.Tensor],
        optimizer: PrivateOptimizer,
        reduction: Reduction,
    ) -> None:
        super().__init__()
        self.module = module
        self._run = [forward]  # in a list, or a compiled module would be registered as a second part
        self._optimizer, self._reduction = [optimizer], reduction

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The outputs of a batch, which has a first axis for the examples."""
        if not (self.training and torch.is_grad_enabled()):
            plain: torch.Tensor = self._run[0](x)
            return plain
        with torch.no_grad():
            found = example_outputs(self.module, self._run[0], x)
        if len(found) != len(x):
            raise ArgumentError("module: must give a tensor with a first axis for the examples")
        # in half precision small slopes would vanish on their way to the outputs
        output = (found.float() if found.dtype == torch.float16 else found).detach().requires_grad_()
        kind = x.device.type
        cast = torch.autocast(kind, dtype=torch.get_autocast_dtype(kind), enabled=torch.is_autocast_enabled(kind))
        asked = self._optimizer[0].asked(x, cast)

        def keep(slopes: torch.Tensor) -> None:
            wide = slopes.to(torch.float64 if slopes.dtype == torch.float64 else torch.float32)
            self._optimizer[0].add_slopes(asked, wide * len(x) if self._reduction is Reduction.MEAN else wide)

        output.register_hook(keep)  # type: ignore[no-untyped-call, unused-ignore]
        return output
