"""Balls contain what they should: every function of a ball covers the function of every point inside it."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from flint import arb, ctx

from rangebound.values.ball import (
    PRECISIONS,
    ball,
    down,
    hull,
    inside,
    is_taylor,
    kinked,
    largest,
    power,
    precision,
    refine,
    rising,
    smallest,
    span,
    taylor,
    up,
    value_of,
)

ORDER = 5
SEED = 31


def points(lower: float, upper: float, count: int = 20) -> list[float]:
    generator = np.random.default_rng(SEED)
    return [lower, upper, *generator.uniform(lower, upper, size=count).tolist()]


def test_a_span_holds_all_between_its_ends() -> None:
    both = span(-0.1, 0.7)
    assert all(both.contains(arb(x)) for x in points(-0.1, 0.7))
    assert not both.contains(arb(0.71))


@pytest.mark.parametrize("x", [0.0, 1.0, -1.0, 0.1, 1e-310, -3e-310, 2.0**-1074, 1e300, math.pi])
def test_a_double_enters_exactly_and_up_and_down_keep_it(x: float) -> None:
    assert ball(x).is_exact()
    assert up(ball(x)) == x == down(ball(x)) == float(ball(x))


def test_up_and_down_of_what_is_wide_infinite_or_unknown() -> None:
    wide = ball(-0.25).union(ball(0.75))
    assert up(wide) >= 0.75
    assert down(wide) <= -0.25
    assert up(arb.pos_inf()) == down(arb.pos_inf()) == up(arb.nan()) == math.inf
    assert down(arb.neg_inf()) == up(arb.neg_inf()) == down(arb.nan()) == -math.inf


def test_up_and_down_round_to_the_safe_side_by_an_ulp() -> None:
    with precision(128):
        for x in (1 / ball(3.0), -1 / ball(3.0), ball(2.0).sqrt(), ball(1e-200) / 3, arb.pi() * ball(1e250)):
            high, low = up(x), down(x)
            assert arb(low) <= x <= arb(high)
            assert math.nextafter(low, math.inf) == high


@pytest.mark.parametrize(
    ("function", "truth", "lower", "upper"),
    [
        (arb.exp, mp.exp, -3.0, 2.5),
        (arb.erfc, mp.erfc, -4.0, 6.0),
        (arb.log, mp.log, 0.5, 7.0),
        (arb.sqrt, mp.sqrt, 1.0, 9.0),
    ],
)
def test_rising_is_tight_and_covers(function: object, truth: object, lower: float, upper: float) -> None:
    with mp.workdps(60), precision(128):
        whole = rising(function, span(lower, upper))
        values = [truth(mp.mpf(x)) for x in points(lower, upper)]
        assert all(whole.overlaps(arb(mp.nstr(value, 50))) for value in values)
        low, high = sorted(map(float, values[:2]))
        slack = 1e-7 * (high - low)  # the radius of a ball has thirty bits
        assert low - slack <= down(whole)
        assert up(whole) <= high + slack


def test_rising_of_a_falling_or_exact_argument() -> None:
    assert rising(arb.exp, ball(1.0)).overlaps(arb(1).exp())
    falling = rising(lambda x: (-x).exp(), span(0.0, 1.0))
    assert all(falling.overlaps((-arb(x)).exp()) for x in points(0.0, 1.0))


@pytest.mark.parametrize("radius", [0.0, 0.01, 0.3])
def test_a_taylor_series_covers_value_and_derivatives(radius: float) -> None:
    """f(x) = exp(-x^2) log(2 + x): the coefficients about a ball hold those about every point of it."""

    def function(x: object) -> object:
        return (-(x * x)).exp() * (x + 2).log()

    middle = 0.37
    wide = function(taylor(span(middle - radius, middle + radius), ORDER))
    assert is_taylor(wide)
    with mp.workdps(50):
        for x in points(middle - radius, middle + radius, count=6):
            truth = mp.taylor(lambda t: mp.exp(-t * t) * mp.log(2 + t), mp.mpf(x), ORDER)
            for k in range(ORDER + 1):
                assert wide[k].overlaps(arb(mp.nstr(truth[k], 35))), (x, k)


def test_a_taylor_series_that_is_wrong_is_caught() -> None:
    """A control: the same comparison fails for a series with a wrong second coefficient."""
    series = taylor(ball(0.3), ORDER).exp()
    assert series[2].overlaps(arb(0.3).exp() / 2)
    assert not series[2].overlaps(arb(0.3).exp() / 2 * (1 + arb(1e-15)))


def test_value_of_drops_the_derivatives() -> None:
    assert value_of(taylor(ball(0.5), ORDER) * 2).overlaps(arb(1))
    assert value_of(ball(0.5)).overlaps(arb(0.5))
    assert not is_taylor(ball(0.5))


def test_largest_and_smallest_cover_both() -> None:
    a, b = span(0.0, 2.0), span(1.0, 3.0)
    high, low = largest(a, b), smallest(a, b)
    for x in points(0.0, 2.0):
        for y in points(1.0, 3.0, count=5):
            assert high.contains(arb(max(x, y)))
            assert low.contains(arb(min(x, y)))
    assert largest(ball(1.0), ball(4.0), ball(2.0)) == arb(4)
    assert smallest(ball(1.0), ball(4.0), ball(-2.0)) == arb(-2)


def test_largest_of_series_keeps_the_one_that_is_surely_larger() -> None:
    x = taylor(ball(0.25), ORDER)
    assert (largest(x, ball(0.1)) - x)[1].is_zero()
    assert value_of(largest(x, ball(0.5))) == arb(0.5)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("other", "slope"), [(lambda x: 1 - x, -1), (lambda x: ball(0.5), 0)], ids=["series", "number"]
)
def test_largest_of_a_series_and_what_it_crosses_covers_both_slopes(other: object, slope: int, swapped: bool) -> None:
    """max(x, 1 - x) and max(x, 1/2) about a ball around 1/2: the slope is one or the other, the rest unknown."""
    x = taylor(span(0.4, 0.6), ORDER)
    best = largest(other(x), x) if swapped else largest(x, other(x))
    assert is_taylor(best)
    assert best[0].contains(arb(0.6))
    assert best[0].contains(arb(0.5))
    assert best[1].contains(arb(1))
    assert best[1].contains(arb(slope))
    assert not best[ORDER].is_finite()


def test_kinked_covers_value_and_slope_and_claims_no_more() -> None:
    x = taylor(span(-0.1, 0.2), ORDER) * 3
    absolute = kinked(x, value=abs(value_of(x)), slope=span(-1.0, 1.0))
    assert absolute[0].contains(arb(0.3))
    assert absolute[1].contains(arb(3))
    assert absolute[1].contains(arb(-3))
    assert not absolute[2].is_finite()


def test_hull_holds_everything() -> None:
    whole = hull([ball(3.0), ball(-1.0), span(5.0, 6.0)])
    assert all(whole.contains(arb(x)) for x in (3.0, -1.0, 5.5, 0.0))


def test_power_of_a_ball() -> None:
    result = power(span(0.5, 0.75), ball(2.5))
    assert all(result.contains(arb(x) ** arb(2.5)) for x in points(0.5, 0.75, count=5))
    assert not power(span(-1.0, 1.0), ball(2.5)).is_finite()


def test_precision_is_put_back() -> None:
    before = ctx.prec
    with precision(777):
        assert ctx.prec == 777
        with pytest.raises(ZeroDivisionError), precision(99):
            raise ZeroDivisionError
        assert ctx.prec == 777
    assert ctx.prec == before


def test_refine_adds_bits_until_the_digits_are_there() -> None:
    """1 - e^{-1e-60} needs more than 128 bits."""
    used = []

    def cancelling() -> arb:
        used.append(ctx.prec)
        return 1 - (-(arb(10) ** -60)).exp()

    value = refine(cancelling)
    assert value.rel_accuracy_bits() >= 54
    assert used == [bits for bits in PRECISIONS if bits <= used[-1]]
    assert len(used) > 1


def test_refine_stops_at_the_limit() -> None:
    used = []

    def unknowable() -> arb:
        used.append(ctx.prec)
        return arb(0, 1)

    assert refine(unknowable).contains(0)
    assert used == list(PRECISIONS)


def test_a_ball_inside_an_interval_does_not_reach_over_its_ends() -> None:
    """And the ball around it, the control, always does."""
    with precision(128):
        for lower, upper in ((0.0, 2.0), (1.5, 2.0), (0.1, 0.2), (-3.0, 1e6), (1.5, 1.5 + 2.0**-40)):
            within = inside(lower, upper)
            assert within is not None
            assert lower <= within.lower()
            assert within.upper() <= upper
            assert 2 * within.rad() > (1 - 2.0**-20) * (upper - lower)
            assert span(lower, upper).lower() < lower


def test_a_ball_inside_a_narrow_interval_reaches_over_neither_end_or_is_none() -> None:
    """About as narrow as its margin: there rounding carries the ball over the one end, over the other, or over both."""
    generator = np.random.default_rng(SEED)
    found = []
    with precision(53):
        for lower in generator.uniform(-4.0, 4.0, size=500).tolist():
            upper = lower + abs(lower) * 2.0 ** generator.uniform(-27.0, -20.0)
            found.append(inside(lower, upper))
            if found[-1] is not None:
                assert lower <= found[-1].lower()
                assert found[-1].upper() <= upper
    assert 50 < sum(each is None for each in found) < 450
