"""What is drawn and what becomes of it: coordinates in, draws, readings and published cells out.

A publisher draws, and says what one unit can lose by that; the form of a question says what publishes it, how it shares
the budget, and what is made of draws: post-processing, always inside the support.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from rangebound.laws.family import Noise
from rangebound.release.noise.allocation import BudgetShare, LossForm
from rangebound.release.noise.joint_loss import JointLoss
from rangebound.release.plan.statistic import (
    Columns,
    Coordinates,
    Draw,
    Fractional,
    Key,
    Label,
    Pair,
    Sensitivity,
    Summed,
)
from rangebound.release.plan.unit import Unit
from rangebound.values.array_types import Floats
from rangebound.values.support import Interval, Union

__all__ = ["Columns", "Coordinates", "Draw", "Key", "Label", "Pair", "Summed"]

Bits = Callable[[int], int]
"""n secure random bits as an integer below 2^n."""


@dataclass(frozen=True, kw_only=True)
class AddedNoise:
    """The noise that was added to each coordinate by itself, and how often an interval made of all of them holds.

    A coordinate was moved by up to `slack` more, since it was rounded.
    """

    noise: Noise
    level: float
    slack: float


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a draw says about the true coordinates: values, an interval for each, and the rank error of a quantile.

    `added` is the noise, where it was added to several coordinates and not truncated: those at an end of their range
    may have been clamped. Where several numbers are made of one draw, `part` says which one this reading is for.
    """

    values: tuple[float, ...]
    intervals: tuple[Pair, ...]
    rank_error: float | None = None
    added: AddedNoise | None = None
    part: int = 0


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One published number: whose it is, what was drawn for it, what was made of that, and what it cost.

    `population_lower` and `population_upper` are an interval for the population, where the plan asks for one and it is
    proved. In a Gaussian account `mu` is the cost of all numbers of the question together, where noise is Gaussian.

    But for the draws, and for keys that were selected privately, all of it follows from the plan.
    """

    question: int
    key: Summed
    part: str
    value: float
    lower: float
    upper: float
    epsilon: float
    delta: float
    rank_error: float | None = None
    draws: Draw = ()
    mu: float = 0.0
    population_lower: float | None = None
    population_upper: float | None = None

    def stored(self) -> dict[str, object]:
        """Its fields as a table has them: a mu, and an interval for the population, only where it has one."""
        lacking = {"mu": 0.0, "population_lower": None, "population_upper": None}
        return {name: value for name, value in vars(self).items() if name not in lacking or value != lacking[name]}


def with_own_interval(cell: Cell) -> Cell:
    """The same with an interval for the population, where it has one, that is widened to hold that for the table."""
    low, high = cell.population_lower, cell.population_upper
    if low is None or high is None:
        return cell
    return replace(cell, population_lower=min(low, cell.lower), population_upper=max(high, cell.upper))


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number to publish, and an interval for the true one."""

    value: float
    lower: float
    upper: float


def roundest(low: Fraction, high: Fraction, near: Fraction, *, closed: bool = False) -> Fraction:
    """The number from `low` to `high` with the fewest decimal digits, the nearest one to `near`.

    Only if `closed`, it may be `high`.

    >>> roundest(Fraction("0.9075"), Fraction("1.0285"), Fraction("0.968"))
    Fraction(1, 1)
    >>> roundest(Fraction("1.0285"), Fraction("1.1495"), Fraction("1.089"))
    Fraction(11, 10)
    """
    if low >= high:
        return near
    largest = max(float(max(abs(low), abs(high))), 5e-324)  # not 0, by rounding
    unit = Fraction(10) ** math.ceil(math.log10(largest) + 1)
    while True:
        first, last = math.ceil(low / unit), math.floor(high / unit) if closed else math.ceil(high / unit) - 1
        if first <= last:
            return min(max(round(near / unit), first), last) * unit
        unit /= 10


def held(value: float, lower: float, upper: float, support: Interval | Union) -> Estimate:
    """A number with its interval, cut to the hull of the support and then widened to hold the number.

    A number that a step or a gap has moved may lie outside its interval; one that spans both holds no less.

    >>> held(5.0, -1.0, 4.5, Union((0, 3), (5, 9)))
    Estimate(value=5.0, lower=0.0, upper=5.0)
    """
    low, high = (min(max(end, support.hull.lower), support.hull.upper) for end in (lower, upper))
    return Estimate(value=value, lower=min(low, value), upper=max(high, value))


def nearest(value: float, support: Interval | Union, step: float | None) -> float:
    """The point of the support that is nearest to a number, on a multiple of the step where a span has one near there.

    >>> nearest(4.4, Union((0, 3), (5, 9)), 2.0)
    5.0
    """

    def within(lower: float, upper: float) -> float:
        held = min(max(value, lower), upper)
        if step is None or not math.isfinite(held):
            return held
        rounded = _rounded(held, step)
        if lower <= rounded <= upper or held in (lower, upper):
            return rounded if lower <= rounded <= upper else held
        return lower if held - lower <= upper - held else upper

    return min((within(*span) for span in support.spans), key=lambda point: abs(point - value))


