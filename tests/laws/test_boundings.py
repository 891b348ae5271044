"""Boundings: which shape each makes of a support; tests/matrix/test_worst.py has what they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rangebound as rb
from rangebound.laws.boundings import Bounding, Shape, shape

INF = math.inf
LAPLACE = rb.Laplace(scale=1.0)
LIMITED = rb.TruncatedLaplacian(scale=1.0, limit=5.0)
LINE = rb.Interval(-INF, INF)
GRID = rb.Grid(step=1.0, within=rb.Interval(0, 2))
TAILS = ((-INF, 0.0), (2.0, INF))


@pytest.mark.parametrize(
    ("bounding", "noise", "support", "made"),
    [
        (rb.TRUNCATE, LAPLACE, rb.Interval(0, 2), Shape(spans=((0.0, 2.0),), normalised=True)),
        (rb.TRUNCATE, LIMITED, rb.Union((0, 1), (2, INF)), Shape(spans=((0.0, 1.0), (2.0, INF)), normalised=True)),
        (rb.TRUNCATE, LAPLACE, GRID, Shape(points=(0.0, 1.0, 2.0), normalised=True)),
        (rb.TRUNCATE, LAPLACE, LINE, Shape(spans=((-INF, INF),))),  # nothing changes
        (rb.UNBOUNDED, LAPLACE, LINE, Shape(spans=((-INF, INF),))),
        (rb.RECTIFY, LAPLACE, LINE, Shape(spans=((-INF, INF),))),
        # an atom at each finite end
        (rb.RECTIFY, LAPLACE, rb.Interval(0, 2), Shape(spans=((0.0, 2.0),), points=(0.0, 2.0), cells=TAILS)),
        (rb.RECTIFY, LAPLACE, rb.Interval(0, INF), Shape(spans=((0.0, INF),), points=(0.0,), cells=TAILS[:1])),
        # the nearest point
        (rb.QUANTIZE, LAPLACE, GRID, Shape(points=(0.0, 1.0, 2.0), cells=((-INF, 0.5), (0.5, 1.5), (1.5, INF)))),
    ],
    ids=str,
)
def test_shapes(bounding: Bounding, noise: object, support: object, made: Shape) -> None:
    assert shape(bounding, noise, support) == made


def test_the_cells_of_a_long_grid_leave_no_gap() -> None:
    made = shape(rb.QUANTIZE, LAPLACE, rb.Grid(step=0.1, within=rb.Interval(0, 100)))
    lows, highs = np.asarray(made.cells).T
    assert (lows[1:] == highs[:-1]).all()
    assert ((np.asarray(made.points) >= lows) & (np.asarray(made.points) <= highs)).all()
