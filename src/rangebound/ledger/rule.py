"""Composition rules of an account, fixed when it is opened, and the costs that they add up."""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from rangebound import arguments
from rangebound.errors import ArgumentError, ArgumentTypeError, Unsatisfiable
from rangebound.ledger.amount import LARGEST, SCALE, Amount, Exact, exact, rounded_up

Units: TypeAlias = tuple[int, int]
"""A cost as the two columns that are added up."""

# Every operation is rounded correctly to 80 digits, and no number in a total is above 1e14: all of them together are
# off by less than 1e-50 units.
_CONTEXT = decimal.Context(prec=80, rounding=decimal.ROUND_HALF_EVEN)
_ROUNDING = Decimal("1e-40")  # units


@arguments.guided
@dataclass(frozen=True, init=False)
class Cost:
    """What one release costs: it is (`epsilon`, `delta`)-private in the worst case over all neighbouring datasets.

    >>> print(Cost(epsilon=0.1, delta="1e-9"))
    epsilon 0.1, delta 0.000000001
    """

    epsilon: Amount
    delta: Amount

    def __init__(self, *, epsilon: Exact, delta: Exact = 0) -> None:
        object.__setattr__(self, "epsilon", rounded_up("epsilon", epsilon))
        object.__setattr__(self, "delta", rounded_up("delta", delta))

    def __str__(self) -> str:
        return f"epsilon {self.epsilon}" + (f", delta {self.delta}" if self.delta.units else "")

    @property
    def units(self) -> Units:
        """The two numbers that are added up."""
        return self.epsilon.units, self.delta.units

    def to_dict(self) -> dict[str, str]:
        """The cost as plain data, with exact decimals."""
        return {"epsilon": str(self.epsilon), "delta": str(self.delta)}


@arguments.guided
@dataclass(frozen=True, init=False)
class RenyiCost:
    """What one release costs at a Renyi order: D_order is at most `divergence`, in both directions, in the worst case.

    A computed bound goes in by `covering`, which takes the double as it is.

    >>> print(RenyiCost(order=8, divergence="0.25"))
    divergence 0.25 at order 8
    """

    order: Amount
    divergence: Amount

    def __init__(self, *, order: Exact, divergence: Exact) -> None:
        object.__setattr__(self, "order", _order(order))
        object.__setattr__(self, "divergence", rounded_up("divergence", divergence))

    def __str__(self) -> str:
        return f"divergence {self.divergence} at order {self.order}"

    @property
    def units(self) -> Units:
        """The two numbers that are added up."""
        return self.divergence.units, 0

    def to_dict(self) -> dict[str, str]:
        """The cost as plain data, with exact decimals."""
        return {"order": str(self.order), "divergence": str(self.divergence)}


AnyCost: TypeAlias = Cost | RenyiCost


@dataclass(frozen=True, kw_only=True)
class PlainSum:
    """Epsilons add up and deltas add up.

    Guarantee: releases chosen one after the other, each with knowledge of all before, together spend at most the sums;
    stopping before a sum passes its total keeps the total [rogers2016].
    """

    def total(self, epsilon: Amount, delta: Amount) -> Cost:
        """What may be spent so that the account keeps (epsilon, delta)."""
        return Cost(epsilon=epsilon, delta=delta)

    def units(self, cost: AnyCost) -> Units:
        """The cost in this account's columns, or an error if it is of another kind."""
        if type(cost) is not Cost:
            raise ArgumentTypeError(
                f"cost={arguments.shown(cost)}: must be a Cost(epsilon=..., delta=...); this account adds plain sums"
            )
        return cost.units

    def cost(self, units: Units) -> Cost:
        """The cost that these columns say."""
        return Cost(epsilon=Amount(units=units[0]), delta=Amount(units=units[1]))

    def to_dict(self) -> dict[str, str]:
        """The rule as plain data."""
        return {"rule": "sum"}


@arguments.guided
@dataclass(frozen=True, init=False)
class RenyiFilter:
    """Renyi divergences at one fixed `order` add up.

    The total for (epsilon, delta) is, with a the order, epsilon - ln((a-1)/a) + (ln delta + ln a)/(a-1), rounded down.

    Guarantee: releases chosen one after the other, each with knowledge of all before, keep (epsilon, delta) as long as
    their divergences add up to at most that total [feldman2021; canonne2020, Prop. 12].
    Edge cases: a total that is not positive raises `Unsatisfiable`; a larger order helps, or a larger epsilon.

    >>> one, millionth = Cost(epsilon=1).epsilon, Cost(epsilon="1e-6").epsilon
    >>> print(RenyiFilter(order=16).total(one, millionth))
    divergence 0.328343732089 at order 16
    """

    order: Amount

    def __init__(self, *, order: Exact) -> None:
        object.__setattr__(self, "order", _order(order))

    def total(self, epsilon: Amount, delta: Amount) -> RenyiCost:
        """What may be spent so that the account keeps (epsilon, delta)."""
        if not delta.units:
            raise ArgumentError("delta=0: must be positive for a Renyi filter; plain sums do without delta")
        with decimal.localcontext(_CONTEXT):
            a, limit, slack = (Decimal(x.units) / SCALE for x in (self.order, epsilon, delta))
            total = limit - ((a - 1) / a).ln() + (slack.ln() + a.ln()) / (a - 1)
            units = math.floor(total * SCALE - _ROUNDING)
        if units <= 0:
            raise Unsatisfiable(
                f"order={self.order}: leaves nothing to spend within epsilon {epsilon}, delta {delta}; "
                "a larger order or a larger epsilon does"
            )
        return RenyiCost(order=self.order, divergence=Amount(units=min(units, LARGEST * SCALE)))

    def units(self, cost: AnyCost) -> Units:
        """The cost in this account's columns, or an error if it is of another kind."""
        if type(cost) is not RenyiCost or cost.order != self.order:
            raise ArgumentTypeError(
                f"cost={arguments.shown(cost)}: must be a RenyiCost(order={self.order}, divergence=...); "
                "the order of this account is fixed"
            )
        return cost.units

    def cost(self, units: Units) -> RenyiCost:
        """The cost that these columns say."""
        return RenyiCost(order=self.order, divergence=Amount(units=units[0]))

    def to_dict(self) -> dict[str, str]:
        """The rule as plain data."""
        return {"rule": "renyi", "order": str(self.order)}


Rule: TypeAlias = PlainSum | RenyiFilter


def rule_from_dict(data: dict[str, str]) -> Rule:
    """The rule that `to_dict` wrote.

    >>> rule_from_dict({"rule": "renyi", "order": "16"}).to_dict()
    {'rule': 'renyi', 'order': '16'}
    """
    match data:
        case {"rule": "sum", **rest} if not rest:
            return PlainSum()
        case {"rule": "renyi", "order": order, **rest} if not rest:
            return RenyiFilter(order=order)
    raise ArgumentError(f"rule={arguments.shown(data)}: must be a plain sum or a Renyi filter")


def _order(value: Exact) -> Amount:
    number = exact("order", value)
    if not number > 1 or math.floor(number * SCALE) != number * SCALE:
        raise ArgumentError(f"order={arguments.shown(value)}: must be above 1, with at most twelve decimals")
    return Amount(units=int(number * SCALE))
