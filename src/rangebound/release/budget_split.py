"""How the budget of a plan is split: every way to share it among the questions and the partition selections.

All of it follows from the plan, before any data are read. A margin is half the width of an interval, and follows from
the noise alone: it says which share its question needs, whatever the plan's epsilon is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from types import MappingProxyType

from rangebound.errors import ArgumentError, PlanError
from rangebound.release.noise.allocation import (
    SMALLEST,
    Allocation,
    BudgetShare,
    LossForm,
    Overdrawn,
    Request,
    fixed_epsilon,
    fixed_square,
    gaussian_epsilon,
    split,
    split_gaussian,
)
from rangebound.release.noise.draw import Columns, Publisher
from rangebound.release.noise.forms import Form, form_of
from rangebound.release.noise.marginal_publisher import Marginals, marginal_publishers, unit_strategy
from rangebound.release.noise.noisy_coordinates import MechanismPublisher
from rangebound.release.noise.partition_selection import partition_selection, threshold_selection
from rangebound.release.plan.groupings import Block, Workload, blocks, hidden_groupings, workload_of, workloads
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.model import Plan
from rangebound.release.plan.statistic import Sensitivity
from rangebound.release.plan.unit import Unit
from rangebound.values import arguments
from rangebound.values.numeric import root_up, rounded_up
from rangebound.values.roots import boundary

LARGEST = 100.0
"""The largest epsilon that a plan may have."""
_CLOSE = 2.0**-30  # relative: a share is that near to the smallest one
_Weight = Callable[[Form, Sensitivity, float], float]
_Thresholds = Mapping[tuple[str, ...], int]
_NONE: _Thresholds = MappingProxyType({})


def every_allocation(plan: Plan) -> Iterator[Allocation]:
    """Those of this version, and then those of earlier ones, by which their tables are read and checked."""
    yield from allocations(plan)
    if any(each.earlier is not each for each in PlanParts(plan=plan).forms):
        yield from allocations(plan, earlier=True)


def allocations(plan: Plan, *, earlier: bool = False) -> list[Allocation]:
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
    parts = PlanParts(plan=plan, earlier=earlier)
    merged = parts.merged if plan.budget.delta else ()
    even, least = parts.weights(None), parts.weights(_sum_weight)
    ways: list[Allocation] = []
    for weights in (even, *([least] if least != even else [])):
        with suppress(Overdrawn, _Unmet):
            ways.append(parts.allocation(weights, gaussian=False))
    for together in ((), *([merged] if merged else [])) if plan.budget.delta else ():
        with suppress(Overdrawn, _Unmet):
            ways.append(parts.gaussian_allocation(together))
    if not ways:
        epsilon, named = plan.budget.epsilon, first_names([each.name for each in plan.query if each.margin is not None])
        figure = float(arguments.upwards(least_epsilon(plan)[0], 4))
        way = f"epsilon {figure:g} would do, {figure - epsilon:.4g} more"
        way = way if figure <= LARGEST else f"no epsilon up to {LARGEST:g} would do"
        rule = f"is less than what the margins need ({named}); {way}; rangebound plan solve shows the shares"
        raise PlanError(f"budget.epsilon={epsilon!r}: {rule}", field="budget.epsilon")
    return ways


def least_epsilon(plan: Plan, rest: float | None = None) -> tuple[float, Fraction, int]:
    """The smallest epsilon at the plan's delta with which all its margins are met, in the account where it is smaller.

    `rest` is the part of the account that is left for what has no margin, questions and partition selections; by
    default that of its number among all that cost. In plain sums epsilons add up. In a Gaussian account the squares of
    mu do, and the profile of all parts together at delta says the epsilon. With it come the part that is left, and how
    many things that cost have no margin.

    Guarantee: rounded up; no smaller one meets them in that account by more than a billionth.
    Edge cases: a margin that no account can meet raises `PlanError`.
    """
    parts, delta = PlanParts(plan=plan), plan.budget.delta
    ways, unmet = list[tuple[float, Fraction, int]](), list[_Unmet]()
    for gaussian in (False, True) if delta else (False,):
        try:
            requests = tuple(parts.requests(parts.weights(_gaussian_weight if gaussian else None), gaussian=gaussian))
        except _Unmet as reason:
            unmet.append(reason)
            continue
        others = sum(each.needs is None and each.weight > 0 for each in requests)
        margins = sum(each.needs is not None for each in requests)
        part = Fraction(others, others + margins or 1) if rest is None else Fraction(rest)
        if gaussian:
            epsilon = gaussian_epsilon(root_up(fixed_square(requests) / (1 - part)), delta, requests)
        else:
            epsilon = rounded_up(fixed_epsilon(requests) / (1 - part))
        ways.append((epsilon, part, others))
    if not ways:
        raise PlanError(str(unmet[-1]), field=unmet[-1].field)
    return min(ways, key=lambda each: each[0])


def first_names(names: Sequence[str]) -> str:
    """The first three of some names, and how many there are more."""
    return ", ".join(map(repr, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


@dataclass(frozen=True, kw_only=True)
class PlanParts:
    """What follows from a plan before its budget is split, asked of it once: how its budget can be shared."""

    plan: Plan
    earlier: bool = False

    @cached_property
    def forms(self) -> tuple[Form, ...]:
        """Every question in its form, with the contribution bounds that hold for it."""
        found = tuple(form_of(each, self.plan.unit_of(each)) for each in self.plan.query)
        return tuple(each.earlier for each in found) if self.earlier else found

    @cached_property
    def sensitivities(self) -> dict[int, Sensitivity]:
        """How far a unit moves each question."""
        asked = ((each, self.plan.unit_of(each), self.plan.groups(each.counted_by)) for each in self.plan.query)
        return {index: each.sensitivity(unit, groups) for index, (each, unit, groups) in enumerate(asked)}

    @cached_property
    def private(self) -> tuple[Block, ...]:
        """The groupings whose keys are selected privately."""
        return tuple(block for block in blocks(self.plan) if block.keys is None)

    @cached_property
    def merged(self) -> tuple[Workload, ...]:
        """The workloads whose counts have less error together than each by itself, for any share of a Gaussian account.

        Shares that are least for the objective make it the square of the sum of the roots of what each part adds to it
        at mu = 1, divided by mu^2: so it is enough to compare a workload's root with the sum of those of its counts.
        """

        def apart(index: int) -> float:
            return _gaussian_weight(self.forms[index], self.sensitivities[index], self.importance(index))

        found = workloads(self.plan)
        return tuple(each for each in found if self._workload_weight(each) < sum(map(apart, each.questions)))

    def importance(self, index: int) -> float:
        """How much the variance of a question's numbers counts in the plan's objective, all of its numbers together.

        `total` adds up variances: it is the number of numbers. `relative` divides each by the square of what the number
        would be if the rows were spread evenly: the number of rows, which is the same for all, divided by that number.
        """
        plan, question = self.plan, self.plan.query[index]
        groups = plan.groups(question.by)
        counted = plan.unit_of(question).groups if math.isinf(groups) else groups
        numbers = question.numbers(plan.columns(question.by), counted)
        return float(numbers**3 if plan.objective == "relative" else numbers)

    def _workload_weight(self, workload: Workload) -> float:
        """The root of what the counts of a workload add to the objective at mu = 1."""
        marginals, importances = self._marginals(workload)
        variances = unit_strategy(marginals, importances, replaced=self.plan.unit.replaced).cell_variances
        return math.sqrt(sum(each * variance for each, variance in zip(importances, variances, strict=True)))

    def _marginals(self, workload: Workload) -> tuple[Marginals, tuple[float, ...]]:
        """A workload as marginals of one table, and how much the variance of each count matters."""
        marginals = Marginals(
            listed=tuple(len(keys) for keys in self.plan.columns(workload.columns)),
            asked=tuple(workload.attributes(self.plan.query[index].by) for index in workload.questions),
            hidden=tuple(workload.attributes(by) for by in hidden_groupings(self.plan, workload)),
            others=workload.others,
        )
        return marginals, tuple(map(self.importance, workload.questions))

    def weights(self, least: _Weight | None, merged: Sequence[Workload] = ()) -> dict[int, Fraction]:
        """The weight of every question: the plan's or, where it names none, the `least` one, or else even ones.

        That of a workload stands at its first question. The questions of `report_clipping` have the weights with which
        they have `clipping_share` of it all together; where nothing else is left they have it all.
        """
        plan, found = self.plan, self.sensitivities
        weights = {at: Fraction(1.0 if each.weight is None else each.weight) for at, each in enumerate(plan.query)}
        unpaid = {at for at, each in enumerate(plan.query) if each.margin is not None or not found[at].cell}
        cuts = [at for at, each in enumerate(plan.query) if each.made]
        asked = [at for at in weights if at not in unpaid and at not in cuts]
        if least is not None and all(each.weight is None for each in plan.query):
            matter = dict.fromkeys(asked, 1.0)  # one alone has all
            if len(asked) > 1:
                for at in asked:
                    columns, gaussian = plan.columns(plan.query[at].by), least is _gaussian_weight
                    more = self.forms[at].excess_variance(found[at], columns, gaussian=gaussian)
                    matter[at] = self.importance(at) * more
            best = {at: Fraction(least(self.forms[at], found[at], matter[at])) for at in asked}
            for each in merged:
                best |= dict.fromkeys(each.questions, Fraction(0))
                best[each.questions[0]] = Fraction(self._workload_weight(each))
            mean = sum(best.values(), Fraction(0)) / len(asked) if asked else Fraction(1)  # beside that of selections
            weights |= {at: weight / mean for at, weight in best.items()}
        weights |= dict.fromkeys(unpaid, Fraction(0))
        selected = Fraction(plan.selection) * len(self.private)
        others = sum((weight for at, weight in weights.items() if at not in cuts), selected)
        share = Fraction(plan.clipping_share) if others else Fraction(1, 2)
        return weights | dict.fromkeys(cuts, share / (1 - share) * (others or 1) / (len(cuts) or 1))

    def requests(
        self, weights: Mapping[int, Fraction], *, gaussian: bool, thresholds: _Thresholds = _NONE
    ) -> list[Request]:
        """What every question and every partition selection asks for, in the order of the plan."""
        requests = []
        for index, (question, form) in enumerate(zip(self.plan.query, self.forms, strict=True)):
            found = self.sensitivities[index]
            asked = Request(
                weight=weights[index],
                groups=found.groups,
                parts=form.draws,
                uses_delta=form.uses_delta and not found.twice,
                interval_share=form.interval_part,
                loss=form.loss,
                twice=found.twice,
            )
            if question.margin is not None and found.cell:
                unit, level = self.plan.unit_of(question), self.plan.interval_level
                nameless = question.model_copy(update={"name": ""})  # many questions differ by their names alone
                try:
                    needs = _needed(nameless, unit, found, asked, level, self.plan.columns(question.by), gaussian)
                except PlanError as reason:
                    raise _Unmet(f"query[{index}].{reason}", field=f"query[{index}].{reason.field}") from None
                asked = replace(asked, needs=needs)
            requests.append(asked)
        times, weight = 2 if self.plan.unit.replaced else 1, Fraction(self.plan.selection)
        return requests + [
            Request(weight=weight, groups=times * each.unit.groups, uses_delta=True, free=each.by in thresholds)
            for each in self.private
        ]

    def allocation(
        self,
        weights: Mapping[int, Fraction],
        *,
        gaussian: bool,
        thresholds: _Thresholds = _NONE,
        together: tuple[tuple[int, ...], ...] = (),
    ) -> Allocation:
        """The budget split by weight; of questions that are measured `together`, each has the share of all of them."""
        plan, requests = self.plan, self.requests(weights, gaussian=gaussian, thresholds=thresholds)
        budget = plan.budget.epsilon, plan.budget.delta
        mu, shares = split_gaussian(*budget, tuple(requests)) if gaussian else (0.0, split(*budget, requests))
        questions = dict(enumerate(shares[: len(plan.query)]))
        questions |= {index: questions[each[0]] for each in together for index in each}
        selections = dict(zip((each.by for each in self.private), shares[len(plan.query) :], strict=True))
        for index, question in enumerate(plan.query):
            share = questions[index]
            if self.sensitivities[index].cell and max(share.drawn, share.mu) < SMALLEST:
                raise PlanError(
                    f"query[{index}].weight={question.weight!r}: leaves epsilon {share.drawn:.3g} for a number; "
                    f"it must be at least {SMALLEST:g}: give it more weight, or a larger budget",
                    field=f"query[{index}].weight",
                )
        for by, share in selections.items():
            try:
                if by not in thresholds:
                    partition_selection(share.epsilon, share.delta)
            except ArgumentError as reason:
                raise PlanError(f"selection={plan.selection!r}: {reason}", field="selection") from None
        return Allocation(
            questions=questions,
            selections=selections,
            sensitivities=self.sensitivities,
            mu=mu,
            thresholds=thresholds,
            workloads=together,
            earlier=self.earlier,
        )

    def gaussian_allocation(self, merged: Sequence[Workload] = ()) -> Allocation:
        """A Gaussian account in which the workloads that are `merged` have one share each.

        Keys are selected by the noisy count of their rows or units, where that names more. A partition selection takes
        a part of the account, and names a group of that many units with probability 1/2; a threshold takes none, and
        names one whose count is at the threshold with that probability.
        """
        weights, together = self.weights(_gaussian_weight, merged), tuple(each.questions for each in merged)
        usual = self.allocation(weights, gaussian=True, together=together)
        rows = [each.selecting_rows(self.plan.unit_of(each)) for each in self.plan.query]
        counts = {each.by: next((at for at in each.questions if rows[at]), None) for each in self.private}
        thresholds = {by: index for by, index in counts.items() if index is not None}
        if not thresholds:
            return usual
        other = self.allocation(weights, gaussian=True, thresholds=thresholds, together=together)
        better = {}
        for by, index in thresholds.items():
            most, scale = self.noisy_count(index, self.publisher(other, index))
            lowest = threshold_selection(index, rows=most, scale=scale, delta=other.selections[by].delta).threshold
            chances = partition_selection(usual.selections[by].epsilon, usual.selections[by].delta).probabilities
            if lowest <= most * next(units for units, each in enumerate(chances) if 2 * each >= chances[-1]):
                better[by] = index
        return self.allocation(weights, gaussian=True, thresholds=better, together=together) if better else usual

    def noisy_count(self, index: int, publisher: Publisher) -> tuple[int, float]:
        """What a unit adds to a count that selects keys, and the scale of the noise that is added to it."""
        question = self.plan.query[index]
        rows = question.selecting_rows(self.plan.unit_of(question))
        assert rows is not None
        assert isinstance(publisher, MechanismPublisher)  # Gaussian noise, as the account has it
        return rows, publisher.mechanism.noise.scale

    def publisher(self, allocation: Allocation, index: int) -> Publisher:
        """The publisher of a question that is measured by itself, as its kind makes it."""
        found, share = allocation.sensitivities[index], allocation.questions[index]
        columns = self.plan.columns(self.plan.query[index].by)
        try:
            return self.forms[index].publisher(found, share, level=self.plan.interval_level, columns=columns)
        except PlanError as reason:
            raise PlanError(f"query[{index}].{reason}", field=f"query[{index}].{reason.field}") from None

    def workload_publishers(self, allocation: Allocation) -> dict[int, Publisher]:
        """The publishers of all questions that are measured together with others."""
        found: dict[int, Publisher] = {}
        for questions in allocation.workloads:
            asked = [self.plan.query[index] for index in questions]
            try:
                publishers = marginal_publishers(
                    *self._marginals(workload_of(self.plan, questions)),
                    tuple(each.published_in(self.plan.unit_of(each)).hull for each in asked),
                    allocation.questions[questions[0]],
                    replaced=self.plan.unit.replaced,
                    level=self.plan.interval_level,
                )
            except ArgumentError as reason:
                field = f"query[{questions[0]}]"
                raise PlanError(f"{field}: no noise for its workload ({reason})", field=field) from None
            found |= zip(questions, publishers, strict=True)
        return found


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


class _Unmet(PlanError):
    """A margin that cannot be met in an account, whatever its size."""


@lru_cache(maxsize=1024)
def _needed(
    question: Kind, unit: Unit, found: Sensitivity, request: Request, level: float, columns: Columns, gaussian: bool
) -> BudgetShare:
    """The smallest share with which half the width of a question's interval is at most its margin.

    In plain sums it is an epsilon for each number, without a delta; in a Gaussian account the mu of all its numbers
    together or, for a named mechanism that is pure, again an epsilon.

    Guarantee: the intervals of the share that is returned are no wider; one that is smaller by a billionth has wider
    ones, since the width falls as the share grows.
    Edge cases: a margin that no share meets, up to 100 in epsilon or in mu, raises `PlanError`; so does a mechanism
    that cannot be calibrated in this account.

    >>> from rangebound.release.plan.kinds.scalars import Count
    >>> question, request = Count(name="visits", margin=25.0), Request(weight=Fraction(0), groups=1)
    >>> one = Sensitivity(cell=Fraction(1), groups=1, square=Fraction(1))
    >>> round(_needed(question, Unit(), one, request, 0.95, (), False).epsilon, 4)
    0.1174
    """
    form, margin = form_of(question, unit), question.margin
    assert margin is not None
    of_all = gaussian and form.loss is LossForm.GAUSSIAN

    def share(size: float) -> BudgetShare:
        return replace(request.share(0.0, 0.0), mu=size) if of_all else request.share(size, 0.0)

    def half_width(size: float) -> float:
        width = form.half_width(form.publisher(found, share(size), level=level, columns=columns))
        assert width is not None  # a kind that has none refuses a margin
        return width

    near = _near(half_width, margin) if question.together else None
    if near is None:
        high = 1.0
        while half_width(high) > margin:
            if high >= LARGEST:
                raise PlanError(
                    f"margin={margin:g}: cannot be met; at {'mu' if of_all else 'epsilon'} {LARGEST:g} for "
                    f"{'all its numbers' if of_all else 'each number'} half the width of an interval is still "
                    f"{half_width(LARGEST):.4g}",
                    field="margin",
                )
            high = min(2.0 * high, LARGEST)
        low = high / 2.0
        while low > SMALLEST and half_width(low) <= margin:
            low, high = low / 2.0, low
        near = low, high
    return share(boundary(lambda size: half_width(size) <= margin, *near, _CLOSE)[1])


def _near(half_width: Callable[[float], float], margin: float) -> tuple[float, float] | None:
    """Two shares near each other, of which the larger meets a margin and the smaller does not; None if none is found.

    The noise of a strategy is nearly proportional to 1 / share, so a few steps find it; each makes a whole strategy.
    """
    size = 1.0
    for _ in range(3):
        size = min(max(size * half_width(size) / margin, SMALLEST), LARGEST)
    for slack in (_CLOSE / 2.0, 2.0**-20, 2.0**-10):
        low, high = size * (1.0 - slack), size * (1.0 + slack)
        if high <= LARGEST and half_width(high) <= margin < half_width(low):
            return low, high
    return None
