"""Staircase noise on a lattice: the least noise that is added to a number under pure privacy, drawn exactly.

Its density falls in stairs: flat over a plateau, then lower by a factor e^epsilon for each sensitivity [geng2016]. True
answers are rounded to a lattice first, which costs no privacy if ties always go the same way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Self

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.laws.error import Error
from rangebound.mechanisms.lattice_mechanism import NODES, LatticeMechanism, whole_numbers
from rangebound.mechanisms.stair_noise import StairNoise, best_plateau
from rangebound.privacy.setting import Claim
from rangebound.values import arguments
from rangebound.values.array_types import Floats, np
from rangebound.values.numeric import rounded_down, rounded_up
from rangebound.values.serial import support_from_dict, support_to_dict
from rangebound.values.support import Grid, Interval, Query, nearest

_LARGEST = 1e150  # so that every draw is a double
_MOST_STEPS = 1 << 16  # to a sensitivity: sums over one period are arrays of this length
_CLOSE = Fraction(1, 10**9)  # of a step: five steps of 0.01 are meant to be 0.05, however the doubles were rounded


@arguments.brief
@arguments.guided
@dataclass(frozen=True, kw_only=True)
class Staircase(LatticeMechanism):
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
        exact = Fraction(self.query.sensitivity) / Fraction(self.scale)
        if self.scale > _LARGEST or not 1 / Fraction(_LARGEST) <= exact <= Fraction(_LARGEST):
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
            wanted = 16.0 * (1.0 + math.exp(min(target, 12.0) / 2.0))  # the plateau then has some 16 steps
            usual = max(1 << math.ceil(math.log2(wanted)), 128)  # a power of two, of 8192 at most
            step = grid.step if isinstance(grid, Grid) else query.sensitivity / usual
        first = cls(scale=scale, query=query, step=step, plateau=1, support=support)
        plateau = best_plateau(first.steps, float(first.exact_epsilon), objective == "mse")
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
    def _stairs(self) -> StairNoise:
        exact = Fraction(self.query.sensitivity) / Fraction(self.scale)
        return StairNoise(steps=self.steps, plateau=self.plateau, levels=1, rate=exact)

    def _place(self, published: float) -> int | None:
        assert self.support is not None
        place, (first, last) = round((Fraction(published) - self._anchor) / Fraction(self.step)), self._ends
        if not isinstance(self.support, Grid) and published == self.support.upper:
            place = int(last)
        return place if first <= place <= last and self._label(place) == published else None

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
        for low in (*starts, *(math.nextafter(rounded_down(top), -math.inf) for top in tops)):
            pair = low, rounded_down(Fraction(low) + Fraction(apart))
            if self.query.clip(pair).tolist() == list(pair):
                yield pair

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

    def _errors(self, true: Floats, index: Floats) -> Error[Floats]:
        """The errors at answers that go to the lattice points of these numbers.

        Of the noise beyond an end only the distance to the end counts: E min(X+, room) and its like. `short` is what
        the last lattice point lies beyond the upper end of the support.
        """
        first, last = self._ends
        off = (true - (float(self._anchor) + index * self.step)) / self.step
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

    @cached_property
    def _short(self) -> float:
        """How far the last lattice point lies beyond the upper end, in steps; 0 unless the support ends off it."""
        last = self._ends[1]
        if isinstance(self.support, Grid) or not math.isfinite(last) or last == 0.0:
            return 0.0
        assert self.support is not None
        over = last - float((Fraction(self.support.upper) - self._anchor) / Fraction(self.step))
        return over if over > float(_CLOSE) * last else 0.0

    def _spans(self) -> list[tuple[float, float]]:
        """The spans of the range, an infinite end where nothing changes any more."""
        far = float(self.width) * self.steps * (60.0 / float(self.exact_epsilon) + 4.0)
        near = [end for span in self.query.range.spans for end in span if math.isfinite(end)] or [0.0]
        least, most = min(near) - far, max(near) + far
        return [
            (least if math.isinf(lower) else lower, most if math.isinf(upper) else upper)
            for lower, upper in self.query.range.spans
        ]

    def _extremes(self) -> tuple[Floats, Floats]:
        """Ends of the cells inside the range, each once for the cell below and once for the cell above."""
        anchor, width = float(self._anchor), float(self.width)
        if isinstance(self.query.range, Grid):
            points = self.query.range.points
            return points, self._indices(points)
        places, numbers = [], []
        for lower, upper in self._spans():
            first, last = (math.floor((end - anchor) / width + 0.5) for end in (lower, upper))
            cells = whole_numbers(float(first), float(last))
            for side in (-0.5, 0.5):
                places.append(np.clip(anchor + (cells + side) * width, lower, upper))
                numbers.append(cells)
        return np.concatenate(places), np.concatenate(numbers)

    def _nodes(self) -> tuple[Floats, Floats, Floats]:
        """Pairs of nodes, on the first axis, and weights of a sum over the range, exact in every half of a cell."""
        if not self.query.range.bounded:
            raise ArgumentError(f"range={self.query.range}: must be bounded for an average over it")
        if isinstance(self.query.range, Grid):
            true = self.query.range.points[None]
            return true, self._indices(true), np.ones(true.shape[1])
        anchor, half = float(self._anchor), float(self.width) / 2.0
        places, weights = [], []
        for lower, upper in self.query.range.spans:
            first, last = (math.floor((end - anchor) / half) for end in (lower, upper))
            halves = whole_numbers(float(first), float(last))
            shares = np.append(np.diff(halves), 1.0)  # each stands for those up to the next one
            start = np.clip(anchor + halves * half, lower, upper)
            end = np.clip(anchor + (halves + 1.0) * half, lower, upper)
            places.append(np.stack([start + node * (end - start) for node in NODES]))
            weights.append((end - start) * shares)
        true = np.concatenate(places, axis=1)
        return true, self._indices(true), np.concatenate(weights)

    def _indices(self, true: Floats) -> Floats:
        """The numbers of their points in doubles."""
        return np.floor((true - float(self._anchor)) / float(self.width) + 0.5)

    def _interval(self, numbers: Floats, level: float) -> tuple[Floats, Floats]:
        share = 1.0 - level
        # Cells may be a billionth wider or narrower than steps, and one number may be many of them from the anchor.
        drift = float(abs(self.width / Fraction(self.step) - 1)) * np.abs(numbers - float(self._anchor))
        wide = (self._reach(share) * max(float(self.width), self.step) + self._rounding) * (1.0 + 1e-12) + drift
        hull = self.query.range.hull
        lower, upper = np.clip(numbers - wide, hull.lower, hull.upper), np.clip(numbers + wide, hull.lower, hull.upper)
        if isinstance(self.query.range, Grid):  # the true answer is one of its points
            lower, upper = nearest(self.query.range, lower)[1], nearest(self.query.range, upper)[0]
            lower, upper = np.minimum(lower, upper), np.maximum(lower, upper)
        return lower, upper

    @cached_property
    def _rounding(self) -> float:
        """How far a true answer can be from its lattice point: half a cell, and less for the points of a grid."""
        cell = float(self.width)
        if not isinstance(self.query.range, Grid):
            return cell / 2.0
        places = (self.query.range.points - float(self._anchor)) / cell
        return min(float(np.abs(places - np.round(places)).max()) + 1e-9, 0.5) * cell

    @property
    def _is_mirrored(self) -> bool:
        return True  # as far as the worst pair goes, which clamping leaves as it is

    def _plain(self) -> dict[str, object]:
        assert self.support is not None
        plain = {
            "scale": self.scale,
            "query": {"range": support_to_dict(self.query.range), "sensitivity": self.query.sensitivity},
            "step": self.step,
            "plateau": self.plateau,
            "support": support_to_dict(self.support),
        }
        return {"staircase": plain}

    @classmethod
    def _from_plain(cls, data: Mapping[str, object]) -> Self | None:
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
            } if not (other or more or rest):
                query = Query(range=support_from_dict(answers), sensitivity=sensitivity)
                within = support_from_dict(support)
                if isinstance(within, (Interval, Grid)):
                    return cls(scale=scale, query=query, step=step, plateau=plateau, support=within)
        return None
