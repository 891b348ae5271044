"""The groupings of a plan: questions that share their groups, and the public keys of these."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, product

from rangebound.release.plan.model import Plan
from rangebound.release.plan.unit import Period, Unit


@dataclass(frozen=True, kw_only=True)
class Block:
    """The questions that share a grouping; `keys` are its public keys in order, None where they are selected.

    Of each `unit` the same groups count for all of these questions, and rows in the same period; how many rows do is
    for each question to say.
    """

    by: tuple[str, ...]
    unit: Unit
    keys: tuple[tuple[str, ...], ...] | None
    questions: tuple[int, ...]


def blocks(plan: Plan) -> tuple[Block, ...]:
    """The groupings of a plan, in the order in which they first appear; one for each bound on groups, and each period.

    Questions with other bounds on rows share one: the same groups of a unit count.
    """
    found: dict[tuple[tuple[str, ...], float, Period | None], list[int]] = {}
    for index, question in enumerate(plan.query):
        unit = plan.unit_of(question)
        bounds = min(unit.groups, plan.groups(question.by)), unit.period
        found.setdefault((question.by, *bounds), []).append(index)
    return tuple(block_of(plan, by, tuple(each)) for (by, *_), each in found.items())


def block_of(plan: Plan, by: tuple[str, ...], questions: tuple[int, ...]) -> Block:
    """Some questions counted in one grouping, which all of them are bounded in alike; there is one at least."""
    unit = plan.unit_of(plan.query[questions[0]])
    return Block(by=by, unit=unit, keys=public_keys(plan, by), questions=questions)


def public_keys(plan: Plan, by: tuple[str, ...]) -> tuple[tuple[str, ...], ...] | None:
    """The public keys of a grouping, in order; None where they are selected privately.

    The product of the keys of its columns, where listed combinations stand for the product of theirs.
    """
    if plan.private(by):
        return None
    combined = plan.combined(by)
    if not combined:
        return tuple(product(*plan.columns(by)))
    factors: dict[tuple[str, ...], tuple[tuple[str, ...], ...]] = {}
    for column, keys in zip(by, plan.columns(by), strict=True):
        found = next((each for each in combined if column in each.columns), None)
        factors |= {(column,): tuple((key,) for key in keys)} if found is None else {found.columns: found.texts}
    names = [column for columns in factors for column in columns]
    order = [names.index(column) for column in by]
    whole = (tuple(chain.from_iterable(parts)) for parts in product(*factors.values()))
    return tuple(tuple(key[at] for at in order) for key in whole)
