"""Series of days with sums over periods and running totals: one strategy for all series of a question."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from rangebound.release.noise.projection import DIVIDED, Identities
from rangebound.release.noise.projection_bias import Drift, energy_drift
from rangebound.release.noise.strategies.contributions import Contributions, NoiseAccount
from rangebound.release.noise.strategies.lattice_noise import Wholes
from rangebound.release.noise.strategies.ranges import Range
from rangebound.release.noise.strategies.series_design import design_series
from rangebound.release.noise.strategies.strategy import Strategy, listed
from rangebound.release.noise.workload_publisher import Level, Measurements


@dataclass(frozen=True, kw_only=True)
class Periods:
    """Series of the same cells: for each, sums over the `ranges` of every kind, by name; single cells come first.

    `sizes` are those of the grouping columns, `axis` the place of the days among them.
    """

    sizes: tuple[int, ...]
    axis: int
    ranges: tuple[tuple[str, tuple[Range, ...]], ...]

    order = slice(None)

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

    def tables(self, finest: Wholes) -> Wholes:
        """The cells of each series."""
        table = finest.reshape(self.sizes)
        return np.moveaxis(table, self.axis, -1).reshape(-1, self.length)

    def drift(self, strategy: Strategy) -> Drift | None:
        """By the energy of the noise in one series; none where so many numbers are rounded part by part."""
        return energy_drift(strategy.variances, self.sums) if len(strategy.variances) <= DIVIDED else None

    @property
    def levels(self) -> list[Level]:
        """The kinds of sums, in the first series."""
        ends = np.cumsum([len(ranges) for _, ranges in self.ranges]).tolist()
        return list(zip((name for name, _ in self.ranges), map(slice, [0, *ends], ends), strict=True))

    def to_dict(self) -> dict[str, object]:
        ends = [end for each in self.wanted for end in each]
        return {"sizes": list(self.sizes), "axis": self.axis, "ranges": listed(ends)}


@lru_cache(maxsize=16)
def series_measurements(
    found: Periods, account: NoiseAccount, budget: Fraction, contributions: Contributions
) -> Measurements:
    """The strategy for series with the least total variance of those that are known.

    Guarantee: the cost is at most the budget, in exact arithmetic.
    """
    strategy = design_series(
        found.length,
        found.wanted,
        budget=budget,
        account=account,
        contributions=contributions,
        series=found.series,
    )
    return Measurements(workload=found, strategy=strategy)
