"""How much was cut before the noise: the questions that `report_clipping` adds to a plan.

An interval is for the noise alone. A plan can spend a small share of its budget on the rest: the share of rows that the
contribution bounds dropped, and for every column the share of values that were clipped, each with an interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rangebound.release.plan.condition import Condition
from rangebound.release.plan.kinds.cuts import Clipped, Dropped
from rangebound.release.plan.kinds.facts import Clipping, Truncation
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.ranged_column import RangedColumn
from rangebound.release.plan.unit import Unit

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
