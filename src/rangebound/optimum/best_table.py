"""`rb.optimal`: the table with the least error that is private, and how near it is to the limit."""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from rangebound import arguments
from rangebound.errors import ArgumentError, Unsatisfiable
from rangebound.finite import Table, cells, reach
from rangebound.optimum.boundary_layers import layered
from rangebound.optimum.column_generation import open_gap, solve
from rangebound.optimum.design_problem import DesignProblem
from rangebound.optimum.input_lattice import STEPPED, check_doubles, check_lattice, stepped_parts, table_inputs
from rangebound.optimum.limit_proof import LimitedError, Over
from rangebound.optimum.lower_limit import KnownColumns, proved
from rangebound.optimum.smooth_table import is_smooth, smooth, smooth_weights
from rangebound.privacy.claim import Claim
from rangebound.progress_line import Tell, progress_line
from rangebound.query import Query
from rangebound.support import Grid, Interval, Support, Union

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]


class TableShape(enum.Enum):
    """What laws may look like: falling away from the truth on both sides, or anything."""

    SMOOTH = "smooth"
    FREE = "free"


_MOST = {TableShape.SMOOTH: 1001, TableShape.FREE: 401}
"""Inputs of the largest table."""
_WHOLE = 121  # inputs of the largest smooth table that one linear program finds: what takes about ten seconds
_WIDE, _WIDE_GRID = 18.0, 40.0  # scales of the noise from which on a range has boundary layers with a middle between
_SMALL = 61  # inputs up to which a table is as good as its program, even in wide ranges
_LARGE, _GAP = 161, 2e-3  # inputs up to which a free table is as near as this to the best one on them
_SLOW = 321  # inputs of a free table that takes about five seconds
_ENOUGH = 3e-4  # of the error, in three rounds: where the search for a larger free table ends
_STEEP = 12.0  # epsilon of the steepest smooth table: solvers refuse the factors of more, whose errors are next to 0
_ENTRIES = 135_000  # squared number of inputs times neighbours: the same ten seconds


@dataclass(frozen=True, kw_only=True)
class TableSetting:
    """A design in doubles: inputs with the ends of their cells, outputs, neighbours and the loss of each output.

    `first` and `last` are the first and last neighbour of every input. `steps` is the number of neighbours to a side
    where inputs and outputs are the same lattice, the same for every answer, and 0 anywhere else.
    """

    query: Query
    epsilon: float
    inputs: list[float]
    outputs: list[float]
    first: Whole
    last: Whole
    losses: Floats
    prior: Floats | None
    steps: int

    @property
    def blocks(self) -> list[slice]:
        """Inputs that have neighbours only among each other."""
        starts = np.flatnonzero(self.first == np.arange(len(self.inputs)))
        return [slice(*map(int, pair)) for pair in itertools.pairwise([*starts, len(self.inputs)])]

    def part(self, block: slice) -> tuple[Whole, TableSetting]:
        """The design of one block alone, and the outputs that it uses: those that suit one of its inputs, and between.

        Any other is farther away from all of its answers.
        """
        best = self.losses[:, block].argmin(axis=2)
        chosen = np.arange(best.min(), best.max() + 1)
        return chosen, replace(
            self,
            inputs=self.inputs[block],
            outputs=[self.outputs[each] for each in chosen],
            first=self.first[block] - block.start,
            last=self.last[block] - block.start,
            losses=self.losses[:, block][:, :, chosen],
            prior=None if self.prior is None else self.prior[:, block],
            steps=0,
        )

    @property
    def problem(self) -> DesignProblem:
        """The design as column generation takes it."""
        return DesignProblem(first_neighbour=self.first, epsilon=self.epsilon, losses=self.losses, prior=self.prior)

    def table(self, probabilities: Floats, epsilon: Fraction) -> Table:
        """Probabilities as a table that is private in whole numbers."""
        return Table.from_probabilities(
            query=self.query, inputs=self.inputs, outputs=self.outputs, probabilities=probabilities, epsilon=epsilon
        )


