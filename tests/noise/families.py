"""The noise families as the tests of this folder use them, with mpmath's word for each."""

from __future__ import annotations

from typing import Any

import rangebound as rb
from tests.crosscheck.oracle import Oracle

LINE = rb.Interval(float("-inf"), float("inf"))
FAMILIES: dict[str, Any] = {
    "laplace": rb.Laplace(scale=0.7),
    "gaussian": rb.Gaussian(scale=0.7),
    "truncated_laplacian": rb.TruncatedLaplacian(scale=0.7, limit=2.1),
}


def truth(noise: Any, digits: int = 400) -> Oracle:
    """The oracle for the noise on its own."""
    return Oracle(noise, LINE, rb.UNBOUNDED, digits)
