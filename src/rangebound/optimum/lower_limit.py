"""`rb.limit`: the dual of the design of the best table, rounded to doubles that prove what they say."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from rangebound.errors import CertificateInvalid, Unsatisfiable
from rangebound.optimum.column_generation import open_gap, solve
from rangebound.optimum.input_lattice import (
    MIDDLE,
    STEPPED,
    check_doubles,
    check_lattice,
    first_neighbours,
    limit_inputs,
    limit_inputs_from_both_ends,
    steep_parts,
    stepped_parts,
)
from rangebound.optimum.limit_proof import Limit, LimitedError, Over
from rangebound.optimum.staircase_columns import Columns, DesignProblem
from rangebound.values import arguments
from rangebound.values.array_types import Floats
from rangebound.values.numeric import rounded_down
from rangebound.values.progress_line import Tell, progress_line
from rangebound.values.support import Grid, Query

_INPUTS, _FEW = 321, 161  # at most, and up to the epsilon from which on a lattice has to be finer
_GAP = 2e-4  # of the value, between the limit and the best table on the same inputs
_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # inputs to a sensitivity that can be halved, most of them often
_SPARE = 1.1  # times as many inputs, where these parts need them
_REST = 2e-4  # of the range: where more of it is left out, inputs are counted from both ends
_REST_STEPPED = 4e-3  # ... where they have to be fine, and half as many from each end prove less
_FINEST = 1e-3  # of a squared error: what the distance of the outputs may cost
_MOST_PARTS = 2  # outputs from one input to the next, in a range with gaps
_ENOUGH = 5e-3  # of a limit: what the distance of the outputs may cost in a range with gaps, before more are tried
_FEW_ROUNDS = 15  # of that search
_WIDEST = 64  # times the usual distance of two inputs: a wider gap has no more outputs
_CHECKED = 220_000  # pairs of an input and an output, in a range with gaps: what is checked in half a second
_UNITS = 52  # binary places of the prior
_LONGEST = 4  # blocks without neighbours in each other, of which the one with the highest limit is taken
_TIMES = 4  # as many inputs for an average, block by block


@arguments.guided
def limit(
    *,
    query: Query,
    epsilon: float,
    objective: str | LimitedError = LimitedError.MAE,
    at: str | Over = Over.WORST,
    progress: bool | None = None,
) -> Limit:
    """The error that no epsilon-private mechanism can be below, with its proof.

    It limits mechanisms of every kind: additive or not, with any outputs. `objective` is the mean absolute or the mean
    squared error; `at` is the worst true answer of the range, or the average over a uniform one. `progress` shows how
    far a search of more than two seconds is (by default on a terminal).

    Guarantee: `value` is proved in whole numbers from the certificate's own ones, before it is returned.
    Assumes: pure privacy; with a delta of 1e-6 the best error is about 0.01 % less, with 1e-3 up to some percent.
    Edge cases: the range must be bounded. Over wide ranges the limit is that of a part of it, and so a little lower
    than it could be. Where a union's gaps are wider than the sensitivity, the worst case is that of one of the parts,
    and the average that of all. `closed` is False where the search ended before it was near the best limit.

    >>> import rangebound as rb
    >>> query = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    >>> found = rb.limit(query=query, epsilon=0.2)
    >>> 2.555 < found.value < 2.56, min(each.error.mae for each in rb.choose(query=query, epsilon=0.2)) > found.value
    (True, True)
    """
    arguments.instance("query", query, Query, "a Query")
    epsilon = arguments.positive("epsilon", epsilon)
    loss, over = arguments.member("objective", objective, LimitedError), arguments.member("at", at, Over)
    with progress_line("searching for the limit", progress) as tell:
        return proved(query, epsilon, loss, over, tell=tell)


@dataclass(frozen=True, kw_only=True)
class KnownColumns:
    """The staircases of a table that was found, on its inputs, and its outputs: where a search for a limit begins."""

    inputs: list[float]
    outputs: list[float]
    columns: Columns
    prior: Floats
    prices: Floats

    def dual_on(self, points: Floats) -> tuple[Floats, Floats]:
        """The dual on points of the range: what an input has goes to the points next to it."""
        inputs = np.clip(self.inputs, points[0], points[-1])
        shares = np.array([np.interp(inputs, points, each) for each in np.eye(len(points))])
        return (shares @ self.prior)[None], shares @ self.prices

    def on(self, points: Floats) -> Columns:
        """The same staircases on points of the range, which are the outputs too: each has the level of its cell.

        Cells of neighbouring points are neighbours in the table, so that staircases of cells are staircases of points.
        """
        inputs, outputs = np.array(self.inputs), np.array(self.outputs)
        levels = self.columns.levels[:, np.searchsorted((inputs[:-1] + inputs[1:]) / 2.0, points, side="right")]
        above = np.minimum(np.searchsorted(points, outputs), len(points) - 1)
        below = np.maximum(np.searchsorted(points, outputs, side="right") - 1, 0)
        chosen = self.columns.outputs
        return Columns(levels=levels, outputs=below[chosen]).with_others(Columns(levels=levels, outputs=above[chosen]))


def proved(
    query: Query,
    epsilon: float,
    loss: LimitedError,
    over: Over,
    most: int = _INPUTS,
    *,
    known: KnownColumns | None = None,
    tell: Tell | None = None,
) -> Limit:
    """The limit, on inputs of its own: fewer of them take less time, and the limit is a little lower.

    A table that is `known` shortens the search, and `tell` hears how far it is.
    """
    check_doubles(query, epsilon)
    if over is Over.AVERAGE or loss is LimitedError.MSE:  # more gain less than they cost
        most = min(most, _FEW)
    inputs, width, interleaved = _inputs(query, epsilon, loss, over, most)
    blocks = _blocks(query, inputs, most if over is Over.AVERAGE else len(inputs))
    uniform = None
    if over is Over.AVERAGE:
        size = sum((Fraction(upper) - Fraction(lower) for lower, upper in query.range.spans), Fraction(0))
        share = Fraction(1, len(query.range.points)) if isinstance(query.range, Grid) else Fraction(width) / size
        uniform = rounded_down(share)
    else:
        blocks = sorted(blocks, key=lambda block: block[0] - block[-1])[:_LONGEST]
    alike: dict[bytes, _Block] = {}  # equal but for where they are
    for block in blocks:
        key = np.subtract(block, block[0]).tobytes()
        if key not in alike:
            alike[key] = _Block(query, block, epsilon, loss, uniform, known, tell, interleaved)
    found = [(block, alike[np.subtract(block, block[0]).tobytes()]) for block in blocks]
    if uniform is None:
        found = [max(found, key=lambda pair: pair[1].design.limit)]
    parts = 1
    if loss is LimitedError.MSE:
        total = sum(each.design.value for _, each in found)
        wanted, count = 2.0 * math.sqrt(_FINEST * total), sum(len(block) for block, _ in found)
        different = {id(each): each for _, each in found}.values()
        for each in different:
            each.refine(wanted, max(1, 1600 // count), max(1, _CHECKED // count**2))
        parts = max(each.parts for each in different)
        for each in different:
            if each.parts < parts:
                each.hold_between()
    return _rounded(query, epsilon, loss, over, width, parts, found)


class _Block:
    """Inputs that are neighbours of each other, one after the other, and the best table on them."""

    def __init__(
        self,
        query: Query,
        inputs: list[float],
        epsilon: float,
        loss: LimitedError,
        uniform: float | None,
        known: KnownColumns | None,
        tell: Tell | None,
        interleaved: bool,
    ) -> None:
        self.epsilon, self.loss, self.uniform = epsilon, loss, uniform
        self.tell = None if tell is None else open_gap(tell)
        self.points = np.array(inputs)
        self.first = np.array(first_neighbours(query, inputs))
        self.gap = float(np.diff(self.points).max())
        self.interleaved = interleaved
        self.parts, self.outputs = 1, self.points
        if self._has_gaps:
            self.outputs = _between(self.points, self._step)
        start = None if known is None else known.on(self.points)
        self.design = solve(
            self._problem(self.outputs),
            start=start and start.published_at(np.searchsorted(self.outputs, self.points)),
            dual=None if known is None or uniform is not None else known.dual_on(self.points),
            gap=_GAP * self._gaps,
            limit_enough=_GAP * (uniform is None),
            tell=self.tell,
        )

    @property
    def _gaps(self) -> float:
        """How often the usual gap: a squared error is solved again, and the worst absolute error has little time."""
        if self.loss is LimitedError.MSE:
            return 20.0
        many = len(self.points) > _SPARE * _FEW
        return 1.0 if self.uniform is not None else 10.0 if many else 2.5

    @property
    def _step(self) -> float:
        """The usual distance of two inputs, which a gap of the range is wider than; a part of the gap at least."""
        return max(float(np.median(np.diff(self.points))), self.gap / _WIDEST)

    @property
    def _has_gaps(self) -> bool:
        """Whether outputs of a squared error are needed in a gap of the range, wherever there are inputs."""
        return self.loss is LimitedError.MSE and self.gap > 1.5 * self._step and not self.interleaved

    def refine(self, wanted: float, most: int, across: int) -> None:
        """Solve again with outputs between the inputs, so far apart if there is time.

        The most parts from one input to the next that there is time for depend on whether there is a gap.
        """
        if not self._has_gaps:
            self.parts = max(1, min(math.ceil(self.gap / wanted), most))
            places = np.arange(self.parts * (len(self.points) - 1) + 1) / self.parts
            self._solve_at(np.interp(places, np.arange(len(self.points)), self.points), 60)
            return
        apart, outputs, design = self._step, self.outputs, self.design
        self.hold_between()
        if self.design.limit < (1.0 - _ENOUGH) * design.limit:
            coarse, apart = self.design, max(self._step / _MOST_PARTS, wanted)
            self.outputs, self.design = outputs, design
            self._solve_at(_between(self.points, apart), _FEW_ROUNDS)
            self.hold_between()
            self.design = max(coarse, self.design, key=lambda each: each.limit)
        self.parts = min(math.ceil(self.gap / apart * (1.0 - 1e-9)), across)

    def _solve_at(self, outputs: Floats, rounds: int) -> None:
        """The best table with these outputs, from the one that is known."""
        near = np.minimum(np.searchsorted(outputs, self.outputs), len(outputs) - 1)
        dual = (self.design.prior, self.design.prices) if self.uniform is None else None
        start, problem = self.design.columns.published_at(near), self._problem(outputs)
        self.design = solve(problem, start=start, dual=dual, gap=2.0 * _GAP, rounds=rounds, tell=self.tell)
        self.outputs = outputs

    def hold_between(self) -> None:
        """Lower the prices so that they are proved for all outputs between those, however many are checked.

        At an output between two that are d apart, the sum of costs over a staircase is at most d^2 / 4 times that of
        the prior less: prices that are lower by d^2 / 4 of the prior make up for it.
        """
        lower = self.design.prior[0] * (float(np.diff(self.outputs).max()) ** 2 / 4.0)
        limit = self.design.limit - float(lower.sum())
        self.design = replace(self.design, prices=self.design.prices - lower, limit=limit)

    def _problem(self, outputs: Floats) -> DesignProblem:
        away = np.abs(self.points[None, :, None] - outputs)
        losses = away if self.loss is LimitedError.MAE else away * away
        prior = None if self.uniform is None else np.full((1, len(self.points)), self.uniform)
        return DesignProblem(
            first_neighbour=self.first,
            epsilon=self.epsilon,
            losses=losses,
            prior=prior,
            interleaved=self.interleaved and len(outputs) == len(self.points),
        )


def _between(points: Floats, apart: float) -> Floats:
    """The points, and others between any two of them that are farther apart than that.

    >>> _between(np.array([0.0, 1.0, 4.0]), 1.5).tolist()
    [0.0, 1.0, 2.5, 4.0]
    """
    pieces = np.maximum(np.ceil(np.diff(points) / apart * (1.0 - 1e-9)), 1.0).astype(np.int64)
    places = [a + (b - a) * np.arange(n) / n for a, b, n in zip(points[:-1], points[1:], pieces.tolist(), strict=True)]
    return np.concatenate((*places, points[-1:]))


def _rounded(
    query: Query,
    epsilon: float,
    loss: LimitedError,
    over: Over,
    width: float,
    parts: int,
    found: list[tuple[list[float], _Block]],
) -> Limit:
    """The dual as doubles: a prior that sums to 1 exactly, and prices lowered by as little as a proof needs."""
    inputs = [each for block, _ in found for each in block]
    prior = np.concatenate([block.design.prior[0] for _, block in found])
    prices = np.concatenate([block.design.prices for _, block in found])
    if over is Over.WORST:
        units = np.floor(prior * 2.0**_UNITS).astype(np.int64)
        units[np.argmax(units)] += 2**_UNITS - int(units.sum())
        prior = units / 2.0**_UNITS
    margin = 1e-13 * float(np.abs(prices).max())
    for _ in range(12):
        limit = Limit(
            query=query,
            epsilon=epsilon,
            objective=loss,
            at=over,
            inputs=tuple(inputs),
            prior=tuple(prior.tolist()),
            prices=tuple((prices - margin).tolist()),
            width=width if over is Over.AVERAGE else 0.0,
            subdivisions=parts,
            closed=all(block.design.closed for _, block in found),
        )
        try:
            limit.verify()
        except CertificateInvalid:
            margin *= 8.0
        else:
            return limit
    raise Unsatisfiable(f"epsilon={epsilon}: no limit could be proved over {query.range}")


def _inputs(query: Query, epsilon: float, loss: LimitedError, over: Over, most: int) -> tuple[list[float], float, bool]:
    """Inputs for a limit, their distance, and whether they are two lattices: this many, for an average some times more.

    A lattice of D/k is coarse where epsilon is large, and a part of the range is short where epsilon is small.
    """
    every = _TIMES * most if over is Over.AVERAGE else most
    if isinstance(query.range, Grid):
        return [float(each) for each in query.range.points[:every]], 0.0, False
    sensitivity, width = Fraction(query.sensitivity), Fraction(0)
    for lower, upper in query.range.spans:
        width += Fraction(upper) - Fraction(lower)
    least = min(max(math.ceil(4.0 * epsilon), 1), 16)
    spans = [(Fraction(lower), Fraction(upper)) for lower, upper in query.range.spans]
    if over is Over.AVERAGE:  # what is left out of an average counts as 0
        least = max(min(least, (every - 1) * sensitivity // width), 1)
        parts = min(max((most - 1) * sensitivity // width, least), max(16, min(math.ceil(8.0 * epsilon), 32)))
        near = range(max(parts * 3 // 4, 1), parts + 1)
        parts = max(near, key=lambda k: (sum(((b - a) * k / sensitivity // 1) / k for a, b in spans), k))
        step = sensitivity / parts
    else:
        stepped = epsilon > STEPPED and len(spans) == 1
        most = most if stepped else min(most, _FEW)
        wide = float(width / sensitivity)
        room = _SPARE * (most - 1) / wide
        if stepped:
            parts, halves = (stepped_parts(epsilon, wide, room / _SPARE / each) for each in (1, 2))
            parts = _to_both_ends(parts, width / sensitivity)
        else:
            parts, halves = _parts(16.0 * epsilon, room), _parts(min(8.0 * epsilon, 16.0), room / 2)
            if loss is LimitedError.MAE:  # stairs of the noise for a squared error are wider
                parts = max(parts, min(steep_parts(epsilon), math.floor(room)))
        every = every if len(spans) == 1 else most  # the search over a union is slow
        step, every = sensitivity / max(parts, least), math.floor(_SPARE * every)
        if len(spans) == 1:
            above = width / math.ceil(width / step)  # nearer, so that both ends are inputs
            if step - above <= _REST * step:
                step = above
            elif least <= halves <= room / 2 and width % step > (_REST_STEPPED if stepped else _REST) * width:
                inputs = limit_inputs_from_both_ends(query.range, sensitivity / halves)
                check_lattice(query, inputs)
                return inputs, 0.0, True
    inputs = limit_inputs(query.range, step, every)
    check_lattice(query, inputs)
    apart = Fraction(inputs[1]) - Fraction(inputs[0])
    if over is Over.AVERAGE:
        whole = (t for t in inputs if any(lower <= t and Fraction(t) + apart <= upper for lower, upper in spans))
        inputs = list(whole)
    return inputs, float(apart), False


def _parts(wanted: float, room: float) -> int:
    """How many inputs there are to a sensitivity: what is wanted, at least 8, as far as there is room."""
    enough = next((k for k in _PARTS if k >= max(wanted, 8.0)), _PARTS[-1])
    return max((k for k in _PARTS if k <= enough and k <= room), default=1)


def _to_both_ends(parts: int, wide: Fraction) -> int:
    """As many inputs to a sensitivity or up to a quarter fewer, so that both ends of a narrow range are nearly inputs.

    Two lattices, one from each end, have twice the inputs, and the search takes many times as long. In a wide range a
    part of a step is little, and the stairs of the noise matter more.

    >>> _to_both_ends(64, Fraction(17, 10)), _to_both_ends(64, Fraction(2)), _to_both_ends(26, Fraction(101, 10))
    (60, 64, 26)
    """
    if wide >= MIDDLE:
        return parts
    steps = {k: wide * k for k in range(parts, parts * 3 // 4, -1)}
    near = [k for k, each in steps.items() if each % 1 <= _REST_STEPPED * each or -each % 1 <= _REST]
    return max(near, key=lambda k: (k % 4 == 0, k % 2 == 0, k), default=parts)


def _blocks(query: Query, inputs: list[float], most: int) -> list[list[float]]:
    """The inputs in blocks of at most this many, in which each is a neighbour of the one before it.

    The probabilities of a block of neighbours are restricted by its own pairs, whatever else there is: prices that are
    proved for each of two blocks are proved for both together.
    """
    first = first_neighbours(query, inputs)
    cuts = [0, *(s for s, each in enumerate(first) if s and each == s), len(inputs)]
    blocks = []
    for start, end in itertools.pairwise(cuts):
        size = math.ceil((end - start) / math.ceil((end - start) / most))
        blocks += [inputs[i : min(i + size, end)] for i in range(start, end, size)]
    blocks = [block for block in blocks if len(block) > 1]
    if not blocks:
        raise Unsatisfiable(f"sensitivity={query.sensitivity}: no two points of {query.range} are neighbours")
    return blocks
