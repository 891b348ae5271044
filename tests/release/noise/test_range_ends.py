"""Ends of a range that is not known: private draws among public edges, that hold what they say."""

import math
import random
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest

from rangebound.release.noise import exponential_mechanism as exponential
from rangebound.release.noise import range_ends
from rangebound.release.noise.allocation import BudgetShare
from rangebound.release.noise.range_ends import RangePublisher
from rangebound.release.plan.kinds.ranks import COVER, VALUES
from rangebound.sampling.entropy import secure_bits

EDGES = (-10.0, 0.0, 1.0, 10.0, 100.0)


def made(epsilon, edges=EDGES, steps=1):
    share = BudgetShare(epsilon=epsilon, delta=0.0, groups=1, parts=2)
    rate = exponential.rate(float(COVER), Fraction(steps), share.drawn)
    return RangePublisher(edges=edges, rate=rate, confidence=0.95)


def counts(values, edges=EDGES):
    found = [Fraction(0)] * (2 * len(edges) + 1)
    for value in values:
        found[sum(edge < value for edge in edges) + sum(edge <= value for edge in edges)] += 1
    return tuple(found)


def laws(publisher, truth):
    found = []
    with mock.patch.object(exponential, "draw", lambda weights, bits: found.append(weights) or 0):
        publisher.draw([truth], None)
    return [[Fraction(each, sum(weights)) for each in weights] for weights in found]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_no_unit_loses_more_than_its_share_by_either_end(epsilon):
    chance, publisher = random.Random(1), made(epsilon)

    def loss(before, after):
        sides = zip(*(laws(publisher, counts(values)) for values in (before, after)), strict=True)
        return max(abs(math.log(p / q)) for one, two in sides for p, q in zip(one, two, strict=True))

    found = []
    for _ in range(60):
        number = chance.choice([0, 1, 5, 60])
        values = [chance.choice([-50, -10, 0, 0.5, 1, 7, 10, 99, 100, 1e9]) for _ in range(number)]
        found.append(loss(values, [*values, chance.choice([-50, 1, 1e9])]))
    assert 0.3 * epsilon < max(found) <= epsilon
    assert loss([5.0] * 40, [5.0] * 40 + [1e9, 1e9, 1e9]) > epsilon  # the control: three units


@pytest.mark.parametrize("spread", [1.0, 1000.0])
def test_no_more_units_lie_outside_than_the_error_says(spread):
    values = np.random.default_rng(4).normal(3 * spread, spread, 1000)
    publisher, truth, missed = made(1.0, VALUES), counts(values.tolist(), VALUES), 0
    for _ in range(40):
        (readings,) = publisher.read(publisher.draw([truth], secure_bits))
        lower, upper = (each.values[0] for each in readings)
        limit = float(1 - COVER) * len(values) + readings[0].rank_error
        missed += (values < lower).sum() > limit or (values > upper).sum() > limit
        assert lower < 3 * spread < upper
    assert missed <= 16  # 5 % of 40 are 2; more than 16 have a chance below 1e-11


def test_ends_that_cross_are_put_in_order_and_too_few_units_give_the_whole_grid():
    publisher = made(1.0)
    ((lower, upper),) = publisher.read([[(100.0,), (-10.0,)]])
    assert (lower.values, upper.values) == ((-10.0,), (100.0,))
    assert not publisher.can_draw((3.0,))
    assert publisher.can_draw((1.0,), (100.0,))
    drawn = publisher.draw([counts([5.0])] * 50, secure_bits)
    assert all(publisher.can_draw(*group) for group in drawn)
    assert range_ends.draw_ends(counts([]), len(EDGES), Fraction(50), secure_bits) == (4, 0)
    for value in (0.0, 1.0, 5.0, 10.0):
        low, high = range_ends.draw_ends(counts([value] * 500), len(EDGES), Fraction(10), secure_bits)
        assert EDGES[low] <= value <= EDGES[high]
