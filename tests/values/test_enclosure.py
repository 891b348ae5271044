"""Enclosures: two bounds in the right order."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rangebound.accounting import Enclosure
from rangebound.errors import ArgumentError, ArgumentTypeError


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_the_bounds_are_in_order(one, other):
    low, high = sorted((one, other))
    found = Enclosure(lower=low, upper=high)
    assert found.width >= 0.0
    assert (found.lower, found.upper) == (low, high)
    if low < high:
        with pytest.raises(ArgumentError, match="must not be above"):
            Enclosure(lower=high, upper=low)


def test_two_infinite_bounds_have_no_width():
    assert Enclosure(lower=math.inf, upper=math.inf).width == 0.0
    assert Enclosure(lower=1.0, upper=math.inf).width == math.inf


@pytest.mark.parametrize("bad", [math.nan, "1", None, True])
def test_a_bound_is_a_number(bad):
    with pytest.raises((ArgumentError, ArgumentTypeError)):
        Enclosure(lower=0.0, upper=bad)
