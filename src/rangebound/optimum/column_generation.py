"""The least error of any private table on given inputs, by columns that are priced when they are needed.

A table is a sum of staircases, each with an output: sum_r w_r v_r(t) = 1 for every input t, at the least risk. The
master problem chooses weights for the columns at hand, its dual prices all others at once (`price`), and the
best of them join. Each round's dual gives a lower limit on the error of every table; the rounds end near it.

In the worst case of a symmetric design, a first search has priors that are combinations of tents, and the table that
it ends with is made even, so that no single answer has more risk. Only where that is not near the limit, a second one
has any prior.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from rangebound.optimum.master_problem import MasterProblem, Solved, minimise
from rangebound.optimum.staircase_columns import Columns, DesignProblem, first_columns, price, refined
from rangebound.values.array_types import Floats, Integers

Dual = tuple[Floats, Floats]  # a prior over answers, and prices of inputs

_MANY = 200  # inputs from which on most of the first columns are left out
_SMALL, _APART = 60, 8  # inputs from which on a symmetric design begins with tents, and how far apart these are
_CROWDED = 6, 8  # columns to an unknown (with tents, and without) from which on a master problem drops some
_KEPT = 4, 3  # columns to an unknown that it keeps
_NEAR = (1e-2, 3e-3)  # of the error, between it and a limit: below, a search for either ends after two idle rounds
_FEWER = 0.75  # of the inputs: beginning with a problem on more of them saves no time
_RATIOS = 100  # of cost to size, in turn: a few are enough, and what is not exact is found when a limit is proved
_ROUGH = 1e-2  # of the error, between it and a limit: where the search on every second input ends


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


def solve(
    problem: DesignProblem,
    *,
    start: Columns | None = None,
    dual: Dual | None = None,
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
    from threadpoolctl import threadpool_limits  # an import of rangebound stays light

    until = _Until(gap=gap, enough=enough, limit_enough=limit_enough, rounds=rounds)
    with threadpool_limits(1, user_api="blas"):  # on two busy cores, more of them took 14 times the processor time
        return _solve(problem, start, dual, until, final, tell)


@dataclass(frozen=True, kw_only=True)
class _Until:
    """Where a search ends."""

    gap: float
    enough: float
    limit_enough: float
    rounds: int

    def idle(self, rounds: list[tuple[float, float]], open_gap: float) -> bool:
        """Whether the last rounds (the value and the limit after each) gained too little of what is asked for."""
        value, limit = rounds[-1]
        gained = [before - value for before, _ in rounds[-3 if open_gap < _NEAR[0] else -5 :: -1]]
        raised = [limit - before for _, before in rounds[-3 if open_gap < _NEAR[1] else -16 :: -1]]
        return bool(gained and gained[0] < self.enough * value) or bool(
            raised and raised[0] < self.limit_enough * value
        )


def _solve(
    problem: DesignProblem,
    start: Columns | None,
    dual: Dual | None,
    until: _Until,
    final: float,
    tell: Callable[[float], None] | None,
) -> Design:
    columns, duals = first_columns(problem), [] if dual is None else [dual]
    if problem.prior is None:
        columns = _thinned(columns, problem)
    if start is not None:
        columns = start.with_others(columns)
    if dual is None and problem.inputs > 24 and (start is None or problem.prior is None):
        columns, duals = _from_every_second(problem, columns, start is None, until)
    search = _ColumnSearch(problem, columns, tell)
    for each in duals:
        search.join(search.priced(each))
    if problem.prior is None and search.half and problem.inputs > _SMALL:
        search.run(_APART, replace(until, gap=0.5 * until.gap))
        search.make_even(final or 0.1 * until.gap)
    if not search.open_gap < until.gap:
        search.run(1, until)
        if final:
            search.make_even(final)
    master, primal = search.master, search.solved.primal
    return Design(
        probabilities=master.table(primal),
        value=search.value,
        limit=search.limit,
        prior=search.dual[0],
        prices=search.dual[1],
        columns=master.columns.taken(master.used(primal)),
        closed=bool(search.open_gap <= until.gap),
    )


def _from_every_second(
    problem: DesignProblem, columns: Columns, refine: bool, until: _Until
) -> tuple[Columns, list[Dual]]:
    """Columns and duals of the problem on every second input and output; the columns only to `refine`."""
    inputs = _every_second(problem.inputs, problem.interleaved)
    lost = inputs[1:][problem.first_neighbour[inputs[1:]] > inputs[:-1]]  # no neighbours of the one before any more
    inputs = np.union1d(inputs, lost - 1)
    outputs = _every_second(problem.losses.shape[2], problem.interleaved)
    coarse = problem.coarse(inputs, outputs)
    if not coarse.connected or coarse.inputs > _FEWER * problem.inputs:
        return columns, []
    worst = problem.prior is None
    loose = replace(
        until,
        gap=max(until.gap, _ROUGH if worst else 0.5 * _ROUGH),
        enough=min(until.enough, 1e-3),
        limit_enough=min(until.limit_enough, 1e-3),
        rounds=60,
    )
    rough = _solve(coarse, None, None, loose, 0.0, None)
    if refine:
        columns = columns if worst else _thinned(columns, problem)
        columns = refined(rough.columns, problem, inputs, outputs).with_others(columns)
    if not worst:
        return columns, []
    alone = np.zeros((len(inputs), problem.inputs))  # a limit for some inputs is one for all of them
    alone[np.arange(len(inputs)), inputs] = 1.0
    spread = np.array([np.interp(np.arange(problem.inputs), inputs, row) for row in np.eye(len(inputs))])
    spread /= spread.sum(axis=1, keepdims=True)
    return columns, [(rough.prior @ each, rough.prices @ each) for each in (alone, spread)]


def _thinned(columns: Columns, problem: DesignProblem) -> Columns:
    """A part of the first columns, where there are many inputs: others are better, and a smaller program is faster.

    All of them are kept where an input has one neighbour on a side: there is no problem on every second input then.
    """
    if problem.inputs <= _MANY or (problem.first_neighbour[2:] > np.arange(problem.inputs - 2)).any():
        return columns
    return columns.taken(slice(None, None, 4)).with_others(columns.taken(slice(1)))


class _ColumnSearch:
    """Rounds of master problems and prices: the columns at hand, the best table on them, the best dual so far."""

    master: MasterProblem
    solved: Solved

    def __init__(self, problem: DesignProblem, columns: Columns, tell: Callable[[float], None] | None) -> None:
        self.problem, self.columns, self.half, self.tell = problem, columns, problem.symmetric, tell
        self.value, self.limit = np.inf, -np.inf
        self.dual: Dual = np.zeros(0), np.zeros(0)

    @property
    def open_gap(self) -> float:
        """Between the error of the table and the limit, of the error."""
        return (self.value - self.limit) / abs(self.value) if np.isfinite(self.value) else 1.0

    def priced(self, dual: Dual) -> list[Columns]:
        """The columns that a dual asks for, and one nearer to the best so far; the better limit of both is kept.

        The one between them is often better than either.
        """
        duals = [dual]
        if len(self.dual[1]):
            duals.append((0.7 * self.dual[0] + 0.3 * dual[0], 0.7 * self.dual[1] + 0.3 * dual[1]))
        bounds = [_limit(self.problem, *each, self.half) for each in duals]
        best = max(bounds, key=lambda each: each.limit)
        if best.limit > self.limit:
            self.limit, self.dual = best.limit, (best.prior, best.prices)
        return [each.columns for each in bounds]

    def join(self, found: list[Columns]) -> None:
        """Add columns to those at hand."""
        for each in found:
            self.columns = self.columns.with_others(each)

    def run(self, apart: int, until: _Until) -> None:
        """Rounds with priors that are combinations of tents so far apart, until no better one is far."""
        average = self.problem.prior is not None
        crowded, kept = (each[0 if apart > 1 else 1] for each in (_CROWDED, _KEPT))
        tolerance, before = 3e-4 if apart == 1 else 1e-2, np.inf
        earlier: list[tuple[float, float]] = []
        self.value = np.inf
        for _ in range(until.rounds):
            self.master = MasterProblem(self.problem, self.columns, self.half, apart)
            self.solved = minimise(*self.master.program, slacks=self.master.slacks, tolerance=tolerance)
            found = self.priced(self.master.dual(self.solved.dual))
            self.value = min(self.value, self.master.value(self.solved.primal))
            if self.tell is not None:
                self.tell(self.open_gap)
            raised = not earlier or self.limit > earlier[-1][1]
            earlier.append((self.value, self.limit))
            if self.open_gap < until.gap or until.idle(earlier, self.open_gap):
                break
            if average and self.open_gap > 0.97 * before:  # a round for nothing: solve the next more closely
                tolerance = max(1e-9, 2e-3 * self.open_gap, 0.3 * tolerance)
            else:
                tolerance = max(1e-8, min(tolerance, (0.03 if average else 0.1) * self.open_gap))
                # where columns are dropped the dual moves away, in circles if that is all that happens
                many = len(self.columns) / self.master.unknowns
                patience = 1 if raised or (apart == 1 and self.half) else 2 if apart > 1 else 3
                if average or many > patience * crowded:
                    self.columns = self.columns.taken(self.master.useful(self.solved.primal, self.solved.dual, kept))
            before = self.open_gap
            self.join(found)

    def make_even(self, tolerance: float) -> None:
        """Solve the last master problem again, to a tolerance, with the risk of every answer."""
        useful = self.master.useful(self.solved.primal, self.solved.dual, _KEPT[1])
        self.master = MasterProblem(self.problem, self.master.columns.taken(useful), self.half)
        self.solved = minimise(*self.master.program, slacks=self.master.slacks, tolerance=tolerance)
        self.value = self.master.value(self.solved.primal)
        self.join(self.priced(self.master.dual(self.solved.dual)))


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
    for _ in range(_RATIOS):  # Dinkelbach's method: the worst ratio of cost to size rises until none is worse
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


def _every_second(count: int, interleaved: bool = False) -> Integers:
    """Every second one of `count` (of each of two lattices in turn), both ends among them, the same from both sides."""
    if interleaved:
        place = np.arange(count)
        return np.flatnonzero(np.where(place % 2, count - 1 - place, place) % 4 == 0)
    half = np.arange(0, (count + 1) // 2, 2)
    return np.union1d(half, count - 1 - half)
