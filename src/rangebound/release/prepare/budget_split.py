"""How the budget of a plan is split: every way to share it among the questions and the partition selections.

All of it follows from the plan, before any data are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType

from rangebound.errors import ArgumentError, PlanError
from rangebound.release.noise.allocation import (
    SMALLEST,
    Allocation,
    LossForm,
    Overdrawn,
    Request,
    split,
    split_gaussian,
)
from rangebound.release.noise.form import Publisher
from rangebound.release.noise.forms import Form, form_of
from rangebound.release.noise.marginal_publisher import Marginals, marginal_publishers, unit_strategy
from rangebound.release.noise.noisy_coordinates import MechanismPublisher
from rangebound.release.noise.partition_selection import partition_selection, threshold_selection
from rangebound.release.plan.groupings import Workload, blocks, hidden_groupings, workload_of, workloads
from rangebound.release.plan.model import Plan
from rangebound.release.plan.statistic import Sensitivity
from rangebound.release.prepare.accuracy import LARGEST, Unmet, even_rest, needed, smallest_epsilon
from rangebound.values import arguments


def noisy_count(plan: Plan, allocation: Allocation, index: int) -> tuple[int, float]:
    """What a unit adds to a count that selects keys, and the scale of its noise."""
    question, publisher = plan.query[index], publisher_of(plan, index, allocation)
    rows = question.selecting_rows(plan.unit_of(question))
    assert rows is not None
    assert isinstance(publisher, MechanismPublisher)  # Gaussian noise, as the account has it
    return rows, publisher.mechanism.noise.scale


def form_at(plan: Plan, index: int) -> Form:
    """A question in its form, with the contribution bounds that hold for it."""
    return form_of(plan.query[index], plan.unit_of(plan.query[index]))


def allocations(plan: Plan) -> list[Allocation]:
    """The ways to split a plan's budget: in plain sums first, and in a Gaussian account where there is a delta.

    In plain sums epsilon goes by weight to all questions and selections; delta by weight to selections, counts and
    sums, the only ones that can use it there; not where a unit takes two steps in one group. In a Gaussian account the
    square of mu goes by weight; there is one more such way, in which workloads of counts have one share each, where one
    strategy measures them with less error. Before that a question with a margin gets the share that it needs, which has
    no delta. The questions of `report_clipping` have the plan's `clipping_share` of the rest together. A number that is
    public anyway gets nothing.

    Guarantee: the shares of everything a unit can be part of add up to at most the budget, in exact arithmetic: the
    doubles of the plan, and the decimals that they print as, which are charged.
    Edge cases: a share that is too small to draw or to select with is refused here, before anything is charged. Where
    plain sums are refused for that, the Gaussian account is not tried. An account that cannot meet all margins is left
    out; where no account can, the plan is refused, and the error says which epsilon would do.
    """
    found = _sensitivities(plan)
    merged = _merged(plan, found) if plan.budget.delta else ()
    even, least = _weights(plan, found, None), _weights(plan, found, _sum_weight)
    ways: list[Allocation] = []
    for weights in (even, *([least] if least != even else [])):
        with suppress(Overdrawn, Unmet):
            ways.append(_allocation(plan, found, weights, gaussian=False))
    for together in ((), *([merged] if merged else [])) if plan.budget.delta else ():
        with suppress(Overdrawn, Unmet):
            ways.append(_gaussian_allocation(plan, found, together))
    if not ways:
        raise _overdrawn(plan)
    return ways


def _sensitivities(plan: Plan) -> dict[int, Sensitivity]:
    return {
        index: each.sensitivity(plan.unit_of(each), plan.groups(each.counted_by))
        for index, each in enumerate(plan.query)
    }


@dataclass(frozen=True, kw_only=True)
class Least:
    """The smallest epsilon of an account with which all margins are met, and the requests that say so.

    `rest` is the part of the account that is left for what has no margin.
    """

    epsilon: float
    requests: tuple[Request, ...]
    gaussian: bool
    rest: Fraction


def least_epsilon(plan: Plan, rest: float | None = None) -> Least:
    """The smallest epsilon at the plan's delta with which all its margins are met, in the account where it is smaller.

    `rest` is the part of the account that is left for what has no margin; by default that of its number.

    Guarantee: no smaller one meets them in that account by more than a billionth.
    Edge cases: a margin that no account can meet raises `PlanError`.
    """
    found, ways, unmet = _sensitivities(plan), list[Least](), list[Unmet]()
    weights = {False: _weights(plan, found, None), True: _weights(plan, found, _gaussian_weight)}
    for gaussian in (False, True) if plan.budget.delta else (False,):
        try:
            requests = tuple(_requests(plan, found, weights[gaussian], gaussian=gaussian))
        except Unmet as reason:
            unmet.append(reason)
            continue
        part = even_rest(requests) if rest is None else Fraction(rest)
        epsilon = smallest_epsilon(requests, plan.budget.delta, part, gaussian=gaussian)
        ways.append(Least(epsilon=epsilon, requests=requests, gaussian=gaussian, rest=part))
    if not ways:
        raise unmet[-1].error()
    return min(ways, key=lambda each: each.epsilon)


def _overdrawn(plan: Plan) -> PlanError:
    """The error of a plan whose margins need more than its budget."""
    least = least_epsilon(plan).epsilon
    epsilon, names = plan.budget.epsilon, [repr(each.name) for each in plan.query if each.margin is not None]
    whose = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    figure = float(arguments.upwards(least, 4))
    way = (
        f"epsilon {figure:g} would do, {figure - epsilon:.4g} more"
        if figure <= LARGEST
        else f"no epsilon up to {LARGEST:g} would do"
    )
    return PlanError(
        f"budget.epsilon={epsilon!r}: is less than what the margins need ({whose}); {way}; "
        "rangebound plan solve shows the shares",
        field="budget.epsilon",
    )


def _merged(plan: Plan, found: Mapping[int, Sensitivity]) -> tuple[Workload, ...]:
    """The workloads whose counts have less error together than each by itself, for any share of a Gaussian account.

    Shares that are least for the objective make it the square of the sum of the roots of what each part adds to it at
    mu = 1, divided by mu^2: so it is enough to compare a workload's root with the sum of those of its counts.
    """

    def apart(index: int) -> float:
        return _gaussian_weight(form_at(plan, index), found[index], importance(plan, index))

    return tuple(
        each for each in workloads(plan) if _workload_weight(plan, each) < sum(apart(index) for index in each.questions)
    )


def _workload_weight(plan: Plan, workload: Workload) -> float:
    """The root of what the counts of a workload add to the objective at mu = 1."""
    marginals, importances = _marginals(plan, workload)
    variances = unit_strategy(marginals, importances, replaced=plan.unit.replaced).cell_variances
    return math.sqrt(sum(each * variance for each, variance in zip(importances, variances, strict=True)))


def _marginals(plan: Plan, workload: Workload) -> tuple[Marginals, tuple[float, ...]]:
    """A workload as marginals of one table, and how much the variance of each count matters."""
    marginals = Marginals(
        listed=tuple(len(keys) for keys in plan.columns(workload.columns)),
        asked=tuple(workload.attributes(plan.query[index].by) for index in workload.questions),
        hidden=tuple(workload.attributes(by) for by in hidden_groupings(plan, workload)),
        others=workload.others,
    )
    return marginals, tuple(importance(plan, index) for index in workload.questions)


def _gaussian_allocation(plan: Plan, found: Mapping[int, Sensitivity], merged: Sequence[Workload] = ()) -> Allocation:
    """A Gaussian account in which the workloads that are `merged` have one share each.

    Keys are selected by the noisy count of their rows or units, where that names more. A partition selection takes a
    part of the account, and names a group of so many units with probability 1/2; a threshold takes none, and names one
    whose count is at the threshold with that probability.
    """
    weights, together = _weights(plan, found, _gaussian_weight, merged), tuple(each.questions for each in merged)
    usual = _allocation(plan, found, weights, gaussian=True, together=together)
    counts = {
        block.by: next((at for at in block.questions if _can_select(plan, at)), None)
        for block in blocks(plan)
        if block.keys is None
    }
    thresholds = {by: index for by, index in counts.items() if index is not None}
    if not thresholds:
        return usual
    other = _allocation(plan, found, weights, gaussian=True, thresholds=thresholds, together=together)
    better = {}
    for by, index in thresholds.items():
        rows, scale = noisy_count(plan, other, index)
        lowest = threshold_selection(index, rows=rows, scale=scale, delta=other.selections[by].delta).threshold
        chances = partition_selection(usual.selections[by].epsilon, usual.selections[by].delta).probabilities
        if lowest <= rows * next(units for units, each in enumerate(chances) if 2 * each >= chances[-1]):
            better[by] = index
    if not better:
        return usual
    return _allocation(plan, found, weights, gaussian=True, thresholds=better, together=together)


def _can_select(plan: Plan, index: int) -> bool:
    """Whether the noisy numbers of a question can say which groups to name."""
    question = plan.query[index]
    return bool(question.selecting_rows(plan.unit_of(question)))


def _weights(
    plan: Plan,
    found: Mapping[int, Sensitivity],
    least: Callable[[Form, Sensitivity, float], float] | None,
    merged: Sequence[Workload] = (),
) -> dict[int, Fraction]:
    """The weight of every question: the plan's or, where it names none, the `least` one, or else even ones.

    That of a workload stands at its first question.
    """
    named = any(each.weight is not None for each in plan.query)
    weights = {index: Fraction(1.0 if each.weight is None else each.weight) for index, each in enumerate(plan.query)}
    fixed = {index for index, each in enumerate(plan.query) if each.margin is not None}
    asked = [
        index for index, each in enumerate(plan.query) if found[index].cell and not each.made and index not in fixed
    ]
    if least is not None and not named:
        matter = dict.fromkeys(asked, 1.0)  # one alone has all
        if len(asked) > 1:
            matter = {at: _weighed(plan, at, found[at], gaussian=least is _gaussian_weight) for at in asked}
        best = {index: Fraction(least(form_at(plan, index), found[index], matter[index])) for index in asked}
        for each in merged:
            best |= dict.fromkeys(each.questions, Fraction(0)) | {
                each.questions[0]: Fraction(_workload_weight(plan, each))
            }
        mean = sum(best.values(), Fraction(0)) / len(asked) if asked else Fraction(1)  # beside the weight of selections
        weights |= {index: weight / mean for index, weight in best.items()}
    weights |= {index: Fraction(0) for index, each in found.items() if not each.cell or index in fixed}
    _weigh_cuts(plan, weights, Fraction(plan.selection) * sum(block.keys is None for block in blocks(plan)))
    return weights


def _sum_weight(form: Form, found: Sensitivity, importance: float) -> float:
    """The weight in plain sums with which the objective is least.

    The variance of a number is proportional to (s / share)^2, where s is the L1 sensitivity. The least sum of
    `importance` times variance, for shares that add up to 1, has shares proportional to (importance s^2)^(1/3): set the
    derivatives equal.
    """
    return math.cbrt(importance * (float(found.total / found.row) * form.draws) ** 2)


def _gaussian_weight(form: Form, found: Sensitivity, importance: float) -> float:
    """The weight in a Gaussian account with which the objective is least.

    The variance of a number is proportional to s^2 / share, where s is the L2 sensitivity, so the shares are
    proportional to s importance^(1/2). Where each number has a mu of its own, its variance is proportional to the
    square of its own sensitivity divided by its part of the share.
    """
    square = found.square
    if form.loss is not LossForm.GAUSSIAN:
        square = found.cell**2 * found.groups * form.draws * (2 if found.twice else 1)
    return math.sqrt(importance * square / found.row**2)


def _weighed(plan: Plan, index: int, found: Sensitivity, *, gaussian: bool) -> float:
    """The importance of a question, times by how much its numbers vary more than its sensitivity says."""
    columns = plan.columns(plan.query[index].by)
    return importance(plan, index) * form_at(plan, index).excess_variance(found, columns, gaussian=gaussian)


def importance(plan: Plan, index: int) -> float:
    """How much the variance of a question's numbers counts in the plan's objective, all of its numbers together.

    `total` adds up variances: it is the number of numbers. `relative` divides each by the square of what the number
    would be if the rows were spread evenly: the number of rows, which is the same for all, divided by that number.
    """
    question = plan.query[index]
    groups = plan.groups(question.by)
    counted = plan.unit_of(question).groups if math.isinf(groups) else groups
    numbers = question.numbers(plan.columns(question.by), counted)
    return float(numbers**3 if plan.objective == "relative" else numbers)


def _requests(
    plan: Plan,
    found: Mapping[int, Sensitivity],
    weights: Mapping[int, Fraction],
    *,
    gaussian: bool,
    thresholds: Mapping[tuple[str, ...], int] = MappingProxyType({}),
) -> list[Request]:
    """What every question and every partition selection asks for, in the order of the plan."""
    times = 2 if plan.unit.replaced else 1
    requests = [
        Request(
            weight=weights[index],
            groups=found[index].groups,
            parts=form.draws,
            uses_delta=form.uses_delta and not found[index].twice,
            interval_share=form.interval_part,
            loss=form.loss,
            twice=found[index].twice,
        )
        for index, form in enumerate(form_at(plan, at) for at in range(len(plan.query)))
    ]
    for index, each in enumerate(plan.query):
        if each.margin is not None and found[index].cell:
            asked = requests[index]
            try:
                share = needed(
                    each,
                    plan.unit_of(each),
                    found[index],
                    asked,
                    level=plan.interval_level,
                    columns=plan.columns(each.by),
                    gaussian=gaussian,
                )
            except Unmet as reason:
                raise Unmet(f"query[{index}].{reason}", field=f"query[{index}].{reason.field}") from None
            requests[index] = replace(asked, needs=share)
    return requests + [
        Request(
            weight=Fraction(plan.selection),
            groups=times * block.unit.groups,
            uses_delta=True,
            free=block.by in thresholds,
        )
        for block in blocks(plan)
        if block.keys is None
    ]


def _allocation(
    plan: Plan,
    found: Mapping[int, Sensitivity],
    weights: Mapping[int, Fraction],
    *,
    gaussian: bool,
    thresholds: Mapping[tuple[str, ...], int] = MappingProxyType({}),
    together: tuple[tuple[int, ...], ...] = (),
) -> Allocation:
    private = [block for block in blocks(plan) if block.keys is None]
    requests = _requests(plan, found, weights, gaussian=gaussian, thresholds=thresholds)
    budget = plan.budget.epsilon, plan.budget.delta
    mu, shares = split_gaussian(*budget, tuple(requests)) if gaussian else (0.0, split(*budget, requests))
    questions = dict(enumerate(shares[: len(plan.query)]))
    questions |= {index: questions[each[0]] for each in together for index in each}
    selections = dict(zip((block.by for block in private), shares[len(plan.query) :], strict=True))
    for index, each in enumerate(plan.query):
        share = questions[index]
        if found[index].cell and max(share.drawn, share.mu) < SMALLEST:
            raise PlanError(
                f"query[{index}].weight={each.weight!r}: leaves epsilon {share.drawn:.3g} for a number; "
                f"it must be at least {SMALLEST:g}: give it more weight, or a larger budget",
                field=f"query[{index}].weight",
            )
    for by, each_share in selections.items():
        try:
            if by not in thresholds:
                partition_selection(each_share.epsilon, each_share.delta)
        except ArgumentError as reason:
            raise PlanError(f"selection={plan.selection!r}: {reason}", field="selection") from None
    return Allocation(
        questions=questions,
        selections=selections,
        sensitivities=found,
        mu=mu,
        thresholds=thresholds,
        workloads=together,
    )


def _weigh_cuts(plan: Plan, weights: dict[int, Fraction], selected: Fraction) -> None:
    """Give the questions of `report_clipping` the weights with which they have `clipping_share` of it all together."""
    cuts = [index for index, each in enumerate(plan.query) if each.made]
    others = sum((weight for index, weight in weights.items() if index not in cuts), selected)
    share = Fraction(plan.clipping_share) if others else Fraction(1, 2)  # where nothing else is left they have it all
    for index in cuts:
        weights[index] = share / (1 - share) * (others or 1) / len(cuts)


def publisher_of(plan: Plan, index: int, allocation: Allocation) -> Publisher:
    """The publisher of a question that is measured by itself, as its kind makes it."""
    question, share = plan.query[index], allocation.questions[index]
    try:
        return form_at(plan, index).publisher(
            allocation.sensitivities[index],
            share,
            level=plan.interval_level,
            columns=plan.columns(question.by),
        )
    except PlanError as reason:
        raise PlanError(f"query[{index}].{reason}", field=f"query[{index}].{reason.field}") from None


def workload_publishers(plan: Plan, allocation: Allocation) -> dict[int, Publisher]:
    """The publishers of all questions that are measured together with others."""
    found: dict[int, Publisher] = {}
    for questions in allocation.workloads:
        marginals, importances = _marginals(plan, workload_of(plan, questions))
        try:
            publishers = marginal_publishers(
                marginals,
                importances,
                tuple(
                    each.published_in(plan.unit_of(each)).hull for each in (plan.query[index] for index in questions)
                ),
                allocation.questions[questions[0]],
                replaced=plan.unit.replaced,
                level=plan.interval_level,
            )
        except ArgumentError as reason:
            field = f"query[{questions[0]}]"
            raise PlanError(f"{field}: no noise for its workload ({reason})", field=field) from None
        found |= zip(questions, publishers, strict=True)
    return found
