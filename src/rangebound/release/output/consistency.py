"""Numbers that fit together: post-processing of what is published anyway, off the budget."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rangebound.release.noise.draw import Cell, Summed, nearest
from rangebound.release.noise.forms import form_of
from rangebound.release.output.table_margins import MOST, Asked, Key, closure, fitted, margin
from rangebound.release.plan.condition import Condition
from rangebound.release.plan.kinds.facts import Agreement
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.model import Plan
from rangebound.values import arguments


@dataclass(frozen=True, kw_only=True)
class _Fit:
    """Numbers that ought to fit together, by their places among the cells, and the nearest ones that do.

    `ends` are the intervals that go with them, where these move too.
    """

    what: str
    places: list[int]
    values: list[float]
    ends: list[tuple[float, float]]


def consistent(plan: Plan, cells: Sequence[Cell]) -> list[Cell]:
    """Cells that fit together: quantiles that rise, counts whose margins agree, shares that add up to 1.

    Counts and histograms of the same rows by public keys, asked in several ways, are fitted to each other: each total
    is the same in all of them, and stays as it was drawn if the plan asks for it. Shares are fitted if they name the
    same `partition`. What cannot be fitted, by the plan, is in `obstacles`. A total that nobody asked for is the sum of
    numbers that were drawn without clamping, where they were: clamped ones are biased, and their sum is so many times.

    Guarantee: made of published numbers alone, so it costs nothing. Every number stays in its support and on its step;
    a set of numbers that could not is left as it was drawn, and `notes` says so. An interval is widened to hold its
    number, and so holds the true one no less.
    Assumes: the custodian knows that the public keys are all there are, and that the shares are those of a partition.
    """
    found = list(cells)
    for fit in _fits(plan, cells):
        fitted = [
            replace(cells[at], value=value, lower=lower, upper=upper)
            for at, value, (lower, upper) in zip(fit.places, fit.values, fit.ends, strict=True)
        ]
        if all(_allowed(plan, cell) for cell in fitted):
            for at, cell in zip(fit.places, fitted, strict=True):
                found[at] = cell
    for family in _families(plan):
        if not family.reason:
            _agree(plan, family, cells, found)
    return found


def notes(plan: Plan, cells: Sequence[Cell]) -> tuple[str, ...]:
    """What a consistent plan could not make consistent, and why; made of the plan and published numbers alone."""
    if not plan.consistent:
        return ()
    left = [
        f"{fit.what} were left as drawn: fitted numbers would leave their support, step or interval"
        for fit in _fits(plan, cells)
        if any(abs(cells[at].value - value) > 1e-9 for at, value in zip(fit.places, fit.values, strict=True))
    ]
    for family in _families(plan):
        if not family.reason:
            left += _disagreements(plan, family, cells)
    return (*obstacles(plan), *dict.fromkeys(left))


def obstacles(plan: Plan) -> tuple[str, ...]:
    """Which numbers of a consistent plan are not about the same rows, so that they need not fit together, and why.

    Edge cases: an owner of many rows counts with `rows` of them in a total but with `rows` in each of `groups` groups;
    counts by group then rightly add up to more than the total, and are not forced to it.
    """
    if not plan.consistent:
        return ()
    found = []
    for family in _families(plan):
        if family.reason:
            first, *others = (plan.query[index].name for index in family.members)
            found += [f"counts {name!r} are not fitted to {first!r}: {family.reason}" for name in others]
    found += [
        f"histogram {plan.query[index].name!r} is not fitted to {plan.query[other].name!r}: "
        "rows without a value may be in no bin; `missing` gives them one"
        for index, other in _unlike(plan)
    ]
    found += [
        f"shares of partition {name!r} are not fitted: they are about different rows"
        for name, members in _partitions(plan).items()
        if _mixed(plan, members)
    ]
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class _Family:
    """Counts and histograms of the same rows, those with few groups first; `reason` says why they need not agree."""

    members: list[int]
    reason: str


def _families(plan: Plan) -> Iterator[_Family]:
    """The counts and histograms of each set of rows, where a plan asks for two or more; private keys on their own."""
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
            reason = "keys that are listed as combinations need not be all there are"
            yield _Family(members=[*public[:1], *combined], reason=reason)
        if len(public) > 1:
            yield _Family(members=public, reason=_different(plan, public) or _many(plan, public))
        if private and len(members) > 1:
            reason = "keys that are selected privately are not all there are"
            yield _Family(members=[*public[:1], *private], reason=reason)


def _unlike(plan: Plan) -> Iterator[tuple[int, int]]:
    """Histograms that leave out rows, each with a count of the same rows and of those."""
    for index, each in enumerate(plan.query):
        counts = (at for at, other in enumerate(plan.query) if _of_all(other) and other.where == each.where)
        other = next(counts, None)
        if each.agreement.lacking is not None and other is not None:
            yield index, other


def _of_all(question: Kind) -> bool:
    """Whether a question counts all rows that meet its conditions, in one number a group."""
    return question.agreement == Agreement(counts=True)


def _different(plan: Plan, members: Sequence[int]) -> str:
    """Why counts of the same rows need not agree; empty if they do."""
    units = [plan.unit_of(plan.query[index]) for index in members]
    if units[0].column is None:
        return ""
    if any(
        (each.rows, each.groups, each.period) != (units[0].rows, units[0].groups, units[0].period) for each in units
    ):
        return "they have different bounds on the rows and groups of an owner"
    if units[0].period is not None:
        return "an owner counts with so many rows at most in each period of a group, and in the total"
    rows, groups = units[0].rows, units[0].groups
    most = arguments.counted(rows, "row")
    apart = "one group alone" if groups == 1 else f"each of {arguments.counted(groups, 'group')}"
    return f"an owner counts with {most} at most in the total, but with {rows} in {apart}"


def _many(plan: Plan, members: Sequence[int]) -> str:
    """Why counts of the same rows are not made to agree though they do; empty if they are."""
    few = closure(frozenset(_names(plan.query[index])) for index in members) is not None
    return "" if few else f"together they have more than {MOST} sums by different columns to agree in"


def _names(question: Kind) -> list[str]:
    """What distinguishes the numbers of a count or a histogram."""
    bins = question.agreement.bins
    return [*question.by, *([bins] if bins else [])]


def _tables(plan: Plan, family: _Family, cells: Sequence[Cell]) -> list[tuple[Asked, dict[Key, int]]]:
    """The tables of a family, each with the places of its cells."""
    found = []
    for index in family.members:
        question = plan.query[index]
        names, bins = _names(question), question.agreement.bins is not None
        order = sorted(range(len(names)), key=lambda at: names[at])
        places: dict[Key, int] = {}
        for at, cell in enumerate(cells):
            if cell.question == index:
                parts = (*map(str, cell.key), *([cell.part] if bins else []))
                places[tuple(parts[each] for each in order)] = at
        epsilon, mu = (
            max((getattr(cells[at], cost) for at in places.values()), default=0.0) for cost in ("epsilon", "mu")
        )
        noise = len(places) / (epsilon or math.sqrt(2.0) * mu) ** 2 if epsilon or mu else 0.0

        def allowed(table: Mapping[Key, int], places: Mapping[Key, int] = places) -> bool:
            return all(_fits_in(plan, cells[places[key]], float(value)) for key, value in table.items())

        drawn = {key: round(cells[at].value) for key, at in places.items()}
        unclamped = {key: round(_unclamped(plan, question, cells[at])) for key, at in places.items()}
        asked = Asked(columns=frozenset(names), drawn=drawn, unclamped=unclamped, noise=noise, allowed=allowed)
        found.append((asked, places))
    return found


def _unclamped(plan: Plan, question: Kind, cell: Cell) -> float:
    """The number as it was drawn without clamping, which has no bias; the published one where there is none."""
    found = form_of(question, plan.unit_of(question)).drawn_number(cell.draws, cell.mu)
    return cell.value if found is None else found


def _agree(plan: Plan, family: _Family, cells: Sequence[Cell], found: list[Cell]) -> None:
    """Put counts whose margins agree in the place of those that were drawn."""
    tables = _tables(plan, family, cells)
    for (_, places), table in zip(tables, fitted([asked for asked, _ in tables]), strict=True):
        for key, value in (table or {}).items():
            cell, number = cells[places[key]], float(value)
            lower, upper = min(cell.lower, number), max(cell.upper, number)
            found[places[key]] = replace(cell, value=number, lower=lower, upper=upper)


def _disagreements(plan: Plan, family: _Family, cells: Sequence[Cell]) -> Iterator[str]:
    """Which tables of a family do not agree, by adding up what is published."""
    tables = [asked for asked, _ in _tables(plan, family, cells)]
    for (one, first), (two, second) in itertools.combinations(zip(family.members, tables, strict=True), 2):
        shared = first.columns & second.columns
        if margin(first.drawn, first.columns, shared) != margin(second.drawn, second.columns, shared):
            yield (
                f"counts {plan.query[two].name!r} and {plan.query[one].name!r} were left apart: no whole numbers in "
                "their supports and on their steps were found that add up to each other and to all other counts"
            )


def _fits_in(plan: Plan, cell: Cell, value: float) -> bool:
    """Whether a count may be this number: in its support and on its step."""
    question = plan.query[cell.question]
    return nearest(value, question.allowed, question.step or 1.0) == value


def _partitions(plan: Plan) -> dict[str, list[Kind]]:
    found: dict[str, list[Kind]] = {}
    for each in plan.query:
        if each.agreement.partition is not None:
            found.setdefault(each.agreement.partition, []).append(each)
    return found


def _mixed(plan: Plan, shares: Sequence[Kind]) -> bool:
    return len({(each.where, each.by, plan.unit_of(each)) for each in shares}) > 1


def _fits(plan: Plan, cells: Sequence[Cell]) -> Iterator[_Fit]:
    def fit(
        what: str, places: list[int], how: Callable[[Sequence[float]], list[float]], *, rising: bool = False
    ) -> _Fit:
        ends = [(cells[at].lower, cells[at].upper) for at in places]
        values = how([cells[at].value for at in places])
        return _Fit(what=what, places=places, values=values, ends=widened(ends) if rising else ends)

    own: dict[int, list[int]] = {}
    for at, cell in enumerate(cells):
        own.setdefault(cell.question, []).append(at)
    for index, places in own.items():
        if plan.query[index].agreement.rising:
            for each in _by_key(cells, places).values():
                yield fit(f"quantiles {plan.query[index].name!r}", each, fit_order, rising=True)
    for name, members in _partitions(plan).items():
        if not _mixed(plan, members):
            places = [at for at, cell in enumerate(cells) if plan.query[cell.question] in members]
            for each in _by_key(cells, places).values():
                yield fit(f"shares of partition {name!r}", each, lambda values: fit_total(values, 1.0))


def _by_key(cells: Sequence[Cell], places: Sequence[int]) -> dict[Summed, list[int]]:
    found: dict[Summed, list[int]] = {}
    for at in places:
        found.setdefault(cells[at].key, []).append(at)
    return found


def _allowed(plan: Plan, cell: Cell) -> bool:
    """Whether a cell may have its new value: in its support, on its step, in its interval."""
    question = plan.query[cell.question]
    if question.agreement.rising:  # only their order changes: every number was drawn from the question's own grid
        return cell.lower <= cell.value <= cell.upper
    return cell.lower <= cell.value <= cell.upper and nearest(cell.value, question.allowed, question.step) == cell.value


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


def fit_order(values: Sequence[float]) -> list[float]:
    """The numbers in rising order: for quantiles, which were asked for at rising levels.

    Sorting never moves the set of numbers, so each stays on its grid and in its support; and it never makes the largest
    error larger.

    >>> fit_order([3.0, 2.0, 5.0])
    [2.0, 3.0, 5.0]
    """
    return sorted(values)


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
