"""The numbers of a plan that is prepared: drawn once from exact aggregates, read, and rehearsed without any."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction

from rangebound.errors import PlanError
from rangebound.release.noise.allocation import BudgetShare
from rangebound.release.noise.draw import Bits, Cell, Coordinates, Draw, Estimate, Key, Reading
from rangebound.release.noise.partition_selection import PartitionSelection
from rangebound.release.noise.quantiles import RankForm
from rangebound.release.noise.table_publisher import TablePublisher
from rangebound.release.plan.groupings import Block, Workload, blocks, hidden_blocks, hidden_groupings
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.prepare.prepared_plan import Prepared
from rangebound.release.sql.aggregate import Aggregate
from rangebound.sampling.entropy import secure_bits
from rangebound.values.numeric import rounded_up

Draws = Mapping[int, Sequence[Sequence[Draw]]]
"""What was drawn for every question, group and part."""


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


def answers(ready: Prepared, *found: Aggregate, whole: Collection[str] = (), bits: Bits = secure_bits) -> list[Cell]:
    """Every number of some blocks, drawn once; a workload needs all blocks that it is counted in, `ready.hidden` too.

    `whole` names the quantiles whose columns have whole numbers.

    Guarantee: what is returned is private at the allocation's shares and lies in its support; it and nothing else may
    be published. How many numbers there are depends on public facts and on selected keys alone.
    """
    keys: dict[int, Sequence[Key]] = {}
    drawn: dict[int, list[list[Draw]]] = {}
    for each in found:
        if each.block in ready.hidden:
            continue
        chosen, selecting = keys_of(ready, each, bits)
        drawn |= selecting
        for index in each.block.questions:
            keys[index] = chosen
            if index not in drawn and ready.allocation.workload(index) is None:
                drawn[index] = ready.publishers[index].draw([each.answers[index][key] for key in chosen], bits)
    for workload in ready.workloads:
        if workload.questions[0] in keys:
            drawn |= _drawn_together(ready, workload, found, bits)
    return cells_of(ready, keys, drawn, whole=whole)


def _drawn_together(
    ready: Prepared, workload: Workload, found: Sequence[Aggregate], bits: Bits
) -> dict[int, list[list[Draw]]]:
    """What is drawn for all counts of a workload, from its own exact counts and those of its hidden groupings."""
    own = {index: each for each in found if each.block not in ready.hidden for index in each.block.questions}
    hidden = {each.block: each for each in found if each.block in ready.hidden}
    first = workload.questions[0]
    counts = [_counts(own[index], index) for index in workload.questions]
    counts += [_counts(hidden[block], first) for block in hidden_blocks(ready.plan, workload)]
    draws = ready.publishers[first].draw(counts, bits)
    return {index: [[each] for each in group] for index, group in zip(workload.questions, draws, strict=True)}


def _counts(found: Aggregate, index: int) -> Coordinates:
    """The exact counts of a question in all groups of a block."""
    return tuple(count for key in found.keys for count in found.answers[index][key])


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
    together = {index: group for each in ready.workloads for index, group in _read_together(ready, each, drawn).items()}
    return [
        cell
        for index, own in keys.items()
        for cell in ready.forms[index].ranking(
            _cells(ready, index, own, drawn[index], together.get(index), earlier=earlier, whole=whole)
        )
    ]


def _read_together(ready: Prepared, workload: Workload, drawn: Draws) -> dict[int, list[list[Reading]]]:
    """What the draws of a workload say, where they are there."""
    if workload.questions[0] not in drawn:
        return {}
    groups = [[draw for group in drawn[index] for draw in group] for index in workload.questions]
    found = ready.publishers[workload.questions[0]].read(groups)
    return {index: [[each] for each in group] for index, group in zip(workload.questions, found, strict=True)}


def _cells(
    ready: Prepared,
    index: int,
    keys: Sequence[Key],
    draws: Sequence[Sequence[Draw]],
    together: Sequence[Sequence[Reading]] | None,
    *,
    earlier: bool,
    whole: Collection[str],
) -> list[Cell]:
    question, form, share = ready.plan.query[index], ready.forms[index], ready.allocation.questions[index]
    epsilon = stated_epsilon(question, share)
    read = ready.publishers[index].read(draws) if together is None else together

    def estimate(reading: Reading) -> Estimate:
        found = (form.earlier_estimate if earlier else form.estimate)(reading)
        return form.as_whole(found) if isinstance(form, RankForm) and question.name in whole else found

    return [
        Cell(
            question=index,
            key=key,
            part=part,
            draws=draw,
            **vars(estimate(reading)),
            epsilon=epsilon,
            delta=share.delta,
            rank_error=reading.rank_error,
            mu=share.mu,
        )
        for labels, group, readings in zip(question.labels(keys), draws, read, strict=True)
        for (key, part), draw, reading in zip(labels, group, readings, strict=True)
    ]


def impossible(ready: Prepared, drawn: Draws) -> int | None:
    """The first question with a draw that its mechanism cannot give; None if there is none."""
    for index in drawn:
        together = ready.allocation.workload(index) or (index,)
        flat = [each for at in together for group in drawn[at] for each in group]
        if index == together[0] and not ready.publishers[index].can_draw(*flat):
            return index
    return None


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
            if ready.allocation.workload(index) is None:
                keys = block.keys if plan.query[index].together and block.keys else first
                _rehearse_alone(ready, index, replace(block, keys=keys, questions=(index,)))
    for workload in ready.workloads:
        groupings = [plan.query[index].by for index in workload.questions]
        groupings += hidden_groupings(plan, workload)
        nobody = [(Fraction(0),) * int(plan.groups(by)) for by in groupings]
        _try_draw(ready, workload.questions[0], nobody)


def rehearse_tables(ready: Prepared) -> None:
    """Compute the tables of all questions with the optimal mechanism; a table that there is not raises `PlanError`."""
    for index, publisher in enumerate(ready.publishers):
        if isinstance(publisher, TablePublisher):
            with _refused(index):
                assert publisher.table is not None


def _rehearse_alone(ready: Prepared, index: int, block: Block) -> None:
    """Draw the numbers of a question that is measured by itself."""
    question, keys = ready.plan.query[index], block.keys or ()
    nothing = dict.fromkeys(keys, question.coordinates({}, ready.plan.unit_of(question)))
    if question.together:
        _try_draw(ready, index, list(nothing.values()))
        return
    with _refused(index):
        answers(ready, Aggregate(block=block, keys=keys, answers={index: nothing}, units={}))


def _try_draw(ready: Prepared, index: int, truths: Sequence[Coordinates]) -> None:
    """Draw numbers that are made together, and find the width of their intervals."""
    with _refused(index):
        ready.publishers[index].draw(truths, secure_bits)
        assert ready.publishers[index].half_width is not None


@contextmanager
def _refused(index: int) -> Iterator[None]:
    """A plan whose numbers cannot be drawn, as an error about a question."""
    try:
        yield
    except PlanError as reason:
        raise PlanError(f"query[{index}].{reason}", field=f"query[{index}].{reason.field}") from None
    except (ValueError, ArithmeticError) as reason:
        field = f"query[{index}]"
        raise PlanError(
            f"{field}: no number can be drawn for it ({reason}); take a rounder step or a lower level",
            field=field,
        ) from None
