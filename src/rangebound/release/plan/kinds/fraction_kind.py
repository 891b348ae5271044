"""Questions about a fraction of the rows: means and shares, which have one coordinate where the rows are public."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from typing import Literal

from rangebound.errors import ArgumentError, PlanError
from rangebound.release.noise import table_publisher
from rangebound.release.noise.allocation import BudgetShare, LossForm, Sensitivity
from rangebound.release.noise.draw import Columns
from rangebound.release.noise.publishers import Publisher
from rangebound.release.plan.kinds.joint_kind import JointKind
from rangebound.release.plan.kinds.kind import OneCoordinate, rounded_half_width
from rangebound.release.plan.kinds.scalar_kind import MECHANISM
from rangebound.release.plan.kinds.weighted_kind import WeightedKind
from rangebound.release.plan.unit import Unit
from rangebound.values.support import Interval


class FractionKind(JointKind):
    """A question with two coordinates that add up to the rows; the second alone where the number of rows is public.

    That one may be published by the table with the least error.
    """

    mechanism: Literal["optimal"] | None = None

    @property
    @abstractmethod
    def _whole(self) -> bool:
        """Whether the coordinates are whole numbers."""

    def one_coordinate(self, unit: Unit) -> OneCoordinate | None:
        """The coordinate that is left where the number of rows is public: from 0 to that number."""
        rows = self.known_rows(unit)
        if rows is None:
            return None
        within = Interval(0.0, float(rows))
        return OneCoordinate(range=within, whole=self._whole, support=within)

    @property
    def loss(self) -> LossForm:
        """That of Gaussian noise, or of a pure table."""
        return LossForm.GAUSSIAN if self.mechanism is None else LossForm.PURE

    def publisher(
        self, unit: Unit, found: Sensitivity, share: BudgetShare, *, level: float, columns: Columns
    ) -> Publisher:
        """The noise of joint coordinates, or the table that the plan names."""
        if self.mechanism is None:
            return super().publisher(unit, found, share, level=level, columns=columns)
        one = self.one_coordinate(unit)
        if one is None:
            raise PlanError(
                "mechanism: 'optimal' publishes one coordinate in a public range, and this question has two, since its "
                "number of rows is not public; leave it out, or ask about all rows of a unit with "
                'neighbours = "replace" and a public size (and, for a mean, what a missing value counts as)',
                field="mechanism",
            )
        try:
            return table_publisher.best_table(
                one.range, found, share, whole=one.whole, support=one.support, step=one.step, confidence=level
            )
        except ArgumentError as reason:
            raise PlanError(f"mechanism: {reason}", field="mechanism") from None

    def no_margin(self, unit: Unit) -> str:
        """As of all such questions; the intervals of a table have widths that depend on the number."""
        if self.mechanism is None:
            return super().no_margin(unit)
        return "must not stand beside the mechanism 'optimal', whose intervals are of different widths; leave it out"

    @property
    def half_range(self) -> float:
        """Half the width of the range that the answer has whatever the data."""
        return self._scale / 2.0

    def half_width_of(self, publisher: Publisher, rows: float) -> float | None:
        """Half the width of the interval of a group of so many rows, before it is cut to the support.

        The coordinates p and n - p have intervals p +- h and n - p -+ h, so the fraction p / n has p / n +- h / n, and
        the answer `_scale` times that: whatever the values are. None with weights, whose sum the rows do not say, and
        for the table with the least error.
        """
        coordinate = publisher.half_width
        if coordinate is None or (isinstance(self, WeightedKind) and self.weighted_by is not None):
            return None
        return rounded_half_width(coordinate * self._scale / rows, self.step)

    @property
    def effort(self) -> tuple[Hashable, float]:
        """None worth counting, but that a table is checked."""
        return super().effort if self.mechanism is None else (self.name, float(MECHANISM))
