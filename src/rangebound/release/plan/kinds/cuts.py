"""How much was cut before the noise: the questions that `report_clipping` adds to a plan.

An interval is for the noise alone. A plan can spend a small share of its budget on the rest: the share of rows that the
contribution bounds dropped, and for every column the share of values that were clipped, each with an interval.

Each is about the questions named in `about`, all of which ask for the same rows, grouped by `over`. Where it is about
them `pooled`, they do not: then it is about all rows, or all that meet the conditions that they share.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from rangebound.release.plan.fields import UNKNOWN, Bound, Ends, Name, Names, Range, as_tuple, span
from rangebound.release.plan.kinds.facts import RangedColumn
from rangebound.release.plan.kinds.fractions import FractionKind, apart, distances
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.measure import Counted, Outside, Owned, Rows, Totals, Values, values_of
from rangebound.release.plan.statistic import Sensitivity, Statistic
from rangebound.release.plan.unit import Unit
from rangebound.values.support import Interval

CAP = 10
"""Rows of a unit beyond this many times what may count are not looked at when what was dropped is counted."""

Also = Annotated[tuple[RangedColumn, ...], BeforeValidator(as_tuple)]
About = Annotated[Names, Field(min_length=1)]


def _cut_sensitivity(question: Dropped | Clipped, unit: Unit, groups: float) -> Sensitivity:
    """`looked_at` for a unit that is added or removed, in L1 and L2, since its two coordinates are of all groups.

    A unit adds two numbers that are not negative, and at most m = `looked_at` together (proved there), to the two
    coordinates of the whole table. What other units do moves none of its own. So a unit that is added or removed
    moves them by at most m in L1 and in L2; one that is replaced by at most 2 m in L1, and by at most sqrt(2) m in
    L2, since the inner product of two non-negative vectors is not negative.
    """
    most, times = question.looked_at(unit, groups), 2 if unit.replaced else 1
    return Sensitivity(cell=Fraction(times * most), groups=1, square=Fraction(times * most**2))


def _over(question: Dropped | Clipped) -> tuple[str, ...]:
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
    statistic = Statistic(
        measures=lambda asked, unit, groups: Totals(
            rows=asked.counted_rows,
            of={"n": Owned() if asked.units else Counted()},
            over=asked.over,
            existing="m",
            limit=asked.looked_at(unit, groups),
        ),
        coordinates=apart(
            lambda _, found: (Fraction(found.get("n", 0)), Fraction(found.get("m", 0) - found.get("n", 0)))
        ),
        sensitivity=_cut_sensitivity,
    )
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
        also = tuple(each.values for each in self.also or ())
        values = None if self.valued is None or self.within is None else values_of(self.valued, self.within)
        return Rows(where=self.where, values=values, also=also)

    def looked_at(self, unit: Unit, groups: float) -> int:
        """Up to `CAP` times as many rows as can count, to see what was dropped.

        With k rows that count, of m that are asked for, the coordinates are k and min(m, limit) - k, limit = looked_at.
        Neither is negative, since k <= m and k <= limit, and their sum is min(m, limit) <= limit.
        """
        rows = 1 if self.units else unit.most_rows
        return CAP * int(min(unit.groups, groups)) * rows

    def scope(self, unit: Unit, groups: float) -> list[str]:
        what = "groups" if self.units else "rows"
        looked = f"{what} per {unit.column!r} looked at up to {self.looked_at(unit, groups)}"
        blank = [] if self.valued is None and not self.also else ["rows without a value left out"]
        blank = ["rows without a value counted"] if self.pooled else blank
        whose = ", ".join(map(repr, self.about))
        return [f"{what} dropped by the contribution bounds for {whose}", looked, *blank, *unit.period_scope]


class Clipped(FractionKind):
    """The share of values outside the range, of the rows within the contribution bounds of the questions in `about`.

    Such a row has a value in each column of `also`, too. Of questions that do not share their groups, conditions and
    `also`, all rows within the bounds, of the groups and conditions that they share.
    """

    made = True
    scale: ClassVar[float] = 1.0
    statistic = Statistic(
        measures=lambda asked, *_: Totals(
            rows=Rows(where=asked.where, values=asked._clipped, also=tuple(each.values for each in asked.also or ())),
            of={"n": Counted(), "t": Outside(of=asked._clipped)},
            over=asked.over,
        ),
        coordinates=apart(distances),
        sensitivity=_cut_sensitivity,
    )
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
        return values_of(self.valued, self.within, self.filler)

    def looked_at(self, unit: Unit, groups: float) -> int:
        """The rows that can count, r in each of g groups: of k that do, values inside and outside add up to k."""
        return int(min(unit.groups, groups)) * unit.most_rows

    def scope(self, unit: Unit, groups: float) -> list[str]:
        values, whose = self._clipped, ", ".join(map(repr, self.about))
        outside = span(Interval(values.lower, values.upper), dated=values.dated)
        if self.pooled:
            rows = "all rows" + " of their groups" * bool(self.over) + " that meet these conditions" * bool(self.where)
            return [f"values outside {outside} among {rows} within the contribution bounds, once for {whose}"]
        return [f"values outside {outside} among the rows that count for {whose}"]


@dataclass(frozen=True, kw_only=True)
class Cut:
    """What is cut of a question: rows, or the groups of `owners`, by the contribution bounds; or values by a range.

    `column` has the values, or is one that the rows need a value in, and so do they in each of `also`. Only values that
    are clipped have a `range`.
    """

    owners: bool = False
    column: str | None = None
    dated: bool = False
    range: Ends | None = None
    missing: float | datetime.date | None = None
    also: tuple[RangedColumn, ...] = ()


def dropped(question: Kind, *, choosing: bool) -> Cut | None:
    """What the contribution bounds may drop, or None; `choosing` says that a unit's groups are bounded.

    Nothing of a question about cuts; groups, where a unit counts once in each; else rows, those that have a value
    where one without does not count.
    """
    if question.made or (question.once and not choosing):
        return None
    if question.once:
        return Cut(owners=True)
    also, own = _also(question), _clipped(question)
    if question.reads is None or own is None or own.missing is not None:
        return Cut(also=also)
    return Cut(column=own.column, dated=question.dated, also=also)


def _also(question: Kind) -> tuple[RangedColumn, ...]:
    """The further columns that rows of a question need a value in."""
    return tuple(RangedColumn(column=each.column, range=each.range) for each in question.reads_also.values())


def _clipped(question: Kind) -> Cut | None:
    """What the range of a question clips, or None."""
    column, ends, missing = (getattr(question, name, None) for name in ("column", "range", "missing"))
    return None if column is None or ends is None else Cut(column=column, range=ends, missing=missing)


WIDE = 0.2  # an interval of a share that is wider says nothing of use
_LONGEST = 150  # letters of the first question's name, so that a name with what follows is still one
_SHORT = 30  # letters of a column's name, for the same


def cut_questions(
    queries: Sequence[Kind],
    *,
    unit_of: Callable[[Kind], Unit],
    groups: Callable[[tuple[str, ...]], float],
    apart: bool = False,
) -> tuple[Clipped | Dropped, ...]:
    """The questions that say how much the bounds and ranges of others cut, as few as can be.

    Rows dropped: one for all questions with the same groups, conditions and bounds. Values clipped: one for each column
    and range; where groups, their bound or conditions differ, it is about all rows. Where the keys of groups say in
    which period they are, it is not: of all groups together a unit counts in all periods. `unit_of` says how each is
    bounded, `groups` how many a grouping has. Without owners no rows are
    dropped. `apart` are those of tables of version 0.2: one for each of what differs in any way.
    """
    found: dict[tuple[object, ...], list[tuple[Kind, Unit, Cut]]] = {}
    for each in queries:
        unit = unit_of(each)
        bounded = dropped(each, choosing=groups(each.counted_by) > unit.groups) if unit.column is not None else None
        for cut in filter(None, (bounded, *_clippings(each))):
            key: tuple[object, ...] = (each.by, each.where, unit, cut if apart else cut.owners)
            if cut.range is not None and not apart:
                alone = unit.period is not None and unit.most_rows < unit.rows * unit.period.number
                grouped = (each.by, unit.groups) if alone else None  # else all periods would count
                key = (unit.rows, unit.period, grouped, cut.column, cut.range, cut.missing)
            found.setdefault(key, []).append((each, unit, cut))
    made = [_together(alike, apart=apart) for alike in found.values()]
    seen: Counter[str] = Counter()  # a number behind a name that others before it have
    for at, each in () if apart else enumerate(made):
        seen[each.name] += 1
        if seen[each.name] > 1:
            made[at] = each.model_copy(update={"name": f"{each.name} {seen[each.name]}"})
    return tuple(made)


def _clippings(question: Kind) -> tuple[Cut, ...]:
    """All that ranges of a question clip: its own, and what lies outside the ranges of further columns."""
    clipped, every = _clipped(question), _also(question)
    own = () if clipped is None else (replace(clipped, also=every),)
    needed = () if clipped is None or clipped.missing is not None else (clipped,)
    first = tuple(RangedColumn(column=str(each.column), range=each.range or UNKNOWN) for each in needed)
    others = ((each, tuple(other for other in every if other != each)) for each in every)
    return (*own, *(Cut(column=each.column, range=each.range, also=(*first, *rest)) for each, rest in others))


def _together(alike: Sequence[tuple[Kind, Unit, Cut]], *, apart: bool) -> Clipped | Dropped:
    """One question about the cuts of others, named for the first of them; what they do not share is left out."""
    first, _, cut = alike[0]
    names = tuple(each.name for each, *_ in alike)
    facts = (((each.by, unit.groups), each.where, what) for each, unit, what in alike)
    by, where, same = (len(set(every)) == 1 for every in zip(*facts, strict=True))
    pooled = not (by and where and same)
    shared: dict[str, Any] = {
        "about": names if apart else tuple(dict.fromkeys(names)),  # twice before, where one cuts the same twice
        "over": first.by if by else (),
        "where": first.where if where else (),
        "also": cut.also or None if not pooled else None,
        "rows": first.rows,
        "groups": first.groups if by else None,
        "period": first.period,
        **({"pooled": True} if pooled else {}),
    }
    name, own = first.name[:_LONGEST], _clipped(first)
    if cut.column is not None and cut.range is not None:
        what = "values" if own is not None and own.column == cut.column else cut.column[:_SHORT]
        shared |= {"valued": cut.column, "within": cut.range, "filler": cut.missing}
        return Clipped(name=f"{name}: {what} clipped", **shared)
    if cut.column is not None and own is not None and not pooled:
        shared |= {"valued": cut.column, "within": own.range}
    what = "groups" if cut.owners else "rows"
    return Dropped(name=f"{name}: {what} dropped", units=cut.owners, **shared)
