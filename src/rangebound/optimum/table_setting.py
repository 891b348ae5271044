"""What a table is asked to be, as a design in doubles: its inputs, outputs, neighbours and losses."""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from rangebound.errors import ArgumentError
from rangebound.mechanisms.finite import Table, cells, reach
from rangebound.optimum.input_lattice import STEPPED, check_lattice, stepped_parts, table_inputs
from rangebound.optimum.limit_proof import LimitedError, Over
from rangebound.optimum.staircase_columns import DesignProblem
from rangebound.values import arguments
from rangebound.values.array_types import Floats, Integers
from rangebound.values.support import Grid, Query, Support


class TableShape(enum.Enum):
    """What laws may look like: falling away from the truth on both sides, or anything."""

    SMOOTH = "smooth"
    FREE = "free"


_MOST = {TableShape.SMOOTH: 1001, TableShape.FREE: 401}
"""Inputs of the largest table."""
WHOLE = 121
"""Inputs of the largest smooth table that one linear program over all entries finds: what takes about ten seconds."""
LARGE = 161
"""Inputs up to which a free table is very near to the best one on them."""
WIDE = 18.0
"""Scales of the noise from which on a range may have boundary layers with a middle between."""
PEAKED = 10.0
"""Scales of the noise from which on peaked columns cost less than a coarse lattice."""
_WIDE_GRID = 40.0  # scales from which on a grid has boundary layers
_WIDE_WORST = {LimitedError.MAE: 30.0, LimitedError.MSE: 50.0}  # in the worst case, to which they add more
_UNKNOWNS, _FINE = 5200, 200  # of the program of a peaked table, and inputs: what takes about five seconds
_SLOW = 321  # inputs of a free table that takes about five seconds
_ENTRIES = 135_000  # squared number of inputs times neighbours of a program over all entries: ten seconds


@dataclass(frozen=True, kw_only=True)
class TableSetting:
    """A design in doubles: inputs with the ends of their cells, outputs, neighbours and the loss of each output.

    `first` and `last` are the first and last neighbour of every input. `steps` is the number of neighbours to a side
    where inputs and outputs are the same lattice, the same for every answer, and 0 anywhere else. `wide` says that
    there is a middle between boundary layers.
    """

    query: Query
    epsilon: float
    inputs: list[float]
    outputs: list[float]
    first: Integers
    last: Integers
    losses: Floats
    prior: Floats | None
    steps: int
    wide: bool

    @property
    def blocks(self) -> list[slice]:
        """Inputs that have neighbours only among each other."""
        starts = np.flatnonzero(self.first == np.arange(len(self.inputs)))
        return [slice(*map(int, pair)) for pair in itertools.pairwise([*starts, len(self.inputs)])]

    def part(self, block: slice) -> tuple[Integers, TableSetting]:
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
    def half(self) -> bool:
        """Whether the design is its own mirror image."""
        places = np.array(self.inputs)
        return self.problem.symmetric and np.allclose(places - places[0], places[-1] - places[::-1])

    @property
    def band(self) -> int:
        """How many inputs an output of a peaked table has on each side: two scales of the noise, and all neighbours."""
        near = int((self.last - self.first).max() + 1) // 2
        return max(near, int((self.last - np.arange(len(self.last))).max()), math.ceil(2.0 * near / self.epsilon))

    @property
    def problem(self) -> DesignProblem:
        """The design as column generation takes it."""
        return DesignProblem(first_neighbour=self.first, epsilon=self.epsilon, losses=self.losses, prior=self.prior)

    def table(self, probabilities: Floats, epsilon: Fraction) -> Table:
        """Probabilities as a table that is private in whole numbers."""
        return Table.from_probabilities(
            query=self.query, inputs=self.inputs, outputs=self.outputs, probabilities=probabilities, epsilon=epsilon
        )


