"""The objectives of the worst-case search: the hockey-stick divergence, the Renyi divergence and the loss of a pair."""

from __future__ import annotations

import abc
import bisect
import itertools
import math
from collections.abc import Collection
from fractions import Fraction
from typing import Any, NamedTuple

from rangebound.laws.boundings import UNBOUNDED_SHAPE, Shape
from rangebound.laws.family import Noise
from rangebound.privacy.branch_and_bound import Task, enclose
from rangebound.privacy.pairs.divergences import (
    Mapped,
    Pair,
    Truncated,
    TruncatedGaussian,
    TruncatedGaussianGrid,
    family,
    stick,
)
from rangebound.privacy.pairs.truncated_grid import TruncatedLaplaceGrid, spacing
from rangebound.privacy.pairs.truncated_laplace import top_loss, top_odds, top_renyi, top_stick
from rangebound.privacy.setting import SearchLine
from rangebound.values.ball import INFINITY, Ball, ball, down, largest, smallest, taylor, up
from rangebound.values.roots import falling_root

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


_TAIL_ORDERS = (1.5, 2.0, 4.0, 16.0, 64.0, 256.0)


class Delta(PairObjective):
    """The hockey-stick divergence at a fixed epsilon."""

    def __init__(
        self, noise: Noise, shape: Shape, epsilon: float, aim: float | None = None, kind: Pair | None = None
    ) -> None:
        super().__init__(noise, shape, kind)
        self.epsilon, self._aim = ball(epsilon), aim
        self.attained = noise.exponential or len(shape.spans) <= 1
        self.peaked = self._laplace and len(shape.spans) == 1 and epsilon >= 0.0
        self._rising = self._gaussian and shape.normalised and len(shape.spans) == 1 and math.isfinite(shape.ends[0])
        self._known: tuple[Ball, Ball] | None = None

    def value(self, p: Ball, d: Ball) -> Ball:
        return stick(self.family, p, d, self.epsilon)

    def branches(self, p: Ball, d: Ball, only: Collection[int] = ()) -> dict[int, Ball]:
        found: dict[int, Ball] = self.family.sticks(p, d, self.epsilon, only)
        return found

    def ceiling(self, start: float, end: float, d: Ball) -> Ball:
        """Zero where no loss is above epsilon. P <= G/Z and Q >= G on the support: the unbounded one plus 1/Z - 1.

        A Gaussian law on an interval leaks no more than the unbounded one, one of bounded log-ratio no more than
        two atoms do; a part of the support with all but a share of the mass adds at most that share on either side.
        """
        if self._rising and math.isfinite(end) and self.family.loss(ball(end), d) <= self.epsilon:
            return ball(0.0)
        best = smallest(ball(1.0), self._in_middle(start, end, d))
        if (most := self._most(d)).is_finite():
            best = smallest(best, top_stick(most, self.epsilon))
        elsewhere, rate = self._part(start, up(ball(end) + d))
        if elsewhere < 1:
            inside = self._free(d) if rate is None else top_stick(rate * d / 2, self.epsilon)
            best = smallest(best, inside + 2 * elsewhere)
        if isinstance(self.family, Truncated) and not elsewhere.is_zero():
            normaliser = self.family.least_normaliser(start, up(ball(end) + d))
            if normaliser > 0.5:
                best = smallest(best, self._free(d) + 1 / normaliser - 1)
        if math.isinf(start) or math.isinf(end):
            for order in map(ball, (*_TAIL_ORDERS, *self._sharp_orders(start, end, d))):
                tail = self._tail(start, end, d, order)
                if not tail.is_finite():
                    continue
                chernoff = ((order - 1) * (tail - self.epsilon)).exp()
                best = smallest(best, chernoff, (tail / 2).sqrt())
        return best

    def _sharp_orders(self, start: float, end: float, d: Ball) -> list[float]:
        """Orders at which the tail bound x order/2 on the Renyi divergence says the most of delta: about epsilon/x."""
        tail = self._tail(start, end, d, ball(2.0))
        if not tail.is_finite() or not tail > 0:
            return []
        order = float((self.epsilon / tail).mid()) + 0.5
        if math.isinf(end):  # the location of the mixture must stay beyond the support
            order = min(order, 1.0 + 0.5 * float(((ball(start) - self.family.edges()[1]) / d).mid()))
        return [part * order for part in (0.5, 0.75, 1.0) if part * order > 1.0]

    def cuts(self, line: SearchLine) -> list[float]:
        """Also where the loss passes epsilon, and next to it: a ball about what follows must not reach over a kink."""
        found, (start, end) = super().cuts(line), (line.start, line.end)
        if not self._rising or math.isinf(start) or math.isinf(end):
            return found

        def below(at: float) -> float:
            return float((self.epsilon - self.family.loss(ball(at), line.d)).mid())

        if below(start) > 0.0 > below(end):
            root = falling_root(below, start, end, absolute=2.0 * math.ulp(max(abs(start), abs(end))))
            found += [root, root + 2.0**-24 * (end - root)]
        return found

    def seeds(self, line: SearchLine) -> list[float]:
        """Where a gap puts the share of mass to its left that is the worst of all (see `top_stick`)."""
        scale, d = self.family.noise.scale, line.d
        found = super().seeds(line)
        for low, high in self._gaps[:GAPS]:
            middle = 0.5 * low + 0.5 * high - 0.5 * (line.far - line.near)
            if not line.start <= middle <= line.end or (self._laplace and middle < low):
                continue
            if self._laplace:  # the odds of left and right move by 2/b for each unit of the position
                parts, rate = self.family.parts(ball(middle), d), 2 / scale
                odds = parts.left / (parts.right * (-d / scale).exp())
            else:  # two Gaussian atoms: the odds are even half-way and move by their distance over s^2
                rate = (ball(high) - ball(low)) / (scale * scale)
                odds = (rate * d / 2).exp()
            worst = top_odds(rate * d / 2, self.epsilon)
            if worst > 0 and odds > 0:
                found.append(middle + float(((odds / worst).log() / rate).mid()))
        return [x for x in found if line.start < x < line.end]

    def _middle_top(self, kind: Pair, points: tuple[float, ...], line: SearchLine, off: Ball) -> Ball:
        epsilon = down(self.epsilon - 4 * off)
        window = Delta(self._noise, Shape(points=points, normalised=True), epsilon, self._aim, kind)
        return ball(enclose([Task(window, line)], self._aim).upper) * (2 * off).exp()

    def _free(self, d: Ball) -> Ball:
        known = self._known is not None and bool(self._known[0] == d)
        if self._known is None or not known:
            self._known = d, stick(self.free, ball(0.0), d, self.epsilon)
        return self._known[1]


