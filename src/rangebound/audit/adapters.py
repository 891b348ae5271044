"""Other libraries' mechanisms as functions of an answer and a count. None of these libraries is needed here.

Each adapter only calls what it is given, so that it works with any version that keeps its interface.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from rangebound.audit.attack import Draw
from rangebound.errors import ArgumentError

Floats = npt.NDArray[np.float64]


def one_by_one(call: Callable[[float], Any]) -> Draw:
    """A function of one answer, called again and again.

    >>> one_by_one(lambda answer: answer + 0.5)(1.0, 3).tolist()
    [1.5, 1.5, 1.5]
    """
    if not callable(call):
        raise ArgumentError(f"call={call!r}: must be a function of one answer")

    def draw(answer: float, count: int) -> Floats:
        return np.fromiter((float(call(answer)) for _ in range(count)), dtype=np.float64, count=count)

    return draw


def numpy(sample: Callable[..., Any], **parameters: Any) -> Draw:
    """The answer plus noise from a method of a NumPy generator, such as `np.random.default_rng().laplace`.

    >>> draw = numpy(np.random.default_rng().laplace, scale=2.0)
    >>> draw(1.0, 3).shape
    (3,)
    """

    def draw(answer: float, count: int) -> Floats:
        return np.asarray(answer + sample(size=count, **parameters), dtype=np.float64)

    return draw


def scipy(distribution: Any) -> Draw:
    """The answer plus noise from a frozen distribution of scipy.stats, such as `scipy.stats.laplace(scale=2.0)`.

    >>> from scipy.stats import norm
    >>> scipy(norm(scale=2.0))(1.0, 3).shape
    (3,)
    """
    _has(distribution, "rvs", "a frozen distribution of scipy.stats")

    def draw(answer: float, count: int) -> Floats:
        return np.asarray(answer + distribution.rvs(size=count), dtype=np.float64)

    return draw


def diffprivlib(mechanism: Any) -> Draw:
    """A mechanism of diffprivlib, by its method `randomise`."""
    return one_by_one(_has(mechanism, "randomise", "a mechanism of diffprivlib"))


def opendp(measurement: Any) -> Draw:
    """A measurement of OpenDP on a single number."""
    return one_by_one(_has(measurement, "__call__", "a measurement of OpenDP"))


def _has(thing: Any, method: str, what: str) -> Any:
    found = getattr(thing, method, None)
    if found is None:
        raise ArgumentError(f"{thing!r}: must be {what}, with a method {method}")
    return found
