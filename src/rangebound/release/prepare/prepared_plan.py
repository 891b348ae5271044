"""A plan made ready: its budget split, a publisher for every question, a selection for every block that needs one.

All of it follows from the plan, before any data are read. A table is drawn, explained, rehearsed and certified from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from rangebound.errors import CertificateInvalid, PlanError
from rangebound.mechanisms.finite import Table
from rangebound.release.noise.allocation import Allocation
from rangebound.release.noise.form import Publisher
from rangebound.release.noise.forms import Form, form_of
from rangebound.release.noise.joint_loss import JointLoss, added_up
from rangebound.release.noise.partition_selection import (
    PartitionSelection,
    ThresholdSelection,
    partition_selection,
    threshold_selection,
)
from rangebound.release.noise.table_publisher import TablePublisher
from rangebound.release.plan.groupings import Block, Workload, hidden_blocks, workload_of
from rangebound.release.plan.model import Plan
from rangebound.release.prepare.budget_split import (
    allocations,
    form_at,
    importance,
    noisy_count,
    publisher_of,
    workload_publishers,
)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A plan with its allocation, a publisher for each question, and the partition selection of private groupings."""

    plan: Plan
    allocation: Allocation
    publishers: tuple[Publisher, ...]
    selections: Mapping[tuple[str, ...], PartitionSelection | ThresholdSelection]

    @cached_property
    def forms(self) -> tuple[Form, ...]:
        """Every question in its form, with the contribution bounds that hold for it."""
        return tuple(form_of(each, self.plan.unit_of(each)) for each in self.plan.query)

    @cached_property
    def workloads(self) -> tuple[Workload, ...]:
        """The workloads whose counts are measured together."""
        return tuple(workload_of(self.plan, each) for each in self.allocation.workloads)

    def workload_number(self, index: int) -> int | None:
        """The number of the workload that a question belongs to, from 1; None where it is measured by itself."""
        return next((at for at, each in enumerate(self.allocation.workloads, 1) if index in each), None)

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
    best = [way for error, way in found if error == least]
    made = [prepared(plan, way) for way in best]
    return made[0] if len(made) == 1 else min(made, key=lambda each: each.loss.mu)


def prepared(plan: Plan, allocation: Allocation, tables: Mapping[int, Table] | None = None) -> Prepared:
    """The same with a given allocation, which must be no more than the plan's budget.

    With `tables`, numbers are drawn from these in place of tables that are computed again.

    Edge cases: tables for other questions than those that name the optimal mechanism raise `CertificateInvalid`.
    """
    together = workload_publishers(plan, allocation)
    publishers = [together.get(index) or publisher_of(plan, index, allocation) for index in range(len(plan.query))]
    if tables is not None:
        own = {at: each for at, each in enumerate(publishers) if isinstance(each, TablePublisher)}
        if own.keys() != tables.keys():
            raise CertificateInvalid("tables: are not those of the questions with the optimal mechanism")
        for at, each in own.items():
            publishers[at] = replace(each, given=tables[at])
    return Prepared(
        plan=plan,
        allocation=allocation,
        publishers=tuple(publishers),
        selections={by: _selection(plan, allocation, by) for by in allocation.selections},
    )


def _selection(plan: Plan, allocation: Allocation, by: tuple[str, ...]) -> PartitionSelection | ThresholdSelection:
    share, index = allocation.selections[by], allocation.thresholds.get(by)
    if index is None:
        return partition_selection(share.epsilon, share.delta)
    rows, scale = noisy_count(plan, allocation, index)
    return threshold_selection(index, rows=rows, scale=scale, delta=share.delta)


def allocate(plan: Plan) -> Allocation:
    """The allocation of a plan's budget with which its numbers have the least error; see `prepare`."""
    return prepare(plan).allocation


def total_error(plan: Plan, allocation: Allocation, *, limit: float = math.inf) -> float:
    """The plan's objective: the error of all numbers together, each in units of what one row can add to it.

    Numbers with a margin are as exact as was asked for, and do not count. Once a sum is above `limit` it is given as it
    stands: mechanisms that take long to find come last.
    """
    total, together = 0.0, workload_publishers(plan, allocation)
    for index in sorted(range(len(plan.query)), key=lambda index: form_at(plan, index).effort[1]):
        found = allocation.sensitivities[index]
        if found.cell and not plan.query[index].made and plan.query[index].margin is None:
            error = (together.get(index) or publisher_of(plan, index, allocation)).mse
            total += importance(plan, index) * error / float(found.row) ** 2
        if total > limit:
            break
    return total
