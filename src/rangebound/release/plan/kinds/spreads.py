"""Questions about how far the values of a column lie apart: a variance or its root."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from pydantic import Field

from rangebound.release.plan.fields import UNKNOWN, Bound, Name, Range
from rangebound.release.plan.kinds.fractions import FractionKind
from rangebound.release.plan.measure import ONE, Counted, Found, GroupSums, Measures, Square, Value
from rangebound.release.plan.numbers import Coordinates, Fractional
from rangebound.release.plan.sensitivity import Sensitivity, of_parts
from rangebound.release.plan.unit import Unit
from rangebound.values.support import Interval


def _measures(question: FractionKind, unit: Unit, groups: float) -> Measures:
    """The rows within the contribution bounds, their values in fixed point and the squares of these."""
    values = question.column_values
    return GroupSums(rows=question.counted_rows, of={"n": Counted(), "t": Value(of=values), "q": Square(of=values)})


def _coordinates(question: FractionKind, found: Found) -> Coordinates:
    """The sums of (1 - x)^2, 2 x (1 - x) and x^2, for x from 0 to 1 over the range: they add up to the rows."""
    n, t, q = (found.get(name, 0) for name in "ntq")
    return Fraction(ONE * n - 2 * t + q, ONE), Fraction(2 * (t - q), ONE), Fraction(q, ONE)


def _sensitivity(question: FractionKind, unit: Unit, groups: float) -> Sensitivity:
    """L1 r g and L2 r sqrt(g): a row adds (1 - x)^2, 2 x (1 - x) and x^2 to three coordinates, and 1 in all.

    None is negative, and in fixed point neither: with T <= ONE for x, q = floor(T^2 / ONE) is at most T, and
    ONE - 2 T + q is a whole number above (ONE - T)^2 / ONE - 1. So it is a case of `of_parts`.

    Where the number of rows is public, one row is replaced by another, and of the coordinates b = 2 x (1 - x) and
    c = x^2 that are left, x becomes y. Let s = x + y and d = |y - x|: b moves by 2 d |1 - s|, c by d s, and d is at
    most s and 2 - s. L1: d (2 |1 - s| + s) is at most s (2 - s) <= 1 for s <= 1, and (2 - s) (3 s - 2) for s >= 1,
    which is largest at s = 4/3: 4/3. L2^2: d^2 (4 (1 - s)^2 + s^2) is at most s^2 (4 - 8 s + 5 s^2) for s <= 1,
    which rises to 1, and for s >= 1, with x = s - 1 and y = 1, 1 + 2 x^2 - 8 x^3 + 5 x^4, which is largest at
    x = 1/5: 128/125. Fixed point takes less than 1 / ONE from c and adds twice that to b, for x and for y. So b
    moves by less than 2 / ONE more and c by less than 1 / ONE more: L1 by less than 4 / ONE, L2 by less than
    sqrt(5) / ONE, and its square by less than 5 / ONE.
    """
    if question.known_rows(unit) is not None:
        return Sensitivity(
            cell=Fraction(4, 3) + Fraction(4, ONE), groups=1, square=Fraction(128, 125) + Fraction(5, ONE)
        )
    return of_parts(unit.most_rows, unit, groups)


def _answers(question: FractionKind) -> Interval:
    """From 0, which a constant column has, where the plan does not state a lower end: only numbers are above 0."""
    hull = question.allowed.hull
    return Interval(0.0 if hull.lower == question.natural.lower else hull.lower, hull.upper)


class Variance(FractionKind):
    """The variance of a column (of the rows themselves: divided by their number)."""

    measures = _measures
    all_coordinates = _coordinates
    sensitivity = _sensitivity
    answers = property(_answers)

    kind: Literal["variance"] = "variance"
    column: Name
    range: Range = Field(default_factory=lambda: UNKNOWN)
    missing: Bound | None = None

    @property
    def natural(self) -> Interval:
        """From a millionth of the largest possible variance (or the step) to the largest."""
        largest = (self.bounds.width / 2) ** 2
        return Interval(min(self.step or largest * 2.0**-20, largest / 2), largest)

    def answer_of(self, parts: Sequence[Fractional]) -> Fractional:
        """E x^2 - (E x)^2."""
        return spread(parts, self.bounds.width)

    @property
    def scale(self) -> float:
        """The square of the width of the range."""
        return self.bounds.width**2


class StandardDeviation(FractionKind):
    """The standard deviation of a column: the root of its variance."""

    measures = _measures
    all_coordinates = _coordinates
    sensitivity = _sensitivity
    answers = property(_answers)

    kind: Literal["standard deviation"] = "standard deviation"
    column: Name
    range: Range = Field(default_factory=lambda: UNKNOWN)
    missing: Bound | None = None

    @property
    def natural(self) -> Interval:
        """From a thousandth of the largest possible deviation (or the step) to the largest."""
        largest = self.bounds.width / 2
        return Interval(min(self.step or largest * 2.0**-10, largest / 2), largest)

    def answer_of(self, parts: Sequence[Fractional]) -> Fractional:
        """The root of the variance."""
        value, (lower, upper) = spread(parts, self.bounds.width)
        return math.sqrt(value), (math.sqrt(lower), math.sqrt(upper))

    @property
    def scale(self) -> float:
        """The width of the range."""
        return self.bounds.width


def spread(parts: Sequence[Fractional], width: float) -> Fractional:
    """The variance of values in a range of some width, from the fractions of 2 x (1 - x) and x^2, x from 0 to 1.

    E x^2 - (E x)^2, where E x^2 is the second part and E x that and half the first.
    """
    (middle, middles), (square, squares) = parts
    value = square - min(square + middle / 2, 1.0) ** 2
    means = (squares[0] + middles[0] / 2, min(squares[1] + middles[1] / 2, 1.0))
    scale = width**2
    least, most = squares[0] - means[1] ** 2, squares[1] - means[0] ** 2
    return scale * max(value, 0.0), (scale * max(least, 0.0), scale * max(min(most, 0.25), 0.0))
