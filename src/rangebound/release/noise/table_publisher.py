"""A publisher of one coordinate by the private table that has the least error over a public range."""

from __future__ import annotations

import hashlib
import json
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from rangebound.errors import ArgumentError, PlanError, Unsatisfiable
from rangebound.mechanisms.finite import TOTAL, Table, cells
from rangebound.optimum.best_table import optimal
from rangebound.release.noise.allocation import BudgetShare, demand
from rangebound.release.noise.draw import Bits, Coordinates, Draw, Pair, Publisher, Reading
from rangebound.release.noise.joint_loss import JointLoss
from rangebound.release.plan.kinds.facts import OneCoordinate
from rangebound.release.plan.statistic import Sensitivity
from rangebound.values.array_types import Floats
from rangebound.values.numeric import rounded_up
from rangebound.values.support import Grid, Interval, Query, Support, Union

_LARGEST = 8.0  # epsilon of a table: programs for more are ill-conditioned, and errors are next to 0 anyway
_INPUTS, _NARROW = 401, 65  # of the largest table, which takes 2 MB of a published file, and in a narrow range
_WIDE, _FINE = 20.0, 2.0  # noise units from which on a range is wide; epsilon from which on inputs are nearer
_ROUND = 1e-12  # of a mean: what sums of doubles can be off


_INSTEAD = (
    "state a narrower support, or leave the mechanism out: over wide ranges other mechanisms have hardly more error"
)


@lru_cache(maxsize=64)
def solved(query: Query, support: Support, epsilon: float, step: float | None) -> Table:
    """The table with the least worst-case mean absolute error, once for all groups and questions that need it.

    Guarantee: private at the epsilon, checked in whole numbers.
    Edge cases: a range that is too wide for a table raises `PlanError`; so does one over which a table has more error
    than clamped Laplace noise, since its inputs are too far apart.
    """
    try:
        with np.errstate(over="ignore"):  # of costs that are too large to be taken
            table = optimal(query=query, epsilon=epsilon, support=support, step=step)
        if support == query.range and table.worst_error().mae > query.sensitivity / epsilon:
            raise Unsatisfiable(f"epsilon={epsilon:g}: its inputs are so far apart that noise has less error")
        return table
    except (ArgumentError, Unsatisfiable) as reason:
        raise PlanError(f"mechanism: 'optimal' has no table here ({reason}); {_INSTEAD}", field="mechanism") from None


@dataclass(frozen=True, kw_only=True)
class TablePublisher(Publisher):
    """One coordinate, published by the table for its range and sensitivity, in a support; intervals hold at `level`.

    Its inputs are `step` apart. The table is computed when it is first needed, unless it is `given`: a published table
    is checked with the table that its numbers were drawn from, since a solver may round otherwise on another machine.
    """

    query: Query
    support: Support
    epsilon: float
    step: float | None
    level: float
    given: Table | None = None

    @cached_property
    def table(self) -> Table:
        if self.given is not None:
            return self.given
        return solved(self.query, self.support, self.epsilon, self.step)

    @cached_property
    def _middles(self) -> list[Fraction]:
        """Where the answers of one input end and those of the next begin, exactly."""
        exact = [Fraction(each) for each in self.table.inputs]
        return [(one + two) / 2 for one, two in pairwise(exact)]

    def row(self, value: Fraction) -> int:
        """The number of the input that is nearest to an exact coordinate; of two, the upper one."""
        return bisect_right(self._middles, value)

    @property
    def published_mechanism(self) -> Table:
        """The table: its numbers are published as they are drawn."""
        return self.table

    def draw(self, truths: Sequence[Coordinates], bits: Bits) -> list[list[Draw]]:
        """An output from the row of the coordinate's nearest input, by the table's own exact draw."""
        if not truths:
            return []
        inputs = np.array([self.table.inputs[self.row(value)] for (value,) in truths])
        return [[(each,)] for each in self.table.release(inputs).tolist()]

    def can_draw(self, *draws: Draw) -> bool:
        """Whether every draw is an output that some input can have, to the last bit."""
        possible = {repr(self.table.outputs[at]) for at in np.flatnonzero(self.table.weights.any(axis=0))}
        return all(len(draw) == 1 and repr(draw[0]) in possible for draw in draws)

    def read(self, draws: Sequence[Sequence[Draw]]) -> list[list[Reading]]:
        """The output, with the interval of the coordinate."""
        return [[Reading(values=draw, intervals=(self.intervals[draw[0]],)) for draw in group] for group in draws]

    @cached_property
    def intervals(self) -> dict[float, Pair]:
        """The interval of every output, from the law of the table; see `Table.confidence_interval`.

        Guarantee: holds every true coordinate of the range with probability `level` at least, decided in whole numbers.
        """
        outputs = self.table.outputs
        lower, upper = self.table.confidence_interval(np.array(outputs), self.level)
        return dict(zip(outputs, zip(lower.tolist(), upper.tolist(), strict=True), strict=True))

    def bias(
        self, lower: Floats, upper: Floats, support: Interval | Union, step: float | None, *, whole: bool
    ) -> Floats:
        """A bound on the bias at all true coordinates from `lower` to `upper`.

        All coordinates of the cell of an input have that input's law, and so one mean m: at x the bias is m - x, which
        is largest in size at an end of the cell, or of the part of it between `lower` and `upper`.
        """
        table = self.table
        outputs = [Fraction(each) for each in table.outputs]
        sums = (sum(int(weight) * each for weight, each in zip(row, outputs, strict=True)) for row in table.weights)
        means = [float(Fraction(each) / TOTAL) for each in sums]
        places = cells(table.query.range, table.inputs)
        starts, ends = (np.array([float(getattr(cell, name)) for cell in places]) for name in ("lower", "upper"))
        found: Floats = np.zeros_like(lower)
        for mean, start, end in zip(means, starts, ends, strict=True):
            first, last = np.maximum(lower, start), np.minimum(upper, end)
            own = np.maximum(np.abs(mean - first), np.abs(mean - last))
            found = np.maximum(found, np.where(first <= last, own, 0.0))
        size = float(np.abs([table.outputs[0], table.outputs[-1], starts[0], ends[-1]]).max())
        return found + _ROUND * size

    def expected_error(self, scale: float = 1.0, form: str = "{} (root mean square)") -> str:
        return form.format(f"{math.sqrt(self.table.worst_error().mse) * scale:.4g}")

    @property
    def mse(self) -> float:
        """About the largest mean squared error: that of Laplace noise, or of always publishing the middle.

        Ways to split a budget are compared by it, and a table for each of them would take long to compute.
        """
        query = self.query
        return min(2.0 * (query.sensitivity / self.epsilon) ** 2, query.range.hull.width**2 / 4.0)

    @property
    def mae(self) -> float:
        return self.table.worst_error().mae

    def words(self) -> str:
        """The size of the table."""
        return f"optimal table, {len(self.table.inputs)} inputs and {len(self.table.outputs)} outputs"

    def to_dict(self) -> dict[str, object]:
        """The SHA-256 of the table, which the published table contains."""
        text = json.dumps(self.table.with_claim(None).to_dict(), sort_keys=True, separators=(",", ":"))
        return {"optimal": {"table": hashlib.sha256(text.encode()).hexdigest()}}

    def loss(self, share: BudgetShare) -> JointLoss:
        """That of the share without its delta: each group is drawn by itself, from a table that is pure."""
        return replace(share, delta=0.0).apart

    def check(self, found: Sensitivity, share: BudgetShare) -> None:
        """Raise if the table has another design, was made for a smaller sensitivity than the question's, or leaks more.

        The table is compared with what follows from the plan: range and sensitivity are the same, and every
        output is in the support, a whole number where answers are. That it is private at the share is decided in whole
        numbers.
        """
        query, table = self.query, self.table
        demand(not share.mu, "has a table in a Gaussian account")
        demand(table.query == query, "has a table for another range or sensitivity")
        hull = query.range.hull
        needed = min(found.cell, Fraction(hull.upper) - Fraction(hull.lower))
        demand(Fraction(query.sensitivity) >= needed, "has a sensitivity that is too small")
        spans = self.support.spans
        inside = all(any(lower <= each <= upper for lower, upper in spans) for each in table.outputs)
        demand(inside, "has a table that publishes numbers outside the support")
        whole = not isinstance(query.range, Grid) or not any(each % 1.0 for each in table.outputs)
        demand(whole, "has a table that publishes fractions where answers are whole numbers")
        demand(table.is_private(Fraction(share.epsilon)), "has a table that is less private than it says")


