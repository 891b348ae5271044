"""Types of NumPy arrays by what they hold, and of numbers as a caller gives them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Indices = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]

One = float | np.floating | np.integer
Many = npt.NDArray[np.generic] | Sequence[float] | Sequence[Sequence[float]]
"""One number, which is answered with a float, and many, which are answered with an array of their shape."""
