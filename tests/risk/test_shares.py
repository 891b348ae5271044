"""Probabilities that may be 0 and 1."""

import math

import numpy as np
import pytest

from rangebound.errors import RangeboundError
from rangebound.risk.shares import share


@pytest.mark.parametrize("value", [0, -0.0, 0.25, 1, np.float64(0.5), np.asarray(0.5)])
def test_numbers_from_0_to_1_are_taken(value):
    found = share("prior", value)
    assert type(found) is float
    assert found == abs(float(value))
    assert math.copysign(1.0, found) == 1.0


@pytest.mark.parametrize("bad", [-1e-9, 1.0000001, math.nan, math.inf, "0.5", None, [0.5]])
def test_others_are_refused_by_name(bad):
    with pytest.raises(RangeboundError, match=r"^prior="):
        share("prior", bad)
