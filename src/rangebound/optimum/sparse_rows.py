"""Rows of a sparse matrix, for linear programs that are made block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rangebound.values.array_types import Floats, Integers

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class SparseRows:
    """Rows of a sparse matrix, collected block by block."""

    def __init__(self) -> None:
        self.count = 0
        self._parts: list[tuple[Integers, Integers, Floats]] = []

    def add(self, row: Integers, column: Integers, value: Floats) -> None:
        """A block of entries; its rows are counted from 0."""
        self._parts.append((row + self.count, column, value))
        self.count += int(row.max()) + 1

    def differences(self, one: Integers, two: Integers, factor: float | Floats) -> None:
        """A row of x[one] - factor x[two] for each pair of numbers."""
        row = np.arange(len(one))
        value = np.concatenate((np.ones(len(one)), np.broadcast_to(-np.asarray(factor), len(one))))
        self.add(np.concatenate((row, row)), np.concatenate((one, two)), value)

    def matrix(self, width: int) -> csr_array[np.float64]:
        """All rows as one matrix."""
        from scipy.sparse import csr_array

        row, column, value = (np.concatenate([part[k] for part in self._parts]) for k in range(3))
        return csr_array((value, (row, column)), shape=(self.count, width))
