"""Discrete Laplace noise: its law is the stated one, exactly where bits are few, statistically where they are many."""

import math
import random
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

import rangebound as rb
from rangebound.discrete_laplace import DiscreteLaplace, magnitude
from rangebound.errors import ArgumentError
from rangebound.sampling.entropy import secure_bits as bits

LINE = rb.Interval(-math.inf, math.inf)


@pytest.mark.parametrize("scale", [0.05, 1.0, 7.5, 1e4])
def test_the_magnitude_has_its_tail_at_every_threshold(scale):
    """u just below and just above 2 r^k / (1 + r) gives k and k - 1."""
    with mpmath.workdps(60):
        r = mpmath.exp(-1 / mpmath.mpf(scale))
        for k in (1, 2, 5, int(3 * scale) + 1):
            edge = 2 * r**k / (1 + r)
            if edge < mpmath.mpf(2) ** -90:  # 128 bits say too little about so small a number
                continue
            for shift, expected in ((-(mpmath.mpf(2) ** -100), k), (mpmath.mpf(2) ** -100, k - 1)):
                known = int((edge + shift) * 2**128)
                assert magnitude(scale, lambda count, known=known: known if count == 128 else 0) == expected


def test_bits_that_do_not_decide_are_followed_by_more():
    asked = []

    def nothing(count):
        asked.append(count)
        return 0 if len(asked) < 3 else 1

    assert magnitude(1.0, nothing) > 100
    assert asked == [128, 64, 64]


def test_the_law_fits():
    scale, count = 2.5, 20_000
    drawn = DiscreteLaplace(scale=scale, sensitivity=1, support=LINE).release(np.zeros(count), bits)
    values = np.arange(-12, 13)
    r = math.exp(-1 / scale)
    chances = (1 - r) / (1 + r) * r ** np.abs(values)
    inside = np.array([(drawn == each).sum() for each in values])
    observed = np.append(inside, count - inside.sum())
    expected = count * np.append(chances, 1 - chances.sum())
    assert stats.chisquare(observed, expected).pvalue > 1e-8
    wrong = count * np.append(np.roll(chances, 1), 1 - chances.sum())
    assert stats.chisquare(observed, wrong).pvalue < 1e-8  # the control


def test_error_and_reach_are_those_of_the_law():
    made = DiscreteLaplace(scale=1.3, sensitivity=1, support=LINE)
    ks = np.arange(-200, 201)
    law = np.exp(-np.abs(ks) / 1.3)
    law /= law.sum()
    assert made.mse == pytest.approx((law * ks**2).sum(), rel=1e-12)
    for level in (0.5, 0.9, 0.95, 0.999):
        wide = made.reach(level)
        assert law[np.abs(ks) <= wide].sum() >= level
        assert law[np.abs(ks) <= wide - 2].sum() < level


def test_the_scale_is_on_the_private_side():
    chance = random.Random(2)
    for _ in range(50):
        epsilon, cell = chance.uniform(1e-4, 5), chance.randrange(1, 50)
        made = DiscreteLaplace.calibrated(sensitivity=cell, epsilon=epsilon, support=rb.Interval(0, math.inf))
        assert Fraction(cell) / Fraction(made.scale) <= Fraction(epsilon)
    with pytest.raises(ArgumentError):
        DiscreteLaplace(scale=1.0, sensitivity=0, support=LINE)


def test_draws_stay_in_the_support():
    made = DiscreteLaplace(scale=50.0, sensitivity=1, support=rb.Interval(0, 20))
    drawn = made.release(np.array([[0.0, 20.0], [10.0, 3.0]]), bits)
    assert drawn.shape == (2, 2)
    assert ((drawn >= 0) & (drawn <= 20)).all()


def test_beyond_the_doubles_numbers_are_added_whole(monkeypatch):
    from rangebound import discrete_laplace as module

    monkeypatch.setattr(module, "magnitude", lambda scale, bits: 2**53 + 1)
    drawn = DiscreteLaplace(scale=1e15, sensitivity=1, support=rb.Interval(0, math.inf)).release(
        np.array([[0.0, 1.0, 2.0, 3.0]]), lambda _: 0
    )
    assert drawn.tolist() == [[float(2**53 + 1 + truth) for truth in range(4)]]
    assert drawn[0, 1] != 1.0 + float(2**53 + 1)  # control: added as doubles, one is lost
