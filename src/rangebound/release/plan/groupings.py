"""The groupings of a plan: questions that share their groups, and counts that one strategy may measure together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain, combinations, product

from rangebound.release.plan.condition import Condition
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


MOST_CELLS = 50_000
"""Numbers that are measured for one workload at most."""
_MORE_SCANS = 8  # or as many as there are counts: what only the number of rows with other keys needs


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Counts of the same rows by public keys: `questions` by their places in the plan, and the `columns` they are by.

    With `others` a column has one value more, which stands for all keys that are not listed, and for none: a count by
    other columns counts these rows too.
    """

    questions: tuple[int, ...]
    columns: tuple[str, ...]
    others: bool

    def attributes(self, by: tuple[str, ...]) -> tuple[int, ...]:
        """A grouping as places of its columns."""
        return tuple(self.columns.index(each) for each in by)


def workloads(plan: Plan) -> tuple[Workload, ...]:
    """The workloads of a plan: two or more counts with the same filter, by different columns with public keys.

    Edge cases: none where a question of the plan has a weight, which is a share of the account that it alone has; nor
    where units own several rows, whose contribution bounds hold in each grouping by itself, so that counts by different
    columns are not about the same rows. A count that another one asks for too stays by itself, and so does one by
    columns whose keys are listed as combinations, which are not a product. Counts that would need more than 8 further
    scans, and more scans than there are counts, stay so too: one by five columns has 32 sums.

    >>> from rangebound.release.plan.toml import parse_plan
    >>> plan = parse_plan('''budget = {epsilon = 1.0, delta = 1e-6}
    ... keys = {sex = ["f", "m"], age = ["1", "2"]}
    ... [[query]]
    ... name = "by sex"
    ... kind = "count"
    ... by = ["sex"]
    ... [[query]]
    ... name = "by both"
    ... kind = "count"
    ... by = ["age", "sex"]''')
    >>> workloads(plan)
    (Workload(questions=(0, 1), columns=('sex', 'age'), others=True),)
    """
    if any(each.weight is not None for each in plan.query):
        return ()
    found: dict[tuple[Condition, ...], dict[frozenset[str], int]] = {}
    for index, each in enumerate(plan.query):
        product = not plan.private(each.by) and not plan.combined(each.by)
        if each.is_marginal(plan.unit_of(each)) and product and _cells(plan, each.by) <= MOST_CELLS:
            found.setdefault(each.where, {}).setdefault(frozenset(each.by), index)
    several = (tuple(each.values()) for each in found.values() if len(each) > 1)
    fit = (each for each in several if sum(_cells(plan, plan.query[at].by) for at in each) <= MOST_CELLS)
    made = (workload_of(plan, each) for each in fit)
    return tuple(each for each in made if len(hidden_groupings(plan, each)) <= max(_MORE_SCANS, len(each.questions)))


def _cells(plan: Plan, by: tuple[str, ...]) -> int:
    return math.prod(len(keys) + _others(plan, column) for column, keys in zip(by, plan.columns(by), strict=True))


def _others(plan: Plan, column: str) -> bool:
    rule = plan.rule(column)
    return not plan.only_listed and not (rule is not None and rule.complete)


def workload_of(plan: Plan, questions: tuple[int, ...]) -> Workload:
    """The workload of some counts, which `workloads` has found."""
    columns = dict.fromkeys(column for index in questions for column in plan.query[index].by)
    others = any(_others(plan, column) for column in columns)
    return Workload(questions=questions, columns=tuple(columns), others=others)


def hidden_groupings(plan: Plan, workload: Workload) -> tuple[tuple[str, ...], ...]:
    """The groupings inside those of a workload that nobody asked for: their counts say how many rows have other keys.

    Where rows with other keys do not count there are none: all other sums follow from the counts.
    """
    if not workload.others:
        return ()
    asked = [tuple(sorted(plan.query[index].by, key=workload.columns.index)) for index in workload.questions]
    inner = dict.fromkeys(part for each in asked for size in range(len(each)) for part in combinations(each, size))
    for each in asked:
        inner.pop(each, None)
    return tuple(inner)


def hidden_blocks(plan: Plan, workload: Workload) -> tuple[Block, ...]:
    """The same with their keys, for the first count of the workload."""
    return tuple(block_of(plan, by, workload.questions[:1]) for by in hidden_groupings(plan, workload))
