"""The least error of any private table on given inputs, by columns that are priced when they are needed.

A table is a sum of staircases, each with an output: sum_r w_r v_r(t) = 1 for every input t, at the least risk. The
master problem chooses weights for the columns at hand, its dual prices all others at once (`stair_pricing`), and the
best of them join. Each round's dual gives a lower limit on the error of every table; the rounds end near it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from rangebound.optimum.interior_point import minimise
from rangebound.optimum.stair_pricing import price

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

_MANY = 200  # inputs from which on most of the first columns are left out
_KEPT = 600  # columns of a small master problem: with fewer its dual is too free
_CROWDED = 8  # columns to a row of a master problem from which on it drops some: its dual moves away each time
_NEAR = (1e-2, 3e-3)  # of the error, between it and a limit: below, a search for either ends after two idle rounds


@dataclass(frozen=True, kw_only=True)
class DesignProblem:
    """The design of a table: `losses[q, t, y]` is the error of publishing output y at the q-th answer of input t.

    With `prior` (of the shape of a loss over answers) the weighted risk is least, without it the largest one is.
    Inputs that are `interleaved` belong to two lattices in turn, one from each end.
    """

    first_neighbour: Whole
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
        last = _last_neighbour(self.first_neighbour)
        return (
            np.array_equal(self.inputs - 1 - last[::-1], self.first_neighbour)
            and np.allclose(mirrored, self.losses, rtol=1e-12, atol=1e-12 * float(self.losses.max()))
            and (self.prior is None or np.allclose(self.prior[::-1, ::-1], self.prior, rtol=1e-12, atol=0.0))
        )

    @property
    def connected(self) -> bool:
        """Whether each input is a neighbour of the one before it."""
        return bool((self.first_neighbour[1:] < np.arange(1, self.inputs)).all())

    def coarse(self, inputs: Whole, outputs: Whole) -> DesignProblem:
        """The problem on some inputs and outputs alone."""
        first = np.searchsorted(inputs, self.first_neighbour[inputs])
        losses, prior = self.losses[:, inputs][:, :, outputs], self.prior
        if prior is not None:
            prior = prior[:, inputs] * (prior.sum() / prior[:, inputs].sum())
        return replace(self, first_neighbour=first, losses=losses, prior=prior)


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Staircases (one a row, by their levels) and the output of each."""

    levels: Whole
    outputs: Whole

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

    def allowed(self, first_neighbour: Whole) -> npt.NDArray[np.bool_]:
        """Which of them differ by one level at most between neighbours: jumps that were moved may be too near."""
        fine, place = np.ones(len(self), dtype=np.bool_), np.arange(len(first_neighbour))
        for apart in range(1, int((place - first_neighbour).max()) + 1):
            here = place[place - first_neighbour >= apart]
            fine &= (np.abs(self.levels[:, here] - self.levels[:, here - apart]) <= 1).all(axis=1)
        return fine

    def taken(self, chosen: npt.NDArray[np.bool_] | Whole | slice) -> Columns:
        """Some of them."""
        return Columns(levels=self.levels[chosen], outputs=self.outputs[chosen])


@dataclass(frozen=True, kw_only=True)
class Design:
    """A table in doubles, its value, and the dual (`prior` over answers, `prices` of inputs) of a limit near it.

    `closed` says that value and limit are as near as was asked for; a search that ended before is open.
    """

    probabilities: Floats
    value: float
    limit: float
    prior: Floats
    prices: Floats
    columns: Columns
    closed: bool


def open_gap(tell: Callable[[str], None]) -> Callable[[float], None]:
    """What a search tells after every round, in words."""
    return lambda gap: tell(f"at most {100.0 * gap:.2g} % above the best one")


def one_blas_thread() -> AbstractContextManager[object]:
    """One thread for linear algebra: on two busy cores, more of them took 14 times the processor time."""
    from threadpoolctl import threadpool_limits  # an import of rangebound stays light

    limits: AbstractContextManager[object] = threadpool_limits(1, user_api="blas")
    return limits


