"""The check of a probability that may be 0 or 1: a rate, a prior, a baseline."""

from __future__ import annotations

import numpy as np

from rangebound.errors import ArgumentError
from rangebound.values import arguments


def share(name: str, value: object) -> float:
    """The number, if it lies in [0, 1].

    >>> share("prior", 0.25)
    0.25
    """
    number = arguments.finite(name, value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value)
    if not 0.0 <= number <= 1.0:
        raise ArgumentError(f"{name}={arguments.shown(value)}: must lie in [0, 1]")
    return abs(number)
