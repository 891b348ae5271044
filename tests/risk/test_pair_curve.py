"""Upper bounds on the curve of one pair: against the best tests of random laws in fractions, with a control."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, fmpq
from hypothesis import given, settings
from hypothesis import strategies as st

from rangebound.ball import ball
from rangebound.risk.pair_curve import attained_miss_rate, mirrored, turned

LAWS = st.lists(st.integers(0, 40), min_size=2, max_size=6).filter(any)


def profile(p, q):
    """The profile of two finite laws, in balls, by its definition."""

    def at(epsilon):
        t = ball(epsilon).exp()
        return sum(
            (arb(fmpq(a.numerator, a.denominator)) - t * arb(fmpq(b.numerator, b.denominator))).max(0)
            for a, b in zip(p, q, strict=True)
        )

    return at


def best_miss(p, q, alpha):
    """The lemma of Neyman and Pearson: outcomes by their ratio, until the false positive rate is used up."""
    left, hit = Fraction(alpha), Fraction(0)
    for a, b in sorted(zip(p, q, strict=True), key=lambda each: (each[1] > 0, -each[0] / each[1] if each[1] else 0)):
        part = min(Fraction(1), left / b) if b else Fraction(1)
        hit, left = hit + part * a, left - part * b
    return 1 - hit


@settings(max_examples=60, deadline=None)
@given(LAWS, LAWS, st.sampled_from([0.0, 1e-3, 0.1, 0.25, 0.5, 0.9, 1.0]))
def test_it_is_the_best_test_of_the_pair_or_a_little_worse(one, two, alpha):
    size = min(len(one), len(two))
    p, q = ([Fraction(each, sum(law[:size]) or 1) for each in law[:size]] for law in (one, two))
    if sum(p) != 1 or sum(q) != 1:
        p = q = [Fraction(1)]
    exact = best_miss(p, q, alpha)
    found = attained_miss_rate(profile(p, q), alpha)
    assert Fraction(found) >= exact
    if alpha or not any(b == 0 < a for a, b in zip(p, q, strict=True)):  # at 0 what one law alone has is not seen
        assert found - float(exact) < 1e-5


def test_a_profile_that_is_too_large_would_be_below_the_best_test():
    """The control: it says that a test misses less than any does."""
    p, q = [Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]
    exact = best_miss(p, q, 0.1)
    assert attained_miss_rate(profile(p, q), 0.1) >= exact
    assert attained_miss_rate(lambda x: profile(p, q)(x) + 0.01, 0.1) < exact


@pytest.mark.parametrize("x", [-2.0, -0.3, 0.0, 0.3, 2.0])
def test_turned_twice_it_is_the_same_and_turned_once_the_other_order(x):
    p, q = [Fraction(1, 2), Fraction(3, 8), Fraction(1, 8)], [Fraction(1, 8), Fraction(3, 8), Fraction(1, 2)]
    r = [Fraction(1, 4), Fraction(1, 4), Fraction(1, 2)]
    assert turned(profile(p, r))(x).overlaps(profile(r, p)(x))
    assert turned(turned(profile(p, r)))(x).overlaps(profile(p, r)(x))
    assert mirrored(profile(p, q))(x).overlaps(profile(q, p)(x))  # its own mirror image
    assert not mirrored(profile(p, r))(-1.0).overlaps(profile(p, r)(-1.0))  # control: this one is not


def test_wide_balls_give_a_larger_miss_rate_never_a_smaller_one():
    p, q = [Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]
    sharp, wide = profile(p, q), lambda x: profile(p, q)(x) + arb(0, 1e-6)
    found = [attained_miss_rate(each, 0.1, tolerance=1e-7) for each in (sharp, wide)]
    assert found[0] <= found[1] <= found[0] + 1e-4
    assert math.isclose(found[0], float(best_miss(p, q, 0.1)), abs_tol=1e-6)
    assert np.isfinite(found).all()
