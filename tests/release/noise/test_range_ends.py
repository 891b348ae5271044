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
from rangebound.release.noise.range_ends import COVER, DAYS, VALUES, range_publisher
from rangebound.sampling.entropy import secure_bits

EDGES = (-10.0, 0.0, 1.0, 10.0, 100.0)


def made(epsilon, edges=EDGES, steps=1):
    share = BudgetShare(epsilon=epsilon, delta=0.0, groups=1, parts=2)
    return range_publisher(edges, Fraction(steps), share, confidence=0.95)


def counts(values, edges=EDGES):
    found = [Fraction(0)] * (2 * len(edges) + 1)
    for value in values:
        found[sum(edge < value for edge in edges) + sum(edge <= value for edge in edges)] += 1
    return tuple(found)


def laws(publisher, truth):
    """The weights of both draws."""
    found = []
    with mock.patch.object(exponential, "draw", lambda weights, bits: found.append(weights) or 0):
        publisher.draw([truth], None)
    return [[Fraction(each, sum(weights)) for each in weights] for weights in found]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_no_unit_loses_more_than_its_share_by_either_end(epsilon):
    chance, worst = random.Random(1), 0.0
    publisher = made(epsilon)
    for _ in range(60):
        values = [
            chance.choice([-50, -10, 0, 0.5, 1, 7, 10, 99, 100, 1e9]) for _ in range(chance.choice([0, 1, 5, 60]))
        ]
        more = [*values, chance.choice([-50, 1, 1e9])]
        for one, two in zip(laws(publisher, counts(values)), laws(publisher, counts(more)), strict=True):
            worst = max(worst, *(abs(math.log(p / q)) for p, q in zip(one, two, strict=True)))
    assert 0.3 * epsilon < worst <= epsilon


def test_control_two_units_exceed_it():
    publisher, worst = made(1.0), 0.0
    few, more = counts([5.0] * 40), counts([5.0] * 40 + [1e9, 1e9, 1e9])
    for one, two in zip(laws(publisher, few), laws(publisher, more), strict=True):
        worst = max(worst, *(abs(math.log(p / q)) for p, q in zip(one, two, strict=True)))
    assert worst > 1.0


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
    assert missed <= 12  # 5 % of 40 are 2; more than 12 have a chance below 1e-6


def test_ends_that_cross_are_put_in_order_and_too_few_units_give_the_whole_grid():
    publisher = made(1.0)
    ((lower, upper),) = publisher.read([[(100.0,), (-10.0,)]])
    assert (lower.values, upper.values) == ((-10.0,), (100.0,))
    assert not publisher.can_draw((3.0,))
    assert publisher.can_draw((1.0,), (100.0,))
    drawn = publisher.draw([counts([5.0])] * 50, secure_bits)
    assert all(publisher.can_draw(*group) for group in drawn)
    assert range_ends.draw_ends(counts([]), len(EDGES), Fraction(50), secure_bits) == (4, 0)


@pytest.mark.parametrize("value", [0.0, 1.0, 5.0, 10.0])
def test_the_edges_enclose_the_values(value):
    low, high = range_ends.draw_ends(counts([value] * 500), len(EDGES), Fraction(10), secure_bits)
    assert EDGES[low] <= value <= EDGES[high]


def test_grids_rise():
    assert list(VALUES) == sorted(set(VALUES))
    assert list(DAYS) == sorted(set(DAYS))
