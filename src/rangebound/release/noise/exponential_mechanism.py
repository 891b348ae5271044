"""Quantiles: the exponential mechanism on a public grid, drawn exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise

from flint import arb, fmpq

from rangebound.release.noise.draw import Bits
from rangebound.release.noise.form import Publisher
from rangebound.values.ball import precision
from rangebound.values.support import Interval, Union

WEIGHT_BITS = 256
"""The largest weight of a draw has this many bits, unless it needs to distinguish more scores."""
DEEPEST = 88
"""Weights below e^-88 of the largest count as that: it keeps all of them exact to 2^-129."""
MARGIN = Fraction(2**20 - 1, 2**20)
"""The part of epsilon that goes into the rate; the rest covers all rounding."""
ROUNDING = Fraction(1, 2**128)
"""What rounding adds to the privacy loss of a draw, at most; see `privacy_loss`."""


@dataclass(frozen=True, kw_only=True)
class QuantileGrid:
    """The public grid of a quantile: its points, the borders between them, and where an answer may be published.

    A value counts at the nearest point; what lies outside `bounds`, the range of the column, counts at its end. `whole`
    says that values are whole numbers, as days are.
    """

    points: tuple[float, ...]
    borders: tuple[float, ...]
    bounds: Interval
    support: Interval | Union
    whole: bool = False

    @cached_property
    def candidates(self) -> tuple[int, ...]:
        """The indices of the points that may be published: those in the support."""
        spans = self.support.spans
        return tuple(at for at, value in enumerate(self.points) if any(low <= value <= high for low, high in spans))

    @cached_property
    def published(self) -> frozenset[float]:
        """The points that may be published."""
        return frozenset(self.points[at] for at in self.candidates)


def scores(
    counts: Sequence[Fraction], level: float | Fraction, shift: Fraction = Fraction(0), *, open_below: bool = False
) -> list[Fraction]:
    """The score of each point: how many rows lie between it and the rank level n - shift, that of the quantile.

    Less is better. With n rows, b of them below the point and a at it: max(0, b - rank, rank - b - a); with
    `open_below` no row lies between the first point and a rank that is below it.

    Exact: all counts are brought to one denominator, so that the sums are of whole numbers.

    Guarantee: one row more or less moves each score by at most max(level, 1 - level).

    >>> scores([Fraction(1), Fraction(0), Fraction(3)], 0.5)
    [Fraction(1, 1), Fraction(1, 1), Fraction(0, 1)]
    >>> scores([Fraction(0), Fraction(1), Fraction(3)], 0.5, Fraction(5), open_below=True)
    [Fraction(0, 1), Fraction(3, 1), Fraction(4, 1)]
    """
    unit = math.lcm(*(each.denominator for each in counts))
    wholes = [each.numerator * (unit // each.denominator) for each in counts]
    aim = Fraction(level) * Fraction(sum(wholes), unit) - shift
    finer = math.lcm(unit, aim.denominator) // unit
    sums = list(accumulate((each * finer for each in wholes), initial=0))
    unit *= finer
    rank = aim.numerator * (unit // aim.denominator)
    found = [max(0, below - rank, rank - upto) for below, upto in pairwise(sums)]
    if open_below and found:
        found[0] = max(0, rank - sums[1])
    known = {each: Fraction(each, unit) for each in set(found)}
    return [known[each] for each in found]


def score_sensitivity(level: float, sensitivity: Fraction) -> Fraction:
    """How far a unit that moves counts by `sensitivity` in L1 can move a score: max(level, 1 - level) times that."""
    q = Fraction(level)
    return max(q, 1 - q) * sensitivity


def rate(level: float, sensitivity: Fraction, epsilon: float | Fraction) -> Fraction:
    """How fast the weight of a point falls with its score: epsilon / (2 score_sensitivity), and a little less."""
    return MARGIN * Fraction(epsilon) / (2 * score_sensitivity(level, sensitivity))


def privacy_loss(level: float, sensitivity: Fraction, rate: Fraction) -> Fraction:
    """An upper bound on the privacy loss of one draw, exactly: 2 rate score_sensitivity + 2^-128.

    Guarantee: true for the draw as it is made, in whole numbers. Let D = rate score_sensitivity. A weight is
    W = 2^256 e^-min(rate score, 88), and moves by a factor of at most e^D, since the minimum of two numbers moves by no
    more than they do. It is rounded down to a whole number w >= 2^129, so W (1 - h) <= w <= W for some h < 2^-129. The
    ratio of w / sum(w) on neighbouring tables is then at most e^(2 D) / (1 - h)^2. `draw` takes each place with a
    probability that is right to a factor of 1 +- 2^-256. Together that is 2 D - 2 ln(1 - h) + 2^-254 <= 2 D + 2^-128.
    """
    return 2 * rate * score_sensitivity(level, sensitivity) + ROUNDING


def weights(
    found: Sequence[Fraction], rate: Fraction, *, deepest: int = DEEPEST, length: int = WEIGHT_BITS
) -> list[int]:
    """The weight 2^length e^(-rate score) of every score, rounded down.

    Guarantee: every weight is exact to 2^-129 relative, since those below e^-deepest count as that; a larger depth
    needs more bits, 129 + deepest / ln 2 at least.
    """
    slope, floor = fmpq(rate.numerator, rate.denominator), fmpq(deepest)
    with precision(length + 160):
        one, known = arb(2) ** length, {}
        for each in found:
            key = each.numerator, each.denominator
            if key not in known:
                depth = min(fmpq(*key) * slope, floor)
                whole = ((-arb(depth)).exp() * one).lower().floor().unique_fmpz()
                assert whole is not None  # the floor of an exact number
                known[key] = int(whole)
    return [known[each.numerator, each.denominator] for each in found]


def draw(weights: Sequence[int], bits: Bits) -> int:
    """The place drawn in proportion to whole-number weights, with one number of fixed length and no loop over tries."""
    total = sum(weights)
    length = total.bit_length() + 128
    at = bits(length) * total >> length
    for place, weight in enumerate(weights):
        at -= weight
        if at < 0:
            return place
    raise AssertionError("the draw lies below the total")


def rank_error(candidates: int, rate: Fraction, confidence: float) -> float:
    """How many rows lie between the published point and the best one, at most, with probability `confidence`.

    ln(candidates / (1 - confidence)) / rate [mcsherry2007].
    """
    return math.log(candidates / (1.0 - confidence)) / float(rate)


class ExponentialPublisher(Publisher):
    """Whatever draws by exponential mechanisms: how far a number may be off is counted in units."""

    def words(self) -> str:
        return f"{self.to_dict()} mechanism"

    def to_dict(self) -> str:
        """Its name: all else follows from the plan."""
        return "exponential"
