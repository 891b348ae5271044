"""Shapes: what a bounding makes of noise, mirrored and from end to end."""

from __future__ import annotations

import math

from rangebound.law.shape import UNBOUNDED_SHAPE, Shape

INF = math.inf


def test_ends_are_the_smallest_and_largest_output() -> None:
    assert Shape(spans=((0.0, 1.0), (2.0, 3.0))).ends == (0.0, 3.0)
    assert Shape(points=(-1.0, 4.0), cells=((-INF, 1.5), (1.5, INF))).ends == (-1.0, 4.0)
    assert UNBOUNDED_SHAPE.ends == (-INF, INF)


def test_a_mirror_image_turns_everything_around() -> None:
    shape = Shape(spans=((0.0, 1.0), (2.0, INF)), normalised=True)
    assert shape.mirrored() == Shape(spans=((-INF, -2.0), (-1.0, 0.0)), normalised=True)
    grid = Shape(points=(0.0, 1.0, 3.0), cells=((-INF, 0.5), (0.5, 2.0), (2.0, INF)))
    assert grid.mirrored() == Shape(points=(-3.0, -1.0, 0.0), cells=((-INF, -2.0), (-2.0, -0.5), (-0.5, INF)))
