"""Differences between the groups of a question, in the population: an interval and a p-value for each pair."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import combinations

from rangebound.errors import ArgumentError, Unsatisfiable
from rangebound.release.noise.draw import Cell
from rangebound.release.output.plan_facts import PlanFacts, Row
from rangebound.release.plan.kinds.facts import Sampled
from rangebound.release.plan.statistic import Pair

_RARE = 0.1  # up to this part beyond, roots of sums of squares are wide enough for sums of Laplace noise
_STEPS, _MOST = 16, 640  # of p-values: this many in a halving, and the least of them
_HALF, _FEW = 0.8, 48  # those of larger ones, from 0.1 to this


def compare_groups(
    facts: PlanFacts | None, cells: Sequence[Cell], question: str, *, by: str, level: float
) -> list[Row]:
    """Every pair of groups that differ in one column alone; see `Release.compare`.

    For numbers a and b with the intervals (a1, a2) and (b1, b2) the difference has the interval from
    a - b - sqrt((a - a1)^2 + (b2 - b)^2) to a - b + sqrt((a2 - a)^2 + (b - b1)^2) [zou2008], which for normal errors
    holds as often as they do, and for Laplace errors from 91 % on; at 90 % it holds 89.8 % of the time. Below that,
    where a unit may be in both groups, and where their errors are `crossed`, stand sums, of intervals that leave half
    as much beyond, which hold whatever the errors have to do with each other. A p-value is the least part beyond at
    which 0 is outside, rounded up by 4.4 %: it may be as much above 1 - level where the interval leaves 0 out, and
    below that where a wider interval, at less than 90 % for a pair, holds 0.
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
    if not isinstance(own.sampled, Sampled):
        raise Unsatisfiable(f"question={question!r}: no difference is proved for kind {own.question.kind!r}")
    if not 0.0 < level < 1.0:
        raise ArgumentError(f"level={level!r}: must be between 0 and 1")
    groups, at = [cell for cell in cells if cell.question == index], own.question.by.index(by)
    others = [(*cell.key[:at], *cell.key[at + 1 :], cell.part) for cell in groups]
    both = own.sampled.crossed or (own.unit.column is not None and own.unit.groups > 1)

    @cache
    def ends(group: int, beyond: float) -> Pair:
        """The interval of a group that leaves a part beyond it."""
        found = own.of_population(groups[group].value, groups[group].draws, 1.0 - beyond)
        return found["population_lower"], found["population_upper"]

    def interval(pair: tuple[int, int], beyond: float) -> Pair:
        """That of a difference, which leaves this part beyond it."""
        plain = both or beyond > _RARE
        add: Callable[[float, float], float] = (lambda a, b: a + b) if plain else math.hypot
        (low, high), (least, most) = (ends(each, beyond / 2.0 if plain else beyond) for each in pair)
        one, two = (groups[each].value for each in pair)
        return one - two - add(one - low, most - two), one - two + add(high - one, two - least)

    pairs = [pair for pair in combinations(range(len(groups)), 2) if len({others[each] for each in pair}) == 1]
    found = []
    for pair in pairs:
        first, second = (groups[each] for each in pair)
        lower, upper = interval(pair, (1.0 - level) / len(pairs))
        found.append(
            {
                **{name: key for name, key in zip(own.question.by, first.key, strict=True) if name != by},
                **({"part": first.part} if first.part else {}),
                "first": first.key[at],
                "second": second.key[at],
                "difference": first.value - second.value,
                "lower": lower,
                "upper": upper,
                "p_value": min(_least(partial(interval, pair)) * len(pairs), 1.0),
            }
        )
    return found


def _least(interval: Callable[[float], Pair]) -> float:
    """The least part beyond, of those that are tried, at which 0 is outside; 1 where there is none."""

    def excluded(beyond: float) -> bool:
        lower, upper = interval(beyond)
        return not lower <= 0.0 <= upper

    largest, most = (_RARE, _MOST) if excluded(_RARE) else (_HALF, _FEW)
    if not excluded(largest):
        return 1.0
    outside = 0
    while most - outside > 1:
        middle = (most + outside) // 2
        outside, most = (middle, most) if excluded(largest * 2.0 ** (-middle / _STEPS)) else (outside, middle)
    return float(largest * 2.0 ** (-outside / _STEPS))
