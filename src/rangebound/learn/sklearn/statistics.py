"""Private means and variances of columns whose range is known, as numbers that stay in their range.

Values are clipped to the range and scaled to [0, 1]. With n values and a public number m >= 1, the smallest divisor,

    mean = 1/2 + sum(x - 1/2)/max(n, m)         adding a row moves it by at most 1/(m + 1)
    variance = sum((x - mean x)^2)/max(n, m)    adding a row moves it by at most max(m/(m + 1)^2, (m - 1)/m^2)

for every n. Proof, n >= m: the new mean differs by (x - mean)/(n + 1). The sum of squares grows by n d^2/(n + 1) with d
the distance to the old mean, so the variance changes by n d^2/(n + 1)^2 - v/(n + 1), which lies between -1/(4(n + 1))
and n/(n + 1)^2. For n < m the divisor does not change, and the numerators grow by at most 1/2 and n/(n + 1).

A missing value (NaN) is left out of its column: a row adds one value to each column, or none, which changes nothing.

Sums are rounded once, whatever the number of rows, so in doubles either statistic is off by a few units of 2^-53. More
than twice that is added to the sensitivity.
"""

from __future__ import annotations

import math
from dataclasses import fields
from fractions import Fraction
from functools import lru_cache

import numpy as np

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.laws.boundings import RECTIFY, TRUNCATE, Bounding
from rangebound.laws.families import FAMILIES
from rangebound.laws.family import Noise
from rangebound.laws.laplace import Laplace
from rangebound.ledger.amount import promised
from rangebound.mechanisms.calibration import calibrate
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.values import arguments
from rangebound.values.array_types import Floats
from rangebound.values.numeric import rounded_down, rounded_up
from rangebound.values.query import Query
from rangebound.values.support import Interval

_LEAST = 1e-100
_NARROWEST = 1e-100
_ROUNDING = Fraction(1, 2**48)


def ranges(bounds: object, features: int) -> tuple[Floats, Floats]:
    """The lower and upper end of each feature: a pair of numbers, or of arrays with one number for each feature."""
    if bounds is None:
        raise ArgumentError(
            "bounds=None: the range of the features must be given, from public knowledge; a range taken from "
            "the data leaks its extremes"
        )
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise ArgumentTypeError(
            f"bounds={arguments.shown(bounds)}: must be a pair, all lower ends and all upper ends: ([0, 1], [5, 9])"
        )
    lower, upper = (arguments.reals("bounds", each) for each in bounds)
    if any(each.ndim > 1 or (each.ndim and each.shape != (features,)) for each in (lower, upper)):
        numbers = arguments.counted(features, "number")
        raise ArgumentError(f"bounds: must be two numbers, or two arrays of {numbers}, one for each feature")
    lower, upper = np.broadcast_to(lower, (features,)), np.broadcast_to(upper, (features,))
    if not (lower < upper).all() or not np.isfinite(upper - lower).all():
        raise ArgumentError(f"bounds={arguments.shown(bounds)}: each lower end must be below its upper end")
    if not ((upper - lower >= _NARROWEST) & (upper - lower <= 1.0 / _NARROWEST)).all():
        raise ArgumentError(
            f"bounds={arguments.shown(bounds)}: must be between {_NARROWEST:g} and {1.0 / _NARROWEST:g} wide, or "
            "variances would not fit into doubles; change the unit"
        )
    return lower, upper


def scaled(x: Floats, lower: Floats, upper: Floats) -> Floats:
    """The values clipped to their range and scaled to [0, 1]."""
    return np.clip((np.clip(x, lower, upper) - lower) / (upper - lower), 0.0, 1.0)


def smallest(count: object) -> int:
    """The smallest divisor of a statistic, a public number."""
    if isinstance(count, (bool, np.bool_)) or not isinstance(count, (int, np.integer)):
        raise ArgumentTypeError(f"smallest_count={arguments.shown(count)}: must be an integer")
    if not 1 <= count <= 10**9:
        raise ArgumentError(f"smallest_count={count}: must lie between 1 and 10^9")
    return int(count)


