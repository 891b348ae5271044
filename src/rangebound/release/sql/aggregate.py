"""Exact aggregates: what the engine counts, as coordinates that one unit can move by a known amount.

Every answer but a sum is made of coordinates that never fall below zero and to which a row adds one in all. A mean has
two: how far its rows are from the upper end of the range, and how far from the lower. One unit then moves them by at
most its number of rows in L1, and noise on that scale protects the mean and the number of rows together, where noise on
each would have to share the budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from rangebound.release.engine import Engine
from rangebound.release.noise.allocation import Sensitivity
from rangebound.release.noise.draw import Coordinates, Key
from rangebound.release.plan.clipping import is_cut, looked_at
from rangebound.release.plan.model import Plan, Unit, known_rows
from rangebound.release.sql.contribution_bound import Salt
from rangebound.release.sql.expression import ONE
from rangebound.release.sql.statements import UNITS, Block, Statement, statements


@dataclass(frozen=True, kw_only=True)
class Aggregate:
    """The exact coordinates of a block, for every question and key; `units` counts owners where keys are selected."""

    block: Block
    keys: tuple[Key, ...]
    answers: Mapping[int, Mapping[Key, Coordinates]]
    units: Mapping[Key, int]


class _Answers(Mapping[Key, Coordinates]):
    """A question's coordinates by key, made when they are asked for.

    A private table may have a key for every row, and a median a thousand coordinates for each: only those of the keys
    that are selected are ever made.
    """

    def __init__(self, question: Any, unit: Unit, keys: tuple[Key, ...], sums: Mapping[Key, Mapping[Any, int]]) -> None:
        self._question, self._unit, self._sums = question, unit, sums
        self._keys = dict.fromkeys(keys)

    def __getitem__(self, key: Key) -> Coordinates:
        if key not in self._keys:
            raise KeyError(key)
        return coordinates(self._question, self._sums.get(key, {}), self._unit)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def aggregate(plan: Plan, engine: Engine, salt: Salt) -> tuple[Aggregate, ...]:
    """Run the plan's statements and bring their sums into coordinates, for every block of the plan.

    Guarantee: for the same table and salt the result is the same in every engine, with any number of threads and any
    order of rows. Public keys without rows are there too, with zeros.
    Edge cases: the result is exact and therefore private; only noisy numbers made of it may leave the driver.
    """
    found = statements(plan, engine.schema(), salt, source=engine.source, dialect=engine.dialect)
    results = [(each, engine.run(each.tree)) for each in found]
    return tuple(_gather(plan, block, results) for block in dict.fromkeys(each.block for each in found))


def _gather(plan: Plan, block: Block, results: list[tuple[Statement, list[tuple[Any, ...]]]]) -> Aggregate:
    sums: dict[int, dict[Key, dict[Any, int]]] = {index: {} for index in block.questions}
    units: dict[Key, int] = {}
    for statement, rows in results:
        if statement.block != block:
            continue
        for row in rows:
            key = _key(block, row[: statement.key_width])
            for index, roles in statement.columns.items():
                if index < 0:
                    units[key] = int(row[roles[UNITS]])
                elif statement.bins:
                    sums[index].setdefault(key, {})[int(row[statement.key_width])] = int(row[roles["count"]])
                else:
                    found = {role: int(row[at] or 0) for role, at in roles.items()}
                    sums[index].setdefault(key, {}).update(found)
    keys = tuple(sorted(units)) if block.keys is None else block.keys
    answers = {index: _Answers(plan.query[index], plan.unit, keys, found) for index, found in sums.items()}
    return Aggregate(block=block, keys=keys, answers=answers, units=units)


def _key(block: Block, parts: tuple[Any, ...]) -> Key:
    if block.keys is None:
        return tuple(parts)
    return block.keys[int(parts[0])] if parts else ()


def coordinates(question: Any, sums: Mapping[Any, int], unit: Unit) -> Coordinates:
    """The coordinates of one question in one group, from the sums that the engine found there.

    Those of a mean or a variance add up to the rows. Where these are public the first is what the others leave.
    """
    found = _COORDINATES[question.kind](question, sums)
    left_out = question.kind in _ADD_UP and known_rows(question, unit) is not None
    return found[1:] if left_out else found


def _count(question: Any, sums: Mapping[Any, int]) -> Coordinates:
    return (Fraction(sums.get("n", 0)),)


def _sum(question: Any, sums: Mapping[Any, int]) -> Coordinates:
    lower, upper = Fraction(question.bounds.lower), Fraction(question.bounds.upper)
    return (lower * sums.get("n", 0) + (upper - lower) * sums.get("t", 0) / ONE,)


def _ends(question: Any, sums: Mapping[Any, int]) -> Coordinates:
    """Distance from the upper end and from the lower end, in widths of the range."""
    n, t = sums.get("n", 0), sums.get("t", 0)
    return Fraction(ONE * n - t, ONE), Fraction(t, ONE)


def _bernstein(question: Any, sums: Mapping[Any, int]) -> Coordinates:
    """The sums of (1 - x)^2, 2 x (1 - x) and x^2, for x from 0 to 1 over the range: they add up to the rows."""
    n, t, q = (sums.get(role, 0) for role in "ntq")
    return Fraction(ONE * n - 2 * t + q, ONE), Fraction(2 * (t - q), ONE), Fraction(q, ONE)


def _dropped(question: Any, sums: Mapping[Any, int]) -> Coordinates:
    """Rows that count, and rows that were dropped of those that were looked at."""
    n, m = sums.get("n", 0), sums.get("m", 0)
    return Fraction(n), Fraction(m - n)


def _bins(question: Any, sums: Mapping[Any, int]) -> Coordinates:
    count = question.bins if question.kind == "histogram" else question.steps + 1
    return tuple(Fraction(sums.get(at, 0), ONE) for at in range(count))


_COORDINATES = {
    "count": _count,
    "count of units": _count,
    "sum": _sum,
    "mean": _ends,
    "share": _ends,
    "variance": _bernstein,
    "standard deviation": _bernstein,
    "share dropped": _dropped,
    "share clipped": _ends,
    "histogram": _bins,
    "quantiles": _bins,
    "median": _bins,
    "minimum": _bins,
    "maximum": _bins,
}


_ADD_UP = {"mean": 2, "share": 2, "share dropped": 2, "share clipped": 2, "variance": 3, "standard deviation": 3}
_BERNSTEIN = Fraction(4, 3) + Fraction(4, ONE)  # of 2 x (1 - x) and x^2, from x = 1/3 to 1, and what rounding adds


_KNOWN = {
    "count": Fraction(0),
    "mean": Fraction(1),
    "share": Fraction(1),
    "variance": _BERNSTEIN,
    "standard deviation": _BERNSTEIN,
}


def width(question: Any, unit: Unit) -> int:
    """How many coordinates a question has."""
    if question.kind in _ADD_UP:
        return _ADD_UP[question.kind] - (known_rows(question, unit) is not None)
    return int(question.bins) if question.kind == "histogram" else 1


def sensitivity(question: Any, unit: Unit, *, groups: float) -> Sensitivity:
    """What one unit can change in a question's coordinates, where its grouping has `groups` groups (inf if unknown).

    A unit has at most `rows` rows in each of at most `unit.groups` groups, and each row adds one to the coordinates in
    all, or a number of the column's range to a sum. A row that does not meet `where`, or has no value, adds nothing:
    that is decided by the row alone, and `rows` bounds those that do count.

    A unit that comes or goes moves each of its groups by one step of `rows` coordinates. A unit that is replaced goes
    first, and comes after that: twice as many steps of the same size, 2 rows groups in L1 in all; no group moves by
    more than 2 rows, and where there is one group alone that is one step. Counts, and sums of one sign, move by at most
    one step even in a group where the unit goes and comes, so that there are no more steps than groups. A sum across 0
    goes from one end of the range to the other in one group, or as far as the larger end is from 0 in two: the
    smaller of the two products is taken. Where the number of rows is public a replaced row moves no count, and a mean
    by one end to the other.

    Guarantee: true for all pairs of neighbouring tables, exactly, since the sums are whole numbers.

    >>> from rangebound.release.plan.question import Count
    >>> sensitivity(Count(name="visits"), Unit(column="person", rows=3, groups=2), groups=10)
    Sensitivity(cell=Fraction(3, 1), groups=2, twice=False)
    """
    if is_cut(question):
        return Sensitivity(cell=Fraction(looked_at(question, unit, groups) * (2 if unit.replaced else 1)), groups=1)
    rows = 1 if question.kind == "count of units" else unit.rows
    own = int(min(unit.groups, groups))
    touched = int(min(2 * own, groups)) if unit.replaced else own
    if known_rows(question, unit) is not None and question.kind in _KNOWN:
        return Sensitivity(cell=_KNOWN[question.kind], groups=1)
    if question.kind == "sum":
        return _sum_sensitivity(question, unit, own, touched)
    if not unit.replaced or question.kind in ("count", "count of units"):
        return Sensitivity(cell=Fraction(rows), groups=touched)
    if groups == 1:
        return Sensitivity(cell=Fraction(2 * rows), groups=1)
    return Sensitivity(cell=Fraction(rows), groups=2 * own, twice=True)


def _sum_sensitivity(question: Any, unit: Unit, own: int, touched: int) -> Sensitivity:
    lower, upper = Fraction(question.bounds.lower), Fraction(question.bounds.upper)
    far, across = max(abs(lower), abs(upper)), max(upper, Fraction(0)) - min(lower, Fraction(0))
    if not unit.replaced:
        return Sensitivity(cell=unit.rows * far, groups=own)
    pure = question.mechanism is None or question.mechanism.endswith(" Laplace")
    if pure and far * 2 * own < across * touched:
        return Sensitivity(cell=unit.rows * far, groups=2 * own, twice=True)
    return Sensitivity(cell=unit.rows * across, groups=touched)
