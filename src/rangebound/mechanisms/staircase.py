"""Staircase noise on a lattice: the least noise that is added to a number under pure privacy, drawn exactly.

Its density falls in stairs: flat over a plateau, then lower by a factor e^epsilon for each sensitivity [geng2016]. True
answers are rounded to a lattice first, which costs no privacy if ties always go the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import overload

import numpy as np
import numpy.typing as npt
from flint import arb, fmpq

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.laws.error import Error
from rangebound.laws.lattice_law import LatticeLaw
from rangebound.laws.stair_sums import StairSums, best_plateau, worst_mass
from rangebound.privacy.claim import Claim
from rangebound.privacy.risk import MechanismRisk, PairProfile, mirrored
from rangebound.sampling.entropy import secure_bits
from rangebound.sampling.geometric_magnitude import magnitude
from rangebound.values import arguments
from rangebound.values.array_types import Floats, Many, One
from rangebound.values.ball import ZERO, Ball, ball, refine, up
from rangebound.values.numeric import rounded_down, rounded_up
from rangebound.values.query import Query
from rangebound.values.serial import support_from_dict, support_to_dict
from rangebound.values.support import Grid, Interval, is_line, nearest

Bits = Callable[[int], int]

_LARGEST = 1e150  # so that every draw is a double
_MOST_STEPS = 1 << 16  # to a sensitivity: sums over one period are arrays of this length
_CLOSE = Fraction(1, 10**9)  # of a step: five steps of 0.01 are meant to be 0.05, however the doubles were rounded
_LEAST = 1e-20  # probability that a law leaves out on an unbounded lattice
_MOST_POINTS = 1 << 22
_CELLS = 100_000  # more cells than this are not looked at one by one
_NODE = 0.5 / math.sqrt(3.0)  # the two nodes of Gauss and Legendre, exact for a parabola


@arguments.guided
@dataclass(frozen=True, kw_only=True)
class Staircase(MechanismRisk):
    """The answer of a query, rounded to a lattice of `step`, plus staircase noise, clamped to the ends of `support`.

    With k the number of steps to a sensitivity, X whole steps of noise are added, where P(X = x) is proportional to
    e^(-epsilon level) and level = floor((|x| + k - plateau) / k): flat for |x| < plateau, then a stair for each
    sensitivity. epsilon is sensitivity / scale. With k = 1 it is discrete Laplace noise.

    The support defaults to the query's range; a `Grid` of the same step names the points that are published. A true
    answer outside the query's range is clipped to it. The lattice is counted from the lower end of the support (from
    the upper end where that is infinite, from 0 where both are).

    `claim` is what `calibrated` or `choose` made it for, or None, as for a `Mechanism`.

    Guarantee: (sensitivity / scale)-private, in pure form [geng2016]: two answers within the sensitivity go to lattice
    points at most k = ceil(sensitivity / step) apart (answers on a grid of this step: floor), and clamping is
    post-processing. All privacy numbers are those
    of two answers k steps apart, exact and rounded to the safe side.
    Assumes: the query's sensitivity is true.
    Edge cases: a step that divides the sensitivity up to 1e-9 is taken to divide it: cells are sensitivity / k wide.
    A support that does not contain the query's range is refused.

    >>> import rangebound as rb
    >>> query = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    >>> m = rb.Staircase.calibrated(query=query, epsilon=2.0)
    >>> m.epsilon(), m.steps, m.plateau, round(m.worst_error().mae, 4)
    (2.0, 128, 35, 0.4255)
    >>> 0.0 <= m.release(4.2) <= 10.0
    True
    """

    scale: float
    query: Query
    step: float
    plateau: int
    support: Interval | Grid | None = None
    claim: Claim | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", arguments.positive("scale", self.scale))
        object.__setattr__(self, "step", arguments.positive("step", self.step))
        arguments.instance("query", self.query, Query, "a Query")
        if self.scale > _LARGEST or not 1 / Fraction(_LARGEST) <= self.exact_epsilon <= Fraction(_LARGEST):
            raise ArgumentError(
                f"scale={self.scale!r}: must be at most {_LARGEST:g}, and so must scale / sensitivity and its inverse"
            )
        if self.support is None:
            whole = isinstance(self.query.range, Grid)
            object.__setattr__(self, "support", self.query.range if whole else self.query.range.hull)
        arguments.instance(
            "support", self.support, (Interval, Grid), "an Interval or a Grid, such as rb.Interval(0, 1)"
        )
        assert self.support is not None
        if isinstance(self.support, Grid) and self.support.step != self.step:
            raise ArgumentError(f"step={self.step}: must be that of the grid, {self.support.step}")
        inner, outer = self.query.range.hull, self.support.hull
        if inner.lower < outer.lower or inner.upper > outer.upper:
            raise ArgumentError(f"support={self.support}: must contain the range of the query, {self.query.range}")
        if isinstance(self.plateau, bool) or not isinstance(self.plateau, int):
            raise ArgumentTypeError(f"plateau={arguments.shown(self.plateau)}: must be a whole number (int) of steps")
        if self.steps > _MOST_STEPS:
            raise ArgumentError(f"step={self.step}: must be at least sensitivity / {_MOST_STEPS}")
        if not 1 <= self.plateau <= self.steps:
            raise ArgumentError(
                f"plateau={arguments.shown(self.plateau)}: must lie between 1 and {self.steps}, "
                "the number of steps to a sensitivity"
            )

    @classmethod
    def calibrated(
        cls,
        *,
        query: Query,
        epsilon: float,
        support: Interval | Grid | None = None,
        step: float | None = None,
        objective: str = "mae",
    ) -> Staircase:
        """The mechanism with the smallest scale that is epsilon-private, and the plateau of the smallest error.

        The plateau has the smallest mean absolute (`objective="mae"`) or squared (`"mse"`) error on the line. Without
        a step, it is that of the grid, or a power of two to a sensitivity, such that the plateau has at least 16 steps.

        Guarantee: sensitivity / scale <= epsilon, exactly; the next smaller double does not have that.

        >>> from rangebound.values.support import Interval
        >>> count = Query(range=Interval(0, 100), sensitivity=1.0)
        >>> Staircase.calibrated(query=count, epsilon=0.5, step=1.0).scale
        2.0
        """
        arguments.instance("query", query, Query, "a Query")
        if objective not in ("mae", "mse"):
            raise ArgumentError(f'objective={arguments.shown(objective)}: must be "mae" or "mse"')
        target = arguments.positive("epsilon", epsilon)
        scale = rounded_up(Fraction(query.sensitivity) / Fraction(target))
        grid = query.range if support is None else support
        if step is None:
            step = grid.step if isinstance(grid, Grid) else query.sensitivity / _usual_steps(target)
        first = cls(scale=scale, query=query, step=step, plateau=1, support=support)
        plateau = best_plateau(first.steps, first._rate, objective == "mse")
        made = cls(scale=scale, query=query, step=step, plateau=plateau, support=support)
        return made.with_claim(Claim(epsilon=target))

    @cached_property
    def _pace(self) -> tuple[int, Fraction]:
        """The steps that two neighbouring answers can be apart, at most, and the width of a cell."""
        exact = Fraction(self.query.sensitivity) / Fraction(self.step)
        near = max(round(exact), 1)
        if abs(exact - near) <= _CLOSE * near:
            return near, Fraction(self.query.sensitivity) / near
        on_points = isinstance(self.query.range, Grid) and self.support == self.query.range
        return max(math.floor(exact), 1) if on_points else math.ceil(exact), Fraction(self.step)

    @property
    def steps(self) -> int:
        """How many steps of the lattice two answers within the sensitivity can be apart, at most."""
        return self._pace[0]

    @property
    def width(self) -> Fraction:
        """The width of a cell: all answers in it go to one lattice point."""
        return self._pace[1]

    @cached_property
    def _anchor(self) -> Fraction:
        assert self.support is not None
        ends = (self.support.hull.lower, self.support.hull.upper, 0.0)
        return Fraction(next(end for end in ends if math.isfinite(end)))

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """The first and the last number of a lattice point that is published, or infinity; the last may be clamped."""
        assert self.support is not None
        lower, upper = self.support.hull.lower, self.support.hull.upper
        if isinstance(self.support, Grid):
            return 0.0, float(len(self.support.points) - 1)
        if not math.isfinite(lower):
            return -math.inf, 0.0 if math.isfinite(upper) else math.inf
        if not math.isfinite(upper):
            return 0.0, math.inf
        count = (Fraction(upper) - Fraction(lower)) / Fraction(self.step)
        near = round(count)
        return 0.0, float(near if near and abs(count - near) <= _CLOSE * near else math.ceil(count))

    @cached_property
    def exact_epsilon(self) -> Fraction:
        """The pure epsilon, sensitivity / scale."""
        return Fraction(self.query.sensitivity) / Fraction(self.scale)

    @property
    def _rate(self) -> float:
        return float(self.exact_epsilon)

    @cached_property
    def sums(self) -> StairSums:
        """Masses and tails of the noise, in steps."""
        return StairSums(self.steps, self.plateau, self._rate)

    def epsilon(self, delta: float = 0.0) -> float:
        """The smallest epsilon that holds with this delta for all neighbouring datasets.

        It is ln(1 - delta / M) + sensitivity / scale, M as for `delta`.

        Guarantee: never below the true value, and less than 1e-12 relative above it.
        Edge cases: sensitivity / scale without a delta; 0 where the delta is at least the total variation distance.

        >>> from rangebound.values.support import Interval
        >>> m = Staircase.calibrated(query=Query(range=Interval(0, 10), sensitivity=1.0), epsilon=1.0)
        >>> m.epsilon(), round(m.epsilon(delta=0.1), 4)
        (1.0, 0.846)
        """
        delta = arguments.probability("delta", delta)
        if delta == 0.0:
            return rounded_up(self.exact_epsilon)
        if self.delta(0.0) <= delta:
            return 0.0

        def root() -> Ball:
            rate = _exact(self.exact_epsilon)
            return rate + (-arb(delta) / worst_mass(self.steps, self.plateau, rate)).log1p()

        return max(up(refine(root)), 0.0)

    def delta(self, epsilon: float) -> float:
        """The privacy profile: the smallest delta that holds with this epsilon for all neighbouring datasets.

        delta(epsilon) = M (1 - e^(epsilon - sensitivity / scale)), where M is the probability of a privacy loss of
        sensitivity / scale: the loss of the worst pair is that, its negative, or zero.

        Guarantee: never below the true value, and less than 1e-12 relative above it.
        Edge cases: 0 from the pure epsilon on.

        >>> from rangebound.values.support import Interval
        >>> m = Staircase.calibrated(query=Query(range=Interval(0, 10), sensitivity=1.0), epsilon=1.0)
        >>> round(m.delta(0.5), 6), m.delta(1.0)
        (0.274313, 0.0)
        """
        level = arguments.nonnegative("epsilon", epsilon)
        if Fraction(level) >= self.exact_epsilon if math.isfinite(level) else True:
            return 0.0
        return min(up(refine(lambda: self.profile(arb(level)))), 1.0)

    def profile(self, epsilon: Ball) -> Ball:
        """The privacy profile as a ball, for an epsilon between 0 and sensitivity / scale."""
        rate = _exact(self.exact_epsilon)
        return -worst_mass(self.steps, self.plateau, rate) * (epsilon - rate).expm1()

    @overload
    def rdp(self, alpha: float) -> float: ...

    @overload
    def rdp(self, alpha: Sequence[float] | Floats) -> Floats: ...

    def rdp(self, alpha: float | Sequence[float] | Floats) -> float | Floats:
        """The Renyi curve: the largest divergence of order `alpha` (one or an array) over all neighbouring datasets.

        With M as for `delta` and epsilon = sensitivity / scale, it is
        ln(1 + M (e^((alpha - 1) epsilon) - 1) + M e^-epsilon (e^(-(alpha - 1) epsilon) - 1)) / (alpha - 1).

        Guarantee: never below the true value, and less than 1e-12 relative above it.
        Edge cases: order inf is the pure epsilon; orders of 1 and below are refused.

        >>> from rangebound.values.support import Interval
        >>> m = Staircase.calibrated(query=Query(range=Interval(0, 10), sensitivity=1.0), epsilon=1.0)
        >>> m.rdp([2.0, 8.0]).round(4).tolist()
        [0.7109, 0.9485]
        """
        return arguments.at_orders(alpha, self._divergence)

    def _divergence(self, order: float) -> float:
        """The largest divergence of one order."""
        if math.isinf(order):
            return self.epsilon()

        def divergence() -> Ball:
            rate, more = _exact(self.exact_epsilon), arb(order) - 1
            mass = worst_mass(self.steps, self.plateau, rate)
            moment = mass * (more * rate).expm1() + mass * (-rate).exp() * (-more * rate).expm1()
            return moment.log1p() / more

        return min(up(refine(divergence)), self.epsilon())

    def _attack_pairs(self, epsilon: float) -> tuple[PairProfile, ...]:
        if self.worst_pair() is None:
            return ()
        pure = self.exact_epsilon
        return (mirrored(lambda x: self.profile(ball(x)) if x < pure else ZERO),)

    def _attack_pure_below(self) -> float:
        return 0.0 if self.worst_pair() is None else rounded_down(self.exact_epsilon)

    def worst_pair(self) -> tuple[float, float] | None:
        """Two neighbouring true answers with the largest privacy loss: their lattice points are `steps` steps apart.

        Edge cases: None where the range has no such answers, because of its gaps; then no pair may attain the privacy
        numbers, which still hold.

        >>> from rangebound.values.support import Interval
        >>> Staircase(scale=1.0, query=Query(range=Interval(0, 10), sensitivity=1.0), step=0.25, plateau=1).worst_pair()
        (0.0, 1.0)
        """
        pairs = self._grid_pairs() if isinstance(self.query.range, Grid) else self._far_pairs()
        return next((pair for pair in pairs if self._index(pair[1]) - self._index(pair[0]) == self.steps), None)

    def _grid_pairs(self) -> Iterator[tuple[float, float]]:
        """Points of the range that are as far apart as neighbours are."""
        assert isinstance(self.query.range, Grid)
        points, step = self.query.range.points.tolist(), self.query.range.step
        count = math.floor(Fraction(self.query.sensitivity) / Fraction(step) * (1 + _CLOSE))
        yield from zip(points, points[count:], strict=False)

    def _far_pairs(self) -> Iterator[tuple[float, float]]:
        """Answers one sensitivity apart that begin or end where a span does, or begin just below the end of a cell."""
        apart = self.query.sensitivity
        ends = [end for span in self.query.range.spans for end in span if math.isfinite(end)] or [0.0]
        starts = [low for end in ends for low in (end, end - apart)]
        tops = [
            self._anchor + (self._index(low) + Fraction(side, 2)) * self.width for low in starts for side in (-1, 1)
        ]
        for low in (*starts, *(_just_below(rounded_down(top)) for top in tops)):
            pair = low, rounded_down(Fraction(low) + Fraction(apart))
            if self.query.clip(pair).tolist() == list(pair):
                yield pair

    def is_private(self, epsilon: float) -> bool:
        """Whether it is epsilon-private, exactly.

        >>> from rangebound.values.support import Interval
        >>> m = Staircase.calibrated(query=Query(range=Interval(0, 10), sensitivity=1.0), epsilon=1.0)
        >>> m.is_private(1.0), m.is_private(0.99)
        (True, False)
        """
        return self.exact_epsilon <= Fraction(arguments.nonnegative("epsilon", epsilon))

    def _index(self, answer: float) -> int:
        """The lattice point that a true answer goes to: the nearest, a tie to the upper one, in exact arithmetic."""
        top, under = answer.as_integer_ratio()
        anchor, width = self._anchor, self.width
        away = (top * anchor.denominator - anchor.numerator * under) * width.denominator
        cell = under * anchor.denominator * width.numerator
        return (2 * away + cell) // (2 * cell)  # whole numbers, which are ten times as fast as fractions

    def _label(self, index: int) -> float:
        """The number that is published for a lattice point: clamped, and rounded to a double at the end."""
        assert self.support is not None
        first, last = self._ends
        if isinstance(self.support, Grid):
            return float(self.support.points[int(min(max(index, first), last))])
        if index <= first:
            return self.support.lower
        if index >= last:
            return self.support.upper
        top, under = self.step.as_integer_ratio()
        anchor = self._anchor
        return (anchor.numerator * under + index * top * anchor.denominator) / (anchor.denominator * under)

    def law(self, answer: npt.ArrayLike) -> LatticeLaw:
        """The distribution of the published number when the true answer is `answer` (a number or an array).

        Guarantee: it is the law that `release` draws from, its probabilities in doubles.
        Edge cases: an answer outside the query's range is clipped to it. Points farther off than noise that has a
        probability below 1e-20 are left out.

        >>> from rangebound.values.support import Interval
        >>> m = Staircase(scale=1.0, query=Query(range=Interval(0, 1), sensitivity=1.0), step=0.5, plateau=1)
        >>> [each.round(4).tolist() for each in m.law(0.0).atoms]
        [[0.0, 0.5, 1.0], [0.6502, 0.1105, 0.2392]]
        """
        true = self.query.clip(answer)
        index = [self._index(each) for each in true.reshape(-1).tolist()]
        far = int(self._reach(_LEAST))
        first, last = self._ends
        low = int(max(min(index, default=0) - far, first))
        high = int(min(max(index, default=0) + far, last))
        if high - low > _MOST_POINTS:
            raise ArgumentError(f"step={self.step}: its law has more than {_MOST_POINTS} points; ask `pmf` for some")
        points = np.asarray([self._label(each) for each in range(low, high + 1)])
        # Counted from the first point, so that large numbers of lattice points lose no digit.
        at = np.asarray([float(each - low) for each in index]).reshape(-1, 1)
        chances = self._masses(np.arange(high - low + 1.0), at, first - low, last - low)
        return LatticeLaw(points, chances.reshape(*true.shape, len(points)))

    @overload
    def fisher(self, answer: One) -> float: ...

    @overload
    def fisher(self, answer: Many) -> Floats: ...

    def fisher(self, answer: npt.ArrayLike) -> float | Floats:
        """Information of the published number about the true answer, at `answer` (one or an array).

        A law on a lattice has no slope in the true answer, so it is that of Hammersley, Chapman and Robbins:
        chi^2 / D^2, where chi^2 is the divergence from the law at an answer one sensitivity D away. An unbiased
        estimate of an answer on the lattice has a variance of at least its inverse; off it there is no such estimate.

        Guarantee: rounded up; clamping only makes it smaller.
        Assumes: nothing about the data; it is about one answer, private itself, and no guarantee for anyone.

        >>> from rangebound.values.support import Interval
        >>> m = Staircase.calibrated(query=Query(range=Interval(0, 10), sensitivity=1.0), epsilon=1.0)
        >>> round(m.fisher(5.0), 4)
        1.0358
        """

        def information() -> Ball:
            rate = _exact(self.exact_epsilon)
            mass = worst_mass(self.steps, self.plateau, rate)
            moment = mass * rate.expm1() + mass * (-rate).exp() * (-rate).expm1()
            return moment / arb(self.query.sensitivity) ** 2

        shape, found = self.query.clip(answer).shape, up(refine(information))
        return np.full(shape, found) if shape else found

    def pmf(self, value: float, answer: float) -> float:
        """The probability that `value` is published where the true answer is `answer`.

        >>> from rangebound.values.support import Interval
        >>> m = Staircase(scale=1.0, query=Query(range=Interval(0, 10), sensitivity=1.0), step=0.25, plateau=1)
        >>> round(m.pmf(5.0, 5.1), 6), round(m.pmf(0.0, 0.0), 6), m.pmf(0.1, 0.0)
        (0.176809, 0.588405, 0.0)
        """
        published = arguments.finite("value", value)
        place = round((Fraction(published) - self._anchor) / Fraction(self.step))
        first, last = self._ends
        assert self.support is not None
        if not isinstance(self.support, Grid) and published == self.support.upper:
            place = int(last)
        if not first <= place <= last or self._label(place) != published:
            return 0.0
        return float(
            self._masses(np.asarray(float(place)), np.asarray(self._index_of(self._clipped(answer))), first, last)
        )

    def _clipped(self, answer: object) -> float:
        true = self.query.clip(answer)  # type: ignore[arg-type]
        if true.ndim:
            raise ArgumentTypeError(f"answer of type {type(answer).__name__}: must be one number")
        return float(true)

    def _index_of(self, answer: float) -> float:
        """The lattice point of an answer as a double, for sums in doubles."""
        return float(self._index(answer))

    def _masses(self, places: Floats, at: Floats, first: float, last: float) -> Floats:
        """The probability of lattice points from first to last, the ends with all that fell beyond them."""
        away = places - at
        inner = self.sums.mass(away)
        up_to = self._below(np.where(np.isfinite(away), away, 0.0))
        beyond = self._below(np.where(np.isfinite(away), -away, 0.0))
        found: Floats = np.where(places <= first, up_to, np.where(places >= last, beyond, inner))
        return found

    def _below(self, place: Floats) -> Floats:
        """P(X <= place)."""
        return np.where(
            place >= 0.0,
            1.0 - self.sums.tail(np.maximum(place, 0.0) + 1.0),
            self.sums.tail(np.maximum(-place, 0.0)),
        )

    @overload
    def error(self, answer: One) -> Error[float]: ...

    @overload
    def error(self, answer: Many) -> Error[Floats]: ...

    def error(self, answer: npt.ArrayLike) -> Error[float] | Error[Floats]:
        """Bias, mean absolute and mean squared error of the published number at a true answer (one or an array).

        Edge cases: an answer outside the query's range is clipped to it, and the errors are those of the clipped one.

        >>> from rangebound.values.support import Interval
        >>> m = Staircase.calibrated(query=Query(range=Interval(0, 10), sensitivity=1.0), epsilon=1.0)
        >>> round(m.error(0.0).mae, 4), round(m.error(5.0).mae, 4)
        (0.4797, 0.953)
        """
        true = self.query.clip(answer)
        index = np.asarray([self._index_of(each) for each in true.reshape(-1).tolist()]).reshape(true.shape)
        found = self._errors(true, index)
        if true.ndim == 0:
            return Error(bias=float(found.bias), mae=float(found.mae), mse=float(found.mse))
        return found

    def _errors(self, true: Floats, index: Floats) -> Error[Floats]:
        """The errors at answers that go to the lattice points of these numbers.

        Of the noise beyond an end only the distance to the end counts: E min(X+, room) and its like. `short` is what
        the last lattice point lies beyond the upper end of the support.
        """
        first, last = self._ends
        off = (true - self._position(index)) / self.step
        above, below = self.sums.first(last - index), self.sums.first(index - first)
        up_chance = np.where(index < last, float(self.sums.tail(np.asarray(1.0))), 0.0)
        down_chance = np.where(index > first, float(self.sums.tail(np.asarray(1.0))), 0.0)
        bias = above - below - off
        mae = above + below + off * (down_chance - up_chance) + np.abs(off) * (1.0 - up_chance - down_chance)
        mse = self.sums.second(last - index) + self.sums.second(index - first) - 2.0 * off * (above - below) + off**2
        short = self._short
        if short:
            clamped = np.where(index < last, self.sums.tail(np.maximum(last - index, 0.0)), 1.0 - down_chance)
            bias = bias - short * clamped
            mae = mae - short * clamped
            mse = mse + clamped * (short**2 - 2.0 * short * (last - index - off))
        return Error(bias=bias * self.step, mae=mae * self.step, mse=np.maximum(mse, 0.0) * self.step**2)

    def _position(self, index: Floats) -> Floats:
        return float(self._anchor) + index * self.step

    @cached_property
    def _short(self) -> float:
        """How far the last lattice point lies beyond the upper end, in steps; 0 unless the support ends off it."""
        last = self._ends[1]
        if isinstance(self.support, Grid) or not math.isfinite(last) or last == 0.0:
            return 0.0
        assert self.support is not None
        over = last - float((Fraction(self.support.upper) - self._anchor) / Fraction(self.step))
        return over if over > float(_CLOSE) * last else 0.0

    def worst_error(self) -> Error[float]:
        """The largest bias, mean absolute and mean squared error over the query's range, each on its own.

        Inside a cell the errors are convex in the true answer, so they are largest at its ends.

        Guarantee: approached at some answer of the range, rounding included; where there are over 100,000 cells they
        are looked at near the ends, in the middle and at equal distances between.
        Edge cases: infinite nowhere: the support contains the range.

        >>> from rangebound.values.support import Interval
        >>> m = Staircase.calibrated(query=Query(range=Interval(0, 10), sensitivity=1.0), epsilon=1.0)
        >>> round(m.worst_error().mae, 4)
        0.9531
        """
        true, index = self._extremes()
        found = self._errors(true, index)
        return Error(bias=float(np.abs(found.bias).max()), mae=float(found.mae.max()), mse=float(found.mse.max()))

    def average_error(self) -> Error[float]:
        """The errors averaged over a true answer that is uniform on the query's range.

        Edge cases: a range that is not bounded has no such average and is refused; the bias is the average of its
        absolute value.

        >>> from rangebound.values.support import Interval
        >>> m = Staircase.calibrated(query=Query(range=Interval(0, 10), sensitivity=1.0), epsilon=1.0)
        >>> round(m.average_error().mae, 4)
        0.8635
        """
        if not self.query.range.bounded:
            raise ArgumentError(f"range={self.query.range}: must be bounded for an average over it")
        true, weights = self._nodes()
        index = np.floor((true - float(self._anchor)) / float(self.width) + 0.5)
        found = self._errors(true, index)
        total = 2.0 * weights.sum()
        return Error(
            bias=float((_absolute(found.bias) * weights).sum() / total),
            mae=float((found.mae * weights).sum() / total),
            mse=float((found.mse * weights).sum() / total),
        )

    def _spans(self) -> list[tuple[float, float]]:
        """The spans of the range, an infinite end where nothing changes any more."""
        far = float(self.width) * self.steps * (60.0 / self._rate + 4.0)
        near = [end for span in self.query.range.spans for end in span if math.isfinite(end)] or [0.0]
        least, most = min(near) - far, max(near) + far
        return [
            (least if math.isinf(lower) else lower, most if math.isinf(upper) else upper)
            for lower, upper in self.query.range.spans
        ]

    def _numbers(self, start: float, end: float) -> Floats:
        """Whole numbers from start to end: all of them, or those near the ends, in the middle and a few between."""
        if end - start < _CELLS:
            return np.arange(start, end + 1.0)
        near = np.arange(_CELLS // 4)
        middle = np.floor((start + end) / 2.0) + np.arange(-100.0, 101.0)
        between = np.floor(np.linspace(start, end, _CELLS // 4))
        return np.unique(np.concatenate([start + near, middle, between, end - near]))

    def _extremes(self) -> tuple[Floats, Floats]:
        """Ends of the cells inside the range, each once for the cell below and once for the cell above."""
        anchor, width = float(self._anchor), float(self.width)
        if isinstance(self.query.range, Grid):
            points = self.query.range.points
            return points, np.floor((points - anchor) / width + 0.5)
        places, numbers = [], []
        for lower, upper in self._spans():
            first, last = (math.floor((end - anchor) / width + 0.5) for end in (lower, upper))
            cells = self._numbers(float(first), float(last))
            for side in (-0.5, 0.5):
                places.append(np.clip(anchor + (cells + side) * width, lower, upper))
                numbers.append(cells)
        return np.concatenate(places), np.concatenate(numbers)

    def _nodes(self) -> tuple[Floats, Floats]:
        """Pairs of nodes, on the first axis, and weights of a sum over the range, exact in every half of a cell."""
        if isinstance(self.query.range, Grid):
            return np.tile(self.query.range.points, (2, 1)), np.ones(len(self.query.range.points))
        anchor, half = float(self._anchor), float(self.width) / 2.0
        places, weights = [], []
        for lower, upper in self.query.range.spans:
            first, last = (math.floor((end - anchor) / half) for end in (lower, upper))
            halves = self._numbers(float(first), float(last))
            shares = np.append(np.diff(halves), 1.0)  # each stands for those up to the next one
            start = np.clip(anchor + halves * half, lower, upper)
            end = np.clip(anchor + (halves + 1.0) * half, lower, upper)
            places.append(np.stack([start + node * (end - start) for node in (0.5 - _NODE, 0.5 + _NODE)]))
            weights.append((end - start) * shares)
        return np.concatenate(places, axis=1), np.concatenate(weights)

    def release(self, answer: npt.ArrayLike) -> float | Floats:
        """Publish: one draw for each true answer, a number for a number and an array for an array.

        Guarantee: distributed exactly as the law. The random bits come from the operating system; no call takes a seed.
        Assumes: each true answer is published once: a second draw is a second release.
        Edge cases: an answer outside the query's range is clipped to it; NaN and infinities are refused before anything
        is drawn.

        >>> from rangebound.values.support import Interval
        >>> m = Staircase.calibrated(query=Query(range=Interval(0, 10), sensitivity=1.0), epsilon=1.0, step=0.25)
        >>> bool(((m.release([0.0, 4.2, 10.0]) * 4) % 1 == 0).all())
        True
        """
        published = draw(self, self.query.clip(answer), secure_bits)
        return published if published.ndim else published.item()

    def confidence_interval(
        self, published: npt.ArrayLike, level: float = 0.95
    ) -> tuple[float, float] | tuple[Floats, Floats]:
        """An interval for the true answer, given the published number (or a pair of arrays, given an array).

        Guarantee: covers each true answer of the query's range with probability at least `level`; inside the range.

        >>> from rangebound.values.support import Interval
        >>> m = Staircase.calibrated(query=Query(range=Interval(0, 10), sensitivity=1.0), epsilon=1.0, step=0.25)
        >>> m.confidence_interval(1.0)
        (0.0, 4.125)
        """
        numbers = arguments.reals("published", published)
        share = 1.0 - arguments.probability("level", level)
        # Cells may be a billionth wider or narrower than steps, and one number may be many of them from the anchor.
        drift = float(abs(self.width / Fraction(self.step) - 1)) * np.abs(numbers - float(self._anchor))
        wide = (self._reach(share) * max(float(self.width), self.step) + self._rounding) * (1.0 + 1e-12) + drift
        hull = self.query.range.hull
        lower, upper = np.clip(numbers - wide, hull.lower, hull.upper), np.clip(numbers + wide, hull.lower, hull.upper)
        if isinstance(self.query.range, Grid):  # the true answer is one of its points
            lower, upper = nearest(self.query.range, lower)[1], nearest(self.query.range, upper)[0]
            lower, upper = np.minimum(lower, upper), np.maximum(lower, upper)
        return (lower, upper) if numbers.ndim else (lower.item(), upper.item())

    @cached_property
    def _rounding(self) -> float:
        """How far a true answer can be from its lattice point: half a cell, and less for the points of a grid."""
        cell = float(self.width)
        if not isinstance(self.query.range, Grid):
            return cell / 2.0
        places = (self.query.range.points - float(self._anchor)) / cell
        return min(float(np.abs(places - np.round(places)).max()) + 1e-9, 0.5) * cell

    def _reach(self, share: float) -> float:
        """The smallest m with P(|X| > m) <= share, or a little more."""
        if share <= 0.0:
            return math.inf
        low, high = 0.0, float(self.steps * math.ceil((math.log(1.0 / share) + 2.0) / self._rate + 2.0))
        while low < high:
            middle = math.floor((low + high) / 2.0)
            enough = 2.0 * float(self.sums.tail(np.asarray(middle + 1.0))) <= share * (1.0 - 1e-12)
            low, high = (low, middle) if enough else (middle + 1.0, high)
        return high

    def with_claim(self, claim: Claim | None) -> Staircase:
        """The same mechanism with another claim, or with none; a claim is proved by `rangebound.certify` alone."""
        if claim is not None:
            arguments.instance("claim", claim, Claim, "a Claim, such as rb.Claim(epsilon=1.0), or None")
        found = copy(self)
        object.__setattr__(found, "claim", claim)
        return found

    @property
    def spikes(self) -> bool:
        """Whether the ends of the support collect all that fell beyond them: everywhere but on the whole line."""
        assert self.support is not None
        return not is_line(self.support)

    def to_dict(self) -> dict[str, object]:
        """The mechanism as plain data, for JSON or TOML; its claim is there if it has one.

        >>> from rangebound.values.support import Interval
        >>> m = Staircase.calibrated(query=Query(range=Interval(0, math.inf), sensitivity=1.0), epsilon=1.0)
        >>> Staircase.from_dict(m.to_dict()) == m
        True
        """
        assert self.support is not None
        return {
            "staircase": {
                "scale": self.scale,
                "query": {"range": support_to_dict(self.query.range), "sensitivity": self.query.sensitivity},
                "step": self.step,
                "plateau": self.plateau,
                "support": support_to_dict(self.support),
            },
            **({} if self.claim is None else {"claim": self.claim.to_dict()}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Staircase:
        """The mechanism that `to_dict` wrote; a missing, unknown or invalid field is refused.

        Edge cases: a claim is read, not proved: see `rangebound.certify`.
        """
        match data:
            case {
                "staircase": {
                    "scale": scale,
                    "query": {"range": answers, "sensitivity": sensitivity, **other},
                    "step": step,
                    "plateau": plateau,
                    "support": support,
                    **more,
                },
                **rest,
            } if not (other or more or rest.keys() - {"claim"}):
                query = Query(range=support_from_dict(answers), sensitivity=sensitivity)
                within = support_from_dict(support)
                if isinstance(within, (Interval, Grid)):
                    found = cls(scale=scale, query=query, step=step, plateau=plateau, support=within)
                    return found.with_claim(Claim.from_dict(rest["claim"])) if "claim" in rest else found
        raise ArgumentError(f"data={arguments.shown(data)}: must be what Staircase.to_dict writes")


def _just_below(x: float) -> float:
    return math.nextafter(x, -math.inf)


def _absolute(values: Floats) -> Floats:
    """Twice the mean absolute value of linear functions on pieces, from their values at the two nodes of each."""
    middle, half = values.mean(axis=0), np.diff(values, axis=0)[0] / (4.0 * _NODE)
    start, end = middle - half, middle + half
    with np.errstate(invalid="ignore", divide="ignore"):
        crossing = (start**2 + end**2) / np.abs(end - start)
    found: Floats = np.where(start * end >= 0.0, 2.0 * np.abs(middle), crossing)
    return found


def draw(mechanism: Staircase, answers: Floats, bits: Bits) -> Floats:
    """One draw for each true answer, with the given random bits: whole numbers to the end."""
    scale, true = 1 / mechanism.exact_epsilon, answers.reshape(-1).tolist()
    k, first = mechanism.steps, mechanism.plateau
    drawn = [mechanism._label(mechanism._index(each) + noise(scale, k, first, bits)) for each in true]
    return np.asarray(drawn, dtype=np.float64).reshape(answers.shape)


def noise(scale: Fraction, k: int, first: int, bits: Bits) -> int:
    """Staircase noise in steps, drawn exactly: k steps to a sensitivity, `first` to the plateau, levels of `scale`.

    A level of either sign is drawn with probability proportional to e^(-epsilon |level|), and an offset from as many as
    the widest level has places. Level 0 has 2 plateau - 1 places, every other one k; an offset beyond is drawn again,
    with its level. So every place has a probability in proportion to that of its level.
    """
    while True:
        level = magnitude(scale, bits) * (1 - 2 * bits(1))
        offset = _uniform(max(k, 2 * first - 1), bits)
        if level == 0 and offset < 2 * first - 1:
            return offset - (first - 1)
        if level and offset < k:
            size = (abs(level) - 1) * k + first + offset
            return size if level > 0 else -size


def _uniform(count: int, bits: Bits) -> int:
    """A whole number below `count`, each equally likely."""
    size = (count - 1).bit_length()
    while True:
        found = bits(size) if size else 0
        if found < count:
            return found


def _usual_steps(epsilon: float) -> int:
    """A power of two from 128 on, such that the plateau has some 16 steps, of 8192 at most."""
    wanted = 16.0 * (1.0 + math.exp(min(epsilon, 12.0) / 2.0))
    return max(1 << math.ceil(math.log2(wanted)), 128)


def _exact(value: Fraction) -> Ball:
    return arb(fmpq(value.numerator, value.denominator))