@arguments.guided
def optimal(
    *,
    query: Query,
    epsilon: float,
    delta: float = 0.0,
    objective: str | LimitedError = LimitedError.MAE,
    at: str | Over | Sequence[float] | Floats = Over.WORST,
    shape: str | TableShape = TableShape.SMOOTH,
    step: float | None = None,
    support: Support | None = None,
    progress: bool | None = None,
) -> Table:
    """The private table with the least error, with the limit that no mechanism can be below beside it.

    A true answer goes to the nearest of finitely many inputs, `step` apart (by default an 8th to a 64th of the
    sensitivity, more in wide ranges), and the output is drawn from that input's law. `objective` is the mean absolute
    or the mean squared error; `at` the worst true answer, the average over a uniform one, or weights of the inputs.
    A `"smooth"` shape falls away from the truth on both sides, without a spike at the ends; a `"free"` one is anything.
    `progress` shows how far a search of more than two seconds is (by default on a terminal).

    Guarantee: the table is epsilon-private, and so (epsilon, delta)-private, checked in whole numbers; it carries that
    claim. A smooth shape is a property of the whole-number weights. `m.limit` is proved (see `rb.limit`); there is none
    for weights.
    Assumes: the query's sensitivity is true. Errors are those of all real answers in the range, in their cells; those
    of a grid are at its points, and those of weights at the inputs.
    Edge cases: a smooth table over 18 sensitivities over epsilon or more (40 on a grid), with more than 61 inputs, has
    staircases in the middle and the best boundary layer for them at each end, and so the error of the staircases. A
    search for a free table of more than 61 inputs may end before it is closed; the limit beside it says how near it
    is. The range must be bounded.
    Parts of it without neighbours in each other have tables of their own, side by side in one. Free tables have at most
    401 inputs; smooth ones 1001 if they have boundary layers, and 121 in narrower ranges, in unions and for weights. A
    delta buys less than 0.01 % of the error at 1e-6, and the table does not use it. A `Grid` as `support` is what is
    published. From epsilon 12 on a smooth table is that of 12, which is hardly ever off by a step.

    >>> import rangebound as rb
    >>> query = rb.Query(range=rb.Interval(0, 2), sensitivity=1.0)
    >>> m = rb.optimal(query=query, epsilon=1.0)
    >>> m.epsilon() <= 1.0, round(m.worst_error().mae / m.limit.value, 1)
    (True, 1.1)
    """
    arguments.instance("query", query, Query, "a Query")
    claim = Claim(epsilon=arguments.positive("epsilon", epsilon), delta=delta)
    loss, kind = arguments.member("objective", objective, LimitedError), arguments.member("shape", shape, TableShape)
    if support is not None:
        arguments.instance("support", support, (Interval, Union, Grid), "an Interval, a Union or a Grid")
    check_doubles(query, claim.epsilon)
    setting = _setting(query, claim.epsilon, loss, at, kind, step, support)
    known: KnownColumns | None = None
    with progress_line("searching for the table", progress) as tell:
        if kind is TableShape.FREE:
            table, known = _free(setting, tell)
        else:
            tell(f"a linear program with {len(setting.inputs)} inputs")
            table = _smooth(setting)
    table, over = table.with_claim(claim), Over(at) if isinstance(at, (str, Over)) else None
    if over is None:
        return table
    with progress_line("searching for the limit", progress) as tell:
        return table.with_limit(proved(query, claim.epsilon, loss, over, known=known, tell=tell))


def _in_blocks(setting: TableSetting, best: Callable[[TableSetting], Floats]) -> Floats:
    """The best probabilities of every block: they have nothing to do with each other."""
    blocks = setting.blocks
    if len(blocks) == 1:
        return best(setting)
    rows = np.zeros((len(setting.inputs), len(setting.outputs)))
    for block in blocks:
        chosen, part = setting.part(block)
        if len(part.inputs) > 1:
            rows[block, chosen] = best(part)
        else:  # an input without neighbours
            risks = part.losses.max(axis=0)[0] if part.prior is None else part.losses.mean(axis=0)[0]
            rows[block, chosen[risks.argmin()]] = 1.0
    return rows


def _free(setting: TableSetting, tell: Tell) -> tuple[Table, KnownColumns | None]:
    """The free table, and if it is one block the staircases that it is made of."""
    known: KnownColumns | None = None

    def best(part: TableSetting) -> Floats:
        nonlocal known
        enough = _ENOUGH * (len(part.inputs) > _SMALL)
        gap = _GAP if len(part.inputs) <= _LARGE else 2.0 * _GAP
        final = 1e-7 * min(part.epsilon, 1.0)  # what it takes to make rows private is as much over epsilon
        found = solve(part.problem, gap=gap, enough=enough, final=final, tell=open_gap(tell))
        if len(part.inputs) == len(setting.inputs):
            known = KnownColumns(
                inputs=part.inputs,
                outputs=part.outputs,
                columns=found.columns,
                prior=found.prior.sum(axis=0),
                prices=found.prices,
            )
        return found.probabilities

    return setting.table(_in_blocks(setting, best), Fraction(setting.epsilon)), known


