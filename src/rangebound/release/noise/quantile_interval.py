"""The interval of a quantile: two more draws, at ranks moved outwards so far that the quantile lies between them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

from rangebound.release.noise import exponential_mechanism as exponential
from rangebound.release.noise.exponential_mechanism import Bits
from rangebound.support import Interval, Union

_DEFINITIONS = 1  # rows by which the usual definitions of a sample quantile differ from the rank level * n


def margin(places: int, speed: Fraction, level: float) -> Fraction:
    """How many rows outwards an end is aimed, so that it passes the quantile with probability (1 - level) / 2 at most.

    ln(2 places / (1 - level)) / speed, rounded up, and one row more.

    Guarantee: an end that passes the quantile misses its aim by ln(2 places / (1 - level)) / speed rows or more, while
    some point misses it by none, so each of the `places` points that pass has at most e^-that of the whole weight.
    """
    logarithm = Fraction(math.log(2.0 * places / (1.0 - level))) * Fraction(2**30 + 1, 2**30)
    return Fraction(math.ceil(logarithm / speed * 1024), 1024) + _DEFINITIONS


def misses(counts: Sequence[Fraction], level: Fraction, shift: Fraction) -> list[Fraction]:
    """By how many rows each point misses the rank level n - shift; the first stands for all that is below the others.

    Nothing lies below the first point, so an aim below all rows is met there: one point has no miss, for every table,
    an empty one too. One row more or less moves each number by at most max(level, 1 - level).

    >>> misses([Fraction(0), Fraction(1), Fraction(3)], Fraction(1, 2), Fraction(5))
    [Fraction(0, 1), Fraction(3, 1), Fraction(4, 1)]
    """
    sums = list(accumulate(counts, initial=Fraction(0)))
    aim = level * sums[-1] - shift
    return [
        max(Fraction(0), below - aim if at else Fraction(0), aim - upto)
        for at, (below, upto) in enumerate(pairwise(sums))
    ]


def folded(counts: Sequence[Fraction], places: Sequence[int]) -> list[Fraction]:
    """Counts by place, where each row goes to the nearest place at or below it; the first entry has those with none.

    >>> [int(each) for each in folded([Fraction(1)] * 5, [1, 3])]
    [1, 2, 2]
    """
    found = [Fraction(0)] * (len(places) + 1)
    for at, count in enumerate(counts):
        found[bisect_right(places, at)] += count
    return found


def bracket(
    question: Any, counts: Sequence[Fraction], asked: float, *, speed: Fraction, level: float, bits: Bits
) -> tuple[float, float]:
    """An interval for the quantile at `asked` of the column within its range, with ends in the support.

    Guarantee: it holds the quantile, moved into the hull of the support, with probability `level` or more, whatever the
    table: under every usual definition of a sample quantile, and for the values themselves, not as rounded to the grid.
    Each end costs what one draw at `speed` does; the number of rows is not needed, and stays private.
    Edge cases: where the aim lies beyond all rows, an end is the end of the support.
    """
    places, last = exponential.candidates(question), question.steps
    shift = margin(len(places), speed, level)
    mirrored = [last - at for at in reversed(places)]
    lower = _drawn(folded(counts, places), Fraction(asked), shift, speed, bits)
    upper = _drawn(folded(counts[::-1], mirrored), 1 - Fraction(asked), shift, speed, bits)
    lowest, highest = ends(question)
    return lowest[lower], highest[upper]


def _drawn(counts: Sequence[Fraction], level: Fraction, shift: Fraction, speed: Fraction, bits: Bits) -> int:
    return exponential.draw(exponential.weights(misses(counts, level, shift), speed), bits)


@lru_cache(maxsize=64)
def ends(question: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """What to publish as the lower end for every place that may be drawn, from the lowest, and mirrored as the upper.

    A value counts at the nearest point of the grid, so it lies between the borders around it; days are whole, and the
    end points take all that is beyond them.
    """
    support, places = question.allowed, exponential.candidates(question)
    borders = (question.bounds.lower, *question.borders, question.bounds.upper)
    lowest = [borders[at] for at in places]
    highest = [borders[at + 1] for at in reversed(places)]
    if question.dated:
        lowest, highest = [math.ceil(each) for each in lowest], [math.floor(each) for each in highest]
    return (
        (support.hull.lower, *(below(support, each) for each in lowest)),
        (support.hull.upper, *(above(support, each) for each in highest)),
    )


def below(support: Interval | Union, value: float) -> float:
    """The largest point of the support that is not above a value, or its lower end.

    >>> below(Union((0, 3), (5, 9)), 4.5), below(Union((0, 3), (5, 9)), -1.0)
    (3.0, 0.0)
    """
    reached = [min(value, upper) for lower, upper in support.spans if lower <= value]
    return float(max(reached, default=support.hull.lower))


def above(support: Interval | Union, value: float) -> float:
    """The smallest point of the support that is not below a value, or its upper end."""
    reached = [max(value, lower) for lower, upper in support.spans if upper >= value]
    return float(min(reached, default=support.hull.upper))
