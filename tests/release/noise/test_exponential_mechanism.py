"""Quantiles on a grid: the exact law of the draw is private, and finds the quantile."""

import math
import random
from fractions import Fraction

import mpmath
import pytest

from rangebound.release.noise import exponential_mechanism as exponential


def law(counts, level, sensitivity, epsilon):
    rate = exponential.rate(level, Fraction(sensitivity), epsilon)
    found = exponential.weights(exponential.scores(counts, level), rate)
    return [Fraction(each, sum(found)) for each in found]


@pytest.mark.parametrize("level", [0.5, 0.01, 0.9])
@pytest.mark.parametrize("epsilon", [1e-6, 0.5, 20.0])
def test_the_law_is_private_for_every_unit_that_comes_or_goes(level, epsilon):
    chance = random.Random(7)
    worst = 0
    for _ in range(40):
        counts = [Fraction(chance.choice([0, 0, 1, 5, 1000])) for _ in range(11)]
        more = list(counts)
        for _ in range(3):  # a unit with three rows
            more[chance.choice([0, 10, chance.randrange(11)])] += 1
        with mpmath.workdps(50):
            pairs = zip(law(counts, level, 3, epsilon), law(more, level, 3, epsilon), strict=True)
            ratios = [p / q for p, q in pairs]
            worst = max([worst, *(abs(mpmath.log(mpmath.mpf(r.numerator) / r.denominator)) for r in ratios)])
    assert 0.3 * epsilon < worst <= epsilon
    none, larger = ([Fraction(rows), *[Fraction(0)] * 10] for rows in (0, 12))  # a control: a unit of twelve rows
    p, q = law(none, 0.5, 3, 1.0), law(larger, 0.5, 3, 1.0)
    assert max(max(a / b, b / a) for a, b in zip(p, q, strict=True)) > Fraction(271829, 100000)


def test_scores_count_rows_from_the_quantile_and_draws_follow_their_bits():
    counts = [Fraction(each) for each in (2, 0, 3, 5)]
    assert exponential.scores(counts, 0.5) == [3, 3, 0, 0]
    assert exponential.scores(counts, 0.25) == [0.5, 0.5, 0, 2.5]
    drawn = [exponential.draw([1, 2, 1], lambda count, at=at: at << (count - 2)) for at in range(4)]
    assert drawn == [0, 1, 1, 2]
    assert exponential.draw([0, 0, 7], lambda count: (1 << count) - 1) == 2


def test_the_rank_error_holds_as_often_as_it_says():
    counts = [Fraction(40)] * 11
    rate = exponential.rate(0.5, Fraction(1), 0.1)
    limit = exponential.rank_error(11, rate, 0.95)
    scored = zip(law(counts, 0.5, 1, 0.1), exponential.scores(counts, 0.5), strict=True)
    assert sum(p for p, score in scored if score > limit) <= Fraction(1, 20)


def test_no_weight_is_so_small_that_rounding_it_matters():
    """The stated loss of a draw rests on weights of 2^129 or more: those below e^-88 count as that."""
    deep = exponential.weights([Fraction(87), Fraction(88), Fraction(89), Fraction(10**9)], Fraction(1))
    assert deep[0] > deep[1] == deep[2] == deep[3] >= 2**129
    for each, depth in zip(deep[:2], (87, 88), strict=True):
        assert abs(each / 2**256 - math.exp(-depth)) <= 1e-12 * math.exp(-depth)
