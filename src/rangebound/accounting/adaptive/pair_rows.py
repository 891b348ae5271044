"""Hockey-stick curves of all pairs that matter, as rows along a line of positions, valid for every pair between rows.

By the monotonicity theorem a pair of answers inside another pair is dominated at every epsilon, so the pairs at a
distance of the sensitivity suffice: one line of positions. A row is an upper bound on the curve of one of them. A
pair between two rows has at most the mixture of the two curves that belongs to its position, plus `slack`, at every
epsilon at once: the curve is a supremum over thresholds, and along the line each threshold's value bends downward by
at most a number M, so it is at most M w^2/8 above its chord over a distance w.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import singledispatch

import numpy as np

from rangebound.accounting.adaptive.curve_rows import Curve, PairRows
from rangebound.accounting.adaptive.table_rows import rows_of_grid, rows_of_table
from rangebound.accounting.event import Private
from rangebound.mechanisms.finite import Table
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.privacy.setting import SearchLine, Setting
from rangebound.values.array_types import Floats
from rangebound.values.support import Grid

_RELATIVE, _ABSOLUTE = 1e-12, 1e-14  # of the arrays: far above the round-off of a few dozen operations
_AIM = 1e-7  # of the slack, relative to the distance in scales
_MOST_ROWS = 60_000
_WIDEST = 7.0  # scales; wider, truncated Gaussian noise is unbounded noise in the middle, and one pair is the worst
_FACTOR = 1.05  # covers what a bound at one position may grow by on the way to the next row


@singledispatch
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
    return None


@pair_rows.register
def _(mechanism: Mechanism) -> tuple[PairRows, ...] | None:
    if isinstance(mechanism.query.range, Grid) and mechanism.support == mechanism.query.range:
        return rows_of_grid(mechanism)
    setting = mechanism.setting.simplified()
    rule = _rule(setting)
    if rule is None:
        return None
    found = [rule(side, line) for side in setting.sides() for line in side.lines()]
    return None if any(each is None for each in found) else tuple(each for each in found if each is not None)


@pair_rows.register
def _(mechanism: Table) -> tuple[PairRows, ...] | None:
    return rows_of_table(mechanism)


Rule = Callable[[Setting, SearchLine], PairRows | None]


def _rule(setting: Setting) -> Rule | None:
    shape = setting.shape
    if not shape.normalised or len(shape.spans) != 1 or shape.points:
        return None
    if setting.noise.laplace:
        return _laplace
    return _gaussian if setting.noise.gaussian else None


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
