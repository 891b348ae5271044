"""What a published number is of: which rows and values its question leaves out or moves, by the plan alone.

An interval is for the noise. It does not cover what contribution bounds, clipping and missing values did before the
noise, so every form of the table says that in words, and all of them take the words from here.
"""

from __future__ import annotations

from typing import Any

from rangebound.errors import plain
from rangebound.release.plan.clipping import looked_at
from rangebound.release.plan.fields import date, number
from rangebound.release.plan.model import Plan
from rangebound.release.plan.question import (
    UNDATED,
    Clipped,
    ColumnQuestion,
    CountUnits,
    CutQuestion,
    Maximum,
    Minimum,
    Share,
)


def scope(plan: Plan, index: int) -> str:
    """What the numbers of a question are of, in plain words; empty where every row counts as it is.

    Guarantee: made of the plan alone. The interval of a number is for the answer to this question: the answer after the
    contribution bounds, the clipping and the treatment of missing values that are named here.
    Edge cases: rows that the question itself does not ask for (`where`, other groups) are not named.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('''unit = {column = "person", rows = 10}
    ... budget = {epsilon = 1.0}
    ... query = [{name = "minutes", kind = "sum", column = "minutes", range = [0, 500], missing = 0}]''')
    >>> print(*scope(plan, 0).split(", "), sep="\\n")
    rows per 'person' cut at 10
    values clipped to 0 to 500
    missing values counted as 0
    rows without 'person' left out
    """
    question: Any = plan.query[index]
    if isinstance(question, CutQuestion):
        return plain(_cut(plan, question))
    said = [*_contributions(plan, index), *_quantile(question), *_values(question), *_absent(plan, question)]
    ends = question.allowed.hull
    if (ends.lower, ends.upper) != (question.natural.lower, question.natural.upper):
        said.append(f"answer moved into {_span(ends.lower, ends.upper, dated=_dated(question))}")
    return plain(", ".join(said))


def scopes(plan: Plan) -> tuple[str, ...]:
    """What the numbers of each question are of."""
    return tuple(scope(plan, index) for index in range(len(plan.query)))


def scope_lines(plan: Plan) -> list[str]:
    """What stands below a table: what its intervals are for, and for each question that leaves something out, what.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('''unit = {column = "person", rows = 10}
    ... budget = {epsilon = 1.0}
    ... query = [{name = "visits", kind = "count"}]''')
    >>> print(*scope_lines(plan), sep="\\n")
    Intervals are for the noise alone, not for what was left out, cut or clipped before it:
      visits: rows per 'person' cut at 10, rows without 'person' left out
    """
    found = [f"  {plain(each.name)}: {said}" for each, said in zip(plan.query, scopes(plan), strict=True) if said]
    return [_HEAD, *found] if found else []


_HEAD = "Intervals are for the noise alone, not for what was left out, cut or clipped before it:"


def _cut(plan: Plan, question: CutQuestion) -> str:
    """What a question about what was cut is about."""
    whose = ", ".join(map(repr, question.about))
    if isinstance(question, Clipped):
        span = _span(*map(number, question.within), dated=question.sample.dated)
        return f"values outside {span} among the rows that count for {whose}"
    limit = looked_at(question, plan.unit, plan.groups(question.over))
    what = "groups" if question.units else "rows"
    looked = f"{what} per {plan.unit.column!r} looked at up to {limit}"
    blank = "" if question.valued is None else ", rows without a value left out"
    return f"{what} dropped by the contribution bounds for {whose}, {looked}{blank}"


def _contributions(plan: Plan, index: int) -> list[str]:
    """What the contribution bounds cut."""
    unit, question = plan.unit, plan.query[index]
    if unit.column is None:
        return []
    all_count = plan.groups(question.by) <= unit.groups
    said = [] if all_count else [f"groups per {unit.column!r} cut at {unit.groups}"]
    if not isinstance(question, CountUnits):
        said.append(f"rows per {unit.column!r}{' and group' if question.by else ''} cut at {unit.rows}")
    return said


def _quantile(question: Any) -> list[str]:
    """A minimum or maximum is a quantile: no single row decides it."""
    return [f"quantile at level {question.level:g}"] if isinstance(question, Minimum | Maximum) else []


def _values(question: Any) -> list[str]:
    """What the range clips."""
    if not isinstance(question, ColumnQuestion):
        return []
    return [f"values clipped to {_span(*map(number, question.range), dated=question.dated)}"]


def _absent(plan: Plan, question: Any) -> list[str]:
    """What happens to rows without a value or an owner."""
    said = []
    if isinstance(question, ColumnQuestion):
        filler = question.filler
        counted = None if filler is None else f"counted as {_end(filler, dated=question.dated)}"
        said.append(f"missing values {counted or 'left out'}")
    if isinstance(question, Share):
        columns = dict.fromkeys(repr(each.column) for each in question.of if each.values)
        said += [f"rows without {' or '.join(columns)} counted as not meeting the condition"] if columns else []
    return [*said, f"rows without {plan.unit.column!r} left out"] if plan.unit.column is not None else said


def _dated(question: Any) -> bool:
    return getattr(question, "dated", False) and question.kind not in UNDATED


def _span(lower: float, upper: float, *, dated: bool) -> str:
    return f"{_end(lower, dated=dated)} to {_end(upper, dated=dated)}"


def _end(value: float, *, dated: bool) -> str:
    """A public number with all its digits, or a day."""
    return date(value).isoformat() if dated else repr(value).removesuffix(".0")
