"""The master problem: the best weights of the columns at hand, and the dual that prices all others.

Its rows are the sum of the probabilities of every input, which is 1, and for the worst case the risk of every answer.
The dual of these risks is a prior over the answers. A prior that is a combination of tents has a row for each tent in
place of one for each answer: a smaller program, whose dual is smooth and moves little from round to round. It is solved
by an interior point method of our own, for programs of few rows and many columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rangebound.optimum.staircase_columns import Columns, DesignProblem
from rangebound.values.array_types import Bools, Floats

_FEWEST = 600  # columns that are kept: with fewer the dual of a small problem is too free


class MasterProblem:
    """The linear program over the columns at hand: weights, for the worst case also the risk and its slacks.

    `half` says that the design is symmetric, and is solved by its first half. `apart` is the distance of the tops of
    the tents; 1 has a risk for every answer.
    """

    def __init__(self, problem: DesignProblem, columns: Columns, half: bool, apart: int = 1) -> None:
        self.problem, self.columns, self.half = problem, columns, half
        self.heights = columns.heights(problem.epsilon)
        answers, count = problem.losses.shape[:2]
        self.rows: int = (count + 1) // 2 if half else count
        risks = self.heights * problem.losses[:, :, columns.outputs].transpose(0, 2, 1)  # answers, columns, inputs
        sums = self.heights + self.heights[:, ::-1] if half else self.heights
        sums = sums[:, : self.rows]
        self.tents: Floats | None = None
        if problem.prior is not None:
            cost = np.einsum("qct,qt->c", risks, problem.prior) * (2.0 if half else 1.0)
            self.program, self.slacks = (sums.T.copy(), np.ones(self.rows), cost), 0
            return
        if half:
            risks = risks + risks[::-1, :, ::-1]
        flat = risks.transpose(0, 2, 1).reshape(answers * count, -1)
        flat = flat[: (answers * count + 1) // 2] if half else flat
        if apart > 1:
            self.tents = tents(len(flat) if half else count, apart)
            if not half:
                self.tents = np.kron(np.eye(answers), self.tents).astype(np.float64)
            flat = self.tents @ flat
        size = len(flat)
        self.scale = float(problem.losses.max())
        matrix = np.zeros((self.rows + size, len(columns) + 1))
        matrix[: self.rows, : len(columns)] = sums.T
        matrix[self.rows :, : len(columns)] = flat / self.scale
        matrix[self.rows :, len(columns)] = -1.0 if self.tents is None else -self.tents.sum(axis=1)
        cost = np.zeros(matrix.shape[1])
        cost[len(columns)] = 1.0
        self.program = (matrix, np.concatenate((np.ones(self.rows), np.zeros(size))), cost)
        self.slacks = size

    @property
    def unknowns(self) -> int:
        """About how many columns a table needs, at most: one for each row, also of what tents stand for."""
        return len(self.program[1]) if self.tents is None else 3 * self.rows

    def dual(self, dual: Floats) -> tuple[Floats, Floats]:
        """The prior over answers and the prices of inputs that a dual stands for, over all inputs again."""
        answers, count = self.problem.losses.shape[:2]
        prices = _unfolded(dual[: self.rows], count) if self.half else dual[: self.rows]
        if self.problem.prior is not None:
            return self.problem.prior, prices / (2.0 if self.half else 1.0)
        prior = np.maximum(-dual[self.rows :], 0.0)
        if self.tents is not None:
            prior = prior @ self.tents
        prior = _unfolded(prior, answers * count) if self.half else prior
        total = prior.sum()
        return (prior / total).reshape(answers, count), prices * (self.scale / total)

    def table(self, primal: Floats) -> Floats:
        """The probabilities of outputs at every input, each row divided by its sum."""
        table = np.zeros((self.problem.losses.shape[2], self.heights.shape[1]))
        weights = np.maximum(primal[: len(self.columns)], 0.0)
        np.add.at(table, self.columns.outputs, weights[:, None] * self.heights)
        if self.half:
            table += table[::-1, ::-1]
        rows: Floats = table.T / table.sum(axis=0)[:, None]
        return rows

    def value(self, primal: Floats) -> float:
        """The error of that table: the largest risk, or the one on average; with tents the largest of their risks."""
        if self.tents is not None:
            return float(primal[-1]) * self.scale
        risks = np.einsum("ty,qty->qt", self.table(primal), self.problem.losses)
        return float(risks.max() if self.problem.prior is None else (risks * self.problem.prior).sum())

    def used(self, primal: Floats) -> Bools:
        """Columns with weight."""
        weights = primal[: len(self.columns)] * self.heights.sum(axis=1)
        most = min(len(weights), len(self.program[1])) - 1
        used: Bools = weights >= np.sort(weights)[::-1][most]
        return used

    def useful(self, primal: Floats, dual: Floats, times: int) -> Bools:
        """Columns worth keeping: with weight, or with a reduced cost that is not far from zero, so often `unknowns`."""
        matrix, _, cost = self.program
        number = len(self.columns)
        reduced = (cost - matrix.T @ dual)[:number] / self.heights.sum(axis=1)
        kept: Bools = reduced <= np.sort(reduced)[min(number - 1, max(times * self.unknowns, _FEWEST))]
        kept |= self.used(primal)
        return kept


def tents(count: int, apart: int) -> Floats:
    """Functions of this many answers in a line: 1 at one of some knots, 0 at all others, and linear between.

    Knots are `apart`, and nearer to each other near both ends, where the best prior has its peaks.

    >>> tents(3, 2).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    >>> len(tents(161, 8)), bool((tents(161, 8).sum(axis=0) == 1.0).all())
    (33, True)
    """
    knots, place, gap = {count - 1}, 0, 1
    while place < count:
        knots |= {place, count - 1 - place}
        if place >= 4 * gap and gap < apart:
            gap *= 2
        place += gap
    every = np.array(sorted(knots))
    return np.array([np.interp(np.arange(count), every, row) for row in np.eye(len(every))])


def _unfolded(values: Floats, count: int) -> Floats:
    """What a symmetric problem's first half says of all: the middle one of an odd number stands for itself twice."""
    whole = np.concatenate((values, values[::-1][count % 2 :]))
    if count % 2:
        whole[count // 2] *= 2.0
    return whole


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
