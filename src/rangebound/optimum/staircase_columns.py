"""Staircases with outputs, the columns that tables are sums of, and those that a search begins with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rangebound.optimum.design_problem import DesignProblem, last_neighbour
from rangebound.values.array_types import Floats, Integers


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Staircases (one a row, by their levels) and the output of each."""

    levels: Integers
    outputs: Integers

    def __len__(self) -> int:
        return len(self.outputs)

    def heights(self, epsilon: float) -> Floats:
        """The staircases themselves, 1 at their top."""
        heights: Floats = np.exp(epsilon * (self.levels - self.levels.max(axis=1, keepdims=True)))
        return heights

    def with_others(self, other: Columns) -> Columns:
        """Both, each column once."""
        levels = np.concatenate((self.levels, other.levels))
        outputs = np.concatenate((self.outputs, other.outputs))
        keys = np.column_stack((levels - levels[:, -1:], outputs)).astype(np.int32)
        once = {row.tobytes(): i for i, row in enumerate(keys)}
        return Columns(levels=levels, outputs=outputs).taken(np.fromiter(once.values(), dtype=np.int64))

    def allowed(self, first_neighbour: Integers) -> npt.NDArray[np.bool_]:
        """Which of them differ by one level at most between neighbours: jumps that were moved may be too near."""
        fine, place = np.ones(len(self), dtype=np.bool_), np.arange(len(first_neighbour))
        for apart in range(1, int((place - first_neighbour).max()) + 1):
            here = place[place - first_neighbour >= apart]
            fine &= (np.abs(self.levels[:, here] - self.levels[:, here - apart]) <= 1).all(axis=1)
        return fine

    def taken(self, chosen: npt.NDArray[np.bool_] | Integers | slice) -> Columns:
        """Some of them."""
        return Columns(levels=self.levels[chosen], outputs=self.outputs[chosen])

    def published_at(self, places: Integers) -> Columns:
        """The same staircases where outputs have other numbers: the place of each."""
        return Columns(levels=self.levels, outputs=places[self.outputs])


def first_columns(problem: DesignProblem) -> Columns:
    """Columns to begin with: the constant, and stairs of regular width that fall away from each place."""
    count, width = problem.inputs, problem.losses.shape[2]
    last = last_neighbour(problem.first_neighbour)
    best = problem.losses.sum(axis=0)
    levels, outputs = [np.zeros(count, dtype=np.int64)], [int(best.sum(axis=0).argmin())]
    nearest = problem.losses.sum(axis=0).argmin(axis=1)  # the output that suits each input
    for place in range(count):
        reach = max(1, int(last[place] - place))
        for plateau in sorted({0, reach // 4, reach // 2}):
            levels.append(_stairs(place, plateau, problem.first_neighbour, last))
            outputs.append(int(nearest[place]))
    ends = {0, width - 1, int(nearest[0]), int(nearest[-1])}
    for place in range(count):
        right = _falling(place, last)
        left = _falling(count - 1 - place, count - 1 - problem.first_neighbour[::-1])[::-1]
        for shape in (right, left):
            for output in ends | {int(nearest[place])}:
                levels.append(shape)
                outputs.append(output)
    every = Columns(levels=np.array(levels), outputs=np.array(outputs))
    return every.with_others(every)


def refined(columns: Columns, problem: DesignProblem, inputs: Integers, outputs: Integers) -> Columns:
    """Columns of a coarse problem on all inputs: each jump somewhere between the two inputs where it was."""
    last = last_neighbour(problem.first_neighbour).tolist()
    first = problem.first_neighbour.tolist()
    levels, chosen = [], []
    for shape, output in zip(np.diff(columns.levels, axis=1), columns.outputs, strict=True):
        jumps = np.flatnonzero(shape)
        top = int(np.concatenate(([0], np.cumsum(shape))).argmax())
        for near_left in (False, True):
            for near_right in (False, True):
                moves = np.zeros(problem.inputs, dtype=np.int64)
                limit, way = 0, 0
                for jump in jumps[jumps >= top]:
                    place = int(inputs[jump] + 1 if near_right else inputs[jump + 1])
                    place = max(place, limit if shape[jump] == way else place)
                    if place >= problem.inputs:
                        break
                    moves[place] += shape[jump]
                    limit, way = last[place - 1] + 1, shape[jump]
                limit, way = problem.inputs, 0
                for jump in jumps[jumps < top][::-1]:
                    place = int(inputs[jump + 1] if near_left else inputs[jump] + 1)
                    place = min(place, limit if shape[jump] == way else place)
                    if place < 1:
                        break
                    moves[place] += shape[jump]
                    limit, way = first[place], shape[jump]
                levels.append(np.cumsum(moves))
                chosen.append(int(outputs[output]))
    every = Columns(levels=np.array(levels), outputs=np.array(chosen))
    return every.taken(every.allowed(problem.first_neighbour)).with_others(every.taken(slice(0)))


def _falling(place: int, last: Integers) -> Integers:
    """Level 0 up to `place`, then down by one as often as neighbours allow."""
    levels = np.zeros(len(last), dtype=np.int64)
    jump = place + 1
    while jump < len(last):
        levels[jump:] -= 1
        jump = int(last[jump - 1]) + 1
    return levels


def _stairs(place: int, plateau: int, first: Integers, last: Integers) -> Integers:
    """Level 0 at most `plateau` inputs from `place`, falling on both sides."""
    count = len(last)
    right = _falling(min(place + plateau, count - 1), last)
    left = _falling(count - 1 - max(place - plateau, 0), count - 1 - first[::-1])[::-1]
    return right + left
