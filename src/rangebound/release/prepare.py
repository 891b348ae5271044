"""A plan made ready, and its numbers: `prepare` splits the budget, `answers` draws, `rehearse` tries it without data.

All of it but what is drawn follows from the plan. A table is drawn, explained, rehearsed and certified from it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from rangebound.errors import CertificateInvalid, PlanError
from rangebound.mechanisms.finite import Table
from rangebound.release.budget_split import PlanParts, allocations
from rangebound.release.noise.allocation import Allocation, BudgetShare
from rangebound.release.noise.draw import (
    Bits,
    Cell,
    Coordinates,
    Draw,
    Estimate,
    Key,
    Publisher,
    Reading,
    held,
    with_own_interval,
)
from rangebound.release.noise.forms import Form, form_of
from rangebound.release.noise.joint_loss import JointLoss, added_up
from rangebound.release.noise.partition_selection import (
    PartitionSelection,
    ThresholdSelection,
    partition_selection,
    threshold_selection,
)
from rangebound.release.noise.population import added_noise, answer_interval, counted, expected_counts
from rangebound.release.noise.quantiles import QuantilePublisher, RankForm
from rangebound.release.noise.table_publisher import TablePublisher
from rangebound.release.noise.workload_publisher import WorkloadPublisher
from rangebound.release.plan.groupings import Block, Workload, blocks, hidden_blocks, hidden_groupings, workload_of
from rangebound.release.plan.kinds.facts import Sampled, SampledCounts
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.model import Plan
from rangebound.release.plan.statistic import Sensitivity
from rangebound.release.plan.unit import Unit
from rangebound.release.sql.aggregate import Aggregate
from rangebound.sampling.entropy import secure_bits
from rangebound.values.numeric import rounded_up

Draws = Mapping[int, Sequence[Sequence[Draw]]]
"""What was drawn for every question, group and part."""


@dataclass(frozen=True, kw_only=True)
class PreparedQuestion:
    """One question of a plan that was made ready: the bounds of a unit, its share, and how its numbers are made.

    `workload` is the number of the workload in which it is measured, from 1; None where it is measured by itself.
    """

    question: Kind
    unit: Unit
    sensitivity: Sensitivity
    share: BudgetShare
    publisher: Publisher
    workload: int | None
    earlier: bool = False

    @cached_property
    def form(self) -> Form:
        """What is made of its draws."""
        found = form_of(self.question, self.unit)
        return found.earlier if self.earlier else found

    @cached_property
    def error(self) -> str:
        """How far a number may be off, in words."""
        return self.form.expected_error(self.publisher)

    @cached_property
    def half_width(self) -> float | None:
        """Half the width of its intervals; None where the data decide."""
        return self.form.half_width(self.publisher)

    @cached_property
    def sampled(self) -> Sampled | SampledCounts | str:
        """How its answer in the population shows; or in words why it has no interval for that."""
        publisher, found = self.publisher, self.question.sampled(self.unit)
        counted = isinstance(found, SampledCounts) and isinstance(publisher, (QuantilePublisher, WorkloadPublisher))
        if not isinstance(found, str) and not counted and added_noise(publisher) is None:
            return f"no interval for the population is proved for {publisher.words()}"
        return found

    def of_population(self, value: float, draw: Draw, level: float) -> dict[str, float]:
        """The interval for the population, where there is one: in the support that cuts its answers, with the value.

        Guarantee: made of the plan and the draw alone, so it costs nothing.
        """
        sampled, added = self.sampled, added_noise(self.publisher)
        if not isinstance(sampled, Sampled) or added is None:
            return {}
        answers = getattr(self.question, "answers", self.question.allowed.hull)
        found = held(value, *answer_interval(sampled, draw, added, level), answers)
        return {"population_lower": found.lower, "population_upper": found.upper}

    def of_group(
        self, made: Sequence[Estimate], group: Sequence[Draw], level: float, *, whole: bool
    ) -> list[dict[str, float]]:
        """The same for all numbers of a group, of which some are made together; `whole` quantiles have whole ends."""
        if not isinstance(self.sampled, SampledCounts):
            return [self.of_population(each.value, draw, level) for each, draw in zip(made, group, strict=True)]
        if not isinstance(self.publisher, QuantilePublisher):
            lower, upper = expected_counts(*counted(self.publisher, group, level), self.sampled, level)
            ends = list(zip(lower.tolist(), upper.tolist(), strict=True))
        else:
            ends = self.publisher.of_population(group, self.sampled, level)
        own = [held(each.value, *pair, self.question.allowed) for each, pair in zip(made, ends, strict=True)]
        own = [self.form.as_whole(each) for each in own] if whole and isinstance(self.form, RankForm) else own
        return [{"population_lower": each.lower, "population_upper": each.upper} for each in own]


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A plan with its allocation, a publisher for each question, and the partition selection of private groupings."""

    plan: Plan
    allocation: Allocation
    publishers: tuple[Publisher, ...]
    selections: Mapping[tuple[str, ...], PartitionSelection | ThresholdSelection]

    @cached_property
    def questions(self) -> tuple[PreparedQuestion, ...]:
        """Its questions, in order."""
        of = {index: number for number, each in enumerate(self.allocation.workloads, 1) for index in each}
        return tuple(
            PreparedQuestion(
                question=each,
                unit=self.plan.unit_of(each),
                sensitivity=self.allocation.sensitivities[at],
                share=self.allocation.questions[at],
                publisher=self.publishers[at],
                workload=of.get(at),
                earlier=self.allocation.earlier,
            )
            for at, each in enumerate(self.plan.query)
        )

    @cached_property
    def workloads(self) -> tuple[Workload, ...]:
        """The workloads whose counts are measured together."""
        return tuple(workload_of(self.plan, each) for each in self.allocation.workloads)

    @cached_property
    def hidden(self) -> tuple[Block, ...]:
        """The groupings in which a workload is counted that nobody asked for."""
        return tuple(block for each in self.workloads for block in hidden_blocks(self.plan, each))

    @cached_property
    def loss(self) -> JointLoss:
        """What one unit can lose by all that is drawn: what is charged, stated and certified is made of this alone."""
        drawn = (self.publishers[at].loss(share) for at, share in self.allocation.once.items())
        return added_up((*drawn, *(each.apart for each in self.allocation.selections.values())))

    @property
    def tables(self) -> dict[int, Table]:
        """The tables that numbers are drawn from, by the question that names the optimal mechanism."""
        return {at: each.table for at, each in enumerate(self.publishers) if isinstance(each, TablePublisher)}

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The mechanism of every question in a few words."""
        return tuple(each.words() for each in self.publishers)


def prepare(plan: Plan) -> Prepared:
    """Split the budget of a plan and make the publishers of its questions; touches no data.

    A plan with a delta is split in plain sums and in a Gaussian account; where the plan names no weights, evenly and so
    that the objective is least. The one whose numbers have the least error by the plan's objective is taken; where all
    have margins, the one that costs the least mu.

    Guarantee: what the publishers and selections draw is private at the plan's budget, all together. Half the width of
    an interval is at most the margin of its question.
    Edge cases: a share that is too small, or a mechanism that cannot be calibrated, raises `PlanError`.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> prepare(plan).mechanisms
    ('clamped geometric noise, scale 1',)
    """
    ways = allocations(plan)
    if len(ways) == 1:
        return prepared(plan, ways[0])
    found: list[tuple[float, Allocation]] = []
    refused: PlanError | None = None
    for way in reversed(ways):  # a Gaussian account, if there is one, has the least error nearly always
        try:
            error = total_error(plan, way, limit=min((each for each, _ in found), default=math.inf))
        except PlanError as reason:  # a mechanism that the plan names may be calibrated in one account alone
            refused = reason
            continue
        found.insert(0, (error, way))
    if not found:
        assert refused is not None
        raise refused
    least = min(error for error, _ in found)
    made = [prepared(plan, way) for error, way in found if error == least]
    return made[0] if len(made) == 1 else min(made, key=lambda each: each.loss.mu)


def prepared(plan: Plan, allocation: Allocation, tables: Mapping[int, Table] | None = None) -> Prepared:
    """The same with a given allocation, which must be no more than the plan's budget.

    With `tables`, numbers are drawn from these in place of tables that are computed again.

    Edge cases: tables for other questions than those that name the optimal mechanism raise `CertificateInvalid`.
    """
    parts = PlanParts(plan=plan, earlier=allocation.earlier)
    selections = dict[tuple[str, ...], PartitionSelection | ThresholdSelection]()
    together = parts.workload_publishers(allocation)
    publishers = [together.get(at) or parts.publisher(allocation, at) for at in range(len(plan.query))]
    if tables is not None:
        own = {at: each for at, each in enumerate(publishers) if isinstance(each, TablePublisher)}
        if own.keys() != tables.keys():
            raise CertificateInvalid("tables: are not those of the questions with the optimal mechanism")
        for at, each in own.items():
            publishers[at] = replace(each, given=tables[at])
    for by, share in allocation.selections.items():
        index = allocation.thresholds.get(by)
        if index is None:
            selections[by] = partition_selection(share.epsilon, share.delta)
        else:
            rows, scale = parts.noisy_count(index, publishers[index])
            selections[by] = threshold_selection(index, rows=rows, scale=scale, delta=share.delta)
    return Prepared(plan=plan, allocation=allocation, publishers=tuple(publishers), selections=selections)


def total_error(plan: Plan, allocation: Allocation, *, limit: float = math.inf) -> float:
    """The plan's objective: the error of all numbers together, each in units of what one row can add to it.

    Numbers with a margin are as exact as was asked for, and do not count. Once a sum is above `limit` it is given as it
    stands: mechanisms that take long to find come last.
    """
    parts, total = PlanParts(plan=plan), 0.0
    together = parts.workload_publishers(allocation)
    for index in sorted(range(len(plan.query)), key=lambda index: parts.forms[index].effort[1]):
        found, question = allocation.sensitivities[index], plan.query[index]
        if found.cell and not question.made and question.margin is None:
            error = (together.get(index) or parts.publisher(allocation, index)).mse
            total += parts.importance(index) * error / float(found.row) ** 2
        if total > limit:
            break
    return total


def answers(ready: Prepared, *found: Aggregate, whole: Collection[str] = (), bits: Bits = secure_bits) -> list[Cell]:
    """Every number of some blocks, drawn once; a workload needs all blocks that it is counted in, `ready.hidden` too.

    `whole` names the quantiles whose columns have whole numbers.

    Guarantee: what is returned is private at the allocation's shares and lies in its support; it and nothing else may
    be published. How many numbers there are depends on public facts and on selected keys alone.
    """
    return cells_of(ready, *draws_of(ready, *found, bits=bits), whole=whole)


def draws_of(
    ready: Prepared, *found: Aggregate, bits: Bits = secure_bits
) -> tuple[dict[int, Sequence[Key]], dict[int, list[list[Draw]]]]:
    """The keys of every question and what is drawn for them: all of a release that depends on data."""
    keys: dict[int, Sequence[Key]] = {}
    drawn: dict[int, list[list[Draw]]] = {}
    counted: dict[int, Aggregate] = {}
    for each in found:
        if each.block in ready.hidden:
            continue
        chosen, selecting = _keys(ready, each, bits)
        drawn |= selecting
        for index in each.block.questions:
            keys[index], counted[index] = chosen, each
            if index not in drawn and ready.allocation.workload(index) is None:
                drawn[index] = ready.publishers[index].draw([each.answers[index][key] for key in chosen], bits)
    hidden = {each.block: each for each in found if each.block in ready.hidden}
    for workload in ready.workloads:
        first = workload.questions[0]
        if first in keys:
            scans = [(counted[index], index) for index in workload.questions]
            scans += [(hidden[block], first) for block in hidden_blocks(ready.plan, workload)]
            counts = [tuple(count for key in one.keys for count in one.answers[at][key]) for one, at in scans]
            groups = zip(workload.questions, ready.publishers[first].draw(counts, bits), strict=True)
            drawn |= {index: [[each] for each in group] for index, group in groups}
    return keys, drawn


def _keys(ready: Prepared, found: Aggregate, bits: Bits) -> tuple[tuple[Key, ...], dict[int, list[list[Draw]]]]:
    """The keys to publish, public or selected, and what was drawn for a question that selected them."""
    if found.block.keys is not None:
        return found.keys, {}
    selection = ready.selections[found.block.by]
    if isinstance(selection, PartitionSelection):
        return selection.select(found.units, bits), {}
    index, keys = selection.question, sorted(found.units)
    draws = ready.publishers[index].draw([found.answers[index][key] for key in keys], bits)
    named = selection.named(draws)
    return tuple(keys[at] for at in named), {index: [draws[at] for at in named]}


def cells_of(
    ready: Prepared,
    keys: Mapping[int, Sequence[Key]],
    drawn: Draws,
    *,
    earlier: bool = False,
    whole: Collection[str] = (),
) -> list[Cell]:
    """The numbers of some questions in all groups, made of what was drawn for every group and part; a workload's whole.

    `earlier` ones are made as version 0.2 made them; `whole` names the quantiles whose columns have whole numbers.

    Guarantee: a function of public facts and of the draws alone, so it costs nothing, and anyone can compute it again.
    """
    together: dict[int, list[list[Reading]]] = {}
    for workload in ready.workloads:
        if workload.questions[0] in drawn:
            groups = [[draw for group in drawn[index] for draw in group] for index in workload.questions]
            read = zip(workload.questions, ready.publishers[workload.questions[0]].read(groups), strict=True)
            together |= {index: [[each] for each in group] for index, group in read}
    found: list[Cell] = []
    for index, own in keys.items():
        readings = together[index] if index in together else ready.publishers[index].read(drawn[index])
        made = _cells(ready, index, own, drawn[index], readings, earlier=earlier, whole=whole)
        found += ready.questions[index].form.ranking(made)
    return found


def _cells(
    ready: Prepared,
    index: int,
    keys: Sequence[Key],
    draws: Sequence[Sequence[Draw]],
    readings: Sequence[Sequence[Reading]],
    *,
    earlier: bool,
    whole: Collection[str],
) -> list[Cell]:
    own = ready.questions[index]
    form, epsilon, are_whole = own.form, stated_epsilon(own.question, own.share), own.question.name in whole

    def estimate(reading: Reading) -> Estimate:
        found = (form.earlier_estimate if earlier else form.estimate)(reading)
        return form.as_whole(found) if isinstance(form, RankForm) and are_whole else found

    found: list[Cell] = []
    for labels, group, read in zip(own.question.labels(keys), draws, readings, strict=True):
        made, ends = list(map(estimate, read)), [dict[str, float]()] * len(group)
        if ready.plan.of_population:
            ends = own.of_group(made, group, ready.plan.interval_level, whole=are_whole)
        found += [
            with_own_interval(
                Cell(
                    question=index,
                    key=key,
                    part=part,
                    draws=draw,
                    **vars(each),
                    **interval,
                    epsilon=epsilon,
                    delta=own.share.delta,
                    rank_error=reading.rank_error,
                    mu=own.share.mu,
                )
            )
            for (key, part), draw, reading, each, interval in zip(labels, group, read, made, ends, strict=True)
        ]
    return found


def stated_epsilon(question: Kind, share: BudgetShare) -> float:
    """What a table says that a number costs: of numbers that are made together, all of them."""
    return rounded_up(Fraction(share.epsilon) * share.groups) if question.together else share.epsilon


def impossible(ready: Prepared, drawn: Draws) -> int | None:
    """The first question with a draw that its mechanism cannot give; None if there is none."""
    for index in drawn:
        together = ready.allocation.workload(index) or (index,)
        flat = [each for at in together for group in drawn[at] for each in group]
        if index == together[0] and not ready.publishers[index].can_draw(*flat):
            return index
    return None


def rehearse(ready: Prepared) -> None:
    """Draw every question once as if the table were empty, and throw the numbers away.

    Guarantee: reads no data, so that what it refuses reveals nothing about any. A plan that passes has mechanisms,
    steps, levels and ranges with which a number can be drawn.
    Edge cases: of numbers that are made together the draws and the widths of the intervals are tried. What follows
    cannot fail: the projection of any answers has a result, because zeros add up.
    """
    plan = ready.plan
    for block in blocks(plan):
        first = (block.keys[0] if block.keys else ("",) * len(block.by),)
        for index in block.questions:
            own = ready.questions[index]
            if own.workload is not None:
                continue
            keys = block.keys if own.question.together and block.keys else first
            nothing = dict.fromkeys(keys, own.question.coordinates({}, own.unit))
            if own.question.together:
                _try_draw(ready, index, list(nothing.values()))
                continue
            with _refused(index):
                alone = replace(block, keys=keys, questions=(index,))
                answers(ready, Aggregate(block=alone, keys=keys, answers={index: nothing}, units={}))
    for workload in ready.workloads:
        groupings = [plan.query[index].by for index in workload.questions]
        groupings += hidden_groupings(plan, workload)
        _try_draw(ready, workload.questions[0], [(Fraction(0),) * int(plan.groups(by)) for by in groupings])


def rehearse_tables(ready: Prepared) -> None:
    """Compute the tables of all questions with the optimal mechanism; a table that there is not raises `PlanError`."""
    for index, publisher in enumerate(ready.publishers):
        if isinstance(publisher, TablePublisher):
            with _refused(index):
                assert publisher.table is not None


def _try_draw(ready: Prepared, index: int, truths: Sequence[Coordinates]) -> None:
    """Draw numbers that are made together, and find the width of their intervals."""
    with _refused(index):
        ready.publishers[index].draw(truths, secure_bits)
        assert ready.publishers[index].half_width is not None


@contextmanager
def _refused(index: int) -> Iterator[None]:
    """A plan whose numbers cannot be drawn, as an error about a question."""
    field = f"query[{index}]"
    try:
        yield
    except PlanError as reason:
        raise PlanError(f"{field}.{reason}", field=f"{field}.{reason.field}") from None
    except (ValueError, ArithmeticError) as reason:
        why = f"{field}: no number can be drawn for it ({reason}); take a rounder step or a lower level"
        raise PlanError(why, field=field) from None
