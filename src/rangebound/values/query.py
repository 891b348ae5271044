"""What is asked: the range of the true answers, and how far one person can move one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from rangebound.values import arguments
from rangebound.values.array_types import np, npt
from rangebound.values.numeric import rounded_up
from rangebound.values.support import Grid, Interval, Union


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
