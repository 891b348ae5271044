"""What the objectives of the worst-case search share: the form of the pair, kinks, cuts, seeds and ceilings."""

from __future__ import annotations

import abc
import bisect
import itertools
import math
from collections.abc import Collection
from fractions import Fraction
from typing import Any, NamedTuple

from rangebound.laws.family import Noise
from rangebound.laws.shape import UNBOUNDED_SHAPE, Shape
from rangebound.privacy.pairs.exact import Mapped, Pair, TruncatedGaussian, TruncatedGaussianGrid, family
from rangebound.privacy.pairs.truncated_grid import spacing
from rangebound.privacy.pairs.truncated_laplace_grid import TruncatedLaplaceGrid
from rangebound.privacy.setting import SearchLine
from rangebound.values.ball import INFINITY, Ball, ball, down, up

GAPS = 64  # that are looked into first
_LONG = 12  # points from which a grid may have a middle
_ROUNDED = Fraction(1, 10**6)  # of a step: points may be off their places by so much
_FADED = 26.0  # scales: what Laplace noise has farther out is less than the tolerance of a search


class PairObjective(abc.ABC):
    """What the objectives share: the family of the mechanism and the noise without any bounding."""

    def __init__(self, noise: Noise, shape: Shape, kind: Pair | None = None) -> None:
        # Which of the forms of a pair it is, the noise and the shape say.
        self.family: Any = family(noise, shape) if kind is None else kind
        self.free = Mapped(noise, UNBOUNDED_SHAPE)
        self._noise, self._shape, self._step = noise, shape, noise.scale
        laplace_grid = shape.normalised and bool(shape.points) and noise.exponential
        self._size = 2 if laplace_grid else len(shape.spans) + len(shape.points)
        self.monotone = False
        self._gaussian = noise.gaussian
        self._laplace = noise.laplace and shape.normalised
        self._between_ends = self._laplace and len(shape.spans) > 1
        if self._between_ends:  # the spans on either side of a pair are seen in one step
            self._size = 2
        self._ends = _ends(noise, shape)
        self.smooth, self.attained, self.peaked = not noise.kinks, True, False
        self._gaps = list(itertools.pairwise(self._ends if self._laplace else shape.points))
        if self._gaussian:
            self._gaps += [(low, high) for (_, low), (high, _) in itertools.pairwise(shape.spans)]
        ends = [end for end in {*shape.ends, *(x for cell in shape.cells for x in cell)} if math.isfinite(end)]
        self._centre = 0.5 * min(ends) + 0.5 * max(ends) if ends else None
        self._places = shape.points if laplace_grid and kind is None else ()
        self._middle_tops = dict[str, tuple[tuple[float, float], Ball]]()

    @property
    def noise(self) -> Noise:
        return self._noise

    @property
    def shape(self) -> Shape:
        return self._shape

    def step(self) -> float:
        return self._step

    def size(self) -> int:
        return self._size

    def branches(self, p: Ball, d: Ball, only: Collection[int] = ()) -> dict[int, Ball]:
        return {0: self.value(p, d)}

    @abc.abstractmethod
    def value(self, p: Ball, d: Ball) -> Ball:
        """The number at a position."""

    def kinks(self, line: SearchLine) -> list[float]:
        """Positions at which an end of the support meets one of the two locations, or an edge of their noise."""
        d = line.d
        first, last = (
            bisect.bisect_left(self._ends, line.start),
            bisect.bisect_right(self._ends, up(ball(line.end) + d)),
        )
        ends = self._ends[first:last]  # the others meet neither location
        return [x for end in ends for place in (ball(end), ball(end) - d) for x in {down(place), up(place)}]

    def cuts(self, line: SearchLine) -> list[float]:
        """The kinks but for those in the middle of a long grid, and its ends."""
        found = self.kinks(line)
        middle = self._middle(line.d)
        if middle is None:
            return found
        first, last = middle[0]
        return [*(x for x in found if not first < x < last), first, last]

    def _middle(self, d: Ball) -> tuple[tuple[float, float], Ball] | None:
        """For Laplace noise on a long grid: positions far from both ends, and the supremum over one step of them.

        What lies farther than the margin on either side is covered by a ball, so that one step stands for all; their
        points are on their places up to a wobble, which moves no weight by more than the factor e^off.
        """
        key = str(d)
        if key not in self._middle_tops:
            window = _window(self._places, self.family.noise.scale, d)
            if window is None:
                return None
            kind = TruncatedLaplaceGrid(self._noise, Shape(points=window.points, normalised=True), open_ends=True)
            line = SearchLine(window.start, window.end, up(d), 0.0)
            self._middle_tops[key] = window.positions, self._middle_top(kind, window.points, line, window.off)
        return self._middle_tops[key]

    def _middle_top(self, kind: Pair, points: tuple[float, ...], line: SearchLine, off: Ball) -> Ball:
        """The supremum on the window `kind` of a long grid."""
        return INFINITY

    def _most(self, d: Ball) -> Ball:
        """The largest log-ratio of the noise at distance d: a ceiling on truncation, whatever the support."""
        most: Ball = self.family.noise.log_ratio(None, d)
        return most

    def _in_middle(self, start: float, end: float, d: Ball) -> Ball:
        """The ceiling of a cell in the middle of a long grid."""
        middle = self._middle(d) if self._places else None
        return middle[1] if middle is not None and middle[0][0] <= start and end <= middle[0][1] else INFINITY

    def seeds(self, line: SearchLine) -> list[float]:
        """Positions that may be the worst: first of all the middle of the support."""
        return [] if self._centre is None else [self._centre - 0.5 * (line.far - line.near)]

    def _part(self, start: float, end: float) -> tuple[Ball, Ball | None]:
        """What can be told of a Gaussian law from the part of its support that matters seen from [start, end].

        The mass elsewhere, relative to that of the part (an upper bound, `inf` if none is known), and the largest
        change of the log-ratio over the part, per unit of distance of the pair; None where the part is an interval.
        """
        if not isinstance(self.family, (TruncatedGaussian, TruncatedGaussianGrid)):
            return INFINITY, None
        elsewhere, width = self.family.elsewhere(start, end)
        scale = self.family.noise.scale
        return elsewhere, None if width is None else width / (scale * scale)

    def _tail(self, start: float, end: float, d: Ball, order: Ball) -> Ball:
        """Renyi bound on a cell that reaches beyond a bounded side of the support, for Gaussian truncation.

        The laws form an exponential family, and the second derivative of its log-partition is the variance of x, at
        most E (x - edge)^2, which shrinks as the location moves away from the edge. So D <= order (d/s^2)^2 / 2 times
        that.
        """
        low, high = self.family.edges()
        scale = self.family.noise.scale
        if not self._gaussian or (math.isinf(start) and math.isinf(end)):
            return INFINITY
        if math.isinf(start):
            spread = INFINITY if low is None else self.family.spread(ball(end) + d, low)
        else:
            spread = INFINITY if high is None else self.family.spread(ball(start) + (1 - order) * d, high)
        ratio = d / (scale * scale)
        most: Ball = order * ratio * ratio * spread / 2
        return most


