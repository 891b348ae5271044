"""Truncation: the noise, given that the value lies in the support."""

from __future__ import annotations

from rangebound.errors import ArgumentError
from rangebound.law import Shape
from rangebound.noise import Noise
from rangebound.support import Grid, Support, is_line


def truncate(noise: Noise, support: Support) -> Shape:
    """Density g(x-q)/Z(q) on the support; on a grid, probabilities in proportion to g at the points."""
    if is_line(support):
        return Shape(spans=support.spans)
    if not isinstance(support, Grid):
        return Shape(spans=support.spans, normalised=True)
    if noise.limited:
        raise ArgumentError(
            f"bounding=TRUNCATE with {noise} on {support}: the set of possible points would depend on the true answer; "
            "use QUANTIZE"
        )
    return Shape(points=tuple(support.points.tolist()), normalised=True)
