"""What dominates every pair of a step: a few kernels, for the recursion; for Gaussian noise, a smaller shift.

A kernel is an upper privacy-loss distribution on a grid.

A kernel has masses m_i >= 0 at the losses i h. Its curve g(x) = sum of m_i (1 - x e^(-i h))+ is compared with the rows
of `pair_rows` at the points of the grid. Every row, with the slack for the pairs between rows, lies below a mixture
of two kernels, everywhere: then no pair can have more in the recursion than the better one of the two.

Truncated Gaussian noise is dominated by Gaussian noise with a smaller shift: by how much, over all locations, is its
`contraction`. In units of the scale, let X be normal about the location p, truncated to an interval. X = f(N) for a
standard normal N and a rising f. The ratio of the laws at p + c and p is e^(c X) up to a factor, so its logarithm rises
with N by at most c sup f'. The ratio of two normal laws at a distance of c sup f' rises by exactly that, and both have
mean 1: the first is smaller in convex order, hence dominated in every hockey-stick divergence, in both orders.

With [A, B] the normal probabilities of the two ends seen from p, Z = B - A and Phi(z) = A + Z Phi(y),

    f'(y) = g(y) = Z phi(y)/phi(z),        (ln g)' = -y + z g,

and where that is zero (ln g)'' = g^2 - 1 < 0, because g < 1: so g has one peak, which a bisection finds. Between two
locations z lies between its values there, so for all locations of a cell g(y) is at most the larger one of
g(y) Z_max/Z at its two ends: a row of locations bounds all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rangebound.accounting.pair_rows import PairRows, SampledRows
from rangebound.laws.boundings import TRUNCATE
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.values.array_types import Floats
from rangebound.values.support import Interval

_ROUND_OFF = 1e-12  # of a curve from its masses, and of a mixture of two: sums of some hundred terms in [0, 1]
_DOMINATED = 1e-13  # of the comparison of two curves
_SAMPLE = 24
_HALVINGS = 20


CurveRows: TypeAlias = PairRows | SampledRows
"""Upper bounds on the curves of the pairs along a line."""


@dataclass(frozen=True, eq=False)
class Kernels:
    """Masses of P, a row for each kernel, at the losses (first + i) * step, and at an infinite loss."""

    step: float
    first: int
    mass: Floats
    infinite: Floats

    @property
    def last(self) -> int:
        """The index of the largest finite loss."""
        return self.first + int(self.mass.shape[1]) - 1

    def log_moment(self, tilt: float) -> float:
        """The largest ln E e^(tilt L) of a kernel, without what has an infinite loss; an estimate."""
        losses = np.arange(self.first, self.last + 1) * self.step
        return float(np.log(self.mass @ np.exp(tilt * losses)).max())


def cover(lines: Sequence[CurveRows], step: float, largest: float, tilts: Floats, tolerance: float) -> Kernels | None:
    """Kernels on multiples of `step` that dominate all pairs of all lines, whose losses are at most `largest` in size.

    Guarantee: at every point of the grid each pair of the lines is below a mixture of two kernels. `tilts` and
    `tolerance` only decide how many kernels there are: a kernel is up to `tolerance` too large, relative to the loss of
    a step, and more where at none of these tilts its pairs matter.
    Edge cases: None where the grid is too coarse for the rows, or the losses too large for floats.
    """
    reach = max(math.ceil(largest / step), 1)
    while reach * step < largest:
        reach += 1
    grid = _LossGrid(step, reach, tilts)
    rows = [line.at(grid.levels) for line in lines]
    for each in rows:
        each[:, -1] = 0.0  # no loss is larger
    scores = [grid.scores(each) for each in rows]
    best = np.max([each.max(axis=0) for each in scores], axis=0)
    found = []
    for line, row, score in zip(lines, rows, scores, strict=True):
        allowed = tolerance * best + 0.5 * (best - score)
        masses = _cover_line(grid, row, line.slack(grid.levels), allowed)
        if masses is None:
            return None
        found.append(masses)
    mass = _undominated(grid, np.concatenate(found))
    used = np.flatnonzero(mass.any(axis=0))
    mass = mass[:, used[0] : used[-1] + 1]
    return Kernels(step, int(used[0]) - reach - 1, mass, np.zeros(len(mass)))


def _undominated(grid: _LossGrid, masses: Floats) -> Floats:
    """The kernels but for those whose curve lies below that of a single other one: it is as good for an adversary.

    A mixture of two kernels does not fall if one of them is replaced by a kernel above it. Curves are compared up to a
    part of the round-off that every kernel has been raised by.
    """
    curves = masses @ grid.hinges
    kept: list[int] = []
    for i in np.argsort(-curves.sum(axis=1), kind="stable").tolist():
        if not any((curves[i] <= curves[j] + _DOMINATED).all() for j in kept):
            kept.append(i)
    return masses[sorted(kept)]


class _LossGrid:
    """The points x = e^(i step) for |i| <= reach, and what is computed on them."""

    def __init__(self, step: float, reach: int, tilts: Floats) -> None:
        index = np.arange(-reach, reach + 1)
        self.levels: Floats = index.astype(np.float64) * step
        self.x: Floats = np.exp(self.levels)
        self.floor: Floats = np.maximum(-np.expm1(self.levels), 0.0)
        with np.errstate(under="ignore"):
            self.weights: Floats = np.exp((self.levels - self.levels[-1])[:, None] * tilts)
        wide = np.arange(-reach - 1, reach + 2)
        self.hinges: Floats = np.maximum(-np.expm1((index[None, :] - wide[:, None]) * step), 0.0)
        # The pair of two outcomes whose loss is plus or minus (reach + 1) step dominates all others.
        edge = 1.0 / (1.0 + math.exp(-(reach + 1) * step))
        self.edges: Floats = np.zeros(len(wide))
        self.edges[-1], self.edges[0] = edge, 1.0 - edge
        self.edge_curve: Floats = self.edges @ self.hinges
        self.edge_score: Floats = self.scores(self.edge_curve)
        self.middle = reach + 1  # the loss of zero among the masses

    def scores(self, rows: Floats) -> Floats:
        """For each tilt t a multiple of E e^(t L) - 1, the integral of (the curve minus (1-x)+) x^t over ln x."""
        return np.maximum(rows - self.floor, 0.0) @ self.weights

    def masses(self, curve: Floats) -> Floats:
        """Changes of slope times x. A negative one is left out, which only raises the curve."""
        slopes = np.diff(np.concatenate([[1.0], curve])) / np.diff(np.concatenate([[0.0], self.x]))
        inner = np.maximum(np.diff(np.concatenate([slopes, [0.0]])) * self.x, 0.0)
        return np.concatenate([[0.0], inner, [0.0]])


@dataclass(frozen=True)
class _Inflation:
    """How two kernels are made to exceed their rows: the curve minus (1-x)+ times 1 + `growth`, and a mixture with
    the dominating pair of two outcomes that has a share of `edges`.
    """

    growth: float = 0.0
    edges: float = 0.0

    def joined(self, other: _Inflation) -> _Inflation:
        return _Inflation(max(self.growth, other.growth), max(self.edges, other.edges))

    def mass(self, grid: _LossGrid, row: Floats) -> Floats:
        """The masses of the inflated row."""
        found = (1.0 + self.growth) * grid.masses(row)
        found[grid.middle] = max(found[grid.middle] - self.growth, 0.0)
        return (1.0 - self.edges) * found + self.edges * grid.edges


def _inflation(grid: _LossGrid, first: Floats, second: Floats, over: Floats) -> tuple[_Inflation, Floats]:
    """The cheapest inflation of two rows that adds `over` to both, and what it costs at each tilt."""
    excess = np.minimum(first, second) - grid.floor
    room = np.maximum(grid.edge_curve - np.maximum(first, second), 1e-300)
    most = 0.5 * float(min(grid.masses(first)[grid.middle], grid.masses(second)[grid.middle]))
    found = []
    for growth in most * np.asarray([0.0, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0]):
        edges = max(float(((over - growth * excess) / room).max()), 0.0)
        found.append((growth * grid.scores(excess + grid.floor) + edges * grid.edge_score, _Inflation(growth, edges)))
    cost, best = min(found, key=lambda each: float((each[0] / grid.edge_score).sum()))
    return best, cost


def _cover_line(grid: _LossGrid, rows: Floats, slack: Floats, allowed: Floats) -> Floats | None:
    nodes = list(_nodes(grid, rows, allowed))
    parts = [_Part(rows, first, second) for first, second in pairwise(nodes)]
    found = [
        _inflation(grid, rows[a], rows[b], part.over + slack)[0]
        for part, (a, b) in zip(parts, pairwise(nodes), strict=True)
    ]
    alone = _Inflation()
    if not parts:
        alone = _inflation(grid, rows[0], rows[0], slack)[0]
    chosen = [before.joined(after) for before, after in zip([alone, *found], [*found, alone], strict=True)]
    masses = np.asarray([each.mass(grid, rows[node]) for each, node in zip(chosen, nodes, strict=True)])
    curves = masses @ grid.hinges
    # The proof is here: what the rows still have more than the mixtures of kernels is added, and so is the round-off.
    missing = [part.missing(curves[i], curves[i + 1], slack) for i, part in enumerate(parts)]
    if not parts:
        missing = [float((rows[0] + slack - curves[0]).max())]
    for i in range(len(nodes)):
        lacks = max([0.0, *missing[max(i - 1, 0) : i + 1]]) + _ROUND_OFF
        room = float((grid.edge_curve - curves[i]).min())
        if not room > 2.0 * lacks:
            return None
        share = lacks / room * (1.0 + 1e-9)
        masses[i] = (1.0 - share) * masses[i] + share * grid.edges
        masses[i, 0] += _ROUND_OFF  # so that the sum is at least one whatever the round-off
    return masses


def _nodes(grid: _LossGrid, rows: Floats, allowed: Floats) -> Iterator[int]:
    """Rows to be kernels: each as far from the last as the rows between allow."""
    place, last, pace = 0, len(rows) - 1, 16
    yield place
    while place < last:
        good, bad = place + 1, last + 1
        reach = min(place + pace, last)
        while good < last and bad - good > max((good - place) // 6, 1):
            if _fits(grid, rows, allowed, place, reach):
                good = reach
                reach = min(place + 2 * (good - place), last) if bad > last else (good + bad) // 2
            else:
                bad = reach
                reach = (good + bad) // 2
        pace = max(good - place, 2)
        place = good
        yield place


def _fits(grid: _LossGrid, rows: Floats, allowed: Floats, first: int, second: int) -> bool:
    """Whether what the rows between two nodes have more than mixtures of the two is small enough, by a sample."""
    between = np.unique(np.linspace(first, second, _SAMPLE).astype(np.int64))[1:-1]
    if not len(between):
        return True
    shares = _shares(rows, first, second, between)[:, None]
    over = (rows[between] - (1.0 - shares) * rows[first] - shares * rows[second]).max(axis=0)
    cost = _inflation(grid, rows[first], rows[second], np.maximum(over, 0.0))[1]
    return bool((cost <= allowed[first : second + 1].min(axis=0)).all())


def _shares(rows: Floats, first: int, second: int, between: npt.NDArray[np.int64]) -> Floats:
    """For rows between two nodes, the share of the second one in the mixture of the two that is least exceeded."""
    offset, slope = rows[between] - rows[first], rows[second] - rows[first]
    low, high = np.zeros(len(between)), np.ones(len(between))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        # The excess is the largest of some straight lines in the share: follow the one on top downwards.
        falls = slope[(offset - middle[:, None] * slope).argmax(axis=1)] > 0.0
        low, high = np.where(falls, middle, low), np.where(falls, high, middle)
    return 0.5 * (low + high)


class _Part:
    """The rows between two nodes, each with its share of the second, and what they have more than the mixtures."""

    def __init__(self, rows: Floats, first: int, second: int) -> None:
        self.rows = rows[first : second + 1]
        sample = np.unique(np.linspace(first, second, _SAMPLE).astype(np.int64))
        shares = np.concatenate([[0.0], _shares(rows, first, second, sample[1:-1]), [1.0]])
        self.shares = np.interp(np.arange(first, second + 1), sample, shares)[:, None]
        self.over: Floats = np.maximum(self._over(rows[first], rows[second]).max(axis=0), 0.0)

    def _over(self, first: Floats, second: Floats) -> Floats:
        found: Floats = self.rows - ((1.0 - self.shares) * first + self.shares * second)
        return found

    def missing(self, first: Floats, second: Floats, slack: Floats) -> float:
        """What the rows, with their slack, have more than the mixtures of the curves of the two kernels."""
        return float((self._over(first, second) + slack).max())


_LOCATIONS = 4001
_WIDEST, _FARTHEST = 12.0, 8.0  # scales: the support, and the distance of a location from it
_BISECTIONS = 45
_MARGIN = 1e-7  # relative: far above the round-off, and above what the last bracket of the bisection leaves open


@lru_cache(maxsize=64)
def contraction(mechanism: Mechanism) -> float:
    """A number of at most 1 such that Gaussian noise with the shift times it dominates every pair of the mechanism.

    Guarantee: for every pair of answers at any distance, at every epsilon and in both orders; so it also holds for
    products of coordinates, for Poisson samples and for adaptive compositions (see the theory of truncated noise).
    Edge cases: 1 for anything but Gaussian noise truncated to an interval of at most 12 scales, with locations at most
    8 scales outside of it. On [-a, a] scales it is 2 Phi(a) - 1, the slope at location 0, up to 1e-6 in all trials.

    >>> import rangebound as rb
    >>> m = rb.Mechanism(
    ...     noise=rb.Gaussian(scale=2.0),
    ...     query=rb.Query(range=rb.Interval(-2, 2), sensitivity=1.0),
    ...     bounding=rb.TRUNCATE,
    ... )
    >>> round(contraction(m), 4)  # 2 Phi(1) - 1
    0.6827
    """
    support, answers = mechanism.support, mechanism.query.range.hull
    if not (mechanism.noise.gaussian and mechanism.bounding is TRUNCATE and isinstance(support, Interval)):
        return 1.0
    scale = mechanism.noise.scale
    half = 0.5 * (support.upper - support.lower) / scale
    middle = 0.5 * (support.upper + support.lower)
    low, high = (answers.lower - middle) / scale, (answers.upper - middle) / scale
    if not (1e-3 < half <= 0.5 * _WIDEST and max(-low, high) <= half + _FARTHEST):
        return 1.0
    # Mirror images have the same slope, so only the distance from the middle counts; all in between is included.
    far = max(abs(low), abs(high)) * (1.0 + 1e-12)
    return min(_steepest(half, far) * (1.0 + _MARGIN), 1.0)


def _steepest(half: float, far: float) -> float:
    """The largest slope of f for the support [-half, half] and all locations in [0, far], in scales."""
    from scipy import special

    location = np.linspace(0.0, far, _LOCATIONS)
    below, above = special.ndtr(-half - location), special.ndtr(location - half)  # outside, on the left and right
    mass = np.where(location > half, special.ndtr(half - location) - below, 1.0 - below - above)

    def slope(y: Floats) -> tuple[Floats, Floats]:
        left, right = below + mass * special.ndtr(y), above + mass * special.ndtr(-y)
        z = np.where(left < right, special.ndtri(left), -special.ndtri(right))
        found = mass * np.exp(0.5 * (z - y) * (z + y))
        return found, z * found - y

    low, high = np.full(_LOCATIONS, -half - far - 4.0), np.full(_LOCATIONS, half + far + 4.0)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        rises = slope(middle)[1] > 0.0
        low, high = np.where(rises, middle, low), np.where(rises, high, middle)
    peak = np.maximum(slope(low)[0], slope(high)[0])
    # The mass falls with the distance from the middle, so over a cell it is largest at its first location.
    cell: Floats = np.maximum(peak[:-1], peak[1:] * (mass[:-1] / mass[1:]))
    return float(cell.max())