def solve(
    problem: DesignProblem,
    *,
    start: Columns | None = None,
    dual: tuple[Floats, Floats] | None = None,
    final: float = 0.0,
    enough: float = 0.0,
    limit_enough: float = 0.0,
    gap: float = 2e-4,
    rounds: int = 60,
    tell: Callable[[float], None] | None = None,
) -> Design:
    """The best table for a problem, to a relative `gap` between its error and a limit on that of every table.

    It also ends where rounds gain less than `enough` of the error, or raise the limit by less than `limit_enough`. A
    `final` tolerance solves the last master problem once more, to that tolerance: rows that do not quite sum to 1 would
    cost error when they are made to. `tell` hears the gap after every round; `start` has columns to begin with, and
    `dual` a prior over answers and prices of inputs whose limit is known to be near. All of it uses one BLAS thread.
    """
    with one_blas_thread():
        return _solve(
            problem,
            start,
            dual,
            final=final,
            enough=enough,
            limit_enough=limit_enough,
            gap=gap,
            rounds=rounds,
            tell=tell,
        )


def _solve(
    problem: DesignProblem,
    start: Columns | None,
    dual: tuple[Floats, Floats] | None,
    *,
    final: float = 0.0,
    enough: float = 0.0,
    limit_enough: float = 0.0,
    gap: float,
    rounds: int = 60,
    tell: Callable[[float], None] | None = None,
) -> Design:
    half = problem.symmetric
    limit, prior, prices, value = -np.inf, np.zeros(0), np.zeros(0), np.inf
    columns = first_columns(problem)
    if start is not None:
        columns = start.with_others(columns)
    if dual is None and problem.inputs > 24 and (start is None or problem.prior is None):
        inputs = _every_second(problem.inputs, problem.interleaved)
        outputs = _every_second(problem.losses.shape[2], problem.interleaved)
        coarse = problem.coarse(inputs, outputs)
        if coarse.connected:
            rough = _solve(
                coarse, None, None, gap=max(gap, 5e-3), enough=min(enough, 1e-3), limit_enough=min(limit_enough, 1e-3)
            )
            if start is None:
                if problem.inputs > _MANY:  # the rough ones are better, and a smaller master problem is faster
                    columns = columns.taken(slice(None, None, 4)).with_others(columns.taken(slice(1)))
                columns = _refined(rough.columns, problem, inputs, outputs).with_others(columns)
            if problem.prior is None:  # a limit for some inputs is one for all of them
                dual = np.zeros((len(rough.prior), problem.inputs)), np.zeros(problem.inputs)
                dual[0][:, inputs], dual[1][inputs] = rough.prior, rough.prices
    if dual is not None:
        found = _limit(problem, *dual, half)
        limit, prior, prices = found.limit, found.prior, found.prices
        columns = columns.with_others(found.columns)
    tolerance, before = 3e-4, np.inf
    earlier: list[tuple[float, float]] = []
    for _ in range(rounds):
        master = _Master(problem, columns, half)
        solved = minimise(*master.program, slacks=master.slacks, tolerance=tolerance)
        dual = master.dual(solved.dual)
        bounds = [_limit(problem, *dual, half)]
        if len(prices):  # half way to the best dual so far is often better than either
            bounds.append(_limit(problem, 0.7 * prior + 0.3 * dual[0], 0.7 * prices + 0.3 * dual[1], half))
        found = max(bounds, key=lambda each: each.limit)
        if found.limit > limit:
            limit, prior, prices = found.limit, found.prior, found.prices
        value = min(value, master.value(solved.primal))
        open_gap = (value - limit) / abs(value)
        if tell is not None:
            tell(open_gap)
        earlier.append((value, limit))
        if open_gap < gap or _idle(earlier, open_gap, enough, limit_enough):
            break
        if problem.prior is not None and open_gap > 0.97 * before:  # a round for nothing: solve the next more closely
            tolerance = max(1e-9, 2e-3 * open_gap, 0.3 * tolerance)
        else:
            tolerance = max(1e-8, min(tolerance, (0.1 if problem.prior is None else 0.03) * open_gap))
            if problem.prior is not None or len(columns) > _CROWDED * len(master.program[1]):
                columns = columns.taken(master.useful(solved.primal, solved.dual))
        before = open_gap
        for bound in bounds:
            columns = columns.with_others(bound.columns)
    if final:
        master = _Master(problem, master.columns.taken(master.useful(solved.primal, solved.dual)), half)
        solved = minimise(*master.program, slacks=master.slacks, tolerance=final)
        value = min(value, master.value(solved.primal))
    return Design(
        probabilities=master.table(solved.primal),
        value=value,
        limit=limit,
        prior=prior,
        prices=prices,
        columns=master.columns.taken(master.used(solved.primal)),
        closed=bool(value - limit <= gap * abs(value)),
    )


