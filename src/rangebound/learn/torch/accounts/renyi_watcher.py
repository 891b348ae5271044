"""The per-instance Renyi divergence of this very dataset: a private number, and not a guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from rangebound.accounting.fisher_information import PerInstance
from rangebound.accounting.renyi import epsilon_at
from rangebound.errors import ArgumentError
from rangebound.learn.torch.accounts.renyi_table import LossTable
from rangebound.learn.torch.clipping_norm import Elementwise
from rangebound.learn.torch.gradients.per_example import Criterion
from rangebound.learn.torch.loader import PrivateLoader
from rangebound.learn.torch.optimizer import Batch, PrivateOptimizer
from rangebound.values import arguments
from rangebound.values.array_types import Floats

ORDERS = (
    *(1.0 + 0.1 * k for k in range(1, 10)),
    *(2.0 + 0.5 * k for k in range(16)),
    *(10.0 * 1.1**k for k in range(39)),
)

_READING = "odometer reading of one run on the scale of an epsilon at delta {}, not a guarantee"


class RenyiWatcher:
    """The per-instance Renyi divergence of full-batch training, at many orders [hu2024, Prop 5.1, corrected].

    For each step: forward = sum over coordinates of max over both shifts of D(q || q +- clip), backward the same with
    the roles exchanged, and the larger of the two. It bounds what the presence of any one example would have changed,
    given the sums q of this run.

    **The total is an odometer reading.** The sums of a step depend on what earlier steps released, so a sum of losses
    along the path that was taken is a random number that describes this run. No (epsilon, delta) of the run follows
    from it, not even for this dataset: that would need a bound over all paths, or a limit fixed beforehand at which
    training stops. The guarantee is `PrivacyEngine.epsilon`.

    Guarantee: never below these sums; a certified table is used (`LossTable`).
    Assumes: elementwise clipping, and all examples in each step; both are checked.
    Edge cases: the divergences depend on the data and on the path that training took, so they are private, and not a
    guarantee. Only `PerInstance` numbers are returned.
    """

    needs_batches = False

    def __init__(self, *, orders: Sequence[float] = ORDERS) -> None:
        self.orders = tuple(arguments.order("orders", each) for each in orders)
        self._total: Floats = np.zeros(len(self.orders))
        self._path: list[Floats] = []
        self._table: LossTable | None = None

    def start(
        self, module: torch.nn.Module, criterion: Criterion, optimizer: PrivateOptimizer, loader: PrivateLoader
    ) -> None:
        """Called by the engine once the mechanism is known."""
        if not isinstance(optimizer.clipping, Elementwise):
            raise ArgumentError(
                "clipping=Euclidean: leaves the split over coordinates free, so that a sum over coordinates bounds "
                "nothing; use Elementwise(clip=...)"
            )
        if loader.rate < 1.0:
            raise ArgumentError(
                f"rate={loader.rate}: per-instance Renyi needs all examples in each step, because no sound bound is "
                "known for samples; use the worst-case account, or FisherWatcher"
            )
        self._table = LossTable(optimizer.mechanism, self.orders)

    def saw(self, location: torch.Tensor, batches: list[Batch]) -> None:
        """Add a step at these sums."""
        assert self._table is not None
        self._total = self._total + self._table.divergence(location) * (1.0 + 1e-15)
        self._path.append(self._total)

    def epsilon(self, delta: float) -> PerInstance:
        """The divergences so far on the scale of an epsilon at delta, at the best order: an odometer reading.

        Guarantee: none. It is not an (epsilon, delta) of the run, for this dataset or any other.
        """
        return PerInstance(self._worth(self._total, delta), notion=_READING.format(delta))

    def epsilons(self, delta: float) -> list[PerInstance]:
        """The readings after each step."""
        notion = _READING.format(delta)
        return [PerInstance(self._worth(each, delta), notion=notion) for each in self._path]

    def divergence(self, order: float) -> PerInstance:
        """The total divergence at one of the orders, along the path of this run."""
        if order not in self.orders:
            raise ArgumentError(f"order={order}: must be one of the orders of this account")
        value = float(self._total[self.orders.index(order)])
        return PerInstance(value, notion=f"sum of Renyi divergences of order {order} along one run")

    def state_dict(self) -> dict[str, Any]:
        """The account as plain data, which is private."""
        return {"orders": list(self.orders), "path": [each.tolist() for each in self._path]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue a saved account of the same orders."""
        if tuple(state["orders"]) != self.orders:
            raise ArgumentError("state: was made with other orders")
        self._path = [np.asarray(each) for each in state["path"]]
        self._total = self._path[-1] if self._path else np.zeros(len(self.orders))

    def _worth(self, total: Floats, delta: float) -> float:
        delta = arguments.probability("delta", delta)
        if delta == 0.0:
            raise ArgumentError("delta=0: finitely many orders do not bound it; give a positive delta")
        if not total.any():
            return 0.0
        return min(epsilon_at(order, value, delta) for order, value in zip(self.orders, total.tolist(), strict=True))
