"""The noise families in balls: sharp at a point, and around every value where the argument is wide."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
from flint import arb

from rangebound.values.ball import ball, precision, span, taylor, value_of
from tests.laws.test_families import FAMILIES, truth

ORDER = 5


def as_ball(x: Any) -> arb:
    """A number of mpmath with a radius for its digits."""
    return arb(mp.nstr(x, 60, min_fixed=0, max_fixed=0)) if mp.isfinite(x) else arb(str(x))


def inner(lower: float, upper: float, count: int = 12) -> list[float]:
    return [lower, upper, *np.random.default_rng(7).uniform(lower, upper, size=count).tolist()]


@pytest.mark.parametrize("name", FAMILIES)
def test_density_and_distribution_function_at_a_point(name: str) -> None:
    oracle = truth(FAMILIES[name], digits=70)
    with mp.workdps(70), precision(192):
        family = FAMILIES[name].in_balls()
        for y in (-2.5, -2.1, -0.4, 0.0, 0.3, 2.0, 3.0):
            assert family.pdf(ball(y)).overlaps(as_ball(mp.exp(oracle.log_density(mp.mpf(y)))))
            assert family.cdf(ball(y)).overlaps(as_ball(oracle._cdf(mp.mpf(y))))
            assert family.sf(ball(y)).overlaps(as_ball(oracle._cdf(mp.mpf(-y))))


@pytest.mark.parametrize(("lower", "upper"), [(-0.2, 0.3), (-2.3, -1.9), (0.5, 2.4), (-3.0, 3.0), (2.05, 2.15)])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_wide_argument_gives_a_ball_around_every_value(name: str, lower: float, upper: float) -> None:
    with precision(128):
        family, wide = FAMILIES[name].in_balls(), span(lower, upper)
        for function in (family.pdf, family.cdf, family.sf):
            result = function(wide)
            for y in inner(lower, upper):
                assert result.overlaps(function(ball(y))), (function, y)


@pytest.mark.parametrize(("lower", "upper"), [(-0.2, 0.3), (-1.3, -1.1), (0.5, 0.9), (2.05, 2.15)])
@pytest.mark.parametrize("name", FAMILIES)
def test_series_about_a_wide_argument_cover_those_about_its_points(name: str, lower: float, upper: float) -> None:
    """Value and slope always; higher terms where the series claims to know them."""
    with precision(128):
        family = FAMILIES[name].in_balls()
        for function in (family.pdf, family.cdf):
            wide = function(taylor(span(lower, upper), ORDER))
            for y in inner(lower, upper):
                near = function(taylor(ball(y), ORDER))
                coefficients = [near[k] for k in range(ORDER + 1)] if near is not value_of(near) else [near]
                for k, coefficient in enumerate(coefficients):
                    known = value_of(wide) if k == 0 else wide[k] if wide is not value_of(wide) else arb(0)
                    if known.is_finite():
                        assert known.overlaps(coefficient), (function, y, k)


def test_the_comparison_catches_a_ball_that_is_too_narrow() -> None:
    """A control: a Laplace density that forgets its kink does not cover the values on the other side."""
    with precision(128):
        family = FAMILIES["laplace"].in_balls()
        forgetful = (span(-0.2, 0.3) / family.scale).exp() / (2 * family.scale)
        narrow = forgetful.mid() + (forgetful - forgetful.mid()) * 0.3
        assert not all(narrow.overlaps(family.pdf(ball(y))) for y in inner(-0.2, 0.3))
