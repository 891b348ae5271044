"""Hockey-stick curves of all pairs that matter, as rows along a line of positions, valid for every pair between rows.

By the monotonicity theorem a pair of answers inside another pair is dominated at every epsilon, so the pairs at a
distance of the sensitivity suffice: one line of positions. A row is an upper bound on the curve of one of them. A
pair between two rows has at most the mixture of the two curves that belongs to its position, plus `slack`, at every
epsilon at once: the curve is a supremum over thresholds, and along the line each threshold's value bends downward by
at most a number M, so it is at most M w^2/8 above its chord over a distance w.

Of finitely many pairs of laws with atoms alone, every pair is a row, and none lies between rows. For one pair the best
test at a level x = e^epsilon has the outputs whose ratio P(y)/Q(y) is above x. With the outputs in the order of their
ratios, P and Q of all these tests are running sums, and a level is looked up among the ratios.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from rangebound.accounting.event import Private
from rangebound.laws.boundings import TRUNCATE
from rangebound.mechanisms.finite import TOTAL, Table
from rangebound.mechanisms.finite.pair_numbers import neighbours, worst_ratio
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.privacy.setting import SearchLine, Setting
from rangebound.values.array_types import Floats, Indices
from rangebound.values.support import Grid

_RELATIVE, _ABSOLUTE = 1e-12, 1e-14  # of the arrays: far above the round-off of a few dozen operations
_AIM = 1e-7  # of the slack, relative to the distance in scales
_MOST_ROWS = 60_000
_WIDEST = 7.0  # scales; wider, truncated Gaussian noise is unbounded noise in the middle, and one pair is the worst
_MOST = 1 << 22  # probabilities of all pairs with atoms: more would take seconds
_LARGEST_EXPONENT = 600.0
_FACTOR = 1.05  # covers what a bound at one position may grow by on the way to the next row


Curve = Callable[[Floats], Floats]  # of levels (epsilons) that are zero or more, a row for each pair


@dataclass(frozen=True, eq=False)
class PairRows:
    """Curves of the pairs (P, Q) along a line: `forth` is an upper bound of H(P || Q), `back` of H(Q || P).

    `places` are the distances of the first answer from the left end of the line (from its right end where the left one
    is infinite), in scales.
    """

    places: Floats
    forth: Curve
    back: Curve
    most: float

    def slack(self, levels: Floats) -> Floats:
        """What a pair between two rows may have more than their mixture."""
        return np.full(len(levels), self.most)

    def at(self, levels: Floats) -> Floats:
        """The curves of (P, Q) at epsilons of any sign: H_x(P || Q) = 1 - x + x H_(1/x)(Q || P) for x = e^epsilon."""
        falling = levels < 0.0
        found = self.forth(np.where(falling, 0.0, levels))
        if falling.any():
            below = levels[falling]
            found[:, falling] = -np.expm1(below) + np.exp(below) * self.back(-below)
        return found


@dataclass(frozen=True, eq=False)
class SampledRows:
    """The same for a step on a Poisson sample: with the person against without, or the other way round (`removed`).

    H_x((1-p) Q + p P || Q) = p H_y(P || Q) with y = (x - 1 + p)/p, and 1 - x where y <= 0 [zhu2022, Thm 11].
    """

    rows: PairRows
    rate: float
    removed: bool

    def slack(self, levels: Floats) -> Floats:
        """What a pair between two rows may have more than their mixture."""
        most = self.rate * self.rows.slack(levels)
        return most * np.exp(levels) if self.removed else most

    def at(self, levels: Floats) -> Floats:
        """The curves at epsilons of any sign."""
        if not self.removed:
            return self._added(levels)
        return -np.expm1(levels) + np.exp(levels) * self._added(-levels)

    def _added(self, levels: Floats) -> Floats:
        shift = np.expm1(levels) / self.rate
        inside = shift > -1.0
        found = self.rate * self.rows.at(np.log1p(np.where(inside, shift, 0.0)))
        found[:, ~inside] = -np.expm1(levels[~inside])
        return found


def pair_rows(mechanism: Private) -> tuple[PairRows, ...] | None:
    """All pairs of a mechanism in both orders, or None where there is no rule for its law.

    There are rules for Laplace and Gaussian noise truncated to one interval, for both on a grid of true answers, and
    for tables. Rectified and unbounded noise and noise on a lattice need none: one pair is the worst at every epsilon.
    Without a rule are noise rounded to a grid or truncated to a union, wide truncated Gaussian noise, and tables in
    which a neighbour can publish what an input cannot.

    >>> import rangebound as rb
    >>> count = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    >>> (rows,) = pair_rows(rb.Mechanism(noise=rb.Laplace(scale=1.0), query=count))
    >>> rows.most < 1e-6
    True
    >>> float(rows.at(np.zeros(1)).max()) > 0.39  # the total variation distance of the worst pair
    True
    """
    if isinstance(mechanism, Table):
        return rows_of_table(mechanism)
    if not isinstance(mechanism, Mechanism):
        return None
    if isinstance(mechanism.query.range, Grid) and mechanism.support == mechanism.query.range:
        return rows_of_grid(mechanism)
    setting = mechanism.setting.simplified()
    shape, noise = setting.shape, setting.noise
    if not shape.normalised or len(shape.spans) != 1 or shape.points or not (noise.laplace or noise.gaussian):
        return None
    rule = _laplace if noise.laplace else _gaussian
    found = [rule(side, line) for side in setting.sides() for line in side.lines()]
    return None if any(each is None for each in found) else tuple(each for each in found if each is not None)


def _laplace(side: Setting, line: SearchLine) -> PairRows | None:
    """Laplace noise truncated to an interval, in units of the scale, the pair at a and a + d from the left end.

    With A = e^-a and B = e^-b, b the distance of the pair from the right end, the test x <= p + y has

        F_p = (2 - A - e^-y)/Z_p,                 Z_p = 2 - A - B e^-d,
        F_q = e^-d (e^y - A)/Z_q,                 Z_q = 2 - A e^-d - B,        0 <= y <= d.

    As the pair moves, A' = -A and B' = B. With z = 1 - e^-W <= Z this gives

        F_p'' >= -A (1/z + 2/z^2),
        s F_q'' <= s 2 A B e^-d/z^2 + s F_q [(A + B)/z + 2 max(A, B)^2/z^2],

    and where the test is worth anything s F_q <= F_p <= 1 and s <= e^d Z_q/Z_p <= 2 e^d/z. So the second derivative
    of F_p - s F_q is at least -M, M the sum of the two. Over a distance w to the next row s F_q grows to at most
    1 + 3.3 w (A + B)/z^2, for which 1.05 is allowed. Beyond 40 scales from the only end nothing changes but by e^-40.
    """
    low, high = side.shape.ends
    scale, width = side.noise.scale, (high - low) / side.noise.scale
    d, z = (line.far - line.near) / scale, -math.expm1(-width)
    if not (z > 0.02 and 1e-6 < d < 200.0):
        return None
    if math.isfinite(low):
        a = _graded((line.start - low) / scale, (line.end - low) / scale, width - d, _AIM * min(d, 1.0), z)
        b = np.maximum(width - d - a, 0.0)
    else:
        b = _graded((high - line.end) / scale - d, (high - line.start) / scale - d, math.inf, _AIM * min(d, 1.0), z)
        a = np.full(len(b), math.inf)
    slack = _laplace_slack(np.exp(-a), np.exp(-b), np.abs(np.diff(a if math.isfinite(low) else b)), z)
    if slack is None:
        return None
    norm_p, norm_q = -np.expm1(-a) - np.expm1(-(d + b)), -np.expm1(-(a + d)) - np.expm1(-b)
    tilt = np.log(norm_q / norm_p)
    room = _ABSOLUTE * (1.0 + d) / z

    def curve(left: Floats, norm: Floats, reach: Floats) -> Curve:
        column, weight = np.exp(-left)[:, None], (1.0 / norm)[:, None]

        def at(levels: Floats) -> Floats:
            drop = np.expm1(-np.clip(0.5 * (reach[:, None] - levels), 0.0, d))
            value = weight * drop * (column * (2.0 + drop) - 2.0)
            return np.minimum(value * (1.0 + _RELATIVE) + room * (1.0 + levels), 1.0)

        return at

    places = a - a[0] if math.isfinite(low) else b - b[0]
    return PairRows(places, curve(a, norm_p, d + tilt), curve(b, norm_q, d - tilt), slack)


def _graded(start: float, end: float, most: float, aim: float, z: float) -> Floats:
    """Positions from start to end, closer together where e^-a + e^-(most - a) is large, so that the slack is `aim`."""
    end = min(end, start + 40.0) if math.isinf(most) else end
    if not end > start:
        return np.asarray([start])
    places = np.linspace(start, end, 4001)
    with np.errstate(under="ignore"):
        change = np.exp(-places) + np.exp(places - most)
    density = np.sqrt((3.5 / z**2 + 4.0 / z**3 * np.minimum(change, 0.1)) * change / (8.0 * aim))
    density = np.maximum(np.maximum(density, change / (0.01 * z * z)), 20.0 / (end - start))
    total = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(places))])
    count = min(math.ceil(total[-1]) + 1, _MOST_ROWS)
    return np.interp(np.linspace(0.0, total[-1], count), total, places)


def _laplace_slack(a: Floats, b: Floats, gaps: Floats, z: float) -> float | None:
    """M w^2/8 over the widest cell, or None where the rows are too far apart; a = e^-a, b = e^-b at the rows."""
    if not len(gaps):
        return 0.0
    near, far = np.maximum(a[1:], a[:-1]), np.maximum(b[1:], b[:-1])
    if float((gaps * (near + far)).max()) > 0.015 * z * z:
        return None
    bend = near * (1.0 / z + 2.0 / z**2) + 4.0 * near * far / z**3
    bend += _FACTOR * ((near + far) / z + 2.0 * np.maximum(near, far) ** 2 / z**2)
    return float((bend * gaps**2).max()) / 8.0 * (1.0 + 1e-9)


def _gaussian(side: Setting, line: SearchLine) -> PairRows | None:
    """Gaussian noise truncated to an interval, in units of the scale.

    The laws are an exponential family: F'' = E[1_A ((X - m)^2 - V)] for the event A = {X <= t}, m the mean and V <= 1
    the variance. So F_p'' >= -V, and s F_q'' <= s E_q[1_A (X - m_q)^2]. On A the density of P is at least s times that
    of Q where the test is the best one, hence the last is at most E_p[(X - m_q)^2] <= V + (m_p - m_q)^2 <= 1 + d^2.
    At a distance w the densities differ by a factor of at most e^(w W), for which 1.05 is allowed, so that M is
    1 + 1.05 (1 + d^2). Below the cut s Q has no more mass than P, also outside the support, so round-off in the
    difference is that of masses of at most 1 over the normaliser.
    """
    (low, high), scale = side.shape.ends, side.noise.scale
    width, d = (high - low) / scale, (line.far - line.near) / scale
    if not (0.05 < width < _WIDEST and 1e-3 < d < 20.0 and math.isfinite(line.start) and math.isfinite(line.end)):
        return None
    start, end = (line.start - low) / scale, (line.end - low) / scale
    if start < -6.0 or end + d > width + 6.0:
        return None
    bend = 1.0 + _FACTOR * (1.0 + d * d)
    gap = min(math.sqrt(8.0 * _AIM * min(d, 1.0) / bend), 0.04 / width)
    count = math.ceil((end - start) / gap) + 1 if end > start else 1
    if count > _MOST_ROWS:
        return None
    p = np.linspace(start, end, count)
    q = p + d
    norm_p, norm_q = _between(-p, width - p), _between(-q, width - q)
    tilt = np.log(norm_q / norm_p) + 0.5 * (q - p) * (q + p)
    room = 10.0 * _ABSOLUTE * (1.0 + d * width) / float(min(norm_p.min(), norm_q.min()))

    def curve(p: Floats, q: Floats, norm_p: Floats, norm_q: Floats, tilt: Floats) -> Curve:
        p, q, norm_p, norm_q = p[:, None], q[:, None], norm_p[:, None], norm_q[:, None]

        def at(levels: Floats) -> Floats:
            cut = np.clip((tilt[:, None] - levels) / d, 0.0, width)
            value = _between(-p, cut - p) / norm_p - np.exp(levels) * _between(-q, cut - q) / norm_q
            return np.minimum(np.maximum(value, 0.0) * (1.0 + _RELATIVE) + room, 1.0)

        return at

    # The other order is the mirror image, seen from the right end.
    return PairRows(
        p - start,
        curve(p, q, norm_p, norm_q, tilt),
        curve(width - q, width - p, norm_q, norm_p, np.log(norm_p / norm_q) + 0.5 * d * (2.0 * width - q - p)),
        bend * float(gap) ** 2 / 8.0 * (1.0 + 1e-9),
    )


def _between(low: Floats, high: Floats) -> Floats:
    """The normal mass of [low, high], from the tail in which both lie."""
    from scipy import special

    flip = low > 0.0
    return np.where(flip, special.ndtr(-low) - special.ndtr(-high), special.ndtr(high) - special.ndtr(low))


def rows_of_table(table: Table) -> tuple[PairRows, ...] | None:
    """All pairs of neighbouring inputs; None where a loss is infinite, or where there are too many pairs.

    >>> import rangebound as rb
    >>> bit = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
    >>> flip = rb.Table(query=bit, inputs=(0, 1), outputs=(0, 1), weights=[[3 * 2**60, 2**60], [2**60, 3 * 2**60]])
    >>> forth, back = rows_of_table(flip)
    >>> forth.at(np.array([0.0, 2.0])).round(9).tolist()
    [[0.5, 0.0]]
    """
    pairs = neighbours(table.reach)
    if worst_ratio(table.weights, table.reach) is None or len(pairs.first) * len(table.outputs) > _MOST:
        return None
    up = pairs.first < pairs.second
    return _rows_of_pairs(table.weights / float(TOTAL), pairs.first[up], pairs.second[up], 2.0**-52)


def rows_of_grid(mechanism: Mechanism) -> tuple[PairRows, ...] | None:
    """The pairs of true answers on a grid, for noise truncated to that grid; None for any other noise.

    Two answers inside a pair are dominated by it at every epsilon, since the laws have a monotone likelihood ratio: the
    pairs that are as far apart as neighbours are suffice.

    >>> import rangebound as rb
    >>> count = rb.Query(range=rb.Grid(step=1, within=rb.Interval(0, 4)), sensitivity=1.0)
    >>> [len(each.places) for each in rows_of_grid(rb.Mechanism(noise=rb.Laplace(scale=1.0), query=count))]
    [4, 4]
    """
    answers, noise = mechanism.query.range, mechanism.noise
    assert isinstance(answers, Grid)
    exact = noise.laplace or noise.gaussian
    if mechanism.bounding is not TRUNCATE or noise.limited or not exact or len(answers.points) ** 2 > _MOST:
        return None
    away = np.abs(answers.points - answers.points[:, None]) / noise.scale
    exponents = away if noise.laplace else 0.5 * away**2
    if not 0.0 < float(exponents.max()) < _LARGEST_EXPONENT:
        return None
    weights = np.exp(-exponents)
    steps = math.floor(Fraction(mechanism.query.sensitivity) / Fraction(answers.step) * (1 + Fraction(1, 10**9)))
    steps = min(steps, len(answers.points) - 1)
    first = np.arange(len(answers.points) - steps)
    # Points, distances and exponents are off by some units in the last place, and so is the sum of the weights.
    off = (8.0 * float(exponents.max()) + len(answers.points) + 16.0) * 2.0**-52
    off += 8.0 * float(np.abs(answers.points).max()) / noise.scale * (1.0 + float(away.max())) * 2.0**-52
    return _rows_of_pairs(weights / weights.sum(axis=1, keepdims=True), first, first + steps, off)


def _rows_of_pairs(chances: Floats, first: Indices, second: Indices, off: float) -> tuple[PairRows, ...]:
    """The curves of pairs of rows of probabilities, in both orders; those of one distance are a line of rows.

    Guarantee: upper bounds, if each probability is off by at most `off` of itself: a test that is worth anything has
    x Q(A) <= P(A) <= 1, so relative errors of both are absolute errors of the value. An output that doubles put on the
    wrong side of the level has P and x Q nearly the same, and changes the value by less than that again.
    Edge cases: neighbours have their zeros in common.
    """
    found = []
    for distance in np.unique(second - first).tolist():
        here = second - first == distance
        p, q = chances[first[here]], chances[second[here]]
        forth, back = _curve(p, q, off), _curve(q, p, off)
        places = np.arange(float(len(p)))
        found += [PairRows(places, forth, back, 0.0), PairRows(places, back, forth, 0.0)]
    return tuple(found)


def _curve(p: Floats, q: Floats, off: float) -> Curve:
    """The curves of rows of pairs at levels of zero or more."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(p > 0.0, p / q, 0.0)
    order = np.argsort(-ratios, axis=1, kind="stable")
    falling = -np.take_along_axis(ratios, order, axis=1)
    none = np.zeros((len(p), 1))
    masses, others = (
        np.concatenate([none, np.cumsum(np.take_along_axis(each, order, axis=1), axis=1)], axis=1) for each in (p, q)
    )
    room = 4.0 * off + (p.shape[1] + 8.0) * 2.0**-51

    def at(levels: Floats) -> Floats:
        x = np.exp(levels)
        found = np.empty((len(falling), len(levels)))
        for i, row in enumerate(falling):
            above = np.searchsorted(row, -x)
            found[i] = masses[i, above] - x * others[i, above]
        bounds: Floats = np.minimum(np.maximum(found, 0.0) * (1.0 + _RELATIVE) + room, 1.0)
        return bounds

    return at
