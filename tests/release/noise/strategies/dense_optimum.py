"""The least total variance of any Gaussian strategy, by matrices of the size of the table: with its own proof.

Minimise tr(M G^-1) over positive definite G with diagonal at most 1. For every v > 0 with sum 1, the square of the
trace of (V^1/2 M V^1/2)^1/2 is a lower bound (Cauchy-Schwarz), and the fixed point of Denisov et al. attains it.
"""

import numpy as np


def optimum(square, rounds=2000, close=1e-9):
    """A lower bound that no strategy with squared cost 1 can beat, tight to `close`."""
    v = np.ones(len(square))
    for _ in range(rounds):
        roots = np.sqrt(v)
        values, vectors = np.linalg.eigh(roots[:, None] * square * roots)
        halves = np.sqrt(np.maximum(values, 0.0))
        after = np.einsum("ij,j,ij->i", vectors, halves, vectors)
        bound, ratio = halves.sum() ** 2 / v.sum(), after / v
        v = np.maximum(after, 1e-12 * after.max())
        if ratio[v > 1e-9 * v.max()].max() <= ratio[v > 1e-9 * v.max()].min() * (1 + close):
            break
    return bound
