"""Hockey-stick curves of finitely many pairs of laws with atoms alone: every pair is a row, and none lies between rows.

For one pair the best test at a level x = e^epsilon has the outputs whose ratio P(y)/Q(y) is above x. With the outputs
in the order of their ratios, P and Q of all these tests are running sums, and a level is looked up among the ratios.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from rangebound.accounting.adaptive.curve_rows import Curve, PairRows
from rangebound.laws.boundings import TRUNCATE
from rangebound.mechanisms.finite import TOTAL, Table
from rangebound.mechanisms.finite.pair_numbers import neighbours, worst_ratio
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.values.array_types import Floats, Indices
from rangebound.values.support import Grid

_RELATIVE = 1e-12
_MOST = 1 << 22  # probabilities of all pairs: more would take seconds
_LARGEST_EXPONENT = 600.0


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
