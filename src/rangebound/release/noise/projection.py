"""The whole numbers nearest to unbiased answers that are publicly true: in their bounds, and adding up.

Numbers, bounds and identities are all that is known here. A quadratic program finds the nearest real
numbers (Clarabel), and a linear program rounds them so that every identity holds (HiGHS, by SciPy).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import clarabel
import numpy as np
from numpy.typing import ArrayLike

from rangebound.values.array_types import Bools, Floats, Integers

if TYPE_CHECKING:  # SciPy is imported where a problem is solved, so that an import of rangebound stays light
    from scipy import sparse

T = TypeVar("T")

LARGEST = 2**53
"""No number is larger than this in size: beyond it, not every whole number is a double."""
DIVIDED = 20_000
"""A problem of more numbers is rounded part by part, totals first."""
_BITS = 26  # sums are added up in two halves, so that 2^36 numbers do not overflow
_REFINED = 4  # times that the quadratic program is solved again from where it ended, for numbers of very unlike size
_NEAR = 2.0**10  # corrections below this are exact to far more than a whole number
_SNAP = 1e-6  # nearer than this to a whole number is that number
_GRID = 2.0**16  # fractions are compared on this grid, so that the last bits of a float do not decide
_SEARCHED = 2_000  # numbers of a problem that is given to branch and bound at most
_NODES = 64
_MODERATE = 2.0**30  # a problem of larger numbers, if it has no solution as it is, is solved in a larger unit
_REPAIRS = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Identities:
    """Public identities: the number at `totals[i]` is the sum of those at `parts[starts[i]:starts[i + 1]]`.

    >>> sums = Identities.of([(0, [1, 2]), (2, [3, 4])])
    >>> sums.totals.tolist(), sums.parts.tolist(), sums.starts.tolist()
    ([0, 2], [1, 2, 3, 4], [0, 2, 4])
    """

    totals: Integers
    parts: Integers
    starts: Integers

    @classmethod
    def of(cls, identities: Iterable[tuple[int, Sequence[int]]]) -> Identities:
        """Identities, each as the position of a number and the positions of the numbers that it is the sum of."""
        listed = list(identities)
        ends = itertools.accumulate((len(parts) for _, parts in listed), initial=0)
        return cls(
            totals=np.array([total for total, _ in listed], dtype=np.int64),
            parts=np.array([part for _, parts in listed for part in parts], dtype=np.int64),
            starts=np.array(list(ends), dtype=np.int64),
        )

    def matrix(self, size: int) -> sparse.csc_array:
        """The identities of `size` numbers as a matrix: parts less total, a row each."""
        from scipy import sparse

        count = len(self.totals)
        rows = np.concatenate([np.repeat(np.arange(count), np.diff(self.starts)), np.arange(count)])
        columns = np.concatenate([self.parts, self.totals])
        signs = np.concatenate([np.ones(len(self.parts)), -np.ones(count)])
        places = (rows.astype(np.int32), columns.astype(np.int32))  # as HiGHS has them
        return sparse.csc_array((signs, places), shape=(count, size))


@dataclass(frozen=True, kw_only=True, eq=False)
class Projection:
    """Whole numbers that are publicly true; `near` is False if they were found without regard to the answers."""

    numbers: Integers
    near: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class _Facts:
    """What is publicly true: identities as rows of a matrix, and whole bounds."""

    matrix: sparse.csc_array
    lower: Integers
    upper: Integers

    def bounded(self, numbers: Floats | Integers) -> Integers:
        """Whole numbers, moved into their bounds."""
        return np.clip(numbers.astype(np.int64), self.lower, self.upper)

    @property
    def totals(self) -> Bools:
        """The numbers that are the sum of others."""
        return np.asarray((self.matrix < 0.0).sum(axis=0) > 0)

    def among(self, some: Bools) -> _Facts:
        """The identities that speak of some of the numbers alone."""
        from scipy import sparse

        rows = np.asarray(abs(self.matrix) @ ~some) == 0.0
        inner = sparse.csc_array(self.matrix[:, some].tocsr()[rows])
        return _Facts(matrix=inner, lower=self.lower[some], upper=self.upper[some])

    def excess(self, numbers: Integers) -> Floats:
        """By how much the parts exceed their totals: exact where that is below 2^53, and never 0 unless it is."""
        whole = self.matrix.astype(np.int64)
        carried, rest = np.divmod(whole @ (numbers & (2**_BITS - 1)), 2**_BITS)
        high = whole @ (numbers >> _BITS) + carried
        return np.asarray(high.astype(np.float64) * 2.0**_BITS + rest)

    def true_of(self, numbers: Integers) -> bool:
        """Whether numbers are in their bounds and every identity holds, in whole numbers."""
        inside = (self.lower <= numbers) & (numbers <= self.upper)
        return bool(inside.all()) and not self.excess(numbers).any()


def project(
    values: ArrayLike, sums: Identities, lower: ArrayLike = 0.0, upper: ArrayLike = np.inf
) -> Projection | None:
    """The whole numbers in their bounds that add up and are nearest to unbiased answers, by least squares.

    The nearest real numbers minimise `sum (x - value)^2`; each is then rounded down or up so that all identities hold,
    at the least cost. A number that is publicly known has `lower == upper`, whatever its value.

    Guarantee: the numbers are whole, in their bounds, at most 2^53 in size, and every identity holds exactly; this is
    checked in whole numbers. The effort is bounded. The same arguments have the same result, whatever the number of
    threads. If there is a result for zeros, with the same identities and bounds, there is always one, whatever the
    values: a caller who checks that before anything is charged never fails afterwards.
    Assumes: nothing of the values but that they are not NaN.
    Edge cases: for trees, two-way tables and intervals of one series the corners of the linear program are whole, and
    each number is rounded down or up. Tables that share margins may need their cells one further. Other identities,
    such as three-way tables of which the two-way margins are published and the finest cells are not, may have no whole
    numbers nearby, or none that a bounded search finds: `near` is then False, and the numbers are those for zeros.
    None: no whole numbers were found that are publicly true.
    Fractions are compared on a grid of 2^-16 and ties broken by a rule of positions, so that another machine has the
    same result unless its last bits fall on an edge of that grid.

    >>> project([7.2, 3.4, 4.4], Identities.of([(0, [1, 2])])).numbers.tolist()
    [7, 3, 4]
    >>> project([1.9, -2.0, 4.1], Identities.of([(0, [1, 2])])).numbers.tolist()
    [3, 0, 3]
    >>> project([0.4, 0.4, 0.3], Identities.of([(0, [1, 2])]), [1, 0, 0], [1, 9, 9]).numbers.tolist()
    [1, 1, 0]
    >>> project([0.0, 0.0], Identities.of([(0, [1])]), [1, 3], [2, 4]) is None
    True
    """
    wanted = np.atleast_1d(np.asarray(values, dtype=np.float64))
    low, high = (np.broadcast_to(np.asarray(each, dtype=np.float64), wanted.shape) for each in (lower, upper))
    if np.isnan(low).any() or np.isnan(high).any():
        raise ValueError("lower, upper: must not contain NaN")
    if np.isnan(wanted).any():
        raise ValueError("values: must not contain NaN")
    whole = [np.clip(each, -LARGEST, LARGEST).astype(np.int64) for each in (np.ceil(low), np.floor(high))]
    facts = _Facts(matrix=sums.matrix(len(wanted)), lower=whole[0], upper=whole[1])
    numbers = _projected(facts, wanted)
    if numbers is not None:
        return Projection(numbers=numbers, near=True)
    anchor = _projected(facts, np.zeros(len(wanted)))
    return None if anchor is None else Projection(numbers=anchor, near=False)


def agree(cells: Floats, parts: Sequence[Sequence[int]], sums: Floats) -> Projection | None:
    """The whole numbers nearest to `cells` that are not negative and have these `sums`, each of some of them.

    >>> agree(np.array([3.4, -0.8, 1.2]), [[0, 1], [2]], np.array([4.0, 1.0])).numbers[:3].tolist()
    [4, 0, 1]
    """
    identities = Identities.of((len(cells) + at, own) for at, own in enumerate(parts))
    lower, upper = (np.concatenate([np.full(len(cells), end), sums]) for end in (0.0, np.inf))
    return project(np.concatenate([cells, sums]), identities, lower, upper)


def _projected(facts: _Facts, values: Floats) -> Integers | None:
    if (facts.lower > facts.upper).any():
        return None
    whole = facts.bounded(np.rint(np.clip(values, -LARGEST, LARGEST)))
    nearest = not facts.matrix.shape[0] or bool(((facts.lower <= values) & (values <= facts.upper)).all())
    if nearest and facts.true_of(whole):
        return whole
    start, moves = _nearest(facts, values)
    found = _rounded(facts, start, moves)
    unit = 2.0 ** np.ceil(np.log2(max(np.abs(values).max(initial=1.0), 1.0) / _MODERATE))
    if found is not None or unit <= 1.0:
        return found
    step = int(min(unit, LARGEST))  # identities that hold in a larger unit hold in this one
    coarse = _Facts(matrix=facts.matrix, lower=-(-facts.lower // step), upper=facts.upper // step)
    found = _projected(coarse, np.clip(values, -LARGEST, LARGEST) / step)
    return None if found is None else found * step


def _nearest(facts: _Facts, values: Floats) -> tuple[Integers, Floats]:
    """The nearest real numbers, as whole ones and what is to be added to them.

    Edge cases: if the solver finds nothing, the answers as they are, moved into their bounds.
    """
    values = np.clip(values, -LARGEST, LARGEST)
    start = facts.bounded(np.rint(values))
    moves = np.clip(values - start, facts.lower - start, facts.upper - start)
    for _ in range(_REFINED):
        found = _quadratic(facts, start, values - start)
        if found is None:
            break
        moves = found
        if np.abs(moves).max(initial=0.0) < _NEAR:
            break
        reached = facts.bounded(start + np.rint(moves).astype(np.int64))
        start, moves = reached, np.clip(start - reached + moves, facts.lower - reached, facts.upper - reached)
    return start, moves


def _quadratic(facts: _Facts, start: Integers, wanted: Floats) -> Floats | None:
    """The moves from `start` nearest to the wanted ones with which all identities and bounds hold, by Clarabel."""
    from scipy import sparse

    free = facts.lower < facts.upper
    if not free.any():
        return None
    below, above = (facts.lower - start)[free].astype(np.float64), (facts.upper - start)[free].astype(np.float64)
    excess = facts.excess(start)
    unit = max(1.0, float(np.abs(excess).max(initial=0.0)), float(np.abs(wanted[free]).max(initial=0.0)))
    held_below, held_above = facts.lower[free] > -LARGEST, facts.upper[free] < LARGEST
    one = sparse.eye_array(int(free.sum()), format="csr")
    rows = sparse.vstack([facts.matrix[:, free], one[held_above], -one[held_below]], format="csc")
    sides = np.concatenate([-excess, above[held_above], -below[held_below]]) / unit
    cones = [clarabel.ZeroConeT(len(excess)), clarabel.NonnegativeConeT(len(sides) - len(excess))]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = 1e-12  # a gap of 1e-8 is an error of 1e-4 in a number
    quadratic, linear = one.tocsc(), -wanted[free] / unit
    found = _answer(lambda: clarabel.DefaultSolver(quadratic, linear, rows, sides, cones, settings).solve().x)
    if found is None:
        return None
    moves = np.zeros(len(start))
    moves[free] = np.clip(np.array(found) * unit, below, above)
    left = np.abs(facts.matrix @ moves + excess).max(initial=0.0)
    return moves if np.isfinite(moves).all() and left <= 1e-5 * unit else None


def _rounded(facts: _Facts, start: Integers, moves: Floats) -> Integers | None:
    """Whole numbers near `start + moves` that are publicly true; None if no way of looking for them finds any."""
    for way in _ways(facts, start, moves):
        found = way()
        if found is not None and facts.true_of(found):
            return found
    return None


def _ways(facts: _Facts, start: Integers, moves: Floats) -> Iterator[Callable[[], Integers | None]]:
    """Ways to round, the nearest and quickest first.

    Down or up: the linear program has a whole solution if the identities are totally unimodular. The totals first, and
    the rest by them, as far as the bounds allow. All as far as the bounds allow, and again from there, since numbers of
    very unlike size do not add up at once. By branch and bound. The finest numbers first, and their sums.
    """
    whole = np.where(np.abs(moves - np.rint(moves)) < _SNAP, np.rint(moves), moves)
    near = (
        np.maximum(start + np.floor(whole).astype(np.int64), facts.lower),
        np.minimum(start + np.ceil(whole).astype(np.int64), facts.upper),
    )
    anywhere = (facts.lower, facts.upper)
    totals = facts.totals

    def given(fixed: Bools, numbers: Integers, box: tuple[Integers, Integers] = anywhere) -> Integers | None:
        low, high = box[0].copy(), box[1].copy()
        low[fixed] = high[fixed] = numbers
        return _linear(facts, start, whole, (low, high))

    def totals_first() -> Integers | None:
        if totals.all() or not totals.any():
            return None
        found = _rounded(facts.among(totals), start[totals], moves[totals])
        if found is None:
            return None
        nearby = given(totals, found, near)
        return nearby if nearby is not None and facts.true_of(nearby) else given(totals, found)

    def finest_first() -> Integers | None:
        return given(~totals, np.clip(start + np.rint(moves).astype(np.int64), *anywhere)[~totals])

    def repaired() -> Integers | None:
        found = _linear(facts, start, whole, anywhere)
        for _ in range(_REPAIRS):
            if found is not None and not facts.true_of(found):
                found = _linear(facts, np.clip(found, *anywhere), np.zeros(len(start)), anywhere)
        return found

    if len(start) > DIVIDED:
        yield totals_first
    yield lambda: _linear(facts, start, whole, near)
    if len(start) <= DIVIDED:
        yield totals_first
    yield repaired
    if len(start) <= _SEARCHED and np.abs(facts.excess(start)).max(initial=0.0) < _MODERATE:
        yield lambda: _linear(facts, start, whole, near, search=True)
        yield lambda: _linear(facts, start, whole, anywhere, search=True)
    yield finest_first


def _linear(
    facts: _Facts, start: Integers, moves: Floats, box: tuple[Integers, Integers], *, search: bool = False
) -> Integers | None:
    """Numbers in a box, rounded, with which all identities hold before rounding, at the least cost, by HiGHS.

    The cost of a number is a convex line of three pieces, which is its square's at the whole numbers nearest to it:
    `search` asks for whole numbers by branch and bound, where the corners of the linear program need not be whole.
    """
    from scipy import sparse

    low, high = ((each - start).astype(np.float64) for each in box)
    floor, ceil = np.clip(np.floor(moves), low, high), np.clip(np.ceil(moves), low, high)
    fraction = np.rint((moves - np.floor(moves)) * _GRID) / _GRID
    odd = np.floor(moves) < np.ceil(moves)
    slopes = (1.0 - 2.0 * fraction, np.where(odd, 3.0 - 2.0 * fraction, 1.0), np.where(odd, 1.0 + 2.0 * fraction, 1.0))
    reach = np.concatenate([ceil - floor, high - ceil, floor - low])
    used = reach > 0.0
    ties = np.tile(np.arange(1, len(start) + 1) * (5.0**0.5 - 1.0) / 2.0 % 1.0, 3) / (2.0 * _GRID)
    cost = (np.concatenate(slopes) + ties)[used]
    rows = sparse.hstack([facts.matrix, facts.matrix, -facts.matrix], format="csc")[:, used]
    wanted = -facts.excess(start + floor.astype(np.int64))
    bounds = np.stack([np.zeros(int(used.sum())), reach[used]], axis=1)
    bounds[bounds >= LARGEST] = np.inf
    pieces = np.zeros(len(reach))
    if used.any() and facts.matrix.shape[0]:
        found = _searched(cost, rows, wanted, bounds) if search else _corner(cost, rows, wanted, bounds)
        if found is None or not np.isfinite(found).all():
            return None
        pieces[used] = np.rint(found)
    middle, right, left = pieces.reshape(3, -1)
    return np.asarray(start + (floor + middle + right - left).astype(np.int64))


def _corner(cost: Floats, rows: sparse.csc_array, wanted: Floats, bounds: Floats) -> Floats | None:
    from scipy import optimize

    most = 20 * sum(rows.shape) + 10_000
    found = _answer(
        lambda: optimize.linprog(  # type: ignore[call-overload]  # whose stubs know no sparse rows
            cost, A_eq=rows, b_eq=wanted, bounds=bounds, method="highs-ds", options={"maxiter": most}
        )
    )
    return None if found is None or found.x is None or found.status != 0 else np.asarray(found.x)


def _searched(cost: Floats, rows: sparse.csc_array, wanted: Floats, bounds: Floats) -> Floats | None:
    from scipy import optimize

    found = _answer(
        lambda: optimize.milp(
            cost,
            integrality=np.ones(len(cost), dtype=np.int64),
            bounds=optimize.Bounds(bounds[:, 0], bounds[:, 1]),
            constraints=optimize.LinearConstraint(rows, wanted, wanted),
            options={"node_limit": _NODES, "mip_rel_gap": 0.01},
        )
    )
    return None if found is None or found.x is None else np.asarray(found.x)


def _answer(solve: Callable[[], T]) -> T | None:
    """What a solver gives, or None where it fails on these numbers: the next way is tried, and one never fails.

    Numbers are projected after the charge, so an error here would depend on what was drawn, and a second draw for one
    charge would follow.
    """
    try:
        return solve()
    except (ArithmeticError, RuntimeError, ValueError):
        return None
