"""Rectification: the noisy value clamped to the nearest end of the support."""

from __future__ import annotations

import math

from rangebound.errors import ArgumentError
from rangebound.laws.family import Noise
from rangebound.laws.shape import Shape
from rangebound.values.support import Grid, Support


def rectify(noise: Noise, support: Support) -> Shape:
    """Density g(x-q) inside, and at each finite end an atom with the mass that fell beyond it."""
    if isinstance(support, Grid):
        raise ArgumentError(f"bounding=RECTIFY on {support}: clamping does not reach the points; use QUANTIZE")
    if len(support.spans) > 1:
        raise ArgumentError(
            f"bounding=RECTIFY on {support}: clamping leaves values in the gaps; use TRUNCATE, or the hull's Interval"
        )
    ((lower, upper),) = support.spans
    cells = {lower: (-math.inf, lower), upper: (upper, math.inf)}
    finite = tuple(end for end in (lower, upper) if math.isfinite(end))
    return Shape(spans=support.spans, points=finite, cells=tuple(cells[end] for end in finite))
