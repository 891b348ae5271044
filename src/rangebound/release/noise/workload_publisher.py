"""Counts of many groups with sums of them, which one strategy measures, and that add up when they are published.

They are crosstabs, hierarchies and series.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from rangebound.errors import ArgumentError, PlanError, Unsatisfiable
from rangebound.release.noise.allocation import BudgetShare, LossForm, demand
from rangebound.release.noise.bias import Drift
from rangebound.release.noise.draw import Bits, Columns, Coordinates, Draw, Form, Publisher, Reading
from rangebound.release.noise.joint_loss import Contributions, JointLoss, NoiseAccount
from rangebound.release.noise.projection import project
from rangebound.release.noise.strategies.crosstab import Margins, design_crosstab
from rangebound.release.noise.strategies.designs import Periods, design_series, design_tree
from rangebound.release.noise.strategies.strategy import Strategy, wholes
from rangebound.release.noise.strategies.tree_strategy import Tree
from rangebound.release.plan.kinds.summed_counts import Crosstab, Hierarchy, Series, WorkloadKind, marginals
from rangebound.release.plan.statistic import Sensitivity
from rangebound.values.array_types import Floats
from rangebound.values.support import Interval, Union

_MOST = 2**61  # no sum of counts is larger: clamping counts moves no neighbours apart
_SMALL = 2.0**-10
_EFFORT = 100  # steps of 10 milliseconds for a strategy that is found again


Workload = Margins | Tree | Periods
"""The numbers of a workload, and what is public about them: which are `sums` of others, and their `kinds`, by name.

