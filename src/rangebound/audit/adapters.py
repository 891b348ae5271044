"""Other libraries' mechanisms as functions of an answer and a count. None of these libraries is needed here.

Each adapter only calls what it is given, so that it works with any version that keeps its interface.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, SupportsFloat

import numpy as np

from rangebound.audit.attack import Draw
from rangebound.errors import ArgumentTypeError
from rangebound.values import arguments
from rangebound.values.array_types import Floats


class FrozenDistribution(Protocol):
    """A frozen distribution of scipy.stats."""

    def rvs(self, *, size: int) -> Floats:
        """This many draws."""


class Randomiser(Protocol):
    """A mechanism of diffprivlib."""

    def randomise(self, value: float) -> float:
        """One output."""


def one_by_one(call: Callable[[float], SupportsFloat]) -> Draw:
    """A function of one answer, called once for each output; one that takes no doubles is given whole numbers.

    >>> one_by_one(lambda answer: answer + 0.5)(1.0, 3).tolist()
    [1.5, 1.5, 1.5]
    """
    arguments.function("call", call, 1, "a function of one answer")

    def number(answer: float) -> float:
        try:
            output = call(answer)
        except TypeError:
            if not float(answer).is_integer():
                raise
            output = call(int(answer))
        try:
            return float(output)
        except (TypeError, ValueError):
            raise ArgumentTypeError(f"output={arguments.shown(output)}: must be a number") from None

    def draw(answer: float, count: int) -> Floats:
        return np.fromiter((number(answer) for _ in range(count)), dtype=np.float64, count=count)

    return draw


def numpy(sample: Callable[..., Floats], **parameters: float) -> Draw:
    """The answer plus noise from a method of a NumPy generator, such as `np.random.default_rng().laplace`.

    >>> draw = numpy(np.random.default_rng().laplace, scale=2.0)
    >>> draw(1.0, 3).shape
    (3,)
    """
    arguments.function("sample", sample, 0, "a method of a NumPy generator, such as np.random.default_rng().laplace")

    def draw(answer: float, count: int) -> Floats:
        return np.asarray(answer + sample(size=count, **parameters), dtype=np.float64)

    return draw


def scipy(distribution: FrozenDistribution) -> Draw:
    """The answer plus noise from a frozen distribution of scipy.stats, such as `scipy.stats.laplace(scale=2.0)`.

    >>> from scipy.stats import norm
    >>> scipy(norm(scale=2.0))(1.0, 3).shape
    (3,)
    """
    _check("distribution", distribution, "rvs", "a frozen distribution of scipy.stats")

    def draw(answer: float, count: int) -> Floats:
        return np.asarray(answer + distribution.rvs(size=count), dtype=np.float64)

    return draw


def diffprivlib(mechanism: Randomiser) -> Draw:
    """A mechanism of diffprivlib, by its method `randomise`; also one of whole numbers."""
    _check("mechanism", mechanism, "randomise", "a mechanism of diffprivlib")
    return one_by_one(mechanism.randomise)


def opendp(measurement: Callable[[float], SupportsFloat]) -> Draw:
    """A measurement of OpenDP on a single number, a double or a whole one."""
    _check("measurement", measurement, "__call__", "a measurement of OpenDP")
    return one_by_one(measurement)


def _check(name: str, value: object, method: str, what: str) -> None:
    if not callable(getattr(value, method, None)):
        raise ArgumentTypeError(f"{name}={arguments.shown(value)}: must be {what}, with a method {method}")
