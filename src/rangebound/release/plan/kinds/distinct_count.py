"""The number of distinct values of a column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rangebound.release.noise.allocation import Sensitivity
from rangebound.release.plan.fields import Name
from rangebound.release.plan.kinds.count import CountKind
from rangebound.release.plan.kinds.kind import Agreement, Truncation, owner_scope, truncation_scope
from rangebound.release.plan.measure import DistinctValues, Measures, Rows
from rangebound.release.plan.sensitivity import of_counts
from rangebound.release.plan.unit import Unit
from rangebound.values.support import Interval, Union


class DistinctCount(CountKind):
    """The number of distinct values that a column has among the rows that count, of each unit at most `values`.

    Values are compared as grouping keys are, so the column is one of texts, whole numbers, dates or truth values. Rows
    without a value do not count. Which values of a unit stay is decided by a keyed order of the unit's own, as it is
    for its groups.
    """

    no_rows: ClassVar[str] = "`values` says how many values of a unit count in a group"
    cut_uncounted: ClassVar[str] = "the values of a unit beyond `values`"

    kind: Literal["distinct count"] = "distinct count"
    column: Name
    values: Annotated[int, Field(ge=1, le=1_000_000)] = 1

    @property
    def compares(self) -> Mapping[str, str]:
        """The column."""
        return {"column": self.column}

    def misfit(self, unit: Unit) -> str:
        """A row has one value."""
        if unit.column is None and self.values > 1:
            return "values is 1 where the unit is the row, which has one value"
        return ""

    def measures(self, unit: Unit, groups: float) -> Measures:
        """Distinct values, of each unit at most `values` in a group."""
        return DistinctValues(rows=Rows(where=self.where), column=self.column, most=self.values)

    def sensitivity(self, unit: Unit, groups: float) -> Sensitivity:
        """v = `values` in each group: L1 v g, L2 v sqrt(g), however many rows a unit has.

        In a group, let R be the set of values that the other units keep; what they keep does not depend on this unit.
        A unit that keeps the set A, |A| <= v, makes the count |R + A|, which is from |R| to |R| + v. So it adds a
        number from 0 to v to each of at most g groups, and it is a case of `of_counts`: also where the unit is replaced
        by one that keeps B, since |R + A| and |R + B| are both from |R| to |R| + v, and differ by at most v.

        >>> DistinctCount(name="drugs", column="drug", values=3).sensitivity(Unit(column="person", groups=2), 10).total
        Fraction(6, 1)
        """
        return of_counts(self.values, unit, groups)

    def known_rows(self, unit: Unit) -> int | None:
        """Not public: how many rows have a value is not."""
        return None

    def selecting_rows(self, unit: Unit) -> int | None:
        """None: a group of many units may have few values."""
        return None

    def published_in(self, unit: Unit) -> Interval | Union:
        """Up to the number of units times `values`, where it is public."""
        if self.support is not None or self.signed or unit.size is None:
            return self.allowed
        return Interval(0.0, float(unit.size * self.values))

    @property
    def subject(self) -> tuple[str, str]:
        """The column."""
        return f" of {self.column!r}", ""

    def scope(self, unit: Unit, groups: float) -> list[str]:
        """Groups and values beyond the contribution bounds, missing values, and rows without an owner."""
        each = " and group" if self.by else ""
        cut = [] if unit.column is None else [f"values per {unit.column!r}{each} cut at {self.values}"]
        return [*truncation_scope(self, unit, groups, rows=False), *cut, "missing values left out", *owner_scope(unit)]

    @property
    def agreement(self) -> Agreement:
        """Nothing: a value is in several groups."""
        return Agreement()

    def truncated(self, *, choosing: bool) -> Truncation | None:
        """Groups, where a unit may have more of them than count."""
        return Truncation(owners=True) if choosing else None
