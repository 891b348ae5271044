"""Questions about the values of two columns in the same row."""

from __future__ import annotations

from rangebound.release.noise import publishers
from rangebound.release.noise.allocation import BudgetShare, Sensitivity
from rangebound.release.noise.draw import Columns
from rangebound.release.noise.publishers import Publisher
from rangebound.release.plan.condition import Condition
from rangebound.release.plan.fields import LINE
from rangebound.release.plan.kinds.derived_kind import DerivedKind
from rangebound.release.plan.kinds.kind import Agreement, Clipping, Truncation, owner_scope, truncation_scope
from rangebound.release.plan.measure import Rows, Values
from rangebound.release.plan.unit import Unit
from rangebound.release.plan.words import span


class TwoColumnsKind(DerivedKind):
    """A question about two columns whose ranges are public; rows that lack a value in either do not count."""

    @property
    def counted_rows(self) -> Rows:
        """The rows that meet `where` and have both values."""
        return Rows(where=self.where, also=tuple(each.values for each in self.reads_also.values()))

    @property
    def answers_dated(self) -> bool:
        """Never."""
        return False

    @property
    def reads(self) -> Values | None:
        """No single column: see `reads_also`."""
        return None

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Those of `where`."""
        return self.where

    def misfit(self, unit: Unit) -> str:
        """It can always be asked."""
        return ""

    def known_rows(self, unit: Unit) -> int | None:
        """Not public: how many rows have both values is not."""
        return None

    def publisher(
        self, unit: Unit, found: Sensitivity, share: BudgetShare, *, level: float, columns: Columns
    ) -> Publisher:
        """Noise on the scale of the joint sensitivity, not clamped, since coordinates may be negative."""
        return publishers.joint_coordinates(
            found,
            share,
            support=LINE,
            width=len(self.coordinates({}, unit)),
            parts=1,
            confidence=level,
            shared=len(self.parts),
        )

    def no_margin(self, unit: Unit) -> str:
        """The data decide how wide an interval is."""
        return f"must not be asked of {self.kind!r}, since the width of its interval depends on the data; give a weight"

    def half_width(self, publisher: Publisher, unit: Unit) -> float | None:
        """The data decide."""
        return None

    def expected_error(self, publisher: Publisher) -> str:
        """The noise on each coordinate; what it does to the answer depends on the data."""
        count = len(self.coordinates({}, Unit()))
        form = f"by the data; each coordinate (of {count}), to which a row adds 1 at most, has an error of {{}}"
        return publisher.expected_error(1.0, f"{form} (root mean square)")

    def scope(self, unit: Unit, groups: float) -> list[str]:
        """Rows beyond the contribution bounds, clipped and missing values, and rows without an owner."""
        clipped = (
            f"{each.column!r} clipped to {span(each.bounds.lower, each.bounds.upper, dated=each.dated)}"
            for each in self.reads_also.values()
        )
        missing = " or ".join(repr(each.column) for each in self.reads_also.values())
        return [
            *truncation_scope(self, unit, groups, rows=True),
            *clipped,
            f"rows without {missing} left out",
            *owner_scope(unit),
        ]

    @property
    def agreement(self) -> Agreement:
        """Nothing."""
        return Agreement()

    def truncated(self, *, choosing: bool) -> Truncation | None:
        """Rows that have both values."""
        return Truncation(also=self.needs_also)

    @property
    def clipping(self) -> Clipping | None:
        """No column of its own: see `clippings`."""
        return None
