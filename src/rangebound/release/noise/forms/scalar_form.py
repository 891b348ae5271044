"""Noisy coordinates as they are: counts and sums, the bins of a histogram, and ranks of noisy counts."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rangebound.errors import PlanError
from rangebound.release.noise import publishers, table_publisher
from rangebound.release.noise.allocation import BudgetShare, LossForm
from rangebound.release.noise.draw import Cell, Reading
from rangebound.release.noise.estimate import Estimate, farthest, held, nearest
from rangebound.release.noise.forms.form import Form, rounded_half_width
from rangebound.release.noise.publishers import Publisher
from rangebound.release.plan.fields import HALF_LINE, LINE
from rangebound.release.plan.kinds.facts import OPTIMAL
from rangebound.release.plan.kinds.histogram import Histogram
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.kinds.selections import RankedCounts
from rangebound.release.plan.statistic import Columns, Draw, Sensitivity, Summed
from rangebound.values.array_types import Floats

MECHANISM = 50
"""Steps of 10 milliseconds that it takes to find a mechanism again, beside the square of its spans."""


@dataclass(frozen=True)
class AdditiveForm(Form):
    """Exact coordinates with noise added, moved into the support.

    With `unbiased` the number before it was moved is published beside the one in the support, from the same draw. With
    `signed` it is the number itself: there is no support, and a count may be negative.
    """

    question: Kind

    @property
    def draws(self) -> int:
        """One: there is one coordinate, or a row is in one of them alone."""
        return 1

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

    def bias(self, publisher: Publisher, lower: Floats, upper: Floats) -> Floats | None:
        """The bound of the publisher, in the support and on the step; no more than the support leaves room for."""
        support = self.question.published_in(self.unit)
        found = publisher.bias(lower, upper, support, self.step, whole=self.question.is_whole)
        return None if found is None else np.minimum(found, farthest(lower, upper, support))


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
        try:
            if self.question.named_mechanism == OPTIMAL and found.cell:
                return table(self, found, share, level)
            return self._best(found, share, level)
        except ValueError as reason:
            raise PlanError(f"mechanism: {reason}", field="mechanism") from None

    def _best(self, found: Sensitivity, share: BudgetShare, level: float) -> Publisher:
        asked = self.question
        if not found.cell:
            exact = float(asked.known_rows(self.unit) or 0)  # moved into the support when read, if it is unclamped
            return publishers.public_constant(
                exact if asked.unclamped else nearest(exact, asked.allowed, asked.step or 1.0)
            )
        if asked.is_whole:
            return publishers.whole_number(
                asked.published_in(self.unit),
                found,
                share,
                step=asked.step or 1.0,
                mechanism=asked.named_mechanism,
                confidence=level,
                unclamped=asked.unclamped,
                additive=asked.margin is not None,
            )
        return publishers.real_number(
            asked.published_in(self.unit),
            found,
            share,
            step=asked.step,
            mechanism=asked.named_mechanism,
            confidence=level,
            unclamped=asked.unclamped,
            additive=asked.margin is not None,
        )

    @property
    def effort(self) -> tuple[Hashable, float]:
        """A mechanism that is found again, once for all questions with the same one."""
        spans = self.question.allowed.spans
        return (spans, self.question.named_mechanism), MECHANISM + len(spans) ** 2

    def estimate(self, reading: Reading) -> Estimate:
        """The noisy coordinate itself, moved into the support (and to the step) where its noise was not clamped."""
        (value,), ((lower, upper),) = reading.values, reading.intervals
        allowed = self.question.allowed
        inside = not self.question.unclamped and any(low <= value <= high for low, high in allowed.spans)
        return held(value if inside else nearest(value, allowed, self.step), lower, upper, allowed)

    def half_width(self, publisher: Publisher) -> float | None:
        """That of the coordinate, which is drawn on the step, or else rounded to it when it is read."""
        if publisher.half_width is None or not self.question.unclamped:
            return publisher.half_width
        return rounded_half_width(publisher.half_width, self.step)


def table(form: Form, found: Sensitivity, share: BudgetShare, level: float) -> Publisher:
    """The table with the least error, for a question with one coordinate."""
    one = form.question.one_coordinate(form.unit)
    return table_publisher.best_table(
        one.range, found, share, whole=one.whole, support=one.support, step=one.step, confidence=level
    )


@dataclass(frozen=True)
class RankedForm(ScalarForm):
    """The keys with the largest noisy counts, in order; a unit counts once for each."""

    question: RankedCounts

    def _best(self, found: Sensitivity, share: BudgetShare, level: float) -> Publisher:
        return publishers.whole_number(LINE, found, share, step=1.0, mechanism=None, confidence=level, unclamped=True)

    @property
    def effort(self) -> tuple[Hashable, float]:
        """A mechanism that is found again, once for all questions with the same one."""
        return (LINE.spans, None), MECHANISM + 1

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

    def unclamped_numbers(self, publisher: Publisher | None, draws: Sequence[Draw]) -> list[float | None]:
        """None: a rank has none."""
        return [None] * len(draws)

    def bias(self, publisher: Publisher, lower: Floats, upper: Floats) -> Floats | None:
        """None: keys have no mean."""
        return None

    def half_width(self, publisher: Publisher) -> float | None:
        """A rank has no interval."""
        return None

    def expected_error(self, publisher: Publisher) -> str:
        """That of the noisy counts."""
        return f"of the counts by which keys are ranked: {publisher.expected_error()}"


@dataclass(frozen=True)
class BinsForm(AdditiveForm):
    """The bins of a histogram: of one group they get noise together."""

    question: Histogram

    @property
    def loss(self) -> LossForm:
        """That of Gaussian noise."""
        return LossForm.GAUSSIAN

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

    def estimate(self, reading: Reading) -> Estimate:
        """A noisy bin, rounded to a whole number, or to the step, in the support."""
        (value,), ((lower, upper),) = reading.values, reading.intervals
        allowed = self.question.allowed
        return held(nearest(value, allowed, self.step), lower, upper, allowed)

    def half_width(self, publisher: Publisher) -> float | None:
        """That of a bin, which is rounded when it is published."""
        return None if publisher.half_width is None else rounded_half_width(publisher.half_width, self.step)