def _idle(rounds: list[tuple[float, float]], open_gap: float, enough: float, limit_enough: float) -> bool:
    """Whether the last rounds (the value and the limit after each) gained too little of the one that is asked for."""
    value, limit = rounds[-1]
    gained = [before - value for before, _ in rounds[-3 if open_gap < _NEAR[0] else -5 :: -1]]
    raised = [limit - before for _, before in rounds[-3 if open_gap < _NEAR[1] else -16 :: -1]]
    return bool(gained and gained[0] < enough * value) or bool(raised and raised[0] < limit_enough * value)


class _Master:
    """The linear program over the columns at hand: weights, for the worst case also the risk and its slacks."""

    def __init__(self, problem: DesignProblem, columns: Columns, half: bool) -> None:
        self.problem, self.columns, self.half = problem, columns, half
        self.heights = columns.heights(problem.epsilon)
        answers, count = problem.losses.shape[:2]
        self.rows = (count + 1) // 2 if half else count
        self.risks = self.heights * problem.losses[:, :, columns.outputs].transpose(0, 2, 1)  # answers, columns, inputs
        sums = self.heights + self.heights[:, ::-1] if half else self.heights
        sums = sums[:, : self.rows]
        if problem.prior is not None:
            cost = np.einsum("qct,qt->c", self.risks, problem.prior) * (2.0 if half else 1.0)
            self.program, self.slacks = (sums.T.copy(), np.ones(self.rows), cost), 0
            return
        if half:
            folded = self.risks + self.risks[::-1, :, ::-1]
            flat = folded.transpose(0, 2, 1).reshape(answers * count, -1)[: (answers * count + 1) // 2]
        else:
            flat = self.risks.transpose(0, 2, 1).reshape(answers * count, -1)
        size = len(flat)
        matrix = np.zeros((self.rows + size, len(columns) + 1))
        matrix[: self.rows, : len(columns)] = sums.T
        matrix[self.rows :, : len(columns)] = flat
        matrix[self.rows :, len(columns)] = -1.0
        self.scale = float(problem.losses.max())
        matrix[self.rows :, : len(columns)] /= self.scale
        cost = np.zeros(matrix.shape[1])
        cost[len(columns)] = 1.0
        self.program = (matrix, np.concatenate((np.ones(self.rows), np.zeros(size))), cost)
        self.slacks = size

    def dual(self, dual: Floats) -> tuple[Floats, Floats]:
        """The prior over answers and the prices of inputs that a dual stands for, over all inputs again."""
        answers, count = self.problem.losses.shape[:2]
        prices = _unfolded(dual[: self.rows], count) if self.half else dual[: self.rows]
        if self.problem.prior is not None:
            return self.problem.prior, prices / (2.0 if self.half else 1.0)
        prior = np.maximum(-dual[self.rows :], 0.0)
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
        """The error of that table: the largest risk, or the one on average."""
        risks = np.einsum("ty,qty->qt", self.table(primal), self.problem.losses)
        return float(risks.max() if self.problem.prior is None else (risks * self.problem.prior).sum())

    def used(self, primal: Floats) -> npt.NDArray[np.bool_]:
        """Columns with weight."""
        weights = primal[: len(self.columns)] * self.heights.sum(axis=1)
        most = min(len(weights), len(self.program[1])) - 1
        used: npt.NDArray[np.bool_] = weights >= np.sort(weights)[::-1][most]
        return used

    def useful(self, primal: Floats, dual: Floats) -> npt.NDArray[np.bool_]:
        """Columns worth keeping: with weight, or with a reduced cost that is not far from zero."""
        matrix, right, cost = self.program
        number = len(self.columns)
        reduced = (cost - matrix.T @ dual)[:number] / self.heights.sum(axis=1)
        kept: npt.NDArray[np.bool_] = reduced <= np.sort(reduced)[min(number - 1, max(3 * len(right), _KEPT))]
        kept |= self.used(primal)
        return kept


@dataclass(frozen=True, kw_only=True)
class _Bound:
    limit: float
    prior: Floats
    prices: Floats
    columns: Columns


def _limit(problem: DesignProblem, prior: Floats, prices: Floats, half: bool) -> _Bound:
    """The limit that a dual proves (in doubles) once its prices are lowered enough, and the columns that ask for it."""
    width = problem.losses.shape[2]
    outputs = np.arange((width + 1) // 2 if half else width)
    costs = np.einsum("qt,qty->ty", prior, problem.losses[:, :, outputs]) - prices[:, None]
    found, worst = [], -np.inf
    shift = np.zeros(len(outputs))
    while True:  # Dinkelbach's method: the worst ratio of cost to size rises until no staircase has a worse one
        priced = price(costs + shift, problem.first_neighbour, problem.epsilon)
        columns = Columns(levels=priced.levels.T, outputs=outputs)
        heights = columns.heights(problem.epsilon)
        ratio = -np.einsum("ct,tc->c", heights, costs) / heights.sum(axis=1)
        found.append(columns)
        if len(found) > 2 and ratio.max() <= worst + 1e-10 * np.abs(prices).max():
            break
        worst = max(worst, float(ratio.max()))
        shift = ratio if len(found) == 1 else np.full(len(outputs), worst)
    merged = found[0]
    for each in found[1:]:
        merged = merged.with_others(each)
    return _Bound(limit=float(prices.sum() - worst * len(prices)), prior=prior, prices=prices - worst, columns=merged)


def first_columns(problem: DesignProblem) -> Columns:
    """Columns to begin with: the constant, and stairs of regular width that fall away from each place."""
    count, width = problem.inputs, problem.losses.shape[2]
    last = _last_neighbour(problem.first_neighbour)
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


def _every_second(count: int, interleaved: bool = False) -> Whole:
    """Every second one of so many (of each of two lattices in turn), both ends among them, the same from both sides."""
    if interleaved:
        place = np.arange(count)
        return np.flatnonzero(np.where(place % 2, count - 1 - place, place) % 4 == 0)
    half = np.arange(0, (count + 1) // 2, 2)
    return np.union1d(half, count - 1 - half)


def _refined(columns: Columns, problem: DesignProblem, inputs: Whole, outputs: Whole) -> Columns:
    """Columns of a coarse problem on all inputs: each jump somewhere between the two inputs where it was."""
    last = _last_neighbour(problem.first_neighbour).tolist()
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


def _falling(place: int, last: Whole) -> Whole:
    """Level 0 up to `place`, then down by one as often as neighbours allow."""
    levels = np.zeros(len(last), dtype=np.int64)
    jump = place + 1
    while jump < len(last):
        levels[jump:] -= 1
        jump = int(last[jump - 1]) + 1
    return levels


def _stairs(place: int, plateau: int, first: Whole, last: Whole) -> Whole:
    """Level 0 at most `plateau` inputs from `place`, falling on both sides."""
    count = len(last)
    right = _falling(min(place + plateau, count - 1), last)
    left = _falling(count - 1 - max(place - plateau, 0), count - 1 - first[::-1])[::-1]
    return right + left


def _last_neighbour(first: Whole) -> Whole:
    """The last neighbour of every input, from the first ones."""
    return np.searchsorted(first, np.arange(len(first)), side="right") - 1


def _unfolded(values: Floats, count: int) -> Floats:
    """What a symmetric problem's first half says of all: the middle one of an odd number stands for itself twice."""
    whole = np.concatenate((values, values[::-1][count % 2 :]))
    if count % 2:
        whole[count // 2] *= 2.0
    return whole
