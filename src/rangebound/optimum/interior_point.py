"""A small dense interior-point method for linear programs of few rows and many columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rangebound.values.array_types import Floats


@dataclass(frozen=True, kw_only=True)
class Solved:
    """Primal and dual of a linear program; `gap` is the relative distance of their values when it ended."""

    primal: Floats
    dual: Floats
    gap: float


def minimise(
    matrix: Floats, right: Floats, cost: Floats, *, slacks: int = 0, tolerance: float, most: int = 60
) -> Solved:
    """min cost . x subject to matrix x + (0, s) = right, x >= 0, s >= 0, by Mehrotra's predictor and corrector.

    The last `slacks` rows are inequalities; their slacks are not part of the matrix, nor of the result.
    Ends where infeasibility and gap are below `tolerance`, after `most` steps, or where doubles give no more.
    """
    from scipy.linalg import cho_factor, cho_solve  # an import of rangebound stays light

    rows, columns = matrix.shape
    equalities = rows - slacks

    def forward(x: Floats) -> Floats:
        product: Floats = matrix @ x[:columns]
        product[equalities:] += x[columns:]
        return product

    def back(y: Floats) -> Floats:
        return np.concatenate((y @ matrix, y[equalities:]))

    def factored(ratio: Floats, more: float = 1e-13) -> tuple[Floats, bool]:
        scaled = matrix * np.sqrt(ratio[:columns])
        normal = scaled @ scaled.T
        normal.flat[:: rows + 1] *= 1.0 + more
        normal.flat[equalities * (rows + 1) :: rows + 1] += ratio[columns:]
        factor: tuple[Floats, bool] = cho_factor(normal, lower=True, overwrite_a=True, check_finite=False)
        return factor

    def solve(factor: tuple[Floats, bool], side: Floats) -> Floats:
        return np.asarray(cho_solve(factor, side, check_finite=False))

    cost = np.concatenate((cost, np.zeros(slacks)))
    try:
        factor = factored(np.ones(len(cost)))
    except np.linalg.LinAlgError:  # rows that are almost combinations of others; it is only where the steps begin
        factor = factored(np.ones(len(cost)), 1e-7)
    x, y = back(solve(factor, right)), solve(factor, forward(cost))
    z = cost - back(y)
    x, z = x + max(-1.5 * x.min(), 0.0) + 1e-3, z + max(-1.5 * z.min(), 0.0) + 1e-3
    x, z = x + 0.5 * (x @ z) / z.sum(), z + 0.5 * (x @ z) / x.sum()
    best = Solved(primal=x[:columns], dual=y, gap=np.inf)
    scale_right, scale_cost = 1.0 + np.abs(right).max(), 1.0 + np.abs(cost).max()
    for _ in range(most):
        short, loose = right - forward(x), cost - back(y) - z
        errors = np.abs(short).max() / scale_right, np.abs(loose).max() / scale_cost, x @ z / (1e-3 + abs(cost @ x))
        error, mu = float(max(errors)), x @ z / len(x)
        if error < best.gap:
            best = Solved(primal=x[:columns], dual=y, gap=error)
        if error < tolerance or not error < 1e6 * best.gap:
            break
        ratio = x / z
        try:
            factor = factored(ratio)
        except np.linalg.LinAlgError:
            break
        product = -x * z
        for corrected in (False, True):
            dy = solve(factor, short + forward(ratio * loose - product / z))
            dz = loose - back(dy)
            dx = (product - x * dz) / z
            if not corrected:
                affine = ((x + _reach(x, dx) * dx) @ (z + _reach(z, dz) * dz)) / len(x)
                product = (affine / mu) ** 3 * mu - x * z - dx * dz
        keep = min(max(0.9, 1.0 - 10.0 * error), 0.9999)
        x = x + keep * _reach(x, dx) * dx
        y, z = y + keep * _reach(z, dz) * dy, z + keep * _reach(z, dz) * dz
    return best


def _reach(x: Floats, dx: Floats) -> float:
    """How far x may go along dx until a part of it is zero, at most 1."""
    return min(1.0, 1.0 / max(float((-dx / x).max()), 1e-300))
