"""The private step: clipped gradients are summed, the sum is released once, and any torch optimizer uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

from rangebound.errors import ArgumentError
from rangebound.learn.torch.clip import Clipping, Elementwise
from rangebound.learn.torch.gradients import Criterion, clipped_sum, learned
from rangebound.learn.torch.loader import PrivateLoader
from rangebound.learn.torch.noise import NoiseSource
from rangebound.mechanism import Mechanism

Batch = tuple[torch.Tensor, torch.Tensor, npt.NDArray[np.int64]]
Seen = Callable[[torch.Tensor, list[Batch]], None]


class PrivateOptimizer:
    """An optimizer whose gradients are released privately: `backward(x, y)` as often as one likes, then `step()`.

    One logical batch of the loader makes one step. It may be given to `backward` in parts (gradient accumulation);
    each part is also cut into pieces that fit into the memory limit. With `torch.distributed` initialised, the sums of
    all processes are added, the first process draws the noise, and all of them take the same step.

    Guarantee: a step publishes one draw of `mechanism` for each coordinate, at the sum of the clipped gradients.
    Assumes: no example is given to `backward` twice in a step. Handing in more examples than the loader drew, or a
    second batch, is an error.
    Edge cases: a learning-rate scheduler takes `inner`, the wrapped optimizer. The losses that `backward` returns and
    the sums it keeps are private; only the parameters after a step are released.
    """

    def __init__(
        self,
        inner: torch.optim.Optimizer,
        *,
        module: torch.nn.Module,
        criterion: Criterion,
        clipping: Clipping,
        mechanism: Mechanism,
        noise: NoiseSource,
        loader: PrivateLoader,
        memory: int,
        seen: Seen | None = None,
        keep_batches: bool = False,
    ) -> None:
        self.inner = inner
        self.mechanism = mechanism
        self.clipping = clipping
        self._module, self._criterion, self._noise, self._loader = module, criterion, noise, loader
        self._memory, self._seen, self._keep = memory, seen, keep_batches
        self._parameters = learned(module)
        self._drawn = loader.drawn
        self._clear()

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of the wrapped optimizer."""
        return self.inner.param_groups

    @property
    def coordinates(self) -> int:
        """How many numbers a step releases."""
        return sum(each.numel() for each in self._parameters.values())

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients and what `backward` has added since the last step."""
        self.inner.zero_grad(set_to_none=set_to_none)
        self._forget()

    def backward(
        self, x: torch.Tensor, y: torch.Tensor, *, members: npt.NDArray[np.int64] | None = None
    ) -> torch.Tensor:
        """Add the clipped gradients of these examples, and return their losses, which are private.

        `members` are the numbers of the examples; needed only for accounts of single examples, when a batch is given
        in parts.
        """
        if len(x) != len(y):
            raise ArgumentError(f"x, y: must have one target for each example, and have {len(x)} and {len(y)}")
        if self._loader.drawn != self._drawn + 1:
            raise ArgumentError(
                f"batches={self._loader.drawn - self._drawn}: a step takes the examples of exactly one logical batch; "
                "call step() once for each batch of the loader"
            )
        if self._given + len(x) > len(self._loader.members):
            raise ArgumentError(
                f"x={len(x)} examples: more than the loader drew for this step ({len(self._loader.members)}); "
                "an example counts once"
            )
        if self._keep and members is None and len(x) != len(self._loader.members):
            raise ArgumentError("members: must be given with a part of a batch, to know whose account it is")
        sums, losses = clipped_sum(self._module, self._criterion, x, y, self.clipping, self._memory)
        for name, total in self._totals.items():
            total += sums[name]
        self._given += len(x)
        self._calls += 1
        if self._keep:
            self._batches.append((x, y, self._loader.members if members is None else members))
        return losses

    @torch.no_grad()
    def step(self) -> None:
        """Release the sum, once, and let the wrapped optimizer use it as the gradient of the mean loss."""
        if self._loader.drawn != self._drawn + 1:
            raise ArgumentError(
                f"batches={self._loader.drawn - self._drawn}: a step needs exactly one logical batch of the loader"
            )
        if not self._calls and len(self._loader.members):  # an empty batch may be passed over
            raise ArgumentError(
                "step: has no gradients to release; call optimizer.backward(x, y) in place of loss.backward()"
            )
        location = torch.cat([each.reshape(-1) for each in self._totals.values()])
        together = dist.is_available() and dist.is_initialized()
        if together:
            dist.all_reduce(location)
        if isinstance(self.clipping, Elementwise):
            location *= self.clipping.quantum  # a power of two times whole numbers: exact
        if not bool(torch.isfinite(location).all()):
            raise ArgumentError("gradient: is not finite for some example; nothing was released")
        if self._seen is not None:
            self._seen(location, self._batches)
        if not together:
            released = self._noise.release(self.mechanism, location)
        else:
            released = torch.empty_like(location)
            if dist.get_rank() == 0:
                released = self._noise.release(self.mechanism, location)
            dist.broadcast(released, 0)
        start = 0
        for each in self._parameters.values():
            part = released[start : start + each.numel()]
            each.grad = (part / self._loader.expected).reshape(each.shape).to(each.dtype)
            start += each.numel()
        self._clear()
        self.inner.step()

    def state_dict(self) -> dict[str, Any]:
        """The state of the wrapped optimizer."""
        return self.inner.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of the wrapped optimizer."""
        self.inner.load_state_dict(state)

    def _clear(self) -> None:
        self._drawn = self._loader.drawn
        self._forget()

    def _forget(self) -> None:
        self._given = self._calls = 0
        self._batches: list[Batch] = []
        self._totals = {name: torch.zeros_like(each, dtype=torch.float64) for name, each in self._parameters.items()}
