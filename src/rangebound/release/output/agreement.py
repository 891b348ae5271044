"""Numbers that fit together: post-processing of what is published anyway, off the budget.

Quantiles rise, shares of a partition add up to 1, and counts of the same rows agree. Those are tables, each by a set of
columns. The sums of a table over some of its columns are a margin, and two tables agree if their margins over the
columns that they share are the same. Margins are fixed from the smallest set of columns to the largest; each table then
moves to the margins inside it, by least squares.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rangebound.release.noise.draw import Cell, Summed, nearest, with_own_interval
from rangebound.release.noise.forms import form_of
from rangebound.release.noise.projection import LARGEST, agree
from rangebound.release.plan.condition import Condition
from rangebound.release.plan.kinds.facts import Agreement
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.model import Plan
from rangebound.values import arguments

_Columns = frozenset[str]
_Key = tuple[str, ...]
"""The values of the columns of a table, in the order of their names."""
_Table = dict[_Key, int]

_MOST = 64  # sets of columns that are fixed at most, those that only two tables share included: as many as six have
_HALVINGS = 64
_CIRCLED = 4000  # cells of a table with three margins or more: whole numbers take 3 s for that many, 15 s for 9,000


def consistent(plan: Plan, cells: Sequence[Cell]) -> list[Cell]:
    """Cells that fit together: quantiles that rise, counts whose margins agree, shares that add up to 1.

    Counts and histograms of the same rows by public keys, asked in several ways, are fitted to each other: each total
    is the same in all of them, and stays as it was drawn if the plan asks for it. Shares are fitted if they name the
    same `partition`. What cannot be fitted, by the plan, is in `obstacles`. A total that nobody asked for is the sum of
    numbers that were drawn without clamping, where they were: each clamped one is biased, and their sum by all of it.

    Guarantee: made of published numbers alone, so it costs nothing. Every number stays in its support and on its step;
    a set of numbers that could not is left as it was drawn, and `notes` says so. An interval is widened to hold its
    number, and so holds the true one no less.
    Assumes: the custodian knows that the public keys are all there are, and that the shares are those of a partition.
    """
    found = list(cells)
    for fit in _fits(plan, cells):
        moved = [
            replace(cells[at], value=value, lower=lower, upper=upper)
            for at, value, (lower, upper) in zip(fit.places, fit.values, fit.ends, strict=True)
        ]
        inside = all(cell.lower <= cell.value <= cell.upper for cell in moved)
        rising = plan.query[moved[0].question].agreement.rising  # only their order changes, and all are of the grid
        if inside and (rising or all(_is_point(plan.query[cell.question], cell.value) for cell in moved)):
            for at, cell in zip(fit.places, moved, strict=True):
                found[at] = cell
    for members, reason in _families(plan):
        tables = [] if reason else _tables(plan, members, cells)
        for asked, table in zip(tables, _fitted(tables), strict=True):
            for key, value in (table or {}).items():
                cell, number = cells[asked.places[key]], float(value)
                lower, upper = min(cell.lower, number), max(cell.upper, number)
                found[asked.places[key]] = replace(cell, value=number, lower=lower, upper=upper)
    return list(map(with_own_interval, found))


def notes(plan: Plan, cells: Sequence[Cell]) -> tuple[str, ...]:
    """What a consistent plan could not make consistent, and why; made of the plan and published numbers alone."""
    if not plan.consistent:
        return ()
    left = [
        f"{fit.what} were left as drawn: fitted numbers would leave their support, step or interval"
        for fit in _fits(plan, cells)
        if any(abs(cells[at].value - value) > 1e-9 for at, value in zip(fit.places, fit.values, strict=True))
    ]
    for members, reason in _families(plan):
        tables = [] if reason else _tables(plan, members, cells)
        for one, two in itertools.combinations(tables, 2):
            shared = one.columns & two.columns
            if _margin(one.drawn, one.columns, shared) != _margin(two.drawn, two.columns, shared):
                left.append(
                    f"counts {two.question.name!r} and {one.question.name!r} were left apart: no whole numbers in "
                    "their supports and on their steps were found that add up to each other and to all other counts"
                )
    return (*obstacles(plan), *dict.fromkeys(left))


def obstacles(plan: Plan) -> tuple[str, ...]:
    """Which numbers of a consistent plan are not about the same rows, so that they need not fit together, and why.

    Edge cases: an owner of many rows counts with `rows` of them in a total but with `rows` in each of `groups` groups;
    counts by group then rightly add up to more than the total, and are not forced to it.
    """
    if not plan.consistent:
        return ()
    found = []
    for members, reason in _families(plan):
        first, *others = (plan.query[index].name for index in members)
        found += [f"counts {name!r} are not fitted to {first!r}: {reason}" for name in others if reason]
    counts = [each for each in plan.query if each.agreement == Agreement(counts=True)]
    for each in plan.query:
        other = next((other for other in counts if other.where == each.where), None)
        if each.agreement.lacking is not None and other is not None:  # it leaves out rows, which the other counts
            found.append(
                f"histogram {each.name!r} is not fitted to {other.name!r}: "
                "rows without a value may be in no bin; `missing` gives them one"
            )
    found += [
        f"shares of partition {name!r} are not fitted: they are about different rows"
        for name, _, mixed in _partitions(plan)
        if mixed
    ]
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class _Fit:
    """Numbers that ought to fit together, by their places among the cells, and the nearest ones that do.

    `ends` are the intervals that go with them, where these move too.
    """

    what: str
    places: list[int]
    values: list[float]
    ends: list[tuple[float, float]]


def _fits(plan: Plan, cells: Sequence[Cell]) -> Iterator[_Fit]:
    own: dict[int, dict[Summed, list[int]]] = {}
    for at, cell in enumerate(cells):
        own.setdefault(cell.question, {}).setdefault(cell.key, []).append(at)
    for index, groups in own.items():
        for places in groups.values() if plan.query[index].agreement.rising else ():
            ends = widened([(cells[at].lower, cells[at].upper) for at in places])
            values = sorted(cells[at].value for at in places)  # so each stays on its grid and in its support
            yield _Fit(what=f"quantiles {plan.query[index].name!r}", places=places, values=values, ends=ends)
    for name, members, mixed in _partitions(plan):
        together: dict[Summed, list[int]] = {}
        for key, places in (each for index in members for each in own.get(index, {}).items()):
            together.setdefault(key, []).extend(places)
        for places in () if mixed else together.values():
            ends, values = [(cells[at].lower, cells[at].upper) for at in places], [cells[at].value for at in places]
            yield _Fit(what=f"shares of partition {name!r}", places=places, values=fit_total(values, 1.0), ends=ends)


def _is_point(question: Kind, value: float, step: float | None = None) -> bool:
    """Whether a number lies in the support of a question, and on its step, or on one that stands for none."""
    return nearest(value, question.allowed, question.step or step) == value


def _partitions(plan: Plan) -> Iterator[tuple[str, list[int], bool]]:
    """The shares of each partition, and whether they are about different rows."""
    found: dict[str, list[int]] = {}
    for index, each in enumerate(plan.query):
        if each.agreement.partition is not None:
            found.setdefault(each.agreement.partition, []).append(index)
    for name, members in found.items():
        shares = [plan.query[index] for index in members]
        yield name, members, len({(each.where, each.by, plan.unit_of(each)) for each in shares}) > 1


def fit_total(parts: Sequence[float], total: float) -> list[float]:
    """The non-negative numbers nearest to `parts` (least squares) that add up to `total`.

    All move by the same amount, but for those that would fall below 0, which become 0.

    >>> fit_total([5.0, 1.0, 0.0], 9.0)
    [6.0, 2.0, 1.0]
    """
    order = sorted(parts, reverse=True)
    sums = list(itertools.accumulate(order))
    moved = 0.0
    for count, (value, upto) in enumerate(zip(order, sums, strict=True), 1):
        shift = (upto - total) / count
        if value >= shift:
            moved = shift
    return [max(each - moved, 0.0) for each in parts]


def widened(intervals: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Intervals that rise with the level, each at least as wide as it was.

    A lower end goes down to the lowest of the later ones, an upper end up to the highest of the earlier ones. If each
    interval held its number, the rising ones hold the numbers in rising order.

    >>> widened([(1.0, 6.0), (0.0, 4.0), (3.0, 9.0)])
    [(0.0, 6.0), (0.0, 6.0), (3.0, 9.0)]
    """
    lower = list(itertools.accumulate((low for low, _ in reversed(intervals)), min))
    upper = itertools.accumulate((high for _, high in intervals), max)
    return list(zip(reversed(lower), upper, strict=True))


