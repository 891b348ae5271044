"""What a published number is of: which rows and values its question leaves out or moves, by the plan alone.

An interval is for the noise. It does not cover what contribution bounds, clipping and missing values did before the
noise, so every form of the table says that in words, and all of them take the words from here.
"""

from __future__ import annotations

from rangebound.errors import plain
from rangebound.release.plan.kinds.facts import owner_scope
from rangebound.release.plan.model import Plan
from rangebound.release.plan.words import span


def scope(plan: Plan, index: int) -> str:
    """What the numbers of a question are of, in plain words; empty where every row counts as it is.

    Guarantee: made of the plan alone, and the same for a plan that was written and read. The interval of a number is
    for the answer to this question: the answer after the contribution bounds, the clipping and the treatment of missing
    values that are named here.
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
    question = plan.query[index]
    said = question.scope(plan.unit_of(question), plan.groups(question.counted_by))
    said += [word for each in plan.join or () for word in each.scope]
    said += [] if plan.per_unit is None else [f"one row per {plan.unit.column!r}", *owner_scope(plan.unit)]
    if plan.only_listed:
        columns = ", ".join(map(repr, sorted(plan.listed_columns)))
        said.append(f"rows with other keys than the listed ones in {columns} left out")
    ends, natural = question.allowed.hull, question.natural
    if (ends.lower, ends.upper) != (natural.lower, natural.upper):
        said.append(f"answer moved into {span(ends.lower, ends.upper, dated=question.answers_dated)}")
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
