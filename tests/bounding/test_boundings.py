"""Boundings: which shape each makes of a support, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rangebound as rb
from rangebound.bounding import Bounding, shape
from rangebound.errors import ArgumentError
from rangebound.law import Shape

INF = math.inf
LAPLACE = rb.Laplace(scale=1.0)
LIMITED = rb.TruncatedLaplacian(scale=1.0, limit=5.0)
LINE = rb.Interval(-INF, INF)
GRID = rb.Grid(step=1.0, within=rb.Interval(0, 2))


def test_there_are_four() -> None:
    assert list(Bounding) == [rb.TRUNCATE, rb.RECTIFY, rb.QUANTIZE, rb.UNBOUNDED]
    assert [repr(each) for each in Bounding] == ["TRUNCATE", "RECTIFY", "QUANTIZE", "UNBOUNDED"]


def test_truncation_keeps_the_spans_and_scales_them_up() -> None:
    assert shape(rb.TRUNCATE, LAPLACE, rb.Interval(0, 2)) == Shape(spans=((0.0, 2.0),), normalised=True)
    union = rb.Union((0, 1), (2, INF))
    assert shape(rb.TRUNCATE, LIMITED, union) == Shape(spans=((0.0, 1.0), (2.0, INF)), normalised=True)
    assert shape(rb.TRUNCATE, LAPLACE, GRID) == Shape(points=(0.0, 1.0, 2.0), normalised=True)


def test_truncation_to_the_line_changes_nothing() -> None:
    assert shape(rb.TRUNCATE, LAPLACE, LINE) == shape(rb.UNBOUNDED, LAPLACE, LINE) == Shape(spans=((-INF, INF),))


def test_rectification_puts_an_atom_at_each_finite_end() -> None:
    both = shape(rb.RECTIFY, LAPLACE, rb.Interval(0, 2))
    assert both == Shape(spans=((0.0, 2.0),), points=(0.0, 2.0), cells=((-INF, 0.0), (2.0, INF)))
    half = shape(rb.RECTIFY, LAPLACE, rb.Interval(0, INF))
    assert half == Shape(spans=((0.0, INF),), points=(0.0,), cells=((-INF, 0.0),))
    assert shape(rb.RECTIFY, LAPLACE, LINE) == Shape(spans=((-INF, INF),))


def test_quantization_rounds_to_the_nearest_point() -> None:
    made = shape(rb.QUANTIZE, LAPLACE, GRID)
    assert made == Shape(points=(0.0, 1.0, 2.0), cells=((-INF, 0.5), (0.5, 1.5), (1.5, INF)))


def test_two_points_make_the_stochastic_sign() -> None:
    made = shape(rb.QUANTIZE, LAPLACE, rb.Grid(step=2.0, within=rb.Interval(-1, 1)))
    assert made.points == (-1.0, 1.0)
    assert made.cells == ((-INF, 0.0), (0.0, INF))


def test_the_cells_of_a_long_grid_leave_no_gap() -> None:
    made = shape(rb.QUANTIZE, LAPLACE, rb.Grid(step=0.1, within=rb.Interval(0, 100)))
    lows, highs = np.asarray(made.cells).T
    assert (lows[1:] == highs[:-1]).all()
    assert ((np.asarray(made.points) >= lows) & (np.asarray(made.points) <= highs)).all()


@pytest.mark.parametrize(
    ("bounding", "noise", "support", "reason"),
    [
        (rb.RECTIFY, LAPLACE, rb.Union((0, 1), (2, 3)), "gaps"),
        (rb.RECTIFY, LAPLACE, GRID, "QUANTIZE"),
        (rb.QUANTIZE, LAPLACE, rb.Interval(0, 1), "Grid"),
        (rb.QUANTIZE, LAPLACE, LINE, "Grid"),
        (rb.UNBOUNDED, LAPLACE, rb.Interval(0, 1), "whole line"),
        (rb.TRUNCATE, LIMITED, GRID, "QUANTIZE"),
    ],
)
def test_what_makes_no_sense_is_refused(bounding: Bounding, noise: object, support: object, reason: str) -> None:
    with pytest.raises(ArgumentError, match=reason):
        shape(bounding, noise, support)
