"""What the numbers of a question are made of, and how far one unit can move that: exact, for all neighbouring tables.

Two tables are neighbours if one of them lacks a unit (add-remove), or if one unit has other rows (replace). After the
contribution bounds a unit has at most r = `rows` rows in each of at most g = `groups` groups. Here is what several
kinds share; that of a sum is in `kinds/scalars.py`, and so on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from rangebound.release.plan.measure import ONE, Found, Measures
from rangebound.release.plan.unit import Unit

Key = tuple[str, ...]
"""The key of a group: one text for each grouping column."""
Columns = tuple[Key, ...]
"""The public keys of each grouping column, empty where they are selected privately."""
Summed = tuple[str | None, ...]
"""The key of a published number: None for a column that it is summed over."""
Label = tuple[Summed, str]
"""The key and the part of a published number."""
Coordinates = tuple[Fraction, ...]
"""The exact coordinates of one question in one group; they are private."""
Draw = tuple[float, ...]
"""What was drawn for one number: its noisy coordinates, or a quantile and the two ends of its interval."""
Pair = tuple[float, float]
"""The lower and upper end of an interval."""
Fractional = tuple[float, Pair]
"""A number with its interval."""


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """What one unit can change: a neighbour is at most `groups` steps away, each of `cell` in L1 within one group.

    `twice` says that two of the steps may be in the same group. Then only pure mechanisms may be used: two steps of an
    (epsilon, 0)-private one cost 2 epsilon, but those of an (epsilon, delta)-private one more than 2 delta.
    `square` is the square of the L2 distance of two neighbours, over all groups together. `row` is the most that one
    row can add to a coordinate: errors of different questions are compared in this unit.
    `supremum` says that a step moves every coordinate of a group by at most `cell` (L-infinity), however many it moves.
    """

    cell: Fraction
    groups: int
    square: Fraction
    twice: bool = False
    row: Fraction = Fraction(1)
    supremum: bool = False

    @property
    def total(self) -> Fraction:
        """The L1 distance of two neighbours, over all groups together; with `supremum`, the sum of their steps."""
        return self.cell * self.groups


@dataclass(frozen=True, kw_only=True)
class Statistic:
    """What a kind adds up over rows, the coordinates of a group, and how far one unit can move them.

    All three are functions of a question of the kind, which comes first. `measures` and `sensitivity` are told its unit
    and the number of groups in which it counts, infinite where that is private; `coordinates` what the engine found in
    a group, and the unit. The docstring of a sensitivity proves it, in L1 and L2.
    """

    measures: Callable[[Any, Unit, float], Measures]
    coordinates: Callable[[Any, Found, Unit], Coordinates]
    sensitivity: Callable[[Any, Unit, float], Sensitivity]


def plain_count(asked: object, found: Found, unit: Unit) -> Coordinates:
    """What was counted under the name n, as it is."""
    return (Fraction(found.get("n", 0)),)


def by_place(places: Callable[[Any], int]) -> Callable[[Any, Found, Unit], Coordinates]:
    """Counts by place, in units of 1 / `ONE`, of as many places as a question has."""

    def coordinates(asked: object, found: Found, unit: Unit) -> Coordinates:
        counts, none = {at: Fraction(each, ONE) for at, each in found.items()}, Fraction(0)
        return tuple(counts.get(at, none) for at in range(places(asked)))

    return coordinates


NOTHING = Sensitivity(cell=Fraction(0), groups=1, square=Fraction(0))
"""That of a number that no unit can change."""


def touched(unit: Unit, groups: float) -> tuple[int, int]:
    """How many groups a unit counts in, and in how many groups a neighbour may differ, of `groups` in all.

    A unit that is replaced leaves some groups and enters others.
    """
    own = int(min(unit.groups, groups))
    return own, int(min(2 * own, groups)) if unit.replaced else own


def of_counts(rows: int, unit: Unit, groups: float) -> Sensitivity:
    """For one coordinate per group that a unit adds a number from 0 to `rows` to, in its groups, and nothing in others.

    L1: in each group the coordinate moves by at most `rows`, being the difference of two numbers from 0 to `rows`; and
    it moves in at most `touched` groups. L2: the squares of the moves add up to at most rows^2 in each of these groups,
    rows^2 times touched: r sqrt(g) for add-remove, and sqrt(2) times that for replace where there are groups enough.
    """
    _, most = touched(unit, groups)
    return Sensitivity(cell=Fraction(rows), groups=most, square=Fraction(rows**2 * most))


def scaled(found: Sensitivity, factor: Fraction) -> Sensitivity:
    """For coordinates that are `factor` times as large: so are all distances, and what one row adds."""
    return replace(found, cell=found.cell * factor, square=found.square * factor**2, row=found.row * factor)


def of_parts(rows: int, unit: Unit, groups: float) -> Sensitivity:
    """For several coordinates a group, none negative, that a unit adds to, at most `rows` in all of them together.

    Add-remove: a non-negative vector whose entries add up to at most r has L1 norm at most r, and L2 norm at most r,
    since the squares of non-negative numbers add up to at most the square of their sum. In g groups: L1 r g, L2^2
    r^2 g.

    Replace: the unit is taken away and another put in its place, 2 g steps of r; two of them may be in one group, where
    the L1 distance is at most 2 r. If there is one group alone, that is one step of 2 r. L2: for u, v >= 0 the inner
    product is not negative, so |u - v|^2 <= |u|^2 + |v|^2 <= 2 r^2 g: sqrt(2) times the norm of add-remove, not twice.
    """
    own, _ = touched(unit, groups)
    if not unit.replaced:
        return Sensitivity(cell=Fraction(rows), groups=own, square=Fraction(rows**2 * own))
    square = Fraction(2 * rows**2 * own)
    if groups == 1:
        return Sensitivity(cell=Fraction(2 * rows), groups=1, square=square)
    return Sensitivity(cell=Fraction(rows), groups=2 * own, square=square, twice=True)


def rows_by_place(asked: object, unit: Unit, groups: float) -> Sensitivity:
    """L1 r g and L2 r sqrt(g): a row adds 1 to one of the counts by place, so it is a case of `of_parts`.

    An exponential mechanism is made for L1: the score of a rank moves by at most max(level, 1 - level) times it.
    """
    return of_parts(unit.most_rows, unit, groups)
