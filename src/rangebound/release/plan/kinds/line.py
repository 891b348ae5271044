"""The line of least squares through two columns."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import model_validator

from rangebound.release.noise import moment_intervals
from rangebound.release.noise.draw import Pair, Reading
from rangebound.release.noise.estimate import Estimate, held, nearest
from rangebound.release.noise.moment_intervals import ALL, Box, NoisyMoments, less, times
from rangebound.release.noise.publishers import Publisher
from rangebound.release.plan.fields import LINE, Span, number
from rangebound.release.plan.kinds.moments_kind import MomentsKind
from rangebound.release.plan.unit import Unit
from rangebound.release.plan.words import span
from rangebound.values.array_types import Floats
from rangebound.values.support import Interval

_STEEPEST = 2.0**10  # in widths of the range of y by that of x


class Line(MomentsKind):
    """The line of least squares y = intercept + slope x; where x does not vary, it has slope 0.

    `slopes` and `intercepts` are where these are published. By default they are those of all lines that the ranges
    allow where the standard deviation of x is at least a thousandth of its largest.
    """

    apart: ClassVar[bool] = True

    kind: Literal["line"] = "line"
    slopes: Span | None = None
    intercepts: Span | None = None

    @model_validator(mode="after")
    def _fits(self) -> Line:
        if self.support is not None:
            raise ValueError("support: a line has two numbers; state slopes = [...] and intercepts = [...]")
        if self.y.dated:
            raise ValueError("y: must be a column of numbers, not dates")
        for name, ends in (("slopes", self.slopes), ("intercepts", self.intercepts)):
            if ends is not None and not isinstance(ends[0], float):
                raise ValueError(f"{name}: must be two numbers")
        return self

    @property
    def subject(self) -> tuple[str, str]:
        """Both columns and their ranges."""
        return f" through y = {self.y.subject}, over x = {self.x.subject}", ""

    @property
    def parts(self) -> tuple[str, ...]:
        """Both numbers, which are made of one draw."""
        return ("slope", "intercept")

    @property
    def supports(self) -> tuple[Interval, Interval]:
        """Where the slope and the intercept are published.

        The covariance is at most the product of the standard deviations, so |slope| <= sd(y) / sd(x), and sd(y) is at
        most half the range. The line goes through the means, so the intercept is at most |slope| |x| from the range.
        """
        steepest = _STEEPEST * self.y.bounds.width / self.x.bounds.width
        slopes = Interval(-steepest, steepest) if self.slopes is None else Interval(*map(number, self.slopes))
        if self.intercepts is not None:
            return slopes, Interval(*map(number, self.intercepts))
        far = max(abs(slopes.lower), abs(slopes.upper)) * max(abs(self.x.bounds.lower), abs(self.x.bounds.upper))
        return slopes, Interval(self.y.bounds.lower - far, self.y.bounds.upper + far)

    def stated_ends(self, unit: Unit) -> list[tuple[str | None, Interval, Interval]]:
        """Those of the slope and of the intercept; without them there are none."""
        stated = zip(self.parts, self.supports, (self.slopes, self.intercepts), strict=True)
        return [(part, ends, LINE) for part, ends, said in stated if said is not None]

    @property
    def natural(self) -> Interval:
        """What holds both numbers."""
        slopes, intercepts = self.supports
        return Interval(min(slopes.lower, intercepts.lower), max(slopes.upper, intercepts.upper))

    def estimate(self, reading: Reading, unit: Unit) -> Estimate:
        """The slope or the intercept by the noisy moments, with an interval by simulation; see `moment_intervals`.

        Guarantee: it lies in its support, on the step and in its interval. Only a support that the plan states cuts the
        interval: where x varies very little, the true line can be steeper than any that is published.
        """
        allowed, steady = self.supports[reading.part], moment_intervals.steadied(reading)
        answer, bounded = ((self._slope, self._slopes), (self._intercept, self._intercepts))[reading.part]
        value = float(answer(steady)[0])
        answers = LINE if (self.slopes, self.intercepts)[reading.part] is None else allowed
        ends = moment_intervals.interval(reading, answer, bounded, (answers.lower, answers.upper))
        return held(nearest(value, allowed, self.step), *ends, answers)

    def earlier_estimate(self, reading: Reading, unit: Unit) -> Estimate:
        """The same with an interval that is cut to the support."""
        found = self.estimate(reading, unit)
        return held(found.value, found.lower, found.upper, self.supports[reading.part])

    @property
    def _unit(self) -> float:
        """A slope of 1 between the ranges, in the units of the columns."""
        return self.y.bounds.width / self.x.bounds.width

    def _slope(self, found: NoisyMoments) -> tuple[Floats, npt.NDArray[np.bool_]]:
        value, there = moment_intervals.slope(found)
        return value * self._unit, there

    def _intercept(self, found: NoisyMoments) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """The mean of y less the slope times the mean of x, in the units of the columns."""
        slope, there = self._slope(found)
        x, y = self.x.bounds, self.y.bounds
        with np.errstate(invalid="ignore", over="ignore"):
            return y.lower + y.width * found.y - slope * (x.lower + x.width * found.x), there

    def _slopes(self, found: Box | None) -> Pair:
        low, high = moment_intervals.slope_bounds(found)
        return low * self._unit, high * self._unit

    def _intercepts(self, found: Box | None) -> Pair:
        slopes, x, y = self._slopes(found), self.x.bounds, self.y.bounds
        if found is None or slopes == ALL:
            return ALL
        means = [
            (ends.lower + ends.width * low, ends.lower + ends.width * high)
            for ends, (low, high) in (
                (x, found.x),
                (y, found.y),
            )
        ]
        return less(means[1], times(slopes, means[0]))

    def bias(self, publisher: Publisher, unit: Unit, lower: Floats, upper: Floats) -> Floats | None:
        """None: slopes and intercepts lie in two supports, and no bound is known that both have."""
        return None

    def scope(self, unit: Unit, groups: float) -> list[str]:
        """What the question leaves out, and where its numbers are moved to."""
        stated = (("slope", self.slopes), ("intercept", self.intercepts))
        moved = [
            f"{name} moved into {span(*map(number, ends), dated=False)}" for name, ends in stated if ends is not None
        ]
        return [*super().scope(unit, groups), *moved]
