"""The four functions of the kernel as tables of polynomials: 2^-f, log m, the normal tail and its inverse.

Each table cuts the range of a function into equal cells and holds, for every cell, the eight coefficients of the
polynomial that meets the function at eight Chebyshev points, as a polynomial in t = -1 ... 1 across the cell. The
values come from ball arithmetic, so the tables do not depend on anybody's special functions;
`tests/sampling/test_kernel_tables.py` bounds their error over whole cells, also in balls.

| table | function | cells |
| --- | --- | --- |
| `power` | 2^-f | f in [0, 1), 16 |
| `log` | log m | m in [1, 2), 16 |
| `tail` | P(Z > z) | z in [0, 12), 32 to the unit |
| `inverse` | z with P(Z > z) = m 2^-e | e = 1 ... 40 and m in [1, 2), 16 to the binade |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from statistics import NormalDist

from flint import arb, arb_mat

from rangebound.values.array_types import np, npt
from rangebound.values.ball import Ball, ball, precision

DEGREE = 7
POWER_CELLS = LOG_CELLS = INVERSE_CELLS = 16
TAIL_END, TAIL_CELLS = 12, 32
BINADES = 40
_BITS = 100

_NODES = [math.cos(math.pi * (2 * k + 1) / (2 * DEGREE + 2)) for k in range(DEGREE + 1)]


@cache
def _solver() -> arb_mat:
    """The matrix that turns values at the nodes into coefficients."""
    return arb_mat([[ball(t) ** power for power in range(DEGREE + 1)] for t in _NODES]).inv()


def _cells(function: Callable[[Ball], Ball], start: float, width: float, count: int) -> list[list[float]]:
    """The polynomials of `count` cells from `start` on."""
    rows = []
    for cell in range(count):
        middle = start + width * (cell + 0.5)
        values = arb_mat([[function(ball(middle) + ball(0.5 * width) * ball(t))] for t in _NODES])
        rows.append([float(each) for each in (_solver() * values).entries()])
    return rows


def tail(z: Ball) -> Ball:
    """P(Z > z) for a standard normal Z."""
    return (z / ball(2.0).sqrt()).erfc() / 2


def inverse(chance: Ball) -> Ball:
    """The z with P(Z > z) = chance, by a Newton step from a double, which doubles its digits."""
    z = ball(-NormalDist().inv_cdf(float(chance)))
    height = (-(z * z) / 2).exp() / (2 * arb.pi()).sqrt()
    off = (tail(z) - chance) / height
    return z + off - z * off * off / 2


@cache
def laplace_tables() -> npt.NDArray[np.float64]:
    """The two tables that Laplace noise needs; the cells of the other two, which take far longer to make, are NaN."""
    with precision(_BITS):
        rows = _cells(lambda f: (-f * ball(2.0).log()).exp(), 0.0, 1.0 / POWER_CELLS, POWER_CELLS)
        rows += _cells(arb.log, 1.0, 1.0 / LOG_CELLS, LOG_CELLS)
    table = np.full((len(rows) + TAIL_END * TAIL_CELLS + BINADES * INVERSE_CELLS, DEGREE + 1), np.nan)
    table[: len(rows)] = rows
    table.flags.writeable = False
    return table


@cache
def tables() -> npt.NDArray[np.float64]:
    """All four tables, one after the other, a cell in a row; made once (a tenth of a second) and read-only."""
    with precision(_BITS):
        rows = _cells(tail, 0.0, 1.0 / TAIL_CELLS, TAIL_END * TAIL_CELLS)
        for binade in range(1, BINADES + 1):
            size = 2.0**-binade
            # Above one half only rounding errors lead, so one cell is enough there.
            used = 1 if binade == 1 else INVERSE_CELLS
            rows += _cells(inverse, size, size / INVERSE_CELLS, used)
            rows += [rows[-1]] * (INVERSE_CELLS - used)
    table = laplace_tables().copy()
    table[-len(rows) :] = rows
    table.flags.writeable = False
    return table
