"""Where the budget of a fit comes from: given with the estimator, or charged to an account of a ledger first."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn, Self

import numpy as np

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.ledger.book import Ledger
from rangebound.ledger.rule import AnyCost, Cost, GaussianCost
from rangebound.values import arguments
from rangebound.values.array_types import Floats

Released = dict[str, Floats]

_LARGEST_MU = 1000.0  # that a ledger can charge


@arguments.guided
@dataclass(frozen=True, kw_only=True)
class LedgerBudget:
    """An account that a fit is charged to before anything is drawn.

    A second fit with the same `request` spends nothing and returns the numbers of the first, which are already
    published. So a fit on other data needs another request, the folds of a cross-validation included; one with other
    settings is refused.

    Edge cases: a copy of an estimator keeps the same budget; it cannot be pickled.
    """

    ledger: Ledger
    account: str
    request: str

    def __post_init__(self) -> None:
        arguments.instance("ledger", self.ledger, Ledger, "a Ledger")

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise ArgumentTypeError("budget: is an open ledger, which is not pickled; set_params(budget=None) first")


def spend(
    budget: LedgerBudget | None,
    epsilon: float,
    delta: float,
    what: str,
    settings: str,
    draw: Callable[[], Released],
    mu: float = math.inf,
) -> Released:
    """The numbers that `draw` releases, under (epsilon, delta): paid for and stored first if there is a ledger.

    `settings` identifies what the numbers mean. Those of another fit would not be in the ranges of this one. Where all
    noise is Gaussian, `mu` is what an account of Gaussian differential privacy is charged instead.
    """
    if budget is None:
        return draw()
    arguments.instance("budget", budget, LedgerBudget, "a LedgerBudget, or None if the caller keeps the account")

    def compute(cost: object) -> bytes:
        numbers = {name: each.tolist() for name, each in draw().items()}
        return json.dumps({"settings": settings, "numbers": numbers}).encode()

    costs: list[AnyCost] = [GaussianCost(mu=Fraction(mu))] if mu <= _LARGEST_MU else []
    costs.append(Cost(epsilon=epsilon, delta=delta) if delta else Cost(epsilon=epsilon))
    stored = json.loads(
        budget.ledger.release(
            account=budget.account, request=budget.request, what=what, cost=tuple(costs), compute=compute
        )
    )
    if stored["settings"] != settings:
        raise ArgumentError(
            f"request={arguments.shown(budget.request)}: was used before with other settings, or other classes or "
            "features; its numbers have other ranges"
        )
    return {name: np.asarray(each, dtype=np.float64) for name, each in stored["numbers"].items()}
