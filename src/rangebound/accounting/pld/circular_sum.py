"""The law of a sum of independent numbers on a grid by one Fourier transform, with a bound on its error."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rangebound.values.array_types import Floats

Waves = npt.NDArray[np.complex128]

UNIT = 2.0**-53
TINY = 1e-290  # more than all that is lost by numbers too small for a double


def circular_sum(rows: Sequence[Floats], times: Sequence[int]) -> tuple[Floats, float]:
    """The law of a sum of independent numbers, modulo the length of the rows, and a bound on its error.

    Row i has the masses of a number that is added `times[i]` times. The bound is in the Euclidean norm. A transform of
    2^m numbers by Cooley and Tukey's method, with twiddle factors good to one unit, has a relative error of at most
    about 6.7 m units in the Euclidean norm [higham2002, Thm 24.2]; 16 m are allowed here. A product of complex numbers
    is good to sqrt(5) units [brent2007], so a power k to 3 k of them. A single frequency is off by at most as many
    units of the sum of a row: on each of the m levels a number is a sum of entries times factors of size 1, over a
    block of its own, and is rounded relative to the sum of that block.

    >>> bins, error = circular_sum([np.array([0.5, 0.5, 0.0, 0.0])], [2])
    >>> bins.round(12).tolist(), error < 1e-13
    ([0.25, 0.5, 0.25, 0.0], True)
    """
    size = len(rows[0])
    gamma = 16.0 * math.log2(size) * UNIT
    half = size // 2 + 1
    product, largest, share = np.ones(half, dtype=np.complex128), np.ones(half), np.zeros(half)
    for row, k in zip(rows, times, strict=True):
        factor = np.fft.rfft(row)
        # The error of one frequency is at most that of all together.
        wrong = gamma * min(math.sqrt(size) * norm(row), float(np.abs(row).sum())) * (1.0 + 1e-9) + TINY
        bound = np.abs(factor) * (1.0 + 1e-15) + wrong
        with np.errstate(under="ignore"):
            product, largest = product * _power(factor, k), largest * bound ** float(k)
        share += k * (wrong / bound)
    share += 3.0 * UNIT * (sum(times) + 2 * len(rows))
    with np.errstate(under="ignore"):
        errors = largest * share * (1.0 + 1e-6) + TINY
        waves = math.sqrt(2.0) * (norm(errors) + gamma * norm(np.abs(product)))
    error = waves / math.sqrt(size) * (1.0 + 1e-9) + TINY
    return np.fft.irfft(product, size), error


def norm(values: Floats) -> float:
    """The Euclidean norm, by plain sums: for these lengths a threaded product costs more than it saves."""
    return math.sqrt(float((values * values).sum()))


def _power(base: Waves, exponent: int) -> Waves:
    """base ** exponent by squaring."""
    result, square = None, base
    while True:
        if exponent & 1:
            result = square if result is None else result * square
        exponent >>= 1
        if not exponent:
            assert result is not None
            return result
        square = square * square