def share(total: float, parts: int) -> float:
    """One of `parts` equal parts, rounded down: together they never exceed the total, nor the decimal that is charged.

    >>> share(0.1, 1) < 0.1
    True
    """
    return rounded_down(promised(total) / parts)


def means(x: Floats, least: int) -> Floats:
    """The mean of each column of scaled values, over those that are not missing."""
    found = [0.5 + math.fsum((each - 0.5).tolist()) / max(len(each), least) for each in _present(x)]
    inside: Floats = np.clip(np.array(found), 0.0, 1.0)
    return inside


def variances(x: Floats, least: int) -> Floats:
    """The variance of each column of scaled values, over those that are not missing."""
    inside: Floats = np.clip(np.array([_variance(each, least) for each in _present(x)]), 0.0, 0.25)
    return inside


def _variance(values: Floats, least: int) -> float:
    if not len(values):
        return 0.0
    middle = math.fsum(values.tolist()) / len(values)
    return math.fsum(((values - middle) ** 2).tolist()) / max(len(values), least)


def _present(x: Floats) -> list[Floats]:
    """The values of each column that are not missing."""
    return [column[~np.isnan(column)] for column in x.T]


def mean_mechanism(least: int, noise: object, bounding: object, epsilon: float, delta: float) -> Mechanism:
    """The calibrated mechanism for one mean of scaled values."""
    unit = Interval(0.0, 1.0)
    return _mechanism(noise, bounding, unit, unit, Fraction(1, least + 1), epsilon, delta)


def variance_mechanism(
    least: int, noise: object, bounding: object, epsilon: float, delta: float, floor: float
) -> Mechanism:
    """The calibrated mechanism for one variance of scaled values; never below the floor, which is public."""
    number = arguments.positive("smallest_variance", floor, why="a variance of zero must not occur")
    if not _LEAST < number < 0.25:
        raise ArgumentError(
            f"smallest_variance={number}: must be below 1/4, the largest variance of scaled values, and above 1e-100"
        )
    change = max(Fraction(least, (least + 1) ** 2), Fraction(least - 1, least**2))
    return _mechanism(noise, bounding, Interval(0.0, 0.25), Interval(number, 0.25), change, epsilon, delta)


def count_mechanism(epsilon: float) -> Mechanism:
    """The calibrated mechanism for a count: truncated Laplace noise, never negative."""
    counts = Interval(0.0, math.inf)
    return _calibrated(Laplace, TRUNCATE, Query(range=counts, sensitivity=1.0), counts, epsilon, 0.0)


def _mechanism(
    noise: object,
    bounding: object,
    answers: Interval,
    support: Interval,
    change: Fraction,
    epsilon: float,
    delta: float,
) -> Mechanism:
    family = next((each for each in FAMILIES.values() if each is noise), None)
    if family is None or [each.name for each in fields(family)] != ["scale"]:  # type: ignore[arg-type]
        raise ArgumentTypeError(f"noise={arguments.shown(noise)}: must be the class rb.Laplace or rb.Gaussian")
    known = {each: each for each in (TRUNCATE, RECTIFY)} | {each.value: each for each in (TRUNCATE, RECTIFY)}
    if not isinstance(bounding, (str, Bounding)) or bounding not in known:
        raise ArgumentError(f"bounding={arguments.shown(bounding)}: must be rb.TRUNCATE or rb.RECTIFY, or its name")
    # the double at or above, and a little more for the rounding of the statistic itself
    query = Query(range=answers, sensitivity=rounded_up(change + _ROUNDING))
    return _calibrated(family, known[bounding], query, support, epsilon, 0.0 if family.pure else delta)


@lru_cache(maxsize=256)
def _calibrated(
    noise: type[Noise], bounding: Bounding, query: Query, support: Interval, epsilon: float, delta: float
) -> Mechanism:
    return calibrate(noise=noise, query=query, support=support, bounding=bounding, epsilon=epsilon, delta=delta)
