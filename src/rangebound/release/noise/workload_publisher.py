"""The publisher of a workload: numbers of many groups that one strategy measures, and that add up when published."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from rangebound.release.noise.allocation import BudgetShare, demand
from rangebound.release.noise.draw import Bits, Coordinates, Draw, Reading
from rangebound.release.noise.joint_loss import JointLoss
from rangebound.release.noise.projection import Identities, project
from rangebound.release.noise.projection_bias import Drift
from rangebound.release.noise.strategies.contributions import NoiseAccount
from rangebound.release.noise.strategies.lattice_noise import Wholes, wholes
from rangebound.release.noise.strategies.strategy import Strategy
from rangebound.release.plan.statistic import Sensitivity
from rangebound.values.array_types import Floats
from rangebound.values.support import Interval, Union

Level = tuple[str, slice]
"""The name of a kind of numbers, and where some of them stand that have its expected variance."""
_MOST = 2**61  # no sum of counts is larger: clamping counts moves no neighbours apart


class Workload(Protocol):
    """The numbers of a workload, and what is public about them."""

    @property
    def sums(self) -> Identities:
        """Which numbers are sums of others."""

    @property
    def order(self) -> slice | npt.NDArray[np.intp]:
        """Where the published numbers stand among the answers of a strategy."""

    @property
    def levels(self) -> Sequence[Level]:
        """Its kinds of numbers."""

    def tables(self, finest: Wholes) -> Any:
        """What a strategy measures, from the exact counts of all finest cells."""

    def drift(self, strategy: Strategy) -> Drift | None:
        """How far the projection moves the mean of each number, at most; None where no bound is known."""

    def to_dict(self) -> dict[str, object]:
        """The workload as plain data."""


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """A workload and the strategy that measures it: answers and variances are in the order of its numbers."""

    workload: Workload
    strategy: Strategy

    def answers(self, drawn: npt.ArrayLike) -> Floats:
        """An unbiased answer for every number of the workload."""
        return self.strategy.answers(drawn).values[self.workload.order]

    @cached_property
    def variances(self) -> Floats:
        """The variance of each answer."""
        return self.strategy.variances[self.workload.order]

    @cached_property
    def drift(self) -> Drift | None:
        """How far the projection moves the mean of each number, at most; None where no bound is known."""
        return self.workload.drift(self.strategy)


@dataclass(frozen=True, kw_only=True, eq=False)
class WorkloadPublisher:
    """All numbers of a workload: measured by a strategy, answered without bias, and published adding up.

    The measurements stand in the draws of the published numbers, `width` in each, in order. Intervals are those of the
    unbiased answers, at `level`. Published are the whole numbers nearest to these answers that are not negative and add
    up, all of them together. Nearest means the least sum of squares: in the objective that the strategy minimises, so
    that the error of all numbers together does not grow, but for rounding. Weights of 1 / variance would let many cells
    near zero raise a total, whose variance is larger, by many of its standard deviations.

    Guarantee: what is drawn is private at the strategy's cost, and all else follows from it.
    """

    measured: Measurements
    level: float

    @cached_property
    def numbers(self) -> int:
        """How many numbers are published."""
        return len(self.measured.variances)

    @property
    def width(self) -> int:
        """How many measurements stand in a draw, at most."""
        return -(-self.measured.strategy.size // self.numbers)

    def draw(self, truths: Sequence[Coordinates], bits: Bits) -> list[list[Draw]]:
        most = _MOST // max(len(truths), 1)
        counts = [min(max(int(each), 0), most) for (each,) in truths]
        tables = self.measured.workload.tables(wholes(counts))
        return [self._split(self.measured.strategy.draw(tables, bits).tolist())]

    def _split(self, drawn: Sequence[float]) -> list[Draw]:
        """Measurements as draws of the numbers, in order."""
        width = self.width
        return [tuple(drawn[at : at + width]) for at in range(0, width * self.numbers, width)]

    def can_draw(self, *draws: Draw) -> bool:
        """Whether all of these together are measurements of the strategy, each where it stands."""
        flat = [each for draw in draws for each in draw]
        return self._split(flat) == list(draws) and self.measured.strategy.admits(flat)

    def read(self, draws: Sequence[Sequence[Draw]]) -> list[list[Reading]]:
        """The projected numbers, with the intervals of the unbiased answers; the truth is whole and not negative."""
        (group,) = draws
        answers = self.measured.answers([each for draw in group for each in draw])
        reach = self.radii
        lower = np.maximum(np.ceil(answers - reach), 0.0).tolist()
        upper = np.maximum(np.floor(answers + reach), 0.0).tolist()
        found = project(answers, self.measured.workload.sums)
        assert found is not None  # zeros always add up
        return [
            [
                Reading(values=(float(value),), intervals=((low, high),))
                for value, low, high in zip(found.numbers.tolist(), lower, upper, strict=True)
            ]
        ]

    @cached_property
    def radii(self) -> Floats:
        """How far each unbiased answer is from the truth with probability `level`."""
        return self.measured.strategy.radii(self.level)[self.measured.workload.order]

    def unclamped(self, draws: Sequence[Draw]) -> list[float]:
        """The unbiased answers of all numbers, before the projection."""
        found: list[float] = self.measured.answers([each for draw in draws for each in draw]).tolist()
        return found

    def bias(
        self, lower: Floats, upper: Floats, support: Interval | Union, step: float | None, *, whole: bool
    ) -> Floats | None:
        """A bound of what the projection moves the mean of each number by, whatever all others are; see `Drift`.

        Assumes: the intervals are those of all numbers, in order.
        """
        drift = self.measured.drift
        return None if drift is None else drift.bound(lower, upper)

    def expected_error(self, scale: float = 1.0, form: str = "{} (root mean square)") -> str:
        """The error of every level of the workload, before the projection."""
        means = ((name, float(self.measured.variances[at].mean())) for name, at in self.measured.workload.levels)
        return form.format(", ".join(f"{name} {math.sqrt(each) * scale:.4g}" for name, each in means))

    @property
    def mse(self) -> float:
        """The mean of the variances of all numbers."""
        return math.fsum(self.measured.variances.tolist()) / self.numbers

    @property
    def half_width(self) -> float | None:
        """That of the widest interval, before the projection, which may widen it."""
        return float(self.radii.max())

    def words(self) -> str:
        return f"{self.measured.strategy.words()}, projected so that all sums agree"

    def to_dict(self) -> dict[str, object]:
        """The strategy as plain data, with its cost."""
        strategy = self.measured.strategy
        own, bounds = strategy.to_dict(), strategy.contributions
        return {
            "strategy": own["strategy"],
            **self.measured.workload.to_dict(),
            **own,
            "account": strategy.account.value,
            "rows": bounds.rows,
            "cells": bounds.cells,
            "replaced": bounds.replaced,
            "cost": str(strategy.cost),
        }

    def loss(self, share: BudgetShare) -> JointLoss:
        """That of the measurements; it is within the share, but several groups of a unit may move one of them."""
        return share.apart if share.mu else replace(self.measured.strategy.loss, epsilon=share.apart.epsilon)

    def check(self, found: Sensitivity, share: BudgetShare) -> None:
        """Refuse a strategy for fewer contributions than a unit can make, or one that costs more than its share."""
        strategy = self.measured.strategy
        bounds, gaussian = strategy.contributions, strategy.account is NoiseAccount.GAUSSIAN
        enough = bounds.reach >= found.total and bounds.rows * bounds.reach >= found.square
        demand(enough, "has a sensitivity that is too small")
        demand(gaussian == bool(share.mu), "has noise of another account than its share")
        limit = Fraction(share.mu) ** 2 if gaussian else Fraction(share.epsilon) * share.groups
        demand(strategy.cost <= limit, "has a mechanism that is less private than it says")


def budget_of_share(share: BudgetShare) -> tuple[NoiseAccount, Fraction]:
    """The account of a share, and what a strategy may cost in it: mu^2, or the epsilon of all groups of a unit."""
    if share.mu:
        return NoiseAccount.GAUSSIAN, Fraction(share.mu) ** 2
    return NoiseAccount.PURE, Fraction(share.epsilon) * share.groups
