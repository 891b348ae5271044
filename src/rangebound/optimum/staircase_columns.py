"""The design of a table in doubles, the staircases that tables are sums of, and the cheapest one for every output.

The probability of one output, as a function of the input, lies in the cone of all v >= 0 with v_i <= e^epsilon v_j for
neighbouring inputs. Its extreme rays are staircases e^(epsilon m) with whole m that differ by at most one between
neighbours. Inputs ascend and neighbours are windows of them, so that m moves by at most one between successive inputs,
and the rule is: two successive jumps in the same direction, at s' < s, need inputs s' - 1 and s that are not
neighbours. (Where the jumps between two inputs add up to 2, two of them in the same direction follow each other, and
both lie between those inputs; conversely two such jumps are a difference of 2.) Jumps in opposite directions are
free.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rangebound.values.array_types import Bools, Floats, Integers


@dataclass(frozen=True, kw_only=True)
class DesignProblem:
    """The design of a table: `losses[q, t, y]` is the error of publishing output y at the q-th answer of input t.

    With `prior` (of the shape of a loss over answers) the weighted risk is least, without it the largest one is.
    Inputs that are `interleaved` belong to two lattices in turn, one from each end.
    """

    first_neighbour: Integers
    epsilon: float
    losses: Floats
    prior: Floats | None = None
    interleaved: bool = False

    @property
    def inputs(self) -> int:
        """The number of inputs."""
        return len(self.first_neighbour)

    @property
    def symmetric(self) -> bool:
        """Whether the problem is its own mirror image (first answers of inputs becoming last ones)."""
        mirrored = self.losses[::-1, ::-1, ::-1]
        last = last_neighbour(self.first_neighbour)
        return (
            np.array_equal(self.inputs - 1 - last[::-1], self.first_neighbour)
            and np.allclose(mirrored, self.losses, rtol=1e-12, atol=1e-12 * float(self.losses.max()))
            and (self.prior is None or np.allclose(self.prior[::-1, ::-1], self.prior, rtol=1e-12, atol=0.0))
        )

    @property
    def connected(self) -> bool:
        """Whether each input is a neighbour of the one before it."""
        return bool((self.first_neighbour[1:] < np.arange(1, self.inputs)).all())

    def coarse(self, inputs: Integers, outputs: Integers) -> DesignProblem:
        """The problem on some inputs and outputs alone."""
        first = np.searchsorted(inputs, self.first_neighbour[inputs])
        losses, prior = self.losses[:, inputs][:, :, outputs], self.prior
        if prior is not None:
            prior = prior[:, inputs] * (prior.sum() / prior[:, inputs].sum())
        return replace(self, first_neighbour=first, losses=losses, prior=prior)


def last_neighbour(first: Integers) -> Integers:
    """The last neighbour of every input, from the first ones."""
    return np.searchsorted(first, np.arange(len(first)), side="right") - 1


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Staircases (one per row, by their levels) and the output of each."""

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

    def allowed(self, first_neighbour: Integers) -> Bools:
        """Which of them differ by one level at most between neighbours: jumps that were moved may be too near."""
        fine, place = np.ones(len(self), dtype=np.bool_), np.arange(len(first_neighbour))
        for apart in range(1, int((place - first_neighbour).max()) + 1):
            here = place[place - first_neighbour >= apart]
            fine &= (np.abs(self.levels[:, here] - self.levels[:, here - apart]) <= 1).all(axis=1)
        return fine

    def taken(self, chosen: Bools | Integers | slice) -> Columns:
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


@dataclass(frozen=True, kw_only=True)
class Priced:
    """The least value of sum_t g_t v_t over staircases v for each output, and the levels m of a staircase that has it.

    The staircase is e^(epsilon m), where m = 0 at the last input. `levels` has a row for each input.
    """

    least: Floats
    levels: Integers


def price(costs: Floats, first_neighbour: Integers, epsilon: float) -> Priced:
    """The cheapest staircase of every column of `costs` (inputs x outputs), by one sweep over the inputs.

    With G the prefix sums of a column, up(s) (down(s)) is the least cost of what lies left of a jump at s, in units of
    the level right of it: rho = e^-epsilon times (1/rho times) the cost up to the jump before it and between the two.

        up(s) = rho (G(s) + min(0, min_{s' <= first(s)} [up(s') - G(s')], min_{s' < s} [down(s') - G(s')]))
        down(s) = (1/rho) (G(s) + min(0, min_{s' <= first(s)} [down(s') - G(s')], min_{s' < s} [up(s') - G(s')]))
        least = G(n) + min(0, min_s [up(s) - G(s)], min_s [down(s) - G(s)])

    Guarantee: none, these are doubles; `Limit.verify` follows the same recursion in balls.
    Assumes: `first_neighbour` ascends, and holds for each input the first one that is a neighbour of it (or itself).
    Edge cases: one input has no jumps.

    >>> price(np.array([[1.0], [-2.0]]), np.array([0, 0]), np.log(2.0)).least.round(12).tolist()
    [-1.5]
    """
    count, width = costs.shape
    prefix = np.zeros((count + 1, width))
    np.cumsum(costs, axis=0, out=prefix[1:])
    factor = np.exp(np.array([[-epsilon], [epsilon]]))
    best = np.full((count, 2, width), np.inf)  # running minima of up - G and down - G, and where they are
    where = np.zeros((count, 2, width), dtype=np.int64)
    for s, first in enumerate(first_neighbour.tolist()[1:], start=1):
        value = np.minimum(best[first], best[s - 1, ::-1])
        np.minimum(value, 0.0, out=value)
        value += prefix[s]
        with np.errstate(
            over="ignore"
        ):  # levels of a large epsilon grow beyond the doubles; such a column is not taken
            value *= factor
        value -= prefix[s]
        np.minimum(value, best[s - 1], out=best[s])
        where[s] = where[s - 1]
        where[s][value < best[s - 1]] = s
    least: Floats = prefix[-1] + np.minimum(best[-1].min(axis=0), 0.0)
    return Priced(least=least, levels=_levels(best, where, first_neighbour))


def _levels(best: Floats, where: Integers, first_neighbour: Integers) -> Integers:
    """The levels of every column's staircase, by its jumps from the last one back to the first."""
    count, _, width = best.shape
    jumps = np.zeros((count, width), dtype=np.int64)
    active = np.arange(width)
    same, other = best[-1, 0], best[-1, 1]  # a last jump upward, or downward
    at_same, at_other = where[-1, 0], where[-1, 1]
    way = np.zeros(width, dtype=np.int64)
    while True:
        go = np.minimum(same, other) < 0.0
        active, way = active[go], np.where(same <= other, way, 1 - way)[go]
        place = np.where(same <= other, at_same, at_other)[go]
        if not active.size:
            break
        jumps[place, active] = 1 - 2 * way
        first, last = first_neighbour[place], place - 1
        same, at_same = best[first, way, active], where[first, way, active]
        other, at_other = best[last, 1 - way, active], where[last, 1 - way, active]
    levels: Integers = np.cumsum(jumps, axis=0)
    levels -= levels[-1].copy()
    return levels
