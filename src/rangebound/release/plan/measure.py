"""What a question adds up over rows: a small vocabulary that the room `sql` compiles, and that knows no kind.

A question asks for `Rows`. Of these it wants sums (`GroupSums`), counts by place (`Places`, `EdgeCounts`) or by key
(`KeyCounts`), the number of `DistinctValues`, or sums of a whole table that say what the contribution bounds dropped
(`Totals`). All arithmetic is in whole numbers; see `ONE`.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from rangebound.release.plan.condition import Condition
from rangebound.release.plan.fields import Ends, number

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


def values_of(column: str, ends: Ends, missing: float | datetime.date | None = None) -> Values:
    """The values of a column, clipped to a range as a plan writes it; a missing one as a value that is clipped too."""
    lower, upper = map(number, ends)
    filler = None if missing is None else min(max(number(missing), lower), upper)
    return Values(column=column, lower=lower, upper=upper, dated=not isinstance(ends[0], float), filler=filler)


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


Measure = Counted | Owned | Value | Met | Outside | Product
"""What is added up: of each unit, at most `rows` rows in each of `groups` groups.

A unit that has more rows in a group counts with the average over all choices of this many of them, rounded down.
"""


@dataclass(frozen=True, kw_only=True)
class UnitPart:
    """What a unit adds up to, as a part of `rows` rows in fixed point, from 0 to `ONE`; or the product of two of these.

    Each is rounded down. It needs a unit with a column, and no period.
    """

    of: tuple[Measure, ...]


@dataclass(frozen=True, kw_only=True)
class GroupSums:
    """Sums of measures in every group, each under a name of the question's own."""

    rows: Rows
    of: Mapping[str, Measure | UnitPart]


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
