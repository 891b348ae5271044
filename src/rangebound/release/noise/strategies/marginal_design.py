"""The best scales for the residuals of wanted marginals: least weighted total variance for a budget of mu^2."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from rangebound.errors import ArgumentError
from rangebound.release.noise.strategies.contributions import Contributions, budget_of, within_budget
from rangebound.release.noise.strategies.marginal_strategy import (
    ENUMERATED,
    Attributes,
    MarginalStrategy,
    agreement_table,
    cell_count,
    check_workload,
    residuals_of,
)
from rangebound.values.array_types import Floats
from rangebound.values.extras import need

_ROUNDS = 40  # of constraints that are added
_CLOSE = 1e-6  # how far a constraint that was left out may be violated, relative to the cost


def design_marginals(
    sizes: Sequence[int],
    wanted: Sequence[Attributes],
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
    Assumes: sizes, wanted marginals, weights and contribution bounds are public.

    >>> strategy = design_marginals((2, 3), [(0,), (0, 1)], budget=1.0)
    >>> found = strategy.answers(strategy.draw([[40, 60], [[10, 10, 20], [0, 0, 60]]]))
    >>> sum(found.fractions()[:2]) == sum(found.fractions()[2:])
    True
    >>> one, both = strategy.by_marginal(found.values)
    >>> one.shape, both.shape, bool(abs(one - [40, 60]).max() < 8 * strategy.variances[0] ** 0.5)
    ((2,), (2, 3), True)
    >>> strategy.cost <= 1
    True
    """
    contributions, limit = contributions or Contributions(), budget_of(budget)
    sizes, wanted = tuple(sizes), tuple(tuple(each) for each in wanted)
    check_workload(sizes, wanted)
    shares = tuple(weights) if weights is not None else (1.0,) * len(wanted)
    if len(shares) != len(wanted) or not all(0.0 < each < math.inf for each in shares):
        raise ArgumentError("weights: must be one positive number for each wanted marginal")
    scales = _best_scales(sizes, wanted, contributions, shares)
    best = MarginalStrategy(sizes=sizes, wanted=wanted, contributions=contributions, scales=scales)
    return _within(limit, best)


@lru_cache(maxsize=64)
def _best_scales(
    sizes: tuple[int, ...], wanted: tuple[Attributes, ...], contributions: Contributions, shares: tuple[float, ...]
) -> tuple[float, ...]:
    """The scales of the residuals, up to a factor: they do not depend on the budget."""
    residuals = residuals_of(sizes, wanted)
    own = np.array([math.prod(1.0 - 1.0 / sizes[i] for i in each) for each in residuals])
    loads = own * np.array([_spread(sizes, wanted, shares, each) for each in residuals])
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
    limit = budget_of(budget)
    return _within(limit, strategy, math.sqrt(strategy.cost / limit))


def _within(limit: Fraction, strategy: MarginalStrategy, factor: float = 1.0) -> MarginalStrategy:
    start = np.array(strategy.scales) * factor
    return within_budget(
        lambda scales: replace(strategy, scales=scales), start, limit, lambda ratio: math.sqrt(ratio) * (1.0 + 1e-12)
    )


def _spread(
    sizes: Sequence[int], wanted: Sequence[Attributes], weights: Sequence[float], residual: Attributes
) -> float:
    """Sum over the wanted A that contain a residual of weight times cells of A / product of n_i^2 over the others."""
    return sum(
        weight * math.prod(float(sizes[i]) if i in residual else 1.0 / sizes[i] for i in attributes)
        for weight, attributes in zip(weights, wanted, strict=True)
        if set(residual) <= set(attributes)
    )


def _program(
    sizes: Sequence[int], residuals: Sequence[Attributes], loads: Floats, contributions: Contributions
) -> Floats:
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
        precisions, other, opposite = _solve(
            own, others[chosen_others], opposites[chosen_opposites], loads, contributions
        )
        worst = others @ precisions, opposites @ precisions
        slack = _CLOSE * float(own @ precisions) / contributions.cells
        new_others = worst[0].size and worst[0].max() > other + slack
        new_opposites = contributions.replaced and worst[1].max() > opposite + slack
        if not (new_others or new_opposites):
            break
        chosen_others += [int(worst[0].argmax())] if new_others else []
        chosen_opposites += [int(worst[1].argmax())] if new_opposites else []
    return precisions


def _bounding_rows(
    sizes: Sequence[int], residuals: Sequence[Attributes], used: Sequence[int], loose: bool
) -> tuple[Floats, Floats, Floats]:
    """The linear functions that bound kappa where there are too many sets of attributes to enumerate."""
    own = np.array([math.prod(1.0 - 1.0 / sizes[i] for i in each) for each in residuals])
    rows = [
        [
            top if i not in each else -1.0 / sizes[i] if len(each) == 1 else top / (sizes[i] - 1)
            for each, top in zip(residuals, own.tolist(), strict=True)
        ]
        for i in used
    ]
    opposite = [
        top / min(sizes[i] - 1 for i in each) if each else -1.0
        for each, top in zip(residuals, own.tolist(), strict=True)
    ]
    return own, np.array([*rows, own.tolist()] if loose else rows), np.array([opposite])


def _solve(
    own: Floats, others: Floats, opposites: Floats, loads: Floats, contributions: Contributions
) -> tuple[Floats, float, float]:
    """Minimise sum of loads u with u precision >= 1 and cost 1; the unknowns are precisions, u, and the two maxima.

    u p >= 1 is the second-order cone |(2, u - p)| <= u + p.
    """
    need("clarabel")
    import clarabel
    from scipy import sparse

    count, g = len(loads), contributions.cells
    times = 2.0 if contributions.replaced else 1.0
    one = np.concatenate([g * own, np.zeros(count), [g * (g - 1.0), 0.0]])
    linear = np.zeros((4 + len(others) + len(opposites), 2 * count + 2))
    linear[0], linear[1, -2], linear[2, -1], linear[3] = times * one, -1.0, -1.0, one
    linear[0, -1] = 2.0 * g * g if contributions.replaced else 0.0
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
    precisions: Floats = solution[:count]
    return precisions, float(solution[-2]), float(solution[-1])
