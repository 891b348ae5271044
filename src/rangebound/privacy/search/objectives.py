"""The three numbers that a pair gives away, as objectives of the worst-case search: delta, Renyi, pure epsilon."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Collection
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from rangebound.ball import INFINITY, Ball, ball, down, largest, smallest, taylor, up
from rangebound.law import Shape
from rangebound.law.shape import UNBOUNDED_SHAPE
from rangebound.noise import Curve, Noise
from rangebound.numeric import rounded_up
from rangebound.privacy.pairs.divergences import Floats, renyi_formula, stick_formula
from rangebound.privacy.pairs.exact import (
    Mapped,
    Pair,
    Truncated,
    TruncatedGaussian,
    TruncatedGaussianGrid,
    family,
    stick,
)
from rangebound.privacy.pairs.laplace_pair import top_loss, top_odds, top_renyi, top_stick
from rangebound.privacy.pairs.truncated_gaussian_grid import ROUNDED, Lattice, spacing
from rangebound.privacy.pairs.truncated_laplace import TruncatedLaplaceGrid
from rangebound.privacy.search.branch_and_bound import LOW, MANY, Task, bound, enclose
from rangebound.privacy.search.endless_lattice import Ceiling, renyi_ceiling, stick_ceiling
from rangebound.privacy.search.positions import Line
from rangebound.privacy.search.roots import falling_root
from rangebound.privacy.search.rounded_lattice import rounded_top

_GAPS = 64  # that are looked into first
_REACH = 7.0  # scales: from farther away nothing of importance is seen of an end or a point
_LONG = 12  # cells from which a grid is worth comparing with an endless one
_WINDOW = 9.0  # scales: what Gaussian noise has farther out than this is as good as nothing
_FINE = 200.0  # cells in a scale: from there on rounding hides next to nothing
_FADED = 26.0  # scales: what Laplace noise has farther out is less than the tolerance of a search
_WIDE = 6.0  # scales: a grid wider than this is compared with the endless lattice
_MARGIN = 64.0  # scales: so far outside a grid its points need not be told from their places on the lattice
_SCAN, _DENSE, _PLACES = 8.0, 10.0, 2000  # scales around a union that are scanned, places in a scale, and in all
_TAIL_ORDERS = (1.5, 2.0, 4.0, 16.0, 64.0, 256.0)


class _Common:
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
            self._size = min(self._size, _LONG)  # the points of a lattice are summed as a polynomial
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

    def value(self, p: Ball, d: Ball) -> Ball:
        raise TypeError("an objective defines its own value")

    def kinks(self, line: Line) -> list[float]:
        """Positions at which an end of the support meets one of the two locations, or an edge of their noise."""
        d = line.d
        first, last = (
            bisect.bisect_left(self._ends, line.start),
            bisect.bisect_right(self._ends, up(ball(line.end) + d)),
        )
        ends = self._ends[first:last]  # the others meet neither location
        return [x for end in ends for place in (ball(end), ball(end) - d) for x in {down(place), up(place)}]

    def cuts(self, line: Line) -> list[float]:
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
            line = Line(window.start, window.end, up(d), 0.0)
            self._middle_tops[key] = window.positions, self._middle_top(kind, window.points, line, window.off)
        return self._middle_tops[key]

    def _middle_top(self, kind: Pair, points: tuple[float, ...], line: Line, off: Ball) -> Ball:
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

    def seeds(self, line: Line) -> list[float]:
        """Positions that may be the worst: first of all the middle of the support."""
        return [] if self._centre is None else [self._centre - 0.5 * (line.far - line.near)]

    def _scanned(self, line: Line, formula: Callable[[Floats, Floats], Floats]) -> list[float]:
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

    def _middles(self, line: Line, position: float, reach: float) -> list[float]:
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


class Delta(_Common):
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

        A Gaussian law on an interval gives away no more than the unbounded one, one of bounded log-ratio no more than
        two atoms do; a part of the support with all but a share of the mass adds at most that share on either side.
        """
        if self._rising and math.isfinite(end) and self.family.loss(ball(end), d) <= self.epsilon:
            return ball(0.0)
        best = smallest(ball(1.0), self._in_middle(start, end, d))
        if (most := self._most(d)).is_finite():
            best = smallest(best, top_stick(most, self.epsilon))
        if self._lattice is not None:
            off = self._off(start, end, d)
            best = best if off is None else smallest(best, self._top(d).value * (2 * off).exp())
        elsewhere, rate = self._part(start, up(ball(end) + d))
        if elsewhere < 1:
            inside = self._free(d) if rate is None else top_stick(rate * d / 2, self.epsilon)
            best = smallest(best, inside + 2 * elsewhere)
        if isinstance(self.family, Truncated) and not elsewhere.is_zero():
            kept = self.family.kept_at_least(start, up(ball(end) + d))
            if kept > 0.5:
                best = smallest(best, self._free(d) + 1 / kept - 1)
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
        if math.isinf(end):  # the blended location must stay beyond the support
            order = min(order, 1.0 + 0.5 * float(((ball(start) - self.family.edges()[1]) / d).mid()))
        return [part * order for part in (0.5, 0.75, 1.0) if part * order > 1.0]

    def cuts(self, line: Line) -> list[float]:
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

    def seeds(self, line: Line) -> list[float]:
        """Where a gap puts the share of mass to its left that is the worst of all (see `top_stick`)."""
        scale, d = self.family.noise.scale, line.d
        found = [*super().seeds(line), *self._scanned(line, self._formula)]
        if self._lattice is not None:
            position = self._top(d).position
            return [*found, *self._middles(line, position, -position)]
        for low, high in itertools.islice(itertools.pairwise(self._gaps), _GAPS):
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

    def _formula(self, p: Floats, q: Floats) -> Floats:
        values: Floats = stick_formula(self._noise, self._shape, p, q, float(self.epsilon))
        return values

    def _middle_top(self, kind: Pair, points: tuple[float, ...], line: Line, off: Ball) -> Ball:
        epsilon = down(self.epsilon - 4 * off)
        window = Delta(self._noise, Shape(points=points, normalised=True), epsilon, self._aim, kind)
        return ball(enclose([Task(window, line)], self._aim).upper) * (2 * off).exp()

    def _top(self, d: Ball) -> Ceiling:
        """The largest value on the endless lattice of which the grid is a part."""
        key = str(d)
        if key not in self._tops:
            low, high = self.family.edges()
            off = self._off(float(low.mid()), float(high.mid()), d)
            assert off is not None
            assert self._lattice is not None
            scale = self.family.noise.scale
            self._tops[key] = stick_ceiling(self._lattice.step, scale, self.epsilon - 4 * off, d, self._aim)
        return self._tops[key]

    def _free(self, d: Ball) -> Ball:
        known = self._known is not None and bool(self._known[0] == d)
        if self._known is None or not known:
            self._known = d, stick(self.free, ball(0.0), d, self.epsilon)
        return self._known[1]


