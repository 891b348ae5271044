"""Questions about a fraction of the rows: a mean, the share of the rows that meet conditions, a variance or its root.

The coordinates of a group are never negative and add up to its rows. One unit then moves them by at most its number of
rows in L1, and noise on that scale protects the answer and the number of rows together, where noise on each would have
to share the budget. A share of what was cut (`cuts`) is made of such coordinates, too.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, PrivateAttr

from rangebound.release.plan.condition import Condition, Conditions, conditions, hidden_text
from rangebound.release.plan.fields import UNKNOWN, Bound, Name, Range
from rangebound.release.plan.kinds.facts import (
    RARE,
    Agreement,
    FormName,
    Linear,
    OneCoordinate,
    Sampled,
    Weight,
    by_unit,
    of_fraction,
    of_squares,
)
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.measure import ONE, Counted, Found, Measure, Measures, Met, Product, UnitPart, Value
from rangebound.release.plan.statistic import Coordinates, Fractional, Sensitivity, Statistic, of_parts, scaled
from rangebound.release.plan.unit import Unit
from rangebound.values.support import Interval

_PAYS = 16.0  # rows times epsilon^2 from which on squares are worth their noise where the rows are public


def apart(every: Callable[[Any, Found], Coordinates]) -> Callable[[FractionKind, Found, Unit], Coordinates]:
    """The coordinates, or those but the first where the number of rows is public."""

    def coordinates(asked: FractionKind, found: Found, unit: Unit) -> Coordinates:
        return every(asked, found)[0 if asked.known_rows(unit) is None else 1 :]

    return coordinates


def distances(asked: FractionKind, found: Found) -> Coordinates:
    """All coordinates, which add up to the rows: distances from the upper end and from the lower end, in widths.

    What counts is in units of `ONE`, for rows without weights.
    """
    n, t = found.get("n", 0) * (ONE if asked.weights is None else 1), found.get("t", 0)
    return Fraction(n - t, ONE), Fraction(t, ONE)


class FractionKind(Kind):
    """A question that publishes one number, made of coordinates which add up to the rows.

    Where the number of rows is public the first coordinate is left out: it is what the others leave.
    """

    form = FormName.FRACTION
    whole_parts: ClassVar[bool] = False
    """Whether its coordinates are whole numbers where rows have no weights."""

    _squared: bool = PrivateAttr(default=False)

    @property
    def squared(self) -> bool:
        """Whether squares are measured too, which an interval for the population needs."""
        return self._squared

    @property
    def part_of_one(self) -> Measure:
        """What a row adds to the numerator, from 0 to `ONE`."""
        return Value(of=self.column_values)

    def with_squares(self) -> Self:
        """The same with squares, unless what else the plan asks of it needs the coordinates as they are."""
        if self.weights is not None or self.named_mechanism is not None or self.margin is not None:
            return self
        found = self.model_copy()
        found._squared = True
        return found

    def error_of_squares(self, unit: Unit) -> float:
        """The error of the numerator of several coordinates, in errors of one: of c + b / 2, and of that and e."""
        return (1.5 if by_unit(unit) else math.sqrt(1.25)) if self.squared else 1.0

    @property
    @abstractmethod
    def scale(self) -> float:
        """What an error of one row in a coordinate does to the answer, times the number of rows."""

    @property
    def natural(self) -> Interval:
        return Interval(0.0, 1.0)

    @property
    def answers(self) -> Interval:
        """Where the true answer lies, or is moved to by the support that the plan states."""
        return self.allowed.hull

    def answer_of(self, parts: Sequence[Fractional]) -> Fractional:
        """The answer and its interval, from every coordinate but the first as a fraction of all of them."""
        return parts[0]

    def _sampled(self, unit: Unit, words: str) -> Sampled:
        """How the answer in the population shows: in squares where these are measured, else in what `words` say."""
        found = of_squares(self.natural, unit) if self.squared else of_fraction(self.natural, unit, words)
        return found.known(self.known_rows(unit))

    def one_coordinate(self, unit: Unit) -> OneCoordinate | None:
        """The coordinate that is left where the number of rows is public: from 0 to that number."""
        rows = self.known_rows(unit)
        if rows is None or len(self.coordinates({}, unit)) > 1:
            return None
        within = Interval(0.0, float(rows))
        return OneCoordinate(range=within, whole=self.whole_parts, support=within)

    def no_margin(self, unit: Unit) -> str:
        """One can be asked where the answer is one coordinate, divided by a public number of rows.

        The intervals of a table have widths that depend on the number.
        """
        if self.named_mechanism is not None:
            return (
                "must not stand beside the mechanism 'optimal', whose intervals are of different widths; leave it out"
            )
        if self.one_coordinate(unit) is not None:
            return ""
        known = "on the values" if self.known_rows(unit) is not None else "on the number of rows, which is not public"
        return f"must not be asked of {self.kind!r}, since the width of its interval depends {known}; give a weight"


def fraction_sensitivity(asked: FractionKind, unit: Unit, groups: float) -> Sensitivity:
    """L1 r g and L2 r sqrt(g): a row adds 1 - x and x, 0 <= x <= 1, to two coordinates, and 1 in all.

    So it is a case of `of_parts`; a share is a mean of zeros and ones. Where the number of rows is public, one row is
    replaced by another, and of the one coordinate that is left x becomes y: L1 and L2 at most 1.

    With weights in [0, b] a row adds (w / b) (1 - x) and (w / b) x, in fixed point W - P and P with P rounded down:
    none is negative, and they add up to w / b <= 1. So it is a case of `of_parts` as well.
    """
    if asked.known_rows(unit) is not None:
        return Sensitivity(cell=Fraction(1), groups=1, square=Fraction(1))
    return of_parts(unit.most_rows, unit, groups)


def _with_squares(asked: FractionKind, *_: object) -> Measures:
    """The rows, their values in fixed point and the squares of these."""
    y = asked.part_of_one
    return asked.sums(n=Counted(), t=y, q=Product(of=(y, y)))


def _fraction_measures(asked: FractionKind, unit: Unit, groups: float) -> Measures:
    """The rows and their values, or what they meet, in fixed point; with the squares that intervals need."""
    if not asked.squared:
        return asked.sums(n=asked.counted, t=asked.weighted(asked.part_of_one))
    if not by_unit(unit):
        return _with_squares(asked)
    n, y = Counted(), asked.part_of_one
    products = {"yy": UnitPart(of=(y, y)), "yn": UnitPart(of=(y, n)), "nn": UnitPart(of=(n, n))}
    return asked.sums(n=UnitPart(of=(n,)), y=UnitPart(of=(y,)), **products)


def _fraction_coordinates(asked: FractionKind, found: Found, unit: Unit) -> Coordinates:
    """Those that add up to the rows: distances, squares, or sums over units in the order of `of_squares`."""
    if asked.squared and by_unit(unit):
        n, y, yy, yn, nn = (found.get(name, 0) for name in ("n", "y", "yy", "yn", "nn"))
        whole = (nn - 2 * yn + yy, 2 * (yn - yy), yy, n - y - nn + yn, y - yn)
        return tuple(Fraction(unit.most_rows * each, ONE) for each in whole)
    return apart(_squares if asked.squared else distances)(asked, found, unit)


def _measured_sensitivity(asked: FractionKind, unit: Unit, groups: float) -> Sensitivity:
    """That of a fraction; with squares of rows, that of a variance; with squares of units, L1 r g (1 + 6 / ONE).

    Of a unit all five coordinates are r / ONE times whole numbers, with Y <= N <= ONE for y and n as parts of r:
    N in all. Products are rounded down, so that YY <= YN <= Y. The first is above -2 and the fourth above -1, the
    others are not negative: the sizes add up to less than N + 6. So it is 1 + 6 / ONE times a case of `of_parts`.
    """
    if asked.squared and by_unit(unit):
        return scaled(of_parts(unit.most_rows, unit, groups), 1 + Fraction(6, ONE))
    return (_spread_sensitivity if asked.squared else fraction_sensitivity)(asked, unit, groups)


_FRACTION = Statistic(measures=_fraction_measures, coordinates=_fraction_coordinates, sensitivity=_measured_sensitivity)


class Mean(FractionKind):
    """The mean of a column; with weights, the weighted one."""

    in_units = True
    statistic = _FRACTION

    kind: Literal["mean"] = "mean"
    weighted_by: Weight | None = None
    column: Name
    range: Range = Field(default_factory=lambda: UNKNOWN)
    missing: Bound | None = None
    mechanism: Literal["optimal"] | None = None

    @property
    def natural(self) -> Interval:
        return self.bounds

    def for_population(self, unit: Unit, epsilon: float) -> Self:
        """With squares, which cost nothing, and add an eighth to the error of rows at most, a half to that of units.

        Where the rows are public the noise is half as large again, which few rows are not worth.
        """
        known = self.known_rows(unit)
        return self if known is not None and known * epsilon**2 < _PAYS else self.with_squares()

    def sampled(self, unit: Unit) -> Sampled:
        """By squares where they are measured, else by the largest variance."""
        return self._sampled(unit, "the largest variance that the mean allows")

    def answer_of(self, parts: Sequence[Fractional]) -> Fractional:
        share, (least, most) = parts[0]
        lower, width = self.bounds.lower, self.bounds.width
        return lower + width * share, (lower + width * least, lower + width * most)

    @property
    def scale(self) -> float:
        return self.bounds.width


class Share(FractionKind):
    """The share of the rows that meet the conditions `of` among those that meet `where`.

    With weights, rows count by these. Shares with the same `partition` are made to add up to 1 where the plan asks for
    consistent numbers.
    """

    whole_parts = True
    scale: ClassVar[float] = 1.0
    statistic = _FRACTION

    kind: Literal["share"] = "share"
    weighted_by: Weight | None = None
    mechanism: Literal["optimal"] | None = None
    of: Annotated[Conditions, Field(min_length=1)]
    partition: Name | None = None

    @property
    def conditions(self) -> tuple[Condition, ...]:
        return (*self.where, *self.of)

    def known_rows(self, unit: Unit) -> int | None:
        return self.all_rows(unit)

    def sampled(self, unit: Unit) -> Sampled:
        """By its own number, which says how large the variance of a row is; where units have several, by squares."""
        return self._sampled(unit, "the share itself")

    @property
    def part_of_one(self) -> Measure:
        return Met(conditions=self.conditions)

    def for_population(self, unit: Unit, epsilon: float) -> Self:
        """With squares of units, where these have several rows."""
        return self.with_squares() if by_unit(unit) else self

    @property
    def subject(self) -> tuple[str, str]:
        return "", f", of those with {conditions(self.of)}{self.weighting}"

    def left_out(self, unit: Unit) -> list[str]:
        columns = dict.fromkeys(repr(each.column) for each in self.of if each.values)
        missing = [f"rows without {' or '.join(columns)} counted as not meeting the condition"] if columns else []
        if any(hidden_text(each.column) for each in self.of):
            missing = ["rows in which missing values leave the condition undecided counted as not meeting it"]
        return [*missing, *super().left_out(unit)]

    @property
    def agreement(self) -> Agreement:
        return Agreement(partition=self.partition)


def _squares(question: FractionKind, found: Found) -> Coordinates:
    """The sums of (1 - x)^2, 2 x (1 - x) and x^2, for x from 0 to 1 over the range: they add up to the rows."""
    n, t, q = (found.get(name, 0) for name in "ntq")
    return Fraction(ONE * n - 2 * t + q, ONE), Fraction(2 * (t - q), ONE), Fraction(q, ONE)


def _spread_sensitivity(question: FractionKind, unit: Unit, groups: float) -> Sensitivity:
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


def _answers(question: Variance | StandardDeviation) -> Interval:
    """From 0, which a constant column has, where the plan does not state a lower end: only numbers are above 0."""
    hull = question.allowed.hull
    return Interval(0.0 if hull.lower == question.natural.lower else hull.lower, hull.upper)


def _natural(question: Variance | StandardDeviation) -> Interval:
    """From a millionth of the largest possible variance (or its root, or the step) to the largest."""
    largest = (question.bounds.width / 2) ** (2 * question.power)
    return Interval(min(question.step or largest * 2.0 ** (-20 * question.power), largest / 2), largest)


def _answer_of(question: Variance | StandardDeviation, parts: Sequence[Fractional]) -> Fractional:
    """The variance, or its root, from the fractions of 2 x (1 - x) and x^2, for x from 0 to 1 over the range.

    It is E x^2 - (E x)^2, where E x^2 is the second part and E x that and half the first.
    """
    (middle, middles), (square, squares) = parts
    value = square - min(square + middle / 2, 1.0) ** 2
    means = (squares[0] + middles[0] / 2, min(squares[1] + middles[1] / 2, 1.0))
    ends = value, squares[0] - means[1] ** 2, min(squares[1] - means[0] ** 2, 0.25)
    variances = (question.bounds.width**2 * max(each, 0.0) for each in ends)
    value, lower, upper = variances if question.power == 1.0 else map(math.sqrt, variances)
    return value, (lower, upper)


def _scale(question: Variance | StandardDeviation) -> float:
    return float(question.bounds.width ** (2 * question.power))


_SPREAD = Statistic(measures=_with_squares, coordinates=apart(_squares), sensitivity=_spread_sensitivity)


def _of_spread(asked: Variance | StandardDeviation, unit: Unit) -> Sampled:
    """The variance v of values from 0 to 1, or its root, given their mean m.

    Of the same sums, (1 - m)^2 c - m (1 - m) b + m^2 a - v n is the sum of (x - m)^2 - v. It is of mean 0, and its
    variance is v (M - v) at most, M the largest (x - m)^2 [bhatia2000]; rows of a unit as in `of_fraction`.
    """
    rows, known = unit.most_rows, asked.known_rows(unit)

    def given(m: float) -> Sampled:
        most = max(m, 1.0 - m) ** 2

        def variance(v: Any) -> Linear:
            largest = rows * v * abs(most - v)
            return RARE * (rows * (most / 2.0 + abs(v - most / 2.0))) ** 2, largest, largest, largest

        return Sampled(
            ends=(0.0, 0.25),
            deviation=lambda v: (0.0 * v, m * m - v, -m * (1.0 - m) - v, (1.0 - m) ** 2 - v),
            variance=variance,
            measured="",
        ).known(known)

    return replace(
        of_squares(Interval(0.0, 1.0), unit, of_rows=True).known(known),
        measured="the largest variance that the answer allows",
        given=given,
        shown=lambda v: float(asked.scale * v**asked.power),
    )


class Variance(FractionKind):
    """The variance of a column (of the rows themselves: divided by their number)."""

    form = FormName.SPREAD
    statistic = _SPREAD
    power: ClassVar[float] = 1.0
    natural, answers, answer_of, scale = property(_natural), property(_answers), _answer_of, property(_scale)
    sampled = _of_spread

    kind: Literal["variance"] = "variance"
    column: Name
    range: Range = Field(default_factory=lambda: UNKNOWN)
    missing: Bound | None = None


class StandardDeviation(FractionKind):
    """The standard deviation of a column: the root of its variance."""

    form = FormName.SPREAD
    statistic = _SPREAD
    power: ClassVar[float] = 0.5
    natural, answers, answer_of, scale = property(_natural), property(_answers), _answer_of, property(_scale)
    sampled = _of_spread

    kind: Literal["standard deviation"] = "standard deviation"
    column: Name
    range: Range = Field(default_factory=lambda: UNKNOWN)
    missing: Bound | None = None