def _best_smooth(setting: TableSetting) -> Floats:
    epsilon = min(setting.epsilon, _STEEP)
    if _is_wide(setting):
        return layered(setting.losses, setting.prior, setting.steps, epsilon)
    places, points = np.array(setting.inputs), np.array(setting.outputs)
    half = setting.problem.symmetric and np.allclose(places - places[0], places[-1] - places[::-1])
    return smooth(setting.losses, setting.prior, setting.last, epsilon, places, points, half)


def _smooth(setting: TableSetting) -> Table:
    places, points = np.array(setting.inputs), np.array(setting.outputs)
    rows = _in_blocks(setting, _best_smooth)
    exact = Fraction(setting.epsilon)
    for spare in (Fraction(1, 10**12), Fraction(1, 10**9)):  # of epsilon, for the units that are moved
        table = setting.table(rows, exact * (1 - spare))
        made = replace(table, weights=smooth_weights(table.weights, places, points))
        if made.is_private(exact) and is_smooth(made.weights, places, points):
            return made
    raise Unsatisfiable(f"epsilon={setting.epsilon}: too small for a smooth table in whole numbers")


def _is_wide(setting: TableSetting) -> bool:
    """Whether a smooth table has boundary layers: because the noise is narrow, or one program would be too large."""
    query, count = setting.query, len(setting.inputs)
    wide = _wide(query, setting.epsilon)
    if count <= _WHOLE:
        return wide and setting.steps > 0 and count > _SMALL
    if not setting.steps or not (wide or setting.steps == 1 or isinstance(query.range, Grid)):
        raise ArgumentError(
            f"range={query.range}: {count} inputs are too many for a smooth table; it has {_WHOLE} at most, unless the "
            f"range is one interval or grid of {_WIDE:g} sensitivities over epsilon or more, without weights; use a "
            "larger step"
        )
    return True


def _wide(query: Query, epsilon: float) -> bool:
    """Whether a range is wide for the noise, so that there is a middle between boundary layers."""
    size = (query.range.hull.upper - query.range.hull.lower) / query.sensitivity
    if isinstance(query.range, Grid):
        return size >= 3.0 and epsilon * size >= _WIDE_GRID
    return size >= 3.0 and epsilon * size >= _WIDE and len(query.range.spans) == 1


def _setting(
    query: Query,
    epsilon: float,
    loss: LimitedError,
    at: str | Over | Sequence[float] | Floats,
    shape: TableShape,
    step: float | None,
    support: Support | None,
) -> TableSetting:
    inputs = _inputs(query, epsilon, shape, step)
    outside = query.range if support is None else support
    found = cells(query.range, inputs)
    ends = np.array([[float(cell.lower), float(cell.upper)] for cell in found]).T
    last = reach(query.range, query.sensitivity, inputs)
    check_lattice(query, inputs)
    if (last == np.arange(len(inputs))).all():
        raise ArgumentError(
            f"sensitivity={query.sensitivity}: no two answers of {query.range} are neighbours; "
            "publish the answer itself, without noise"
        )
    first = np.searchsorted(last, np.arange(len(inputs)))
    outputs = _outputs(outside, inputs, ends, loss, shape)
    steps = int(last[0])
    even = len(query.range.spans) == 1 or isinstance(query.range, Grid)
    even &= outputs[1:-1] == inputs[1:-1] and len(outputs) == len(inputs)
    even &= bool(np.ptp(np.diff(inputs)) < 1e-6 * (inputs[1] - inputs[0]))
    even &= np.array_equal(last, np.minimum(np.arange(len(inputs)) + steps, len(inputs) - 1))
    prior: Floats | None = None
    if isinstance(at, (str, Over)):
        if arguments.member("at", at, Over) is Over.AVERAGE:
            sizes = np.ones(len(inputs)) if isinstance(query.range, Grid) else ends[1] - ends[0]
            prior = (sizes / sizes.sum())[None]
            losses = _mean_losses(ends, np.array(outputs), loss)[None]
        else:
            points = bool((ends[0] == ends[1]).all())  # a cell is one answer
            losses = _losses(ends[:1] if points else ends, np.array(outputs), loss)
    else:
        prior = _weights(at, inputs)[None]
        losses = _losses(np.array(inputs)[None], np.array(outputs), loss)
    return TableSetting(
        query=query,
        epsilon=epsilon,
        inputs=inputs,
        outputs=outputs,
        first=first,
        last=last,
        losses=losses,
        prior=prior,
        steps=steps if even and isinstance(at, (str, Over)) else 0,
    )


