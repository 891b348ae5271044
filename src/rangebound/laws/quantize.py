"""Quantization: the noisy value rounded to the nearest point of a grid; two points make the stochastic sign."""

from __future__ import annotations

import itertools
import math

from rangebound.errors import ArgumentError
from rangebound.laws.family import Noise
from rangebound.laws.shape import Shape
from rangebound.values.support import Grid, Support


def quantize(noise: Noise, support: Support) -> Shape:
    """Atoms only: each point gets the mass of the cell of values nearest to it (cut at float midpoints)."""
    if not isinstance(support, Grid):
        raise ArgumentError(f"bounding=QUANTIZE on {support}: there is nothing to round to; give a Grid as the support")
    points = support.points
    cuts = [-math.inf, *(0.5 * points[:-1] + 0.5 * points[1:]).tolist(), math.inf]
    return Shape(points=tuple(points.tolist()), cells=tuple(itertools.pairwise(cuts)))
