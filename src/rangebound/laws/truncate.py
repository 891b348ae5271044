"""Truncation: the noise, given that the value lies in the support."""

from __future__ import annotations

import math

from rangebound.errors import ArgumentError
from rangebound.laws.family import Noise
from rangebound.laws.shape import Shape
from rangebound.values.support import Grid, Interval, Support, Union, is_line


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


def check_reach(noise: Noise, answers: Interval | Union, shape: Shape) -> None:
    """Refuse truncated noise of limited extent that reaches no part of the support from some true answer."""
    if not (noise.limited and shape.normalised):
        return
    for lower, upper in answers.spans:
        reached = lower  # every answer left of this is within reach, and so is this one once `inside`
        inside = False
        for start, end in shape.spans:
            if start - noise.extent < reached or start == lower == -math.inf:
                inside = inside or end + noise.extent > reached
                reached = max(reached, end + noise.extent)
        if not inside or (reached <= upper and math.isfinite(reached)):
            raise ArgumentError(
                f"noise={noise}: cannot reach the support from every true answer in {answers}; "
                "take a larger limit, or RECTIFY"
            )
