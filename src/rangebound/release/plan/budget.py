"""What a release may spend, and who pays."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from rangebound.release.plan.fields import Name, Part
from rangebound.values import arguments
from rangebound.values.postgres_address import is_address

_SMALLEST_DELTA = 1e-24  # noise for a smaller one takes minutes to calibrate, and is that of no delta


def _not_tiny(delta: float) -> float:
    if 0.0 < delta < _SMALLEST_DELTA:
        raise ValueError(f"must be 0, or at least {_SMALLEST_DELTA:g}: what is below buys nothing")
    return delta


def _without_password(ledger: str) -> str:
    if is_address(ledger):
        from rangebound.ledger.postgres_schema import postgres_place  # reading a plan stays light

        postgres_place(ledger)
    return ledger


class Budget(Part):
    """What the whole release may spend, and the account of the ledger that pays."""

    epsilon: Annotated[float, Field(gt=0.0, le=100.0)]
    delta: Annotated[float, Field(ge=0.0, lt=0.5), AfterValidator(_not_tiny)] = 0.0
    account: Name | None = None
    ledger: Annotated[Name, AfterValidator(_without_password)] | None = None

    def __str__(self) -> str:
        delta = f", delta {arguments.upwards(self.delta)}" if self.delta else ""
        return f"epsilon {arguments.upwards(self.epsilon)}{delta}"
