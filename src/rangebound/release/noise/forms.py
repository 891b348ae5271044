"""Every question in its form; and the forms of noisy coordinates: as they are, ranks of them, and fractions of them.

One publisher for each form of question: what is drawn for it, what is made of that, and what it costs.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rangebound.errors import ArgumentError, PlanError
from rangebound.release.noise import noisy_moments, publishers, table_publisher
from rangebound.release.noise.allocation import BudgetShare, LossForm
from rangebound.release.noise.draw import (
    Cell,
    Columns,
    Draw,
    Estimate,
    Form,
    Publisher,
    Reading,
    Summed,
    farthest,
    fractions,
    held,
    nearest,
    rounded_half_width,
)
from rangebound.release.noise.exponential_mechanism import SelectionForm
from rangebound.release.noise.noisy_moments import CorrelationForm, LineForm, RatioForm
from rangebound.release.noise.population import estimated, population_interval
from rangebound.release.noise.publishers import PublicConstant
from rangebound.release.noise.quantiles import RankForm
from rangebound.release.noise.range_ends import EdgesForm
from rangebound.release.noise.workload_publisher import StrategyForm
from rangebound.release.plan.fields import HALF_LINE, LINE
from rangebound.release.plan.kinds.facts import OPTIMAL, FormName, Sampled
from rangebound.release.plan.kinds.fractions import FractionKind, StandardDeviation, Variance
from rangebound.release.plan.kinds.histogram import Histogram
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.kinds.selections import RankedCounts
from rangebound.release.plan.statistic import Sensitivity
from rangebound.release.plan.unit import Unit
from rangebound.values.array_types import Floats
from rangebound.values.support import Interval

__all__ = ["Form", "form_of"]

_MECHANISM = 50  # steps of 10 milliseconds to find a mechanism again, beside the square of its spans


@dataclass(frozen=True)
class AdditiveForm(Form):
    """Exact coordinates with noise added, moved into the support.

    With `unbiased` the number before it was moved is published beside the one in the support, from the same draw. With
    `signed` it is the number itself: there is no support, and a count may be negative.
    """

    question: Kind

    draws = 1  # there is one coordinate, or a row is in one of them alone

    @property
    def step(self) -> float | None:
        """The step that its numbers are rounded to."""
        return self.question.step

    def unclamped_numbers(self, publisher: Publisher | None, draws: Sequence[Draw]) -> list[float | None]:
        """The noisy coordinate before it was moved into the support, where the plan asks for it.

        Guarantee: its mean is the exact aggregate, but for rounding to the lattice of the draw, of which whole numbers
        with step 1 are points.
        """
        return [each[0] if self.question.unclamped else None for each in draws]

    def drawn_number(self, draws: Draw, mu: float) -> float | None:
        """The noisy coordinate, unless it was clamped in plain sums or truncated as the plan asked for."""
        truncated = (self.question.named_mechanism or "").startswith("truncate")
        return draws[0] if self.question.unclamped or (mu and not truncated) else None

    def estimate(self, reading: Reading) -> Estimate:
        """The noisy coordinate, moved into the support and to the step where it was not drawn there."""
        (value,), ((lower, upper),) = reading.values, reading.intervals
        allowed = self.question.allowed
        return held(nearest(value, allowed, self.step), lower, upper, allowed)

    def bias(self, publisher: Publisher, lower: Floats, upper: Floats) -> Floats | None:
        """The bound of the publisher, in the support and on the step; no more than the support leaves room for."""
        support = self.question.published_in(self.unit)
        found = publisher.bias(lower, upper, support, self.step, whole=self.question.is_whole)
        return None if found is None else np.minimum(found, farthest(lower, upper, support))

    def half_width(self, publisher: Publisher) -> float | None:
        """That of the coordinate, which is rounded when it is published, unless it was drawn on the step."""
        return rounded_half_width(publisher.half_width, self.step)


@dataclass(frozen=True)
class ScalarForm(AdditiveForm):
    """One coordinate, published by the best mechanism, or by the one that the plan names."""

    @property
    def uses_delta(self) -> bool:
        """Some of the mechanisms to choose from do; a table does not."""
        return self.question.named_mechanism != OPTIMAL

    @property
    def loss(self) -> LossForm:
        """That of Gaussian noise, unless the plan names another mechanism, or truncates it to a support with gaps.

        With a gap, truncated Gaussian noise leaks more than Gaussian noise of its scale: its normaliser moves with the
        data from one side to the other.
        """
        mechanism = self.question.named_mechanism
        if mechanism in (None, "rectify Gaussian"):
            return LossForm.GAUSSIAN
        one = mechanism == "truncate Gaussian" and len(self.question.allowed.spans) == 1
        return LossForm.GAUSSIAN if one else LossForm.PURE

    def publisher(self, found: Sensitivity, share: BudgetShare, *, level: float, columns: Columns) -> Publisher:
        """The best mechanism in range, or the one that the plan names."""
        asked, one = self.question, self.question.one_coordinate(self.unit)
        try:
            if asked.named_mechanism == OPTIMAL and found.cell and one is not None:
                return table_publisher.best_table(one, found, share, confidence=level)
            if not found.cell:
                exact = float(asked.known_rows(self.unit) or 0)  # moved into the support when read, if it is unclamped
                value = exact if asked.unclamped else nearest(exact, asked.allowed, asked.step or 1.0)
                return PublicConstant(value=value)
            return publishers.one_coordinate(
                asked.published_in(self.unit),
                found,
                share,
                whole=asked.is_whole,
                step=asked.step or (1.0 if asked.is_whole else None),
                mechanism=asked.named_mechanism,
                confidence=level,
                unclamped=asked.unclamped,
                additive=asked.margin is not None,
            )
        except ValueError as reason:
            raise PlanError(f"mechanism: {reason}", field="mechanism") from None

    @property
    def effort(self) -> tuple[Hashable, float]:
        """A mechanism that is found again, once for all questions with the same one."""
        spans = self.question.allowed.spans
        return (spans, self.question.named_mechanism), _MECHANISM + len(spans) ** 2

    def estimate(self, reading: Reading) -> Estimate:
        """The noisy coordinate itself, moved into the support (and to the step) where its noise was not clamped."""
        (value,), ((lower, upper),) = reading.values, reading.intervals
        allowed = self.question.allowed
        inside = not self.question.unclamped and any(low <= value <= high for low, high in allowed.spans)
        return held(value, lower, upper, allowed) if inside else super().estimate(reading)

    def half_width(self, publisher: Publisher) -> float | None:
        """That of the coordinate, which is drawn on the step, or else rounded to it when it is read."""
        return super().half_width(publisher) if self.question.unclamped else publisher.half_width


@dataclass(frozen=True)
class RankedForm(Form):
    """The keys with the largest noisy counts, in order; a unit counts once for each."""

    question: RankedCounts

    loss, draws, uses_delta = LossForm.GAUSSIAN, 1, True

    def publisher(self, found: Sensitivity, share: BudgetShare, *, level: float, columns: Columns) -> Publisher:
        """Noise on every count, which is drawn as it is."""
        facts: dict[str, Any] = {"whole": True, "step": 1.0, "mechanism": None, "unclamped": True}
        try:
            return publishers.one_coordinate(LINE, found, share, **facts, confidence=level)
        except ValueError as reason:
            raise PlanError(f"mechanism: {reason}", field="mechanism") from None

    @property
    def effort(self) -> tuple[Hashable, float]:
        """A mechanism that is found again, once for all questions with the same one."""
        return (LINE.spans, None), _MECHANISM + 1

    def ranking(self, cells: Sequence[Cell]) -> list[Cell]:
        """The cells of the largest noisy counts of each group, k at most, with their ranks; of equal ones by key.

        Guarantee: a function of the draws and the selected keys alone. Of what it returns it makes the same again.
        """
        groups: dict[Summed, list[Cell]] = {}
        for each in cells:
            groups.setdefault(each.key[:-1], []).append(each)
        most = self.question.k
        return [
            replace(each, part=str(rank), value=float(rank))
            for own in groups.values()
            for rank, each in enumerate(sorted(own, key=lambda cell: (-cell.draws[0], str(cell.key[-1])))[:most], 1)
        ]

    def estimate(self, reading: Reading) -> Estimate:
        """The first rank, until `ranking` has compared all counts of the group; any rank may be the true one."""
        natural = self.question.natural
        return Estimate(value=1.0, lower=natural.lower, upper=natural.upper)

    def expected_error(self, publisher: Publisher) -> str:
        """That of the noisy counts."""
        return f"of the counts by which keys are ranked: {publisher.expected_error()}"


@dataclass(frozen=True)
class BinsForm(AdditiveForm):
    """The bins of a histogram: of one group they get noise together, and are rounded to a whole number or the step."""

    question: Histogram

    loss = LossForm.GAUSSIAN

    @property
    def step(self) -> float | None:
        """The step, which is 1 unless the plan names one: noisy bins are not whole."""
        return self.question.step or 1.0

    def publisher(self, found: Sensitivity, share: BudgetShare, *, level: float, columns: Columns) -> Publisher:
        """Laplace noise on the scale of the joint L1 sensitivity, clamped at 0, in each bin."""
        return publishers.joint_coordinates(
            found,
            share,
            support=LINE if self.question.signed else HALF_LINE,
            width=1,
            parts=self.question.size,
            confidence=level,
            unclamped=self.question.unclamped,
        )


@dataclass(frozen=True)
class FractionForm(Form):
    """One number, made of coordinates that add up to the rows; one coordinate may be published by an optimal table."""

    question: FractionKind

    draws = 1  # the coordinates get noise together

    @property
    def loss(self) -> LossForm:
        """That of Gaussian noise, or of a pure table."""
        return LossForm.GAUSSIAN if self.question.named_mechanism is None else LossForm.PURE

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
                support=LINE if self.question.squared else Interval(0.0, most),
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
            return table_publisher.best_table(one, found, share, confidence=level)
        except ArgumentError as reason:
            raise PlanError(f"mechanism: {reason}", field="mechanism") from None

    @property
    def effort(self) -> tuple[Hashable, float]:
        """None worth counting, but that a table is checked."""
        return self.question.name, 0.0 if self.question.named_mechanism is None else float(_MECHANISM)

    def estimate(self, reading: Reading) -> Estimate:
        """The answer that the noisy coordinates make.

        Guarantee: it lies in the support, on the step and in its interval; if every interval holds its true coordinate,
        then the result's interval holds the true answer, moved into the question's `answers`.
        """
        asked = self.question
        if self.question.squared:
            return self._estimate_of_squares(reading)
        parts = fractions(reading.values, reading.intervals, rows=asked.known_rows(self.unit))
        value, (lower, upper) = asked.answer_of(parts)
        return held(nearest(value, asked.allowed, asked.step), lower, upper, asked.answers)

    def _estimate_of_squares(self, reading: Reading) -> Estimate:
        """The number at which nothing is seen, with an interval for the noise; see `population_interval`."""
        asked = self.question
        sampled = asked.sampled(self.unit)
        assert isinstance(sampled, Sampled)
        assert reading.added is not None
        draw, added = reading.values, reading.added
        ends = population_interval(sampled, draw, added, added.level, sampling=False)
        value = estimated(sampled, draw)
        return held(nearest(value, asked.allowed, asked.step), *ends, asked.answers)

    def earlier_estimate(self, reading: Reading) -> Estimate:
        """The same with the interval of the coordinates, cut to the support."""
        found = FractionForm.estimate(self, reading)
        return replace(found, lower=max(found.lower, self.question.allowed.hull.lower))

    def bias(self, publisher: Publisher, lower: Floats, upper: Floats) -> Floats | None:
        """The farthest that a number in the support can be from a true answer in the interval.

        The published number lies in the support, whatever is drawn, and so does its mean. No better bound is known for
        a ratio of clamped noisy coordinates that holds at every number of rows.
        """
        return farthest(lower, upper, self.question.allowed)

    def half_width(self, publisher: Publisher) -> float | None:
        """That of the coordinate, on the scale of the answer, where a margin can be asked."""
        rows = self.question.known_rows(self.unit)
        return None if self.question.no_margin(self.unit) or rows is None else self.half_width_of(publisher, rows)

    def half_width_of(self, publisher: Publisher, rows: float) -> float | None:
        """Half the width of the interval of a group of this many rows, before it is cut to the support.

        The coordinates p and n - p have intervals p +- h and n - p -+ h, so the fraction p / n has p / n +- h / n, and
        the answer `scale` times that: whatever the values are. None with weights, whose sum the rows do not say, and
        for the table with the least error.
        """
        plain, coordinate = self.question.weights is None and not self.question.squared, publisher.half_width
        if coordinate is None or not plain:
            return None
        return rounded_half_width(coordinate * self.question.scale / rows, self.question.step)

    def expected_error(self, publisher: Publisher) -> str:
        """The error of a coordinate, on the scale of the answer, by the number of rows, or by what these weigh."""
        divisor = "number of rows that count"
        if self.question.weights is not None:
            divisor = f"sum of their weights in units of {float(self.question.largest_weight):g}"
        form = f"about {{}} divided by the {divisor} (root mean square, many rows)"
        return publisher.expected_error(self.question.scale * self.question.error_of_squares(self.unit), form)


@dataclass(frozen=True)
class SpreadForm(FractionForm):
    """A variance, or its root."""

    question: Variance | StandardDeviation

    def estimate(self, reading: Reading) -> Estimate:
        """The same number, with an interval from the law of its moments; see `noisy_moments.interval`.

        Where a coordinate was clamped its noise is not known, and the interval is that of the coordinates. Either holds
        at the level; as the draw says which is taken, both together fail with twice what that leaves at most.
        """
        found, added, asked = super().estimate(reading), reading.added, self.question
        if added is None or not all(each > 0.0 for each in reading.values):
            return found
        power, rows = asked.power, asked.known_rows(self.unit)
        most = asked.scale * 0.25**power
        simulated = noisy_moments.variances(noisy_moments.likely(reading.values, added), rows)
        low, high = noisy_moments.interval(reading, simulated, lambda: (0.0, 0.25), (0.0, 0.25))
        lower, upper = (min(asked.scale * end**power, most) for end in (low, high))
        return held(found.value, max(found.lower, lower), min(found.upper, upper), asked.answers)


_FORMS: Mapping[FormName, type[Form]] = {
    FormName.SCALAR: ScalarForm,
    FormName.RANKED: RankedForm,
    FormName.BINS: BinsForm,
    FormName.FRACTION: FractionForm,
    FormName.SPREAD: SpreadForm,
    FormName.RATIO: RatioForm,
    FormName.CORRELATION: CorrelationForm,
    FormName.LINE: LineForm,
    FormName.RANK: RankForm,
    FormName.EDGES: EdgesForm,
    FormName.SELECTION: SelectionForm,
    FormName.STRATEGY: StrategyForm,
}


def form_of(question: Kind, unit: Unit) -> Form:
    """A question in its form, with the contribution bounds that hold for it."""
    return _FORMS[question.form](question, unit)
