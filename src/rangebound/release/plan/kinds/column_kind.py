"""Questions about the values of a column whose range is public."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Self

from pydantic import Field

from rangebound.release.plan.condition import Condition
from rangebound.release.plan.fields import UNKNOWN, Bound, Ends, Name, Range, number, written
from rangebound.release.plan.kinds.kind import Agreement, Clipping, Kind, Truncation, owner_scope, truncation_scope
from rangebound.release.plan.measure import Rows, Values
from rangebound.release.plan.unit import Unit
from rangebound.release.plan.words import bounds, end, span
from rangebound.values.support import Interval


class ColumnKind(Kind):
    """A question about the numbers (or dates) of a column whose range is public.

    A plan fills in the `range` of a question that leaves it out, where its [columns] say it.
    Rows that have no value there do not count, unless `missing` is the number that they count as.
    """

    column: Name
    range: Range = Field(default_factory=lambda: UNKNOWN)
    missing: Bound | None = None

    @property
    def bounds(self) -> Interval:
        """The public range of the column."""
        return Interval(number(self.range[0]), number(self.range[1]))

    def filled(self, ranges: Mapping[str, Ends]) -> Self:
        """The same question with the public range of its column, where it states none and one is known."""
        found = super().filled(ranges)
        known = ranges.get(self.column) if self.range == UNKNOWN else None
        return found if known is None else found.changed(range=known)

    @property
    def lacks_range(self) -> bool:
        """Whether no range is known."""
        return self.range == UNKNOWN or super().lacks_range

    @property
    def dated(self) -> bool:
        """Whether the range was given in dates."""
        return not isinstance(self.range[0], float)

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """The ends of the range as the plan writes them, exactly."""
        return written(self.bounds.lower), written(self.bounds.upper)

    @property
    def filler(self) -> float | None:
        """What stands for a missing value, within the range; None where rows without a value do not count."""
        bounds = self.bounds
        return None if self.missing is None else min(max(number(self.missing), bounds.lower), bounds.upper)

    @property
    def values(self) -> Values:
        """The values of the column, clipped to its range."""
        ends = self.bounds
        return Values(column=self.column, lower=ends.lower, upper=ends.upper, dated=self.dated, filler=self.filler)

    @property
    def counted_rows(self) -> Rows:
        """The rows that meet `where` and have a value, or the plan's constant for one."""
        return Rows(where=self.where, values=self.values, also=tuple(each.values for each in self.reads_also.values()))

    @property
    def reads(self) -> Values | None:
        """The column."""
        return self.values

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Those of `where`."""
        return self.where

    def misfit(self, unit: Unit) -> str:
        """It can always be asked."""
        return ""

    def known_rows(self, unit: Unit) -> int | None:
        """The size of the table, where it is public, all rows count and the plan says what a missing value counts as.

        How many rows have a value is not public.
        """
        return None if self.missing is None else self._whole_table(unit)

    @property
    def subject(self) -> tuple[str, str]:
        """The column and its range."""
        return f" of {self.column!r}, which lies in {bounds(self.range)}", ""

    def scope(self, unit: Unit, groups: float) -> list[str]:
        """Rows beyond the contribution bounds, clipped and missing values, and rows without an owner."""
        ends, filler = self.bounds, self.filler
        missing = "left out" if filler is None else f"counted as {end(filler, dated=self.dated)}"
        return [
            *truncation_scope(self, unit, groups, rows=True),
            *self._special(),
            f"values clipped to {span(ends.lower, ends.upper, dated=self.dated)}",
            f"missing values {missing}",
            *owner_scope(unit),
        ]

    def _special(self) -> list[str]:
        """What else a reader of the number has to know."""
        return []

    @property
    def agreement(self) -> Agreement:
        """Nothing."""
        return Agreement()

    def truncated(self, *, choosing: bool) -> Truncation | None:
        """Rows that have a value; all rows where the plan says what a missing one counts as.

        A row needs a value in each further column, too.
        """
        also = self.needs_also
        if self.missing is not None:
            return Truncation(also=also)
        return Truncation(column=self.column, dated=self.dated, range=self.range, also=also)

    @property
    def clipping(self) -> Clipping | None:
        """Values outside the range."""
        return Clipping(column=self.column, range=self.range, missing=self.missing)