def _families(plan: Plan) -> Iterator[tuple[list[int], str]]:
    """The counts and histograms of each set of rows, where a plan asks for two or more; private keys on their own.

    Those with few groups come first; behind them stands why they need not agree, or nothing.
    """
    found: dict[tuple[tuple[Condition, ...], str | None], list[int]] = {}
    for index, each in enumerate(plan.query):
        if each.agreement.counts:
            found.setdefault((each.where, each.agreement.lacking), []).append(index)
    for members in found.values():
        members.sort(key=lambda index: len(_names(plan.query[index])))
        private = [index for index in members if plan.private(plan.query[index].by)]
        combined = [index for index in members if plan.combined(plan.query[index].by)]
        public = [index for index in members if index not in (*private, *combined)]
        if combined and len(members) > 1:
            yield [*public[:1], *combined], "keys that are listed as combinations need not be all there are"
        if len(public) > 1:
            yield public, _different(plan, [plan.query[index] for index in public])
        if private and len(members) > 1:
            yield [*public[:1], *private], "keys that are selected privately are not all there are"


def _different(plan: Plan, members: Sequence[Kind]) -> str:
    """Why counts of the same rows need not agree, or are not made to; empty if they are."""
    bounds = {(each.column, each.rows, each.groups, each.period) for each in map(plan.unit_of, members)}
    column, rows, groups, period = next(iter(bounds))
    if column is None:
        few = _closure(frozenset(_names(each)) for each in members) is not None
        return "" if few else f"together they have more than {_MOST} sums by different columns to agree in"
    if len(bounds) > 1:
        return "they have different bounds on the rows and groups of an owner"
    if period is not None:
        most = f"at most {arguments.counted(rows, 'row')} per period"
        return f"an owner counts with {most}, in each group and again in the total"
    apart = "one group alone" if groups == 1 else f"each of {arguments.counted(groups, 'group')}"
    return f"an owner counts with {arguments.counted(rows, 'row')} at most in the total, but with {rows} in {apart}"


