"""The best table whose laws fall away from the truth on both sides, by one linear program.

The columns of a smooth table are not any staircases, so that the program has its entries as unknowns. A symmetric
design is solved by its first half.

`smooth` has all entries and all pairs of neighbours. That is too slow for a fine lattice. Where the noise is narrow for
the range, the best smooth table loses little if an output is likeliest where it is true, and likelier the nearer the
truth is: the table is `peaked`. Then each entry is compared with the next one, and with one neighbour: the farthest
towards the output. Beyond a band around the truth, it is e^-epsilon times the entry of that neighbour, as small as
privacy lets it be: such entries fall away, and are private, where those in the band are, so that the program has the
band alone.

Over a wide range: a staircase in the middle, and a boundary layer at each end. On a lattice with k neighbours to each
side, let f be the staircase of level a within g steps of the truth, which falls by rho = e^-epsilon after every k
steps. A row in the middle is f around its input, but for what f has near or beyond an end. Steps of the staircase end
at places c_j = t - g - j k, and below c_j it has the mass k a rho^(j + 1) / (1 - rho). With r = ceil(k / (e^epsilon -
1)) just one of them lies in [r, r + k): there the staircase ends, and the mass below is spread evenly over the outputs
0, ..., c_j - 1. What is so flat has a level between those of the two steps around c_j, so that the law still falls away
from the truth, and neighbours stay within a factor of e^epsilon: the flat levels of t and of t + k differ by just that
factor, and those between fall in t.

Rows near an end are found by a linear program: they are private against each other and against the middle, smooth, and
have the least error. Columns of the program rise up to their output and fall after it, so that each entry is compared
with one neighbour only, the one k steps nearer to the output. Beyond the layer, rows fall as staircases do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rangebound.errors import Unsatisfiable
from rangebound.values.array_types import Floats, Integers

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_ROUNDS = 3000  # of the solver: where it needs more, at a large epsilon, it needs minutes


class SparseRows:
    """Rows of a sparse matrix, collected block by block."""

    def __init__(self) -> None:
        self.count = 0
        self._parts: list[tuple[Integers, Integers, Floats]] = []

    def add(self, row: Integers, column: Integers, value: Floats) -> None:
        """A block of entries; its rows are counted from 0."""
        self._parts.append((row + self.count, column, value))
        self.count += int(row.max()) + 1

    def differences(self, one: Integers, two: Integers, factor: float | Floats) -> None:
        """A row of x[one] - factor x[two] for each pair of numbers."""
        row = np.arange(len(one))
        value = np.concatenate((np.ones(len(one)), np.broadcast_to(-np.asarray(factor), len(one))))
        self.add(np.concatenate((row, row)), np.concatenate((one, two)), value)

    def matrix(self, width: int) -> csr_array[np.float64]:
        """All rows as one matrix."""
        from scipy.sparse import csr_array

        row, column, value = (np.concatenate([part[k] for part in self._parts]) for k in range(3))
        return csr_array((value, (row, column)), shape=(self.count, width))


def least_risk(
    below: SparseRows,
    number: Integers,
    mass: Floats,
    risks: Floats,
    prior: Floats | None,
    what: str,
    most: Floats | None = None,
    options: Mapping[str, float] | None = None,
) -> Floats:
    """The unknowns of the least risk, or an error that says `what` was not found.

    An entry of the table is the unknown of its `number`, of which it has the `mass` and the `risks`; each of the first
    rows, as many as `below` speaks of, sums to 1. Of all, below @ unknowns <= most, which is 0 by default. Without a
    `prior` the largest risk of these rows is the least, with one the weighted risk of all of them.
    """
    from scipy.optimize import linprog

    size, rows = int(number.max()) + 1, len(mass)
    place, column = np.repeat(np.arange(rows), mass.shape[1]), number[:rows].ravel()
    sums, cost = SparseRows(), np.zeros(size + 1)
    sums.add(place, column, mass.ravel())
    limits = [np.zeros(below.count) if most is None else most]
    if prior is None:
        cost[-1] = 1.0
        for each in risks[:, :rows]:
            worst = np.concatenate((column, np.full(rows, size))), np.concatenate((each.ravel(), np.full(rows, -1.0)))
            below.add(np.concatenate((place, np.arange(rows))), *worst)
            limits.append(np.zeros(rows))
    else:
        np.add.at(cost, number, (prior[:, :, None] * risks).sum(axis=0))
    found = linprog(  # type: ignore[call-overload]  # the types leave out sparse matrices, which it takes
        cost,
        A_ub=below.matrix(size + 1),
        b_ub=np.concatenate(limits),
        A_eq=sums.matrix(size + 1),
        b_eq=np.ones(rows),
        method="highs-ipm",
        options=dict(options or {}),
    )
    if found.status != 0:  # also where a limit on rounds or time left a table that is not the best
        raise Unsatisfiable(f"{what} was found; {found.message}")
    unknowns: Floats = np.maximum(found.x[:size], 0.0)
    return unknowns


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
    _, count, width = losses.shape
    rows = (count + 1) // 2 if half else count
    number = np.arange(count * width).reshape(count, width)
    if half:
        number[rows:] = number[: count - rows][::-1, ::-1]
    if half and count % 2:  # the row in the middle is its own mirror image
        number[rows - 1] = np.minimum(number[rows - 1], number[rows - 1, ::-1])
    falling = toward_the_truth(inputs, outputs)[:rows]
    at, left = np.nonzero(falling)
    up = falling[at, left] > 0  # towards the truth
    below = SparseRows()
    below.differences(number[at, np.where(up, left, left + 1)], number[at, np.where(up, left + 1, left)], 1.0)
    one, two = np.array(
        [pair for i, end in enumerate(last.tolist()) for j in range(i + 1, end + 1) for pair in ((i, j), (j, i))]
    ).T
    if half:  # the mirror image of a pair says the same
        one, two = (each[one + two <= count - 1] for each in (one, two))
    below.differences(number[one].ravel(), number[two].ravel(), np.exp(epsilon))
    found = least_risk(below, number, np.ones((rows, width)), losses, prior, f"epsilon={epsilon}: no smooth table")
    return made_smooth(found[number], inputs, outputs)


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
    entries, below = _Entries(last, epsilon, inputs, outputs, half, band), SparseRows()
    for pairs in (entries.along_rows(toward_the_truth(inputs, outputs)), entries.along_columns()):
        below.differences(*pairs)
    mass, what = entries.factor[: entries.rows], f"epsilon={epsilon}: no smooth table of {len(inputs)} inputs"
    risks = entries.factor * losses
    found = least_risk(below, entries.number, mass, risks, prior, what, options={"maxiter": _ROUNDS})
    return made_smooth(found[entries.number] * entries.factor, inputs, outputs)


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
        """Pairs of unknowns: in a row, one is at most this many times the other."""
        at, left = np.nonzero(way[: self.rows])
        chosen = self.inside[at, left] | self.inside[at, left + 1]
        at, left = at[chosen], left[chosen]
        up = way[at, left] > 0
        return self._pairs((at, np.where(up, left, left + 1)), (at, np.where(up, left + 1, left)), 1.0)

    def along_columns(self) -> tuple[Integers, Integers, Floats]:
        """Pairs of unknowns: in a column, one is at most this many times the other."""
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
        """Entries of which one is at most this many times the other, as unknowns, each pair once."""
        ratio = most * self.factor[two] / self.factor[one]
        numbers = np.column_stack((self.number[one], self.number[two]))
        pairs, once = np.unique(numbers, axis=0, return_index=True)
        different = pairs[:, 0] != pairs[:, 1]
        return pairs[different, 0], pairs[different, 1], ratio[once][different]


def toward_the_truth(inputs: Floats, outputs: Floats) -> Integers:
    """For every input and pair of successive outputs: 1 left of the truth, -1 right of it, 0 around it."""
    here = inputs[:, None]
    return (outputs[1:] <= here).astype(np.int64) - (outputs[:-1] >= here).astype(np.int64)


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
