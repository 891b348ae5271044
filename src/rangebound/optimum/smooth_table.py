"""The best table whose laws fall away from the truth on both sides, by one linear program over its entries.

The columns of a smooth table are not any staircases, so that the program has all entries and all pairs of neighbours. A
symmetric design is solved by its first half.
"""

from __future__ import annotations

import numpy as np

from rangebound.errors import Unsatisfiable
from rangebound.optimum.sparse_rows import SparseRows
from rangebound.values.array_types import Floats, Integers


def smooth(
    losses: Floats, prior: Floats | None, last: Integers, epsilon: float, inputs: Floats, outputs: Floats, half: bool
) -> Floats:
    """Probabilities (inputs x outputs) with the least error among those that are private and smooth.

    `losses` has the error of every output at each answer of every input; `half` says that the design is symmetric.

    >>> x = np.arange(3.0)
    >>> table = smooth(np.abs(x[:, None] - x)[None], None, np.array([1, 2, 2]), 1.0, x, x, True)
    >>> table.argmax(axis=1).tolist(), bool((np.diff(table[0]) <= 0.0).all())
    ([0, 1, 2], True)
    """
    from scipy.optimize import linprog

    _, count, width = losses.shape
    rows = (count + 1) // 2 if half else count
    number = np.arange(count * width).reshape(count, width)
    if half:
        number[rows:] = number[: count - rows][::-1, ::-1]
    size, ratio = rows * width, np.exp(epsilon)
    falling = toward_the_truth(inputs, outputs)[:rows]
    at, left = np.nonzero(falling)
    up = falling[at, left] > 0  # towards the truth
    lower = np.where(up, number[at, left], number[at, left + 1])
    upper = np.where(up, number[at, left + 1], number[at, left])
    one, two = _pairs(last)
    if half:  # the mirror image of a pair says the same
        one, two = (each[one + two <= count - 1] for each in (one, two))
    above, below = SparseRows(), SparseRows()
    below.differences(lower, upper, 1.0)
    below.differences(number[one].ravel(), number[two].ravel(), ratio)
    above.add(np.repeat(np.arange(rows), width), number[:rows].ravel(), np.ones(size))
    right = np.ones(rows)
    if half and count % 2:
        middle = number[rows - 1]
        above.differences(middle[: width // 2], middle[::-1][: width // 2], 1.0)
        right = np.concatenate((right, np.zeros(width // 2)))
    cost = np.zeros(size + 1)
    if prior is None:
        cost[-1] = 1.0
        for each in losses:
            place = np.repeat(np.arange(rows), width + 1)
            column = np.column_stack((number[:rows], np.full(rows, size))).ravel()
            below.add(place, column, np.column_stack((each[:rows], np.full(rows, -1.0))).ravel())
    else:
        np.add.at(cost, number, (prior[:, :, None] * losses).sum(axis=0))
    found = linprog(  # type: ignore[call-overload]  # the types leave out sparse matrices, which it takes
        cost,
        A_ub=below.matrix(size + 1),
        b_ub=np.zeros(below.count),
        A_eq=above.matrix(size + 1),
        b_eq=right,
        method="highs-ipm",
    )
    if found.status != 0:  # also where a limit on rounds or time left a table that is not the best
        raise Unsatisfiable(f"epsilon={epsilon}: no smooth table was found; {found.message}")
    table: Floats = np.maximum(found.x[:size], 0.0)[number]
    return made_smooth(table, inputs, outputs)


def toward_the_truth(inputs: Floats, outputs: Floats) -> Integers:
    """For every input and pair of successive outputs: 1 left of the truth, -1 right of it, 0 around it."""
    here = inputs[:, None]
    return (outputs[1:] <= here).astype(np.int64) - (outputs[:-1] >= here).astype(np.int64)


def _pairs(last: Integers) -> tuple[Integers, Integers]:
    """All ordered pairs of neighbouring inputs."""
    pairs = [(i, j) for i, end in enumerate(last.tolist()) for j in range(i + 1, end + 1)]
    both = np.array([*pairs, *((j, i) for i, j in pairs)])
    return both[:, 0], both[:, 1]


def made_smooth(table: Floats, inputs: Floats, outputs: Floats) -> Floats:
    """The rows, made to fall away from the truth exactly, with the sum 1."""
    table = table.copy()
    for row, here in zip(table, inputs, strict=True):
        left, right = outputs <= here, outputs >= here
        row[left] = np.maximum.accumulate(row[left])
        row[right] = np.maximum.accumulate(row[right][::-1])[::-1]
        if left.any() and right.any() and (left & right).any():
            row[left & right] = max(row[left].max(), row[right].max())
    rows: Floats = table / table.sum(axis=1, keepdims=True)
    return rows


def smooth_weights(weights: Integers, inputs: Floats, outputs: Floats) -> Integers:
    """Whole-number weights, made to fall away from the truth where rounding did not: what is taken goes to the mode."""
    made = weights.copy()
    for row, here in zip(made, inputs, strict=True):
        left, right = np.flatnonzero(outputs <= here), np.flatnonzero(outputs >= here)
        total = int(row.sum())
        row[left[::-1]] = np.minimum.accumulate(row[left[::-1]])
        row[right] = np.minimum.accumulate(row[right])
        tops = [side for side in (left[-1:], right[:1]) if len(side)]
        top = max((int(side[0]) for side in tops), key=lambda place: int(row[place]))
        row[top] += total - int(row.sum())
    return made


def is_smooth(weights: Integers, inputs: Floats, outputs: Floats) -> bool:
    """Whether every row falls away from its input on both sides.

    >>> is_smooth(np.array([[3, 1], [1, 3]]), np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    True
    """
    way = toward_the_truth(inputs, outputs)
    return bool((np.diff(weights, axis=1) * way >= 0).all())
