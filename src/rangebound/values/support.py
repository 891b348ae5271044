"""Where an answer may lie (an interval, a union, the points of a grid), and a query, whose answers lie there."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.values import arguments
from rangebound.values.array_types import np, npt
from rangebound.values.numeric import rounded_up

_GRID_LIMIT = 1_000_000
_SLACK = 1e-9  # of a step: 10 * 0.1 is meant to reach 1 whichever way the product was rounded


@arguments.guided
@dataclass(frozen=True)
class Interval:
    """The numbers from `lower` to `upper`; either end may be infinite.

    Edge cases: the ends must differ; infinite ends are written `math.inf`.

    >>> Interval(0, 100).width
    100.0
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        hint = "an open end is math.inf or -math.inf"
        lower = arguments.real("lower", self.lower, why=hint) + 0.0
        upper = arguments.real("upper", self.upper, why=hint) + 0.0
        if not lower < upper:
            raise ArgumentError(f"lower={lower}, upper={upper}: lower must be below upper")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    @property
    def width(self) -> float:
        """upper - lower, which may be infinite."""
        return self.upper - self.lower

    @property
    def spans(self) -> tuple[tuple[float, float], ...]:
        """The allowed spans, from left to right: here just one."""
        return ((self.lower, self.upper),)

    @property
    def hull(self) -> Interval:
        """The smallest interval around the support: itself."""
        return self

    @property
    def bounded(self) -> bool:
        """Whether both ends are finite."""
        return math.isfinite(self.lower) and math.isfinite(self.upper)


Pair = Interval | tuple[float, float] | list[float]
"""One span or gap: its lower and its upper end."""


@arguments.brief
@arguments.guided
@dataclass(frozen=True, init=False)
class Union:
    """A union of allowed spans, given as pairs from left to right; the first and the last may be infinite.

    Edge cases: spans must not be empty, touch or overlap; say `Interval` for one span without gaps.

    >>> Union((0, 1), (2, 3)).gaps
    ((1.0, 2.0),)
    """

    spans: tuple[tuple[float, float], ...]

    def __init__(self, *spans: Pair) -> None:
        if not spans:
            raise ArgumentError("spans=(): a union needs at least one span (lower, upper)")
        object.__setattr__(self, "spans", _pairs("span", spans))

    @classmethod
    def excluding(cls, *gaps: Pair, within: Interval | None = None) -> Union | Interval:
        """The same, said by its gaps: `within` (by default the whole line) without the open `gaps`.

        A gap that reaches an end of `within` cuts that end off. The result is an `Interval` when one span is left.

        >>> Union.excluding((1, 2), within=Interval(0, 3))
        Union((0.0, 1.0), (2.0, 3.0))
        """
        whole = Interval(-math.inf, math.inf) if within is None else within
        arguments.instance("within", whole, Interval, "an Interval, such as Interval(0, 10)")
        if not gaps:
            raise ArgumentError("gaps=(): name at least one gap (lower, upper)")
        cuts = _pairs("gap", gaps)
        if cuts[0][1] <= whole.lower or cuts[-1][0] >= whole.upper:
            raise ArgumentError(f"gaps={arguments.shown(gaps)}: every gap must meet {whole}")
        ends = [whole.lower, *(end for cut in cuts for end in cut), whole.upper]
        spans = tuple((a, b) for a, b in zip(ends[::2], ends[1::2], strict=True) if a < b)
        if not spans:
            raise ArgumentError(f"gaps={arguments.shown(gaps)}: nothing of {whole} is left")
        return Interval(*spans[0]) if len(spans) == 1 else cls(*spans)

    def __repr__(self) -> str:
        if len(self.spans) <= 8:
            return f"Union({', '.join(map(repr, self.spans))})"
        return f"Union({self.spans[0]}, ... {len(self.spans) - 2} more spans ..., {self.spans[-1]})"

    @property
    def gaps(self) -> tuple[tuple[float, float], ...]:
        """The open gaps between the spans, from left to right."""
        return tuple((end, start) for (_, end), (start, _) in zip(self.spans, self.spans[1:], strict=False))

    @property
    def hull(self) -> Interval:
        """The smallest interval around the support."""
        return Interval(self.spans[0][0], self.spans[-1][1])

    @property
    def bounded(self) -> bool:
        """Whether both outer ends are finite."""
        return self.hull.bounded


