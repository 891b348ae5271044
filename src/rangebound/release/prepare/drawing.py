"""The numbers of a plan that is prepared: drawn once from exact aggregates, read, and rehearsed without any."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from rangebound.errors import PlanError
from rangebound.numeric import rounded_up
from rangebound.release.noise.allocation import BudgetShare
from rangebound.release.noise.draw import Bits, Cell, Draw, Key
from rangebound.release.noise.partition_selection import PartitionSelection
from rangebound.release.plan.groupings import Block, blocks
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.prepare.prepared_plan import Prepared
from rangebound.release.sql.aggregate import Aggregate
from rangebound.sampling.entropy import secure_bits


def keys_of(
    ready: Prepared, found: Aggregate, bits: Bits = secure_bits
) -> tuple[tuple[Key, ...], dict[int, list[list[Draw]]]]:
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


def answers(ready: Prepared, found: Aggregate, bits: Bits = secure_bits) -> list[Cell]:
    """Every number of a block, drawn once.

    Guarantee: what is returned is private at the allocation's shares and lies in its support; it and nothing else may
    be published. How many numbers there are depends on public facts and on selected keys alone.
    """
    keys, drawn = keys_of(ready, found, bits)
    cells: list[Cell] = []
    for index in found.block.questions:
        if index not in drawn:
            drawn[index] = ready.publishers[index].draw([found.answers[index][key] for key in keys], bits)
        cells += cells_of(ready, index, keys, drawn[index])
    return cells


def cells_of(ready: Prepared, index: int, keys: Sequence[Key], draws: Sequence[Sequence[Draw]]) -> list[Cell]:
    """The numbers of one question in all groups, made of what was drawn for every group and part.

    Guarantee: a function of public facts and of the draws alone, so it costs nothing, and anyone can compute it again.
    """
    plan, question = ready.plan, ready.plan.query[index]
    share = ready.allocation.questions[index]
    epsilon = stated_epsilon(question, share)
    return [
        Cell(
            question=index,
            key=key,
            part=part,
            draws=draw,
            **vars(question.estimate(reading, plan.unit)),
            epsilon=epsilon,
            delta=share.delta,
            rank_error=reading.rank_error,
            mu=share.mu,
        )
        for labels, group, readings in zip(
            question.labels(keys), draws, ready.publishers[index].read(draws), strict=True
        )
        for (key, part), draw, reading in zip(labels, group, readings, strict=True)
    ]


def stated_epsilon(question: Kind, share: BudgetShare) -> float:
    """What a table says that a number costs: of numbers that are made together, all of them."""
    return rounded_up(Fraction(share.epsilon) * share.groups) if question.together else share.epsilon


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
            keys = block.keys if plan.query[index].together and block.keys else first
            one = Block(by=block.by, keys=keys, questions=(index,))
            nothing = {index: dict.fromkeys(keys, plan.query[index].coordinates({}, plan.unit))}
            try:
                if plan.query[index].together:
                    ready.publishers[index].draw(list(nothing[index].values()), secure_bits)
                    assert ready.publishers[index].half_width is not None
                else:
                    answers(ready, Aggregate(block=one, keys=keys, answers=nothing, units={}))
            except (ValueError, ArithmeticError) as reason:
                field = f"query[{index}]"
                raise PlanError(
                    f"{field}: no number can be drawn for it ({reason}); take a rounder step or a lower level",
                    field=field,
                ) from None
