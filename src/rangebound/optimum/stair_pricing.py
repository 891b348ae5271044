"""The cheapest staircase for every output at once, in O(n) for each.

The probability of one output, as a function of the input, lies in the cone of all v >= 0 with v_i <= e^epsilon v_j for
neighbouring inputs. Its extreme rays are staircases e^(epsilon m) with whole m that differ by at most one between
neighbours. Inputs ascend and neighbours are windows of them, so that m moves by at most one between successive inputs,
and the rule is: two successive jumps in the same direction, at s' < s, need inputs s' - 1 and s that are not
neighbours. (Where the jumps between two inputs add up to 2, two of them in the same direction follow each other, and
both lie between those inputs; conversely two such jumps are a difference of 2.) Jumps in opposite directions are
free.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rangebound.values.array_types import Floats, Integers


@dataclass(frozen=True, kw_only=True)
class Priced:
    """The least value of sum_t g_t v_t over staircases v for each output, and the levels m of a staircase that has it.

    The staircase is e^(epsilon m), where m = 0 at the last input. `levels` has a row for each input.
    """

    least: Floats
    levels: Integers


def price(costs: Floats, first_neighbour: Integers, epsilon: float) -> Priced:
    """The cheapest staircase of every column of `costs` (inputs x outputs), by one sweep over the inputs.

    With G the prefix sums of a column, up(s) (down(s)) is the least cost of what lies left of a jump at s, in units of
    the level right of it: rho = e^-epsilon times (1/rho times) the cost up to the jump before it and between the two.

        up(s) = rho (G(s) + min(0, min_{s' <= first(s)} [up(s') - G(s')], min_{s' < s} [down(s') - G(s')]))
        down(s) = (1/rho) (G(s) + min(0, min_{s' <= first(s)} [down(s') - G(s')], min_{s' < s} [up(s') - G(s')]))
        least = G(n) + min(0, min_s [up(s) - G(s)], min_s [down(s) - G(s)])

    Guarantee: none, these are doubles; `Limit.verify` follows the same recursion in balls.
    Assumes: `first_neighbour` ascends, and holds for each input the first one that is a neighbour of it (or itself).
    Edge cases: one input has no jumps.

    >>> price(np.array([[1.0], [-2.0]]), np.array([0, 0]), np.log(2.0)).least.round(12).tolist()
    [-1.5]
    """
    count, width = costs.shape
    prefix = np.zeros((count + 1, width))
    np.cumsum(costs, axis=0, out=prefix[1:])
    factor = np.exp(np.array([[-epsilon], [epsilon]]))
    best = np.full((count, 2, width), np.inf)  # running minima of up - G and down - G, and where they are
    where = np.zeros((count, 2, width), dtype=np.int64)
    for s, first in enumerate(first_neighbour.tolist()[1:], start=1):
        value = np.minimum(best[first], best[s - 1, ::-1])
        np.minimum(value, 0.0, out=value)
        value += prefix[s]
        with np.errstate(
            over="ignore"
        ):  # levels of a large epsilon grow beyond the doubles; such a column is not taken
            value *= factor
        value -= prefix[s]
        np.minimum(value, best[s - 1], out=best[s])
        where[s] = where[s - 1]
        where[s][value < best[s - 1]] = s
    least: Floats = prefix[-1] + np.minimum(best[-1].min(axis=0), 0.0)
    return Priced(least=least, levels=_levels(best, where, first_neighbour))


def _levels(best: Floats, where: Integers, first_neighbour: Integers) -> Integers:
    """The levels of every column's staircase, by its jumps from the last one back to the first."""
    count, _, width = best.shape
    jumps = np.zeros((count, width), dtype=np.int64)
    active = np.arange(width)
    same, other = best[-1, 0], best[-1, 1]  # a last jump upward, or downward
    at_same, at_other = where[-1, 0], where[-1, 1]
    way = np.zeros(width, dtype=np.int64)
    while True:
        go = np.minimum(same, other) < 0.0
        active, way = active[go], np.where(same <= other, way, 1 - way)[go]
        place = np.where(same <= other, at_same, at_other)[go]
        if not active.size:
            break
        jumps[place, active] = 1 - 2 * way
        first, last = first_neighbour[place], place - 1
        same, at_same = best[first, way, active], where[first, way, active]
        other, at_other = best[last, 1 - way, active], where[last, 1 - way, active]
    levels: Integers = np.cumsum(jumps, axis=0)
    levels -= levels[-1].copy()
    return levels
