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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import combinations
from typing import TypeVar

import clarabel
import numpy as np
import numpy.typing as npt

from rangebound.release.noise.draw import Bits
from rangebound.release.noise.joint_loss import Contributions, NoiseAccount
from rangebound.release.noise.strategies.strategy import (
    ExactAnswers,
    LatticeNoise,
    Strategy,
    Wholes,
    listed,
    published,
    wholes,
    within_budget,
)
from rangebound.sampling.entropy import secure_bits
from rangebound.values.array_types import Floats, Integers
from rangebound.values.numeric import rounded_up

Attributes = tuple[int, ...]
Sizes = Sequence[int]
Sets = Sequence[Attributes]
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
        assert len(self.noises) == len(self.residuals)

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
        """The bound of v' G v in the module's docstring, rounded up.

        v' G v grows with every precision (each measurement adds a square), so precisions 1 / (n_B sigma_B^2) may be
        rounded up first: then kappa is a sum of whole numbers, and is bounded exactly.
        """
        counts = [cell_count(self.sizes, each) for each in self.residuals]
        precisions = [Fraction(each) / Fraction(scale) ** 2 for each, scale in zip(counts, self.scales, strict=True)]
        total = sum((p * count for p, count in zip(precisions, counts, strict=True)), Fraction(0))
        unit = Fraction(2) ** (_EXACT + total.denominator.bit_length() - total.numerator.bit_length() - 2)
        own, other, opposite = _extremes(self.sizes, self.residuals, [math.ceil(each * unit) for each in precisions])
        bounds, cells = self.contributions, min(self.contributions.cells, math.prod(self.sizes))
        one = cells * own + cells * (cells - 1) * other
        moved = max(one, 2 * one + 2 * cells**2 * opposite) if bounds.replaced else one
        return bounds.rows**2 * Fraction(moved) / unit

    @cached_property
    def _shapes(self) -> list[tuple[int, ...]]:
        """The shape of what is published of each residual."""
        return [tuple(self.sizes[i] - 1 for i in each) for each in self.residuals]

    @cached_property
    def steps(self) -> Floats:
        return np.repeat([each.step for each in self.noises], [math.prod(each) for each in self._shapes])

    def draw(self, counts: Sequence[npt.ArrayLike], bits: Bits = secure_bits) -> Floats:
        tables = dict(zip(self.wanted, map(wholes, counts), strict=True))
        found = []
        for residual, noise in zip(self.residuals, self.noises, strict=True):
            finer = next(each for each in self.wanted if set(residual) <= set(each))
            exact = summed(tables[finer], finer, residual)
            noisy = noise.measured(exact * cell_count(self.sizes, residual), bits)
            found.append(published(_differences(noisy), noise.step).ravel())
        return np.concatenate(found)

    def answers(self, drawn: npt.ArrayLike) -> ExactAnswers:
        """One marginal after the other; see `combined`."""
        finest = min(each.step for each in self.noises)
        measured = shaped(self.in_steps(drawn), self._shapes)
        parts = {
            residual: projected(_with_last(part), self.sizes, residual) * int(noise.step / finest)
            for residual, part, noise in zip(self.residuals, measured, self.noises, strict=True)
        }
        return combined(self.sizes, self.wanted, parts, int(1 / finest))

    def by_marginal(self, numbers: Array) -> list[Array]:
        """Numbers of all wanted marginals as one table for each."""
        return shaped(numbers, [tuple(self.sizes[i] for i in each) for each in self.wanted])

    @cached_property
    def cell_variances(self) -> tuple[float, ...]:
        """The variance of every cell of each wanted marginal; all cells of one have the same.

        sum over B in A of sigma_B^2 product over B of (1 - 1 / n_i) / product over A without B of n_i^2.
        """
        parts = [
            (set(residual), Fraction(noise.variance) * math.prod(shape) / cell_count(self.sizes, residual))
            for residual, shape, noise in zip(self.residuals, self._shapes, self.noises, strict=True)
        ]
        totals = (sum((part for own, part in parts if own <= set(each)), Fraction(0)) for each in self.wanted)
        counts = (cell_count(self.sizes, each) for each in self.wanted)
        return tuple(rounded_up(total / count**2) for total, count in zip(totals, counts, strict=True))

    @cached_property
    def variances(self) -> Floats:
        return np.repeat(self.cell_variances, [cell_count(self.sizes, each) for each in self.wanted])

    def words(self) -> str:
        return f"Gaussian noise on {len(self.residuals)} residuals of margins"

    def to_dict(self) -> dict[str, object]:
        return {"strategy": "residuals", "scales": listed(self.scales)}


