"""How much was cut before the noise: the questions that `report_clipping` adds to a plan.

An interval is for the noise alone. A plan can spend a small share of its budget on the rest: the share of rows that the
contribution bounds dropped, and for every column the share of values that were clipped, each with an interval.

Each is about the questions named in `about`, all of which ask for the same rows, grouped by `over`. Where it is about
them `pooled`, they do not: then it is about all rows, or all that meet the conditions that they share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from rangebound.release.plan.condition import Condition
from rangebound.release.plan.fields import Bound, Name, Names, Range, as_tuple, number, span
from rangebound.release.plan.kinds.facts import Clipping, RangedColumn, Truncation, period_scope
from rangebound.release.plan.kinds.fractions import FractionKind, between
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.statistic import (
    Coordinates,
    Counted,
    Found,
    Measures,
    Outside,
    Owned,
    Rows,
    Sensitivity,
    Totals,
    Values,
)
from rangebound.release.plan.unit import Unit

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


WIDE = 0.2  # an interval of a share that is wider says nothing of use
_LONGEST = 150  # letters of the first question's name, so that a name with what follows is still one
_SHORT = 30  # letters of a column's name, for the same


def cut_questions(
    queries: Sequence[Kind], *, unit_of: Callable[[Kind], Unit], choosing: Callable[[Kind], bool], apart: bool = False
) -> list[Clipped | Dropped]:
    """The questions that say how much the bounds and ranges of others cut, as few as can be.

    Rows dropped: one for all questions with the same groups, conditions and bounds. Values clipped: one for each column
    and range; where groups, their bound or conditions differ, it is about all rows. Where the keys of groups say in
    which period they are, it is not: of all groups together a unit counts in all periods. `unit_of` says how each is
    bounded, `choosing` whether a unit may have more groups of a question than count. Without owners no rows are
    dropped. `apart` are those of tables of version 0.2: one for each of what differs in any way.
    """
    found: dict[tuple[object, ...], list[tuple[Kind, Unit, Truncation | Clipping]]] = {}
    for each in queries:
        unit = unit_of(each)
        bounded = each.truncated(choosing=choosing(each)) if unit.column is not None else None
        for cut in (bounded, *_clippings(each)):
            match cut:
                case None:
                    continue
                case _ if apart:
                    key: tuple[object, ...] = (each.by, each.where, unit, cut)
                case Truncation():
                    key = (each.by, each.where, unit, cut.owners)
                case Clipping():
                    alone = unit.period is not None and unit.most_rows < unit.rows * unit.period.number
                    grouped = (each.by, unit.groups) if alone else None  # else all periods would count
                    key = (unit.rows, unit.period, grouped, cut.column, cut.range, cut.missing)
            found.setdefault(key, []).append((each, unit, cut))
    made = [_together(alike, apart=apart) for alike in found.values()]
    return made if apart else [_named_once(each, made[:at]) for at, each in enumerate(made)]


def _clippings(question: Kind) -> tuple[Clipping, ...]:
    """All that ranges of a question clip: its own, and what lies outside the ranges of further columns."""
    clipped, every = question.clipping, question.needs_also
    own = () if clipped is None else (replace(clipped, also=every),)
    needed = () if clipped is None or clipped.missing is not None else (clipped,)
    first = tuple(RangedColumn(column=each.column, range=each.range) for each in needed)
    others = ((each, tuple(other for other in every if other != each)) for each in every)
    return (*own, *(Clipping(column=each.column, range=each.range, also=(*first, *rest)) for each, rest in others))


def _named_once(cut: Clipped | Dropped, before: Sequence[Clipped | Dropped]) -> Clipped | Dropped:
    """The same question with a number behind its name, where others before it are named so."""
    others = sum(each.name == cut.name for each in before)
    return cut.model_copy(update={"name": f"{cut.name} {others + 1}"}) if others else cut


def _together(alike: Sequence[tuple[Kind, Unit, Truncation | Clipping]], *, apart: bool) -> Clipped | Dropped:
    """One question about the cuts of others, with their contribution bounds; what they do not share is left out."""
    first, _, cut = alike[0]
    names = tuple(each.name for each, *_ in alike)
    about = names if apart else tuple(dict.fromkeys(names))  # twice before, where one question cuts the same twice
    facts = (((each.by, unit.groups), each.where, what) for each, unit, what in alike)
    by, where, same = (len(set(every)) == 1 for every in zip(*facts, strict=True))
    pooled = not (by and where and same)
    if pooled:
        cut = Truncation(owners=cut.owners) if isinstance(cut, Truncation) else replace(cut, also=())
    made = _question(first, cut, about, over=first.by if by else (), where=first.where if where else ())
    bounds = {"rows": first.rows, "groups": first.groups if by else None, "period": first.period}
    return made.model_copy(update=bounds | ({"pooled": True} if pooled else {}))


def _question(
    first: Kind,
    cut: Truncation | Clipping,
    about: tuple[str, ...],
    *,
    over: tuple[str, ...],
    where: tuple[Condition, ...],
) -> Clipped | Dropped:
    """The question about a cut from other questions; it is named for the first of them."""
    name = first.name[:_LONGEST]
    match cut:
        case Truncation(owners=owners, column=None, also=also):
            named = f"{name}: {'groups' if owners else 'rows'} dropped"
            return Dropped(name=named, about=about, over=over, where=where, units=owners, also=also or None)
        case Truncation(column=column, range=range_, also=also):
            named = f"{name}: rows dropped"
            return Dropped(
                name=named, about=about, over=over, where=where, valued=column, within=range_, also=also or None
            )
        case Clipping(column=column, range=within, missing=missing, also=also):
            values = first.clipping is not None and first.clipping.column == column
            return Clipped(
                name=f"{name}: {'values' if values else column[:_SHORT]} clipped",
                about=about,
                over=over,
                where=where,
                valued=column,
                within=within,
                filler=missing,
                also=also or None,
            )
