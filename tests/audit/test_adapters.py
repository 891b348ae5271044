"""Adapters call what they are given, and say what is missing; the libraries themselves are not needed."""

import numpy as np
import pytest
from scipy import stats

import rangebound as rb
from rangebound.audit import adapters


class Counter:
    """Stands for a mechanism of another library."""

    def __init__(self):
        self.calls = 0

    def randomise(self, value):
        self.calls += 1
        return value + self.calls

    __call__ = randomise


@pytest.mark.parametrize("adapter", [adapters.diffprivlib, adapters.opendp, adapters.one_by_one])
def test_one_call_for_each_output(adapter):
    assert adapter(Counter())(10.0, 3).tolist() == [11.0, 12.0, 13.0]


def test_numpy_and_scipy_add_their_noise_to_the_answer():
    zero = adapters.numpy(np.random.default_rng(1).laplace, scale=2.0)(0.0, 5)
    five = adapters.numpy(np.random.default_rng(1).laplace, scale=2.0)(5.0, 5)
    np.testing.assert_array_equal(five, 5.0 + zero)
    law = stats.laplace(scale=2.0)
    law.random_state = 3
    assert abs(np.median(adapters.scipy(law)(5.0, 2001)) - 5.0) < 0.3


@pytest.mark.parametrize("adapter", [adapters.diffprivlib, adapters.opendp, adapters.scipy, adapters.one_by_one])
def test_what_does_not_fit_is_refused(adapter):
    with pytest.raises(rb.ArgumentTypeError, match="must be"):
        adapter(3.0)


@pytest.mark.parametrize("adapter", [adapters.diffprivlib, adapters.opendp, adapters.one_by_one])
def test_a_mechanism_of_whole_numbers_is_given_whole_numbers(adapter):
    class Whole(Counter):
        def randomise(self, value):
            if type(value) is not int:
                raise TypeError("inferred type is f64, expected i32")
            return super().randomise(value)

        __call__ = randomise

    assert adapter(Whole())(10.0, 3).tolist() == [11.0, 12.0, 13.0]
    with pytest.raises(TypeError, match="expected i32"):
        adapter(Whole())(10.5, 1)
