"""Crosstabs with their margins: measured by residuals in a Gaussian account, by Laplace noise in a pure one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache, partial

import numpy as np
import numpy.typing as npt

from rangebound.release.noise.bias import Drift, energy_drift, free_drift
from rangebound.release.noise.draw import Bits
from rangebound.release.noise.joint_loss import Contributions, JointLoss, NoiseAccount, added_up, layer_loss
from rangebound.release.noise.projection import DIVIDED, Identities
from rangebound.release.noise.strategies.marginal_strategy import (
    Attributes,
    MarginalStrategy,
    cell_count,
    combined,
    design_marginals,
    projected,
    shaped,
    summed,
)
from rangebound.release.noise.strategies.strategy import (
    LARGER,
    ExactAnswers,
    LatticeNoise,
    Strategy,
    Wholes,
    excess_of_continuous,
    laplace_radius,
    listed,
    measured_radius,
    published,
    wholes,
    within_budget,
)
from rangebound.sampling.entropy import secure_bits
from rangebound.values.array_types import Floats
from rangebound.values.numeric import rounded_up

_ONE = 1 << 60
_GRID = 1024  # shares are multiples of 2^-10, so that the last bits of an optimum do not decide


@dataclass(frozen=True, kw_only=True)
class Margins:
    """The numbers of a crosstab: the marginals `wanted`, the finest first, each in the order of its cells."""

    sizes: tuple[int, ...]
    wanted: tuple[Attributes, ...]
    names: tuple[str, ...]

    order = slice(None)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """The number of cells of each wanted marginal."""
        return np.array([cell_count(self.sizes, each) for each in self.wanted], dtype=np.int64)

    @cached_property
    def starts(self) -> list[int]:
        """Where the numbers of each wanted marginal begin, and where the last ones end."""
        return [0, *np.cumsum(self.counts).tolist()]

    def tables(self, finest: Wholes) -> list[Wholes]:
        """All wanted marginals of the finest cells, in whole numbers."""
        table, every = finest.reshape(self.sizes), tuple(range(len(self.sizes)))
        return [summed(table, every, each) for each in self.wanted]

    @cached_property
    def sums(self) -> Identities:
        """Every number of a margin is the sum of those of the smallest marginal with one more attribute."""
        starts = dict(zip(self.wanted, self.starts, strict=False))
        totals, parts, lengths = [], [], []
        for attributes in self.wanted[1:]:
            added = [i for i in range(len(self.sizes)) if i not in attributes]
            finer = min((tuple(sorted((*attributes, i))) for i in added), key=partial(cell_count, self.sizes))
            (axis,) = (at for at, i in enumerate(finer) if i not in attributes)
            count = cell_count(self.sizes, attributes)
            places = starts[finer] + np.arange(cell_count(self.sizes, finer)).reshape([self.sizes[i] for i in finer])
            parts.append(np.moveaxis(places, axis, -1).ravel())
            totals.append(starts[attributes] + np.arange(count))
            lengths.append(np.full(count, places.shape[axis]))
        if not totals:
            return Identities.of([])
        return Identities(
            totals=np.concatenate(totals),
            parts=np.concatenate(parts),
            starts=np.concatenate([[0], np.cumsum(np.concatenate(lengths))]),
        )

    def drift(self, strategy: Strategy) -> Drift | None:
        """By clamping alone without margins, by the energy of the noise with those of two columns.

        With three columns or more, whole numbers that add up may not be near: no bound is known. Nor is one where so
        many numbers are rounded part by part.
        """
        variances = strategy.variances
        if len(self.wanted) == 1:
            return free_drift(variances)
        known = len(self.sizes) == 2 and len(variances) <= DIVIDED
        return energy_drift(variances, self.sums) if known else None

    @property
    def kinds(self) -> list[tuple[str, slice]]:
        """The marginals, by the names of their columns."""
        said = ["by " + ", ".join(self.names[i] for i in each) if each else "total" for each in self.wanted]
        return [(name, slice(at, at + 1)) for name, at in zip(said, self.starts, strict=False)]  # all cells are alike

    def to_dict(self) -> dict[str, object]:
        return {"sizes": list(self.sizes), "wanted": [list(each) for each in self.wanted]}


@dataclass(frozen=True, kw_only=True)
class LaplaceStrategy(Strategy):
    """A crosstab by discrete Laplace noise on some of its margins, answered by least squares; in a pure account.

    `scales` has one for each wanted marginal, 0 for one that is not measured; the finest one is. Published are all
    cells of one measured marginal after those of the other, and so are the answers. A row is in one cell
    of each marginal, so a unit of r rows in each of g cells moves a marginal by at most r g in L1, and by twice that
    where it is replaced: the cost is that times the sum of 1 / scale.

    Every marginal is the sum of residuals, one for each set B of its attributes: sums by B, less their means along each
    attribute of B, and spread evenly over all others. The residual of B follows from every measured marginal A that
    contains B, with the noise of A (variance v) times the product of n_i over the attributes of A outside B; residuals
    of different B are uncorrelated, so least squares averages each by the reciprocals of these.
    """

    account: NoiseAccount = field(default=NoiseAccount.PURE, init=False)
    margins: Margins
    scales: tuple[float, ...]

    @cached_property
    def cost(self) -> Fraction:
        return self.contributions.reach * sum((1 / Fraction(each) for each in self.scales if each), Fraction(0))

    @cached_property
    def measured(self) -> dict[Attributes, LatticeNoise]:
        """The noise of each measured marginal."""
        return {
            attributes: LatticeNoise(account=NoiseAccount.PURE, scale=each)
            for attributes, each in zip(self.margins.wanted, self.scales, strict=True)
            if each
        }

    @property
    def noises(self) -> tuple[LatticeNoise, ...]:
        return tuple(self.measured.values())

    @cached_property
    def loss(self) -> JointLoss:
        """The sum of what a unit can lose by each measured marginal: a layer of sums of finest cells."""
        every = math.prod(self.margins.sizes)
        counts = {each: cell_count(self.margins.sizes, each) for each in self.measured}
        return added_up(
            layer_loss(noise.scale, capacity=every // counts[each], nodes=counts[each], bounds=self.contributions)
            for each, noise in self.measured.items()
        )

    @cached_property
    def steps(self) -> Floats:
        return np.ones(sum(cell_count(self.margins.sizes, each) for each in self.measured))

    def draw(self, counts: Sequence[npt.ArrayLike], bits: Bits = secure_bits) -> Floats:
        tables = dict(zip(self.margins.wanted, counts, strict=True))
        noisy = [noise.measured(wholes(tables[each]).ravel(), bits) for each, noise in self.measured.items()]
        return published(np.concatenate(noisy), 1.0)

    @cached_property
    def _shares(self) -> dict[Attributes, dict[Attributes, int]]:
        """For each residual the weights of the measured marginals that contain it, in 2^-60; they add up to one."""
        found = {}
        for residual in self.margins.wanted:
            rates = {
                each: 1 / (Fraction(noise.variance) * self._apart(each, residual))
                for each, noise in self.measured.items()
                if set(residual) <= set(each)
            }
            total = sum(rates.values())
            parts = {each: int(rate / total * _ONE) for each, rate in rates.items()}
            first = next(iter(parts))
            found[residual] = {**parts, first: parts[first] + _ONE - sum(parts.values())}
        return found

    def _apart(self, attributes: Attributes, residual: Attributes) -> int:
        """The product of the sizes of the attributes outside a residual."""
        return math.prod(self.margins.sizes[i] for i in attributes if i not in residual)

    def answers(self, drawn: npt.ArrayLike) -> ExactAnswers:
        """The least-squares answers, in whole numbers over one denominator for each marginal."""
        sizes, wanted = self.margins.sizes, self.margins.wanted
        measured = shaped(self.in_steps(drawn), [tuple(sizes[i] for i in each) for each in self.measured])
        if len(wanted) == 1:
            return ExactAnswers(numerators=measured[0].ravel(), denominator=1)
        tables, residuals = dict(zip(self.measured, measured, strict=True)), {}
        for residual, parts in self._shares.items():
            weighed = (summed(tables[each], each, residual) * part for each, part in parts.items())
            table = np.asarray(sum(weighed, wholes(0)), dtype=object)
            residuals[residual] = projected(table, sizes, residual) * table.size
        return combined(sizes, wanted, residuals, _ONE)

    @cached_property
    def _cell_variances(self) -> list[float]:
        """The variance of every cell of each wanted marginal; all cells of one have the same."""
        sizes, wanted, spread = self.margins.sizes, self.margins.wanted, {}
        if len(wanted) == 1:
            return [self.noises[0].variance]
        for residual, parts in self._shares.items():
            noise = sum(
                Fraction(part, _ONE) ** 2 * Fraction(self.measured[each].variance) * self._apart(each, residual)
                for each, part in parts.items()
            )
            spread[residual] = noise * math.prod((1 - Fraction(1, sizes[i]) for i in residual), start=Fraction(1))
        found = []
        for attributes in wanted:
            inside = (each for each in spread if set(each) <= set(attributes))
            parts_of_it = (spread[each] / self._apart(attributes, each) ** 2 for each in inside)
            found.append(rounded_up(sum(parts_of_it, Fraction(0))))
        return found

    @cached_property
    def variances(self) -> Floats:
        return np.repeat(self._cell_variances, self.margins.counts)

    def radii(self, level: float) -> Floats:
        """Exact for cells that were measured alone; else by moments, with a bound of the part of any measurement.

        A cell of A has the weight sum over B of share(A, B) prod over B of (d_i - 1 / n_i) / prod over the others of
        n_i in an answer, d_i saying whether they agree in i: no more in size than with 1 - 1 / n_i or 1 / n_i.
        """
        sizes, largest = self.margins.sizes, []
        for attributes in self.margins.wanted:
            parts = dict.fromkeys(self.measured, 0.0)
            for residual, shares in self._shares.items():
                if set(residual) <= set(attributes):
                    agreeing = math.prod(max(1.0 - 1.0 / sizes[i], 1.0 / sizes[i]) for i in residual)
                    for each, share in shares.items():
                        parts[each] += share / _ONE * agreeing / self._apart(attributes, residual)
            largest.append(max(self.measured[each].scale * part for each, part in parts.items()) * (1.0 + 1e-9))
        squares = np.array(self._cell_variances) / 2.0 * excess_of_continuous(self.noises)
        found = laplace_radius(squares, np.array(largest), level)
        if len(self.measured) == 1:
            found[0] = measured_radius(self.scales[0], level)
        return np.repeat(found, self.margins.counts)

    def words(self) -> str:
        count = len(self.measured)
        return f"discrete Laplace noise on {'the cells' if count == 1 else f'{count} margins'}"

    def to_dict(self) -> dict[str, object]:
        return {"strategy": "margins", "scales": listed(self.scales)}


@lru_cache(maxsize=256)
def design_crosstab(
    found: Margins, *, budget: Fraction, account: NoiseAccount, contributions: Contributions
) -> MarginalStrategy | LaplaceStrategy:
    """The strategy for a crosstab with the least total variance of those that are known.

    Guarantee: the cost is at most the budget, in exact arithmetic.
    """
    if account is NoiseAccount.GAUSSIAN:
        return design_marginals(found.sizes, found.wanted, budget=budget, contributions=contributions)
    ways = (
        within_budget(
            lambda scales: LaplaceStrategy(margins=found, contributions=contributions, scales=scales),
            [float(contributions.reach / (budget * Fraction(each))) if each else 0.0 for each in shares],
            budget,
            lambda _: LARGER,
        )
        for shares in _laplace_shares(found)
    )
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