@arguments.guided
@dataclass(frozen=True, kw_only=True)
class Grid:
    """The multiples of `step` inside the bounded interval `within`, counted from its lower end.

    The points are `within.lower + i * step`, each rounded to the nearest double, up to `within.upper`.
    Edge cases: at least two and at most 1,000,000 points; an infinite grid has no place here: truncate
    onto the half-line and publish with a step instead.

    >>> Grid(step=0.5, within=Interval(0, 1)).points.tolist()
    [0.0, 0.5, 1.0]
    """

    step: float
    within: Interval

    def __post_init__(self) -> None:
        step = arguments.positive("step", self.step)
        arguments.instance("within", self.within, Interval, "an Interval, such as Interval(0, 10)")
        if not self.within.bounded:
            raise ArgumentError(f"within={self.within}: a grid must lie in a bounded interval")
        object.__setattr__(self, "step", step)
        count = self.within.width / step
        if count > _GRID_LIMIT:
            raise ArgumentError(f"step={step}: gives over {_GRID_LIMIT} points in {self.within}; take a larger step")
        points = self.points
        if len(points) < 2 or not (points[:-1] < points[1:]).all():
            raise ArgumentError(f"step={step}: must give at least two different points in {self.within}")

    @cached_property
    def points(self) -> npt.NDArray[np.float64]:
        """The points, in order."""
        count = math.floor(self.within.width / self.step + _SLACK) + 1
        points: npt.NDArray[np.float64] = np.minimum(
            self.within.lower + self.step * np.arange(count), self.within.upper
        )
        points.flags.writeable = False
        return points

    @property
    def spans(self) -> tuple[tuple[float, float], ...]:
        """The points as spans of no width."""
        return tuple((float(x), float(x)) for x in self.points)

    @property
    def hull(self) -> Interval:
        """The interval from the first point to the last."""
        return Interval(float(self.points[0]), float(self.points[-1]))

    @property
    def bounded(self) -> bool:
        """Always true: a grid has two ends."""
        return True


Support = Interval | Union | Grid


def is_line(support: Support) -> bool:
    """Whether the support is the whole real line."""
    return support.spans == ((-math.inf, math.inf),)


def nearest(support: Support, numbers: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], ...]:
    """The nearest allowed number at or below each of `numbers`, and at or above it; infinite where there is none.

    A number that a grid's own rounding may have made of a point is that point.

    >>> import numpy as np
    >>> [each.tolist() for each in nearest(Union((0, 1), (2, 3)), np.asarray([0.5, 1.75, 4.0]))]
    [[0.5, 1.0, 3.0], [0.5, 2.0, inf]]
    """
    if isinstance(support, Grid):
        points = starts = ends = support.points
        at = np.clip(np.searchsorted(points, numbers), 1, len(points) - 1)
        close = np.where(numbers - points[at - 1] < points[at] - numbers, points[at - 1], points[at])
        numbers = np.where(np.abs(numbers - close) <= _SLACK * support.step, close, numbers)
    else:
        starts, ends = np.asarray(support.spans).T
    after = np.searchsorted(starts, numbers, side="right")
    last = np.concatenate(([-np.inf], ends))[after]  # the end of the span that starts at or before the number
    inside = numbers <= last
    return np.where(inside, numbers, last), np.where(inside, numbers, np.concatenate((starts, [np.inf]))[after])


