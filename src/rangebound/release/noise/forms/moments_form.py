"""Functions of noisy moments of two columns: their ratio, their correlation, and the line through them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rangebound.release.noise import moment_intervals, publishers
from rangebound.release.noise.allocation import BudgetShare, LossForm
from rangebound.release.noise.draw import Reading
from rangebound.release.noise.estimate import Estimate, farthest, held, nearest
from rangebound.release.noise.forms.form import Form
from rangebound.release.noise.moment_intervals import ALL, Box, NoisyMoments, less, times
from rangebound.release.noise.publishers import Publisher
from rangebound.release.noise.ratio_interval import ratio_interval
from rangebound.release.plan.fields import LINE
from rangebound.release.plan.kinds.two_columns import Line, Ratio, TwoColumnsKind, far
from rangebound.release.plan.statistic import Columns, Pair, Sensitivity
from rangebound.release.plan.unit import Unit
from rangebound.values.array_types import Floats


@dataclass(frozen=True)
class TwoColumnsForm(Form):
    """Coordinates that may be negative, with noise that is not clamped."""

    question: TwoColumnsKind

    @property
    def loss(self) -> LossForm:
        """That of Gaussian noise."""
        return LossForm.GAUSSIAN

    @property
    def draws(self) -> int:
        """One: the coordinates get noise together."""
        return 1

    def publisher(self, found: Sensitivity, share: BudgetShare, *, level: float, columns: Columns) -> Publisher:
        """Noise on the scale of the joint sensitivity, not clamped, since coordinates may be negative."""
        return publishers.joint_coordinates(
            found,
            share,
            support=LINE,
            width=len(self.question.coordinates({}, self.unit)),
            parts=1,
            confidence=level,
            shared=len(self.question.parts),
        )

    @abstractmethod
    def estimate(self, reading: Reading) -> Estimate:
        """The answer that the noisy coordinates make.

        Guarantee: it lies in the support, on the step and in its interval.
        """

    def bias(self, publisher: Publisher, lower: Floats, upper: Floats) -> Floats | None:
        """The farthest that a number in the support can be from a true answer in the interval: so is its mean."""
        return farthest(lower, upper, self.question.allowed)

    def expected_error(self, publisher: Publisher) -> str:
        """The noise on each coordinate; what it does to the answer depends on the data."""
        count = len(self.question.coordinates({}, Unit()))
        form = f"by the data; each coordinate (of {count}), to which a row adds 1 at most, has an error of {{}}"
        return publisher.expected_error(1.0, f"{form} (root mean square)")


@dataclass(frozen=True)
class RatioForm(TwoColumnsForm):
    """The ratio of two sums."""

    question: Ratio

    def estimate(self, reading: Reading) -> Estimate:
        """The ratio that the noisy coordinates make; see `ratio_interval`.

        Guarantee: it lies in the support, on the step and in its interval.
        """
        assert reading.added is not None
        asked, hull = self.question, self.question.allowed.hull
        scale = far(asked.numerator) / far(asked.denominator)
        p, q = reading.values
        value, ends = ratio_interval(p, q, reading.added, lower=hull.lower / scale, upper=hull.upper / scale)
        lower, upper = (end * scale for end in ends)
        return held(nearest(value * scale, asked.allowed, asked.step), lower, upper, asked.allowed)


@dataclass(frozen=True)
class CorrelationForm(TwoColumnsForm):
    """Pearson's correlation."""

    def estimate(self, reading: Reading) -> Estimate:
        """The correlation of the noisy moments, with an interval by simulation; see `moment_intervals`.

        Guarantee: it lies in the support, on the step and in its interval.
        """
        asked, hull = self.question, self.question.allowed.hull
        value, _ = moment_intervals.correlation(moment_intervals.steadied(reading))
        answer, bounded = moment_intervals.correlation, moment_intervals.correlation_bounds
        ends = moment_intervals.interval(reading, answer, bounded, (hull.lower, hull.upper))
        return held(nearest(float(value), asked.allowed, asked.step), *ends, asked.allowed)


@dataclass(frozen=True)
class LineForm(TwoColumnsForm):
    """The slope and the intercept of the line of least squares."""

    question: Line

    def estimate(self, reading: Reading) -> Estimate:
        """The slope or the intercept by the noisy moments, with an interval by simulation; see `moment_intervals`.

        Guarantee: it lies in its support, on the step and in its interval. Only a support that the plan states cuts the
        interval: where x varies very little, the true line can be steeper than any that is published.
        """
        asked, steady = self.question, moment_intervals.steadied(reading)
        allowed = asked.supports[reading.part]
        answer, bounded = ((self._slope, self._slopes), (self._intercept, self._intercepts))[reading.part]
        value = float(answer(steady)[0])
        answers = LINE if (asked.slopes, asked.intercepts)[reading.part] is None else allowed
        ends = moment_intervals.interval(reading, answer, bounded, (answers.lower, answers.upper))
        return held(nearest(value, allowed, asked.step), *ends, answers)

    def earlier_estimate(self, reading: Reading) -> Estimate:
        """The same with an interval that is cut to the support."""
        found = self.estimate(reading)
        return held(found.value, found.lower, found.upper, self.question.supports[reading.part])

    @property
    def _unit(self) -> float:
        """A slope of 1 between the ranges, in the units of the columns."""
        return self.question.y.bounds.width / self.question.x.bounds.width

    def _slope(self, found: NoisyMoments) -> tuple[Floats, npt.NDArray[np.bool_]]:
        value, there = moment_intervals.slope(found)
        return value * self._unit, there

    def _intercept(self, found: NoisyMoments) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """The mean of y less the slope times the mean of x, in the units of the columns."""
        slope, there = self._slope(found)
        x, y = self.question.x.bounds, self.question.y.bounds
        with np.errstate(invalid="ignore", over="ignore"):
            return y.lower + y.width * found.y - slope * (x.lower + x.width * found.x), there

    def _slopes(self, found: Box | None) -> Pair:
        low, high = moment_intervals.slope_bounds(found)
        return low * self._unit, high * self._unit

    def _intercepts(self, found: Box | None) -> Pair:
        slopes, x, y = self._slopes(found), self.question.x.bounds, self.question.y.bounds
        if found is None or slopes == ALL:
            return ALL
        x_mean, y_mean = (
            (ends.lower + ends.width * low, ends.lower + ends.width * high)
            for ends, (low, high) in ((x, found.x), (y, found.y))
        )
        return less(y_mean, times(slopes, x_mean))

    def bias(self, publisher: Publisher, lower: Floats, upper: Floats) -> Floats | None:
        """None: slopes and intercepts lie in two supports, and no bound is known that both have."""
        return None