`order` says where they stand among the answers of a strategy, `tables` what a strategy measures; `drift` bounds by how
much the projection moves the mean of each.
"""


@dataclass(frozen=True, kw_only=True, eq=False)
class WorkloadPublisher(Publisher):
    """All numbers of a workload: measured by a strategy, answered without bias, and published adding up.

    The measurements stand in the draws of the published numbers, `width` in each, in order. Intervals are those of the
    unbiased answers, at `level`. Published are the whole numbers nearest to these answers that are not negative and add
    up, all of them together. Nearest means the least sum of squares: in the objective that the strategy minimises, so
    that the error of all numbers together does not grow, but for rounding. Weights of 1 / variance would let many cells
    near zero raise a total, whose variance is larger, by many of its standard deviations.

    Guarantee: what is drawn is private at the strategy's cost, and all else follows from it.
    """

    workload: Workload
    strategy: Strategy
    level: float

    @cached_property
    def variances(self) -> Floats:
        """The variance of the unbiased answer for each number."""
        return self.strategy.variances[self.workload.order]

    @cached_property
    def drift(self) -> Drift | None:
        """How far the projection moves the mean of each number, at most; None where no bound is known."""
        return self.workload.drift(self.strategy)

    @property
    def width(self) -> int:
        """How many measurements stand in a draw, at most."""
        return -(-self.strategy.size // len(self.variances))

    def draw(self, truths: Sequence[Coordinates], bits: Bits) -> list[list[Draw]]:
        most = _MOST // max(len(truths), 1)
        counts = [min(max(int(each), 0), most) for (each,) in truths]
        return [self._split(self.strategy.draw(self.workload.tables(wholes(counts)), bits).tolist())]

    def _split(self, drawn: Sequence[float]) -> list[Draw]:
        """Measurements as draws of the numbers, in order."""
        width = self.width
        return [tuple(drawn[at : at + width]) for at in range(0, width * len(self.variances), width)]

    def can_draw(self, *draws: Draw) -> bool:
        """Whether all of these together are measurements of the strategy, each where it stands."""
        flat = [each for draw in draws for each in draw]
        return self._split(flat) == list(draws) and self.strategy.admits(flat)

    def read(self, draws: Sequence[Sequence[Draw]]) -> list[list[Reading]]:
        """The projected numbers, with the intervals of the unbiased answers; the truth is whole and not negative."""
        (group,) = draws
        answers = self.unclamped(group)
        found = project(answers, self.workload.sums)
        assert found is not None  # zeros always add up
        triples = zip(found.numbers.tolist(), *map(np.ndarray.tolist, _within(answers, self.radii)), strict=True)
        return [[Reading(values=(float(value),), intervals=((low, high),)) for value, low, high in triples]]

    def counted(self, group: Sequence[Draw], level: float, of_rows: float) -> tuple[Floats, Floats, float]:
        """Intervals at a level of their own, and how many rows there are at most, by a total, with that probability."""
        answers, order = self.unclamped(group), self.workload.order
        lower, upper = _within(answers, self.strategy.radii(level)[order])
        totals = len(self.workload.sums.totals)
        whole = answers[-1] + self.strategy.radii(of_rows)[order][-1] if totals else math.inf
        return lower, upper, max(float(whole), 0.0)

    @cached_property
    def radii(self) -> Floats:
        """How far each unbiased answer is from the truth with probability `level`."""
        return self.strategy.radii(self.level)[self.workload.order]

    def unclamped(self, draws: Sequence[Draw]) -> Floats:
        """The unbiased answers of all numbers, before the projection."""
        return self.strategy.answers([each for draw in draws for each in draw]).values[self.workload.order]

    def bias(
        self, lower: Floats, upper: Floats, support: Interval | Union, step: float | None, *, whole: bool
    ) -> Floats | None:
        """A bound of what the projection moves the mean of each number by, whatever all others are; see `Drift`.

        Assumes: the intervals are those of all numbers, in order.
        """
        return None if self.drift is None else self.drift.bound(lower, upper)

    def expected_error(self, scale: float = 1.0, form: str = "{} (root mean square)") -> str:
        """The error of every kind of numbers of the workload, before the projection."""
        means = ((name, float(self.variances[at].mean())) for name, at in self.workload.kinds)
        return form.format(", ".join(f"{name} {math.sqrt(each) * scale:.4g}" for name, each in means))

    @property
    def mse(self) -> float:
        """The mean of the variances of all numbers."""
        return math.fsum(self.variances.tolist()) / len(self.variances)

    @property
    def half_width(self) -> float | None:
        """That of the widest interval, before the projection, which may widen it."""
        return float(self.radii.max())

    def words(self) -> str:
        return f"{self.strategy.words()}, projected so that all sums agree"

    def to_dict(self) -> dict[str, object]:
        """The strategy as plain data, with its cost."""
        own, bounds = self.strategy.to_dict(), self.strategy.contributions
        return {
            "strategy": own["strategy"],
            **self.workload.to_dict(),
            **own,
            "account": self.strategy.account.value,
            "rows": bounds.rows,
            "cells": bounds.cells,
            "replaced": bounds.replaced,
            "cost": str(self.strategy.cost),
        }

    def loss(self, share: BudgetShare) -> JointLoss:
        """That of the measurements; it is within the share, but several groups of a unit may move one of them."""
        return share.apart if share.mu else replace(self.strategy.loss, epsilon=share.apart.epsilon)

    def check(self, found: Sensitivity, share: BudgetShare) -> None:
        """Refuse a strategy for fewer contributions than a unit can make, or one that costs more than its share."""
        bounds, (account, limit) = self.strategy.contributions, budget_of_share(share)
        enough = bounds.reach >= found.total and bounds.rows * bounds.reach >= found.square
        demand(enough, "has a sensitivity that is too small")
        demand(self.strategy.account is account, "has noise of another account than its share")
        demand(self.strategy.cost <= limit, "has a mechanism that is less private than it says")


def _within(answers: Floats, reach: Floats) -> tuple[Floats, Floats]:
    """The whole numbers, not negative, that are this far from answers at most."""
    return np.maximum(np.ceil(answers - reach), 0.0), np.maximum(np.floor(answers + reach), 0.0)


def budget_of_share(share: BudgetShare) -> tuple[NoiseAccount, Fraction]:
    """The account of a share, and what a strategy may cost in it: mu^2, or the epsilon of all groups of a unit."""
    if share.mu:
        return NoiseAccount.GAUSSIAN, Fraction(share.mu) ** 2
    return NoiseAccount.PURE, Fraction(share.epsilon) * share.groups


def measured(
    question: WorkloadKind, columns: Columns, account: NoiseAccount, budget: Fraction, bounds: Contributions
) -> tuple[Workload, Strategy]:
    """The workload of a question, and the best strategy for it within a budget.

    A crosstab is measured by residuals in a Gaussian account and with Laplace noise in a pure one, a hierarchy by a
    tree with noise at its nodes, a series by a triangular factor in a Gaussian account and by cells and blocks in a
    pure one.
    """
    sizes = tuple(map(len, columns))
    match question:
        case Crosstab():
            cells = Margins(sizes=sizes, wanted=marginals(len(sizes), every=question.margins), names=question.by)
            return cells, design_crosstab(cells, budget=budget, account=account, contributions=bounds)
        case Hierarchy():
            names = (question.by[0], *(each.name for each in question.levels), "total")
            tree = Tree(parents=question.parents(columns[0]), names=names)
            return tree, design_tree(tree, budget=budget, account=account, contributions=bounds)
        case Series():
            axis, ranges = question.days(columns)
            days = Periods(sizes=sizes, axis=axis, ranges=tuple(ranges))
            return days, design_series(
                days.length, days.wanted, budget=budget, account=account, contributions=bounds, series=days.series
            )
    raise TypeError(f"{question.kind}: has no strategy")


@dataclass(frozen=True)
class StrategyForm(Form):
    """Counts of rows by public keys, with sums of them: published as numbers that add up."""

    question: WorkloadKind

    loss, draws = LossForm.GAUSSIAN, 1  # the strategy's cost is that of all numbers

    def publisher(self, found: Sensitivity, share: BudgetShare, *, level: float, columns: Columns) -> Publisher:
        """The strategy with the least total variance, and the projection of its answers."""
        unit, cells = self.unit, math.prod(map(len, columns))
        bounds = Contributions(rows=unit.most_rows, cells=min(unit.groups, cells), replaced=unit.replaced)
        try:
            workload, strategy = measured(self.question, columns, *budget_of_share(share), bounds)
        except (ArgumentError, Unsatisfiable) as reason:
            raise PlanError(f"weight: {reason}", field="weight") from None
        return WorkloadPublisher(workload=workload, strategy=strategy, level=level)

    def excess_variance(self, found: Sensitivity, columns: Columns, *, gaussian: bool) -> float:
        """That of the strategy: its variance is proportional to 1 / mu^2, and nearly so to 1 / epsilon^2.

        In plain sums it is compared at a scale where discrete Laplace noise has the variance of continuous noise.
        """
        plain = BudgetShare(epsilon=0.0, delta=0.0, groups=found.groups, parts=1)
        share = replace(plain, mu=1.0) if gaussian else replace(plain, epsilon=_SMALL / found.groups)
        variance = self.publisher(found, share, level=0.5, columns=columns).mse
        return variance / float(found.square if gaussian else 2 * found.total**2 / Fraction(_SMALL) ** 2)

    @property
    def effort(self) -> tuple[Hashable, float]:
        """A strategy that is found again, and a projection."""
        return self.question.name, _EFFORT

    def unclamped_numbers(self, publisher: Publisher | None, draws: Sequence[Draw]) -> list[float | None]:
        """The unbiased answers of all draws together, where the plan asks for them and the publisher is known.

        Guarantee: the mean of each is the exact number, to 2^-60 of its noise.
        """
        if not self.question.unclamped or publisher is None:
            return [None] * len(draws)
        assert isinstance(publisher, WorkloadPublisher)
        return list(publisher.unclamped(draws).tolist())

    def bias(self, publisher: Publisher, lower: Floats, upper: Floats) -> Floats | None:
        """The bound of the projection, over all tables; None where there is none, as for three columns with margins."""
        return publisher.bias(lower, upper, self.question.allowed, None, whole=True)

    def half_width(self, publisher: Publisher) -> float | None:
        """That of the widest interval of an unbiased answer.

        An interval is wider where its number, made to add up with all others, has left it; it holds the true one then
        no less.
        """
        return publisher.half_width
