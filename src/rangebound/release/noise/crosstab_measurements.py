"""Crosstabs with their margins: measured by residuals in a Gaussian account, by Laplace noise in a pure one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import combinations

import numpy as np
import numpy.typing as npt

from rangebound.errors import Unsatisfiable
from rangebound.numeric import rounded_up
from rangebound.release.noise.draw import Bits
from rangebound.release.noise.laplace_tail import laplace_radius, measured_radius
from rangebound.release.noise.projection import DIVIDED, Identities
from rangebound.release.noise.projection_bias import Drift, energy_drift, free_drift
from rangebound.release.noise.strategies.contributions import Contributions, NoiseAccount
from rangebound.release.noise.strategies.lattice_noise import LatticeNoise, Wholes, admits, published, wholes
from rangebound.release.noise.strategies.marginal_design import design_marginals
from rangebound.release.noise.strategies.marginal_strategy import Attributes, MarginalStrategy
from rangebound.release.noise.workload_publisher import Floats, Measurements, listed

Names = tuple[str, ...]
_LARGER = 1.0 + 2.0**-51
_ROUNDS = 100


@dataclass(frozen=True, kw_only=True)
class Margins:
    """The numbers of a crosstab: the marginals `wanted`, the finest first, each in the order of its cells."""

    sizes: tuple[int, ...]
    wanted: tuple[Attributes, ...]
    names: Names

    def cells(self, attributes: Attributes) -> int:
        """How many cells a marginal has."""
        return math.prod(self.sizes[i] for i in attributes)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """The number of cells of each wanted marginal."""
        return np.array([self.cells(each) for each in self.wanted], dtype=np.int64)

    def tables(self, finest: Wholes) -> list[Wholes]:
        """All wanted marginals of the finest cells, in whole numbers."""
        table, every = finest.reshape(self.sizes), range(len(self.sizes))
        summed = [tuple(i for i in every if i not in each) for each in self.wanted]
        return [np.asarray(table.sum(axis=axes) if axes else table, dtype=object) for axes in summed]

    @cached_property
    def sums(self) -> Identities:
        """Every number of a margin is the sum of those of the smallest marginal with one more attribute."""
        starts = dict(zip(self.wanted, np.cumsum([0, *self.counts.tolist()]).tolist(), strict=False))
        totals, parts, lengths = [], [], []
        for attributes in self.wanted[1:]:
            added = [i for i in range(len(self.sizes)) if i not in attributes]
            finer = min((tuple(sorted((*attributes, i))) for i in added), key=self.cells)
            (axis,) = (at for at, i in enumerate(finer) if i not in attributes)
            places = starts[finer] + np.arange(self.cells(finer)).reshape([self.sizes[i] for i in finer])
            parts.append(np.moveaxis(places, axis, -1).ravel())
            totals.append(starts[attributes] + np.arange(self.cells(attributes)))
            lengths.append(np.full(self.cells(attributes), places.shape[axis]))
        if not totals:
            return Identities.of([])
        return Identities(
            totals=np.concatenate(totals),
            parts=np.concatenate(parts),
            starts=np.concatenate([[0], np.cumsum(np.concatenate(lengths))]),
        )

    def drift(self, variances: Floats) -> Drift | None:
        """By clamping alone without margins, by the energy of the noise with those of two columns.

        With three columns or more, whole numbers that add up may not be near: no bound is known. Nor is one where so
        many numbers are rounded part by part.
        """
        if len(self.wanted) == 1:
            return free_drift(variances)
        known = len(self.sizes) == 2 and len(variances) <= DIVIDED
        return energy_drift(variances, self.sums) if known else None

    def levels(self, variances: Sequence[float]) -> list[tuple[str, float]]:
        """The variance of the cells of every marginal, by the names of its columns."""
        said = ["by " + ", ".join(self.names[i] for i in each) if each else "total" for each in self.wanted]
        return list(zip(said, variances, strict=True))

    def repeated(self, values: Sequence[float]) -> Floats:
        """One number for each marginal as one for each of its cells."""
        return np.repeat(np.array(values, dtype=np.float64), self.counts)


def margins(names: Names, sizes: Sequence[int], *, every: bool) -> Margins:
    """The crosstab of columns: its cells and, where `every` is asked for, all margins down to the total.

    >>> margins(("sex", "age"), (2, 3), every=True).wanted
    ((0, 1), (0,), (1,), ())
    """
    count = len(sizes)
    least = 0 if every else count
    wanted = [each for size in range(count, least - 1, -1) for each in combinations(range(count), size)]
    return Margins(sizes=tuple(sizes), wanted=tuple(wanted), names=names)


@dataclass(frozen=True, kw_only=True)
class ResidualMeasurements:
    """A crosstab by the residuals of its margins, in a Gaussian account; see `MarginalStrategy`."""

    margins: Margins
    strategy: MarginalStrategy

    @property
    def account(self) -> NoiseAccount:
        """Gaussian."""
        return NoiseAccount.GAUSSIAN

    @property
    def contributions(self) -> Contributions:
        """Those of the strategy."""
        return self.strategy.contributions

    @property
    def cost(self) -> Fraction:
        """mu^2."""
        return self.strategy.cost

    @cached_property
    def _shapes(self) -> list[tuple[int, ...]]:
        return [tuple(self.margins.sizes[i] - 1 for i in each) for each in self.strategy.residuals]

    @cached_property
    def size(self) -> int:
        """One measurement for every cell of a residual."""
        return sum(math.prod(each) for each in self._shapes)

    def _arrays(self, drawn: Sequence[float]) -> list[Floats]:
        cuts = np.cumsum([math.prod(each) for each in self._shapes])[:-1]
        parts = np.split(np.array(drawn, dtype=np.float64), cuts)
        return [part.reshape(shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def draw(self, counts: Sequence[int], bits: Bits) -> list[float]:
        """The noisy residuals, one after the other."""
        found = self.strategy.draw(self.margins.tables(wholes(counts)), bits)
        return [number for each in found for number in each.ravel().tolist()]

    def admits(self, drawn: Sequence[float]) -> bool:
        """Whether every number is on its lattice."""
        return len(drawn) == self.size and self.strategy.admits(self._arrays(drawn))

    def answers(self, drawn: Sequence[float]) -> Floats:
        """The least-squares answers."""
        return np.concatenate([each.values.ravel() for each in self.strategy.answers(self._arrays(drawn))])

    @cached_property
    def variances(self) -> Floats:
        """The same for all cells of a margin."""
        return self.margins.repeated(self.strategy.variances())

    def laplace_radii(self, level: float) -> Floats:
        """There is no Laplace noise."""
        raise AssertionError("the noise of residuals is Gaussian")

    @cached_property
    def drift(self) -> Drift | None:
        """That of the margins."""
        return self.margins.drift(self.variances)

    @property
    def sums(self) -> Identities:
        """Margins are sums of finer ones."""
        return self.margins.sums

    @property
    def levels(self) -> list[tuple[str, float]]:
        """By margin."""
        return self.margins.levels(self.strategy.variances())

    def words(self) -> str:
        """Residuals and their number."""
        return f"Gaussian noise on {len(self.strategy.residuals)} residuals of margins"

    def to_dict(self) -> dict[str, object]:
        """Sizes, margins and scales."""
        return {
            "strategy": "residuals",
            "sizes": list(self.margins.sizes),
            "wanted": [list(each) for each in self.margins.wanted],
            "scales": listed(self.strategy.scales),
        }


@dataclass(frozen=True, kw_only=True)
class LaplaceMeasurements:
    """A crosstab by discrete Laplace noise on each of its margins, or on its finest cells alone; in a pure account.

    `scales` has one for each wanted marginal, or one for the finest alone; what is not measured is summed. A row is in
    one cell of each marginal, so a unit of r rows in each of g cells moves a marginal by at most r g in L1, and by
    twice that where it is replaced: the cost is that times the sum of 1 / scale.
    """

    margins: Margins
    contributions: Contributions
    scales: tuple[float, ...]

    @property
    def account(self) -> NoiseAccount:
        """Pure."""
        return NoiseAccount.PURE

    @property
    def cost(self) -> Fraction:
        """epsilon."""
        bounds = self.contributions
        moved = bounds.rows * bounds.cells * (2 if bounds.replaced else 1)
        return moved * sum((1 / Fraction(each) for each in self.scales), Fraction(0))

    @cached_property
    def noises(self) -> list[LatticeNoise]:
        """The noise of each measured marginal."""
        return [LatticeNoise(account=NoiseAccount.PURE, scale=each) for each in self.scales]

    @property
    def size(self) -> int:
        """The cells of the measured marginals."""
        return int(self.margins.counts[: len(self.scales)].sum())

    def draw(self, counts: Sequence[int], bits: Bits) -> list[float]:
        """The noisy cells of the measured marginals, one after the other."""
        found: list[float] = []
        for table, noise in zip(self.margins.tables(wholes(counts)), self.noises, strict=False):
            noisy = table.ravel() + noise.draw(table.size, bits)
            found += published(noisy, 1.0).tolist()
        return found

    def admits(self, drawn: Sequence[float]) -> bool:
        """Whether all are whole numbers."""
        return len(drawn) == self.size and admits(np.array(drawn, dtype=np.float64), 1.0)

    def answers(self, drawn: Sequence[float]) -> Floats:
        """The measurements themselves, or the sums of the finest ones."""
        if len(self.scales) == len(self.margins.wanted):
            return np.array(drawn, dtype=np.float64)
        tables = self.margins.tables(wholes(drawn))
        return np.concatenate([each.ravel() for each in tables]).astype(np.float64)

    @cached_property
    def _variances(self) -> list[float]:
        if len(self.scales) == len(self.margins.wanted):
            return [each.variance for each in self.noises]
        variance, counts = Fraction(self.noises[0].variance), self.margins.counts.tolist()
        return [rounded_up(variance * (counts[0] // each)) for each in counts]

    @cached_property
    def variances(self) -> Floats:
        """The same for all cells of a margin."""
        return self.margins.repeated(self._variances)

    def laplace_radii(self, level: float) -> Floats:
        """Exact for a cell that was measured; by moments for a sum."""
        if len(self.scales) == len(self.margins.wanted):
            return self.margins.repeated([measured_radius(each, level) for each in self.scales])
        scale, counts = self.scales[0], self.margins.counts
        terms = (counts[0] // counts).astype(np.float64)
        found = laplace_radius(terms * scale**2, np.full(len(terms), scale), level)
        return self.margins.repeated(np.where(terms > 1.0, found, measured_radius(scale, level)).tolist())

    @cached_property
    def drift(self) -> Drift | None:
        """That of the margins."""
        return self.margins.drift(self.variances)

    @property
    def sums(self) -> Identities:
        """Margins are sums of finer ones."""
        return self.margins.sums

    @property
    def levels(self) -> list[tuple[str, float]]:
        """By margin."""
        return self.margins.levels(self._variances)

    def words(self) -> str:
        """The noise, and on what it is."""
        each = "each margin" if len(self.scales) > 1 else "the cells"
        return f"discrete Laplace noise on {each}"

    def to_dict(self) -> dict[str, object]:
        """Sizes, margins and scales."""
        return {
            "strategy": "margins",
            "sizes": list(self.margins.sizes),
            "wanted": [list(each) for each in self.margins.wanted],
            "scales": listed(self.scales),
        }


@lru_cache(maxsize=256)
def crosstab_measurements(
    found: Margins, account: NoiseAccount, budget: Fraction, contributions: Contributions
) -> Measurements:
    """The strategy for a crosstab with the least total variance of those that are known.

    In a pure account the shares of marginals that are measured each are proportional to the cube root of their cells:
    that minimises the sum of cells / share^2.

    Guarantee: the cost is at most the budget, in exact arithmetic.
    """
    if account is NoiseAccount.GAUSSIAN:
        strategy = design_marginals(found.sizes, found.wanted, budget=budget, contributions=contributions)
        return ResidualMeasurements(margins=found, strategy=strategy)
    roots = np.cbrt(found.counts.astype(np.float64))
    ways = [_laplace(found, budget, contributions, (roots / roots.sum()).tolist())]
    ways.append(_laplace(found, budget, contributions, [1.0]))
    return min(ways, key=lambda each: float(each.variances.sum()))


def _laplace(
    found: Margins, budget: Fraction, contributions: Contributions, shares: Sequence[float]
) -> LaplaceMeasurements:
    moved = contributions.rows * contributions.cells * (2 if contributions.replaced else 1)
    scales = [float(moved / (budget * Fraction(share))) for share in shares]
    for _ in range(_ROUNDS):
        made = LaplaceMeasurements(margins=found, contributions=contributions, scales=tuple(scales))
        if made.cost <= budget:
            return made
        scales = [each * _LARGER for each in scales]
    raise Unsatisfiable(f"budget={float(budget)!r}: no scales were found that cost as much and not more")
