"""What the objectives of the worst-case search share: the form of the pair, kinks, cuts, seeds and ceilings."""

from __future__ import annotations

import abc
import bisect
import itertools
import math
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import numpy as np

from rangebound.laws.family import Noise
from rangebound.laws.shape import UNBOUNDED_SHAPE, Shape
from rangebound.privacy.pairs.exact import Mapped, Pair, TruncatedGaussian, TruncatedGaussianGrid, family
from rangebound.privacy.pairs.truncated_gaussian_grid import ROUNDED, LongLattice, spacing
from rangebound.privacy.pairs.truncated_laplace_grid import TruncatedLaplaceGrid
from rangebound.privacy.search.cell_bound import MANY
from rangebound.privacy.search.endless_lattice import Ceiling
from rangebound.privacy.setting import SearchLine
from rangebound.values.array_types import Floats
from rangebound.values.ball import INFINITY, Ball, ball, down, up

GAPS = 64  # that are looked into first
_REACH = 7.0  # scales: from farther away nothing of importance is seen of an end or a point
LONG = 12  # cells from which a grid is worth comparing with an endless one
_FADED = 26.0  # scales: what Laplace noise has farther out is less than the tolerance of a search
_WIDE = 6.0  # scales: a grid wider than this is compared with the endless lattice
_MARGIN = 64.0  # scales: so far outside a grid its points need not be told from their places on the lattice
_SCAN, _DENSE, _PLACES = 8.0, 10.0, 2000  # scales around a union that are scanned, places in a scale, and in all


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
        self._gaps = shape.points if self._gaussian and shape.normalised else self._ends if self._laplace else ()
        ends = [end for end in {*shape.ends, *(x for cell in shape.cells for x in cell)} if math.isfinite(end)]
        self._centre = 0.5 * min(ends) + 0.5 * max(ends) if ends else None
        self._cuts = _lonely_places(noise, shape) if self._gaussian and shape.normalised else []
        self._lattice = _long_lattice(self.family, noise, shape)
        if self._gaussian and isinstance(self.family, TruncatedGaussianGrid) and self.family.lattice is not None:
            self._size = min(self._size, LONG)  # the points of a lattice are summed as a polynomial
        self._places = shape.points if laplace_grid and kind is None else ()
        self._middle_tops = dict[str, tuple[tuple[float, float], Ball]]()
        self._tops = dict[str, Ceiling]()

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
        """The kinks and, for Gaussian noise, where the ends of wide spans begin to show, or points far apart.

        From there on a ceiling is sharp, and the search need not find the place by halving.
        """
        found = [*self.kinks(line), *self._cuts]
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

    def _scanned(self, line: SearchLine, formula: Callable[[Floats, Floats], Floats]) -> list[float]:
        """For Gaussian noise on a union: the highest of many places along the line, in floats; no claim.

        A union has many maxima of nearly one height, and a search from any other would find it late.
        """
        if not self._gaussian or len(self._shape.spans) <= MANY or line.end - line.start < self._step:
            return []
        low, high = self._shape.ends
        start, end = max(line.start, low - _SCAN * self._step), min(line.end, high + _SCAN * self._step)
        count = _DENSE * (end - start) / self._step
        lonely = high - low > _REACH * self._step * len(self._shape.spans)  # most places see one span or gap alone
        if lonely or not 1.0 < count < _PLACES:  # on a longer line these would be too few to tell anything
            return []
        places = np.linspace(start, end, math.ceil(count))
        with np.errstate(all="ignore"):
            values = formula(places, places + (line.far - line.near))
        return [float(places[int(np.argmax(np.where(np.isnan(values), -np.inf, values)))])]

    def _off(self, start: float, end: float, reach: Ball) -> Ball | None:
        """How far rounding each point of a grid to a double may move the logarithm of a weight; None far outside.

        The logarithm of a weight moves by at most e (|x - p| + e)/s^2 if x does by e.
        """
        assert self._lattice is not None
        low, high = self.family.edges()
        margin = _MARGIN * self.family.noise.scale
        if self._lattice.wobble.is_zero():
            return ball(0.0)
        if not (ball(start) > low - margin and ball(end) < high + margin):
            return None
        off = self._lattice.wobble * self._lattice.step
        moved: Ball = off * (high - low + margin + reach + off) / self.family.noise.scale**2
        return moved

    def _middles(self, line: SearchLine, position: float, reach: float) -> list[float]:
        """Positions a whole number of steps from `position`, of which one sees both ends of the grid as far as can be.

        `reach` is where the other places that matter lie, seen from the position.
        """
        assert self._lattice is not None
        low, high = (float(end.mid()) for end in self.family.edges())
        step, centre = self._lattice.width, 0.5 * low + 0.5 * high
        phase = math.remainder(position, step) + low
        found = [phase + step * round((at - phase) / step) for at in (centre, centre - 0.5 * reach)]
        return [x for x in {*found, min(max(found[1], line.start), line.end)} if line.start <= x <= line.end]

    def _part(self, start: float, end: float) -> tuple[Ball, Ball | None]:
        """What can be told of a Gaussian law from the part of its support that matters seen from [start, end].

        The mass elsewhere, relative to that of the part (an upper bound, `inf` if none is known), and the largest
        change of the log-ratio over the part, per unit of distance of the pair; None where the part is an interval.
        """
        if self._lattice is not None or not isinstance(self.family, (TruncatedGaussian, TruncatedGaussianGrid)):
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


