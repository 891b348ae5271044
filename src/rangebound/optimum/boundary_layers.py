"""Smooth tables over wide ranges: a staircase in the middle, and a boundary layer at each end.

On a lattice with k neighbours to each side, let f be the staircase of level a within g steps of the truth, which falls
by rho = e^-epsilon after every k steps. A row in the middle is f around its input, but for what f has near or beyond an
end. Steps of the staircase end at places c_j = t - g - j k, and below c_j it has the mass k a rho^(j + 1) / (1 - rho).
With r = ceil(k / (e^epsilon - 1)) just one of them lies in [r, r + k): there the staircase ends, and the mass below is
spread evenly over the outputs 0, ..., c_j - 1. What is so flat has a level between those of the two steps around c_j,
so that the law still falls away from the truth, and neighbours stay within a factor of e^epsilon: the flat levels of t
and of t + k differ by just that factor, and those between fall in t.

Rows near an end are found by a linear program: they are private against each other and against the middle, smooth, and
have the least error. Columns of the program rise up to their output and fall after it, so that each entry is compared
with one neighbour only, the one k steps nearer to the output. Beyond the layer, rows fall as staircases do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from rangebound.errors import Unsatisfiable
from rangebound.optimum.smooth_table import SparseRows, least_risk
from rangebound.values.array_types import Floats, Integers

_DEEP = 1.0  # in scales of the noise: the depth of a layer beyond the rows that the middle leaves out
_LEAST = 1e-30  # of a probability that is compared: far below the unit of whole-number weights
_TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-9}


@dataclass(frozen=True, kw_only=True)
class StairLattice:
    """The staircase of a lattice: inputs and outputs 0 to `last`, neighbours `steps` apart, level a up to `plateau`."""

    last: int
    steps: int
    epsilon: float
    plateau: int

    @property
    def fall(self) -> float:
        """What the staircase falls by after this many steps: e^-epsilon."""
        return math.exp(-self.epsilon)

    @property
    def level(self) -> float:
        """The level of the plateau, such that all levels sum to 1."""
        return 1.0 / (2 * self.plateau + 1 + 2 * self.steps * self.fall / -math.expm1(-self.epsilon))

    @property
    def flat(self) -> int:
        """The least number of outputs at an end over which the rest of a staircase is spread."""
        return math.ceil(self.steps / math.expm1(self.epsilon))

    @property
    def first(self) -> int:
        """The first input whose row is one of the middle."""
        return self.flat + self.plateau

    def row(self, at: int) -> Floats:
        """The law of an input in the middle."""
        away = np.abs(np.arange(self.last + 1) - at)
        row = self.level * np.exp(-self.epsilon * np.ceil(np.maximum(away - self.plateau, 0) / self.steps))
        for side, edge in ((row, at - self.plateau), (row[::-1], self.last - at - self.plateau)):
            jump = (edge - self.flat) // self.steps
            end = edge - jump * self.steps
            mass = self.steps * self.level * math.exp(-self.epsilon * (jump + 1)) / -math.expm1(-self.epsilon)
            side[:end] = mass / end
        found: Floats = row
        return found


def layered(losses: Floats, prior: Floats | None, steps: int, epsilon: float) -> Floats:
    """Probabilities of a table on a lattice with staircases in the middle and the best layer for them at each end.

    `losses` has the error of every output at each answer of every input, the same from both ends; with a `prior` the
    error is least on average, without one where it is largest.

    Edge cases: where the layers meet, there is no middle, and no such table.

    >>> x = np.arange(41.0)
    >>> table = layered(np.abs(x[:, None] - x)[None], None, 1, 1.0)
    >>> bool(np.allclose(table.sum(axis=1), 1.0)), table.argmax(axis=1).tolist() == list(range(41))
    (True, True)
    """
    count = losses.shape[1]
    lattice = _best_lattice(losses, prior, steps, epsilon)
    rows = min(lattice.first + math.ceil(_DEEP * steps / epsilon), (count - steps) // 2)
    if rows < lattice.first:
        raise Unsatisfiable(
            f"epsilon={epsilon}: the range has too few scales of the noise for a smooth table of {count} inputs; use a "
            "larger step"
        )
    layer = _Layer(lattice, rows).solved(losses[:, :rows], None if prior is None else prior[:, :rows])
    middle = [lattice.row(at) for at in range(rows, count - rows)]
    return np.concatenate((layer, middle, layer[::-1, ::-1]))


def _best_lattice(losses: Floats, prior: Floats | None, steps: int, epsilon: float) -> StairLattice:
    """The staircase whose plateau has the least error at an input in the middle of the range."""
    last, middle = losses.shape[1] - 1, losses.shape[1] // 2
    every = [
        StairLattice(last=last, steps=steps, epsilon=epsilon, plateau=plateau) for plateau in range(steps // 2 + 1)
    ]
    every = [each for each in every if each.first <= min(middle, last - middle)] or every[:1]
    risks = [losses[:, middle] @ each.row(middle) if len(every) > 1 else np.zeros(1) for each in every]
    return every[int(np.argmin([each.max() if prior is None else each.mean() for each in risks]))]


class _Layer:
    """The linear program of the first rows: entries up to `near`, and the weights of staircases that go on from there.

    An entry of a row in the layer is a variable, or a sum of staircases; one of a row after it is a number.
    """

    def __init__(self, lattice: StairLattice, rows: int) -> None:
        self.lattice, self.rows = lattice, rows
        self.near = rows + lattice.plateau
        self.width = self.near + lattice.steps  # variables of a row
        self.fixed = np.array([lattice.row(at) for at in range(rows, rows + lattice.steps)])
        self.stairs = np.array([_right_part(lattice, at, self.near) for at in range(rows - lattice.steps, rows)])
        self.below, self.most = SparseRows(), list[float]()  # below @ x <= most

    def solved(self, losses: Floats, prior: Floats | None) -> Floats:
        """The rows of the layer with the least error."""
        rows, near = self.rows, self.near
        self._compare_rows()
        self._compare_columns()
        number = np.arange(rows * self.width).reshape(rows, self.width)
        mass = np.tile(np.concatenate((np.ones(near), self.stairs.sum(axis=1))), (rows, 1))
        risks = np.concatenate((losses[:, :, :near], losses[:, :, near:] @ self.stairs.T), axis=2)
        what, most = f"epsilon={self.lattice.epsilon}: no boundary layer", np.array(self.most)
        entries = least_risk(self.below, number, mass, risks, prior, what, most, _TIGHT)[number]
        table: Floats = np.concatenate((entries[:, :near], entries[:, near:] @ self.stairs), axis=1)
        table /= table.sum(axis=1, keepdims=True)
        return table

    def _compare_rows(self) -> None:
        """Each law falls away from the truth; staircases do so by themselves."""
        for t in range(self.rows):
            for y in range(self.near):
                low, high = (y, y + 1) if y < t else (y + 1, y)
                self._at_most((t, low), (t, high), 1.0)

    def _compare_columns(self) -> None:
        """Columns rise up to their output and fall after it, and no entry is more than e^epsilon times a neighbour.

        Far outputs repeat themselves after `steps`, until what is flat at the other end.
        """
        steps, last, ratio = self.lattice.steps, self.lattice.last, math.exp(self.lattice.epsilon)
        flat = last - self.lattice.flat - steps - 1
        outputs = [y for y in range(last + 1) if y <= self.near + 2 * steps or flat <= y <= flat + steps + 2]
        for y in sorted({*outputs, last}):
            for t in range(min(y, self.rows)):
                self._at_most((t, y), (t + 1, y), 1.0)
                self._at_most((min(t + steps, y), y), (t, y), ratio)
            for t in range(y, self.rows):
                self._at_most((t + 1, y), (t, y), 1.0)
            for t in range(y + 1, self.rows + steps):
                self._at_most((max(t - steps, y), y), (t, y), ratio)

    def _at_most(self, one: tuple[int, int], two: tuple[int, int], factor: float) -> None:
        """The entry at one (input, output) is at most a factor times that at another."""
        column_one, value_one, known_one = self._entry(*one)
        column_two, value_two, known_two = self._entry(*two)
        column = np.concatenate((column_one, column_two))
        size = float(self.fixed[0, max(one[1], two[1])])
        if column.size and size > _LEAST:
            unit = max(self.lattice.level / size, 1.0)  # far entries are small
            self.below.add(np.zeros_like(column), column, unit * np.concatenate((value_one, -factor * value_two)))
            self.most.append(unit * (factor * known_two - known_one))

    def _entry(self, t: int, y: int) -> tuple[Integers, Floats, float]:
        """An entry as variables with their factors, and a number."""
        if t >= self.rows:
            return np.empty(0, dtype=np.int64), np.empty(0), float(self.fixed[t - self.rows, y])
        if y < self.near:
            return np.array([t * self.width + y]), np.ones(1), 0.0
        start = t * self.width + self.near
        return np.arange(start, start + self.lattice.steps), self.stairs[:, y - self.near], 0.0


def _right_part(lattice: StairLattice, at: int, near: int) -> Floats:
    """The staircase around an input, from output `near` on; the input may be too near to the left end for a row."""
    shift = max(lattice.first - at, 0)
    return replace(lattice, last=lattice.last + shift).row(at + shift)[shift + near :]
