"""A plan made ready: its budget split, a publisher for every question, a selection for every block that needs one.

All of it follows from the plan, before any data are read. A table is drawn, explained, rehearsed and certified from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from rangebound.errors import ArgumentError, PlanError
from rangebound.release.noise.allocation import SMALLEST, Allocation, Request, split
from rangebound.release.noise.draw import Bits, Cell, Draw, Key
from rangebound.release.noise.partition_selection import PartitionSelection, partition_selection
from rangebound.release.noise.publishers import Publisher
from rangebound.release.plan.groupings import Block, blocks
from rangebound.release.plan.model import Plan
from rangebound.release.sql.aggregate import Aggregate
from rangebound.sampling.entropy import secure_bits


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A plan with its allocation, a publisher for each question, and the partition selection of private groupings."""

    plan: Plan
    allocation: Allocation
    publishers: tuple[Publisher, ...]
    selections: Mapping[tuple[str, ...], PartitionSelection]

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The mechanism of every question in a few words."""
        return tuple(each.words() for each in self.publishers)


def prepare(plan: Plan) -> Prepared:
    """Split the budget of a plan and make the publishers of its questions; touches no data.

    Guarantee: what the publishers and selections draw is private at the plan's budget, all together.
    Edge cases: a share that is too small, or a mechanism that cannot be calibrated, raises `PlanError`.

    >>> from rangebound.release import parse_plan
    >>> plan = parse_plan('budget = {epsilon = 1.0}\\nquery = [{name = "visits", kind = "count"}]')
    >>> prepare(plan).mechanisms
    ('clamped geometric noise, scale 1',)
    """
    return prepared(plan, allocate(plan))


def prepared(plan: Plan, allocation: Allocation) -> Prepared:
    """The same with a given allocation, which must be no more than the plan's budget."""
    return Prepared(
        plan=plan,
        allocation=allocation,
        publishers=tuple(_publisher(plan, index, allocation) for index in range(len(plan.query))),
        selections={by: partition_selection(each.epsilon, each.delta) for by, each in allocation.selections.items()},
    )


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
    found = {index: each.sensitivity(plan.unit, plan.groups(each.counted_by)) for index, each in enumerate(plan.query)}
    weights = {
        index: Fraction(each.weight) if found[index].cell else Fraction(0) for index, each in enumerate(plan.query)
    }
    selection = Fraction(plan.selection)
    _weigh_cuts(plan, weights, selection * len(private))
    most = plan.unit.groups * (2 if plan.unit.replaced else 1)
    requests = [
        Request(
            weight=weights[index],
            groups=found[index].groups,
            parts=each.draws,
            uses_delta=each.uses_delta and not found[index].twice,
            interval_share=each.interval_part,
        )
        for index, each in enumerate(plan.query)
    ]
    requests += [Request(weight=selection, groups=most, uses_delta=True) for _ in private]
    shares = split(plan.budget.epsilon, plan.budget.delta, requests)
    questions = dict(enumerate(shares[: len(plan.query)]))
    selections = dict(zip((block.by for block in private), shares[len(plan.query) :], strict=True))
    for index, each in enumerate(plan.query):
        if found[index].cell and questions[index].drawn < SMALLEST:
            raise PlanError(
                f"query[{index}].weight={each.weight!r}: leaves epsilon {questions[index].drawn:.3g} for a number; "
                f"it must be at least {SMALLEST:g}: give it more weight, or a larger budget",
                field=f"query[{index}].weight",
            )
    for each_share in selections.values():
        try:
            partition_selection(each_share.epsilon, each_share.delta)
        except ArgumentError as reason:
            raise PlanError(f"selection={plan.selection!r}: {reason}", field="selection") from None
    return Allocation(questions=questions, selections=selections, sensitivities=found)


def _weigh_cuts(plan: Plan, weights: dict[int, Fraction], selected: Fraction) -> None:
    """Give the questions of `report_clipping` the weights with which they have `clipping_share` of epsilon together."""
    cuts = [index for index, each in enumerate(plan.query) if each.made]
    others = sum((weight for index, weight in weights.items() if index not in cuts), selected)
    share = Fraction(plan.clipping_share) if others else Fraction(1, 2)  # where all else is public they have it all
    for index in cuts:
        weights[index] = share / (1 - share) * (others or 1) / len(cuts)


def _publisher(plan: Plan, index: int, allocation: Allocation) -> Publisher:
    """The publisher of a question, as its kind makes it."""
    question, share = plan.query[index], allocation.questions[index]
    try:
        return question.publisher(plan.unit, allocation.sensitivities[index], share, level=plan.level)
    except PlanError as reason:
        raise PlanError(f"query[{index}].{reason}", field=f"query[{index}].{reason.field}") from None


def keys_of(ready: Prepared, found: Aggregate, bits: Bits = secure_bits) -> tuple[Key, ...]:
    """The keys to publish: the public ones, or those that partition selection names."""
    return found.keys if found.block.keys is not None else ready.selections[found.block.by].select(found.units, bits)


def answers(ready: Prepared, found: Aggregate, bits: Bits = secure_bits) -> list[Cell]:
    """Every number of a block, drawn once.

    Guarantee: what is returned is private at the allocation's shares and lies in its support; it and nothing else may
    be published. How many numbers there are depends on public facts and on selected keys alone.
    """
    keys = keys_of(ready, found, bits)
    cells: list[Cell] = []
    for index in found.block.questions:
        truths = [found.answers[index][key] for key in keys]
        cells += cells_of(ready, index, keys, ready.publishers[index].draw(truths, bits))
    return cells


def cells_of(ready: Prepared, index: int, keys: Sequence[Key], draws: Sequence[Sequence[Draw]]) -> list[Cell]:
    """The numbers of one question in all groups, made of what was drawn for every group and part.

    Guarantee: a function of public facts and of the draws alone, so it costs nothing, and anyone can compute it again.
    """
    plan, question = ready.plan, ready.plan.query[index]
    share = ready.allocation.questions[index]
    return [
        Cell(
            question=index,
            key=key,
            part=part,
            draws=draw,
            **vars(question.estimate(reading, plan.unit)),
            epsilon=share.epsilon,
            delta=share.delta,
            rank_error=reading.rank_error,
        )
        for key, group, readings in zip(keys, draws, ready.publishers[index].read(draws), strict=True)
        for part, draw, reading in zip(question.parts, group, readings, strict=True)
    ]


def rehearse(ready: Prepared) -> None:
    """Draw every question once as if the table were empty, and throw the numbers away.

    Guarantee: reads no data, so that what it refuses reveals nothing about any. A plan that passes has mechanisms,
    steps, levels and ranges with which a number can be drawn.
    """
    plan = ready.plan
    for block in blocks(plan):
        key = block.keys[0] if block.keys else ("",) * len(block.by)
        for index in block.questions:
            one = Block(by=block.by, keys=(key,), questions=(index,))
            nothing = {index: {key: plan.query[index].coordinates({}, plan.unit)}}
            try:
                answers(ready, Aggregate(block=one, keys=(key,), answers=nothing, units={}))
            except (ValueError, ArithmeticError) as reason:
                field = f"query[{index}]"
                raise PlanError(
                    f"{field}: no number can be drawn for it ({reason}); take a rounder step or a lower level",
                    field=field,
                ) from None
