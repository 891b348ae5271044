"""Where the budget of a fit comes from: given with the estimator, or charged to an account of a ledger first."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rangebound import arguments
from rangebound.accounting.ledger import Ledger
from rangebound.accounting.rule import Cost
from rangebound.errors import ArgumentError

Floats = npt.NDArray[np.float64]
Released = dict[str, Floats]


@arguments.guided
@dataclass(frozen=True, kw_only=True)
class LedgerBudget:
    """An account that a fit is charged to before anything is drawn.

    A second fit with the same `request` spends nothing and gets the numbers of the first: what was published once is
    published. So a fit on other data needs another request.
    """

    ledger: Ledger
    account: str
    request: str

    def __post_init__(self) -> None:
        arguments.instance("ledger", self.ledger, Ledger, "a Ledger")


def spend(
    budget: LedgerBudget | None, epsilon: float, delta: float, what: str, draw: Callable[[], Released]
) -> Released:
    """The numbers that `draw` releases, under (epsilon, delta): paid for and stored first if there is a ledger."""
    if budget is None:
        return draw()
    arguments.instance("budget", budget, LedgerBudget, "a LedgerBudget, or None where the caller keeps account")

    def compute(cost: Any) -> bytes:
        return json.dumps({name: each.tolist() for name, each in draw().items()}).encode()

    cost = Cost(epsilon=epsilon, delta=delta) if delta else Cost(epsilon=epsilon)
    stored = budget.ledger.release(
        account=budget.account, request=budget.request, what=what, cost=cost, compute=compute
    )
    return {name: np.asarray(each, dtype=np.float64) for name, each in json.loads(stored).items()}


def check_shape(found: Released, name: str, shape: tuple[int, ...]) -> Floats:
    """One of the released arrays; a ledger may hold those of another dataset under the same request."""
    if name not in found or found[name].shape != shape:
        raise ArgumentError(f"request: was used before for data of another shape; {name} must be {shape}")
    return found[name]