class Renyi(PairObjective):
    """The Renyi divergence of a fixed finite order."""

    def __init__(self, noise: Noise, shape: Shape, order: float, kind: Pair | None = None) -> None:
        super().__init__(noise, shape, kind)
        self.order = ball(order)

        rounded = bool(shape.cells) and not shape.spans
        self.attained = not (rounded and self._gaussian)
        self.peaked = self._gaussian and shape.normalised and len(shape.spans) == 1  # papers/numerics.md, "One peak"

    def value(self, p: Ball, d: Ball) -> Ball:
        value: Ball = self.family.renyi(p, d, self.order)
        return value

    def seeds(self, line: SearchLine) -> list[float]:
        """Also where Gaussian laws of a large order have their product of powers in the middle of the support."""
        found = super().seeds(line)
        return [*found, *(x + (up(self.order) - 1.0) * (line.far - line.near) for x in found if self._gaussian)]

    def ceiling(self, start: float, end: float, d: Ball) -> Ball:
        """Maps are post-processing of the unbounded noise; truncation adds at most order/(order-1) log 1/Z."""
        free = self.free.renyi(ball(0.0), d, self.order)
        if isinstance(self.family, Mapped):
            best = free
            (first, _), (_, last) = self.family.cuts[0], self.family.cuts[-1]
            if math.isinf(start) and math.isfinite(end) and math.isfinite(first):
                best = smallest(best, self.family.renyi_left(ball(end), d, self.order))
            if math.isinf(end) and math.isfinite(start) and math.isfinite(last):
                best = smallest(best, self.family.renyi_right(ball(start), d, self.order))
            return best
        best = top_renyi(most, self.order) if (most := self._most(d)).is_finite() else INFINITY
        best = smallest(best, self._in_middle(start, end, d))
        mixed = down(ball(start) - (self.order - 1) * d)
        elsewhere, rate = self._part(mixed, up(ball(end) + d))
        if elsewhere < 1:
            inside = free if rate is None else top_renyi(rate * d / 2, self.order)
            best = smallest(best, inside + elsewhere.log1p() * self.order / (self.order - 1))
        if isinstance(self.family, Truncated) and not elsewhere.is_zero():
            normaliser = self.family.least_normaliser(start, end)
            if normaliser > 0.5:
                best = smallest(best, free - normaliser.log() * self.order / (self.order - 1))
        if math.isinf(start) or math.isinf(end):
            tail = self._tail(start, end, d, self.order)
            best = tail if tail.is_finite() and not tail > best else best
        return best

    def _middle_top(self, kind: Pair, points: tuple[float, ...], line: SearchLine, off: Ball) -> Ball:
        window = Renyi(self._noise, Shape(points=points, normalised=True), up(self.order), kind)
        return enclose([Task(window, line)]).upper + 2 * off * self.order / (self.order - 1)


