"""A plan made ready: its budget split, a publisher for every question, a selection for every block that needs one.

All of it follows from the plan, before any data are read. A table is drawn, explained, rehearsed and certified from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from rangebound.errors import ArgumentError, PlanError
from rangebound.release.noise import publishers
from rangebound.release.noise.allocation import SMALLEST, Allocation, Request, split
from rangebound.release.noise.draw import Bits, Cell, Draw, Key, Reading
from rangebound.release.noise.estimate import Estimate, estimate, held, nearest
from rangebound.release.noise.exponential_mechanism import QuantileGrid
from rangebound.release.noise.partition_selection import PartitionSelection, partition_selection
from rangebound.release.noise.publishers import Publisher
from rangebound.release.plan.clipping import is_cut
from rangebound.release.plan.fields import date
from rangebound.release.plan.model import Plan, known_rows
from rangebound.release.plan.question import Count, CountUnits, CutQuestion, Histogram, RankQuestion, Sum
from rangebound.release.sql.aggregate import Aggregate, coordinates, sensitivity, width
from rangebound.release.sql.statements import Block, blocks
from rangebound.sampling.entropy import secure_bits
from rangebound.support import Interval, Union


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
    found = {
        index: sensitivity(each, plan.unit, groups=plan.groups(each.over if isinstance(each, CutQuestion) else each.by))
        for index, each in enumerate(plan.query)
    }
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
            parts=len(each.asked) if isinstance(each, RankQuestion) else 1,
            uses_delta=isinstance(each, Count | CountUnits | Sum) and not found[index].twice,
            interval_share=each.interval_share if isinstance(each, RankQuestion) else 0.0,
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
    cuts = [index for index, each in enumerate(plan.query) if is_cut(each)]
    others = sum((weight for index, weight in weights.items() if index not in cuts), selected)
    share = Fraction(plan.clipping_share) if others else Fraction(1, 2)  # where all else is public they have it all
    for index in cuts:
        weights[index] = share / (1 - share) * (others or 1) / len(cuts)


def _publisher(plan: Plan, index: int, allocation: Allocation) -> Publisher:
    """The publisher of a question.

    A count or a sum has one coordinate and gets the best mechanism in range, or the one that the plan names. Questions
    of several coordinates get Laplace noise on the scale of their joint L1 sensitivity, clamped to where they can be.
    Quantiles get the exponential mechanism.
    """
    question: Any = plan.query[index]
    share, cell, level = allocation.questions[index], allocation.sensitivities[index].cell, plan.level
    if isinstance(question, RankQuestion):
        try:
            return publishers.quantiles(quantile_grid(question), question.asked, cell, share, confidence=level)
        except ArgumentError as reason:
            raise PlanError(f"query[{index}].{reason}", field=f"query[{index}].support") from None
    if not cell:
        assert plan.unit.size is not None
        return publishers.public_constant(nearest(float(plan.unit.size), question.allowed, question.step or 1.0))
    support, named = published_in(plan, index), getattr(question, "mechanism", None)
    try:
        if isinstance(question, Count | CountUnits):
            step = question.step or 1.0
            return publishers.whole_number(support, cell, share, step=step, mechanism=named, confidence=level)
        if isinstance(question, Sum):
            return publishers.real_number(support, cell, share, step=question.step, mechanism=named, confidence=level)
    except ValueError as reason:
        raise PlanError(f"query[{index}].mechanism: {reason}", field=f"query[{index}].mechanism") from None
    several, rows = width(question, plan.unit), known_rows(question, plan.unit)
    separate = isinstance(question, Histogram)
    return publishers.joint_coordinates(
        cell,
        share,
        upper=float(rows) if rows and several == 1 else float("inf"),
        width=1 if separate else several,
        parts=several if separate else 1,
        confidence=level,
    )


def quantile_grid(question: Any) -> QuantileGrid:
    """The public grid of a quantile."""
    return QuantileGrid(
        points=question.points,
        borders=question.borders,
        bounds=question.bounds,
        support=question.allowed,
        whole=question.dated,
    )


def published_in(plan: Plan, index: int) -> Interval | Union:
    """Where the numbers of a question are published: its support, which for a count ends at a public size."""
    question: Any = plan.query[index]
    counts = isinstance(question, Count | CountUnits) and known_rows(question, plan.unit) is None
    if counts and plan.unit.size is not None and question.support is None:
        rows = 1 if isinstance(question, CountUnits) else plan.unit.rows
        return Interval(0.0, float(plan.unit.size * rows))
    allowed: Interval | Union = question.allowed
    return allowed


def keys_of(ready: Prepared, found: Aggregate, bits: Bits = secure_bits) -> tuple[Key, ...]:
    """The keys to publish: the public ones, or those that are selected by chance and by their number of units."""
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
    share, names = ready.allocation.questions[index], parts(ready.plan.query[index])
    return [
        Cell(
            question=index,
            key=key,
            part=part,
            draws=draw,
            **vars(_number(ready.plan, index, reading)),
            epsilon=share.epsilon,
            delta=share.delta,
            rank_error=reading.rank_error,
        )
        for key, group, readings in zip(keys, draws, ready.publishers[index].read(draws), strict=True)
        for part, draw, reading in zip(names, group, readings, strict=True)
    ]


def _number(plan: Plan, index: int, reading: Reading) -> Estimate:
    """The number that is made of the coordinates of one draw, with its interval."""
    question: Any = plan.query[index]
    if not isinstance(question, Count | CountUnits | Sum | Histogram | RankQuestion):
        return estimate(question, reading.values, reading.intervals, rows=known_rows(question, plan.unit))
    (value,), ((lower, upper),) = reading.values, reading.intervals
    if isinstance(question, Histogram):
        value = nearest(value, question.allowed, question.step or 1.0)
    return held(value, lower, upper, question.allowed)


def parts(question: Any) -> list[str]:
    """The names of the numbers that a question publishes in a group: bins, levels, or one without a name."""
    if isinstance(question, RankQuestion):
        return [repr(level) for level in question.asked]
    return bin_names(question) if isinstance(question, Histogram) else [""]


def bin_names(question: Histogram) -> list[str]:
    """The bins of a histogram by their edges: all digits of them, so that the name says which values a bin has.

    >>> bin_names(Histogram(name="hours", column="hour", range=(0, 1), bins=3))[0]
    '0 to 0.3333333333333333'
    """
    texts = [date(edge).isoformat() if question.dated else repr(edge).removesuffix(".0") for edge in question.edges]
    return [f"{a} to {b}" for a, b in pairwise(texts)]


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
            nothing = {index: {key: coordinates(plan.query[index], {}, plan.unit)}}
            try:
                answers(ready, Aggregate(block=one, keys=(key,), answers=nothing, units={}))
            except (ValueError, ArithmeticError) as reason:
                field = f"query[{index}]"
                raise PlanError(
                    f"{field}: no number can be drawn for it ({reason}); take a rounder step or a lower level",
                    field=field,
                ) from None
