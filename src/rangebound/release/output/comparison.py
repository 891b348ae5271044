"""Differences between the groups of a question, in the population: an interval and a p-value for each pair."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations

from rangebound.errors import ArgumentError, Unsatisfiable
from rangebound.release.noise.draw import Cell, Estimate
from rangebound.release.output.plan_facts import PlanFacts, Row
from rangebound.release.plan.statistic import Pair
from rangebound.release.prepare import PreparedQuestion

_RARE = 0.1  # up to this part beyond, roots of sums of squares are wide enough for sums of Laplace noise
_STEPS, _MOST = 16, 640  # of p-values: this many in a halving, and the least of them
_HALF, _FEW = 0.8, 48  # those of larger ones, from 0.1 to this

_Ends = Callable[[int, float], Pair]


def compare_groups(
    facts: PlanFacts | None, cells: Sequence[Cell], question: str, *, by: str, level: float
) -> list[Row]:
    """Every pair of groups that differ in one column alone; see `Release.compare`.

    For numbers a and b with the intervals (a1, a2) and (b1, b2) the difference has the interval from
    a - b - sqrt((a - a1)^2 + (b2 - b)^2) to a - b + sqrt((a2 - a)^2 + (b - b1)^2) [zou2008], which for normal and for
    Laplace errors holds as often as they do, from 90 % on. Below that, and where a unit may be in both groups, sums
    stand in place of the roots. A p-value is the least part beyond at which 0 is outside, rounded up by 4 % at most.
    """
    if facts is None:
        raise Unsatisfiable(f"question={question!r}: how its noise was drawn is not known to this version")
    names = [each.question.name for each in facts.questions]
    if question not in names:
        raise ArgumentError(f"question={question!r}: must be a question of the table: {', '.join(names)}")
    own = facts.questions[index := names.index(question)]
    if by not in own.question.by:
        raise ArgumentError(f"by={by!r}: must be a column that {question!r} is grouped by: {own.question.by}")
    if isinstance(own.sampled, str):
        raise Unsatisfiable(f"question={question!r}: {own.sampled}")
    if not 0.0 < level < 1.0:
        raise ArgumentError(f"level={level!r}: must be between 0 and 1")
    groups = [cell for cell in cells if cell.question == index]
    ends, at = _ends(own, groups), own.question.by.index(by)
    both = own.unit.column is not None and own.unit.groups > 1
    pairs = [
        (one, two)
        for one, two in combinations(range(len(groups)), 2)
        if _without(groups[one], at) == _without(groups[two], at)
    ]
    return [_compared(own, groups, pair, at, ends, both=both, level=level, pairs=len(pairs)) for pair in pairs]


def _without(cell: Cell, at: int) -> tuple[object, ...]:
    return (*cell.key[:at], *cell.key[at + 1 :], cell.part)


def _ends(own: PreparedQuestion, groups: Sequence[Cell]) -> _Ends:
    """The interval of a group that leaves a part beyond it, found once."""

    @lru_cache(maxsize=None)
    def ends(group: int, beyond: float) -> Pair:
        cell = groups[group]
        number = Estimate(value=cell.value, lower=cell.value, upper=cell.value)
        found = own.of_population(number, cell.draws, 1.0 - beyond)
        return found["population_lower"], found["population_upper"]

    return ends


def _compared(
    own: PreparedQuestion,
    groups: Sequence[Cell],
    pair: tuple[int, int],
    at: int,
    ends: _Ends,
    *,
    both: bool,
    level: float,
    pairs: int,
) -> Row:
    first, second = (groups[each] for each in pair)
    difference = first.value - second.value

    def interval(beyond: float) -> Pair:
        """That of the difference, which leaves this part beyond it."""
        plain = both or beyond > _RARE
        add: Callable[[float, float], float] = (lambda a, b: a + b) if plain else math.hypot
        part = beyond / 2.0 if beyond > _RARE or both else beyond
        (low, high), (least, most) = (ends(each, part) for each in pair)
        down, up = add(first.value - low, most - second.value), add(high - first.value, second.value - least)
        return difference - down, difference + up

    def excluded(beyond: float) -> bool:
        lower, upper = interval(beyond)
        return not lower <= 0.0 <= upper

    lower, upper = interval((1.0 - level) / pairs)
    others = {name: key for name, key in zip(own.question.by, first.key, strict=True) if name != own.question.by[at]}
    return {
        **others,
        **({"part": first.part} if first.part else {}),
        "first": first.key[at],
        "second": second.key[at],
        "difference": difference,
        "lower": lower,
        "upper": upper,
        "p_value": min(_least(excluded) * pairs, 1.0),
    }


def _least(excluded: Callable[[float], bool]) -> float:
    """The least part beyond, of those that are tried, at which 0 is outside; 1 where there is none."""
    largest, most = (_RARE, _MOST) if excluded(_RARE) else (_HALF, _FEW)
    if not excluded(largest):
        return 1.0
    inside, outside = most, 0
    while inside - outside > 1:
        middle = (inside + outside) // 2
        if excluded(largest * 2.0 ** (-middle / _STEPS)):
            outside = middle
        else:
            inside = middle
    return float(largest * 2.0 ** (-outside / _STEPS))
