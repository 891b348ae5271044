"""How far numbers that are clamped, rounded or projected are moved on average: bounds over all true tables.

Of the projection on numbers that add up: let y be unbiased answers with errors e, x the truth, and z the nearest
numbers to y in C, by weights w; C are the numbers that are not negative and add up, a convex cone that holds x. A
workload is projected with all weights 1, for which the bounds are computed here; the proofs are for any. Three bounds
of |E z - x|:

Energy. Projections do not expand distances: sum of w (z - x)^2 <= sum of w e^2. So E |z_i - x_i| is at most the root of
(sum of w_j variance_j) / w_i, over the numbers that identities tie to i.

Leaves of a tree are never raised beyond zero. Let l be the leaves of z and m those of y, both adding up, and Q the sum
of w_v 1_v 1_v' over nodes v, 1_v saying which leaves are below v. Then l minimises (l - m)' Q (l - m) over l >= 0, so
there is g >= 0 with l = m + Q^-1 g and g_i = 0 where l_i > 0. By induction from the leaves, Q^-1 has no positive entry
off its diagonal, and positive row sums: for a node with weight w over the subtrees of its children, B with theirs as
blocks, Q^-1 = B - w B 1 1' B / (1 + w 1' B 1). So l_i <= max(m_i, 0), and for x_i = t

    E max(t + e_i, 0) - t = (E |t + e_i| - t) / 2 <= (sqrt(t^2 + variance) - t) / 2.

All nodes of a tree. g is the least of all g >= 0 with m + Q^-1 g >= 0 (the minimum of two of them is one of them), so
it falls where m rises: it is at most its value g0 for x = 0. E g0 at leaf j is the sum of w_v E z0_v over the nodes v
above j, z0 the projection of e. At node v, z - y = (Q^-1 1_v)' g, in which the entries for leaves below v are positive,
the others negative, and 1_v' Q^-1 1_v <= 1 / w_v. So the root is never moved down, and

    |E z_v - x_v| <= max over the leaves j below v of E g0_j / w_v.

For E z0_v: projections on a cone have sum of w z0^2 = sum of w z0 e <= S sum over levels L of max over L of (w e)+,
where S, the root of z0, is the sum of each level. With K^2 >= E of the square of that sum over levels, S <= K / w_root
and E z0_v <= K / sqrt(w_v w_root). A maximum is at most the p-th root of the sum of p-th powers.

Rounding to whole numbers moves each number by less than 1, and one that no identity ties by at most 1/2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rangebound.laws.boundings import Bounding
from rangebound.laws.family import Curve, Noise
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.release.noise.projection import Identities
from rangebound.values.array_types import Bools, Floats
from rangebound.values.support import Interval, Query, Union

Places = NDArray[np.intp]
_ORDERS = range(2, 26, 2)
_SLACK = 1.0 + 1e-9  # for what doubles and a solver round
_MOVED = 1.0 + 1e-3  # a whole number, where a solver is off by less than a thousandth


_HALF = Query(range=Interval(0.0, math.inf), sensitivity=1.0)  # where noise is clamped at one end

# How far noise exceeds a distance on average, E[max(noise - d, 0)], for distances d >= 0.
OVERSHOOTS: dict[Curve, Callable[[Noise, Floats], Floats]] = {
    Curve.LINEAR: lambda noise, far: 0.5 * noise.scale * np.exp(-far / noise.scale),
    Curve.QUADRATIC: lambda noise, far: gaussian_overshoot(noise.scale, far),
    Curve.OTHER: lambda noise, far: bias_at(Mechanism(noise=noise, query=_HALF, bounding=Bounding.RECTIFY), far),
}


def gaussian_overshoot(scale: float, far: Floats) -> Floats:
    from scipy import special  # an import of rangebound stays light

    z = far / scale
    return np.maximum(scale * np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) - far * special.ndtr(-z), 0.0)


def bias_at(mechanism: Mechanism, answers: Floats) -> Floats:
    """The size of the bias at some true answers, each of them asked once."""
    points, back = np.unique(answers, return_inverse=True)
    return np.abs(mechanism.error(points).bias)[back].reshape(answers.shape)


def clamping_bias(overshoot: Callable[[Floats], Floats], lower: Floats, upper: Floats, support: Interval) -> Floats:
    """A bound on the bias of added noise that is clamped to a support, at all true answers from `lower` to `upper`.

    `overshoot` is E[max(noise - d, 0)], for symmetric noise and distances d >= 0. At a true answer x the bias is
    E[clamp(x + noise)] - x = overshoot(x - L) - overshoot(U - x). Both terms are positive; the first falls in x, and
    the second rises. So the bias falls in x (its slope is P(L < x + noise < U) - 1), it is at most overshoot(lower - L)
    and at least -overshoot(U - upper) over the interval.

    Assumes: the interval lies in the support.

    >>> clamping_bias(lambda far: 5.0 * np.exp(-far / 10.0), np.array([0.0]), np.array([30.0]), Interval(0, math.inf))
    array([5.])
    """
    below = overshoot(np.maximum(lower - support.lower, 0.0)) if math.isfinite(support.lower) else np.zeros_like(lower)
    above = overshoot(np.maximum(support.upper - upper, 0.0)) if math.isfinite(support.upper) else np.zeros_like(upper)
    return np.maximum(below, above)


def rounding_bias(step: float | None, drawn: float | None, exact: float | None = None) -> float:
    """How far rounding to a step moves a number, unless it was drawn on that step or the mean does not move."""
    return 0.0 if step in (None, drawn) or (drawn in (None, exact) and step == exact) else (step or 0.0) / 2.0


def half_gap(support: Interval | Union) -> float:
    """Half the widest gap of a support: no number in its hull is farther from it."""
    spans = support.spans
    return max((after[0] - before[1] for before, after in pairwise(spans)), default=0.0) / 2.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Drift:
    """How far the mean of each number may be moved, up or down, by the projection and by rounding.

    Numbers that are `clamped` are raised up to zero at most; `variances` are those of the answers.
    """

    variances: Floats
    up: Floats
    down: Floats
    clamped: Bools
    rounding: Floats

    def bound(self, lower: Floats, upper: Floats) -> Floats:
        """A bound on the bias of each number, for every true one from `lower` to `upper`; numbers are not negative.

        >>> free_drift(np.array([9.0, 9.0])).bound(np.array([0.0, 4.0]), np.array([6.0, 20.0])).round(3).tolist()
        [2.0, 1.0]
        """
        raised = (np.sqrt(lower**2 + self.variances) - lower) / 2.0 * _SLACK
        up = np.where(self.clamped, np.minimum(self.up, raised), self.up)
        return np.maximum(up + self.rounding, np.minimum(self.down + self.rounding, upper))


def free_drift(variances: Floats) -> Drift:
    """That of numbers without identities: each is clamped, which moves its mean up alone, and rounded."""
    return Drift(
        variances=variances,
        up=np.sqrt(variances) / 2.0 * _SLACK,
        down=np.zeros(len(variances)),
        clamped=np.ones(len(variances), dtype=np.bool_),
        rounding=np.full(len(variances), 0.5),
    )


def energy_drift(variances: Floats, sums: Identities) -> Drift:
    """The first bound: all that is needed of the answers is their variances.

    >>> energy_drift(np.array([1.0, 1.0, 4.0, 9.0]), Identities.of([(2, [0, 1])])).up.round(3).tolist()
    [2.449, 2.449, 2.449, 3.0]
    """
    from scipy import sparse
    from scipy.sparse import csgraph

    size = len(variances)
    ties = sums.parts, np.repeat(sums.totals, np.diff(sums.starts))
    _, tied = csgraph.connected_components(
        sparse.coo_array((np.ones(len(sums.parts)), ties), shape=(size, size)), directed=False
    )
    most = np.sqrt(np.bincount(tied, weights=variances)[tied]) * _SLACK
    return Drift(
        variances=variances,
        up=most,
        down=most,
        clamped=np.zeros(len(variances), dtype=np.bool_),
        rounding=np.full(len(variances), _MOVED),
    )


def tree_drift(
    levels: Sequence[Places], places: Places, variances: Floats, moments: Sequence[float], order: Places
) -> Drift:
    """All three bounds for the nodes of a tree whose leaves have one depth, given level by level with their parents.

    They stand in the given `order`. `moments` bound E e^p / variance^(p / 2) of every answer, for p = 2, 4, ..., 24.
    """
    heights = np.log(variances) / 2.0
    reach = math.fsum(
        min(
            math.exp((float(np.logaddexp.reduce(order * heights[level])) + math.log(moment)) / order)
            for order, moment in zip(_ORDERS, moments, strict=True)
        )
        for level in levels
    )
    energy = math.sqrt(math.fsum(variances.tolist()))
    raised = np.full(len(places), min(reach, energy))  # E z0 of each node
    leaves = np.bincount(places[1:], minlength=len(places)) == 0
    raised = np.where(leaves, np.minimum(raised, np.sqrt(variances) / 2.0), raised)
    loads = raised.copy()
    for level in levels[1:]:
        loads[level] += loads[places[level]]
    highest = np.where(leaves, loads, 0.0)
    for level in levels[:0:-1]:
        np.maximum.at(highest, places[level], highest[level])
    most = np.minimum(highest, energy) * _SLACK
    return Drift(
        variances=variances[order],
        up=most[order],
        down=np.where(order == 0, 0.0, most[order]),
        clamped=leaves[order],
        rounding=np.full(len(places), _MOVED),
    )


def gaussian_moments() -> list[float]:
    """E e^p / variance^(p / 2) of a normal e: 1, 3, 15, ..."""
    return [float(math.prod(range(order - 1, 0, -2))) for order in _ORDERS]


def laplace_moments(excess: float) -> list[float]:
    """A bound of the same for sums of discrete Laplace noise: p! (variance / 2)^(p / 2) is one for a single draw.

    Of all sums with one variance, a single draw has the largest moments; `excess` is by how much the variance of
    continuous Laplace noise is above that of discrete noise.
    Edge cases: infinite, and so no bound, where it is beyond the doubles, as with noise that is nearly always 0.
    """
    return [math.factorial(order) * _power(excess / 2.0, order / 2) for order in _ORDERS]


def _power(base: float, exponent: float) -> float:
    try:
        return float(base**exponent)
    except OverflowError:
        return math.inf