def _names(question: Kind) -> list[str]:
    """What distinguishes the numbers of a count or a histogram."""
    bins = question.agreement.bins
    return [*question.by, *([bins] if bins else [])]


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """A table of counts as it was drawn: the places of its cells, its numbers, and how noisy its sums are.

    `drawn` has the numbers in their supports, `unclamped` those from which sums are made: negative where they are.
    """

    question: Kind
    columns: _Columns
    places: dict[_Key, int]
    drawn: _Table
    unclamped: _Table
    noise: float


def _tables(plan: Plan, members: Sequence[int], cells: Sequence[Cell]) -> list[_Asked]:
    """The tables of a family."""
    found = []
    for index in members:
        question = plan.query[index]
        form, names = form_of(question, plan.unit_of(question)), _names(question)
        order = sorted(range(len(names)), key=lambda at: names[at])
        places: dict[_Key, int] = {}
        unclamped: _Table = {}
        for at, cell in enumerate(cells):
            if cell.question == index:
                parts = (*map(str, cell.key), *([cell.part] if question.agreement.bins is not None else []))
                key = tuple(parts[each] for each in order)
                number = form.drawn_number(cell.draws, cell.mu)  # without clamping, where it has such a number
                places[key], unclamped[key] = at, round(cell.value if number is None else number)
        own = [cells[at] for at in places.values()]
        epsilon, mu = max((each.epsilon for each in own), default=0.0), max((each.mu for each in own), default=0.0)
        asked = _Asked(
            question=question,
            columns=frozenset(names),
            places=places,
            drawn={key: round(cells[at].value) for key, at in places.items()},
            unclamped=unclamped,
            noise=len(places) / (epsilon or math.sqrt(2.0) * mu) ** 2 if epsilon or mu else 0.0,
        )
        found.append(asked)
    return found


