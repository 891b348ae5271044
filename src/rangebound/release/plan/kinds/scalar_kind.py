"""Questions that publish one coordinate as it is, by the best mechanism in range: counts and sums."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from typing import Literal

from pydantic import model_validator

from rangebound.errors import PlanError
from rangebound.release.noise import table_publisher
from rangebound.release.noise.allocation import BudgetShare, LossForm, Sensitivity
from rangebound.release.noise.draw import Columns, Reading
from rangebound.release.noise.estimate import Estimate, held, nearest
from rangebound.release.noise.publishers import Publisher
from rangebound.release.plan.kinds.additive_kind import AdditiveKind
from rangebound.release.plan.kinds.kind import OneCoordinate, rounded_half_width
from rangebound.release.plan.kinds.whole_kind import WholeKind
from rangebound.release.plan.unit import Unit

OPTIMAL = "optimal"
"""The name of the table with the least error."""
MECHANISM = 50
"""Steps of 10 milliseconds that it takes to find a mechanism again, beside the square of its spans."""


class ScalarKind(AdditiveKind):
    """A question with one coordinate, which is published by the best mechanism, or by the one that the plan names."""

    mechanism: (
        Literal[
            "truncate Laplace",
            "rectify Laplace",
            "truncate Gaussian",
            "rectify Gaussian",
            "truncate TruncatedLaplacian",
            "rectify TruncatedLaplacian",
            "optimal",
        ]
        | None
    ) = None

    @model_validator(mode="after")
    def _additive(self) -> ScalarKind:
        named = "unbiased" if self.unbiased else "signed"
        if self.unclamped and self.mechanism == OPTIMAL:
            raise ValueError(f"mechanism: 'optimal' has no unbiased number; leave it out, or {named} = true")
        if self.unclamped and self.mechanism is not None and self.truncated_noise:
            other = self.mechanism.replace("truncate", "rectify")
            raise ValueError(
                f"mechanism: {self.mechanism!r} has no unbiased number; with {named} = true name {other!r}, or leave "
                "it out"
            )
        return self

    @property
    def truncated_noise(self) -> bool:
        """Whether the plan names truncated noise."""
        return self.mechanism is not None and self.mechanism.startswith("truncate")

    @property
    def parts(self) -> tuple[str, ...]:
        """One number, without a name."""
        return ("",)

    @property
    def draws(self) -> int:
        """One."""
        return 1

    @property
    def interval_part(self) -> float:
        """Nothing: the interval follows from the noise."""
        return 0.0

    @property
    def uses_delta(self) -> bool:
        """Some of the mechanisms to choose from do; a table does not."""
        return self.mechanism != OPTIMAL

    @property
    def loss(self) -> LossForm:
        """That of Gaussian noise, unless the plan names another mechanism, or truncates it to a support with gaps.

        With a gap, truncated Gaussian noise leaks more than Gaussian noise of its scale: its normaliser moves with the
        data from one side to the other.
        """
        if self.mechanism is None or self.mechanism == "rectify Gaussian":
            return LossForm.GAUSSIAN
        one = self.mechanism == "truncate Gaussian" and len(self.allowed.spans) == 1
        return LossForm.GAUSSIAN if one else LossForm.PURE

    def publisher(
        self, unit: Unit, found: Sensitivity, share: BudgetShare, *, level: float, columns: Columns
    ) -> Publisher:
        """The best mechanism in range, or the one that the plan names."""
        try:
            if self.mechanism == OPTIMAL and found.cell:
                one = self.one_coordinate(unit)
                return table_publisher.best_table(
                    one.range,
                    found,
                    share,
                    whole=one.whole,
                    support=one.support,
                    step=one.step,
                    confidence=level,
                )
            return self._scalar(unit, found, share, level)
        except ValueError as reason:
            raise PlanError(f"mechanism: {reason}", field="mechanism") from None

    @abstractmethod
    def _scalar(self, unit: Unit, found: Sensitivity, share: BudgetShare, level: float) -> Publisher:
        """The publisher of the coordinate; raises `ValueError` where the named mechanism cannot be calibrated."""

    def one_coordinate(self, unit: Unit) -> OneCoordinate:
        """Its coordinate, which lies where it is published once it is moved there."""
        support = self.published_in(unit)
        whole = isinstance(self, WholeKind) and self.is_whole
        return OneCoordinate(range=support.hull, whole=whole, support=support, step=self.step)

    def estimate(self, reading: Reading, unit: Unit) -> Estimate:
        """The noisy coordinate itself, moved into the support (and to the step) where its noise was not clamped."""
        (value,), ((lower, upper),) = reading.values, reading.intervals
        inside = not self.unclamped and any(low <= value <= high for low, high in self.allowed.spans)
        return held(value if inside else nearest(value, self.allowed, self.step), lower, upper, self.allowed)

    @property
    def effort(self) -> tuple[Hashable, float]:
        """A mechanism that is found again, once for all questions with the same one."""
        spans = self.allowed.spans
        return (spans, self.mechanism), MECHANISM + len(spans) ** 2

    def no_margin(self, unit: Unit) -> str:
        """Truncated noise has intervals whose width depends on the number; noise of limited reach needs a delta."""
        if self.mechanism is None or self.mechanism in ("rectify Laplace", "rectify Gaussian"):
            return ""
        return (
            f"must not stand beside the mechanism {self.mechanism!r}; take 'rectify Laplace' or 'rectify Gaussian', "
            "whose intervals have one width, or name no mechanism"
        )

    def half_width(self, publisher: Publisher, unit: Unit) -> float | None:
        """That of the coordinate, which is drawn on the step, or else rounded to it when it is read."""
        if publisher.half_width is None or not self.unclamped:
            return publisher.half_width
        return rounded_half_width(publisher.half_width, self.step)

    def expected_error(self, publisher: Publisher) -> str:
        """The error of the coordinate."""
        return publisher.expected_error()
