"""What a question adds up over rows, what is made of the sums, and how far one unit can move that.

A small vocabulary that the room `sql` compiles, and that knows no kind. A question asks for `Rows`. Of these it wants
sums (`GroupSums`), counts by place (`Places`, `EdgeCounts`) or by key (`KeyCounts`), the number of `DistinctValues`, or
sums of a whole table that say what the contribution bounds dropped (`Totals`). All arithmetic is in whole numbers; see
`ONE`. A `Sensitivity` is exact, in L1 and in L2, for all neighbouring tables.

Two tables are neighbours if one of them lacks a unit (add-remove), or if one unit has other rows (replace). After the
contribution bounds a unit has at most r = `rows` rows in each of at most g = `groups` groups. Here is what several
kinds share; that of a sum is in `kinds/scalars.py`, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from rangebound.release.plan.condition import Condition
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


ONE = 2**30
"""The fixed point: a value at the upper end of its column's range counts this many units, one at the lower end none."""


@dataclass(frozen=True, kw_only=True)
class Values:
    """The values of a column, as numbers or as days since 1970-01-01, clipped to a public range.

    A missing value counts as `filler`; without one, a row that has no value does not count. Values below `least`, an
    end of the range that is above the lower end of the fixed point, count as that.
    """

    column: str
    lower: float
    upper: float
    dated: bool
    filler: float | None = None
    least: float | None = None


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The rows that a question asks for: those that meet `where` and have a value, where it is about `values`.

    Where it is about further columns, such as a weight, a row needs a value in each of these, `also`.
    """

    where: tuple[Condition, ...] = ()
    values: Values | None = None
    also: tuple[Values, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Counted:
    """1 for every row that counts."""


@dataclass(frozen=True, kw_only=True)
class Owned:
    """1 for every unit that has a row that counts in the group; it stands alone."""


@dataclass(frozen=True, kw_only=True)
class Value:
    """A value in fixed point: from 0 at the lower end of its range to `ONE` at the upper end."""

    of: Values


@dataclass(frozen=True, kw_only=True)
class Square:
    """The square of a value in fixed point, from 0 to `ONE`, rounded down."""

    of: Values


@dataclass(frozen=True, kw_only=True)
class Met:
    """`ONE` for a row that meets some further conditions, else 0."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, kw_only=True)
class Outside:
    """`ONE` for a value outside its range, else 0; a missing value does not lie outside."""

    of: Values


@dataclass(frozen=True, kw_only=True)
class Product:
    """The product of two measures in fixed point, from 0 to `ONE`, rounded down: at most each of them."""

    of: tuple[Measure, Measure]


Measure = Counted | Owned | Value | Square | Met | Outside | Product
"""What is added up: of each unit, at most `rows` rows in each of `groups` groups.

A unit that has more rows in a group counts with the average over all choices of so many of them, rounded down.
"""


@dataclass(frozen=True, kw_only=True)
class GroupSums:
    """Sums of measures in every group, each under a name of the question's own."""

    rows: Rows
    of: Mapping[str, Measure]


@dataclass(frozen=True, kw_only=True)
class Places:
    """Counts of rows by the place of their value among `borders`: place i has the values with i borders not above them.

    Counts are in units of 1 / `ONE` row. `scale` and `shift` give the place of a value x but for one either way:
    floor((x - lower) scale + shift). There is no `scale` where the borders are not at equal distances. With `once` a
    unit adds 1 at every place where it has a row, and not a part of `rows` rows.
    """

    rows: Rows
    values: Values
    borders: tuple[float, ...]
    scale: Fraction | None
    shift: float
    once: bool = False


@dataclass(frozen=True, kw_only=True)
class KeyCounts:
    """Counts by the place of a column's key among its public keys: a unit adds 1 at every key for which it has a row.

    Counts are in units of 1 / `ONE`. Where the unit is the row, rows are counted.
    """

    rows: Rows
    column: str


@dataclass(frozen=True, kw_only=True)
class Totals:
    """GroupSums of measures over all groups of the grouping `over` together, after the contribution bounds.

    With `existing`, the name of one sum more: how many rows that are asked for there are, of each unit up to `limit`,
    before the contribution bounds (or how many groups with such rows, where a unit counts once in each).
    """

    rows: Rows
    of: Mapping[str, Measure]
    over: tuple[str, ...]
    existing: str | None = None
    limit: int = 0


@dataclass(frozen=True, kw_only=True)
class EdgeCounts:
    """Counts by the place of a column's values among public edges: 2 i + 1 is edge i, 2 i lies before it.

    A unit adds 1 in all to the places of a group, its values in equal parts; counts are in units of 1 / `ONE`.
    """

    rows: Rows
    column: str
    edges: tuple[float, ...]
    dated: bool


@dataclass(frozen=True, kw_only=True)
class DistinctValues:
    """How many distinct values a column has in every group, of each unit at most `most`, under the name "n".

    Values are compared as grouping keys are; rows without one do not count. A unit that has more values in a group
    keeps those that come first in its own keyed order.
    """

    rows: Rows
    column: str
    most: int


Measures = GroupSums | Places | KeyCounts | EdgeCounts | Totals | DistinctValues
Found = Mapping[str | int, int]
"""What the engine found in a group: sums by their names, or counts by place."""


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


NOTHING = Sensitivity(cell=Fraction(0), groups=1, square=Fraction(0))
"""That of a number that no unit can change."""


def touched(unit: Unit, groups: float) -> tuple[int, int]:
    """How many groups a unit counts in, and in how many groups a neighbour may differ, of `groups` in all.

    A unit that is replaced leaves some groups and enters others.
    """
    own = int(min(unit.groups, groups))
    return own, int(min(2 * own, groups)) if unit.replaced else own


def of_counts(rows: int, unit: Unit, groups: float) -> Sensitivity:
    """For one coordinate a group that a unit adds a number from 0 to `rows` to, in its groups, and nothing in others.

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
