"""Marginals of one table, measured by their residuals: noise where it is needed, and all marginals consistent.

Attributes i have n_i values; x_B is the marginal (the counts by the attributes in B, the total where B is empty), and
P_B the product over i in B of (I - J / n_i), J the matrix of ones. A marginal is the sum of its residuals,

    x_A = sum over B in A of (P_B x_B, repeated along A without B) / product of n_i over A without B,

so the wanted marginals need one measurement of P_B x_B for each B inside one of them [xiao2023].

What is drawn and published. With n_B the product of n_i over B, noise of scale s_B is drawn on all cells,
y = round(n_B x_B + s_B z) on a lattice whose step divides 1, and only D y is published: along each attribute of B, the
last category is subtracted from the others. P_B y is a function of D y. P_B y in floating point is not published: its
last bits would depend on more of y than D y.

Privacy lemma. Let v be the difference of x_B between two datasets, and w = n_B (v - P_B v). Every entry of w is a whole
number, since n_B P_B is a matrix of whole numbers; and D w = 0, since P_B w = 0 and D and P_B have one kernel. Rounding
to the lattice commutes with shifts by points of the lattice, so D round(n_B x' + s z) and D round(n_B x' + w + s z) are
equal. The two published laws are therefore post-processing of normal laws whose means are n_B v - w = n_B P_B v apart:
a mu-GDP step with mu = |P_B v| / sigma_B exactly, where sigma_B = s_B / n_B. Nothing is lost to the lattice.

All steps together cost mu^2 = v' G v for the finest counts' difference v. Two finest cells that agree in the attributes
S and differ in the others have the entry

    G = kappa(S) = sum over B of sigma_B^-2 product over i in B of (1[i in S] - 1 / n_i).

A unit in g finest cells moves them by at most r each, so with K = max(0, kappa(S) for S that two cells can have)

    v' G v <= r^2 (g kappa(all) + g (g - 1) K).

r sqrt(g) is not a bound on how far a marginal moves: g finest cells may lie in one cell of it, which moves by r g.
A replaced unit moves them by u - t with both of this kind, and v' G v is convex in u and t: it is largest where both
have k and l cells of r rows, and there convex in k and l, so largest where these are 0 or g:

    v' G v <= r^2 max(one, 2 one - 2 g^2 min kappa(S)),  one = g kappa(all) + g (g - 1) K.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from rangebound.errors import ArgumentError
from rangebound.release.noise.strategies.contributions import Contributions, NoiseAccount, whole
from rangebound.release.noise.strategies.lattice_noise import (
    Bits,
    ExactAnswers,
    LatticeNoise,
    Wholes,
    published,
    wholes,
)
from rangebound.release.noise.strategies.strategy import Strategy, listed
from rangebound.sampling.entropy import secure_bits
from rangebound.values.array_types import Floats, Integers
from rangebound.values.numeric import rounded_up

Attributes = tuple[int, ...]
Array = TypeVar("Array", Floats, Wholes)

ENUMERATED = 2**23
"""Entries of a table of all sets of attributes by residuals up to which kappa is computed for every set."""
_EXACT = 60  # bits of the sums in which kappa is computed, as 64-bit integers


@dataclass(frozen=True, kw_only=True)
class MarginalStrategy(Strategy):
    """Residuals of the `wanted` marginals of a table with attributes of the given `sizes`, in a Gaussian account.

    `scales` has one noise scale for each residual, in the order of `residuals`; noise of that scale is drawn on n_B
    times the counts. `design_marginals` finds the best ones. Attributes that no wanted marginal has still belong to
    the finest cells that contribution bounds speak of. Published are the noisy residuals D y, answered all cells of one
    wanted marginal after those of the other.

    Guarantee: what `draw` returns is mu-GDP with mu^2 = `cost`, which is exact for one contribution of an added unit;
    `answers` are unbiased, consistent with each other and least squares; `variances` are theirs, rounded up.
    Assumes: the counts given to `draw` are the wanted marginals of one table in which `contributions` hold.
    Edge cases: an attribute with one value adds no residual. Published numbers are clamped at 2^53 steps.
    """

    account: NoiseAccount = field(default=NoiseAccount.GAUSSIAN, init=False)
    sizes: tuple[int, ...]
    wanted: tuple[Attributes, ...]
    scales: tuple[float, ...]

    def __post_init__(self) -> None:
        check_workload(self.sizes, self.wanted)
        if len(self.scales) != len(self.residuals):
            raise ArgumentError(f"scales: must have one number for each residual, {len(self.residuals)} in all")
        assert self.noises

    @cached_property
    def residuals(self) -> tuple[Attributes, ...]:
        """The sets of attributes whose residuals are measured, in the order in which they are published."""
        return residuals_of(self.sizes, self.wanted)

    @cached_property
    def noises(self) -> tuple[LatticeNoise, ...]:
        """The noise of each residual."""
        return tuple(LatticeNoise(account=NoiseAccount.GAUSSIAN, scale=each) for each in self.scales)

    @cached_property
    def cost(self) -> Fraction:
        precisions = [
            Fraction(cell_count(self.sizes, each)) / Fraction(scale) ** 2
            for each, scale in zip(self.residuals, self.scales, strict=True)
        ]
        return privacy_cost(self.sizes, self.residuals, precisions, self.contributions)

    @cached_property
    def _shapes(self) -> list[tuple[int, ...]]:
        """The shape of what is published of each residual."""
        return [tuple(self.sizes[i] - 1 for i in each) for each in self.residuals]

    @cached_property
    def steps(self) -> Floats:
        return np.repeat([each.step for each in self.noises], [math.prod(each) for each in self._shapes])

    def draw(self, counts: Sequence[npt.ArrayLike], bits: Bits = secure_bits) -> Floats:
        tables = self._tables(counts)
        found = []
        for residual, noise in zip(self.residuals, self.noises, strict=True):
            finer = next(each for each in self.wanted if set(residual) <= set(each))
            exact = summed(tables[finer], finer, residual)
            noisy = noise.measured(exact * cell_count(self.sizes, residual), bits)
            found.append(published(_differences(noisy), noise.step).ravel())
        return np.concatenate(found)

    def answers(self, drawn: npt.ArrayLike) -> ExactAnswers:
        """One marginal after the other: sum over B of n_(A without B) R_B / n_A^2.

        R_B is n_B^2 P_B x_B with its noise.
        """
        finest = min(each.step for each in self.noises)
        parts = {
            residual: _projected(part, self.sizes, residual) * int(noise.step / finest)
            for residual, part, noise in zip(
                self.residuals, shaped(self.in_steps(drawn), self._shapes), self.noises, strict=True
            )
        }
        numerators, denominators = [], []
        for wanted in self.wanted:
            count = cell_count(self.sizes, wanted)
            total = np.zeros([self.sizes[i] for i in wanted], dtype=object)
            for residual, part in parts.items():
                if set(residual) <= set(wanted):
                    spread = spread_over(part, self.sizes, residual, wanted)
                    total = total + spread * (count // cell_count(self.sizes, residual))
            numerators.append(np.ravel(total))
            denominators += [count**2 * int(1 / finest)] * count
        return ExactAnswers(numerators=np.concatenate(numerators), denominator=np.array(denominators, dtype=object))

    def by_marginal(self, numbers: Array) -> list[Array]:
        """Numbers of all wanted marginals as one table for each."""
        return shaped(numbers, [tuple(self.sizes[i] for i in each) for each in self.wanted])

    @cached_property
    def cell_variances(self) -> tuple[float, ...]:
        """The variance of every cell of each wanted marginal; all cells of one have the same.

        sum over B in A of sigma_B^2 product over B of (1 - 1 / n_i) / product over A without B of n_i^2.
        """
        found = []
        for wanted in self.wanted:
            total = Fraction(0)
            for residual, shape, noise in zip(self.residuals, self._shapes, self.noises, strict=True):
                if set(residual) <= set(wanted):
                    apart = cell_count(self.sizes, wanted) ** 2 * cell_count(self.sizes, residual)
                    total += Fraction(noise.variance) * math.prod(shape) * Fraction(1, apart)
            found.append(rounded_up(total))
        return tuple(found)

    @cached_property
    def variances(self) -> Floats:
        return np.repeat(self.cell_variances, [cell_count(self.sizes, each) for each in self.wanted])

    def words(self) -> str:
        return f"Gaussian noise on {len(self.residuals)} residuals of margins"

    def to_dict(self) -> dict[str, object]:
        return {"strategy": "residuals", "scales": listed(self.scales)}

    def _tables(self, counts: Sequence[npt.ArrayLike]) -> dict[Attributes, Wholes]:
        """The wanted marginals as whole numbers, in their shapes."""
        if len(counts) != len(self.wanted):
            raise ArgumentError(f"counts: must be {len(self.wanted)} arrays, one for each wanted marginal")
        tables = {wanted: wholes(each) for wanted, each in zip(self.wanted, counts, strict=True)}
        for wanted, table in tables.items():
            if table.shape != tuple(self.sizes[i] for i in wanted):
                raise ArgumentError(f"counts of {wanted}: must have the sizes of its attributes")
        return tables


def cell_count(sizes: Sequence[int], attributes: Attributes) -> int:
    """How many cells a marginal has."""
    return math.prod(sizes[i] for i in attributes)


def summed(table: Wholes, attributes: Attributes, wanted: Attributes) -> Wholes:
    """The sums of a marginal over all its attributes but the wanted ones."""
    axes = tuple(at for at, i in enumerate(attributes) if i not in wanted)
    return np.asarray(table.sum(axis=axes) if axes else table, dtype=object)


def spread_over(table: Wholes, sizes: Sequence[int], residual: Attributes, wanted: Attributes) -> Wholes:
    """The table of a residual in the axes of a marginal, ready to be repeated along the others."""
    return np.asarray(table, dtype=object).reshape([sizes[i] if i in residual else 1 for i in wanted])


def shaped(flat: Array, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """The tables of these shapes that stand one after the other in a flat array."""
    cuts = np.cumsum([math.prod(each) for each in shapes])[:-1]
    return [part.reshape(shape) for part, shape in zip(np.split(flat, cuts), shapes, strict=True)]


def check_workload(sizes: Sequence[int], wanted: Sequence[Attributes]) -> None:
    """Refuse sizes that are not positive, and marginals that are not distinct increasing tuples of attributes."""
    for each in sizes:
        whole("sizes", each)
    if not wanted or len(set(wanted)) != len(wanted):
        raise ArgumentError("wanted: must be at least one marginal, each named once")
    for attributes in wanted:
        if list(attributes) != sorted(set(attributes)) or not all(0 <= i < len(sizes) for i in attributes):
            raise ArgumentError(f"wanted={attributes}: must be increasing numbers of attributes")


def residuals_of(sizes: Sequence[int], wanted: Sequence[Attributes]) -> tuple[Attributes, ...]:
    """All subsets of the wanted marginals that have a residual: attributes with one value have none.

    >>> residuals_of((2, 3, 1), [(0, 1), (2,)])
    ((), (0,), (1,), (0, 1))
    """
    found = {
        part
        for attributes in wanted
        for size in range(len(attributes) + 1)
        for part in combinations([i for i in attributes if sizes[i] > 1], size)
    }
    return tuple(sorted(found, key=lambda each: (len(each), each)))


def privacy_cost(
    sizes: Sequence[int], residuals: Sequence[Attributes], precisions: Sequence[Fraction], contributions: Contributions
) -> Fraction:
    """The bound of v' G v in the module's docstring, for `precisions` 1 / (n_B sigma_B^2), rounded up.

    v' G v grows with every precision (each measurement adds a square), so precisions may be rounded up first: then
    kappa is a sum of whole numbers, and is bounded exactly.
    """
    total = sum((p * cell_count(sizes, b) for p, b in zip(precisions, residuals, strict=True)), Fraction(0))
    bits = _EXACT + total.denominator.bit_length() - total.numerator.bit_length() - 2
    unit = Fraction(2) ** bits
    loads = [math.ceil(each * unit) for each in precisions]
    own, other, opposite = _extremes(sizes, residuals, loads)
    rows, cells = contributions.rows, min(contributions.cells, math.prod(sizes))
    one = cells * own + cells * (cells - 1) * other
    moved = max(one, 2 * one + 2 * cells**2 * opposite) if contributions.replaced else one
    return rows**2 * Fraction(moved) / unit


def _extremes(sizes: Sequence[int], residuals: Sequence[Attributes], loads: Sequence[int]) -> tuple[int, int, int]:
    """kappa(all), and upper bounds of max(0, kappa(S)) over what two cells can agree in and of -kappa(S)."""
    used = sorted({i for each in residuals for i in each})
    own = sum(load * math.prod(sizes[i] - 1 for i in each) for load, each in zip(loads, residuals, strict=True))
    loose = any(size > 1 for i, size in enumerate(sizes) if i not in used)
    if 2 ** len(used) * len(residuals) > ENUMERATED:
        other, opposite = _bounds(sizes, residuals, loads, used)
    else:
        kappa = agreement_table(sizes, residuals, used) @ np.array(loads, dtype=np.int64)
        other, opposite = int(kappa[:-1].max(initial=0)), int((-kappa).max())
    # No entry of a Gram matrix is larger than the diagonal, which is the same everywhere.
    return own, own if loose else min(other, own), min(opposite, own)


def agreement_table(sizes: Sequence[int], residuals: Sequence[Attributes], used: Sequence[int]) -> Integers:
    """The product over i in B of (n_i 1[i in S] - 1), for all S (rows; the last is all of `used`) and B (columns)."""
    sets = np.arange(2 ** len(used))
    factors = {i: np.where(sets >> at & 1, sizes[i] - 1, -1).astype(np.int64) for at, i in enumerate(used)}
    columns = [np.prod([np.ones_like(sets), *(factors[i] for i in each)], axis=0) for each in residuals]
    return np.stack(columns, axis=1)


def _bounds(
    sizes: Sequence[int], residuals: Sequence[Attributes], loads: Sequence[int], used: Sequence[int]
) -> tuple[int, int]:
    """Bounds for very many attributes: two cells differ in some i, whose factor is -1; no other is above n - 1."""
    tops = [load * math.prod(sizes[i] - 1 for i in each) for load, each in zip(loads, residuals, strict=True)]

    def differing(i: int) -> int:
        return sum(
            (top if i not in each else -load if len(each) == 1 else top // (sizes[i] - 1))
            for load, each, top in zip(loads, residuals, tops, strict=True)
        )

    opposite = sum(
        top // min(sizes[i] - 1 for i in each) if each else -load
        for load, each, top in zip(loads, residuals, tops, strict=True)
    )
    return max(0, *(differing(i) for i in used)), opposite


def _differences(table: Wholes) -> Wholes:
    """D: along every axis, the last category subtracted from the others."""
    for axis in range(table.ndim):
        last = table.take([-1], axis=axis)
        table = table.take(range(table.shape[axis] - 1), axis=axis) - last
    return table


def _projected(differences: Wholes, sizes: Sequence[int], residual: Attributes) -> Wholes:
    """n_B P_B y of what has the given differences: (n I - J) along every axis, the last category being zero."""
    table = differences
    for axis, i in enumerate(residual):
        zero = np.zeros((*table.shape[:axis], 1, *table.shape[axis + 1 :]), dtype=object)
        table = np.concatenate([table, zero], axis=axis)
        table = table * sizes[i] - table.sum(axis=axis, keepdims=True)
    return table