def _rounded(value: float, step: float) -> float:
    """The multiple of a step nearest to a number, which is itself where it has more steps than any double counts."""
    inverse = 1.0 / step
    if not math.isfinite(inverse) or not math.isfinite(value / step):
        return value
    per_unit = round(inverse)  # steps such as 0.1 have no double, but their tenfold has
    if per_unit > 0 and math.isclose(per_unit * step, 1.0, rel_tol=1e-12):
        steps = value * per_unit
        return round(steps) / per_unit if math.isfinite(steps) else value
    return round(value / step) * step


def farthest(lower: Floats, upper: Floats, support: Interval | Union) -> Floats:
    """The farthest that a number in the support can be from a true answer between `lower` and `upper`.

    What is published lies in the support, whatever is drawn, and so does its mean: no bias is larger.

    >>> farthest(np.array([2.0]), np.array([5.0]), Interval(0, 10))
    array([8.])
    """
    ends = support.hull
    return np.maximum(ends.upper - lower, upper - ends.lower)


def fractions(noisy: Sequence[float], intervals: Sequence[Pair], *, rows: int | None = None) -> list[Fractional]:
    """Every coordinate but the first as a fraction of all of them, with the interval of that.

    Without `rows` the coordinates add up to the number of rows; with it the first of them is left out.

    >>> fractions([30.0, 10.0], [(28.0, 32.0), (8.0, 12.0)])
    [(0.25, (0.2, 0.3))]
    """
    if rows is not None:
        pairs = zip(noisy, intervals, strict=True)
        return [(min(value / rows, 1.0), (lower / rows, min(upper / rows, 1.0))) for value, (lower, upper) in pairs]
    found = []
    for at in range(1, len(noisy)):
        rest = sum(noisy) - noisy[at]
        least = sum(lower for lower, _ in intervals) - intervals[at][0]
        most = sum(upper for place, (_, upper) in enumerate(intervals) if place != at)
        value = _ratio(noisy[at], max(rest, 0.0), 1.0 / len(noisy))
        ends = _ratio(intervals[at][0], most, 0.0), _ratio(intervals[at][1], max(least, 0.0), 1.0)
        found.append((value, ends))
    return found


def _ratio(part: float, rest: float, empty: float) -> float:
    """part / (part + rest), with `empty` where both are zero; an infinite one outweighs the other."""
    if math.isinf(part):
        return 1.0 if math.isfinite(rest) else empty
    return part / (part + rest) if part + rest > 0.0 else empty


