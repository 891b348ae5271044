"""Checks of arguments: one clear error, with the name and the value, and never a repair."""

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rangebound.errors import ArgumentError, ArgumentTypeError, RangeboundError
from rangebound.values import arguments


@pytest.mark.parametrize(
    "value",
    [
        2**53 + 1,
        np.int64(2**53 + 1),
        np.int64(2**63 - 1),
        np.uint64(2**64 - 1),
        pytest.param(
            np.longdouble("0.1"),
            marks=pytest.mark.skipif(np.finfo(np.longdouble).nmant == 52, reason="here a long double is a double"),
        ),
    ],
)
def test_a_number_that_is_no_double_is_refused_rather_than_rounded(value):
    with pytest.raises(ArgumentError, match=r"^thing="):
        arguments.real("thing", value)
    for kind in (np.asarray, lambda each: [each], lambda each: [[each, 0.5]]):
        with pytest.raises(ArgumentError, match=r"^thing=.*doubles exactly"):
            arguments.reals("thing", kind(value))
        assert arguments.reals("thing", kind(value), rounded=True).reshape(-1)[0] == float(value)


@pytest.mark.parametrize("value", [2**53, -(2**53), 2**60, np.int64(-(2**63)), np.uint64(2**63), np.longdouble(0.5)])
def test_a_large_number_that_is_a_double_is_taken(value):
    assert arguments.real("thing", value) == float(value)
    for kind in (np.asarray, lambda each: [each], lambda each: [[each, 0.5]]):
        assert arguments.reals("thing", kind(value)).reshape(-1)[0] == float(value)


@given(st.floats() | st.integers())
def test_each_rule_holds_exactly(number):
    rules = {
        arguments.real: lambda x: True,
        arguments.finite: lambda x: math.isfinite(x),
        arguments.positive: lambda x: math.isfinite(x) and x > 0,
        arguments.nonnegative: lambda x: math.isfinite(x) and x >= 0,
        arguments.probability: lambda x: 0 <= x < 1,
        arguments.order: lambda x: x > 1,
    }
    for check, rule in rules.items():
        good = not math.isnan(number) and rule(number) and float(number) == number
        if good:
            assert check("thing", number) == number
            assert check("thing", np.float64(number)) == number
        else:
            with pytest.raises(RangeboundError, match=r"^thing="):
                check("thing", number)


@pytest.mark.parametrize("check", [arguments.nonnegative, arguments.probability])
def test_the_negative_zero_becomes_the_plain_one(check):
    assert math.copysign(1.0, check("thing", -0.0)) == 1.0


def test_the_reason_is_part_of_the_message():
    with pytest.raises(ArgumentError, match="thing=0: must be positive; because so"):
        arguments.positive("thing", 0, why="because so")


LONG = {"str": "x" * 10**6, "list": list(range(10**5)), "int": 10**5000, "array": np.zeros(10**6)}


@pytest.mark.parametrize("value", LONG.values(), ids=LONG)
def test_a_long_value_is_shown_short(value):
    assert len(arguments.shown(value)) <= 80


def test_a_value_that_cannot_be_shown_does_not_hide_the_error():
    class Shy:
        def __repr__(self):
            raise RuntimeError("no")

    with pytest.raises(ArgumentTypeError, match="thing="):
        arguments.real("thing", Shy())


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53)))
def test_good_arrays_come_back_as_they_are(values):
    numbers = arguments.reals("things", values)
    assert numbers.dtype == np.float64
    assert numbers.tolist() == values
    assert arguments.reals("things", np.asarray(values, dtype=float)).tolist() == values


@given(st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False), st.integers(1, 15))
def test_a_shown_number_is_rounded_to_its_side_and_by_less_than_a_digit(value, digits):
    low, high = arguments.downwards(value, digits), arguments.upwards(value, digits)
    exact = Decimal(repr(value))
    assert Decimal(low) <= exact <= Decimal(high)
    unit = Decimal(10) ** (exact.adjusted() - digits + 1)
    assert Decimal(high) in (Decimal("inf"), exact) or Decimal(high) - exact < unit
    assert Decimal(low) in (Decimal("-inf"), exact) or exact - Decimal(low) < unit


@given(st.floats(allow_nan=False), st.integers(1, 17))
def test_a_shown_number_is_read_back_as_a_double_on_its_side(value, digits):
    assert float(arguments.downwards(value, digits)) <= value <= float(arguments.upwards(value, digits))


def test_control_the_nearest_digits_are_on_both_sides():
    assert float(f"{2 / 3:.6g}") > 2 / 3 > float(arguments.downwards(2 / 3))
    assert float(f"{1 / 3:.6g}") < 1 / 3 < float(arguments.upwards(1 / 3))