def table_setting(
    query: Query,
    epsilon: float,
    loss: LimitedError,
    at: str | Over | Sequence[float] | Floats,
    shape: TableShape,
    step: float | None,
    support: Support | None,
) -> TableSetting:
    if isinstance(at, (str, Over)):
        at = arguments.member("at", at, Over)
    wide = _is_wide(query, epsilon, loss, at)
    inputs = _inputs(query, epsilon, shape, step, wide)
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
        if at is Over.AVERAGE:
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
        wide=wide,
    )


def _inputs(query: Query, epsilon: float, shape: TableShape, step: float | None, wide: bool) -> list[float]:
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
        apart = Fraction(arguments.positive("step", step))
    else:
        parts = _parts(query, epsilon, shape, wide)
        if not parts:
            raise ArgumentError(
                f"range={query.range}: is too many sensitivities wide for a {shape.value} table, and its ends hardly "
                f"matter; use rb.Staircase, or give a step above the sensitivity"
            )
        apart = sensitivity / parts
    count = sum((Fraction(upper) - Fraction(lower)) // apart + 1 for lower, upper in query.range.spans)
    if not 2 <= count <= most:
        raise ArgumentError(f"step={step}: gives {count} inputs in {query.range}; must give 2 to {most}")
    return table_inputs(query.range, apart, fill=shape is TableShape.SMOOTH and wide)


def _parts(query: Query, epsilon: float, shape: TableShape, wide: bool) -> int:
    """How many inputs there are to a sensitivity: as many as there is time for, up to where more gain little."""
    width = sum(Fraction(upper) - Fraction(lower) for lower, upper in query.range.spans) / Fraction(query.sensitivity)
    most = math.floor((_MOST[shape] - 1) / width)
    if shape is TableShape.FREE:
        if epsilon <= STEPPED or not most:
            return min(16, most)
        if len(query.range.spans) > 1:
            return min(max(32, min(64, math.floor((LARGE - 1) / width))), most)
        room = max(min(32, most), (_SLOW - 1) / float(width))  # in narrow ranges there is time for more
        return stepped_parts(epsilon, float(width), room)
    least, one = max(8.0 * epsilon, 1.0), len(query.range.spans) == 1
    whole = math.floor((WHOLE - 21) / width)
    fine = 0 if scales_of(query, epsilon) < PEAKED else math.floor(_FINE / width)
    if wide or (one and not whole and not fine):
        parts = 1 << math.ceil(math.log2(min(2.0 * least, 64.0)))
        while parts > most or (parts >= 2.0 * least and parts * width > _MOST[TableShape.FREE]):
            parts //= 2
        return parts
    parts = min(8 if epsilon <= 2.0 else 32, whole)
    while parts > 1 and (width * parts) ** 2 * parts > _ENTRIES:
        parts -= 1
    return max(parts, min(_peaked_parts(float(width), epsilon, half=one), fine))


def _peaked_parts(width: float, epsilon: float, *, half: bool) -> int:
    """How many inputs to a sensitivity the program of a peaked table has room for, at most 64.

    >>> _peaked_parts(10.0, 2.0, half=True), _peaked_parts(10.0, 0.5, half=True), _peaked_parts(10.0, 2.0, half=False)
    (20, 8, 16)
    """
    parts = math.floor(math.sqrt(_UNKNOWNS * (1.0 if half else 0.5) / (width * max(1.0, 2.0 / epsilon))))
    return min(parts - parts % 4 if parts > 4 else parts, 64)


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


def scales_of(query: Query, epsilon: float) -> float:
    """The width of a range in scales of the noise."""
    return epsilon * (query.range.hull.upper - query.range.hull.lower) / query.sensitivity


def _is_wide(query: Query, epsilon: float, loss: LimitedError, at: str | Over | Sequence[float] | Floats) -> bool:
    """Whether a range is wide for the noise, so that there is a middle between boundary layers."""
    scales = scales_of(query, epsilon)
    if scales < 3.0 * epsilon or (len(query.range.spans) > 1 and not isinstance(query.range, Grid)):
        return False
    if isinstance(query.range, Grid):
        return scales >= _WIDE_GRID
    worst = isinstance(at, (str, Over)) and Over(at) is Over.WORST
    return scales >= (_WIDE_WORST[loss] if worst else WIDE)