def best_table(one: OneCoordinate, found: Sensitivity, share: BudgetShare, *, confidence: float) -> TablePublisher:
    """The publisher of one coordinate of a public range by the table with the least error.

    The coordinate goes to the nearest input in exact arithmetic, so that rounding costs no privacy. Numbers are
    published in its support, on multiples of its step.

    Guarantee: private at the share's epsilon. Edge cases: a range without two ends raises `ArgumentError`.
    """
    if not one.range.bounded:
        raise ArgumentError(
            "'optimal' needs a public range with two ends; state a support, such as support = [0, 100], or leave the "
            "mechanism out"
        )
    epsilon = min(share.epsilon, _LARGEST)
    try:
        if one.whole and one.range.width >= _INPUTS:
            raise ArgumentError(f"range={one.range}: has more than {_INPUTS} whole numbers")
        answers = Grid(step=1.0, within=one.range) if one.whole else one.range
        query = Query(range=answers, sensitivity=rounded_up(found.cell))
        within = _steps(one.support, one.step, whole=one.whole)
        lattice = None if one.whole else _lattice(query, epsilon)
    except ArgumentError as reason:
        raise ArgumentError(f"'optimal' has no table here ({reason}); {_INSTEAD}") from None
    return TablePublisher(query=query, support=within, epsilon=epsilon, step=lattice, level=confidence)


def _lattice(query: Query, epsilon: float) -> float | None:
    """The distance of the inputs of real numbers: 401 at most in a wide range, and 65 in others, which take longer.

    None leaves it to the table.

    >>> [_lattice(Query(range=Interval(0, width), sensitivity=1.0), 1.0) for width in (4, 16, 100)]
    [0.125, 0.25, 0.25]
    """
    width, sensitivity = query.range.hull.width, query.sensitivity
    most = _INPUTS if width * epsilon > _WIDE * sensitivity else _NARROW
    if width > (_INPUTS - 1) * sensitivity:
        raise ArgumentError(f"range={query.range}: is more than {_INPUTS - 1} sensitivities wide")
    parts = math.floor((most - 1) * sensitivity / width)
    return sensitivity / min(parts, 8 if epsilon <= _FINE else 32) if parts else None


def _steps(support: Interval | Union, step: float | None, *, whole: bool) -> Support:
    """Where numbers are published: the support, or the multiples of the step in it."""
    if step is None or (whole and step == 1.0):
        return support
    if isinstance(support, Union):
        raise ArgumentError(f"step={step}: must not stand beside a support with gaps")
    if support.lower % step:
        raise ArgumentError(f"step={step}: the support must begin at a multiple of it")
    return Grid(step=step, within=support)
