"""Where the rows lie: the mean and the standard deviation of each feature, from one noisy sum."""

from __future__ import annotations

import math

import numpy as np

from rangebound.learn.sklearn import row_sums
from rangebound.values.array_types import Floats


def square_vectors(rows: Floats) -> Floats:
    """Of each row, (1, features, their squares)."""
    return np.column_stack([np.ones(len(rows)), rows, rows * rows])


def spread(rows: Floats, clip: float, mu: float) -> tuple[Floats, Floats]:
    """The noisy mean and standard deviation of each feature, for rows in units of the bounds, from -1 to 1.

    A vector (1, features, their squares) longer than clip sqrt(2 features + 1) is scaled down to that.

    Guarantee: mu-GDP for adding or removing a row. Means lie in [-1, 1] and deviations in [0, 1].
    """
    features = rows.shape[1]
    norm = clip * math.sqrt(2 * features + 1)
    found = row_sums.noisy(row_sums.total(rows, square_vectors, norm), norm, mu)
    count = max(float(found[0]), norm / mu)
    mean: Floats = np.clip(found[1 : features + 1] / count, -1.0, 1.0)
    deviation: Floats = np.sqrt(np.clip(found[features + 1 :] / count - mean**2, 0.0, 1.0))
    return mean, deviation


def normals(shape: tuple[int, ...]) -> Floats:
    """Standard normal numbers, drawn like the noise, for what is chosen at random and published."""
    return row_sums.noisy(np.zeros(shape, dtype=np.int64), 1.0, 1.0)
