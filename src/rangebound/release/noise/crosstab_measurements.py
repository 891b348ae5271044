"""Crosstabs with their margins: measured by residuals in a Gaussian account, by Laplace noise in a pure one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from rangebound.errors import Unsatisfiable
from rangebound.release.noise.draw import Bits
from rangebound.release.noise.joint_loss import JointLoss, added_up
from rangebound.release.noise.laplace_tail import excess_of_continuous, laplace_radius, measured_radius
from rangebound.release.noise.projection import DIVIDED, Identities
from rangebound.release.noise.projection_bias import Drift, energy_drift, free_drift
from rangebound.release.noise.strategies.contributions import Contributions, NoiseAccount
from rangebound.release.noise.strategies.exact_answers import ExactAnswers
from rangebound.release.noise.strategies.lattice_noise import LatticeNoise, Wholes, admits, published, wholes
from rangebound.release.noise.strategies.layer_loss import layer_loss
from rangebound.release.noise.strategies.marginal_design import design_marginals
from rangebound.release.noise.strategies.marginal_strategy import Attributes, MarginalStrategy
from rangebound.release.noise.workload_publisher import Measurements, listed
from rangebound.release.plan.kinds.summed_counts import marginals
from rangebound.values.array_types import Floats
from rangebound.values.numeric import rounded_up

Names = tuple[str, ...]
_LARGER = 1.0 + 2.0**-51
_ROUNDS = 100
_ONE = 1 << 60
_GRID = 1024  # shares are multiples of 2^-10, so that the last bits of an optimum do not decide


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
    return Margins(sizes=tuple(sizes), wanted=marginals(len(sizes), every=every), names=names)


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

    @property
    def loss(self) -> JointLoss:
        """There is no Laplace noise."""
        raise AssertionError("the noise of residuals is Gaussian")

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
    """A crosstab by discrete Laplace noise on some of its margins, answered by least squares; in a pure account.

    `scales` has one for each wanted marginal, 0 for one that is not measured; the finest one is. A row is in one cell
    of each marginal, so a unit of r rows in each of g cells moves a marginal by at most r g in L1, and by twice that
    where it is replaced: the cost is that times the sum of 1 / scale.

    Every marginal is the sum of residuals, one for each set B of its attributes: sums by B, less their means along each
    attribute of B, and spread evenly over all others. The residual of B follows from every measured marginal A that
    contains B, with the noise of A (variance v) times the product of n_i over the attributes of A outside B; residuals
    of different B are uncorrelated, so least squares averages each by the reciprocals of these.
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
        return _moved(self.contributions) * sum((1 / Fraction(each) for each in self.scales if each), Fraction(0))

    @cached_property
    def noises(self) -> dict[Attributes, LatticeNoise]:
        """The noise of each measured marginal."""
        return {
            attributes: LatticeNoise(account=NoiseAccount.PURE, scale=each)
            for attributes, each in zip(self.margins.wanted, self.scales, strict=True)
            if each
        }

    @cached_property
    def loss(self) -> JointLoss:
        """The sum of what a unit can lose by each measured marginal: a layer of sums of finest cells."""
        every = self.margins.cells(self.margins.wanted[0])
        counts = {each: self.margins.cells(each) for each in self.noises}
        return added_up(
            layer_loss(noise.scale, capacity=every // counts[each], nodes=counts[each], bounds=self.contributions)
            for each, noise in self.noises.items()
        )

    @cached_property
    def size(self) -> int:
        """The cells of the measured marginals."""
        return sum(self.margins.cells(each) for each in self.noises)

    def draw(self, counts: Sequence[int], bits: Bits) -> list[float]:
        """The noisy cells of the measured marginals, one after the other."""
        found: list[float] = []
        for attributes, table in zip(self.margins.wanted, self.margins.tables(wholes(counts)), strict=True):
            if attributes in self.noises:
                noisy = table.ravel() + self.noises[attributes].draw(table.size, bits)
                found += published(noisy, 1.0).tolist()
        return found

    def admits(self, drawn: Sequence[float]) -> bool:
        """Whether all are whole numbers."""
        return len(drawn) == self.size and admits(np.array(drawn, dtype=np.float64), 1.0)

    @cached_property
    def _shares(self) -> dict[Attributes, dict[Attributes, int]]:
        """For each residual the weights of the measured marginals that contain it, in 2^-60; they add up to one."""
        found = {}
        for residual in self.margins.wanted:
            rates = {
                each: 1 / (Fraction(noise.variance) * self._others(each, residual))
                for each, noise in self.noises.items()
                if set(residual) <= set(each)
            }
            total = sum(rates.values())
            parts = {each: int(rate / total * _ONE) for each, rate in rates.items()}
            first = next(iter(parts))
            found[residual] = {**parts, first: parts[first] + _ONE - sum(parts.values())}
        return found

    def _others(self, attributes: Attributes, residual: Attributes) -> int:
        """The product of the sizes of the attributes outside a residual."""
        return math.prod(self.margins.sizes[i] for i in attributes if i not in residual)

    def answers(self, drawn: Sequence[float]) -> Floats:
        """The least-squares answers, in whole numbers over one denominator for each marginal."""
        if len(self.margins.wanted) == 1:
            return np.array(drawn, dtype=np.float64)
        sizes, tables, start = self.margins.sizes, {}, 0
        for each in self.noises:
            stop = start + self.margins.cells(each)
            tables[each] = wholes(drawn[start:stop]).reshape([sizes[i] for i in each])
            start = stop
        residuals = {}
        for residual, parts in self._shares.items():
            summed = (_summed(tables[each], each, residual) * part for each, part in parts.items())
            table = np.asarray(sum(summed, wholes(0)), dtype=object)
            for axis, i in enumerate(residual):
                table = np.asarray(table * sizes[i] - table.sum(axis=axis, keepdims=True), dtype=object)
            residuals[residual] = table
        found = []
        for attributes in self.margins.wanted:
            numerators = wholes(np.zeros([sizes[i] for i in attributes]))
            for residual, table in residuals.items():
                if set(residual) <= set(attributes):
                    shape = [sizes[i] if i in residual else 1 for i in attributes]
                    numerators = np.asarray(numerators + table.reshape(shape), dtype=object)
            exact = ExactAnswers(numerators=numerators, denominator=_ONE * self.margins.cells(attributes))
            found.append(exact.values.ravel())
        return np.concatenate(found)

    @cached_property
    def _variances(self) -> list[float]:
        if len(self.margins.wanted) == 1:
            return [self.noises[self.margins.wanted[0]].variance]
        sizes, spread = self.margins.sizes, {}
        for residual, parts in self._shares.items():
            noise = sum(
                Fraction(part, _ONE) ** 2 * Fraction(self.noises[each].variance) * self._others(each, residual)
                for each, part in parts.items()
            )
            spread[residual] = noise * math.prod((1 - Fraction(1, sizes[i]) for i in residual), start=Fraction(1))
        return [
            rounded_up(
                sum(
                    (
                        each / self._others(attributes, residual) ** 2
                        for residual, each in spread.items()
                        if set(residual) <= set(attributes)
                    ),
                    Fraction(0),
                )
            )
            for attributes in self.margins.wanted
        ]

    @cached_property
    def variances(self) -> Floats:
        """The same for all cells of a margin."""
        return self.margins.repeated(self._variances)

    def laplace_radii(self, level: float) -> Floats:
        """Exact for cells that were measured alone; else by moments, with a bound of the part of any measurement.

        A cell of A has the weight sum over B of share(A, B) prod over B of (d_i - 1 / n_i) / prod over the others of
        n_i in an answer, d_i saying whether they agree in i: no more in size than with 1 - 1 / n_i or 1 / n_i.
        """
        sizes, largest = self.margins.sizes, []
        for attributes in self.margins.wanted:
            parts = dict.fromkeys(self.noises, 0.0)
            for residual, shares in self._shares.items():
                if set(residual) <= set(attributes):
                    agreeing = math.prod(max(1.0 - 1.0 / sizes[i], 1.0 / sizes[i]) for i in residual)
                    for each, share in shares.items():
                        parts[each] += share / _ONE * agreeing / self._others(attributes, residual)
            largest.append(max(self.noises[each].scale * part for each, part in parts.items()) * (1.0 + 1e-9))
        excess = max(excess_of_continuous(each.scale, each.variance) for each in self.noises.values())
        found = laplace_radius(np.array(self._variances) / 2.0 * excess, np.array(largest), level)
        if len(self.noises) == 1:
            found[0] = measured_radius(self.scales[0], level)
        return self.margins.repeated(found.tolist())

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
        count = len(self.noises)
        return f"discrete Laplace noise on {'the cells' if count == 1 else f'{count} margins'}"

    def to_dict(self) -> dict[str, object]:
        """Sizes, margins and scales."""
        return {
            "strategy": "margins",
            "sizes": list(self.margins.sizes),
            "wanted": [list(each) for each in self.margins.wanted],
            "scales": listed(self.scales),
        }


def _summed(table: Wholes, attributes: Attributes, wanted: Attributes) -> Wholes:
    """The sums of a marginal over all attributes but the wanted ones."""
    axes = tuple(at for at, i in enumerate(attributes) if i not in wanted)
    return np.asarray(table.sum(axis=axes) if axes else table, dtype=object)


@lru_cache(maxsize=256)
def crosstab_measurements(
    found: Margins, account: NoiseAccount, budget: Fraction, contributions: Contributions
) -> Measurements:
    """The strategy for a crosstab with the least total variance of those that are known.

    Guarantee: the cost is at most the budget, in exact arithmetic.
    """
    if account is NoiseAccount.GAUSSIAN:
        strategy = design_marginals(found.sizes, found.wanted, budget=budget, contributions=contributions)
        return ResidualMeasurements(margins=found, strategy=strategy)
    ways = [_laplace(found, budget, contributions, shares) for shares in _laplace_shares(found)]
    return min(ways, key=lambda each: float(each.variances.sum()))


@lru_cache(maxsize=64)
def _laplace_shares(found: Margins) -> list[list[float]]:
    """Shares of a pure budget for the marginals, in 2^-10: the cells alone, and those with the least total variance.

    With rates s, the residual of B has the precision p_B = sum of T(B, A) s_A^2 / 2, T(B, A) one over the product of
    the sizes of A outside B, and the total variance is the sum of load_B / p_B. It has several local minima: two starts
    find those with noise on few marginals and on all.
    """
    from scipy import optimize

    alone = [1.0, *(0.0 for _ in found.wanted[1:])]
    if len(found.wanted) == 1:
        return [alone]
    sizes, wanted = found.sizes, found.wanted
    inside = [[set(b) <= set(a) for a in wanted] for b in wanted]
    others = [[math.prod(float(sizes[i]) for i in a if i not in b) for a in wanted] for b in wanted]
    parts = np.where(inside, 1.0 / np.array(others), 0.0)
    own = np.array([math.prod(1.0 - 1.0 / sizes[i] for i in b) for b in wanted])
    loads = own * np.where(inside, found.counts / np.array(others) ** 2, 0.0).sum(axis=1)

    def objective(logits: Floats) -> tuple[float, Floats]:
        shares = np.exp(logits - logits.max())
        shares /= shares.sum()
        precisions = parts @ (shares**2 / 2.0)
        total = float((loads / precisions).sum())
        slopes = -(loads / precisions**2) @ parts * shares / total  # of ln total, by the shares
        return math.log(total), shares * (slopes - float(slopes @ shares))

    starts = [np.log(np.cbrt(found.counts.astype(np.float64))), np.array([0.0, *(-4.0 for _ in wanted[1:])])]
    best = min(
        (
            optimize.minimize(objective, each, jac=True, method="L-BFGS-B", bounds=[(-16.0, 16.0)] * len(wanted))
            for each in starts
        ),
        key=lambda each: float(each.fun),
    )
    shares = np.exp(best.x - best.x.max())
    whole = np.floor(shares / shares.sum() * _GRID + 0.5) / _GRID
    whole[0] += 1.0 - whole.sum()
    return [alone, whole.tolist()] if whole[0] > 0.0 else [alone]


def _moved(contributions: Contributions) -> int:
    """By how much a unit moves a marginal, in L1."""
    return contributions.rows * contributions.cells * (2 if contributions.replaced else 1)


def _laplace(
    found: Margins, budget: Fraction, contributions: Contributions, shares: Sequence[float]
) -> LaplaceMeasurements:
    scales = [float(_moved(contributions) / (budget * Fraction(each))) if each else 0.0 for each in shares]
    for _ in range(_ROUNDS):
        made = LaplaceMeasurements(margins=found, contributions=contributions, scales=tuple(scales))
        if made.cost <= budget:
            return made
        scales = [each * _LARGER for each in scales]
    raise Unsatisfiable(f"budget={float(budget)!r}: no scales were found that cost as much and not more")
