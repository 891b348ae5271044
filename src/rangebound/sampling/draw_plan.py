"""The plan of a draw: all that it needs to know, worked out once from public parameters.

A draw is noise that is given to lie in an interval, added to the location, rounded to the lattice and clamped:

| bounding | given that the number lies in | clamped to |
| --- | --- | --- |
| truncate | the support | the support |
| rectify | the line | the support |
| unbounded | the line | the doubles |

The lattice has the numbers that can be published, whatever the data. Its points are the multiples of a step inside the
support, and the ends of the support. The step is a power of two taken from the public parameters, or the user's own; a
decimal step such as 0.01 means what it says, 1/100, and each point is the double nearest to the true multiple. A number
is published as the nearest multiple, moved to the end of its span if it lies beyond.
"""

from __future__ import annotations

import enum
import math
import sys
from dataclasses import dataclass
from fractions import Fraction

from rangebound.errors import ArgumentError
from rangebound.laws.boundings import Shape
from rangebound.laws.family import Noise
from rangebound.values import arguments
from rangebound.values.array_types import np, npt
from rangebound.values.support import Interval, Union

_FINENESS = 20  # a default step is at most 2^-20 of the scale
_EXACT = 2**53


@dataclass(frozen=True, kw_only=True)
class Lattice:
    """The multiples of `numerator / denominator`, both integers; at least one is 1 or both are below 2^53."""

    numerator: int
    denominator: int

    @property
    def step(self) -> Fraction:
        """The distance of two neighbours."""
        return Fraction(self.numerator, self.denominator)

    @property
    def dyadic(self) -> bool:
        """Whether the step is a power of two, so that the place of a double among the points is exact."""
        return self.numerator & (self.numerator - 1) == 0 and self.denominator & (self.denominator - 1) == 0

    def point(self, index: int) -> float:
        """The double that stands for a multiple: the nearest one, as the kernel computes it."""
        try:
            return float(index) * float(self.numerator) / float(self.denominator) + 0.0
        except OverflowError:  # more steps than a double can count, so the kernel leaves them to us
            return (-1.0 if index < 0 else 1.0) * _quotient(abs(index) * self.numerator, self.denominator)

    def edge(self, index: int) -> Fraction:
        """Where the cell of multiple `index` ends and the next begins: half a step further."""
        return Fraction((2 * index + 1) * self.numerator, 2 * self.denominator)

    def can_give(self, value: float, span: tuple[float, float], *, collected: bool) -> bool:
        """Whether a number in a span, rounded, can become `value`: exactly, by the cells that meet the span.

        With `collected` the finite ends of the span can be had whatever the lattice: they take what falls beyond them.

        >>> thirds = Lattice(numerator=1, denominator=3)
        >>> thirds.can_give(2 / 3, (0.1, 1.0), collected=False), thirds.can_give(0.1, (0.1, 1.0), collected=False)
        (True, True)
        >>> thirds.can_give(1e300, (0.0, math.inf), collected=False)
        True
        >>> thirds.can_give(0.2, (0.2, 1.0), collected=False)  # numbers just above it are rounded to 1/3
        False
        """
        low, high = span
        if not math.isfinite(value) or not low <= value <= high or repr(value) == "-0.0":
            return False
        if collected and value in span:
            return True
        near = round(Fraction(value) / self.step)
        first = math.floor(Fraction(low) / self.step + Fraction(1, 2)) if math.isfinite(low) else None
        last = math.ceil(Fraction(high) / self.step - Fraction(1, 2)) if math.isfinite(high) else None
        if value == low and first is not None and self.point(first) <= low:
            return True
        if value == high and last is not None and self.point(last) >= high:
            return True
        # Where doubles are coarser than the step, many multiples share a double, and rounding may miss it by one.
        slack = abs(near) >> 50
        below = near - slack - 1 if first is None else max(near - slack - 1, first)
        above = near + slack + 1 if last is None else min(near + slack + 1, last)
        while below < above:  # the first multiple that is not below the value; there may be more than `bisect` counts
            middle = (below + above) // 2
            below, above = (middle + 1, above) if self.point(middle) < value else (below, middle)
        return below == above and self.point(below) == value


def _quotient(a: int, b: int) -> float:
    try:
        return a / b
    except OverflowError:
        return math.inf


def default_lattice(noise: Noise, shape: Shape) -> Lattice:
    """A power of two at most 2^-20 of what the noise and the support leave to choose from: public numbers only."""
    sizes = [noise.scale, noise.extent, shape.ends[1] - shape.ends[0]]
    exponent = math.frexp(min(sizes))[1] - 1 - _FINENESS
    exponent = max(exponent, -1022)  # below that doubles themselves are as coarse
    return Lattice(numerator=2 ** max(exponent, 0), denominator=2 ** max(-exponent, 0))


def lattice_of(step: object) -> Lattice:
    """The lattice of a user's step, read as the decimal number that it prints as.

    >>> lattice_of(0.01)
    Lattice(numerator=1, denominator=100)
    """
    number = arguments.positive("step", step)
    size = Fraction(repr(number))
    if max(size.numerator, size.denominator) >= _EXACT:
        size = Fraction(number)  # no short decimal, so the double itself is meant
    lattice = Lattice(numerator=size.numerator, denominator=size.denominator)
    if max(size.numerator, size.denominator) >= _EXACT and not lattice.dyadic:
        raise ArgumentError(
            f"step={number}: must be a decimal number of at most 15 digits, or a power of two; take a rounder step"
        )
    return lattice


