"""The number of privacy units that have at least one row."""

from __future__ import annotations

from typing import ClassVar, Literal

from rangebound.release.noise.allocation import Sensitivity
from rangebound.release.plan.kinds.count import CountKind
from rangebound.release.plan.kinds.kind import Agreement, Truncation, owner_scope, truncation_scope
from rangebound.release.plan.measure import GroupSums, Measures, Owned, Rows
from rangebound.release.plan.sensitivity import of_counts
from rangebound.release.plan.unit import Unit
from rangebound.values.support import Interval, Union


class CountOfUnits(CountKind):
    """The number of privacy units that have at least one row.

    With a period, at least one row in its range: a unit that has rows in several periods counts once.
    """

    no_rows: ClassVar[str] = "a unit counts once in each group, however many rows it has"

    kind: Literal["count of units"] = "count of units"

    def misfit(self, unit: Unit) -> str:
        """Rows that are units themselves are counted by a count."""
        return "the unit is the row; ask for a count" if unit.column is None else ""

    def measures(self, unit: Unit, groups: float) -> Measures:
        """The units that have a row."""
        return GroupSums(rows=Rows(where=self.where), of={"n": Owned()})

    def sensitivity(self, unit: Unit, groups: float) -> Sensitivity:
        """One in each group, however many rows a unit has: L1 g, L2 sqrt(g).

        A unit adds 0 or 1 to each of at most g groups, so it is a case of `of_counts` with one row.
        """
        return of_counts(1, unit, groups)

    def known_rows(self, unit: Unit) -> int | None:
        """Not public: a unit may have no row that counts."""
        return None

    def published_in(self, unit: Unit) -> Interval | Union:
        """Up to the number of units, where it is public."""
        if self.support is not None or self.signed or unit.size is None:
            return self.allowed
        return Interval(0.0, float(unit.size))

    def scope(self, unit: Unit, groups: float) -> list[str]:
        """Groups beyond the contribution bound, and rows without an owner."""
        return [*truncation_scope(self, unit, groups, rows=False), *owner_scope(unit)]

    @property
    def agreement(self) -> Agreement:
        """Nothing: a unit counts in several groups."""
        return Agreement()

    def truncated(self, *, choosing: bool) -> Truncation | None:
        """Groups, where a unit may have more of them than count."""
        return Truncation(owners=True) if choosing else None
