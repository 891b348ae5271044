"""The plan of a draw: all that it needs to know, worked out once from public parameters.

A draw is noise that is given to lie in an interval, added to the location, rounded to the lattice and clamped:

| bounding | given that the number lies in | clamped to |
| --- | --- | --- |
| truncate | the support | the support |
| rectify | the line | the support |
| unbounded | the line | the doubles |
"""

from __future__ import annotations

import enum
import math
import sys
from dataclasses import dataclass

from rangebound.laws.boundings import Shape
from rangebound.laws.family import Noise
from rangebound.sampling.lattice import Lattice
from rangebound.values.array_types import np, npt
from rangebound.values.support import Interval, Union

MARGIN = 2.0**-42  # in scales; derived in docs/sampling.md
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
