"""Tables of counts whose margins agree: whole numbers, fitted from the total down.

A grouping is a set of columns. The sums of a table over some of its columns are a margin, and two tables of the same
rows agree if their margins over the columns that they share are the same. Margins are fixed from the smallest set of
columns to the largest; each table then moves to the margins inside it, by least squares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rangebound.release.noise.projection import LARGEST, agree

Columns = frozenset[str]
Key = tuple[str, ...]
"""The values of the columns of a grouping, in the order of their names."""
Table = dict[Key, int]

MOST = 64
"""Groupings that are fixed at most, those that only two tables share included: as many as six columns have."""
_HALVINGS = 64
_CIRCLED = 4000  # cells of a table with three margins or more: whole numbers take 3 s for so many, 15 s for 9,000


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A table of counts as it was drawn: how noisy its sums are, and whether its cells may have other numbers.

    `drawn` has the numbers in their supports, `unclamped` those from which sums are made: negative where they are.
    """

    columns: Columns
    drawn: Table
    unclamped: Table
    noise: float
    allowed: Callable[[Table], bool]


def margin(table: Mapping[Key, int], columns: Columns, wanted: Columns) -> Table:
    """The sums of a table over all columns but the wanted ones.

    >>> margin({("a", "x"): 1, ("a", "y"): 2, ("b", "x"): 3}, frozenset({"g", "h"}), frozenset({"g"}))
    {('a',): 3, ('b',): 3}
    """
    return {short: sum(table[key] for key in keys) for short, keys in _groups(table, columns, wanted).items()}


def fitted(tables: Sequence[Asked]) -> list[Table | None]:
    """The tables, moved so that their margins agree; None for one that cannot move so, and stays as it was drawn.

    A margin that two tables share and nobody asked for is taken from the least noisy table that has it.

    Assumes: the tables share few groupings, as `closure` counts them; otherwise all stay.
    Guarantee: whole numbers that are not negative. Tables agree in every margin that they share, and always in their
    total, but for those that stay as they were drawn, and for circles.
    Edge cases: there may be no whole numbers with three margins that form a circle (by a and b, b and c, a and c), and
    for large tables they are not sought. A table is then moved to the first ones; who asks for a circle compares the
    sums.
    """
    fixed: dict[Columns, Table] = {}
    found: dict[int, Table | None] = {}
    for columns in closure([each.columns for each in tables]) or ():
        own = [at for at, each in enumerate(tables) if each.columns == columns]
        above = [at for at, each in enumerate(tables) if columns <= each.columns]
        best = tables[min(own or above, key=lambda at: (tables[at].noise, at))]
        free = not any(each < columns for each in fixed)
        source = best.drawn if own and free else best.unclamped  # what was asked for and need not move stays
        table = _moved_to(margin(source, best.columns, columns), columns, fixed)
        table = {key: max(value, 0) for key, value in table.items()}
        if all(tables[at].allowed(table) for at in own):
            fixed[columns] = table
        for at in own:
            found[at] = fixed.get(columns)
    return [found.get(at) for at in range(len(tables))]


def closure(sets: Iterable[Columns]) -> list[Columns] | None:
    """The sets and all their intersections, small ones first; None for more than `MOST`, of which n sets may have 2^n.

    >>> [sorted(each) for each in closure([frozenset("ab"), frozenset("bc")]) or ()]
    [['b'], ['a', 'b'], ['b', 'c']]
    """
    found: set[Columns] = set()
    for each in sets:
        found |= {each, *(each & other for other in found)}
        if len(found) > MOST:
            return None
    return sorted(found, key=lambda each: (len(each), sorted(each)))


def _moved_to(table: Table, columns: Columns, fixed: Mapping[Columns, Table]) -> Table:
    """The table, moved to the margins inside it that are fixed; the last one of a circle may find no room."""
    inside = sorted((each for each in fixed if each < columns), key=lambda each: (-len(each), sorted(each)))
    largest = [each for each in inside if not any(each < other for other in inside)]
    found = _with_margins(table, columns, {each: fixed[each] for each in largest})
    if found is not None:
        return found
    kept: dict[Columns, Table] = {}
    for each in inside:
        if not any(each < other for other in kept):
            nearer = _with_margins(table, columns, {**kept, each: fixed[each]})
            found, kept = (found, kept) if nearer is None else (nearer, {**kept, each: fixed[each]})
    return table if found is None else found


def _with_margins(table: Table, columns: Columns, fixed: Mapping[Columns, Table]) -> Table | None:
    """The nearest table of whole numbers that are not negative and have these sums; None where none is found.

    One margin has a formula, several need a solver; more than two of a large table would take it too long.
    """
    if not fixed:
        return table
    if len(fixed) > 2 and len(table) > _CIRCLED:
        return None
    if len(fixed) == 1:
        ((only, sums),) = fixed.items()
        return _spread(table, columns, only, sums)
    places = {key: at for at, key in enumerate(table)}
    known: list[int] = []
    parts: list[list[int]] = []
    for each, sums in fixed.items():
        for short, keys in _groups(table, columns, each).items():
            parts.append([places[key] for key in keys])
            known.append(sums[short])
    if max(map(abs, (*known, *table.values())), default=0) > LARGEST:
        return None
    cells = np.array([*table.values()], dtype=np.float64)
    found = agree(cells, parts, np.array(known, dtype=np.float64))
    if found is None or not found.near:
        return None
    return dict(zip(table, found.numbers[: len(cells)].tolist(), strict=True))


def _groups(table: Mapping[Key, int], columns: Columns, wanted: Columns) -> dict[Key, list[Key]]:
    """The keys of a table by their values in the wanted columns."""
    places = [at for at, name in enumerate(sorted(columns)) if name in wanted]
    found: dict[Key, list[Key]] = {}
    for key in table:
        found.setdefault(tuple(key[at] for at in places), []).append(key)
    return found


def _spread(table: Table, columns: Columns, whole: Columns, sums: Table) -> Table:
    """The table, moved to one margin: each sum is shared out among the cells that it is of."""
    found: Table = {}
    for short, keys in _groups(table, columns, whole).items():
        found |= zip(keys, fit_whole([table[key] for key in keys], sums[short]), strict=True)
    return {key: found[key] for key in table}


def fit_whole(parts: Sequence[float], total: int) -> list[int]:
    """Whole numbers near `parts`, not below 0, that add up to `total`.

    All parts move by the same amount, but for those at 0; the largest remainders are rounded up.

    >>> fit_whole([2.0, 2.0, 2.0], 8), fit_whole([5, 1, 0], 9), fit_whole([0.4, 3.6], 4)
    ([3, 3, 2], [6, 2, 1], [0, 4])
    """
    low, high = -float(total) - abs(max(parts)) - 1.0, max(parts) + 1.0

    def moved(shift: float) -> list[float]:
        return [max(part - shift, 0.0) for part in parts]

    for _ in range(_HALVINGS):  # the sum falls as the shift rises
        middle = (low + high) / 2.0
        low, high = (middle, high) if math.fsum(moved(middle)) >= total else (low, middle)
    near = moved(low)
    whole = [math.floor(each + 1e-9) for each in near]
    order = sorted(range(len(parts)), key=lambda at: (whole[at] - near[at], at))
    missing = total - sum(whole)
    while missing:  # by more than one each only where the numbers are beyond what doubles distinguish
        share = max(abs(missing) // len(parts), 1)
        for at in order:
            most_here = min(share, abs(missing))
            step = most_here if missing > 0 else -min(most_here, whole[at])
            whole[at] += int(step)
            missing -= int(step)
    return whole
