"""Inputs on a lattice: for a table, whose cells must not be narrower than they seem, and for a limit, the other way.

All inputs are whole multiples of one power of two, so that their distances are exact: a lattice of step h >= D/k has
k neighbours to each side by rounding to the nearest input, and points k h <= D apart are neighbours themselves.
"""

from __future__ import annotations

import math
from fractions import Fraction

from rangebound.errors import ArgumentError
from rangebound.mechanisms.finite import InputCell, reach_of
from rangebound.values.support import Query, Support

STEPPED = 1.2
"""Epsilon from which on a lattice has to be finer, and to fit the stairs of the noise."""
MIDDLE = 6.5
"""Sensitivities from which on the middle of a range, where laws are those of noise, says what is best."""
_FINEST, _FEWEST = 64, 160  # inputs to a sensitivity, and in all

LARGEST = 700.0
"""The largest epsilon of a table or a limit: e^epsilon is a double."""
_BITS = 46  # of the largest number of a lattice; the rest of a double is for sums


def check_doubles(query: Query, epsilon: float) -> None:
    """Refuse a range without two finite ends, and what programs in doubles cannot hold."""
    if not query.range.bounded:
        raise ArgumentError(f"range={query.range}: must be bounded; the error of a table is over all of it")
    if not math.isfinite(query.range.hull.upper - query.range.hull.lower):
        raise ArgumentError(f"range={query.range}: must be narrower than the largest double; take larger units")
    if epsilon > LARGEST:
        raise ArgumentError(
            f"epsilon={epsilon}: must be at most {LARGEST:g} for a table or a limit; from about 20 on errors are next "
            "to 0, and rb.Staircase has as small ones"
        )


def check_lattice(query: Query, inputs: list[float]) -> None:
    """Refuse a range that is so narrow for the size of its numbers that it has a single input."""
    if len(inputs) < 2:
        raise ArgumentError(
            f"range={query.range}: is too narrow for the size of its numbers, between which there are too few doubles; "
            "subtract its lower end from the range and from the answers"
        )


