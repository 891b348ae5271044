"""Numbers that fit together: post-processing of what is published anyway, off the budget."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

from rangebound.release.answer import Cell
from rangebound.release.plan import Plan
from rangebound.release.question import Share


def consistent(plan: Plan, cells: Sequence[Cell]) -> list[Cell]:
    """Cells that fit together: quantiles that rise, counts that add up to their total, shares that add up to 1.

    Counts by public key are fitted to the count without groups of the same rows, if the plan asks for one; shares are
    fitted if they name the same `partition`.

    Guarantee: made of published numbers alone, so it costs nothing. Every number stays in its support; a set of numbers
    that could not is left as it was.
    Assumes: the custodian knows that the public keys are all there are, and that the shares are those of a partition.
    """
    found = list(cells)
    for index, question in enumerate(plan.query):
        own = [at for at, cell in enumerate(found) if cell.question == index]
        if question.kind == "quantiles":
            for key in dict.fromkeys(found[at].key for at in own):
                _refit(plan, found, [at for at in own if found[at].key == key], fit_order)
        elif question.kind == "count" and question.by and not plan.private(question.by):
            total = _total_of(plan, found, index)
            if total is not None:
                _refit(plan, found, own, _to(fit_counts, total))
    shares = [(at, plan.query[cell.question], cell.key) for at, cell in enumerate(found)]
    sets: dict[tuple[object, ...], list[int]] = {}
    for at, question, key in shares:
        if isinstance(question, Share) and question.partition is not None:
            sets.setdefault((question.partition, question.by, key), []).append(at)
    for places in sets.values():
        _refit(plan, found, places, _to(fit_total, 1.0))
    return found


def _to(fit: Callable[[Sequence[float], float], list[float]], total: float) -> Callable[[Sequence[float]], list[float]]:
    return lambda values: fit(values, total)


def _total_of(plan: Plan, cells: list[Cell], index: int) -> float | None:
    """The published count without groups of the same rows, if the plan asks for one."""
    for other, each in enumerate(plan.query):
        if each.kind == "count" and not each.by and each.where == plan.query[index].where:
            return next(cell.value for cell in cells if cell.question == other)
    return None


def _refit(plan: Plan, cells: list[Cell], places: list[int], fit: Callable[[Sequence[float]], list[float]]) -> None:
    fitted = fit([cells[at].value for at in places])
    for at, value in zip(places, fitted, strict=True):
        if not any(lower <= value <= upper for lower, upper in plan.query[cells[at].question].allowed.spans):
            return
    for at, value in zip(places, fitted, strict=True):
        cells[at] = replace(cells[at], value=value)


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
