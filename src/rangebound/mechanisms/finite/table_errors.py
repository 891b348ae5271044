"""Errors of a table: at true answers, at the worst one, and on average over the range."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rangebound.errors import ArgumentError
from rangebound.laws.error import Error
from rangebound.mechanisms.finite import input_cells
from rangebound.mechanisms.finite.weights import TOTAL
from rangebound.values.array_types import Floats, Integers
from rangebound.values.support import Support

_CHUNK = 1 << 18  # weights at a time


def errors_at(weights: Integers, outputs: Floats, answers: Floats, rows: npt.NDArray[np.intp]) -> Error[Floats]:
    """Bias, mean absolute and mean squared error at each answer, with the law of each row.

    >>> flip = np.array([[3 << 60, 1 << 60], [1 << 60, 3 << 60]])
    >>> errors_at(flip, np.array([0.0, 1.0]), np.array([0.0]), np.array([0])).mae.tolist()
    [0.25]
    """
    found = np.empty((3, len(answers)))
    step = max(_CHUNK // len(outputs), 1)
    for start in range(0, len(answers), step):
        here = slice(start, start + step)
        offset = outputs - answers[here, None]
        chances = weights[rows[here]] / TOTAL
        for at, size in enumerate((offset, np.abs(offset), offset * offset)):
            found[at, here] = (chances * size).sum(axis=1)
    return Error(bias=found[0], mae=found[1], mse=found[2])


def worst(weights: Integers, outputs: Floats, cells: Sequence[input_cells.InputCell]) -> Error[float]:
    """The largest of each error: inside a cell they are convex in the true answer, so it is at an end of a cell."""
    rows = np.arange(len(weights))
    ends = [np.array([float(getattr(cell, name)) for cell in cells]) for name in ("lower", "upper")]
    sides = [errors_at(weights, outputs, end, rows) for end in ends]
    return Error(
        bias=max(float(np.abs(side.bias).max()) for side in sides),
        mae=max(float(side.mae.max()) for side in sides),
        mse=max(float(side.mse.max()) for side in sides),
    )


def average(
    weights: Integers, outputs: Floats, answers: Support, cells: Sequence[input_cells.InputCell]
) -> Error[float]:
    """The errors averaged over a true answer that is uniform on the range, by integrals in closed form."""
    if not answers.bounded:
        raise ArgumentError(f"range={answers}: must be bounded for an average over it")
    found = [
        (row, float(lower), float(upper))
        for row, cell in enumerate(cells)
        for lower, upper in input_cells.pieces(answers, cell)
    ]
    bias = mae = mse = 0.0
    for row, start, end in found:
        chances = weights[row] / TOTAL
        mean = float(chances @ outputs)
        bias += _absolute(end - mean) - _absolute(start - mean)
        mae += float(chances @ (_absolutes(end - outputs) - _absolutes(start - outputs)))
        mse += float(chances @ ((end - outputs) ** 3 - (start - outputs) ** 3)) / 3.0
    width = math.fsum(end - start for _, start, end in found)
    return Error(bias=bias / width, mae=mae / width, mse=mse / width)


def _absolute(x: float) -> float:
    """The integral of |x| from 0."""
    return 0.5 * x * abs(x)


def _absolutes(x: Floats) -> Floats:
    return 0.5 * x * np.abs(x)
