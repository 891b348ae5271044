"""Series of days with sums over periods and running totals: one strategy for all series of a question."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from rangebound.release.noise.draw import Bits
from rangebound.release.noise.joint_loss import JointLoss
from rangebound.release.noise.laplace_tail import excess_of_continuous, laplace_radius, measured_radius
from rangebound.release.noise.projection import DIVIDED, Identities
from rangebound.release.noise.projection_bias import Drift, energy_drift
from rangebound.release.noise.strategies.block_strategy import BlockStrategy
from rangebound.release.noise.strategies.contributions import Contributions, NoiseAccount
from rangebound.release.noise.strategies.factor_strategy import FactorStrategy
from rangebound.release.noise.strategies.lattice_noise import wholes
from rangebound.release.noise.strategies.ranges import Range
from rangebound.release.noise.strategies.series_design import design_series
from rangebound.release.noise.workload_publisher import Measurements, listed
from rangebound.values.array_types import Floats


@dataclass(frozen=True, kw_only=True)
class Periods:
    """Series of the same cells: for each, sums over the `ranges` of every kind, by name; single cells come first.

    `sizes` are those of the grouping columns, `axis` the place of the days among them.
    """

    sizes: tuple[int, ...]
    axis: int
    ranges: tuple[tuple[str, tuple[Range, ...]], ...]

    @property
    def length(self) -> int:
        """How many cells a series has."""
        return self.sizes[self.axis]

    @property
    def series(self) -> int:
        """How many series there are."""
        return math.prod(self.sizes) // self.length

    @cached_property
    def wanted(self) -> tuple[Range, ...]:
        """All ranges."""
        return tuple(each for _, ranges in self.ranges for each in ranges)

    @cached_property
    def sums(self) -> Identities:
        """A running total is the one before it and a cell; a period is the sum of its cells."""
        one: list[tuple[int, list[int]]] = []
        place = 0
        for number, (_, ranges) in enumerate(self.ranges):
            for at, (first, stop) in enumerate(ranges):
                follows = at > 0 and ranges[at - 1] == (first, stop - 1)
                parts = [place - 1, stop - 1] if follows else list(range(first, stop))
                if number:
                    one.append((place, parts))
                place += 1
        return Identities.of(
            (total + start, [part + start for part in parts])
            for start in range(0, place * self.series, place)
            for total, parts in one
        )


@dataclass(frozen=True, kw_only=True)
class SeriesMeasurements:
    """Series by a triangular factor in a Gaussian account, by cells and blocks of cells in a pure one."""

    periods: Periods
    strategy: FactorStrategy | BlockStrategy

    @property
    def account(self) -> NoiseAccount:
        """That of the strategy."""
        return NoiseAccount.GAUSSIAN if isinstance(self.strategy, FactorStrategy) else NoiseAccount.PURE

    @property
    def contributions(self) -> Contributions:
        """Those of the strategy, over all series together."""
        return self.strategy.contributions

    @property
    def cost(self) -> Fraction:
        """mu^2, or epsilon."""
        return self.strategy.cost

    @cached_property
    def loss(self) -> JointLoss:
        """That of cells and blocks."""
        assert isinstance(self.strategy, BlockStrategy)
        return self.strategy.loss(self.periods.series)

    @cached_property
    def _width(self) -> int:
        """How many measurements a series has."""
        strategy = self.strategy
        blocks = isinstance(strategy, BlockStrategy) and strategy.block_scale is not None
        return strategy.length + (len(strategy.starts) if isinstance(strategy, BlockStrategy) and blocks else 0)

    @property
    def size(self) -> int:
        """The measurements of all series."""
        return self._width * self.periods.series

    def _rows(self, drawn: Sequence[float]) -> Floats:
        return np.array(drawn, dtype=np.float64).reshape(self.periods.series, self._width)

    def draw(self, counts: Sequence[int], bits: Bits) -> list[float]:
        """The noisy measurements, series by series."""
        table = wholes(counts).reshape(self.periods.sizes)
        rows = np.moveaxis(table, self.periods.axis, -1).reshape(-1, self.periods.length)
        found: list[float] = self.strategy.draw(rows, bits).ravel().tolist()
        return found

    def admits(self, drawn: Sequence[float]) -> bool:
        """Whether every number is on its lattice."""
        return len(drawn) == self.size and self.strategy.admits(self._rows(drawn))

    def answers(self, drawn: Sequence[float]) -> Floats:
        """The wanted sums, series by series."""
        return self.strategy.answers(self._rows(drawn)).values.ravel()

    @cached_property
    def _variances(self) -> Floats:
        return self.strategy.variances()

    @cached_property
    def variances(self) -> Floats:
        """The same for all series."""
        return np.tile(self._variances, self.periods.series)

    def laplace_radii(self, level: float) -> Floats:
        """By moments; exact for single cells without blocks.

        No cell has a weight above 1, and a block of k cells none above k a / (b + k a), for variances a and b.
        """
        strategy = self.strategy
        assert isinstance(strategy, BlockStrategy)
        cell, block = strategy.noises[0], strategy.noises[-1]
        part = strategy.block * cell.variance / (block.variance + strategy.block * cell.variance)
        largest = max(cell.scale, block.scale * part) * (1.0 + 1e-9)
        excess = max(excess_of_continuous(each.scale, each.variance) for each in strategy.noises)
        radii = laplace_radius(self._variances / 2.0 * excess, np.full(len(self._variances), largest), level)
        if strategy.block_scale is None:
            single = np.array([stop - first == 1 for first, stop in strategy.ranges])
            radii = np.where(single, measured_radius(cell.scale, level), radii)
        return np.tile(radii, self.periods.series)

    @cached_property
    def drift(self) -> Drift | None:
        """By the energy of the noise in one series; none where so many numbers are rounded part by part."""
        return energy_drift(self.variances, self.sums) if len(self.variances) <= DIVIDED else None

    @property
    def sums(self) -> Identities:
        """Periods and running totals are sums of cells."""
        return self.periods.sums

    @cached_property
    def levels(self) -> list[tuple[str, float]]:
        """The mean variance of each kind of sum."""
        ends = np.cumsum([len(ranges) for _, ranges in self.periods.ranges])[:-1]
        parts = np.split(self._variances, ends)
        return [(name, float(part.mean())) for (name, _), part in zip(self.periods.ranges, parts, strict=True)]

    def words(self) -> str:
        """The noise, and on what it is."""
        if isinstance(self.strategy, FactorStrategy):
            return "Gaussian noise through a triangular factor"
        if self.strategy.block_scale is None:
            return "discrete Laplace noise on the days"
        return f"discrete Laplace noise on the days and on blocks of {self.strategy.block}"

    def to_dict(self) -> dict[str, object]:
        """The factor and its scale, or the scales of cells and blocks."""
        strategy, shape = self.strategy, {"sizes": list(self.periods.sizes), "axis": self.periods.axis}
        ranges = listed([end for each in self.periods.wanted for end in each])
        if isinstance(strategy, FactorStrategy):
            factor = listed([entry for row in strategy.factor for entry in row])
            return {"strategy": "factor", **shape, "ranges": ranges, "factor": factor, "scale": strategy.scale}
        scales = {"cell_scale": strategy.cell_scale, "block_scale": strategy.block_scale}
        return {"strategy": "blocks", **shape, "ranges": ranges, "block": strategy.block, **scales}


@lru_cache(maxsize=16)
def series_measurements(
    found: Periods, account: NoiseAccount, budget: Fraction, contributions: Contributions
) -> Measurements:
    """The strategy for series with the least total variance of those that are known.

    Guarantee: the cost is at most the budget, in exact arithmetic.
    """
    strategy = design_series(found.length, found.wanted, budget=budget, account=account, contributions=contributions)
    return SeriesMeasurements(periods=found, strategy=strategy)