MARGIN = 2.0**-42  # in scales; derived in papers/numerics.md
ROUNDING = 2.0**-50  # some roundings of doubles
RARE = 2.0**-20  # a tail rarer than this, among the numbers that can be drawn, is left to ball arithmetic
WIDER_MARGIN, RARER = 2.0**-40, 2.0**-24  # the same on coarse lattices, where the margin costs less than rare tails do
TAIL_END = 12.0  # scales to which the table of the normal tail goes
NEAR = 4.0  # scales from a location to the support up to which the tables reach
_LARGEST = sys.float_info.max


class DrawFamily(enum.IntEnum):
    """The formulas of the kernel; *plain* noise is not conditioned."""

    LAPLACE = 0
    GAUSSIAN = 1
    PLAIN_LAPLACE = 2
    PLAIN_GAUSSIAN = 3


@dataclass(frozen=True, kw_only=True)
class DrawPlan:
    """The numbers behind a draw, in the order in which the kernel reads them."""

    answers: tuple[float, float]  # the hull of the query's range: locations outside are clipped to it
    given: tuple[float, float]  # where the number lies before it is rounded
    limit: float  # how far the noise reaches
    outputs: tuple[float, float]  # the ends of what can be published
    scale: float
    lattice: Lattice
    family: DrawFamily

    @property
    def margin(self) -> float:
        """How near to the edge of a cell, in steps, a float is not trusted; it takes the largest answer for any."""
        rough = 0.0 if math.isinf(self.limit) else self.limit / self.scale * ROUNDING
        if not self.lattice.dyadic:
            rough += 64.0 * ROUNDING + largest(self.answers) / self.scale * ROUNDING
        return self.scale_steps * (MARGIN + rough) + ROUNDING

    @property
    def margin_growth(self) -> float:
        """What a location adds, per step of it: nothing where its place is exact or the range of answers is bounded."""
        return 0.0 if self.lattice.dyadic or largest(self.answers) else ROUNDING

    @property
    def collected(self) -> tuple[float, float]:
        """The ends, in steps, that take all that falls beyond them; none where nothing can fall beyond."""
        clamped = self.given == (-math.inf, math.inf)
        lower, upper = (end * self.per_step for end in self.outputs)
        return (lower, upper) if clamped else (-math.inf, math.inf)

    @property
    def scale_steps(self) -> float:
        """The scale in steps of the lattice."""
        return self.scale * self.per_step

    @property
    def per_step(self) -> float:
        """Steps to the unit."""
        return steps_to_the_unit(self.lattice)

    def packed(self) -> npt.NDArray[np.float64]:
        """The numbers as one array."""
        return np.array(
            [
                *self.answers,
                *self.given,
                self.limit,
                *self.outputs,
                *self.collected,
                1.0 / self.scale,
                self.scale_steps,
                self.per_step,
                float(self.lattice.numerator),
                float(self.lattice.denominator),
                self.margin,
                self.margin_growth,
                # Constants of the kernel, which must not know them when it is compiled.
                100.0,  # 2^-100 is nothing beside any tail that is not rare
                TAIL_END - 1e-9,
                RARE,
                0.0,
            ]
        )


def largest(answers: tuple[float, float]) -> float:
    """The size of the largest answer; 0 where there is none."""
    size = max(map(abs, answers))
    return 0.0 if math.isinf(size) else size


def steps_to_the_unit(lattice: Lattice) -> float:
    """1/step, rounded."""
    return lattice.denominator / lattice.numerator


def plan(noise: Noise, shape: Shape, answers: Interval | Union, lattice: Lattice) -> DrawPlan:
    """The plan of a law on one span: truncated to it, clamped to it, or on the whole line."""
    ((lower, upper),) = shape.spans
    given = (lower, upper) if shape.normalised else (-math.inf, math.inf)
    free = math.isinf(given[0]) and math.isinf(given[1]) and not noise.limited
    plain = DrawFamily.PLAIN_GAUSSIAN if noise.gaussian else DrawFamily.PLAIN_LAPLACE
    return DrawPlan(
        answers=(answers.hull.lower, answers.hull.upper),
        given=given,
        limit=noise.extent,
        outputs=(max(lower, -_LARGEST), min(upper, _LARGEST)),
        scale=noise.scale,
        lattice=lattice,
        family=plain if free else (DrawFamily.GAUSSIAN if noise.gaussian else DrawFamily.LAPLACE),
    )


def farthest(noise: Noise, shape: Shape, answers: Interval | Union) -> float:
    """How far from the support, in scales, a location can be."""
    worst = 0.0
    for start, end in gaps(shape):
        middle = 0.5 * start + 0.5 * end if math.isfinite(start) and math.isfinite(end) else start
        for lower, upper in answers.spans:
            low, high = max(lower, start), min(upper, end)
            if low < high:
                deepest = [low, high, *([middle] if low < middle < high else [])]
                left = (math.inf if math.isinf(start) else x - start for x in deepest)
                right = (math.inf if math.isinf(end) else end - x for x in deepest)
                worst = max(worst, *map(min, left, right))
    return worst / noise.scale


def gaps(shape: Shape) -> list[tuple[float, float]]:
    """What lies before, between and after the spans; empty beyond an infinite one."""
    ends = [-math.inf, *(x for span in shape.spans for x in span), math.inf]
    return list(zip(ends[::2], ends[1::2], strict=True))