def cell_count(sizes: Sizes, attributes: Attributes) -> int:
    """How many cells a marginal has."""
    return math.prod(sizes[i] for i in attributes)


def summed(table: Wholes, attributes: Attributes, wanted: Attributes) -> Wholes:
    """The sums of a marginal over all its attributes but the wanted ones."""
    axes = tuple(at for at, i in enumerate(attributes) if i not in wanted)
    return np.asarray(table.sum(axis=axes) if axes else table, dtype=object)


def projected(table: Wholes, sizes: Sizes, residual: Attributes) -> Wholes:
    """n_B P_B y of a table y by the attributes of a residual: (n I - J) along every axis."""
    for axis, i in enumerate(residual):
        table = np.asarray(table * sizes[i] - table.sum(axis=axis, keepdims=True), dtype=object)
    return table


def combined(sizes: Sizes, wanted: Sets, parts: Mapping[Attributes, Wholes], unit: int) -> ExactAnswers:
    """The wanted marginals, one after the other: sum over B of n_(A without B) R_B / n_A^2.

    R_B is n_B^2 P_B x_B with its noise, in parts of a `unit`.
    """
    numerators, denominators = [], []
    for attributes in wanted:
        total = np.zeros([sizes[i] for i in attributes], dtype=object)
        for residual, part in parts.items():
            if set(residual) <= set(attributes):
                spread = np.asarray(part, dtype=object).reshape([sizes[i] if i in residual else 1 for i in attributes])
                total = np.asarray(total + spread * (total.size // spread.size), dtype=object)
        numerators.append(np.ravel(total))
        denominators += [total.size**2 * unit] * total.size
    return ExactAnswers(numerators=np.concatenate(numerators), denominator=np.array(denominators, dtype=object))


def shaped(flat: Array, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """The tables of these shapes that stand one after the other in a flat array."""
    cuts = np.cumsum([math.prod(each) for each in shapes])[:-1]
    return [part.reshape(shape) for part, shape in zip(np.split(flat, cuts), shapes, strict=True)]


def residuals_of(sizes: Sizes, wanted: Sets) -> tuple[Attributes, ...]:
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


def _extremes(sizes: Sizes, residuals: Sets, loads: Sizes) -> tuple[int, int, int]:
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


def agreement_table(sizes: Sizes, residuals: Sets, used: Sizes) -> Integers:
    """The product over i in B of (n_i 1[i in S] - 1), for all S (rows; the last is all of `used`) and B (columns)."""
    sets = np.arange(2 ** len(used))
    factors = {i: np.where(sets >> at & 1, sizes[i] - 1, -1).astype(np.int64) for at, i in enumerate(used)}
    columns = [np.prod([np.ones_like(sets), *(factors[i] for i in each)], axis=0) for each in residuals]
    return np.stack(columns, axis=1)


def _bounds(sizes: Sizes, residuals: Sets, loads: Sizes, used: Sizes) -> tuple[int, int]:
    """Bounds for very many attributes: two cells differ in some i, whose factor is -1; no other is above n - 1."""
    pairs = zip(loads, residuals, strict=True)
    tops = [(load, b, load * math.prod(sizes[i] - 1 for i in b)) for load, b in pairs]
    differing = (
        sum(top if i not in b else -load if len(b) == 1 else top // (sizes[i] - 1) for load, b, top in tops)
        for i in used
    )
    opposite = sum(top // min(sizes[i] - 1 for i in b) if b else -load for load, b, top in tops)
    return max(0, *differing), opposite


def _differences(table: Wholes) -> Wholes:
    """D: along every axis, the last category subtracted from the others."""
    for axis in range(table.ndim):
        last = table.take([-1], axis=axis)
        table = table.take(range(table.shape[axis] - 1), axis=axis) - last
    return table


def _with_last(differences: Wholes) -> Wholes:
    """A table of what has the given differences: the last category along every axis is zero."""
    found = np.zeros([size + 1 for size in differences.shape], dtype=object)
    found[tuple(slice(-1) for _ in differences.shape)] = differences
    return found


_ROUNDS = 40  # of constraints that are added
_CLOSE = 1e-6  # how far a constraint that was left out may be violated, relative to the cost


def design_marginals(
    sizes: Sizes,
    wanted: Sets,
    *,
    budget: Fraction | float,
    contributions: Contributions | None = None,
    weights: Sequence[float] | None = None,
) -> MarginalStrategy:
    """The strategy that answers all wanted marginals with the least total variance, each cell times its weight.

    For one contribution of an added unit it is closed form, sigma_B^2 = sqrt(c_B / v_B) (sum of sqrt(c v)) / mu^2
    with c_B = product of (1 - 1 / n_i) and v_B the weight of sigma_B^2 in the total variance [xiao2023]. Else it is a
    convex program in sigma_B^-2: the cost is the largest of many linear functions of it.

    Guarantee: `cost` of the strategy is at most `budget` (of mu^2), in exact arithmetic, whatever the solver found.
    Assumes: sizes, distinct wanted marginals, positive weights and contribution bounds are public.

    >>> strategy = design_marginals((2, 3), [(0,), (0, 1)], budget=1.0)
    >>> found = strategy.answers(strategy.draw([[40, 60], [[10, 10, 20], [0, 0, 60]]]))
    >>> bool(abs(sum(found.values[:2]) - sum(found.values[2:])) < 1e-9)
    True
    >>> one, both = strategy.by_marginal(found.values)
    >>> one.shape, both.shape, bool(abs(one - [40, 60]).max() < 8 * strategy.variances[0] ** 0.5)
    ((2,), (2, 3), True)
    >>> strategy.cost <= 1
    True
    """
    bounds, wanted = contributions or Contributions(), tuple(wanted)
    scales = _best_scales(tuple(sizes), wanted, bounds, tuple(weights or (1.0,) * len(wanted)))
    best = MarginalStrategy(sizes=tuple(sizes), wanted=wanted, contributions=bounds, scales=scales)
    return _within(Fraction(budget), best)


@lru_cache(maxsize=64)
def _best_scales(
    sizes: tuple[int, ...], wanted: tuple[Attributes, ...], contributions: Contributions, shares: tuple[float, ...]
) -> tuple[float, ...]:
    """The scales of the residuals, up to a factor: they do not depend on the budget.

    The load of a residual is the sum over the wanted A that contain it of the weight times the cells of A / product of
    n_i^2 over the others.
    """
    residuals = residuals_of(sizes, wanted)
    own = np.array([math.prod(1.0 - 1.0 / sizes[i] for i in each) for each in residuals])
    spreads = [
        sum(
            weight * math.prod(float(sizes[i]) if i in each else 1.0 / sizes[i] for i in attributes)
            for weight, attributes in zip(shares, wanted, strict=True)
            if set(each) <= set(attributes)
        )
        for each in residuals
    ]
    loads = own * np.array(spreads)
    if contributions.cells == 1 and not contributions.replaced:
        precisions = np.sqrt(loads / own)
    else:
        precisions = _program(sizes, residuals, loads / loads.max(), contributions)
    cells = np.array([cell_count(sizes, each) for each in residuals], dtype=np.float64)
    return tuple((cells / np.sqrt(precisions)).tolist())


def rescaled(strategy: MarginalStrategy, budget: Fraction | float) -> MarginalStrategy:
    """The strategy with its scales in the same proportions, as small as another budget allows.

    Guarantee: `cost` is at most the budget, in exact arithmetic. A strategy with the least total variance stays one.

    >>> one = design_marginals((2, 3), [(0,), (0, 1)], budget=1.0)
    >>> round(rescaled(one, 0.25).cell_variances[0] / one.cell_variances[0], 6)
    4.0
    """
    return _within(Fraction(budget), strategy, math.sqrt(strategy.cost / Fraction(budget)))


def _within(limit: Fraction, strategy: MarginalStrategy, factor: float = 1.0) -> MarginalStrategy:
    start = np.array(strategy.scales) * factor
    return within_budget(
        lambda scales: replace(strategy, scales=scales), start, limit, lambda ratio: math.sqrt(ratio) * (1.0 + 1e-12)
    )


def _program(sizes: Sizes, residuals: Sets, loads: Floats, contributions: Contributions) -> Floats:
    """Precisions that minimise sum of loads / precision at cost 1, by adding the constraints that are violated."""
    used = sorted({i for each in residuals for i in each})
    loose = any(size > 1 for i, size in enumerate(sizes) if i not in used)
    cells = np.array([cell_count(sizes, each) for each in residuals], dtype=np.float64)
    if 2 ** len(used) * len(residuals) <= ENUMERATED:
        table = agreement_table(sizes, residuals, used) / cells
        own, others, opposites = table[-1], table if loose else table[:-1], -table
    else:
        own, others, opposites = _bounding_rows(sizes, residuals, used, loose)
    chosen_others: list[int] = []
    chosen_opposites = [0] if contributions.replaced else []
    for _ in range(_ROUNDS):
        chosen = others[chosen_others], opposites[chosen_opposites]
        precisions, other, opposite = _solve(own, *chosen, loads, contributions)
        worst = others @ precisions, opposites @ precisions
        slack = _CLOSE * float(own @ precisions) / contributions.cells
        new_others = worst[0].size and worst[0].max() > other + slack
        new_opposites = contributions.replaced and worst[1].max() > opposite + slack
        if not (new_others or new_opposites):
            break
        chosen_others += [int(worst[0].argmax())] if new_others else []
        chosen_opposites += [int(worst[1].argmax())] if new_opposites else []
    return precisions


def _bounding_rows(sizes: Sizes, residuals: Sets, used: Sizes, loose: bool) -> tuple[Floats, Floats, Floats]:
    """The linear functions that bound kappa where there are too many sets of attributes to enumerate."""
    own = np.array([math.prod(1.0 - 1.0 / sizes[i] for i in each) for each in residuals])
    tops = list(zip(residuals, own.tolist(), strict=True))
    rows = [
        [top if i not in b else -1.0 / sizes[i] if len(b) == 1 else top / (sizes[i] - 1) for b, top in tops]
        for i in used
    ]
    opposite = [top / min(sizes[i] - 1 for i in b) if b else -1.0 for b, top in tops]
    return own, np.array([*rows, own.tolist()] if loose else rows), np.array([opposite])


def _solve(
    own: Floats, others: Floats, opposites: Floats, loads: Floats, contributions: Contributions
) -> tuple[Floats, float, float]:
    """Minimise sum of loads u with u precision >= 1 and cost 1; the unknowns are precisions, u, and the two maxima.

    u p >= 1 is the second-order cone |(2, u - p)| <= u + p.
    """
    from scipy import sparse

    count, g, times = len(loads), contributions.cells, 2.0 if contributions.replaced else 1.0
    one = np.concatenate([g * own, np.zeros(count), [g * (g - 1.0), 0.0]])
    linear = np.zeros((4 + len(others) + len(opposites), 2 * count + 2))
    linear[0], linear[1, -2], linear[2, -1], linear[3] = times * one, -1.0, -1.0, one
    linear[0, -1] = 2.0 * g * g * (times - 1.0)
    linear[4 : 4 + len(others), :count], linear[4 : 4 + len(others), -2] = others, -1.0
    linear[4 + len(others) :, :count], linear[4 + len(others) :, -1] = opposites, -1.0
    limits = np.concatenate([[1.0, 0.0, 1.0, 1.0], np.zeros(len(linear) - 4)])  # no kappa is above one
    each = np.arange(count)
    rows = 3 * np.repeat(each, 4) + np.tile([0, 0, 2, 2], count)
    columns = np.stack([each, count + each, each, count + each], axis=1).ravel()
    cones = sparse.csc_matrix(
        (np.tile([-1.0, -1.0, 1.0, -1.0], count), (rows, columns)), shape=(3 * count, 2 * count + 2)
    )
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix((2 * count + 2, 2 * count + 2)),
        np.concatenate([np.zeros(count), loads, [0.0, 0.0]]),
        sparse.vstack([sparse.csc_matrix(linear), cones]).tocsc(),
        np.concatenate([limits, np.tile([0.0, 2.0, 0.0], count)]),
        [clarabel.NonnegativeConeT(len(linear)), *(clarabel.SecondOrderConeT(3) for _ in range(count))],
        settings,
    )
    solution = np.array(solver.solve().x)
    return solution[:count], float(solution[-2]), float(solution[-1])