def _inputs(query: Query, epsilon: float, shape: TableShape, step: float | None) -> list[float]:
    """The points of a grid, or inputs `step` apart; without one as near as there is time for."""
    most, sensitivity = _MOST[shape], Fraction(query.sensitivity)
    if isinstance(query.range, Grid):
        if step is not None:
            raise ArgumentError(f"step={step}: the range is a grid, whose points are the inputs; leave step out")
        if len(query.range.points) > most:
            raise ArgumentError(
                f"range={query.range}: has too many points for a {shape.value} table, which has {most} inputs at most"
            )
        return [float(each) for each in query.range.points]
    if step is not None:
        wide = Fraction(arguments.positive("step", step))
    else:
        parts = _parts(query, epsilon, shape)
        if not parts:
            raise ArgumentError(
                f"range={query.range}: is too many sensitivities wide for a {shape.value} table, and its ends hardly "
                f"matter; use rb.Staircase, or give a step above the sensitivity"
            )
        wide = sensitivity / parts
    count = sum((Fraction(upper) - Fraction(lower)) // wide + 1 for lower, upper in query.range.spans)
    if not 2 <= count <= most:
        raise ArgumentError(f"step={step}: gives {count} inputs in {query.range}; must give 2 to {most}")
    return table_inputs(query.range, wide, fill=shape is TableShape.SMOOTH and _wide(query, epsilon))


def _parts(query: Query, epsilon: float, shape: TableShape) -> int:
    """How many inputs there are to a sensitivity: as many as there is time for, up to where more gain little."""
    width = sum(Fraction(upper) - Fraction(lower) for lower, upper in query.range.spans) / Fraction(query.sensitivity)
    most = math.floor((_MOST[shape] - 1) / width)
    if shape is TableShape.FREE:
        if epsilon <= STEPPED or not most:
            return min(16, most)
        if len(query.range.spans) > 1:
            return min(max(32, min(64, math.floor((_LARGE - 1) / width))), most)
        room = max(min(32, most), (_SLOW - 1) / float(width))  # in narrow ranges there is time for more
        return stepped_parts(epsilon, float(width), room)
    least = max(8.0 * epsilon, 1.0)
    whole = math.floor((_WHOLE - 21) / width)
    if _wide(query, epsilon) or (not whole and len(query.range.spans) == 1):
        parts = 1 << math.ceil(math.log2(min(2.0 * least, 64.0)))
        while parts > most or (parts >= 2.0 * least and parts * width > _MOST[TableShape.FREE]):
            parts //= 2
        return parts
    parts = min(8 if epsilon <= 2.0 else 32, whole)
    while parts > 1 and (width * parts) ** 2 * parts > _ENTRIES:
        parts -= 1
    return parts


def _outputs(support: Support, inputs: list[float], ends: Floats, loss: LimitedError, shape: TableShape) -> list[float]:
    """What is published: the points of a grid; the inputs, for a smooth shape, up to both ends; or ends of cells.

    Absolute error has its kinks at the ends of cells, so that no other output is better; for squared error, inputs
    are there too.
    """
    if isinstance(support, Grid):
        return [float(each) for each in support.points]
    if shape is TableShape.SMOOTH:
        places = np.array([support.hull.lower, *inputs[1:-1], support.hull.upper])
    else:
        places = np.concatenate((ends.ravel(), inputs)) if loss is LimitedError.MSE else ends.ravel()
    allowed = np.unique(np.concatenate([np.clip(places, lower, upper) for lower, upper in support.spans]))
    return [float(each) for each in allowed]


def _losses(answers: Floats, outputs: Floats, loss: LimitedError) -> Floats:
    away: Floats = np.abs(answers[:, :, None] - outputs)
    return away if loss is LimitedError.MAE else away * away


def _mean_losses(ends: Floats, outputs: Floats, loss: LimitedError) -> Floats:
    """The mean loss over a uniform answer in each cell; at the point, where a cell is one."""
    after, before = ends[1][:, None] - outputs, ends[0][:, None] - outputs
    size = (ends[1] - ends[0])[:, None]
    if not size.any():
        points: Floats = _losses(ends[:1], outputs, loss)[0]
        return points
    if loss is LimitedError.MAE:
        whole = (np.abs(after) * after - np.abs(before) * before) / 2.0
    else:
        whole = (after**3 - before**3) / 3.0
    mean: Floats = np.divide(whole, size, out=np.zeros_like(whole), where=size > 0.0)
    return mean


def _weights(at: Sequence[float] | Floats, inputs: list[float]) -> Floats:
    weights = arguments.reals("at", at)
    if weights.shape != (len(inputs),) or (weights < 0.0).any() or not weights.sum() > 0.0:
        raise ArgumentError(
            f'at={arguments.shown(at)}: must be "worst", "average", or {len(inputs)} weights of zero or more, one for '
            f"each input from {inputs[0]} to {inputs[-1]}"
        )
    return weights / math.fsum(weights)
