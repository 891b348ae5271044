"""Fractions of noisy coordinates that add up to the rows: means, shares, variances, and shares of what was cut."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace

from rangebound.errors import ArgumentError, PlanError
from rangebound.release.noise import publishers
from rangebound.release.noise.allocation import BudgetShare, LossForm
from rangebound.release.noise.draw import Reading
from rangebound.release.noise.estimate import Estimate, farthest, fractions, held, nearest
from rangebound.release.noise.forms.form import Form, rounded_half_width
from rangebound.release.noise.forms.scalar_form import MECHANISM, table
from rangebound.release.noise.publishers import Publisher
from rangebound.release.plan.kinds.fractions import FractionKind
from rangebound.release.plan.statistic import Columns, Sensitivity
from rangebound.values.array_types import Floats
from rangebound.values.support import Interval


@dataclass(frozen=True)
class FractionForm(Form):
    """One number, made of coordinates that add up to the rows; one coordinate may be published by an optimal table."""

    question: FractionKind

    @property
    def loss(self) -> LossForm:
        """That of Gaussian noise, or of a pure table."""
        return LossForm.GAUSSIAN if self.question.named_mechanism is None else LossForm.PURE

    @property
    def draws(self) -> int:
        """One: the coordinates get noise together."""
        return 1

    def publisher(self, found: Sensitivity, share: BudgetShare, *, level: float, columns: Columns) -> Publisher:
        """The table that the plan names, or Laplace noise on the scale of the joint L1 sensitivity.

        It is clamped to where the coordinates can be.
        """
        asked, one = self.question, self.question.one_coordinate(self.unit)
        if asked.named_mechanism is None:
            most = math.inf if one is None or not one.range.upper else one.range.upper
            return publishers.joint_coordinates(
                found,
                share,
                support=Interval(0.0, most),
                width=len(asked.coordinates({}, self.unit)),
                parts=1,
                confidence=level,
            )
        if one is None:
            raise PlanError(
                "mechanism: 'optimal' publishes one coordinate in a public range, and this question has two, since its "
                "number of rows is not public; leave it out, or ask about all rows of a unit with "
                'neighbours = "replace" and a public size (and, for a mean, what a missing value counts as)',
                field="mechanism",
            )
        try:
            return table(self, found, share, level)
        except ArgumentError as reason:
            raise PlanError(f"mechanism: {reason}", field="mechanism") from None

    @property
    def effort(self) -> tuple[Hashable, float]:
        """None worth counting, but that a table is checked."""
        return self.question.name, 0.0 if self.question.named_mechanism is None else float(MECHANISM)

    def estimate(self, reading: Reading) -> Estimate:
        """The answer that the noisy coordinates make.

        Guarantee: it lies in the support, on the step and in its interval; if every interval holds its true coordinate,
        then the result's interval holds the true answer, moved into the question's `answers`.
        """
        asked = self.question
        parts = fractions(reading.values, reading.intervals, rows=asked.known_rows(self.unit))
        value, (lower, upper) = asked.answer_of(parts)
        return held(nearest(value, asked.allowed, asked.step), lower, upper, asked.answers)

    def earlier_estimate(self, reading: Reading) -> Estimate:
        """The same with an interval that is cut to the support."""
        found = self.estimate(reading)
        return replace(found, lower=max(found.lower, self.question.allowed.hull.lower))

    def bias(self, publisher: Publisher, lower: Floats, upper: Floats) -> Floats | None:
        """The farthest that a number in the support can be from a true answer in the interval.

        The published number lies in the support, whatever is drawn, and so does its mean. No better bound is known for
        a ratio of clamped noisy coordinates that holds at every number of rows.
        """
        return farthest(lower, upper, self.question.allowed)

    def half_width(self, publisher: Publisher) -> float | None:
        """That of the coordinate, on the scale of the answer, where a margin can be asked."""
        rows, coordinate = self.question.known_rows(self.unit), publisher.half_width
        if self.question.no_margin(self.unit) or rows is None or coordinate is None:
            return None
        return rounded_half_width(coordinate * self.question.scale / rows, self.question.step)

    def half_width_of(self, publisher: Publisher, rows: float) -> float | None:
        """Half the width of the interval of a group of this many rows, before it is cut to the support.

        The coordinates p and n - p have intervals p +- h and n - p -+ h, so the fraction p / n has p / n +- h / n, and
        the answer `scale` times that: whatever the values are. None with weights, whose sum the rows do not say, and
        for the table with the least error.
        """
        if publisher.half_width is None or self.question.weights is not None:
            return None
        return rounded_half_width(publisher.half_width * self.question.scale / rows, self.question.step)

    def expected_error(self, publisher: Publisher) -> str:
        """The error of a coordinate, on the scale of the answer, by the number of rows, or by what these weigh."""
        divisor = "number of rows that count"
        if self.question.weights is not None:
            divisor = f"sum of their weights in units of {float(self.question.largest_weight):g}"
        form = f"about {{}} divided by the {divisor} (root mean square, many rows)"
        return publisher.expected_error(self.question.scale, form)