def _fitted(tables: Sequence[_Asked]) -> list[_Table | None]:
    """The tables, moved so that their margins agree; None for one that cannot move so, and stays as it was drawn.

    A margin that two tables share and nobody asked for is taken from the least noisy table that has it.

    Assumes: the tables share few sets of columns, as `_closure` counts them; otherwise all stay.
    Guarantee: whole numbers that are not negative. Tables agree in every margin that they share, and always in their
    total, but for those that stay as they were drawn, and for circles.
    Edge cases: there may be no whole numbers with three margins that form a circle (by a and b, b and c, a and c), and
    for large tables they are not sought. A table is then moved to the first ones; who asks for a circle compares the
    sums.
    """
    fixed: dict[_Columns, _Table] = {}
    found: dict[int, _Table | None] = {}
    for columns in _closure([each.columns for each in tables]) or ():
        own = [at for at, each in enumerate(tables) if each.columns == columns]
        above = [at for at, each in enumerate(tables) if columns <= each.columns]
        best = tables[min(own or above, key=lambda at: (tables[at].noise, at))]
        free = not any(each < columns for each in fixed)
        source = best.drawn if own and free else best.unclamped  # what was asked for and need not move stays
        table = _moved_to(_margin(source, best.columns, columns), columns, fixed)
        table = {key: max(value, 0) for key, value in table.items()}
        if all(_is_point(tables[at].question, float(each), 1.0) for at in own for each in table.values()):
            fixed[columns] = table
        for at in own:
            found[at] = fixed.get(columns)
    return [found.get(at) for at in range(len(tables))]


def _closure(sets: Iterable[_Columns]) -> list[_Columns] | None:
    """The sets and all their intersections, small ones first; None for more than `_MOST`, of which n may have 2^n.

    >>> [sorted(each) for each in _closure([frozenset("ab"), frozenset("bc")]) or ()]
    [['b'], ['a', 'b'], ['b', 'c']]
    """
    found: set[_Columns] = set()
    for each in sets:
        found |= {each, *(each & other for other in found)}
        if len(found) > _MOST:
            return None
    return sorted(found, key=lambda each: (len(each), sorted(each)))


def _margin(table: Mapping[_Key, int], columns: _Columns, wanted: _Columns) -> _Table:
    """The sums of a table over all columns but the wanted ones.

    >>> _margin({("a", "x"): 1, ("a", "y"): 2, ("b", "x"): 3}, frozenset({"g", "h"}), frozenset({"g"}))
    {('a',): 3, ('b',): 3}
    """
    return {short: sum(table[key] for key in keys) for short, keys in _groups(table, columns, wanted).items()}


def _groups(table: Mapping[_Key, int], columns: _Columns, wanted: _Columns) -> dict[_Key, list[_Key]]:
    """The keys of a table by their values in the wanted columns."""
    places = [at for at, name in enumerate(sorted(columns)) if name in wanted]
    found: dict[_Key, list[_Key]] = {}
    for key in table:
        found.setdefault(tuple(key[at] for at in places), []).append(key)
    return found


def _moved_to(table: _Table, columns: _Columns, fixed: Mapping[_Columns, _Table]) -> _Table:
    """The table, moved to the margins inside it that are fixed; the last one of a circle may find no room."""
    inside = sorted((each for each in fixed if each < columns), key=lambda each: (-len(each), sorted(each)))
    largest = [each for each in inside if not any(each < other for other in inside)]
    found = _with_margins(table, columns, {each: fixed[each] for each in largest})
    if found is not None:
        return found
    kept: dict[_Columns, _Table] = {}
    for each in inside:
        if not any(each < other for other in kept):
            nearer = _with_margins(table, columns, {**kept, each: fixed[each]})
            found, kept = (found, kept) if nearer is None else (nearer, {**kept, each: fixed[each]})
    return table if found is None else found


def _with_margins(table: _Table, columns: _Columns, fixed: Mapping[_Columns, _Table]) -> _Table | None:
    """The nearest table of whole numbers that are not negative and have these sums; None where none is found.

    One margin has a formula, several need a solver; more than two of a large table would take it too long.
    """
    if not fixed:
        return table
    if len(fixed) > 2 and len(table) > _CIRCLED:
        return None
    if len(fixed) == 1:
        ((only, sums),) = fixed.items()
        spread: _Table = {}
        for short, keys in _groups(table, columns, only).items():
            spread |= zip(keys, fit_whole([table[key] for key in keys], sums[short]), strict=True)
        return {key: spread[key] for key in table}
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
