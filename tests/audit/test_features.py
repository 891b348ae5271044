"""What is looked at in outputs, against exact arithmetic on the doubles themselves."""

import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rangebound.audit.bound import grain, last_bits, seen_only, table

DOUBLES = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)


@pytest.mark.slow
@given(DOUBLES.filter(bool))
def test_the_grain_is_that_of_the_exact_fraction(x):
    exact = Fraction(x) * Fraction(2) ** int(grain(np.asarray([x]))[0])
    assert exact.denominator == 1
    assert exact.numerator % 2 == 1


def test_zeros_infinities_and_numbers_of_one_sample_only():
    assert grain(np.asarray([0.0, -0.0, 2.0**1023])).tolist() == [-2000.0, -2000.0, -1023.0]
    assert np.isfinite(table(np.asarray([math.inf, -math.inf, 1.0]))).all()
    feature = seen_only(np.asarray([1.0, 2.0, 2.0]), np.asarray([2.0, 3.0]))
    assert feature.compute(np.asarray([1.0, 2.0, 3.0, 4.0])).tolist() == [1.0, 0.0, -1.0, 0.0]


@given(DOUBLES.filter(lambda x: abs(x) > 1e-300))
def test_the_last_bits_are_those_of_the_double(x):
    (bits,) = struct.unpack("<q", struct.pack("<d", abs(x)))
    assert last_bits(np.asarray([x]))[0] == bits % 8
