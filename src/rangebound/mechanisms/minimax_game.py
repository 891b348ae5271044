"""A game by a linear program: which table makes the largest risk smallest, with columns and rows made as needed."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from rangebound.errors import Unsatisfiable
from rangebound.values.array_types import Bools, Floats, Integers
from rangebound.values.progress_line import Tell

_GAP = 2e-4  # relative: how far above its lower bound a minimax remap may be
_ROUNDS = 40
_FIRST_ROWS, _MORE_ROWS = 48, 24


class Game:
    """Rows are true answers, columns pairs (bin, value): which table makes the largest risk smallest?

    Where bins and answers are their own mirror image, so is some best table: half of it is enough, and half the rows.
    """

    def __init__(self, masses: Floats, costs: Floats) -> None:
        count, self.bins = masses.shape
        mirrored = np.allclose(masses, masses[::-1, ::-1], atol=1e-12) and np.allclose(costs, costs[::-1, ::-1])
        self.mirrored = bool(mirrored)
        kept = np.arange((self.bins + 1) // 2 if mirrored else self.bins)
        self.costs = costs[: (count + 1) // 2] if mirrored else costs
        near = masses[: len(self.costs), kept]
        self.parts = [(near, self.costs)]  # masses of bins, and what each value costs there
        if mirrored:
            share = np.where(self.bins - 1 - kept != kept, 1.0, 0.5)
            far = masses[: len(self.costs), self.bins - 1 - kept]
            self.parts = [(near * share, self.costs), (far * share, self.costs[:, ::-1])]

    def prices(self, chances: Floats) -> Floats:
        """What each value of each bin costs where true answers have these probabilities."""
        found: Floats = np.sum([(masses * chances[:, None]).T @ costs for masses, costs in self.parts], axis=0)
        return found

    def risks(self, table: Floats) -> Floats:
        """The error at every true answer."""
        found: Floats = np.sum([((masses @ table) * costs).sum(axis=1) for masses, costs in self.parts], axis=0)
        return found

    def columns(self, rows: Integers, bins: Integers, values: Integers) -> Floats:
        """The part of single pairs in the error at some answers."""
        chosen = (masses[np.ix_(rows, bins)] * costs[np.ix_(rows, values)] for masses, costs in self.parts)
        found: Floats = np.sum(list(chosen), axis=0)
        return found

    def solved(self, tell: Tell) -> Floats:
        """Add columns that are worth something and rows that are violated, until the bounds meet."""
        count = len(self.costs)
        rows = np.unique(np.linspace(0, count - 1, min(_FIRST_ROWS, count)).astype(np.int64))
        active = self._around(self.prices(np.full(count, 1.0 / count)).argmin(axis=1), 3)
        lower, upper, best = -math.inf, math.inf, np.empty(0)
        for _ in range(_ROUNDS):
            bins, values = np.nonzero(active)
            chances, shares, value = _linear_program(self.columns(rows, bins, values), bins, len(active))
            table = np.zeros_like(active, dtype=np.float64)
            table[bins, values] = shares
            table /= table.sum(axis=1, keepdims=True)
            risks = self.risks(table)
            if risks.max() < upper:
                upper, best = float(risks.max()), table
            prior = np.zeros(count)
            prior[rows] = chances
            prices = self.prices(prior)
            lower = max(lower, float(prices.min(axis=1).sum()))
            if upper - lower <= _GAP * upper:
                break
            tell(f"at most {100.0 * (upper - lower) / upper:.2g} % above the best one")
            excess = prices[bins, values] - prices.min(axis=1)[bins]
            used = (shares > 1e-9) | (excess <= np.median(excess))
            active = self._around(prices.argmin(axis=1), 2)
            active[bins[used], values[used]] = True
            rows = np.unique(np.concatenate([rows, _apart(risks, value * (1.0 + _GAP / 4.0))]))
        return self._whole(best)

    def _around(self, centres: npt.NDArray[np.intp], wide: int) -> Bools:
        """Pairs of each bin with the values around one."""
        near: Bools = np.abs(np.arange(self.costs.shape[1]) - centres[:, None]) <= wide
        return near

    def _whole(self, table: Floats) -> Floats:
        if not self.mirrored:
            return table
        full = np.zeros((self.bins, table.shape[1]))
        half = len(table)
        full[:half] += table
        full[self.bins - half :] += table[::-1, ::-1]
        if self.bins % 2:
            full[half - 1] /= 2.0
        return full


def _apart(risks: Floats, limit: float) -> Integers:
    """Rows with the largest risks above a limit, none next to another."""
    found: list[int] = []
    for i in np.argsort(-risks):
        if risks[i] <= limit or len(found) >= _MORE_ROWS:
            break
        if all(abs(int(i) - each) > 2 for each in found):
            found.append(int(i))
    return np.asarray(found, dtype=np.int64)


def _linear_program(columns: Floats, bins: Integers, count: int) -> tuple[Floats, Floats, float]:
    """Chances of the rows, shares of the columns and the value of the game on some rows and columns, by HiGHS."""
    from scipy.optimize import linprog  # here, because it is not needed to import the package

    rows, number = columns.shape
    sums = np.zeros((count, number + 1))
    sums[bins, np.arange(number)] = 1.0
    solution = linprog(
        np.append(np.zeros(number), 1.0),
        A_ub=np.hstack([columns, -np.ones((rows, 1))]),
        b_ub=np.zeros(rows),
        A_eq=sums,
        b_eq=np.ones(count),
        method="highs",
    )
    if solution.status != 0 or solution.x is None or solution.fun is None:
        raise Unsatisfiable(f"mechanism: the linear program of its remap was not solved; {solution.message}")
    chances = np.maximum(-solution.ineqlin.marginals, 0.0)
    return chances / chances.sum(), np.maximum(solution.x[:-1], 0.0), float(solution.fun)
