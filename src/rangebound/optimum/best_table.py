"""`rb.optimal`: the table with the least error that is private, and how near it is to the limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from rangebound.errors import ArgumentError, Unsatisfiable
from rangebound.mechanisms.finite import Table
from rangebound.optimum.column_generation import open_gap, solve
from rangebound.optimum.input_lattice import check_doubles
from rangebound.optimum.limit_proof import LimitedError, Over
from rangebound.optimum.lower_limit import KnownColumns, proved
from rangebound.optimum.smooth_table import is_smooth, layered, peaked, smooth, smooth_weights
from rangebound.optimum.table_setting import (
    LARGE,
    PEAKED,
    WHOLE,
    WIDE,
    TableSetting,
    TableShape,
    scales_of,
    table_setting,
)
from rangebound.privacy.setting import Claim
from rangebound.values import arguments
from rangebound.values.array_types import Floats
from rangebound.values.progress_line import Tell, progress_line
from rangebound.values.support import Grid, Interval, Query, Support, Union

_SMALL = 61  # inputs up to which a table is as good as its program, even in wide ranges
_GAP = 2e-3  # between a free table that is not very large and the best one on its inputs
_ENOUGH = 3e-4  # of the error, in three rounds: where the search for a larger free table ends
_STEEP = 12.0  # epsilon of the steepest smooth table: solvers refuse the factors of more, whose errors are next to 0
_COARSER = 2  # lattices that are tried where a solver does not end soon
_UNKNOWNS = 8000  # of the largest program of a peaked table: what takes about ten seconds


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
    Edge cases: a smooth table over 30 sensitivities over epsilon or more (50 for the squared error, 18 for averages, 40
    on a grid), with more than 61 inputs, has staircases in the middle and the best boundary layer for them at each end,
    and so the error of the staircases; from 10 on, and with more than 61 inputs, an output is also likeliest where it
    is true. A search for a free table of more than 61 inputs may end before it is closed; the limit beside it says how
    near it is. The range must be bounded.
    Parts of it without neighbours in each other have tables of their own, side by side in one. Free tables have at most
    401 inputs; smooth ones 1001 if they have boundary layers, and about 121 to 200 in narrower ranges, in unions and
    for weights. A
    delta buys less than 0.01 % of the error at 1e-6, and the table does not use it. A `Grid` as `support` is what is
    published. From epsilon 12 on a smooth table is that of 12, which is hardly ever off by a step. Where a solver does
    not end soon, as it may above 6, the inputs of a smooth table are farther apart, unless a `step` is given.

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
    setting = table_setting(query, claim.epsilon, loss, at, kind, step, support)
    known: KnownColumns | None = None
    with progress_line("searching for the table", progress) as tell:
        if kind is TableShape.FREE:
            table, known = _free(setting, tell)
        else:
            tell(f"a linear program with {len(setting.inputs)} inputs")
            coarser = step is None and isinstance(at, (str, Over)) and not isinstance(query.range, Grid)
            table = _smooth_or_coarser(setting, loss, at, support) if coarser else _smooth(setting)
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
        gap = _GAP if len(part.inputs) <= LARGE else 2.0 * _GAP
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
    epsilon, half = min(setting.epsilon, _STEEP), setting.half
    peaked_size = len(setting.inputs) * (2 * setting.band + 1) // (2 if half else 1)
    if _is_layered(setting, peaked_size):
        return layered(setting.losses, setting.prior, setting.steps, epsilon)
    places, points = np.array(setting.inputs), np.array(setting.outputs)
    if _is_peaked(setting, peaked_size):
        return peaked(setting.losses, setting.prior, setting.last, epsilon, places, points, half, setting.band)
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


def _smooth_or_coarser(
    setting: TableSetting, loss: LimitedError, at: str | Over | Sequence[float] | Floats, support: Support | None
) -> Table:
    """The smooth table, on inputs twice or four times as far apart where a solver does not end soon."""
    for _ in range(_COARSER):
        try:
            return _smooth(setting)
        except Unsatisfiable:
            apart = 2.0 * float(np.median(np.diff(setting.inputs)))
            setting = table_setting(setting.query, setting.epsilon, loss, at, TableShape.SMOOTH, apart, support)
    return _smooth(setting)


def _is_layered(setting: TableSetting, peaked_size: int) -> bool:
    """Whether a smooth table has boundary layers: because the noise is narrow, or one program would be too large."""
    query, count = setting.query, len(setting.inputs)
    if count <= WHOLE or _is_peaked(setting, peaked_size):
        return setting.wide and setting.steps > 0 and count > _SMALL
    wide = scales_of(query, setting.epsilon) >= WIDE
    if not setting.steps or not (wide or setting.steps == 1 or isinstance(query.range, Grid)):
        raise ArgumentError(
            f"range={query.range}: {count} inputs are too many for a smooth table; it has {WHOLE} at most, unless the "
            f"range is one interval or grid of {WIDE:g} sensitivities over epsilon or more, without weights; use a "
            "larger step"
        )
    return True


def _is_peaked(setting: TableSetting, size: int) -> bool:
    """Whether a smooth table has peaked columns: the range is wide enough, and the program, of such a size, small."""
    fine = len(setting.inputs) > (WHOLE if isinstance(setting.query.range, Grid) else _SMALL)
    return fine and scales_of(setting.query, setting.epsilon) >= PEAKED and size <= _UNKNOWNS
