"""Amounts are exact: what goes in, what is charged, and what a mechanism may be calibrated to."""

import math
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.ledger.amount import LARGEST, SCALE, Amount, covering, exact, rounded_down, rounded_up

amounts = st.integers(0, LARGEST * SCALE).map(lambda units: Amount(units=units))
finite = st.floats(0.0, float(LARGEST), allow_subnormal=True)


class Secret(float):
    """A float that means something else, as a per-instance number does."""


@pytest.mark.parametrize(
    ("value", "units"),
    [
        (0.1, 10**11),
        ("0.1", 10**11),
        ("1e-1", 10**11),
        (Fraction(1, 10), 10**11),
        (Decimal("0.1"), 10**11),
        (np.float64(0.1), 10**11),
        (np.int64(3), 3 * SCALE),
        (2, 2 * SCALE),
        (0.30000000000000004, 300000000001),  # 0.1 + 0.2 prints so, and means it
        (Fraction(1, 3), 333333333334),
        (5e-324, 1),
        ("1e-400", 1),
        (1e-12, 1),
        ("0.0000000000010000001", 2),
        (-0.0, 0),
        (LARGEST, LARGEST * SCALE),
        (Amount(units=7), 7),
    ],
)
def test_a_value_is_charged_exactly_or_one_unit_up(value, units):
    assert rounded_up("epsilon", value).units == units


TEXTS = ["1e9999", "1e99999", "", " 1", "1\n", "1_0", "٣", "1" * 2000]
NUMBERS = [math.nan, np.float64("nan"), math.inf, -1, -1e-300, 10**5000, Fraction(-1, 3)]
DECIMALS = [Decimal("nan"), Decimal("1e-999999999"), Decimal("1e999999999")]


@pytest.mark.parametrize("value", [*TEXTS, *NUMBERS, *DECIMALS], ids=lambda value: type(value).__name__)
def test_a_bad_value_is_refused(value):
    for read in (rounded_up, rounded_down):
        with pytest.raises(ArgumentError, match=r"^epsilon="):
            read("epsilon", value)


WRONG = [b"0.1", 1j, np.array(0.1), np.float32(0.1), np.bool_(True), Secret(0.1)]


@pytest.mark.parametrize("value", WRONG, ids=lambda value: type(value).__name__)
def test_a_bad_type_is_refused(value):
    with pytest.raises(ArgumentTypeError, match=r"^epsilon="):
        rounded_up("epsilon", value)


def test_ten_times_a_tenth_is_one():
    assert 10 * rounded_up("epsilon", 0.1).units == rounded_up("epsilon", 1).units
    assert reduce(add, [0.1] * 10) != 1.0  # the control: floats do not
    tenth = rounded_up("epsilon", 0.1)
    assert Fraction(0.1) > tenth.fraction >= Fraction(float(tenth))  # the control: the nearest double is above it


@given(st.fractions(0, LARGEST))
def test_rounding_goes_the_safe_way_and_never_by_more_than_a_unit(number):
    charged = rounded_up("epsilon", number).fraction
    assert number <= charged < number + Fraction(1, SCALE)
    if number >= Fraction(1, SCALE) or number == 0:
        total = rounded_down("epsilon", number).fraction
        assert number - Fraction(1, SCALE) < total <= number


@given(finite)
def test_a_float_means_the_decimal_that_it_prints_as_and_a_computed_one_is_covered_as_it_is(number):
    assert exact("epsilon", number) == Fraction(repr(number))
    assert rounded_up("epsilon", number) == rounded_up("epsilon", repr(number))
    assert covering("divergence", number).fraction >= Fraction(number)
    assert covering("divergence", 0.1) > rounded_up("divergence", 0.1)  # it may lie above the decimal that it prints as


@given(amounts)
def test_an_amount_prints_exactly_and_its_float_is_the_largest_that_is_not_above_it(amount):
    number = float(amount)
    assert Fraction(number) <= amount.fraction < Fraction(math.nextafter(number, math.inf))
    assert Fraction(str(amount)) == amount.fraction
    assert rounded_up("epsilon", str(amount)) == rounded_down("epsilon", str(amount)) == amount
    assert "e" not in str(amount)


@pytest.mark.parametrize("units", [-1, LARGEST * SCALE + 1, 1.0, True, "1"])
def test_an_amount_is_a_whole_number_of_units_of_a_sensible_size(units):
    with pytest.raises(ArgumentError if type(units) is int else ArgumentTypeError):
        Amount(units=units)
