"""Counts of many groups with sums of them, measured by one strategy: crosstabs, hierarchies, series."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from rangebound.errors import ArgumentError, PlanError, Unsatisfiable
from rangebound.release.noise.allocation import BudgetShare, LossForm
from rangebound.release.noise.crosstab_measurements import crosstab_measurements, margins
from rangebound.release.noise.forms.form import Form
from rangebound.release.noise.publishers import Publisher
from rangebound.release.noise.series_measurements import Periods, series_measurements
from rangebound.release.noise.strategies.contributions import Contributions, NoiseAccount
from rangebound.release.noise.tree_measurements import LeveledTree, tree_measurements
from rangebound.release.noise.workload_publisher import Measurements, WorkloadPublisher, budget_of_share
from rangebound.release.plan.kinds.summed_counts import Crosstab, Hierarchy, Series, WorkloadKind
from rangebound.release.plan.statistic import Columns, Draw, Sensitivity
from rangebound.values.array_types import Floats

_SMALL = 2.0**-10
_WHOLE = BudgetShare(epsilon=0.0, delta=0.0, groups=1, parts=1)
_EFFORT = 100  # steps of 10 milliseconds for a strategy that is found again


def measurements(
    question: WorkloadKind, columns: Columns, account: NoiseAccount, budget: Fraction, contributions: Contributions
) -> Measurements:
    """The best strategy of a question within a budget.

    A crosstab is measured by residuals in a Gaussian account and with Laplace noise in a pure one, a hierarchy by a
    tree with noise at its nodes, a series by a triangular factor in a Gaussian account and by cells and blocks in a
    pure one.
    """
    sizes = tuple(map(len, columns))
    match question:
        case Crosstab():
            wanted = margins(question.by, sizes, every=question.margins)
            return crosstab_measurements(wanted, account, budget, contributions)
        case Hierarchy():
            names = (question.by[0], *(each.name for each in question.levels), "total")
            tree = LeveledTree(parents=question.parents(columns[0]), names=names)
            return tree_measurements(tree, account, budget, contributions)
        case Series():
            axis, ranges = question.days(columns)
            return series_measurements(
                Periods(sizes=sizes, axis=axis, ranges=tuple(ranges)), account, budget, contributions
            )
    raise TypeError(f"{question.kind}: has no strategy")


@dataclass(frozen=True)
class StrategyForm(Form):
    """Counts of rows by public keys, with sums of them: published as numbers that add up."""

    question: WorkloadKind

    @property
    def loss(self) -> LossForm:
        """That of Gaussian noise."""
        return LossForm.GAUSSIAN

    @property
    def draws(self) -> int:
        """One: the strategy's cost is that of all numbers."""
        return 1

    def publisher(self, found: Sensitivity, share: BudgetShare, *, level: float, columns: Columns) -> Publisher:
        """The strategy with the least total variance, and the projection of its answers."""
        account, budget = budget_of_share(share)
        unit, cells = self.unit, math.prod(map(len, columns))
        bounds = Contributions(rows=unit.most_rows, cells=min(unit.groups, cells), replaced=unit.replaced)
        try:
            measured = measurements(self.question, columns, account, budget, bounds)
            return WorkloadPublisher(measured=measured, level=level)
        except (ArgumentError, Unsatisfiable) as reason:
            raise PlanError(f"weight: {reason}", field="weight") from None

    def excess_variance(self, found: Sensitivity, columns: Columns, *, gaussian: bool) -> float:
        """That of the strategy: its variance is proportional to 1 / mu^2, and nearly so to 1 / epsilon^2.

        In plain sums it is compared at a scale where discrete Laplace noise has the variance of continuous noise.
        """
        plain = replace(_WHOLE, groups=found.groups)
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
        return list(publisher.unclamped(draws))

    def bias(self, publisher: Publisher, lower: Floats, upper: Floats) -> Floats | None:
        """The bound of the projection, over all tables; None where there is none, as for three columns with margins."""
        return publisher.bias(lower, upper, self.question.allowed, None, whole=True)

    def half_width(self, publisher: Publisher) -> float | None:
        """That of the widest interval of an unbiased answer.

        An interval is wider where its number, made to add up with all others, has left it; it holds the true one then
        no less.
        """
        return publisher.half_width
