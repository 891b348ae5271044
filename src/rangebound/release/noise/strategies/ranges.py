"""Wanted answers over time: sums of consecutive cells, such as days, weeks, months and running totals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rangebound.errors import ArgumentError
from rangebound.release.noise.strategies.contributions import whole
from rangebound.release.noise.strategies.lattice_noise import Wholes, wholes

Range = tuple[int, int]
"""The first cell of a sum, and the one after its last."""


def running_totals(length: int) -> tuple[Range, ...]:
    """The sums of the first cell, of the first two, and so on.

    >>> running_totals(3)
    ((0, 1), (0, 2), (0, 3))
    """
    return tuple((0, stop) for stop in range(1, length + 1))


def periods(starts: Sequence[int], length: int) -> tuple[Range, ...]:
    """Periods that begin at the given cells (days, weeks, months), each up to the next.

    >>> periods([0, 7, 14], 20)
    ((0, 7), (7, 14), (14, 20))
    """
    return tuple(zip(starts, [*starts[1:], length], strict=True))


def check_ranges(length: int, ranges: Sequence[Range]) -> None:
    """Refuse ranges that are empty or outside the series, and a workload without one."""
    whole("length", length)
    if not ranges:
        raise ArgumentError("ranges: must be at least one")
    for first, stop in ranges:
        if not 0 <= first < stop <= length:
            raise ArgumentError(f"ranges={(first, stop)}: must be a first cell and a later stop, at most {length}")


def sums(cells: Wholes, ranges: Sequence[Range]) -> Wholes:
    """The sums of whole numbers over ranges of the last axis.

    >>> sums(wholes([1, 2, 4]), [(0, 2), (1, 3)]).tolist()
    [3, 6]
    """
    zero = np.zeros((*cells.shape[:-1], 1), dtype=object)
    totals = np.concatenate([zero, np.cumsum(cells, axis=-1)], axis=-1)
    ends: npt.NDArray[np.intp] = np.array(ranges, dtype=np.intp)
    found: Wholes = totals[..., ends[:, 1]] - totals[..., ends[:, 0]]
    return found


def clamped_counts(counts: npt.ArrayLike, length: int, most: int, series: int = 1) -> Wholes:
    """Finest counts, one row per series, as whole numbers between -most and most.

    Clamping them moves no neighbour farther.
    """
    array = wholes(counts)
    if not array.ndim or array.shape[-1] != length or array.size != length * series:
        raise ArgumentError(f"counts: must have one cell for each day along the last axis, {length} in all")
    bounded: Wholes = np.minimum(np.maximum(array, -most), most)
    return bounded.reshape(series, length)