class Renyi(_Common):
    """The Renyi divergence of a fixed finite order."""

    def __init__(self, noise: Noise, shape: Shape, order: float, kind: Pair | None = None) -> None:
        super().__init__(noise, shape, kind)
        self.order = ball(order)

        self._cells, self._rounded = shape.cells, dict[str, Ball]()
        rounded = bool(shape.cells) and not shape.spans
        self.attained = not (rounded and self._gaussian)
        self._size = min(self._size, _LONG) if rounded else self._size
        self._clamped: Renyi | None = None
        if rounded and len(shape.cells) > _LONG:
            low, high = shape.cells[0][1], shape.cells[-1][0]
            if (high - low) * _FINE < noise.scale * len(shape.cells):
                ends = Shape(((low, high),), (low, high), (shape.cells[0], shape.cells[-1]))
                self._clamped = Renyi(noise, ends, order)

    def value(self, p: Ball, d: Ball) -> Ball:
        value: Ball = self.family.renyi(p, d, self.order)
        return value

    def cuts(self, line: Line) -> list[float]:
        """Of cells much narrower than the noise none matters by itself, and clamping is as good a bound."""
        return super().cuts(line) if self._clamped is None else self._clamped.cuts(line)

    def seeds(self, line: Line) -> list[float]:
        """Also where Gaussian laws of a large order blend in the middle of the support."""
        found = [*super().seeds(line), *self._scanned(line, self._formula)]
        if self._lattice is not None:
            found = [*found, *self._middles(line, self._lattice_top(line.d).position, float((1 - self.order) * line.d))]
        return [*found, *(x + (up(self.order) - 1.0) * (line.far - line.near) for x in found if self._gaussian)]

    def ceiling(self, start: float, end: float, d: Ball) -> Ball:
        """Maps are post-processing of the unbounded noise; truncation adds at most order/(order-1) log 1/Z."""
        free = self.free.renyi(ball(0.0), d, self.order)
        if isinstance(self.family, Mapped):
            best = self._rounded_top(start, end, d, free)
            if self._clamped is not None:  # rounding comes after clamping to the outermost cuts
                clamped = Task(self._clamped, Line(start, end, up(d)))
                best = smallest(best, ball(bound(clamped, start, end, order=LOW)))
            (first, _), (_, last) = self.family.cuts[0], self.family.cuts[-1]
            if math.isinf(start) and math.isfinite(end) and math.isfinite(first):
                best = smallest(best, self.family.renyi_left(ball(end), d, self.order))
            if math.isinf(end) and math.isfinite(start) and math.isfinite(last):
                best = smallest(best, self.family.renyi_right(ball(start), d, self.order))
            return best
        best = top_renyi(most, self.order) if (most := self._most(d)).is_finite() else INFINITY
        best = smallest(best, self._in_middle(start, end, d))
        if self._lattice is not None:
            off = self._off(start, end, self.order * d)
            if off is not None:
                best = smallest(best, self._lattice_top(d).value + 2 * off * self.order / (self.order - 1))
        blended = down(ball(start) - (self.order - 1) * d)
        elsewhere, rate = self._part(blended, up(ball(end) + d))
        if elsewhere < 1:
            inside = free if rate is None else top_renyi(rate * d / 2, self.order)
            best = smallest(best, inside + elsewhere.log1p() * self.order / (self.order - 1))
        if isinstance(self.family, Truncated) and not elsewhere.is_zero():
            kept = self.family.kept_at_least(start, end)
            if kept > 0.5:
                best = smallest(best, free - kept.log() * self.order / (self.order - 1))
        if math.isinf(start) or math.isinf(end):
            tail = self._tail(start, end, d, self.order)
            best = tail if tail.is_finite() and not tail > best else best
        return best

    def _formula(self, p: Floats, q: Floats) -> Floats:
        values: Floats = renyi_formula(self._noise, self._shape, p, q, float(self.order))
        return values

    def _middle_top(self, kind: Pair, points: tuple[float, ...], line: Line, off: Ball) -> Ball:
        window = Renyi(self._noise, Shape(points=points, normalised=True), up(self.order), kind)
        return enclose([Task(window, line)]).upper + 2 * off * self.order / (self.order - 1)

    def _lattice_top(self, d: Ball) -> Ceiling:
        """The largest value on the endless lattice of which the grid is a part."""
        key = str(d)
        if key not in self._tops:
            assert self._lattice is not None
            self._tops[key] = renyi_ceiling(self._lattice.step, self.family.noise.scale, self.order, d)
        return self._tops[key]

    def _rounded_top(self, start: float, end: float, d: Ball, free: Ball) -> Ball:
        """For rounding to a long regular grid: the supremum over one step of the endless grid, of which it is a part.

        Rounding to the endless grid and collecting what lies beyond the ends is rounding to the grid itself. Noise cut
        at a limit lacks a mass t on either side: an end of the grid adds at most (1 - t/Q)^(1-order) times as much,
        with Q what it collects without the cut, and all is divided by 1 - 2t.
        """
        key = str(d)
        if key not in self._rounded:
            self._rounded[key] = self._endless(self._noise.untruncated, d)
        top = self._rounded[key]
        if not self._noise.limited or not top.is_finite():
            return smallest(free, top)
        if math.isinf(start) or math.isinf(end):
            return free
        exact, cuts = self.family.noise.untruncated, self.family.cuts
        cut = exact.cdf(-self.family.noise.limit)
        lowest = exact.cdf(ball(cuts[0][0]) - ball(end) - d)
        highest = exact.sf(ball(cuts[-1][1]) - ball(start) - d)
        lacking = cut / smallest(lowest, highest)
        if not lacking < 1:
            return free
        return smallest(free, top - (1 - lacking).log() - (1 - 2 * cut).log() / (self.order - 1))

    def _endless(self, noise: Noise, d: Ball) -> Ball:
        """The supremum on the endless grid; `inf` where it is not worth its cost."""
        if len(self._cells) < _LONG or noise.curve is Curve.OTHER:
            return INFINITY
        if noise.gaussian:
            found = rounded_top(noise, self._cells, self.order, d)
            if found.sharp:
                return found.value
        step, off = _regular_step(self._cells)
        if off > (0 if noise.gaussian else ROUNDED * Fraction(step)):
            return INFINITY
        if noise.gaussian:  # all that counts is around where the two densities blend
            centre = down((1 - self.order) * d)
            low, high = centre - _WINDOW * noise.scale, centre + _WINDOW * noise.scale
        else:  # outside the pair the ratio is constant
            low, high = -step, up(d) + step
        first, last = math.floor(low / step) - 1, math.ceil(high / step) + 2
        cuts = [step * k for k in range(first, last + 1)]
        off += max(abs(Fraction(cut) - Fraction(step) * k) for k, cut in enumerate(cuts, start=first))
        if (off and noise.gaussian) or len(cuts) > 4 * len(self._cells):
            return INFINITY
        cells = ((-math.inf, cuts[0]), *itertools.pairwise(cuts), (cuts[-1], math.inf))
        period = _Endless(noise, Shape(points=tuple(c[0] for c in cells), cells=cells), self.order)
        top = ball(enclose([Task(period, Line(0.0, step, up(d), up(d) - down(d)))]).upper)
        # A cell has at least b (1 - e^{-w/b}) times the density at its end, so that a cut that moves by `off` moves the
        # logarithm of its mass by no more than off over that; w is more than half a step, and a cell has two cuts.
        rate = -1 / (noise.scale * (-ball(0.5 * step) / noise.scale).expm1())
        moved = 2 * ball(rounded_up(off)) * rate
        return top + moved * (2 * self.order - 1) / (self.order - 1)


