"""What an argument for numbers may be given: kinds of numbers that it takes, and arrays that it may not accept."""

import math

import numpy as np


class Broken:
    """An array of another library that refuses to be converted, as a tensor that requires a gradient does."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("call detach() first")


KINDS = [int, float, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
KINDS += [np.float16, np.float32, np.float64, np.longdouble]

# The numbers in them lie in [0, 1], where every argument would take them.
BAD_ARRAYS = {
    "bytearray": bytearray(b"12"),
    "bools": np.array([True, False]),
    "bools among numbers": [True, 0.5],
    "strings": np.array(["1"]),
    "list of strings": ["1", "2"],
    "objects": np.array([0.5], dtype=object),
    "complex numbers": np.array([1j]),
    "dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
    "durations": np.array([1], dtype="timedelta64[s]"),
    "records": np.zeros(2, dtype=[("a", float)]),
    "ragged": [[0.5], [0.5, 0.25]],
    "None among numbers": [0.5, None],
    "masked": np.ma.masked_array([0.25, 0.5], mask=[False, True]),
    "broken": Broken(),
    "nan among numbers": [0.5, math.nan],
    "nan at the end of a matrix": np.array([[0.5, 0.5], [0.5, math.nan]]),
    "nan in single precision": np.array([0.5, math.nan], dtype=np.float32),
    "huge integer among numbers": [0.5, 10**400],
    "huge long double": np.longdouble("1e400"),
}
