"""How much was cut before the noise: the questions that `report_clipping` adds to a plan.

An interval is for the noise alone. A plan can spend a small share of its budget on the rest: for every question the
share of rows that the contribution bounds dropped, and the share of values that were clipped, each with an interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rangebound.release.plan.condition import Condition
from rangebound.release.plan.kinds.clipped import Clipped
from rangebound.release.plan.kinds.cut_kind import CutKind
from rangebound.release.plan.kinds.dropped import Dropped
from rangebound.release.plan.kinds.kind import Clipping, Kind, Truncation
from rangebound.release.plan.unit import Unit

_LONGEST = 150  # letters of the first question's name, so that a name with what follows is still one
_SHORT = 30  # letters of a column's name, for the same


def cut_questions(
    queries: Sequence[Kind], *, unit_of: Callable[[Kind], Unit], choosing: Callable[[Kind], bool]
) -> list[CutKind]:
    """The questions that say how much the bounds and ranges of others cut; those that would be the same are one.

    `unit_of` says how each is bounded, `choosing` whether a unit may have more groups of a question than count. Without
    owners no rows are dropped.
    """
    found: dict[tuple[tuple[str, ...], tuple[Condition, ...], Unit, Truncation | Clipping], list[Kind]] = {}
    for each in queries:
        unit = unit_of(each)
        bounded = each.truncated(choosing=choosing(each)) if unit.column is not None else None
        for cut in (bounded, *each.clippings):
            if cut is not None:
                found.setdefault((each.by, each.where, unit, cut), []).append(each)
    return [_bounded_as(alike[0], _question(cut, alike)) for (*_, cut), alike in found.items()]


def _bounded_as(asked: Kind, cut: CutKind) -> CutKind:
    """A question about cuts, with the contribution bounds of the questions that it is about."""
    return cut.model_copy(update={"rows": asked.rows, "groups": asked.groups, "period": asked.period})


def _question(cut: Truncation | Clipping, alike: Sequence[Kind]) -> CutKind:
    """The question about what is cut from questions that are alike; it is named for the first of them."""
    first, about = alike[0], tuple(each.name for each in alike)
    name, over, where = first.name[:_LONGEST], first.by, first.where
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
