"""Tables of counts whose margins agree: whole numbers, fitted from the total down.

A grouping is a set of columns. The sums of a table over some of its columns are a margin, and two tables of the same
rows agree if their margins over the columns that they share are the same. Margins are fixed from the smallest set of
columns to the largest; each table then moves to the margins inside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

Columns = frozenset[str]
Key = tuple[str, ...]
"""The values of the columns of a grouping, in the order of their names."""
Table = dict[Key, int]

MOST = 64
"""Groupings that are fixed at most, those that only two tables share included: as many as six columns have."""
_ROUNDS = 20
_HALVINGS = 64


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
    places = [at for at, name in enumerate(sorted(columns)) if name in wanted]
    found: Table = {}
    for key, value in table.items():
        short = tuple(key[at] for at in places)
        found[short] = found.get(short, 0) + value
    return found


def fitted(tables: Sequence[Asked]) -> list[Table | None]:
    """The tables, moved so that their margins agree; None for one that cannot move so, and stays as it was drawn.

    A margin that two tables share and nobody asked for is taken from the least noisy table that has it.

    Assumes: the tables share few groupings, as `closure` counts them; otherwise all stay.
    Guarantee: whole numbers that are not negative. Tables agree in every margin that they share, and always in their
    total, but for those that stay as they were drawn, and for circles.
    Edge cases: there may be no whole numbers with three margins that form a circle (by a and b, b and c, a and c). A
    table is then moved to the first ones; who asks for a circle compares the sums.
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
    whole: Columns = frozenset()
    sums: Table | None = None
    for each in inside:
        if sums is None:
            whole, sums = each, fixed[each]
        elif not each <= whole:
            shared, joint = whole & each, whole | each
            if margin(sums, whole, shared) == margin(fixed[each], each, shared):
                sums = _joined(margin(table, columns, joint), joint, (whole, sums), (each, fixed[each]))
                whole = joint
    if sums is None:
        return table
    return sums if whole == columns else _spread(table, columns, whole, sums)


def _groups(table: Table, columns: Columns, wanted: Columns) -> dict[Key, list[Key]]:
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


def _joined(table: Table, columns: Columns, one: tuple[Columns, Table], other: tuple[Columns, Table]) -> Table:
    """A table over the columns of two margins that agree, moved to both: a matrix for each value of what they share."""
    found: Table = {}
    lines, posts = _places(columns, one[0]), _places(columns, other[0])
    for keys in _groups(table, columns, one[0] & other[0]).values():
        rows = list(dict.fromkeys(lines(key) for key in keys))
        sides = list(dict.fromkeys(posts(key) for key in keys))
        at = {(lines(key), posts(key)): key for key in keys}
        matrix = [[float(table[at[row, side]]) for side in sides] for row in rows]
        fit = fit_margins(matrix, [one[1][row] for row in rows], [other[1][side] for side in sides])
        found |= {at[row, side]: fit[i][j] for i, row in enumerate(rows) for j, side in enumerate(sides)}
    return {key: found[key] for key in table}


def _places(columns: Columns, wanted: Columns) -> Callable[[Key], Key]:
    places = [at for at, name in enumerate(sorted(columns)) if name in wanted]
    return lambda key: tuple(key[at] for at in places)


def fit_whole(parts: Sequence[float], total: int, most: Sequence[int] | None = None) -> list[int]:
    """Whole numbers near `parts`, not below 0 nor above `most`, that add up to `total`, which they can.

    All parts move by the same amount, but for those at an end; the largest remainders are rounded up.

    >>> fit_whole([2.0, 2.0, 2.0], 8), fit_whole([5, 1, 0], 9, [5, 5, 5]), fit_whole([0.4, 3.6], 4)
    ([3, 3, 2], [5, 3, 1], [0, 4])
    """
    caps = [math.inf] * len(parts) if most is None else most
    low, high = -float(total) - abs(max(parts)) - 1.0, max(parts) + 1.0

    def moved(shift: float) -> list[float]:
        return [min(max(part - shift, 0.0), cap) for part, cap in zip(parts, caps, strict=True)]

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
            step = min(most_here, caps[at] - whole[at]) if missing > 0 else -min(most_here, whole[at])
            whole[at] += int(step)
            missing -= int(step)
    return whole


def fit_margins(matrix: Sequence[Sequence[float]], rows: Sequence[int], sides: Sequence[int]) -> list[list[int]]:
    """Whole numbers near a matrix, not below 0, with the given sums of rows and of columns, which have one total.

    >>> fit_margins([[3, 1], [1, 3]], [5, 4], [4, 5])
    [[3, 2], [1, 3]]
    """
    near = _nearby(matrix, rows, sides)
    left, carried, found = list(sides), [0.0] * len(sides), []
    for row, total in zip(near, rows, strict=True):
        wanted = [a + b for a, b in zip(row, carried, strict=True)]  # what rounding took from a column comes back below
        fit = fit_whole(wanted, total, left)
        carried = [a - b for a, b in zip(wanted, fit, strict=True)]
        left = [a - b for a, b in zip(left, fit, strict=True)]
        found.append(fit)
    return found


def _nearby(matrix: Sequence[Sequence[float]], rows: Sequence[int], sides: Sequence[int]) -> list[list[float]]:
    """Numbers near a matrix, not below 0, with nearly the given sums: each sum in turn is shared out evenly."""
    found = [list(row) for row in matrix]
    for _ in range(_ROUNDS):
        for row, total in zip(found, rows, strict=True):
            shift = (total - math.fsum(row)) / len(row)
            row[:] = [each + shift for each in row]
        shifts = [
            (total - math.fsum(column)) / len(found) for column, total in zip(_columns(found), sides, strict=True)
        ]
        found = [[max(each + shift, 0.0) for each, shift in zip(row, shifts, strict=True)] for row in found]
    return found


def _columns(matrix: Sequence[Sequence[float]]) -> Iterator[tuple[float, ...]]:
    return zip(*matrix, strict=True)
