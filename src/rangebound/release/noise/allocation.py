"""Who gets which part of the budget: by weight to questions and selections, then evenly to the groups a unit is in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from rangebound.errors import ArgumentError, PlanError
from rangebound.ledger.amount import promised
from rangebound.numeric import rounded_down
from rangebound.release.noise.partition_selection import keep_probabilities
from rangebound.release.plan.clipping import is_cut
from rangebound.release.plan.model import Plan
from rangebound.release.plan.question import Count, CountUnits, CutQuestion, RankQuestion, Sum
from rangebound.release.sql.aggregate import Sensitivity, sensitivity
from rangebound.release.sql.statements import blocks

_SMALLEST = 1e-30  # an epsilon that promises all there is to promise, and keeps every scale within the doubles


@dataclass(frozen=True, kw_only=True)
class Share:
    """What one number (or one selection of a key) may spend, of `parts` in each of the `groups` that a unit moves.

    A group counts twice where a replaced unit may move it by two steps of the sensitivity.

    `groups` times `parts` times (`epsilon`, `delta`) is at most the question's part of the budget. Of `epsilon`, a
    quantile spends `end` on each end of its interval, and `drawn` on itself.
    """

    epsilon: float
    delta: float
    groups: int
    parts: int
    end: float = 0.0

    @property
    def drawn(self) -> float:
        """What is left for the number itself, rounded down."""
        return rounded_down(Fraction(self.epsilon) - 2 * Fraction(self.end))


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """The shares of all questions, and of the selection of keys of the blocks that need one."""

    questions: Mapping[int, Share]
    selections: Mapping[tuple[str, ...], Share]
    sensitivities: Mapping[int, Sensitivity]


def allocate(plan: Plan) -> Allocation:
    """Split the plan's budget.

    Epsilon goes by weight to all questions and selections; delta by weight to selections, counts and sums, the only
    ones that can use it; not where a unit takes two steps in one group. The questions of `report_clipping` have the
    plan's `clipping_share` of epsilon together. A number that is public anyway gets nothing.

    Guarantee: the shares of everything a unit can be part of add up to at most the budget, in exact arithmetic: the
    doubles of the plan, and the decimals that they print as, which are charged.
    Edge cases: a share that is too small to draw or to select with is refused here, before anything is charged.
    """
    private = [block for block in blocks(plan) if block.keys is None]
    found = {
        index: sensitivity(each, plan.unit, groups=plan.groups(each.over if isinstance(each, CutQuestion) else each.by))
        for index, each in enumerate(plan.query)
    }
    weights = {
        index: Fraction(each.weight) if found[index].cell else Fraction(0) for index, each in enumerate(plan.query)
    }
    selection = Fraction(plan.selection)
    _weigh_cuts(plan, weights, selection * len(private))
    total = sum(weights.values(), Fraction(0)) + selection * len(private) or Fraction(1)
    users = [
        index
        for index, each in enumerate(plan.query)
        if isinstance(each, Count | CountUnits | Sum) and not found[index].twice
    ]
    slack = sum((weights[index] for index in users), Fraction(0)) + selection * len(private)
    epsilon, delta = promised(plan.budget.epsilon), promised(plan.budget.delta)

    def share(weight: Fraction, groups: int, parts: int, *, slackened: bool) -> Share:
        times = groups * parts
        part = delta * weight / slack / times if slackened and slack else Fraction(0)
        return Share(
            epsilon=rounded_down(epsilon * weight / total / times), delta=rounded_down(part), groups=groups, parts=parts
        )

    questions = {}
    for index, each in enumerate(plan.query):
        parts = len(each.asked) if isinstance(each, RankQuestion) else 1
        own = share(weights[index], found[index].groups, parts, slackened=index in users)
        end = Fraction(each.interval_share) / 2 if isinstance(each, RankQuestion) else Fraction(0)
        questions[index] = replace(own, end=rounded_down(Fraction(own.epsilon) * end))
        if found[index].cell and questions[index].drawn < _SMALLEST:
            raise PlanError(
                f"query[{index}].weight={each.weight!r}: leaves epsilon {questions[index].drawn:.3g} for a number; "
                f"it must be at least {_SMALLEST:g}: give it more weight, or a larger budget",
                field=f"query[{index}].weight",
            )
    most = plan.unit.groups * (2 if plan.unit.replaced else 1)
    selections = {block.by: share(selection, most, 1, slackened=True) for block in private}
    for each_share in selections.values():
        try:
            keep_probabilities(each_share.epsilon, each_share.delta)
        except ArgumentError as reason:
            raise PlanError(f"selection={plan.selection!r}: {reason}", field="selection") from None
    return Allocation(questions=questions, selections=selections, sensitivities=found)


def _weigh_cuts(plan: Plan, weights: dict[int, Fraction], selected: Fraction) -> None:
    """Give the questions of `report_clipping` the weights with which they have `clipping_share` of epsilon together."""
    cuts = [index for index, each in enumerate(plan.query) if is_cut(each)]
    others = sum((weight for index, weight in weights.items() if index not in cuts), selected)
    share = Fraction(plan.clipping_share) if others else Fraction(1, 2)  # where all else is public they have it all
    for index in cuts:
        weights[index] = share / (1 - share) * (others or 1) / len(cuts)


def spent(plan: Plan, allocation: Allocation) -> tuple[Fraction, Fraction]:
    """What a unit can lose in all, exactly: at most the budget."""
    shares: list[Any] = [*allocation.questions.values(), *allocation.selections.values()]
    times = [each.groups * each.parts for each in shares]
    return (
        sum((Fraction(each.epsilon) * n for each, n in zip(shares, times, strict=True)), Fraction(0)),
        sum((Fraction(each.delta) * n for each, n in zip(shares, times, strict=True)), Fraction(0)),
    )