class _Endless(_Common):
    """Renyi divergence after rounding to an endless grid, from a window of it."""

    def __init__(self, noise: Noise, shape: Shape, order: Ball) -> None:
        super().__init__(noise, shape)
        self.order = order

    def value(self, p: Ball, d: Ball) -> Ball:
        value: Ball = self.family.renyi(p, d, self.order, open_ends=True)
        return value

    def ceiling(self, start: float, end: float, d: Ball) -> Ball:
        return self.free.renyi(ball(0.0), d, self.order)


class Loss(_Common):
    """The pure epsilon: the supremum of the log-ratio.

    On a grid with Laplace noise Z is A e^{-p/b} + B e^{p/b} between two kinks, so the slope of log Z(p+d)/Z(p) is a
    difference of two hyperbolic tangents of p/b plus constants: it has one sign, and the supremum is at a kink.
    """

    def __init__(self, noise: Noise, shape: Shape, kind: Pair | None = None) -> None:
        super().__init__(noise, shape, kind)
        self.monotone = self._laplace and bool(shape.points)

    def _middle_top(self, kind: Pair, points: tuple[float, ...], line: Line, off: Ball) -> Ball:
        return enclose([Task(Loss(self._noise, Shape(points=points, normalised=True), kind), line)]).upper + 4 * off

    def value(self, p: Ball, d: Ball) -> Ball:
        value: Ball = self.family.loss(p, d)
        return value

    def seeds(self, line: Line) -> list[float]:
        """On a union also every kink: most maxima are at one of them (see `_by_shape`)."""
        kinks = self.kinks(line) if self._between_ends else []
        return [*super().seeds(line), *kinks]

    def ceiling(self, start: float, end: float, d: Ball) -> Ball:
        """Z <= 1 at the right one, so the loss is at most the unbounded one plus log 1/Z at the left one."""
        best = top_loss(self._most(d))
        best = smallest(best, self._by_shape(start, end, d), self._in_middle(start, end, d))
        if isinstance(self.family, Truncated):
            kept = self.family.kept_at_least(start, end)
            if kept > 0:
                best = smallest(best, self.free.loss(ball(0.0), d) - kept.log())
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


