"""Which true answers go to which input of a table, which are neighbours, and the errors and intervals over them.

A true answer goes to the nearest input, a tie to the upper one. With inputs x_0 < x_1 < ..., the cell of x_i is
[(x_(i-1) + x_i)/2, (x_i + x_(i+1))/2): closed below, open above. All ends are exact fractions. Ties that went to the
even input, as `round` sends them, would have answers of a distance of one step land two inputs apart.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

from rangebound.errors import ArgumentError
from rangebound.laws.error import Error
from rangebound.mechanisms.finite.weights import TOTAL
from rangebound.values.array_types import Floats, Integers, np, npt
from rangebound.values.numeric import rounded_down, rounded_up
from rangebound.values.support import Grid, Support

End = Fraction | float  # a float only where it is infinite
T = TypeVar("T", float, Floats)
_CHUNK = 1 << 18  # weights at a time


@dataclass(frozen=True)
class InputCell:
    """The true answers that go to one input: from `lower`, which is one of them, to `upper`, which is if `closed`."""

    lower: End
    upper: End
    closed: bool


def thresholds(inputs: Sequence[float]) -> npt.NDArray[np.float64]:
    """For every input but the first the smallest double that goes to it or beyond: the exact midpoint, rounded up.

    >>> thresholds((0.0, 1.0, 2.0)).tolist()
    [0.5, 1.5]
    """
    return np.array([rounded_up(each) for each in _midpoints(inputs)], dtype=np.float64)


def cells(answers: Support, inputs: Sequence[float]) -> tuple[InputCell, ...]:
    """The cell of every input, cut to the range of true answers.

    Edge cases: an input to which no answer of the range goes is refused.

    >>> from rangebound.values.support import Interval
    >>> [(float(each.lower), float(each.upper), each.closed) for each in cells(Interval(0, 2), (0.0, 1.0, 2.0))]
    [(0.0, 0.5, False), (0.5, 1.5, False), (1.5, 2.0, True)]
    """
    spans = [(_end(lower), _end(upper)) for lower, upper in answers.spans]
    edges: list[End] = [-math.inf, *_midpoints(inputs), math.inf]
    found, first, last = [], 0, 0
    for value, (start, stop) in zip(inputs, itertools.pairwise(edges), strict=True):
        while first < len(spans) and spans[first][1] < start:  # the first span that does not end below the cell
            first += 1
        lower = max(spans[first][0], start) if first < len(spans) else math.inf
        if not lower < stop:
            raise ArgumentError(f"inputs={value}: no answer of the range {answers} goes to this input; leave it out")
        last = max(first, last)
        while last + 1 < len(spans) and spans[last + 1][0] < stop:  # the last span that begins inside the cell
            last += 1
        inside = spans[last][1] < stop
        found.append(InputCell(lower, spans[last][1] if inside else stop, inside))
    return tuple(found)


def pieces(answers: Support, cell: InputCell) -> list[tuple[End, End]]:
    """The spans of the range inside a cell."""
    cut = ((max(_end(lower), cell.lower), min(_end(upper), cell.upper)) for lower, upper in answers.spans)
    return [(lower, upper) for lower, upper in cut if lower <= upper]


def reach(answers: Support, sensitivity: float, inputs: Sequence[float]) -> npt.NDArray[np.int64]:
    """For every input i the last input j such that neighbouring true answers can go to i and to j.

    The inputs from i to reach[i] are neighbours of each other, and reach never falls. On a lattice of step h it is
    i + ceil(sensitivity / h), as far as there are inputs.

    Guarantee: exact for any spacing, and for answers anywhere in the range. In a grid, answers are its points alone:
    there the distance of two points is also taken in steps, with step and sensitivity as the decimal numbers that
    they print as, so that five steps of 0.01 are at most 0.05, however their doubles were rounded.
    Edge cases: an input to which no answer of the range goes is refused.

    >>> from rangebound.values.support import Interval
    >>> reach(Interval(0, 2), 0.5, (0.0, 0.5, 1.0, 1.5, 2.0)).tolist()
    [1, 2, 3, 4, 4]
    >>> reach(Interval(0, 2), 0.6, (0.0, 0.5, 1.0, 1.5, 2.0)).tolist()
    [2, 3, 4, 4, 4]
    """
    return reach_of(answers, sensitivity, cells(answers, inputs))


def reach_of(answers: Support, sensitivity: float, found: Sequence[InputCell]) -> npt.NDArray[np.int64]:
    """The same for cells: for each the last one that has an answer within the sensitivity of one of its own.

    >>> from rangebound.values.support import Interval
    >>> points = [InputCell(Fraction(each), Fraction(each), True) for each in (0, 1, 3)]
    >>> reach_of(Interval(0, 3), 1.0, points).tolist()
    [1, 1, 2]
    """
    limit = Fraction(sensitivity)
    steps = _steps(answers, sensitivity)
    last, result = 0, []
    for i, cell in enumerate(found):
        last = max(last, i)
        while last + 1 < len(found) and _within(cell, found[last + 1], limit, steps):
            last += 1
        result.append(last)
    return np.array(result, dtype=np.int64)


def neighbouring_answers(
    found: Sequence[InputCell], inputs: Sequence[float], sensitivity: float, first: int, second: int
) -> tuple[float, float]:
    """Two true answers, one of the cell of each input, that are within the sensitivity: the inputs themselves if they
    are, else the last answer of the lower cell and the first one of the upper cell.
    """
    i, j = sorted((first, second))
    left, right = _clipped(inputs[i], found[i]), _clipped(inputs[j], found[j])
    if right - left > sensitivity:
        left, right = _last(found[i]), rounded_up(Fraction(found[j].lower))
    return (left, right) if first == i else (right, left)


def _clipped(value: float, cell: InputCell) -> float:
    first = cell.lower if isinstance(cell.lower, float) else rounded_up(cell.lower)
    return min(max(value, first), _last(cell))


def _last(cell: InputCell) -> float:
    """The largest double in a cell."""
    if isinstance(cell.upper, float):
        return cell.upper
    below = rounded_down(cell.upper)
    return below if cell.closed or below < cell.upper else math.nextafter(below, -math.inf)


def _within(left: InputCell, right: InputCell, limit: Fraction, steps: tuple[dict[float, int], int] | None) -> bool:
    """Whether an answer of the left cell and one of the right cell are at most `limit` apart."""
    if math.isinf(left.upper) or math.isinf(right.lower):
        return True  # unreachable: only the first cell can begin, and only the last end, at infinity
    apart = Fraction(right.lower) - Fraction(left.upper)
    if apart < limit or (left.closed and apart == limit):
        return True
    if steps is None:
        return False
    places, most = steps
    here, there = places.get(float(left.upper)), places.get(float(right.lower))
    return here is not None and there is not None and there - here <= most


def _steps(answers: Support, sensitivity: float) -> tuple[dict[float, int], int] | None:
    """The points of a grid by their number, and how many steps make up the sensitivity; None of any other range."""
    if not isinstance(answers, Grid):
        return None
    places = {point: i for i, point in enumerate(answers.points.tolist())}
    return places, math.floor(Fraction(repr(sensitivity)) / Fraction(repr(answers.step)))


def _midpoints(inputs: Sequence[float]) -> list[Fraction]:
    exact = [Fraction(each) for each in inputs]
    return [(a + b) / 2 for a, b in itertools.pairwise(exact)]


def _end(x: float) -> End:
    return x if math.isinf(x) else Fraction(x)


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


def average_error(weights: Integers, outputs: Floats, answers: Support, cells: Sequence[InputCell]) -> Error[float]:
    """The errors averaged over a true answer that is uniform on the range, by integrals in closed form."""
    if not answers.bounded:
        raise ArgumentError(f"range={answers}: must be bounded for an average over it")
    found = [
        (row, float(lower), float(upper)) for row, cell in enumerate(cells) for lower, upper in pieces(answers, cell)
    ]
    bias = mae = mse = 0.0
    for row, start, end in found:
        chances = weights[row] / TOTAL
        mean = float(chances @ outputs)
        bias += float(_absolute(end - mean) - _absolute(start - mean))
        mae += float(chances @ (_absolute(end - outputs) - _absolute(start - outputs)))
        mse += float(chances @ ((end - outputs) ** 3 - (start - outputs) ** 3)) / 3.0
    width = math.fsum(end - start for _, start, end in found)
    return Error(bias=bias / width, mae=mae / width, mse=mse / width)


def _absolute(x: T) -> T:
    """The integral of |x| from 0."""
    return 0.5 * x * abs(x)


def intervals(
    weights: Integers, cells: Sequence[InputCell], inputs: Sequence[float], level: float
) -> tuple[Floats, Floats]:
    """For each output an interval of true answers, its lower and its upper end.

    It runs from the first to the last input under which neither this output and all above it, nor this output and all
    below it, have a probability under (1 - level)/2. The laws of a table need not rise with the input, so inputs
    between the two may be incompatible.

    Guarantee: for each input the outputs whose interval leaves it out have a probability of at most 1 - level, by a
    comparison of whole numbers; ends are rounded outwards.
    Edge cases: an output that is rare under every input has the one input that it is least rare under.

    >>> cells = [InputCell(Fraction(0), Fraction(1, 2), False), InputCell(Fraction(1, 2), Fraction(1), True)]
    >>> flip = np.array([[3 << 60, 1 << 60], [1 << 60, 3 << 60]])
    >>> [each.tolist() for each in intervals(flip, cells, (0.0, 1.0), 0.4)]
    [[0.0, 0.5], [0.5, 1.0]]
    """
    tail = -(-(1 - Fraction(level)) * TOTAL // 2)  # rounded up: a whole number is below (1 - level)/2 if below this
    up_to = np.cumsum(weights, axis=1)
    from_here = TOTAL - up_to + weights
    rarer = np.minimum(up_to, from_here)
    compatible = rarer >= int(tail)
    none = ~compatible.any(axis=0)
    first = np.where(none, rarer.argmax(axis=0), compatible.argmax(axis=0))
    last = np.where(none, rarer.argmax(axis=0), len(weights) - 1 - compatible[::-1].argmax(axis=0))
    lower = [_inside(inputs[i], cells[i]) if alone else _down(cells[i]) for i, alone in zip(first, none, strict=True)]
    upper = [_inside(inputs[i], cells[i]) if alone else _up(cells[i]) for i, alone in zip(last, none, strict=True)]
    return np.asarray(lower), np.asarray(upper)


def outputs_of(outputs: Floats, published: Floats) -> Integers:
    """The number of each published output; a number that is never published is refused."""
    place = np.minimum(np.searchsorted(outputs, published), len(outputs) - 1)
    wrong = np.flatnonzero(outputs[place] != published)
    if wrong.size:
        here = published.reshape(-1)[wrong[0]]
        raise ArgumentError(f"published={here}: is never published; it must be an output of the table")
    return place.astype(np.int64)


def _down(cell: InputCell) -> float:
    return cell.lower if isinstance(cell.lower, float) else rounded_down(cell.lower)


def _up(cell: InputCell) -> float:
    return cell.upper if isinstance(cell.upper, float) else rounded_up(cell.upper)


def _inside(value: float, cell: InputCell) -> float:
    return min(max(value, _down(cell)), _up(cell))
