"""NumPy, loaded where an array is first made (`rangebound.verify` of numbers makes none), and types of its arrays."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

__all__ = ["Bools", "Floats", "Indices", "Integers", "Many", "One", "Words", "legendre", "np", "npt"]

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]
    Indices = npt.NDArray[np.intp]
    Bools = npt.NDArray[np.bool_]
    Words = npt.NDArray[np.uint64]

    One = float | np.floating | np.integer
    Many = npt.NDArray[np.generic] | Sequence[float] | Sequence[Sequence[float]]
    """One number, which is answered with a float, and many, which are answered with an array of their shape."""
else:  # types are for checkers; the modules are imported when they are first asked for a name

    class _Later:
        def __init__(self, module):
            self._module = module

        def __getattr__(self, name):
            if name.startswith("__"):  # what a look at this object itself asks for
                raise AttributeError(name)
            return self.__dict__.setdefault(name, getattr(import_module(self._module), name))

    np, npt = _Later("numpy"), _Later("numpy.typing")
    Floats = Integers = Indices = Bools = Words = One = Many = object


@functools.cache
def legendre(number: int) -> tuple[Floats, Floats]:
    """The nodes in [-1, 1] and the weights of the Gauss-Legendre rule of this many points.

    >>> legendre(1)[1].tolist()
    [2.0]
    """
    nodes, weights = np.polynomial.legendre.leggauss(number)
    return nodes, weights
