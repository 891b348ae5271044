"""What one unit can contribute to a workload, and the account that a strategy is charged to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from rangebound.errors import ArgumentError, ArgumentTypeError


class NoiseAccount(Enum):
    """How privacy loss adds up: `GAUSSIAN` in squares of mu (L2 distances), `PURE` in epsilon (L1 distances)."""

    GAUSSIAN = "gaussian"
    PURE = "pure"


@dataclass(frozen=True, kw_only=True)
class Contributions:
    """A unit has at most `rows` rows in each of at most `cells` finest cells of the workload.

    With `replaced`, neighbouring datasets differ by one unit's rows being replaced by those of another, else by one
    unit being added or removed.

    >>> Contributions(rows=1, cells=3)
    Contributions(rows=1, cells=3, replaced=False)
    """

    rows: int = 1
    cells: int = 1
    replaced: bool = False

    def __post_init__(self) -> None:
        whole("rows", self.rows)
        whole("cells", self.cells)


def whole(name: str, value: object, least: int = 1) -> int:
    """A whole number that is not below `least`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentTypeError(f"{name}={value!r}: must be a whole number (int)")
    if value < least:
        raise ArgumentError(f"{name}={value!r}: must be at least {least}")
    return value


def budget_of(value: Fraction | float) -> Fraction:
    """A budget as an exact number; it must be positive and finite."""
    try:
        exact = Fraction(value)
    except (OverflowError, ValueError, TypeError):
        raise ArgumentError(f"budget={value!r}: must be a finite number") from None
    if exact <= 0:
        raise ArgumentError(f"budget={value!r}: must be positive")
    return exact