def _long_lattice(kind: Pair, noise: Noise, shape: Shape) -> Lattice | None:
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
    if len(places) < _LONG:
        return None
    step, off = spacing(places)
    margin = math.ceil(_FADED * float(scale) / float(step))
    reach = math.ceil(up(d) / float(step)) + 2
    count = 2 * margin + reach
    if off > ROUNDED or len(places) < 2 * margin + 2 * reach + _LONG:
        return None
    first = (len(places) - count) // 2
    return _Window(
        places[first : first + count],
        places[first + margin],
        math.nextafter(places[first + margin + 1], math.inf),
        (places[margin + 1], places[len(places) - margin - reach]),
        ball(2.0 * float(off) * float(step)) / scale,
    )


def _regular_step(cells: tuple[tuple[float, float], ...]) -> tuple[float, Fraction]:
    """The mean distance of the cuts of a grid, and the farthest that a cut is off its place."""
    cuts = [Fraction(high) for _, high in cells[:-1]]
    step = float((cuts[-1] - cuts[0]) / (len(cuts) - 1))
    return step, max(abs(cut - cuts[0] - k * Fraction(step)) for k, cut in enumerate(cuts))


def _lonely_places(noise: Noise, shape: Shape) -> list[float]:
    """For Gaussian noise: places beyond the reach of an end of a wide span or gap, and points far from each other."""
    reach = _REACH * noise.scale
    if len(shape.spans) > _GAPS or len(shape.points) > 4 * _GAPS:
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
