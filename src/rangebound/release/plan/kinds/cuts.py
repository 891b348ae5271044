"""Questions about other questions, made by `report_clipping`: what share of something was cut before the noise.

Each is about the questions named in `about`, all of which ask for the same rows, grouped by `over`. Where it is about
them `pooled`, they do not: then it is about all rows, or all that meet the conditions that they share.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from rangebound.release.plan.fields import Bound, Name, Names, Range, as_tuple, number
from rangebound.release.plan.kinds.facts import period_scope
from rangebound.release.plan.kinds.fractions import FractionKind, between
from rangebound.release.plan.measure import Counted, Found, Measures, Outside, Owned, Rows, Totals, Values
from rangebound.release.plan.numbers import Coordinates
from rangebound.release.plan.ranged_column import RangedColumn
from rangebound.release.plan.sensitivity import Sensitivity
from rangebound.release.plan.unit import Unit
from rangebound.release.plan.words import span

CAP = 10
"""Rows of a unit beyond this many times what may count are not looked at when what was dropped is counted."""

Also = Annotated[tuple[RangedColumn, ...], BeforeValidator(as_tuple)]
About = Annotated[Names, Field(min_length=1)]


def _values(column: str, within: tuple[Bound, Bound], filler: Bound | None = None) -> Values:
    """The values of some questions, clipped to a range."""
    lower, upper = map(number, within)
    instead = None if filler is None else min(max(number(filler), lower), upper)
    dated = not isinstance(within[0], float)
    return Values(column=column, lower=lower, upper=upper, dated=dated, filler=instead)


def _sensitivity(question: Dropped | Clipped, unit: Unit, groups: float) -> Sensitivity:
    """`looked_at` for a unit that is added or removed, in L1 and L2, since its two coordinates are of all groups.

    A unit adds two numbers that are not negative, and at most m = `looked_at` together (proved there), to the two
    coordinates of the whole table. What other units do moves none of its own. So a unit that is added or removed
    moves them by at most m in L1 and in L2; one that is replaced by at most 2 m in L1, and by at most sqrt(2) m in
    L2, since the inner product of two non-negative vectors is not negative.
    """
    most, times = question.looked_at(unit, groups), 2 if unit.replaced else 1
    return Sensitivity(cell=Fraction(times * most), groups=1, square=Fraction(times * most**2))


def _over(question: Dropped | Clipped) -> tuple[str, ...]:
    """The grouping of the questions that it is about."""
    return question.over


class Dropped(FractionKind):
    """The share of rows that the contribution bounds drop, of those that the questions in `about` ask for.

    A unit has m such rows, in all groups together, of which k count. Looked at are min(m, `CAP` times the most that can
    count), since the number of rows of one unit has no bound. Where the questions count `units`, a row stands for all
    rows of a unit in a group. Where they are about the values of a column, `valued`, rows without one are not asked
    for; `within` is the range of the first of them, which says whether the values are dates. A row needs a value in
    each column of `also`, too.
    """

    made = True
    scale: ClassVar[float] = 1.0
    sensitivity = _sensitivity
    counted_by = property(_over)

    kind: Literal["share dropped"] = "share dropped"
    about: About
    over: Names = ()
    pooled: Literal[True] | None = None
    units: bool = False
    valued: Name | None = None
    within: Range | None = None
    also: Also | None = None

    @property
    def counted_rows(self) -> Rows:
        """The rows that the questions ask for."""
        also = tuple(each.values for each in self.also or ())
        values = None if self.valued is None or self.within is None else _values(self.valued, self.within)
        return Rows(where=self.where, values=values, also=also)

    def measures(self, unit: Unit, groups: float) -> Measures:
        """Rows within the contribution bounds, and rows that there are, of each unit up to `looked_at`."""
        counted = Owned() if self.units else Counted()
        return Totals(
            rows=self.counted_rows, of={"n": counted}, over=self.over, existing="m", limit=self.looked_at(unit, groups)
        )

    def all_coordinates(self, found: Found) -> Coordinates:
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


class Clipped(FractionKind):
    """The share of values outside the range, of the rows within the contribution bounds of the questions in `about`.

    Such a row has a value in each column of `also`, too. Of questions that do not share their groups, conditions and
    `also`, all rows within the bounds, of the groups and conditions that they share.
    """

    made = True
    scale: ClassVar[float] = 1.0
    sensitivity = _sensitivity
    counted_by = property(_over)

    kind: Literal["share clipped"] = "share clipped"
    about: About
    over: Names = ()
    pooled: Literal[True] | None = None
    valued: Name
    within: Range
    filler: Bound | None = None
    also: Also | None = None

    @property
    def _clipped(self) -> Values:
        """The values of the questions."""
        return _values(self.valued, self.within, self.filler)

    def measures(self, unit: Unit, groups: float) -> Measures:
        """Rows within the contribution bounds, and those of them whose value lies outside the range."""
        rows = Rows(where=self.where, values=self._clipped, also=tuple(each.values for each in self.also or ()))
        return Totals(rows=rows, of={"n": Counted(), "t": Outside(of=self._clipped)}, over=self.over)

    def all_coordinates(self, found: Found) -> Coordinates:
        """Values inside and values outside."""
        return between(found)

    def looked_at(self, unit: Unit, groups: float) -> int:
        """The rows that can count, r in each of g groups: of k that do, values inside and outside add up to k."""
        return int(min(unit.groups, groups)) * unit.most_rows

    def scope(self, unit: Unit, groups: float) -> list[str]:
        """Which values, of which questions."""
        values, whose = self._clipped, ", ".join(map(repr, self.about))
        outside = span(values.lower, values.upper, dated=values.dated)
        if self.pooled:
            rows = "all rows" + " of their groups" * bool(self.over) + " that meet these conditions" * bool(self.where)
            return [f"values outside {outside} among {rows} within the contribution bounds, once for {whose}"]
        return [f"values outside {outside} among the rows that count for {whose}"]
