"""The interval of a quantile: two more draws, aimed so far outwards that the quantile lies between them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction

from rangebound.release.noise import exponential_mechanism as exponential
from rangebound.release.noise.draw import Bits
from rangebound.release.noise.exponential_mechanism import QuantileGrid
from rangebound.values.support import Interval, Union

_DEFINITIONS = 1  # rows by which the usual definitions of a sample quantile differ from the rank level * n


def margin(places: int, rate: Fraction, confidence: float) -> Fraction:
    """How many rows outwards an end is aimed, to pass the quantile with probability (1 - confidence) / 2 at most.

    ln(2 places / (1 - confidence)) / rate, rounded up, and one row more.

    Guarantee: an end that passes the quantile has a score of ln(2 places / (1 - confidence)) / rate or more, while some
    point has a score of 0, so each of the `places` points that pass has at most e^-that of the whole weight.
    """
    logarithm = Fraction(math.log(2.0 * places / (1.0 - confidence))) * Fraction(2**30 + 1, 2**30)
    return Fraction(math.ceil(logarithm / rate * 1024), 1024) + _DEFINITIONS


def shifted_scores(counts: Sequence[Fraction], level: Fraction, shift: Fraction) -> list[Fraction]:
    """The score of each point: how many rows lie between it and the rank level n - shift.

    The first point stands for all that is below the others.

    Nothing lies below the first point, so an aim below all rows is met there: one point has a score of 0, for every
    table, an empty one too. One row more or less moves each score by at most max(level, 1 - level).

    >>> shifted_scores([Fraction(0), Fraction(1), Fraction(3)], Fraction(1, 2), Fraction(5))
    [Fraction(0, 1), Fraction(3, 1), Fraction(4, 1)]
    """
    return exponential.rank_scores(counts, level, shift, open_below=True)


def folded(counts: Sequence[Fraction], places: Sequence[int]) -> list[Fraction]:
    """Counts by place, where each row goes to the nearest place at or below it; the first entry has those with none.

    >>> [int(each) for each in folded([Fraction(1)] * 5, [1, 3])]
    [1, 2, 2]
    """
    found = [Fraction(0)] * (len(places) + 1)
    for at, count in enumerate(counts):
        found[bisect_right(places, at)] += count
    return found


def draw_interval(
    grid: QuantileGrid, counts: Sequence[Fraction], level: float, *, rate: Fraction, confidence: float, bits: Bits
) -> tuple[float, float]:
    """An interval for the quantile at `level` of the column within its range, with ends in the support.

    Guarantee: it holds the quantile, moved into the hull of the support, with probability `confidence` or more,
    whatever the table: under every usual definition of a sample quantile, and for the values themselves, not as rounded
    to the grid. Each end costs what one draw at `rate` does; the number of rows is not needed, and stays private.
    Edge cases: where the aim lies beyond all rows, an end is the end of the support.
    """
    places, last = grid.candidates, len(grid.points) - 1
    shift = margin(len(places), rate, confidence)
    mirrored = [last - at for at in reversed(places)]
    lower = _drawn(folded(counts, places), Fraction(level), shift, rate, bits)
    upper = _drawn(folded(counts[::-1], mirrored), 1 - Fraction(level), shift, rate, bits)
    lowest, highest = interval_ends(grid)
    return lowest[lower], highest[upper]


def _drawn(counts: Sequence[Fraction], level: Fraction, shift: Fraction, rate: Fraction, bits: Bits) -> int:
    return exponential.draw(exponential.weights(shifted_scores(counts, level, shift), rate), bits)


def interval_ends(grid: QuantileGrid) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """What to publish as the lower end for every place that may be drawn, from the lowest, and mirrored as the upper.

    A value counts at the nearest point of the grid, so it lies between the borders around it; days are whole, and the
    end points take all that is beyond them.
    """
    support, places = grid.support, grid.candidates
    borders = (grid.bounds.lower, *grid.borders, grid.bounds.upper)
    lowest = [borders[at] for at in places]
    highest = [borders[at + 1] for at in reversed(places)]
    if grid.whole:
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