class _Window(NamedTuple):
    """A stretch of a long grid with a margin around one step, from `start` to `end`, and around the pair."""

    points: tuple[float, ...]
    start: float
    end: float
    positions: tuple[float, float]  # all positions with as much margin
    off: Ball  # how far off its place a point may be, in scales


def _window(places: tuple[float, ...], scale: Ball, d: Ball) -> _Window | None:
    """The window of a long grid; None where the grid is hardly longer."""
    if len(places) < _LONG:
        return None
    step, off = spacing(places)
    margin = math.ceil(_FADED * float(scale) / float(step))
    reach = math.ceil(up(d) / float(step)) + 2
    count = 2 * margin + reach
    if off > _ROUNDED or len(places) < 2 * margin + 2 * reach + _LONG:
        return None
    first = (len(places) - count) // 2
    return _Window(
        places[first : first + count],
        places[first + margin],
        math.nextafter(places[first + margin + 1], math.inf),
        (places[margin + 1], places[len(places) - margin - reach]),
        ball(2.0 * float(off) * float(step)) / scale,
    )


def _ends(noise: Noise, shape: Shape) -> list[float]:
    """Locations from which a kink of the density falls on a finite end of a span or cell, or on a point."""
    ends = {end for pair in (*shape.spans, *shape.cells) for end in pair if math.isfinite(end)}
    if shape.normalised:
        ends.update(shape.points)
    return sorted({end + kink for end in ends for kink in noise.kinks})
