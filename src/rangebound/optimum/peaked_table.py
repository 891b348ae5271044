"""The best smooth table whose columns rise up to their output and fall after it, in a band around the truth.

A program over all entries and all pairs of neighbours is too slow for a fine lattice. Where the noise is narrow for the
range, the best smooth table loses little if an output is likeliest where it is true, and likelier the nearer the truth
is. Then each entry is compared with the next one, and with one neighbour: the farthest towards the output. Beyond a
band around the truth, it is e^-epsilon times the entry of that neighbour, as small as privacy lets it be: such entries
fall away, and are private, where those in the band are, so that the program has the band alone.
"""

from __future__ import annotations

import numpy as np

from rangebound.errors import Unsatisfiable
from rangebound.optimum.smooth_table import made_smooth, toward_the_truth
from rangebound.optimum.sparse_rows import SparseRows
from rangebound.values.array_types import Floats, Integers

_ROUNDS = 3000  # of the solver: where it needs more, at a large epsilon, it needs minutes


def peaked(
    losses: Floats,
    prior: Floats | None,
    last: Integers,
    epsilon: float,
    inputs: Floats,
    outputs: Floats,
    half: bool,
    band: int,
) -> Floats:
    """Probabilities (inputs x outputs) with the least error among those that are private, smooth and peaked.

    `losses` has the error of every output at each answer of every input; `half` says that the design is symmetric;
    `band` is how many inputs an output has on each side before it falls by itself, at least its neighbours.

    >>> x = np.arange(5.0)
    >>> table = peaked(np.abs(x[:, None] - x)[None], None, np.array([1, 2, 3, 4, 4]), 1.0, x, x, True, 1)
    >>> table.argmax(axis=1).tolist(), bool(np.allclose(table[3:, 0], table[2:4, 0] / np.e))
    ([0, 1, 2, 3, 4], True)
    """
    from scipy.optimize import linprog

    entries = _Entries(last, epsilon, inputs, outputs, half, band)
    below = SparseRows()
    for pairs in (entries.along_rows(toward_the_truth(inputs, outputs)), entries.along_columns()):
        below.differences(*pairs)
    count, rows, size = losses.shape[1], entries.rows, entries.size
    place, number, factor = np.repeat(np.arange(rows), len(outputs)), entries.number[:rows], entries.factor[:rows]
    sums, cost = SparseRows(), np.zeros(size + 1)
    sums.add(place, number.ravel(), factor.ravel())
    if prior is None:
        cost[-1] = 1.0
        for each in losses:
            column = np.concatenate((number.ravel(), np.full(rows, size)))
            value = np.concatenate(((factor * each[:rows]).ravel(), np.full(rows, -1.0)))
            below.add(np.concatenate((place, np.arange(rows))), column, value)
    else:
        np.add.at(cost, entries.number, entries.factor * (prior[:, :, None] * losses).sum(axis=0))
    found = linprog(  # type: ignore[call-overload]  # the types leave out sparse matrices, which it takes
        cost,
        A_ub=below.matrix(size + 1),
        b_ub=np.zeros(below.count),
        A_eq=sums.matrix(size + 1),
        b_eq=np.ones(rows),
        method="highs-ipm",
        options={"maxiter": _ROUNDS},
    )
    if found.status != 0:
        raise Unsatisfiable(f"epsilon={epsilon}: no smooth table of {count} inputs was found; {found.message}")
    table: Floats = np.maximum(found.x[:size], 0.0)[entries.number] * entries.factor
    return made_smooth(table, inputs, outputs)


class _Entries:
    """Entries as unknowns of the program: each is a factor times the entry of the band that it falls from."""

    def __init__(self, last: Integers, epsilon: float, inputs: Floats, outputs: Floats, half: bool, band: int) -> None:
        count, width = len(inputs), len(outputs)
        self.rows = (count + 1) // 2 if half else count
        self.first, self.last, self.rise = np.searchsorted(last, np.arange(count)), last, float(np.exp(epsilon))
        away = np.abs(inputs[:, None] - outputs)
        near = away <= away.min(axis=0) + 1e-9 * (inputs[-1] - inputs[0])
        self.peak, self.end = near.argmax(axis=0), count - 1 - near[::-1].argmax(axis=0)  # one input, or two as near
        source, output = np.indices((count, width))
        falls = np.zeros((count, width), dtype=np.int64)
        while (far := np.maximum(source - self.end, self.peak - source) > band).any():
            nearer = np.where(source > self.peak, self.first[source], last[source])
            source, falls = np.where(far, nearer, source), falls + far
        self.inside, self.factor = falls == 0, np.exp(-epsilon * falls)
        source = np.where(source == self.end, self.peak, source)
        if half:
            other = 2 * source > count - 1
            source, output = np.where(other, count - 1 - source, source), np.where(other, width - 1 - output, output)
            output = np.where(2 * source == count - 1, np.minimum(output, width - 1 - output), output)
            source = np.where(source == self.end[output], self.peak[output], source)
        known, number = np.unique(source * width + output, return_inverse=True)
        self.size, self.number = len(known), number.reshape(count, width)

    def along_rows(self, way: Integers) -> tuple[Integers, Integers, Floats]:
        """Pairs of unknowns: in a row, one is at most so many times the other."""
        at, left = np.nonzero(way[: self.rows])
        chosen = self.inside[at, left] | self.inside[at, left + 1]
        at, left = at[chosen], left[chosen]
        up = way[at, left] > 0
        return self._pairs((at, np.where(up, left, left + 1)), (at, np.where(up, left + 1, left)), 1.0)

    def along_columns(self) -> tuple[Integers, Integers, Floats]:
        """Pairs of unknowns: in a column, one is at most so many times the other."""
        at, output = np.nonzero(self.inside | np.roll(self.inside, 1, axis=0) | np.roll(self.inside, -1, axis=0))
        away = (at < self.peak[output]) | (at > self.end[output])
        at, output = at[away], output[away]
        left, peak = at < self.peak[output], self.peak[output]
        next_one = self._pairs((at, output), (np.where(left, at + 1, at - 1), output), 1.0)
        nearer = np.where(left, np.minimum(self.last[at], peak), np.maximum(self.first[at], peak))
        chosen = self.inside[at, output]
        at, output, nearer = at[chosen], output[chosen], nearer[chosen]
        neighbour = self._pairs((nearer, output), (at, output), self.rise)
        one, two, ratio = (np.concatenate(each) for each in zip(next_one, neighbour, strict=True))
        return one, two, ratio

    def _pairs(
        self, one: tuple[Integers, Integers], two: tuple[Integers, Integers], most: float
    ) -> tuple[Integers, Integers, Floats]:
        """Entries of which one is at most so many times the other, as unknowns, each pair once."""
        ratio = most * self.factor[two] / self.factor[one]
        numbers = np.column_stack((self.number[one], self.number[two]))
        pairs, once = np.unique(numbers, axis=0, return_index=True)
        different = pairs[:, 0] != pairs[:, 1]
        return pairs[different, 0], pairs[different, 1], ratio[once][different]
