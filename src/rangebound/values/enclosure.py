"""A number known to lie between two doubles."""

from __future__ import annotations

from dataclasses import dataclass

from rangebound.errors import ArgumentError
from rangebound.values import arguments


@dataclass(frozen=True, kw_only=True)
class Enclosure:
    """lower <= the exact value <= upper. A budget uses the upper bound.

    >>> Enclosure(lower=0.9, upper=1.1).width < 0.3
    True
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", arguments.real("lower", self.lower))
        object.__setattr__(self, "upper", arguments.real("upper", self.upper))
        if not self.lower <= self.upper:
            raise ArgumentError(f"lower={self.lower}, upper={self.upper}: the lower bound must not be above the upper")

    @property
    def width(self) -> float:
        """The distance of the bounds; 0 where both are infinite."""
        return self.upper - self.lower if self.lower < self.upper else 0.0