def fitting_parts(epsilon: float, most: int) -> int:
    """How many inputs to a sensitivity, at most this many, have the stairs of the best noise nearly at whole steps.

    The best staircase noise on the line has its first stair at 1/(1 + e^(epsilon/2)) of a sensitivity. A lattice on
    which that is half way between two steps costs up to 1 % of the error at epsilon 4, even a finer one. The error of
    noise with its stair at the nearest step is in closed form; what the width of a cell adds is measured.

    >>> fitting_parts(2.0, 32), fitting_parts(4.0, 32), fitting_parts(4.0, 20), fitting_parts(4.0, 1)
    (32, 26, 17, 1)
    """
    rate = -math.expm1(-epsilon)
    beyond = math.exp(-epsilon) / rate  # the noise beyond the first stair, where a sensitivity at the top has 1

    def error(parts: int) -> float:
        stair = max(round(parts / (1.0 + math.exp(epsilon / 2.0))), 1) / parts
        noise = (stair * stair / 2.0 + (stair - 0.5 + 1.0 / rate) * beyond) / (stair + beyond)
        wide = min(0.15, 1.2 / epsilon**3) / parts
        slow = 2e-4 * (parts % 4 > 0) + 4e-4 * (parts % 2)  # a search begins on half of it, and of that
        return noise * (1.0 + wide + slow)

    return min(range(max(most // 2, 1), most + 1), key=error)


def steep_parts(epsilon: float) -> int:
    """Inputs to a sensitivity that have two steps and a half in the first stair of the best noise: where it is steep.

    >>> [steep_parts(each) for each in (2.0, 6.0, 8.0)]
    [6, 50, 136]
    """
    return math.floor(2.5 * math.exp(min(epsilon, 20.0) / 2.0))


def stepped_parts(epsilon: float, width: float, room: float) -> int:
    """Inputs to a sensitivity above an epsilon of `STEPPED`: 16 epsilon or a few less, as far as there is room.

    A range that is so narrow that these are few has more.

    >>> stepped_parts(4.0, 10.0, 32.0), stepped_parts(4.0, 3.0, 45.5), stepped_parts(2.0, 3.0, 100.0)
    (26, 44, 52)
    """
    wanted = max(math.ceil(16.0 * epsilon), math.floor(_FEWEST / width))
    most = max(min(wanted, _FINEST, math.floor(room)), 1)
    return fitting_parts(epsilon, most) if width >= MIDDLE else most - most % 4 or most


def table_inputs(answers: Support, step: Fraction, *, fill: bool = False) -> list[float]:
    """Inputs at most `step` apart (rounded up a little) in every span, as far from one end of it as from the other.

    To `fill` a span they are a little farther apart, so that its ends are inputs.

    >>> from rangebound.values.support import Interval
    >>> table_inputs(Interval(0, 1), Fraction(3, 8)), table_inputs(Interval(0, 1), Fraction(3, 8), fill=True)
    ([0.125, 0.5, 0.875], [0.0, 0.5, 1.0])
    """
    unit = _unit(answers)
    step = math.ceil(step / unit) * unit
    found: list[float] = []
    for lower, upper in answers.spans:
        start, width = Fraction(lower), Fraction(upper) - Fraction(lower)
        count = width // step
        wide = width / count // unit * unit if fill and count else step
        first = round((start + (width - count * wide) / 2) / unit) * unit
        places = [float(min(max(first + i * wide, start), Fraction(upper))) for i in range(count + 1)]
        found += [lower, *places[1:-1], upper] if fill else places  # farther out, an end has no more neighbours
    return sorted(set(found))


def limit_inputs(answers: Support, step: Fraction, most: int) -> list[float]:
    """Points of the range `step` apart (rounded down a little) in every span, from its lower end; at most this many."""
    unit = _unit(answers)
    step = max(math.floor(step / unit), 1) * unit
    found: list[float] = []
    for lower, upper in answers.spans:
        start = math.ceil(Fraction(lower) / unit) * unit
        count = math.floor((Fraction(upper) - start) / step)
        found += [float(start + i * step) for i in range(count + 1)]
        if len(answers.spans) > 1 and (not found or found[-1] < upper):
            found.append(upper)  # neighbours across a gap may be its ends alone
    return found[:most]


def limit_inputs_from_both_ends(answers: Support, step: Fraction) -> list[float]:
    """Points of one interval in two lattices of `step` (rounded down a little), one from each end, in turn.

    >>> from rangebound.values.support import Interval
    >>> limit_inputs_from_both_ends(Interval(0, 1), Fraction(3, 8))
    [0.0, 0.25, 0.375, 0.625, 0.75, 1.0]
    """
    unit, hull = _unit(answers), answers.hull
    step = max(math.floor(step / unit), 1) * unit
    lower, upper = math.ceil(Fraction(hull.lower) / unit) * unit, math.floor(Fraction(hull.upper) / unit) * unit
    away = [i * step for i in range(math.floor((upper - lower) / step) + 1)]
    return sorted({float(each) for i in away for each in (lower + i, upper - i)})


def first_neighbours(query: Query, inputs: list[float]) -> list[int]:
    """For every input the first one at a distance of at most the sensitivity, exactly; in a grid, as in a table.

    An input stands for itself alone, also where a grid has points between it and the next.
    """
    points = [InputCell(Fraction(each), Fraction(each), closed=True) for each in inputs]
    last = reach_of(query.range, query.sensitivity, points)
    return [int(each) for each in last.searchsorted(range(len(inputs)))]


def _unit(answers: Support) -> Fraction:
    hull = answers.hull
    largest = max(abs(hull.lower), abs(hull.upper), hull.upper - hull.lower)
    return Fraction(2) ** (math.frexp(largest)[1] - _BITS)
