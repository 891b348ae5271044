"""Rows of a sparse matrix, block by block."""

import numpy as np

from rangebound.optimum.sparse_rows import SparseRows


def test_blocks_follow_each_other():
    rows = SparseRows()
    rows.add(np.array([0, 1, 1]), np.array([2, 0, 1]), np.array([5.0, 6.0, 7.0]))
    rows.differences(np.array([0, 1]), np.array([2, 2]), 3.0)
    assert rows.count == 4
    assert rows.matrix(3).toarray().tolist() == [[0, 0, 5], [6, 7, 0], [1, 0, -3], [0, 1, -3]]