class Loss(PairObjective):
    """The pure epsilon: the supremum of the log-ratio.

    On a grid with Laplace noise Z is A e^{-p/b} + B e^{p/b} between two kinks, so the slope of log Z(p+d)/Z(p) is a
    difference of two hyperbolic tangents of p/b plus constants: it has one sign, and the supremum is at a kink.
    """

    def __init__(self, noise: Noise, shape: Shape, kind: Pair | None = None) -> None:
        super().__init__(noise, shape, kind)
        self.monotone = self._laplace and bool(shape.points)

    def _middle_top(self, kind: Pair, points: tuple[float, ...], line: SearchLine, off: Ball) -> Ball:
        return enclose([Task(Loss(self._noise, Shape(points=points, normalised=True), kind), line)]).upper + 4 * off

    def value(self, p: Ball, d: Ball) -> Ball:
        value: Ball = self.family.loss(p, d)
        return value

    def seeds(self, line: SearchLine) -> list[float]:
        """On a union also every kink: most maxima are at one of them (see `_by_shape`)."""
        kinks = self.kinks(line) if self._between_ends else []
        return [*super().seeds(line), *kinks]

    def ceiling(self, start: float, end: float, d: Ball) -> Ball:
        """Z <= 1 at the right one, so the loss is at most the unbounded one plus log 1/Z at the left one."""
        best = top_loss(self._most(d))
        best = smallest(best, self._by_shape(start, end, d), self._in_middle(start, end, d))
        if isinstance(self.family, Truncated):
            normaliser = self.family.least_normaliser(start, end)
            if normaliser > 0:
                best = smallest(best, self.free.loss(ball(0.0), d) - normaliser.log())
        return best

    def _by_shape(self, start: float, end: float, d: Ball) -> Ball:
        """For truncated Laplace on spans the value at an end of the cell; `inf` where no theorem says so.

        In units of the scale Z'' = Z - 1 in a span and Z'' = Z in a gap. Let p and p + d each stay in one of them, and
        let F = ln Z(p + d) - ln Z(p). Where F' = 0, the second derivative F'' is

            both in spans              1/Z(p) - 1/Z(p + d), of the sign of F: no maximum above 0 inside
            p in a span, p + d not     1/Z(p) > 0: no maximum inside
            p + d in a span, p not     -1/Z(p + d) < 0: a single peak, which an end with a slope towards it excludes
            neither                    F' is tanh(p + d + a) - tanh(p + b), nowhere 0 or everywhere: F is monotone
        """
        if not self._between_ends or math.isinf(start) or math.isinf(end):
            return INFINITY
        first, last = ball(start), ball(end)
        here, there = self.family.stretch(first, last), self.family.stretch(first + d, last + d)
        if here is None or there is None:
            return INFINITY
        if there and not here:
            if self.value(taylor(last, 1), d)[1] > 0:
                return self.value(last, d)
            return self.value(first, d) if self.value(taylor(first, 1), d)[1] < 0 else INFINITY
        best = largest(self.value(first, d), self.value(last, d))
        return largest(best, d / self.family.noise.scale) if here and there else best
