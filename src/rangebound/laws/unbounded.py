"""No bounding at all: the true answer plus noise, on the whole line."""

from __future__ import annotations

from rangebound.errors import ArgumentError
from rangebound.laws.family import Noise
from rangebound.laws.shape import Shape
from rangebound.values.support import Support, is_line


def unbounded(noise: Noise, support: Support) -> Shape:
    """Density g(x-q) on the line."""
    if not is_line(support):
        raise ArgumentError(
            f"bounding=UNBOUNDED with support={support}: unbounded noise leaves every support except the whole line; "
            "use TRUNCATE or RECTIFY, or leave the support out"
        )
    return Shape(spans=support.spans)
