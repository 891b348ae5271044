"""The share of values outside a range."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator

from rangebound.release.noise.draw import Coordinates
from rangebound.release.plan.fields import Bound, Name, Range, as_tuple, number
from rangebound.release.plan.kinds.cut_kind import CutKind
from rangebound.release.plan.kinds.mean import between
from rangebound.release.plan.measure import Counted, Found, Measures, Outside, Rows, Totals, Values
from rangebound.release.plan.ranged_column import RangedColumn
from rangebound.release.plan.unit import Unit
from rangebound.release.plan.words import span


class Clipped(CutKind):
    """The share of values outside the range, of the rows within the contribution bounds of the questions in `about`.

    Such a row has a value in each column of `also`, too. Of questions that do not share their groups, conditions and
    `also`, all rows within the bounds, of the groups and conditions that they share.
    """

    kind: Literal["share clipped"] = "share clipped"
    valued: Name
    within: Range
    filler: Bound | None = None
    also: Annotated[tuple[RangedColumn, ...], BeforeValidator(as_tuple)] | None = None

    @property
    def values(self) -> Values:
        """The values of the questions."""
        lower, upper = map(number, self.within)
        filler = None if self.filler is None else min(max(number(self.filler), lower), upper)
        dated = not isinstance(self.within[0], float)
        return Values(column=self.valued, lower=lower, upper=upper, dated=dated, filler=filler)

    def measures(self, unit: Unit, groups: float) -> Measures:
        """Rows within the contribution bounds, and those of them whose value lies outside the range."""
        rows = Rows(where=self.where, values=self.values, also=tuple(each.values for each in self.also or ()))
        return Totals(rows=rows, of={"n": Counted(), "t": Outside(of=self.values)}, over=self.over)

    def _all_coordinates(self, found: Found) -> Coordinates:
        """Values inside and values outside."""
        return between(found)

    def looked_at(self, unit: Unit, groups: float) -> int:
        """The rows that can count, r in each of g groups: of k that do, values inside and outside add up to k."""
        return int(min(unit.groups, groups)) * unit.most_rows

    def scope(self, unit: Unit, groups: float) -> list[str]:
        """Which values, of which questions."""
        values, whose = self.values, ", ".join(map(repr, self.about))
        outside = span(values.lower, values.upper, dated=values.dated)
        if self.pooled:
            rows = "all rows" + " of their groups" * bool(self.over) + " that meet these conditions" * bool(self.where)
            return [f"values outside {outside} among {rows} within the contribution bounds, once for {whose}"]
        return [f"values outside {outside} among the rows that count for {whose}"]
