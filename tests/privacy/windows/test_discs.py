"""Discs contain what they say, for every point of the discs they are made from, and would not without their radius."""

from __future__ import annotations

from collections.abc import Iterator

import mpmath
import numpy as np
import pytest

from rangebound.privacy.windows.discs import Discs, difference, exactly

DICE = np.random.default_rng(11)
COUNT = 200


@pytest.fixture(autouse=True)
def digits() -> Iterator[None]:
    """So many digits for all that is computed in a test of this file, and for nothing else."""
    with mpmath.workdps(50):
        yield


def discs(low: float, high: float, wide: float) -> Discs:
    return Discs(DICE.uniform(low, high, COUNT), wide * DICE.uniform(0.0, 1.0, COUNT))


def points(of: Discs) -> list[mpmath.mpc]:
    """A point of each disc, on its edge."""
    angles = DICE.uniform(0.0, 2.0 * np.pi, COUNT)
    return [
        mpmath.mpf(m) + mpmath.mpf(r) * mpmath.expj(mpmath.mpf(a)) * (1 - mpmath.mpf(10) ** -30)
        for m, r, a in zip(of.mid, of.rad, angles, strict=True)
    ]


def within(found: Discs, exact: list[mpmath.mpc]) -> list[bool]:
    return [abs(z - mpmath.mpf(m)) <= mpmath.mpf(r) for z, m, r in zip(exact, found.mid, found.rad, strict=True)]


PAIRS = {
    "plus": lambda x, y: x + y,
    "minus": lambda x, y: x - y,
    "times": lambda x, y: x * y,
    "over": lambda x, y: x / y,
}
SINGLES = {"exp": mpmath.exp, "expm1": lambda z: mpmath.exp(z) - 1, "log": mpmath.log, "halved": lambda z: z / 2}


@pytest.mark.parametrize("wide", [0.0, 1e-14, 1e-3, 0.4])
@pytest.mark.parametrize("name", PAIRS)
def test_results_of_two_discs_hold_those_of_their_points(name: str, wide: float) -> None:
    first, second = discs(-3.0, 3.0, wide), discs(0.5, 2.0, wide)
    found = getattr(first, name)(second)
    assert all(within(found, [PAIRS[name](x, y) for x, y in zip(points(first), points(second), strict=True)]))


@pytest.mark.parametrize("wide", [0.0, 1e-14, 1e-3, 0.4])
@pytest.mark.parametrize("name", SINGLES)
@pytest.mark.parametrize("size", [1.0, 1e-9])
def test_functions_of_discs_hold_those_of_their_points(name: str, wide: float, size: float) -> None:
    of = discs(0.5, 3.0, wide)
    of = Discs(of.mid * size, of.rad * size) if name != "log" else of
    found = getattr(of, name)()
    assert all(within(found, [SINGLES[name](z) for z in points(of)]))
    assert np.isfinite(found.rad).all()


def test_running_sums_and_differences() -> None:
    terms = Discs(DICE.uniform(0.0, 1.0, (3, 300)), np.full((3, 300), 1e-12))
    found = terms.summed()
    for row in range(3):
        total = mpmath.mpf(0)
        for k in range(300):
            total += mpmath.mpf(terms.mid[row, k]) + mpmath.mpf(1e-12)
            assert abs(total - mpmath.mpf(found.mid[row, k])) <= mpmath.mpf(found.rad[row, k])
    x, y = DICE.uniform(-1e6, 1e6, COUNT), DICE.uniform(-1.0, 1.0, COUNT)
    exact = [mpmath.mpf(a) - mpmath.mpf(b) for a, b in zip(x, y, strict=True)]
    assert all(within(difference(x, y), exact))


def test_nothing_is_known_where_a_divisor_or_a_logarithm_may_be_zero() -> None:
    near = Discs(np.asarray([1.0, 0.5, -1.0]), np.asarray([1.0, 0.6, 0.1]))
    assert np.isnan(exactly(np.ones(3)).over(near).rad[:2]).all()
    assert np.isnan(near.log().rad).all()
    assert (near.log().top == np.inf).all()


def test_the_control_without_the_part_for_rounding_some_point_is_left_out() -> None:
    x, y = exactly(DICE.uniform(0.5, 2.0, COUNT)), exactly(DICE.uniform(0.5, 2.0, COUNT))
    exact = [mpmath.mpf(a) / mpmath.mpf(b) for a, b in zip(x.mid, y.mid, strict=True)]
    found = x.over(y)
    assert all(within(found, exact))
    assert not all(within(Discs(found.mid, np.zeros(COUNT)), exact))
