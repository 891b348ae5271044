"""The publisher of a workload: numbers of many groups that one strategy measures, and that add up when published."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Protocol

import numpy as np

from rangebound.errors import CertificateInvalid
from rangebound.release.noise.allocation import BudgetShare
from rangebound.release.noise.draw import Bits, Coordinates, Draw, Reading
from rangebound.release.noise.joint_loss import JointLoss
from rangebound.release.noise.projection import Identities, project
from rangebound.release.noise.projection_bias import Drift
from rangebound.release.noise.strategies.contributions import Contributions, NoiseAccount
from rangebound.release.noise.strategies.lattice_noise import gaussian_reach
from rangebound.release.plan.sensitivity import Sensitivity
from rangebound.values.array_types import Floats
from rangebound.values.support import Interval, Union

_MOST = 2**61  # no sum of counts is larger: clamping counts moves no neighbours apart
_LONG = 64  # numbers of a strategy that a certificate lists; more of them by their SHA-256


class Measurements(Protocol):
    """A strategy for one workload: exact finest counts in, noisy measurements, an unbiased answer for every number."""

    @property
    def account(self) -> NoiseAccount:
        """How its cost adds up."""

    @property
    def contributions(self) -> Contributions:
        """The contribution bounds for which its cost is computed."""

    @property
    def cost(self) -> Fraction:
        """An upper bound of mu^2 or of epsilon, over all neighbouring tables."""

    @property
    def loss(self) -> JointLoss:
        """What one unit can lose in a pure account by all measurements, which several of its cells may move at once."""

    @property
    def size(self) -> int:
        """How many measurements there are."""

    def draw(self, counts: Sequence[int], bits: Bits) -> list[float]:
        """Noisy measurements of the exact counts of all finest cells."""

    def admits(self, drawn: Sequence[float]) -> bool:
        """Whether `draw` can return this."""

    def answers(self, drawn: Sequence[float]) -> Floats:
        """An unbiased answer for every number of the workload."""

    @property
    def variances(self) -> Floats:
        """The variance of each."""

    def laplace_radii(self, level: float) -> Floats:
        """How far each answer is from the truth with probability `level`, in a pure account."""

    @property
    def sums(self) -> Identities:
        """Which numbers are sums of others."""

    @property
    def drift(self) -> Drift | None:
        """How far the projection moves the mean of each number, at most; None where no bound is known."""

    @property
    def levels(self) -> Sequence[tuple[str, float]]:
        """The expected variance of each kind of number, by name."""

    def words(self) -> str:
        """The strategy in a few words."""

    def to_dict(self) -> dict[str, object]:
        """The strategy as plain data."""


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
        return -(-self.measured.size // self.numbers)

    def draw(self, truths: Sequence[Coordinates], bits: Bits) -> list[list[Draw]]:
        """The measurements of all groups, which are one."""
        most = _MOST // max(len(truths), 1)
        counts = [min(max(int(each), 0), most) for (each,) in truths]
        return [self._split(self.measured.draw(counts, bits))]

    def _split(self, drawn: Sequence[float]) -> list[Draw]:
        """Measurements as draws of the numbers, in order."""
        width = self.width
        return [tuple(drawn[at : at + width]) for at in range(0, width * self.numbers, width)]

    def can_draw(self, *draws: Draw) -> bool:
        """Whether all of these together are measurements of the strategy, each where it stands."""
        flat = [each for draw in draws for each in draw]
        return len(flat) == self.measured.size and self._split(flat) == list(draws) and self.measured.admits(flat)

    def read(self, draws: Sequence[Sequence[Draw]]) -> list[list[Reading]]:
        """The projected numbers, with the intervals of the unbiased answers; the truth is whole and not negative."""
        (group,) = draws
        answers = self.measured.answers([each for draw in group for each in draw])
        reach = self.radii
        lower = np.maximum(np.ceil(answers - reach), 0.0).tolist()
        upper = np.maximum(np.floor(answers + reach), 0.0).tolist()
        found = project(answers, np.ones(len(answers)), self.measured.sums)
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
        if self.measured.account is NoiseAccount.PURE:
            return self.measured.laplace_radii(self.level)
        return np.asarray(gaussian_reach(self.level) * np.sqrt(self.measured.variances))

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
        return form.format(", ".join(f"{name} {math.sqrt(each) * scale:.4g}" for name, each in self.measured.levels))

    @property
    def mse(self) -> float:
        """The mean of the variances of all numbers."""
        return math.fsum(self.measured.variances.tolist()) / self.numbers

    @property
    def half_width(self) -> float | None:
        """That of the widest interval, before the projection, which may widen it."""
        return float(self.radii.max())

    def words(self) -> str:
        """The strategy in a few words."""
        return f"{self.measured.words()}, projected so that all sums agree"

    def to_dict(self) -> dict[str, object]:
        """The strategy as plain data, with its cost."""
        bounds = self.measured.contributions
        return {
            **self.measured.to_dict(),
            "account": self.measured.account.value,
            "rows": bounds.rows,
            "cells": bounds.cells,
            "replaced": bounds.replaced,
            "cost": str(self.measured.cost),
        }

    def loss(self, share: BudgetShare) -> JointLoss:
        """That of the measurements; it is within the share, but several groups of a unit may move one of them."""
        return share.apart if share.mu else replace(self.measured.loss, epsilon=share.apart.epsilon)

    def check(self, found: Sensitivity, share: BudgetShare) -> None:
        """Refuse a strategy for fewer contributions than a unit can make, or one that costs more than its share."""
        bounds, gaussian = self.measured.contributions, self.measured.account is NoiseAccount.GAUSSIAN
        times = 2 if bounds.replaced else 1
        enough = bounds.rows * bounds.cells * times >= found.total
        enough = enough and bounds.rows**2 * bounds.cells * times >= found.square
        _demand(enough, "has a sensitivity that is too small")
        _demand(gaussian == bool(share.mu), "has noise of another account than its share")
        limit = Fraction(share.mu) ** 2 if gaussian else Fraction(share.epsilon) * share.groups
        _demand(self.measured.cost <= limit, "has a mechanism that is less private than it says")


def listed(values: Sequence[float]) -> object:
    """Numbers of a strategy as plain data: a list, or the SHA-256 of a long one."""
    if len(values) <= _LONG:
        return list(values)
    return {"numbers": len(values), "sha256": hashlib.sha256(repr(tuple(values)).encode()).hexdigest()}


def budget_of_share(share: BudgetShare) -> tuple[NoiseAccount, Fraction]:
    """The account of a share, and what a strategy may cost in it: mu^2, or the epsilon of all groups of a unit."""
    if share.mu:
        return NoiseAccount.GAUSSIAN, Fraction(share.mu) ** 2
    return NoiseAccount.PURE, Fraction(share.epsilon) * share.groups


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise CertificateInvalid(otherwise)
