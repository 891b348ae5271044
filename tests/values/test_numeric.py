"""Arrays of any kind: log(1 - e^x), log-sums, and the library an array belongs to."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st

from rangebound.values.numeric import ldexpm1, log_sum, rounded_down, rounded_up, special
from tests.crosscheck.compare import agree


@pytest.mark.parametrize("x", [-1e-300, -1e-17, -1e-9, -0.3, -math.log(2.0), -0.7, -3.0, -40.0, -700.0])
def test_ldexpm1_does_not_cancel(x: float) -> None:
    with mp.workdps(400):
        agree(ldexpm1(np.asarray(x)), mp.log(-mp.expm1(mp.mpf(x))), rel=1e-15)


def test_ldexpm1_at_its_ends() -> None:
    assert ldexpm1(np.asarray(0.0)) == -np.inf
    assert ldexpm1(np.asarray(-np.inf)) == 0.0


def test_ldexpm1_where_the_plain_form_fails() -> None:
    """A control: log(1 - e^x) as it is written loses all digits that the comparison asks for."""
    x = -1e-12
    with mp.workdps(60), pytest.raises(AssertionError):
        agree(math.log(1.0 - math.exp(x)), mp.log(-mp.expm1(mp.mpf(x))), rel=1e-9)


def test_log_sum_is_stable_and_knows_nothing_from_zero() -> None:
    generator = np.random.default_rng(1)
    logs = generator.normal(scale=300.0, size=(50, 6))
    np.testing.assert_allclose(log_sum(logs), scipy.special.logsumexp(logs, axis=-1), rtol=1e-15)
    assert log_sum(np.full(3, -np.inf)) == -np.inf
    assert log_sum(np.array([-np.inf, 2.0])) == 2.0
    assert log_sum(np.array([-1e4, -1e4])) == pytest.approx(-1e4 + math.log(2.0), rel=1e-15)


def test_torch_tensors_get_torch() -> None:
    torch = pytest.importorskip("torch")
    x = torch.tensor([-1e-12, -0.5, -30.0], dtype=torch.float64)
    assert special(x) is torch.special
    assert special(x.numpy()) is scipy.special
    np.testing.assert_allclose(ldexpm1(x).numpy(), ldexpm1(x.numpy()), rtol=1e-15)
    np.testing.assert_allclose(log_sum(x).numpy(), log_sum(x.numpy()), rtol=1e-15)


@given(st.fractions() | st.floats(allow_nan=False, allow_infinity=False).map(Fraction))
def test_a_fraction_lies_between_its_doubles_and_no_double_between_them(x: Fraction) -> None:
    low, high = rounded_down(x), rounded_up(x)
    assert Fraction(low) <= x <= Fraction(high)
    assert high in (low, math.nextafter(low, math.inf))
    assert (low == high) == (Fraction(float(x)) == x)


@given(st.integers(-1074, 1023), st.integers(1, 2**60), st.integers(1, 2**60))
def test_small_and_large_fractions_are_rounded_to_their_side(power: int, above: int, below: int) -> None:
    x = Fraction(2) ** power * Fraction(above, below)
    for each in (x, -x):
        assert rounded_down(each) <= each <= rounded_up(each)


def test_control_the_nearest_double_is_on_both_sides() -> None:
    nearest = [(float(x), x) for x in (Fraction(n, 10) for n in range(1, 10))]
    assert any(near < x for near, x in nearest)
    assert any(near > x for near, x in nearest)


def test_a_fraction_beyond_the_doubles_is_rounded_to_its_side() -> None:
    huge = Fraction(10**400)
    assert rounded_up(huge) == math.inf
    assert rounded_down(huge) == sys.float_info.max
    assert rounded_up(-huge) == -sys.float_info.max
    assert rounded_down(-huge) == -math.inf
    tiny = Fraction(1, 10**400)
    assert rounded_up(tiny) == math.nextafter(0.0, 1.0)
    for least in (Fraction(0), tiny):
        assert math.copysign(1.0, rounded_down(least)) == 1.0  # a share without delta is published as 0.0
        assert rounded_down(least) == 0.0