class Publisher(ABC):
    """Whatever publishes the numbers of a question: it is made from public facts alone, before any data are read."""

    @property
    def width(self) -> int:
        """How many doubles a draw has."""
        return 1

    @abstractmethod
    def draw(self, truths: Sequence[Coordinates], bits: Bits) -> list[list[Draw]]:
        """One draw for every part of every group: the only step that sees exact coordinates.

        Guarantee: private at the share that the publisher was made for, for all neighbouring tables.
        """

    @abstractmethod
    def can_draw(self, *draws: Draw) -> bool:
        """Whether these can be drawn at some true coordinates, to the last bit: those of all groups and parts."""

    @abstractmethod
    def read(self, draws: Sequence[Sequence[Draw]]) -> list[list[Reading]]:
        """What draws say about the true coordinates, each with an interval at the publisher's confidence."""

    def bias(
        self, lower: Floats, upper: Floats, support: Interval | Union, step: float | None, *, whole: bool
    ) -> Floats | None:
        """A bound on the bias of a coordinate that is published in `support` and rounded to `step`.

        `whole` says that true coordinates are whole numbers, and so are the ends of the support.

        Guarantee: |E[published number] - x| is at most the bound for every true x from `lower` to `upper`. None where
        none is known: keys have no mean, and how far a rank error moves a quantile depends on the rows near it.
        """
        return None

    def expected_error(self, scale: float = 1.0, form: str = "{} (root mean square)") -> str:
        """How far a number may be from the exact one, in words, as far as public facts say.

        An error of a coordinate is multiplied by `scale` and put into `form`.
        """
        return form.format(f"{math.sqrt(self.mse) * scale:.4g}")

    @property
    @abstractmethod
    def mse(self) -> float:
        """The largest mean squared error of a coordinate, by which ways to split a budget are compared."""

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval of a coordinate, before it is cut to the range; None where it depends on it.

        Guarantee: no interval is wider by more than the rounding of its two ends.
        """
        return None

    @abstractmethod
    def words(self) -> str:
        """The mechanism in a few words, as a table states it; published tables have these words."""

    @abstractmethod
    def to_dict(self) -> dict[str, object] | str:
        """The mechanism as plain data, as a certificate states it."""

    def loss(self, share: BudgetShare) -> JointLoss:
        """What one unit can lose by all that it draws for the groups of the unit; the share is that it was made for.

        That of the share, as where each group is drawn by itself, unless less is known to be lost.

        Guarantee: holds for all neighbouring tables, if `check` accepts the share. It is what is charged and stated.
        """
        return share.apart

    @abstractmethod
    def check(self, found: Sensitivity, share: BudgetShare) -> None:
        """Refuse a claim that is not proved: private at `share`, where a unit moves coordinates as `found` says.

        Guarantee: raises `CertificateInvalid` unless the claim is proved, in exact or rigorous arithmetic.
        """


@dataclass(frozen=True)
class Form(ABC):
    """A question with the contribution bounds that hold for it, and what is drawn and made of draws for its form."""

    question: Any
    unit: Unit

    # How it shares the budget

    @property
    @abstractmethod
    def loss(self) -> LossForm:
        """What the privacy loss of its numbers is like, which says what they cost in a Gaussian account."""

    @property
    @abstractmethod
    def draws(self) -> int:
        """How many of its numbers a unit can be part of in one group; they share the budget."""

    @property
    def earlier(self) -> Form:
        """As earlier versions drew its numbers, where that was otherwise."""
        return self

    @property
    def uses_delta(self) -> bool:
        """Whether its mechanisms can use a delta in plain sums: not where the noise is Laplace's or exponential."""
        return False

    @property
    def interval_part(self) -> float:
        """Which part of its budget goes into draws for intervals; nothing where these follow from the noise."""
        return 0.0

    def excess_variance(self, found: Sensitivity, columns: Columns, *, gaussian: bool) -> float:
        """The mean variance of its numbers, divided by that of numbers with noise by the sensitivity alone."""
        return 1.0

    # What is drawn

    @abstractmethod
    def publisher(self, found: Sensitivity, share: BudgetShare, *, level: float, columns: Columns) -> Publisher:
        """What publishes the coordinates of all groups; a fault is a `PlanError` about one of the question's fields.

        `columns` are the public keys of each of its grouping columns, empty where they are selected privately.
        """

    @property
    def effort(self) -> tuple[Hashable, float]:
        """What questions share the steps of a certificate's check by, and how many of 10 milliseconds it takes."""
        return self.question.name, 0.0

    # What is made of it

    def estimate(self, reading: Reading) -> Estimate:
        """The number that is made of one draw, with its interval: post-processing, inside the support."""
        (value,), ((lower, upper),) = reading.values, reading.intervals
        return held(value, lower, upper, self.question.allowed)

    def earlier_estimate(self, reading: Reading) -> Estimate:
        """The number that version 0.2 made of one draw, by which its tables are checked."""
        return self.estimate(reading)

    def ranking(self, cells: Sequence[Cell]) -> list[Cell]:
        """What is published of its cells; where it is `ranked`, the first of them with their ranks."""
        return list(cells)

    def unclamped_numbers(self, publisher: Publisher | None, draws: Sequence[Draw]) -> list[float | None]:
        """The unbiased number of each draw, where the plan asks for it and the form has one; else None.

        Where a number is drawn from a grid or a list no noise is added to it, and a ratio of noisy coordinates has a
        mean other than the ratio of their means.
        """
        return [None] * len(draws)

    def drawn_number(self, draws: Draw, mu: float) -> float | None:
        """The noisy coordinate of a draw, where it was drawn without clamping: asked for, or in a Gaussian account.

        `mu` is what the draw cost there, or 0 in plain sums. None where it was clamped or truncated when it was drawn.
        """
        return None

    def bias(self, publisher: Publisher, lower: Floats, upper: Floats) -> Floats | None:
        """A bound on the bias of published numbers, by the intervals from `lower` to `upper` that they have.

        Guarantee: for every true answer x in an interval, |E[published number] - x| is at most the bound, if the answer
        is x and nothing else. None where no such bound is known: keys have no mean, and how far a rank error moves a
        quantile depends on the rows near it, which are private.
        """
        return None

    def half_width(self, publisher: Publisher) -> float | None:
        """Half the width of its widest interval, in units of the answer; None where the data decide.

        The interval before it is cut to the support, and after it was widened to hold a number that was rounded. A
        support with gaps, or numbers that are moved so that they add up, may widen it further.
        """
        return None

    def expected_error(self, publisher: Publisher) -> str:
        """How far a number may be from the exact aggregate, as far as public facts say."""
        return publisher.expected_error()


def rounded_half_width(half_width: float | None, step: float | None) -> float | None:
    """Half the width of an interval of that half-width that holds its middle also when that is rounded to the step.

    The number moves by at most half a step: beyond an end, that end moves along.

    >>> rounded_half_width(3.0, 1.0), rounded_half_width(0.1, 1.0)
    (3.0, 0.3)
    """
    return None if half_width is None else max(half_width, (half_width + (step or 0.0) / 2) / 2)