def published_numbers(support: Support, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Published numbers as members of the support; one that the support does not have is refused.

    >>> import numpy as np
    >>> published_numbers(Interval(0, 1), np.asarray([0.5])).tolist()
    [0.5]
    """
    below, above = nearest(support, numbers)
    gap = below < above
    if gap.any():
        here, low, high = (each[gap][0] for each in (numbers, below, above))
        ways = " and ".join(str(float(x)) for x in (low, high) if math.isfinite(x))
        raise ArgumentError(f"published={here}: is never published; the numbers of the support next to it are {ways}")
    return below


def _pair(name: str, value: object) -> tuple[float, float]:
    if isinstance(value, Interval):
        return value.lower, value.upper
    if not isinstance(value, (tuple, list)) or len(value) != 2 or isinstance(value[0], (tuple, list)):
        raise ArgumentTypeError(
            f"{name}={arguments.shown(value)}: must be a pair (lower, upper); give {name}s one by one, (0, 1), (2, 3)"
        )
    both = Interval(*value)
    return both.lower, both.upper


def _pairs(name: str, values: Sequence[object]) -> tuple[tuple[float, float], ...]:
    """Spans or gaps, apart from each other and from left to right."""
    pairs = tuple(_pair(name, each) for each in values)
    for before, after in itertools.pairwise(pairs):
        if not before[1] < after[0]:
            raise ArgumentError(f"{name}s={before}, {after}: must be in order, and must not touch or overlap")
    return pairs


@arguments.brief
@arguments.guided
@dataclass(frozen=True, kw_only=True)
class Query:
    """A real-valued question: answers lie in `range`, and neighbouring datasets move them by at most `sensitivity`.

    Assumes: the sensitivity is true of the answers inside the range. An answer outside an interval is clipped to
    it, which never makes the sensitivity larger. A `Union` range is a promise that answers never lie in its gaps:
    one that does is moved to the nearest span, and the guarantee is void for it.

    A `Grid` range is a promise that answers are its points, such as whole numbers; any other answer goes to the nearest
    point, a tie to the upper one.

    Edge cases: a sensitivity above the range's width is cut to the width, since no two answers are farther apart.

    >>> Query(range=Interval(0, 1), sensitivity=5).sensitivity
    1.0
    """

    range: Interval | Union | Grid
    sensitivity: float

    def __post_init__(self) -> None:
        arguments.instance(
            "range", self.range, (Interval, Union, Grid), "an Interval, a Union or a Grid, such as Interval(0, 100)"
        )
        sensitivity = arguments.positive(
            "sensitivity", self.sensitivity, why="a query that no one can change needs no noise"
        )
        hull = self.range.hull
        if math.isfinite(hull.lower) and math.isfinite(hull.upper):
            sensitivity = min(sensitivity, rounded_up(Fraction(hull.upper) - Fraction(hull.lower)))
        object.__setattr__(self, "sensitivity", sensitivity)

    @property
    def spread(self) -> Interval | Union:
        """The range as spans of numbers: itself, or the interval around a grid.

        >>> Query(range=Grid(step=1, within=Interval(0, 9)), sensitivity=1).spread
        Interval(lower=0.0, upper=9.0)
        """
        return self.range.hull if isinstance(self.range, Grid) else self.range

    def clip(self, answer: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Answers moved into the range: the nearest point of it.

        >>> Query(range=Interval(0, 10), sensitivity=1).clip([-3, 4]).tolist()
        [0.0, 4.0]
        """
        hull = self.range.hull
        answers = arguments.answers(answer, hull.lower, hull.upper)
        clipped: npt.NDArray[np.float64] = np.clip(answers, hull.lower, hull.upper)
        if isinstance(self.range, Grid):
            points = self.range.points
            middles = points[:-1] + np.diff(points) / 2.0
            nearest: npt.NDArray[np.float64] = points[np.searchsorted(middles, clipped, side="right")]
            return nearest
        spans = self.range.spans
        if len(spans) > 1:
            ends = np.array([end for _, end in spans[:-1]])
            starts = np.array([start for start, _ in spans[1:]])
            gap = np.minimum(np.searchsorted(starts, clipped, side="right"), len(ends) - 1)
            end, start = ends[gap], starts[gap]
            inside = (clipped > end) & (clipped < start)
            closer = np.where(clipped - end <= start - clipped, end, start)
            clipped = np.where(inside, closer, clipped)
        return clipped
