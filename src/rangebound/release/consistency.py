"""Numbers that fit together: post-processing of what is published anyway, off the budget."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from rangebound.release.answer import Cell
from rangebound.release.estimate import nearest
from rangebound.release.plan import Plan
from rangebound.release.question import Share


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
    """Cells that fit together: quantiles that rise, counts that add up to their total, shares that add up to 1.

    Counts by public key are fitted to the count without groups of the same rows, if the plan asks for one; shares are
    fitted if they name the same `partition`. What cannot be fitted, by the plan, is in `obstacles`.

    Guarantee: made of published numbers alone, so it costs nothing. Every number stays in its support, on its step and
    in its interval; a set of numbers that could not is left as it was drawn, and `notes` says so.
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
    return (*obstacles(plan), *dict.fromkeys(left))


def obstacles(plan: Plan) -> tuple[str, ...]:
    """Which numbers of a consistent plan are not about the same rows, so that they need not fit together, and why.

    Edge cases: an owner of many rows counts with `rows` of them in a total but with `rows` in each of `groups` groups;
    counts by group then rightly add up to more than the total, and are not forced to it.
    """
    if not plan.consistent:
        return ()
    found = []
    for index, total in _totals(plan):
        reason = _different(plan, index)
        if reason:
            found.append(f"counts {plan.query[index].name!r} are not fitted to {plan.query[total].name!r}: {reason}")
    found += [
        f"shares of partition {name!r} are not fitted: they are about different rows"
        for name, members in _partitions(plan).items()
        if _mixed(members)
    ]
    return tuple(found)


def _different(plan: Plan, index: int) -> str:
    """Why counts by group need not add up to their total; empty if they do."""
    if plan.private(plan.query[index].by):
        return "keys that are selected privately are not all there are"
    if plan.unit.column is not None:
        rows, groups = plan.unit.rows, plan.unit.groups
        return f"an owner counts with {rows} rows at most in the total, but with {rows} in each of {groups} groups"
    return ""


def _totals(plan: Plan) -> Iterator[tuple[int, int]]:
    """Counts by group, each with the count without groups of the same rows, where the plan asks for both."""
    for index, each in enumerate(plan.query):
        if each.kind == "count" and each.by:
            same = (
                at
                for at, other in enumerate(plan.query)
                if other.kind == "count" and not other.by and other.where == each.where
            )
            total = next(same, None)
            if total is not None:
                yield index, total


def _partitions(plan: Plan) -> dict[str, list[Share]]:
    found: dict[str, list[Share]] = {}
    for each in plan.query:
        if isinstance(each, Share) and each.partition is not None:
            found.setdefault(each.partition, []).append(each)
    return found


def _mixed(shares: Sequence[Share]) -> bool:
    return any((each.where, each.by) != (shares[0].where, shares[0].by) for each in shares)


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
        if plan.query[index].kind == "quantiles":
            for each in _by_key(cells, places).values():
                yield fit(f"quantiles {plan.query[index].name!r}", each, fit_order, rising=True)
    for index, total in _totals(plan):
        if not _different(plan, index):
            sum_ = cells[own[total][0]].value
            what = f"counts {plan.query[index].name!r}"
            yield fit(what, own[index], lambda values, sum_=sum_: fit_counts(values, sum_))  # type: ignore[misc]
    for name, members in _partitions(plan).items():
        if not _mixed(members):
            places = [at for at, cell in enumerate(cells) if plan.query[cell.question] in members]
            for each in _by_key(cells, places).values():
                yield fit(f"shares of partition {name!r}", each, lambda values: fit_total(values, 1.0))


def _by_key(cells: Sequence[Cell], places: Sequence[int]) -> dict[tuple[str, ...], list[int]]:
    found: dict[tuple[str, ...], list[int]] = {}
    for at in places:
        found.setdefault(cells[at].key, []).append(at)
    return found


def _allowed(plan: Plan, cell: Cell) -> bool:
    """Whether a cell may have its new value: in its support, on its step, in its interval."""
    question = plan.query[cell.question]
    if question.kind == "quantiles":  # only their order changes: every number was drawn from the question's own grid
        return cell.lower <= cell.value <= cell.upper
    step = 1.0 if question.kind == "count" and question.step is None else question.step
    return cell.lower <= cell.value <= cell.upper and nearest(cell.value, question.allowed, step) == cell.value


def fit_total(parts: Sequence[float], total: float, *, floor: float = 0.0) -> list[float]:
    """The non-negative numbers nearest to `parts` (least squares) that add up to `total`.

    Parts above their floor are moved by the same amount; those that would fall below it stay there.

    >>> fit_total([5.0, 1.0, 0.0], 9.0)
    [6.0, 2.0, 1.0]
    """
    order = sorted(parts, reverse=True)
    sums = list(itertools.accumulate(order))
    rest = total - floor * len(parts)
    moved = 0.0
    for count, (value, upto) in enumerate(zip(order, sums, strict=True), 1):
        shift = (upto - floor * count - rest) / count
        if value - floor >= shift:
            moved = shift
    return [max(each - moved, floor) for each in parts]


def fit_counts(parts: Sequence[float], total: float) -> list[float]:
    """The same in whole numbers: the largest remainders are rounded up, so that the sum is exact.

    >>> fit_counts([2.0, 2.0, 2.0], 8.0)
    [3.0, 3.0, 2.0]
    """
    fitted = fit_total(parts, total)
    whole = [float(int(each)) for each in fitted]
    missing = round(total - sum(whole))
    order = sorted(range(len(parts)), key=lambda at: (whole[at] - fitted[at], at))
    for at in order[: max(missing, 0)]:
        whole[at] += 1.0
    return whole


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