def _long_lattice(kind: Pair, noise: Noise, shape: Shape) -> LongLattice | None:
    """The lattice of a grid that is wide against Gaussian noise, and so worth comparing with an endless one."""
    if not isinstance(kind, TruncatedGaussianGrid):
        return None
    low, high = shape.ends
    return kind.lattice if high - low > _WIDE * noise.scale else None


class _Window(NamedTuple):
    """A stretch of a long grid with a margin around one step, from `start` to `end`, and around the pair."""

    points: tuple[float, ...]
    start: float
    end: float
    positions: tuple[float, float]  # all positions with as much margin
    off: Ball  # how far off its place a point may be, in scales


def _window(places: tuple[float, ...], scale: Ball, d: Ball) -> _Window | None:
    """The window of a long grid; None where the grid is hardly longer."""
    if len(places) < LONG:
        return None
    step, off = spacing(places)
    margin = math.ceil(_FADED * float(scale) / float(step))
    reach = math.ceil(up(d) / float(step)) + 2
    count = 2 * margin + reach
    if off > ROUNDED or len(places) < 2 * margin + 2 * reach + LONG:
        return None
    first = (len(places) - count) // 2
    return _Window(
        places[first : first + count],
        places[first + margin],
        math.nextafter(places[first + margin + 1], math.inf),
        (places[margin + 1], places[len(places) - margin - reach]),
        ball(2.0 * float(off) * float(step)) / scale,
    )


def _lonely_places(noise: Noise, shape: Shape) -> list[float]:
    """For Gaussian noise: places beyond the reach of an end of a wide span or gap, and points far from each other."""
    reach = _REACH * noise.scale
    if len(shape.spans) > GAPS or len(shape.points) > 4 * GAPS:
        return []
    ends = [end for pair in shape.spans for end in pair]
    around = [-math.inf, *ends, math.inf]
    found = [a + reach for a, b in itertools.pairwise(around) if math.isfinite(a) and b - a > reach]
    found += [b - reach for a, b in itertools.pairwise(around) if math.isfinite(b) and b - a > reach]
    return [*found, *(b for a, b in itertools.pairwise(shape.points) if b - a > reach)]


def _ends(noise: Noise, shape: Shape) -> list[float]:
    """Locations from which a kink of the density falls on a finite end of a span or cell, or on a point."""
    ends = {end for pair in (*shape.spans, *shape.cells) for end in pair if math.isfinite(end)}
    if shape.normalised:
        ends.update(shape.points)
    return sorted({end + kink for end in ends for kink in noise.kinks})
