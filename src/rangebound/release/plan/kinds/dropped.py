"""The share of rows that the contribution bounds drop."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import BeforeValidator

from rangebound.release.noise.draw import Coordinates
from rangebound.release.plan.fields import Name, Range, as_tuple, number
from rangebound.release.plan.kinds.cut_kind import CutKind
from rangebound.release.plan.kinds.kind import period_scope
from rangebound.release.plan.measure import Counted, Found, Measures, Owned, Rows, Totals, Values
from rangebound.release.plan.ranged_column import RangedColumn
from rangebound.release.plan.unit import Unit

CAP = 10
"""Rows of a unit beyond so many times what may count are not looked at when what was dropped is counted."""


class Dropped(CutKind):
    """The share of rows that the contribution bounds drop, of those that the questions in `about` ask for.

    A unit has m such rows, in all groups together, of which k count. Looked at are min(m, `CAP` times the most that can
    count), since the number of rows of one unit has no bound. Where the questions count `units`, a row stands for all
    rows of a unit in a group. Where they are about the values of a column, `valued`, rows without one are not asked
    for; `within` is the range of the first of them, which says whether the values are dates. A row needs a value in
    each column of `also`, too.
    """

    kind: Literal["share dropped"] = "share dropped"
    units: bool = False
    valued: Name | None = None
    within: Range | None = None
    also: Annotated[tuple[RangedColumn, ...], BeforeValidator(as_tuple)] | None = None

    @property
    def counted_rows(self) -> Rows:
        """The rows that the questions ask for."""
        also = tuple(each.values for each in self.also or ())
        if self.valued is None or self.within is None:
            return Rows(where=self.where, also=also)
        lower, upper = map(number, self.within)
        dated = not isinstance(self.within[0], float)
        values = Values(column=self.valued, lower=lower, upper=upper, dated=dated)
        return Rows(where=self.where, values=values, also=also)

    def measures(self, unit: Unit, groups: float) -> Measures:
        """Rows within the contribution bounds, and rows that there are, of each unit up to `looked_at`."""
        counted = Owned() if self.units else Counted()
        return Totals(
            rows=self.counted_rows, of={"n": counted}, over=self.over, existing="m", limit=self.looked_at(unit, groups)
        )

    def _all_coordinates(self, found: Found) -> Coordinates:
        """Rows within the contribution bounds, and rows that were dropped of those that were looked at."""
        n, m = found.get("n", 0), found.get("m", 0)
        return Fraction(n), Fraction(m - n)

    def looked_at(self, unit: Unit, groups: float) -> int:
        """Up to `CAP` times as many rows as can count, to see what was dropped.

        With k rows that count, of m that are asked for, the coordinates are k and min(m, limit) - k, limit = looked_at.
        Neither is negative, since k <= m and k <= limit, and their sum is min(m, limit) <= limit.
        """
        rows = 1 if self.units else unit.most_rows
        return CAP * int(min(unit.groups, groups)) * rows

    def scope(self, unit: Unit, groups: float) -> list[str]:
        """What was dropped, of which questions, and how many rows of a unit were looked at."""
        what = "groups" if self.units else "rows"
        looked = f"{what} per {unit.column!r} looked at up to {self.looked_at(unit, groups)}"
        blank = [] if self.valued is None and not self.also else ["rows without a value left out"]
        blank = ["rows without a value counted"] if self.pooled else blank
        whose = ", ".join(map(repr, self.about))
        return [f"{what} dropped by the contribution bounds for {whose}", looked, *blank, *period_scope(unit)]
