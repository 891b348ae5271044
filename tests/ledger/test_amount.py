"""Amounts are exact: what goes in, what is charged, and what a mechanism may be calibrated to."""

import math
import pickle
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
        (".1", 10**11),
        ("+1.", SCALE),
        (Fraction(1, 10), 10**11),
        (Decimal("0.1"), 10**11),
        (np.float64(0.1), 10**11),
        (np.int64(3), 3 * SCALE),
        (2, 2 * SCALE),
        (0.30000000000000004, 300000000001),  # 0.1 + 0.2 prints so, and means it
        (Fraction(1, 3), 333333333334),
        (5e-324, 1),
        (2.2250738585072009e-308, 1),
        ("1e-400", 1),
        ("1e-9999", 1),
        (1e-12, 1),
        ("0.0000000000010000001", 2),
        (0, 0),
        (0.0, 0),
        (-0.0, 0),
        ("-0", 0),
        (LARGEST, LARGEST * SCALE),
        (Amount(units=7), 7),
    ],
)
def test_a_value_is_charged_exactly_or_one_unit_up(value, units):
    assert rounded_up("epsilon", value).units == units


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        -1,
        -1e-300,
        "-1e-300",
        "1e400",
        "1e9999",
        "1e99999",
        "1e-99999",
        1e400,
        1.7976931348623157e308,
        10**7,
        pytest.param(10**5000, id="huge"),
        "nan",
        "inf",
        "Infinity",
        "",
        " 1",
        "1 ",
        "1\n",
        "1_0",
        "0x1",
        "1/3",
        "1,5",
        "٣",
        "1" * 2000,
        Decimal("nan"),
        Decimal("sNaN"),
        Decimal("inf"),
        Decimal("1e-999999999"),
        Decimal("1e999999999"),
        Decimal("-0.1"),
        Fraction(-1, 3),
        np.float64("nan"),
    ],
)
def test_a_bad_value_is_refused(value):
    for read in (rounded_up, rounded_down):
        with pytest.raises(ArgumentError, match=r"^epsilon="):
            read("epsilon", value)


@pytest.mark.parametrize(
    "value",
    [
        True,
        False,
        None,
        b"0.1",
        [0.1],
        (1,),
        {"epsilon": 1},
        1j,
        np.array(0.1),
        np.array([0.1]),
        np.float32(0.1),
        np.bool_(True),
        Secret(0.1),
        object(),
        float,
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_bad_type_is_refused(value):
    with pytest.raises(ArgumentTypeError, match=r"^epsilon="):
        rounded_up("epsilon", value)


def test_ten_times_a_tenth_is_one_and_a_million_tiny_ones_are_exact():
    assert sum(rounded_up("epsilon", 0.1).units for _ in range(10)) == rounded_up("epsilon", 1).units
    assert reduce(add, [0.1] * 10) != 1.0  # the control: floats do not
    tiny = rounded_up("epsilon", 1e-6).units
    assert sum(tiny for _ in range(10**6)) == SCALE


@given(st.fractions(0, LARGEST))
def test_rounding_goes_the_safe_way_and_never_by_more_than_a_unit(number):
    charged = rounded_up("epsilon", number).fraction
    assert number <= charged < number + Fraction(1, SCALE)
    if number >= Fraction(1, SCALE) or number == 0:
        total = rounded_down("epsilon", number).fraction
        assert number - Fraction(1, SCALE) < total <= number


@given(finite)
def test_a_float_means_the_decimal_that_it_prints_as(number):
    assert exact("epsilon", number) == Fraction(repr(number))
    assert rounded_up("epsilon", number) == rounded_up("epsilon", repr(number))


@given(amounts)
def test_the_float_of_an_amount_is_the_largest_that_is_not_above_it(amount):
    number = float(amount)
    assert Fraction(number) <= amount.fraction < Fraction(math.nextafter(number, math.inf))


def test_the_nearest_float_would_be_too_large():
    """The control: the double nearest to one tenth is above it."""
    tenth = rounded_up("epsilon", 0.1)
    assert Fraction(0.1) > tenth.fraction >= Fraction(float(tenth))


@given(amounts)
def test_an_amount_prints_exactly_and_is_read_back(amount):
    assert Fraction(str(amount)) == amount.fraction
    assert rounded_up("epsilon", str(amount)) == rounded_down("epsilon", str(amount)) == amount
    assert "e" not in str(amount)


@given(finite)
def test_a_computed_bound_is_covered_as_the_binary_number_that_it_is(number):
    assert covering("divergence", number).fraction >= Fraction(number)


def test_a_computed_bound_may_lie_above_the_decimal_that_it_prints_as():
    assert covering("divergence", 0.1) > rounded_up("divergence", 0.1)


@pytest.mark.parametrize("value", ["1e-13", 5e-324, Fraction(1, 10**13)])
def test_a_total_that_would_vanish_is_refused(value):
    with pytest.raises(ArgumentError, match="at least 1e-12"):
        rounded_down("delta", value)


@pytest.mark.parametrize("units", [-1, LARGEST * SCALE + 1])
def test_an_amount_has_a_sensible_size(units):
    with pytest.raises(ArgumentError):
        Amount(units=units)


@pytest.mark.parametrize("units", [1.0, True, "1"])
def test_units_are_whole_numbers(units):
    with pytest.raises(ArgumentTypeError):
        Amount(units=units)


def test_an_amount_is_a_value():
    assert Amount(units=1) < Amount(units=2)
    assert pickle.loads(pickle.dumps(Amount(units=5))) == Amount(units=5)
    assert len({Amount(units=5), Amount(units=5)}) == 1
