"""Confidence intervals of a table: the inputs that are compatible with a published output, in whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from rangebound.errors import ArgumentError
from rangebound.mechanisms.finite.input_cells import InputCell
from rangebound.mechanisms.finite.weights import TOTAL
from rangebound.values.array_types import Floats, Integers
from rangebound.values.numeric import rounded_down, rounded_up


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
