"""The exponential mechanism, drawn exactly: on the public grid of a quantile, and over sequences of keys.

The most frequent keys in order: one exponential mechanism over all sequences, drawn exactly [gillenwater2022].

The score of a sequence of k different keys is

    max over i of (i-th largest count - count of its i-th key)

in units: 0 if it is a sequence of most frequent keys, ties in any order. There are far too many sequences to list. But
keys at most v below the i-th largest count are the first t_i(v) keys by count, and t_i rises with i. So the sequences
with a score of at most v are counted by choosing key after key: the product of t_i(v) - (i - 1). A sequence is drawn in
two steps: its score, and then one of those that have it, uniformly.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
from flint import arb, fmpq

from rangebound.release.noise.allocation import BudgetShare, LossForm, demand
from rangebound.release.noise.draw import Bits, Columns, Coordinates, Draw, Form, Publisher, Reading
from rangebound.release.plan.kinds.selections import SelectionKind
from rangebound.release.plan.statistic import Sensitivity
from rangebound.values import arguments
from rangebound.values.array_types import Integers
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


def interval_between(grid: QuantileGrid, first: int, last: int) -> tuple[float, float]:
    """What to publish as the interval of the values that count at the places from the first on, before the last one.

    A value counts at the nearest point of the grid, so it lies between the borders around it; days are whole, and the
    end points take all that is beyond them.
    """
    borders, hull = (grid.bounds.lower, *grid.borders, grid.bounds.upper), grid.support.hull
    low, high = borders[first], borders[last]
    low, high = (math.ceil(low), math.floor(high)) if grid.whole else (low, high)
    lower = below(grid.support, low) if first else hull.lower
    return lower, above(grid.support, high) if last < len(grid.points) else hull.upper


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


_UNIFORM_BITS = 256
_DRAWN = 20_000  # counts in one step of a certificate's check


def score_range(size: int, steps: Fraction) -> Fraction:
    """How long an interval holds what all scores of sequences move by: 2 for each step, and 1 where one key is drawn.

    A step adds one unit, or takes it away: it adds 0 or 1 to every count (or takes it), to as many as it likes.

    Guarantee: the i-th largest count moves by 0 or 1 in the same direction, since every count does, and order does not
    change that. So its difference from the count of a key moves by -1, 0 or 1, and the largest difference by no more:
    by a number in [-1, 1]. Where one key is drawn, the score of key s moves by m - x_s, where m is what the largest
    count moves by, the same for all keys, and x_s is 0 or 1: by a number in [m - 1, m]. Both intervals hold 0, and
    those of several steps add up. No bound on how many counts a unit is in is needed.
    """
    return (1 if size == 1 else 2) * steps


def sequence_rate(size: int, steps: Fraction, epsilon: float | Fraction) -> Fraction:
    """How fast the weight of a sequence falls with its score: epsilon / score_range, and a little less."""
    return MARGIN * Fraction(epsilon) / score_range(size, steps)


def sequence_loss(size: int, steps: Fraction, rate: Fraction) -> Fraction:
    """An upper bound on the privacy loss of one sequence, and on its range: rate score_range + 2^-128, exactly.

    Guarantee: true for the draw as it is made, in whole numbers. Let all scores move by a number in an interval of
    length l that holds 0 (`score_range`). The logarithm of the weight of a sequence, -min(rate score, depth), moves by
    a number in an interval of length rate l, since a minimum with a constant moves no farther and in the same
    direction; so does the logarithm of the sum of all weights, which is a mean of them. The loss is the difference of
    the two: at most rate l, and in an interval of that length. Weights are rounded down to whole numbers of 2^130 or
    more, where `privacy_loss` has 2^129, and each of the k + 2 choices of a draw has a probability that is right to a
    factor of 1 +- 2^-255. Together that adds less than 2^-128 for k up to 1000.
    """
    return rate * score_range(size, steps) + ROUNDING


def sequence_depth(keys: int, size: int) -> int:
    """The largest rate times score that is distinguished: ln(number of sequences) + 88, rounded up.

    Sequences with a larger score have together less than e^-88 of all weight.
    """
    return DEEPEST + math.ceil(math.perm(keys, size).bit_length() * 0.6932)


def sequence_rank_error(keys: int, size: int, rate: Fraction, confidence: float) -> float:
    """By how many units the keys of a sequence miss the counts of their ranks, at most, at a `confidence`.

    ln(number of sequences / (1 - confidence)) / rate: some sequence has a score of 0, and each with a larger score
    than this has at most e^-that of the whole weight [mcsherry2007].
    """
    return (math.log(math.perm(keys, size)) - math.log1p(-confidence)) / float(rate)


def draw_sequence(counts: Sequence[int], size: int, rate: Fraction, bits: Bits) -> list[int]:
    """`size` different places of `counts`, a sequence drawn by the exponential mechanism over all of them.

    Guarantee: the probability of a sequence with the score v is proportional to floor(2^b e^-min(rate v, depth)), but
    for the factor that `sequence_loss` allows for. Time and memory are of the order of k n log(k n) for n counts, or
    less: only scores up to depth / rate are distinguished.

    >>> draw_sequence([3, 900, 700], 2, Fraction(1), lambda count: 0)
    [1, 2]
    """
    order = sorted(range(len(counts)), key=lambda at: -counts[at])
    falling = np.array([counts[at] for at in order], dtype=np.int64)
    deepest = sequence_depth(len(counts), size)
    far = min(math.ceil(Fraction(deepest) / rate), int(falling[0] - falling[-1]) + 1)
    levels = list(_levels(falling, size, far))
    bits_of_weight = WEIGHT_BITS + 3 * (deepest - DEEPEST) // 2 + 2
    scores = [Fraction(score) for score, _ in levels]
    each = weights(scores, rate, deepest=deepest, length=bits_of_weight)
    place = draw([weight * number for weight, (_, number) in zip(each, levels, strict=True)], bits)
    score = levels[place][0]
    below = _reached(falling, size, score - 1)
    upto = _reached(falling, size, score) if score < far else [len(counts)] * size
    return [order[at] for at in _sequence(below, upto, bits)]


def _reached(falling: Integers, size: int, score: int) -> list[int]:
    """How many counts miss each of the first ranks by at most so much."""
    found = np.searchsorted(-falling, score - falling[:size], side="right")
    return [int(each) for each in found]


def _levels(falling: Integers, size: int, far: int) -> Iterator[tuple[int, int]]:
    """The scores of sequences, rising, and how many have each; `far` stands for all with that score or a larger one."""
    reached = _reached(falling, size, 0)
    number = math.prod(own - at for at, own in enumerate(reached))
    yield 0, number
    missed = [falling[at] - falling[reached[at] :] for at in range(size)]
    missed = [each[each < far] for each in missed]
    ranks = np.repeat(np.arange(size), [len(each) for each in missed])
    scores = np.concatenate(missed)
    order = np.argsort(scores, kind="stable")
    before, last = number, 0
    for score, rank in zip(scores[order].tolist(), ranks[order].tolist(), strict=True):
        if score != last:
            if number > before:
                yield last, number - before
            before, last = number, score
        own = reached[rank] - rank
        number = number // own * (own + 1)
        reached[rank] += 1
    if last and number > before:
        yield last, number - before
    rest = math.perm(len(falling), size) - number
    if rest:
        yield far, rest


def _sequence(below: Sequence[int], upto: Sequence[int], bits: Bits) -> list[int]:
    """One of the sequences whose ranks are among the first `upto` counts, and not all among the first `below`.

    Those are distinguished by the first rank that is not among `below`: the ranks before it are, those behind it are
    among `upto`. Each of them is drawn among the counts that are still left, uniformly.
    """
    ranks = range(len(upto))
    ahead = list(accumulate((max(below[at] - at, 0) for at in ranks), int.__mul__, initial=1))
    behind = list(accumulate((upto[at] - at for at in reversed(ranks)), int.__mul__, initial=1))[::-1]
    first = draw([ahead[at] * (upto[at] - below[at]) * behind[at + 1] for at in ranks], bits)
    found: list[int] = []
    taken: list[int] = []
    for at in ranks:
        if at == first:
            place = below[at] + uniform(upto[at] - below[at], bits)
        else:
            place = uniform((below[at] if at < first else upto[at]) - at, bits)
            for other in taken:
                place += other <= place
        insort(taken, place)
        found.append(place)
    return found


def uniform(count: int, bits: Bits) -> int:
    """One of `count` places, each with a probability that is right to a factor of 1 +- 2^-255."""
    length = count.bit_length() + _UNIFORM_BITS
    return bits(length) * count >> length


@dataclass(frozen=True, kw_only=True)
class SelectionPublisher(ExponentialPublisher):
    """The `size` most frequent of `keys` keys, in order, drawn together at `rate`; a draw is the place of a key.

    The number that is published is the rank, or for a list of `points` that of the place. It has no interval but the
    whole `support`: how far it may be off is said in units, with probability `confidence` for all ranks together.
    """

    keys: int
    size: int
    rate: Fraction
    support: Interval
    confidence: float
    points: tuple[float, ...] = ()

    def draw(self, truths: Sequence[Coordinates], bits: Bits) -> list[list[Draw]]:
        """The ranks of each group by one draw."""
        assert all(each.denominator == 1 for truth in truths for each in truth)  # a unit adds 0 or 1
        counts = ([each.numerator for each in truth] for truth in truths)
        return [[(float(at),) for at in draw_sequence(each, self.size, self.rate, bits)] for each in counts]

    def can_draw(self, *draws: Draw) -> bool:
        """Whether each draw is the place of a key, and the ranks of a group have different keys."""
        places = [draw[0] for draw in draws if len(draw) == 1]
        known = len(places) == len(draws) and all(0 <= at < self.keys and at == int(at) for at in places)
        groups = [places[at : at + self.size] for at in range(0, len(places), self.size)]
        return known and all(len(set(each)) == self.size for each in groups)

    def read(self, draws: Sequence[Sequence[Draw]]) -> list[list[Reading]]:
        """The ranks, or the points of the places, with the whole support for an interval."""
        ends, error = (self.support.lower, self.support.upper), self._rank_error

        def reading(rank: int, draw: Draw) -> Reading:
            value = self.points[int(draw[0])] if self.points else float(rank)
            return Reading(values=(value,), intervals=(ends,), rank_error=error)

        return [[reading(rank, draw) for rank, draw in enumerate(group, 1)] for group in draws]

    @property
    def _rank_error(self) -> float:
        return sequence_rank_error(self.keys, self.size, self.rate, self.confidence)

    def expected_error(self, scale: float = 1.0, form: str = "") -> str:
        """In units, whatever the `scale`: between the count of a key and that of its rank."""
        most, what = arguments.counted(f"{self._rank_error:.4g}", "unit"), "bin" if self.points else "key"
        if self.size == 1:
            best = f"the most frequent {what}"
            return f"its count is at most {most} below that of {best}, with probability {self.confidence:g}"
        return (
            f"the count of each {what} is at most {most} below the true one of its rank, "
            f"with probability {self.confidence:g} for all ranks together"
        )

    def to_dict(self) -> str:
        return "joint exponential" if self.size > 1 else "exponential"

    @property
    def mse(self) -> float:
        """The scale of the errors in units, squared: how far off they are is proportional."""
        return float(1 / self.rate) ** 2

    def check(self, found: Sensitivity, share: BudgetShare) -> None:
        """Refuse a rate that is too large for the share.

        The privacy loss of all ranks of a group, with all that rounding adds to it, must be at most what the share has,
        in exact arithmetic.
        """
        private = sequence_loss(self.size, found.cell, self.rate) <= Fraction(share.drawn)
        demand(private, "has an exponential mechanism that is less private than it says")


@dataclass(frozen=True)
class SelectionForm(Form):
    """The most frequent keys, or bins, in order; those of all ranks of a group are drawn together."""

    question: SelectionKind

    loss, draws = LossForm.RANGE, 1  # `sequence_loss` proves that it has that range; all ranks are drawn together

    def publisher(self, found: Sensitivity, share: BudgetShare, *, level: float, columns: Columns) -> Publisher:
        """The joint exponential mechanism."""
        asked = self.question
        return SelectionPublisher(
            keys=len(asked.choices),
            size=asked.size,
            rate=sequence_rate(asked.size, found.cell, share.drawn),
            support=asked.natural,
            confidence=level,
            points=asked.points,
        )

    @property
    def effort(self) -> tuple[Hashable, float]:
        """The list is made again."""
        return self.question.name, len(self.question.choices) / _DRAWN
